/* SPDX-License-Identifier: Apache-2.0
 *
 * The built plugin through its vtable, from claim to outputs.
 */
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/npu/minihost.h"

#define OPEN(m) CU_ASSERT_FATAL(mini_open(&(m)))
#define CLOSE(m)                  \
  do {                            \
    mini_close(&(m));             \
    CU_ASSERT_EQUAL((m).live, 0); \
  } while (0)

/* --- the reference ----------------------------------------------------------------------------------------------- */

/* Codes and scale of weight j, by another way than the packer's. */
static int8_t *codes_of(const net *n, uint32_t j, double *scale) {
  float max = 0;
  int e;
  int8_t *c = malloc((size_t)(n->K * n->N[j]));
  if (!c) abort();
  for (int64_t i = 0; i < n->K * n->N[j]; i++) max = fmaxf(max, fabsf(n->w[j][i]));
  const double m = frexp((double)(max / 127.0f), &e);
  *scale = ldexp(ceil(ldexp(m, 17)), e - 17);
  for (int64_t i = 0; i < n->N[j]; i++)
    for (int64_t k = 0; k < n->K; k++) c[i * n->K + k] = (int8_t)nearbyintf(net_weight(n, j, i, k) / (float)*scale);
  return c;
}

static int64_t q_of(float x, float s, bool wide) {
  const double top = wide ? 1048575 : 127, v = nearbyint((double)(x / s));
  return isnan(x) ? 0 : (int64_t)(v > top ? top : v < -top - 1 ? -top - 1 : v);
}

/* y[rows, N_j] as one int64 sum, converted once. */
static float *wide_product(const net *n, uint32_t j, const float *x, int64_t rows, float s, bool wide) {
  double sw;
  int8_t *c = codes_of(n, j, &sw);
  float *y = malloc((size_t)(rows * n->N[j]) * sizeof *y);
  int64_t *q = malloc((size_t)n->K * sizeof *q);
  if (!y || !q) abort();
  for (int64_t m = 0; m < rows; m++) {
    for (int64_t k = 0; k < n->K; k++) q[k] = q_of(x[m * n->K + k], s, wide);
    for (int64_t i = 0; i < n->N[j]; i++) {
      int64_t sum = 0;
      for (int64_t k = 0; k < n->K; k++) sum += q[k] * c[i * n->K + k];
      y[m * n->N[j] + i] = (float)((double)sum * ((double)s * sw));
    }
  }
  free(q);
  free(c);
  return y;
}

/* --- inputs ------------------------------------------------------------------------------------------------------ */

/* Normal within the scale, and up to `most` outliers in each row: some channels again and again, others once. */
static float *plant(const net *n, int64_t rows, float s, int64_t most, rng *r) {
  float *x = malloc((size_t)(rows * n->K) * sizeof *x);
  if (!x) abort();
  int64_t usual[8];
  for (int i = 0; i < 8; i++) usual[i] = rng_below(r, n->K);
  for (int64_t m = 0; m < rows; m++) {
    float *row = x + m * n->K;
    for (int64_t k = 0; k < n->K; k++) row[k] = s * 40 * (float)rng_normal(r);
    for (int64_t i = most ? rng_below(r, most + 1) : 0; i > 0; i--) {
      const int64_t k = rng_below(r, 4) ? usual[rng_below(r, 8)] : rng_below(r, n->K);
      const float size[] = {127.5f, 128.5f, 200, 3000, 100000, 3e6f};
      row[k] = s * size[rng_below(r, 6)] * (rng_next(r) & 1 ? 1.0f : -1.0f) * (float)(1 + rng_below(r, 3));
    }
  }
  return x;
}

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

/* --- claims ----------------------------------------------------------------------------------------------------------
 */

