/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of lev.h, with GFNI, which shifts and masks at once. Levels are raised to a zero
 * point of 128, which the word of x takes off.
 */
#define LEV_ROW
#define LEV_AHEAD TNI_X86_LEV_AHEAD
#define lev_row_table(which) _mm256_xor_si256(lev_table(which), _mm256_set1_epi8(-128))
#define lev_word(word) _mm256_slli_epi32(_mm256_set1_epi32(word), 4)
#define add_levels(sum, w, x) _mm256_dpbusd_avx_epi32(sum, w, x)
#include "plugins/cpu-avx2-lut/kernels/lev_avx2.h"

LEV_GEMVS(avxvnni)
