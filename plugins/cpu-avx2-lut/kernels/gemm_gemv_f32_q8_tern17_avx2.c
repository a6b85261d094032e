/* SPDX-License-Identifier: Apache-2.0
 *
 * tern17, three trits in five bits: two lookups of 16 entries give a code's trits side by side, two bits each.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/dot.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

enum { UNIT = 320 };

static inline __m256i load(const uint8_t *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }
static inline __m256i cut(__m256i v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}

/* sum += codes times q[0..3], in every lane. */
static inline __m256i dot(__m256i sum, __m256i codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, _mm256_set1_epi32(v)));
}

static inline __m256 add_scaled(__m256 y, __m256i sum, __m256 sw, float sx) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(sw, _mm256_set1_ps(sx)), y);
}

/* What five bits say, two bits for each trit: below 16, and from there on. An index with its high bit gives 0. */
#define TRITS(v) (v) % 3 | (v) / 3 % 3 << 2 | (v) / 9 << 4
static const _Alignas(32) uint8_t low[32] = {
    TRITS(0), TRITS(1), TRITS(2),  TRITS(3),  TRITS(4),  TRITS(5),  TRITS(6),  TRITS(7),
    TRITS(8), TRITS(9), TRITS(10), TRITS(11), TRITS(12), TRITS(13), TRITS(14), TRITS(15),
    TRITS(0), TRITS(1), TRITS(2),  TRITS(3),  TRITS(4),  TRITS(5),  TRITS(6),  TRITS(7),
    TRITS(8), TRITS(9), TRITS(10), TRITS(11), TRITS(12), TRITS(13), TRITS(14), TRITS(15)};
static const _Alignas(32) uint8_t high[32] = {
    TRITS(16), TRITS(17), TRITS(18), TRITS(19), TRITS(20), TRITS(21), TRITS(22), TRITS(23),
    TRITS(24), TRITS(25), TRITS(26), 0,         0,         0,         0,         0,
    TRITS(16), TRITS(17), TRITS(18), TRITS(19), TRITS(20), TRITS(21), TRITS(22), TRITS(23),
    TRITS(24), TRITS(25), TRITS(26), 0,         0,         0,         0,         0};

static inline __m256i trits_of(__m256i v) {
  const __m256i a = _mm256_shuffle_epi8(load(low), _mm256_add_epi8(v, _mm256_set1_epi8(0x70)));
  return _mm256_or_si256(a, _mm256_shuffle_epi8(load(high), _mm256_sub_epi8(v, _mm256_set1_epi8(16))));
}

/* The eight codes of eight rows of a unit, as trits. */
static inline void open_unit(const uint8_t *u, __m256i *v) {
  const __m256i z1 = load(u + 64), z3 = load(u + 192);
  for (int j = 0; j < 5; j++) v[j] = trits_of(cut(load(u + j * 64), 0, 31));
  v[5] = trits_of(_mm256_or_si256(cut(load(u), 5, 7), cut(z1, 2, 0x18)));
  v[6] = trits_of(_mm256_or_si256(cut(load(u + 128), 5, 7), cut(z3, 2, 0x18)));
  v[7] = _mm256_or_si256(cut(z1, 4, 8), cut(z3, 3, 16));
  v[7] = trits_of(_mm256_or_si256(v[7], cut(load(u + 256), 5, 7)));
}

/* What group g's zero points of 1 take off. */
static inline __m256i start_of(const tni_clt_act *a, size_t g) {
  const __m256i z0 = _mm256_set1_epi32(a->zero[2 * g]), z1 = _mm256_set1_epi32(a->zero[2 * g + 1]);
  return _mm256_add_epi16(_mm256_srai_epi16(z0, 3), _mm256_srai_epi16(z1, 3));
}

