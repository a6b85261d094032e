/* SPDX-License-Identifier: Apache-2.0
 *
 * Widths whose format is measured: the rule, what is kept and wins, what is packed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/cpu/choice.h"
#include "tests/kernels/fakehost.h"

static const char *so;

static void the_rule(void) {
  static const struct {
    tni_clt_pace p[3];
    uint32_t n, wanted;
  } cases[] = {{{{10, 5}, {9, 50}}, 2, 1},                               /* one row decides */
               {{{10, 5}, {9.2f, 50}}, 2, 0},                            /* but for 10 % */
               {{{10, 50}, {10, 5}}, 2, 1},                              /* then many rows do */
               {{{10, 5}, {12, 1}}, 2, 0},    {{{0, 0}, {12, 1}}, 2, 1}, /* nothing was measured of the first */
               {{{NAN, 1}, {12, NAN}}, 2, 0}, {{{0, 0}, {0, 0}}, 2, 0},  {{{11, 5}, {10, 7}, {9.9f, 8}}, 3, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CU_ASSERT_EQUAL(tni_clt_prefer(cases[i].p, cases[i].n), cases[i].wanted);
}

/* Opens with format b2; what was chosen, as claims say it: "" if there is no device. */
static const char *open_b2(kit_cache *cache, const char *isa, const char **driver, uint8_t *packed, size_t n) {
  const char *set[] = {"format=b2", isa};
  fake f = {.set = set, .n_set = 2, .h.cache = cache, .isa = "auto"};
  static char text[256];
  static answers a;
  const char *name = "";
  text[0] = 0;
  if (driver) *driver = text;
  if (fake_open(&f, so)) {
    fake_graph *g = calloc(1, sizeof *g);
    graph_init(g);
    const tn_expr xd[] = {ex(g, 1), ex(g, 256)}, yd[] = {ex(g, 1), ex(g, 32)};
    const tn_id x = value(g, TN_VALUE_INPUT, 2, xd), w = constant(g, 2, (int64_t[]){256, 32}),
                y = value(g, TN_VALUE_OUTPUT, 2, yd);
    node(g, TN_OP_MATMUL, x, w, TN_NONE, y);
    graph_finish(g);
    CU_ASSERT_EQUAL(fake_claim(&f, g, NULL, &a), TN_OK);
    CU_ASSERT_EQUAL_FATAL(a.node[0].verdict, TN_YES);
    name = a.node[0].format->name;
    snprintf(text, sizeof text, "%s", f.device->caps->driver);
    walked r = fake_prepare(&f, g, &(tn_dims){.h = TN_HDR(tn_dims)});
    CU_ASSERT_EQUAL(r.st, TN_OK);
    CU_ASSERT_STRING_EQUAL(r.blobs[0].format->name, name);
    if (packed) memcpy(packed, r.packed[0], r.blobs[0].bytes < n ? (size_t)r.blobs[0].bytes : n);
    walked_free(&f, &r);
    graph_free(g);
    free(g);
  }
  fake_close(&f);
  CU_ASSERT_EQUAL(f.h.live, 0);
  return name;
}

/* Measured once; what is kept wins, whichever it is; damage and another processor's are measured anew. */
static void what_is_kept_wins(void) {
  static kit_cache cache, other;
  static uint8_t bytes[3][2048];
  const char *driver;
  const char *first = open_b2(&cache, "isa=auto", &driver, bytes[0], sizeof *bytes);
  CU_ASSERT_EQUAL_FATAL(cache.puts, 1);
  CU_ASSERT_FATAL(!strcmp(first, "w2g") || !strcmp(first, "lut2"));
  CU_ASSERT_PTR_NOT_NULL(strstr(driver, "ps per weight"));
  CU_ASSERT_STRING_EQUAL(open_b2(&cache, "isa=auto", NULL, bytes[1], sizeof *bytes), first);
  CU_ASSERT_EQUAL(cache.puts, 1);
  CU_ASSERT_EQUAL(memcmp(bytes[0], bytes[1], sizeof *bytes), 0);

  const char *second = strcmp(first, "w2g") ? "w2g" : "lut2";
  char *chosen = NULL; /* in the record: 16 bytes */
  for (size_t i = 0; !chosen && i + 16 < cache.entry[0].n_data; i++)
    if (!strcmp((char *)cache.entry[0].data + i, first)) chosen = (char *)cache.entry[0].data + i;
  CU_ASSERT_PTR_NOT_NULL_FATAL(chosen);
  memset(chosen, 0, 16);
  memcpy(chosen, second, strlen(second));
  CU_ASSERT_STRING_EQUAL(open_b2(&cache, "isa=auto", &driver, bytes[2], sizeof *bytes), second);
  CU_ASSERT_PTR_NOT_NULL(strstr(driver, second));
  CU_ASSERT(memcmp(bytes[0], bytes[2], sizeof *bytes) != 0);
  CU_ASSERT_EQUAL(cache.puts, 1);

  kit_cache_copy(&other, &cache);
  CU_ASSERT(*open_b2(&other, "isa=avx2", NULL, NULL, 0) != 0); /* other kernels */
  CU_ASSERT_EQUAL(other.puts, (uint32_t)((tni_cm_cpu_features() & TNI_CPU_AVX512VNNI) ? 2 : 1));
  kit_cache_copy(&other, &cache);
  other.entry[0].n_data--;
  CU_ASSERT(*open_b2(&other, "isa=auto", NULL, NULL, 0) != 0);
  CU_ASSERT_EQUAL(other.puts, 2);
  memset(chosen, 'x', 16);
  CU_ASSERT(*open_b2(&cache, "isa=auto", NULL, NULL, 0) != 0);
  CU_ASSERT_EQUAL(cache.puts, 2);
  kit_cache_free(&cache);
  kit_cache_free(&other);
}

/* Without vector kernels nothing is measured; without a cache it is, each time. */
static void nothing_to_keep(void) {
  static kit_cache cache;
  const char *driver;
  CU_ASSERT_STRING_EQUAL(open_b2(&cache, "isa=scalar", &driver, NULL, 0), "w2g");
  CU_ASSERT_PTR_NOT_NULL(strstr(driver, "not measured"));
  CU_ASSERT_EQUAL(cache.puts, 0);
  CU_ASSERT(*open_b2(NULL, "isa=auto", NULL, NULL, 0) != 0);
}

int add_choice_suite(const char *so_path) {
  so = so_path;
  CU_TestInfo tests[] = {{"the_rule", the_rule},
                         {"what_is_kept_wins", what_is_kept_wins},
                         {"nothing_to_keep", nothing_to_keep},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"choice", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