static void claims(void) {
  rng r = rng_of(7);
  mini m = mini_defaults();
  m.chunk = 256;
  OPEN(m);
  for (int rank3 = 0; rank3 < 2; rank3++) {
    net n;
    claimed c, again;
    net_init(&n, 2048, 1, (int64_t[]){64}, 0.25f, &r);
    n.rank3 = rank3;
    net_build(&n, m.chunk);
    CU_ASSERT_EQUAL(mini_claim(&m, &n, &c), TN_OK);
    CU_ASSERT_EQUAL(mini_claim(&m, &n, &again), TN_OK);
    c.claim.constraints = again.claim.constraints = NULL;
    c.claim.params = again.claim.params = NULL;
    CU_ASSERT_EQUAL(memcmp(&c, &again, sizeof c), 0);
    CU_ASSERT(c.n == 1 && c.claim.verdict == TN_YES && c.claim.n_constraints == 1);
    CU_ASSERT(c.constraints[0].lhs == 0 && c.constraints[0].rel == TN_REL_EQ && c.constraints[0].rhs == 256);
    float s;
    const uint32_t bits = (uint32_t)c.params[0];
    memcpy(&s, &bits, sizeof s);
    CU_ASSERT(c.claim.n_params == 2 && s == n.stats.p999 / 127.0f && c.params[1] == 1);
    const tn_numerics *num = c.claim.format->numerics_of(c.claim.format, c.params, 2);
    CU_ASSERT(num && num->act_scheme == TN_ACT_STATIC && num->act_max == 1048575 && num->acc_inner == TN_DT_I64);
    CU_ASSERT(c.claim.macs == 256.0 * 2048 * 64 && c.claim.weight_bytes == 2048 * 64 + 128);
    const npusim_shape shape = {256, 64, 2048};
    CU_ASSERT(c.claim.cost_ns > (double)npusim_graph_ns(npusim_profile_find("hmx-2026"), &shape, 1));
    net_free(&n);
  }
  CLOSE(m);
}

static void refusals(void) {
  static const chain_spec bad_chain = {.n_parts = 1, .parts = {0, 0, 65}, .n_results = 1, .results = {0}};
  enum { CASES = 9 };
  static const uint32_t reason[CASES] = {TN_WHY_NO_STATS, TN_WHY_OPTION,    TN_WHY_OPTION,
                                         TN_WHY_FLOAT,    TN_WHY_NOT_CONST, TN_WHY_NO_STATS,
                                         TN_WHY_DTYPE,    TN_WHY_NOT_CONST, TN_WHY_SHAPE};
  rng r = rng_of(8);
  mini m = mini_defaults();
  OPEN(m);
  for (int i = 0; i < CASES; i++) {
    net n;
    claimed c;
    net_init(&n, 64, 1, (int64_t[]){64}, 0.25f, &r);
    n.no_stats = i == 0;
    if (i == 1) n.phase = TN_PHASE_DECODE;
    if (i == 2) n.phase = TN_PHASE_ANY;
    if (i == 3) n.op = TN_OP_SOFTMAX;
    if (i == 5) n.stats.absmax = NAN;
    if (i == 8) {
      n.op = TN_OP_FUSED_MATMUL;
      n.chain = &bad_chain;
    }
    net_build(&n, m.chunk);
    if (i == 4) n.value[1].kind = TN_VALUE_ACT;
    if (i == 6) n.value[1].dtype = TN_DT_F16;
    if (i == 7) n.value[0].kind = TN_VALUE_CONST;
    CU_ASSERT_EQUAL(mini_claim(&m, &n, &c), TN_OK);
    CU_ASSERT(c.n == 1 && c.claim.verdict == TN_NO && c.claim.reason == reason[i] && c.claim.text[0]);
    if (c.claim.reason != reason[i]) printf("\n    case %d: %u %s", i, c.claim.reason, c.claim.text);
    built b = mini_build(&m, &n, 64, false);
    CU_ASSERT(b.st == TN_E_INVALID && b.p == NULL && !strcmp(m.err.where, "linear"));
    m.err = (tn_error){.h = TN_HDR(tn_error)};
    mini_unbuild(&m, &b);
    net_free(&n);
  }
  CLOSE(m);
}

