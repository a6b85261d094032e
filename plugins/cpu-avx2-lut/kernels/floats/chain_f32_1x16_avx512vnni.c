/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "plugins/cpu-avx2-lut/kernels/floats/floats.h"

enum { LANES = 16 };
typedef __m512 vf;
typedef __m512d vd;
typedef __m512i vi;

/* A double per lane. */
typedef struct wide {
  vd lo, hi;
} wide;

#define SET(v) _mm512_set1_ps(v)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define MUL(a, b) _mm512_mul_ps(a, b)
#define DIV(a, b) _mm512_div_ps(a, b)
#define MAX(a, b) _mm512_max_ps(a, b)
#define MIN(a, b) _mm512_min_ps(a, b)
#define OR(a, b) FLOATS(_mm512_or_si512(INTS(a), INTS(b)))
#define AND(a, b) FLOATS(_mm512_and_si512(INTS(a), INTS(b)))
#define ANDNOT(a, b) FLOATS(_mm512_andnot_si512(INTS(a), INTS(b)))
#define XOR(a, b) FLOATS(_mm512_xor_si512(INTS(a), INTS(b)))
#define LOAD(p) _mm512_loadu_ps(p) /* arrays are aligned for registers of half the size */
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define BY_SIGN(a, b, z) _mm512_mask_blend_ps(_mm512_cmplt_epi32_mask(INTS(z), SETI(0)), a, b)
#define WHERE_LESS(x, y, a, b) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a)
#define RELU(x) MAX(SET(0.0f), x) /* of NaN and of two zeros the second */
#define SETD(v) _mm512_set1_pd(v)
#define ADDD(a, b) _mm512_add_pd(a, b)
#define SUBD(a, b) _mm512_sub_pd(a, b)
#define MULD(a, b) _mm512_mul_pd(a, b)
#define MAXD(a, b) _mm512_max_pd(a, b)
#define OR_D(a, b) _mm512_castsi512_pd(_mm512_or_si512(_mm512_castpd_si512(a), _mm512_castpd_si512(b)))
#define SETI(v) _mm512_set1_epi32(v)
#define ADDI(a, b) _mm512_add_epi32(a, b)
#define SUBI(a, b) _mm512_sub_epi32(a, b)
#define SRA(v, n) _mm512_srai_epi32(v, n)
#define SHL(v, n) _mm512_slli_epi32(v, n)
#define FLOATS(v) _mm512_castsi512_ps(v)
#define INTS(v) _mm512_castps_si512(v)

static inline wide widen_floats(vf x) {
  return (wide){_mm512_cvtps_pd(_mm512_castps512_ps256(x)),
                _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)))};
}

static inline vf narrow_doubles(wide w) {
  const __m512d lo = _mm512_castps_pd(_mm512_castps256_ps512(_mm512_cvtpd_ps(w.lo)));
  return _mm512_castpd_ps(_mm512_insertf64x4(lo, _mm256_castps_pd(_mm512_cvtpd_ps(w.hi)), 1));
}

static inline wide wide_neg_abs(wide a) {
  const vd sign = SETD(-0.0);
  return (wide){OR_D(sign, a.lo), OR_D(sign, a.hi)};
}

#include "plugins/common/cpu/kernels/chain_template.h"

static void put_tiles_avx512(float *y, size_t ldy, const float *tiles, size_t rows, size_t blocks) {
  for (size_t m = 0; m < rows; m++)
    for (size_t b = 0; b < blocks; b++)
      _mm512_stream_ps(y + m * ldy + b * TNI_CM_CHAIN_UNIT,
                       _mm512_loadu_ps(tiles + (b * rows + m) * TNI_CM_CHAIN_UNIT));
  _mm_sfence(); /* who is told that the task is done sees them */
}

static const tni_cm_chain_kernels avx512_chain_kernels = {CHAIN_KERNELS, .put = put_tiles_avx512};

const tni_cm_chain_kernels *tni_x86_chain_f32_1x16_avx512vnni(void) { return &avx512_chain_kernels; }
