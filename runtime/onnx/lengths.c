/* SPDX-License-Identifier: Apache-2.0
 *
 * How many rows of each sequence are valid, where a model says so: GroupQueryAttention's seqlens_k. What computes it
 * from the inputs becomes a graph of its own, which the session runs before a run that brings a past; in the model's
 * graph stands only a value that the session writes. So a step has no such nodes, and caches stay where they are.
 */
#include "runtime/onnx/context.h"

/* A mask is summed up in some five nodes; constants are small. What takes more is not followed. */
enum { MAX_NODES = 64, MAX_OPERANDS = 8, MAX_CONST = 1 << 16 };

typedef struct tni_length {
  tn_id value, total;
  const char *node;
  const struct tni_length *next;
} tni_length;

/* The graph's input after Casts: where the model is of halves inside and float32 outside. */
static tn_id past_input(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_graph_value(g, v);
  const tni_node *n = x && x->pub.producer != TN_NONE ? g->nodes[x->pub.producer] : NULL;
  return n && n->op && n->pub.op == TN_OP_CAST ? n->pub.in[0] : v;
}

tn_id tni_lengths_note(tni_import *c, tni_graph *g, tn_id value, tn_id total, tn_id past, const char *node) {
  const tni_value *p = tni_graph_value(g, past_input(g, past));
  if (!c->model || g != c->model->graph || !p || p->pub.kind != TN_VALUE_INPUT || p->pub.rank != 4) return TN_NONE;
  if (g->past_rows != TNI_EXPR_NONE && g->past_rows != p->pub.dims[2]) return TN_NONE;
  tni_length *l = TNI_NEW(c->scratch, tni_length);
  if (!l) return TN_NONE;
  if (g->step_pos == TN_NONE) {
    const tn_id v = tni_graph_add_value(g, "", TN_VALUE_STEP, TN_DT_I64);
    if (v == TN_NONE || tni_value_set_dims(g, v, 1, p->pub.dims) != TN_OK) return TN_NONE;
    g->step_pos = v;
    g->past_rows = p->pub.dims[2];
  }
  if (g->total_rows == TN_NONE) g->total_rows = total;
  *l = (tni_length){value, total, node, c->lengths};
  c->lengths = l;
  return g->step_pos;
}

/* --- the graph of its own --- */

typedef struct node_copier {
  tni_import *c;
  const tni_graph *from;
  tni_graph *to;
  tn_id *ids;   /* [n_values of from]: the copy, TN_NONE: none yet */
  bool *wanted; /* [n_values of from] */
  tn_id in[MAX_NODES];
  uint32_t n_in;
} node_copier;

static bool makes_wanted(const node_copier *p, const tni_node *n) {
  for (uint32_t o = 0; o < n->pub.n_out; o++)
    if (n->pub.out[o] != TN_NONE && p->wanted[n->pub.out[o]]) return true;
  return false;
}

/* Marks what the outputs need; false: more than is followed. Nodes are in topological order. */
static bool select_nodes(const node_copier *p) {
  uint32_t n = 0;
  for (uint32_t i = p->from->n_nodes; i-- > 0;) {
    const tni_node *x = p->from->nodes[i];
    if (x->dead || !makes_wanted(p, x)) continue;
    if (++n > MAX_NODES || !x->op || x->op->flags & TNI_OPF_CONTROL || x->n_captures || x->pub.n_in > MAX_OPERANDS ||
        x->pub.n_out > MAX_OPERANDS)
      return false;
    for (uint32_t k = 0; k < x->pub.n_in; k++)
      if (x->pub.in[k] != TN_NONE) p->wanted[x->pub.in[k]] = true;
  }
  return true;
}

static tn_status no_memory(const node_copier *p) { return tni_fail_memory(p->c->err, p->c->file); }