/* A batch of two is two chunks on the device, one after the other. */
static void batch(void) {
  enum { K = 70, N = 45, ROWS = 128 };
  rng r = rng_of(19);
  mini m = mini_defaults();
  OPEN(m);
  net n;
  net_init(&n, K, 2, (int64_t[]){N, N}, 0.25f, &r);
  static const chain_spec spec = {.n_parts = 2, .parts = {0, 0, N, 1, 0, N}, .n_results = 2, .results = {0, 1}};
  n.op = TN_OP_FUSED_MATMUL;
  n.chain = &spec;
  net_build(&n, m.chunk);
  const float s = n.stats.p999 / 127.0f;
  float *x = plant(&n, ROWS, s, 4, &r);
  built b = mini_build(&m, &n, ROWS, false);
  CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
  CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
  for (uint32_t j = 0; j < 2; j++) {
    float *want = wide_product(&n, j, x, ROWS, s, true);
    CU_ASSERT_EQUAL(memcmp(want, mini_output(&n, &b, j), ROWS * N * 4), 0);
    free(want);
  }
  CU_ASSERT(mini_count(&m).submissions == 2 && mini_count(&m).graphs == 1);
  CU_ASSERT_EQUAL(b.times[1].end - b.times[1].start, mini_count(&m).busy_ns);
  free(x);
  mini_unbuild(&m, &b);
  net_free(&n);
  CLOSE(m);
}

/* Any other number of rows is refused, by the plugin before the device. */
static void other_rows(void) {
  rng r = rng_of(9);
  mini m = mini_defaults();
  OPEN(m);
  const int64_t rows[] = {1, 63, 65, 96, 4095};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    net n;
    net_init(&n, 64, 1, (int64_t[]){32}, 0.25f, &r);
    net_build(&n, m.chunk);
    built b = mini_build(&m, &n, rows[i], false);
    CU_ASSERT(b.st == TN_E_UNSUPPORTED && strstr(m.err.message, "there must be 64") && mini_count(&m).graphs == 0);
    m.err = (tn_error){.h = TN_HDR(tn_error)};
    mini_unbuild(&m, &b);
    net_free(&n);
  }
  CLOSE(m);
}

static void bad_options(void) {
  for (int i = 0; i < 8; i++) {
    mini m = mini_defaults();
    const char *key[] = {"profile", "chunk", "shadow", "prune", "hot", "fault", "fault", "window"};
    if (i == 0) m.profile = "qnn-2025";
    if (i == 1) m.chunk = 96;
    if (i == 2) m.shadow = "some";
    if (i == 3) m.prune = 1.5;
    if (i == 4) m.hot = NAN;
    if (i == 5) m.fault = "graph:0";
    if (i == 6) m.fault = "weather:3";
    if (i == 7) m.window_mib = -1;
    CU_ASSERT_FALSE(mini_open(&m));
    CU_ASSERT(m.device == NULL && m.err.code == TN_E_INVALID && strstr(m.err.message, key[i]) != NULL);
    CLOSE(m);
  }
}

/* --- memory, time, failures
 * -------------------------------------------------------------------------------------------- */

