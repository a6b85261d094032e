/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of activations times 16 outputs of the bit-serial formats, codes of nine bits and narrow ones (lut.h).
 *
 * Nine bits: a panel of four groups is unpacked once to levels in
 * 16 bits (16 KiB, stays in L1) and used by all rows, six at a time: codes have nine bits, so vpmaddwd takes two k at
 * once into exact s32 sums. f32 sums live in acc between groups; their order is that of the GEMV. Register tiles are
 * named variables made by macros: arrays of vectors get spilled by some compilers.
 *
 * Narrow codes: levels in bytes, raised to a zero point of 128 or signed, for the tiles of AVX-VNNI, AVX-512 VNNI and
 * AMX.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

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
  const __m256 w0 = _mm256_mul_ps(_mm256_load_ps(sw), s), w1 = _mm256_mul_ps(_mm256_load_ps(sw + 8), s);
  _mm256_storeu_ps(acc, _mm256_fmadd_ps(_mm256_cvtepi32_ps(t0), w0, _mm256_loadu_ps(acc)));
  _mm256_storeu_ps(acc + 8, _mm256_fmadd_ps(_mm256_cvtepi32_ps(t1), w1, _mm256_loadu_ps(acc + 8)));
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

/* --- narrow codes ----------------------------------------------------------------------------------------------- */

enum { STEPS = TNI_LUT_QUADS / 4, SIGNED = 0, RAISED = 128 };
_Static_assert((int)PANEL_GROUPS == (int)TNI_X86_PANEL_K / (int)GROUP, "panels of one length");

/* Rows 0-3 and 8-11, then 4-7 and 12-15, four bytes each. */
typedef struct row_bytes {
  __m256i a, b;
} row_bytes;

/* The bytes of a plane with a partner: 2r + i of row r. */
static inline row_bytes paired_rows(__m256i v, int i) {
  const __m256i first = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6));
  const __m256i a = _mm256_add_epi8(first, _mm256_set1_epi8((char)i));
  return (row_bytes){_mm256_shuffle_epi8(v, a), _mm256_shuffle_epi8(v, _mm256_add_epi8(a, _mm256_set1_epi8(8)))};
}

/* Of a plane alone: 2 (r % 8) + r / 8. v: the sixteen bytes twice. */
static inline row_bytes single_rows(__m256i v) {
  const __m256i a =
      _mm256_setr_epi8(0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6, 1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5, 7, 7, 7, 7);
  return (row_bytes){_mm256_shuffle_epi8(v, a), _mm256_shuffle_epi8(v, _mm256_add_epi8(a, _mm256_set1_epi8(8)))};
}

/* Bits of a nibble, the low one or the high, as bytes of 0 or `weight`: added to what is there. */
static inline void add_bits(row_bytes *to, row_bytes bytes, bool high, int weight) {
  const __m256i mask = _mm256_set1_epi32(high ? (int)0x80402010 : 0x08040201), w = _mm256_set1_epi8((char)weight);
  to->a = _mm256_add_epi8(to->a, _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes.a, mask), mask), w));
  to->b = _mm256_add_epi8(to->b, _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes.b, mask), mask), w));
}

static inline void put_quad(row_bytes q, uint8_t *out) {
  _mm256_store_si256((__m256i *)(void *)out, _mm256_permute2x128_si256(q.a, q.b, 0x20));
  _mm256_store_si256((__m256i *)(void *)(out + 32), _mm256_permute2x128_si256(q.a, q.b, 0x31));
}

/* One step: quads 0 .. 3. Those of a byte's nibbles are h and h + 1 of pairs, i and i + 2 of a plane alone. */
__attribute__((always_inline)) static inline void open_step(size_t planes, int less, const uint8_t *bytes,
                                                            uint8_t (*out)[64]) {
  const __m256i start = _mm256_set1_epi8((char)less);
  const size_t pairs = planes / 2;
  row_bytes q[4] = {{start, start}, {start, start}, {start, start}, {start, start}};
#pragma GCC unroll 2
  for (size_t h = 0; h < 2; h++)
#pragma GCC unroll 2
    for (size_t j = 0; j < pairs; j++) {
      const __m256i v = load_32_bytes(bytes + (h * pairs + j) * 32);
#pragma GCC unroll 2
      for (size_t i = 0; i < 2; i++) {
        const row_bytes rows = paired_rows(v, (int)i);
        add_bits(&q[2 * h], rows, false, 2 << (2 * j + i));
        add_bits(&q[2 * h + 1], rows, true, 2 << (2 * j + i));
      }
    }
  if (planes % 2) {
    const __m256i v = load_32_bytes(bytes + pairs * 64);
    const row_bytes first = single_rows(_mm256_permute4x64_epi64(v, 0x44)),
                    second = single_rows(_mm256_permute4x64_epi64(v, 0xee));
    const int weight = 2 << (planes - 1);
    add_bits(&q[0], first, false, weight);
    add_bits(&q[2], first, true, weight);
    add_bits(&q[1], second, false, weight);
    add_bits(&q[3], second, true, weight);
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; i++) put_quad(q[i], out[i]);
}

