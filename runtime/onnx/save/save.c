/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/onnx/save/save.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "runtime/base/base.h"

enum { OPSET = 28, IR_VERSION = 10, ALIGN = 4096 };
#define DATA_FILE "model.onnx_data"

typedef struct saver {
  const tni_graph *g;
  tni_arena *arena;
  FILE *data;
  uint64_t at; /* bytes of the data file so far */
  Onnx__GraphProto graph;
  Onnx__OperatorSetIdProto sets[8];
  Onnx__OperatorSetIdProto *set_of[8];
  size_t n_sets;
  tni_map *seen; /* constants that are in the file */
  const char *folder;
  tn_error *err;
} saver;

static char *name_of(const saver *s, tn_id v) {
  return v == TN_NONE ? (char *)"" : (char *)(uintptr_t)s->g->values[v]->pub.name;
}

/* --- types ------------------------------------------------------------------------------------------------------- */

static bool symbolic_dim(saver *s, tn_id v, uint32_t i, Onnx__TensorShapeProto__Dimension *d) {
  char text[128];
  tni_ex_print(s->g->exprs, s->g->values[v]->pub.dims[i], text, sizeof text);
  d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
  return (d->dim_param = tni_arena_strdup(s->arena, text)) != NULL;
}

static Onnx__ValueInfoProto *declared_value(saver *s, const tni_saved *io) {
  Onnx__ValueInfoProto *v = TNI_NEW(s->arena, Onnx__ValueInfoProto);
  Onnx__TypeProto *type = TNI_NEW(s->arena, Onnx__TypeProto);
  Onnx__TypeProto__Tensor *tensor = TNI_NEW(s->arena, Onnx__TypeProto__Tensor);
  Onnx__TensorShapeProto *shape = TNI_NEW(s->arena, Onnx__TensorShapeProto);
  Onnx__TensorShapeProto__Dimension *dims = TNI_NEW_ARRAY(s->arena, Onnx__TensorShapeProto__Dimension, io->t->rank + 1);
  Onnx__TensorShapeProto__Dimension **list =
      TNI_NEW_ARRAY(s->arena, Onnx__TensorShapeProto__Dimension *, io->t->rank + 1);
  if (!v || !type || !tensor || !shape || !dims || !list) return NULL;
  onnx__value_info_proto__init(v);
  onnx__type_proto__init(type);
  onnx__type_proto__tensor__init(tensor);
  onnx__tensor_shape_proto__init(shape);
  for (uint32_t i = 0; i < io->t->rank; i++) {
    onnx__tensor_shape_proto__dimension__init(&dims[i]);
    list[i] = &dims[i];
    if (io->t->dims[i] < 0) {
      if (!symbolic_dim(s, io->value, i, &dims[i])) return NULL;
      continue;
    }
    dims[i].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    dims[i].dim_value = io->t->dims[i];
  }
  shape->n_dim = io->t->rank;
  shape->dim = list;
  tensor->has_elem_type = 1;
  tensor->elem_type = (int32_t)io->t->dtype;
  tensor->shape = shape;
  type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  type->tensor_type = tensor;
  v->name = name_of(s, io->value);
  v->type = type;
  return v;
}

static tn_status declare_all(saver *s, const tni_saved *io, uint32_t n, Onnx__ValueInfoProto ***list, size_t *count) {
  *list = TNI_NEW_ARRAY(s->arena, Onnx__ValueInfoProto *, n + 1);
  if (!*list) return tni_fail_memory(s->err, s->folder);
  for (*count = 0; *count < n; ++*count)
    if (!((*list)[*count] = declared_value(s, &io[*count]))) return tni_fail_memory(s->err, s->folder);
  return TN_OK;
}

/* --- constants --------------------------------------------------------------------------------------------------- */

static Onnx__StringStringEntryProto *add_entry(saver *s, const char *key, const char *value) {
  Onnx__StringStringEntryProto *e = TNI_NEW(s->arena, Onnx__StringStringEntryProto);
  if (!e) return NULL;
  onnx__string_string_entry_proto__init(e);
  e->key = (char *)(uintptr_t)key;
  e->value = tni_arena_strdup(s->arena, value);
  return e->value ? e : NULL;
}

