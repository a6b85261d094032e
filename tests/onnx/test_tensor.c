/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* A model whose only content is tensor t (taken over) as initializer 'w', read by a node so that it stays. */
static wbuf model_with(wbuf t) {
  wbuf g = {0};
  wb_msg(&g, G_INIT, t);
  wb_msg(&g, G_NODE, onnx_node("Identity", "id", "w", "y"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", 1, NULL));
  return onnx_model(g, 21);
}

/* Every dtype: six elements of known bytes through raw_data and through the typed field, packed and one by one. */
static const struct {
  int dtype;
  uint32_t field;
  size_t entries, bytes;
  int64_t v[6];
  uint8_t raw[48];
} typed[] = {
    {TN_DT_U8, T_INT32, 6, 6, {0, 1, 255, 3, 4, 5}, {0, 1, 255, 3, 4, 5}},
    {TN_DT_I8, T_INT32, 6, 6, {0, -1, -128, 127, 4, 5}, {0, 0xff, 0x80, 0x7f, 4, 5}},
    {TN_DT_BOOL, T_INT32, 6, 6, {0, 1, 1, 0, 1, 0}, {0, 1, 1, 0, 1, 0}},
    {TN_DT_U16, T_INT32, 6, 12, {0, 65535, 1, 2, 3, 4}, {0, 0, 0xff, 0xff, 1, 0, 2, 0, 3, 0, 4, 0}},
    {TN_DT_I16, T_INT32, 6, 12, {-1, -32768, 1, 2, 3, 4}, {0xff, 0xff, 0, 0x80, 1, 0, 2, 0, 3, 0, 4, 0}},
    {TN_DT_F16, T_INT32, 6, 12, {0x3c00, 0xbc00, 1, 2, 3, 4}, {0, 0x3c, 0, 0xbc, 1, 0, 2, 0, 3, 0, 4, 0}},
    {TN_DT_BF16, T_INT32, 6, 12, {0x3f80, 0xbf80, 1, 2, 3, 4}, {0x80, 0x3f, 0x80, 0xbf, 1, 0, 2, 0, 3, 0, 4, 0}},
    {TN_DT_F8E4M3FN, T_INT32, 6, 6, {1, 2, 3, 4, 5, 255}, {1, 2, 3, 4, 5, 255}},
    {TN_DT_F8E4M3FNUZ, T_INT32, 6, 6, {1, 2, 3, 4, 5, 255}, {1, 2, 3, 4, 5, 255}},
    {TN_DT_F8E5M2, T_INT32, 6, 6, {1, 2, 3, 4, 5, 255}, {1, 2, 3, 4, 5, 255}},
    {TN_DT_F8E5M2FNUZ, T_INT32, 6, 6, {1, 2, 3, 4, 5, 255}, {1, 2, 3, 4, 5, 255}},
    {TN_DT_F8E8M0, T_INT32, 6, 6, {1, 2, 3, 4, 5, 255}, {1, 2, 3, 4, 5, 255}},
    {TN_DT_U4, T_INT32, 3, 3, {0x21, 0x43, 0xf5}, {0x21, 0x43, 0xf5}},
    {TN_DT_I4, T_INT32, 3, 3, {0x21, 0x43, 0xf5}, {0x21, 0x43, 0xf5}},
    {TN_DT_F4E2M1, T_INT32, 3, 3, {0x21, 0x43, 0xf5}, {0x21, 0x43, 0xf5}},
    {TN_DT_U2, T_INT32, 2, 2, {0xe4, 0x05}, {0xe4, 0x05}},
    {TN_DT_I2, T_INT32, 2, 2, {0xe4, 0x05}, {0xe4, 0x05}},
    {TN_DT_I32, T_INT32, 6, 24, {-2, 1, 2, 3, 4, 5}, {0xfe, 0xff, 0xff, 0xff, 1, 0, 0, 0, 2, 0, 0, 0,
                                                      3,    0,    0,    0,    4, 0, 0, 0, 5, 0, 0, 0}},
    {TN_DT_U32, T_UINT64, 6, 24, {0xfffffffe, 1, 2, 3, 4, 5}, {0xfe, 0xff, 0xff, 0xff, 1, 0, 0, 0, 2, 0, 0, 0,
                                                               3,    0,    0,    0,    4, 0, 0, 0, 5, 0, 0, 0}},
    {TN_DT_I64, T_INT64, 6, 48, {-2, 1, 2, 3, 4, 5}, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0,
                                                      0,    0,    2,    0,    0,    0,    0,    0,    0, 0, 3, 0, 0, 0,
                                                      0,    0,    0,    0,    4,    0,    0,    0,    0, 0, 0, 0, 5}},
    {TN_DT_U64, T_UINT64, 6, 48, {-2, 1, 2, 3, 4, 5}, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0,
                                                       0,    0,    2,    0,    0,    0,    0,    0,    0, 0, 3, 0, 0, 0,
                                                       0,    0,    0,    0,    4,    0,    0,    0,    0, 0, 0, 0, 5}},
};

