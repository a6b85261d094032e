/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/ir.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/priv.h"

tn_status tni_graph_create(tni_exprs *exprs, const char *name, tni_graph **out, tn_error *err) {
  tni_graph *g = calloc(1, sizeof *g);
  if (!g) return tni_fail_memory(err, name);
  g->owns_exprs = exprs == NULL;
  g->exprs = exprs ? exprs : tni_exprs_create();
  g->arena = tni_arena_create();
  if (g->arena && g->exprs) tni_arena_bill(g->arena, tni_ex_budget(g->exprs));
  g->names = tni_map_create_lent();
  g->name = g->arena ? tni_arena_strdup(g->arena, name ? name : "") : NULL;
  g->twice = g->total_rows = g->step_pos = g->step_valid = g->tables = g->rows_symbol = g->rows_end = TN_NONE;
  g->rows_limit = g->padded = g->step = g->past_rows = TNI_EXPR_NONE;
  g->padded_symbol = TN_NONE;
  if (!g->exprs || !g->names || !g->name) {
    tni_graph_destroy(g);
    return tni_fail_memory(err, name);
  }
  *out = g;
  return TN_OK;
}

void tni_graph_bill(tni_graph *g, tni_budget *b) {
  tni_ex_bill(g->exprs, b);
  tni_arena_bill(g->arena, b);
}

void tni_graph_destroy(tni_graph *g) {
  if (!g) return;
  for (uint32_t i = 0; i < g->n_subs; i++) tni_graph_destroy(g->subs[i]);
  tni_graph_destroy(g->lengths);
  if (g->owns_exprs && g->exprs) tni_exprs_destroy(g->exprs);
  tni_map_destroy(g->names);
  tni_arena_destroy(g->arena);
  free(g);
}

/* Room for one more pointer in an arena-backed array of *cap entries. NULL without memory. */
static void *grow_pointers(tni_arena *a, void *old, uint32_t n, uint32_t *cap) {
  if (n < *cap) return old;
  if (n > UINT32_MAX / 2 - 1) return NULL;
  uint32_t want = n < 2 ? 4 : n * 2;
  void **d = TNI_NEW_ARRAY(a, void *, want);
  if (!d) return NULL;
  if (n) memcpy(d, old, n * sizeof *d);
  *cap = want;
  return d;
}

tni_node *tni_graph_node(const tni_graph *g, tn_id id) { return id < g->n_nodes ? g->nodes[id] : NULL; }
tni_value *tni_graph_value(const tni_graph *g, tn_id id) { return id < g->n_values ? g->values[id] : NULL; }

tn_id tni_graph_find(const tni_graph *g, const char *name) {
  uint64_t id;
  return tni_map_get_str(g->names, name, &id) ? (tn_id)id : TN_NONE;
}

/* "%7": ONNX names may be anything, so every candidate is looked up. */
static const char *fresh_name(tni_graph *g) {
  char buf[16];
  do snprintf(buf, sizeof buf, "%%%u", g->n_fresh++);
  while (tni_graph_find(g, buf) != TN_NONE);
  return tni_arena_strdup(g->arena, buf);
}

tn_id tni_graph_add_value(tni_graph *g, const char *name, uint32_t kind, uint32_t dtype) {
  tni_value **values = grow_pointers(g->arena, g->values, g->n_values, &g->cap_values);
  tni_value *v = values ? TNI_NEW(g->arena, tni_value) : NULL;
  if (!v) return TN_NONE;
  g->values = values;
  v->pub = (tn_value){.h = TN_HDR(tn_value), .kind = kind, .dtype = dtype, .rank = TNI_RANK_UNKNOWN};
  v->pub.producer = v->pub.origin = v->captured = TN_NONE;
  v->hint_rank = TNI_RANK_UNKNOWN;
  v->pub.name = name && *name ? tni_arena_strdup(g->arena, name) : fresh_name(g);
  if (!v->pub.name) return TN_NONE;
  tn_id id = g->n_values;
  if (tni_graph_find(g, v->pub.name) != TN_NONE) {
    if (g->twice == TN_NONE) g->twice = id;
  } else if (!tni_map_put_str(g->names, v->pub.name, id)) {
    return TN_NONE;
  }
  g->values[g->n_values++] = v;
  return id;
}

tn_status tni_value_set_dims(tni_graph *g, tn_id id, uint32_t rank, const tn_expr *dims) {
  tni_value *v = tni_graph_value(g, id);
  if (!v) return TN_E_INTERNAL;
  if (rank == TNI_RANK_UNKNOWN) {
    v->pub.rank = rank;
    v->pub.dims = NULL;
    return TN_OK;
  }
  if (rank > TN_MAX_RANK) return TN_E_LIMIT;
  const tn_expr *copy = tni_arena_memdup(g->arena, dims, rank * sizeof *dims, _Alignof(tn_expr));
  if (!copy) return TN_E_NO_MEMORY;
  v->pub.dims = copy;
  v->pub.rank = rank;
  return TN_OK;
}

