/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#ifdef TNI_HOT_AVX2
#include <cpuid.h>
#include <stdatomic.h>
#endif
#ifdef TNI_HOT_ARM
#include <sys/auxv.h>
#endif

#include "runtime/ops/hot/dots.h"
#include "runtime/ops/hot/kept.h"
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
extern const tni_kept tni_kept_i8mm, tni_kept_dotprod, tni_kept_fp16fml, tni_kept_fp16;
enum { FP16 = 1 << 10, DOTPROD = 1 << 20, FP16FML = 1 << 23, I8MM = 1 << 13 }; /* HWCAP, and HWCAP2_I8MM */
/* Of one kind the best first. */
static const struct {
  const tni_kept *kept;
  unsigned long words, words2;
} kept_list[] = {{&tni_kept_i8mm, DOTPROD, I8MM},
                 {&tni_kept_dotprod, DOTPROD, 0},
                 {&tni_kept_fp16fml, FP16 | FP16FML, 0},
                 {&tni_kept_fp16, FP16, 0}};

const tni_kept *tni_hot_kept_variant(uint32_t index) {
  const unsigned long words = getauxval(AT_HWCAP), words2 = getauxval(AT_HWCAP2);
  for (size_t i = 0; i < sizeof kept_list / sizeof *kept_list; i++)
    if ((words & kept_list[i].words) == kept_list[i].words && (words2 & kept_list[i].words2) == kept_list[i].words2 &&
        index-- == 0)
      return kept_list[i].kept;
  return NULL;
}

extern const tni_dots tni_dots_i8mm, tni_dots_dotprod;
const tni_dots *tni_hot_dots_variant(uint32_t index) {
  const bool dotprod = getauxval(AT_HWCAP) & DOTPROD, i8mm = dotprod && (getauxval(AT_HWCAP2) & I8MM);
  if (i8mm && index == 0) return &tni_dots_i8mm;
  return dotprod && index == (i8mm ? 1 : 0) ? &tni_dots_dotprod : NULL;
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

#ifndef TNI_HOT_ARM
const tni_kept *tni_hot_kept_variant(uint32_t index) {
  (void)index;
  return NULL;
}
const tni_dots *tni_hot_dots_variant(uint32_t index) {
  (void)index;
  return NULL;
}
#endif

const tni_dots *tni_hot_dots(void) { return tni_hot_dots_variant(0); }

const tni_kept *tni_hot_kept(int kind) {
  const tni_kept *kept;
  for (uint32_t i = 0; (kept = tni_hot_kept_variant(i)) && kept->kind != kind;) i++;
  return kept;
}

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