/* n groups. Returns where they end. */
__attribute__((always_inline)) static inline const uint8_t *open_groups(size_t planes, int zero, int raise,
                                                                        const uint8_t *group, size_t n,
                                                                        tni_x86_panel *p) {
  for (size_t g = 0; g < n; g++) {
    _mm256_store_ps(p->scale[g], _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)group)));
    _mm256_store_ps(p->scale[g] + 8, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(group + 16))));
    group += TNI_LUT_SCALE_BYTES;
    for (size_t t = 0; t < STEPS; t++, group += planes * 32)
      open_step(planes, raise - zero, group, &p->w[g * TNI_LUT_QUADS + 4 * t]);
  }
  p->groups = n;
  return group;
}

/* One row block by `tiles`, or two, block_bytes apart, by `tiles2`. */
__attribute__((always_inline)) static inline void gemm_narrow(size_t planes, int zero, int raise,
                                                              tni_x86_tiles_fn tiles, tni_x86_tiles2_fn tiles2,
                                                              const uint8_t *from, size_t block_bytes, size_t groups,
                                                              const tni_clt_act *a, size_t m0, size_t m1,
                                                              float *const *acc) {
  const size_t blocks = tiles2 ? 2 : 1;
  tni_x86_panel p[2];
  if (raise == SIGNED) tni_x86_amx_begin();
  for (size_t g = 0; g < groups; g += PANEL_GROUPS) {
    const size_t n = groups - g < PANEL_GROUPS ? groups - g : PANEL_GROUPS;
    const uint8_t *end = from;
    for (size_t i = 0; i < blocks; i++) {
      const uint8_t *at = from + i * block_bytes;
      end = open_groups(planes, zero, raise, at, n, &p[i]);
      p[i].next = end;
      p[i].next_bytes = (size_t)(end - at);
      p[i].first_group = g;
    }
    from = end - (blocks - 1) * block_bytes;
    tni_x86_tiles(tiles, tiles2, p, a, m0, m1, g == 0, acc);
  }
  if (raise == SIGNED) tni_x86_amx_end();
}

#define GEMM(id, planes, zero, tile, isa, tiles, raise)                                                              \
  void tni_x86_gemm_f32_q8g128_##id##_##tile##_##isa(const uint8_t *row_block, size_t superblocks,                   \
                                                     const tni_clt_act *a, size_t m0, size_t m1, float *acc) {       \
    gemm_narrow(planes, zero, raise, tni_x86_tiles_##tiles##_##tile##_##isa, NULL, row_block, 0, superblocks, a, m0, \
                m1, &acc);                                                                                           \
  }
#define GEMM2(id, planes, zero, tile, isa, tiles, raise)                                                              \
  void tni_x86_gemm2_f32_q8g128_##id##_##tile##_##isa(const uint8_t *row_blocks, size_t block_bytes,                  \
                                                      size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, \
                                                      float *const *acc) {                                            \
    gemm_narrow(planes, zero, raise, NULL, tni_x86_tiles_##tiles##_##tile##_##isa, row_blocks, block_bytes,           \
                superblocks, a, m0, m1, acc);                                                                         \
  }
#define GEMMS(id, planes, zero)                              \
  GEMM(id, planes, zero, 6x16, avxvnni, b8g128, RAISED)      \
  GEMM(id, planes, zero, 12x16, avx512vnni, b8g128, RAISED)  \
  GEMM2(id, planes, zero, 12x32, avx512vnni, b8g128, RAISED) \
  GEMM(id, planes, zero, 32x16, amx, g128, SIGNED)           \
  GEMM2(id, planes, zero, 16x32, amx, g128, SIGNED)
GEMMS(lut1, 1, 1)
GEMMS(lut2, 2, 3)
GEMMS(lut3, 3, 7)
GEMMS(lut4, 4, 15)
GEMMS(lutt, 2, 2)
