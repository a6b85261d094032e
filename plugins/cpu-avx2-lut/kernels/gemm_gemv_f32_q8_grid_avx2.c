/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids on AVX2: one row, tiles of up to four rows over a panel, and what fills panels, for the tiles of AVX-VNNI too.
 *
 * Codes of two and four bits are summed in s16 for 32 k (16 products of at most 15 * 127) and then widened; of eight
 * bits, magnitudes times activations with the weights' signs, widened at once. For VNNI codes of two and four bits lose
 * their zero points while a panel is unpacked and get one of 16; all other zero points are taken off in floats.
 * Register tiles are named variables made by macros: arrays of vectors get spilled by some compilers.
 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

/* --- one row ---------------------------------------------------------------------------------------------------- */

typedef __m256i ints;
typedef __m256 floats;
enum { LANES = 8 };

static inline ints codes_at(const uint8_t *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }
static inline ints cut_codes(ints v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}
static inline ints four_codes(const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_set1_epi32(v);
}
static inline ints add_pairs(ints sum, ints codes, const int8_t *q) {
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, four_codes(q)));
}
static inline ints widened(ints sum, ints pairs) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

__attribute__((always_inline)) static inline ints sums_of_2(uint32_t group, const uint8_t *u, const int8_t *q,
                                                            int32_t word) {
  ints s = _mm256_setzero_si256();
  for (uint32_t k = 0; k < group; k += 16, u += 64, q += 16) {
    const ints v = codes_at(u);
    s = add_pairs(s, cut_codes(v, 0, 3), q);
    s = add_pairs(s, cut_codes(v, 2, 3), q + 4);
    s = add_pairs(s, cut_codes(v, 4, 3), q + 8);
    s = add_pairs(s, cut_codes(v, 6, 3), q + 12);
  }
  return widened(_mm256_set1_epi32(word / 4), s);
}

__attribute__((always_inline)) static inline ints sums_of_4(uint32_t group, const uint8_t *u, const int8_t *q,
                                                            int32_t word) {
  ints sum = _mm256_set1_epi32(word);
  const uint32_t part = group < 32 ? group : 32;
  for (uint32_t at = 0; at < group; at += part) {
    ints s = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (uint32_t k = 0; k < part; k += 8, u += 64, q += 8) {
      const ints v = codes_at(u);
      s = add_pairs(s, cut_codes(v, 0, 15), q);
      s = add_pairs(s, cut_codes(v, 4, 15), q + 4);
    }
    sum = widened(sum, s);
  }
  return sum;
}

__attribute__((always_inline)) static inline ints sums_of_8(uint32_t group, const uint8_t *u, const int8_t *q) {
  ints sum = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (uint32_t k = 0; k < group; k += 4, u += 64, q += 4) {
    const ints w = _mm256_xor_si256(codes_at(u), _mm256_set1_epi8(-128));
    sum = widened(sum, _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(four_codes(q), w)));
  }
  return sum;
}

__attribute__((always_inline)) static inline ints group_sums(uint32_t bits, uint32_t group, const uint8_t *u,
                                                             const int8_t *q, int32_t word) {
  return bits == 2 ? sums_of_2(group, u, q, word) : bits == 4 ? sums_of_4(group, u, q, word) : sums_of_8(group, u, q);
}

