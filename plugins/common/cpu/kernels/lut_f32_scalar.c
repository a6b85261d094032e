/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference of the bit-serial formats: what lut.h declares, written down. One row looks up, several multiply.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/kernels/lut_kernels.h"
#include "plugins/common/formats/formats.h"

enum { GROUP = TNI_LUT_GROUP, QUADS = TNI_LUT_QUADS };

/* The bounds map NaN to -255, so that no conversion is undefined; 1.5 * 2^23 rounds half to even. */
static int32_t code_of(float v) {
  const float magic = 12582912.0f;
  v = v > -255.0f ? v : -255.0f;
  v = v < 255.0f ? v : 255.0f;
  return (int32_t)((v + magic) - magic);
}

/* x[n], n up to 128, zeros after -> q[128]; returns the scale. */
static float quantize_q9(const float *x, size_t n, float runs, int32_t *q) {
  float v[GROUP] = {0};
  memcpy(v, x, n * sizeof *v);
  const tni_clt_scale s = tni_clt_scale_of(tni_clt_largest_run(v, GROUP), runs);
  for (size_t i = 0; i < GROUP; i++) q[i] = s.inv == 0 ? 0 : code_of(v[i] * s.inv);
  return s.of;
}

static size_t codes_left(size_t K, size_t k) { return K - k < GROUP ? K - k : GROUP; }

void tni_clt_quant_q9g128_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) {
  int16_t *out = (int16_t *)(void *)(a->q + m * a->q_stride);
  for (size_t k = 0; k < K_padded; k += GROUP) {
    int32_t q[GROUP];
    a->scale[m * a->s_stride + k / GROUP] = quantize_q9(x + k, codes_left(K, k), a->runs, q);
    for (size_t i = 0; i < GROUP; i++) out[k + i] = (int16_t)q[i];
  }
}

/* `width` bytes `pitch` after those before, from the row's place on; scales `copies` times, as layouts have them. */
static void put_halves(const tni_clt_act *a, const float *x, size_t K, size_t K_padded, int8_t *out, size_t width,
                       size_t pitch, float *scale, size_t copies, size_t scale_pitch) {
  const size_t half = 16 / width * pitch;
  for (size_t k = 0; k < K_padded; k += GROUP, scale += scale_pitch) {
    int32_t q[GROUP];
    scale[0] = scale[copies - 1] = quantize_q9(x + k, codes_left(K, k), a->runs, q);
    for (size_t i = 0; i < GROUP; i++) {
      int8_t *run = out + (k + i) / 16 * 2 * half + i % 16 / width * pitch + i % width;
      const int32_t low = q[i] & 1;
      run[0] = (int8_t)((q[i] - low) / 2);
      run[half] = (int8_t)low;
    }
  }
}

void tni_clt_quant_q9g128h_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) {
  put_halves(a, x, K, K_padded, a->q + m * a->q_stride, 8, 8, a->scale + m * a->s_stride, 1, 1);
}

void tni_clt_quant_q9g128h_f32_8x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) {
  put_halves(a, x, K, K_padded, a->q + m / 8 * a->q_stride + m % 8 * 8, 8, 64,
             a->scale + m / 8 * a->s_stride + m % 8 * 2, 2, 16);
}

void tni_clt_quant_q9g128h_f32_16x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a,
                                             size_t m) {
  put_halves(a, x, K, K_padded, a->q + m / 16 * a->q_stride + m % 16 * 4, 4, 64,
             a->scale + m / 16 * a->s_stride + m % 16, 1, 16);
}

static void quad_table(const int32_t *q, uint8_t *table) {
  int32_t min = 0;
  for (size_t j = 0; j < 4; j++) min += q[j] < 0 ? q[j] : 0;
  for (size_t i = 0; i < 16; i++) {
    int32_t sum = -min;
    for (size_t j = 0; j < 4; j++) sum += i >> j & 1 ? q[j] : 0;
    table[i] = (uint8_t)sum;
  }
}

