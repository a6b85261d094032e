/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of what a plugin's process may change while a task computes. A kernel checks an index and then uses it; what
 * lies in memory that such a process may write is another by then, if the process wants that. So a CPU task of this
 * process reads a copy that nobody else has, and what the host's own kernels write as whole numbers, which some read
 * again, is copied to its place after them.
 *
 * The copies are the first part of the task's scratch, in the order of its uses. Caches are not copied: kernels take
 * floats from them, and no index.
 */
#ifndef TENON_MEMORY_COPIES_H
#define TENON_MEMORY_COPIES_H

#include "runtime/memory/run.h"

/* It lies where a plugin's process may write at any time, and is no cache. */
bool tni_region_is_foreign(const tn_model *m, const tni_exec *x, uint32_t region);
/* Bytes that the copies of task t take; 0: it needs none. */
uint64_t tni_copies_bytes(const tn_model *m, const tni_exec *x, const tni_sregion *regions, uint32_t t);
/* The task's views of what is copied point to the copies. */
void tni_copies_view(const tn_model *m, tni_sexec *x, uint32_t t);
bool tni_use_is_copied(const tni_sexec *x, uint32_t t, uint32_t u);
/* Before the task runs, and after it. Any thread that runs it. */
void tni_copies_take(const tni_sexec *x, uint32_t t);
void tni_copies_give(const tni_sexec *x, uint32_t t);

#endif
