/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of a grid: a register is eight outputs.
 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

typedef __m256i ints;
typedef __m256 floats;
enum { LANES = 8 };

static inline ints load_codes(const uint8_t *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }
static inline ints keep_bits(ints v, int mask) { return _mm256_and_si256(v, _mm256_set1_epi8((char)mask)); }
static inline ints add_dot(ints sum, ints codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_dpbusd_avx_epi32(sum, codes, _mm256_set1_epi32(v));
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
#define ZERO() _mm256_setzero_si256()
#define ISA avxvnni
#include "plugins/cpu-avx2-lut/kernels/grid_sums_template.h"

#include "plugins/cpu-avx2-lut/kernels/gemv_grid_template.h"
