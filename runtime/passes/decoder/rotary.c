/* SPDX-License-Identifier: Apache-2.0
 *
 * rotary:  x * cos + turned(x) * sin  ->  RotaryEmbedding (23) on [batch, heads, length, head size].
 *
 * Matches, with the two elements of a pair half a head apart or side by side (interleaved):
 *  - x * cos + r * sin, where r holds -second, first of each pair, and cos and sin hold every number twice (rotary.h):
 * as Concat(f, f) under Cos and Sin, factors and movement, or as a constant table whose elements say so, gathered by
 *    positions or sliced. They are computed anew at half the length.
 *  - the pair itself: first * cos - second * sin and second * cos + first * sin, joined; cos and sin hold every number
 * once. cos and sin have an axis of size 1 for the heads, or none; where they have one row of positions for all
 * batches, they are expanded. Constant tables that both are gathered from by the same int64[batch, length] become
 * operands together with these positions. [batch, length, heads, size], with the axis of the heads in third place, is
 * turned as [batch, length, heads * size]. A Concat after it that puts back what a Slice kept away from the turn
 * (partial rotary) becomes rotary_embedding_dim.
 *
 * Keeps: the value, name and shape of the Add (Concat, Reshape), bit for bit.
 */
#include "runtime/passes/decoder/rotary.h"
#include "runtime/passes/decoder/decoder.h"

typedef struct rotary_match {
  tni_graph *g;
  tni_rotary_tables *t;
  tn_id x, wave[2]; /* wave: cos, sin as the model multiplies with them */
  tni_rotary_order order;
  bool twice;     /* they hold every number twice */
  bool by_length; /* x is [batch, length, heads, size] */
  int64_t half;   /* of x's last dim */
} rotary_match;

static const tni_value *ranked_input(const tni_graph *g, tn_id v, uint32_t rank) {
  const tni_value *x = tni_match_value(g, v);
  for (uint32_t d = 0; x && x->pub.rank == rank && d < rank; d++)
    if (x->pub.dims[d] == TNI_EXPR_NONE) return NULL;
  return x && x->pub.rank == rank ? x : NULL;
}

/* --- the turn --- */

/* v holds -second, first of the pairs of x. */
static bool is_turned(rotary_match *m, tn_id v, tni_rotary_order order) {
  const tni_graph *g = m->g;
  tni_rotary_order of[2];
  uint32_t which[2];
  tn_id a, b, x[2];
  if (!tni_rotary_joined(g, v, order, &a, &b)) return false;
  const tni_node *neg = tni_match_node(g, a, TN_OP_NEG);
  if (!neg || !tni_rotary_part(g, neg->pub.in[0], &x[0], &of[0], &which[0]) ||
      !tni_rotary_part(g, b, &x[1], &of[1], &which[1]))
    return false;
  if (x[0] != x[1] || of[0] != order || of[1] != order || which[0] != 1 || which[1] != 0) return false;
  m->x = x[0];
  m->order = order;
  return ranked_input(g, m->x, 4) && tni_match_same_shape(g, m->x, v);
}

/* add is x * cos + turned(x) * sin, in any order. */
static bool find_whole(rotary_match *m, const tni_node *add) {
  const tni_graph *g = m->g;
  for (uint32_t k = 0; k < 8; k++) { /* which operand, which of its factors, which order */
    const uint32_t side = k & 1, i = k >> 1 & 1;
    const tni_node *plain = tni_match_node(g, add->pub.in[side], TN_OP_MUL);
    const tni_node *turned = tni_match_node(g, add->pub.in[!side], TN_OP_MUL);
    if (!plain || !turned || !is_turned(m, turned->pub.in[i], k >> 2 ? TNI_ROTARY_PAIRS : TNI_ROTARY_HALVES)) continue;
    m->wave[0] = tni_match_other(plain, m->x);
    m->wave[1] = turned->pub.in[!i];
    m->twice = true;
    if (m->wave[0] != TN_NONE) return tni_match_same_shape(g, m->x, add->pub.out[0]);
  }
  return false;
}

