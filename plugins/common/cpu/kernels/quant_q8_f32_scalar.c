/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/kernels/lut_kernels.h"

enum { MAX_GROUP = 128 };

/* The bounds map NaN to -127, so that no conversion is undefined; 1.5 * 2^23 rounds half to even. */
static int8_t code_of(float v) {
  const float magic = 12582912.0f;
  v = v > -127.0f ? v : -127.0f;
  v = v < 127.0f ? v : 127.0f;
  return (int8_t)(int32_t)((v + magic) - magic);
}

static float absmax_of(const float *x, size_t n) {
  float absmax = 0;
  for (size_t i = 0; i < n; i++) absmax = fabsf(x[i]) > absmax ? fabsf(x[i]) : absmax;
  return absmax;
}

static void quantize_group(const float *x, size_t group, float inv, int8_t *q) {
  if (inv == 0) {
    memset(q, 0, group);
    return;
  }
  for (size_t i = 0; i < group; i++) q[i] = code_of(x[i] * inv);
}

static int32_t zero_word(const int8_t *q, size_t sub) {
  int32_t even = 0, odd = 0;
  for (size_t i = 0; i < sub; i += 4) {
    even += q[i] + q[i + 1];
    odd += q[i + 2] + q[i + 3];
  }
  return (int32_t)((uint32_t)(-8 * even & 0xffff) | (uint32_t)(-8 * odd & 0xffff) << 16);
}

static int32_t start_word(const int8_t *q, size_t group) {
  int32_t sum = 0;
  for (size_t i = 0; i < group; i++) sum += q[i];
  return TNI_CLT_START - 8 * sum;
}

/* Group g of row m, with its scale and words, to where the layout has them. */
static void put_pairs(const tni_clt_act *a, size_t m, size_t g, size_t group, const int8_t *q, float scale) {
  const size_t sub = group == 32 ? 32 : 64;
  memcpy(a->q + m * a->q_stride + g * group, q, group);
  a->scale[m * a->s_stride + g] = scale;
  for (size_t i = 0; i < group; i += sub) a->zero[m * a->z_stride + (g * group + i) / sub] = zero_word(q + i, sub);
}

static void put_starts(const tni_clt_act *a, size_t m, size_t g, size_t group, const int8_t *q, float scale) {
  memcpy(a->q + m * a->q_stride + g * group, q, group);
  a->scale[m * a->s_stride + g] = scale;
  for (size_t i = 0; i < 4; i++) a->zero[m * a->z_stride + g * 4 + i] = start_word(q, group);
}

static void put_sums(const tni_clt_act *a, size_t m, size_t g, size_t group, const int8_t *q, float scale) {
  memcpy(a->q + m * a->q_stride + g * group, q, group);
  a->scale[m * a->s_stride + g] = scale;
  a->zero[m * a->z_stride + g] = start_word(q, group) - TNI_CLT_START;
}

static void put_slabs(const tni_clt_act *a, size_t m, size_t g, size_t group, const int8_t *q, float scale) {
  for (size_t i = 0; i < group; i += 32) {
    const size_t k = g * group + i;
    memcpy(a->q + k / TNI_CLT_SLAB_K * a->slab_stride + m * a->q_stride + k % TNI_CLT_SLAB_K, q + i, 32);
  }
  a->scale[g * a->group_stride + m * a->s_stride] = scale;
}

static void put_tiled(const tni_clt_act *a, size_t m, size_t g, size_t group, const int8_t *q, float scale) {
  const size_t tile = m / 8, r = m % 8;
  for (size_t i = 0; i < group; i += 8) memcpy(a->q + tile * a->q_stride + (g * group + i) * 8 + r * 8, q + i, 8);
  for (size_t i = 0; i < 2; i++) {
    a->scale[tile * a->s_stride + g * 16 + r * 2 + i] = scale;
    a->zero[tile * a->z_stride + g * 16 + r * 2 + i] = start_word(q, group);
  }
}