tn_status tni_value_set_tensor(tni_graph *g, tn_id id, const tni_tensor *t, const tni_origin *origin) {
  tni_value *v = tni_graph_value(g, id);
  if (!v) return TN_E_INTERNAL;
  if (t->rank > TN_MAX_RANK) return TN_E_LIMIT;
  tn_expr dims[TN_MAX_RANK];
  for (uint32_t i = 0; i < t->rank; i++) {
    if (t->dims[i] < 0) return TN_E_INVALID;
    dims[i] = tni_ex_const(g->exprs, t->dims[i]);
    if (dims[i] == TNI_EXPR_NONE) return TN_E_NO_MEMORY;
  }
  tni_tensor *copy = tni_arena_memdup(g->arena, t, sizeof *t, _Alignof(tni_tensor));
  if (!copy) return TN_E_NO_MEMORY;
  /* No elements have an address too: kernels add offsets to it. */
  if (!copy->data && !copy->bytes && !copy->quantized && copy->dtype != TN_DT_STRING)
    copy->data = tni_arena_alloc(g->arena, 1, 64);
  tn_status st = tni_value_set_dims(g, id, t->rank, dims);
  if (st != TN_OK) return st;
  v->tensor = copy;
  v->elems = NULL; /* what inference knew of them may have been a part */
  v->n_elems = 0;
  v->pub.kind = TN_VALUE_CONST;
  v->pub.dtype = t->dtype;
  v->origin = origin ? *origin : (tni_origin){NULL, 0};
  return TN_OK;
}

bool tni_value_reserve_uses(tni_graph *g, tni_value *v, uint32_t n) {
  uint32_t have = v->pub.n_uses;
  if (n > UINT32_MAX / 4 - have) return false;
  if (have + n <= v->cap_uses) return true;
  uint32_t cap = (have + n) * 2;
  tn_id *uses = TNI_NEW_ARRAY(g->arena, tn_id, cap);
  if (!uses) return false;
  if (have) memcpy(uses, v->pub.uses, have * sizeof *uses);
  v->pub.uses = uses;
  v->cap_uses = cap;
  return true;
}

/* The lists are ours; the ABI's struct shows them const. */
void tni_value_push_use(tni_value *v, tn_id node) { ((tn_id *)v->pub.uses)[v->pub.n_uses++] = node; }

static uint32_t outer_levels(const tni_graph *g) {
  uint32_t n = 0;
  for (const tni_graph *o = g->outer; o && n <= TNI_MAX_SUBGRAPH_DEPTH; o = o->outer) n++;
  return n;
}

/* The graph that cannot be kept is destroyed, so that the caller owns none of them in any case. */
tn_status tni_graph_adopt(tni_graph *g, tni_graph *sub, const char *node, tn_error *err) {
  if (sub->owned) {
    if (sub->outer == g) return TN_OK;
    return tni_fail(err, TN_E_INTERNAL, node, "a subgraph belongs to another graph");
  }
  tni_graph **subs = grow_pointers(g->arena, g->subs, g->n_subs, &g->cap_subs);
  if (!subs) {
    tni_graph_destroy(sub);
    return tni_fail_memory(err, node);
  }
  g->subs = subs;
  g->subs[g->n_subs++] = sub;
  sub->owned = true;
  sub->outer = g;
  if (g->depth < sub->depth + 1) g->depth = sub->depth + 1;
  if (outer_levels(g) + g->depth > TNI_MAX_SUBGRAPH_DEPTH)
    return tni_fail(err, TN_E_LIMIT, node, "subgraphs nest deeper than %d", TNI_MAX_SUBGRAPH_DEPTH);
  return TN_OK;
}

static tn_status adopt_all(tni_graph *g, const char *node, const tni_raw_attr *raw, uint32_t n_raw, tn_error *err) {
  tn_status first = TN_OK;
  for (uint32_t i = 0; i < n_raw; i++) {
    for (uint32_t k = 0; raw[i].a.type == TN_ATTR_GRAPH && k < raw[i].n_graphs; k++) {
      tn_status st = tni_graph_adopt(g, raw[i].graphs[k], node, err);
      if (first == TN_OK) first = st;
    }
  }
  return first;
}

/* Kernels write their first result wherever the operator must have one; a model may name none. */
static bool name_first(tni_graph *g, const tni_node *n, tn_id *out) {
  if (!n->op || !n->op->out_min || !n->pub.n_out || out[0] != TN_NONE) return true;
  out[0] = tni_graph_add_value(g, "", TN_VALUE_ACT, TN_DT_UNDEFINED);
  return out[0] != TN_NONE;
}