/* Copies are the simulator's and counted; shared memory is one memory; what is not the device's is refused. */
static void buffers(void) {
  mini m = mini_defaults();
  m.window_mib = 1;
  OPEN(m);
  tn_buffer *a = NULL, *b = NULL, *c = NULL;
  tn_buffer_req req = {.h = TN_HDR(tn_buffer_req), .bytes = 4096, .fd = -1, .flags = TN_BUF_ZERO}, shared = req;
  void *pa = NULL, *pb = NULL;
  CU_ASSERT_EQUAL_FATAL(m.device->create(m.device, &req, &a, &m.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(m.device->share(a, TN_MEM_FD, &shared, &m.err), TN_OK);
  CU_ASSERT(shared.kind == TN_MEM_FD && shared.fd >= 0 && shared.bytes == 4096);
  CU_ASSERT_EQUAL_FATAL(m.device->create(m.device, &shared, &b, &m.err), TN_OK);
  close(shared.fd);
  CU_ASSERT_EQUAL(m.device->map(a, 0, 4096, TN_WRITE, &pa, &m.err), TN_OK);
  CU_ASSERT_EQUAL(m.device->map(b, 16, 100, TN_READ, &pb, &m.err), TN_OK);
  CU_ASSERT_FATAL(pa && pb && pa != pb);
  CU_ASSERT_EQUAL(((char *)pa)[20], 0);
  ((char *)pa)[20] = 'x';
  CU_ASSERT_EQUAL(((char *)pb)[4], 'x');
  CU_ASSERT_EQUAL(m.device->unmap(a, pa, &m.err), TN_OK);
  CU_ASSERT_EQUAL(m.device->unmap(b, pa, &m.err), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->map(b, 16, 4096, TN_READ, &pb, &m.err), TN_E_INVALID);
  req.bytes = 2 << 20;
  CU_ASSERT_EQUAL(m.device->create(m.device, &req, &c, &m.err), TN_E_NO_MEMORY);
  req.kind = TN_MEM_HOST_PTR;
  CU_ASSERT_EQUAL(m.device->create(m.device, &req, &c, &m.err), TN_E_UNSUPPORTED);
  shared.fd = -1;
  CU_ASSERT_EQUAL(m.device->create(m.device, &shared, &c, &m.err), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->share(a, TN_MEM_DMABUF, &shared, &m.err), TN_E_UNSUPPORTED);
  CU_ASSERT(c == NULL);
  const npusim_counters n = mini_count(&m);
  CU_ASSERT(n.allocations == 2 && n.live_registrations == 2 && n.registered_bytes == 8192 && n.bytes_copied == 0);
  m.device->destroy(a);
  m.device->destroy(b);
  CU_ASSERT_EQUAL(mini_count(&m).registered_bytes, 0);
  CLOSE(m);
}

/* Times are the device's: ready, then launch and the rest; the same every time. */
static void times(void) {
  rng r = rng_of(10);
  mini m = mini_defaults();
  m.wake = 0;
  OPEN(m);
  CU_ASSERT(m.device->caps->clock->kind == TN_CLOCK_VIRTUAL && m.device->caps->clock->cpu_ns_per_byte == 0.04);
  CU_ASSERT(m.device->caps->n_engines == 1 && m.device->caps->engines[0]->flags == TN_ENGINE_BLOCKING);
  net n;
  net_init(&n, 2048, 1, (int64_t[]){96}, 0.25f, &r);
  net_build(&n, m.chunk);
  float *x = plant(&n, 64, 0.25f, 0, &r);
  built b = mini_build(&m, &n, 64, false);
  CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
  const npusim_shape shape = {64, 96, 2048};
  const int64_t cost = npusim_graph_ns(npusim_profile_find("hmx-2026"), &shape, 1);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
    CU_ASSERT(b.times[1].clock == 1 && b.times[1].queued == 1000 && b.times[1].start == 1000 + i * cost);
    CU_ASSERT(b.times[1].end == b.times[1].start + cost && b.times[1].bytes > 96 * 2048);
  }
  CU_ASSERT(mini_count(&m).submissions == 3 && mini_count(&m).graphs == 1);
  /* What a task costs on that clock is what it moves and multiplies, by the clock's two constants. */
  uint64_t slots[MAX_SLOTS] = {0};
  const int64_t S = 64;
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = &S, .n = 1};
  for (uint32_t t = 0; t < 4; t++) {
    tn_measure me = {.h = TN_HDR(tn_measure), .slot_bytes = slots};
    CU_ASSERT_EQUAL(m.device->measure(b.p, t, &dims, &me), TN_OK);
    if (t == 1)
      CU_ASSERT(me.cost_ns == (double)cost && me.macs == 64.0 * 96 * 2048)
    else
      CU_ASSERT_DOUBLE_EQUAL(me.cost_ns, me.macs * 0.004 + me.moved_bytes * 0.04, 1);
  }
  CU_ASSERT_EQUAL(b.info->tasks[0]->symbols, 1);
  free(x);
  mini_unbuild(&m, &b);
  net_free(&n);
  CLOSE(m);
}

