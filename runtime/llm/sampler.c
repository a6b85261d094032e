/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct token_candidate {
  float logit;
  int32_t id;
} token_candidate;

/* How far a candidate's surprise is from the expected one. */
typedef struct token_surprise {
  double off;
  uint32_t at; /* in c; then: it stays */
} token_surprise;

struct tni_sampler {
  tni_sampler_params p;
  size_t vocab;
  uint64_t state;
  token_candidate *c;  /* [vocab] */
  uint8_t *seen;       /* [vocab] */
  uint32_t *counts;    /* [vocab] */
  float *lower;        /* [vocab] */
  token_surprise *odd; /* [vocab], with typical_p */
  bool lowers;         /* some of lower is not 0 */
  double mu;           /* Mirostat's */
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
  if (!isfinite(p->frequency)) return tni_fail(err, TN_E_INVALID, "frequency_penalty", "it is not a number");
  if (!isfinite(p->presence)) return tni_fail(err, TN_E_INVALID, "presence_penalty", "it is not a number");
  if (!(p->typical_p >= 0 && p->typical_p <= 1))
    return tni_fail(err, TN_E_INVALID, "typical_p", "%g is not in 0..1", (double)p->typical_p);
  if (!(p->mirostat_tau >= 0) || isinf(p->mirostat_tau))
    return tni_fail(err, TN_E_INVALID, "mirostat_tau", "%g is not a number from 0", (double)p->mirostat_tau);
  if (!(p->mirostat_eta >= 0) || isinf(p->mirostat_eta))
    return tni_fail(err, TN_E_INVALID, "mirostat_eta", "%g is not a number from 0", (double)p->mirostat_eta);
  return TN_OK;
}

static bool by_typical(const tni_sampler *s) { return s->p.typical_p > 0 && s->p.typical_p < 1; }

