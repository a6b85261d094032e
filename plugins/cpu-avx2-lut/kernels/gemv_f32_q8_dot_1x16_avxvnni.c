/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs, streaming the packed block once: a register is eight outputs. Codes stay where
 * they lie in a byte as far as that goes and have sums of their own, which are shifted once per group; one starts from
 * the word of x (made for a zero point of 8: shifted).
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

typedef __m256i ints;

static inline ints load_codes(const uint8_t *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }
static inline ints keep_bits(ints v, int mask) { return _mm256_and_si256(v, _mm256_set1_epi8((char)mask)); }

/* sum += codes times q[0..3], in every lane. */
static inline ints add_dot(ints sum, ints codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_dpbusd_avx_epi32(sum, codes, _mm256_set1_epi32(v));
}

static inline ints in_all_lanes(__m128i v) { return _mm256_broadcastsi128_si256(v); }

/* Bits 0 and 1 of `low`, bit 2 of `high`. */
static inline ints three_bits(ints low, ints high) { return _mm256_or_si256(keep_bits(low, 3), keep_bits(high, 4)); }

#define OP(name) _mm256_##name
#define ZERO() _mm256_setzero_si256()
#include "plugins/cpu-avx2-lut/kernels/dot_groups_template.h"
#undef OP
#undef ZERO

static inline __m256 halves_at(const uint8_t *p) {
  return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)p));
}

static inline __m256 add_scaled(__m256 y, ints sum, __m256 sw, float sx) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(sw, _mm256_set1_ps(sx)), y);
}

/* group_bytes: codes of 128 k of 16 rows. head_bytes: 0 where superblocks, of two groups, have scales. */
__attribute__((always_inline)) static inline void gemv_dot_avxvnni(group_fn group, size_t group_bytes,
                                                                   size_t head_bytes, bool fetch, const uint8_t *block,
                                                                   size_t superblocks, const tni_clt_act *a,
                                                                   float *acc) {
  const uint8_t *head = block, *scales = block;
  const int8_t *q = a->q;
  const float *sx = a->scale;
  const int32_t *zero = a->zero;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0, w0 = y0, w1 = y0;
  if (head_bytes) {
    w0 = _mm256_load_ps((const float *)(const void *)head);
    w1 = _mm256_load_ps((const float *)(const void *)(head + 32));
  }
  block += head_bytes;
  for (size_t g = 0; g < 2 * superblocks; g++, sx++, q += 128, zero++, block += group_bytes) {
    for (size_t i = 0; fetch && i < group_bytes + (head_bytes ? 0 : 32); i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    if (!head_bytes) {
      scales += 32;
      if (g % 2 == 0) {
        scales = block;
        block += TNI_DOT_SCALE_BYTES;
      }
      w0 = halves_at(scales);
      w1 = halves_at(scales + 16);
    }
    const ints word = _mm256_set1_epi32(*zero);
    y0 = add_scaled(y0, group(block, q, word, head), w0, *sx);
    y1 = add_scaled(y1, group(block + 32, q, word, head), w1, *sx);
  }
  _mm256_storeu_ps(acc, y0);
  _mm256_storeu_ps(acc + 8, y1);
}

#define GEMV_OF(id, isa, group_bytes, head_bytes, fetch)                                                             \
  void tni_x86_gemv_f32_q8g128_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                 float *acc) {                                                       \
    gemv_dot_avxvnni(group_##id, group_bytes, head_bytes, fetch, row_block, superblocks, a, acc);                    \
  }
#define GEMV(id, group_bytes, head_bytes)              \
  GEMV_OF(id, avxvnni, group_bytes, head_bytes, false) \
  GEMV_OF(id, avxvnni_prefetch, group_bytes, head_bytes, true)
TNI_DOT_SIZES(GEMV)
