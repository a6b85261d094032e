/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over caches of short elements in a judged run. The bound of runtime/conform/numbers/cache_bound.h, which knows
 * the weight of each key, is made wider here to hold for any: masks and windows are not looked at.
 *
 * A query that is off by r moves the score of key p by r k_p, of which r c is common to all keys, for any c: that changes
 * no weight. So with c the mean key a score counts as off by d = sum of |r_e| max |k_pe - c_e|, and the result by
 * exp(d) (exp(d) - 1) of the range of the values, which no mixture leaves. Rounded probabilities are on top of that.
 */
#include <math.h>

#include "runtime/oracle/oracle.h"
#include "runtime/oracle/tasks/evaluation.h"

enum { Q, K, V, MASK, PAST_K, PAST_V };

/* [batch, heads, rows, size], or with heads beside each other [batch, rows, heads * size]. */
typedef struct rows {
  const float *x;
  int64_t batch, heads, n, size;
  bool beside;
} rows;

static const float *row_of(const rows *r, int64_t b, int64_t head, int64_t i) {
  return r->x + (r->beside ? ((b * r->n + i) * r->heads + head) * r->size : ((b * r->heads + head) * r->n + i) * r->size);
}

static tn_status rows_of(tni_evaluation *ev, const tn_node *n, uint32_t input, const char *heads, rows *r) {
  tni_tensor t;
  float *x;
  int64_t count;
  tn_status st = tni_ref_header(ev, n->in[input], &t);
  *r = (rows){.beside = t.rank == 3};
  if (st == TN_OK) st = tni_ref_floats(ev, n, input, &x, &count);
  if (st != TN_OK || !x || (t.rank != 3 && t.rank != 4)) return st;
  r->heads = r->beside ? tni_attr_i(n, heads, 0) : t.dims[1];
  if (r->heads < 1) return TN_OK;
  r->x = x;
  r->batch = t.dims[0];
  r->n = t.dims[r->beside ? 1 : 2];
  r->size = r->beside ? t.dims[2] / r->heads : t.dims[3];
  return TN_OK;
}

/* What one head's keys and values say of each element, and of rounding. */
typedef struct head {
  double *mean, *off, *most; /* [size] of the keys: off: the most from the mean (from 0 under a soft cap) */
  double *range, *v_most;    /* [v size] */
  double *codes, scale;      /* of int8: sums of the codes' magnitudes, and the largest scale */
} head;

static bool is_finite(const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!(fabsf(x[i]) < INFINITY)) return false;
  return true;
}

/* Not by fmax, on which gcc 12 for aarch64 ends with an internal error. */
static double further(double most, float x) { return fabs((double)x) > most ? fabs((double)x) : most; }

static void look_at_keys(const rows *k, int64_t b, int64_t h, bool capped, head *o) {
  int64_t n = 0;
  for (int64_t e = 0; e < k->size; e++) o->mean[e] = o->off[e] = o->most[e] = 0;
  for (int64_t p = 0; p < k->n; p++) {
    const float *x = row_of(k, b, h, p);
    if (!is_finite(x, k->size)) continue;
    n++;
    for (int64_t e = 0; e < k->size; e++) o->mean[e] += (double)x[e];
  }
  for (int64_t e = 0; e < k->size; e++) o->mean[e] = capped || !n ? 0 : o->mean[e] / (double)n;
  for (int64_t p = 0; p < k->n; p++) {
    const float *x = row_of(k, b, h, p);
    if (!is_finite(x, k->size)) continue;
    for (int64_t e = 0; e < k->size; e++) {
      o->off[e] = fmax(o->off[e], fabs((double)x[e] - o->mean[e]));
      o->most[e] = fmax(o->most[e], fabs((double)x[e]));
    }
  }
}

/* codes is the lower ends until all rows were seen, then it is filled. */
static void look_at_values(const rows *v, int64_t b, int64_t h, head *o) {
  o->scale = 0;
  for (int64_t e = 0; e < v->size; e++) o->range[e] = -INFINITY, o->codes[e] = INFINITY;
  for (int64_t p = 0; p < v->n; p++) {
    const float *x = row_of(v, b, h, p);
    for (int64_t e = 0; e < v->size && is_finite(x, v->size); e++) {
      o->range[e] = fmax(o->range[e], (double)x[e]);
      o->codes[e] = fmin(o->codes[e], (double)x[e]);
    }
  }
  for (int64_t e = 0; e < v->size; e++) {
    const bool any = o->range[e] >= o->codes[e];
    o->v_most[e] = any ? fmax(fabs(o->range[e]), fabs(o->codes[e])) : 0;
    o->range[e] = any ? o->range[e] - o->codes[e] : 0;
    o->codes[e] = 0;
  }
  for (int64_t p = 0; p < v->n; p++) {
    const float *x = row_of(v, b, h, p);
    double most = 0;
    if (!is_finite(x, v->size)) continue;
    for (int64_t e = 0; e < v->size; e++) most = further(most, x[e]);
    for (int64_t e = 0; e < v->size && most > 0; e++) o->codes[e] += fabs((double)x[e]) * 127 / most;
    o->scale = fmax(o->scale, most / 127);
  }
}

