/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/graph/kept_dtype.h"
#include "runtime/graph/priv.h"

#define EMPTY_DIMS_MAX (INT64_C(1) << 30)

typedef struct dtype_info {
  const char *name;
  uint32_t bits;
} dtype_info;

static const dtype_info dtype_infos[TN_DT_COUNT] = {
    [TN_DT_UNDEFINED] = {"undefined", 0},
    [TN_DT_F32] = {"float32", 32},
    [TN_DT_U8] = {"uint8", 8},
    [TN_DT_I8] = {"int8", 8},
    [TN_DT_U16] = {"uint16", 16},
    [TN_DT_I16] = {"int16", 16},
    [TN_DT_I32] = {"int32", 32},
    [TN_DT_I64] = {"int64", 64},
    [TN_DT_STRING] = {"string", 0},
    [TN_DT_BOOL] = {"bool", 8},
    [TN_DT_F16] = {"float16", 16},
    [TN_DT_F64] = {"float64", 64},
    [TN_DT_U32] = {"uint32", 32},
    [TN_DT_U64] = {"uint64", 64},
    [TN_DT_C64] = {"complex64", 64},
    [TN_DT_C128] = {"complex128", 128},
    [TN_DT_BF16] = {"bfloat16", 16},
    [TN_DT_F8E4M3FN] = {"float8e4m3fn", 8},
    [TN_DT_F8E4M3FNUZ] = {"float8e4m3fnuz", 8},
    [TN_DT_F8E5M2] = {"float8e5m2", 8},
    [TN_DT_F8E5M2FNUZ] = {"float8e5m2fnuz", 8},
    [TN_DT_U4] = {"uint4", 4},
    [TN_DT_I4] = {"int4", 4},
    [TN_DT_F4E2M1] = {"float4e2m1", 4},
    [TN_DT_F8E8M0] = {"float8e8m0", 8},
    [TN_DT_U2] = {"uint2", 2},
    [TN_DT_I2] = {"int2", 2},
};

static dtype_info info_of(uint32_t dtype) {
  static const dtype_info keys = {"int4 keys", 8}, values = {"int4 values", 8}, none = {"unknown", 0};
  if (dtype < TN_DT_COUNT) return dtype_infos[dtype];
  return dtype == TNI_DT_KEYS ? keys : dtype == TNI_DT_VALUES ? values : none;
}

uint32_t tni_dtype_bits(uint32_t dtype) { return info_of(dtype).bits; }
const char *tni_dtype_name(uint32_t dtype) { return info_of(dtype).name; }

tn_status tni_dims_count(const int64_t *dims, uint32_t rank, int64_t *count) {
  int64_t n = 1; /* of the other dims, where one is 0: code may go through them */
  bool zero = false;
  for (uint32_t i = 0; i < rank; i++) {
    if (dims[i] < 0) return TN_E_LIMIT;
    zero = zero || dims[i] == 0;
  }
  for (uint32_t i = 0; i < rank; i++)
    if (dims[i] && !tni_mul_i64(n, dims[i], &n)) return TN_E_LIMIT;
  if (zero && n > EMPTY_DIMS_MAX) return TN_E_LIMIT;
  *count = zero ? 0 : n;
  return TN_OK;
}

tn_status tni_dtype_bytes(uint32_t dtype, int64_t count, uint64_t *bytes) {
  uint64_t bits = tni_dtype_bits(dtype);
  if (bits == 0) return TN_E_UNSUPPORTED;
  if (count < 0) return TN_E_LIMIT;
  size_t n;
  if (bits < 8) {
    *bytes = ((uint64_t)count / (8 / bits)) + ((uint64_t)count % (8 / bits) != 0);
    return TN_OK;
  }
  if (!tni_mul_size((size_t)count, bits / 8, &n) || n > INT64_MAX) return TN_E_LIMIT;
  *bytes = n;
  return TN_OK;
}

/* --- float formats --- */

/* Formats of at most 8 bits (OCP 8-bit and MX specifications; the FNUZ variants as ONNX states them). */
typedef struct tiny_format {
  uint32_t exp_bits, man_bits;
  int32_t bias;
  enum { NO_NAN, NAN_ALL_ONES, NAN_NEG_ZERO, IEEE } special;
} tiny_format;

static float tiny_to_f32(const tiny_format *t, uint32_t v) {
  uint32_t exp_max = (1u << t->exp_bits) - 1, man_max = (1u << t->man_bits) - 1;
  uint32_t sign = v >> (t->exp_bits + t->man_bits) & 1, e = v >> t->man_bits & exp_max, m = v & man_max;
  if (t->special == NAN_ALL_ONES && e == exp_max && m == man_max) return sign ? -NAN : NAN;
  if (t->special == NAN_NEG_ZERO && sign && e == 0 && m == 0) return NAN;
  float a;
  if (t->special == IEEE && e == exp_max) {
    a = m ? NAN : INFINITY;
  } else {
    uint32_t whole = e ? m | 1u << t->man_bits : m;
    a = ldexpf((float)whole, (int)(e ? e : 1) - t->bias - (int)t->man_bits);
  }
  return sign ? -a : a;
}

