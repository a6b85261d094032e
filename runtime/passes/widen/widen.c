/* SPDX-License-Identifier: Apache-2.0
 *
 * widen:  operators on float16 and bfloat16  ->  the same on float32, Casts where the graph's inputs and outputs and
 * operators that stay are of halves.
 *
 * So one form of every operator serves halves too: what passes match, plugins claim and kernels compute. A Cast between
 * halves and float32 in the middle of a graph changes nothing any more and goes with `identity`. Weights stay as they
 * are stored (constant.h). Scales of DequantizeLinear stay halves: its result is float32 all the same.
 *
 * Operators with subgraphs, on sequences, BitCast, random ones and those that name the dtype of a result by themselves
 * stay as they are; so do values that subgraphs read.
 *
 * Keeps: names, dtypes and shapes of the graph's inputs and outputs. Values: they are rounded to halves at the end only
 * (docs/numerics.md). The lowest float16 in a constant becomes the lowest float32.
 */
#include "runtime/passes/widen/widen.h"

#include <string.h>

#include "runtime/base/base.h"
#include "runtime/passes/build/build.h"
#include "runtime/passes/widen/constant.h"

typedef struct widening {
  tni_graph *g;
  uint32_t n_nodes, n_values; /* at the start */
  uint8_t *can, *widens;      /* [n_nodes]: it could; it does */
  tn_id *to;                  /* [n_values]: the float32 that stands for this value; TN_NONE: none */
  tn_error *err;
} widening;

static bool is_half_value(const tni_graph *g, tn_id v) {
  return v != TN_NONE && !g->values[v]->type && tni_widen_is_half(g->values[v]->pub.dtype);
}

/* --- which operators ---------------------------------------------------------------------------------------------- */

static bool names_dtypes(uint32_t op) {
  switch (op) {
    case TN_OP_BIT_CAST:
    case TN_OP_CONSTANT:
    case TN_OP_EYE_LIKE:
    case TN_OP_RANDOM_NORMAL:
    case TN_OP_RANDOM_NORMAL_LIKE:
    case TN_OP_RANDOM_UNIFORM:
    case TN_OP_RANDOM_UNIFORM_LIKE:
    case TN_OP_MULTINOMIAL:
    case TN_OP_BERNOULLI:
    case TN_OP_HANN_WINDOW:
    case TN_OP_HAMMING_WINDOW:
    case TN_OP_BLACKMAN_WINDOW:
    case TN_OP_MEL_WEIGHT_MATRIX:
      return true;
    default:
      return false;
  }
}

static bool touches_halves(const tni_graph *g, const tni_node *n) {
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (is_half_value(g, n->pub.in[i])) return true;
  for (uint32_t i = 0; i < n->pub.n_out; i++)
    if (is_half_value(g, n->pub.out[i])) return true;
  return false;
}

static bool could(const tni_graph *g, const tni_node *n) {
  return !n->dead && n->op && !(n->op->flags & TNI_OPF_CONTROL) && !n->n_captures && !names_dtypes(n->pub.op) &&
         touches_halves(g, n);
}

/* The scale of DequantizeLinear is read as it is. */
static bool reads_wide(const tni_node *n, uint32_t i) { return n->pub.op != TN_OP_DEQUANTIZE_LINEAR || i != 1; }

/* Whoever makes v stays: nobody (an input), or an operator that stays. */
static bool comes_half(const widening *w, tn_id v) {
  const tni_value *x = w->g->values[v];
  if (x->pub.kind == TN_VALUE_CONST) return false;
  return x->pub.producer == TN_NONE || !w->can[x->pub.producer];
}

/* All readers of v stay, or it is read by nobody but the graph's caller. */
static bool goes_half(const widening *w, tn_id v) {
  const tni_value *x = w->g->values[v];
  for (uint32_t u = 0; u < x->pub.n_uses; u++)
    if (!w->g->nodes[x->pub.uses[u]]->dead && w->can[x->pub.uses[u]]) return false;
  return true;
}

