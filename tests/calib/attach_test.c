/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "calib_test.h"

enum { MAX_ENTRIES = 4 };
static const float over_a[] = {1, 0, 2, 0}, over_b[] = {0, 4, 1, 0}, mean_a[] = {1, 1, 1, 1}, mean_b[] = {4, 4, 4, 4};

static tni_calib_entry entry(const char *name, const char *const *weights, uint32_t n, bool b) {
  return (tni_calib_entry){.stats = {.h = TN_HDR(tn_stats),
                                     .absmax = b ? 5 : 9,
                                     .p999 = b ? 4 : 3,
                                     .n = 4,
                                     .ch_over = b ? over_b : over_a,
                                     .ch_mean = b ? mean_b : mean_a,
                                     .ch_weight = b ? mean_b : mean_a,
                                     .rows = b ? 20 : 10},
                           .name = name,
                           .weights = weights,
                           .n_weights = n};
}

typedef struct attached {
  tni_graph *g;
  tni_arena *arena;
  tn_graph view;
  tn_error err;
  uint32_t products, found;
  tn_status st;
} attached;

static attached attach(const char *nodes, const tni_calib_entry *e, uint32_t n) {
  attached a = {.g = graph_of(nodes), .arena = tni_arena_create(), .view = {.h = TN_HDR(tn_graph)}};
  tni_calib c = {.arena = a.arena, .file = "c.yaml", .entries = e, .n_entries = n};
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(a.g, TN_PHASE_ANY, &a.view, &a.err), TN_OK);
  a.st = tni_calib_attach(&c, a.g, a.arena, &a.products, &a.found, &a.err);
  return a;
}

static void finish(attached *a) {
  tni_graph_destroy(a->g);
  tni_arena_destroy(a->arena);
}

static const tn_value *value(const attached *a, const char *name) {
  const tn_id v = tni_graph_find(a->g, name);
  CU_ASSERT_NOT_EQUAL_FATAL(v, TN_NONE);
  return a->view.values[v];
}

static void test_by_weight(void) {
  static const char *const wa[] = {"wa", "wb"}, *const wc[] = {"wc"};
  const tni_calib_entry e[] = {entry("elsewhere", wa, 2, false), entry("y", wc, 1, true)};
  attached a = attach("MatMul x wa y;MatMul x wb z;Gemm y wc u;Gemm u wd v", e, 2);
  CU_ASSERT_EQUAL_FATAL(a.st, TN_OK);
  CU_ASSERT_EQUAL(a.products, 4);
  CU_ASSERT_EQUAL(a.found, 3);
  CU_ASSERT_PTR_EQUAL(value(&a, "x")->stats, &e[0].stats);
  CU_ASSERT_PTR_EQUAL(value(&a, "wa")->data->x, &e[0].stats);
  CU_ASSERT_PTR_EQUAL(value(&a, "wb")->data->x, &e[0].stats);
  CU_ASSERT_PTR_EQUAL(value(&a, "y")->stats, &e[1].stats);
  CU_ASSERT_PTR_EQUAL(value(&a, "wc")->data->x, &e[1].stats);
  CU_ASSERT_PTR_NULL(value(&a, "u")->stats);
  CU_ASSERT_PTR_NULL(value(&a, "wd")->data->x);
  finish(&a);
}

static void test_by_name(void) {
  const tni_calib_entry e[] = {entry("x", NULL, 0, false)};
  attached a = attach("MatMul x wa y", e, 1);
  CU_ASSERT_PTR_EQUAL(value(&a, "x")->stats, &e[0].stats);
  CU_ASSERT_PTR_EQUAL(value(&a, "wa")->data->x, &e[0].stats);
  finish(&a);
}

/* The name of a value that a pass made means nothing. */
static void test_made_by_a_pass(void) {
  const tni_calib_entry e[] = {entry("x", NULL, 0, false)};
  attached a = {.g = graph_of("MatMul x wa y"), .arena = tni_arena_create(), .view = {.h = TN_HDR(tn_graph)}};
  tni_graph_value(a.g, tni_graph_find(a.g, "x"))->pub.origin = TN_NONE;
  tni_calib c = {.arena = a.arena, .file = "c.yaml", .entries = e, .n_entries = 1};
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(a.g, TN_PHASE_ANY, &a.view, &a.err), TN_OK);
  CU_ASSERT_EQUAL(tni_calib_attach(&c, a.g, a.arena, NULL, &a.found, &a.err), TN_OK);
  CU_ASSERT_EQUAL(a.found, 0);
  CU_ASSERT_PTR_NULL(value(&a, "x")->stats);
  finish(&a);
}

