/* SPDX-License-Identifier: Apache-2.0
 *
 * Unigram (SentencePiece): of all ways to cut a piece into tokens the one with the greatest sum of scores, found by
 * Viterbi's algorithm over byte offsets (Kudo 2018, "Subword regularization", section 3.2). As in the reference a
 * character that is no token costs the least score less 10; unknown neighbours become one; equal sums keep the token
 * found first.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/text/text.h"
#include "runtime/llm/tokenizer/tok.h"

/* The best way to an offset. */
struct tni_best {
  double score;
  uint32_t from; /* where its last token starts; UINT32_MAX: no way leads here */
  int32_t id;
};

static const double unk_penalty = 10;

static tn_status read_scores(tni_reader *r, const tni_at *vocab, size_t n) {
  tni_tok_model *m = &r->t->model;
  m->scores = TNI_NEW_ARRAY(r->t->arena, double, n + 1);
  if (!m->scores) return tni_fail_memory(r->err, vocab->file);
  m->unk_score = INFINITY;
  for (size_t i = 0; i < n; i++) {
    json_t *v = json_array_get(json_array_get(vocab->v, i), 1);
    if (!json_is_number(v)) {
      tni_at x = tni_at_item(vocab, i);
      return tni_at_fail(&x, TN_E_INVALID, r->err, "expected [token, score]");
    }
    m->scores[i] = json_number_value(v);
    if (m->scores[i] < m->unk_score) m->unk_score = m->scores[i];
  }
  m->unk_score -= unk_penalty;
  return TN_OK;
}

tn_status tni_unigram_read(tni_reader *r, const tni_at *a) {
  tni_tokenizer *t = r->t;
  tni_tok_model *m = &t->model;
  tni_at vocab = tni_at_key(a, "vocab"), unk = tni_at_key(a, "unk_id"), fallback = tni_at_key(a, "byte_fallback");
  size_t n = json_array_size(vocab.v);
  int64_t id = -1;
  tn_status st = read_scores(r, &vocab, n);
  if (st == TN_OK && unk.v) st = tni_at_int(&unk, 0, (int64_t)n - 1, &id, r->err);
  if (st == TN_OK) st = tni_at_bool(&fallback, false, &m->byte_fallback, r->err);
  if (st != TN_OK) return st;
  m->unk = id < 0 ? TNI_UNK_NONE : (int32_t)id;
  tni_byte_ids(m);
  tni_view *words = TNI_NEW_ARRAY(t->arena, tni_view, n + 1);
  for (size_t i = 0; words && i < n; i++) words[i] = (tni_view){t->tokens[i].v, t->tokens[i].n};
  return words && tni_trie_build(&m->trie, t->arena, words, n) ? TN_OK : tni_fail_memory(r->err, a->file);
}

/* --- encoding ----------------------------------------------------------------------------------------------------- */

static void offer_best(tni_best *to, double score, size_t from, int32_t id) {
  if (to->from == UINT32_MAX || score > to->score) *to = (tni_best){score, (uint32_t)from, id};
}

/* False: an unknown character and no unknown token. */
static bool find_best(const tni_tok_model *m, tni_best *best, const char *s, size_t n) {
  best[0] = (tni_best){0, 0, -1};
  for (size_t i = 1; i <= n; i++) best[i].from = UINT32_MAX;
  for (size_t i = 0, len; i < n; i += len) {
    len = tni_utf8_len(s[i]);
    bool single = false;
    tni_trie_walk w = tni_trie_begin(&m->trie, s + i, n - i);
    for (int32_t id; (id = tni_trie_next(&w)) >= 0;) {
      size_t k = m->trie.words[id].n;
      offer_best(&best[i + k], m->scores[id] + best[i].score, i, id);
      single |= k == len;
    }
    if (single) continue;
    if (m->unk < 0) return false;
    offer_best(&best[i + len], m->unk_score + best[i].score, i, m->unk);
  }
  return true;
}

/* A run of unknown characters: a token after all when it is one as a whole, else its bytes, else unknown. */
static void add_unknown(const tni_tok_model *m, tni_work *w, const char *s, size_t n) {
  int32_t id = tni_vocab_id(m, s, n);
  bool bytes = id < 0 && m->byte_fallback;
  for (size_t i = 0; bytes && i < n; i++) bytes = m->byte_ids[(uint8_t)s[i]] >= 0;
  if (!bytes) tni_work_id(w, id < 0 ? m->unk : id);
  for (size_t i = 0; bytes && i < n; i++) tni_work_id(w, m->byte_ids[(uint8_t)s[i]]);
}

/* Turns the chain of bests round: from then leads to the end of the token that starts there. */
static void reverse_chain(tni_best *best, size_t n) {
  uint32_t next = UINT32_MAX;
  int32_t id = -1;
  for (uint32_t at = (uint32_t)n;;) {
    tni_best x = best[at];
    best[at].from = next;
    best[at].id = id;
    if (at == 0) return;
    next = at;
    id = x.id;
    at = x.from;
  }
}

tn_status tni_unigram_encode(const tni_tok_model *m, tni_work *w, const char *s, size_t n, tn_error *err) {
  if (n == 0) return TN_OK;
  if (n >= UINT32_MAX || !tni_grow((void **)&w->best, &w->best_cap, n + 1, sizeof *w->best))
    return tni_fail(err, TN_E_NO_MEMORY, "model", "no memory for a word of %zu bytes", n);
  tni_best *best = w->best;
  if (!find_best(m, best, s, n))
    return tni_fail(err, TN_E_INVALID, "model", "%.*s... is unknown and there is no unk_id", (int)(n < 40 ? n : 40), s);
  reverse_chain(best, n);
  for (size_t i = 0, e; i < n; i = e) {
    int32_t id = best[i].id;
    e = best[i].from;
    while (id == m->unk && e < n && best[e].id == m->unk) e = best[e].from;
    if (id == m->unk)
      add_unknown(m, w, s + i, e - i);
    else
      tni_work_id(w, id);
  }
  return TN_OK;
}