static void check_w(wbuf t, uint32_t dtype, const void *bytes, size_t n, const char *label) {
  tni_model *m = import_expect(model_with(t), TN_OK, NULL, label);
  if (!m) return;
  const tni_value *w = value_named(m->graph, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(w);
  CU_ASSERT_EQUAL(w->pub.kind, TN_VALUE_CONST);
  CU_ASSERT_EQUAL(w->pub.dtype, dtype);
  CU_ASSERT_PTR_NOT_NULL_FATAL(w->tensor);
  CU_ASSERT_EQUAL_FATAL(w->tensor->bytes, n);
  CU_ASSERT(n == 0 || memcmp(w->tensor->data, bytes, n) == 0);
  tni_model_destroy(m);
}

static void test_integers(void) {
  for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
    wbuf t = onnx_tensor_raw("w", typed[i].dtype, "2,3", typed[i].raw, typed[i].bytes);
    check_w(t, (uint32_t)typed[i].dtype, typed[i].raw, typed[i].bytes, "raw");
    t = onnx_tensor("w", typed[i].dtype, "2,3");
    wb_packed(&t, typed[i].field, typed[i].v, typed[i].entries);
    check_w(t, (uint32_t)typed[i].dtype, typed[i].raw, typed[i].bytes, "packed");
    t = onnx_tensor("w", typed[i].dtype, "2,3");
    for (size_t k = 0; k < typed[i].entries; k++) wb_int(&t, typed[i].field, typed[i].v[k]);
    check_w(t, (uint32_t)typed[i].dtype, typed[i].raw, typed[i].bytes, "one by one");
  }
}

static void test_floats(void) {
  static const float f[6] = {1, -2, 3.5f, 0, 5, 6};
  static const double d[6] = {1, -2, 3.5, 0, 5, 6};
  static const struct {
    int dtype;
    const char *dims;
    uint32_t field;
    const void *data;
    size_t n;
  } rows[] = {{TN_DT_F32, "2,3", T_FLOAT, f, sizeof f},
              {TN_DT_C64, "3", T_FLOAT, f, sizeof f},
              {TN_DT_F64, "6", T_DOUBLE, d, sizeof d},
              {TN_DT_C128, "3,1", T_DOUBLE, d, sizeof d}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    wbuf t = onnx_tensor("w", rows[i].dtype, rows[i].dims);
    wb_bytes(&t, rows[i].field, rows[i].data, rows[i].n);
    check_w(t, (uint32_t)rows[i].dtype, rows[i].data, rows[i].n, "floats");
    t = onnx_tensor_raw("w", rows[i].dtype, rows[i].dims, rows[i].data, rows[i].n);
    check_w(t, (uint32_t)rows[i].dtype, rows[i].data, rows[i].n, "raw floats");
  }
}

/* Large payloads stay where they are, unless they must be decoded. */
static void test_large(void) {
  enum { N = 5000 };
  int64_t *v = malloc(N * sizeof *v);
  for (int i = 0; i < N; i++) v[i] = (int64_t)i * i - 3;
  wbuf t = onnx_tensor("w", TN_DT_I64, "5000");
  wb_packed(&t, T_INT64, v, N);
  check_w(t, TN_DT_I64, v, N * sizeof *v, "large packed int64");
  t = onnx_tensor_raw("w", TN_DT_I64, "5000", v, N * sizeof *v);
  check_w(t, TN_DT_I64, v, N * sizeof *v, "large raw");
  t = onnx_tensor("w", TN_DT_F32, "100,100");
  wb_bytes(&t, T_FLOAT, v, N * sizeof *v);
  check_w(t, TN_DT_F32, v, N * sizeof *v, "large packed floats");
  free(v);
}