/* mul is element `which` of m's pairs times something: *wave. m->x TN_NONE: of any x. */
static bool times_part(rotary_match *m, tn_id mul, uint32_t which, tn_id *wave) {
  const tni_graph *g = m->g;
  const tni_node *n = tni_match_node(g, mul, TN_OP_MUL);
  for (uint32_t i = 0; n && i < 2; i++) {
    tni_rotary_order order;
    uint32_t w;
    tn_id x;
    if (!tni_rotary_part(g, n->pub.in[i], &x, &order, &w) || w != which || order != m->order) continue;
    if (m->x != TN_NONE && m->x != x) continue;
    m->x = x;
    *wave = n->pub.in[!i];
    return true;
  }
  return false;
}

/* v is made of first * cos - second * sin and second * cos + first * sin. */
static bool find_pair(rotary_match *m, tn_id v, tni_rotary_order order) {
  const tni_graph *g = m->g;
  tn_id a, b, cos, sin;
  m->order = order;
  m->x = TN_NONE;
  m->twice = false;
  if (!tni_rotary_joined(g, v, order, &a, &b)) return false;
  const tni_node *sub = tni_match_node(g, a, TN_OP_SUB), *add = tni_match_node(g, b, TN_OP_ADD);
  if (!sub || !add || !times_part(m, sub->pub.in[0], 0, &m->wave[0]) || !times_part(m, sub->pub.in[1], 1, &m->wave[1]))
    return false;
  for (uint32_t i = 0; i < 2; i++)
    if (times_part(m, add->pub.in[i], 1, &cos) && times_part(m, add->pub.in[!i], 0, &sin) && cos == m->wave[0] &&
        sin == m->wave[1])
      return ranked_input(g, m->x, 4) && tni_match_same_shape(g, m->x, v);
  return false;
}

/* --- cos and sin --- */

/* How the axes of wave w stand to x's: those of [batch or 1, length, n] in *d. */
static bool read_wave(const rotary_match *m, tn_id w, bool by_length, tn_expr *d) {
  const tni_graph *g = m->g;
  const tni_value *x = g->values[m->x], *v = tni_match_value(g, w);
  const tn_expr one = tni_ex_const(g->exprs, 1), length = x->pub.dims[by_length ? 1 : 2];
  int64_t n;
  if (!v || v->pub.rank > 4 || v->pub.rank < (by_length ? 3 : 2) || !ranked_input(g, w, v->pub.rank)) return false;
  tn_expr dims[4] = {one, one, one, one};
  for (uint32_t i = 0; i < v->pub.rank; i++) dims[4 - v->pub.rank + i] = v->pub.dims[i];
  if (dims[by_length ? 2 : 1] != one || dims[by_length ? 1 : 2] != length) return false;
  d[0] = dims[0];
  d[1] = length;
  d[2] = dims[3];
  if (d[0] != one && d[0] != x->pub.dims[0]) return false;
  return tni_ex_is_const(g->exprs, d[2], &n) && n == (m->twice ? 2 : 1) * m->half && v->pub.dtype == x->pub.dtype;
}

static bool find_waves(rotary_match *m) {
  tn_expr d[3];
  int64_t n;
  if (!tni_rotary_last(m->g, m->x, &n) || n < 2) return false;
  m->half = n / 2;
  for (uint32_t side = 0; side < 2; side++) {
    m->by_length = side == 1;
    if (!read_wave(m, m->wave[0], m->by_length, d) || !read_wave(m, m->wave[1], m->by_length, d)) continue;
    return !m->twice ||
           (tni_rotary_is_double(m->t, m->wave[0], m->order) && tni_rotary_is_double(m->t, m->wave[1], m->order));
  }
  return false;
}

