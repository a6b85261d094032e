/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of processors, written as the kernel writes them: "0,2-3". Any thread.
 */
#ifndef TENON_BASE_CPUS_H
#define TENON_BASE_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <tenon/types.h>

enum { TNI_CPUS_TEXT = 128 };

/* Adds numbers and ranges, with commas between them. false: why is what is wrong with them, to stand behind the name of
 * their key; numbers before it may have been added. */
TN_MUST_CHECK bool tni_cpus_add(cpu_set_t *set, const char *text, char why[TNI_CPUS_TEXT]);
/* "..." at the end: there was no room for more. */
void tni_cpus_text(const cpu_set_t *set, char buf[TNI_CPUS_TEXT]);
/* What a thread of this process can be bound to, whatever the process or the caller is bound to now. */
TN_MUST_CHECK tn_status tni_cpus_usable(cpu_set_t *out);

#endif
