/* SPDX-License-Identifier: Apache-2.0
 *
 * The draft is a conversation of its own that follows the other's tokens. A guess is its likeliest token, and it stops
 * where it is not sure: a guess that does not come costs a step of the draft and a row of the other's step.
 */
#include "runtime/llm/draft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/lm.h>

#include "runtime/base/base.h"
#include "runtime/llm/tokenizer/tokenizer.h"

/* Least probability of a guess. */
#define SURE 0.4f

static bool same_text(const tn_lm *a, const tn_lm *b, int32_t id, bool *same, tn_error *err) {
  char *x = NULL, *y = NULL;
  size_t nx = 0, ny = 0;
  tn_status st = tni_tokenizer_decode(a->tok, &id, 1, false, &x, &nx, err);
  if (st == TN_OK) st = tni_tokenizer_decode(b->tok, &id, 1, false, &y, &ny, err);
  *same = st == TN_OK && nx == ny && (!nx || memcmp(x, y, nx) == 0);
  free(x);
  free(y);
  return st != TN_E_NO_MEMORY;
}

/* Ids mean the same in both. */
static tn_status check_vocabularies(const tn_chat *c, const tn_lm *draft, tn_error *err) {
  const int64_t a = tni_lm_vocabulary(c->lm), b = tni_lm_vocabulary(draft);
  if (a != b)
    return tni_fail(err, TN_E_INVALID, "draft", "its vocabulary has %lld tokens, that of the model %lld", (long long)b,
                    (long long)a);
  if (!c->lm->tok || !draft->tok) return TN_OK;
  for (int32_t id = 0; id < a; id++) {
    bool same = false;
    if (!same_text(c->lm, draft, id, &same, NULL)) return tni_fail_memory(err, "draft");
    if (!same) return tni_fail(err, TN_E_INVALID, "draft", "token %d is another text than the model's", (int)id);
  }
  return TN_OK;
}

tn_status tni_draft_make(tn_chat *c, tn_lm *draft, uint32_t n, bool check, tn_error *err) {
  tn_chat *d = NULL;
  if (draft && n) {
    if (n > TN_DRAFT_MOST)
      return tni_fail(err, TN_E_LIMIT, "draft", "%u guesses, at most %d", n, (int)TN_DRAFT_MOST);
    if (c->source || draft->io.after_source)
      return tni_fail(err, TN_E_UNSUPPORTED, "draft", "it wants decoders whose caches the session keeps");
    tn_status st = check ? check_vocabularies(c, draft, err) : TN_OK;
    if (st == TN_OK) st = tn_chat_create(draft, &d, err);
    if (st != TN_OK) return st;
  }
  tn_chat_destroy(c->draft);
  c->draft = d;
  c->draft_most = d ? n : 0;
  return TN_OK;
}

tn_status tn_chat_draft(tn_chat *c, tn_lm *draft, uint32_t n, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(c);
  if (draft && n && !c->kept)
    return tni_fail(err, TN_E_UNSUPPORTED, "draft", "it wants decoders whose caches the session keeps");
  return tni_draft_make(c, draft, n, true, err);
}

static size_t likeliest(const float *v, size_t n, float *p) {
  size_t best = 0;
  double sum = 0;
  for (size_t i = 1; i < n; i++)
    if (v[i] > v[best]) best = i;
  for (size_t i = 0; i < n; i++) sum += (double)expf(v[i] - v[best]);
  *p = (float)(1 / sum);
  return best;
}

static tn_status follow(tn_chat *c, const float **logits, size_t *vocab, tn_error *err) {
  tn_chat *d = c->draft;
  size_t kept = 0, rows;
  tn_status st = tn_chat_rewind(d, c->history, c->n, &kept, err);
  if (st == TN_OK) st = tni_chat_append(d, c->history + kept, c->n - kept, err);
  atomic_store(&d->cancelled, atomic_load(&c->cancelled));
  return st == TN_OK ? tni_chat_step(d, true, logits, &rows, vocab, err) : st;
}

tn_status tni_draft_follow(tn_chat *c, tn_error *err) {
  const float *logits;
  size_t vocab;
  return c->draft && c->n < (size_t)c->draft->context ? follow(c, &logits, &vocab, err) : TN_OK;
}

tn_status tni_draft_near(tn_chat *c, size_t most, bool *near, tn_error *err) {
  tn_chat *d = c->draft;
  const float *logits;
  size_t kept = 0, vocab, rows;
  *near = true;
  if (c->n > (size_t)d->context) return TN_OK;
  tn_status st = tn_chat_rewind(d, c->history, c->n, &kept, err);
  if (st != TN_OK || c->n - kept <= most) return st;
  *near = false;
  st = tni_chat_append(d, c->history + kept, most, err);
  atomic_store(&d->cancelled, atomic_load(&c->cancelled));
  return st == TN_OK ? tni_chat_step(d, true, &logits, &rows, &vocab, err) : st;
}

tn_status tni_draft_guess(tn_chat *c, size_t most, int32_t *ids, size_t *n, tn_error *err) {
  tn_chat *d = c->draft;
  const float *logits;
  size_t vocab, rows;
  *n = 0;
  if (!d || !most) return TN_OK;
  if (most > c->draft_most) most = c->draft_most;
  if (c->n + most > (size_t)d->context) return TN_OK;
  tn_status st = follow(c, &logits, &vocab, err);
  while (st == TN_OK) {
    float p;
    const int32_t id = (int32_t)likeliest(logits, vocab, &p);
    if (!(p >= SURE)) break;
    ids[(*n)++] = id;
    if (*n == most) break;
    st = tni_chat_append(d, &id, 1, err);
    if (st == TN_OK) st = tni_chat_step(d, true, &logits, &rows, &vocab, err);
  }
  return st;
}