/* Eight rows. A group's s16 sums stay within 32 * 508. */
__attribute__((always_inline)) static inline void tern17(bool fetch, const uint8_t *u, size_t units, const float *scale,
                                                         const tni_clt_act *a, float *acc) {
  const __m256 sw = _mm256_load_ps(scale);
  const int8_t *q = a->q;
  __m256 y = _mm256_setzero_ps();
  __m256i s = start_of(a, 0);
  size_t part = 0; /* of 32 k */
  for (size_t i = 0; i < units; i++, u += 320) {
    __m256i v[8];
    for (size_t line = 0; fetch && line < UNIT; line += 64)
      _mm_prefetch((const char *)u + TNI_X86_AHEAD + line, _MM_HINT_T0);
    open_unit(u, v);
#pragma GCC unroll 3
    for (int t = 0; t < 3; t++, q += 32) {
#pragma GCC unroll 8
      for (int j = 0; j < 8; j++) s = dot(s, cut(v[j], 2 * t, 3), q + j * 4);
      if (++part % 4) continue;
      y = add_scaled(y, _mm256_madd_epi16(s, _mm256_set1_epi16(1)), sw, a->scale[part / 4 - 1]);
      if (i + 1 < units || t < 2) s = start_of(a, part / 4);
    }
  }
  if (part % 4) y = add_scaled(y, _mm256_madd_epi16(s, _mm256_set1_epi16(1)), sw, a->scale[part / 4]);
  _mm256_storeu_ps(acc, y);
}

void tni_x86_gemv_f32_q8g128_tern17_1x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              float *acc) {
  const float *scale = (const float *)(const void *)row_block;
  tern17(false, row_block + TNI_DOT_SCALE_BYTES, superblocks, scale, a, acc);
  tern17(false, row_block + TNI_DOT_SCALE_BYTES + 32, superblocks, scale + 8, a, acc + 8);
}

/* The second half finds its weights in the cache. */
void tni_x86_gemv_f32_q8g128_tern17_1x16_avx2_prefetch(const uint8_t *row_block, size_t superblocks,
                                                       const tni_clt_act *a, float *acc) {
  const float *scale = (const float *)(const void *)row_block;
  tern17(true, row_block + TNI_DOT_SCALE_BYTES, superblocks, scale, a, acc);
  tern17(false, row_block + TNI_DOT_SCALE_BYTES + 32, superblocks, scale + 8, a, acc + 8);
}

/* 32 k, trits t, of eight rows of a unit as bytes with a zero point of 8. */
static void unpack_third(const uint8_t *u, int t, uint8_t *out) {
  __m256i v[8];
  open_unit(u, v);
  for (int j = 0; j < 8; j++) {
    const __m256i code = _mm256_and_si256(_mm256_srl_epi16(v[j], _mm_cvtsi32_si128(2 * t)), _mm256_set1_epi8(3));
    _mm256_store_si256((__m256i *)(void *)(out + j * 64), _mm256_add_epi8(code, _mm256_set1_epi8(7)));
  }
}

void tni_x86_gemm_f32_q8g128_tern17_6x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              size_t m0, size_t m1, float *acc) {
  enum { GROUPS = TNI_X86_PANEL_K / TNI_DOT_GROUP, THIRDS = TNI_X86_PANEL_K / 32 };
  const uint8_t *u = row_block + TNI_DOT_SCALE_BYTES;
  const size_t thirds = superblocks * 3;
  tni_x86_panel p;
  for (size_t g = 0; g < GROUPS; g++) memcpy(p.scale[g], row_block, sizeof p.scale[g]);
  for (size_t at = 0; at < thirds; at += THIRDS) {
    const size_t n = thirds - at < THIRDS ? thirds - at : THIRDS;
    for (size_t i = 0; i < n; i++) {
      const uint8_t *unit = u + (at + i) / 3 * UNIT;
      unpack_third(unit, (int)((at + i) % 3), p.w[i * 8]);
      unpack_third(unit + 32, (int)((at + i) % 3), p.w[i * 8] + 32);
    }
    p.groups = (n + 3) / 4;
    memset(p.w[n * 8], 8, (p.groups * 4 - n) * 8 * sizeof p.w[0]);
    p.first_group = at / 4;
    tni_x86_tiles_g128_6x16_avx2(&p, a, m0, m1, at == 0, acc);
  }
}
