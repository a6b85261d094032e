/* SPDX-License-Identifier: Apache-2.0
 *
 * heads: RotaryEmbedding, norms of heads and Attention in their 3D forms, and caches inside Attention.
 *
 *  - RotaryEmbedding of a split activation works on the activation: x4 = Transpose(Reshape(x)) turned is
 *    Transpose(Reshape(RotaryEmbedding(x))), with num_heads.
 *  - Attention whose q, k and v are splits, [batch, heads, length, size] = Transpose(z [batch, length, heads, size]),
 *    reads them as [batch, length, heads * size], with q_num_heads and kv_num_heads. A Transpose and a Reshape after
 * it give the 4D result back; what undoes them in the model meets them, and the passes reshape and identity take all
 * away.
 *  - Attention whose q is split, beside k and v that are inputs: tenon.Attention with q on three axes.
 *  - Concat of heads along their last axis, each split off or one head expanded to all: tenon.ConcatHeads of what they
 * were split off (head_concat.c).
 *  - Concat(past, new) over the sequence, for k and for v, where past is a graph input with no other reader and only
 * this Attention reads the result: past_key, past_value, present_key, present_value. Between Concat and Attention there
 * may be a Transpose (a cache that is [batch, past, heads, size], or one of transposed keys): then the cache is
 * transposed on its way in and out, which the pass `cache` takes away.
 *
 * Keeps: every bit. Heads and sizes are constants, batches and lengths proved equal. Attention that is causal or has a
 * window keeps its Concat: with a past, these count from the past's end.
 */
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/decoder.h"
#include "runtime/passes/decoder/heads.h"
#include "runtime/passes/decoder/past.h"

enum { MAX_ATTRS = 16 };

static tn_expr dim_of_heads(const tni_graph *g, tn_id v, uint32_t d) { return g->values[v]->pub.dims[d]; }

/* Raw attributes of n, then room for more. false: too many. */
static bool copy_attrs(tni_build_node *b, const tni_node *n, uint32_t more) {
  if (n->n_raw + more > MAX_ATTRS) return false;
  for (uint32_t i = 0; i < n->n_raw; i++) b->attr[i] = n->raw[i];
  b->n_attr = n->n_raw;
  return true;
}

/* --- rotary --- */

/* Transpose, or where the split had none Reshape, back to the 4D value y, which its old node leaves. */
static tn_status split_again(tni_graph *g, tni_node *old, const tni_head_split *s, tn_id x, tn_error *err) {
  static const int64_t perm[4] = {0, 2, 1, 3};
  const tni_node *r = s->reshape;
  tni_build_node b = {.type = r->type, .version = r->version, .in = {x, tni_match_in(r, 1)}, .n_in = r->pub.n_in};
  tni_build_node t = {.type = "Transpose", .version = 13, .n_in = 1, .n_attr = 1};
  if (!copy_attrs(&b, r, 0)) return tni_fail(err, TN_E_INTERNAL, old->pub.name, "too many attributes");
  old->dead = true;
  if (s->by_length == TN_NONE)
    return tni_graph_add_node(g, "", NULL, b.type, b.version, b.in, b.n_in, old->pub.out, 1, b.attr, b.n_attr, NULL,
                              err);
  const tn_value *z = &g->values[s->by_length]->pub;
  t.in[0] = tni_build_op(g, &b, z->dtype, 4, z->dims, err);
  t.attr[0] = tni_raw_ints("perm", perm, 4);
  if (t.in[0] == TN_NONE) return tni_fail_memory(err, old->pub.name);
  return tni_graph_add_node(g, "", NULL, t.type, t.version, t.in, 1, old->pub.out, 1, t.attr, 1, NULL, err);
}

static tn_status keep_heads_rotary(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err) {
  tni_head_split s;
  tni_build_node b = {.type = n->type, .version = n->version, .n_in = n->pub.n_in};
  if (!tni_head_split_find(g, n->pub.in[0], &s) || s.flat == TN_NONE) return TN_OK;
  if (tni_attr_i(&n->pub, "num_heads", s.heads) != s.heads || !copy_attrs(&b, n, 1)) return TN_OK;
  memcpy(b.in, n->pub.in, n->pub.n_in * sizeof *b.in);
  b.in[0] = s.flat;
  const tn_attr *had = tni_attr(&n->pub, "num_heads");
  if (!had || !had->n) b.attr[b.n_attr++] = tni_raw_int("num_heads", s.heads);
  const tn_value *x = &g->values[s.flat]->pub;
  const tn_id turned = tni_graph_add_value(g, "", TN_VALUE_ACT, x->dtype);
  if (turned == TN_NONE || tni_value_set_dims(g, turned, 3, x->dims) != TN_OK) return tni_fail_memory(err, n->pub.name);
  tn_status st = tni_graph_add_node(g, n->pub.name, NULL, b.type, b.version, b.in, b.n_in, &turned, 1, b.attr, b.n_attr,
                                    NULL, err);
  ++*fired;
  return st == TN_OK ? split_again(g, n, &s, turned, err) : st;
}