static bool put_tensor_bytes(saver *s, const void *p, uint64_t n) {
  s->at += n;
  return !n || fwrite(p, 1, n, s->data) == n;
}

/* Elements of a constant that is kept quantized, some at a time. */
static bool put_floats(saver *s, const tni_tensor *t) {
  float buf[1024];
  const int64_t all = (int64_t)(t->bytes / sizeof *buf);
  for (int64_t i = 0, n; i < all; i += n) {
    n = all - i < 1024 ? all - i : 1024;
    tni_tensor_to_f32(t, i, n, buf);
    if (!put_tensor_bytes(s, buf, (uint64_t)n * sizeof *buf)) return false;
  }
  return true;
}

static tn_status write_data(saver *s, const tni_tensor *t, const char *name) {
  static const char zeros[ALIGN];
  bool ok = put_tensor_bytes(s, zeros, (ALIGN - s->at % ALIGN) % ALIGN);
  if (!t->data && t->bytes && t->dtype != TN_DT_F32)
    return tni_fail(s->err, TN_E_UNSUPPORTED, name, "constant '%s' has no elements that could be written", name);
  ok = ok && (t->data || !t->bytes ? put_tensor_bytes(s, t->data, t->bytes) : put_floats(s, t));
  return ok ? TN_OK
            : tni_fail(s->err, tni_errno_status(errno, TN_E_IO), s->folder, "cannot write '%s/%s': %s", s->folder,
                       DATA_FILE, strerror(errno));
}

static tn_status add_constant(saver *s, tn_id v) {
  const tni_value *val = s->g->values[v];
  const tni_tensor *t = val->tensor;
  char offset[24], length[24];
  if (tni_map_get_str(s->seen, val->pub.name, &(uint64_t){0})) return TN_OK;
  if (!tni_map_put_str(s->seen, val->pub.name, v)) return tni_fail_memory(s->err, s->folder);
  if (t->dtype == TN_DT_STRING)
    return tni_fail(s->err, TN_E_UNSUPPORTED, val->pub.name, "constant '%s' holds strings", val->pub.name);
  tn_status st = write_data(s, t, val->pub.name);
  if (st != TN_OK) return st;
  snprintf(offset, sizeof offset, "%llu", (unsigned long long)(s->at - t->bytes));
  snprintf(length, sizeof length, "%llu", (unsigned long long)t->bytes);
  Onnx__TensorProto *p = TNI_NEW(s->arena, Onnx__TensorProto);
  Onnx__StringStringEntryProto **where = TNI_NEW_ARRAY(s->arena, Onnx__StringStringEntryProto *, 3);
  if (!p || !where || !(where[0] = add_entry(s, "location", DATA_FILE)) ||
      !(where[1] = add_entry(s, "offset", offset)) || !(where[2] = add_entry(s, "length", length)))
    return tni_fail_memory(s->err, s->folder);
  onnx__tensor_proto__init(p);
  p->name = name_of(s, v);
  p->n_dims = t->rank;
  p->dims = (int64_t *)(uintptr_t)t->dims;
  p->has_data_type = 1;
  p->data_type = (int32_t)t->dtype;
  p->n_external_data = 3;
  p->external_data = where;
  p->has_data_location = 1;
  p->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  s->graph.initializer[s->graph.n_initializer++] = p;
  return TN_OK;
}

/* --- nodes ------------------------------------------------------------------------------------------------------- */

static ProtobufCBinaryData bytes_of(const char *text, uint64_t n) {
  return (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)text};
}

