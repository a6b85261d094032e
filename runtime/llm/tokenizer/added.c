/* SPDX-License-Identifier: Apache-2.0
 *
 * Added and special tokens: found in the text before anything else, leftmost first and longest at that place.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/text/text.h"
#include "runtime/llm/tokenizer/tok.h"

static tn_status read_one(tni_reader *r, const tni_at *a, tni_added *x) {
  tni_at id = tni_at_key(a, "id"), content = tni_at_key(a, "content"), single = tni_at_key(a, "single_word"),
         left = tni_at_key(a, "lstrip"), right = tni_at_key(a, "rstrip"), norm = tni_at_key(a, "normalized"),
         special = tni_at_key(a, "special");
  int64_t v;
  tn_status st = tni_at_object(a, r->err);
  if (st == TN_OK) st = tni_at_int(&id, 0, TNI_TOK_IDS - 1, &v, r->err);
  if (st == TN_OK) st = tni_tok_string(r, &content, &x->content);
  if (st == TN_OK) st = tni_at_bool(&single, false, &x->single_word, r->err);
  if (st == TN_OK) st = tni_at_bool(&left, false, &x->lstrip, r->err);
  if (st == TN_OK) st = tni_at_bool(&right, false, &x->rstrip, r->err);
  if (st == TN_OK) st = tni_at_bool(&special, false, &x->special, r->err);
  if (st == TN_OK) st = tni_at_bool(&norm, !x->special, &x->normalized, r->err);
  if (st != TN_OK) return st;
  x->id = (int32_t)v;
  int32_t known = tni_vocab_id(&r->t->model, x->content.v, x->content.n);
  if (known >= 0 && known != x->id)
    return tni_at_fail(a, TN_E_INVALID, r->err, "%.60s has id %d here and %d in the vocabulary", x->content.v, x->id,
                       known);
  if (tni_map_get(r->t->added_ids, x->content.v, x->content.n, &(uint64_t){0}))
    return tni_at_fail(a, TN_E_INVALID, r->err, "%.60s is there twice", x->content.v);
  if (!tni_map_put(r->t->added_ids, x->content.v, x->content.n, (uint64_t)v)) return tni_fail_memory(r->err, a->file);
  return TN_OK;
}

tn_status tni_added_read(tni_reader *r, const tni_at *a) {
  size_t n;
  if (!a->v) return TN_OK;
  tn_status st = tni_at_array(a, TNI_TOK_IDS, &n, r->err);
  if (st != TN_OK) return st;
  r->t->added = TNI_NEW_ARRAY(r->t->arena, tni_added, n ? n : 1);
  if (!r->t->added) return tni_fail_memory(r->err, a->file);
  for (size_t i = 0; i < n && st == TN_OK; i++) {
    tni_at x = tni_at_item(a, i);
    st = read_one(r, &x, &r->t->added[i]);
    if (st == TN_OK && r->t->added[i].content.n) r->t->n_added = i + 1;
    if (st == TN_OK && r->t->added[i].content.n == 0) st = tni_at_fail(&x, TN_E_INVALID, r->err, "empty content");
  }
  return st;
}

static int by_pattern(const void *pa, const void *pb) {
  const tni_added *a = pa, *b = pb;
  size_t n = a->pattern.n < b->pattern.n ? a->pattern.n : b->pattern.n;
  int c = memcmp(a->pattern.v, b->pattern.v, n);
  if (c == 0 && a->pattern.n != b->pattern.n) c = a->pattern.n < b->pattern.n ? -1 : 1;
  return c ? c : (a->id > b->id) - (a->id < b->id);
}

/* The pattern of a normalized token is what the normalizer makes of its content. */
static tn_status set_pattern(tni_reader *r, tni_added *x, tni_work *w) {
  x->pattern = x->content;
  if (!x->normalized || r->t->n_norms == 0) return TN_OK;
  tni_str_clear(&w->norm);
  tni_str_add(&w->norm, x->content.v, x->content.n);
  tn_status st = tni_normalize(r->t, w, r->err);
  if (st != TN_OK) return st;
  x->pattern.n = w->norm.n;
  x->pattern.v = w->norm.n ? tni_arena_memdup(r->t->arena, w->norm.v, w->norm.n, 1) : "";
  r->t->tokens[x->id].shown = x->pattern;
  return x->pattern.v ? TN_OK : tni_fail_memory(r->err, "added_tokens");
}

/* special: only those, and by their content. */
static tn_status build_added(tni_reader *r, tni_added_set *set, bool normalized, bool special) {
  set->v = TNI_NEW_ARRAY(r->t->arena, tni_added, r->t->n_added ? r->t->n_added : 1);
  if (!set->v) return tni_fail_memory(r->err, "added_tokens");
  for (size_t i = 0; i < r->t->n_added; i++) {
    tni_added x = r->t->added[i];
    if (x.normalized != normalized || (special && !x.special)) continue;
    if (special) x.pattern = x.content;
    if (x.pattern.n) set->first[(uint8_t)x.pattern.v[0]] = true;
    set->v[set->n++] = x;
  }
  qsort(set->v, set->n, sizeof *set->v, by_pattern);
  return TN_OK;
}

