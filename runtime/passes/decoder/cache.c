/* SPDX-License-Identifier: Apache-2.0
 *
 * cache: past and present of Attention become caches that are appended to in place.
 *
 *   y, present_k, present_v = Attention(q, k, v, mask, past_k, past_v)
 *   ->  k' = TensorScatter(past_k in memory, k, pos);  v' likewise;  y = Attention(q, k', v', mask, -, -, valid)
 *
 * past and present are inputs and outputs of the graph, each with nothing else to it, or such with a Transpose between
 * them and Attention, or Casts of halves that the graph computes in float32 (past.c). They stay inputs and outputs,
 * without nodes: the session copies them where a run wants that (tni_gstate). A cache lies as Attention reads it,
 * [batch, whole, heads * size] or [batch, heads, whole, size], whatever layout the model declares; the sequence grows
 * along one axis in either.
 *
 * All or nothing: one past that cannot be rewritten leaves all as they are, and so do lengths that differ between them.
 * A past is the past input of an Attention, or a graph input with an axis as long. So does an Attention whose operands
 * only the run can size (a mask whose rank is not stated): it runs by itself, beside the plan that caches are in.
 *
 * Keeps: every bit. Attention with a valid length counts causality, windows and slopes from there, the last query at
 * the last key; with a past it counts them from the past's end. That is the same where there are as many queries as new
 * keys, which must be proved of an Attention that has any of these.
 */
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/decoder.h"
#include "runtime/passes/decoder/past.h"

typedef struct half {
  tn_id past, present;          /* the graph's */
  tni_node *turn_in, *turn_out; /* Transpose between them and Attention, or NULL */
  tni_node *cast_in, *cast_out; /* Cast between them and that, or NULL */
  uint32_t perm[4];             /* axis i of [batch, heads, length, size] is axis perm[i] of past */
  tn_id now, appended;          /* new rows; the value with the dims of the whole, in Attention's layout */
} half;

typedef struct cache_match {
  tni_node *attention;
  half half[2];
} cache_match;

typedef struct cache_pass {
  tni_graph *g;
  cache_match *found;
  uint32_t n;
  tn_expr batch, past, now; /* of all of them; TNI_EXPR_NONE before the first */
  tn_error *err;
} cache_pass;

static tn_expr dim_of_cache(const tni_graph *g, tn_id v, uint32_t d) { return g->values[v]->pub.dims[d]; }

static uint32_t times_among(const tn_id *ids, uint32_t n, tn_id v) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++) count += ids[i] == v;
  return count;
}

static bool is_free_output(const tni_graph *g, tn_id v) {
  return g->values[v]->is_output && tni_match_uses(g, v) == 1 && times_among(g->outputs, g->n_outputs, v) == 1;
}

static bool find_past(const tni_graph *g, tn_id v, half *h) {
  int64_t perm[TN_MAX_RANK] = {0, 1, 2, 3};
  const tni_node *turn = tni_match_node(g, v, TN_OP_TRANSPOSE);
  if (!tni_match_rank(g, v, 4)) return false;
  if (turn) {
    if (tni_match_uses(g, v) != 1 || !tni_match_perm(turn, 4, perm)) return false;
    h->turn_in = g->nodes[g->values[v]->pub.producer];
    v = turn->pub.in[0];
  }
  for (uint32_t d = 0; d < 4; d++) h->perm[d] = (uint32_t)perm[d];
  h->past = tni_past_input(g, v);
  if (h->past == TN_NONE || times_among(g->inputs, g->n_inputs, h->past) != 1) return false;
  if (h->past != v) h->cast_in = g->nodes[g->values[v]->pub.producer];
  return tni_match_rank(g, h->past, 4);
}

/* The Transpose that gives v its layout back. */
static bool find_turn(const tni_graph *g, tn_id v, half *h) {
  const tn_id reader = tni_match_only_reader(g, v);
  int64_t perm[TN_MAX_RANK];
  if (!h->turn_in) return true;
  if (reader == TN_NONE || !tni_match_perm(g->nodes[reader], 4, perm)) return false;
  for (uint32_t d = 0; d < 4; d++)
    if (perm[h->perm[d]] != d) return false;
  h->turn_out = g->nodes[reader];
  h->present = h->turn_out->pub.out[0];
  return true;
}

/* v, which Attention makes, is present, or what is Transpose of it in past's layout, or a Cast of that. */
static bool find_present(const tni_graph *g, tn_id v, half *h) {
  if (v == TN_NONE || !tni_match_rank(g, v, 4)) return false;
  h->present = h->appended = v;
  if (!find_turn(g, v, h)) return false;
  if (h->cast_in) {
    h->cast_out = tni_present_cast(g, h->present);
    if (!h->cast_out || tni_match_uses(g, h->present) != 1) return false;
    h->present = h->cast_out->pub.out[0];
    if (g->values[h->present]->pub.dtype != g->values[h->past]->pub.dtype) return false;
  }
  return is_free_output(g, h->present);
}

