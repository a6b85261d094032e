/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts what is asked of the C library's heap. malloc and its like are the worker's own, which all that is loaded
 * calls; under sanitizers, and where the C library is not glibc, nothing is counted.
 */
#ifndef TENON_CONFORM_HEAP_HEAP_H
#define TENON_CONFORM_HEAP_HEAP_H

#include <stdbool.h>

/* Begins to count (true), or ends and says how many calls there were since, of any thread. */
long tni_cf_heap_watch(bool on);
/* Whether this build counts. */
bool tni_cf_heap_counts(void);

#endif
