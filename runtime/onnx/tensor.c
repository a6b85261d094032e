/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/onnx/context.h"

enum { F_FLOAT = 4, F_INT32 = 5, F_STRING = 6, F_INT64 = 7, F_RAW = 9, F_DOUBLE = 10, F_UINT64 = 11 };

/* What this file must know of a dtype: the typed field that carries it, the alignment of its elements, and how many
 * entries of the field make one element (complex: 2). */
typedef struct dtype_row {
  uint8_t field, align, per_elem;
} dtype_row;

static const dtype_row dtype_rows[TN_DT_COUNT] = {
    [TN_DT_F32] = {F_FLOAT, 4, 1},    [TN_DT_U8] = {F_INT32, 1, 1},         [TN_DT_I8] = {F_INT32, 1, 1},
    [TN_DT_U16] = {F_INT32, 2, 1},    [TN_DT_I16] = {F_INT32, 2, 1},        [TN_DT_I32] = {F_INT32, 4, 1},
    [TN_DT_I64] = {F_INT64, 8, 1},    [TN_DT_STRING] = {F_STRING, 1, 1},    [TN_DT_BOOL] = {F_INT32, 1, 1},
    [TN_DT_F16] = {F_INT32, 2, 1},    [TN_DT_F64] = {F_DOUBLE, 8, 1},       [TN_DT_U32] = {F_UINT64, 4, 1},
    [TN_DT_U64] = {F_UINT64, 8, 1},   [TN_DT_C64] = {F_FLOAT, 4, 2},        [TN_DT_C128] = {F_DOUBLE, 8, 2},
    [TN_DT_BF16] = {F_INT32, 2, 1},   [TN_DT_F8E4M3FN] = {F_INT32, 1, 1},   [TN_DT_F8E4M3FNUZ] = {F_INT32, 1, 1},
    [TN_DT_F8E5M2] = {F_INT32, 1, 1}, [TN_DT_F8E5M2FNUZ] = {F_INT32, 1, 1}, [TN_DT_U4] = {F_INT32, 1, 1},
    [TN_DT_I4] = {F_INT32, 1, 1},     [TN_DT_F4E2M1] = {F_INT32, 1, 1},     [TN_DT_F8E8M0] = {F_INT32, 1, 1},
    [TN_DT_U2] = {F_INT32, 1, 1},     [TN_DT_I2] = {F_INT32, 1, 1},
};

/* A payload: in a mapping (data set) or in the unpacked message (data NULL for typed fields). */
typedef struct payload {
  uint32_t field; /* 0: none */
  uint32_t kinds; /* how many fields carry data */
  const uint8_t *data;
  uint64_t bytes;
  bool mapped;
  uint64_t entries; /* of a typed field in the message */
  tni_origin origin;
} payload;

typedef struct reader {
  tni_import *c;
  const Onnx__TensorProto *t;
  const char *what;
  tni_arena *arena;
} reader;

TN_PRINTF(3, 4) static tn_status bad(const reader *r, tn_status st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tni_vfail(r->c->err, st, r->c->file, fmt, ap);
  va_end(ap);
  if (r->t->name && *r->t->name) {
    tni_error_prefix(r->c->err, "%s '%s'", r->what, r->t->name);
  } else {
    tni_error_prefix(r->c->err, "%s", r->what);
  }
  return st;
}

tn_status tni_charge(tni_import *c, uint64_t n) {
  uint64_t limit = c->lim.max_meta > UINT64_MAX / 4 ? UINT64_MAX : 4 * c->lim.max_meta;
  if (n > limit || c->copied > limit - n)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "attributes and typed tensor data take more than %" PRIu64 " bytes",
                    limit);
  c->copied += n;
  return TN_OK;
}

char *tni_onnx_copy_bytes(tni_import *c, tni_arena *arena, const void *p, size_t n) {
  if (tni_charge(c, n) != TN_OK) return NULL;
  char *s = tni_arena_strndup(arena, p ? p : "", n);
  if (!s) (void)tni_fail_memory(c->err, c->file);
  return s;
}

/* dtype, dims -> out; *need: bytes of the data. */
static tn_status read_shape(const reader *r, tni_tensor *out, int64_t *count, uint64_t *need) {
  const Onnx__TensorProto *t = r->t;
  if (t->data_type <= 0 || t->data_type >= TN_DT_COUNT)
    return bad(r, t->data_type > 0 ? TN_E_UNSUPPORTED : TN_E_INVALID, "data type %d", t->data_type);
  if (t->n_dims > TN_MAX_RANK) return bad(r, TN_E_LIMIT, "rank %zu, at most %d are supported", t->n_dims, TN_MAX_RANK);
  *out = (tni_tensor){.dtype = (uint32_t)t->data_type, .rank = (uint32_t)t->n_dims};
  for (size_t i = 0; i < t->n_dims; i++) {
    if (t->dims[i] < 0) return bad(r, TN_E_INVALID, "dimension %zu is %" PRId64, i, t->dims[i]);
    out->dims[i] = t->dims[i];
  }
  if (tni_dims_count(out->dims, out->rank, count) != TN_OK) return bad(r, TN_E_LIMIT, "its dimensions overflow");
  *need = 0;
  if (out->dtype != TN_DT_STRING && tni_dtype_bytes(out->dtype, *count, need) != TN_OK)
    return bad(r, TN_E_LIMIT, "its size overflows");
  return TN_OK;
}

