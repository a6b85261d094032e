/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/onnx/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether an initializer of this name is an input with a value. */
static bool stays_input(const tni_import *c, const tni_scope *s, const Onnx__GraphProto *gp, const char *name) {
  bool wanted = false;
  for (uint32_t i = 0; i < c->lim.n_overridable; i++) wanted = wanted || strcmp(c->lim.overridable[i], name) == 0;
  for (size_t i = 0; wanted && !s->up && i < gp->n_input; i++)
    if (gp->input[i]->name && strcmp(gp->input[i]->name, name) == 0) return true;
  return false;
}

static tn_status keep_preset(tni_import *c, tni_scope *s, const char *name, const tni_tensor *x) {
  tn_id id;
  if (c->model->ir_version < 4)
    return tni_fail(c->err, TN_E_INVALID, c->file,
                    "'%s' cannot be given: before IR version 4 (the model has %lld) an initializer is a constant", name,
                    (long long)c->model->ir_version);
  tn_status st = tni_declare(c, s, name, TN_VALUE_INPUT, &id);
  tni_tensor *kept = st ? NULL : tni_arena_memdup(s->g->arena, x, sizeof *x, _Alignof(tni_tensor));
  if (st) return st;
  if (!kept) return tni_fail_memory(c->err, c->file);
  tni_graph_value(s->g, id)->preset = kept;
  return tni_tensor_align(kept, s->g->arena, c->err);
}

static tn_status add_initializer(tni_import *c, tni_scope *s, const Onnx__GraphProto *gp, const Onnx__TensorProto *t) {
  tni_tensor x;
  tni_origin from;
  tn_id id;
  if (!t->name || !*t->name) return tni_fail(c->err, TN_E_INVALID, c->file, "an initializer has no name");
  tn_status st = tni_read_tensor(c, t, "initializer", s->g->arena, &x, &from);
  if (!st && stays_input(c, s, gp, t->name)) return keep_preset(c, s, t->name, &x);
  if (!st) st = tni_declare(c, s, t->name, TN_VALUE_CONST, &id);
  if (st) return st;
  st = tni_value_set_tensor(s->g, id, &x, &from);
  if (st == TN_E_NO_MEMORY) return tni_fail_memory(c->err, c->file);
  return st ? tni_fail(c->err, st, c->file, "initializer '%s' cannot be kept", t->name) : TN_OK;
}

static tn_status add_initializers(tni_import *c, tni_scope *s, const Onnx__GraphProto *gp) {
  if (gp->n_sparse_initializer) {
    const Onnx__TensorProto *t = gp->sparse_initializer[0]->values;
    return tni_fail(c->err, TN_E_UNSUPPORTED, c->file, "initializer '%s' is sparse", t && t->name ? t->name : "");
  }
  tn_status st = TN_OK;
  for (size_t i = 0; i < gp->n_initializer && !st; i++) st = add_initializer(c, s, gp, gp->initializer[i]);
  return st;
}

/* Inputs that an initializer gives a value are constants (IR < 4 lists every initializer as an input), but for those
 * that the caller wants to give. */
static tn_status add_inputs(tni_import *c, tni_scope *s, const Onnx__GraphProto *gp, tn_id *ids, uint32_t *n) {
  const Onnx__ValueInfoProto **infos = TNI_NEW_ARRAY(c->scratch, const Onnx__ValueInfoProto *, gp->n_input + 1);
  tn_status st = infos ? TN_OK : tni_fail_memory(c->err, c->file);
  for (size_t i = 0; i < gp->n_input && !st; i++) {
    const char *name = gp->input[i]->name;
    uint64_t known;
    if (!name || !*name) return tni_fail(c->err, TN_E_INVALID, c->file, "input %zu has no name", i);
    const tni_value *there =
        tni_map_get_str(s->names, name, &known) ? tni_graph_value(s->g, (tn_id)known) : NULL;
    if (there && there->tensor) continue;
    if (there && there->preset)
      ids[*n] = (tn_id)known;
    else
      st = tni_declare(c, s, name, TN_VALUE_INPUT, &ids[*n]);
    infos[(*n)++] = gp->input[i];
  }
  if (!st && !s->up) st = tni_input_dims(c, infos, *n);
  for (uint32_t i = 0; i < *n && !st; i++) st = tni_input_type(c, s->g, ids[i], infos[i]);
  return st;
}

static tn_status declare_outputs(tni_import *c, tni_scope *s, const Onnx__NodeProto *n) {
  tn_status st = TN_OK;
  tn_id id;
  for (size_t i = 0; i < n->n_output && !st; i++)
    if (*n->output[i]) st = tni_declare(c, s, n->output[i], TN_VALUE_ACT, &id);
  if (st) tni_error_prefix(c->err, "node '%s'", tni_node_label(n));
  return st;
}

