/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/grammar/grammar.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/grammar/auto.h"
#include "runtime/llm/grammar/compile.h"
#include "runtime/llm/grammar/places.h"
#include "runtime/llm/text/text.h"

/* Which tokens may follow at one place. */
typedef struct mask {
  uint64_t *bits;
  uint32_t place; /* 0: free */
  uint32_t worst; /* most bytes to the end of the text after one of them */
  bool any;
} mask;

enum { MASK_BYTES = 32 << 20, MASKS_LEAST = 64, MASKS_MOST = 4096, ENDING_BYTES = 1 << 16 };

struct tni_grammar {
  tni_auto *a;
  const tni_vocab *vocab;
  pthread_mutex_t lock; /* of all that follows */
  tni_places *places;
  uint64_t generation; /* of the numbers of places */
  uint32_t begin;
  mask *masks;
  mask limited; /* of the walk near the end */
  size_t n_masks, words, turn;
  uint32_t *path;  /* [deepest + 1] */
  uint8_t *ending; /* [ENDING_BYTES] */
};

struct tni_reader_of {
  tni_grammar *g;
  tni_way *ways; /* of its place, which may be forgotten */
  size_t n, cap;
  uint64_t generation;
  uint32_t place, dist;
  bool whole;
};

void tni_grammar_destroy(tni_grammar *g) {
  if (!g) return;
  for (size_t i = 0; g->masks && i < g->n_masks; i++) free(g->masks[i].bits);
  free(g->masks);
  free(g->limited.bits);
  free(g->path);
  free(g->ending);
  tni_places_destroy(g->places);
  tni_auto_destroy(g->a);
  pthread_mutex_destroy(&g->lock);
  free(g);
}

static tn_status compile(tni_auto *a, uint32_t kind, const char *text, size_t n, uint32_t *rule, tn_error *err) {
  if (tni_utf8_valid(text, n) != n) return tni_fail(err, TN_E_INVALID, "grammar", "the text is not UTF-8");
  switch (kind) {
    case TNI_GRAMMAR_SCHEMA:
      return tni_compile_schema(a, text, n, rule, err);
    case TNI_GRAMMAR_REGEX:
      return tni_compile_regex(a, text, n, rule, err);
    case TNI_GRAMMAR_GBNF:
      return tni_compile_gbnf(a, text, n, rule, err);
    default:
      return tni_fail(err, TN_E_INVALID, "grammar", "kind %u is none of TN_GRAMMAR_*", kind);
  }
}

static tn_status make_room(tni_grammar *g, tn_error *err) {
  const size_t n = g->vocab->n;
  g->words = (n + 63) / 64 + 1;
  g->n_masks = MASK_BYTES / (g->words * sizeof(uint64_t));
  if (g->n_masks < MASKS_LEAST) g->n_masks = MASKS_LEAST;
  if (g->n_masks > MASKS_MOST) g->n_masks = MASKS_MOST;
  g->places = tni_places_create(g->a);
  g->masks = calloc(g->n_masks, sizeof *g->masks);
  g->limited.bits = malloc(g->words * sizeof *g->limited.bits);
  g->path = malloc((g->vocab->deepest + 2) * sizeof *g->path);
  g->ending = malloc(ENDING_BYTES);
  if (!g->places || !g->masks || !g->limited.bits || !g->path || !g->ending) return tni_fail_memory(err, "grammar");
  g->begin = tni_places_begin(g->places);
  return tni_places_status(g->places, err);
}

tn_status tni_grammar_create(const tni_vocab *vocab, uint32_t kind, const char *text, size_t n, tni_grammar **out,
                             tn_error *err) {
  tni_grammar *g = calloc(1, sizeof *g);
  if (!g) return tni_fail_memory(err, "grammar");
  g->vocab = vocab;
  pthread_mutex_init(&g->lock, NULL);
  uint32_t rule = 0;
  g->a = calloc(1, sizeof *g->a);
  tn_status st = g->a ? compile(g->a, kind, text, n, &rule, err) : tni_fail_memory(err, "grammar");
  if (st == TN_OK) st = tni_auto_finish(g->a, rule, err);
  if (st == TN_OK) st = make_room(g, err);
  if (st != TN_OK) {
    tni_grammar_destroy(g);
    return st;
  }
  *out = g;
  return TN_OK;
}

