/* SPDX-License-Identifier: Apache-2.0
 *
 * The built plugin through its vtable: what it computes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/npu/reference.h"

/* --- shadow ------------------------------------------------------------------------------------------------------ */

/* 10,000 rows, each with outliers of its own, K >= 2048: every output has the bits of one int64 sum. */
static void shadow_is_exact(void) {
  enum { ROWS = 64, NETS = 160 };
  rng r = rng_of(1);
  mini m = mini_defaults();
  uint64_t cases = 0, wrong = 0, shadowed = 0;
  OPEN(m);
  for (int i = 0; i < NETS; i++) {
    const int64_t N[1] = {1 + rng_below(&r, 5)};
    const float s = (float)(1 + rng_below(&r, 1000)) * 0x1.3p-13f;
    net n;
    net_init(&n, 2048 + rng_below(&r, 1200), 1, N, s, &r);
    net_build(&n, m.chunk);
    float *x = plant(&n, ROWS, s, 12, &r);
    built b = mini_build(&m, &n, ROWS, i % 2);
    CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
    CU_ASSERT_EQUAL_FATAL(mini_step(&m, &b, x, i % 3 == 0), TN_OK);
    float *want = wide_product(&n, 0, x, ROWS, s, true), *narrow = wide_product(&n, 0, x, ROWS, s, false);
    for (int64_t row = 0; row < ROWS; row++) {
      wrong += memcmp(want + row * N[0], mini_output(&n, &b, 0) + row * N[0], (size_t)N[0] * 4) != 0;
      shadowed += memcmp(want + row * N[0], narrow + row * N[0], (size_t)N[0] * 4) != 0;
      cases++;
    }
    CU_ASSERT_EQUAL(b.run_allocs, 0);
    free(want);
    free(narrow);
    free(x);
    mini_unbuild(&m, &b);
    net_free(&n);
  }
  CU_ASSERT(cases >= 10000 && shadowed > 8000);
  CU_ASSERT_EQUAL(wrong, 0);
  CLOSE(m);
}

/* One wrong code, in the device's copy or in the shadow's, is seen: the comparison above can fail. */
static void broken_copies(void) {
  enum { K = 2048, N = 3, ROWS = 64 };
  rng r = rng_of(30);
  mini m = mini_defaults();
  OPEN(m);
  net n;
  net_init(&n, K, 1, (int64_t[]){N}, 0.5f, &r);
  net_build(&n, m.chunk);
  const float s = n.stats.p999 / 127.0f;
  float *x = plant(&n, ROWS, s, 8, &r);
  for (int64_t i = 0; i < ROWS; i++) x[i * K + 77] = 5000 * s;
  float *want = wide_product(&n, 0, x, ROWS, s, true);
  built b = mini_build(&m, &n, ROWS, true);
  CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
  const tn_id w = b.info->tasks[1]->uses[2].slot, rows = b.info->tasks[2]->uses[3].slot;
  uint8_t *copies[2] = {(uint8_t *)b.view[w].ptr + 77 / 32 * 1024 + 1 * 32 + 77 % 32, b.bytes[rows] + 77 * 64 + 1};
  CU_ASSERT_EQUAL(*copies[0], *copies[1]);
  for (int i = 0; i < 2; i++) {
    *copies[i] ^= 1;
    CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
    CU_ASSERT_NOT_EQUAL(memcmp(want, mini_output(&n, &b, 0), ROWS * N * 4), 0);
    *copies[i] ^= 1;
    CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
    CU_ASSERT_EQUAL(memcmp(want, mini_output(&n, &b, 0), ROWS * N * 4), 0);
  }
  free(want);
  free(x);
  mini_unbuild(&m, &b);
  net_free(&n);
  CLOSE(m);
}

/* Without shadow what does not fit is cut off, at the scale that calibration's maximum gives. */
static void without_shadow(void) {
  rng r = rng_of(2);
  mini m = mini_defaults();
  m.shadow = "none";
  m.chunk = 128;
  OPEN(m);
  const int64_t N[2] = {37, 70};
  net n;
  net_init(&n, 300, 1, N, 0.02f, &r);
  n.rank3 = true;
  net_build(&n, m.chunk);
  const float s = n.stats.absmax / 127.0f;
  float *x = plant(&n, 128, s, 9, &r);
  x[5] = NAN;
  built b = mini_build(&m, &n, 128, false);
  CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
  CU_ASSERT(b.info->n_tasks == 3 && b.info->n_needs == 1);
  CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
  float *want = wide_product(&n, 0, x, 128, s, false);
  CU_ASSERT_EQUAL(memcmp(want, mini_output(&n, &b, 0), 128 * 37 * 4), 0);
  free(want);
  free(x);
  mini_unbuild(&m, &b);
  net_free(&n);
  CLOSE(m);
}