tn_status tni_sampler_create(size_t vocab, const tni_sampler_params *p, tni_sampler **out, tn_error *err) {
  tn_status st = check_sampler_params(p, err);
  if (st != TN_OK) return st;
  if (vocab == 0 || vocab > INT32_MAX) return tni_fail(err, TN_E_INVALID, "vocabulary", "%zu tokens", vocab);
  tni_sampler *s = calloc(1, sizeof *s);
  if (s) {
    *s = (tni_sampler){.p = *p, .vocab = vocab};
    s->c = calloc(vocab, sizeof *s->c);
    s->seen = calloc(vocab, 1);
    s->counts = calloc(vocab, sizeof *s->counts);
    s->lower = calloc(vocab, sizeof *s->lower);
    if (by_typical(s)) s->odd = calloc(vocab, sizeof *s->odd);
    s->mu = 2 * (double)p->mirostat_tau;
    if (p->mirostat_eta == 0) s->p.mirostat_eta = 0.1f;
  }
  if (!s || !s->c || !s->seen || !s->counts || !s->lower || (by_typical(s) && !s->odd)) {
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
  free(s->counts);
  free(s->lower);
  free(s->odd);
  free(s);
}

void tni_sampler_see(tni_sampler *s, int32_t id) {
  if (id >= 0 && (size_t)id < s->vocab) s->seen[id] = 1;
}

void tni_sampler_count(tni_sampler *s, int32_t id) {
  if (id >= 0 && (size_t)id < s->vocab && s->counts[id] < UINT32_MAX) s->counts[id]++;
}

void tni_sampler_lower(tni_sampler *s, int32_t id, float amount) {
  if (id < 0 || (size_t)id >= s->vocab || !(amount > s->lower[id])) return;
  s->lower[id] = amount;
  s->lowers = true;
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
    if (s->counts[i]) v -= (float)s->counts[i] * s->p.frequency + s->p.presence;
    v -= s->lower[i];
    s->c[i] = (token_candidate){v, (int32_t)i};
    if (is_better_candidate(s->c[i], *best)) *best = s->c[i];
  }
  if (s->lowers) memset(s->lower, 0, s->vocab * sizeof *s->lower);
  s->lowers = false;
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

static int best_last(const void *a, const void *b) {
  return is_better_candidate(*(const token_candidate *)a, *(const token_candidate *)b) ? 1 : -1;
}

static int least_odd_first(const void *pa, const void *pb) {
  const token_surprise *a = pa, *b = pb;
  if (a->off != b->off) return a->off < b->off ? -1 : 1;
  return (a->at < b->at) - (a->at > b->at); /* the better one */
}

/* Of c[*from .. vocab), best last, those that pass typical-p, in the same order. */
static void cut_untypical(tni_sampler *s, float best, size_t *from) {
  const size_t n = s->vocab, m = n - *from;
  double total = 0, expected = 0, sum = 0;
  for (size_t i = *from; i < n; i++) total += candidate_weight(s, s->c[i], best);
  for (size_t i = *from; i < n; i++) {
    const double p = candidate_weight(s, s->c[i], best) / total;
    if (p > 0) expected -= p * log(p);
  }
  for (size_t i = 0; i < m; i++) {
    const double p = candidate_weight(s, s->c[*from + i], best) / total;
    s->odd[i] = (token_surprise){p > 0 ? fabs(-log(p) - expected) : INFINITY, (uint32_t)(*from + i)};
  }
  qsort(s->odd, m, sizeof *s->odd, least_odd_first);
  size_t kept = 0;
  while (kept < m && sum < (double)s->p.typical_p) sum += candidate_weight(s, s->c[s->odd[kept++].at], best) / total;
  for (size_t i = kept; i < m; i++) s->c[s->odd[i].at].id = -1;
  size_t to = n;
  for (size_t i = n; i-- > *from;)
    if (s->c[i].id >= 0) s->c[--to] = s->c[i];
  *from = to;
}

/* The same for top-p. */
static void cut_improbable(const tni_sampler *s, float best, size_t *from) {
  const size_t n = s->vocab;
  double total = 0, sum = 0;
  for (size_t i = *from; i < n; i++) total += candidate_weight(s, s->c[i], best);
  size_t i = n;
  while (i > *from && sum < (double)s->p.top_p * total) sum += candidate_weight(s, s->c[--i], best);
  *from = i < n ? i : n - 1;
}

/* Leaves the candidates that pass top-k, typical-p and top-p in c[*from .. vocab); unless all do, best last. */
static void cut_candidates(tni_sampler *s, float best, size_t *from) {
  size_t n = s->vocab, k = s->p.top_k ? s->p.top_k : n, heap_n = n;
  double total = 0, sum = 0;
  const bool by_k = k < n, by_p = s->p.top_p < 1, typical = by_typical(s);
  *from = 0;
  if (!by_k && !by_p && !typical) return;
  if (!by_k && typical) {
    qsort(s->c, n, sizeof *s->c, best_last);
  } else {
    for (size_t i = n / 2; i-- > 0;) sift_candidates(s->c, n, i);
    while (by_k && heap_n > n - k) pop_best(s, &heap_n);
    if (by_k) *from = heap_n;
  }
  if (typical) cut_untypical(s, best, from);
  if (!by_p) return;
  if (by_k || typical) {
    cut_improbable(s, best, from);
    return;
  }
  for (size_t i = 0; i < n; i++) total += candidate_weight(s, s->c[i], best);
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

/* Mirostat 2: no order is needed. */
static int32_t draw_mirostat(tni_sampler *s, token_candidate best) {
  const size_t n = s->vocab;
  double total = 0, kept = 0;
  for (size_t i = 0; i < n; i++) total += candidate_weight(s, s->c[i], best.logit);
  const double most = total * exp2(-s->mu); /* the weight of mu bits */
  for (size_t i = 0; i < n; i++) {
    const double w = candidate_weight(s, s->c[i], best.logit);
    if (w > 0 && (w >= most || s->c[i].id == best.id)) kept += w;
  }
  double at = uniform_draw(s) * kept, chosen = 1;
  int32_t id = best.id;
  for (size_t i = n; i-- > 0;) {
    const double w = candidate_weight(s, s->c[i], best.logit);
    if (!(w > 0 && (w >= most || s->c[i].id == best.id))) continue;
    id = s->c[i].id;
    chosen = w;
    if ((at -= w) < 0) break;
  }
  s->mu -= (double)s->p.mirostat_eta * (-log2(chosen / kept) - (double)s->p.mirostat_tau);
  return id;
}

tn_status tni_sampler_pick(tni_sampler *s, const float *logits, int32_t *id, tn_error *err) {
  token_candidate best;
  tn_status st = load_candidates(s, logits, &best, err);
  if (st != TN_OK) return st;
  if (s->p.temperature == 0 || isinf(best.logit)) {
    *id = best.id;
    return TN_OK;
  }
  if (s->p.mirostat_tau > 0) {
    *id = draw_mirostat(s, best);
    return TN_OK;
  }
  size_t from;
  cut_candidates(s, best.logit, &from);
  if (by_typical(s)) best = s->c[s->vocab - 1]; /* min-p's measure is the best of what is left */
  *id = draw_candidate(s, from, best.logit);
  return TN_OK;
}
