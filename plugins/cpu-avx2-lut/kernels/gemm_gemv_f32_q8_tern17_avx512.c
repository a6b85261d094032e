/* SPDX-License-Identifier: Apache-2.0
 *
 * tern17, three trits in five bits: vpermb reads a trit of a code where the code stands in the low bits.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/tern17.h"

enum { UNIT = TNI_X86_TERN17_UNIT };

static inline __m512i dot_trits_avx512(__m512i sum, __m512i codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(v));
}

static inline __m512 add_scaled(__m512 y, __m512i sum, __m512 sw, float sx) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(sw, _mm512_set1_ps(sx)), y);
}

/* Trit t of what the low five bits say; vpermb looks at six. */
#define EACH(F)                                                                                                       \
  F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7), F(8), F(9), F(10), F(11), F(12), F(13), F(14), F(15), F(16), F(17), \
      F(18), F(19), F(20), F(21), F(22), F(23), F(24), F(25), F(26), 0, 0, 0, 0, 0
#define TRIT0(v) (v) % 3
#define TRIT1(v) (v) / 3 % 3
#define TRIT2(v) (v) / 9
static const _Alignas(64) uint8_t trits[3][64] = {
    {EACH(TRIT0), EACH(TRIT0)}, {EACH(TRIT1), EACH(TRIT1)}, {EACH(TRIT2), EACH(TRIT2)}};

/* The eight codes of a unit, each in the low five bits. */
typedef struct unit {
  __m512i v0, v1, v2, v3, v4, v5, v6, v7;
} unit;

__attribute__((always_inline)) static inline unit open_unit(const uint8_t *u) {
  enum { B_OR_C_BY_A = 0xca };
  const __m512i three = _mm512_set1_epi8(7), four = _mm512_set1_epi8(15);
  unit x = {.v0 = _mm512_load_si512(u),
            .v1 = _mm512_load_si512(u + 64),
            .v2 = _mm512_load_si512(u + 128),
            .v3 = _mm512_load_si512(u + 192),
            .v4 = _mm512_load_si512(u + 256)};
  x.v5 = _mm512_ternarylogic_epi64(three, _mm512_srli_epi16(x.v0, 5), _mm512_srli_epi16(x.v1, 2), B_OR_C_BY_A);
  x.v6 = _mm512_ternarylogic_epi64(three, _mm512_srli_epi16(x.v2, 5), _mm512_srli_epi16(x.v3, 2), B_OR_C_BY_A);
  x.v7 = _mm512_ternarylogic_epi64(three, _mm512_srli_epi16(x.v4, 5), _mm512_srli_epi16(x.v1, 4), B_OR_C_BY_A);
  x.v7 = _mm512_ternarylogic_epi64(four, x.v7, _mm512_srli_epi16(x.v3, 3), B_OR_C_BY_A);
  return x;
}

/* Sums of a group, in four parts: one would wait for itself. */
typedef struct trit_sums_avx512 {
  __m512i a, b, c, d;
} trit_sums_avx512;

/* 32 k of a unit: its trits t. */
__attribute__((always_inline)) static inline void third_trit_avx512(trit_sums_avx512 *s, const unit *x, int t,
                                                                    const int8_t *q) {
  const __m512i table = _mm512_load_si512(trits[t]);
  s->a = dot_trits_avx512(s->a, _mm512_permutexvar_epi8(x->v0, table), q);
  s->b = dot_trits_avx512(s->b, _mm512_permutexvar_epi8(x->v1, table), q + 4);
  s->c = dot_trits_avx512(s->c, _mm512_permutexvar_epi8(x->v2, table), q + 8);
  s->d = dot_trits_avx512(s->d, _mm512_permutexvar_epi8(x->v3, table), q + 12);
  s->a = dot_trits_avx512(s->a, _mm512_permutexvar_epi8(x->v4, table), q + 16);
  s->b = dot_trits_avx512(s->b, _mm512_permutexvar_epi8(x->v5, table), q + 20);
  s->c = dot_trits_avx512(s->c, _mm512_permutexvar_epi8(x->v6, table), q + 24);
  s->d = dot_trits_avx512(s->d, _mm512_permutexvar_epi8(x->v7, table), q + 28);
}

__attribute__((always_inline)) static inline trit_sums_avx512 start_of(int32_t word) {
  const __m512i none = _mm512_setzero_si512();
  return (trit_sums_avx512){_mm512_srai_epi32(_mm512_set1_epi32(word), 3), none, none, none};
}

__attribute__((always_inline)) static inline __m512 add_group(__m512 y, const trit_sums_avx512 *s, __m512 sw,
                                                              float sx) {
  return add_scaled(y, _mm512_add_epi32(_mm512_add_epi32(s->a, s->b), _mm512_add_epi32(s->c, s->d)), sw, sx);
}

