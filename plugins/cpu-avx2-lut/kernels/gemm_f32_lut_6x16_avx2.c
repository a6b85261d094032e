/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of activations times 16 outputs of the bit-serial formats. A panel of four groups is unpacked once to levels in
 * 16 bits (16 KiB, stays in L1) and used by all rows, six at a time: codes have nine bits, so vpmaddwd takes two k at
 * once into exact s32 sums. f32 sums live in acc between groups; their order is that of the GEMV. Register tiles are
 * named variables made by macros: arrays of vectors get spilled by some compilers.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

enum { GROUP = TNI_LUT_GROUP, PANEL_GROUPS = 4, PAIRS = GROUP / 2, TILE_M = 6, ROW_BYTES = 64 };

/* Lanes of a pair of k: rows 0-3, 8-11, then 4-7, 12-15; of scales and sums too. */
typedef struct lut_panel_avx2 {
  uint8_t w[PANEL_GROUPS * PAIRS][ROW_BYTES]; /* [k / 2][row][k % 2] levels in s16 */
  float scale[PANEL_GROUPS][TNI_LUT_ROWS];
  size_t groups, first_group;
} lut_panel_avx2;

static inline __m256i load_32_bytes(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
static inline __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
static inline __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

/* Bit k of each nibble, times 2. */
static inline __m256i nibble_bits(__m256i nibbles, int k) {
  return _mm256_and_si256(_mm256_srli_epi16(_mm256_slli_epi16(nibbles, 1), k), _mm256_set1_epi8(2));
}

/* 2 code - zero of element k of a quad, rows 0 .. 15 in s16; single: 2 * bit of the plane without a partner. */
__attribute__((always_inline)) static inline __m256i unpack_levels(size_t planes, int32_t zero, const __m256i *nibbles,
                                                                   __m256i single, int k) {
  __m256i v = _mm256_set1_epi16((short)-zero);
  if (planes > 1) v = _mm256_add_epi16(v, _mm256_maddubs_epi16(nibble_bits(nibbles[0], k), _mm256_set1_epi16(0x0201)));
  if (planes > 3) v = _mm256_add_epi16(v, _mm256_maddubs_epi16(nibble_bits(nibbles[1], k), _mm256_set1_epi16(0x0804)));
  if (planes % 2) v = _mm256_add_epi16(v, _mm256_slli_epi16(single, (int)planes - 1));
  return v;
}

/* One quad: 4 k, two pairs. single[k]. */
__attribute__((always_inline)) static inline void store_quad(size_t planes, int32_t zero, const __m256i *nibbles,
                                                             const __m256i *single, uint8_t *out) {
  for (int k = 0; k < 4; k += 2, out += ROW_BYTES) {
    __m256i a = unpack_levels(planes, zero, nibbles, single[k], k),
            b = unpack_levels(planes, zero, nibbles, single[k + 1], k + 1);
    _mm256_store_si256((__m256i *)(void *)out, _mm256_unpacklo_epi16(a, b));
    _mm256_store_si256((__m256i *)(void *)(out + 32), _mm256_unpackhi_epi16(a, b));
  }
}

/* Two quads: pairs of planes at bytes, the plane without a partner (nibbles of quad 0 in the low half, 1 in the high).
 */
__attribute__((always_inline)) static inline void store_two(size_t planes, int32_t zero, const uint8_t *bytes,
                                                            __m256i alone, uint8_t *out) {
  const __m256i byte = _mm256_set1_epi16(255);
  __m256i first[2] = {alone, alone}, second[2] = {alone, alone}, single[2][4] = {{alone}};
  for (size_t j = 0; j < planes / 2; j++) {
    first[j] = low_nibbles(load_32_bytes(bytes + j * 32));
    second[j] = high_nibbles(load_32_bytes(bytes + j * 32));
  }
  for (int k = 0; planes % 2 && k < 4; k++) {
    __m256i b = nibble_bits(alone, k), low = _mm256_and_si256(b, byte), high = _mm256_srli_epi16(b, 8);
    single[0][k] = _mm256_permute2x128_si256(low, high, 0x20);
    single[1][k] = _mm256_permute2x128_si256(low, high, 0x31);
  }
  store_quad(planes, zero, first, single[0], out);
  store_quad(planes, zero, second, single[1], out + 2 * ROW_BYTES);
}

__attribute__((always_inline)) static inline void unpack_panel(size_t planes, int32_t zero, lut_panel_avx2 *p,
                                                               const uint8_t *group, size_t n) {
  uint8_t *out = &p->w[0][0];
  const size_t pair_bytes = planes / 2 * 32;
  for (size_t g = 0; g < n; g++) {
    __m256i halves = _mm256_permute4x64_epi64(load_32_bytes(group), 0xd8);
    _mm256_store_ps(p->scale[g], _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
    _mm256_store_ps(p->scale[g] + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
    group += TNI_LUT_SCALE_BYTES;
    for (size_t t = 0; t < TNI_LUT_QUADS / 4; t++, group += planes * 32, out += 8 * ROW_BYTES) {
      __m256i alone = planes % 2 ? load_32_bytes(group + 2 * pair_bytes) : _mm256_setzero_si256();
      store_two(planes, zero, group, low_nibbles(alone), out);
      store_two(planes, zero, group + pair_bytes, high_nibbles(alone), out + 4 * ROW_BYTES);
    }
  }
  p->groups = n;
}

static inline __m256i two_codes(const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_set1_epi32(v);
}

/* acc[16] += sums * (weight scale * activation scale), one row. */
__attribute__((always_inline)) static inline void add_scaled(float *acc, __m256i t0, __m256i t1, const float *sw,
                                                             float sx) {
  __m256 s = _mm256_set1_ps(sx);
  __m256 f0 = _mm256_mul_ps(_mm256_cvtepi32_ps(t0), _mm256_mul_ps(_mm256_load_ps(sw), s));
  __m256 f1 = _mm256_mul_ps(_mm256_cvtepi32_ps(t1), _mm256_mul_ps(_mm256_load_ps(sw + 8), s));
  _mm256_storeu_ps(acc, _mm256_add_ps(_mm256_loadu_ps(acc), f0));
  _mm256_storeu_ps(acc + 8, _mm256_add_ps(_mm256_loadu_ps(acc + 8), f1));
}

#define START(i) __m256i s##i##0 = _mm256_setzero_si256(), s##i##1 = s##i##0;
/* The empty asm keeps the sums in registers: gcc would compute all products first and spill. */
#define STEP(i)                                                    \
  {                                                                \
    __m256i b = two_codes(q + i * q_stride);                       \
    s##i##0 = _mm256_add_epi32(s##i##0, _mm256_madd_epi16(w0, b)); \
    s##i##1 = _mm256_add_epi32(s##i##1, _mm256_madd_epi16(w1, b)); \
    __asm__("" : "+x"(s##i##0), "+x"(s##i##1));                    \
  }
#define FINISH(i) add_scaled(acc + i * 16, s##i##0, s##i##1, sw, sx[i * s_stride]);

#define TILE(M, REP)                                                                          \
  static void tile_##M(const lut_panel_avx2 *p, const tni_clt_act *a, size_t m, float *acc) { \
    const size_t q_stride = a->q_stride, s_stride = a->s_stride;                              \
    const int8_t *q = a->q + m * q_stride + p->first_group * GROUP * 2;                       \
    const float *sx = a->scale + m * s_stride + p->first_group;                               \
    const uint8_t *w = &p->w[0][0];                                                           \
    for (size_t g = 0; g < p->groups; g++, sx++) {                                            \
      const float *sw = p->scale[g];                                                          \
      REP(START)                                                                              \
      for (size_t j = 0; j < PAIRS; j++, w += ROW_BYTES, q += 4) {                            \
        __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);                     \
        __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + 32));              \
        REP(STEP)                                                                             \
      }                                                                                       \
      REP(FINISH)                                                                             \
    }                                                                                         \
  }

TILE(1, TNI_X86_REP1)
TILE(2, TNI_X86_REP2)
TILE(3, TNI_X86_REP3)
TILE(4, TNI_X86_REP4)
TILE(5, TNI_X86_REP5)
TILE(6, TNI_X86_REP6)

#undef TILE
#undef FINISH
#undef STEP
#undef START

typedef void (*lut_tile_fn)(const lut_panel_avx2 *p, const tni_clt_act *a, size_t m, float *acc);
static const lut_tile_fn lut_tiles[TILE_M + 1] = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};