static inline floats floats_at(const uint8_t *p) { return _mm256_loadu_ps((const float *)(const void *)p); }
static inline floats halves_at(const uint8_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline floats bytes_at(const uint8_t *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
static inline floats rounded(floats v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

#define OP(name) _mm256_##name
#define ISA avx2
#include "plugins/cpu-avx2-lut/kernels/gemv_grid_template.h"

/* --- tiles over a panel ------------------------------------------------------------------------------------------ */

enum { TILE_M = 4 };

__attribute__((always_inline)) static inline void add_less_zeros(float *acc, __m256i t0, __m256i t1,
                                                                 const tni_x86_grid_panel *z, size_t g, int32_t word,
                                                                 float sx) {
  const __m256 t = _mm256_set1_ps(-0.125f * (float)word), s = _mm256_set1_ps(sx);
  __m256 v[2] = {_mm256_cvtepi32_ps(t0), _mm256_cvtepi32_ps(t1)};
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    if (z->n_zeros) v[i] = _mm256_fmadd_ps(_mm256_load_ps(z->zero[g] + i * 8), t, v[i]);
    if (z->n_zeros > 1) v[i] = _mm256_fmadd_ps(_mm256_load_ps(z->rest[g] + i * 8), t, v[i]);
    const __m256 by = _mm256_mul_ps(_mm256_load_ps(z->p.scale[g] + i * 8), s);
    _mm256_storeu_ps(acc + i * 8, _mm256_fmadd_ps(v[i], by, _mm256_loadu_ps(acc + i * 8)));
  }
}

#define CLEAR(i) __m256i s##i##0 = _mm256_setzero_si256(), s##i##1 = s##i##0;
#define START(i) __m256i t##i##0 = _mm256_set1_epi32(zero[i * z_stride]), t##i##1 = t##i##0;
#define START_AT_0(i) __m256i t##i##0 = _mm256_setzero_si256(), t##i##1 = t##i##0;
#define STEP_U(i)                                                     \
  {                                                                   \
    const __m256i b = four_codes(q + i * q_stride);                   \
    s##i##0 = _mm256_add_epi16(s##i##0, _mm256_maddubs_epi16(w0, b)); \
    s##i##1 = _mm256_add_epi16(s##i##1, _mm256_maddubs_epi16(w1, b)); \
  }
#define WIDEN(i)                                                         \
  t##i##0 = _mm256_add_epi32(t##i##0, _mm256_madd_epi16(s##i##0, ones)); \
  t##i##1 = _mm256_add_epi32(t##i##1, _mm256_madd_epi16(s##i##1, ones));
#define STEP_S(i)                                                              \
  {                                                                            \
    const __m256i b = four_codes(q + i * q_stride);                            \
    const __m256i s##i##0 = _mm256_maddubs_epi16(a0, _mm256_sign_epi8(b, w0)); \
    const __m256i s##i##1 = _mm256_maddubs_epi16(a1, _mm256_sign_epi8(b, w1)); \
    WIDEN(i)                                                                   \
  }
#define FINISH(i) add_less_zeros(acc + i * TNI_CLT_ROWS, t##i##0, t##i##1, z, g, zero[i * z_stride], sx[i * s_stride]);

/* One group: sums of codes up to 15, 32 k at a time; of signed ones. */
#define SUMS_U(REP, GROUP)                                                           \
  REP(START)                                                                         \
  for (size_t k = 0; k < GROUP; k += GROUP < 32 ? GROUP : 32) {                      \
    REP(CLEAR)                                                                       \
    for (size_t j = 0; j < (GROUP < 32 ? GROUP : 32) / 4; j++, w += 64, q += 4) {    \
      const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);        \
      const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + 32)); \
      REP(STEP_U)                                                                    \
    }                                                                                \
    REP(WIDEN)                                                                       \
  }
#define SUMS_S(REP, GROUP)                                                         \
  REP(START_AT_0)                                                                  \
  for (size_t j = 0; j < GROUP / 4; j++, w += 64, q += 4) {                        \
    const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);        \
    const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + 32)); \
    const __m256i a0 = _mm256_abs_epi8(w0), a1 = _mm256_abs_epi8(w1);              \
    REP(STEP_S)                                                                    \
  }

#define TILE(M, GROUP, id, SUMS)                                                                    \
  static void tile_##id##_##M(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc) { \
    const tni_x86_grid_panel *z = (const tni_x86_grid_panel *)(const void *)p;                      \
    const size_t q_stride = a->q_stride, z_stride = a->z_stride, s_stride = a->s_stride;            \
    const int8_t *q = a->q + m * q_stride + p->first_group * GROUP;                                 \
    const int32_t *zero = a->zero + m * z_stride + p->first_group;                                  \
    const float *sx = a->scale + m * s_stride + p->first_group;                                     \
    const uint8_t *w = &p->w[0][0];                                                                 \
    const __m256i ones = _mm256_set1_epi16(1);                                                      \
    for (size_t g = 0; g < p->groups; g++, sx++, zero++) {                                          \
      SUMS(TNI_X86_REP##M, GROUP)                                                                   \
      TNI_X86_REP##M(FINISH)                                                                        \
    }                                                                                               \
  }

typedef void (*grid_tile_fn)(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc);

