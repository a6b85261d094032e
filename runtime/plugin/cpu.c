/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/cpu.h"

#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

enum {
  X_SSE42,
  X_AVX,
  X_F16C,
  X_FMA,
  X_AVX2,
  X_BMI2,
  X_AVX512F,
  X_AVX512BW,
  X_AVX512VL,
  X_AVX512VNNI,
  X_AVXVNNI,
  X_POPCNT
};
enum { A_ASIMD, A_FP16, A_DOTPROD, A_I8MM, A_BF16, A_SVE, A_SVE2, A_SME, A_SME2 };

static const char x86[] = "x86-64", arm[] = "aarch64";

static const tni_cpu_feature feature_table[] = {
    {"sse4.2", x86, 1u << X_SSE42},
    {"popcnt", x86, 1u << X_POPCNT},
    {"avx", x86, 1u << X_AVX},
    {"f16c", x86, 1u << X_F16C},
    {"fma", x86, 1u << X_FMA},
    {"avx2", x86, 1u << X_AVX2},
    {"bmi2", x86, 1u << X_BMI2},
    {"avx512f", x86, 1u << X_AVX512F},
    {"avx512bw", x86, 1u << X_AVX512BW},
    {"avx512vl", x86, 1u << X_AVX512VL},
    {"avx512vnni", x86, 1u << X_AVX512VNNI},
    {"avxvnni", x86, 1u << X_AVXVNNI},
    {"asimd", arm, 1u << A_ASIMD},
    {"neon", arm, 1u << A_ASIMD},
    {"fp16", arm, 1u << A_FP16},
    {"dotprod", arm, 1u << A_DOTPROD},
    {"i8mm", arm, 1u << A_I8MM},
    {"bf16", arm, 1u << A_BF16},
    {"sve", arm, 1u << A_SVE},
    {"sve2", arm, 1u << A_SVE2},
    {"sme", arm, 1u << A_SME},
    {"sme2", arm, 1u << A_SME2},
};

const tni_cpu_feature *tni_cpu_table(size_t *n) {
  *n = sizeof feature_table / sizeof *feature_table;
  return feature_table;
}

const tni_cpu_feature *tni_cpu_find(const char *arch, const char *name) {
  for (size_t i = 0; i < sizeof feature_table / sizeof *feature_table; i++)
    if (strcmp(feature_table[i].arch, arch) == 0 && strcmp(feature_table[i].name, name) == 0) return &feature_table[i];
  return NULL;
}

#if defined(__x86_64__)
const char *tni_cpu_arch(void) { return x86; }

static uint64_t take_feature(uint32_t reg, uint32_t bit, uint32_t feature) {
  return (uint64_t)(reg >> bit & 1) << feature;
}

uint64_t tni_cpu_detect(void) {
  uint32_t a, b, c, d, xcr0 = 0, hi;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  uint64_t bits = take_feature(c, 20, X_SSE42) | take_feature(c, 23, X_POPCNT);
  if (c >> 27 & 1) __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(hi) : "c"(0));
  bool ymm = (xcr0 & 0x6) == 0x6, zmm = (xcr0 & 0xe6) == 0xe6;
  if (ymm) bits |= take_feature(c, 28, X_AVX) | take_feature(c, 29, X_F16C) | take_feature(c, 12, X_FMA);
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return bits;
  uint32_t subleafs = a;
  bits |= take_feature(b, 8, X_BMI2);
  if (ymm) bits |= take_feature(b, 5, X_AVX2);
  if (zmm)
    bits |= take_feature(b, 16, X_AVX512F) | take_feature(b, 30, X_AVX512BW) | take_feature(b, 31, X_AVX512VL) |
            take_feature(c, 11, X_AVX512VNNI);
  if (ymm && subleafs >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) bits |= take_feature(a, 4, X_AVXVNNI);
  return bits;
}
#elif defined(__aarch64__)
const char *tni_cpu_arch(void) { return arm; }

/* Bit numbers of Linux's arch/arm64 hwcap ABI. */
uint64_t tni_cpu_detect(void) {
  unsigned long one = getauxval(AT_HWCAP), two = getauxval(AT_HWCAP2);
  uint64_t bits = 0;
  if (one >> 1 & 1) bits |= 1u << A_ASIMD;
  if (one >> 10 & 1) bits |= 1u << A_FP16;
  if (one >> 20 & 1) bits |= 1u << A_DOTPROD;
  if (one >> 22 & 1) bits |= 1u << A_SVE;
  if (two >> 1 & 1) bits |= 1u << A_SVE2;
  if (two >> 13 & 1) bits |= 1u << A_I8MM;
  if (two >> 14 & 1) bits |= 1u << A_BF16;
  if (two >> 23 & 1) bits |= 1u << A_SME;
  if (two >> 37 & 1) bits |= 1u << A_SME2;
  return bits;
}
#else
const char *tni_cpu_arch(void) { return "unknown"; }
uint64_t tni_cpu_detect(void) { return 0; }
#endif