/* Lengths and batch of all halves are one. */
static bool same_lengths(cache_pass *p, const half *h) {
  const tni_graph *g = p->g;
  const bool flat = g->values[h->now]->pub.rank == 3;
  if (!tni_match_rank(g, h->now, flat ? 3 : 4)) return false;
  const tn_expr batch = dim_of_cache(g, h->past, h->perm[0]), past = dim_of_cache(g, h->past, h->perm[2]);
  const tn_expr now = dim_of_cache(g, h->now, flat ? 1 : 2);
  if (p->batch == TNI_EXPR_NONE) {
    p->batch = batch;
    p->past = past;
    p->now = now;
  }
  return batch == p->batch && past == p->past && now == p->now && dim_of_cache(g, h->now, 0) == batch &&
         dim_of_cache(g, h->appended, 2) == tni_ex_add(g->exprs, past, now);
}

/* As many queries as new keys. */
static bool same_queries(const cache_pass *p, const tni_node *n) {
  const tni_value *q = tni_match_value(p->g, n->pub.in[0]);
  return q && (q->pub.rank == 3 || q->pub.rank == 4) && q->pub.dims[q->pub.rank - 2] == p->now;
}

static bool find_cache_append(cache_pass *p, tni_node *n, cache_match *m) {
  const tni_graph *g = p->g;
  *m = (cache_match){.attention = n};
  if (n->dynamic || tni_match_in(n, 6) != TN_NONE || n->pub.n_out < 3 || (n->pub.n_out > 3 && n->pub.out[3] != TN_NONE))
    return false;
  if (n->pub.in[1] == TN_NONE || n->pub.in[2] == TN_NONE || n->n_raw > 16) return false;
  for (uint32_t i = 0; i < 2; i++) {
    half *h = &m->half[i];
    h->now = n->pub.in[i + 1];
    if (!find_past(g, tni_match_in(n, i + 4), h) || !find_present(g, n->pub.out[i + 1], h) || !same_lengths(p, h))
      return false;
    const tn_id read = h->cast_in ? h->cast_in->pub.out[0] : h->past;
    if (g->values[read]->pub.dtype != g->values[h->now]->pub.dtype) return false;
  }
  return !tni_counts_positions(n) || same_queries(p, n);
}

/* As long as a past, but none of those found. */
static bool is_loose(const cache_pass *p, tn_id v) {
  const tni_value *x = p->g->values[v];
  for (uint32_t i = 0; i < p->n; i++)
    if (p->found[i].half[0].past == v || p->found[i].half[1].past == v) return false;
  for (uint32_t d = 0; x->pub.rank != TNI_RANK_UNKNOWN && d < x->pub.rank; d++)
    if (x->pub.dims[d] == p->past) return true;
  return false;
}

static tn_status find_all(cache_pass *p, bool *all) {
  tni_graph *g = p->g;
  uint32_t n = 0;
  *all = !g->outer && g->n_states == 0;
  for (uint32_t i = 0; i < g->n_nodes; i++) n += !g->nodes[i]->dead && tni_is_attention(g->nodes[i]->pub.op);
  if (!*all || n == 0) return TN_OK;
  p->found = TNI_NEW_ARRAY(g->arena, cache_match, n);
  if (!p->found || tni_mark_dynamic(g) == UINT32_MAX) return tni_fail_memory(p->err, g->name);
  for (uint32_t i = 0; i < g->n_nodes && *all; i++) {
    tni_node *node = g->nodes[i];
    if (node->dead || !node->op || !tni_is_attention(node->pub.op)) continue;
    if (tni_match_in(node, 4) == TN_NONE && tni_match_in(node, 5) == TN_NONE) continue;
    *all = find_cache_append(p, node, &p->found[p->n]);
    p->n++;
  }
  for (uint32_t i = 0; p->n && i < g->n_inputs && *all; i++) *all = !is_loose(p, g->inputs[i]);
  return TN_OK;
}

/* --- rewriting --- */

static tn_id make_step(cache_pass *p) {
  tni_graph *g = p->g;
  const tn_id v = tni_graph_add_value(g, "", TN_VALUE_STEP, TN_DT_I64);
  return v != TN_NONE && tni_value_set_dims(g, v, 1, &p->batch) == TN_OK ? v : TN_NONE;
}

