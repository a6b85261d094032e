/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX's own operators at opset 21, whose DequantizeLinear has blocks. Of those whose form changed since opset 13, sums
 * and splits are brought to the new one; models with others, or with an older opset, are refused.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/quantize/write.h"

enum { OLDEST = 13, WANTED = 21, IR = 10 };

static bool is_one_of(const char *op, const char *const *names, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(op, names[i]) == 0) return true;
  return false;
}

static Onnx__AttributeProto *take_attr(Onnx__NodeProto *n, const char *name) {
  for (size_t i = 0; i < n->n_attribute; i++) {
    Onnx__AttributeProto *a = n->attribute[i];
    if (!a->name || strcmp(a->name, name) != 0) continue;
    for (n->n_attribute--; i < n->n_attribute; i++) n->attribute[i] = n->attribute[i + 1];
    return a;
  }
  return NULL;
}

/* axes become an input. */
static tn_status turn_axes(tni_qz_writer *w, Onnx__NodeProto *n) {
  const Onnx__AttributeProto *a = take_attr(n, "axes");
  if (!a) return TN_OK;
  char name[1024];
  snprintf(name, sizeof name, "%s_axes", n->n_output && n->output[0] ? n->output[0] : "");
  Onnx__TensorProto *t = TNI_NEW(w->arena, Onnx__TensorProto);
  char **in = TNI_NEW_ARRAY(w->arena, char *, 2);
  int64_t *dims = TNI_NEW_ARRAY(w->arena, int64_t, 1);
  if (!t || !in || !dims) return tni_qz_no_memory(w);
  onnx__tensor_proto__init(t);
  dims[0] = (int64_t)a->n_ints;
  t->dims = dims;
  t->n_dims = 1;
  t->has_data_type = 1;
  t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
  t->int64_data = a->ints;
  t->n_int64_data = a->n_ints;
  t->name = tni_arena_strdup(w->arena, name);
  if (!t->name) return tni_qz_no_memory(w);
  in[0] = n->input[0];
  in[1] = t->name;
  n->input = in;
  n->n_input = 2;
  w->initializers[w->n_initializers++] = t;
  return TN_OK;
}

/* Equal parts are said by their number. */
static tn_status count_parts(tni_qz_writer *w, Onnx__NodeProto *n) {
  if (n->n_input > 1) return TN_OK;
  Onnx__AttributeProto **attrs = TNI_NEW_ARRAY(w->arena, Onnx__AttributeProto *, n->n_attribute + 1);
  Onnx__AttributeProto *a = TNI_NEW(w->arena, Onnx__AttributeProto);
  if (!attrs || !a) return tni_qz_no_memory(w);
  onnx__attribute_proto__init(a);
  a->name = (char *)(uintptr_t) "num_outputs";
  a->has_type = 1;
  a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  a->has_i = 1;
  a->i = (int64_t)n->n_output;
  if (n->n_attribute) memcpy(attrs, n->attribute, n->n_attribute * sizeof *attrs);
  attrs[n->n_attribute++] = a;
  n->attribute = attrs;
  return TN_OK;
}

static tn_status raise_nodes(tni_qz_writer *w, Onnx__GraphProto *g, int64_t from);

static tn_status raise_node(tni_qz_writer *w, Onnx__NodeProto *n, int64_t from) {
  static const char *const sums[] = {"ReduceMax",    "ReduceMean",      "ReduceMin", "ReduceProd",     "ReduceL1",
                                     "ReduceL2",     "ReduceLogSum",    "ReduceLogSumExp", "ReduceSumSquare"};
  static const char *const other[] = {"GroupNormalization", "GridSample", "DFT"};
  tn_status st = TN_OK;
  for (size_t i = 0; st == TN_OK && i < n->n_attribute; i++) {
    const Onnx__AttributeProto *a = n->attribute[i];
    if (a->g) st = raise_nodes(w, a->g, from);
    for (size_t k = 0; st == TN_OK && k < a->n_graphs; k++) st = raise_nodes(w, a->graphs[k], from);
  }
  if (st != TN_OK || !n->op_type || (n->domain && *n->domain)) return st;
  if (is_one_of(n->op_type, other, sizeof other / sizeof *other))
    return tni_fail(w->z->err, TN_E_UNSUPPORTED, n->name ? n->name : "", "QDQ wants opset 21, where %s differs from opset %lld's",
                    n->op_type, (long long)from);
  if (from < 18 && is_one_of(n->op_type, sums, sizeof sums / sizeof *sums)) return turn_axes(w, n);
  return from < 18 && strcmp(n->op_type, "Split") == 0 ? count_parts(w, n) : TN_OK;
}

static tn_status raise_nodes(tni_qz_writer *w, Onnx__GraphProto *g, int64_t from) {
  tn_status st = TN_OK;
  for (size_t i = 0; st == TN_OK && i < g->n_node; i++) st = raise_node(w, g->node[i], from);
  return st;
}

size_t tni_qz_count_nodes(const Onnx__GraphProto *g) {
  size_t n = g->n_node;
  for (size_t i = 0; i < g->n_node; i++)
    for (size_t k = 0; k < g->node[i]->n_attribute; k++) {
      const Onnx__AttributeProto *a = g->node[i]->attribute[k];
      n += a->g ? tni_qz_count_nodes(a->g) : 0;
      for (size_t j = 0; j < a->n_graphs; j++) n += tni_qz_count_nodes(a->graphs[j]);
    }
  return n;
}

tn_status tni_qz_raise_opset(tni_qz_writer *w) {
  Onnx__ModelProto *m = w->model;
  for (size_t i = 0; i < m->n_opset_import; i++) {
    Onnx__OperatorSetIdProto *o = m->opset_import[i];
    if ((o->domain && *o->domain && strcmp(o->domain, "ai.onnx") != 0) || o->version >= WANTED) continue;
    if (o->version < OLDEST || m->n_functions)
      return tni_fail(w->z->err, TN_E_UNSUPPORTED, w->z->path, "QDQ wants opset 21; '%s' has opset %lld%s", w->z->path,
                      (long long)o->version, m->n_functions ? " and functions" : ", and what is below 13 is not brought to it");
    const tn_status st = raise_nodes(w, m->graph, o->version);
    if (st) return st;
    o->version = WANTED;
  }
  m->has_ir_version = 1;
  if (m->ir_version < IR) m->ir_version = IR;
  return TN_OK;
}
