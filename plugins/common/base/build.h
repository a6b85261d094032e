/* SPDX-License-Identifier: Apache-2.0
 *
 * A program under construction: its needs, its slots, and the uses and dependencies of its tasks. What fails for want
 * of memory says so in no_memory. Indices are TN_NONE then.
 */
#ifndef TENON_COMMON_BASE_BUILD_H
#define TENON_COMMON_BASE_BUILD_H

#include <stdbool.h>
#include <tenon/plugin.h>

#include "plugins/common/base/mem.h"

typedef struct tni_cm_build {
  tni_cm_mem *mem; /* the program's */
  const tn_subgraph *s;
  tn_program_info *info; /* the program's: how many there are of each */
  tn_need **needs;
  tn_slot **slots; /* each the begin of a struct of the backend's */
  tn_id *writer;   /* [slots] the task that writes it, or TN_NONE */
  bool no_memory;
} tni_cm_build;

/* Lists for at most max_slots slots and needs. */
bool tni_cm_build_begin(tni_cm_build *b, tni_cm_mem *mem, const tn_subgraph *s, tn_program_info *info,
                        size_t max_slots);

/* Zeroed memory of the program. */
void *tni_cm_get(tni_cm_build *b, size_t count, size_t size);
const void *tni_cm_copy(tni_cm_build *b, const void *from, size_t count, size_t size);

/* As `from` says, of these values; values and params are copied. */
tn_id tni_cm_add_need(tni_cm_build *b, const tn_need *from, const tn_id *values, uint32_t n, const int64_t *params,
                      uint32_t n_params);
/* As `from` says, without alias, in `size` bytes, of which it is the begin; named prefix and name. */
tn_id tni_cm_add_slot(tni_cm_build *b, const tn_slot *from, size_t size, const char *prefix, const char *name);
/* The slot of a value. */
tn_id tni_cm_find_slot(const tni_cm_build *b, tn_id value);

/* TN_SLOT_* of a value that comes from outside, and of one that a task makes. */
uint32_t tni_cm_kind_read(const tn_value *v);
uint32_t tni_cm_kind_written(const tni_cm_build *b, tn_id value);

/* Room for max_uses uses and dependencies of a task, and its name. */
bool tni_cm_begin_task(tni_cm_build *b, tn_task *t, uint32_t max_uses, const char *prefix, const char *name);
/* A use of the task that is being built, which will be the next of the program: its index. A read of what an earlier
 * task wrote becomes a dependency. */
uint32_t tni_cm_add_use(tni_cm_build *b, tn_task *t, tn_id slot, uint32_t access);

#endif
