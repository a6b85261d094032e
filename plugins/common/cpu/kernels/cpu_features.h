/* SPDX-License-Identifier: Apache-2.0
 *
 * What this CPU and its operating system can run, as bits: cpuid on x86-64, the kernel's auxiliary vector on aarch64.
 * On other architectures nothing.
 */
#ifndef TENON_COMMON_CPU_KERNELS_CPU_FEATURES_H
#define TENON_COMMON_CPU_KERNELS_CPU_FEATURES_H

#include <stddef.h>
#include <stdint.h>

enum {
  TNI_CPU_AVX2 = 1, /* AVX2, and the OS saves ymm */
  TNI_CPU_FMA = 2,
  TNI_CPU_F16C = 4,
  TNI_CPU_AVXVNNI = 8,
  TNI_CPU_AVX512VNNI = 16, /* AVX-512 F, BW, VL, VBMI and VNNI, and the OS saves zmm */
  TNI_CPU_NEON = 32,       /* every aarch64 */
  TNI_CPU_DOTPROD = 64,
  TNI_CPU_I8MM = 128,
  TNI_CPU_SVE2 = 256,
  TNI_CPU_AMX = 512, /* AMX tiles of int8; the process was granted their state */
  /* What streams through memory is faster with software prefetch: Intel's, and AMD's without AVX-512 (measured on Zen
   * 3) and from Zen 5 on. Zen 4 is slower with it. */
  TNI_CPU_PREFETCH = 1024,
  TNI_CPU_GFNI = 2048, /* of AVX2's registers */
  TNI_CPU_SME = 4096,  /* with vectors of at most 64 bytes in streaming mode */
  TNI_CPU_SME2 = 8192
};

uint32_t tni_cm_cpu_features(void);
enum { TNI_CPU_NAME = 96 };
/* What the processor calls itself, with family, model and stepping as one number: "Intel(R) Xeon(R) Processor 806f8".
 * Elsewhere than on x86-64 the architecture alone. Always terminated. */
void tni_cm_cpu_name(char *text, size_t n);
/* Names of the bits of `wanted` that `have` lacks, "avx2, fma"; empty if none. Always terminated. */
void tni_cm_cpu_missing(uint32_t have, uint32_t wanted, char *text, size_t n);

#endif