/* The operand of an Unsqueeze or Reshape that only put in the axis of the heads. */
static tn_id without_heads(const rotary_match *m, tn_id w, const tn_expr *d) {
  const tni_graph *g = m->g;
  const tni_node *n = tni_match_node(g, w, TN_OP_UNSQUEEZE);
  if (!n && !(n = tni_match_node(g, w, TN_OP_RESHAPE))) return w;
  const tni_value *x = ranked_input(g, n->pub.in[0], 3);
  for (uint32_t i = 0; x && i < 3; i++)
    if (x->pub.dims[i] != d[i]) return w;
  return x ? n->pub.in[0] : w;
}

static tn_id reshape_to(tni_graph *g, tn_id v, uint32_t rank, const tn_expr *dims, tn_error *err) {
  tni_build_node b = {.type = "Reshape", .version = 14, .in = {v}, .n_in = 2, .n_attr = 1};
  b.in[1] = tni_build_elems(g, dims, rank);
  b.attr[0] = tni_raw_int("allowzero", 1);
  return b.in[1] == TN_NONE ? TN_NONE : tni_build_op(g, &b, g->values[v]->pub.dtype, rank, dims, err);
}

/* cos or sin as [batch or 1, length, half]; *d its dims. */
static tn_id single_wave(rotary_match *m, uint32_t i, tn_expr *d, tn_error *err) {
  tni_graph *g = m->g;
  if (!read_wave(m, m->wave[i], m->by_length, d)) return TN_NONE;
  tn_id v = without_heads(m, m->wave[i], d);
  if (m->twice) {
    d[2] = tni_ex_const(g->exprs, m->half);
    v = tni_rotary_is_double(m->t, v, m->order) ? tni_rotary_halve(m->t, v, m->order, err) : TN_NONE;
  }
  return v == TN_NONE || g->values[v]->pub.rank == 3 ? v : reshape_to(g, v, 3, d, err);
}

static tn_id expanded_wave(const rotary_match *m, tn_id v, const tn_expr *d, tn_error *err) {
  tni_graph *g = m->g;
  const tn_expr to[3] = {g->values[m->x]->pub.dims[0], d[1], d[2]};
  if (v == TN_NONE || d[0] == to[0]) return v;
  tni_build_node b = {.type = "Expand", .version = 13, .in = {v}, .n_in = 2};
  b.in[1] = tni_build_elems(g, to, 3);
  return b.in[1] == TN_NONE ? TN_NONE : tni_build_op(g, &b, g->values[v]->pub.dtype, 3, to, err);
}

/* v is a row of the constant table *from for each of the positions *at, int64[batch, length]. */
static bool is_row(const rotary_match *m, tn_id v, tn_id *from, tn_id *at) {
  const tni_graph *g = m->g;
  const tni_value *x = g->values[m->x];
  const tni_node *n = tni_match_node(g, v, TN_OP_GATHER);
  if (!n || tni_attr_i(&n->pub, "axis", 0) != 0) return false;
  *from = n->pub.in[0];
  *at = n->pub.in[1];
  const tni_value *table = ranked_input(g, *from, 2), *p = ranked_input(g, *at, 2);
  return table && table->pub.kind == TN_VALUE_CONST && p && p->pub.dtype == TN_DT_I64 &&
         p->pub.dims[0] == x->pub.dims[0] && p->pub.dims[1] == x->pub.dims[m->by_length ? 1 : 2];
}

static bool write_waves(rotary_match *m, tni_build_node *b, tn_error *err) {
  const tni_graph *g = m->g;
  tn_expr d[2][3];
  tn_id v[2], from[2], at[2];
  for (uint32_t i = 0; i < 2; i++)
    if ((v[i] = single_wave(m, i, d[i], err)) == TN_NONE) return false;
  b->n_in = 3;
  if (is_row(m, v[0], &from[0], &at[0]) && is_row(m, v[1], &from[1], &at[1]) && at[0] == at[1] &&
      tni_match_same_shape(g, from[0], from[1])) {
    b->in[b->n_in++] = at[0];
    b->in[1] = from[0];
    b->in[2] = from[1];
    return true;
  }
  for (uint32_t i = 0; i < 2; i++)
    if ((b->in[1 + i] = expanded_wave(m, v[i], d[i], err)) == TN_NONE) return false;
  return true;
}

