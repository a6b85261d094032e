/* SPDX-License-Identifier: Apache-2.0
 *
 * TN_QUANT_KEEP: begin gets it where all that a model brings lies on the format's grid, and nowhere else.
 */
#include <CUnit/Basic.h>
#include <math.h>
#include <string.h>

#include "runtime/pack/pack.h"
#include "tests/pack/fixture.h"

enum { N = 5, K = 96, GROUP = 32, BLOCKS = K / GROUP };

/* What the model brings, and the grid that the format states. */
static struct {
  uint8_t codes[N * K], index[N * BLOCKS];
  float scales[N * BLOCKS], zeros[N * BLOCKS], parents[N], levels[16], steps[4];
  tn_quant q;
  tn_weight w;
  tn_grid g;
  tn_status grid_status, rows_status;
  uint32_t code_reads;
} is;

static tn_status give_grid(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *codes, float *scales, float *zeros) {
  const int64_t blocks = (K + q->group - 1) / q->group;
  if (codes) is.code_reads++, memcpy(codes, is.codes + n0 * K, (size_t)((n1 - n0) * K));
  if (scales) memcpy(scales, is.scales + n0 * blocks, (size_t)((n1 - n0) * blocks) * sizeof *scales);
  if (zeros) memcpy(zeros, is.zeros + n0 * blocks, (size_t)((n1 - n0) * blocks) * sizeof *zeros);
  return is.rows_status;
}

static tn_status give_steps(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *index, float *parents) {
  (void)q;
  memcpy(index, is.index + n0 * BLOCKS, (size_t)((n1 - n0) * BLOCKS));
  memcpy(parents, is.parents + n0, (size_t)(n1 - n0) * sizeof *parents);
  return TN_OK;
}

static tn_status my_grid(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out) {
  (void)f, (void)params, (void)n;
  *out = is.g;
  return is.grid_status;
}

static tn_format format;

/* 4 bits, groups of 32, a zero point of its own for each, scales that are halves: all on the grid. */
static void affine(void) {
  memset(&is, 0, sizeof is);
  format = fx_format;
  format.grid = my_grid;
  is.g = (tn_grid){.h = TN_HDR(tn_grid), .kind = TN_GRID_AFFINE, .n_codes = 15, .group = GROUP,
                   .scale_dtype = TN_DT_F16, .scale_unit = 1, .zero_kind = TN_ZERO_CODES};
  is.q = (tn_quant){.h = TN_HDR(tn_quant), .bits = 4, .group = GROUP, .scheme = TN_QUANT_AFFINE,
                    .scale_dtype = TN_DT_F16, .grid = give_grid, .zero_kind = TN_ZERO_CODES};
  is.w = (tn_weight){.h = TN_HDR(tn_weight), .N = N, .K = K, .dtype = TN_DT_F32, .quant = &is.q};
  for (int i = 0; i < N * K; i++) is.codes[i] = (uint8_t)(i % 15);
  for (int i = 0; i < N * BLOCKS; i++) is.scales[i] = 0.25f * (float)(1 + i), is.zeros[i] = (float)(i % 15);
}

static void leveled(void) {
  affine();
  is.g.kind = TN_GRID_LEVELS;
  is.g.n_codes = 16;
  is.g.level_dtype = TN_DT_I8;
  is.q.scheme = TN_QUANT_LEVELS;
  is.q.levels = is.levels;
  is.q.n_levels = 16;
  for (int i = 0; i < 16; i++) is.levels[i] = (float)(i * i - 100);
}

static void stepped(void) {
  leveled();
  is.g.levels = is.levels;
  is.g.n_steps = is.q.n_steps = 4;
  is.g.steps = is.q.steps = is.steps;
  is.q.stepped = give_steps;
  for (int i = 0; i < 4; i++) is.steps[i] = 0.3f * (float)(i + 1);
  for (int i = 0; i < N; i++) is.parents[i] = 0.5f;
  for (int i = 0; i < N * BLOCKS; i++) is.index[i] = (uint8_t)(i % 4);
}

static bool kept(void) {
  tni_pack_kept k;
  CU_ASSERT_EQUAL(tni_pack_keep(&k, &format, NULL, 0, &is.w, NULL), TN_OK);
  CU_ASSERT_EQUAL(k.weight.N, N);
  const bool keep = k.weight.quant && k.weight.quant->flags & TN_QUANT_KEEP;
  CU_ASSERT_EQUAL(is.q.flags, 0); /* the model's own is not changed */
  CU_ASSERT_TRUE(keep || k.weight.quant == is.w.quant);
  return keep;
}

#define KEPT(start, change, yes) \
  do {                           \
    start();                     \
    change;                      \
    CU_ASSERT_EQUAL(kept(), yes); \
  } while (0)

