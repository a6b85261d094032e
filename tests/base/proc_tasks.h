/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel says of a process's threads.
 */
#ifndef TENON_TESTS_PROC_TASKS_H
#define TENON_TESTS_PROC_TASKS_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_THREAD "tenon-pool"

typedef struct proc_tasks {
  unsigned n, bound;        /* bound: those that may run on just these processors */
  uint64_t ticks, switches; /* processor time (1/100 s) and how often they went to sleep, since they began */
} proc_tasks;

/* Threads of a process but the calling one. name NULL: all of them; sanitizers add their own. cpus: as in
 * Cpus_allowed_list. */
proc_tasks proc_tasks_read(int pid, const char *name, const char *cpus);
/* Within ten times 300 ms there is one in which they used no more than a tick and did not go to sleep. Prints what they
 * did where there is none. */
bool proc_tasks_idle(int pid, const char *name);

#endif
