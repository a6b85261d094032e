/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel says of a process's threads.
 */
#ifndef TENON_TESTS_PROC_TASKS_H
#define TENON_TESTS_PROC_TASKS_H

#include <stdbool.h>
#include <stdint.h>

/* Of all threads but the calling one. */
typedef struct proc_tasks {
  unsigned n, bound;         /* bound: those that may run on just these processors */
  unsigned pool, pool_bound; /* those of a pool, by their name */
  uint64_t ticks, switches;  /* processor time (1/100 s) and how often they went to sleep, since they began */
} proc_tasks;

/* cpus: as in Cpus_allowed_list. */
proc_tasks proc_tasks_read(int pid, const char *cpus);
/* Within ten times 300 ms there is one in which no thread but the caller used more than a tick or went to sleep. Prints
 * what they did where there is none. */
bool proc_tasks_idle(int pid);

#endif