static void found_payload(payload *p, uint32_t field, uint64_t entries) {
  if (!entries) return;
  p->field = field;
  p->entries = entries;
  p->kinds++;
}

static tn_status find_payload(const reader *r, payload *p) {
  const Onnx__TensorProto *t = r->t;
  found_payload(p, F_FLOAT, t->n_float_data);
  found_payload(p, F_INT32, t->n_int32_data);
  found_payload(p, F_STRING, t->n_string_data);
  found_payload(p, F_INT64, t->n_int64_data);
  found_payload(p, F_DOUBLE, t->n_double_data);
  found_payload(p, F_UINT64, t->n_uint64_data);
  found_payload(p, F_RAW, t->has_raw_data ? t->raw_data.len : 0);
  if (p->field == F_RAW) {
    p->data = t->raw_data.data;
    p->bytes = t->raw_data.len;
  }
  for (size_t i = 0; i < t->n_tenon_span; i++) {
    if (t->tenon_span[i] >= r->c->n_spans) return bad(r, TN_E_INTERNAL, "lost its data");
    const tni_payload *s = &r->c->spans[t->tenon_span[i]];
    found_payload(p, s->field, s->bytes);
    p->data = r->c->bytes + s->offset;
    p->bytes = s->bytes;
    p->mapped = true;
    p->origin = (tni_origin){r->c->origin, s->offset};
  }
  if (p->kinds > 1) return bad(r, TN_E_INVALID, "its data stands in several fields or pieces");
  return TN_OK;
}

/* data of elements that lie as they are wanted: used in place, or copied when that is cheap. */
static tn_status place_payload(const reader *r, const payload *p, uint32_t align, tni_tensor *out, tni_origin *origin) {
  tni_import *c = r->c;
  bool aligned = (uintptr_t)p->data % align == 0;
  bool copy = !p->mapped || (!aligned && p->bytes < TNI_ALIGN_COPY && c->aligned + p->bytes <= TNI_ALIGN_COPY_ALL);
  if (!c->model) copy = true; /* a lone tensor owns its data */
  *origin = p->origin;
  out->bytes = p->bytes;
  if (!copy) {
    out->data = (void *)p->data;
    return TN_OK;
  }
  if (p->mapped && c->model) {
    c->aligned += p->bytes;
  } else if (tni_charge(c, p->bytes) != TN_OK) {
    return c->err ? c->err->code : TN_E_LIMIT;
  }
  out->data = tni_arena_memdup(r->arena, p->data, p->bytes, 64);
  return out->data ? TN_OK : tni_fail_memory(c->err, c->file);
}

/* Entry i of a typed integer field in the message. */
static int64_t int_entry(const Onnx__TensorProto *t, uint32_t field, size_t i) {
  if (field == F_INT32) return t->int32_data[i];
  if (field == F_INT64) return t->int64_data[i];
  return (int64_t)t->uint64_data[i];
}

/* Integers -> width bytes each, little endian. */
static tn_status decode_ints(const reader *r, const payload *p, uint64_t entries, uint32_t width, tni_tensor *out) {
  uint64_t bytes;
  if (__builtin_mul_overflow(entries, width, &bytes)) return bad(r, TN_E_LIMIT, "its size overflows");
  if (tni_charge(r->c, bytes) != TN_OK) return TN_E_LIMIT;
  uint8_t *dst = tni_arena_alloc(r->arena, bytes, 64);
  if (!dst) return tni_fail_memory(r->c->err, r->c->file);
  const uint8_t *src = p->data, *end = p->data ? p->data + p->bytes : NULL;
  int64_t lo = width < 8 ? -(INT64_C(1) << (8 * width - 1)) : INT64_MIN;
  int64_t hi = width < 8 ? (INT64_C(1) << (8 * width)) - 1 : INT64_MAX;
  for (uint64_t i = 0; i < entries; i++) {
    uint64_t u;
    int64_t v;
    if (src) {
      unsigned k = tni_varint(src, end, &u);
      if (!k) return bad(r, TN_E_CORRUPT, "broken packed numbers");
      src += k;
      v = (int64_t)u;
    } else {
      v = int_entry(r->t, p->field, (size_t)i);
    }
    if (v < lo || v > hi)
      return bad(r, TN_E_INVALID, "element %" PRIu64 " is %" PRId64 ", which %s cannot hold", i, v,
                 tni_dtype_name(out->dtype));
    memcpy(dst + i * width, &v, width);
  }
  if (src != end) return bad(r, TN_E_INVALID, "it has more elements than its dimensions say");
  out->data = dst;
  out->bytes = bytes;
  return TN_OK;
}

