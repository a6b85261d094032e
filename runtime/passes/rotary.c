/* SPDX-License-Identifier: Apache-2.0
 *
 * rotary:  x * cos + rotate_half(x) * sin  ->  RotaryEmbedding (23) on [batch, heads, length, head size].
 *
 * Matches rotate_half as Concat(Neg(second half), first half) of Slices or of a Split of the last axis, and cos and sin
 * as [c *] Cos and Sin of one Concat(f, f), with an axis of size 1 put in for the heads. They are computed anew from f,
 * at half the length; where f has one row of positions for all batches, it is expanded. A Concat behind it that puts
 * back what a Slice kept away from the turn (partial rotary) becomes rotary_embedding_dim.
 *
 * Keeps: the value, name and shape of the Add (or Concat), bit for bit.
 */
#include "runtime/passes/build.h"

typedef struct match {
  tni_graph *g;
  tn_id x, f;     /* f: [batch or 1, length, half] */
  double gain[2]; /* on cos, on sin */
  int64_t half;   /* of x's last dim */
} match;

static const tni_value *ranked(const tni_graph *g, tn_id v, uint32_t rank) {
  const tni_value *x = tni_match_value(g, v);
  for (uint32_t d = 0; x && x->pub.rank == rank && d < rank; d++)
    if (x->pub.dims[d] == TNI_EXPR_NONE) return NULL;
  return x && x->pub.rank == rank ? x : NULL;
}

static bool last_const(const tni_graph *g, tn_id v, int64_t *n) {
  const tn_expr d = tni_match_last_dim(g, v);
  return d != TNI_EXPR_NONE && tni_ex_is_const(g->exprs, d, n);
}

static bool last_axis(const tni_graph *g, tn_id v, int64_t axis) {
  return axis == -1 || axis == (int64_t)g->values[v]->pub.rank - 1;
}

/* Operand i of a Slice as one constant; `absent` where it is not there. */
static bool slice_arg(const tni_graph *g, const tni_node *n, uint32_t i, double absent, double *v) {
  const tn_id in = tni_match_in(n, i);
  *v = absent;
  return in == TN_NONE ? absent != 0 : tni_match_scalar(g, in, v);
}

/* v is [first, first + count) of the last axis of *x, by Slice or Split. */
static bool part(const tni_graph *g, tn_id v, tn_id *x, int64_t *first, int64_t *count) {
  const tni_value *val = tni_match_value(g, v);
  int64_t whole;
  if (!val || val->pub.producer >= g->n_nodes || !last_const(g, v, count)) return false;
  const tni_node *n = g->nodes[val->pub.producer];
  if (n->dead || !n->op || (n->pub.op != TN_OP_SLICE && n->pub.op != TN_OP_SPLIT)) return false;
  *x = n->pub.in[0];
  if (!last_const(g, *x, &whole)) return false;
  if (n->pub.op == TN_OP_SPLIT) {
    int64_t before;
    *first = 0;
    for (uint32_t o = 0; o < val->out_index; o++) {
      if (n->pub.out[o] == TN_NONE || !last_const(g, n->pub.out[o], &before)) return false;
      *first += before;
    }
    return last_axis(g, *x, tni_attr_i(&n->pub, "axis", 0));
  }
  double start, axis, step;
  if (!slice_arg(g, n, 1, 0, &start) || !slice_arg(g, n, 3, 0, &axis) || !slice_arg(g, n, 4, 1, &step)) return false;
  if (step != 1 || !last_axis(g, *x, (int64_t)axis) || start < -1e9 || start > 1e9) return false;
  *first = (int64_t)start < 0 ? (int64_t)start + whole : (int64_t)start;
  if (*first > whole) *first = whole;
  return *first >= 0 && *first + *count <= whole;
}

/* v is rotate_half(x). */
static bool is_rotated(match *m, tn_id v) {
  const tni_graph *g = m->g;
  const tni_node *join = tni_match_node(g, v, TN_OP_CONCAT), *neg;
  tn_id a, b;
  int64_t first, count, whole;
  if (!join || join->pub.n_in != 2 || !last_axis(g, v, tni_attr_i(&join->pub, "axis", 0))) return false;
  if (!(neg = tni_match_node(g, join->pub.in[0], TN_OP_NEG)) || !last_const(g, v, &whole) || whole % 2) return false;
  m->half = whole / 2;
  if (!part(g, neg->pub.in[0], &b, &first, &count) || first != m->half || count != m->half) return false;
  if (!part(g, join->pub.in[1], &a, &first, &count) || first != 0 || count != m->half || a != b) return false;
  m->x = a;
  return ranked(g, a, 4) && tni_match_same_shape(g, a, v);
}

