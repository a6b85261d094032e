/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/attention.h"

#include <math.h>

/* v is Where(keep, 0, -inf). */
static bool is_keep(const tni_graph *g, tn_id v, tn_id *keep) {
  const tni_node *n = tni_match_node(g, v, TN_OP_WHERE);
  double zero, low;
  if (!n || !tni_match_scalar(g, n->pub.in[1], &zero) || !tni_match_scalar(g, n->pub.in[2], &low)) return false;
  if (zero != 0 || low != (double)-INFINITY || !tni_match_same_shape(g, n->pub.in[0], v)) return false;
  *keep = n->pub.in[0];
  return true;
}

bool tni_attention_layer_of(const tni_graph *g, tn_id v, uint32_t side, tni_attention_layer *l, tn_id *under) {
  const tni_node *n = tni_match_node(g, v, TN_OP_WHERE);
  *l = (tni_attention_layer){.mask = TN_NONE, .keep = TN_NONE, .low = (double)-INFINITY, .scale = 1};
  if (n && side == 0) {
    l->inverted = tni_match_scalar(g, n->pub.in[1], &l->low);
    if (!l->inverted && !tni_match_scalar(g, n->pub.in[2], &l->low)) return false;
    *under = n->pub.in[l->inverted ? 2 : 1];
    l->keep = n->pub.in[0];
    if (l->low != (double)-INFINITY && (!(l->low <= -1e30) || g->values[v]->pub.dtype == TN_DT_F16)) return false;
    return tni_match_same_shape(g, *under, v);
  }
  if (!(n = tni_match_node(g, v, TN_OP_ADD))) return false;
  *under = n->pub.in[side];
  l->mask = n->pub.in[!side];
  if (is_keep(g, l->mask, &l->keep)) l->mask = TN_NONE;
  return tni_match_same_shape(g, *under, v);
}

static bool fits(const tni_graph *g, tn_id mask, tn_id scores, bool one_head) {
  const tni_value *x = tni_match_value(g, mask), *s = g->values[scores];
  const uint32_t rank = s->pub.rank;
  if (x->pub.rank < 1 || x->pub.rank > (one_head ? 2 : 4)) return false; /* of 3 axes the first would be heads */
  for (uint32_t i = 0; i < x->pub.rank; i++) {
    const tn_expr d = x->pub.dims[x->pub.rank - 1 - i];
    int64_t n;
    if (d == TNI_EXPR_NONE) return false;
    if (d != s->pub.dims[rank - 1 - i] && (i == 0 || !tni_ex_is_const(g->exprs, d, &n) || n != 1)) return false;
  }
  return true;
}

bool tni_attention_masks_fit(const tni_graph *g, const tni_attention_masks *m, tn_id scores, bool one_head,
                             uint32_t dtype) {
  for (uint32_t i = 0; i < m->n; i++) {
    const tni_attention_layer *l = &m->layer[i];
    if (l->mask == TN_NONE && !(l->low * l->scale <= -1e30)) return false;
    if (!fits(g, l->mask != TN_NONE ? l->mask : l->keep, scores, one_head)) return false;
    if (l->mask != TN_NONE && g->values[l->mask]->pub.dtype != dtype) return false;
  }
  return true;
}

/* A node over some of a, b, c; TN_NONE where one is missing that must not be, or without memory. */
static tn_id add(tni_graph *g, uint32_t dtype, const char *type, int64_t version, const tn_id *in, uint32_t n,
                 tn_error *err) {
  tni_build_node b = {.type = type, .version = version, .n_in = n};
  for (uint32_t i = 0; i < n; i++)
    if ((b.in[i] = in[i]) == TN_NONE) return TN_NONE;
  return tni_build_op(g, &b, dtype, TNI_RANK_UNKNOWN, NULL, err);
}

static tn_id add_bool(tni_graph *g, const tni_attention_layer *l, tn_id all, tn_error *err) {
  const tn_id keep = l->inverted ? add(g, TN_DT_BOOL, "Not", 1, &l->keep, 1, err) : l->keep;
  const tn_id in[2] = {all, keep};
  return all == TN_NONE ? keep : add(g, TN_DT_BOOL, "And", 7, in, 2, err);
}

static tn_id add_float(tni_graph *g, const tni_attention_layer *l, tn_id all, uint32_t dtype, tn_error *err) {
  if (l->mask != TN_NONE) {
    const tn_id scaled[2] = {l->mask, l->scale == 1 ? TN_NONE : tni_build_filled(g, dtype, 1, l->scale)};
    const tn_id in[2] = {all, l->scale == 1 ? l->mask : add(g, dtype, "Mul", 14, scaled, 2, err)};
    return all == TN_NONE || in[1] == TN_NONE ? in[1] : add(g, dtype, "Add", 14, in, 2, err);
  }
  if (all == TN_NONE) all = tni_build_filled(g, dtype, 1, 0);
  const tn_id low = tni_build_filled(g, dtype, 1, l->low * l->scale);
  const tn_id in[3] = {l->keep, l->inverted ? low : all, l->inverted ? all : low};
  return add(g, dtype, "Where", 16, in, 3, err);
}

tn_status tni_attention_masks_build(tni_graph *g, const tni_attention_masks *m, uint32_t dtype, tn_id *mask,
                                    tn_error *err) {
  bool is_bool = true;
  *mask = TN_NONE;
  for (uint32_t i = 0; i < m->n; i++)
    is_bool = is_bool && m->layer[i].mask == TN_NONE && m->layer[i].low == (double)-INFINITY;
  for (uint32_t i = m->n; i-- > 0;) {
    *mask = is_bool ? add_bool(g, &m->layer[i], *mask, err) : add_float(g, &m->layer[i], *mask, dtype, err);
    if (*mask == TN_NONE) return tni_fail_memory(err, "attention");
  }
  return TN_OK;
}
