/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor files. The .npy format: magic, version, header length, a Python dict as text, data
 * (numpy.lib.format, versions 1.0 to 3.0).
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "runtime/base/base.h"
#include "runtime/onnx/onnx.h"

static const struct {
  const char *descr;
  uint32_t dtype;
} npy_types[] = {{"<f4", TN_DT_F32}, {"<f8", TN_DT_F64}, {"<f2", TN_DT_F16}, {"|u1", TN_DT_U8},
                 {"|i1", TN_DT_I8},  {"<u2", TN_DT_U16}, {"<i2", TN_DT_I16}, {"<i4", TN_DT_I32},
                 {"<i8", TN_DT_I64}, {"<u4", TN_DT_U32}, {"<u8", TN_DT_U64}, {"|b1", TN_DT_BOOL}};

static tn_status make_file_tensor(const tni_tensor *t, const char *name, tn_tensor **out, tn_error *err,
                                  const char *path) {
  size_t n_name = name ? strlen(name) + 1 : 0, head = (sizeof(tn_tensor) + n_name + 63) & ~(size_t)63;
  char *mem = aligned_alloc(64, (head + t->bytes + 64) & ~(size_t)63);
  if (!mem) return tni_fail_memory(err, path);
  tn_tensor *r = (tn_tensor *)mem;
  *r = (tn_tensor){.h = TN_API_HDR(tn_tensor), .dtype = t->dtype, .rank = t->rank, .data = mem + head, .bytes = t->bytes};
  memcpy(r->dims, t->dims, sizeof r->dims);
  if (name) r->name = memcpy(mem + sizeof *r, name, n_name);
  if (t->bytes) memcpy(mem + head, t->data, t->bytes);
  *out = r;
  return TN_OK;
}

static tn_status load_pb(const tni_file *f, const char *path, tn_tensor **out, tn_error *err) {
  tni_arena *arena = tni_arena_create();
  if (!arena) return tni_fail_memory(err, path);
  tni_tensor t;
  const char *name = NULL;
  tn_status st = tni_import_tensor(f->data, f->bytes, path, arena, &t, &name, err);
  if (st == TN_OK) st = make_file_tensor(&t, name && *name ? name : NULL, out, err, path);
  tni_arena_destroy(arena);
  return st;
}

/* The value after 'key': in the header's dict, or NULL. */
static const char *dict_value(const char *dict, const char *key) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s':", key);
  const char *at = strstr(dict, quoted);
  if (!at) return NULL;
  at += strlen(quoted);
  while (*at == ' ') at++;
  return at;
}

static bool read_shape(const char *at, tni_tensor *t) {
  if (!at || *at++ != '(') return false;
  while (*at && *at != ')') {
    char *end;
    errno = 0;
    long long d = strtoll(at, &end, 10);
    if (end == at || errno || d < 0 || t->rank == TN_MAX_RANK) return false;
    t->dims[t->rank++] = d;
    at = end;
    while (*at == ' ' || *at == ',') at++;
  }
  return *at == ')';
}

static tn_status load_npy(const tni_file *f, const char *path, tn_tensor **out, tn_error *err) {
  const unsigned char *p = f->data;
  tni_tensor t = {0};
  if (f->bytes < 12 || memcmp(p, "\x93NUMPY", 6) != 0 || p[6] < 1 || p[6] > 3)
    return tni_fail(err, TN_E_INVALID, path, "'%s' is not a .npy file", path);
  size_t start = p[6] == 1 ? 10 : 12;
  size_t n =
      p[6] == 1 ? p[8] | (size_t)p[9] << 8 : p[8] | (size_t)p[9] << 8 | (size_t)p[10] << 16 | (size_t)p[11] << 24;
  char dict[4096];
  if (n >= sizeof dict || start + n > f->bytes)
    return tni_fail(err, TN_E_INVALID, path, "'%s': the header is cut off or absurd", path);
  memcpy(dict, p + start, n);
  dict[n] = '\0';
  const char *descr = dict_value(dict, "descr"), *order = dict_value(dict, "fortran_order");
  for (size_t i = 0; descr && i < sizeof npy_types / sizeof *npy_types; i++)
    if (descr[0] == '\'' && strncmp(descr + 1, npy_types[i].descr, 3) == 0) t.dtype = npy_types[i].dtype;
  if (!t.dtype)
    return tni_fail(err, TN_E_INVALID, path, "'%s': dtype %.12s is not supported", path, descr ? descr : "?");
  if (!order || strncmp(order, "False", 5) != 0)
    return tni_fail(err, TN_E_INVALID, path, "'%s': arrays in Fortran order are not supported", path);
  int64_t count;
  if (!read_shape(dict_value(dict, "shape"), &t) || tni_dims_count(t.dims, t.rank, &count) != TN_OK ||
      tni_dtype_bytes(t.dtype, count, &t.bytes) != TN_OK)
    return tni_fail(err, TN_E_INVALID, path, "'%s': the shape is absurd", path);
  if (t.bytes > f->bytes - start - n)
    return tni_fail(err, TN_E_INVALID, path, "'%s': %llu bytes of data are missing", path,
                    (unsigned long long)(t.bytes - (f->bytes - start - n)));
  t.data = (void *)(uintptr_t)(p + start + n);
  return make_file_tensor(&t, NULL, out, err, path);
}