/* v is [b, 1, length, size] and holds what *in [b, length, size] holds. */
static bool is_over_heads(const tni_graph *g, tn_id v, tn_id *in) {
  const tni_node *n = tni_match_node(g, v, TN_OP_UNSQUEEZE);
  int64_t one;
  if (!n && !(n = tni_match_node(g, v, TN_OP_RESHAPE))) return false;
  const tni_value *x = ranked(g, n->pub.in[0], 3), *y = ranked(g, v, 4);
  *in = n->pub.in[0];
  return x && y && tni_ex_is_const(g->exprs, y->pub.dims[1], &one) && one == 1 && x->pub.dims[0] == y->pub.dims[0] &&
         x->pub.dims[1] == y->pub.dims[2] && x->pub.dims[2] == y->pub.dims[3];
}

static tn_id ungain(const tni_graph *g, tn_id v, double *gain) {
  const tni_node *n = tni_match_node(g, v, TN_OP_MUL);
  tn_id rest;
  return *gain == 1 && n && tni_match_with_scalar(g, n, gain, &rest) ? rest : v;
}

/* v is cos or sin (op) of Concat(f, f) over the heads. */
static bool is_wave(match *m, tn_id v, uint32_t op) {
  const tni_graph *g = m->g;
  double *gain = &m->gain[op == TN_OP_SIN];
  *gain = 1;
  v = ungain(g, v, gain);
  if (!is_over_heads(g, v, &v)) return false;
  v = ungain(g, v, gain);
  const tni_node *wave = tni_match_node(g, v, op), *join;
  if (!wave || !(join = tni_match_node(g, wave->pub.in[0], TN_OP_CONCAT)) || join->pub.n_in != 2) return false;
  if (join->pub.in[0] != join->pub.in[1] || !last_axis(g, join->pub.out[0], tni_attr_i(&join->pub, "axis", 0)))
    return false;
  const tni_value *f = ranked(g, join->pub.in[0], 3), *x = g->values[m->x];
  int64_t n;
  if (!f || (m->f != TN_NONE && m->f != join->pub.in[0]) || !last_const(g, join->pub.in[0], &n) || n != m->half)
    return false;
  m->f = join->pub.in[0];
  if (f->pub.dims[1] != x->pub.dims[2] || f->pub.dtype != x->pub.dtype) return false;
  return f->pub.dims[0] == x->pub.dims[0] || (tni_ex_is_const(g->exprs, f->pub.dims[0], &n) && n == 1);
}

/* add is x * cos + rotate_half(x) * sin, in any order. */
static bool find(match *m, const tni_node *add) {
  const tni_graph *g = m->g;
  for (uint32_t side = 0; side < 2; side++) {
    const tni_node *plain = tni_match_node(g, add->pub.in[side], TN_OP_MUL);
    const tni_node *turned = tni_match_node(g, add->pub.in[!side], TN_OP_MUL);
    for (uint32_t i = 0; plain && turned && i < 2; i++) {
      m->f = TN_NONE;
      if (!is_rotated(m, turned->pub.in[i])) continue;
      const tn_id cos = tni_match_other(plain, m->x);
      if (cos == TN_NONE || !is_wave(m, cos, TN_OP_COS) || !is_wave(m, turned->pub.in[!i], TN_OP_SIN)) continue;
      return tni_match_same_shape(g, m->x, add->pub.out[0]);
    }
  }
  return false;
}

/* A node of one output that nobody had; TN_NONE where an operand is or without memory. */
static tn_id add_node(tni_graph *g, uint32_t dtype, const char *type, tn_id a, tn_id b, tn_error *err) {
  const tn_id in[2] = {a, b}, v = tni_graph_add_value(g, "", TN_VALUE_ACT, dtype);
  tn_id node;
  if (a == TN_NONE || v == TN_NONE) return TN_NONE;
  g->values[v]->pub.rank = TNI_RANK_UNKNOWN;
  return tni_graph_add_node(g, "", "", type, 13, in, b == TN_NONE ? 1 : 2, &v, 1, NULL, 0, &node, err) == TN_OK
             ? v
             : TN_NONE;
}

