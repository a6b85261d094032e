/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/pb.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/ir.h"
#include "runtime/onnx/wire/wire.h"
#include "tests/fuzz/feed.h"

void *fz_alloc(tni_arena *a, size_t bytes) {
  void *p = tni_arena_alloc(a, bytes ? bytes : 1, 16);
  if (!p) abort();
  return p;
}

char *fz_text(tni_arena *a, const char *fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  char *p = tni_arena_strdup(a, text);
  if (!p) abort();
  return p;
}

void *fz_message(tni_arena *a, const ProtobufCMessageDescriptor *d) {
  ProtobufCMessage *m = fz_alloc(a, d->sizeof_message);
  protobuf_c_message_init(d, m);
  return m;
}

void *fz_grow(tni_arena *a, void *old, size_t n, size_t size) {
  void *p = fz_alloc(a, (n + 1) * size);
  if (n) memcpy(p, old, n * size);
  return p;
}

static void *arena_alloc(void *a, size_t n) { return tni_arena_alloc(a, n ? n : 1, 16); }
static void arena_free(void *a, void *p) {
  (void)a;
  (void)p;
}

Onnx__ModelProto *fz_unpack(tni_arena *a, const void *bytes, size_t n) {
  tni_stripped s = {0};
  ProtobufCAllocator alloc = {arena_alloc, arena_free, a};
  const tni_scan_limits lim = {8, 1 << 20};
  if (tni_scan(&onnx__model_proto__descriptor, bytes, n, &lim, "fuzz", &s, NULL) != TN_OK) return NULL;
  tni_stripped_finish(&s);
  return (Onnx__ModelProto *)protobuf_c_message_unpack(&onnx__model_proto__descriptor, &alloc, n, bytes);
}

void *fz_copy(tni_arena *a, const ProtobufCMessage *m) {
  ProtobufCAllocator alloc = {arena_alloc, arena_free, a};
  const size_t n = protobuf_c_message_get_packed_size(m);
  uint8_t *p = fz_alloc(a, n);
  protobuf_c_message_pack(m, p);
  void *copy = protobuf_c_message_unpack(m->descriptor, &alloc, n, p);
  return copy ? copy : fz_message(a, m->descriptor);
}

size_t fz_pack(const ProtobufCMessage *m, uint8_t *out, size_t room) {
  const size_t n = protobuf_c_message_get_packed_size(m);
  return n <= room ? protobuf_c_message_pack(m, out) : 0;
}

Onnx__TensorProto *fz_tensor(tni_arena *a, const char *name, uint32_t dtype, const int64_t *dims, uint32_t rank,
                             uint64_t seed) {
  Onnx__TensorProto *t = FZ_NEW(a, TensorProto, tensor_proto);
  int64_t count = 1;
  uint64_t bytes = 0;
  t->name = fz_text(a, "%s", name);
  FZ_SET(t, data_type, (int32_t)dtype);
  for (uint32_t i = 0; i < rank; i++) FZ_PUSH(a, t, dims, dims[i]);
  if (tni_dims_count(dims, rank, &count) != TN_OK || count > 4096 || tni_dtype_bytes(dtype, count, &bytes) != TN_OK)
    bytes = 0;
  FZ_SET(t, raw_data, ((ProtobufCBinaryData){bytes, fz_alloc(a, bytes)}));
  fz_fill(t->raw_data.data, dtype, bytes, &seed);
  return t;
}

Onnx__TensorProto *fz_ints(tni_arena *a, const char *name, const int64_t *v, int32_t n) {
  Onnx__TensorProto *t = FZ_NEW(a, TensorProto, tensor_proto);
  t->name = fz_text(a, "%s", name);
  FZ_SET(t, data_type, TN_DT_I64);
  if (n >= 0) FZ_PUSH(a, t, dims, n);
  const size_t count = n < 0 ? 1 : (size_t)n;
  for (size_t i = 0; i < count; i++) FZ_PUSH(a, t, int64_data, v[i]);
  return t;
}

Onnx__ValueInfoProto *fz_info(tni_arena *a, const char *name, uint32_t dtype, const int64_t *dims, int32_t rank) {
  static const char *const symbols[] = {"a", "b", "c", "past_length"};
  Onnx__ValueInfoProto *v = FZ_NEW(a, ValueInfoProto, value_info_proto);
  v->name = fz_text(a, "%s", name);
  v->type = FZ_NEW(a, TypeProto, type_proto);
  v->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  v->type->tensor_type = FZ_NEW(a, TypeProto__Tensor, type_proto__tensor);
  FZ_SET(v->type->tensor_type, elem_type, (int32_t)dtype);
  if (rank < 0) return v;
  Onnx__TensorShapeProto *s = v->type->tensor_type->shape = FZ_NEW(a, TensorShapeProto, tensor_shape_proto);
  for (int32_t i = 0; i < rank; i++) {
    Onnx__TensorShapeProto__Dimension *d = FZ_NEW(a, TensorShapeProto__Dimension, tensor_shape_proto__dimension);
    d->value_case = dims[i] < 0 ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    if (dims[i] < 0)
      d->dim_param = fz_text(a, "%s", symbols[-(dims[i] + 1) & 3]);
    else
      d->dim_value = dims[i];
    FZ_PUSH(a, s, dim, d);
  }
  return v;
}

static void opset(tni_arena *a, Onnx__ModelProto *m, const char *domain, int64_t version) {
  Onnx__OperatorSetIdProto *o = FZ_NEW(a, OperatorSetIdProto, operator_set_id_proto);
  o->domain = fz_text(a, "%s", domain);
  FZ_SET(o, version, version);
  FZ_PUSH(a, m, opset_import, o);
}

Onnx__ModelProto *fz_new_model(tni_arena *a, int64_t version) {
  Onnx__ModelProto *m = FZ_NEW(a, ModelProto, model_proto);
  FZ_SET(m, ir_version, 10);
  m->graph = FZ_NEW(a, GraphProto, graph_proto);
  m->graph->name = fz_text(a, "g");
  opset(a, m, "", version);
  opset(a, m, "com.microsoft", 1);
  return m;
}