/* Which products are pruned: all but the most important part; alone in its graph a product is kept. */
static void pruned(void) {
  rng r = rng_of(3);
  for (int i = 0; i < 2; i++) {
    mini m = mini_defaults();
    m.shadow = "pruned";
    m.prune = i ? 1.0 : 0.85;
    OPEN(m);
    net n;
    net_init(&n, 64, 1, (int64_t[]){32}, 0.02f, &r);
    net_build(&n, m.chunk);
    built b = mini_build(&m, &n, 64, false);
    CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
    CU_ASSERT_EQUAL(b.info->n_tasks, i ? 3 : 4);
    mini_unbuild(&m, &b);
    net_free(&n);
    CLOSE(m);
  }
}

/* --- rows from disk ------------------------------------------------------------------------------------------------
 */

/* Hot rows are read once when they are set; cold ones when they are met, each once while they are kept. */
static void cold_rows(void) {
  enum { K = 512, N = 40, ROWS = 64 };
  rng r = rng_of(4);
  mini m = mini_defaults();
  OPEN(m);
  net n;
  net_init(&n, K, 1, (int64_t[]){N}, 0.5f, &r);
  /* Channels 3, 100 and 7 hold 85 of 100 outliers. */
  n.ch_over[3] = 50;
  n.ch_over[100] = 20;
  n.ch_over[7] = 15;
  for (int k = 200; k < 215; k++) n.ch_over[k] = 1;
  net_build(&n, m.chunk);
  built b = mini_build(&m, &n, ROWS, false);
  CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
  CU_ASSERT_EQUAL(m.disk_reads, 3); /* the scale stands in the device's copy */
  float *x = calloc(ROWS * K, sizeof *x);
  for (int i = 0; i < ROWS; i++) x[i * K + 3] = x[i * K + 100] = 1000;
  m.disk_reads = 0;
  CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
  CU_ASSERT_EQUAL(m.disk_reads, 0);
  x[5 * K + 300] = x[9 * K + 300] = -90000;
  x[9 * K + 301] = 400;
  CU_ASSERT_EQUAL(mini_step(&m, &b, x, true), TN_OK);
  CU_ASSERT(m.disk_reads == 2 && m.disk_bytes % 64 == 0);
  CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
  CU_ASSERT_EQUAL(m.disk_reads, 2);
  /* More cold rows than are kept: still right. */
  for (int k = 0; k < K; k++) x[(k % ROWS) * K + k] = 500.0f + (float)k;
  CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
  CU_ASSERT(m.disk_reads > 2 + K - 3 - 70);
  float *want = wide_product(&n, 0, x, ROWS, n.stats.p999 / 127.0f, true);
  CU_ASSERT_EQUAL(memcmp(want, mini_output(&n, &b, 0), ROWS * N * 4), 0);
  const int64_t before = m.disk_reads;
  memset(x, 0, ROWS * K * sizeof *x);
  x[0] = 1e9f; /* channel 0, long gone */
  CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
  CU_ASSERT_EQUAL(m.disk_reads, before + 1);
  /* Set again, nothing is remembered but the hot rows. */
  const tn_id rows = b.info->tasks[2]->uses[3].slot;
  CU_ASSERT_EQUAL(m.device->set(b.p, rows, NULL, &b.blob[rows], &m.err), TN_OK);
  CU_ASSERT_EQUAL(m.disk_reads, before + 1 + 3);
  CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
  CU_ASSERT_EQUAL(m.disk_reads, before + 1 + 3 + 1);
  free(want);
  free(x);
  mini_unbuild(&m, &b);
  net_free(&n);
  CLOSE(m);
}

/* --- chains ---------------------------------------------------------------------------------------------------------
 */

static double sigmoid(double z) { return 1 / (1 + exp(-z)); }

/* Gate and up of unlike weights, Swish and their product, a bias and a residual; both storage orders; equal bits
 * whichever engine came first. */