static bool fill_attr(saver *s, const tn_attr *a, Onnx__AttributeProto *p) {
  static const int types[] = {[TN_ATTR_INT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,
                              [TN_ATTR_FLOAT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
                              [TN_ATTR_STRING] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING,
                              [TN_ATTR_INTS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS,
                              [TN_ATTR_FLOATS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS,
                              [TN_ATTR_STRINGS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS};
  p->has_type = 1;
  p->type = (Onnx__AttributeProto__AttributeType)types[a->type];
  switch (a->type) {
    case TN_ATTR_INT:
      p->has_i = 1;
      p->i = a->u.i;
      return true;
    case TN_ATTR_FLOAT:
      p->has_f = 1;
      p->f = (float)a->u.f;
      return true;
    case TN_ATTR_STRING:
      p->has_s = 1;
      p->s = bytes_of(a->u.s, a->n);
      return true;
    case TN_ATTR_INTS:
      p->n_ints = a->n;
      p->ints = (int64_t *)(uintptr_t)a->u.ints;
      return true;
    case TN_ATTR_FLOATS:
      p->n_floats = a->n;
      p->floats = (float *)(uintptr_t)a->u.floats;
      return true;
    default:
      p->n_strings = a->n;
      p->strings = TNI_NEW_ARRAY(s->arena, ProtobufCBinaryData, a->n + 1);
      for (uint64_t i = 0; p->strings && i < a->n; i++)
        p->strings[i] = bytes_of(a->u.strings[i], strlen(a->u.strings[i]));
      return p->strings != NULL;
  }
}

static tn_status add_attrs(saver *s, const tni_node *n, Onnx__NodeProto *p) {
  p->attribute = TNI_NEW_ARRAY(s->arena, Onnx__AttributeProto *, n->pub.n_attr + 1);
  for (uint32_t i = 0; p->attribute && i < n->pub.n_attr; i++) {
    const tn_attr *a = n->pub.attr[i];
    if (!a->n) continue;
    if (a->type == TN_ATTR_GRAPH || a->type == TN_ATTR_TENSOR || a->type == TN_ATTR_NONE)
      return tni_fail(s->err, TN_E_UNSUPPORTED, n->pub.name, "attribute '%s' of %s is not written to files",
                      n->op->attrs[i].name, n->type);
    Onnx__AttributeProto *one = TNI_NEW(s->arena, Onnx__AttributeProto);
    if (one) onnx__attribute_proto__init(one);
    if (!one || !fill_attr(s, a, one)) return tni_fail_memory(s->err, s->folder);
    one->name = (char *)(uintptr_t)n->op->attrs[i].name;
    p->attribute[p->n_attribute++] = one;
  }
  return p->attribute ? TN_OK : tni_fail_memory(s->err, s->folder);
}

/* The file's version of the node's domain: the newest of ONNX's own, which is what the graph is written in. */
static tn_status import_set(saver *s, const tni_node *n) {
  const char *domain = n->op->domain;
  const int64_t version = *domain ? n->version : OPSET;
  if (tni_op_find(domain, n->type, version) != n->op)
    return tni_fail(s->err, TN_E_UNSUPPORTED, n->pub.name, "opset %lld has another %s", (long long)version, n->type);
  for (size_t i = 0; i < s->n_sets; i++)
    if (strcmp(s->sets[i].domain, domain) == 0) return TN_OK;
  if (s->n_sets == sizeof s->sets / sizeof *s->sets)
    return tni_fail(s->err, TN_E_UNSUPPORTED, n->pub.name, "operators of too many domains");
  Onnx__OperatorSetIdProto *set = &s->sets[s->n_sets];
  onnx__operator_set_id_proto__init(set);
  set->domain = (char *)(uintptr_t)domain;
  set->has_version = 1;
  set->version = version;
  s->set_of[s->n_sets++] = set;
  return TN_OK;
}

static tn_status add_node(saver *s, const tni_node *n) {
  if (!n->op) return tni_fail(s->err, TN_E_UNSUPPORTED, n->pub.name, "%s is no operator of the table", n->type);
  Onnx__NodeProto *p = TNI_NEW(s->arena, Onnx__NodeProto);
  char **names = TNI_NEW_ARRAY(s->arena, char *, n->pub.n_in + n->pub.n_out + 1u);
  if (!p || !names) return tni_fail_memory(s->err, s->folder);
  onnx__node_proto__init(p);
  p->name = (char *)(uintptr_t)n->pub.name;
  p->op_type = (char *)(uintptr_t)n->type;
  p->domain = (char *)(uintptr_t)n->op->domain;
  p->input = names;
  p->output = names + n->pub.n_in;
  p->n_input = n->pub.n_in;
  p->n_output = n->pub.n_out;
  tn_status st = import_set(s, n);
  for (uint32_t i = 0; st == TN_OK && i < n->pub.n_in; i++) {
    names[i] = name_of(s, n->pub.in[i]);
    if (n->pub.in[i] != TN_NONE && s->g->values[n->pub.in[i]]->tensor) st = add_constant(s, n->pub.in[i]);
  }
  for (uint32_t i = 0; i < n->pub.n_out; i++) p->output[i] = name_of(s, n->pub.out[i]);
  if (st == TN_OK) st = add_attrs(s, n, p);
  s->graph.node[s->graph.n_node++] = p;
  return st;
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

static tn_status write_model(saver *s) {
  Onnx__ModelProto m;
  onnx__model_proto__init(&m);
  if (!s->n_sets) return tni_fail(s->err, TN_E_INVALID, s->folder, "there are no nodes to write");
  m.has_ir_version = 1;
  m.ir_version = IR_VERSION;
  m.producer_name = (char *)"tenon";
  m.n_opset_import = s->n_sets;
  m.opset_import = s->set_of;
  m.graph = &s->graph;
  const size_t n = onnx__model_proto__get_packed_size(&m);
  uint8_t *buf = malloc(n ? n : 1);
  char *path = NULL;
  if (!buf || asprintf(&path, "%s/model.onnx", s->folder) < 0) {
    free(buf);
    return tni_fail_memory(s->err, s->folder);
  }
  onnx__model_proto__pack(&m, buf);
  FILE *f = fopen(path, "wb");
  if (f) fwrite(buf, 1, n, f);
  const int why = f ? tni_close_written(f) : errno;
  tn_status st = why ? tni_fail(s->err, tni_errno_status(why, TN_E_IO), path, "cannot write '%s': %s", path, strerror(why)) : TN_OK;
  free(path);
  free(buf);
  return st;
}

static tn_status save_model(saver *s, const tn_id *nodes, uint32_t n_nodes, const tni_saved *in, uint32_t n_in,
                            const tni_saved *out, uint32_t n_out) {
  size_t constants = 1;
  for (uint32_t i = 0; i < n_nodes; i++) constants += s->g->nodes[nodes[i]]->pub.n_in;
  onnx__graph_proto__init(&s->graph);
  s->graph.name = (char *)"case";
  s->graph.node = TNI_NEW_ARRAY(s->arena, Onnx__NodeProto *, n_nodes + 1);
  s->graph.initializer = TNI_NEW_ARRAY(s->arena, Onnx__TensorProto *, constants);
  if (!s->graph.node || !s->graph.initializer) return tni_fail_memory(s->err, s->folder);
  tn_status st = declare_all(s, in, n_in, &s->graph.input, &s->graph.n_input);
  if (st == TN_OK) st = declare_all(s, out, n_out, &s->graph.output, &s->graph.n_output);
  for (uint32_t i = 0; st == TN_OK && i < n_nodes; i++) st = add_node(s, s->g->nodes[nodes[i]]);
  return st == TN_OK ? write_model(s) : st;
}

tn_status tni_save_nodes(const tni_graph *g, const tn_id *nodes, uint32_t n_nodes, const tni_saved *in, uint32_t n_in,
                         const tni_saved *out, uint32_t n_out, const char *folder, tn_error *err) {
  saver s = {.g = g, .arena = tni_arena_create(), .seen = tni_map_create(), .folder = folder, .err = err};
  char *path = NULL;
  tn_status st = s.arena && s.seen && asprintf(&path, "%s/%s", folder, DATA_FILE) > 0 ? TN_OK : TN_E_NO_MEMORY;
  if (st != TN_OK) tni_fail_memory(err, folder);
  if (st == TN_OK && !(s.data = fopen(path, "wb")))
    st = tni_fail(err, tni_errno_status(errno, TN_E_IO), path, "cannot write '%s': %s", path, strerror(errno));
  if (st == TN_OK) st = save_model(&s, nodes, n_nodes, in, n_in, out, n_out);
  const int why = s.data ? tni_close_written(s.data) : 0;
  if (why && st == TN_OK) st = tni_fail(err, tni_errno_status(why, TN_E_IO), path, "cannot write '%s': %s", path, strerror(why));
  free(path);
  tni_map_destroy(s.seen);
  tni_arena_destroy(s.arena);
  return st;
}