/* --- attention --- */

static bool split_fits(const tni_head_split *s) {
  int64_t all;
  return !__builtin_mul_overflow(s->heads, s->size, &all) && all <= INT32_MAX;
}

static tn_status keep_heads_attention(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err) {
  static const int64_t perm[4] = {0, 2, 1, 3};
  tni_head_split s[3];
  tni_build_node b = {.domain = n->pub.domain, .type = n->type, .version = n->version, .n_in = n->pub.n_in};
  tni_build_node t = {.type = "Transpose", .version = 13, .n_in = 1, .n_attr = 1};
  tn_id out[4] = {TN_NONE, TN_NONE, TN_NONE, TN_NONE};
  for (uint32_t i = 0; i < 3; i++)
    if (!tni_head_split_find(g, n->pub.in[i], &s[i]) || !split_fits(&s[i])) return TN_OK;
  if (!tni_match_rank(g, n->pub.out[0], 4) || n->pub.n_in > TNI_BUILD_INPUTS || n->pub.n_out > 4 ||
      !copy_attrs(&b, n, 2))
    return TN_OK;
  if (s[1].heads != s[2].heads || s[0].heads % s[1].heads || tni_attr_i(&n->pub, "q_num_heads", 0) ||
      tni_attr_i(&n->pub, "kv_num_heads", 0))
    return TN_OK;
  memcpy(b.in, n->pub.in, n->pub.n_in * sizeof *b.in);
  memcpy(out, n->pub.out, n->pub.n_out * sizeof *out);
  for (uint32_t i = 0; i < 3; i++)
    if ((b.in[i] = tni_heads_flatten(g, &s[i], err)) == TN_NONE) return tni_fail_memory(err, n->pub.name);
  b.attr[b.n_attr++] = tni_raw_int("q_num_heads", s[0].heads);
  b.attr[b.n_attr++] = tni_raw_int("kv_num_heads", s[1].heads);
  const tn_value *y = &g->values[out[0]]->pub;
  const int64_t shape[4] = {0, 0, s[0].heads, s[2].size};
  const tn_expr by_length[4] = {y->dims[0], y->dims[2], y->dims[1], y->dims[3]};
  const tn_expr dims[3] = {y->dims[0], y->dims[2], tni_ex_mul(g->exprs, y->dims[1], y->dims[3])};
  out[0] = tni_graph_add_value(g, "", TN_VALUE_ACT, y->dtype);
  if (out[0] == TN_NONE || tni_value_set_dims(g, out[0], 3, dims) != TN_OK) return tni_fail_memory(err, n->pub.name);
  n->dead = true;
  tn_status st = tni_graph_add_node(g, n->pub.name, b.domain, b.type, b.version, b.in, b.n_in, out, n->pub.n_out,
                                    b.attr, b.n_attr, NULL, err);
  if (st != TN_OK) return st;
  t.in[0] = tni_heads_reshape(g, out[0], shape, 4, by_length, err);
  t.attr[0] = tni_raw_ints("perm", perm, 4);
  if (t.in[0] == TN_NONE) return tni_fail_memory(err, n->pub.name);
  ++*fired;
  return tni_graph_add_node(g, "", NULL, t.type, t.version, t.in, 1, n->pub.out, 1, t.attr, 1, NULL, err);
}

/* v is a cache that somebody else made, as it comes: an input, or a Cast of one (graphs of halves). */
static bool is_given(const tni_graph *g, tn_id v) {
  const tni_node *cast = tni_match_node(g, v, TN_OP_CAST);
  const tni_value *x = tni_match_value(g, cast ? cast->pub.in[0] : v);
  return x && x->pub.kind == TN_VALUE_INPUT && tni_match_rank(g, v, 4);
}

