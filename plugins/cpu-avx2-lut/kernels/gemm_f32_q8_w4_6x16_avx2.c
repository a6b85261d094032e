/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of activations times 16 outputs. A panel of 512 k is unpacked once to bytes (8 KiB, stays in L1) and used by all
 * rows, six at a time: twelve ymm of s16 sums, which start from the zero-point words, so that the zero point costs
 * nothing. f32 sums live in acc between groups; their order is that of the GEMV. Register tiles are named variables
 * made by macros: arrays of vectors get spilled by some compilers.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/w4g.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

enum { PANEL_K = 512, QUADS = PANEL_K / 4, TILE_M = 6 };

typedef struct panel {
  uint8_t w[QUADS][64]; /* [k / 4][row][k % 4], codes 0..15 */
  float scale[PANEL_K / 32][TNI_W4G_ROWS];
  size_t groups, first_group;
} panel;

static void unpack_panel(panel *p, const uint8_t *sb, size_t n_sb, size_t group, size_t sb_bytes) {
  const __m256i nibble = _mm256_set1_epi8(15);
  uint8_t *out = &p->w[0][0];
  for (size_t s = 0; s < n_sb; s++, sb += sb_bytes) {
    for (size_t c = 0; c < group / 4; c++, out += 128) {
      for (size_t half = 0; half < 64; half += 32) {
        __m256i v = _mm256_load_si256((const __m256i *)(const void *)(sb + 64 + c * 64 + half));
        __m256i lo = _mm256_and_si256(v, nibble), hi = _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble);
        _mm256_store_si256((__m256i *)(void *)(out + half), lo);
        _mm256_store_si256((__m256i *)(void *)(out + 64 + half), hi);
      }
    }
    for (size_t j = 0; j < 4; j++) {
      __m256 f = _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)(sb + j * 16)));
      _mm256_store_ps(&p->scale[s * 2 + j / 2][j % 2 * 8], f);
    }
  }
  p->groups = n_sb * 2;
}

static inline __m256i four_codes(const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_set1_epi32(v);
}

/* acc[16] += sums * (weight scale * activation scale), one row. */
__attribute__((always_inline)) static inline void add_scaled(float *acc, __m256i t0, __m256i t1, const float *sw,
                                                             float sx) {
  __m256 s = _mm256_set1_ps(sx);
  __m256 s0 = _mm256_mul_ps(_mm256_load_ps(sw), s), s1 = _mm256_mul_ps(_mm256_load_ps(sw + 8), s);
  _mm256_storeu_ps(acc, _mm256_fmadd_ps(_mm256_cvtepi32_ps(t0), s0, _mm256_loadu_ps(acc)));
  _mm256_storeu_ps(acc + 8, _mm256_fmadd_ps(_mm256_cvtepi32_ps(t1), s1, _mm256_loadu_ps(acc + 8)));
}

#define REP1(F) F(0)
#define REP2(F) REP1(F) F(1)
#define REP3(F) REP2(F) F(2)
#define REP4(F) REP3(F) F(3)
#define REP5(F) REP4(F) F(4)
#define REP6(F) REP5(F) F(5)

#define START(i) __m256i s##i##0 = _mm256_set1_epi32(zero[i * z_stride]), s##i##1 = s##i##0;
/* In assembly, as compilers compute all products first and spill, or move sums from register to register. */
#define STEP(i)                                                             \
  {                                                                         \
    __m256i b = four_codes(q + i * q_stride), t;                            \
    __asm__(                                                                \
        "vpmaddubsw %[b], %[w0], %[t]\n\t"                                  \
        "vpmaddubsw %[b], %[w1], %[b]\n\t"                                  \
        "vpaddw %[t], %[s0], %[s0]\n\t"                                     \
        "vpaddw %[b], %[s1], %[s1]"                                         \
        : [s0] "+x"(s##i##0), [s1] "+x"(s##i##1), [t] "=&x"(t), [b] "+x"(b) \
        : [w0] "x"(w0), [w1] "x"(w1));                                      \
  }
#define WIDEN(i)                              \
  s##i##0 = _mm256_madd_epi16(s##i##0, ones); \
  s##i##1 = _mm256_madd_epi16(s##i##1, ones);
#define KEEP(i)         \
  kept[i][0] = s##i##0; \
  kept[i][1] = s##i##1;
#define JOIN(i)                                    \
  s##i##0 = _mm256_add_epi32(s##i##0, kept[i][0]); \
  s##i##1 = _mm256_add_epi32(s##i##1, kept[i][1]);
#define FINISH(i) add_scaled(acc + i * 16, s##i##0, s##i##1, sw, sx[i * s_stride]);

/* One sub-group: sums of `quads` quads, widened to s32. */
#define SUB_GROUP(REP, quads)                                                \
  REP(START)                                                                 \
  for (size_t j = 0; j < (quads); j++, w += 64, q += 4) {                    \
    __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);        \
    __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + 32)); \
    REP(STEP)                                                                \
  }                                                                          \
  zero++;                                                                    \
  REP(WIDEN)