/* One of a cache's two values, with the dims of the whole. */
static tn_id make_state(cache_pass *p, const half *h, const tn_state *state) {
  tni_graph *g = p->g;
  const tni_value *now = g->values[h->now];
  tn_expr dims[TN_MAX_RANK];
  const tn_id v = tni_graph_add_value(g, "", TN_VALUE_STATE, now->pub.dtype);
  memcpy(dims, g->values[h->now]->pub.dims, now->pub.rank * sizeof *dims);
  dims[state->axis] = dim_of_cache(g, h->appended, 2);
  if (v == TN_NONE || tni_value_set_dims(g, v, now->pub.rank, dims) != TN_OK) return TN_NONE;
  return (g->values[v]->pub.state = tni_arena_memdup(g->arena, state, sizeof *state, _Alignof(tn_state))) ? v : TN_NONE;
}

/* The axes of the state, heads and size apart, in those of past. */
static void set_perm(const half *h, uint32_t rank, tni_gstate *s) {
  static const uint32_t by_length[4] = {0, 2, 1, 3};
  s->rank = 4;
  s->axis = h->perm[2];
  for (uint32_t d = 0; d < 4; d++) s->perm[d] = h->perm[rank == 3 ? by_length[d] : d];
}

static tn_status append_state(cache_pass *p, const half *h, tni_gstate *s) {
  tni_graph *g = p->g;
  const uint32_t rank = g->values[h->now]->pub.rank;
  int64_t heads = 0;
  if (rank == 3 && !tni_ex_is_const(g->exprs, dim_of_cache(g, h->appended, 1), &heads)) heads = 0;
  const tn_state state = {
      .h = TN_HDR(tn_state), .axis = rank == 3 ? 1 : 2, .pos = g->step_pos, .valid = g->step_valid, .heads = heads};
  *s = (tni_gstate){.past = h->past, .present = h->present};
  set_perm(h, rank, s);
  s->in = make_state(p, h, &state);
  s->out = make_state(p, h, &state);
  if (s->in == TN_NONE || s->out == TN_NONE) return tni_fail_memory(p->err, g->name);
  if (h->turn_in) h->turn_in->dead = true;
  if (h->turn_out) h->turn_out->dead = true;
  if (h->cast_in) h->cast_in->dead = true;
  if (h->cast_out) h->cast_out->dead = true;
  const tn_id in[3] = {s->in, h->now, g->step_pos};
  const tni_raw_attr axis = tni_raw_int("axis", state.axis);
  return tni_graph_add_node(g, "", NULL, "TensorScatter", 24, in, 3, &s->out, 1, &axis, 1, NULL, p->err);
}

static tn_status rewrite_cache(cache_pass *p, const cache_match *m, tni_gstate *s) {
  tni_graph *g = p->g;
  tni_node *n = m->attention;
  n->dead = true;
  for (uint32_t i = 0; i < 2; i++) {
    const tn_status st = append_state(p, &m->half[i], &s[i]);
    if (st != TN_OK) return st;
  }
  const bool onnx = n->pub.op == TN_OP_ATTENTION;
  const tn_id in[9] = {n->pub.in[0], s[0].out,      s[1].out,           tni_match_in(n, 3), TN_NONE,
                       TN_NONE,      g->step_valid, tni_match_in(n, 7), tni_match_in(n, 8)};
  return tni_graph_add_node(g, n->pub.name, n->pub.domain, n->type, onnx && n->version < 24 ? 24 : n->version, in,
                            onnx ? 7 : 9, n->pub.out, 1, n->raw, n->n_raw, NULL, p->err);
}

tn_status tni_pass_cache(tni_graph *g, uint32_t *n, tn_error *err) {
  cache_pass p = {.g = g, .batch = TNI_EXPR_NONE, .err = err};
  bool all;
  tn_status st = find_all(&p, &all);
  if (st != TN_OK || !all || p.n == 0) {
    *n = 0;
    return st;
  }
  tni_gstate *states = TNI_NEW_ARRAY(g->arena, tni_gstate, 2 * (size_t)p.n);
  if (g->step_pos == TN_NONE) g->step_pos = make_step(&p); /* else the importer's */
  g->step_valid = make_step(&p);
  if (!states || g->step_pos == TN_NONE || g->step_valid == TN_NONE) return tni_fail_memory(err, g->name);
  for (uint32_t i = 0; st == TN_OK && i < p.n; i++) st = rewrite_cache(&p, &p.found[i], &states[2 * (size_t)i]);
  if (st != TN_OK) return st;
  g->states = states;
  g->n_states = 2 * p.n;
  return tni_build_done(g, p.n, n, err);
}
