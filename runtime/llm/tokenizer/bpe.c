/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte pair encoding: symbols in a linked list, possible merges in a heap ordered by rank, then by place. n symbols
 * cost O(n log n), so a whole book may be one word.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/text/text.h"
#include "runtime/llm/tokenizer/tok.h"

struct tni_sym {
  int32_t id, prev, next; /* id -1: merged into another; prev, next -1: none */
};
struct tni_merge_at {
  uint64_t key; /* rank << 32 | place */
  int32_t id;
};

/* --- merges ------------------------------------------------------------------------------------------------------- */

static uint64_t pair_of(int32_t a, int32_t b) { return (uint64_t)(uint32_t)a << 32 | (uint32_t)b; }

static size_t slot_of(const tni_tok_model *m, uint64_t pair) {
  uint64_t h = pair * UINT64_C(0x9e3779b97f4a7c15);
  size_t i = (size_t)(h >> 20) & m->merges_mask;
  while (m->merges[i].pair != pair && m->merges[i].pair != UINT64_MAX) i = (i + 1) & m->merges_mask;
  return i;
}

static const tni_merge *merge_of(const tni_tok_model *m, int32_t a, int32_t b) {
  const tni_merge *x = &m->merges[slot_of(m, pair_of(a, b))];
  return x->pair == UINT64_MAX ? NULL : x;
}

static bool make_table(tni_reader *r, size_t n) {
  size_t cap = 16;
  while (cap < n * 2) cap *= 2;
  tni_tok_model *m = &r->t->model;
  m->merges = TNI_NEW_ARRAY(r->t->arena, tni_merge, cap);
  if (!m->merges) return false;
  m->merges_mask = cap - 1;
  for (size_t i = 0; i < cap; i++) m->merges[i].pair = UINT64_MAX;
  return true;
}

/* With its path only where the list has one: there are many merges. */
static tni_at part_of(const tni_at *merge, size_t i) {
  return *merge->path ? tni_at_item(merge, i) : (tni_at){json_array_get(merge->v, i), merge->file, ""};
}

/* Both forms: "a b" and ["a", "b"]. */
static tn_status split_merge(const tni_at *a, tni_view *l, tni_view *r, tn_error *err) {
  if (json_is_array(a->v)) {
    size_t n;
    tni_at x = part_of(a, 0), y = part_of(a, 1);
    tn_status st = tni_at_array(a, 2, &n, err);
    if (st == TN_OK) st = tni_at_string(&x, l, err);
    return st != TN_OK ? st : tni_at_string(&y, r, err);
  }
  tni_view v;
  tn_status st = tni_at_string(a, &v, err);
  if (st != TN_OK) return st;
  const char *sp = memchr(v.v, ' ', v.n), *end = v.v + v.n;
  if (!sp || memchr(sp + 1, ' ', (size_t)(end - sp - 1)))
    return tni_at_fail(a, TN_E_INVALID, err, "expected two parts and one space, got \"%.60s\"", v.v);
  *l = (tni_view){v.v, (size_t)(sp - v.v)};
  *r = (tni_view){sp + 1, (size_t)(end - sp - 1)};
  return TN_OK;
}

static tn_status unknown_token(const tni_at *list, size_t i, tni_view v, tn_error *err) {
  tni_at a = tni_at_item(list, i);
  return tni_at_fail(&a, TN_E_INVALID, err, "\"%.*s\" is not in model.vocab", (int)(v.n < 60 ? v.n : 60), v.v);
}

/* Merges mostly stand in the order of the tokens that they make: *last is the one before's, then this one's. */
static int32_t merged_id(const tni_tokenizer *t, const tni_str *text, int32_t *last) {
  const char *v = text->n ? text->v : "";
  for (int32_t id = *last; id <= *last + 1; id++) {
    const tni_token *k = id >= 0 && (size_t)id < t->n_tokens ? &t->tokens[id] : NULL;
    if (k && k->v && k->n == text->n && memcmp(k->v, v, text->n) == 0) return *last = id;
  }
  return *last = tni_vocab_id(&t->model, v, text->n);
}