/* cos or sin of f, [batch, length, half]. */
static tn_id wave(match *m, const char *op, double gain, tn_error *err) {
  tni_graph *g = m->g;
  const tni_value *f = g->values[m->f], *x = g->values[m->x];
  const uint32_t t = f->pub.dtype;
  const tn_expr to[3] = {x->pub.dims[0], f->pub.dims[1], f->pub.dims[2]};
  const bool expand = f->pub.dims[0] != to[0];
  tn_id v = add_node(g, t, op, m->f, TN_NONE, err);
  if (gain != 1) {
    const tn_id c = tni_build_filled(g, t, 1, gain);
    v = c == TN_NONE ? TN_NONE : add_node(g, t, "Mul", v, c, err);
  }
  if (expand) {
    const tn_id dims = tni_build_elems(g, to, 3);
    v = dims == TN_NONE ? TN_NONE : add_node(g, t, "Expand", v, dims, err);
  }
  return v;
}

static tn_status rewrite(match *m, tni_node *add, tn_error *err) {
  tni_build_node b = {.type = "RotaryEmbedding", .version = 23, .in = {m->x}, .n_in = 3};
  b.in[1] = wave(m, "Cos", m->gain[0], err);
  b.in[2] = wave(m, "Sin", m->gain[1], err);
  if (b.in[1] == TN_NONE || b.in[2] == TN_NONE) return tni_fail_memory(err, add->pub.name);
  return tni_build_in_place(m->g, add, &b, err);
}

/* Concat(RotaryEmbedding(part of x), the rest of x): all of x, of which the first elements are turned. */
static tn_status widen(tni_graph *g, tni_node *join, uint32_t *fired, tn_error *err) {
  const tni_node *turn = join->pub.n_in == 2 ? tni_match_node(g, join->pub.in[0], TN_OP_ROTARY_EMBEDDING) : NULL;
  tn_id x, y;
  int64_t first = 0, turned, from, rest;
  if (!turn || turn->pub.n_in != 3 || tni_match_uses(g, join->pub.in[0]) != 1 || !ranked(g, turn->pub.in[0], 4))
    return TN_OK;
  if (tni_attr_i(&turn->pub, "rotary_embedding_dim", 0) || tni_attr_i(&turn->pub, "interleaved", 0)) return TN_OK;
  if (!last_axis(g, join->pub.out[0], tni_attr_i(&join->pub, "axis", 0)) || !last_const(g, turn->pub.in[0], &turned) ||
      !last_const(g, join->pub.in[1], &rest))
    return TN_OK;
  if (rest == 0) {
    x = turn->pub.in[0];
  } else if (!part(g, turn->pub.in[0], &x, &first, &turned) || first != 0 ||
             !part(g, join->pub.in[1], &y, &from, &rest) || y != x || from != turned) {
    return TN_OK;
  }
  if (!tni_match_same_shape(g, x, join->pub.out[0])) return TN_OK;
  tni_build_node b = {.type = "RotaryEmbedding", .version = 23, .in = {x, turn->pub.in[1], turn->pub.in[2]}, .n_in = 3};
  if (rest) b.attr[b.n_attr++] = tni_build_int("rotary_embedding_dim", turned);
  ++*fired;
  return tni_build_in_place(g, join, &b, err);
}

tn_status tni_pass_rotary(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n_nodes; i++) {
    match m = {.g = g};
    if (g->nodes[i]->dead || !g->nodes[i]->op || g->nodes[i]->pub.op != TN_OP_ADD || !find(&m, g->nodes[i])) continue;
    st = rewrite(&m, g->nodes[i], err);
    fired++;
  }
  for (uint32_t i = 0; st == TN_OK && i < n_nodes; i++)
    if (!g->nodes[i]->dead && g->nodes[i]->op && g->nodes[i]->pub.op == TN_OP_CONCAT)
      st = widen(g, g->nodes[i], &fired, err);
  return st == TN_OK ? tni_build_done(g, fired, n, err) : st;
}