/* A special token that its normalizer changes is shown, one that it turns into another's content is not. */
static tn_status mark_skipped(tni_reader *r) {
  tni_tokenizer *t = r->t;
  tni_map *special = tni_map_create();
  bool ok = special != NULL;
  for (size_t i = 0; ok && i < t->n_added; i++)
    if (t->added[i].special) ok = tni_map_put(special, t->added[i].content.v, t->added[i].content.n, 1);
  for (size_t i = 0; ok && i < t->n_added; i++) {
    tni_token *k = &t->tokens[t->added[i].id];
    k->skipped = tni_map_get(special, k->shown.v, k->shown.n, &(uint64_t){0});
  }
  tni_map_destroy(special);
  return ok ? TN_OK : tni_fail_memory(r->err, "added_tokens");
}

tn_status tni_added_build(tni_reader *r) {
  tni_work w = {0};
  tn_status st = TN_OK;
  for (size_t i = 0; i < r->t->n_added && st == TN_OK; i++) st = set_pattern(r, &r->t->added[i], &w);
  tni_str_finish(&w.norm);
  tni_str_finish(&w.norm2);
  tni_match_memory_finish(&w.match);
  if (st == TN_OK) st = mark_skipped(r);
  if (st == TN_OK) st = build_added(r, &r->t->raw, false, false);
  if (st == TN_OK) st = build_added(r, &r->t->normalized, true, false);
  return st != TN_OK ? st : build_added(r, &r->t->special, true, true);
}

/* Longest pattern that s starts with: at each byte the range of patterns that still agree narrows. */
static const tni_added *longest_added(const tni_added_set *set, const char *s, size_t n) {
  size_t lo = 0, hi = set->n;
  const tni_added *best = NULL;
  for (size_t d = 0; lo < hi; d++) {
    if (set->v[lo].pattern.n == d && d) best = &set->v[lo];
    while (lo < hi && set->v[lo].pattern.n == d) lo++; /* the shortest come first */
    if (d == n) break;
    unsigned char c = (unsigned char)s[d];
    size_t a = lo, b = hi;
    while (a < b) {
      size_t m = a + (b - a) / 2;
      if ((unsigned char)set->v[m].pattern.v[d] < c)
        a = m + 1;
      else
        b = m;
    }
    lo = a;
    b = hi;
    while (a < b) {
      size_t m = a + (b - a) / 2;
      if ((unsigned char)set->v[m].pattern.v[d] <= c)
        a = m + 1;
      else
        b = m;
    }
    hi = a;
  }
  return best;
}

static bool stands_alone(const char *s, size_t n, size_t b, size_t e) {
  size_t len, p = b ? tni_utf8_prev(s, b) : 0;
  bool before = b > 0 && tni_is_word(tni_utf8_get(s + p, n - p, &len));
  bool after = e < n && tni_is_word(tni_utf8_get(s + e, n - e, &len));
  return !before && !after;
}

static void text_piece(tni_tok_pieces *out, size_t b, size_t e, size_t zero, size_t base) {
  size_t z = zero > b ? zero - b : 0;
  if (b < e) tni_pieces_add(out, (tni_tok_piece){base + b, e - b, z > e - b ? e - b : z, -1});
}

/* A special token of which a byte is not the template's is text. */
static bool is_typed(const tni_added *x, const uint8_t *mine, size_t at) {
  return mine && x->special && x->pattern.n && memchr(mine + at, 0, x->pattern.n);
}

void tni_added_split(const tni_added_set *set, const char *s, const uint8_t *mine, size_t n, size_t zero, size_t base,
                     tni_tok_pieces *out) {
  size_t done = 0, len, last = SIZE_MAX; /* last: where the match before ended */
  /* A token that its normalizer makes nothing of is found between all characters, and so cuts the text there. */
  const tni_added *nothing = set->n && set->v[0].pattern.n == 0 ? &set->v[0] : NULL;
  for (size_t i = 0; set->n && (i < n || (nothing && i == n));) {
    const tni_added *x = i < n && set->first[(uint8_t)s[i]] ? longest_added(set, s + i, n - i) : NULL;
    if (x && is_typed(x, mine, i)) x = NULL;
    if (!x && i != last && (i == n || ((unsigned char)s[i] & 0xc0) != 0x80)) x = nothing;
    if (!x) {
      i++;
      continue;
    }
    size_t b = i, e = i + x->pattern.n;
    i = last = e;
    if (x->single_word && !stands_alone(s, n, b, e)) continue;
    while (x->lstrip && b > done) {
      size_t p = tni_utf8_prev(s, b);
      if (!tni_is_white(tni_utf8_get(s + p, n - p, &len))) break;
      b = p;
    }
    while (x->rstrip && e < n && tni_is_white(tni_utf8_get(s + e, n - e, &len))) e += len;
    if (x->lstrip && b < done) b = done; /* the token before has taken that space */
    text_piece(out, done, b, zero, base);
    if (b < e) tni_pieces_add(out, (tni_tok_piece){base + b, e - b, 0, x->id});
    done = e;
  }
  text_piece(out, done, n, zero, base);
}
