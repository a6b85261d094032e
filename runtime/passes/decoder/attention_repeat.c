/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeated heads of an Attention that is there already, part of the pass `attention`.
 *
 *   Attention(q [batch, length, heads * size], k, v), k and v both Reshape(Transpose(repeat_kv(x [batch, kv, keys,
 * size])))
 *   ->  Attention(Transpose(Reshape(q)), x of k, x of v) on four axes, Transpose and Reshape back
 *
 * The pass `heads` then finds the caches that x are, and puts it on three axes again.
 *
 * Keeps: every bit. present_key and present_value must be nobody's.
 */
#include <string.h>

#include "runtime/passes/decoder/attention.h"

tn_id tni_attention_without_repeat(const tni_graph *g, tn_id v) {
  const tni_node *out = tni_match_node(g, v, TN_OP_RESHAPE), *wide, *in;
  if (!out) out = tni_match_node(g, v, TN_OP_SQUEEZE); /* of one head */
  if (!out || !tni_match_rank(g, v, 4) || !(wide = tni_match_node(g, out->pub.in[0], TN_OP_EXPAND))) return v;
  if (!(in = tni_match_node(g, wide->pub.in[0], TN_OP_UNSQUEEZE)))
    in = tni_match_node(g, wide->pub.in[0], TN_OP_RESHAPE);
  if (!in || !tni_match_rank(g, in->pub.in[0], 4)) return v;
  const tni_value *x = g->values[in->pub.in[0]], *u = g->values[wide->pub.in[0]], *w = g->values[wide->pub.out[0]];
  int64_t one, heads, times, all;
  if (u->pub.rank != 5 || w->pub.rank != 5 || !tni_ex_is_const(g->exprs, u->pub.dims[2], &one) || one != 1) return v;
  if (!tni_ex_is_const(g->exprs, x->pub.dims[1], &heads) || !tni_ex_is_const(g->exprs, w->pub.dims[2], &times) ||
      !tni_ex_is_const(g->exprs, g->values[v]->pub.dims[1], &all) || heads < 1 || times < 1 || all / heads != times ||
      all % heads)
    return v;
  for (uint32_t d = 0; d < 4; d++) {
    const uint32_t at = d < 2 ? d : d + 1;
    if (u->pub.dims[at] != x->pub.dims[d] || w->pub.dims[at] != x->pub.dims[d]) return v;
    if (d != 1 && g->values[v]->pub.dims[d] != x->pub.dims[d]) return v;
  }
  return in->pub.in[0];
}

/* What v [batch, keys, heads * size] was joined from, with repeated heads taken off; TN_NONE: it is something else. */
static tn_id joined_of(const tni_graph *g, tn_id v, int64_t heads) {
  static const int64_t want[4] = {0, 2, 1, 3};
  int64_t perm[4], size, all;
  const tni_node *flat = tni_match_node(g, v, TN_OP_RESHAPE), *turn;
  if (!flat || !tni_match_rank(g, v, 3) || !tni_match_rank(g, flat->pub.in[0], 4) ||
      !(turn = tni_match_node(g, flat->pub.in[0], TN_OP_TRANSPOSE)) || !tni_match_perm(turn, 4, perm) ||
      memcmp(perm, want, sizeof want) != 0 || !tni_match_rank(g, turn->pub.in[0], 4))
    return TN_NONE;
  const tn_expr *x = g->values[turn->pub.in[0]]->pub.dims, *y = g->values[v]->pub.dims;
  if (x[0] != y[0] || x[2] != y[1] || x[1] != tni_ex_const(g->exprs, heads) ||
      !tni_ex_is_const(g->exprs, x[3], &size) || !tni_ex_is_const(g->exprs, y[2], &all) || size < 1 ||
      all / size != heads || all % size)
    return TN_NONE;
  const tn_id from = tni_attention_without_repeat(g, turn->pub.in[0]);
  return from;
}

