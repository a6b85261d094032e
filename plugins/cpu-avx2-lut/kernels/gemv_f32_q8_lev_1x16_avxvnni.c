/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of lev.h: two registers are the outputs.
 */
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/lev_avx2.h"

#define OP_XOR(a, b) _mm256_xor_si256(a, b)
#define DPBUSD(sum, u, s) _mm256_dpbusd_avx_epi32(sum, u, s)
#define four_in_all four_codes
#include "plugins/cpu-avx2-lut/kernels/lev_template.h"

LEV_GEMVS(avxvnni)
