/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/onnx/context.h"

static tn_status read_lone(tni_import *c, const tni_stripped *s, tni_tensor *out, const char **name) {
  ProtobufCMessage *msg;
  tn_status st =
      tni_unpack(&onnx__tensor_proto__descriptor, s, 4 * c->lim.max_meta, c->file, &c->scratch, &msg, c->err);
  if (st) return st;
  const Onnx__TensorProto *t = (const Onnx__TensorProto *)msg;
  tni_tensor x;
  tni_origin from;
  st = tni_read_tensor(c, t, "tensor", c->arena, &x, &from);
  const char *copy = NULL;
  if (!st && name) {
    copy = tni_arena_strdup(c->arena, t->name ? t->name : "");
    if (!copy) st = tni_fail_memory(c->err, c->file);
  }
  tni_arena_destroy(c->scratch);
  if (st) return st;
  *out = x;
  if (name) *name = copy;
  return TN_OK;
}

tn_status tni_import_tensor(const void *bytes, uint64_t n, const char *file, tni_arena *arena, tni_tensor *out,
                            const char **name, tn_error *err) {
  tn_long_error local;
  tni_long_error_init(&local);
  tni_import c = {.file = file ? file : "(memory)", .bytes = bytes, .arena = arena, .err = &local.error};
  /* Typed data may be larger decoded than written, and nothing but the file's size says how much is sane. */
  c.lim.max_meta = n > (UINT64_C(256) << 20) ? n : UINT64_C(256) << 20;
  tni_stripped s = {0};
  tni_scan_limits lim = {1, c.lim.max_meta};
  tn_status st = TN_OK;
  /* A scalar of proto defaults serialises to nothing; so does no file at all. */
  st = tni_scan(&onnx__tensor_proto__descriptor, bytes, n, &lim, c.file, &s, &local.error);
  if (!st) {
    c.spans = s.spans;
    c.n_spans = s.n_spans;
    st = read_lone(&c, &s, out, name);
  }
  tni_stripped_finish(&s);
  if (st) (void)tni_error_pass(err, st, &local.error);
  return st;
}

static uint8_t *put_varint(uint8_t *p, uint64_t v) {
  for (; v > 0x7f; v >>= 7) *p++ = (uint8_t)(v | 0x80);
  *p++ = (uint8_t)v;
  return p;
}

tn_status tni_export_tensor(const tni_tensor *t, const char *name, void **bytes, uint64_t *n) {
  enum { VARINT = 10, TAG = 1 };
  size_t len = name ? strlen(name) : 0, total;
  if (t->rank > TN_MAX_RANK || t->dtype == TN_DT_STRING || (t->bytes && !t->data)) return TN_E_INVALID;
  size_t head = (TAG + VARINT) * (TN_MAX_RANK + 3);
  if (!tni_add_size(head, len, &total) || !tni_add_size(total, t->bytes, &total)) return TN_E_LIMIT;
  uint8_t *buf = malloc(total), *p = buf;
  if (!buf) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < t->rank; i++) {
    *p++ = 1 << 3; /* dims */
    p = put_varint(p, (uint64_t)t->dims[i]);
  }
  *p++ = 2 << 3; /* data_type */
  p = put_varint(p, t->dtype);
  if (len) {
    *p++ = 8 << 3 | 2; /* name */
    p = put_varint(p, len);
    memcpy(p, name, len);
    p += len;
  }
  *p++ = 9 << 3 | 2; /* raw_data */
  p = put_varint(p, t->bytes);
  if (t->bytes) memcpy(p, t->data, t->bytes);
  p += t->bytes;
  *bytes = buf;
  *n = (uint64_t)(p - buf);
  return TN_OK;
}
