/* SPDX-License-Identifier: Apache-2.0
 *
 * What loading a model may take, so that a small file cannot ask for days or for all memory. Bytes are counted by
 * arenas (tni_arena_bill), when they take blocks and give them back. A step is a byte that a folded node reads or
 * writes, or an element that its kernel says it works on (tni_poll); a pass takes TNI_BUDGET_NODE for each node that it looks at.
 */
#ifndef TENON_BASE_BUDGET_H
#define TENON_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"

enum { TNI_BUDGET_NODE = 16 };

typedef struct tni_budget {
  uint64_t max_bytes, max_steps; /* 0: not limited */
  uint64_t bytes, steps;         /* taken so far; steps by several threads */
  bool refused;                  /* an arena wanted more than max_bytes */
} tni_budget;

/* Counts. False: there is no such room left. b NULL: always true. */
bool tni_budget_bytes(tni_budget *b, uint64_t bytes);
bool tni_budget_steps(tni_budget *b, uint64_t steps);
void tni_budget_give(tni_budget *b, uint64_t bytes);
/* tni_budget_steps with an error: TN_E_LIMIT, which names the key of the profile. */
TN_MUST_CHECK tn_status tni_budget_take(tni_budget *b, uint64_t steps, tn_error *err);
/* A failed load's st, or TN_E_LIMIT with an error that names the key where it failed for want of bytes in b. */
tn_status tni_budget_status(const tni_budget *b, tn_status st, const char *where, tn_error *err);

#endif