static const tiny_format *tiny_of(uint32_t dtype) {
  static const tiny_format e4m3fn = {4, 3, 7, NAN_ALL_ONES}, e4m3fnuz = {4, 3, 8, NAN_NEG_ZERO},
                           e5m2 = {5, 2, 15, IEEE}, e5m2fnuz = {5, 2, 16, NAN_NEG_ZERO}, e2m1 = {2, 1, 1, NO_NAN};
  switch (dtype) {
    case TN_DT_F8E4M3FN:
      return &e4m3fn;
    case TN_DT_F8E4M3FNUZ:
      return &e4m3fnuz;
    case TN_DT_F8E5M2:
      return &e5m2;
    case TN_DT_F8E5M2FNUZ:
      return &e5m2fnuz;
    case TN_DT_F4E2M1:
      return &e2m1;
    default:
      return NULL;
  }
}

uint32_t tni_f32_to_code(uint32_t dtype, float x, bool saturate) {
  const tiny_format *t = tiny_of(dtype);
  if (!t) return 0;
  const uint32_t top = t->exp_bits + t->man_bits, sign = (uint32_t)(signbit(x) != 0) << top;
  const uint32_t exp_all = ((1u << t->exp_bits) - 1) << t->man_bits, all = (1u << top) - 1;
  const uint32_t nan = t->special == NAN_NEG_ZERO ? 1u << top : t->special == NO_NAN ? 1u << top : sign | all;
  const uint32_t largest = t->special == IEEE ? exp_all - 1 : t->special == NAN_ALL_ONES ? all - 1 : all;
  if (isnan(x)) return t->special == IEEE ? sign | exp_all | 1u << (t->man_bits - 1) : nan;
  uint32_t code = largest + 1;
  if (!isinf(x)) {
    const int least = 1 - t->bias;
    int e = x == 0 ? least : ilogbf(x);
    if (e < least) e = least;
    /* The mantissa with its leading one, an integer but for what is rounded away; a carry moves on into the exponent.
     */
    const double whole = rint(ldexp(fabs((double)x), (int)t->man_bits - e));
    const double sum = ldexp((double)(e + t->bias), (int)t->man_bits) + whole - (double)(1u << t->man_bits);
    if (sum <= (double)largest) code = (uint32_t)sum;
  }
  if (code == 0 && t->special == NAN_NEG_ZERO) return 0;
  if (code <= largest) return sign | code;
  if (saturate || t->special == NO_NAN) return sign | largest;
  return t->special == IEEE ? sign | exp_all : nan;
}

static float e8m0_to_f32(uint32_t v) { return v == 255 ? NAN : ldexpf(1.0f, (int)v - 127); }

/* --- elements --- */

/* Code i of a type of 2, 4 or 8 bits. */
static uint32_t small_code(const uint8_t *p, int64_t i, uint32_t bits) {
  uint32_t per = 8 / bits;
  return p[i / per] >> (uint32_t)(i % per) * bits & ((1u << bits) - 1);
}

static int32_t sign_extend(uint32_t v, uint32_t bits) {
  uint32_t top = 1u << (bits - 1);
  return (int32_t)(v ^ top) - (int32_t)top;
}

static bool is_signed_small(uint32_t dtype) { return dtype == TN_DT_I8 || dtype == TN_DT_I4 || dtype == TN_DT_I2; }

/* Types of at most 8 bits through a table of all codes. */
static void small_to_f32(uint32_t dtype, const uint8_t *p, int64_t first, int64_t n, float *dst) {
  if (dtype == TN_DT_U8 || dtype == TN_DT_I8) { /* no table for what is a number already */
    for (int64_t i = 0; i < n; i++)
      dst[i] = dtype == TN_DT_U8 ? (float)p[first + i] : (float)sign_extend(p[first + i], 8);
    return;
  }
  float lut[256];
  uint32_t bits = tni_dtype_bits(dtype);
  const tiny_format *t = tiny_of(dtype);
  for (uint32_t v = 0; v < 1u << bits; v++) {
    if (t)
      lut[v] = tiny_to_f32(t, v);
    else if (dtype == TN_DT_F8E8M0)
      lut[v] = e8m0_to_f32(v);
    else if (dtype == TN_DT_BOOL)
      lut[v] = v != 0;
    else
      lut[v] = is_signed_small(dtype) ? (float)sign_extend(v, bits) : (float)v;
  }
  for (int64_t i = 0; i < n; i++) dst[i] = lut[small_code(p, first + i, bits)];
}