/* *ok false: not to be followed. */
static tn_status copy_value(node_copier *p, tn_id id, bool *ok) {
  const tni_value *v = p->from->values[id];
  tn_status st = TN_OK;
  if (v->pub.kind == TN_VALUE_STEP || (v->pub.kind == TN_VALUE_CONST && v->tensor->bytes > MAX_CONST)) *ok = false;
  if (v->pub.kind == TN_VALUE_INPUT && p->n_in == MAX_NODES) *ok = false;
  if (!*ok) return TN_OK;
  const tn_id copy = p->ids[id] = tni_graph_add_value(
      p->to, v->pub.name, v->pub.kind == TN_VALUE_OUTPUT ? TN_VALUE_ACT : v->pub.kind, v->pub.dtype);
  if (copy == TN_NONE) return no_memory(p);
  if (v->pub.kind == TN_VALUE_CONST) st = tni_value_set_tensor(p->to, copy, v->tensor, &v->origin);
  if (v->pub.kind == TN_VALUE_INPUT) {
    st = tni_value_set_dims(p->to, copy, v->pub.rank, v->pub.dims);
    p->in[p->n_in++] = copy;
  }
  return st == TN_OK ? st : no_memory(p);
}

static tn_status copy_node(const node_copier *p, const tni_node *n) {
  tn_id in[MAX_OPERANDS], out[MAX_OPERANDS];
  for (uint32_t i = 0; i < n->pub.n_in; i++) in[i] = n->pub.in[i] == TN_NONE ? TN_NONE : p->ids[n->pub.in[i]];
  for (uint32_t o = 0; o < n->pub.n_out; o++) out[o] = n->pub.out[o] == TN_NONE ? TN_NONE : p->ids[n->pub.out[o]];
  return tni_graph_add_node(p->to, n->pub.name, n->pub.domain, n->type, n->version, in, n->pub.n_in, out, n->pub.n_out,
                            n->raw, n->n_raw, NULL, p->c->err);
}

static tn_status copy_all(node_copier *p, bool *ok) {
  const tni_graph *from = p->from;
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && *ok && i < from->n_nodes; i++) /* outputs that nobody reads have ids too */
    for (uint32_t o = 0; makes_wanted(p, from->nodes[i]) && o < from->nodes[i]->pub.n_out; o++)
      if (from->nodes[i]->pub.out[o] != TN_NONE) p->wanted[from->nodes[i]->pub.out[o]] = true;
  for (uint32_t v = 0; st == TN_OK && *ok && v < from->n_values; v++)
    if (p->wanted[v]) st = copy_value(p, v, ok);
  for (uint32_t i = 0; st == TN_OK && *ok && i < from->n_nodes; i++)
    if (!from->nodes[i]->dead && makes_wanted(p, from->nodes[i])) st = copy_node(p, from->nodes[i]);
  return st;
}

/* The outputs: two for each value that was noted, with the first node in the model that says it. */
static tn_status name_outputs(node_copier *p, const tni_length *all) {
  tn_id out[2 * MAX_NODES], seen[MAX_NODES];
  const char **names = TNI_NEW_ARRAY(p->to->arena, const char *, MAX_NODES);
  uint32_t n = 0, k;
  if (!names) return no_memory(p);
  for (const tni_length *l = all; l; l = l->next) {
    for (k = 0; k < n && seen[k] != l->value;) k++;
    if (k == MAX_NODES) continue;
    seen[k] = l->value;
    out[2 * k] = p->ids[l->value];
    out[2 * k + 1] = p->ids[l->total];
    if (!(names[k] = tni_arena_strdup(p->to->arena, l->node))) return no_memory(p);
    n += k == n;
  }
  ((tni_graph *)p->from)->length_nodes = names;
  return tni_graph_set_io(p->to, p->in, p->n_in, out, 2 * n) == TN_OK ? tni_graph_finish(p->to, p->c->err)
                                                                      : no_memory(p);
}

tn_status tni_lengths_graph(tni_import *c, tni_graph *g) {
  if (!c->lengths) return TN_OK;
  node_copier p = {.c = c,
                   .from = g,
                   .ids = TNI_NEW_ARRAY(c->scratch, tn_id, g->n_values),
                   .wanted = TNI_NEW_ARRAY(c->scratch, bool, g->n_values)};
  if (!p.ids || !p.wanted) return no_memory(&p);
  for (const tni_length *l = c->lengths; l; l = l->next) p.wanted[l->value] = p.wanted[l->total] = true;
  bool ok = select_nodes(&p);
  if (!ok) return TN_OK;
  tn_status st = tni_graph_create(g->exprs, "lengths", &p.to, c->err);
  if (st == TN_OK) st = copy_all(&p, &ok);
  if (st == TN_OK && ok) st = name_outputs(&p, c->lengths);
  if (st == TN_OK && ok)
    g->lengths = p.to;
  else
    tni_graph_destroy(p.to);
  return st;
}