#define TILE(M, REP)                                                                     \
  static void tile32_##M(const panel *p, const tni_clt_act *a, size_t m, float *acc) {   \
    const size_t q_stride = a->q_stride, z_stride = a->z_stride, s_stride = a->s_stride; \
    const int8_t *q = a->q + m * q_stride + p->first_group * 32;                         \
    const int32_t *zero = a->zero + m * z_stride + p->first_group;                       \
    const float *sx = a->scale + m * s_stride + p->first_group;                          \
    const uint8_t *w = &p->w[0][0];                                                      \
    const __m256i ones = _mm256_set1_epi16(1);                                           \
    for (size_t g = 0; g < p->groups; g++, sx++) {                                       \
      const float *sw = p->scale[g];                                                     \
      SUB_GROUP(REP, 8)                                                                  \
      REP(FINISH)                                                                        \
    }                                                                                    \
  }                                                                                      \
  static void tile128_##M(const panel *p, const tni_clt_act *a, size_t m, float *acc) {  \
    const size_t q_stride = a->q_stride, z_stride = a->z_stride, s_stride = a->s_stride; \
    const int8_t *q = a->q + m * q_stride + p->first_group * 128;                        \
    const int32_t *zero = a->zero + m * z_stride + p->first_group * 2;                   \
    const float *sx = a->scale + m * s_stride + p->first_group;                          \
    const uint8_t *w = &p->w[0][0];                                                      \
    const __m256i ones = _mm256_set1_epi16(1);                                           \
    __m256i kept[M][2];                                                                  \
    for (size_t g = 0; g < p->groups; g++, sx++) {                                       \
      const float *sw = p->scale[g];                                                     \
      {SUB_GROUP(REP, 16) REP(KEEP)} {                                                   \
        SUB_GROUP(REP, 16)                                                               \
        REP(JOIN)                                                                        \
        REP(FINISH)                                                                      \
      }                                                                                  \
    }                                                                                    \
  }

TILE(1, REP1)
TILE(2, REP2)
TILE(3, REP3)
TILE(4, REP4)
TILE(5, REP5)
TILE(6, REP6)

#undef TILE
#undef SUB_GROUP
#undef FINISH
#undef JOIN
#undef KEEP
#undef WIDEN
#undef STEP
#undef START
#undef REP1
#undef REP2
#undef REP3
#undef REP4
#undef REP5
#undef REP6

typedef void (*tile_fn)(const panel *p, const tni_clt_act *a, size_t m, float *acc);
static const tile_fn tiles32[TILE_M + 1] = {NULL, tile32_1, tile32_2, tile32_3, tile32_4, tile32_5, tile32_6};
static const tile_fn tiles128[TILE_M + 1] = {NULL, tile128_1, tile128_2, tile128_3, tile128_4, tile128_5, tile128_6};

static void gemm(size_t group, size_t sb_bytes, const tile_fn *tiles, const uint8_t *block, size_t superblocks,
                 const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  _Alignas(64) panel p;
  const size_t per_panel = PANEL_K / (2 * group);
  memset(acc, 0, (m1 - m0) * TNI_W4G_ROWS * sizeof *acc);
  for (size_t sb = 0; sb < superblocks; sb += per_panel) {
    size_t n = superblocks - sb < per_panel ? superblocks - sb : per_panel;
    unpack_panel(&p, block + sb * sb_bytes, n, group, sb_bytes);
    p.first_group = sb * 2;
    for (size_t m = m0; m < m1; m += TILE_M)
      tiles[m1 - m < TILE_M ? m1 - m : TILE_M](&p, a, m, acc + (m - m0) * TNI_W4G_ROWS);
  }
}

void tni_x86_gemm_f32_q8g32_w4g32_6x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                            size_t m0, size_t m1, float *acc) {
  gemm(32, sizeof(tni_w4g_sb32), tiles32, row_block, superblocks, a, m0, m1, acc);
}

void tni_x86_gemm_f32_q8g128_w4g128_6x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              size_t m0, size_t m1, float *acc) {
  gemm(128, sizeof(tni_w4g_sb128), tiles128, row_block, superblocks, a, m0, m1, acc);
}