static void test_affine(void) {
  KEPT(affine, (void)0, true);
  CU_ASSERT_TRUE(is.code_reads > 0);
  KEPT(affine, (is.g.n_codes = 16, is.codes[7] = 15), true);
  CU_ASSERT_EQUAL(is.code_reads, 0); /* four bits say no other codes */
  KEPT(affine, is.codes[N * K - 1] = 15, false);
  KEPT(affine, is.scales[N * BLOCKS - 1] = 1.0f / 3, false);
  KEPT(affine, (is.scales[3] = 1.0f / 3, is.g.scale_dtype = TN_DT_F32), true);
  KEPT(affine, is.scales[3] = 0, true);
  KEPT(affine, is.scales[3] = -0.5f, false);
  KEPT(affine, (is.scales[3] = -0.5f, is.g.flags = TN_GRID_SIGNED), true);
  KEPT(affine, is.scales[3] = 0x1p-20f, false); /* a denormal half */
  KEPT(affine, (is.scales[3] = 0x1p-20f, is.g.scale_unit = 0x1p-10f), true);
  KEPT(affine, is.scales[3] = INFINITY, false);
  KEPT(affine, is.zeros[4] = 15, false);
  KEPT(affine, is.zeros[4] = 2.5f, false);
  KEPT(affine, (is.zeros[4] = 2.5f, is.g.zero_kind = TN_ZERO_VALUES), true);
  KEPT(affine, (is.zeros[4] = 257, is.g.zero_kind = TN_ZERO_VALUES), false);
  KEPT(affine, (is.zeros[4] = NAN, is.g.zero_kind = TN_ZERO_VALUES), false);
  KEPT(affine, is.g.zero_kind = TN_ZERO_HALF, false);
  KEPT(affine, is.g.zero_kind = TN_ZERO_UNKNOWN, false);
}

static void test_groups(void) {
  KEPT(affine, is.g.group = 16, false);
  KEPT(affine, is.g.group = 0, false);
  KEPT(affine, (is.g.group = 0, is.q.group = K), true);
  KEPT(affine, (is.g.group = 0, is.q.group = K + 8), true); /* one group, that of the row */
  KEPT(affine, is.q.group = K, false);
  affine();
  is.g.group = 128;
  is.q.group = 104;
  tni_pack_kept k;
  CU_ASSERT_EQUAL(tni_pack_keep(&k, &format, NULL, 0, &is.w, NULL), TN_OK);
  CU_ASSERT_TRUE(k.weight.quant->flags & TN_QUANT_KEEP && k.weight.quant->group == 128);
}

static void test_tables(void) {
  KEPT(leveled, (void)0, true);
  KEPT(leveled, is.levels[5] += 0.5f, false);
  KEPT(leveled, is.levels[5] = is.levels[4], false);
  KEPT(leveled, is.levels[15] = 128, false);
  KEPT(leveled, is.q.n_levels = 15, false);
  KEPT(leveled, is.q.vec = 2, false);
  KEPT(leveled, is.q.scheme = TN_QUANT_AFFINE, false);
  KEPT(stepped, (void)0, true);
  float other[16], steps[4];
  KEPT(stepped, (memcpy(other, is.levels, sizeof other), other[1]++, is.q.levels = other), false);
  KEPT(stepped, (memcpy(steps, is.steps, sizeof steps), steps[3] *= 2, is.q.steps = steps), false);
  KEPT(stepped, is.q.n_steps = 3, false);
  KEPT(stepped, is.index[2] = 4, false);
  KEPT(stepped, is.parents[N - 1] = 1.0f / 3, false);
  KEPT(stepped, is.q.stepped = NULL, false);
}

static void test_neither(void) {
  KEPT(affine, is.w.quant = NULL, false);
  KEPT(affine, format.grid = NULL, false);
  KEPT(affine, format.h.size = TN_UPTO(tn_format, unpack), false); /* of ABI 1.0 */
  KEPT(affine, is.grid_status = TN_E_UNSUPPORTED, false);
  tni_pack_kept k;
  affine();
  is.rows_status = TN_E_IO;
  CU_ASSERT_EQUAL(tni_pack_keep(&k, &format, NULL, 0, &is.w, NULL), TN_E_IO);
}

static uint32_t flags_got;

static tn_status begin(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params, uint32_t n,
                       tn_pack **out, tn_error *err) {
  flags_got = w->quant ? w->quant->flags : 0;
  return fx_format.begin(host, f, w, params, n, out, err);
}

/* Through the store, with its threads: and what was packed before is not taken for what is kept. */
static void test_store(void) {
  char dir[256];
  fx_model m;
  fx_temp_dir(dir, sizeof dir);
  fx_model_init(&m, dir);
  tni_pool *pool = tni_pool_create(2);
  for (int round = 0; round < 2; round++) {
    tni_pack_store *s = NULL;
    affine();
    is.g.n_codes = 16;
    format.begin = begin;
    tn_weight *w = m.whole[0]; /* [37, 96]: zeros and scales of rows beyond N are all alike */
    tn_weight was = *w;
    is.q.group = is.g.group = K;
    is.g.zero_kind = TN_ZERO_VALUES;
    w->N = N;
    w->quant = &is.q;
    if (round) is.scales[1] = 1.0f / 3;
    m.items[0].format = &format;
    flags_got = 99;
    CU_ASSERT_EQUAL_FATAL(fx_open(&m, 1, pool, &s), TN_OK);
    CU_ASSERT_EQUAL(flags_got, round ? 0 : TN_QUANT_KEEP);
    tni_pack_store_close(s);
    *w = was;
    fx_model_param(&m, 7 + round); /* another matrix to the store */
  }
  fx_model_finish(&m);
  tni_pool_destroy(pool);
  fx_remove_dir(dir);
}

void test_keep_suite(void) {
  CU_pSuite s = CU_add_suite("codes on the grid", NULL, NULL);
  CU_add_test(s, "codes, scales and zeros", test_affine);
  CU_add_test(s, "groups of one length", test_groups);
  CU_add_test(s, "levels and steps", test_tables);
  CU_add_test(s, "nothing to keep", test_neither);
  CU_add_test(s, "begin gets KEEP from the store", test_store);
}