#define TILES(GROUP, id, SUMS)                                                                                        \
  TILE(1, GROUP, id, SUMS)                                                                                            \
  TILE(2, GROUP, id, SUMS)                                                                                            \
  TILE(3, GROUP, id, SUMS)                                                                                            \
  TILE(4, GROUP, id, SUMS)                                                                                            \
  void tni_x86_tiles_##id##_4x16_avx2(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first, \
                                      float *acc) {                                                                   \
    static const grid_tile_fn tiles[TILE_M + 1] = {NULL, tile_##id##_1, tile_##id##_2, tile_##id##_3, tile_##id##_4}; \
    if (first) memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);                                                \
    for (size_t m = m0; m < m1; m += TILE_M) {                                                                        \
      tni_x86_ask(p, (m - m0) / TILE_M, (m1 - m0 + TILE_M - 1) / TILE_M);                                             \
      tiles[m1 - m < TILE_M ? m1 - m : TILE_M](p, a, m, acc + (m - m0) * TNI_CLT_ROWS);                               \
    }                                                                                                                 \
  }

TILES(16, zu16, SUMS_U)
TILES(32, zu32, SUMS_U)
TILES(64, zu64, SUMS_U)
TILES(128, zu128, SUMS_U)
TILES(16, zs16, SUMS_S)
TILES(32, zs32, SUMS_S)
TILES(64, zs64, SUMS_S)
TILES(128, zs128, SUMS_S)

/* --- panels ------------------------------------------------------------------------------------------------------ */

enum { ZERO_POINT = 16, HALF = TNI_CLT_ROWS / 2 };

/* Eight bytes of zeros, one a row, as four of each. */
static inline __m256i four_of_each(const uint8_t *zeros) {
  const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)zeros));
  return _mm256_mullo_epi32(v, _mm256_set1_epi32(0x01010101));
}

/* Half a unit of 64 bytes -> halves of quads, less `minus` in every byte. */
__attribute__((always_inline)) static inline void unpack_half(uint32_t bits, const uint8_t *unit, __m256i minus,
                                                              uint8_t *out) {
  const __m256i v = _mm256_load_si256((const __m256i *)(const void *)unit);
  const __m256i mask = _mm256_set1_epi8((char)((1 << bits) - 1));
#pragma GCC unroll 4
  for (uint32_t i = 0; i < 4; i++) { /* gcc refuses to unroll a loop that has one turn, as of 8 bits */
    if (i >= 8 / bits) break;
    const __m256i c = bits == 8 ? v : _mm256_and_si256(_mm256_srli_epi16(v, (int)(i * bits)), mask);
    _mm256_store_si256((__m256i *)(void *)(out + i * 64), _mm256_sub_epi8(c, minus));
  }
}

static inline __m256 scales_at(const tni_grid_layout *l, const uint8_t *sb, size_t at) {
  if (l->scale_bits == 32) return _mm256_loadu_ps((const float *)(const void *)(sb + at * 4));
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(sb + at * 2)));
}

/* What tiles take off of eight rows: half - zero, and of f32 zero points what is left of them. */
static inline void put_zeros(const tni_grid_layout *l, const uint8_t *sb, size_t at, float *zero, float *rest) {
  const __m256 half = _mm256_set1_ps((float)(1 << (l->bits - 1)));
  const uint8_t *zeros = sb + l->zeros_at;
  if (l->zero_bits == 8) {
    const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(zeros + at)));
    _mm256_store_ps(zero, _mm256_sub_ps(half, _mm256_cvtepi32_ps(v)));
  } else if (l->zero_bits == 32) {
    const __m256 v = _mm256_loadu_ps((const float *)(const void *)(zeros + 4 * at));
    const __m256 whole = _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_store_ps(zero, _mm256_sub_ps(half, whole));
    _mm256_store_ps(rest, _mm256_sub_ps(whole, v));
  }
}

/* What codes lose in a panel. */
static inline __m256i lost(uint32_t bits, bool taken_off, bool vnni, const tni_grid_layout *l, const uint8_t *sb,
                           size_t at) {
  const __m256i point = _mm256_set1_epi8(ZERO_POINT);
  if (taken_off) return _mm256_set1_epi8((char)(bits == 2 ? 2 - 8 : bits == 8 && !vnni ? -128 : 0));
  if (l->zero_bits == 8) return _mm256_sub_epi8(four_of_each(sb + l->zeros_at + at), point);
  return _mm256_sub_epi8(_mm256_set1_epi8((char)(1 << (bits - 1))), point);
}