/* --- the node --- */

static tn_status rewrite_rotary(rotary_match *m, tni_node *last, tn_error *err) {
  tni_graph *g = m->g;
  const tni_value *x = g->values[m->x];
  tni_build_node b = {.type = "RotaryEmbedding", .version = 23, .in = {m->x}};
  tni_build_node back = {.type = "Reshape", .version = 14, .n_in = 2, .n_attr = 1};
  int64_t heads = 0;
  if (!write_waves(m, &b, err)) return tni_fail_memory(err, last->pub.name);
  if (m->order == TNI_ROTARY_PAIRS) b.attr[b.n_attr++] = tni_raw_int("interleaved", 1);
  if (!m->by_length) return tni_build_in_place(g, last, &b, err);
  if (!tni_ex_is_const(g->exprs, x->pub.dims[2], &heads)) return TN_OK;
  const tn_expr flat[3] = {x->pub.dims[0], x->pub.dims[1], tni_ex_mul(g->exprs, x->pub.dims[2], x->pub.dims[3])};
  b.attr[b.n_attr++] = tni_raw_int("num_heads", heads);
  b.in[0] = reshape_to(g, m->x, 3, flat, err);
  if (b.in[0] != TN_NONE) back.in[0] = tni_build_op(g, &b, x->pub.dtype, 3, flat, err);
  back.in[1] = tni_build_elems(g, x->pub.dims, 4);
  back.attr[0] = tni_raw_int("allowzero", 1);
  if (b.in[0] == TN_NONE || back.in[0] == TN_NONE || back.in[1] == TN_NONE) return tni_fail_memory(err, last->pub.name);
  return tni_build_in_place(g, last, &back, err);
}

static bool find_rotary(rotary_match *m, const tni_node *n) {
  int64_t heads;
  bool found = false;
  if (n->pub.op == TN_OP_ADD) found = find_whole(m, n);
  if (n->pub.op == TN_OP_CONCAT) found = find_pair(m, n->pub.out[0], TNI_ROTARY_HALVES);
  if (n->pub.op == TN_OP_RESHAPE) found = find_pair(m, n->pub.out[0], TNI_ROTARY_PAIRS);
  if (!found || !find_waves(m)) return false;
  return !m->by_length || (tni_ex_is_const(m->g->exprs, m->g->values[m->x]->pub.dims[2], &heads) && heads > 0);
}

/* A RotaryEmbedding that makes v: on 4 axes, or, with Reshapes around it, on [batch, length, heads * size]. *part: what
 * it turns, on 4 axes. */
static const tni_node *turn_of(const tni_graph *g, tn_id v, tn_id *part, bool *flat) {
  const tni_node *turn = tni_match_node(g, v, TN_OP_ROTARY_EMBEDDING), *back, *split;
  *flat = false;
  if (turn) {
    *part = turn->pub.in[0];
    return ranked_input(g, *part, 4) && tni_match_uses(g, v) == 1 ? turn : NULL;
  }
  *flat = true;
  if (!(back = tni_match_node(g, v, TN_OP_RESHAPE)) || tni_match_uses(g, v) != 1 ||
      !(turn = tni_match_node(g, back->pub.in[0], TN_OP_ROTARY_EMBEDDING)) || tni_match_uses(g, back->pub.in[0]) != 1)
    return NULL;
  if (!(split = tni_match_node(g, turn->pub.in[0], TN_OP_RESHAPE)) || !tni_attr_i(&turn->pub, "num_heads", 0))
    return NULL;
  *part = split->pub.in[0];
  return ranked_input(g, *part, 4) && tni_match_same_shape(g, *part, v) ? turn : NULL;
}

/* join is Concat(what *turn makes, the rest of *x), the first `turned` elements of each head of *x being what it turns.
 */
