/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/fpmode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

enum { STICKY = 0x3f }; /* exception flags: results, not mode */

uint64_t tni_fpmode_get(void) { return _mm_getcsr() & ~(unsigned)STICKY; }
void tni_fpmode_put(uint64_t mode) { _mm_setcsr((_mm_getcsr() & STICKY) | (unsigned)mode); }
#elif defined(__aarch64__)
uint64_t tni_fpmode_get(void) {
  uint64_t v;
  __asm__ volatile("mrs %0, fpcr" : "=r"(v));
  return v;
}
void tni_fpmode_put(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#else
uint64_t tni_fpmode_get(void) { return 0; }
void tni_fpmode_put(uint64_t mode) { (void)mode; }
#endif
