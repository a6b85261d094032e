/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/process/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint32_t tni_futex_wait(_Atomic uint32_t *at, uint32_t seen, _Atomic uint32_t *sleeps, int ms) {
  uint32_t now = atomic_load_explicit(at, memory_order_acquire);
  struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
  while (now == seen) {
    atomic_store(sleeps, 1);
    /* The kernel looks at *at again: who counts up after that wakes. */
    (void)syscall(SYS_futex, at, FUTEX_WAIT, seen, ms < 0 ? NULL : &t, NULL, 0);
    atomic_store(sleeps, 0);
    now = atomic_load(at);
    if (ms >= 0) break; /* also where somebody wakes for nothing: who may do so as often as he likes */
  }
  return now;
}

void tni_futex_post(_Atomic uint32_t *at, uint32_t value, _Atomic uint32_t *sleeps) {
  atomic_store(at, value);
  if (atomic_load(sleeps)) syscall(SYS_futex, at, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
