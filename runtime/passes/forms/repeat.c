/* SPDX-License-Identifier: Apache-2.0
 *
 * repeat:  elements that stand several times, one after the other, are one Gather by a constant.
 *  - GatherND(Expand(x [K, 1, ..] to [K, R, ..]), constant pairs (i, r)): Gather(x [K, ..], constant i). PyTorch's
 *    repeat_interleave is exported so: which copy is read does not matter, all are the same. All i and r are proved to
 * lie inside of the axes that they index.
 *  - Reshape(Expand(x [.., n, 1] to [.., n, R]) to [.., n * R]): Gather(x [.., n], constant 0, 0, .., 1, 1, ..) along
 * the last axis. A mixture of experts gives a group's weight to its experts so.
 *
 * Keeps: the value, name, dtype and shape of the last node, bit for bit.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/forms/forms.h"

enum { MAX_ROWS = 65536, MAX_LAST = 1024 };

/* x [K, 1, ..] that Expand repeats along its second axis only: *k and *r are those dims. */
static bool find_copies(const tni_graph *g, tn_id wide, tn_id *x, int64_t *k, int64_t *r) {
  const tni_node *n = tni_match_node(g, wide, TN_OP_EXPAND);
  const tni_value *y = tni_match_value(g, wide), *v;
  int64_t one;
  if (!n || !(v = tni_match_value(g, n->pub.in[0])) || v->pub.rank < 2 || !tni_match_rank(g, wide, v->pub.rank) ||
      !tni_match_rank(g, n->pub.in[0], v->pub.rank))
    return false;
  for (uint32_t d = 0; d < v->pub.rank; d++)
    if (d != 1 && v->pub.dims[d] != y->pub.dims[d]) return false;
  *x = n->pub.in[0];
  return tni_ex_is_const(g->exprs, v->pub.dims[1], &one) && one == 1 && tni_ex_is_const(g->exprs, v->pub.dims[0], k) &&
         tni_ex_is_const(g->exprs, y->pub.dims[1], r);
}

/* The constant vector of the first numbers of `pairs`, int64[n, 2], each within k and r; TN_NONE: it is no such thing.
 */
static tn_id read_rows(tni_graph *g, tn_id pairs, int64_t k, int64_t r) {
  const tni_value *v = tni_match_value(g, pairs);
  const tni_tensor *t = v && v->pub.kind == TN_VALUE_CONST ? v->tensor : NULL;
  if (!t || !t->data || t->dtype != TN_DT_I64 || t->rank != 2 || t->dims[1] != 2 || t->dims[0] > MAX_ROWS)
    return TN_NONE;
  const int64_t n = t->dims[0];
  int64_t *rows = malloc(((size_t)n + 1) * sizeof *rows);
  tn_id made = TN_NONE;
  bool inside = rows != NULL;
  for (int64_t i = 0; inside && i < n; i++) {
    int64_t copy;
    tni_tensor_to_i64(t, 2 * i, 1, &rows[i]);
    tni_tensor_to_i64(t, 2 * i + 1, 1, &copy);
    inside = rows[i] >= -k && rows[i] < k && copy >= -r && copy < r;
  }
  if (inside) made = tni_build_const(g, TN_DT_I64, 1, &n, rows);
  free(rows);
  return made;
}

static tn_status repeat_node(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err) {
  const int64_t one = 1, axis = 1;
  int64_t k, r;
  tni_build_node flat = {.type = "Squeeze", .version = 13, .n_in = 2};
  tni_build_node b = {.type = "Gather", .version = 13, .n_in = 2, .n_attr = 1};
  tn_expr dims[TN_MAX_RANK];
  if (tni_attr_i(&n->pub, "batch_dims", 0) || !find_copies(g, n->pub.in[0], &flat.in[0], &k, &r)) return TN_OK;
  if ((b.in[1] = read_rows(g, n->pub.in[1], k, r)) == TN_NONE) return TN_OK;
  const tni_value *x = g->values[flat.in[0]];
  for (uint32_t d = 0; d < x->pub.rank; d++)
    if (d != 1) dims[d > 1 ? d - 1 : d] = x->pub.dims[d];
  if ((flat.in[1] = tni_build_const(g, TN_DT_I64, 1, &one, &axis)) == TN_NONE ||
      (b.in[0] = tni_build_op(g, &flat, x->pub.dtype, x->pub.rank - 1, dims, err)) == TN_NONE)
    return tni_fail_memory(err, n->pub.name);
  b.attr[0] = tni_raw_int("axis", 0);
  ++*fired;
  return tni_build_in_place(g, n, &b, err);
}

