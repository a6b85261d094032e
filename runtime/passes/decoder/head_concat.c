/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads joined along their last axis, part of the pass `heads`.
 *
 *   Concat(x_i [batch, heads, length, size_i], axis -1), each x_i split off an activation, or Expand of one head that
 * is
 *   ->  Transpose(Reshape(tenon.ConcatHeads(activations)))
 *
 * DeepSeek's queries and keys are such: a part that is turned and one that is not, and the keys' turned part is one
 * head for all. What undoes the split in the model (Attention in 3D form, a cache) then meets it.
 *
 * Keeps: every bit.
 */
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/heads.h"

typedef struct joined {
  tni_head_split part[TN_CONCAT_HEADS_MAX];
  int64_t heads, size, shared; /* of the result; bit i: operand i is one head for all */
} joined;

/* v is one head expanded to all; its operand, or TN_NONE. */
static tn_id one_for_all(const tni_graph *g, tn_id v) {
  const tni_node *n = tni_match_node(g, v, TN_OP_EXPAND);
  const tni_value *x = n ? tni_match_value(g, n->pub.in[0]) : NULL, *y = tni_match_value(g, v);
  int64_t one;
  if (!x || !tni_match_rank(g, v, 4) || !tni_match_rank(g, n->pub.in[0], 4)) return TN_NONE;
  for (uint32_t d = 0; d < 4; d++)
    if (d != 1 && x->pub.dims[d] != y->pub.dims[d]) return TN_NONE;
  return tni_ex_is_const(g->exprs, x->pub.dims[1], &one) && one == 1 ? n->pub.in[0] : TN_NONE;
}

static bool find_joined(tni_graph *g, const tni_node *n, joined *j) {
  const int64_t axis = tni_attr_i(&n->pub, "axis", 0);
  *j = (joined){.heads = 0};
  if (n->pub.n_in < 2 || n->pub.n_in > TN_CONCAT_HEADS_MAX || (axis != 3 && axis != -1) ||
      !tni_match_rank(g, n->pub.out[0], 4) ||
      !tni_ex_is_const(g->exprs, g->values[n->pub.out[0]]->pub.dims[1], &j->heads))
    return false;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const tn_id one = one_for_all(g, n->pub.in[i]);
    if (!tni_head_split_find(g, one != TN_NONE ? one : n->pub.in[i], &j->part[i])) return false;
    if (one != TN_NONE) j->shared |= INT64_C(1) << i;
    if (one == TN_NONE && j->part[i].heads != j->heads) return false;
    if (__builtin_add_overflow(j->size, j->part[i].size, &j->size)) return false;
  }
  return j->heads > 1 && j->size <= INT32_MAX / j->heads;
}

tn_status tni_head_concat(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err) {
  static const int64_t perm[4] = {0, 2, 1, 3};
  joined j;
  if (!find_joined(g, n, &j)) return TN_OK;
  const tni_value *y = g->values[n->pub.out[0]];
  const int64_t shape[4] = {0, 0, j.heads, j.size};
  const tn_expr *d = y->pub.dims, by_length[4] = {d[0], d[2], d[1], d[3]};
  const tn_expr dims[3] = {d[0], d[2], tni_ex_const(g->exprs, j.heads * j.size)};
  tni_build_node b = {.domain = "tenon", .type = "ConcatHeads", .version = 1, .n_in = n->pub.n_in, .n_attr = 2};
  tni_build_node t = {.type = "Transpose", .version = 13, .n_in = 1, .n_attr = 1};
  for (uint32_t i = 0; i < b.n_in; i++)
    if ((b.in[i] = tni_heads_flatten(g, &j.part[i], err)) == TN_NONE) return tni_fail_memory(err, n->pub.name);
  b.attr[0] = tni_raw_int("num_heads", j.heads);
  b.attr[1] = tni_raw_int("shared", j.shared);
  t.attr[0] = tni_raw_ints("perm", perm, 4);
  t.in[0] = tni_build_op(g, &b, y->pub.dtype, 3, dims, err);
  if (t.in[0] != TN_NONE) t.in[0] = tni_heads_reshape(g, t.in[0], shape, 4, by_length, err);
  if (t.in[0] == TN_NONE) return tni_fail_memory(err, n->pub.name);
  ++*fired;
  return tni_build_in_place(g, n, &t, err);
}