uint32_t tni_elem_encode(uint32_t dtype, double v, unsigned char *to) {
  const float f = (float)v;
  const int64_t i = v >= 0x1p63 ? INT64_MAX : v >= -0x1p63 ? (int64_t)v : v < 0 ? INT64_MIN : 0;
  const int32_t i32 = (int32_t)i;
  const uint8_t b = v != 0;
  const uint16_t h = dtype == TN_DT_F16 ? tni_f32_to_f16(f) : tni_f32_to_bf16(f);
  const struct {
    uint32_t dtype, bytes;
    const void *p;
  } forms[] = {{TN_DT_F32, 4, &f}, {TN_DT_F16, 2, &h},   {TN_DT_BF16, 2, &h}, {TN_DT_F64, 8, &v},
               {TN_DT_I64, 8, &i}, {TN_DT_I32, 4, &i32}, {TN_DT_BOOL, 1, &b}};
  for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
    if (forms[k].dtype == dtype) {
      memcpy(to, forms[k].p, forms[k].bytes);
      return forms[k].bytes;
    }
  return 0;
}

/* memcpy: data of a mapped file has any alignment. */
#define LOOP_AS(type, expr)                       \
  for (int64_t i = 0; i < n; i++) {               \
    type x;                                       \
    memcpy(&x, p + (first + i) * step, sizeof x); \
    dst[i] = (expr);                              \
  }                                               \
  break

void tni_elems_to_f32(uint32_t dtype, const void *data, int64_t first, int64_t n, float *dst) {
  const uint8_t *p = data;
  int64_t step = tni_dtype_bits(dtype) / 8;
  switch (dtype) {
    case TN_DT_F32:
      if (n > 0) memcpy(dst, p + first * step, (size_t)n * sizeof *dst);
      break;
    case TN_DT_C64:
      LOOP_AS(float, x);
    case TN_DT_F64:
    case TN_DT_C128:
      LOOP_AS(double, (float)x);
    case TN_DT_F16:
      LOOP_AS(uint16_t, tni_f16_to_f32(x));
    case TN_DT_BF16:
      LOOP_AS(uint16_t, tni_bf16_to_f32(x));
    case TN_DT_U16:
      LOOP_AS(uint16_t, (float)x);
    case TN_DT_I16:
      LOOP_AS(int16_t, (float)x);
    case TN_DT_U32:
      LOOP_AS(uint32_t, (float)x);
    case TN_DT_I32:
      LOOP_AS(int32_t, (float)x);
    case TN_DT_U64:
      LOOP_AS(uint64_t, (float)x);
    case TN_DT_I64:
      LOOP_AS(int64_t, (float)x);
    default:
      if (tni_dtype_bits(dtype) != 0)
        small_to_f32(dtype, p, first, n, dst);
      else if (n > 0)
        memset(dst, 0, (size_t)n * sizeof *dst);
  }
}

static int64_t i64_of_f64(double x) {
  if (isnan(x)) return 0;
  if (x >= 0x1p63) return INT64_MAX;
  if (x < -0x1p63) return INT64_MIN;
  return (int64_t)x;
}

static void small_to_i64(uint32_t dtype, const uint8_t *p, int64_t first, int64_t n, int64_t *dst) {
  uint32_t bits = tni_dtype_bits(dtype);
  const tiny_format *t = tiny_of(dtype);
  for (int64_t i = 0; i < n; i++) {
    uint32_t v = small_code(p, first + i, bits);
    if (t)
      dst[i] = i64_of_f64((double)tiny_to_f32(t, v));
    else if (dtype == TN_DT_F8E8M0)
      dst[i] = i64_of_f64((double)e8m0_to_f32(v));
    else if (dtype == TN_DT_BOOL)
      dst[i] = v != 0;
    else
      dst[i] = is_signed_small(dtype) ? sign_extend(v, bits) : (int64_t)v;
  }
}

void tni_tensor_to_i64(const tni_tensor *t, int64_t first, int64_t n, int64_t *dst) {
  const uint8_t *p = t->data;
  int64_t step = tni_dtype_bits(t->dtype) / 8;
  switch (t->dtype) {
    case TN_DT_I64:
      if (n > 0) memcpy(dst, p + first * step, (size_t)n * sizeof *dst);
      break;
    case TN_DT_F32:
    case TN_DT_C64:
      LOOP_AS(float, i64_of_f64((double)x));
    case TN_DT_F64:
    case TN_DT_C128:
      LOOP_AS(double, i64_of_f64(x));
    case TN_DT_F16:
      LOOP_AS(uint16_t, i64_of_f64((double)tni_f16_to_f32(x)));
    case TN_DT_BF16:
      LOOP_AS(uint16_t, i64_of_f64((double)tni_bf16_to_f32(x)));
    case TN_DT_U16:
      LOOP_AS(uint16_t, x);
    case TN_DT_I16:
      LOOP_AS(int16_t, x);
    case TN_DT_U32:
      LOOP_AS(uint32_t, x);
    case TN_DT_I32:
      LOOP_AS(int32_t, x);
    case TN_DT_U64:
      LOOP_AS(uint64_t, x > INT64_MAX ? INT64_MAX : (int64_t)x);
    default:
      if (tni_dtype_bits(t->dtype) != 0)
        small_to_i64(t->dtype, p, first, n, dst);
      else if (n > 0)
        memset(dst, 0, (size_t)n * sizeof *dst);
  }
}
#undef LOOP_AS
