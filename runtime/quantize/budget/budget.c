/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "runtime/quantize/budget/budget.h"

enum { STEPS = 65535 };

static uint64_t add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static uint64_t smallest(const tni_knapsack *b, uint32_t i) {
  uint64_t least = UINT64_MAX;
  for (uint32_t k = 0; k < b->n_choices; k++)
    if (b->bytes[(size_t)i * b->n_choices + k] < least) least = b->bytes[(size_t)i * b->n_choices + k];
  return least;
}

uint64_t tni_knapsack_least(const tni_knapsack *b) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < b->n_items; i++) sum = add(sum, smallest(b, i));
  return sum;
}

uint64_t tni_knapsack_most(const tni_knapsack *b) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < b->n_items; i++) {
    uint64_t most = 0;
    for (uint32_t k = 0; k < b->n_choices; k++)
      if (b->bytes[(size_t)i * b->n_choices + k] > most) most = b->bytes[(size_t)i * b->n_choices + k];
    sum = add(sum, most);
  }
  return sum;
}

/* The step of bytes that the table counts in. */
static uint64_t find_unit(const tni_knapsack *b, uint64_t room) {
  uint64_t unit = 0;
  for (uint32_t i = 0; i < b->n_items; i++) {
    const uint64_t least = smallest(b, i);
    for (uint32_t k = 0; k < b->n_choices; k++) {
      uint64_t a = unit, c = b->bytes[(size_t)i * b->n_choices + k] - least;
      while (c) {
        const uint64_t t = a % c;
        a = c;
        c = t;
      }
      unit = a;
    }
  }
  if (!unit) unit = 1;
  return room / unit > STEPS ? room / STEPS + 1 : unit;
}

/* best [cells]: the least sum of costs of the items so far that take at most so many units beyond the smallest. */
static void take_item(const tni_knapsack *b, uint32_t i, uint64_t unit, size_t cells, const double *best, double *next,
                      uint8_t *picked) {
  const uint64_t least = smallest(b, i);
  size_t units[TNI_KNAPSACK_CHOICES];
  for (uint32_t k = 0; k < b->n_choices; k++) {
    const uint64_t more = b->bytes[(size_t)i * b->n_choices + k] - least, n = more / unit + (more % unit != 0);
    units[k] = n < cells ? (size_t)n : cells;
  }
  for (size_t c = 0; c < cells; c++) {
    next[c] = INFINITY;
    for (uint32_t k = 0; k < b->n_choices; k++) {
      if (units[k] > c) continue;
      const double sum = best[c - units[k]] + b->cost[(size_t)i * b->n_choices + k];
      if (sum < next[c]) {
        next[c] = sum;
        picked[c] = (uint8_t)k;
      }
    }
  }
}

tn_status tni_knapsack_choose(const tni_knapsack *b, uint32_t *chosen, tn_error *err) {
  const uint64_t least = tni_knapsack_least(b), most = tni_knapsack_most(b);
  if (!b->n_items || !b->n_choices || b->n_choices > TNI_KNAPSACK_CHOICES || b->limit < least || most == UINT64_MAX)
    return tni_fail(err, TN_E_INTERNAL, NULL, "a budget that nothing fits into");
  const uint64_t room = (b->limit < most ? b->limit : most) - least, unit = find_unit(b, room);
  const size_t cells = (size_t)(room / unit) + 1;
  double *best = calloc(cells, sizeof *best), *next = calloc(cells, sizeof *next);
  uint8_t *picked = malloc(cells * b->n_items);
  if (best && next && picked) {
    for (uint32_t i = 0; i < b->n_items; i++) {
      take_item(b, i, unit, cells, best, next, picked + i * cells);
      double *t = best;
      best = next;
      next = t;
    }
    size_t c = cells - 1;
    for (uint32_t i = b->n_items; i-- > 0;) {
      const uint64_t low = smallest(b, i);
      chosen[i] = picked[i * cells + c];
      const uint64_t more = b->bytes[(size_t)i * b->n_choices + chosen[i]] - low;
      c -= (size_t)(more / unit + (more % unit != 0));
    }
  }
  const bool ok = best && next && picked;
  free(best);
  free(next);
  free(picked);
  return ok ? TN_OK : tni_fail_memory(err, NULL);
}
