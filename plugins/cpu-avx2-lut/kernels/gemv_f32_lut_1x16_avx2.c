/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs by lookup. Planes in pairs: a byte lane is plane 2j or 2j+1 of a row, one table
 * serves the register, and vpmaddubsw adds the two with weights 1 and 2. A plane without a partner: the halves of a
 * register are two quads with a table each; r and r >> 8 are summed in 16 bits. Sums of a group fit: 32 * 3 * 255 in
 * s16, 32 * 255 in u16 (sums of r overflow by multiples of 2^16 only).
 */
#include <immintrin.h>

#include "plugins/common/lut.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

static inline __m256i load(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
/* One quad's table in both halves. */
static inline __m256i table_of(const uint8_t *p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
static inline __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

/* 32 bytes: two quads of a pair of planes. sum: rows 0 .. 15 in s16. */
static inline __m256i add_pair(__m256i sum, const uint8_t *bytes, const uint8_t *table) {
  const __m256i weights = _mm256_set1_epi16(0x0201);
  __m256i v = load(bytes);
  __m256i a = _mm256_shuffle_epi8(table_of(table), low_nibbles(v));
  __m256i b = _mm256_shuffle_epi8(table_of(table + 16), high_nibbles(v));
  sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, weights));
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(b, weights));
}

/* 32 bytes: four quads of one plane. all: rows 0 .. 7 plus 256 times rows 8 .. 15, high: rows 8 .. 15. */
static inline void add_single(__m256i *all, __m256i *high, const uint8_t *bytes, const uint8_t *table) {
  __m256i v = load(bytes);
  __m256i a = _mm256_shuffle_epi8(load(table), low_nibbles(v));
  __m256i b = _mm256_shuffle_epi8(load(table + 32), high_nibbles(v));
  *all = _mm256_add_epi16(*all, a);
  *high = _mm256_add_epi16(*high, _mm256_srli_epi16(a, 8));
  *all = _mm256_add_epi16(*all, b);
  *high = _mm256_add_epi16(*high, _mm256_srli_epi16(b, 8));
}

/* Rows 0 .. 15 in 16 bits. */
static inline __m256i single_rows(__m256i all, __m256i high) {
  __m256i low = _mm256_sub_epi16(all, _mm256_slli_epi16(high, 8));
  __m256i a = _mm256_permute2x128_si256(low, high, 0x20), b = _mm256_permute2x128_si256(low, high, 0x31);
  return _mm256_add_epi16(a, b);
}

/* y += (2 sum + start) * (sw * sx); sums are s32 of rows 0-3, 8-11 and 4-7, 12-15, and so is y. */
static inline void finish(__m256i s0, __m256i s1, __m256i start, const uint8_t *scales, float sx, __m256 *y0,
                          __m256 *y1) {
  __m256i halves = _mm256_permute4x64_epi64(load(scales), 0xd8); /* rows 0-3, 8-11, 4-7, 12-15 */
  __m256 x = _mm256_set1_ps(sx);
  __m256 w0 = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), x);
  __m256 w1 = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)), x);
  *y0 = _mm256_add_ps(*y0, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(s0, start)), w0));
  *y1 = _mm256_add_ps(*y1, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(s1, start)), w1));
}

__attribute__((always_inline)) static inline void gemv(size_t planes, bool fetch, const uint8_t *block, size_t groups,
                                                       const tni_clt_act *act, float *acc) {
  const uint8_t *table = (const uint8_t *)act->q;
  const size_t pairs = planes / 2;
  const __m256i none = _mm256_setzero_si256();
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (size_t g = 0; g < groups; g++) {
    const uint8_t *bytes = block + TNI_LUT_SCALE_BYTES;
    for (size_t i = 0; fetch && i < TNI_LUT_SCALE_BYTES + planes * TNI_LUT_PLANE_BYTES; i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    __m256i p0 = none, p1 = none, all = none, high = none, s0, s1;
#pragma GCC unroll 2
    for (size_t t = 0; t < TNI_LUT_QUADS / 4; t++, table += 64) {
      if (pairs) {
        p0 = add_pair(p0, bytes, table);
        if (pairs > 1) p1 = add_pair(p1, bytes + 32, table);
        p0 = add_pair(p0, bytes + pairs * 32, table + 32);
        if (pairs > 1) p1 = add_pair(p1, bytes + pairs * 32 + 32, table + 32);
        bytes += pairs * 64;
      }
      if (planes % 2) {
        add_single(&all, &high, bytes, table);
        bytes += 32;
      }
    }
    if (planes % 2) p1 = single_rows(all, high);
    /* 2 sum, as s32: the pairs weigh 2 and 8, a plane behind one pair 8, a plane alone 2. */
    const __m256i weights = _mm256_set1_epi32(planes == 1 ? 2 << 16 : planes == 2 ? 2 : 8 << 16 | 2);
    s0 = _mm256_madd_epi16(_mm256_unpacklo_epi16(p0, p1), weights);
    s1 = _mm256_madd_epi16(_mm256_unpackhi_epi16(p0, p1), weights);
    finish(s0, s1, _mm256_set1_epi32(act->zero[g]), block, act->scale[g], &y0, &y1);
    block = bytes;
  }
  _mm256_storeu_ps(acc, _mm256_permute2f128_ps(y0, y1, 0x20));
  _mm256_storeu_ps(acc + 8, _mm256_permute2f128_ps(y0, y1, 0x31));
}

#define GEMV_OF(id, isa, planes, fetch)                                                                       \
  void tni_x86_gemv_f32_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                          float *acc) {                                                       \
    gemv(planes, fetch, row_block, superblocks, a, acc);                                                      \
  }
#define GEMV(id, planes)           \
  GEMV_OF(id, avx2, planes, false) \
  GEMV_OF(id, avx2_prefetch, planes, true)
GEMV(lut1, 1)
GEMV(lut2, 2)
GEMV(lut3, 3)
GEMV(lut4, 4)
GEMV(lutt, 2)
#undef GEMV
#undef GEMV_OF
