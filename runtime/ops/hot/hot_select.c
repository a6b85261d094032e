/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#ifdef TNI_HOT_AVX2
#include <cpuid.h>
#include <stdatomic.h>
#endif
#ifdef TNI_HOT_ARM
#include <sys/auxv.h>
#endif

#include "runtime/ops/hot/loops.h"

#ifdef TNI_HOT_BASE
extern const tni_hot tni_hot_base;
#endif
#ifdef TNI_HOT_ARM
extern const tni_hot tni_hot_neon, tni_hot_bf16;
static bool has_bfmmla(void) {
  enum { BF16 = 1 << 14 }; /* HWCAP2_BF16; older headers lack the name */
  return getauxval(AT_HWCAP2) & BF16;
}
#endif
#ifdef TNI_HOT_AVX2
extern const tni_hot tni_hot_avx2, tni_hot_twice;
/* Not every compiler's __builtin_cpu_supports knows the word. Asked once: in a virtual machine cpuid takes as long as a
 * thousand calls. */
static bool has_f16c(void) {
  enum { UNKNOWN, NO, YES };
  static atomic_int known;
  int is = atomic_load_explicit(&known, memory_order_relaxed);
  unsigned a, b, c, d;
  if (is == UNKNOWN) {
    is = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) ? YES : NO;
    atomic_store_explicit(&known, is, memory_order_relaxed);
  }
  return is == YES;
}
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
#endif
#ifdef TNI_HOT_AVX512
extern const tni_hot tni_hot_avx512;
static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif
#ifdef TNI_HOT_AVX512BF16
extern const tni_hot tni_hot_avx512bf16;
static bool has_bf16(void) { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#endif

const tni_hot *tni_hot_variant(uint32_t index) {
#ifdef TNI_HOT_BASE
  if (index == 0) return &tni_hot_base;
#endif
#ifdef TNI_HOT_ARM
  if (index == 0) return &tni_hot_neon;
  if (index == 1 && has_bfmmla()) return &tni_hot_bf16;
#endif
#ifdef TNI_HOT_AVX2
  if (index == 0 && has_avx2()) return &tni_hot_avx2;
#endif
#ifdef TNI_HOT_AVX512
  if (index == 1 && has_avx512()) return &tni_hot_avx512;
#endif
#ifdef TNI_HOT_AVX512BF16
  if (index == 2 && has_bf16()) return &tni_hot_avx512bf16;
#endif
  return NULL;
}

const tni_hot *tni_hot_get(void) {
#ifdef TNI_HOT_AVX2
  const tni_hot *best = NULL;
  for (uint32_t i = 3; i && !best; i--) best = tni_hot_variant(i - 1);
  return best ? best : &tni_hot_twice;
#elif defined(TNI_HOT_ARM)
  return has_bfmmla() ? &tni_hot_bf16 : &tni_hot_neon;
#else
  return &tni_hot_base;
#endif
}