/* n units, which begin with a group -> the groups that they are or begin. */
__attribute__((always_inline)) static inline __m512 unit_trits_avx512(__m512 y, int n, const uint8_t *u,
                                                                      const int8_t *q, const int32_t *zero, __m512 sw,
                                                                      const float *sx) {
  unit x = open_unit(u);
  trit_sums_avx512 s = start_of(zero[0]);
  third_trit_avx512(&s, &x, 0, q);
  third_trit_avx512(&s, &x, 1, q + 32);
  third_trit_avx512(&s, &x, 2, q + 64);
  if (n > 1) x = open_unit(u + UNIT), third_trit_avx512(&s, &x, 0, q + 96);
  y = add_group(y, &s, sw, sx[0]);
  if (n == 1) return y;
  s = start_of(zero[1]);
  third_trit_avx512(&s, &x, 1, q + 128);
  third_trit_avx512(&s, &x, 2, q + 160);
  if (n > 2) {
    x = open_unit(u + 2 * UNIT);
    third_trit_avx512(&s, &x, 0, q + 192);
    third_trit_avx512(&s, &x, 1, q + 224);
  }
  y = add_group(y, &s, sw, sx[1]);
  if (n == 2) return y;
  s = start_of(zero[2]);
  third_trit_avx512(&s, &x, 2, q + 256);
  if (n > 3) {
    x = open_unit(u + 3 * UNIT);
    third_trit_avx512(&s, &x, 0, q + 288);
    third_trit_avx512(&s, &x, 1, q + 320);
    third_trit_avx512(&s, &x, 2, q + 352);
  }
  return add_group(y, &s, sw, sx[2]);
}

/* Four units are three groups; what is left are one to three units, whose last group may be cut short. */
__attribute__((always_inline)) static inline void gemv_tern17_avx512(bool fetch, const uint8_t *row_block,
                                                                     size_t superblocks, const tni_clt_act *a,
                                                                     float *acc) {
  const uint8_t *u = row_block + TNI_DOT_SCALE_BYTES;
  const int8_t *q = a->q;
  const float *sx = a->scale;
  const int32_t *zero = a->zero;
  const __m512 sw = _mm512_load_ps((const float *)(const void *)row_block);
  __m512 y = _mm512_setzero_ps();
  for (size_t n = superblocks / 4; n > 0; n--, u += 4 * UNIT, q += 384, zero += 3, sx += 3) {
    for (size_t i = 0; fetch && i < 4 * UNIT; i += 64) _mm_prefetch((const char *)u + TNI_X86_AHEAD + i, _MM_HINT_T0);
    y = unit_trits_avx512(y, 4, u, q, zero, sw, sx);
  }
  if (superblocks % 4 == 3) y = unit_trits_avx512(y, 3, u, q, zero, sw, sx);
  if (superblocks % 4 == 2) y = unit_trits_avx512(y, 2, u, q, zero, sw, sx);
  if (superblocks % 4 == 1) y = unit_trits_avx512(y, 1, u, q, zero, sw, sx);
  _mm512_storeu_ps(acc, y);
}

void tni_x86_gemv_f32_q8g128_tern17_1x16_avx512vnni(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                                    float *acc) {
  gemv_tern17_avx512(false, row_block, superblocks, a, acc);
}

void tni_x86_gemv_f32_q8g128_tern17_1x16_avx512vnni_prefetch(const uint8_t *row_block, size_t superblocks,
                                                             const tni_clt_act *a, float *acc) {
  gemv_tern17_avx512(true, row_block, superblocks, a, acc);
}

static void unpack_third(const uint8_t *u, int t, int zero, uint8_t *out) {
  const __m512i table = _mm512_add_epi8(_mm512_load_si512(trits[t]), _mm512_set1_epi8((char)(zero - 1)));
  const unit x = open_unit(u);
  _mm512_store_si512(out, _mm512_permutexvar_epi8(x.v0, table));
  _mm512_store_si512(out + 64, _mm512_permutexvar_epi8(x.v1, table));
  _mm512_store_si512(out + 128, _mm512_permutexvar_epi8(x.v2, table));
  _mm512_store_si512(out + 192, _mm512_permutexvar_epi8(x.v3, table));
  _mm512_store_si512(out + 256, _mm512_permutexvar_epi8(x.v4, table));
  _mm512_store_si512(out + 320, _mm512_permutexvar_epi8(x.v5, table));
  _mm512_store_si512(out + 384, _mm512_permutexvar_epi8(x.v6, table));
  _mm512_store_si512(out + 448, _mm512_permutexvar_epi8(x.v7, table));
}

void tni_x86_gemm_f32_q8g128_tern17_12x16_avx512vnni(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                                     size_t m0, size_t m1, float *acc) {
  tni_x86_gemm_tern17(unpack_third, 8, tni_x86_tiles_g128_12x16_avx512vnni, NULL, row_block, 0, superblocks, a, m0, m1,
                      &acc);
}

void tni_x86_gemm2_f32_q8g128_tern17_12x32_avx512vnni(const uint8_t *row_blocks, size_t block_bytes, size_t superblocks,
                                                      const tni_clt_act *a, size_t m0, size_t m1, float *const *acc) {
  tni_x86_gemm_tern17(unpack_third, 8, NULL, tni_x86_tiles_g128_12x32_avx512vnni, row_blocks, block_bytes, superblocks,
                      a, m0, m1, acc);
}

void tni_x86_gemm_f32_q8g128_tern17_32x16_amx(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              size_t m0, size_t m1, float *acc) {
  tni_x86_amx_begin();
  tni_x86_gemm_tern17(unpack_third, 0, tni_x86_tiles_g128_32x16_amx, NULL, row_block, 0, superblocks, a, m0, m1, &acc);
  tni_x86_amx_end();
}

void tni_x86_gemm2_f32_q8g128_tern17_16x32_amx(const uint8_t *row_blocks, size_t block_bytes, size_t superblocks,
                                               const tni_clt_act *a, size_t m0, size_t m1, float *const *acc) {
  tni_x86_amx_begin();
  tni_x86_gemm_tern17(unpack_third, 0, NULL, tni_x86_tiles_g128_16x32_amx, row_blocks, block_bytes, superblocks, a, m0,
                      m1, acc);
  tni_x86_amx_end();
}
