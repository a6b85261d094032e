/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

void wb_raw(wbuf *b, const void *p, size_t n) {
  if (n > b->cap - b->n) {
    b->cap = (b->cap + n) * 2;
    b->p = realloc(b->p, b->cap);
    if (!b->p) abort();
  }
  if (n) memcpy(b->p + b->n, p, n);
  b->n += n;
}

void wb_free(wbuf *b) {
  free(b->p);
  *b = (wbuf){0};
}

void wb_varint(wbuf *b, uint64_t v) {
  uint8_t x[10];
  size_t n = 0;
  for (; v > 0x7f; v >>= 7) x[n++] = (uint8_t)(v | 0x80);
  x[n++] = (uint8_t)v;
  wb_raw(b, x, n);
}

void wb_int(wbuf *b, uint32_t field, int64_t v) {
  wb_varint(b, (uint64_t)field << 3);
  wb_varint(b, (uint64_t)v);
}

void wb_f32(wbuf *b, uint32_t field, float v) {
  wb_varint(b, (uint64_t)field << 3 | 5);
  wb_raw(b, &v, sizeof v);
}

void wb_bytes(wbuf *b, uint32_t field, const void *p, size_t n) {
  wb_varint(b, (uint64_t)field << 3 | 2);
  wb_varint(b, n);
  wb_raw(b, p, n);
}

void wb_str(wbuf *b, uint32_t field, const char *s) { wb_bytes(b, field, s, strlen(s)); }

void wb_msg(wbuf *b, uint32_t field, wbuf sub) {
  wb_bytes(b, field, sub.p, sub.n);
  wb_free(&sub);
}

void wb_packed(wbuf *b, uint32_t field, const int64_t *v, size_t n) {
  wbuf s = {0};
  for (size_t i = 0; i < n; i++) wb_varint(&s, (uint64_t)v[i]);
  wb_msg(b, field, s);
}

/* Next piece of a comma list into buf; false at its end. */
static int piece(const char **list, char *buf, size_t cap) {
  if (!*list) return 0;
  size_t n = strcspn(*list, ",");
  if (n >= cap) abort();
  memcpy(buf, *list, n);
  buf[n] = '\0';
  *list = (*list)[n] ? *list + n + 1 : NULL;
  return 1;
}

wbuf onnx_value(const char *name, int dtype, const char *dims) {
  wbuf v = {0}, type = {0}, tensor = {0}, shape = {0};
  char d[64];
  wb_str(&v, 1, name);
  wb_int(&tensor, 1, dtype);
  for (const char *p = dims && *dims ? dims : NULL; piece(&p, d, sizeof d);) {
    wbuf dim = {0};
    char *end;
    long long x = strtoll(d, &end, 10);
    if (!*end && end != d)
      wb_int(&dim, 1, x);
    else if (strcmp(d, "?") != 0)
      wb_str(&dim, 2, *d == '\'' ? d + 1 : d);
    wb_msg(&shape, 1, dim);
  }
  if (dims)
    wb_msg(&tensor, 2, shape);
  else
    wb_free(&shape);
  wb_msg(&type, 1, tensor);
  wb_msg(&v, 2, type);
  return v;
}

wbuf onnx_tensor(const char *name, int dtype, const char *dims) {
  wbuf t = {0};
  char d[64];
  for (const char *p = *dims ? dims : NULL; piece(&p, d, sizeof d);) wb_int(&t, T_DIMS, strtoll(d, NULL, 10));
  wb_int(&t, T_TYPE, dtype);
  if (name) wb_str(&t, T_NAME, name);
  return t;
}

wbuf onnx_tensor_raw(const char *name, int dtype, const char *dims, const void *data, size_t n) {
  wbuf t = onnx_tensor(name, dtype, dims);
  wb_bytes(&t, T_RAW, data, n);
  return t;
}

wbuf onnx_external(const char *name, int dtype, const char *dims, const char *location, const char *offset,
                   const char *length) {
  wbuf t = onnx_tensor(name, dtype, dims);
  const char *kv[3][2] = {{"location", location}, {"offset", offset}, {"length", length}};
  for (int i = 0; i < 3; i++) {
    wbuf e = {0};
    if (!kv[i][1]) continue;
    wb_str(&e, 1, kv[i][0]);
    wb_str(&e, 2, kv[i][1]);
    wb_msg(&t, T_EXTERNAL, e);
  }
  wb_int(&t, T_LOCATION, 1);
  return t;
}

wbuf onnx_node(const char *type, const char *name, const char *in, const char *out) {
  wbuf n = {0};
  char s[256];
  for (const char *p = *in ? in : NULL; piece(&p, s, sizeof s);) wb_str(&n, 1, s);
  for (const char *p = *out ? out : NULL; piece(&p, s, sizeof s);) wb_str(&n, 2, s);
  if (*name) wb_str(&n, 3, name);
  /* "domain:type" */
  const char *colon = strchr(type, ':');
  wb_str(&n, 4, colon ? colon + 1 : type);
  if (colon) wb_bytes(&n, 7, type, (size_t)(colon - type));
  return n;
}

static wbuf attr(const char *name, int type) {
  wbuf a = {0};
  wb_str(&a, 1, name);
  if (type) wb_int(&a, 20, type);
  return a;
}

wbuf onnx_attr_int(const char *name, int64_t v) {
  wbuf a = attr(name, 2);
  wb_int(&a, 3, v);
  return a;
}

wbuf onnx_attr_float(const char *name, float v) {
  wbuf a = attr(name, 1);
  wb_f32(&a, 2, v);
  return a;
}

wbuf onnx_attr_str(const char *name, const char *v) {
  wbuf a = attr(name, 3);
  wb_str(&a, 4, v);
  return a;
}

wbuf onnx_attr_ints(const char *name, const int64_t *v, size_t n) {
  wbuf a = attr(name, 7);
  for (size_t i = 0; i < n; i++) wb_int(&a, 8, v[i]);
  return a;
}

wbuf onnx_attr_msg(const char *name, int type, uint32_t field, wbuf sub) {
  wbuf a = attr(name, type);
  wb_msg(&a, field, sub);
  return a;
}

wbuf onnx_attr_ref(const char *name, int type, const char *ref) {
  wbuf a = attr(name, type);
  wb_str(&a, 21, ref);
  return a;
}

wbuf onnx_opset(const char *domain, int64_t version) {
  wbuf o = {0};
  wb_str(&o, 1, domain);
  wb_int(&o, 2, version);
  return o;
}

wbuf onnx_model(wbuf graph, int64_t opset) {
  wbuf m = {0};
  wb_int(&m, M_IR, 8);
  wb_msg(&m, M_OPSET, onnx_opset("", opset));
  wb_msg(&m, M_GRAPH, graph);
  return m;
}