/* Upper bound check before memory is taken: a varint has at least one byte. */
static tn_status read_typed(const reader *r, payload *p, int64_t count, uint64_t need, tni_tensor *out,
                            tni_origin *origin) {
  const dtype_row *row = &dtype_rows[out->dtype];
  if (p->field == F_STRING) {
    if (p->entries == (uint64_t)count) return TN_OK;
    return bad(r, TN_E_INVALID, "%" PRIu64 " strings for %" PRId64 " elements", p->entries, count);
  }
  if (row->field == F_FLOAT || row->field == F_DOUBLE) {
    if (!p->data) {
      p->data = row->field == F_FLOAT ? (const uint8_t *)r->t->float_data : (const uint8_t *)r->t->double_data;
      p->bytes = p->entries * (row->field == F_FLOAT ? 4 : 8);
    }
    if (p->bytes != need)
      return bad(r, TN_E_INVALID, "its data has %" PRIu64 " bytes, its shape needs %" PRIu64, p->bytes, need);
    return place_payload(r, p, row->align, out, origin);
  }
  /* 4- and 2-bit elements come a byte an entry; U32 and I32 and smaller have their own width. */
  uint64_t entries = tni_dtype_bits(out->dtype) < 8 ? need : (uint64_t)count;
  uint32_t width = tni_dtype_bits(out->dtype) < 8 ? 1 : row->align;
  bool wrong = p->data ? p->bytes < entries || p->bytes / 10 > entries : p->entries != entries;
  if (wrong)
    return bad(r, TN_E_INVALID, "its data has %" PRIu64 " %s, its shape needs %" PRIu64 " entries",
               p->data ? p->bytes : p->entries, p->data ? "bytes" : "entries", entries);
  return decode_ints(r, p, entries, width, out);
}

static const char *field_name(uint32_t field) {
  const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(&onnx__tensor_proto__descriptor, field);
  return f ? f->name : "?";
}

static tn_status read_data(const reader *r, payload *p, int64_t count, uint64_t need, tni_tensor *out,
                           tni_origin *origin) {
  const dtype_row *row = &dtype_rows[out->dtype];
  if (p->field == 0) {
    if (count == 0) return TN_OK;
    return bad(r, TN_E_INVALID, "no data for %" PRId64 " elements", count);
  }
  if (p->field == F_RAW) {
    if (out->dtype == TN_DT_STRING) return bad(r, TN_E_INVALID, "strings in raw_data");
    if (p->bytes != need)
      return bad(r, TN_E_INVALID, "its data has %" PRIu64 " bytes, its shape needs %" PRIu64, p->bytes, need);
    return place_payload(r, p, row->align, out, origin);
  }
  if (p->field != row->field)
    return bad(r, TN_E_INVALID, "%s data stands in field %s", tni_dtype_name(out->dtype), field_name(p->field));
  return read_typed(r, p, count, need, out, origin);
}

tn_status tni_read_tensor(tni_import *c, const Onnx__TensorProto *t, const char *what, tni_arena *arena,
                          tni_tensor *out, tni_origin *origin) {
  reader r = {c, t, what, arena};
  tni_tensor x;
  tni_origin from = {0};
  int64_t count;
  uint64_t need;
  payload p = {0};
  if (t->segment) return bad(&r, TN_E_UNSUPPORTED, "a tensor in segments");
  tn_status st = read_shape(&r, &x, &count, &need);
  if (st) return st;
  if (t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
    if (x.dtype == TN_DT_STRING) return bad(&r, TN_E_INVALID, "strings in external data");
    p = (payload){.field = F_RAW, .kinds = 1, .mapped = true};
    st = tni_external_data(c, t, need, &p.data, &p.origin);
    if (st) {
      tni_error_prefix(c->err, "%s '%s'", what, t->name ? t->name : "");
      return st;
    }
    p.bytes = need;
    if (need == 0) p.field = 0;
  } else {
    st = find_payload(&r, &p);
    if (st) return st;
  }
  st = read_data(&r, &p, count, need, &x, &from);
  if (st) return st;
  *out = x;
  *origin = from;
  return TN_OK;
}

bool tni_tensor_aligned(const tni_tensor *t) {
  uint32_t bits =
      t->dtype == TN_DT_C64 || t->dtype == TN_DT_C128 ? tni_dtype_bits(t->dtype) / 2 : tni_dtype_bits(t->dtype);
  uint32_t align = bits < 16 ? 1 : bits / 8;
  return (uintptr_t)t->data % align == 0;
}

tn_status tni_tensor_align(tni_tensor *t, tni_arena *arena, tn_error *err) {
  if (!t->data || tni_tensor_aligned(t)) return TN_OK;
  void *copy = tni_arena_memdup(arena, t->data, t->bytes, 64);
  if (!copy) return tni_fail_memory(err, NULL);
  t->data = copy;
  return TN_OK;
}
