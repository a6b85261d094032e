/* SPDX-License-Identifier: Apache-2.0
 * What -ffast-math links into a shared object: a constructor that switches denormals off in the loading thread. */
#include "base.h"

__attribute__((constructor)) static void no_denormals(void) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined(__aarch64__)
  uint64_t v;
  __asm__ volatile("mrs %0, fpcr" : "=r"(v));
  __asm__ volatile("msr fpcr, %0" : : "r"(v | (UINT64_C(1) << 24)));
#endif
}

static tn_status fault_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  return base_entry(host, neg, out, "fastmath");
}

TN_PLUGIN(fault, fault_entry)
