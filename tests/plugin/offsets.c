/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/offsets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin_test.h"

static uint64_t rng(uint64_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 7;
  *s ^= *s << 17;
  return *s;
}

static int overlaps(const tn_interval *a, const tn_interval *b) {
  return a->bytes && b->bytes && a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

/* No placement can be smaller than what is alive at one step. */
static uint64_t lower_bound(uint32_t n, const tn_interval *iv) {
  uint64_t most = 0;
  for (int64_t step = -5; step <= 40; step++) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
      if (iv[i].first <= step && iv[i].last >= step) sum += iv[i].bytes;
    if (sum > most) most = sum;
  }
  return most;
}

static void check(const tn_interval *iv, uint32_t n, uint64_t total, uint64_t seed) {
  int ok = total >= lower_bound(n, iv);
  uint64_t end = 0;
  for (uint32_t i = 0; i < n; i++) {
    ok &= iv[i].offset % (iv[i].align ? iv[i].align : 1) == 0;
    if (iv[i].bytes && iv[i].offset + iv[i].bytes > end) end = iv[i].offset + iv[i].bytes;
    for (uint32_t j = 0; j < i; j++) ok &= !overlaps(&iv[i], &iv[j]);
  }
  ok &= end == total;
  if (!ok) printf("\n  seed %" PRIu64 ", n %u, total %" PRIu64 "\n", seed, n, total);
  CU_ASSERT(ok);
}

static void test_random(void) {
  enum { MOST = 60 };
  uint64_t packed = 0, bound = 0;
  for (uint64_t seed = 1; seed <= 600; seed++) {
    uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15);
    tn_interval iv[MOST], again[MOST], shuffled[MOST];
    uint32_t n = 1 + (uint32_t)(rng(&s) % MOST);
    for (uint32_t i = 0; i < n; i++) {
      int64_t first = (int64_t)(rng(&s) % 30) - 5;
      uint64_t bytes = rng(&s) % 8 == 0 ? 0 : rng(&s) % (rng(&s) % 4 ? 300 : 100000);
      uint64_t align = rng(&s) % 5 == 0 ? 0 : UINT64_C(1) << rng(&s) % 9;
      iv[i] = (tn_interval){first, first + (int64_t)(rng(&s) % 12), bytes, align, UINT64_MAX};
    }
    memcpy(again, iv, sizeof iv);
    memcpy(shuffled, iv, sizeof iv);
    uint64_t total = 0, total2 = 0;
    CU_ASSERT_EQUAL(tni_plan_offsets(n, iv, &total), TN_OK);
    check(iv, n, total, seed);
    CU_ASSERT_EQUAL(tni_plan_offsets(n, again, &total2), TN_OK); /* the same question, the same answer */
    CU_ASSERT(total == total2);
    for (uint32_t i = 0; i < n; i++) CU_ASSERT(iv[i].offset == again[i].offset);
    packed += total;
    bound += lower_bound(n, iv);
  }
  printf("%.3f of the bound ... ", (double)packed / (double)bound);
  CU_ASSERT(packed < bound + bound / 50); /* on the whole within 2 % of what nobody can beat */
}

static void test_known(void) {
  /* A chain of equal activations needs two of them, and a long-lived small one. */
  tn_interval chain[10];
  for (int i = 0; i < 9; i++) chain[i] = (tn_interval){i, i + 1, 1000, 8, 0};
  chain[9] = (tn_interval){0, 9, 8, 8, 0};
  uint64_t total = 0;
  CU_ASSERT_EQUAL(tni_plan_offsets(10, chain, &total), TN_OK);
  CU_ASSERT_EQUAL(total, 2008);
  /* Nothing lives together: all share one place. */
  tn_interval alone[3] = {{0, 0, 64, 64, 1}, {1, 1, 128, 64, 1}, {2, 2, 32, 64, 1}};
  CU_ASSERT_EQUAL(tni_plan_offsets(3, alone, &total), TN_OK);
  CU_ASSERT_EQUAL(total, 128);
  CU_ASSERT_EQUAL(tni_plan_offsets(0, NULL, &total), TN_OK);
  CU_ASSERT_EQUAL(total, 0);
}

static tn_interval random_region(uint64_t *s, int64_t steps) {
  int64_t first = (int64_t)(rng(s) % (uint64_t)steps) - 5;
  return (tn_interval){first, first + (int64_t)(rng(s) % 6), rng(s) % 9 ? rng(s) % 3000 : 0, UINT64_C(1) << rng(s) % 7,
                       0};
}

/* Above the number up to which all pairs are looked at: no overlap, and not much more than the bound. */
static void test_many(void) {
  enum { MANY = 4500, CHAIN = 200000 };
  tn_interval *iv = calloc(CHAIN, sizeof *iv);
  uint64_t s = 9, total = 0;
  for (uint32_t i = 0; i < MANY; i++) iv[i] = random_region(&s, 40);
  CU_ASSERT_EQUAL(tni_plan_offsets(MANY, iv, &total), TN_OK);
  check(iv, MANY, total, s);
  printf("%.3f of the bound ... ", (double)total / (double)lower_bound(MANY, iv));
  CU_ASSERT(total < lower_bound(MANY, iv) * 5 / 4);
  for (int i = 0; i < CHAIN; i++) iv[i] = (tn_interval){i, i + 1, 1000, 8, 0};
  CU_ASSERT_EQUAL(tni_plan_offsets(CHAIN, iv, &total), TN_OK);
  CU_ASSERT_EQUAL(total, 2000);
  free(iv);
}

static void test_bad(void) {
  uint64_t total = 77;
  tn_interval iv[2] = {{3, 2, 8, 8, 5}, {0, 0, 8, 8, 5}};
  CU_ASSERT_EQUAL(tni_plan_offsets(2, iv, &total), TN_E_INVALID);
  iv[0] = (tn_interval){0, 1, 8, 3, 5};
  CU_ASSERT_EQUAL(tni_plan_offsets(2, iv, &total), TN_E_INVALID);
  iv[0] = (tn_interval){0, 1, UINT64_MAX - 4, 8, 5};
  CU_ASSERT_EQUAL(tni_plan_offsets(2, iv, &total), TN_E_LIMIT);
  CU_ASSERT_EQUAL(total, 77);
  CU_ASSERT_EQUAL(iv[1].offset, 5);
  iv[0] = (tn_interval){INT64_MIN, INT64_MAX, 16, UINT64_C(1) << 63, 5};
  CU_ASSERT_EQUAL(tni_plan_offsets(1, iv, &total), TN_OK);
}

const test_case offsets_tests[] = {
    {"random", test_random}, {"known", test_known}, {"many", test_many}, {"bad", test_bad}, {0}};