/* Three axes, no past, results that nobody else reads. */
static bool is_alone(const tni_graph *g, const tni_node *n, int64_t *heads) {
  *heads = tni_attr_i(&n->pub, "q_num_heads", 0);
  if (n->pub.n_in > TNI_BUILD_INPUTS || n->n_raw > TNI_BUILD_INPUTS || *heads < 1 || *heads > INT32_MAX ||
      !tni_match_rank(g, n->pub.in[0], 3) || tni_attr_i(&n->pub, "kv_num_heads", 0) != *heads)
    return false;
  for (uint32_t i = 4; i <= 6; i++)
    if (tni_match_in(n, i) != TN_NONE) return false;
  for (uint32_t o = 1; o < n->pub.n_out; o++)
    if (n->pub.out[o] != TN_NONE && tni_match_uses(g, n->pub.out[o])) return false;
  return true;
}

static tn_id add_move(tni_graph *g, const char *type, tn_id x, tn_id shape, const tn_expr *dims, tn_error *err) {
  static const int64_t perm[4] = {0, 2, 1, 3};
  tni_build_node b = {.type = type, .version = 13, .in = {x, shape}, .n_in = shape == TN_NONE ? 1 : 2, .n_attr = 1};
  b.attr[0] = shape == TN_NONE ? tni_raw_ints("perm", perm, 4) : tni_raw_int("allowzero", 1);
  if (shape != TN_NONE) b.version = 14;
  return x == TN_NONE ? TN_NONE : tni_build_op(g, &b, g->values[x]->pub.dtype, 4, dims, err);
}

static tn_status split_query(tni_graph *g, tni_node *n, const tn_id kv[2], int64_t heads, tn_error *err) {
  const tn_expr *q = g->values[n->pub.in[0]]->pub.dims, *y = g->values[n->pub.out[0]]->pub.dims;
  const tn_expr h = tni_ex_const(g->exprs, heads);
  const tn_expr q_size = tni_ex_exactdiv(g->exprs, q[2], h), y_size = tni_ex_exactdiv(g->exprs, y[2], h);
  const tn_expr split[4] = {q[0], q[1], h, q_size}, turned[4] = {q[0], h, q[1], q_size};
  const tn_expr y4[4] = {y[0], h, y[1], y_size}, by_length[4] = {y[0], y[1], h, y_size};
  const uint32_t dtype = g->values[n->pub.out[0]]->pub.dtype;
  tni_build_node b = {.domain = n->pub.domain, .type = n->type, .version = n->version, .n_in = n->pub.n_in};
  tni_build_node back = {.type = "Reshape", .version = 14, .n_in = 2, .n_attr = 1};
  for (uint32_t i = 0; i < n->pub.n_in; i++) b.in[i] = n->pub.in[i];
  for (uint32_t i = 0; i < n->n_raw; i++)
    if (strcmp(n->raw[i].name, "q_num_heads") != 0 && strcmp(n->raw[i].name, "kv_num_heads") != 0)
      b.attr[b.n_attr++] = n->raw[i];
  b.in[0] = add_move(g, "Reshape", n->pub.in[0], tni_build_elems(g, split, 4), split, err);
  b.in[0] = add_move(g, "Transpose", b.in[0], TN_NONE, turned, err);
  b.in[1] = kv[0];
  b.in[2] = kv[1];
  if (b.in[0] != TN_NONE) back.in[0] = tni_build_op(g, &b, dtype, 4, y4, err);
  back.in[0] = add_move(g, "Transpose", back.in[0], TN_NONE, by_length, err);
  back.in[1] = tni_build_elems(g, y, 3);
  back.attr[0] = tni_raw_int("allowzero", 1);
  if (b.in[0] == TN_NONE || back.in[0] == TN_NONE || back.in[1] == TN_NONE) return tni_fail_memory(err, n->pub.name);
  const tn_id y3 = n->pub.out[0];
  n->dead = true;
  return tni_graph_add_node(g, "", NULL, back.type, back.version, back.in, 2, &y3, 1, back.attr, 1, NULL, err);
}

tn_status tni_attention_repeat(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err) {
  int64_t heads;
  if (!is_alone(g, n, &heads) || !tni_match_rank(g, n->pub.out[0], 3)) return TN_OK;
  const tn_id kv[2] = {joined_of(g, n->pub.in[1], heads), joined_of(g, n->pub.in[2], heads)};
  if (kv[0] == TN_NONE || kv[1] == TN_NONE || g->values[kv[0]]->pub.dims[1] != g->values[kv[1]]->pub.dims[1])
    return TN_OK;
  ++*fired;
  return split_query(g, n, kv, heads, err);
}