static void build_tables_scalar(int32_t full, int32_t zero, const float *x, size_t K, size_t K_padded,
                                const tni_clt_act *a, size_t m) {
  uint8_t *out = (uint8_t *)a->q + m * a->q_stride;
  for (size_t k = 0, g = 0; k < K_padded; k += GROUP, g++) {
    int32_t q[GROUP], sum = 0, abs = 0;
    a->scale[m * a->s_stride + g] = quantize_q9(x + k, codes_left(K, k), a->runs, q);
    for (size_t i = 0; i < GROUP; i++) {
      sum += q[i];
      abs += q[i] < 0 ? -q[i] : q[i];
    }
    for (size_t i = 0; i < QUADS; i++, out += 16) quad_table(q + i * 4, out);
    a->zero[m * a->z_stride + g] = (full - zero) * sum - full * abs;
  }
}

/* Code of row `lane`, element i of a group. */
static int32_t table_level(const tni_lut_kind *kind, const uint8_t *group, uint32_t lane, uint32_t i) {
  int32_t code = 0;
  for (uint32_t p = 0; p < kind->planes; p++) {
    tni_lut_place at = tni_lut_place_of(kind, lane, i / 4, p);
    code |= (group[TNI_LUT_SCALE_BYTES + at.byte] >> at.shift >> i % 4 & 1) << p;
  }
  return 2 * code - (int32_t)kind->zero;
}

static int32_t table_entry(const tni_lut_kind *kind, const uint8_t *group, uint32_t lane, const uint8_t *tables,
                           uint32_t quad, uint32_t p) {
  tni_lut_place at = tni_lut_place_of(kind, lane, quad, p);
  return tables[quad * 16 + (group[TNI_LUT_SCALE_BYTES + at.byte] >> at.shift & 15)];
}

static int32_t looked_up(const tni_lut_kind *kind, const uint8_t *group, uint32_t lane, const uint8_t *tables) {
  int32_t sum = 0;
  for (uint32_t quad = 0; quad < QUADS; quad++)
    for (uint32_t p = 0; p < kind->planes; p++) sum += table_entry(kind, group, lane, tables, quad, p) << p;
  return sum;
}

static int32_t rounded_average(int32_t a, int32_t b) { return (a + b + 1) >> 1; }

/* As looked_up, by trees of averages. */
static int32_t average_tables(const tni_lut_kind *kind, const uint8_t *group, uint32_t lane, const uint8_t *tables) {
  int32_t sum = 0;
  for (uint32_t p = 0; p < kind->planes; p++) {
    const bool pair = p < kind->planes / 2 * 2;
    for (uint32_t t = 0; t < QUADS / 4; t++) {
      const uint32_t first = pair ? t * 4 : t / 2 * 8 + t % 2, step = pair ? 1 : 2;
      int32_t u[4];
      for (uint32_t i = 0; i < 4; i++) u[i] = table_entry(kind, group, lane, tables, first + i * step, p);
      sum += 4 * rounded_average(rounded_average(u[0], u[1]), rounded_average(u[2], u[3])) * (1 << p);
    }
  }
  return sum - 2 * tni_clt_lut_trees(tables) * ((1 << kind->planes) - 1);
}

static float scale_of(const uint8_t *group, uint32_t lane) {
  uint16_t half;
  memcpy(&half, group + lane * 2, sizeof half);
  return tni_cm_f16_to_f32(half);
}

typedef int32_t (*add_fn)(const tni_lut_kind *kind, const uint8_t *group, uint32_t lane, const uint8_t *tables);

