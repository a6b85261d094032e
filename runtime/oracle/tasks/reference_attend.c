/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention's bound in a judged run: scores grow with what the nodes before it gave, and so does what rounding does to
 * their exponentials. A score of D products is taken to be off by LAMBDA sqrt(D) roundings of the product of the two
 * rows' lengths, not by D: Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019.
 */
#include <float.h>
#include <math.h>

#include "runtime/oracle/oracle.h"
#include "runtime/oracle/tasks/evaluation.h"

enum { Q, K, V, MASK, PAST_K, PAST_V, FIRST_OTHER };
enum { LAMBDA = 6, HIDES = 150 }; /* a score HIDES below another weighs nothing in f32 */

/* The largest finite magnitude of input i that is not over `limit`. */
static tn_status greatest(tni_evaluation *ev, const tn_node *n, uint32_t i, double limit, double *top) {
  int64_t count;
  float *x;
  const tn_status st = tni_ref_floats(ev, n, i, &x, &count);
  for (int64_t k = 0; st == TN_OK && x && k < count; k++)
    if (fabs((double)x[k]) <= limit) *top = fmax(*top, fabs((double)x[k]));
  return st;
}

/* The largest length of D elements of input i. */
static tn_status longest(tni_evaluation *ev, const tn_node *n, uint32_t i, int64_t D, double *top) {
  int64_t count;
  float *x;
  const tn_status st = tni_ref_floats(ev, n, i, &x, &count);
  for (int64_t row = 0; st == TN_OK && x && row + D <= count; row += D) {
    double square = 0;
    for (int64_t d = 0; d < D; d++) square += (double)x[row + d] * (double)x[row + d];
    if (square <= DBL_MAX) *top = fmax(*top, sqrt(square));
  }
  return st;
}

/* Elements of a head, and keys. */
static tn_status keys_of(tni_evaluation *ev, const tn_node *n, int64_t *D, int64_t *T) {
  tni_tensor k, past;
  tn_status st = tni_ref_header(ev, n->in[K], &k);
  if (st != TN_OK) return st;
  const int64_t heads = tni_attr_i(n, "kv_num_heads", 0);
  *T = k.rank == 3 ? k.dims[1] : k.dims[2];
  *D = k.rank == 3 && heads > 0 ? k.dims[2] / heads : k.dims[k.rank - 1];
  if (n->n_in > PAST_K && n->in[PAST_K] != TN_NONE && (st = tni_ref_header(ev, n->in[PAST_K], &past)) == TN_OK)
    *T += past.rank == 4 ? past.dims[2] : 0;
  return st;
}

static tn_status measure(tni_evaluation *ev, const tn_node *n, tni_attend_given *g) {
  int64_t D = 1;
  double q = 0, k = 0, slopes = 0;
  tn_status st = keys_of(ev, n, &D, &g->T);
  if (st == TN_OK && D < 1) D = 1;
  if (st == TN_OK) st = longest(ev, n, Q, D, &q);
  for (uint32_t i = K; st == TN_OK && i <= PAST_K; i += PAST_K - K) st = longest(ev, n, i, D, &k);
  for (uint32_t i = V; st == TN_OK && i <= PAST_V; i += PAST_V - V) st = greatest(ev, n, i, DBL_MAX, &g->v);
  g->score = fabs(tni_attr_f(n, "scale", 1 / sqrt((double)D))) * q * k;
  g->terms = LAMBDA * sqrt((double)D + 8);
  if (st == TN_OK) st = greatest(ev, n, MASK, 2 * g->score + HIDES, &g->added);
  /* slopes of tenon.Attention are multiplied by a distance */
  for (uint32_t i = FIRST_OTHER; st == TN_OK && n->op == TN_OP_TENON_ATTENTION && i < n->n_in; i++)
    st = greatest(ev, n, i, DBL_MAX, &slopes);
  g->added += slopes * (double)g->T;
  return st;
}

tn_status tni_ref_attend_bound(tni_evaluation *ev, const tn_node *n, tni_evaluated *out) {
  tni_attend_given g = {.u = 0x1p-24, .tiny = 0x1p-126};
  if (out->t.dtype != TN_DT_F32 || out->bound) return TN_OK;
  tn_status st = measure(ev, n, &g);
  if (st == TN_OK) st = tni_ref_raise(ev, n->name, tni_reference_attend(&g), out);
  if (st != TN_OK) return st;
  return tni_ref_kept_bound(ev, n, out);
}