/* A Cast between what stays half and float32: what this pass itself writes. */
static bool is_boundary(const widening *w, const tni_node *n) {
  if (n->pub.op != TN_OP_CAST) return false;
  const uint32_t from = w->g->values[n->pub.in[0]]->pub.dtype, to = w->g->values[n->pub.out[0]]->pub.dtype;
  if (tni_widen_is_half(from) && to == TN_DT_F32) return comes_half(w, n->pub.in[0]);
  return from == TN_DT_F32 && tni_widen_is_half(to) && goes_half(w, n->pub.out[0]);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static bool stays_half(const widening *w, tn_id id) {
  const tni_value *v = w->g->values[id];
  if (v->is_output || v->pub.kind == TN_VALUE_INPUT || v->pub.kind == TN_VALUE_STATE) return true;
  if (v->pub.producer != TN_NONE && !w->widens[v->pub.producer]) return true;
  for (uint32_t u = 0; u < v->pub.n_uses; u++) {
    const tni_node *n = w->g->nodes[v->pub.uses[u]];
    if (n->dead) continue;
    if (!w->widens[v->pub.uses[u]]) return true;
    for (uint32_t i = 0; i < n->pub.n_in; i++)
      if (n->pub.in[i] == id && !reads_wide(n, i)) return true;
  }
  return false;
}

static bool is_read_wide(const widening *w, tn_id id) {
  const tni_value *v = w->g->values[id];
  for (uint32_t u = 0; u < v->pub.n_uses; u++) {
    const tni_node *n = w->g->nodes[v->pub.uses[u]];
    for (uint32_t i = 0; w->widens[v->pub.uses[u]] && i < n->pub.n_in; i++)
      if (n->pub.in[i] == id && reads_wide(n, i)) return true;
  }
  return false;
}

/* A fresh float32 with v's dims, as far as they are known. */
static tn_id wide_value(tni_graph *g, tn_id v) {
  const tni_value from = *g->values[v];
  const tn_id to = tni_graph_add_value(g, "", TN_VALUE_ACT, TN_DT_F32);
  if (to == TN_NONE || tni_value_set_dims(g, to, from.pub.rank, from.pub.dims) != TN_OK) return TN_NONE;
  g->values[to]->declared = from.declared;
  g->values[to]->hint_rank = from.hint_rank;
  g->values[to]->hint_dims = from.hint_dims;
  return to;
}

static tn_status add_cast(widening *w, tn_id from, tn_id to) {
  const tni_raw_attr attr = tni_raw_int("to", w->g->values[to]->pub.dtype);
  return tni_graph_add_node(w->g, "", NULL, "Cast", 13, &from, 1, &to, 1, &attr, 1, NULL, w->err);
}

static tn_status widen_const(widening *w, tn_id v) {
  const bool stays = tni_widen_stays(w->g, v);
  if (!stays_half(w, v)) return tni_widen_constant(w->g, v, v, stays, w->err);
  w->to[v] = tni_graph_add_value(w->g, "", TN_VALUE_CONST, TN_DT_F32);
  if (w->to[v] == TN_NONE) return tni_fail_memory(w->err, w->g->name);
  return tni_widen_constant(w->g, v, w->to[v], false, w->err);
}

/* v is made or read by operators that are widened. */
static tn_status widen_value(widening *w, tn_id v) {
  tni_graph *g = w->g;
  const tni_value *x = g->values[v];
  const bool made = x->pub.producer != TN_NONE && w->widens[x->pub.producer];
  if (!made && !is_read_wide(w, v)) return TN_OK;
  if (x->pub.kind == TN_VALUE_CONST) return widen_const(w, v);
  if (!stays_half(w, v)) {
    g->values[v]->pub.dtype = TN_DT_F32;
    return TN_OK;
  }
  w->to[v] = wide_value(g, v);
  if (w->to[v] == TN_NONE) return tni_fail_memory(w->err, g->name);
  return made ? add_cast(w, w->to[v], v) : add_cast(w, v, w->to[v]);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static bool attr_is(const tni_raw_attr *a, const char *name) { return strcmp(a->name, name) == 0; }

/* ConstantOfShape's value. */
static tn_status widen_tensor(widening *w, tni_raw_attr *a) {
  tni_tensor *t = TNI_NEW(w->g->arena, tni_tensor);
  float *x = tni_arena_alloc(w->g->arena, sizeof(float), 16);
  if (!t || !x || a->tensor->bytes != 2) return tni_fail_memory(w->err, w->g->name);
  *t = *a->tensor;
  tni_tensor_to_f32(t, 0, 1, x);
  tni_widen_lowest(t->dtype, x, 1);
  t->dtype = TN_DT_F32;
  t->bytes = sizeof *x;
  t->data = x;
  a->tensor = t;
  a->a.u.p = t;
  return TN_OK;
}

/* Attributes that say halves. */
static tn_status widen_attr(widening *w, const tni_node *n, tni_raw_attr *a) {
  if (a->tensor && tni_widen_is_half(a->tensor->dtype)) return widen_tensor(w, a);
  if (a->a.type != TN_ATTR_INT || a->a.u.i < 0 || !tni_widen_is_half((uint32_t)a->a.u.i)) return TN_OK;
  if ((n->pub.op == TN_OP_CAST && attr_is(a, "to")) || attr_is(a, "stash_type") || attr_is(a, "softmax_precision") ||
      attr_is(a, "precision") || attr_is(a, "output_dtype"))
    a->a.u.i = TN_DT_F32;
  return TN_OK;
}

/* DequantizeLinear says itself what it makes, since its scale no longer does. */
static void say_wide(const tni_node *n, tni_raw_attr *attrs, uint32_t *n_attrs) {
  for (uint32_t i = 0; i < *n_attrs; i++)
    if (n->pub.op != TN_OP_DEQUANTIZE_LINEAR || attr_is(&attrs[i], "output_dtype")) return;
  if (n->pub.op == TN_OP_DEQUANTIZE_LINEAR) attrs[(*n_attrs)++] = tni_raw_int("output_dtype", TN_DT_F32);
}

static tn_status widen_node(widening *w, tni_node *n) {
  tni_graph *g = w->g;
  tn_id *ids = TNI_NEW_ARRAY(g->arena, tn_id, (size_t)n->pub.n_in + n->pub.n_out + 1);
  tni_raw_attr *attrs = TNI_NEW_ARRAY(g->arena, tni_raw_attr, (size_t)n->n_raw + 1);
  uint32_t n_attrs = n->n_raw;
  tn_status st = TN_OK;
  if (!ids || !attrs) return tni_fail_memory(w->err, n->pub.name);
  for (uint32_t i = 0; i < n->pub.n_in + n->pub.n_out; i++) {
    const bool out = i >= n->pub.n_in;
    const tn_id v = out ? n->pub.out[i - n->pub.n_in] : n->pub.in[i];
    const bool wide = v != TN_NONE && v < w->n_values && w->to[v] != TN_NONE && (out || reads_wide(n, i));
    ids[i] = wide ? w->to[v] : v;
  }
  for (uint32_t i = 0; st == TN_OK && i < n->n_raw; i++) {
    attrs[i] = n->raw[i];
    st = widen_attr(w, n, &attrs[i]);
  }
  if (st != TN_OK) return st;
  say_wide(n, attrs, &n_attrs);
  n->dead = true;
  return tni_graph_add_node(g, n->pub.name, n->pub.domain, n->type, n->version, ids, n->pub.n_in, ids + n->pub.n_in,
                            n->pub.n_out, attrs, n_attrs, NULL, w->err);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static tn_status find(widening *w, uint32_t *found) {
  tni_graph *g = w->g;
  w->n_nodes = g->n_nodes;
  w->n_values = g->n_values;
  w->can = tni_arena_alloc(g->arena, w->n_nodes + 1, 1);
  w->widens = tni_arena_alloc(g->arena, w->n_nodes + 1, 1);
  w->to = TNI_NEW_ARRAY(g->arena, tn_id, (size_t)w->n_values + 1);
  if (!w->can || !w->widens || !w->to) return tni_fail_memory(w->err, g->name);
  for (uint32_t v = 0; v < w->n_values; v++) w->to[v] = TN_NONE;
  for (uint32_t i = 0; i < w->n_nodes; i++) w->can[i] = could(g, g->nodes[i]);
  for (uint32_t i = 0; i < w->n_nodes; i++) {
    w->widens[i] = w->can[i] && !is_boundary(w, g->nodes[i]);
    *found += w->widens[i];
  }
  return TN_OK;
}

/* The coarser of the halves that g has; 0: none. */
static uint32_t halves_of(const tni_graph *g) {
  uint32_t dtype = g->widened;
  for (uint32_t i = 0; i < g->n_values; i++)
    if (is_half_value(g, i) && dtype != TN_DT_BF16) dtype = g->values[i]->pub.dtype;
  return dtype;
}

tn_status tni_pass_widen(tni_graph *g, uint32_t *n, tn_error *err) {
  widening w = {.g = g, .err = err};
  *n = 0;
  const uint32_t halves = halves_of(g);
  if (!halves) return TN_OK;
  tn_status st = find(&w, n);
  if (st != TN_OK || *n == 0) return st;
  g->widened = halves;
  for (tn_id v = 0; st == TN_OK && v < w.n_values; v++)
    if (is_half_value(g, v)) st = widen_value(&w, v);
  for (uint32_t i = 0; st == TN_OK && i < w.n_nodes; i++)
    if (w.widens[i] && !g->nodes[i]->dead) st = widen_node(&w, g->nodes[i]);
  if (st == TN_OK) st = tni_graph_finish(g, err);
  return st == TN_OK ? tni_infer_graph(g, err) : st;
}
