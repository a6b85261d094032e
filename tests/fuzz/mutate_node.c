/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/mutate_node.h"

#include <string.h>

#include "runtime/graph/ir.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/values.h"

/* --- the walk --- */

#define PUT(p, what, item)                                                 \
  do {                                                                     \
    if ((p)->n_##what < FZ_MAX_PARTS) (p)->what[(p)->n_##what++] = (item); \
  } while (0)

static void walk_graph(Onnx__GraphProto *g, fz_parts *p);

static void walk_node(Onnx__NodeProto *n, fz_parts *p) {
  PUT(p, nodes, n);
  for (size_t i = 0; i < n->n_input; i++) PUT(p, names, &n->input[i]);
  for (size_t i = 0; i < n->n_output; i++) {
    PUT(p, names, &n->output[i]);
    PUT(p, values, n->output[i]);
  }
  for (size_t i = 0; i < n->n_attribute; i++) {
    Onnx__AttributeProto *at = n->attribute[i];
    PUT(p, attrs, at);
    if (at->t) PUT(p, tensors, at->t);
    if (at->tp) PUT(p, types, at->tp);
    if (at->g) walk_graph(at->g, p);
  }
}

static void walk_infos(Onnx__ValueInfoProto **v, size_t n, bool gives, fz_parts *p) {
  for (size_t i = 0; i < n; i++) {
    PUT(p, names, &v[i]->name);
    if (gives && v[i]->name) PUT(p, values, v[i]->name);
    if (v[i]->type) PUT(p, types, v[i]->type);
  }
}

static void walk_graph(Onnx__GraphProto *g, fz_parts *p) {
  PUT(p, graphs, g);
  walk_infos(g->input, g->n_input, true, p);
  walk_infos(g->output, g->n_output, false, p);
  walk_infos(g->value_info, g->n_value_info, false, p);
  for (size_t i = 0; i < g->n_initializer; i++) {
    PUT(p, tensors, g->initializer[i]);
    PUT(p, names, &g->initializer[i]->name);
    if (g->initializer[i]->name) PUT(p, values, g->initializer[i]->name);
  }
  for (size_t i = 0; i < g->n_node; i++) walk_node(g->node[i], p);
}

void fz_find_parts(Onnx__ModelProto *m, fz_parts *p) {
  if (m->graph) walk_graph(m->graph, p);
  for (size_t i = 0; i < m->n_functions; i++)
    for (size_t k = 0; k < m->functions[i]->n_node; k++) walk_node(m->functions[i]->node[k], p);
}

/* --- one part --- */

static ProtobufCBinaryData text(tni_arena *a, const char *s) {
  return (ProtobufCBinaryData){strlen(s), (uint8_t *)fz_text(a, "%s", s)};
}

static void change_ints(tni_arena *a, fz_bytes *b, int64_t **v, size_t *n) {
  const uint32_t at = fz_below(b, (uint32_t)*n);
  switch (fz_below(b, 5)) {
    case 0:
      if (*n) --*n;
      break;
    case 1: {
      int64_t *w = fz_grow(a, *v, *n, sizeof *w);
      w[(*n)++] = fz_int(b);
      *v = w;
      break;
    }
    case 2:
      if (*n) (*v)[at] = (int64_t)((uint64_t)(*v)[at] + (fz_u8(b) & 1 ? 1 : UINT64_MAX));
      break;
    case 3:
      if (*n > 1) {
        const int64_t x = (*v)[0];
        (*v)[0] = (*v)[at];
        (*v)[at] = x;
      }
      break;
    default:
      if (*n) (*v)[at] = fz_int(b);
      break;
  }
}

void fz_change_attribute(tni_arena *a, fz_bytes *b, Onnx__AttributeProto *at) {
  static const char *const names[] = {"axis", "axes",  "to",       "mode",  "pads",
                                      "perm", "group", "keepdims", "value", "body"};
  const uint8_t r = fz_u8(b);
  if (r < 8) {
    at->name = fz_text(a, "%s", names[r]);
  } else if (r < 12) {
    FZ_SET(at, type, fz_u8(b) % 15);
  } else if (at->n_ints) {
    change_ints(a, b, &at->ints, &at->n_ints);
  } else if (at->has_i) {
    at->i = r & 1 ? fz_int(b) : r & 2 ? (int64_t)((uint64_t)at->i + 1) : (int64_t)fz_dtype(b);
  } else if (at->has_f) {
    at->f = fz_float(b);
  } else if (at->has_s) {
    at->s = text(a, fz_string(b));
  } else if (at->n_floats) {
    at->floats[fz_below(b, (uint32_t)at->n_floats)] = fz_float(b);
    if (r & 1) at->n_floats--;
  } else if (at->n_strings) {
    at->strings[fz_below(b, (uint32_t)at->n_strings)] = text(a, fz_string(b));
    if ((r & 7) == 0) at->n_strings--;
  } else if (at->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS) {
    FZ_PUSH(a, at, ints, fz_int(b));
  }
}

/* Content that fits what the tensor says of itself. */
static void refill(tni_arena *a, fz_bytes *b, Onnx__TensorProto *t) {
  uint64_t seed = fz_u8(b);
  int64_t dims[TN_MAX_RANK];
  const uint32_t rank = t->n_dims < TN_MAX_RANK ? (uint32_t)t->n_dims : TN_MAX_RANK;
  for (uint32_t i = 0; i < rank; i++) dims[i] = t->dims[i];
  Onnx__TensorProto *fresh = fz_tensor(a, t->name ? t->name : "", (uint32_t)t->data_type, dims, rank, seed);
  if (fresh->raw_data.len > 2048) return;
  t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_double_data = t->n_uint64_data = 0;
  FZ_SET(t, raw_data, fresh->raw_data);
  t->has_data_location = 0;
}

static void make_external(tni_arena *a, fz_bytes *b, Onnx__TensorProto *t) {
  static const char *const places[] = {"data.bin",         "data.bin",   "data.bin",   "../data.bin", "/etc/passwd",
                                       "link/passwd",      "./data.bin", "model.onnx", "nowhere",     "",
                                       "link/../data.bin", "."};
  static const char *const keys[] = {"location", "offset", "length", "checksum"};
  FZ_SET(t, data_location, ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
  t->has_raw_data = 0;
  t->n_external_data = 0;
  t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_double_data = t->n_uint64_data = 0;
  for (uint32_t i = 0; i < 4; i++) {
    Onnx__StringStringEntryProto *e = FZ_NEW(a, StringStringEntryProto, string_string_entry_proto);
    if (!fz_often(b, 200)) continue;
    e->key = fz_text(a, "%s", keys[i]);
    e->value = i ? fz_text(a, "%lld", (long long)((uint64_t)fz_int(b) * (i == 1 ? 64 : 4)))
                 : fz_text(a, "%s", places[fz_below(b, sizeof places / sizeof *places)]);
    FZ_PUSH(a, t, external_data, e);
  }
}

/* One element of a small tensor of integers: axes, shapes, indices. */
static void change_element(fz_bytes *b, Onnx__TensorProto *t) {
  const int64_t v = fz_int(b);
  if (t->n_int64_data) {
    t->int64_data[fz_below(b, (uint32_t)t->n_int64_data)] = v;
  } else if (t->n_int32_data) {
    t->int32_data[fz_below(b, (uint32_t)t->n_int32_data)] = (int32_t)v;
  } else if (t->n_float_data) {
    t->float_data[fz_below(b, (uint32_t)t->n_float_data)] = fz_float(b);
  } else if (t->has_raw_data && t->raw_data.len >= 4) {
    const size_t size = tni_dtype_bits((uint32_t)t->data_type) == 64 && t->raw_data.len >= 8 ? 8 : 4;
    memcpy(t->raw_data.data + size * fz_below(b, (uint32_t)(t->raw_data.len / size)), &v, size);
  }
}

void fz_change_tensor(tni_arena *a, fz_bytes *b, Onnx__TensorProto *t) {
  const uint8_t r = fz_u8(b);
  if (r < 110) {
    change_element(b, t);
    return;
  }
  if (r < 124) {
    make_external(a, b, t);
    return;
  }
  if (r < 180) {
    FZ_SET(t, data_type, (int32_t)fz_dtype(b));
  } else if (r < 250) {
    change_ints(a, b, &t->dims, &t->n_dims);
  } else {
    t->raw_data.len = t->has_raw_data && t->raw_data.len ? t->raw_data.len - 1 : 0;
    return;
  }
  if (r & 7) refill(a, b, t);
}

static void change_dim(tni_arena *a, fz_bytes *b, Onnx__TensorShapeProto *s) {
  static const char *const symbols[] = {"a", "b", "c", "past_length", "batch", "sequence", "a + b", ""};
  const uint8_t r = fz_u8(b);
  if (r < 24 && s->n_dim) {
    s->n_dim--;
    return;
  }
  if (r < 48 || !s->n_dim) FZ_PUSH(a, s, dim, FZ_NEW(a, TensorShapeProto__Dimension, tensor_shape_proto__dimension));
  Onnx__TensorShapeProto__Dimension *d = s->dim[r < 48 ? s->n_dim - 1 : fz_below(b, (uint32_t)s->n_dim)];
  if (r & 1) {
    d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    d->dim_value = fz_int(b);
  } else {
    d->value_case = (r & 14) == 0 ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET
                                  : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    if (r & 14) d->dim_param = fz_text(a, "%s", symbols[fz_u8(b) & 7]);
  }
}

static void wrap_type(tni_arena *a, fz_bytes *b, Onnx__TypeProto *t) {
  Onnx__TypeProto *inner = FZ_NEW(a, TypeProto, type_proto);
  inner->value_case = t->value_case;
  inner->tensor_type = t->tensor_type;
  if (fz_u8(b) & 1) {
    t->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    t->sequence_type = FZ_NEW(a, TypeProto__Sequence, type_proto__sequence);
    t->sequence_type->elem_type = inner;
  } else {
    t->value_case = ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
    t->optional_type = FZ_NEW(a, TypeProto__Optional, type_proto__optional);
    t->optional_type->elem_type = inner;
  }
}

void fz_change_type(tni_arena *a, fz_bytes *b, Onnx__TypeProto *t) {
  const uint8_t r = fz_u8(b);
  if (r < 6) {
    wrap_type(a, b, t);
  } else if (t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
    Onnx__TypeProto *inner = t->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE   ? t->sequence_type->elem_type
                             : t->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE ? t->optional_type->elem_type
                                                                                      : NULL;
    if (inner) fz_change_type(a, b, inner);
  } else if (r < 60) {
    FZ_SET(t->tensor_type, elem_type, (int32_t)fz_dtype(b));
  } else if (r < 64 || !t->tensor_type->shape) {
    t->tensor_type->shape = t->tensor_type->shape ? NULL : FZ_NEW(a, TensorShapeProto, tensor_shape_proto);
  } else {
    change_dim(a, b, t->tensor_type->shape);
  }
}

static char *some_value(tni_arena *a, fz_bytes *b, const fz_parts *p) {
  const uint8_t r = fz_u8(b);
  if (r < 10 || !p->n_values) return fz_text(a, "%s", r & 1 ? "" : "unheard");
  return p->values[fz_below(b, p->n_values)];
}

/* Attributes of the operator that the node is of now. */
static void give_attribute(tni_arena *a, fz_bytes *b, Onnx__NodeProto *n) {
  char name[64];
  uint32_t type;
  bool required;
  for (uint32_t i = 0; n->op_type && i < 512; i++) {
    const fz_op op = fz_pick_op(i);
    if (strcmp(op.name, n->op_type) != 0) continue;
    uint32_t count = 0;
    while (fz_attr_spec(&op, count, name, &type, &required)) count++;
    if (!count || !fz_attr_spec(&op, fz_below(b, count), name, &type, &required) || type == TN_ATTR_GRAPH) return;
    for (size_t k = 0; k < n->n_attribute; k++)
      if (n->attribute[k]->name && strcmp(n->attribute[k]->name, name) == 0) {
        n->attribute[k] = fz_attribute(a, b, name, type, fz_u8(b));
        return;
      }
    FZ_PUSH(a, n, attribute, fz_attribute(a, b, name, type, fz_u8(b)));
    return;
  }
}

static void change_operator(tni_arena *a, fz_bytes *b, Onnx__NodeProto *n) {
  const fz_op op = fz_pick_op((uint32_t)fz_u8(b) << 8 | fz_u8(b));
  n->op_type = fz_text(a, "%s", op.name);
  n->domain = *op.domain ? fz_text(a, "%s", op.domain) : NULL;
  if (fz_u8(b) & 1) n->n_attribute = 0;
}

void fz_change_node(tni_arena *a, fz_bytes *b, Onnx__NodeProto *n, const fz_parts *p) {
  const uint8_t r = fz_u8(b);
  if (r < 40) {
    change_operator(a, b, n);
  } else if (r < 100) {
    if (n->n_input) n->input[fz_below(b, (uint32_t)n->n_input)] = some_value(a, b, p);
  } else if (r < 125) {
    FZ_PUSH(a, n, input, some_value(a, b, p));
  } else if (r < 140) {
    n->n_input -= n->n_input > 0;
  } else if (r < 150) {
    FZ_PUSH(a, n, output, fz_text(a, "w%u", fz_u8(b)));
  } else if (r < 155) {
    n->n_output -= n->n_output > 0;
  } else if (r < 170) {
    if (n->n_attribute) {
      const size_t at = fz_below(b, (uint32_t)n->n_attribute), last = n->n_attribute - 1;
      n->attribute[at] = n->attribute[last];
      n->n_attribute = last;
    }
  } else if (r < 250) {
    give_attribute(a, b, n);
  } else if (n->n_output) {
    n->output[fz_below(b, (uint32_t)n->n_output)] = some_value(a, b, p);
  }
}
