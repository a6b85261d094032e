/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/kernel/kvrow.h"

#include <math.h>

#include "runtime/ops/kernel/elements.h"

bool tni_kv_dtype(uint32_t dtype) { return dtype == TN_DT_F32 || dtype == TN_DT_I8 || tni_is_half(dtype); }

static int64_t codes_bytes(int64_t n) { return (n + 3) / 4 * 4; }

int64_t tni_kv_pitch(uint32_t dtype, int64_t n) {
  return dtype == TN_DT_I8 ? codes_bytes(n) + (int64_t)sizeof(float) : n;
}

static void gather_row(uint32_t dtype, const void *src, int64_t first, int64_t step, int64_t n, float *dst) {
  if (step == 1) {
    tni_load_f32(dtype, src, first, n, dst);
    return;
  }
  for (int64_t i = 0; i < n; i++) tni_load_f32(dtype, src, (first + i) * step, 1, dst + i);
}

static void scatter_row(uint32_t dtype, void *dst, int64_t first, int64_t step, int64_t n, const float *src) {
  if (step == 1) {
    tni_store_f32(dtype, dst, first, n, src);
    return;
  }
  for (int64_t i = 0; i < n; i++) tni_store_f32(dtype, dst, (first + i) * step, 1, src + i);
}

/* NaN where an element is none, or inf. */
static float largest_of_row(const float *x, int64_t n, float most) {
  int32_t bad = 0;
  for (int64_t i = 0; i < n; i++) {
    const float a = fabsf(x[i]);
    most = a > most ? a : most;
    bad |= !(a < INFINITY);
  }
  return bad ? NAN : most;
}

/* Adding and taking away 1.5 * 2^23 rounds half to even to whole numbers. */
static void encode_row(const float *restrict x, int64_t n, float by, i8u *restrict codes) {
  for (int64_t i = 0; i < n; i++) codes[i] = (int8_t)(int32_t)((x[i] * by + 0x1.8p23f) - 0x1.8p23f);
}

static void store_i8(void *row, uint32_t from, const void *src, int64_t step, int64_t n) {
  i8u *codes = row;
  float v[TNI_CHUNK], most = 0;
  for (int64_t i = 0; i < n && most == most; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    gather_row(from, src, i, step, m, v);
    most = largest_of_row(v, m, most);
  }
  const bool zero = !(most >= TNI_KV_TINY);
  const float scale = most != most ? NAN : zero ? 0 : most / 127;
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    if (!zero && n > TNI_CHUNK) gather_row(from, src, i, step, m, v);
    if (zero)
      memset(codes + i, 0, (size_t)m);
    else
      encode_row(v, m, 127 / most, codes + i);
  }
  memset(codes + n, 0, (size_t)(codes_bytes(n) - n));
  memcpy(codes + codes_bytes(n), &scale, sizeof scale);
}

static void decode_row(const i8u *restrict codes, int64_t n, float scale, float *restrict x) {
  for (int64_t i = 0; i < n; i++) x[i] = (float)codes[i] * scale;
}

static void load_i8(const void *row, uint32_t to, void *dst, int64_t step, int64_t n) {
  const i8u *codes = row;
  float scale, v[TNI_CHUNK];
  memcpy(&scale, codes + codes_bytes(n), sizeof scale);
  if (to == TN_DT_F32 && step == 1) {
    decode_row(codes, n, scale, dst);
    return;
  }
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    decode_row(codes + i, m, scale, v);
    scatter_row(to, dst, i, step, m, v);
  }
}

void tni_kv_store(uint32_t to, void *row, uint32_t from, const void *src, int64_t step, int64_t n) {
  float v[TNI_CHUNK];
  if (to == TN_DT_I8) {
    store_i8(row, from, src, step, n);
    return;
  }
  if (to == from && step == 1) {
    memcpy(row, src, (size_t)n * tni_elem_size(to));
    return;
  }
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    gather_row(from, src, i, step, m, v);
    tni_store_f32(to, row, i, m, v);
  }
}

void tni_kv_load(uint32_t from, const void *row, uint32_t to, void *dst, int64_t step, int64_t n) {
  float v[TNI_CHUNK];
  if (from == TN_DT_I8) {
    load_i8(row, to, dst, step, n);
    return;
  }
  if (to == from && step == 1) {
    memcpy(dst, row, (size_t)n * tni_elem_size(to));
    return;
  }
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    tni_load_f32(from, row, i, m, v);
    scatter_row(to, dst, i, step, m, v);
  }
}
