/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats e0m2, e0m3, e0m4, e0m8: geometry, bytes whatever the split of rows, unpack of any box, errors within what
 * they declare, refusals, and what statistics of a calibration text change.
 */
#include "plugins/common/formats/e0m.h"

#include <CUnit/Basic.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/formats/e0m_fit.h"
#include "plugins/common/formats/f16.h"
#include "tests/adreno/draws.h"

static void *host_alloc(tn_host_ctx *c, size_t n, size_t align, uint32_t tag) {
  (void)c, (void)tag;
  return aligned_alloc(align < 64 ? 64 : align, (n + 255) / 128 * 128);
}
static void host_free(tn_host_ctx *c, void *p) {
  (void)c;
  free(p);
}
static const tn_host host = {.h = TN_HDR(tn_host), .alloc = host_alloc, .free = host_free};

/* --- matrices ---------------------------------------------------------------------------------------------------- */

typedef struct matrix {
  tn_weight pub; /* first */
  float *w;
} matrix;

static tn_status rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  memcpy(dst, ((const matrix *)w)->w + n0 * w->K, (size_t)((n1 - n0) * w->K) * sizeof *dst);
  return TN_OK;
}

static matrix make(int64_t N, int64_t K) {
  matrix m = {.pub = {.h = TN_HDR(tn_weight), .N = N, .K = K, .dtype = TN_DT_F32, .rows = rows}};
  m.w = malloc((size_t)(N * K) * sizeof *m.w);
  for (int64_t i = 0; i < N * K; i++) m.w[i] = normal() * (i % K < 3 ? 4.0f : 0.05f);
  return m;
}

/* Packs in steps of `step` columns, last first where backwards. NULL: refused. */
static uint8_t *pack(const tn_format *f, const matrix *m, int64_t zero_exact, int64_t step, bool backwards,
                     uint64_t *bytes) {
  const int64_t params[1] = {zero_exact};
  tn_pack_size size;
  tn_pack *p = NULL;
  tn_error err = {.h = TN_HDR(tn_error)};
  if (f->size(f, m->pub.N, m->pub.K, params, 1, &size) != TN_OK) return NULL;
  if (f->begin(&host, f, &m->pub, params, 1, &p, &err) != TN_OK) return NULL;
  uint8_t *blob = malloc(size.bytes + 64);
  memset(blob, 0xee, size.bytes + 64);
  *bytes = size.bytes;
  tn_status st = TN_OK;
  const int64_t n = (m->pub.N + step - 1) / step;
  for (int64_t i = 0; st == TN_OK && i < n; i++) {
    const int64_t at = (backwards ? n - 1 - i : i) * step, end = at + step < m->pub.N ? at + step : m->pub.N;
    st = f->rows(p, at, end, blob);
  }
  if (f->end(p, st == TN_OK ? blob : NULL) == TN_OK && st == TN_OK) return blob;
  free(blob);
  return NULL;
}

static tn_blob blob_of(const tn_format *f, const matrix *m, const uint8_t *bytes, uint64_t n) {
  static const int64_t params[1] = {0};
  return (tn_blob){.h = TN_HDR(tn_blob),
                   .format = f,
                   .N = m->pub.N,
                   .K = m->pub.K,
                   .bytes = n,
                   .ptr = bytes,
                   .params = params,
                   .n_params = 1};
}

