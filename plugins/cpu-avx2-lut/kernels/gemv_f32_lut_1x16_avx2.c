/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs by lookup. Planes in pairs: a byte lane is plane 2j or 2j+1 of a row, one table
 * serves the register, and vpmaddubsw adds the two with weights 1 and 2. A plane without a partner: the halves of a
 * register are two quads with a table each; r and r >> 8 are summed in 16 bits. Sums of a group fit: 32 * 3 * 255 in
 * s16, 32 * 255 in u16 (sums of r overflow by multiples of 2^16 only).
 *
 * By averages: four registers become one before that, so a quarter of the sums remains.
 */
#include <immintrin.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

static inline __m256i load_planes(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
/* One quad's table in both halves. */
static inline __m256i table_of(const uint8_t *p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
static inline __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

/* 32 bytes: two quads of a pair of planes. sum: rows 0 .. 15 in s16. */
static inline __m256i add_pair(__m256i sum, const uint8_t *bytes, const uint8_t *table) {
  const __m256i weights = _mm256_set1_epi16(0x0201);
  __m256i v = load_planes(bytes);
  __m256i a = _mm256_shuffle_epi8(table_of(table), low_nibbles(v));
  __m256i b = _mm256_shuffle_epi8(table_of(table + 16), high_nibbles(v));
  sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, weights));
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(b, weights));
}

/* 32 bytes: four quads of one plane. all: rows 0 .. 7 plus 256 times rows 8 .. 15, high: rows 8 .. 15. */
static inline void add_single(__m256i *all, __m256i *high, const uint8_t *bytes, const uint8_t *table) {
  __m256i v = load_planes(bytes);
  __m256i a = _mm256_shuffle_epi8(load_planes(table), low_nibbles(v));
  __m256i b = _mm256_shuffle_epi8(load_planes(table + 32), high_nibbles(v));
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

/* --- what comes next --- */

/* How memory is asked for the weights that come next.
 * ALONE: not at all, the processor sees their stream by itself.
 * NEAR: into the first-level cache, for TNI_CPU_PREFETCH.
 * FAR: into the second-level one. Zen 4 loses the stream where tables miss the first level: 36 to 70 % of what a pure
 * read gets become 72 to 91. Nearer comes too late, and exactly two pages ahead is slower by a tenth. */
typedef enum ahead { ALONE, NEAR, FAR } ahead;
enum { FAR_BYTES = 7168 };

/* Inlined by force: a function of nothing but prefetches counts as one without effect. */
__attribute__((always_inline)) static inline void ask_planes(ahead how, const uint8_t *p, size_t bytes) {
  for (size_t i = 0; how == NEAR && i < bytes; i += 64) __builtin_prefetch(p + TNI_X86_AHEAD + i, 0, 3);
  for (size_t i = 0; how == FAR && i < bytes; i += 64) __builtin_prefetch(p + FAR_BYTES + i, 0, 2);
}

/* A first-level cache of 32 KiB keeps the tables of 20 groups, 10 KiB, while weights pass. */
static inline ahead where_tables_leave(size_t groups) { return groups > 20 ? FAR : ALONE; }

/* --- averages --- */

/* 32 bytes: what the low nibbles find in the first table, and the high ones in the second. */
static inline __m256i average_two(__m256i first, __m256i second, const uint8_t *bytes) {
  __m256i v = load_planes(bytes);
  return _mm256_avg_epu8(_mm256_shuffle_epi8(first, low_nibbles(v)), _mm256_shuffle_epi8(second, high_nibbles(v)));
}

/* The four quads of a step, of the pair of planes whose first 32 bytes these are; the others lie `half` further. */
static inline __m256i add_pair_average(__m256i sum, const uint8_t *bytes, size_t half, const uint8_t *table) {
  __m256i a = average_two(table_of(table), table_of(table + 16), bytes);
  __m256i b = average_two(table_of(table + 32), table_of(table + 48), bytes + half);
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_avg_epu8(a, b), _mm256_set1_epi16(0x0201)));
}

/* Two steps of a plane alone, `step` bytes apart. */
static inline void add_single_average(__m256i *all, __m256i *high, const uint8_t *bytes, size_t step,
                                      const uint8_t *table) {
  __m256i a = average_two(load_planes(table), load_planes(table + 32), bytes);
  __m256i b = average_two(load_planes(table + 64), load_planes(table + 96), bytes + step);
  __m256i top = _mm256_avg_epu8(a, b);
  *all = _mm256_add_epi16(*all, top);
  *high = _mm256_add_epi16(*high, _mm256_srli_epi16(top, 8));
}

/* y += (2 sum + start) * (sw * sx); sums are s32 of rows 0-3, 8-11 and 4-7, 12-15, and so is y. */
static inline void finish_group_avx2(__m256i s0, __m256i s1, __m256i start, const uint8_t *scales, float sx, __m256 *y0,
                                     __m256 *y1) {
  __m256i halves = _mm256_permute4x64_epi64(load_planes(scales), 0xd8); /* rows 0-3, 8-11, 4-7, 12-15 */
  __m256 x = _mm256_set1_ps(sx);
  __m256 w0 = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), x);
  __m256 w1 = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)), x);
  *y0 = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(s0, start)), w0, *y0);
  *y1 = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(s1, start)), w1, *y1);
}

