/* SPDX-License-Identifier: Apache-2.0
 *
 * A number in shared memory that one process counts up and another waits for, in the kernel: to look for it in a loop
 * first made steps longer wherever the two share processors (docs/isolation.md).
 */
#ifndef TENON_PLUGIN_PROCESS_FUTEX_H
#define TENON_PLUGIN_PROCESS_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Until *at is not `seen`, or, where ms is not negative, somebody wakes or ms have passed: what it is then. sleeps: set
 * while in the kernel. */
uint32_t tni_futex_wait(_Atomic uint32_t *at, uint32_t seen, _Atomic uint32_t *sleeps, int ms);
void tni_futex_post(_Atomic uint32_t *at, uint32_t value, _Atomic uint32_t *sleeps);

#endif
