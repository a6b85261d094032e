/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that somebody gives as a model's input: .npy or .pb, as a tensor, a sequence or an optional. What was read is
 * looked at and run through an Identity.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/ir.h"
#include "tests/fuzz/engine.h"
#include "tests/fuzz/pb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MAX_MODEL = 1024, MAX_DEPTH = 4 };

/* All of it can be read, and says of itself what is there. */
static void look(const tn_tensor *t, uint32_t depth) {
  uint64_t bytes;
  int64_t count;
  if (t->rank > TN_MAX_RANK) fz_finding("rank %u", t->rank);
  if (t->dtype >= TN_DT_SEQUENCE) {
    const tn_tensor *const *e = t->data;
    if (t->rank != 1 || t->dims[0] < 0 || t->bytes != (uint64_t)t->dims[0] * sizeof *e || depth == MAX_DEPTH)
      fz_finding("a list of %llu bytes", (unsigned long long)t->bytes);
    for (int64_t i = 0; i < t->dims[0]; i++) look(e[i], depth + 1);
    return;
  }
  if (tni_dims_count(t->dims, t->rank, &count) != TN_OK) fz_finding("dims that overflow");
  if (t->dtype == TN_DT_STRING) return;
  if (tni_dtype_bytes(t->dtype, count, &bytes) != TN_OK || bytes != t->bytes || (bytes && !t->data))
    fz_finding("%s of %llu bytes", tn_dtype_name(t->dtype), (unsigned long long)t->bytes);
  const volatile uint8_t *p = t->data;
  for (uint64_t i = 0; i<bytes; i += bytes - i> 64 ? 64 : 1) (void)p[i];
}

static Onnx__TypeProto *type_of(tni_arena *a, const tn_tensor *t) {
  Onnx__TypeProto *p = FZ_NEW(a, TypeProto, type_proto);
  const tn_tensor *first = t && t->dtype >= TN_DT_SEQUENCE && t->dims[0] ? *(const tn_tensor *const *)t->data : NULL;
  if (t && t->dtype == TN_DT_SEQUENCE) {
    p->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    p->sequence_type = FZ_NEW(a, TypeProto__Sequence, type_proto__sequence);
    p->sequence_type->elem_type = type_of(a, first);
  } else if (t && t->dtype == TN_DT_OPTIONAL) {
    p->value_case = ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
    p->optional_type = FZ_NEW(a, TypeProto__Optional, type_proto__optional);
    p->optional_type->elem_type = type_of(a, first);
  } else {
    p->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    p->tensor_type = FZ_NEW(a, TypeProto__Tensor, type_proto__tensor);
    FZ_SET(p->tensor_type, elem_type, t ? (int32_t)t->dtype : TN_DT_F32);
  }
  return p;
}

static void run_through(const tn_tensor *t) {
  uint8_t bytes[MAX_MODEL];
  tni_arena *a = tni_arena_create();
  if (!a) fz_finding("no memory");
  Onnx__ModelProto *m = fz_new_model(a, 21);
  Onnx__NodeProto *node = FZ_NEW(a, NodeProto, node_proto);
  node->op_type = fz_text(a, "Identity");
  FZ_PUSH(a, node, input, fz_text(a, "x"));
  FZ_PUSH(a, node, output, fz_text(a, "y"));
  FZ_PUSH(a, m->graph, node, node);
  Onnx__ValueInfoProto *x = FZ_NEW(a, ValueInfoProto, value_info_proto),
                       *y = FZ_NEW(a, ValueInfoProto, value_info_proto);
  x->name = fz_text(a, "x");
  y->name = fz_text(a, "y");
  x->type = y->type = type_of(a, t);
  FZ_PUSH(a, m->graph, input, x);
  FZ_PUSH(a, m->graph, output, y);
  const size_t n = fz_pack(&m->base, bytes, sizeof bytes);
  tni_arena_destroy(a);
  if (n) fz_model_given(bytes, n, t);
}

/* A byte that says which kind of file and what for, then the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const tn_dtype as[] = {TN_DT_UNDEFINED, TN_DT_SEQUENCE, TN_DT_OPTIONAL};
  char path[512];
  tn_tensor *t = NULL;
  tn_error err;
  tn_error_init(&err);
  if (!n) return 0;
  fz_write(data[0] & 1 ? "t.pb" : "t.npy", data + 1, n - 1, path);
  fz_clock_start(NULL, NULL);
  const tn_status st = tn_value_load(path, as[data[0] / 2 % 3], &t, &err);
  fz_clock_stop();
  fz_failure(st, &err);
  if (st != TN_OK) return 0;
  look(t, 0);
  if (t->bytes <= 1 << 16) run_through(t);
  tn_free(t);
  return 0;
}
