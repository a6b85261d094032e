/* SPDX-License-Identifier: Apache-2.0
 *
 * Widths under a budget: against every combination, and where bytes have no common divisor.
 */
#include "runtime/quantize/budget/budget.h"
#include "quant_test.h"

enum { ITEMS = 6, CHOICES = 4, COMBINATIONS = 4096 };

static uint64_t seed = 5;

static uint32_t any(uint32_t below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % below;
}

static double best_of_all(const tni_knapsack *b) {
  double best = -1;
  for (uint32_t n = 0; n < COMBINATIONS; n++) {
    uint64_t bytes = 0;
    double cost = 0;
    for (uint32_t i = 0, left = n; i < ITEMS; i++, left /= CHOICES) {
      bytes += b->bytes[i * CHOICES + left % CHOICES];
      cost += b->cost[i * CHOICES + left % CHOICES];
    }
    if (bytes <= b->limit && (best < 0 || cost < best)) best = cost;
  }
  return best;
}

static void test_every_combination(void) {
  uint64_t bytes[ITEMS * CHOICES];
  double cost[ITEMS * CHOICES];
  for (int round = 0; round < 60; round++) {
    tni_knapsack b = {.n_items = ITEMS, .n_choices = CHOICES, .bytes = bytes, .cost = cost};
    for (int i = 0; i < ITEMS * CHOICES; i++) {
      bytes[i] = (round % 2 ? 64 : 1) * (1 + any(300));
      cost[i] = any(1000); /* whole: sums are exact in any order */
    }
    const uint64_t least = tni_knapsack_least(&b), most = tni_knapsack_most(&b);
    b.limit = round == 0 ? least : round == 1 ? most + 99 : least + any((uint32_t)(most - least));
    uint32_t chosen[ITEMS];
    CU_ASSERT_EQUAL_FATAL(tni_knapsack_choose(&b, chosen, NULL), TN_OK);
    uint64_t sum = 0;
    double got = 0;
    for (int i = 0; i < ITEMS; i++) {
      CU_ASSERT_FATAL(chosen[i] < CHOICES);
      sum += bytes[i * CHOICES + (int)chosen[i]];
      got += cost[i * CHOICES + (int)chosen[i]];
    }
    CU_ASSERT(sum <= b.limit);
    CU_ASSERT_EQUAL(got, best_of_all(&b));
  }
}

/* More steps than the table has: never above the limit, and nearly the best. */
static void test_rounded_steps(void) {
  uint64_t bytes[ITEMS * CHOICES];
  double cost[ITEMS * CHOICES];
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < ITEMS * CHOICES; i++) {
      bytes[i] = UINT64_C(1000000007) * (uint64_t)(1 + i % CHOICES) + any(1000000);
      cost[i] = (double)any(1000) / (1 + i % CHOICES);
    }
    tni_knapsack b = {.n_items = ITEMS, .n_choices = CHOICES, .bytes = bytes, .cost = cost};
    b.limit = tni_knapsack_least(&b) + any(2000000000);
    uint32_t chosen[ITEMS];
    CU_ASSERT_EQUAL_FATAL(tni_knapsack_choose(&b, chosen, NULL), TN_OK);
    uint64_t sum = 0;
    double got = 0;
    for (int i = 0; i < ITEMS; i++) {
      sum += bytes[i * CHOICES + (int)chosen[i]];
      got += cost[i * CHOICES + (int)chosen[i]];
    }
    CU_ASSERT(sum <= b.limit);
    b.limit -= (b.limit - tni_knapsack_least(&b)) / 65535 * ITEMS + ITEMS; /* what rounding may take */
    if (b.limit >= tni_knapsack_least(&b)) CU_ASSERT(got <= best_of_all(&b));
  }
}

static void test_too_little(void) {
  const uint64_t bytes[] = {7, 9, 5, 4};
  const double cost[] = {1, 0, 1, 0};
  const tni_knapsack b = {.n_items = 2, .n_choices = 2, .bytes = bytes, .cost = cost, .limit = 10};
  uint32_t chosen[2];
  CU_ASSERT_EQUAL(tni_knapsack_least(&b), 11);
  CU_ASSERT_EQUAL(tni_knapsack_most(&b), 14);
  CU_ASSERT_EQUAL(tni_knapsack_choose(&b, chosen, NULL), TN_E_INTERNAL);
}

void budget_tests(CU_pSuite s) {
  CU_add_test(s, "budget: the best of every combination", test_every_combination);
  CU_add_test(s, "budget: bytes without a common divisor", test_rounded_steps);
  CU_add_test(s, "budget: too little", test_too_little);
}