/* x [.., n] of an Unsqueeze or Reshape to [.., n, 1] that makes u; TN_NONE: it is no such thing. */
static tn_id without_last(const tni_graph *g, tn_id u) {
  const tni_node *n = tni_match_node(g, u, TN_OP_UNSQUEEZE);
  int64_t one;
  if (!n && !(n = tni_match_node(g, u, TN_OP_RESHAPE))) return TN_NONE;
  const tni_value *x = tni_match_value(g, n->pub.in[0]), *y = tni_match_value(g, u);
  if (!x || x->pub.rank < 1 || x->pub.rank >= TN_MAX_RANK || !tni_match_rank(g, n->pub.in[0], x->pub.rank) ||
      !tni_match_rank(g, u, x->pub.rank + 1) ||
      memcmp(x->pub.dims, y->pub.dims, x->pub.rank * sizeof *x->pub.dims) != 0)
    return TN_NONE;
  return tni_ex_is_const(g->exprs, y->pub.dims[x->pub.rank], &one) && one == 1 ? n->pub.in[0] : TN_NONE;
}

/* v is x [.., *n] with each element of the last axis *times times. */
static bool find_last(const tni_graph *g, const tni_node *last, tn_id *x, int64_t *n, int64_t *times) {
  const tni_node *wide = tni_match_node(g, last->pub.in[0], TN_OP_EXPAND);
  const tni_value *w = tni_match_value(g, last->pub.in[0]), *y = tni_match_value(g, last->pub.out[0]), *v;
  int64_t all;
  if (!wide || (*x = without_last(g, wide->pub.in[0])) == TN_NONE) return false;
  v = g->values[*x];
  const uint32_t rank = v->pub.rank;
  if (!tni_match_rank(g, last->pub.in[0], rank + 1) || !tni_match_rank(g, last->pub.out[0], rank)) return false;
  for (uint32_t d = 0; d < rank; d++)
    if (v->pub.dims[d] != w->pub.dims[d] || (d + 1 < rank && v->pub.dims[d] != y->pub.dims[d])) return false;
  return tni_ex_is_const(g->exprs, v->pub.dims[rank - 1], n) && tni_ex_is_const(g->exprs, w->pub.dims[rank], times) &&
         tni_ex_is_const(g->exprs, y->pub.dims[rank - 1], &all) && *n > 0 && *times > 1 && all == *n * *times &&
         all <= MAX_LAST;
}

static tn_status repeat_last(tni_graph *g, tni_node *node, uint32_t *fired, tn_error *err) {
  int64_t n, times, at[MAX_LAST];
  tni_build_node b = {.type = "Gather", .version = 13, .n_in = 2, .n_attr = 1};
  if (!find_last(g, node, &b.in[0], &n, &times)) return TN_OK;
  const int64_t all = n * times;
  for (int64_t i = 0; i < all; i++) at[i] = i / times;
  if ((b.in[1] = tni_build_const(g, TN_DT_I64, 1, &all, at)) == TN_NONE) return tni_fail_memory(err, node->pub.name);
  b.attr[0] = tni_raw_int("axis", -1);
  ++*fired;
  return tni_build_in_place(g, node, &b, err);
}

tn_status tni_pass_repeat(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *node = g->nodes[i];
    tn_status st = TN_OK;
    if (node->dead || !node->op) continue;
    if (node->pub.op == TN_OP_GATHER_ND) st = repeat_node(g, node, &fired, err);
    if (node->pub.op == TN_OP_RESHAPE) st = repeat_last(g, node, &fired, err);
    if (st != TN_OK) return st;
  }
  return tni_build_done(g, fired, n, err);
}
