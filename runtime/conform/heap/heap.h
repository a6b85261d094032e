/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts what is asked of the C library's heap. malloc and its like, and mmap, are the worker's own, which all that is
 * loaded calls; under sanitizers, and where the C library is not glibc, nothing is counted.
 */
#ifndef TENON_CONFORM_HEAP_HEAP_H
#define TENON_CONFORM_HEAP_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* Begins to count (true), or ends and says how many calls there were since, of any thread. */
long tni_cf_heap_watch(bool on);
/* From now on what code at [from, to) asks for is followed: its blocks of malloc until they are freed, by whomever, and
 * its mappings. What code elsewhere asks for in its name (strdup) is not. */
void tni_cf_heap_follow(uintptr_t from, uintptr_t to);
/* Blocks that it has now, and mmap less munmap. */
long tni_cf_heap_followed(long *mappings);
/* From now on (or no longer) blocks that the followed code asked for and that are freed are filled with 0xdb and kept
 * from use: who still reads them gets nonsense. */
void tni_cf_heap_poison(bool on);
/* Whether one of them was written to since. */
bool tni_cf_heap_spoilt(void);
/* They are given back: there is room for others. */
void tni_cf_heap_drop(void);
/* Whether this build counts. */
bool tni_cf_heap_counts(void);

#endif