__attribute__((always_inline)) static inline void unpack_grid_avx2(uint32_t bits, uint32_t group, bool taken_off,
                                                                   bool vnni, const tni_grid_layout *l,
                                                                   const uint8_t *sb, size_t n, tni_x86_grid_panel *z) {
  const uint32_t code_bytes = group * TNI_CLT_ROWS * bits / 8;
  uint8_t *out = &z->p.w[0][0];
  size_t to = 0;
  for (size_t s = 0; s < n; s++, sb += l->bytes)
    for (size_t g = 0; g < l->groups; g++, to++, out += group * TNI_CLT_ROWS)
      for (size_t h = 0; h < 2; h++) {
        const size_t at = g * TNI_CLT_ROWS + h * HALF;
        const __m256i minus = lost(bits, taken_off, vnni, l, sb, at);
        const uint8_t *codes = sb + l->codes_at + g * code_bytes + h * 32;
        _mm256_store_ps(&z->p.scale[to][h * HALF], scales_at(l, sb, at));
        if (taken_off) put_zeros(l, sb, at, &z->zero[to][h * HALF], &z->rest[to][h * HALF]);
        for (uint32_t i = 0; i < code_bytes / 64; i++)
          unpack_half(bits, codes + i * 64, minus, out + i * 64 * (8 / bits) + h * 32);
      }
  z->p.groups = to;
  z->n_zeros = l->zero_bits / 8 > 1 ? 2 : l->zero_bits / 8;
  z->shift = bits == 8 ? 4 : 0;
}

/* tiles: of codes that lost their zero points; NULL: all are taken off. */
__attribute__((always_inline)) static inline void gemm_grid_avx2(uint32_t bits, uint32_t group, bool vnni,
                                                                 tni_x86_tiles_fn tiles, tni_x86_tiles_fn taking,
                                                                 const uint8_t *block, size_t superblocks,
                                                                 const tni_clt_act *a, size_t m0, size_t m1,
                                                                 float *acc) {
  const tni_grid_layout l = tni_grid_layout_of(bits, group, a->scale_bits, a->zero_bits);
  const bool taken_off = !vnni || bits == 8 || l.zero_bits == 32;
  const size_t per_panel = (group == 16 ? TNI_X86_PANEL_K / 2 : TNI_X86_PANEL_K) / (l.groups * group);
  tni_x86_grid_panel z;
  for (size_t sb = 0; sb < superblocks; sb += per_panel, block += per_panel * l.bytes) {
    const size_t n = superblocks - sb < per_panel ? superblocks - sb : per_panel;
    unpack_grid_avx2(bits, group, taken_off, vnni, &l, block, n, &z);
    z.p.first_group = sb * l.groups;
    z.p.next = block + n * l.bytes;
    z.p.next_bytes = n * l.bytes;
    (taken_off ? taking : tiles)(&z.p, a, m0, m1, sb == 0, acc);
  }
}

#define SIGNS_2(group) tni_x86_tiles_zu##group##_4x16_avx2
#define SIGNS_4(group) tni_x86_tiles_zu##group##_4x16_avx2
#define SIGNS_8(group) tni_x86_tiles_zs##group##_4x16_avx2
#define GEMM(group, bits)                                                                                             \
  void tni_x86_gemm_f32_q8g##group##_grid##bits##_4x16_avx2(const uint8_t *row_block, size_t superblocks,             \
                                                            const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_grid_avx2(bits, group, false, NULL, SIGNS_##bits(group), row_block, superblocks, a, m0, m1, acc);            \
  }                                                                                                                   \
  void tni_x86_gemm_f32_q8g##group##_grid##bits##_6x16_avxvnni(                                                       \
      const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {         \
    gemm_grid_avx2(bits, group, true, tni_x86_tiles_a##group##_6x16_avxvnni, tni_x86_tiles_z##group##_6x16_avxvnni,   \
                   row_block, superblocks, a, m0, m1, acc);                                                           \
  }
TNI_CLT_EACH_GRID(GEMM)