/* --- places, locked ----------------------------------------------------------------------------------------------- */

static void forget_when_full(tni_grammar *g) {
  if (!tni_places_full(g->places)) return;
  tni_places_forget(g->places);
  for (size_t i = 0; i < g->n_masks; i++) g->masks[i].place = 0;
  g->generation++;
  g->begin = tni_places_begin(g->places);
}

static tn_status keep_place(tni_text_reader *r, uint32_t place, tn_error *err) {
  tni_grammar *g = r->g;
  tn_status st = tni_places_status(g->places, err);
  if (st != TN_OK) return st;
  const tni_place x = *tni_places_at(g->places, place);
  if (x.n > r->cap) {
    tni_way *w = realloc(r->ways, x.n * sizeof *w);
    if (!w) return tni_fail_memory(err, "grammar");
    r->ways = w;
    r->cap = x.n;
  }
  if (x.n) memcpy(r->ways, tni_places_ways(g->places, place), x.n * sizeof *r->ways);
  r->n = x.n;
  r->whole = x.whole;
  r->dist = x.dist;
  r->place = place;
  r->generation = g->generation;
  return TN_OK;
}

static tn_status find_place(tni_text_reader *r, uint32_t *place, tn_error *err) {
  tni_grammar *g = r->g;
  forget_when_full(g);
  if (r->generation != g->generation) {
    const uint32_t again = tni_places_of(g->places, r->ways, r->n, r->whole);
    const tn_status st = again == TNI_PLACE_NONE ? tni_places_status(g->places, err) : TN_OK;
    if (st != TN_OK) return st;
    r->place = again;
    r->generation = g->generation;
  }
  *place = r->place;
  return TN_OK;
}

tn_status tni_text_reader_create(tni_grammar *g, tni_text_reader **out, tn_error *err) {
  tni_text_reader *r = calloc(1, sizeof *r);
  if (!r) return tni_fail_memory(err, "grammar");
  r->g = g;
  pthread_mutex_lock(&g->lock);
  forget_when_full(g);
  const tn_status st = keep_place(r, g->begin, err);
  pthread_mutex_unlock(&g->lock);
  if (st != TN_OK) {
    tni_text_reader_destroy(r);
    return st;
  }
  *out = r;
  return TN_OK;
}

void tni_text_reader_destroy(tni_text_reader *r) {
  if (!r) return;
  free(r->ways);
  free(r);
}

int tni_text_reader_whole(const tni_text_reader *r) { return !r->whole ? 0 : r->n ? 1 : 2; }

tn_status tni_text_reader_take(tni_text_reader *r, const char *s, size_t n, tn_error *err) {
  tni_grammar *g = r->g;
  uint32_t at = 0;
  pthread_mutex_lock(&g->lock);
  tn_status st = find_place(r, &at, err);
  for (size_t i = 0; i < n && st == TN_OK; i++) {
    at = tni_places_next(g->places, at, (uint8_t)s[i]);
    st = tni_places_status(g->places, err);
    if (st == TN_OK && at == TNI_PLACE_NONE)
      st = tni_fail(err, TN_E_INVALID, "grammar", "the text cannot go on with '%.*s'", (int)(n < 64 ? n : 64), s);
  }
  if (st == TN_OK) st = keep_place(r, at, err);
  pthread_mutex_unlock(&g->lock);
  return st;
}

/* --- masks -------------------------------------------------------------------------------------------------------- */

/* The bytes of the shortest end, and how many tokens spell them. */
static uint32_t spell_ending(tni_grammar *g, uint32_t place) {
  tni_places *p = g->places;
  const int32_t known = tni_places_at(p, place)->tokens;
  if (known >= 0) return (uint32_t)known;
  size_t n = tni_places_at(p, place)->dist, k = 0;
  if (n >= ENDING_BYTES) return TNI_AUTO_FAR;
  uint32_t at = place, tokens = 0;
  while (k < n) {
    uint32_t c = 0, next = TNI_PLACE_NONE;
    for (; c < g->a->n_classes; c++) {
      next = tni_places_next(p, at, g->a->byte_of[c]);
      if (next != TNI_PLACE_NONE && tni_places_at(p, next)->dist == n - k - 1) break;
    }
    if (c == g->a->n_classes) return TNI_AUTO_FAR;
    g->ending[k++] = g->a->byte_of[c];
    at = next;
  }
  for (size_t i = 0, len; i < n; i += len, tokens++)
    if (!(len = tni_vocab_longest(g->vocab, g->ending + i, n - i))) return TNI_AUTO_FAR;
  tni_places_at(p, place)->tokens = (int32_t)tokens;
  return tokens;
}

