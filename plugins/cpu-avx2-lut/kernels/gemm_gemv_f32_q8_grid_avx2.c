/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids on AVX2: one row, few rows without a panel, tiles of up to six rows over one, and what fills panels, for the
 * tiles of AVX-VNNI too.
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
#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

/* --- one row ---------------------------------------------------------------------------------------------------- */

typedef __m256i ints;
typedef __m256 floats;
enum { LANES = 8 };

static inline ints codes_at(const uint8_t *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }
static inline ints cut_codes(ints v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
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

/* Rows of a tile: of codes up to 15, whose sums of 32 k are s16; of signed ones, which are widened at once. */
enum { MOST_U = 6, MOST_S = 4, SUB = 32 };

static inline ints zeros_at(const int32_t *zero) { return _mm256_load_si256((const __m256i *)(const void *)zero); }

/* acc[16] += v * (weight scale * activation scale), one row. */
__attribute__((always_inline)) static inline void add_floats(float *acc, floats v0, floats v1, const float *sw,
                                                             float sx) {
  const floats s = _mm256_set1_ps(sx);
  const floats s0 = _mm256_mul_ps(_mm256_load_ps(sw), s), s1 = _mm256_mul_ps(_mm256_load_ps(sw + 8), s);
  _mm256_storeu_ps(acc, _mm256_fmadd_ps(v0, s0, _mm256_loadu_ps(acc)));
  _mm256_storeu_ps(acc + 8, _mm256_fmadd_ps(v1, s1, _mm256_loadu_ps(acc + 8)));
}

#define MINUS_SUM(i) _mm256_srai_epi32(_mm256_set1_epi32(zero[i * z_stride]), 3) /* within s16 */
#define TAKEN(i, h) _mm256_madd_epi16(MINUS_SUM(i), zeros_at(z->zero[g] + 8 * h))
#define REST(i, h) \
  _mm256_fmadd_ps(_mm256_load_ps(z->rest[g] + 8 * h), _mm256_cvtepi32_ps(MINUS_SUM(i)), _mm256_cvtepi32_ps(t##i##h))
#define ADD(i, v0, v1) add_floats(acc + i * TNI_CLT_ROWS, v0, v1, z->p.scale[g], sx[i * s_stride]);
#define FINISH_Z(i) ADD(i, _mm256_cvtepi32_ps(t##i##0), _mm256_cvtepi32_ps(t##i##1))
#define FINISH_R(i) ADD(i, REST(i, 0), REST(i, 1))

#define CLEAR(i) __m256i s##i##0 = _mm256_setzero_si256(), s##i##1 = s##i##0;
#define WIDEN(i) const __m256i d##i##0 = _mm256_madd_epi16(s##i##0, ones), d##i##1 = _mm256_madd_epi16(s##i##1, ones);
#define KEEP_FIRST(i)                                  \
  kept[i][0] = _mm256_add_epi32(d##i##0, TAKEN(i, 0)); \
  kept[i][1] = _mm256_add_epi32(d##i##1, TAKEN(i, 1));
#define KEEP(i)                                       \
  kept[i][0] = _mm256_add_epi32(d##i##0, kept[i][0]); \
  kept[i][1] = _mm256_add_epi32(d##i##1, kept[i][1]);
#define TAKE(i) \
  const __m256i t##i##0 = _mm256_add_epi32(d##i##0, TAKEN(i, 0)), t##i##1 = _mm256_add_epi32(d##i##1, TAKEN(i, 1));
#define JOIN(i) \
  const __m256i t##i##0 = _mm256_add_epi32(d##i##0, kept[i][0]), t##i##1 = _mm256_add_epi32(d##i##1, kept[i][1]);

#define START_S(i) __m256i t##i##0 = TAKEN(i, 0), t##i##1 = TAKEN(i, 1);
#define STEP_S(i)                                                                  \
  {                                                                                \
    const __m256i b = four_codes(q + i * q_stride);                                \
    t##i##0 = widened(t##i##0, _mm256_maddubs_epi16(a0, _mm256_sign_epi8(b, w0))); \
    t##i##1 = widened(t##i##1, _mm256_maddubs_epi16(a1, _mm256_sign_epi8(b, w1))); \
  }

#define SUMS_U(REP, n)                                     \
  REP(CLEAR)                                               \
  for (size_t j = 0; j < (n) / 4; j++, w += 64, q += 4) {  \
    const __m256i w0 = codes_at(w), w1 = codes_at(w + 32); \
    REP(STEP_S16)                                          \
  }                                                        \
  REP(WIDEN)
#define SUMS_S(REP, n)                                                \
  REP(START_S)                                                        \
  for (size_t j = 0; j < (n) / 4; j++, w += 64, q += 4) {             \
    const __m256i w0 = codes_at(w), w1 = codes_at(w + 32);            \
    const __m256i a0 = _mm256_abs_epi8(w0), a1 = _mm256_abs_epi8(w1); \
    REP(STEP_S)                                                       \
  }

/* Of packed codes: of four bits, and of eight, which lose 128. */
#define SUMS_N(REP, n)                                            \
  REP(CLEAR)                                                      \
  for (size_t j = 0; j < (n) / 8; j++, w += 64, q += 4) {         \
    const __m256i v0 = codes_at(w), v1 = codes_at(w + 32);        \
    __m256i w0 = cut_codes(v0, 0, 15), w1 = cut_codes(v1, 0, 15); \
    REP(STEP_S16)                                                 \
    q += 4;                                                       \
    w0 = cut_codes(v0, 4, 15), w1 = cut_codes(v1, 4, 15);         \
    REP(STEP_S16)                                                 \
  }                                                               \
  REP(WIDEN)
#define SUMS_B(REP, n)                                                \
  REP(START_S)                                                        \
  for (size_t j = 0; j < (n) / 4; j++, w += 64, q += 4) {             \
    const __m256i less = _mm256_set1_epi8(-128);                      \
    const __m256i w0 = _mm256_xor_si256(codes_at(w), less);           \
    const __m256i w1 = _mm256_xor_si256(codes_at(w + 32), less);      \
    const __m256i a0 = _mm256_abs_epi8(w0), a1 = _mm256_abs_epi8(w1); \
    REP(STEP_S)                                                       \
  }

/* One group of so many k: of few, of many, of signed codes; F and U of packed codes. */
#define GROUP_OF(SUMS, M, REP, GROUP)             \
  __m256i kept[M][2];                             \
  { SUMS(REP, SUB) REP(KEEP_FIRST) }              \
  for (size_t k = 2 * SUB; k < GROUP; k += SUB) { \
    SUMS(REP, SUB) REP(KEEP)                      \
  }                                               \
  SUMS(REP, SUB) REP(JOIN)
#define GROUP_F(M, REP, GROUP) SUMS_U(REP, GROUP) REP(TAKE)
#define GROUP_U(M, REP, GROUP) GROUP_OF(SUMS_U, M, REP, GROUP)
#define GROUP_S(M, REP, GROUP) SUMS_S(REP, GROUP)
#define GROUP_NF(M, REP, GROUP) SUMS_N(REP, GROUP) REP(TAKE)
#define GROUP_NU(M, REP, GROUP) GROUP_OF(SUMS_N, M, REP, GROUP)
#define GROUP_B(M, REP, GROUP) SUMS_B(REP, GROUP)
#define CODES_F p->w[0]
#define CODES_U p->w[0]
#define CODES_S p->w[0]
#define CODES_NF z->codes
#define CODES_NU z->codes
#define CODES_B z->codes

#define TILE(M, GROUP, id, WAY, END)                                                                \
  static void tile_##id##_##M(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc) { \
    const tni_x86_grid_panel *z = (const tni_x86_grid_panel *)(const void *)p;                      \
    const size_t q_stride = a->q_stride, z_stride = a->z_stride, s_stride = a->s_stride;            \
    const int8_t *q = a->q + m * q_stride + p->first_group * GROUP;                                 \
    const int32_t *zero = a->zero + m * z_stride + p->first_group;                                  \
    const float *sx = a->scale + m * s_stride + p->first_group;                                     \
    const uint8_t *w = CODES_##WAY;                                                                 \
    const __m256i ones = _mm256_set1_epi16(1);                                                      \
    (void)ones;                                                                                     \
    for (size_t g = 0; g < p->groups; g++, sx++, zero++) {                                          \
      GROUP_##WAY(M, TNI_X86_REP##M, GROUP) TNI_X86_REP##M(FINISH_##END)                            \
    }                                                                                               \
  }

typedef void (*grid_tile_fn)(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc);

static void all_rows(const grid_tile_fn *tiles, size_t most, const tni_x86_panel *p, const tni_clt_act *a, size_t m0,
                     size_t m1, bool first, float *acc) {
  if (first) memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);
  for (size_t m = m0; m < m1; m += most) {
    tni_x86_ask(p, (m - m0) / most, (m1 - m0 + most - 1) / most);
    tiles[m1 - m < most ? m1 - m : most](p, a, m, acc + (m - m0) * TNI_CLT_ROWS);
  }
}

#define FOUR(GROUP, id, WAY, END) \
  TILE(1, GROUP, id, WAY, END)    \
  TILE(2, GROUP, id, WAY, END)    \
  TILE(3, GROUP, id, WAY, END)    \
  TILE(4, GROUP, id, WAY, END)
#define TILES_U(GROUP, id, WAY, END)                                                                                  \
  FOUR(GROUP, id, WAY, END)                                                                                           \
  TILE(5, GROUP, id, WAY, END)                                                                                        \
  TILE(6, GROUP, id, WAY, END)                                                                                        \
  void tni_x86_tiles_##id##_6x16_avx2(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first, \
                                      float *acc) {                                                                   \
    static const grid_tile_fn tiles[] = {NULL,          tile_##id##_1, tile_##id##_2, tile_##id##_3,                  \
                                         tile_##id##_4, tile_##id##_5, tile_##id##_6};                                \
    all_rows(tiles, MOST_U, p, a, m0, m1, first, acc);                                                                \
  }
#define TILES_FEW(GROUP, id, WAY, END, linkage)                                                                   \
  FOUR(GROUP, id, WAY, END)                                                                                       \
  linkage void tni_x86_tiles_##id##_4x16_avx2(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, \
                                              bool first, float *acc) {                                           \
    static const grid_tile_fn tiles[] = {NULL, tile_##id##_1, tile_##id##_2, tile_##id##_3, tile_##id##_4};       \
    all_rows(tiles, MOST_S, p, a, m0, m1, first, acc);                                                            \
  }
#define GRID(GROUP, WAY)                         \
  TILES_U(GROUP, zu##GROUP, WAY, Z)              \
  TILES_U(GROUP, ru##GROUP, WAY, R)              \
  TILES_FEW(GROUP, zs##GROUP, S, Z, )            \
  TILES_FEW(GROUP, rs##GROUP, S, R, )            \
  TILES_FEW(GROUP, zn##GROUP, N##WAY, Z, static) \
  TILES_FEW(GROUP, rn##GROUP, N##WAY, R, static) \
  TILES_FEW(GROUP, rb##GROUP, B, R, static)
GRID(16, F)
GRID(32, F)
GRID(64, U)
GRID(128, U)
TILES_FEW(16, zb16, B, Z, static)
TILES_FEW(32, zb32, B, Z, static)
TILES_FEW(64, zb64, B, Z, static)
TILES_FEW(128, zb128, B, Z, )

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

/* What tiles take off of eight rows, of codes that are less `minus`, and of f32 zero points what is left of them. */
static inline void put_zeros(const tni_grid_layout *l, const uint8_t *sb, size_t at, int minus, int32_t *zero,
                             float *rest) {
  const uint8_t *zeros = sb + l->zeros_at;
  __m256i whole = _mm256_set1_epi32(1 << (l->bits - 1));
  if (l->zero_bits == 8) whole = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(zeros + at)));
  if (l->zero_bits == 32) {
    const __m256 v = _mm256_loadu_ps((const float *)(const void *)(zeros + 4 * at));
    whole = _mm256_cvtps_epi32(v);
    _mm256_store_ps(rest, _mm256_sub_ps(v, _mm256_cvtepi32_ps(whole)));
  }
  whole = _mm256_sub_epi32(whole, _mm256_set1_epi32(minus));
  _mm256_store_si256((__m256i *)(void *)zero, _mm256_and_si256(whole, _mm256_set1_epi32(0xffff)));
}

/* What codes lose in a panel. */
static inline __m256i lost(uint32_t bits, bool taken_off, bool vnni, const tni_grid_layout *l, const uint8_t *sb,
                           size_t at) {
  const __m256i point = _mm256_set1_epi8(ZERO_POINT);
  if (taken_off) return _mm256_set1_epi8((char)(bits == 8 && !vnni ? -128 : 0));
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
        if (taken_off)
          put_zeros(l, sb, at, bits == 8 && !vnni ? 128 : 0, &z->zero[to][h * HALF], &z->rest[to][h * HALF]);
        for (uint32_t i = 0; i < code_bytes / 64; i++)
          unpack_half(bits, codes + i * 64, minus, out + i * 64 * (8 / bits) + h * 32);
      }
  z->p.groups = to;
}

/* --- few rows: superblocks as they are packed, whose scales and zero points alone are unpacked
 * ------------------------ */

__attribute__((always_inline)) static inline void gemm_few_avx2(uint32_t bits, uint32_t group, bool fetch,
                                                                tni_x86_tiles_fn taking, tni_x86_tiles_fn rests,
                                                                const uint8_t *block, size_t superblocks,
                                                                const tni_clt_act *a, size_t m0, size_t m1,
                                                                float *acc) {
  const tni_grid_layout l = tni_grid_layout_of(bits, group, a->scale_bits, a->zero_bits);
  tni_x86_grid_panel z;
  z.p.groups = l.groups;
  z.p.next_bytes = 0;
  for (size_t sb = 0; sb < superblocks; sb++, block += l.bytes) {
    for (size_t i = 0; fetch && i < l.bytes; i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    for (size_t h = 0; h < 2 * l.groups; h++) {
      const size_t g = h / 2, half = h % 2 * HALF, at = h * HALF;
      _mm256_store_ps(&z.p.scale[g][half], scales_at(&l, block, at));
      put_zeros(&l, block, at, bits == 8 ? 128 : 0, &z.zero[g][half], &z.rest[g][half]);
    }
    z.codes = block + l.codes_at;
    z.p.first_group = sb * l.groups;
    (l.zero_bits == 32 ? rests : taking)(&z.p, a, m0, m1, sb == 0, acc);
  }
}

#define FEW_OF(group, bits, kind, isa, fetch)                                                                          \
  void tni_x86_gemm_f32_q8g##group##_grid##bits##_4x16_##isa(const uint8_t *row_block, size_t superblocks,             \
                                                             const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_few_avx2(bits, group, fetch, tni_x86_tiles_z##kind##group##_4x16_avx2,                                        \
                  tni_x86_tiles_r##kind##group##_4x16_avx2, row_block, superblocks, a, m0, m1, acc);                   \
  }
#define FEW(group, bits, kind)           \
  FEW_OF(group, bits, kind, avx2, false) \
  FEW_OF(group, bits, kind, avx2_prefetch, true)
#define FEW_2(group)
#define FEW_4(group) FEW(group, 4, n)
#define FEW_8(group) FEW(group, 8, b)
#define EACH_FEW(group, bits) FEW_##bits(group)
TNI_CLT_EACH_GRID(EACH_FEW)

/* --- many rows ------------------------------------------------------------------------------------------------------
 */

/* Tiles: of codes that lost their zero points (NULL: all are taken off), that take them off, and f32 ones. */
typedef struct grid_tiles {
  tni_x86_tiles_fn in_bytes, taking, rests;
} grid_tiles;

__attribute__((always_inline)) static inline void gemm_grid_avx2(uint32_t bits, uint32_t group, bool vnni,
                                                                 grid_tiles tiles, const uint8_t *block,
                                                                 size_t superblocks, const tni_clt_act *a, size_t m0,
                                                                 size_t m1, float *acc) {
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
    (l.zero_bits == 32 ? tiles.rests : taken_off ? tiles.taking : tiles.in_bytes)(&z.p, a, m0, m1, sb == 0, acc);
  }
}

#define TILES_OF(kind, group, tile) \
  (grid_tiles) { NULL, tni_x86_tiles_z##kind##group##_##tile, tni_x86_tiles_r##kind##group##_##tile }
#define TILES_2(group) TILES_OF(u, group, 6x16_avx2)
#define TILES_4(group) TILES_OF(u, group, 6x16_avx2)
#define TILES_8(group) TILES_OF(s, group, 4x16_avx2)
#define TILES_VNNI(group)                                                         \
  (grid_tiles) {                                                                  \
    tni_x86_tiles_a##group##_6x16_avxvnni, tni_x86_tiles_z##group##_6x16_avxvnni, \
        tni_x86_tiles_r##group##_6x16_avxvnni                                     \
  }
#define GEMM(group, bits)                                                                                             \
  void tni_x86_gemm_f32_q8g##group##_grid##bits##_6x16_avx2(const uint8_t *row_block, size_t superblocks,             \
                                                            const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_grid_avx2(bits, group, false, TILES_##bits(group), row_block, superblocks, a, m0, m1, acc);                  \
  }                                                                                                                   \
  void tni_x86_gemm_f32_q8g##group##_grid##bits##_6x16_avxvnni(                                                       \
      const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {         \
    gemm_grid_avx2(bits, group, true, TILES_VNNI(group), row_block, superblocks, a, m0, m1, acc);                     \
  }
TNI_CLT_EACH_GRID(GEMM)
