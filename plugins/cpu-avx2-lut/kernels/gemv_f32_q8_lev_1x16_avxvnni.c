/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of lev.h: two registers are the outputs. Levels are raised to a zero point of
 * 128, which the word of x takes off.
 */
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/lev_avx2.h"

static inline ints lev_low(ints table, ints v);
static inline ints lev_high(ints table, ints v);
__attribute__((always_inline)) static inline ints lev_nibbles(uint32_t which, const uint8_t *u, uint32_t c);

__attribute__((always_inline)) static inline ints lev_sums(uint32_t which, uint32_t group, ints table, const uint8_t *u,
                                                           const int8_t *q, int32_t word) {
  const ints raised = _mm256_xor_si256(table, _mm256_set1_epi8(-128));
  ints s0 = _mm256_slli_epi32(_mm256_set1_epi32(word), 4), s1 = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (uint32_t c = 0; c < group / 8; c++) {
    const ints v = lev_nibbles(which, u, c);
    s0 = _mm256_dpbusd_avx_epi32(s0, lev_low(raised, v), four_codes(q + 8 * c));
    s1 = _mm256_dpbusd_avx_epi32(s1, lev_high(raised, v), four_codes(q + 8 * c + 4));
  }
  return _mm256_add_epi32(s0, s1);
}

#include "plugins/cpu-avx2-lut/kernels/lev_template.h"

LEV_GEMVS(avxvnni)