/* One weight in two layers: each activation has its own, the weight has both. */
static void test_shared_weight(void) {
  static const char *const w[] = {"wa"};
  const tni_calib_entry e[] = {entry("x", w, 1, false), entry("y", w, 1, true)};
  attached a = attach("MatMul x wa y;MatMul y wa z", e, 2);
  CU_ASSERT_PTR_EQUAL(value(&a, "x")->stats, &e[0].stats);
  CU_ASSERT_PTR_EQUAL(value(&a, "y")->stats, &e[1].stats);
  const tn_stats *s = value(&a, "wa")->data->x;
  CU_ASSERT_PTR_NOT_NULL_FATAL(s);
  CU_ASSERT_EQUAL(s->absmax, 9);
  CU_ASSERT_EQUAL(s->p999, 4);
  CU_ASSERT_EQUAL(s->rows, 30);
  CU_ASSERT_EQUAL_FATAL(s->n, 4);
  for (int k = 0; k < 4; k++) {
    CU_ASSERT_EQUAL(s->ch_over[k], over_a[k] + over_b[k]);
    CU_ASSERT_DOUBLE_EQUAL(s->ch_mean[k], 3, 1e-6); /* (1 * 10 + 4 * 20) / 30 */
    CU_ASSERT_DOUBLE_EQUAL(s->ch_weight[k], 3, 1e-6);
  }
  finish(&a);
}

static void test_products(void) {
  tni_graph *g = graph_of("MatMul x wa y;GemmA x wb z;Relu y - u;MatMul y z t;MatMul xx W s");
  tni_product p;
  CU_ASSERT_TRUE(tni_calib_product(g, 0, &p));
  CU_ASSERT_EQUAL(p.K, 4);
  CU_ASSERT_EQUAL(p.n_weights, 1);
  for (tn_id i = 1; i < 4; i++) CU_ASSERT_FALSE(tni_calib_product(g, i, &p));
  CU_ASSERT_TRUE(tni_calib_product(g, 4, &p));
  CU_ASSERT_EQUAL(p.K, 128);
  tni_graph_destroy(g);
}

static void test_channels(void) {
  static const char *const w[] = {"W"};
  const tni_calib_entry e[] = {entry("xx", w, 1, false)};
  attached a = attach("MatMul xx W y", e, 1);
  CU_ASSERT_EQUAL(a.st, TN_E_INVALID);
  CU_ASSERT(says(&a.err, "'c.yaml' has 4 channels for activation 'xx', the model has 128"));
  finish(&a);
}

static void hash_of(const char *nodes, char hex[TNI_CALIB_HEX + 1]) {
  tni_graph *g = graph_of(nodes);
  CU_ASSERT_EQUAL_FATAL(tni_calib_model_hash(g, hex, NULL), TN_OK);
  CU_ASSERT_EQUAL(strlen(hex), TNI_CALIB_HEX);
  tni_graph_destroy(g);
}

static void test_hash(void) {
  char h[6][TNI_CALIB_HEX + 1], again[TNI_CALIB_HEX + 1];
  hash_of("MatMul x wa y;MatMul xx W z", h[0]);
  hash_of("MatMul x wb y;MatMul xx W z", h[1]); /* another name */
  hash_of("Gemm x wa y;MatMul xx W z", h[2]);   /* another operator */
  hash_of("GemmA x wa y;MatMul xx W z", h[3]);  /* another attribute */
  hash_of("MatMul x wa y;MatMul xx W z", again);
  CU_ASSERT_STRING_EQUAL(h[0], again);
  salt_constants(0.5f);
  hash_of("MatMul x wa y;MatMul xx W z", h[4]);
  hash_of("MatMul xx W z", h[5]);
  salt_constants(0);
  hash_of("MatMul xx W z", again); /* only the large one differs */
  CU_ASSERT_STRING_NOT_EQUAL(h[5], again);
  for (int i = 0; i < 6; i++)
    for (int k = 0; k < i; k++) CU_ASSERT_STRING_NOT_EQUAL(h[i], h[k]);
}

void suite_attach(void) {
  CU_pSuite s = CU_add_suite("attach", NULL, NULL);
  CU_add_test(s, "by weight", test_by_weight);
  CU_add_test(s, "by name", test_by_name);
  CU_add_test(s, "names made by passes", test_made_by_a_pass);
  CU_add_test(s, "a weight in two layers", test_shared_weight);
  CU_add_test(s, "products", test_products);
  CU_add_test(s, "channels", test_channels);
  CU_add_test(s, "hash", test_hash);
}
