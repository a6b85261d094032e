/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of tensors, into the data file beside the model.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "runtime/quantize/write.h"

enum { ALIGN = 64 };

typedef tni_qz_writer writer;

tn_status tni_qz_no_memory(writer *w) { return tni_fail_memory(w->z->err, w->z->path); }

static tn_status put_data(writer *w, const void *p, uint64_t n) {
  static const char zeros[ALIGN];
  const uint64_t pad = (ALIGN - w->at % ALIGN) % ALIGN;
  if ((pad && fwrite(zeros, 1, pad, w->data) != pad) || (n && fwrite(p, 1, n, w->data) != n))
    return tni_fail(w->z->err, tni_errno_status(errno, TN_E_IO), w->stage, "cannot write '%s/%s': %s", w->stage,
                    TNI_QZ_DATA_FILE, strerror(errno));
  w->at += pad + n;
  return TN_OK;
}

static Onnx__StringStringEntryProto *entry(writer *w, const char *key, const char *value) {
  Onnx__StringStringEntryProto *e = TNI_NEW(w->arena, Onnx__StringStringEntryProto);
  if (!e) return NULL;
  onnx__string_string_entry_proto__init(e);
  e->key = (char *)(uintptr_t)key;
  e->value = tni_arena_strdup(w->arena, value);
  return e->value ? e : NULL;
}

tn_status tni_qz_put_tensor(writer *w, Onnx__TensorProto *t, const void *p, uint64_t n) {
  char offset[24], length[24];
  const tn_status st = put_data(w, p, n);
  if (st) return st;
  snprintf(offset, sizeof offset, "%" PRIu64, w->at - n);
  snprintf(length, sizeof length, "%" PRIu64, n);
  t->external_data = TNI_NEW_ARRAY(w->arena, Onnx__StringStringEntryProto *, 3);
  if (!t->external_data || !(t->external_data[0] = entry(w, "location", TNI_QZ_DATA_FILE)) ||
      !(t->external_data[1] = entry(w, "offset", offset)) || !(t->external_data[2] = entry(w, "length", length)))
    return tni_qz_no_memory(w);
  t->n_external_data = 3;
  t->has_data_location = 1;
  t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  t->n_tenon_span = 0;
  t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_double_data = t->n_uint64_data = 0;
  t->has_raw_data = 0;
  return TN_OK;
}