/* Everything that nodes define: their outputs, and the constants among them with their values. */
static tn_status declare_nodes(tni_import *c, tni_scope *s, Onnx__NodeProto *const *nodes, size_t n) {
  tn_status st = TN_OK;
  for (size_t i = 0; i < n && !st; i++) st = declare_outputs(c, s, nodes[i]);
  for (size_t i = 0; i < n && !st; i++) {
    tn_id v = TN_NONE;
    if (!tni_is_standard(nodes[i], "Constant")) continue;
    if (nodes[i]->n_output == 1 && *nodes[i]->output[0])
      st = tni_resolve(c, s, nodes[i]->output[0], tni_node_label(nodes[i]), &v);
    else
      st = tni_fail(c->err, TN_E_INVALID, c->file, "node '%s' (Constant) must have one output",
                    tni_node_label(nodes[i]));
    if (!st) st = tni_convert_constant(c, s, nodes[i], v);
  }
  return st;
}

/* Declared shapes: never trusted, so names that are not there do no harm. */
static tn_status add_hints(tni_import *c, tni_scope *s, Onnx__ValueInfoProto *const *infos, size_t n,
                           bool new_symbols) {
  tn_status st = TN_OK;
  for (size_t i = 0; i < n && !st; i++) {
    uint64_t id;
    if (!infos[i]->name || !tni_map_get_str(s->names, infos[i]->name, &id) || id == TN_NONE) continue;
    const tni_value *v = tni_graph_value(s->g, (tn_id)id);
    if (!v->tensor && v->pub.kind != TN_VALUE_INPUT) st = tni_hint_type(c, s->g, (tn_id)id, infos[i], new_symbols);
  }
  return st;
}

/* Converters to halves write Casts of the graph's inputs after all other nodes. They come first, so that rewrites see
 * them at their operands. Casts of ids and masks stay: calibration files know a model by the order of its nodes. */
static bool casts_input(const tni_scope *s, const Onnx__NodeProto *n) {
  uint64_t id;
  if (!tni_is_standard(n, "Cast") || n->n_input != 1 || !tni_map_get_str(s->names, n->input[0], &id) || id == TN_NONE)
    return false;
  const tni_value *v = tni_graph_value(s->g, (tn_id)id);
  const uint32_t t = v->pub.dtype;
  return v->pub.kind == TN_VALUE_INPUT && (t == TN_DT_F32 || t == TN_DT_F16 || t == TN_DT_BF16);
}

tn_status tni_convert_nodes(tni_import *c, tni_scope *s, Onnx__NodeProto *const *nodes, size_t n,
                            Onnx__ValueInfoProto *const *hints, size_t n_hints) {
  tn_status st = declare_nodes(c, s, nodes, n);
  if (!st) st = add_hints(c, s, hints, n_hints, false);
  for (size_t i = 0; i < n && !st; i++)
    if (casts_input(s, nodes[i])) st = tni_convert_node(c, s, nodes[i]);
  for (size_t i = 0; i < n && !st; i++)
    if (!tni_is_standard(nodes[i], "Constant") && !casts_input(s, nodes[i])) st = tni_convert_node(c, s, nodes[i]);
  return st;
}

/* Of the main graph: outputs are asked for by name, so one that an exporter lists twice is kept once. */
static tn_status keep_first(tni_import *c, const Onnx__GraphProto *gp, tn_id *ids, uint32_t *n) {
  tni_map *seen = tni_map_create();
  tn_status st = seen ? TN_OK : tni_fail_memory(c->err, c->file);
  *n = 0;
  for (size_t i = 0; i < gp->n_output && !st; i++) {
    uint64_t k;
    if (tni_map_get_str(seen, gp->output[i]->name, &k)) continue;
    if (!tni_map_put_str(seen, gp->output[i]->name, i)) st = tni_fail_memory(c->err, c->file);
    ids[(*n)++] = ids[i];
  }
  tni_map_destroy(seen);
  return st;
}

static tn_status add_outputs(tni_import *c, tni_scope *s, const Onnx__GraphProto *gp, tn_id *ids, uint32_t *n) {
  for (size_t i = 0; i < gp->n_output; i++) {
    const char *name = gp->output[i]->name;
    if (!name || !*name) return tni_fail(c->err, TN_E_INVALID, c->file, "output %zu has no name", i);
    tn_status st = tni_resolve(c, s, name, "the list of outputs", &ids[i]);
    if (st) return st;
    if (ids[i] == TN_NONE) return tni_fail(c->err, TN_E_INVALID, c->file, "output '%s' is absent", name);
  }
  *n = (uint32_t)gp->n_output;
  return s->up ? TN_OK : keep_first(c, gp, ids, n);
}