/* The tokens that may follow; left UINT32_MAX: whatever comes after them. */
static void walk(tni_grammar *g, uint32_t place, uint32_t left, mask *m) {
  const tni_vocab *v = g->vocab;
  memset(m->bits, 0, g->words * sizeof *m->bits);
  m->any = false;
  m->worst = 0;
  g->path[0] = place;
  for (uint32_t i = 0; i < v->n_nodes;) {
    const tni_vocab_node *x = &v->nodes[i];
    const uint32_t next = tni_places_next(g->places, g->path[x->depth], x->byte);
    if (next == TNI_PLACE_NONE) {
      i = x->next;
      continue;
    }
    i++;
    g->path[x->depth + 1] = next;
    if (x->id < 0) continue;
    const uint32_t dist = tni_places_at(g->places, next)->dist;
    if (left != UINT32_MAX && dist > left - 1 && spell_ending(g, next) > left - 1) continue;
    if (dist > m->worst) m->worst = dist;
    m->any = true;
    for (int32_t id = x->id; id >= 0; id = v->also[id]) m->bits[id / 64] |= UINT64_C(1) << id % 64;
  }
}

static mask *mask_of(tni_grammar *g, uint32_t place, tn_error *err) {
  const int32_t known = tni_places_at(g->places, place)->mask;
  if (known >= 0 && g->masks[known].place == place) return &g->masks[known];
  mask *m = &g->masks[g->turn];
  if (!m->bits) m->bits = malloc(g->words * sizeof *m->bits);
  if (!m->bits) {
    (void)tni_fail_memory(err, "grammar");
    return NULL;
  }
  m->place = 0;
  walk(g, place, UINT32_MAX, m);
  if (tni_places_status(g->places, err) != TN_OK) return NULL;
  m->place = place;
  tni_places_at(g->places, place)->mask = (int32_t)g->turn;
  g->turn = (g->turn + 1) % g->n_masks;
  return m;
}

static void apply(const tni_grammar *g, const mask *m, float *logits, size_t n) {
  const size_t have = n < g->vocab->n ? n : g->vocab->n;
  for (size_t w = 0; w * 64 < have; w++) {
    const uint64_t bits = m->bits[w];
    const size_t end = have - w * 64 < 64 ? have - w * 64 : 64;
    if (bits == UINT64_MAX) continue;
    for (size_t k = 0; k < end; k++)
      if (!(bits >> k & 1)) logits[w * 64 + k] = -INFINITY;
  }
  for (size_t i = have; i < n; i++) logits[i] = -INFINITY;
}

tn_status tni_text_reader_mask(tni_text_reader *r, uint32_t left, float *logits, size_t n, bool *any, tn_error *err) {
  tni_grammar *g = r->g;
  uint32_t place = 0;
  if (left == 0) left = 1;
  pthread_mutex_lock(&g->lock);
  tn_status st = find_place(r, &place, err);
  const mask *m = st == TN_OK ? mask_of(g, place, err) : NULL;
  if (m && left != UINT32_MAX && m->worst > left - 1) {
    walk(g, place, left, &g->limited);
    m = &g->limited;
  }
  if (st == TN_OK) st = tni_places_status(g->places, err);
  if (st == TN_OK && !m) st = TN_E_NO_MEMORY; /* said */
  if (st == TN_OK) {
    apply(g, m, logits, n);
    *any = m->any;
  }
  pthread_mutex_unlock(&g->lock);
  return st;
}

uint32_t tni_text_reader_ending(tni_text_reader *r) {
  tni_grammar *g = r->g;
  uint32_t place = 0, n = TNI_AUTO_FAR;
  pthread_mutex_lock(&g->lock);
  if (find_place(r, &place, NULL) == TN_OK) n = spell_ending(g, place);
  pthread_mutex_unlock(&g->lock);
  return n;
}
