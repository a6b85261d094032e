/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/cpu/kernels/cpu_features.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

static uint64_t saved_by_os(void) {
  uint32_t lo, hi;
  __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

/* Linux hands the tiles' state (feature 18) out on request, to all threads of the process. */
static bool tiles_granted(void) {
#if defined(__linux__)
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
  return false;
#endif
}

/* Of leaf 1's eax: 25 is Zen 3 and 4, 26 Zen 5. */
static uint32_t family_of(uint32_t eax) { return (eax >> 8 & 15) + (eax >> 20 & 255); }

uint32_t tni_cm_cpu_features(void) {
  uint32_t a, b, c, d, f = 0;
  if (!__get_cpuid(0, &a, &b, &c, &d)) return 0;
  const bool intel = b == signature_INTEL_ebx, amd = b == signature_AMD_ebx;
  if (intel) f |= TNI_CPU_PREFETCH;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX)) return 0;
  const bool zen5 = amd && family_of(a) >= 26;
  uint64_t os = saved_by_os();
  if ((os & 6) != 6) return 0;
  if (c & bit_FMA) f |= TNI_CPU_FMA;
  if (c & bit_F16C) f |= TNI_CPU_F16C;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  uint32_t max_sub = a;
  if (b & bit_AVX2) f |= TNI_CPU_AVX2;
  if (c & bit_GFNI) f |= TNI_CPU_GFNI;
  const uint32_t b512 = 1u << 16 | 1u << 30 | 1u << 31, c512 = 1u << 1 | 1u << 11; /* F BW VL; VBMI VNNI */
  if ((os & 0xe0) == 0xe0 && (b & b512) == b512 && (c & c512) == c512) f |= TNI_CPU_AVX512VNNI;
  if (zen5 || (amd && (f & TNI_CPU_AVX2) && !(b & 1u << 16))) f |= TNI_CPU_PREFETCH;
  const uint32_t tiles = 1u << 24 | 1u << 25; /* AMX-TILE, AMX-INT8 */
  if ((os & 0x60000) == 0x60000 && (d & tiles) == tiles && tiles_granted()) f |= TNI_CPU_AMX;
  if (max_sub >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4)) f |= TNI_CPU_AVXVNNI;
  return f;
}

void tni_cm_cpu_name(char *text, size_t n) {
  uint32_t r[12] = {0}, b, c, d, signature = 0;
  char brand[sizeof r + 1] = "x86-64";
  bool named = true;
  for (uint32_t i = 0; i < 3 && named; i++)
    named = __get_cpuid(0x80000002 + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
  if (named) memcpy(brand, r, sizeof r);
  brand[sizeof r] = 0;
  if (!__get_cpuid(1, &signature, &b, &c, &d)) signature = 0;
  snprintf(text, n, "%s %x", brand, signature);
}
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

/* Bytes of a vector in streaming mode, as the system has set it: rdsvl, which older assemblers lack. Only with SME. */
static uint64_t streaming_bytes(void) {
  register uint64_t bytes __asm__("x0");
  __asm__(".inst 0x04bf5820" : "=r"(bytes));
  return bytes;
}

/* Bits as the kernel's hwcap.h has them: an older C library may lack the names. */
uint32_t tni_cm_cpu_features(void) {
  unsigned long hw = getauxval(AT_HWCAP), hw2 = getauxval(AT_HWCAP2);
  uint32_t f = 0;
  if (hw & 1ul << 1) f |= TNI_CPU_NEON; /* ASIMD */
  if (hw & 1ul << 20) f |= TNI_CPU_DOTPROD;
  if (hw2 & 1ul << 13) f |= TNI_CPU_I8MM;
  if (hw2 & 1ul << 1) f |= TNI_CPU_SVE2;
  const unsigned long sme = 1ul << 23 | 1ul << 26 | 1ul << 29; /* SME; products of bytes; of floats */
  if ((hw2 & sme) == sme && streaming_bytes() <= 64) f |= TNI_CPU_SME | (hw2 & 1ul << 37 ? TNI_CPU_SME2 : 0);
  return f;
}
#else
uint32_t tni_cm_cpu_features(void) { return 0; }
#endif
#if !defined(__x86_64__)
void tni_cm_cpu_name(char *text, size_t n) {
#if defined(__aarch64__)
  snprintf(text, n, "aarch64");
#else
  snprintf(text, n, "unknown");
#endif
}
#endif

void tni_cm_cpu_missing(uint32_t have, uint32_t wanted, char *text, size_t n) {
  static const char *const names[] = {"avx2", "fma",  "f16c", "avx_vnni", "avx512_vnni", "neon", "dotprod",
                                      "i8mm", "sve2", "amx",  "prefetch", "gfni",        "sme",  "sme2"};
  size_t at = 0;
  if (n) text[0] = 0;
  for (uint32_t i = 0; i < sizeof names / sizeof *names && at < n; i++) {
    if (!(wanted & ~have & 1u << i)) continue;
    int w = snprintf(text + at, n - at, "%s%s", at ? ", " : "", names[i]);
    if (w > 0) at += (size_t)w;
  }
}
