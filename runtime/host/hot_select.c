/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "runtime/host/hot.h"

extern const tni_hot tni_hot_base;
#ifdef TNI_HOT_AVX2
extern const tni_hot tni_hot_avx2, tni_hot_twice;
#endif

const tni_hot *tni_hot_variant(uint32_t index) {
  if (index == 0) return &tni_hot_base;
#ifdef TNI_HOT_AVX2
  if (index == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &tni_hot_avx2;
#endif
  return NULL;
}

const tni_hot *tni_hot_get(void) {
#ifdef TNI_HOT_AVX2
  const tni_hot *best = tni_hot_variant(1);
  return best ? best : &tni_hot_twice;
#else
  return &tni_hot_base;
#endif
}