static tn_status read_merge(tni_reader *r, const tni_at *list, size_t i, uint32_t rank, int32_t *last, tni_str *buf) {
  tni_tok_model *m = &r->t->model;
  tni_view l, x;
  tni_at a = {json_array_get(list->v, i), list->file, ""};
  tn_error quiet;
  tni_error_init(&quiet);
  if (split_merge(&a, &l, &x, &quiet) != TN_OK) {
    a = tni_at_item(list, i); /* with its path, which is made only here: there are many merges */
    return split_merge(&a, &l, &x, r->err);
  }
  int32_t li = tni_vocab_id(m, l.v, l.n), ri = tni_vocab_id(m, x.v, x.n);
  if (li < 0) return unknown_token(list, i, l, r->err);
  if (ri < 0) return unknown_token(list, i, x, r->err);
  size_t cut = x.n < m->prefix.n ? x.n : m->prefix.n;
  tni_str_clear(buf);
  tni_str_add(buf, l.v, l.n);
  tni_str_add(buf, x.v + cut, x.n - cut);
  if (buf->failed) return tni_fail_memory(r->err, list->file);
  int32_t id = merged_id(r->t, buf, last);
  if (id < 0) return unknown_token(list, i, (tni_view){buf->n ? buf->v : "", buf->n}, r->err);
  m->merges[slot_of(m, pair_of(li, ri))] = (tni_merge){pair_of(li, ri), rank, id};
  return TN_OK;
}

static tn_status read_merges(tni_reader *r, const tni_at *a) {
  tni_at list = tni_at_key(a, "merges");
  size_t n = 0;
  tn_status st = tni_at_array(&list, TNI_TOK_IDS, &n, r->err);
  if (st != TN_OK) return st;
  if (!make_table(r, n)) return tni_fail_memory(r->err, a->file);
  tni_str buf = {0};
  uint32_t rank = 0;
  int32_t last = -1;
  for (size_t i = 0; i < n && st == TN_OK; i++) {
    json_t *v = json_array_get(list.v, i);
    bool comment = json_is_string(v) && strncmp(json_string_value(v), "#version", 8) == 0;
    if (!comment) st = read_merge(r, &list, i, rank++, &last, &buf);
  }
  tni_str_finish(&buf);
  return st;
}

tn_status tni_bpe_read(tni_reader *r, const tni_at *a) {
  tni_tok_model *m = &r->t->model;
  tni_at prefix = tni_at_key(a, "continuing_subword_prefix"), suffix = tni_at_key(a, "end_of_word_suffix"),
         fuse = tni_at_key(a, "fuse_unk"), fallback = tni_at_key(a, "byte_fallback"),
         ignore = tni_at_key(a, "ignore_merges");
  tn_status st = prefix.v ? tni_tok_string(r, &prefix, &m->prefix) : TN_OK;
  if (st == TN_OK && suffix.v) st = tni_tok_string(r, &suffix, &m->suffix);
  if (st == TN_OK) st = tni_at_bool(&fuse, false, &m->fuse_unk, r->err);
  if (st == TN_OK) st = tni_at_bool(&fallback, false, &m->byte_fallback, r->err);
  if (st == TN_OK) st = tni_at_bool(&ignore, false, &m->ignore_merges, r->err);
  tni_byte_ids(m);
  return st != TN_OK ? st : read_merges(r, a);
}

/* --- encoding ----------------------------------------------------------------------------------------------------- */

typedef struct bpe {
  const tni_tok_model *m;
  tni_work *w;
  size_t n_syms, n_heap;
  bool unk_pending, unk_missing, no_memory;
} bpe;

static void add_sym(bpe *x, int32_t id) {
  int32_t i = (int32_t)x->n_syms++;
  x->w->syms[i] = (tni_sym){id, i - 1, i + 1};
}

static int32_t char_id(bpe *x, const char *s, size_t n, bool first, bool last) {
  const tni_tok_model *m = x->m;
  if ((first || !m->prefix.n) && (!last || !m->suffix.n)) return tni_vocab_id(m, s, n);
  tni_str *b = &x->w->norm; /* free here: normalization is over */
  tni_str_clear(b);
  if (!first) tni_str_add(b, m->prefix.v, m->prefix.n);
  tni_str_add(b, s, n);
  if (last) tni_str_add(b, m->suffix.v, m->suffix.n);
  x->no_memory = x->no_memory || b->failed;
  return b->failed ? -1 : tni_vocab_id(m, b->v, b->n);
}

/* The bytes of a character outside the vocabulary, prefix and suffix included as in the reference. */
static bool add_bytes(bpe *x, const char *s, size_t n, bool first, bool last) {
  const tni_tok_model *m = x->m;
  tni_view parts[3] = {first ? (tni_view){"", 0} : m->prefix, {s, n}, last ? m->suffix : (tni_view){"", 0}};
  for (int k = 0; k < 3; k++)
    for (size_t i = 0; i < parts[k].n; i++)
      if (m->byte_ids[(uint8_t)parts[k].v[i]] < 0) return false;
  for (int k = 0; k < 3; k++)
    for (size_t i = 0; i < parts[k].n; i++) add_sym(x, m->byte_ids[(uint8_t)parts[k].v[i]]);
  return true;
}

static void flush_unk(bpe *x) {
  if (x->unk_pending) add_sym(x, x->m->unk);
  x->unk_pending = false;
}

