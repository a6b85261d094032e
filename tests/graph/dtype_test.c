/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/graph/graph_test.h"

static void sizes(void) {
  static const struct {
    uint32_t dtype, bits;
    int64_t count;
    uint64_t bytes;
  } rows[] = {
      {TN_DT_F32, 32, 3, 12},  {TN_DT_U8, 8, 3, 3},
      {TN_DT_BOOL, 8, 3, 3},   {TN_DT_F16, 16, 3, 6},
      {TN_DT_I64, 64, 0, 0},   {TN_DT_C128, 128, 3, 48},
      {TN_DT_F8E5M2, 8, 3, 3}, {TN_DT_I4, 4, 3, 2},
      {TN_DT_U4, 4, 4, 2},     {TN_DT_F4E2M1, 4, 1, 1},
      {TN_DT_U2, 2, 4, 1},     {TN_DT_I2, 2, 5, 2},
      {TN_DT_I2, 2, 0, 0},     {TN_DT_U4, 4, INT64_MAX, (uint64_t)INT64_MAX / 2 + 1},
  };
  uint64_t b;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CU_ASSERT_EQUAL(tni_dtype_bits(rows[i].dtype), rows[i].bits);
    CU_ASSERT_EQUAL(tni_dtype_bytes(rows[i].dtype, rows[i].count, &b), TN_OK);
    CU_ASSERT_EQUAL(b, rows[i].bytes);
  }
  CU_ASSERT_EQUAL(tni_dtype_bytes(TN_DT_STRING, 1, &b), TN_E_UNSUPPORTED);
  CU_ASSERT_EQUAL(tni_dtype_bytes(TN_DT_UNDEFINED, 1, &b), TN_E_UNSUPPORTED);
  CU_ASSERT_EQUAL(tni_dtype_bytes(99, 1, &b), TN_E_UNSUPPORTED);
  CU_ASSERT_EQUAL(tni_dtype_bytes(TN_DT_F32, -1, &b), TN_E_LIMIT);
  CU_ASSERT_EQUAL(tni_dtype_bytes(TN_DT_F32, INT64_MAX / 2, &b), TN_E_LIMIT);
  CU_ASSERT_EQUAL(tni_dtype_bytes(TN_DT_C128, INT64_MAX / 8, &b), TN_E_LIMIT);
  CU_ASSERT_STRING_EQUAL(tni_dtype_name(TN_DT_BF16), "bfloat16");
  CU_ASSERT_STRING_EQUAL(tni_dtype_name(1000), "unknown");
  for (uint32_t i = 0; i < TN_DT_COUNT; i++) CU_ASSERT_PTR_NOT_NULL(tni_dtype_name(i));
}