static void fused_chain(void) {
  enum { K = 96, N = 150, ROWS = 64 };
  static const chain_spec spec = {
      .n_parts = 2,
      .parts = {0, 0, N, 1, 0, N},
      .n_ops = 5,
      /* registers: 0 gate, 1 up, 2 bias, 3 residual; 4 = gate + bias, 5 = swish(4), 6 = 5 * up, 7 = 6 + residual, 8 =
         -up */
      .ops = {TN_OP_ADD, 0, 2, TN_OP_SWISH, 4, -1, TN_OP_MUL, 5, 1, TN_OP_ADD, 6, 3, TN_OP_NEG, 1, -1},
      .floats = {0, 1, 0, 0, 0},
      .n_results = 2,
      .results = {7, 8}};
  for (int trans = 0; trans < 2; trans++) {
    rng r = rng_of(5);
    mini m = mini_defaults();
    OPEN(m);
    net n;
    net_init(&n, K, 2, (int64_t[]){N, N}, 0.05f, &r);
    n.op = TN_OP_FUSED_MATMUL;
    n.chain = &spec;
    n.trans_b = trans;
    net_extra(&n, 1, N, true, &r);
    net_extra(&n, 2, ROWS * N, false, &r);
    net_build(&n, m.chunk);
    const float s = n.stats.p999 / 127.0f;
    float *x = plant(&n, ROWS, s, 3, &r);
    built b = mini_build(&m, &n, ROWS, false);
    CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
    CU_ASSERT(b.info->n_tasks == 4 && b.info->n_needs == 5);
    CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
    float *gate = wide_product(&n, 0, x, ROWS, s, true), *up = wide_product(&n, 1, x, ROWS, s, true);
    float *first = malloc(ROWS * N * 4);
    uint32_t wrong = 0;
    for (int i = 0; i < ROWS * N; i++) {
      const float g = gate[i] + n.extra[0][i % N];
      const double sw = (double)g * sigmoid((double)g), p = sw * (double)up[i], y = p + (double)n.extra[1][i];
      /* Swish is within 4 ulp, and u |x| / 2 for its argument; two more roundings. */
      const double bound = 0x1p-24 * ((8 * fabs(sw) + fabs((double)g)) * fabs((double)up[i]) + 2 * fabs(p) + fabs(y));
      wrong += !(fabs(y - (double)mini_output(&n, &b, 0)[i]) <= bound + 1e-37);
      wrong += mini_output(&n, &b, 1)[i] != -up[i];
    }
    CU_ASSERT_EQUAL(wrong, 0);
    memcpy(first, mini_output(&n, &b, 0), ROWS * N * 4);
    CU_ASSERT_EQUAL(mini_step(&m, &b, x, true), TN_OK);
    CU_ASSERT_EQUAL(memcmp(first, mini_output(&n, &b, 0), ROWS * N * 4), 0);
    CU_ASSERT_EQUAL(mini_count(&m).graphs, 1);
    free(first);
    free(gate);
    free(up);
    free(x);
    mini_unbuild(&m, &b);
    net_free(&n);
    CLOSE(m);
  }
}

/* Parts of one weight that begin anywhere. */
static void parts(void) {
  enum { K = 40, N = 17, ALL = 61, ROWS = 64 };
  static const chain_spec spec = {
      .n_parts = 3, .parts = {0, 3, N, 0, 44, N, 0, 20, N}, .n_results = 3, .results = {0, 1, 2}};
  rng r = rng_of(6);
  mini m = mini_defaults();
  OPEN(m);
  net n;
  net_init(&n, K, 1, (int64_t[]){ALL}, 0.05f, &r);
  n.op = TN_OP_FUSED_MATMUL;
  n.chain = &spec;
  net_build(&n, m.chunk);
  const float s = n.stats.p999 / 127.0f;
  float *x = plant(&n, ROWS, s, 3, &r), *want = wide_product(&n, 0, x, ROWS, s, true);
  built b = mini_build(&m, &n, ROWS, true);
  CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
  CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
  uint32_t wrong = 0;
  for (int p = 0; p < 3; p++)
    for (int i = 0; i < ROWS; i++)
      wrong += memcmp(want + i * ALL + spec.parts[3 * p + 1], mini_output(&n, &b, (uint32_t)p) + i * N, N * 4) != 0;
  CU_ASSERT_EQUAL(wrong, 0);
  free(want);
  free(x);
  mini_unbuild(&m, &b);
  net_free(&n);
  CLOSE(m);
}

bool add_plugin_suite(void) {
  CU_TestInfo tests[] = {{"shadow is exact", shadow_is_exact},
                         {"broken copies", broken_copies},
                         {"without shadow", without_shadow},
                         {"pruned", pruned},
                         {"cold rows", cold_rows},
                         {"fused chain", fused_chain},
                         {"parts", parts},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"plugin", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
