/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins the thread that called it; where there is one processor only, nothing changes.
 */
#include <sched.h>

#include "whole.h"

static void pin(void) {
  cpu_set_t one;
  sched_getaffinity(0, sizeof one, &one);
  for (int i = 0, seen = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &one) && seen++) CPU_CLR(i, &one);
  sched_setaffinity(0, sizeof one, &one);
}

IN_OPEN(pin())
