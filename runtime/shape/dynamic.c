/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/shape/infer.h"
#include "runtime/shape/rules/rules.h"

/* Symbols that the caller's inputs, the caches or the session give a value. */
typedef struct given {
  bool *symbol;
  uint32_t n;
} given;

static bool set_given(void *ctx, tn_id sym) {
  given *k = ctx;
  if (sym < k->n) k->symbol[sym] = true;
  return true;
}

static bool is_given(void *ctx, tn_id sym) {
  const given *k = ctx;
  return sym < k->n && k->symbol[sym];
}

static bool find_given(const tni_graph *g, given *k) {
  k->n = tni_ex_n_symbols(g->exprs);
  k->symbol = calloc(k->n + 1, sizeof *k->symbol);
  if (!k->symbol) return false;
  for (uint32_t i = 0; i < g->n_values; i++) {
    const tni_value *v = g->values[i];
    if (v->pub.kind != TN_VALUE_INPUT && v->pub.kind != TN_VALUE_STATE) continue;
    for (uint32_t d = 0; v->pub.rank != TNI_RANK_UNKNOWN && d < v->pub.rank; d++)
      (void)tni_ex_each_symbol(g->exprs, v->pub.dims[d], set_given, k);
  }
  if (g->rows_symbol != TN_NONE) set_given(k, g->rows_symbol);
  if (g->rows_end != TN_NONE) set_given(k, g->rows_end);
  return true;
}

static bool dims_given(const tni_graph *g, const given *k, const tni_value *v) {
  if (v->pub.rank > TN_MAX_RANK) return false;
  for (uint32_t d = 0; d < v->pub.rank; d++)
    if (!tni_ex_each_symbol(g->exprs, v->pub.dims[d], is_given, (void *)(uintptr_t)k)) return false;
  return true;
}

static tni_value *dynamic_operand(const tni_graph *g, const tni_node *n, uint32_t i) {
  const tn_id id = i < n->pub.n_in ? n->pub.in[i] : n->captures[i - n->pub.n_in];
  return id == TN_NONE ? NULL : g->values[id];
}

/* What no one reads and no one wants needs no dims: a host task leaves it out. */
static bool is_wanted(const tni_node *n, const tni_value *v) {
  return v->pub.n_uses || v->is_output || n->pub.n_out == 1;
}

static bool node_is_dynamic(const tni_graph *g, const tni_node *n) {
  /* Compress by a constant has known dims, but no device plans an operator of that kind. */
  if (n->op && (n->op->flags & (TNI_OPF_CONTROL | TNI_OPF_DATA_DEPENDENT))) return true;
  for (uint32_t i = 0; i < n->pub.n_in + n->n_captures; i++) {
    const tni_value *v = dynamic_operand(g, n, i);
    if (v && v->dynamic) return true;
  }
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    if (n->pub.out[o] == TN_NONE) continue;
    const tni_value *v = g->values[n->pub.out[o]];
    if (v->dynamic && is_wanted(n, v)) return true;
  }
  return false;
}

uint32_t tni_mark_dynamic(tni_graph *g) {
  given k;
  uint32_t n = 0;
  if (!find_given(g, &k)) return UINT32_MAX;
  for (uint32_t i = 0; i < g->n_values; i++) {
    tni_value *v = g->values[i];
    v->dynamic = (v->pub.kind == TN_VALUE_ACT || v->pub.kind == TN_VALUE_OUTPUT) && !dims_given(g, &k, v);
    if (v->pub.kind == TN_VALUE_INPUT)
      v->dynamic = v->pub.rank > TN_MAX_RANK; /* sequences, optionals, no rank stated */
  }
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    tni_node *node = g->nodes[i];
    node->dynamic = !node->dead && node_is_dynamic(g, node);
    n += node->dynamic;
  }
  free(k.symbol);
  return n;
}

/* --- reasons ---------------------------------------------------------------------------------------------------- */

/* The first node upstream of n (or n) whose own operands all have given dims and elements enough, but whose result has
 * not: where the unknown begins. */
typedef struct origin_search {
  const tni_graph *g;
  given k;
  bool *seen;
} origin_search;

static bool elems_given(const origin_search *s, const tni_value *v) {
  if (!v->elems) return false;
  for (uint32_t i = 0; i < v->n_elems; i++)
    if (!tni_ex_each_symbol(s->g->exprs, v->elems[i], is_given, (void *)(uintptr_t)&s->k)) return false;
  return true;
}

static tn_id origin_of(origin_search *s, tn_id id) {
  const tni_node *n = s->g->nodes[id];
  s->seen[id] = true;
  if (n->op && (n->op->flags & (TNI_OPF_CONTROL | TNI_OPF_DATA_DEPENDENT))) return id;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const tni_value *v = dynamic_operand(s->g, n, i);
    if (!v || v->pub.kind == TN_VALUE_CONST || v->pub.kind == TN_VALUE_STEP) continue;
    const tn_id from = v->pub.producer;
    if (from == TN_NONE || from >= s->g->n_nodes || s->seen[from]) continue;
    if (dims_given(s->g, &s->k, v) && !tni_dtype_is_index(v->pub.dtype)) continue;
    if (dims_given(s->g, &s->k, v) && elems_given(s, v)) continue;
    return origin_of(s, from);
  }
  return id;
}

static void say_origin(const tni_graph *g, tn_id node, tn_id from, char *buf, size_t size) {
  const tni_node *n = g->nodes[node], *o = g->nodes[from];
  const char *type = o->type ? o->type : "node";
  if (o->op && (o->op->flags & TNI_OPF_DATA_DEPENDENT))
    snprintf(buf, size, "output length depends on data of %s '%s'", type, o->pub.name);
  else if (o->op && (o->op->flags & TNI_OPF_CONTROL))
    snprintf(buf, size, "depends on the subgraph that %s '%s' runs", type, o->pub.name);
  else if (!o->op)
    snprintf(buf, size, "shapes after operator %s ('%s') are not known", type, o->pub.name);
  else if (node == from)
    snprintf(buf, size, "its elements depend on data: '%s'",
             n->pub.n_in && n->pub.in[0] != TN_NONE ? g->values[n->pub.in[0]]->pub.name : n->pub.name);
  else
    snprintf(buf, size, "depends on data that %s '%s' reads", type, o->pub.name);
}

char *tni_dynamic_reason(const tni_graph *g, tn_id node, char *buf, size_t size) {
  origin_search s = {.g = g, .seen = calloc(g->n_nodes + 1, sizeof(bool))};
  if (size) buf[0] = 0;
  if (s.seen && node < g->n_nodes && find_given(g, &s.k)) {
    say_origin(g, node, origin_of(&s, node), buf, size);
    free(s.k.symbol);
  }
  free(s.seen);
  return buf;
}