/* Rows 0-3, 8-11, 4-7, 12-15 -> 0 .. 15. */
static void natural_order(float *acc, size_t rows) {
  for (size_t m = 0; m < rows; m++, acc += TNI_LUT_ROWS) {
    __m256 a = _mm256_loadu_ps(acc), b = _mm256_loadu_ps(acc + 8);
    _mm256_storeu_ps(acc, _mm256_permute2f128_ps(a, b, 0x20));
    _mm256_storeu_ps(acc + 8, _mm256_permute2f128_ps(a, b, 0x31));
  }
}

__attribute__((always_inline)) static inline void gemm_lut_avx2(size_t planes, int32_t zero, const uint8_t *block,
                                                                size_t groups, const tni_clt_act *a, size_t m0,
                                                                size_t m1, float *acc) {
  _Alignas(64) lut_panel_avx2 p;
  const size_t bytes = TNI_LUT_SCALE_BYTES + planes * TNI_LUT_PLANE_BYTES;
  memset(acc, 0, (m1 - m0) * TNI_LUT_ROWS * sizeof *acc);
  for (size_t g = 0; g < groups; g += PANEL_GROUPS) {
    unpack_panel(planes, zero, &p, block + g * bytes, groups - g < PANEL_GROUPS ? groups - g : PANEL_GROUPS);
    p.first_group = g;
    for (size_t m = m0; m < m1; m += TILE_M)
      lut_tiles[m1 - m < TILE_M ? m1 - m : TILE_M](&p, a, m, acc + (m - m0) * TNI_LUT_ROWS);
  }
  natural_order(acc, m1 - m0);
}

#define GEMM(id, planes, zero)                                                                               \
  void tni_x86_gemm_f32_##id##_6x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                         size_t m0, size_t m1, float *acc) {                                 \
    gemm_lut_avx2(planes, zero, row_block, superblocks, a, m0, m1, acc);                                     \
  }
GEMM(lut1, 1, 1)
GEMM(lut2, 2, 3)
GEMM(lut3, 3, 7)
GEMM(lut4, 4, 15)
GEMM(lutt, 2, 2)
#undef GEMM
