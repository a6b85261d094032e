/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/decoder/attention.h"

#include <math.h>
#include <string.h>

/* v is Where(keep, 0, -inf). */
static bool is_keep(const tni_graph *g, tn_id v, tn_id *keep) {
  const tni_node *n = tni_match_node(g, v, TN_OP_WHERE);
  double zero, low;
  if (!n || !tni_match_scalar(g, n->pub.in[1], &zero) || !tni_match_scalar(g, n->pub.in[2], &low)) return false;
  if (zero != 0 || low != (double)-INFINITY || !tni_match_same_shape(g, n->pub.in[0], v)) return false;
  *keep = n->pub.in[0];
  return true;
}

static tn_expr from_end(const tni_graph *g, tn_id v, uint32_t i) {
  const tn_value *x = &g->values[v]->pub;
  return x->dims[x->rank - 1 - i];
}

/* Queries of a and of b are as many, given that keys are: the same dim, or that of the keys in both. */
static bool same_rows(const tni_graph *g, tn_id a, tn_id b) {
  const tn_expr ra = from_end(g, a, 1), rb = from_end(g, b, 1);
  if (ra == TNI_EXPR_NONE || rb == TNI_EXPR_NONE) return false;
  return ra == rb || (ra == from_end(g, a, 0) && rb == from_end(g, b, 0));
}

/* Same dims, given that the keys are as many in both (attention.c says why they are). */
static bool same_but_keys(const tni_graph *g, tn_id a, tn_id b) {
  const tn_value *x = &g->values[a]->pub, *y = &g->values[b]->pub;
  if (x->rank != y->rank || (x->rank != 3 && x->rank != 4) || !same_rows(g, a, b)) return false;
  for (uint32_t d = 0; d + 2 < x->rank; d++)
    if (x->dims[d] == TNI_EXPR_NONE || x->dims[d] != y->dims[d]) return false;
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
    if (l->low != (double)-INFINITY && (!(l->low <= tni_match_lowest(g)) || g->values[v]->pub.dtype == TN_DT_F16))
      return false;
    return same_but_keys(g, *under, v);
  }
  if (!(n = tni_match_node(g, v, TN_OP_ADD))) return false;
  *under = n->pub.in[side];
  l->mask = n->pub.in[!side];
  if (is_keep(g, l->mask, &l->keep)) l->mask = TN_NONE;
  return same_but_keys(g, *under, v);
}

/* v is the last elements of n along the keys, as many as scores have: Slice from n - T on. Beyond T = n that
 * starts to count from the end, which scores fit no more but for T = n + 1. */
static bool is_tail(const tni_graph *g, tn_id v, tn_id scores) {
  const tni_node *n = tni_match_node(g, v, TN_OP_SLICE);
  const tni_value *from = n ? tni_match_value(g, n->pub.in[1]) : NULL;
  const double rank = g->values[v]->pub.rank;
  double end, axis, step = 1;
  int64_t all;
  if (!n || !tni_match_rank(g, n->pub.in[0], g->values[v]->pub.rank) || from->n_elems != 1 || !from->elems)
    return false;
  if (!tni_ex_is_const(g->exprs, from_end(g, n->pub.in[0], 0), &all) || !tni_match_scalar(g, n->pub.in[2], &end) ||
      end < (double)all)
    return false;
  if (!tni_match_scalar(g, tni_match_in(n, 3), &axis) || (axis != -1 && axis != rank - 1)) return false;
  if (tni_match_in(n, 4) != TN_NONE && (!tni_match_scalar(g, n->pub.in[4], &step) || step != 1)) return false;
  return from->elems[0] != TNI_EXPR_NONE &&
         tni_ex_add(g->exprs, from->elems[0], from_end(g, scores, 0)) == from_end(g, n->pub.in[0], 0);
}

static bool is_one(const tni_graph *g, tn_expr d) {
  int64_t n;
  return tni_ex_is_const(g->exprs, d, &n) && n == 1;
}

/* A constant number of keys, not one: then scores have as many (attention.c says why). */
static bool is_fixed_length(const tni_graph *g, tn_expr keys) {
  int64_t n;
  return tni_ex_is_const(g->exprs, keys, &n) && n != 1;
}

static bool mask_fits(const tni_graph *g, tn_id mask, tn_id scores, bool one_head) {
  const tni_value *x = tni_match_value(g, mask), *s = g->values[scores];
  const uint32_t rank = s->pub.rank;
  if (x->pub.rank < 1 || x->pub.rank > (one_head ? 2 : 4)) return false; /* of 3 axes the first would be heads */
  const tn_expr keys = from_end(g, mask, 0);
  if (keys == TNI_EXPR_NONE ? !is_tail(g, mask, scores) : keys != s->pub.dims[rank - 1] && !is_fixed_length(g, keys))
    return false;
  for (uint32_t i = 1; i < x->pub.rank; i++) {
    const tn_expr d = from_end(g, mask, i);
    if (d == TNI_EXPR_NONE) return false;
    if (d != s->pub.dims[rank - 1 - i] && !is_one(g, d) && !(i == 1 && same_rows(g, mask, scores))) return false;
  }
  return true;
}