tn_status tn_tensor_load(const char *path, tn_tensor **out, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(path);
  TNI_NOT_NULL(out);
  bool npy = tni_ends_with(path, ".npy");
  if (!npy && !tni_ends_with(path, ".pb"))
    return tni_fail(err, TN_E_INVALID, path, "'%s': tensor files end in .npy or .pb", path);
  tni_file f;
  tn_status st = tni_file_map(path, &f, err);
  if (st != TN_OK) return st;
  tn_tensor *t = NULL;
  st = (npy ? load_npy : load_pb)(&f, path, &t, err);
  if (st == TN_OK) st = tni_file_check(&f, path, TNI_WATCH_CONTENT, err);
  tni_file_unmap(&f);
  if (st == TN_OK)
    *out = t;
  else
    free(t);
  return st;
}

static tn_status npy_header(const tn_tensor *t, char *buf, size_t cap, size_t *n, tn_error *err, const char *path) {
  const char *descr = NULL;
  for (size_t i = 0; i < sizeof npy_types / sizeof *npy_types; i++)
    if (npy_types[i].dtype == t->dtype) descr = npy_types[i].descr;
  if (!descr)
    return tni_fail(err, TN_E_UNSUPPORTED, path, "%s cannot be written as .npy; use .pb", tni_dtype_name(t->dtype));
  size_t at = (size_t)snprintf(buf + 10, cap - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  for (uint32_t i = 0; i < t->rank; i++)
    at += (size_t)snprintf(buf + 10 + at, cap - 10 - at, "%lld%s", (long long)t->dims[i],
                           t->rank == 1 || i + 1 < t->rank ? ", " : "");
  at += (size_t)snprintf(buf + 10 + at, cap - 10 - at, "), }");
  while ((10 + at + 1) % 64) buf[10 + at++] = ' ';
  buf[10 + at++] = '\n';
  memcpy(buf, "\x93NUMPY\x01\x00", 8);
  buf[8] = (char)(at & 0xff);
  buf[9] = (char)(at >> 8);
  *n = 10 + at;
  return TN_OK;
}

tn_status tn_tensor_save(const tn_tensor *t, const char *path, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(t);
  TNI_NOT_NULL(path);
  const tn_status sized = tni_sized(&t->h, TN_UPTO(tn_tensor, bytes), "tn_tensor", err);
  if (sized != TN_OK) return sized;
  if (t->rank > TN_MAX_RANK) return tni_fail(err, TN_E_INVALID, path, "a tensor of rank %u", t->rank);
  if (t->bytes && !t->data)
    return tni_fail(err, TN_E_INVALID, path, "a tensor of %llu bytes without data", (unsigned long long)t->bytes);
  char head[1024];
  size_t n_head = 0;
  void *pb = NULL;
  const void *body = t->data;
  uint64_t n_body = t->bytes;
  tn_status st = TN_OK;
  if (tni_ends_with(path, ".npy")) {
    st = npy_header(t, head, sizeof head, &n_head, err, path);
  } else if (tni_ends_with(path, ".pb")) {
    tni_tensor it = {.dtype = t->dtype, .rank = t->rank, .data = (void *)(uintptr_t)t->data, .bytes = t->bytes};
    memcpy(it.dims, t->dims, sizeof it.dims);
    st = tni_export_tensor(&it, t->name, &pb, &n_body);
    if (st != TN_OK) tni_fail(err, st, path, "cannot encode '%s'", path);
    body = pb;
  } else {
    st = tni_fail(err, TN_E_INVALID, path, "'%s': tensor files end in .npy or .pb", path);
  }
  FILE *f = st == TN_OK ? fopen(path, "wb") : NULL;
  if (st == TN_OK && !f)
    st = tni_fail(err, tni_errno_status(errno, TN_E_IO), path, "cannot write '%s': %s", path, strerror(errno));
  if (f) {
    fwrite(head, 1, n_head, f);
    if (n_body) fwrite(body, 1, n_body, f);
    const int why = tni_close_written(f);
    if (why) st = tni_fail(err, tni_errno_status(why, TN_E_IO), path, "cannot write '%s': %s", path, strerror(why));
  }
  free(pb);
  return st;
}