static void counts(void) {
  static const struct {
    int64_t dims[3];
    uint32_t rank;
    tn_status st;
    int64_t count;
  } rows[] = {{{0}, 0, TN_OK, 1},
              {{2, 3, 4}, 3, TN_OK, 24},
              {{2, 0, 4}, 3, TN_OK, 0},
              {{1 << 15, 1 << 15, 0}, 3, TN_OK, 0},
              {{1 << 15, 1 + (1 << 15), 0}, 3, TN_E_LIMIT, 0}, /* no element, and still loops over 2^30 rows of none */
              {{INT64_MAX, INT64_MAX, 0}, 3, TN_E_LIMIT, 0},
              {{2, -1, 0}, 3, TN_E_LIMIT, 0},
              {{INT64_MAX, 2, 1}, 3, TN_E_LIMIT, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t n = 77;
    CU_ASSERT_EQUAL(tni_dims_count(rows[i].dims, rows[i].rank, &n), rows[i].st);
    CU_ASSERT_EQUAL(n, rows[i].st == TN_OK ? rows[i].count : 77);
  }
}

/* Corner values by hand; every code is compared with numpy and ml_dtypes by check_dtypes.py. */
static void small_floats(void) {
  static const struct {
    uint32_t dtype;
    uint8_t code;
    float value;
  } rows[] = {
      {TN_DT_F8E4M3FN, 0x7e, 448},
      {TN_DT_F8E4M3FN, 0x01, 0x1p-9f},
      {TN_DT_F8E4M3FN, 0x7f, NAN},
      {TN_DT_F8E4M3FN, 0xb8, -1},
      {TN_DT_F8E4M3FNUZ, 0x7f, 240},
      {TN_DT_F8E4M3FNUZ, 0x80, NAN},
      {TN_DT_F8E5M2, 0x7b, 57344},
      {TN_DT_F8E5M2, 0x7c, INFINITY},
      {TN_DT_F8E5M2, 0xfc, -INFINITY},
      {TN_DT_F8E5M2, 0x7d, NAN},
      {TN_DT_F8E5M2, 0x01, 0x1p-16f},
      {TN_DT_F8E5M2FNUZ, 0x7f, 57344},
      {TN_DT_F8E5M2FNUZ, 0x80, NAN},
      {TN_DT_F4E2M1, 0x07, 6},
      {TN_DT_F4E2M1, 0x09, -0.5f},
      {TN_DT_F8E8M0, 0x7f, 1},
      {TN_DT_F8E8M0, 0x00, 0x1p-127f},
      {TN_DT_F8E8M0, 0xff, NAN},
      {TN_DT_I4, 0x08, -8},
      {TN_DT_U4, 0x0f, 15},
      {TN_DT_I2, 0x02, -2},
      {TN_DT_U2, 0x03, 3},
      {TN_DT_BOOL, 0x02, 1},
      {TN_DT_I8, 0x80, -128},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    uint8_t code = rows[i].code;
    tni_tensor t = {.dtype = rows[i].dtype, .rank = 1, .dims = {1}, .data = &code, .bytes = 1};
    float got = 0;
    tni_tensor_to_f32(&t, 0, 1, &got);
    CU_ASSERT_TRUE(isnan(rows[i].value) ? isnan(got) : got == rows[i].value);
  }
}

static void sub_byte_order(void) {
  uint8_t four[] = {0x21, 0x43, 0x05}, two[] = {0xe4, 0x01};
  tni_tensor t4 = {.dtype = TN_DT_U4, .rank = 1, .dims = {5}, .data = four, .bytes = 3};
  tni_tensor t2 = {.dtype = TN_DT_U2, .rank = 1, .dims = {5}, .data = two, .bytes = 2};
  float f[3];
  int64_t v[5];
  tni_tensor_to_f32(&t4, 1, 3, f); /* from the middle of a byte */
  CU_ASSERT_TRUE(f[0] == 2 && f[1] == 3 && f[2] == 4);
  tni_tensor_to_i64(&t2, 0, 5, v);
  for (int i = 0; i < 5; i++) CU_ASSERT_EQUAL(v[i], i < 4 ? i : 1);
}

static void to_i64(void) {
  static const struct {
    double in;
    int64_t out;
  } rows[] = {{1.9, 1},
              {-1.9, -1},
              {NAN, 0},
              {1e300, INT64_MAX},
              {-1e300, INT64_MIN},
              {INFINITY, INT64_MAX},
              {-0x1p63, INT64_MIN},
              {0x1p63, INT64_MAX},
              {0x1p62, (int64_t)1 << 62}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double d = rows[i].in;
    tni_tensor t = {.dtype = TN_DT_F64, .rank = 0, .data = &d, .bytes = 8};
    int64_t v;
    tni_tensor_to_i64(&t, 0, 1, &v);
    CU_ASSERT_EQUAL(v, rows[i].out);
  }
  uint64_t big = UINT64_MAX;
  int64_t v;
  tni_tensor t = {.dtype = TN_DT_U64, .rank = 0, .data = &big, .bytes = 8};
  tni_tensor_to_i64(&t, 0, 1, &v);
  CU_ASSERT_EQUAL(v, INT64_MAX);
}

/* Every numeric dtype from an odd address (mapped files have no alignment), in both directions of the table. */
static void unaligned(void) {
  unsigned char buf[64];
  for (uint32_t dt = 1; dt < TN_DT_COUNT; dt++) {
    tni_tensor t = {.dtype = dt, .rank = 1, .dims = {2}, .data = buf + 1};
    float f[2] = {7, 7};
    int64_t v[2] = {7, 7};
    memset(buf, 0, sizeof buf);
    tni_tensor_to_f32(&t, 0, 2, f);
    tni_tensor_to_i64(&t, 0, 2, v);
    CU_ASSERT_TRUE(f[1] == (dt == TN_DT_F8E8M0 ? 0x1p-127f : 0) && v[1] == 0);
  }
  tni_tensor t = {.dtype = TN_DT_F32, .rank = 1, .dims = {0}};
  tni_tensor_to_f32(&t, 0, 0, NULL);
  tni_tensor_to_i64(&t, 0, 0, NULL);
}

static void halves(void) {
  static const struct {
    float in;
    uint16_t f16, bf16;
  } rows[] = {
      {1.0f, 0x3c00, 0x3f80},         {-2.0f, 0xc000, 0xc000},          {65504.0f, 0x7bff, 0x4780},
      {65519.0f, 0x7bff, 0x4780},     {65520.0f, 0x7c00, 0x4780},       {1e10f, 0x7c00, 0x5015},
      {0x1p-24f, 0x0001, 0x3380},     {0x1p-25f, 0x0000, 0x3300},       {0x1.8p-25f, 0x0001, 0x3340},
      {0x1.ffcp-15f, 0x0400, 0x3880}, {1.00048828125f, 0x3c00, 0x3f80}, {1.00146484375f, 0x3c02, 0x3f80},
      {-0.0f, 0x8000, 0x8000},        {INFINITY, 0x7c00, 0x7f80},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CU_ASSERT_EQUAL(tni_f32_to_f16(rows[i].in), rows[i].f16);
    CU_ASSERT_EQUAL(tni_f32_to_bf16(rows[i].in), rows[i].bf16);
  }
  CU_ASSERT_TRUE(isnan(tni_f16_to_f32(tni_f32_to_f16(NAN))) && isnan(tni_bf16_to_f32(tni_f32_to_bf16(-NAN))));
  float low_nan; /* what is kept of its payload would be 0: an infinity */
  memcpy(&low_nan, &(uint32_t){0x7f800001u}, sizeof low_nan);
  CU_ASSERT_TRUE(isnan(tni_f16_to_f32(tni_f32_to_f16(low_nan))) && isnan(tni_bf16_to_f32(tni_f32_to_bf16(low_nan))));
  for (uint32_t i = 0; i < 65536; i++) {
    float f = tni_f16_to_f32((uint16_t)i), b = tni_bf16_to_f32((uint16_t)i);
    if (!isnan(f) && tni_f32_to_f16(f) != i) CU_FAIL_FATAL("f16 round trip");
    if (!isnan(b) && tni_f32_to_bf16(b) != i) CU_FAIL_FATAL("bf16 round trip");
  }
}

void add_dtype_suite(void) {
  CU_pSuite s = CU_add_suite("dtypes", NULL, NULL);
  CU_add_test(s, "sizes", sizes);
  CU_add_test(s, "counts", counts);
  CU_add_test(s, "small floats", small_floats);
  CU_add_test(s, "sub-byte order", sub_byte_order);
  CU_add_test(s, "to int64", to_i64);
  CU_add_test(s, "unaligned", unaligned);
  CU_add_test(s, "halves", halves);
}
