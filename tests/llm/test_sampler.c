/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/llm/sampler.h"
#include "tests/llm/llm_test.h"

enum { V = 8, DRAWS = 20000 };
static const tni_sampler_params plain = {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .seed = 42};
static const float ramp[V] = {0, 1, 2, 3, 3, 2, 1, 0};

static tni_sampler *make(tni_sampler_params p, size_t vocab) {
  tni_sampler *s = NULL;
  CU_ASSERT_EQUAL_FATAL(tni_sampler_create(vocab, &p, &s, NULL), TN_OK);
  return s;
}

static int32_t pick(tni_sampler *s, const float *l) {
  int32_t id = -1;
  CU_ASSERT_EQUAL(tni_sampler_pick(s, l, &id, NULL), TN_OK);
  return id;
}

static void count(tni_sampler_params p, const float *l, unsigned n[V]) {
  tni_sampler *s = make(p, V);
  memset(n, 0, V * sizeof *n);
  for (int i = 0; i < DRAWS; i++) {
    int32_t id = pick(s, l);
    if (id >= 0 && id < V) n[id]++;
  }
  tni_sampler_destroy(s);
}

static void test_greedy(void) {
  tni_sampler_params p = plain;
  p.temperature = 0;
  tni_sampler *s = make(p, V);
  CU_ASSERT_EQUAL(pick(s, ramp), 3); /* 3 and 4 are equal: the lower */
  CU_ASSERT_EQUAL(pick(s, (float[V]){-5, -4, -3, -2, -1, -9, -1, -8}), 4);
  CU_ASSERT_EQUAL(pick(s, (float[V]){-INFINITY, -INFINITY, 1, -INFINITY, -INFINITY, 0, 0, 0}), 2);
  CU_ASSERT_EQUAL(pick(s, (float[V]){0, 0, 1, INFINITY, 0, INFINITY, 0, 0}), 3);
  tni_sampler_destroy(s);
}

static void test_frequencies(void) {
  unsigned n[V];
  double sum = 0;
  count(plain, ramp, n);
  for (int i = 0; i < V; i++) sum += exp(ramp[i]);
  for (int i = 0; i < V; i++) CU_ASSERT_DOUBLE_EQUAL((double)n[i] / DRAWS, exp(ramp[i]) / sum, 0.012);
  tni_sampler_params p = plain;
  p.temperature = 0.5f;
  sum = 0;
  count(p, ramp, n);
  for (int i = 0; i < V; i++) sum += exp(2 * ramp[i]);
  for (int i = 0; i < V; i++) CU_ASSERT_DOUBLE_EQUAL((double)n[i] / DRAWS, exp(2 * ramp[i]) / sum, 0.012);
}

/* Which ids may come out. probabilities of ramp: 0.0160 0.0436 0.1184 0.3219 and mirrored. */
static void test_cuts(void) {
  static const struct {
    uint32_t k;
    float top_p, min_p;
    unsigned allowed; /* bits */
  } table[] = {{1, 1, 0, 0x08},     {2, 1, 0, 0x18},      {3, 1, 0, 0x1c},     {4, 1, 0, 0x3c},     {7, 1, 0, 0x7f},
               {8, 1, 0, 0xff},     {99, 1, 0, 0xff},     {0, 0.2f, 0, 0x08},  {0, 0.4f, 0, 0x18},  {0, 0.63f, 0, 0x18},
               {0, 0.66f, 0, 0x1c}, {0, 0.75f, 0, 0x1c},  {0, 0.78f, 0, 0x3c}, {0, 0.89f, 0, 0x3e}, {2, 0.4f, 0, 0x08},
               {2, 0.6f, 0, 0x18},  {4, 0.75f, 0, 0x1c},  {0, 1, 1, 0x18},     {0, 1, 0.3f, 0x3c},  {0, 1, 0.1f, 0x7e},
               {3, 1, 0.9f, 0x18},  {0, 0.9f, 0.3f, 0x3c}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    tni_sampler_params p = plain;
    unsigned n[V], seen = 0;
    p.top_k = table[i].k;
    p.top_p = table[i].top_p;
    p.min_p = table[i].min_p;
    count(p, ramp, n);
    for (int j = 0; j < V; j++) seen |= n[j] ? 1u << j : 0;
    if (seen != table[i].allowed) printf("\n  row %zu: %02x, expected %02x", i, seen, table[i].allowed);
    CU_ASSERT_EQUAL(seen, table[i].allowed);
  }
}