static void device_faults(void) {
  static const struct {
    const char *fault;
    tn_status build, step;
  } cases[] = {{"graph:1", TN_E_NO_MEMORY, TN_OK},  {"register:2", TN_E_NO_MEMORY, TN_OK},
               {"alloc:3", TN_E_NO_MEMORY, TN_OK},  {"lost:1", TN_OK, TN_E_DEVICE_LOST},
               {"hung:1", TN_OK, TN_E_DEVICE_LOST}, {"lost:2", TN_OK, TN_OK}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rng r = rng_of(20);
    mini m = mini_defaults();
    m.fault = cases[i].fault;
    OPEN(m);
    net n;
    net_init(&n, 64, 1, (int64_t[]){32}, 0.25f, &r);
    net_build(&n, m.chunk);
    float *x = plant(&n, 64, 0.25f, 2, &r);
    built b = mini_build(&m, &n, 64, false);
    CU_ASSERT_EQUAL(b.st, cases[i].build);
    if (b.st == TN_OK) CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), cases[i].step);
    if (b.st != TN_OK) CU_ASSERT(m.err.code == b.st && m.err.message[0]);
    if (!strcmp(cases[i].fault, "lost:2")) {
      CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_E_DEVICE_LOST);
      CU_ASSERT(m.err.code == TN_E_DEVICE_LOST && strstr(m.err.message, "lost"));
    }
    free(x);
    mini_unbuild(&m, &b);
    net_free(&n);
    CLOSE(m);
  }
}

/* Every allocation fails once: a status, no leak. */
static void no_memory(void) {
  for (int64_t at = 1; at < 400; at++) {
    rng r = rng_of(21);
    mini m = mini_defaults();
    OPEN(m);
    net n;
    net_init(&n, 64, 1, (int64_t[]){32}, 0.25f, &r);
    net_build(&n, m.chunk);
    float *x = plant(&n, 64, 0.25f, 2, &r);
    const int64_t live = m.live;
    m.fail_at = at;
    built b = mini_build(&m, &n, 64, false);
    const bool reached = m.fail_at == 0;
    CU_ASSERT_EQUAL(b.st, reached ? TN_E_NO_MEMORY : TN_OK);
    m.fail_at = 0;
    if (b.st == TN_OK) CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
    free(x);
    mini_unbuild(&m, &b);
    CU_ASSERT_EQUAL(m.live, live);
    net_free(&n);
    CLOSE(m);
    if (!reached) return;
  }
  CU_FAIL("never ran out of allocations to fail");
}

static void cancel(void) {
  for (int32_t polls = 1; polls < 6; polls++) {
    rng r = rng_of(22);
    mini m = mini_defaults();
    OPEN(m);
    net n;
    net_init(&n, 64, 1, (int64_t[]){96}, 0.25f, &r);
    net_build(&n, m.chunk);
    float *x = plant(&n, 64, 0.25f, 2, &r);
    built b = mini_build(&m, &n, 64, false);
    CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
    m.cancel_after = polls * 25;
    CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_E_CANCELLED);
    CU_ASSERT_EQUAL(m.err.code, TN_E_CANCELLED);
    m.cancel_after = 0;
    m.err = (tn_error){.h = TN_HDR(tn_error)};
    CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
    free(x);
    mini_unbuild(&m, &b);
    net_free(&n);
    CLOSE(m);
  }
}

