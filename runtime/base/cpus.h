/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of processors, written as the kernel writes them: "0,2-3". Any thread.
 */
#ifndef TENON_BASE_CPUS_H
#define TENON_BASE_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/types.h>

/* TNI_CPUS_CAPACITY: what the system says of the fastest. */
enum { TNI_CPUS_TEXT = 128, TNI_CPUS_CAPACITY = 1024 };
#define TNI_CPUS_FOLDER "/sys/devices/system/cpu"
#define TNI_CPUS_BIG "big" /* in place of a list: tni_cpus_keep_big of those that are there */

/* Adds numbers and ranges, with commas between them. false: why is what is wrong with them, to stand behind the name of
 * their key; numbers before it may have been added. */
TN_MUST_CHECK bool tni_cpus_add(cpu_set_t *set, const char *text, char why[TNI_CPUS_TEXT]);
/* "..." at the end: there was no room for more. */
void tni_cpus_text(const cpu_set_t *set, char buf[TNI_CPUS_TEXT]);
/* What a thread of this process can be bound to, whatever the process or the caller is bound to now. */
TN_MUST_CHECK tn_status tni_cpus_usable(cpu_set_t *out);

/* How much a processor does beside the fastest (cpu_capacity of folder, which is TNI_CPUS_FOLDER but in tests), by
 * number: out has room for CPU_SETSIZE. False, and out is not whole: the system does not tell it of each, or they are
 * equal. */
TN_MUST_CHECK bool tni_cpus_capacities(const char *folder, const cpu_set_t *of, uint16_t *out);
/* Takes out of set those that do less than half of what its fastest does. False: there are none such, or nothing is
 * known. */
bool tni_cpus_keep_big(const char *folder, cpu_set_t *set);

#endif
