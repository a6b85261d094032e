/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/infer.h"

#include <string.h>

#include "runtime/shape/custom.h"
#include "runtime/shape/rules/rules.h"

#define TNI_OP(id, domain, name, since, until, attrs, in_min, in_max, out_min, out_max, shape_in, shape, kernel, \
               flags)                                                                                            \
  tni_shape_##shape,
static const tni_shape_fn shape_rules[] = {
#include "runtime/graph/ops.def"
};
#undef TNI_OP

static tn_status run_rule(tni_infer *in) {
  const tni_node *n = in->node;
  if (!n->op && n->custom) return tni_custom_shape(in, n->custom->shape);
  if (!n->op || n->op->row >= sizeof shape_rules / sizeof shape_rules[0]) return TN_OK;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const tni_value *v = tni_rule_ranked(in, i);
    if (v && v->pub.rank > TN_MAX_RANK) return tni_rule_fail(in, "operand %u has rank %u", i, v->pub.rank);
  }
  return shape_rules[n->op->row](in);
}

static tn_status infer_nodes(tni_graph *g, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < g->n_nodes; i++) st = tni_infer_node(g, i, err);
  return st;
}

tn_status tni_infer_node(tni_graph *g, tn_id node, tn_error *err) {
  tni_node *n = tni_graph_node(g, node);
  if (!n) return tni_fail(err, TN_E_INTERNAL, g->name, "no node %u", node);
  if (n->dead) return TN_OK;
  tni_poll poll = {NULL, TNI_POLL};
  tni_infer in = {.g = g, .x = g->exprs, .node = n, .err = err, .nodes = infer_nodes, .poll = &poll};
  tn_status st = run_rule(&in);
  if (st != TN_OK && err && err->code == st && err->node == TN_NONE) err->node = node;
  return st;
}

/* list with definitions put in; the old one stays as it is. Returns list where nothing changes. */
static const tn_expr *resolved_dims(const tni_graph *g, const tn_expr *list, uint32_t n) {
  const tn_expr zero = tni_ex_const(g->exprs, 0);
  tn_expr *copy = NULL;
  for (uint32_t i = 0; i < n; i++) {
    const tn_expr e = list[i] == TNI_EXPR_NONE ? TNI_EXPR_NONE : tni_ex_add(g->exprs, list[i], zero);
    if (e == list[i] || e == TNI_EXPR_NONE) continue;
    if (!copy) {
      copy = TNI_NEW_ARRAY(g->arena, tn_expr, n);
      if (!copy) return NULL;
      memcpy(copy, list, n * sizeof *copy);
    }
    copy[i] = e;
  }
  return copy ? copy : list;
}

/* What was learned of a symbol goes into every value that holds it. */
static tn_status put_definitions(tni_graph *g, tn_error *err) {
  for (uint32_t i = 0; i < g->n_values; i++) {
    tni_value *v = g->values[i];
    if (v->pub.rank != TNI_RANK_UNKNOWN && v->pub.rank)
      v->pub.dims = (tn_expr *)(uintptr_t)resolved_dims(g, v->pub.dims, v->pub.rank);
    if (v->elems && v->n_elems) v->elems = resolved_dims(g, v->elems, v->n_elems);
    if ((v->pub.rank != TNI_RANK_UNKNOWN && v->pub.rank && !v->pub.dims) || (v->n_elems && !v->elems))
      return tni_fail_memory(err, v->pub.name);
  }
  return TN_OK;
}

tn_status tni_infer_graph(tni_graph *g, tn_error *err) {
  uint32_t defined;
  do {
    defined = tni_ex_n_defined(g->exprs);
    tn_status st = defined ? put_definitions(g, err) : TN_OK;
    if (st == TN_OK) st = infer_nodes(g, err);
    if (st != TN_OK) return st;
  } while (tni_ex_n_defined(g->exprs) != defined);
  /* What found no memory counts as unknown until here. */
  return tni_ex_short(g->exprs) || tni_arena_short(g->arena) ? tni_fail_memory(err, NULL) : TN_OK;
}

/* A graph of one node that lives on the stack and a throw-away arena. */
typedef struct single {
  tni_graph g;
  tni_node node;
  tni_value *values;
} single;