static void put_tall(const tni_clt_act *a, size_t m, size_t g, size_t group, const int8_t *q, float scale) {
  const size_t tile = m / 16, r = m % 16;
  for (size_t i = 0; i < group; i += 4) memcpy(a->q + tile * a->q_stride + (g * group + i) * 16 + r * 4, q + i, 4);
  a->scale[tile * a->s_stride + g * 16 + r] = scale;
  a->zero[tile * a->z_stride + g * 16 + r] = start_word(q, group);
}

typedef void (*put_code_fn)(const tni_clt_act *a, size_t m, size_t g, size_t group, const int8_t *q, float scale);

static inline void quantize_q8_scalar(size_t group, bool runs, put_code_fn put, const float *x, size_t K,
                                      size_t K_padded, const tni_clt_act *a, size_t m) {
  const tni_clt_scale row = tni_clt_scale_of(a->row ? absmax_of(x, K) : 0, TNI_CLT_STEPS);
  if (a->row) a->row[m] = row.of;
  for (size_t k = 0, g = 0; k < K_padded; k += group, g++) {
    float tail[MAX_GROUP] = {0};
    int8_t q[MAX_GROUP];
    const float *from = x + k;
    if (k + group > K) {
      if (k < K) memcpy(tail, from, (K - k) * sizeof *x);
      from = tail;
    }
    const tni_clt_scale c =
        a->row ? row
               : tni_clt_scale_of(runs ? tni_clt_largest_run(from, group) : absmax_of(from, group), TNI_CLT_STEPS);
    quantize_group(from, group, c.inv, q);
    put(a, m, g, group, q, a->row ? 1.0f : c.of);
  }
}

#define QUANT(name, group, put) QUANT_OF(name, group, false, put)
#define RUNS(name, put) QUANT_OF(name, 128, true, put)
#define QUANT_OF(name, group, runs, put)                                                                          \
  void tni_clt_quant_##name##_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) { \
    quantize_q8_scalar(group, runs, put, x, K, K_padded, a, m);                                                   \
  }
QUANT(q8g32_f32_1x32, 32, put_pairs)
QUANT(q8g128_f32_1x128, 128, put_pairs)
QUANT(q8g16s_f32_1x16, 16, put_starts)
QUANT(q8g32s_f32_1x32, 32, put_starts)
QUANT(q8g64s_f32_1x64, 64, put_starts)
QUANT(q8g128s_f32_1x128, 128, put_starts)
QUANT(q8g16n_f32_1x16, 16, put_sums)
QUANT(q8g32n_f32_1x32, 32, put_sums)
QUANT(q8g64n_f32_1x64, 64, put_sums)
QUANT(q8g128n_f32_1x128, 128, put_sums)
QUANT(q8g32k_f32_1x32, 32, put_slabs)
QUANT(q8g128k_f32_1x128, 128, put_slabs)
QUANT(q8g16s_f32_8x16, 16, put_tiled)
QUANT(q8g32s_f32_8x32, 32, put_tiled)
QUANT(q8g64s_f32_8x64, 64, put_tiled)
QUANT(q8g128s_f32_8x128, 128, put_tiled)
QUANT(q8g16s_f32_16x16, 16, put_tall)
QUANT(q8g32s_f32_16x32, 32, put_tall)
QUANT(q8g64s_f32_16x64, 64, put_tall)
QUANT(q8g128s_f32_16x128, 128, put_tall)
/* Narrow codes for tables (lut.h): the largest of quads' sums instead of the largest magnitude. */
RUNS(r8g128s_f32_1x128, put_starts)
RUNS(r8g128s_f32_8x128, put_tiled)
RUNS(r8g128s_f32_16x128, put_tall)
RUNS(r8g128n_f32_1x128, put_sums)
RUNS(r8g128k_f32_1x128, put_slabs)
#undef QUANT_OF
#undef RUNS
#undef QUANT