static void test_penalty(void) {
  tni_sampler_params p = plain;
  p.temperature = 0;
  p.repeat_penalty = 2;
  tni_sampler *s = make(p, V);
  tni_sampler_see(s, -1);
  tni_sampler_see(s, V);
  CU_ASSERT_EQUAL(pick(s, ramp), 3);
  tni_sampler_see(s, 3);
  tni_sampler_see(s, 3); /* twice counts once: 1.5 stays above 1 */
  CU_ASSERT_EQUAL(pick(s, ramp), 4);
  tni_sampler_see(s, 4);
  CU_ASSERT_EQUAL(pick(s, ramp), 2);
  CU_ASSERT_EQUAL(pick(s, (float[V]){-9, -9, -9, -4, -9, -7, -9, -9}), 5);  /* -4 * 2 */
  CU_ASSERT_EQUAL(pick(s, (float[V]){-9, -9, -9, 4, -9, 1.9f, -9, -9}), 3); /* 4 / 2 */
  CU_ASSERT_EQUAL(pick(s, (float[V]){-9, -9, -9, 4, -9, 2.1f, -9, -9}), 5);
  tni_sampler_destroy(s);
}

/* The numbers must never change: seed 42, all ids alike. */
static void test_seed(void) {
  static const float flat[V] = {0};
  int32_t first[16], other = 0;
  tni_sampler *a = make(plain, V), *b = make(plain, V);
  tni_sampler_params p = plain;
  p.seed = 43;
  tni_sampler *c = make(p, V);
  for (int i = 0; i < 16; i++) {
    first[i] = pick(a, flat);
    CU_ASSERT_EQUAL(first[i], pick(b, flat));
    other += first[i] != pick(c, flat);
  }
  CU_ASSERT(other > 4);
  static const int32_t want[16] = {1, 4, 0, 1, 4, 2, 7, 0, 2, 7, 5, 2, 4, 6, 3, 1};
  for (int i = 0; i < 16; i++) CU_ASSERT_EQUAL(first[i], want[i]);
  if (memcmp(first, want, sizeof want) != 0)
    for (int i = 0; i < 16; i++) printf(" %d,", (int)first[i]);
  tni_sampler_destroy(a);
  tni_sampler_destroy(b);
  tni_sampler_destroy(c);
}

static void test_bad(void) {
  tni_sampler *s = make(plain, 3);
  int32_t id = 77;
  tn_error err;
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_sampler_pick(s, (float[3]){0, NAN, 0}, &id, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "token 1"));
  CU_ASSERT_EQUAL(tni_sampler_pick(s, (float[3]){-INFINITY, -INFINITY, -INFINITY}, &id, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(id, 77);
  tni_sampler_destroy(s);
  static const struct {
    tni_sampler_params p;
    const char *where;
  } table[] = {{{.temperature = -1, .top_p = 1, .min_p = 0, .repeat_penalty = 1}, "temperature"},
               {{.temperature = NAN, .top_p = 1, .min_p = 0, .repeat_penalty = 1}, "temperature"},
               {{.temperature = INFINITY, .top_p = 1, .min_p = 0, .repeat_penalty = 1}, "temperature"},
               {{.temperature = 1, .top_p = 0, .min_p = 0, .repeat_penalty = 1}, "top_p"},
               {{.temperature = 1, .top_p = 1.1f, .min_p = 0, .repeat_penalty = 1}, "top_p"},
               {{.temperature = 1, .top_p = NAN, .min_p = 0, .repeat_penalty = 1}, "top_p"},
               {{.temperature = 1, .top_p = 1, .min_p = -0.1f, .repeat_penalty = 1}, "min_p"},
               {{.temperature = 1, .top_p = 1, .min_p = 1.5f, .repeat_penalty = 1}, "min_p"},
               {{.temperature = 1, .top_p = 1, .min_p = 0, .repeat_penalty = 0}, "repeat_penalty"},
               {{.temperature = 1, .top_p = 1, .min_p = 0, .repeat_penalty = -2}, "repeat_penalty"}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    s = NULL;
    tni_error_init(&err);
    CU_ASSERT_EQUAL(tni_sampler_create(3, &table[i].p, &s, &err), TN_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.where, table[i].where);
    CU_ASSERT_PTR_NULL(s);
  }
  CU_ASSERT_EQUAL(tni_sampler_create(0, &plain, &s, NULL), TN_E_INVALID);
}

void add_sampler_suite(void) {
  CU_pSuite s = CU_add_suite("sampler", NULL, NULL);
  CU_add_test(s, "greedy", test_greedy);
  CU_add_test(s, "frequencies", test_frequencies);
  CU_add_test(s, "top-k, top-p, min-p", test_cuts);
  CU_add_test(s, "repetition penalty", test_penalty);
  CU_add_test(s, "seed", test_seed);
  CU_add_test(s, "bad logits and parameters", test_bad);
}
