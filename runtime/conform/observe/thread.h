/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread has that is not the plugin's to change: looked at around calls and around bodies of parallel_for.
 */
#ifndef TENON_CONFORM_OBSERVE_THREAD_H
#define TENON_CONFORM_OBSERVE_THREAD_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tni_cf_thread {
  uint64_t fpmode;
  uint32_t x87; /* control word; 0 where there is none */
  sigset_t mask;
  cpu_set_t cpus;
  char name[16];
  int nice, policy, slack, cancel;
} tni_cf_thread;

/* quick: only what is read without asking the kernel; the rest is 0. */
void tni_cf_thread_take(tni_cf_thread *t, bool quick);
/* Whether the thread is in another state than before; text: the first such thing, as "leaves its thread with SIGUSR1
 * blocked". The floating-point mode is put back. */
bool tni_cf_thread_differs(const tni_cf_thread *before, bool quick, char *text, size_t n);

#endif
