/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "runtime/quant/internal.h"

extern const tni_quant_loops tni_quant_loops_base;
#ifdef TNI_QUANT_AVX2
extern const tni_quant_loops tni_quant_loops_avx2, tni_quant_loops_avx512;
static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const tni_quant_loops *tni_quant_loops_variant(uint32_t index) {
#ifdef TNI_QUANT_AVX2
  if (has_avx512() && index-- == 0) return &tni_quant_loops_avx512;
  if (__builtin_cpu_supports("avx2") && index-- == 0) return &tni_quant_loops_avx2;
#endif
  return index == 0 ? &tni_quant_loops_base : NULL;
}