/* Attention(q split, k and v given by heads): tenon.Attention of the activation; the result is split again. */
static tn_status keep_heads_query(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err) {
  static const int64_t perm[4] = {0, 2, 1, 3};
  tni_head_split s;
  tni_build_node b = {.domain = "tenon", .type = "Attention", .version = 1, .n_in = n->pub.n_in};
  tni_build_node t = {.type = "Transpose", .version = 13, .n_in = 1, .n_attr = 1};
  int64_t size;
  if (n->pub.n_in < 3 || !is_given(g, n->pub.in[1]) || !is_given(g, n->pub.in[2]) ||
      !tni_head_split_find(g, n->pub.in[0], &s) || s.flat == TN_NONE || !split_fits(&s) ||
      !tni_match_rank(g, n->pub.out[0], 4) || n->pub.n_in > TNI_BUILD_INPUTS || !copy_attrs(&b, n, 1) ||
      tni_attr_i(&n->pub, "q_num_heads", 0) || tni_match_in(n, 4) != TN_NONE || tni_match_in(n, 5) != TN_NONE)
    return TN_OK;
  for (uint32_t o = 1; o < n->pub.n_out; o++)
    if (n->pub.out[o] != TN_NONE) return TN_OK;
  const tn_value *y = &g->values[n->pub.out[0]]->pub;
  if (!tni_ex_is_const(g->exprs, y->dims[3], &size) || size < 1) return TN_OK;
  const int64_t shape[4] = {0, 0, s.heads, size};
  const tn_expr by_length[4] = {y->dims[0], y->dims[2], y->dims[1], y->dims[3]};
  const tn_expr dims[3] = {y->dims[0], y->dims[2], tni_ex_mul(g->exprs, y->dims[1], y->dims[3])};
  memcpy(b.in, n->pub.in, n->pub.n_in * sizeof *b.in);
  b.in[0] = s.flat;
  b.attr[b.n_attr++] = tni_raw_int("q_num_heads", s.heads);
  t.in[0] = tni_build_op(g, &b, y->dtype, 3, dims, err);
  if (t.in[0] != TN_NONE) t.in[0] = tni_heads_reshape(g, t.in[0], shape, 4, by_length, err);
  if (t.in[0] == TN_NONE) return tni_fail_memory(err, n->pub.name);
  t.attr[0] = tni_raw_ints("perm", perm, 4);
  ++*fired;
  return tni_build_in_place(g, n, &t, err);
}

/* --- past and present --- */

typedef struct cache {
  tni_node *join, *turn; /* turn: the Transpose after the Concat, or NULL */
  tn_id past, now, all;  /* all: what the Concat makes */
  bool wanted;           /* by who runs the graph */
  int64_t perm[TN_MAX_RANK];
} cache;

/* v, which an Attention reads, is a cache that nobody else reads. */
static bool find_cache(const tni_graph *g, tn_id v, cache *c) {
  const tni_node *turn = tni_match_node(g, v, TN_OP_TRANSPOSE);
  *c = (cache){.perm = {0, 1, 2, 3}};
  if (!tni_match_rank(g, v, 4)) return false;
  if (turn) {
    if (tni_match_uses(g, v) != 1 || !tni_match_perm(turn, 4, c->perm)) return false;
    c->turn = g->nodes[g->values[v]->pub.producer];
    v = turn->pub.in[0];
  }
  const tni_node *join = tni_match_node(g, v, TN_OP_CONCAT);
  if (!join || join->pub.n_in != 2 || !tni_match_rank(g, v, 4)) return false;
  c->wanted = g->values[v]->is_output || tni_present_cast(g, v);
  if (tni_match_uses(g, v) != 1u + c->wanted) return false;
  c->join = g->nodes[g->values[v]->pub.producer];
  c->past = join->pub.in[0];
  c->now = join->pub.in[1];
  c->all = v;
  if (!tni_match_rank(g, c->past, 4) || !tni_match_rank(g, c->now, 4)) return false;
  if (tni_past_input(g, c->past) == TN_NONE) return false;
  const int64_t given = tni_attr_i(&join->pub, "axis", 0), axis = given < 0 ? given + 4 : given;
  if (axis < 0 || axis > 3 || c->perm[2] != axis) return false;
  for (uint32_t d = 0; d < 4; d++)
    if (d != (uint32_t)axis && dim_of_heads(g, c->past, d) != dim_of_heads(g, c->now, d)) return false;
  return true;
}

/* x with its axes in the order of Attention, where the cache's is another. */
static tn_id turned_cache(tni_graph *g, const cache *c, tn_id x, tn_error *err) {
  tni_build_node b = {.type = "Transpose", .version = 13, .in = {x}, .n_in = 1, .n_attr = 1};
  tn_expr dims[4];
  if (!c->turn) return x;
  for (uint32_t d = 0; d < 4; d++) dims[d] = dim_of_heads(g, x, (uint32_t)c->perm[d]);
  b.attr[0] = tni_raw_ints("perm", c->perm, 4);
  return tni_build_op(g, &b, g->values[x]->pub.dtype, 4, dims, err);
}

