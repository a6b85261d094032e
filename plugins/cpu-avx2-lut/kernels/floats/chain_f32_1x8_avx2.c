/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "plugins/cpu-avx2-lut/kernels/floats/floats.h"

enum { LANES = 8 };
typedef __m256 vf;
typedef __m256d vd;
typedef __m256i vi;

/* A double per lane. */
typedef struct wide {
  vd lo, hi;
} wide;

#define SET(v) _mm256_set1_ps(v)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define MUL(a, b) _mm256_mul_ps(a, b)
#define DIV(a, b) _mm256_div_ps(a, b)
#define MAX(a, b) _mm256_max_ps(a, b)
#define MIN(a, b) _mm256_min_ps(a, b)
#define OR(a, b) _mm256_or_ps(a, b)
#define AND(a, b) _mm256_and_ps(a, b)
#define ANDNOT(a, b) _mm256_andnot_ps(a, b)
#define XOR(a, b) _mm256_xor_ps(a, b)
#define LOAD(p) _mm256_load_ps(p)
#define STORE(p, v) _mm256_store_ps(p, v)
#define BY_SIGN(a, b, z) _mm256_blendv_ps(a, b, z)
#define WHERE_LESS(x, y, a, b) _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LT_OQ))
#define RELU(x) MAX(SET(0.0f), x) /* of NaN and of two zeros the second */
#define SETD(v) _mm256_set1_pd(v)
#define ADDD(a, b) _mm256_add_pd(a, b)
#define SUBD(a, b) _mm256_sub_pd(a, b)
#define MULD(a, b) _mm256_mul_pd(a, b)
#define MAXD(a, b) _mm256_max_pd(a, b)
#define SETI(v) _mm256_set1_epi32(v)
#define ADDI(a, b) _mm256_add_epi32(a, b)
#define SUBI(a, b) _mm256_sub_epi32(a, b)
#define SRA(v, n) _mm256_srai_epi32(v, n)
#define SHL(v, n) _mm256_slli_epi32(v, n)
#define FLOATS(v) _mm256_castsi256_ps(v)
#define INTS(v) _mm256_castps_si256(v)

static inline wide widen_floats(vf x) {
  return (wide){_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}

static inline vf narrow_doubles(wide w) { return _mm256_set_m128(_mm256_cvtpd_ps(w.hi), _mm256_cvtpd_ps(w.lo)); }

static inline wide wide_neg_abs(wide a) {
  const vd sign = SETD(-0.0);
  return (wide){_mm256_or_pd(sign, a.lo), _mm256_or_pd(sign, a.hi)};
}

#include "plugins/common/cpu/kernels/chain_template.h"

static void put_tiles_avx2(float *y, size_t ldy, const float *tiles, size_t rows, size_t blocks) {
  for (size_t m = 0; m < rows; m++)
    for (size_t b = 0; b < blocks; b++) {
      const float *from = tiles + (b * rows + m) * TNI_CM_CHAIN_UNIT;
      _mm256_stream_ps(y + m * ldy + b * TNI_CM_CHAIN_UNIT, _mm256_load_ps(from));
      _mm256_stream_ps(y + m * ldy + b * TNI_CM_CHAIN_UNIT + 8, _mm256_load_ps(from + 8));
    }
  _mm_sfence(); /* who is told that the task is done sees them */
}

static const tni_cm_chain_kernels avx2_chain_kernels = {CHAIN_KERNELS, .put = put_tiles_avx2};

const tni_cm_chain_kernels *tni_x86_chain_f32_1x8_avx2(void) { return &avx2_chain_kernels; }
