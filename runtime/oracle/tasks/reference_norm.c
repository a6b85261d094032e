/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer normalization in a judged run. Where a row's elements lie close together x - mean cancels, and so does the variance
 * of who takes the mean of squares less the square of the mean: what rounding does then is more than any share of the result.
 * The reference computes in double, and the bound is what sums of D terms in float32 do to the mean and the variance, each
 * off by LAMBDA sqrt(D) roundings of its terms' magnitudes (reference_attend.c names the source).
 */
#include <float.h>
#include <math.h>

#include "runtime/oracle/tasks/evaluation.h"

enum { X, SCALE, BIAS };
enum { LAMBDA = 6, STEPS = 8 }; /* roundings of a result after mean and deviation are known */

/* A row's factors and summands; the elements of a [D] or, with heads, of a [heads * D] are taken in turn. */
typedef struct operand {
  float *v;
  int64_t n;
} operand;

static tn_status read_operand(tni_evaluation *ev, const tn_node *n, uint32_t i, operand *o) {
  *o = (operand){NULL, 0};
  return i < n->n_in && n->in[i] != TN_NONE ? tni_ref_floats(ev, n, i, &o->v, &o->n) : TN_OK;
}

/* It stands for rows of D as they come: one element, D, or D for each head. */
static bool is_read(const operand *o, int64_t D, int64_t heads) {
  return !o->v || o->n == 1 || o->n == D || o->n == D * heads;
}

static int64_t row_length(const tn_node *n, const tni_tensor *x, int64_t heads) {
  int64_t axis = n->op == TN_OP_LAYER_NORMALIZATION ? tni_attr_i(n, "axis", -1) : -1, D = 1;
  for (axis += axis < 0 ? x->rank : 0; axis >= 0 && axis < x->rank; axis++) D *= x->dims[axis];
  return heads > 0 ? D / heads : 0;
}

typedef struct row_sums {
  double mean, magnitude, square, var;
} row_sums;

static row_sums sums_of(const float *x, int64_t D) {
  row_sums s = {0};
  for (int64_t i = 0; i < D; i++) {
    s.mean += (double)x[i] / (double)D;
    s.magnitude += fabs((double)x[i]) / (double)D;
    s.square += (double)x[i] * (double)x[i] / (double)D;
  }
  for (int64_t i = 0; i < D; i++) s.var += ((double)x[i] - s.mean) * ((double)x[i] - s.mean) / (double)D;
  return s;
}

static void normalize(const float *x, int64_t at, int64_t D, double eps, const operand *w, const operand *b, float *y,
                      float *bound) {
  const row_sums m = sums_of(x + at, D);
  const double u = 0x1p-24, k = LAMBDA * sqrt((double)D + 8) * u, s = sqrt(m.var + eps);
  const double lost = k * (m.square + m.mean * m.mean) / (m.var + eps); /* of the variance, either way to compute it */
  const double slope = lost < 1 ? 1 / sqrt(1 - lost) - 1 : HUGE_VAL;    /* of 1 / s */
  for (int64_t i = at; i < at + D; i++) {
    const double z = ((double)x[i] - m.mean) / s, f = w->v ? (double)w->v[i % w->n] : 1, c = b->v ? (double)b->v[i % b->n] : 0;
    const double r = z * f + c, dz = (k * m.magnitude + u * fabs(m.mean)) / s;
    const double off = fabs(f) * (dz + (z != 0 ? (fabs(z) + dz) * slope : 0)) + STEPS * u * (fabs(f * z) + fabs(r)) + 0x1p-126;
    y[i] = (float)r;
    bound[i] = off <= FLT_MAX ? (float)off : isnan(off) ? (float)off : FLT_MAX;
  }
}

tn_status tni_ref_norm(tni_evaluation *ev, const tn_node *n, tni_evaluated *out) {
  tni_tensor header;
  float *x;
  int64_t count = 0;
  operand w, b;
  tn_status st = tni_ref_header(ev, n->in[X], &header);
  if (st == TN_OK) st = tni_ref_floats(ev, n, X, &x, &count);
  if (st == TN_OK) st = read_operand(ev, n, SCALE, &w);
  if (st == TN_OK) st = read_operand(ev, n, BIAS, &b);
  if (st != TN_OK || out->t.dtype != TN_DT_F32 || !x) return st;
  const int64_t heads = n->op == TN_OP_LAYER_NORMALIZATION ? 1 : tni_attr_i(n, "num_heads", 1);
  const int64_t D = row_length(n, &header, heads);
  if (D < 1 || count % D || !is_read(&w, D, heads) || !is_read(&b, D, heads)) return TN_OK;
  out->bound = tni_arena_alloc(ev->arena, (size_t)(count + 1) * sizeof(float), 64);
  if (!out->bound) return tni_fail_memory(ev->err, n->name);
  float *y = out->t.data;
  for (int64_t i = 0; i < count; i += D) normalize(x, i, D, tni_attr_f(n, "epsilon", 1e-5), &w, &b, y, out->bound);
  return tni_ref_raise(ev, n->name, 0, out);
}