/* In place: aligned or above 1 MiB. A copy: below and misaligned. */
static void test_in_place(void) {
  for (int kib = 256; kib <= 1024; kib += 768) {
    size_t n = (size_t)kib << 10;
    uint8_t *data = calloc(1, n);
    char dims[32];
    snprintf(dims, sizeof dims, "%zu", n / 4);
    int inside_seen = 0;
    for (int shift = 0; shift < 4; shift++) {
      char name[8] = "wwwwww";
      name[shift + 1] = '\0';
      wbuf g = {0};
      wb_msg(&g, G_INIT, onnx_tensor_raw(name, TN_DT_F32, dims, data, n));
      wb_msg(&g, G_NODE, onnx_node("Identity", "id", name, "y"));
      wb_msg(&g, G_OUTPUT, onnx_value("y", 1, NULL));
      wbuf m = onnx_model(g, 21);
      tni_model *model;
      CU_ASSERT_EQUAL_FATAL(tni_import_bytes(m.p, m.n, NULL, NULL, NULL, &model, NULL), TN_OK);
      const tni_value *w = value_named(model->graph, name);
      CU_ASSERT_PTR_NOT_NULL_FATAL(w);
      uintptr_t at = (uintptr_t)w->tensor->data, from = (uintptr_t)m.p;
      bool inside = at >= from && at < from + m.n;
      inside_seen += inside;
      CU_ASSERT(inside || kib == 256);
      if (kib == 256) CU_ASSERT_EQUAL(at % 4, 0);
      tni_arena *arena = tni_arena_create();
      tni_tensor copy = *w->tensor;
      bool was = tni_tensor_aligned(&copy);
      CU_ASSERT_EQUAL(was, at % 4 == 0);
      CU_ASSERT_EQUAL(tni_tensor_align(&copy, arena, NULL), TN_OK);
      CU_ASSERT_EQUAL((uintptr_t)copy.data % 4, 0);
      CU_ASSERT_EQUAL(copy.data == w->tensor->data, was);
      CU_ASSERT_EQUAL(memcmp(copy.data, data, n), 0);
      tni_arena_destroy(arena);
      tni_model_destroy(model);
      wb_free(&m);
    }
    CU_ASSERT(kib == 256 ? inside_seen == 1 : inside_seen == 4);
    free(data);
  }
}

/* Complex elements need the alignment of their parts, those below a byte none. */
static void test_alignment_of_dtypes(void) {
  static const struct {
    uint32_t dtype;
    unsigned align;
  } rows[] = {{TN_DT_U8, 1},  {TN_DT_I4, 1},  {TN_DT_F16, 2},  {TN_DT_F32, 4},
              {TN_DT_I64, 8}, {TN_DT_C64, 4}, {TN_DT_C128, 8}, {TN_DT_BOOL, 1}};
  static _Alignas(16) uint8_t data[64];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (unsigned at = 0; at < 16; at++) {
      tni_tensor t = {.dtype = rows[i].dtype, .data = data + at};
      CU_ASSERT_EQUAL(tni_tensor_aligned(&t), at % rows[i].align == 0);
    }
}

static wbuf with_data(wbuf t, uint32_t field, size_t n) {
  static const uint8_t zeros[4096];
  wb_bytes(&t, field, zeros, n);
  return t;
}

static wbuf with_int(wbuf t, uint32_t field, int64_t v) {
  wb_int(&t, field, v);
  return t;
}