static void gemv_lut_scalar(const tni_lut_kind *kind, add_fn add, const uint8_t *block, size_t groups,
                            const tni_clt_act *a, float *acc) {
  const size_t bytes = TNI_LUT_SCALE_BYTES + kind->planes * TNI_LUT_PLANE_BYTES;
  for (uint32_t lane = 0; lane < TNI_LUT_ROWS; lane++) {
    float y = 0;
    for (size_t g = 0; g < groups; g++) {
      const uint8_t *group = block + g * bytes;
      int32_t sum = 2 * add(kind, group, lane, (const uint8_t *)a->q + g * TNI_LUT_TABLE) + a->zero[g];
      y = fmaf((float)sum, scale_of(group, lane) * a->scale[g], y);
    }
    acc[lane] = y;
  }
}

static void gemm_lut_scalar(const tni_lut_kind *kind, const uint8_t *block, size_t groups, const tni_clt_act *a,
                            size_t m0, size_t m1, float *acc) {
  const size_t bytes = TNI_LUT_SCALE_BYTES + kind->planes * TNI_LUT_PLANE_BYTES;
  memset(acc, 0, (m1 - m0) * TNI_LUT_ROWS * sizeof *acc);
  for (size_t g = 0; g < groups; g++, block += bytes) {
    for (uint32_t lane = 0; lane < TNI_LUT_ROWS; lane++) {
      int32_t w[GROUP];
      for (uint32_t i = 0; i < GROUP; i++) w[i] = table_level(kind, block, lane, i);
      for (size_t m = m0; m < m1; m++) {
        const int16_t *q = (const int16_t *)(const void *)(a->q + m * a->q_stride) + g * GROUP;
        int32_t sum = 0;
        for (size_t i = 0; i < GROUP; i++) sum += w[i] * q[i];
        float *y = acc + (m - m0) * TNI_LUT_ROWS + lane;
        *y = fmaf((float)sum, scale_of(block, lane) * a->scale[m * a->s_stride + g], *y);
      }
    }
  }
}

/* id: of the kernels' names; the fields of its tni_lut_kind. */
#define KIND(id, planes, levels, zero, paired)                                                                 \
  void tni_clt_gemv_f32_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                           float *acc) {                                                       \
    static const tni_lut_kind kind = {planes, levels, zero, paired};                                           \
    gemv_lut_scalar(&kind, looked_up, row_block, superblocks, a, acc);                                         \
  }                                                                                                            \
  void tni_clt_gemm_f32_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                           size_t m0, size_t m1, float *acc) {                                 \
    static const tni_lut_kind kind = {planes, levels, zero, paired};                                           \
    gemm_lut_scalar(&kind, row_block, superblocks, a, m0, m1, acc);                                            \
  }
KIND(lut1, 1, 2, 1, 0)
KIND(lut2, 2, 4, 3, 0)
KIND(lut3, 3, 8, 7, 0)
KIND(lut4, 4, 16, 15, 0)
KIND(lutt, 2, 3, 2, 0)
KIND(lut1p, 1, 2, 1, 1)
KIND(lut2p, 2, 4, 3, 1)
KIND(lut3p, 3, 8, 7, 1)
KIND(lut4p, 4, 16, 15, 1)
KIND(luttp, 2, 3, 2, 1)
#undef KIND

#define AVERAGES(id, planes, levels, zero)                                                                        \
  void tni_clt_gemv_f32_##id##avg_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                              float *acc) {                                                       \
    static const tni_lut_kind kind = {planes, levels, zero, 0};                                                   \
    gemv_lut_scalar(&kind, average_tables, row_block, superblocks, a, acc);                                       \
  }
AVERAGES(lut1, 1, 2, 1)
AVERAGES(lut2, 2, 4, 3)
AVERAGES(lut3, 3, 8, 7)
AVERAGES(lut4, 4, 16, 15)
AVERAGES(lutt, 2, 3, 2)
#undef AVERAGES

#define TABLES(id, full, zero)                                                                                 \
  void tni_clt_tables_##id##_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, \
                                              size_t m) {                                                      \
    build_tables_scalar(full, zero, x, K, K_padded, a, m);                                                     \
  }
TNI_CLT_LUT_TABLES(TABLES)
#undef TABLES
