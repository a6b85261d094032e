/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs, streaming the packed block once: a register is 16 outputs. Codes stay where they
 * lie in a byte as far as that goes and have sums of their own, which are shifted once per group; one starts from the
 * word of x (made for a zero point of 8: shifted).
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

typedef __m512i ints;

static inline ints load_codes(const uint8_t *p) { return _mm512_load_si512(p); }
static inline ints in_all_lanes(__m128i v) { return _mm512_broadcast_i32x4(v); }

static inline ints add_dot(ints sum, ints codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(v));
}

static inline ints keep_bits(ints v, int mask) { return _mm512_and_si512(v, _mm512_set1_epi8((char)mask)); }

/* Bits 0 and 1 of `low`, bit 2 of `high`. */
static inline ints three_bits(ints low, ints high) {
  enum { LOW_OR_HIGH_BY_MASK = 0xca };
  return keep_bits(_mm512_ternarylogic_epi64(_mm512_set1_epi8(3), low, high, LOW_OR_HIGH_BY_MASK), 7);
}

#define OP(name) _mm512_##name
#define ZERO() _mm512_setzero_si512()
#include "plugins/cpu-avx2-lut/kernels/dot_groups_template.h"
#undef OP
#undef ZERO

static inline __m512 halves_at(const uint8_t *p) {
  return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)p));
}

static inline __m512 add_scaled(__m512 y, ints sum, __m512 sw, float sx) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(sw, _mm512_set1_ps(sx)), y);
}

/* Superblocks of two groups. head_bytes: 0 where they have scales. */
__attribute__((always_inline)) static inline void gemv_dot_avx512vnni(group_fn group, size_t group_bytes,
                                                                      size_t head_bytes, bool fetch,
                                                                      const uint8_t *block, size_t superblocks,
                                                                      const tni_clt_act *a, float *acc) {
  const uint8_t *head = block;
  const int8_t *q = a->q;
  const float *sx = a->scale;
  const int32_t *zero = a->zero;
  __m512 y = _mm512_setzero_ps(), s0 = y, s1 = y;
  if (head_bytes) s0 = s1 = _mm512_load_ps((const float *)(const void *)block);
  block += head_bytes;
  for (size_t sb = 0; sb < superblocks; sb++, q += 256, sx += 2, zero += 2, block += 2 * group_bytes) {
    for (size_t i = 0; fetch && i < 2 * group_bytes + (head_bytes ? 0 : 64); i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    if (!head_bytes) {
      s0 = halves_at(block);
      s1 = halves_at(block + 32);
      block += TNI_DOT_SCALE_BYTES;
    }
    y = add_scaled(y, group(block, q, _mm512_set1_epi32(zero[0]), head), s0, sx[0]);
    __asm__ volatile(
        "" ::
            : "memory"); /* clang 14 reads both groups in turns: of w8g at half the speed of one stream (Zen 4) */
    y = add_scaled(y, group(block + group_bytes, q + 128, _mm512_set1_epi32(zero[1]), head), s1, sx[1]);
  }
  _mm512_storeu_ps(acc, y);
}

#define GEMV_OF(id, isa, group_bytes, head_bytes, fetch)                                                             \
  void tni_x86_gemv_f32_q8g128_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                 float *acc) {                                                       \
    gemv_dot_avx512vnni(group_##id, group_bytes, head_bytes, fetch, row_block, superblocks, a, acc);                 \
  }
#define GEMV(id, group_bytes, head_bytes)                 \
  GEMV_OF(id, avx512vnni, group_bytes, head_bytes, false) \
  GEMV_OF(id, avx512vnni_prefetch, group_bytes, head_bytes, true)
TNI_DOT_SIZES(GEMV)
