/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences and optionals as trees of tn_tensor, in one allocation: the structs, the pointers to elements, their data.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "runtime/base/base.h"
#include "runtime/onnx/onnx.h"

enum { ALIGN = 64 };

static bool add_part(size_t *total, uint64_t bytes) {
  size_t part;
  return tni_add_size((size_t)bytes, ALIGN - 1, &part) && tni_add_size(*total, part & ~(size_t)(ALIGN - 1), total);
}

/* Bytes of d and of all below it. */
static bool measure_datum(const tni_datum *d, size_t *total) {
  if (!add_part(total, sizeof(tn_tensor))) return false;
  if (d->form == TNI_FORM_TENSOR) return add_part(total, d->t.bytes);
  bool ok = add_part(total, (uint64_t)d->n * sizeof(void *));
  for (uint32_t i = 0; ok && i < d->n; i++) ok = measure_datum(d->items[i], total);
  return ok;
}

static void *take_bytes(char **at, uint64_t bytes) {
  void *p = *at;
  *at += ((size_t)bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  return p;
}

static tn_tensor *build_tensor(const tni_datum *d, char **at) {
  tn_tensor *t = take_bytes(at, sizeof *t);
  *t = (tn_tensor){.h = TN_API_HDR(tn_tensor)};
  if (d->form == TNI_FORM_TENSOR) {
    t->dtype = d->t.dtype;
    t->rank = d->t.rank;
    memcpy(t->dims, d->t.dims, sizeof t->dims);
    t->bytes = d->t.bytes;
    void *data = take_bytes(at, t->bytes);
    if (t->bytes) memcpy(data, d->t.data, (size_t)t->bytes);
    t->data = data;
    return t;
  }
  const tn_tensor **items = take_bytes(at, (uint64_t)d->n * sizeof *items);
  t->dtype = d->form == TNI_FORM_SEQUENCE ? TN_DT_SEQUENCE : TN_DT_OPTIONAL;
  t->rank = 1;
  t->dims[0] = d->n;
  t->bytes = (uint64_t)d->n * sizeof *items;
  t->data = items;
  for (uint32_t i = 0; i < d->n; i++) items[i] = build_tensor(d->items[i], at);
  return t;
}

static tn_status make_datum_tensor(const tni_datum *d, const char *name, const char *path, tn_tensor **out,
                                   tn_error *err) {
  size_t total = ALIGN; /* aligned_alloc takes no 0 */
  const size_t n_name = name && *name ? strlen(name) + 1 : 0;
  if (!measure_datum(d, &total) || !add_part(&total, n_name))
    return tni_fail(err, TN_E_LIMIT, path, "'%s' is too large", path);
  char *mem = aligned_alloc(ALIGN, total), *at = mem;
  if (!mem) return tni_fail_memory(err, path);
  *out = build_tensor(d, &at);
  if (n_name) (*out)->name = memcpy(take_bytes(&at, n_name), name, n_name);
  return TN_OK;
}

tn_status tn_value_load(const char *path, tn_dtype as, tn_tensor **out, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(path);
  TNI_NOT_NULL(out);
  if (as != TN_DT_SEQUENCE && as != TN_DT_OPTIONAL) return tn_tensor_load(path, out, err);
  tni_file f;
  tni_datum d;
  const char *name = NULL;
  tn_status st = tni_file_map(path, &f, err);
  if (st != TN_OK) return st;
  tni_arena *arena = tni_arena_create();
  st = arena ? tni_import_datum(f.data, f.bytes, path, as == TN_DT_SEQUENCE ? TNI_FORM_SEQUENCE : TNI_FORM_OPTIONAL,
                                arena, &d, &name, err)
             : tni_fail_memory(err, path);
  tn_tensor *t = NULL;
  if (st == TN_OK) st = make_datum_tensor(&d, name, path, &t, err);
  if (st == TN_OK) st = tni_file_check(&f, path, TNI_WATCH_CONTENT, err);
  if (st == TN_OK)
    *out = t;
  else
    free(t);
  tni_arena_destroy(arena);
  tni_file_unmap(&f);
  return st;
}