static void test_bad(void) {
  static const int64_t big[] = {256}, low[] = {-129}, wide[] = {INT64_C(1) << 40};
  struct {
    const char *label;
    wbuf t;
    tn_status st;
    const char *part;
  } rows[] = {
      {"raw too short", with_data(onnx_tensor("w", 1, "2,3"), T_RAW, 23), TN_E_INVALID, "'w': its data has 23 bytes"},
      {"raw too long", with_data(onnx_tensor("w", 1, "2,3"), T_RAW, 25), TN_E_INVALID, "needs 24"},
      {"large raw too short", with_data(onnx_tensor("w", 1, "1024"), T_RAW, 4092), TN_E_INVALID, "needs 4096"},
      {"4-bit odd", with_data(onnx_tensor("w", TN_DT_I4, "5"), T_RAW, 2), TN_E_INVALID, "needs 3"},
      {"floats short", with_data(onnx_tensor("w", 1, "2,3"), T_FLOAT, 20), TN_E_INVALID, "needs 24"},
      {"ints short", with_data(onnx_tensor("w", TN_DT_I64, "9"), T_INT64, 8), TN_E_INVALID, "8 entries"},
      {"large ints short", with_data(onnx_tensor("w", TN_DT_I64, "2000"), T_INT64, 1999), TN_E_INVALID, "1999 bytes"},
      {"large ints long", with_data(onnx_tensor("w", TN_DT_I64, "2000"), T_INT64, 2001), TN_E_INVALID, "more elements"},
      {"no data", onnx_tensor("w", 1, "2"), TN_E_INVALID, "no data"},
      {"scalar without data", onnx_tensor("w", 1, ""), TN_E_INVALID, "no data"},
      {"two fields", with_data(with_data(onnx_tensor("w", 1, "2"), T_RAW, 8), T_FLOAT, 8), TN_E_INVALID, "several"},
      {"two payloads", with_data(with_data(onnx_tensor("w", 1, "1024"), T_RAW, 4096), T_RAW, 4096), TN_E_INVALID,
       "several"},
      {"wrong field", with_data(onnx_tensor("w", 1, "2"), T_INT64, 2), TN_E_INVALID, "field int64_data"},
      {"negative dim", with_data(onnx_tensor("w", 1, "2,-3"), T_RAW, 24), TN_E_INVALID, "dimension 1 is -3"},
      {"dims overflow", with_data(onnx_tensor("w", 1, "4294967296,4294967296"), T_RAW, 24), TN_E_LIMIT, "overflow"},
      {"bytes overflow", with_data(onnx_tensor("w", 11, "4611686018427387904"), T_RAW, 24), TN_E_LIMIT, "overflow"},
      {"rank 9", with_data(onnx_tensor("w", 1, "1,1,1,1,1,1,1,1,1"), T_RAW, 4), TN_E_LIMIT, "'w': rank 9"},
      {"dtype 0", with_data(onnx_tensor("w", 0, "1"), T_RAW, 4), TN_E_INVALID, "data type 0"},
      {"dtype 27", with_data(onnx_tensor("w", 27, "1"), T_RAW, 4), TN_E_UNSUPPORTED, "data type 27"},
      {"dtype negative", with_data(onnx_tensor("w", -5, "1"), T_RAW, 4), TN_E_INVALID, "data type -5"},
      {"string raw", with_data(onnx_tensor("w", 8, "1"), T_RAW, 4), TN_E_INVALID, "strings in raw_data"},
      {"strings missing", with_data(onnx_tensor("w", 8, "2"), T_STRING, 4), TN_E_INVALID, "1 strings for 2"},
      {"u8 over", with_int(onnx_tensor("w", TN_DT_U8, "1"), T_INT32, big[0]), TN_E_INVALID, "256, which uint8"},
      {"i8 under", with_int(onnx_tensor("w", TN_DT_I8, "1"), T_INT32, low[0]), TN_E_INVALID, "-129, which int8"},
      {"u32 over", with_int(onnx_tensor("w", TN_DT_U32, "1"), T_UINT64, wide[0]), TN_E_INVALID, "which uint32"},
      {"segment", with_data(with_data(onnx_tensor("w", 1, "1"), T_RAW, 4), 3, 0), TN_E_UNSUPPORTED, "segments"},
      {"no name", with_data(onnx_tensor("", 1, "1"), T_RAW, 4), TN_E_INVALID, "no name"},
      {"external in memory", onnx_external("w", 1, "1", "x.bin", NULL, NULL), TN_E_INVALID, "no folder"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    import_expect(model_with(rows[i].t), rows[i].st, rows[i].part, rows[i].label);
}

static void test_strings_and_empty(void) {
  wbuf t = onnx_tensor("w", TN_DT_STRING, "2");
  wb_str(&t, T_STRING, "a");
  wb_str(&t, T_STRING, "bc");
  tni_model *m = import_expect(model_with(t), TN_OK, NULL, "strings");
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  const tni_value *w = value_named(m->graph, "w");
  CU_ASSERT_EQUAL(w->tensor->dims[0], 2);
  CU_ASSERT_PTR_NULL(w->tensor->data);
  CU_ASSERT_EQUAL(w->tensor->bytes, 0);
  tni_model_destroy(m);
  check_w(onnx_tensor("w", 1, "0,3"), 1, NULL, 0, "no elements");
  check_w(with_data(onnx_tensor("w", 1, "0"), T_RAW, 0), 1, NULL, 0, "no elements, empty raw_data");
}

/* .pb files: out and in again. */
static void test_pb(void) {
  static const float data[6] = {1, 2, 3, 4, 5, 6};
  tni_tensor t = {.dtype = TN_DT_F32, .rank = 2, .dims = {2, 3}, .data = (void *)data, .bytes = sizeof data};
  void *bytes;
  uint64_t n;
  CU_ASSERT_EQUAL_FATAL(tni_export_tensor(&t, "past.0", &bytes, &n), TN_OK);
  tni_arena *arena = tni_arena_create();
  tni_tensor back;
  const char *name;
  tn_error e;
  tni_error_init(&e);
  CU_ASSERT_EQUAL_FATAL(tni_import_tensor(bytes, n, "x.pb", arena, &back, &name, &e), TN_OK);
  CU_ASSERT_STRING_EQUAL(name, "past.0");
  CU_ASSERT_EQUAL(back.rank, 2);
  CU_ASSERT_EQUAL(back.dims[1], 3);
  CU_ASSERT_EQUAL_FATAL(back.bytes, sizeof data);
  CU_ASSERT_EQUAL(memcmp(back.data, data, sizeof data), 0);
  CU_ASSERT_EQUAL((uintptr_t)back.data % 64, 0);
  /* The data is the arena's, also when it is large. */
  free(bytes);
  static uint8_t big[100000];
  big[99999] = 7;
  t = (tni_tensor){.dtype = TN_DT_U8, .rank = 1, .dims = {sizeof big}, .data = big, .bytes = sizeof big};
  CU_ASSERT_EQUAL_FATAL(tni_export_tensor(&t, NULL, &bytes, &n), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_import_tensor(bytes, n, NULL, arena, &back, NULL, &e), TN_OK);
  for (uint64_t cut = 0; cut < 40; cut++) {
    tni_error_init(&e);
    CU_ASSERT(tni_import_tensor(bytes, n - 1 - cut * 2500, "x.pb", arena, &back, NULL, &e) == TN_E_CORRUPT);
  }
  memset(bytes, 0, n);
  free(bytes);
  CU_ASSERT_EQUAL(((uint8_t *)back.data)[99999], 7);
  tni_error_init(&e);
  CU_ASSERT_EQUAL(tni_import_tensor("", 0, "x.pb", arena, &back, NULL, &e), TN_E_CORRUPT);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.where, "x.pb"));
  t.dtype = TN_DT_STRING;
  CU_ASSERT_EQUAL(tni_export_tensor(&t, NULL, &bytes, &n), TN_E_INVALID);
  tni_arena_destroy(arena);
}

int suite_tensor(void) {
  CU_pSuite s = CU_add_suite("onnx tensors", NULL, NULL);
  return !s || !CU_add_test(s, "integer and small dtypes", test_integers) || !CU_add_test(s, "floats", test_floats) ||
         !CU_add_test(s, "large payloads", test_large) || !CU_add_test(s, "in place or aligned", test_in_place) ||
         !CU_add_test(s, "alignment", test_alignment_of_dtypes) || !CU_add_test(s, "bad tensors", test_bad) ||
         !CU_add_test(s, "strings, no elements", test_strings_and_empty) || !CU_add_test(s, ".pb files", test_pb);
}
