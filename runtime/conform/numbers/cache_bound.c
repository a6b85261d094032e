/* SPDX-License-Identifier: Apache-2.0
 *
 * With w the weights of the exact softmax and e_p what a score is off by, |e_p| <= d_p, the result is off by
 *   sum of w_p (exp(e_p) - 1) (v_p - y) / sum of w_p exp(e_p),
 * as the sum of w_p (v_p - y) is 0. Scores count from that of the greatest, so that what rounding a query does to all
 * keys alike is nothing: d_p is of k_p - k_top. Rounded probabilities are on top of that.
 */
#include "runtime/conform/numbers/cache_bound.h"

#include <math.h>

#include "runtime/conform/numbers/num.h"
#include "runtime/oracle/oracle.h"

static double most_of(const float *x, int64_t n) {
  double most = 0;
  /* not by fmax, on which gcc 12 for aarch64 ends with an internal error */
  for (int64_t i = 0; i < n; i++) most = fabs((double)x[i]) > most ? fabs((double)x[i]) : most;
  return most;
}

/* Of the query, times its scale, and of sums of so many terms. */
static tni_kept_rounding query_rounding(const tni_cn_attended *t) {
  tni_kept_rounding r = tni_kept_rounding_of(t->dtype, t->size);
  if (t->dtype == TN_DT_I8) r.step = fabs(t->scale) * tni_kept_half_step(most_of(t->q, t->size));
  return r;
}

static double capped(const tni_cn_attended *t, double s) { return t->cap > 0 ? t->cap * tanh(s / t->cap) : s; }

static double score_of(const tni_cn_attended *t, int64_t p) {
  double s = 0;
  for (int64_t e = 0; e < t->size; e++) s += (double)t->q[e] * (double)t->k[p * t->size + e];
  return t->scale * s;
}

/* How far the score of key p may be off: where `top` is a key, beside that of top. */
static double score_off(const tni_cn_attended *t, const tni_kept_rounding *r, int64_t p, int64_t top) {
  const float *k = t->k + p * t->size, *o = top < 0 ? NULL : t->k + top * t->size;
  double off = 0;
  for (int64_t e = 0; e < t->size; e++) {
    const double q = fabs(t->scale * (double)t->q[e]), other = o ? (double)o[e] : 0;
    off += (r->u * q + r->step) * fabs((double)k[e] - other) + r->terms * q * (fabs((double)k[e]) + fabs(other));
  }
  return off;
}

/* A soft cap takes what is common to all keys apart: then each score is off by itself. */
static double capped_off(const tni_cn_attended *t, double score, double off) {
  const double c = capped(t, score);
  return fmax(capped(t, score + off) - c, c - capped(t, score - off));
}

/* Weights into w, and how far their scores are off into d. Returns the key with the greatest. */
static int64_t weights_of(const tni_cn_attended *t, double *w, double *d) {
  const tni_kept_rounding r = query_rounding(t);
  int64_t top = 0;
  double sum = 0;
  for (int64_t p = 0; p < t->n; p++) {
    w[p] = capped(t, score_of(t, p)) + t->added[p];
    if (w[p] > w[top]) top = p;
  }
  const double own = t->cap > 0 ? capped_off(t, score_of(t, top), score_off(t, &r, top, -1)) : 0;
  for (int64_t p = 0; p < t->n; p++) {
    d[p] = p == top     ? 0
           : t->cap > 0 ? own + capped_off(t, score_of(t, p), score_off(t, &r, p, -1))
                        : score_off(t, &r, p, top);
  }
  const double greatest = w[top];
  for (int64_t p = 0; p < t->n; p++) sum += w[p] = exp(w[p] - greatest);
  for (int64_t p = 0; p < t->n; p++) w[p] /= sum;
  return top;
}

/* Of rows of int8, a block's probabilities times the scales of their rows: half a step of the largest, whatever blocks
 * are made; else each by itself, and so what they are divided by. w: weights with the scores' errors in them; z: 1 over
 * the sum of probabilities of which the largest is 1. */
static double probabilities_off(const tni_cn_attended *t, const double *w, double z, int64_t e) {
  double sum = 0, codes = 0, most = 0, greatest = 0;
  for (int64_t p = 0; p < t->n; p++) {
    const double v = fabs((double)t->v[p * t->size + e]), scale = most_of(t->v + p * t->size, t->size) / 127;
    if (isinf(t->added[p])) continue;
    sum += w[p] * v;
    greatest = fmax(greatest, v);
    codes += scale > 0 ? v / scale : 0;
    most = fmax(most, w[p] * scale);
  }
  if (t->dtype == TN_DT_I8) return tni_kept_half_step(most) * codes;
  const tni_kept_rounding r = tni_kept_rounding_of(t->dtype, t->n);
  return (2 * r.u + r.terms) * sum + 2 * (double)t->n * r.step * z * greatest;
}

void tni_cn_attended_bound(const tni_cn_attended *t, double *w, float *bound) {
  double *d = w + t->n, least = 0;
  const int64_t top = weights_of(t, w, d);
  const double z = w[top];
  for (int64_t p = 0; p < t->n; p++) least += w[p] * exp(-d[p]);
  for (int64_t e = 0; e < t->size; e++) {
    double y = 0, off = 0;
    for (int64_t p = 0; p < t->n; p++) y += w[p] * (double)t->v[p * t->size + e];
    for (int64_t p = 0; p < t->n; p++)
      if (w[p] > 0) off += w[p] * expm1(d[p]) * fabs((double)t->v[p * t->size + e] - y) / least;
    bound[e] += (float)off;
  }
  for (int64_t p = 0; p < t->n; p++)
    if (w[p] > 0) w[p] = fmin(1, w[p] * exp(d[p]) / least);
  for (int64_t e = 0; e < t->size; e++) bound[e] += (float)probabilities_off(t, w, z, e);
}