/* Sums of a group: p0 of the first pair of planes, p1 of the second, or of the plane after the pairs. */
typedef struct sums_avx2 {
  __m256i p0, p1;
} sums_avx2;

__attribute__((always_inline)) static inline sums_avx2 add_group(size_t planes, const uint8_t *bytes,
                                                                 const uint8_t *table) {
  const size_t pairs = planes / 2;
  const __m256i none = _mm256_setzero_si256();
  __m256i all = none, high = none;
  sums_avx2 s = {none, none};
#pragma GCC unroll 2
  for (size_t t = 0; t < TNI_LUT_QUADS / 4; t++, table += 64) {
    if (pairs) {
      s.p0 = add_pair(s.p0, bytes, table);
      if (pairs > 1) s.p1 = add_pair(s.p1, bytes + 32, table);
      s.p0 = add_pair(s.p0, bytes + pairs * 32, table + 32);
      if (pairs > 1) s.p1 = add_pair(s.p1, bytes + pairs * 32 + 32, table + 32);
      bytes += pairs * 64;
    }
    if (planes % 2) {
      add_single(&all, &high, bytes, table);
      bytes += 32;
    }
  }
  if (planes % 2) s.p1 = single_rows(all, high);
  return s;
}

/* A quarter of the sums. */
__attribute__((always_inline)) static inline sums_avx2 add_averages(size_t planes, const uint8_t *bytes,
                                                                    const uint8_t *table) {
  const size_t pairs = planes / 2, step = planes * 32;
  const __m256i none = _mm256_setzero_si256();
  __m256i all = none, high = none;
  sums_avx2 s = {none, none};
#pragma GCC unroll 4
  for (size_t t = 0; t < TNI_LUT_QUADS / 4; t += 2, table += 128, bytes += 2 * step) {
#pragma GCC unroll 2
    for (size_t i = 0; i < 2; i++) {
      if (pairs) s.p0 = add_pair_average(s.p0, bytes + i * step, pairs * 32, table + i * 64);
      if (pairs > 1) s.p1 = add_pair_average(s.p1, bytes + i * step + 32, pairs * 32, table + i * 64);
    }
    if (planes % 2) add_single_average(&all, &high, bytes + pairs * 64, step, table);
  }
  if (planes % 2) s.p1 = single_rows(all, high);
  return s;
}

__attribute__((always_inline)) static inline void gemv_lut_avx2(size_t planes, bool averages, ahead how,
                                                                const uint8_t *block, size_t groups,
                                                                const tni_clt_act *act, float *acc) {
  const uint8_t *table = (const uint8_t *)act->q;
  const size_t bytes = TNI_LUT_SCALE_BYTES + planes * TNI_LUT_PLANE_BYTES;
  /* 2 sum, as s32: the pairs weigh 2 and 8, a plane after one pair 8, a plane alone 2. */
  const __m256i weights = _mm256_set1_epi32((planes == 1   ? 2 << 16
                                             : planes == 2 ? 2
                                                           : 8 << 16 | 2) *
                                            (averages ? 4 : 1));
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (size_t g = 0; g < groups; g++, block += bytes, table += TNI_LUT_TABLE) {
    ask_planes(how, block, bytes);
    const uint8_t *codes = block + TNI_LUT_SCALE_BYTES;
    const sums_avx2 s = averages ? add_averages(planes, codes, table) : add_group(planes, codes, table);
    __m256i s0 = _mm256_madd_epi16(_mm256_unpacklo_epi16(s.p0, s.p1), weights);
    __m256i s1 = _mm256_madd_epi16(_mm256_unpackhi_epi16(s.p0, s.p1), weights);
    /* Averages add 2 for a tree and plane. */
    const int32_t excess = averages ? 4 * tni_clt_lut_trees(table) * ((1 << planes) - 1) : 0;
    finish_group_avx2(s0, s1, _mm256_set1_epi32(act->zero[g] - excess), block, act->scale[g], &y0, &y1);
  }
  _mm256_storeu_ps(acc, _mm256_permute2f128_ps(y0, y1, 0x20));
  _mm256_storeu_ps(acc + 8, _mm256_permute2f128_ps(y0, y1, 0x31));
}

#define GEMV_OF(id, isa, planes, averages, how)                                                               \
  void tni_x86_gemv_f32_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                          float *acc) {                                                       \
    gemv_lut_avx2(planes, averages, how, row_block, superblocks, a, acc);                                     \
  }
#define GEMV(id, planes)                                                \
  GEMV_OF(id, avx2, planes, false, where_tables_leave(superblocks))     \
  GEMV_OF(id, avx2_prefetch, planes, false, NEAR)                       \
  GEMV_OF(id##avg, avx2, planes, true, where_tables_leave(superblocks)) \
  GEMV_OF(id##avg, avx2_prefetch, planes, true, NEAR)
GEMV(lut1, 1)
GEMV(lut2, 2)
GEMV(lut3, 3)
GEMV(lut4, 4)
GEMV(lutt, 2)
#undef GEMV
#undef GEMV_OF