static int open_files(void) {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

/* A hundred times from the entry to shutdown: neither heap, nor descriptors, nor mappings grow. */
static void reopen(void) {
  size_t heap = 0;
  int files = 0;
  for (int i = 0; i < 100; i++) {
    rng r = rng_of(24);
    mini m = mini_defaults();
    OPEN(m);
    net n;
    net_init(&n, 64, 1, (int64_t[]){32}, 0.25f, &r);
    net_build(&n, m.chunk);
    float *x = plant(&n, 64, 0.25f, 2, &r);
    built b = mini_build(&m, &n, 64, false);
    CU_ASSERT_EQUAL(b.st, TN_OK);
    CU_ASSERT_EQUAL(mini_step(&m, &b, x, false), TN_OK);
    free(x);
    mini_unbuild(&m, &b);
    CU_ASSERT_EQUAL(mini_count(&m).registered_bytes, 0);
    net_free(&n);
    CLOSE(m);
    if (i == 49) {
      heap = mallinfo2().uordblks;
      files = open_files();
    }
  }
  CU_ASSERT(mallinfo2().uordblks <= heap);
  CU_ASSERT_EQUAL(open_files(), files);
}

/* Wrong blobs, views, indices: statuses. */
static void misuse(void) {
  rng r = rng_of(23);
  mini m = mini_defaults();
  OPEN(m);
  net n;
  net_init(&n, 64, 1, (int64_t[]){32}, 0.25f, &r);
  net_build(&n, m.chunk);
  built b = mini_build(&m, &n, 64, false);
  CU_ASSERT_EQUAL_FATAL(b.st, TN_OK);
  const tn_id w = b.info->tasks[1]->uses[2].slot, rows = b.info->tasks[2]->uses[3].slot;
  tn_blob blob = b.blob[w];
  tn_view v = b.view[w];
  v.buffer = NULL;
  CU_ASSERT_EQUAL(m.device->set(b.p, w, &v, &blob, NULL), TN_E_INVALID); /* a pointer is no memory of the device */
  CU_ASSERT_EQUAL(m.device->set(b.p, w, NULL, &blob, NULL), TN_E_INVALID);
  v = b.view[w];
  v.offset = 64;
  CU_ASSERT_EQUAL(m.device->set(b.p, w, &v, &blob, NULL), TN_E_INVALID);
  blob.K--;
  CU_ASSERT_EQUAL(m.device->set(b.p, w, &b.view[w], &blob, NULL), TN_E_INVALID);
  blob = b.blob[w];
  blob.bytes--;
  CU_ASSERT_EQUAL(m.device->set(b.p, w, &b.view[w], &blob, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->set(b.p, w, &b.view[w], &b.blob[rows], NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->set(b.p, rows, NULL, &b.blob[w], NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->set(b.p, 99, NULL, NULL, NULL), TN_E_INVALID);
  const tn_task *t = b.info->tasks[1];
  const tn_view *views[8];
  tn_args *args = NULL;
  for (uint32_t i = 0; i < t->n_uses; i++) views[i] = &b.view[t->uses[i].slot];
  views[t->n_uses] = NULL;
  tn_view host = b.view[t->uses[0].slot];
  host.buffer = NULL;
  views[0] = &host;
  CU_ASSERT_EQUAL(m.device->args(b.plan[1], views, t->n_uses + 1, &args, &m.err), TN_E_INVALID);
  CU_ASSERT(strstr(m.err.message, "memory of the device") != NULL);
  host = b.view[t->uses[0].slot];
  host.bytes--;
  CU_ASSERT_EQUAL(m.device->args(b.plan[1], views, t->n_uses + 1, &args, NULL), TN_E_INVALID);
  views[0] = &b.view[t->uses[0].slot];
  CU_ASSERT_EQUAL(m.device->args(b.plan[1], views, t->n_uses, &args, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->args_set(b.args[1], 9, views[0], NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->args_set(b.args[1], 0, views[0], NULL), TN_OK);
  CU_ASSERT(args == NULL);
  const tn_item none = {.h = TN_HDR(tn_item)};
  const tn_item *items[1] = {&none};
  CU_ASSERT_EQUAL(m.device->submit(m.device, 1, items, 1, NULL, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(m.device->submit(m.device, 2, items, 0, NULL, NULL), TN_E_INVALID);
  mini_unbuild(&m, &b);
  net_free(&n);
  CLOSE(m);
}

bool add_plugin_suite(void) {
  CU_TestInfo tests[] = {{"shadow is exact", shadow_is_exact},
                         {"without shadow", without_shadow},
                         {"pruned", pruned},
                         {"cold rows", cold_rows},
                         {"fused chain", fused_chain},
                         {"parts", parts},
                         {"claims", claims},
                         {"refusals", refusals},
                         {"batch", batch},
                         {"other rows", other_rows},
                         {"bad options", bad_options},
                         {"buffers", buffers},
                         {"times", times},
                         {"device faults", device_faults},
                         {"no memory", no_memory},
                         {"cancel", cancel},
                         {"reopen", reopen},
                         {"misuse", misuse},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"plugin", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
