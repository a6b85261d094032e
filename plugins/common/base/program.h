/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs, plans and arguments of all backends have in common.
 */
#ifndef TENON_COMMON_BASE_PROGRAM_H
#define TENON_COMMON_BASE_PROGRAM_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* The head of the graph that a program is lowered from: what the host's eval needs. Its lists are lent for the call. */
void tni_cm_graph_head(tn_graph *mine, const tn_graph *theirs);
/* The lists of a finished program: pointers to structs that begin with the public ones. */
void tni_cm_info_lists(tn_program_info *info, const void *needs, const void *slots, const void *tasks);

/* `bytes` zeroed, freed by host->free; NULL and an error without memory. */
void *tni_cm_plan_new(const tn_host *host, size_t bytes, const char *name, tn_error *err);
/* The same for arguments of a task, which takes a view for each use and one for its scratch: n is checked. */
TN_MUST_CHECK tn_status tni_cm_args_new(const tn_host *host, const tn_task *t, uint32_t n, size_t bytes, void **out,
                                        tn_error *err);
/* TN_E_INVALID: the memory of `what` is smaller than it must be. */
tn_status tni_cm_too_small(tn_error *err, const char *task, const char *what, uint64_t bytes, uint64_t wanted);

static inline bool tni_cm_cancelled(const tn_run *run) { return run->cancelled && run->cancelled(run); }
static inline int64_t tni_cm_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tni_cm_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