static const int64_t shapes[][2] = {{1, 1},     {1, 128},  {127, 127}, {128, 128},
                                    {129, 129}, {5, 1000}, {300, 64},  {256, 259}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static float largest(const matrix *m, int64_t n, int64_t k) {
  float top = 0;
  for (int64_t i = k / 128 * 128; i < m->pub.K && i < k / 128 * 128 + 128; i++)
    top = fmaxf(top, fabsf(m->w[n * m->pub.K + i]));
  return top;
}

/* --- tests ------------------------------------------------------------------------------------------------------- */

static void round_trip_of(const tn_format *f, int exact, int64_t N, int64_t K) {
  matrix m = make(N, K);
  uint64_t n = 0, n2 = 0;
  for (int64_t i = 0; i < m.pub.N * m.pub.K; i += 17) m.w[i] = 0;
  uint8_t *a = pack(f, &m, exact, 1 << 20, false, &n), *b = pack(f, &m, exact, 128, true, &n2);
  CU_ASSERT_FATAL(a && b && n == n2);
  CU_ASSERT(memcmp(a, b, n) == 0);
  CU_ASSERT(a[n] == 0xee);
  const tn_blob blob = blob_of(f, &m, a, n);
  const int64_t all[4] = {0, m.pub.N, 0, m.pub.K};
  float *w = malloc((size_t)(m.pub.N * m.pub.K) * sizeof *w);
  CU_ASSERT(f->unpack(&blob, all, w) == TN_OK);
  int wrong = 0;
  for (int64_t i = 0; i < m.pub.N * m.pub.K; i++) {
    const float bound = f->w_err * largest(&m, i / m.pub.K, i % m.pub.K) + 0x1p-14f;
    wrong += !(fabsf(w[i] - m.w[i]) <= bound) || (exact && m.w[i] == 0 && w[i] != 0);
  }
  CU_ASSERT(wrong == 0);
  free(w);
  free(a);
  free(b);
  free(m.w);
}

static void round_trip(void) {
  for (int f = 0; f < TNI_E0M_KINDS; f++)
    for (int exact = 0; exact < 2; exact++)
      for (int s = 0; s < N_SHAPES; s++) round_trip_of(&tni_e0m_formats[f], exact, shapes[s][0], shapes[s][1]);
}

static void boxes(void) {
  const int64_t box[][4] = {{0, 1, 0, 1}, {127, 130, 3, 130}, {260, 261, 389, 390}, {5, 5, 0, 9}, {100, 261, 126, 257}};
  for (int f = 0; f < TNI_E0M_KINDS; f++) {
    matrix m = make(261, 390);
    uint64_t n;
    uint8_t *a = pack(&tni_e0m_formats[f], &m, 0, 256, false, &n);
    CU_ASSERT_FATAL(a != NULL);
    const tn_blob blob = blob_of(&tni_e0m_formats[f], &m, a, n);
    float *all = malloc(sizeof(float) * 261 * 390), *part = malloc(sizeof(float) * 261 * 390);
    CU_ASSERT(blob.format->unpack(&blob, (const int64_t[]){0, 261, 0, 390}, all) == TN_OK);
    for (size_t b = 0; b < sizeof box / sizeof *box; b++) {
      CU_ASSERT(blob.format->unpack(&blob, box[b], part) == TN_OK);
      for (int64_t r = box[b][0], i = 0; r < box[b][1]; r++)
        for (int64_t k = box[b][2]; k < box[b][3]; k++, i++) CU_ASSERT(part[i] == all[r * 390 + k]);
    }
    CU_ASSERT(blob.format->unpack(&blob, (const int64_t[]){0, 262, 0, 1}, part) != TN_OK);
    free(all);
    free(part);
    free(a);
    free(m.w);
  }
}

static void parts_of(uint32_t bits, int64_t N, int64_t K) {
  tni_e0m_geometry g;
  uint64_t end = 0;
  CU_ASSERT_FATAL(tni_e0m_geometry_of(bits, N, K, &g) == TN_OK);
  for (int64_t p = 0; p < g.n_parts; p++) {
    const tni_e0m_part o = tni_e0m_part_of(&g, p);
    const uint64_t bytes = o.s_at - o.w_at + (uint64_t)(o.Pn * g.Kp / 32);
    CU_ASSERT(o.w_at == end && o.w_at % 128 == 0 && o.s_at % 128 == 0 && o.Pn % 128 == 0);
    CU_ASSERT(o.s_at - o.w_at == (uint64_t)(tni_e0m_rows(bits, K) * o.Pn * 2));
    CU_ASSERT(bytes <= TNI_E0M_PART_BYTES || o.Pn == 128);
    end = o.w_at + bytes;
  }
  CU_ASSERT(end == g.bytes);
}

static void parts(void) {
  const int64_t big[][2] = {{128, 128}, {4096, 4096}, {128256, 4096}, {152064, 8192}, {100, 1 << 26}};
  tni_e0m_geometry g;
  for (int f = 0; f < TNI_E0M_KINDS; f++) {
    const uint32_t bits = tni_e0m_formats[f].bits;
    for (size_t i = 0; i < sizeof big / sizeof *big; i++) parts_of(bits, big[i][0], big[i][1]);
    CU_ASSERT(tni_e0m_geometry_of(bits, 0, 1, &g) == TN_E_INVALID &&
              tni_e0m_geometry_of(bits, 1, TNI_E0M_MAX_DIM + 1, &g) == TN_E_INVALID);
  }
}

static void refusals(void) {
  const float bad[] = {NAN, INFINITY, -INFINITY, 70000.0f};
  uint64_t n;
  for (int f = 0; f < TNI_E0M_KINDS; f++)
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      matrix m = make(3, 200);
      m.w[350] = bad[i];
      CU_ASSERT(pack(&tni_e0m_formats[f], &m, 0, 128, false, &n) == NULL);
      free(m.w);
    }
  matrix m = make(3, 200);
  CU_ASSERT(pack(&tni_e0m_formats[TNI_E0M_4], &m, 2, 128, false, &n) == NULL);
  free(m.w);
}