/* How far a query's scores may be from each other's. */
static double scores_off(const float *q, const head *o, int64_t size, uint32_t dtype, double scale) {
  tni_kept_rounding r = tni_kept_rounding_of(dtype, size);
  double most = 0, d = 0;
  for (int64_t e = 0; e < size; e++) most = further(most, q[e]);
  if (dtype == TN_DT_I8) r.step = scale * tni_kept_half_step(most);
  for (int64_t e = 0; e < size; e++) {
    const double x = scale * fabs((double)q[e]);
    d += (r.u * x + r.step) * o->off[e] + 2 * r.terms * x * o->most[e];
  }
  return d;
}

static double probabilities_off(const head *o, int64_t keys, int64_t e, uint32_t dtype) {
  if (dtype == TN_DT_I8) return tni_kept_half_step(o->scale) * o->codes[e];
  const tni_kept_rounding r = tni_kept_rounding_of(dtype, keys);
  return (2 * r.u + r.terms + 2 * (double)keys * r.step) * o->v_most[e];
}

static double *doubles(tni_evaluation *ev, int64_t n) {
  return tni_arena_alloc(ev->arena, (size_t)(n + 1) * sizeof(double), 64);
}

static bool make_head(tni_evaluation *ev, head *o, int64_t size, int64_t v_size) {
  *o = (head){.mean = doubles(ev, size),
              .off = doubles(ev, size),
              .most = doubles(ev, size),
              .range = doubles(ev, v_size),
              .v_most = doubles(ev, v_size),
              .codes = doubles(ev, v_size)};
  return o->mean && o->off && o->most && o->range && o->v_most && o->codes;
}

/* What K's memory is kept as; TN_DT_UNDEFINED: as the graph has it, or nobody may round. */
static uint32_t kept_as(const tni_evaluation *ev, const tn_node *n) {
  const uint32_t r = tni_ref_region(ev->x, ev->task, n->in[K]);
  const uint32_t dtype = r == TN_NONE ? TN_DT_UNDEFINED : ev->x->regions[r].dtype;
  return dtype == TN_DT_I8 || dtype == TN_DT_F16 || dtype == TN_DT_BF16 ? dtype : TN_DT_UNDEFINED;
}

static bool fit(const rows *q, const rows *k, const rows *v, int64_t count) {
  return q->x && k->x && v->x && q->size == k->size && k->n == v->n && k->heads == v->heads && q->heads % k->heads == 0 &&
         q->batch == k->batch && q->batch == v->batch && count == q->batch * q->heads * q->n * v->size;
}

tn_status tni_ref_kept_bound(tni_evaluation *ev, const tn_node *n, tni_evaluated *out) {
  const uint32_t dtype = kept_as(ev, n);
  const bool past = n->n_in > PAST_K && n->in[PAST_K] != TN_NONE;
  const bool capped = tni_attr_f(n, "softcap", 0) > 0;
  rows q = {0}, k = {0}, v = {0};
  int64_t count = 0;
  head o;
  if (dtype == TN_DT_UNDEFINED || past) return TN_OK; /* with a past of its own no cache is kept in place */
  tn_status st = rows_of(ev, n, Q, "q_num_heads", &q);
  if (st == TN_OK) st = rows_of(ev, n, K, "kv_num_heads", &k);
  if (st == TN_OK) st = rows_of(ev, n, V, "kv_num_heads", &v);
  if (st == TN_OK) st = tni_dims_count(out->t.dims, out->t.rank, &count);
  if (st != TN_OK || !fit(&q, &k, &v, count)) return st;
  if (!make_head(ev, &o, k.size, v.size)) return tni_fail_memory(ev->err, n->name);
  const double scale = fabs((double)tni_attr_f(n, "scale", (float)(1 / sqrt((double)q.size))));
  const rows y = {(const float *)out->bound, q.batch, q.heads, q.n, v.size, q.beside};
  for (int64_t b = 0; b < q.batch; b++)
    for (int64_t h = 0; h < q.heads; h++) {
      const int64_t kv = h / (q.heads / k.heads);
      if (h % (q.heads / k.heads) == 0) {
        look_at_keys(&k, b, kv, capped, &o);
        look_at_values(&v, b, kv, &o);
      }
      for (int64_t i = 0; i < q.n; i++) {
        const double d = scores_off(row_of(&q, b, h, i), &o, q.size, dtype, scale), part = fmin(expm1(d) * exp(d), 1);
        float *bound = out->bound + (row_of(&y, b, h, i) - y.x);
        for (int64_t e = 0; e < v.size; e++)
          bound[e] += (float)(part * o.range[e] + fmin(probabilities_off(&o, k.n, e, dtype), 2 * o.v_most[e]));
      }
    }
  return TN_OK;
}