static bool find_rest(const tni_graph *g, const tni_node *join, tn_id part, tn_id *x, int64_t *turned, int64_t *rest) {
  tn_id y;
  int64_t first = 0, from;
  if (!tni_rotary_is_last(g, join->pub.out[0], tni_attr_i(&join->pub, "axis", 0)) ||
      !tni_rotary_last(g, part, turned) || !tni_rotary_last(g, join->pub.in[1], rest))
    return false;
  *x = part;
  if (*rest && (!tni_rotary_range(g, part, x, &first, turned) || first != 0 ||
                !tni_rotary_range(g, join->pub.in[1], &y, &from, rest) || y != *x || from != *turned))
    return false;
  return tni_match_same_shape(g, *x, join->pub.out[0]);
}

/* Concat(RotaryEmbedding(part of x), the rest of x): all of x, of which the first elements are turned. */
static tn_status widen_rotary(tni_graph *g, tni_node *join, uint32_t *fired, tn_error *err) {
  tn_id x, part;
  int64_t turned, rest, heads = 0;
  bool flat;
  const tni_node *turn = join->pub.n_in == 2 ? turn_of(g, join->pub.in[0], &part, &flat) : NULL;
  if (!turn || tni_attr_i(&turn->pub, "rotary_embedding_dim", 0) || !find_rest(g, join, part, &x, &turned, &rest))
    return TN_OK;
  tni_build_node b = {.type = "RotaryEmbedding", .version = 23, .in = {x}, .n_in = turn->pub.n_in};
  for (uint32_t i = 1; i < b.n_in; i++) b.in[i] = turn->pub.in[i];
  if (tni_attr_i(&turn->pub, "interleaved", 0)) b.attr[b.n_attr++] = tni_raw_int("interleaved", 1);
  if (rest) b.attr[b.n_attr++] = tni_raw_int("rotary_embedding_dim", turned);
  if (!flat) {
    ++*fired;
    return tni_build_in_place(g, join, &b, err);
  }
  const tni_value *v = g->values[x];
  if (!tni_ex_is_const(g->exprs, v->pub.dims[2], &heads)) return TN_OK;
  const tn_expr dims[3] = {v->pub.dims[0], v->pub.dims[1], tni_ex_mul(g->exprs, v->pub.dims[2], v->pub.dims[3])};
  tni_build_node back = {.type = "Reshape", .version = 14, .n_in = 2, .n_attr = 1};
  b.attr[b.n_attr++] = tni_raw_int("num_heads", heads);
  b.in[0] = reshape_to(g, x, 3, dims, err);
  if (b.in[0] != TN_NONE) back.in[0] = tni_build_op(g, &b, v->pub.dtype, 3, dims, err);
  back.in[1] = tni_build_elems(g, v->pub.dims, 4);
  back.attr[0] = tni_raw_int("allowzero", 1);
  if (b.in[0] == TN_NONE || back.in[0] == TN_NONE || back.in[1] == TN_NONE) return tni_fail_memory(err, join->pub.name);
  ++*fired;
  return tni_build_in_place(g, join, &back, err);
}

tn_status tni_pass_rotary(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  tni_rotary_tables t;
  tn_status st = tni_rotary_tables_init(&t, g, err);
  for (uint32_t i = 0; st == TN_OK && i < n_nodes; i++) {
    rotary_match m = {.g = g, .t = &t};
    if (g->nodes[i]->dead || !g->nodes[i]->op || !find_rotary(&m, g->nodes[i])) continue;
    st = rewrite_rotary(&m, g->nodes[i], err);
    fired++;
  }
  if (st == TN_OK && tni_arena_short(t.arena)) st = tni_fail_memory(err, "rotary");
  tni_rotary_tables_free(&t);
  for (uint32_t i = 0; st == TN_OK && i < n_nodes; i++)
    if (!g->nodes[i]->dead && g->nodes[i]->op && g->nodes[i]->pub.op == TN_OP_CONCAT)
      st = widen_rotary(g, g->nodes[i], &fired, err);
  return st == TN_OK ? tni_build_done(g, fired, n, err) : st;
}