static float value_of(uint32_t bits, const uint16_t sc[2], uint8_t code) {
  return tni_cm_f16_to_f32(sc[0]) * (1.0f + (float)code / (float)(1u << bits) - tni_cm_f16_to_f32(sc[1]));
}

/* Groups that lie on a grid, by hand: -z .. 2^m - 1 - z times a step. */
static void bytes(void) {
  float w[128];
  uint8_t codes[128];
  uint16_t sc[2];
  for (int f = 0; f < TNI_E0M_KINDS; f++) {
    const uint32_t bits = tni_e0m_formats[f].bits;
    const int n = 1 << bits, zero = n / 2 - 1;
    for (int exact = 0; exact < 2; exact++) {
      for (int i = 0; i < 128; i++) w[i] = (float)((i * (n / 128 + 1)) % n - zero) / 64.0f;
      w[0] = -(float)zero / 64.0f;
      w[1] = (float)(n - 1 - zero) / 64.0f;
      CU_ASSERT(tni_e0m_fit(bits, exact, w, NULL, 128, codes, sc) == 0);
      CU_ASSERT(sc[0] == tni_cm_f32_to_f16((float)n / 64.0f));
      CU_ASSERT(sc[1] == tni_cm_f32_to_f16(1.0f + (float)zero / (float)n));
      CU_ASSERT(codes[0] == 0 && codes[1] == n - 1);
      for (int i = 0; i < 128; i++) CU_ASSERT(value_of(bits, sc, codes[i]) == w[i]);
    }
    for (int i = 0; i < 128; i++) w[i] = 1e-6f;
    CU_ASSERT(tni_e0m_fit(bits, false, w, NULL, 128, codes, sc) == 0 && sc[0] == 0);
    for (int i = 0; i < 128; i++) w[i] = 0.5f + (float)i / 256; /* all on one side of zero */
    CU_ASSERT(tni_e0m_fit(bits, true, w, NULL, 128, codes, sc) == 0 && codes[127] == n - 1);
  }
}

/* What the calibration text says of channels moves the error to those that count less. */
static void statistics(void) {
  const int64_t N = 64, K = 256, all[4] = {0, N, 0, K};
  for (int f = 0; f < TNI_E0M_KINDS; f++) {
    matrix m = make(N, K);
    float heavy[256], *u = malloc((size_t)(N * K) * sizeof *u);
    double e[2] = {0, 0};
    uint64_t n;
    for (int64_t i = 0; i < N * K; i++) m.w[i] = normal();
    for (int64_t k = 0; k < K; k++) heavy[k] = k % 16 ? 0.01f : 4.0f;
    const tn_stats x = {.h = TN_HDR(tn_stats), .absmax = 4, .p999 = 3, .n = (uint32_t)K, .ch_weight = heavy, .rows = 9};
    for (int with = 0; with < 2; with++) {
      m.pub.x = with ? &x : NULL;
      uint8_t *a = pack(&tni_e0m_formats[f], &m, 0, 128, false, &n);
      CU_ASSERT_FATAL(a != NULL);
      const tn_blob b = blob_of(&tni_e0m_formats[f], &m, a, n);
      CU_ASSERT(b.format->unpack(&b, all, u) == TN_OK);
      for (int64_t i = 0; i < N * K; i++) e[with] += (double)heavy[i % K] * (double)((u[i] - m.w[i]) * (u[i] - m.w[i]));
      free(a);
    }
    CU_ASSERT(e[1] < 0.97 * e[0]);
    free(u);
    free(m.w);
  }
}

int main(void) {
  CU_TestInfo tests[] = {{"round trip", round_trip}, {"boxes", boxes}, {"parts", parts},
                         {"refusals", refusals},     {"bytes", bytes}, {"statistics", statistics},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"e0m", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS) return 2;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures(), ran = CU_get_number_of_tests_run();
  CU_cleanup_registry();
  return failed || !ran;
}
