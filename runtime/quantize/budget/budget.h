/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/quantize/budget: a width for each product, so that the sum of costs is least and the sum of bytes
 * stays within a limit. A knapsack with one choice per item, by dynamic programming over bytes. It is exact where the
 * greatest common divisor of all differences of bytes leaves at most 65,536 steps up to the limit; else differences are
 * rounded up to a 65,535th of it.
 */
#ifndef TENON_QUANTIZE_BUDGET_H
#define TENON_QUANTIZE_BUDGET_H

#include "runtime/base/base.h"

enum { TNI_KNAPSACK_CHOICES = 64 };

typedef struct tni_knapsack {
  uint32_t n_items, n_choices; /* at least 1; n_choices at most TNI_KNAPSACK_CHOICES */
  const uint64_t *bytes;       /* [n_items, n_choices] */
  const double *cost;          /* [n_items, n_choices], finite */
  uint64_t limit;
} tni_knapsack;

/* The sums of the smallest and of the largest choices. UINT64_MAX: it does not fit. */
uint64_t tni_knapsack_least(const tni_knapsack *b);
uint64_t tni_knapsack_most(const tni_knapsack *b);
/* chosen [n_items]: the choice of each item; of equal sums the one with lower choices of later items. limit must be
 * tni_knapsack_least at least. TN_E_INTERNAL: it is not; TN_E_NO_MEMORY. */
TN_MUST_CHECK tn_status tni_knapsack_choose(const tni_knapsack *b, uint32_t *chosen, tn_error *err);

#endif
