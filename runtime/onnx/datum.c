/* SPDX-License-Identifier: Apache-2.0
 *
 * Source: messages SequenceProto and OptionalProto of ONNX's onnx-data.proto. Both have the same numbers: name 1,
 * elem_type 2, and one field per kind of element from 3 on.
 */
#include <inttypes.h>
#include <string.h>

#include "runtime/onnx/import.h"
#include "runtime/onnx/wire/wire.h"

enum { F_NAME = 1, F_ELEM_TYPE = 2, F_TENSOR = 3, F_SPARSE = 4, F_SEQUENCE = 5, F_MAP = 6, F_OPTIONAL = 7 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LEN = 2, WIRE_32 = 5 };

typedef struct datum_reader {
  const char *file;
  tni_arena *arena;
  tn_error *err;
} datum_reader;

typedef struct field {
  uint32_t number, wire;
  const uint8_t *p; /* of WIRE_LEN: its n bytes */
  uint64_t n;
} field;

static tn_status corrupt_datum(const datum_reader *r, const char *what) {
  return tni_fail(r->err, TN_E_CORRUPT, r->file, "a sequence or optional: %s", what);
}

/* Takes one field off [*p, end). */
static tn_status next_field(const datum_reader *r, const uint8_t **p, const uint8_t *end, field *f) {
  uint64_t tag, v;
  unsigned k = tni_varint(*p, end, &tag);
  if (!k || tag > UINT32_MAX || tag >> 3 == 0) return corrupt_datum(r, "not a field tag");
  *p += k;
  *f = (field){.number = (uint32_t)(tag >> 3), .wire = (uint32_t)(tag & 7)};
  uint64_t skip = f->wire == WIRE_64 ? 8 : 4;
  if (f->wire == WIRE_VARINT || f->wire == WIRE_LEN) {
    k = tni_varint(*p, end, &v);
    if (!k) return corrupt_datum(r, "a number is cut off");
    *p += k;
    skip = f->wire == WIRE_LEN ? v : 0;
  } else if (f->wire != WIRE_64 && f->wire != WIRE_32) {
    return corrupt_datum(r, "unknown wire type");
  }
  if (skip > (uint64_t)(end - *p)) return corrupt_datum(r, "it is cut off");
  f->p = *p;
  f->n = skip;
  *p += skip;
  return TN_OK;
}

static bool is_element(const field *f) { return f->number >= F_TENSOR && f->number <= F_OPTIONAL; }

static tn_status count_fields(const datum_reader *r, const uint8_t *p, const uint8_t *end, uint32_t *n, field *name) {
  *n = 0;
  *name = (field){0};
  while (p < end) {
    field f = {0};
    tn_status st = next_field(r, &p, end, &f);
    if (st) return st;
    if (f.number == F_NAME && f.wire == WIRE_LEN) *name = f;
    if (!is_element(&f)) continue;
    if (f.wire != WIRE_LEN) return corrupt_datum(r, "an element is no message");
    if (++*n == UINT32_MAX) return corrupt_datum(r, "too many elements");
  }
  return TN_OK;
}

static tn_status read_items(const datum_reader *r, const uint8_t *p, uint64_t n, uint32_t depth, tni_datum *out,
                            field *name);

static tn_status read_item(const datum_reader *r, const field *f, uint32_t depth, tni_datum *out) {
  field name;
  if (f->number == F_TENSOR) {
    out->form = TNI_FORM_TENSOR;
    return tni_import_tensor(f->p, f->n, r->file, r->arena, &out->t, NULL, r->err);
  }
  if (f->number != F_SEQUENCE && f->number != F_OPTIONAL)
    return tni_fail(r->err, TN_E_UNSUPPORTED, r->file, "a sequence or optional of %s",
                    f->number == F_SPARSE ? "sparse tensors" : "maps");
  out->form = f->number == F_SEQUENCE ? TNI_FORM_SEQUENCE : TNI_FORM_OPTIONAL;
  return read_items(r, f->p, f->n, depth + 1, out, &name);
}

static tn_status read_items(const datum_reader *r, const uint8_t *p, uint64_t n, uint32_t depth, tni_datum *out,
                            field *name) {
  const uint8_t *end = p + n;
  uint32_t i = 0;
  if (depth > TNI_DATUM_DEPTH)
    return tni_fail(r->err, TN_E_LIMIT, r->file, "sequences and optionals nest deeper than %d", TNI_DATUM_DEPTH);
  tn_status st = count_fields(r, p, end, &out->n, name);
  if (st) return st;
  if (out->form == TNI_FORM_OPTIONAL && out->n > 1) return corrupt_datum(r, "an optional has two values");
  out->items = TNI_NEW_ARRAY(r->arena, tni_datum *, out->n + UINT64_C(1));
  tni_datum *all = TNI_NEW_ARRAY(r->arena, tni_datum, out->n + UINT64_C(1));
  if (!out->items || !all) return tni_fail_memory(r->err, r->file);
  while (p < end && !st) {
    field f = {0};
    st = next_field(r, &p, end, &f);
    if (st || !is_element(&f)) continue;
    out->items[i] = &all[i];
    st = read_item(r, &f, depth, &all[i++]);
  }
  return st;
}

tn_status tni_import_datum(const void *bytes, uint64_t n, const char *file, uint32_t form, tni_arena *arena,
                           tni_datum *out, const char **name, tn_error *err) {
  const datum_reader r = {file ? file : "(memory)", arena, err};
  tni_datum d = {.form = form};
  field said = {0};
  tn_status st;
  if (form == TNI_FORM_TENSOR) {
    st = tni_import_tensor(bytes, n, file, arena, &d.t, name, err);
  } else {
    st = read_items(&r, bytes ? bytes : (const uint8_t *)"", n, 1, &d, &said);
    if (!st && name) *name = tni_arena_strndup(arena, said.p ? (const char *)said.p : "", (size_t)said.n);
    if (!st && name && !*name) st = tni_fail_memory(err, r.file);
  }
  if (!st) *out = d;
  return st;
}