static tn_status single_init(single *s, const tni_node *node, const tni_tensor *const *in, uint32_t n_in,
                             uint32_t n_out) {
  tni_arena *a = s->g.arena;
  uint32_t n = n_in + n_out;
  tn_id *ids = TNI_NEW_ARRAY(a, tn_id, n + 1);
  s->values = TNI_NEW_ARRAY(a, tni_value, n + 1);
  s->g.values = TNI_NEW_ARRAY(a, tni_value *, n + 1);
  if (!ids || !s->values || !s->g.values) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    tni_value *v = &s->values[i];
    s->g.values[i] = v;
    ids[i] = i < n_in && !in[i] ? TN_NONE : i;
    v->pub.rank = TNI_RANK_UNKNOWN;
    if (i >= n_in || !in[i]) continue;
    if (in[i]->rank > TN_MAX_RANK) return TN_E_INVALID;
    tn_expr *dims = TNI_NEW_ARRAY(a, tn_expr, in[i]->rank + 1);
    if (!dims) return TN_E_NO_MEMORY;
    for (uint32_t d = 0; d < in[i]->rank; d++) dims[d] = tni_ex_const(s->g.exprs, in[i]->dims[d]);
    v->pub.dims = dims;
    v->pub.rank = in[i]->rank;
    v->pub.dtype = in[i]->dtype;
    if (in[i]->data || in[i]->bytes == 0) {
      v->tensor = TNI_NEW(a, tni_tensor);
      if (!v->tensor) return TN_E_NO_MEMORY;
      *v->tensor = *in[i];
    }
  }
  s->g.n_values = s->g.cap_values = n;
  s->node = *node;
  s->node.pub.in = ids;
  s->node.pub.out = ids + n_in;
  s->node.pub.n_in = (uint16_t)n_in;
  s->node.pub.n_out = (uint16_t)n_out;
  return TN_OK;
}

/* Everything that decides was there: then the sizes are absurd (they overflow, or are below 0). */
static bool has_all_data(const single *s) {
  for (uint32_t i = 0; i < s->node.pub.n_in; i++) {
    if (s->node.pub.in[i] == TN_NONE) continue;
    const tni_tensor *t = s->values[s->node.pub.in[i]].tensor;
    bool empty = false;
    for (uint32_t d = 0; t && d < t->rank; d++) empty = empty || t->dims[d] == 0;
    if (!t || (!t->data && !empty)) return false;
  }
  return true;
}

static tn_status single_result(const single *s, const tni_value *v, tni_tensor *t, tn_error *err) {
  const char *name = s->node.pub.name ? s->node.pub.name : "";
  if (v->pub.rank == TNI_RANK_UNKNOWN || v->pub.rank > TN_MAX_RANK) {
    if (has_all_data(s)) return tni_fail(err, TN_E_INVALID, name, "the rank of a result of %s is none", s->node.type);
    return tni_fail(err, TN_E_UNSUPPORTED, name, "the rank of a result of %s depends on missing data", s->node.type);
  }
  tni_tensor r = {.dtype = v->pub.dtype, .rank = v->pub.rank};
  for (uint32_t d = 0; d < r.rank; d++) {
    if (v->pub.dims[d] == TNI_EXPR_NONE || !tni_ex_is_const(s->g.exprs, v->pub.dims[d], &r.dims[d])) {
      if (has_all_data(s))
        return tni_fail(err, TN_E_INVALID, name,
                        "dimension %u of %s's result is no size: what it is made from is absurd", d, s->node.type);
      return tni_fail(err, TN_E_UNSUPPORTED, name, "dimension %u of %s's result depends on missing data", d,
                      s->node.type);
    }
  }
  int64_t count;
  if (tni_dims_count(r.dims, r.rank, &count) != TN_OK || tni_dtype_bytes(r.dtype, count, &r.bytes) != TN_OK) {
    return tni_fail(err, TN_E_LIMIT, name, "the size of %s's result overflows", s->node.type);
  }
  t->dtype = r.dtype;
  t->rank = r.rank;
  memcpy(t->dims, r.dims, sizeof r.dims);
  t->bytes = r.bytes;
  return TN_OK;
}

tn_status tni_infer_concrete(const tni_node *node, const tni_tensor *const *in, uint32_t n_in, tni_tensor *out,
                             uint32_t n_out, const tn_run *run, tn_error *err) {
  single s = {.g = {.arena = tni_arena_create(), .exprs = tni_exprs_create(), .name = ""}};
  tn_status st = TN_E_NO_MEMORY;
  if (!node->op || n_in > UINT16_MAX || n_out > UINT16_MAX) {
    st = tni_fail(err, TN_E_UNSUPPORTED, node->pub.name, "%s is not in the op table", node->type);
    goto out;
  }
  if (s.g.arena && s.g.exprs) st = single_init(&s, node, in, n_in, n_out);
  if (st != TN_OK) {
    tni_fail(err, st, node->pub.name, st == TN_E_NO_MEMORY ? "out of memory" : "an operand's rank is too large");
    goto out;
  }
  tni_poll poll = {run, TNI_POLL};
  tni_infer ctx = {.g = &s.g, .x = s.g.exprs, .node = &s.node, .err = err, .concrete = true, .poll = &poll};
  st = run_rule(&ctx);
  if (st == TN_OK && tni_poll_stopped(&poll)) st = tni_fail(err, TN_E_CANCELLED, node->pub.name, "cancelled");
  tni_tensor *got = TNI_NEW_ARRAY(s.g.arena, tni_tensor, n_out + 1);
  if (st == TN_OK && !got) st = tni_fail_memory(err, node->pub.name);
  for (uint32_t o = 0; st == TN_OK && o < n_out; o++) st = single_result(&s, &s.values[n_in + o], &got[o], err);
  for (uint32_t o = 0; st == TN_OK && o < n_out; o++) {
    got[o].data = out[o].data;
    out[o] = got[o];
  }
out:
  tni_exprs_destroy(s.g.exprs);
  tni_arena_destroy(s.g.arena);
  return st;
}
