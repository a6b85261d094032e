/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/forms/norm.h"

enum { MAX_ONES = 65536 };

/* v is mean(d^2) + eps. */
static bool mean_square(const tni_graph *g, tn_id v, tni_norm_core *c) {
  const tni_node *add = tni_match_node(g, v, TN_OP_ADD), *mean, *sq;
  tn_id m;
  if (!add || !tni_match_with_scalar(g, add, &c->eps, &m) || !(c->eps >= 0)) return false;
  mean = tni_match_node(g, m, TN_OP_REDUCE_MEAN);
  if (!mean || !tni_match_reduces_last(g, mean)) return false;
  if ((sq = tni_match_node(g, mean->pub.in[0], TN_OP_MUL))) {
    c->d = sq->pub.in[0];
    return sq->pub.in[0] == sq->pub.in[1];
  }
  sq = tni_match_node(g, mean->pub.in[0], TN_OP_POW);
  if (!sq || !tni_match_near(g, sq->pub.in[1], 2)) return false;
  c->d = sq->pub.in[0];
  return tni_match_same_shape(g, sq->pub.in[0], sq->pub.out[0]);
}

static bool is_float(const tni_graph *g, tn_id v) {
  const uint32_t t = g->values[v]->pub.dtype;
  return t == TN_DT_F16 || t == TN_DT_BF16 || t == TN_DT_F32 || t == TN_DT_F64;
}

static bool is_power_of_mean(const tni_graph *g, tn_id v, double exponent, tni_norm_core *c) {
  const tni_node *pow = tni_match_node(g, v, TN_OP_POW);
  const tni_value *e = pow ? tni_match_value(g, pow->pub.in[1]) : NULL;
  return e && e->pub.rank <= 1 && tni_match_near(g, pow->pub.in[1], exponent) && mean_square(g, pow->pub.in[0], c);
}

static bool is_root_of_mean(const tni_graph *g, tn_id v, tni_norm_core *c) {
  const tni_node *sqrt = tni_match_node(g, v, TN_OP_SQRT);
  return sqrt ? mean_square(g, sqrt->pub.in[0], c) : is_power_of_mean(g, v, 0.5, c);
}

static bool plain_rsqrt(const tni_graph *g, tn_id v, tni_norm_core *c) {
  const tni_node *n;
  if ((n = tni_match_node(g, v, TN_OP_RECIPROCAL))) return is_root_of_mean(g, n->pub.in[0], c);
  if ((n = tni_match_node(g, v, TN_OP_DIV)))
    return tni_match_near(g, n->pub.in[0], 1) && is_root_of_mean(g, n->pub.in[1], c);
  return is_power_of_mean(g, v, -0.5, c);
}

bool tni_norm_rsqrt(const tni_graph *g, tn_id v, tni_norm_core *c) {
  const tni_node *mul = tni_match_node(g, v, TN_OP_MUL);
  c->gain = TN_NONE;
  if (plain_rsqrt(g, v, c)) return true;
  for (uint32_t i = 0; mul && i < 2; i++) {
    c->gain = mul->pub.in[!i];
    if (plain_rsqrt(g, mul->pub.in[i], c)) return true;
  }
  return false;
}

static bool core_fits(const tni_graph *g, const tni_norm_core *c, tn_id v) {
  return is_float(g, c->d) && tni_match_same_shape(g, c->d, v);
}

bool tni_norm_core_of(const tni_graph *g, tn_id v, tni_norm_core *c) {
  const tni_node *n = tni_match_node(g, v, TN_OP_DIV);
  c->gain = TN_NONE;
  if (n) return is_root_of_mean(g, n->pub.in[1], c) && c->d == n->pub.in[0] && core_fits(g, c, v);
  n = tni_match_node(g, v, TN_OP_MUL);
  for (uint32_t i = 0; n && i < 2; i++)
    if (tni_norm_rsqrt(g, n->pub.in[i], c) && c->d == n->pub.in[!i] && core_fits(g, c, v)) return true;
  return false;
}

bool tni_norm_is_weight(const tni_graph *g, tn_id x, tn_id w) {
  const tni_value *vx = tni_match_value(g, x), *vw = tni_match_value(g, w);
  tn_expr last = tni_match_last_dim(g, w);
  int64_t one;
  if (!vx || !vw || last == TNI_EXPR_NONE || last != tni_match_last_dim(g, x)) return false;
  if (vw->pub.rank > vx->pub.rank || vw->pub.dtype != vx->pub.dtype) return false;
  for (uint32_t d = 0; d + 1 < vw->pub.rank; d++)
    if (!tni_ex_is_const(g->exprs, vw->pub.dims[d], &one) || one != 1) return false;
  return vw->pub.rank == 1 || (vw->pub.kind == TN_VALUE_CONST && vw->tensor);
}

static tn_id as_vector(tni_graph *g, tn_id w) {
  const tni_value *v = g->values[w];
  return v->pub.rank == 1 ? w : tni_build_view(g, w, 1, &v->tensor->dims[v->tensor->rank - 1]);
}

static bool can_have_ones(const tni_graph *g, tn_id x, int64_t *n) {
  tn_expr last = tni_match_last_dim(g, x);
  return last != TNI_EXPR_NONE && tni_ex_is_const(g->exprs, last, n) && *n >= 1 && *n <= MAX_ONES;
}

tn_status tni_norm_put(tni_graph *g, tni_node *last, const char *type, int64_t version, const tn_id x_scale_bias[3],
                       double eps, uint32_t *fired, tn_error *err) {
  const tn_id x = x_scale_bias[0], scale = x_scale_bias[1], bias = x_scale_bias[2];
  const uint32_t dtype = g->values[x]->pub.dtype;
  int64_t n;
  if (scale == TN_NONE && !can_have_ones(g, x, &n)) return TN_OK;
  tni_build_node b = {.type = type, .version = version, .n_in = bias == TN_NONE ? 2 : 3, .n_attr = 3};
  b.in[0] = x;
  b.in[1] = scale == TN_NONE ? tni_build_filled(g, dtype, n, 1) : as_vector(g, scale);
  if (bias != TN_NONE) b.in[2] = as_vector(g, bias);
  if (b.in[1] == TN_NONE || (b.n_in > 2 && b.in[2] == TN_NONE)) return tni_fail_memory(err, last->pub.name);
  b.attr[0] = tni_raw_int("axis", -1);
  b.attr[1] = tni_raw_float("epsilon", eps);
  b.attr[2] = tni_raw_int("stash_type", dtype == TN_DT_F64 ? TN_DT_F64 : TN_DT_F32);
  ++*fired;
  return tni_build_in_place(g, last, &b, err);
}