/* *present: the value that Attention makes; the model's own is made of it again where somebody wants it. */
static tn_status leave_join(tni_graph *g, cache *c, tn_id *present, tn_error *err) {
  const bool wanted = c->wanted;
  int64_t back[4];
  c->join->dead = true;
  *present = wanted ? c->all : TN_NONE;
  if (!c->turn) return TN_OK;
  c->turn->dead = true;
  *present = wanted ? c->turn->pub.out[0] : TN_NONE;
  for (uint32_t d = 0; d < 4; d++) back[c->perm[d]] = d;
  const tni_raw_attr perm = tni_raw_ints("perm", back, 4);
  return wanted ? tni_graph_add_node(g, "", NULL, "Transpose", 13, c->turn->pub.out, 1, &c->all, 1, &perm, 1, NULL, err)
                : TN_OK;
}

/* What a query sees does not depend on where the past ends, and nothing else stands in the past's place. */
static bool takes_past(const tni_node *n) {
  for (uint32_t i = 4; i < 7; i++)
    if (tni_match_in(n, i) != TN_NONE) return false;
  for (uint32_t i = 1; i < n->pub.n_out; i++)
    if (n->pub.out[i] != TN_NONE) return false;
  return !tni_counts_positions(n);
}

static tn_status absorb_turn(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err) {
  tni_build_node b = {.domain = n->pub.domain, .type = n->type, .version = n->version, .n_in = 6};
  tn_id out[3] = {n->pub.out[0], TN_NONE, TN_NONE};
  cache c[2];
  if (!takes_past(n) || !tni_match_rank(g, n->pub.in[0], 4) || !copy_attrs(&b, n, 0)) return TN_OK;
  for (uint32_t i = 0; i < 2; i++)
    if (!find_cache(g, n->pub.in[i + 1], &c[i])) return TN_OK;
  for (uint32_t i = 0; i < 3; i++) /* batch, heads and lengths of both caches */
    if (dim_of_heads(g, c[0].past, (uint32_t)c[0].perm[i]) != dim_of_heads(g, c[1].past, (uint32_t)c[1].perm[i]) ||
        dim_of_heads(g, c[0].now, (uint32_t)c[0].perm[i]) != dim_of_heads(g, c[1].now, (uint32_t)c[1].perm[i]))
      return TN_OK;
  b.in[0] = n->pub.in[0];
  b.in[3] = tni_match_in(n, 3);
  if (n->pub.n_in > TN_ATTENTION_SINKS) { /* slopes, which would count from the past's end, are none */
    b.n_in = TN_ATTENTION_SINKS + 1;
    b.in[6] = TN_NONE;
    b.in[7] = n->pub.in[TN_ATTENTION_SINKS];
  }
  for (uint32_t i = 0; i < 2; i++) {
    b.in[i + 1] = turned_cache(g, &c[i], c[i].now, err);
    b.in[i + 4] = turned_cache(g, &c[i], c[i].past, err);
    if (b.in[i + 1] == TN_NONE || b.in[i + 4] == TN_NONE) return tni_fail_memory(err, n->pub.name);
    const tn_status st = leave_join(g, &c[i], &out[i + 1], err);
    if (st != TN_OK) return st;
  }
  n->dead = true;
  ++*fired;
  return tni_graph_add_node(g, n->pub.name, b.domain, b.type, b.version, b.in, b.n_in, out, 3, b.attr, b.n_attr, NULL,
                            err);
}

/* Every node that is there when it begins, then those it made: absorbing makes operands that can be flat. */
tn_status tni_pass_heads(tni_graph *g, uint32_t *n, tn_error *err) {
  uint32_t fired = 0;
  tn_status st = TN_OK;
  for (uint32_t round = 0; st == TN_OK && round < 3; round++) {
    const uint32_t n_nodes = g->n_nodes;
    for (uint32_t i = 0; st == TN_OK && i < n_nodes; i++) {
      tni_node *node = g->nodes[i];
      if (node->dead || !node->op) continue;
      if (round == 0) st = tni_head_norm(g, node, &fired, err);
      if (node->dead) continue;
      if (st == TN_OK && round == 0 && node->pub.op == TN_OP_ROTARY_EMBEDDING)
        st = keep_heads_rotary(g, node, &fired, err);
      if (st == TN_OK && round == 0 && node->pub.op == TN_OP_CONCAT) st = tni_head_concat(g, node, &fired, err);
      if (round == 1 && tni_is_attention(node->pub.op)) st = absorb_turn(g, node, &fired, err);
      if (round == 2 && tni_is_attention(node->pub.op)) st = keep_heads_attention(g, node, &fired, err);
      if (st == TN_OK && round == 2 && !node->dead && tni_is_attention(node->pub.op))
        st = keep_heads_query(g, node, &fired, err);
    }
  }
  return st == TN_OK ? tni_build_done(g, fired, n, err) : st;
}
