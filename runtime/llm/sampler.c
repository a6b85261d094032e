/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct token_candidate {
  float logit;
  int32_t id;
} token_candidate;

struct tni_sampler {
  tni_sampler_params p;
  size_t vocab;
  uint64_t state;
  token_candidate *c; /* [vocab] */
  uint8_t *seen;      /* [vocab] */
};

static uint32_t next32(tni_sampler *s) {
  uint64_t old = s->state;
  s->state = old * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint32_t x = (uint32_t)(((old >> 18) ^ old) >> 27), r = (uint32_t)(old >> 59);
  return x >> r | x << (-r & 31);
}

/* [0, 1), 53 bits. */
static double uniform_draw(tni_sampler *s) {
  uint64_t hi = next32(s), lo = next32(s);
  return (double)((hi << 32 | lo) >> 11) * 0x1p-53;
}

static tn_status check_sampler_params(const tni_sampler_params *p, tn_error *err) {
  if (!(p->temperature >= 0) || isinf(p->temperature))
    return tni_fail(err, TN_E_INVALID, "temperature", "%g is not a number from 0", (double)p->temperature);
  if (!(p->top_p > 0 && p->top_p <= 1))
    return tni_fail(err, TN_E_INVALID, "top_p", "%g is not above 0 and at most 1", (double)p->top_p);
  if (!(p->min_p >= 0 && p->min_p <= 1))
    return tni_fail(err, TN_E_INVALID, "min_p", "%g is not in 0..1", (double)p->min_p);
  if (!(p->repeat_penalty > 0) || isinf(p->repeat_penalty))
    return tni_fail(err, TN_E_INVALID, "repeat_penalty", "%g is not above 0", (double)p->repeat_penalty);
  return TN_OK;
}

tn_status tni_sampler_create(size_t vocab, const tni_sampler_params *p, tni_sampler **out, tn_error *err) {
  tn_status st = check_sampler_params(p, err);
  if (st != TN_OK) return st;
  if (vocab == 0 || vocab > INT32_MAX) return tni_fail(err, TN_E_INVALID, "vocabulary", "%zu tokens", vocab);
  tni_sampler *s = calloc(1, sizeof *s);
  if (s) {
    *s = (tni_sampler){.p = *p, .vocab = vocab};
    s->c = calloc(vocab, sizeof *s->c);
    s->seen = calloc(vocab, 1);
  }
  if (!s || !s->c || !s->seen) {
    tni_sampler_destroy(s);
    return tni_fail_memory(err, "sampler");
  }
  next32(s);
  s->state += p->seed;
  next32(s);
  *out = s;
  return TN_OK;
}

void tni_sampler_destroy(tni_sampler *s) {
  if (!s) return;
  free(s->c);
  free(s->seen);
  free(s);
}

void tni_sampler_see(tni_sampler *s, int32_t id) {
  if (id >= 0 && (size_t)id < s->vocab) s->seen[id] = 1;
}

static bool is_better_candidate(token_candidate a, token_candidate b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* Penalized copies into c; the best goes to *best. */
static tn_status load_candidates(tni_sampler *s, const float *logits, token_candidate *best, tn_error *err) {
  *best = (token_candidate){-INFINITY, 0};
  for (size_t i = 0; i < s->vocab; i++) {
    float v = logits[i];
    if (isnan(v)) return tni_fail(err, TN_E_INVALID, "logits", "the logit of token %zu is not a number", i);
    if (s->seen[i] && v != 0) v = v > 0 ? v / s->p.repeat_penalty : v * s->p.repeat_penalty;
    s->c[i] = (token_candidate){v, (int32_t)i};
    if (is_better_candidate(s->c[i], *best)) *best = s->c[i];
  }
  if (best->logit == -INFINITY) return tni_fail(err, TN_E_INVALID, "logits", "no token is possible");
  return TN_OK;
}

static void sift_candidates(token_candidate *h, size_t n, size_t i) {
  token_candidate v = h[i];
  for (size_t c; (c = i * 2 + 1) < n; i = c) {
    if (c + 1 < n && is_better_candidate(h[c + 1], h[c])) c++;
    if (!is_better_candidate(h[c], v)) break;
    h[i] = h[c];
  }
  h[i] = v;
}

static double candidate_weight(const tni_sampler *s, token_candidate c, float best) {
  return exp(((double)c.logit - (double)best) / (double)s->p.temperature);
}

/* Moves the k best to the end of c, best last, and keeps a heap before them. */
static void pop_best(tni_sampler *s, size_t *heap_n) {
  token_candidate top = s->c[0];
  s->c[0] = s->c[--*heap_n];
  if (*heap_n) sift_candidates(s->c, *heap_n, 0);
  s->c[*heap_n] = top;
}

/* Leaves the candidates that pass top-k and top-p in c[*from .. vocab), best last. */
static void cut_candidates(tni_sampler *s, float best, size_t *from) {
  size_t n = s->vocab, k = s->p.top_k ? s->p.top_k : n;
  double total = 0, sum = 0;
  bool by_k = k < n, by_p = s->p.top_p < 1;
  *from = 0;
  if (!by_k && !by_p) return;
  for (size_t i = n / 2; i-- > 0;) sift_candidates(s->c, n, i);
  size_t heap_n = n;
  if (by_k) {
    while (heap_n > n - k) pop_best(s, &heap_n);
    *from = heap_n;
  }
  if (!by_p) return;
  for (size_t i = *from; i < n; i++) total += candidate_weight(s, s->c[i], best);
  if (by_k) { /* sorted already: drop from the low end */
    size_t i = n;
    while (i > *from && sum < (double)s->p.top_p * total) sum += candidate_weight(s, s->c[--i], best);
    *from = i < n ? i : n - 1;
    return;
  }
  do {
    pop_best(s, &heap_n);
    sum += candidate_weight(s, s->c[heap_n], best);
  } while (heap_n && sum < (double)s->p.top_p * total);
  *from = heap_n;
}

static int32_t draw_candidate(tni_sampler *s, size_t from, float best) {
  double total = 0, at;
  size_t n = s->vocab, last = n - 1;
  for (size_t i = from; i < n; i++) {
    double w = candidate_weight(s, s->c[i], best);
    if (w >= (double)s->p.min_p) total += w;
  }
  at = uniform_draw(s) * total;
  for (size_t i = n; i-- > from;) {
    double w = candidate_weight(s, s->c[i], best);
    if (w < (double)s->p.min_p || w == 0) continue;
    last = i;
    if ((at -= w) < 0) break;
  }
  return s->c[last].id;
}

tn_status tni_sampler_pick(tni_sampler *s, const float *logits, int32_t *id, tn_error *err) {
  token_candidate best;
  tn_status st = load_candidates(s, logits, &best, err);
  if (st != TN_OK) return st;
  if (s->p.temperature == 0 || isinf(best.logit)) {
    *id = best.id;
    return TN_OK;
  }
  size_t from;
  cut_candidates(s, best.logit, &from);
  *id = draw_candidate(s, from, best.logit);
  return TN_OK;
}