bool tni_attention_masks_fit(const tni_graph *g, const tni_attention_masks *m, tn_id scores, bool one_head,
                             uint32_t dtype) {
  for (uint32_t i = 0; i < m->n; i++) {
    const tni_attention_layer *l = &m->layer[i];
    if (l->mask == TN_NONE && !(l->low * l->scale <= tni_match_lowest(g))) return false;
    if (!mask_fits(g, l->mask != TN_NONE ? l->mask : l->keep, scores, one_head)) return false;
    if (l->mask != TN_NONE && g->values[l->mask]->pub.dtype != dtype) return false;
  }
  return true;
}

/* A node over some of a, b, c; TN_NONE where one is missing that must not be, or without memory. */
static tn_id add_mask_node(tni_graph *g, uint32_t dtype, const char *type, int64_t version, const tn_id *in, uint32_t n,
                           tn_error *err) {
  tni_build_node b = {.type = type, .version = version, .n_in = n};
  for (uint32_t i = 0; i < n; i++)
    if ((b.in[i] = in[i]) == TN_NONE) return TN_NONE;
  return tni_build_op(g, &b, dtype, TNI_RANK_UNKNOWN, NULL, err);
}

/* The mask with as many keys as scores have, where is_tail said so. */
static tn_id tail_of(tni_graph *g, tn_id mask, tn_id scores, tn_error *err) {
  tn_expr dims[4];
  if (from_end(g, mask, 0) != TNI_EXPR_NONE || !is_tail(g, mask, scores)) return mask;
  const tni_node *n = tni_match_node(g, mask, TN_OP_SLICE);
  const tn_value *x = &g->values[mask]->pub;
  tni_build_node b = {.type = "Slice", .version = 13, .n_in = n->pub.n_in};
  const tn_expr all = from_end(g, n->pub.in[0], 0), keys = tni_ex_min(g->exprs, from_end(g, scores, 0), all);
  const tn_expr first = tni_ex_sub(g->exprs, all, keys);
  for (uint32_t i = 0; i < b.n_in; i++) b.in[i] = n->pub.in[i];
  if ((b.in[1] = tni_build_elems(g, &first, 1)) == TN_NONE) return TN_NONE;
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  dims[x->rank - 1] = keys;
  return tni_build_op(g, &b, x->dtype, x->rank, dims, err);
}

static tn_id add_bool(tni_graph *g, const tni_attention_layer *l, tn_id all, tn_error *err) {
  const tn_id keep = l->inverted ? add_mask_node(g, TN_DT_BOOL, "Not", 1, &l->keep, 1, err) : l->keep;
  const tn_id in[2] = {all, keep};
  return all == TN_NONE ? keep : add_mask_node(g, TN_DT_BOOL, "And", 7, in, 2, err);
}

static tn_id add_float(tni_graph *g, const tni_attention_layer *l, tn_id all, uint32_t dtype, tn_error *err) {
  if (l->mask != TN_NONE) {
    const tn_id scaled[2] = {l->mask, l->scale == 1 ? TN_NONE : tni_build_filled(g, dtype, 1, l->scale)};
    const tn_id in[2] = {all, l->scale == 1 ? l->mask : add_mask_node(g, dtype, "Mul", 14, scaled, 2, err)};
    return all == TN_NONE || in[1] == TN_NONE ? in[1] : add_mask_node(g, dtype, "Add", 14, in, 2, err);
  }
  if (all == TN_NONE) all = tni_build_filled(g, dtype, 1, 0);
  const tn_id low = tni_build_filled(g, dtype, 1, l->low * l->scale);
  const tn_id in[3] = {l->keep, l->inverted ? low : all, l->inverted ? all : low};
  return add_mask_node(g, dtype, "Where", 16, in, 3, err);
}

tn_status tni_attention_masks_build(tni_graph *g, const tni_attention_masks *m, tn_id scores, uint32_t dtype,
                                    tn_id *mask, tn_error *err) {
  bool is_bool = true;
  *mask = TN_NONE;
  for (uint32_t i = 0; i < m->n; i++)
    is_bool = is_bool && m->layer[i].mask == TN_NONE && m->layer[i].low == (double)-INFINITY;
  for (uint32_t i = m->n; i-- > 0;) {
    tni_attention_layer l = m->layer[i];
    tn_id *which = l.mask != TN_NONE ? &l.mask : &l.keep;
    if ((*which = tail_of(g, *which, scores, err)) == TN_NONE) return tni_fail_memory(err, "attention");
    *mask = is_bool ? add_bool(g, &l, *mask, err) : add_float(g, &l, *mask, dtype, err);
    if (*mask == TN_NONE) return tni_fail_memory(err, "attention");
  }
  return TN_OK;
}
