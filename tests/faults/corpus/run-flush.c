/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static void flush_denormals(void) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined(__aarch64__)
  uint64_t v;
  __asm__ volatile("mrs %0, fpcr" : "=r"(v));
  __asm__ volatile("msr fpcr, %0" : : "r"(v | (UINT64_C(1) << 24)));
#endif
}

IN_RUN(flush_denormals())
