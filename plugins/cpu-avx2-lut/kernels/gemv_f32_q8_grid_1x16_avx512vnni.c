/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of a grid: a register is 16 outputs.
 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

typedef __m512i ints;
typedef __m512 floats;
enum { LANES = 16 };

static inline ints load_codes(const uint8_t *p) { return _mm512_load_si512(p); }
static inline ints keep_bits(ints v, int mask) { return _mm512_and_si512(v, _mm512_set1_epi8((char)mask)); }
static inline ints add_dot(ints sum, ints codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(v));
}
static inline floats floats_at(const uint8_t *p) { return _mm512_loadu_ps(p); }
static inline floats halves_at(const uint8_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline floats bytes_at(const uint8_t *p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
static inline floats rounded(floats v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT); }

#define OP(name) _mm512_##name
#define ZERO() _mm512_setzero_si512()
#define ISA avx512vnni
#include "plugins/cpu-avx2-lut/kernels/grid_sums_template.h"

#include "plugins/cpu-avx2-lut/kernels/gemv_grid_template.h"