static tn_status fill_node(tni_graph *g, tni_node *n, const tn_id *in, uint32_t n_in, const tn_id *out, uint32_t n_out,
                           const tni_raw_attr *raw, uint32_t n_raw, tn_error *err) {
  tn_id id = g->n_nodes;
  if (n_in > UINT16_MAX || n_out > UINT16_MAX)
    return tni_fail_node(err, TN_E_LIMIT, n, id, "%u inputs and %u outputs; at most %d each", n_in, n_out, UINT16_MAX);
  for (uint32_t i = 0; i < n_in + n_out; i++) {
    tn_id v = i < n_in ? in[i] : out[i - n_in];
    if (v != TN_NONE && v >= g->n_values) return tni_fail_node(err, TN_E_INTERNAL, n, id, "value %u does not exist", v);
  }
  n->pub.n_in = (uint16_t)n_in;
  n->pub.n_out = (uint16_t)n_out;
  n->pub.in = tni_arena_memdup(g->arena, in, n_in * sizeof *in, _Alignof(tn_id));
  tn_id *results = tni_arena_memdup(g->arena, out, n_out * sizeof *out, _Alignof(tn_id));
  n->pub.out = results;
  n->raw = tni_raw_copy(g->arena, raw, n_raw);
  n->n_raw = n_raw;
  if (!n->pub.in || !results || !n->raw || !name_first(g, n, results)) return tni_fail_memory(err, n->pub.name);
  return n->op ? tni_attrs_type(g->arena, n, id, err) : tni_attrs_untyped(g->arena, n, err);
}

/* All uses or none. A value may stand at several inputs. */
static bool link_inputs(tni_graph *g, const tni_node *n, tn_id id) {
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    if (n->pub.in[i] == TN_NONE) continue;
    if (!tni_value_reserve_uses(g, g->values[n->pub.in[i]], 1)) {
      while (i-- > 0)
        if (n->pub.in[i] != TN_NONE) g->values[n->pub.in[i]]->pub.n_uses--;
      return false;
    }
    tni_value_push_use(g->values[n->pub.in[i]], id);
  }
  return true;
}

static bool link_node(tni_graph *g, const tni_node *n, tn_id id) {
  if (!link_inputs(g, n, id)) return false;
  for (uint32_t i = 0; i < n->pub.n_out; i++) {
    if (n->pub.out[i] == TN_NONE) continue;
    tni_value *v = g->values[n->pub.out[i]];
    if (v->pub.producer != TN_NONE && !g->nodes[v->pub.producer]->dead) continue;
    v->pub.producer = id;
    v->out_index = i;
  }
  return true;
}

tn_status tni_graph_add_node(tni_graph *g, const char *name, const char *domain, const char *type, int64_t version,
                             const tn_id *in, uint32_t n_in, const tn_id *out, uint32_t n_out, const tni_raw_attr *raw,
                             uint32_t n_raw, tn_id *id, tn_error *err) {
  tn_status st = adopt_all(g, name ? name : "", raw, n_raw, err);
  if (st != TN_OK) return st;
  char buf[128];
  if (!name || !*name) {
    snprintf(buf, sizeof buf, "%s_%u", type, g->n_nodes);
    name = buf;
  }
  if (!domain || strcmp(domain, "ai.onnx") == 0) domain = "";
  tni_node **nodes = grow_pointers(g->arena, g->nodes, g->n_nodes, &g->cap_nodes);
  tni_node *n = nodes ? TNI_NEW(g->arena, tni_node) : NULL;
  if (!n) return tni_fail_memory(err, name);
  g->nodes = nodes;
  n->pub.h = (tn_hdr)TN_HDR(tn_node);
  n->op = tni_op_find(domain, type, version);
  n->pub.op = n->op ? n->op->id : TN_OP_UNKNOWN;
  n->version = version;
  n->pub.name = tni_arena_strdup(g->arena, name);
  n->pub.domain = tni_arena_strdup(g->arena, domain);
  n->pub.type = n->type = tni_arena_strdup(g->arena, type);
  if (!n->pub.name || !n->pub.domain || !n->type) return tni_fail_memory(err, name);
  st = fill_node(g, n, in, n_in, out, n_out, raw, n_raw, err);
  if (st != TN_OK) return st;
  if (!link_node(g, n, g->n_nodes)) return tni_fail_memory(err, name);
  if (id) *id = g->n_nodes;
  g->nodes[g->n_nodes++] = n;
  return TN_OK;
}

tn_status tni_graph_set_io(tni_graph *g, const tn_id *in, uint32_t n_in, const tn_id *out, uint32_t n_out) {
  for (uint32_t i = 0; i < n_in; i++)
    if (in[i] >= g->n_values) return TN_E_INTERNAL;
  for (uint32_t i = 0; i < n_out; i++)
    if (out[i] >= g->n_values) return TN_E_INTERNAL;
  tn_id *ins = tni_arena_memdup(g->arena, in, n_in * sizeof *in, _Alignof(tn_id));
  tn_id *outs = tni_arena_memdup(g->arena, out, n_out * sizeof *out, _Alignof(tn_id));
  if (!ins || !outs) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < g->n_outputs; i++) g->values[g->outputs[i]]->is_output = false;
  g->inputs = ins;
  g->outputs = outs;
  g->n_inputs = n_in;
  g->n_outputs = n_out;
  for (uint32_t i = 0; i < n_out; i++) g->values[outs[i]]->is_output = true;
  return TN_OK;
}