/* An unknown run waits for the next known character; byte fallback does not end it (as in the reference). */
static void split_chars(bpe *x, const char *s, size_t n) {
  for (size_t i = 0, len; i < n; i += len) {
    len = tni_utf8_len(s[i]);
    bool first = i == 0, last = i + len >= n;
    int32_t id = char_id(x, s + i, len, first, last);
    if (id >= 0) {
      flush_unk(x);
      add_sym(x, id);
      continue;
    }
    if (x->m->byte_fallback && add_bytes(x, s + i, len, first, last)) continue;
    if (x->m->unk == TNI_UNK_MISSING) x->unk_missing = true;
    if (x->m->unk < 0) continue; /* without an unknown token it is dropped */
    if (!x->m->fuse_unk) flush_unk(x);
    x->unk_pending = true;
  }
  flush_unk(x);
}

static void heap_push(bpe *x, tni_merge_at v) {
  tni_merge_at *h = x->w->heap;
  size_t i = x->n_heap++;
  for (size_t up; i && h[up = (i - 1) / 4].key > v.key; i = up) h[i] = h[up];
  h[i] = v;
}

static tni_merge_at heap_pop(bpe *x) {
  tni_merge_at *h = x->w->heap, top = h[0], v = h[--x->n_heap];
  size_t i = 0;
  for (;;) {
    size_t c = i * 4 + 1, best = c, end = c + 4 < x->n_heap ? c + 4 : x->n_heap;
    if (c >= x->n_heap) break;
    for (size_t k = c + 1; k < end; k++)
      if (h[k].key < h[best].key) best = k;
    if (h[best].key >= v.key) break;
    h[i] = h[best];
    i = best;
  }
  if (x->n_heap) h[i] = v;
  return top;
}

static void propose_merge(bpe *x, int32_t left) {
  const tni_sym *s = x->w->syms;
  if (left < 0 || s[left].next < 0) return;
  const tni_merge *m = merge_of(x->m, s[left].id, s[s[left].next].id);
  if (m) heap_push(x, (tni_merge_at){(uint64_t)m->rank << 32 | (uint32_t)left, m->id});
}

static void merge_all(bpe *x) {
  tni_sym *s = x->w->syms;
  for (size_t i = 0; i + 1 < x->n_syms; i++) propose_merge(x, (int32_t)i);
  while (x->n_heap) {
    tni_merge_at top = heap_pop(x);
    int32_t l = (int32_t)(uint32_t)top.key, r = s[l].next;
    if (s[l].id < 0 || r < 0) continue;
    const tni_merge *m = merge_of(x->m, s[l].id, s[r].id);
    if (!m || m->id != top.id) continue; /* one of the two has changed since */
    s[l].id = top.id;
    s[l].next = s[r].next;
    s[r].id = -1;
    if (s[r].next >= 0) s[s[r].next].prev = l;
    propose_merge(x, s[l].prev);
    propose_merge(x, l);
  }
}

/* Every merge removes a symbol and proposes at most two: the heap never holds more than 3 n. */
static bool room_for_symbols(tni_work *w, const tni_tok_model *m, size_t n) {
  size_t syms = 0, heap = 0;
  if (!tni_add_size(n, m->prefix.n + m->suffix.n, &syms)) return false;
  if (m->byte_fallback && m->prefix.n && !tni_mul_size(syms, m->prefix.n + 1, &syms)) return false;
  if (syms > INT32_MAX / 4 || !tni_mul_size(syms, 3, &heap)) return false;
  return tni_grow((void **)&w->syms, &w->syms_cap, syms + 1, sizeof *w->syms) &&
         tni_grow((void **)&w->heap, &w->heap_cap, heap + 1, sizeof *w->heap);
}

tn_status tni_bpe_encode(const tni_tok_model *m, tni_work *w, const char *s, size_t n, tn_error *err) {
  if (n == 0) return TN_OK;
  if (m->ignore_merges) {
    int32_t id = tni_vocab_id(m, s, n);
    if (id >= 0) {
      tni_work_id(w, id);
      return TN_OK;
    }
  }
  if (!room_for_symbols(w, m, n)) return tni_fail(err, TN_E_NO_MEMORY, "model", "no memory for a word of %zu bytes", n);
  bpe x = {.m = m, .w = w};
  split_chars(&x, s, n);
  if (x.no_memory) return tni_fail_memory(err, "model");
  if (x.unk_missing) return tni_fail(err, TN_E_INVALID, "model", "unk_token is needed and not in the vocabulary");
  if (x.n_syms) w->syms[x.n_syms - 1].next = -1;
  merge_all(&x);
  for (size_t i = 0; i < x.n_syms; i++)
    if (w->syms[i].id >= 0) tni_work_id(w, w->syms[i].id);
  return TN_OK;
}
