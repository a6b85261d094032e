/* SPDX-License-Identifier: Apache-2.0
 *
 * tern17, three trits in five bits, one activation row: two lookups of 16 entries give a code's trits side by side, two
 * bits each; they stay where they are and have sums of their own, shifted once per group.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/tern17.h"

enum { UNIT = TNI_X86_TERN17_UNIT };

static inline __m256i keep_trits(__m256i v, int mask) { return _mm256_and_si256(v, _mm256_set1_epi8((char)mask)); }

static inline __m256i dot_trits_avxvnni(__m256i sum, __m256i codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_dpbusd_avx_epi32(sum, codes, _mm256_set1_epi32(v));
}

/* Sums of a group by the place of the trit, in two parts each: one would wait for itself. */
typedef struct trit_sums_avxvnni {
  __m256i a0, a1, a2, b0, b1, b2;
} trit_sums_avxvnni;

/* 32 k of eight rows: trits t of a unit's codes. */
__attribute__((always_inline)) static inline void third_trit_avxvnni(trit_sums_avxvnni *s, const __m256i *v, int t,
                                                                     const int8_t *q) {
  __m256i *a = t == 0 ? &s->a0 : t == 1 ? &s->a1 : &s->a2, *b = t == 0 ? &s->b0 : t == 1 ? &s->b1 : &s->b2;
#pragma GCC unroll 4
  for (int j = 0; j < 8; j += 2) {
    *a = dot_trits_avxvnni(*a, keep_trits(v[j], 3 << 2 * t), q + 4 * j);
    *b = dot_trits_avxvnni(*b, keep_trits(v[j + 1], 3 << 2 * t), q + 4 * j + 4);
  }
}

__attribute__((always_inline)) static inline trit_sums_avxvnni start_of(int32_t word) {
  const __m256i none = _mm256_setzero_si256();
  return (trit_sums_avxvnni){_mm256_srai_epi32(_mm256_set1_epi32(word), 3), none, none, none, none, none};
}

__attribute__((always_inline)) static inline __m256 add_group(__m256 y, const trit_sums_avxvnni *s, __m256 sw,
                                                              float sx) {
  __m256i sum = _mm256_add_epi32(s->a0, s->b0);
  sum = _mm256_add_epi32(sum, _mm256_srai_epi32(_mm256_add_epi32(s->a1, s->b1), 2));
  sum = _mm256_add_epi32(sum, _mm256_srai_epi32(_mm256_add_epi32(s->a2, s->b2), 4));
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(sw, _mm256_set1_ps(sx)), y);
}

/* n units, which begin with a group -> the groups that they are or begin. */
__attribute__((always_inline)) static inline __m256 unit_trits_avxvnni(__m256 y, int n, const uint8_t *u,
                                                                       const int8_t *q, const int32_t *zero, __m256 sw,
                                                                       const float *sx) {
  __m256i v[8];
  tni_x86_tern17_open(u, v);
  trit_sums_avxvnni s = start_of(zero[0]);
  third_trit_avxvnni(&s, v, 0, q);
  third_trit_avxvnni(&s, v, 1, q + 32);
  third_trit_avxvnni(&s, v, 2, q + 64);
  if (n > 1) tni_x86_tern17_open(u + UNIT, v), third_trit_avxvnni(&s, v, 0, q + 96);
  y = add_group(y, &s, sw, sx[0]);
  if (n == 1) return y;
  s = start_of(zero[1]);
  third_trit_avxvnni(&s, v, 1, q + 128);
  third_trit_avxvnni(&s, v, 2, q + 160);
  if (n > 2) {
    tni_x86_tern17_open(u + 2 * UNIT, v);
    third_trit_avxvnni(&s, v, 0, q + 192);
    third_trit_avxvnni(&s, v, 1, q + 224);
  }
  y = add_group(y, &s, sw, sx[1]);
  if (n == 2) return y;
  s = start_of(zero[2]);
  third_trit_avxvnni(&s, v, 2, q + 256);
  if (n > 3) {
    tni_x86_tern17_open(u + 3 * UNIT, v);
    third_trit_avxvnni(&s, v, 0, q + 288);
    third_trit_avxvnni(&s, v, 1, q + 320);
    third_trit_avxvnni(&s, v, 2, q + 352);
  }
  return add_group(y, &s, sw, sx[2]);
}

__attribute__((always_inline)) static inline void both_halves(__m256 *y, int n, const uint8_t *u, const int8_t *q,
                                                              const int32_t *zero, const __m256 *sw, const float *sx) {
  y[0] = unit_trits_avxvnni(y[0], n, u, q, zero, sw[0], sx);
  y[1] = unit_trits_avxvnni(y[1], n, u + 32, q, zero, sw[1], sx);
}

/* Four units are three groups; what is left are one to three units, whose last group may be cut short. */
__attribute__((always_inline)) static inline void gemv_tern17_avxvnni(bool fetch, const uint8_t *row_block,
                                                                      size_t superblocks, const tni_clt_act *a,
                                                                      float *acc) {
  const uint8_t *u = row_block + TNI_DOT_SCALE_BYTES;
  const float *scale = (const float *)(const void *)row_block, *sx = a->scale;
  const int8_t *q = a->q;
  const int32_t *zero = a->zero;
  const __m256 sw[2] = {_mm256_load_ps(scale), _mm256_load_ps(scale + 8)};
  __m256 y[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (size_t n = superblocks / 4; n > 0; n--, u += 4 * UNIT, q += 384, zero += 3, sx += 3) {
    for (size_t i = 0; fetch && i < 4 * UNIT; i += 64) _mm_prefetch((const char *)u + TNI_X86_AHEAD + i, _MM_HINT_T0);
    both_halves(y, 4, u, q, zero, sw, sx);
  }
  if (superblocks % 4 == 3) both_halves(y, 3, u, q, zero, sw, sx);
  if (superblocks % 4 == 2) both_halves(y, 2, u, q, zero, sw, sx);
  if (superblocks % 4 == 1) both_halves(y, 1, u, q, zero, sw, sx);
  _mm256_storeu_ps(acc, y[0]);
  _mm256_storeu_ps(acc + 8, y[1]);
}

void tni_x86_gemv_f32_q8g128_tern17_1x16_avxvnni(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                                 float *acc) {
  gemv_tern17_avxvnni(false, row_block, superblocks, a, acc);
}

void tni_x86_gemv_f32_q8g128_tern17_1x16_avxvnni_prefetch(const uint8_t *row_block, size_t superblocks,
                                                          const tni_clt_act *a, float *acc) {
  gemv_tern17_avxvnni(true, row_block, superblocks, a, acc);
}