static tn_status convert_graph(tni_import *c, tni_scope *s, const Onnx__GraphProto *gp) {
  size_t room = gp->n_input + gp->n_output;
  if (room > c->lim.max_nodes) return tni_fail(c->err, TN_E_LIMIT, c->file, "%zu inputs and outputs", room);
  tn_id *in = calloc(room + 1, sizeof *in);
  if (!in) return tni_fail_memory(c->err, c->file);
  tn_id *out = in + gp->n_input;
  uint32_t n_in = 0, n_out = 0;
  tn_status st = add_initializers(c, s, gp);
  if (!st) st = add_inputs(c, s, gp, in, &n_in);
  if (!st) st = tni_convert_nodes(c, s, gp->node, gp->n_node, gp->value_info, gp->n_value_info);
  if (!st) st = add_hints(c, s, gp->output, gp->n_output, s->up == NULL);
  if (!st) st = add_outputs(c, s, gp, out, &n_out);
  if (!st) {
    st = tni_graph_set_io(s->g, in, n_in, out, n_out);
    if (st)
      st = tni_fail(c->err, st, c->file, "inputs and outputs cannot be kept%s",
                    st == TN_E_NO_MEMORY ? ": out of memory" : "");
  }
  free(in);
  return st;
}

tn_status tni_convert_subgraph(tni_import *c, tni_scope *s, const Onnx__GraphProto *gp, tni_graph **out) {
  if (s->depth >= c->lim.max_depth)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "graphs and function calls nest deeper than %u", c->lim.max_depth);
  tni_graph *g;
  tn_status st = tni_graph_create(c->exprs, gp->name ? gp->name : "", &g, c->err);
  if (st) return st;
  g->outer = s->g;
  tni_scope sub = *s;
  sub.up = s;
  sub.g = g;
  sub.results = NULL;
  sub.depth++;
  sub.names = tni_map_create();
  st = sub.names ? convert_graph(c, &sub, gp) : tni_fail_memory(c->err, c->file);
  tni_map_destroy(sub.names);
  if (st) {
    tni_graph_destroy(g);
    return st;
  }
  st = tni_graph_adopt(s->g, g, "", c->err);
  if (!st) *out = g;
  return st;
}

/* Nothing but subgraphs of Ifs reads v. */
static bool is_for_branches(const tni_graph *g, const tni_value *v, tn_id id) {
  for (uint32_t u = 0; u < v->pub.n_uses; u++) {
    const tni_node *n = tni_graph_node(g, v->pub.uses[u]);
    if (n->pub.op != TN_OP_IF || n->pub.in[0] == id) return false;
  }
  return v->pub.n_uses != 0;
}

/* An operand that only a branch reads may be anything where the other branch is taken: exporters of merged decoders
 * declare the lengths of a past that then is a stand-in. After the batch each such dim is a symbol of its own. */
static tn_status free_branch_inputs(tni_import *c, tni_graph *g) {
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const tn_id id = g->inputs[i];
    const tni_value *v = tni_graph_value(g, id);
    tn_expr dims[TN_MAX_RANK];
    int64_t n;
    if (v->pub.rank > TN_MAX_RANK || !is_for_branches(g, v, id)) continue;
    for (uint32_t d = 0; d < v->pub.rank; d++) {
      char text[300];
      dims[d] = v->pub.dims[d];
      if (d == 0 || dims[d] == TNI_EXPR_NONE || tni_ex_is_const(g->exprs, dims[d], &n)) continue;
      snprintf(text, sizeof text, "%.200s.%u", v->pub.name, d);
      dims[d] = tni_ex_sym(g->exprs, text);
      if (dims[d] == TNI_EXPR_NONE) return tni_fail_memory(c->err, c->file);
    }
    tni_graph_value(g, id)->branch_dims = v->pub.dims; /* tni_value_set_dims leaves them where they are */
    tn_status st = tni_value_set_dims(g, id, v->pub.rank, dims);
    if (st) return tni_fail(c->err, st, c->file, "value '%s': its dimensions", v->pub.name);
  }
  return TN_OK;
}

tn_status tni_convert_model(tni_import *c, tni_graph *g) {
  const Onnx__ModelProto *m = c->proto;
  tni_scope s = {.g = g, .opsets = m->opset_import, .n_opsets = m->n_opset_import, .prefix = "", .depth = 1};
  tn_status st = tni_check_opsets(c, m->opset_import, m->n_opset_import, "the model");
  if (!st) st = tni_index_functions(c);
  if (st) return st;
  s.names = tni_map_create();
  st = s.names ? convert_graph(c, &s, m->graph) : tni_fail_memory(c->err, c->file);
  tni_map_destroy(s.names);
  if (!st) st = tni_graph_finish(g, c->err);
  return st ? st : free_branch_inputs(c, g);
}
