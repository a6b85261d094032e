/* SPDX-License-Identifier: Apache-2.0
 *
 * quant-keep-test PLUGIN.so...: what the solver chose on a format's grid goes through pack and unpack bit for bit, for
 * every format whose grid the solver takes.
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quant/quant.h"
#include "tests/kit/exprs.h"
#include "tests/kit/host.h"

enum { N = 33, K = 300, MAX_PARAMS = 3 };

static int n_plugins, n_kept;
static char **plugins;

typedef struct choice {
  tn_quant q;
  tni_quant_codes out;
  int64_t groups, per_row;
} choice;

static tn_status give_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const choice *c = w->ctx;
  memcpy(dst, c->out.q + n0 * K, (size_t)((n1 - n0) * K) * sizeof *dst);
  return TN_OK;
}

static tn_status give_grid(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *codes, float *scales, float *zeros) {
  const choice *c = q->ctx;
  const size_t n = (size_t)(n1 - n0), groups = n * (size_t)c->groups * sizeof(float);
  if (codes) memcpy(codes, c->out.codes + n0 * c->per_row, n * (size_t)c->per_row);
  if (scales) memcpy(scales, c->out.scales + n0 * c->groups, groups);
  if (zeros && c->out.zeros) memcpy(zeros, c->out.zeros + n0 * c->groups, groups);
  return TN_OK;
}

static tn_status give_steps(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *steps, float *parents) {
  const choice *c = q->ctx;
  const size_t n = (size_t)(n1 - n0);
  if (steps) memcpy(steps, c->out.steps + n0 * c->groups, n * (size_t)c->groups);
  if (parents) memcpy(parents, c->out.parents + n0, n * sizeof *parents);
  return TN_OK;
}

static void solve(choice *c, const tn_grid *g, const tni_quant_grid *grid) {
  static float w[N * K], h[K * K];
  tni_pool_run r;
  tni_pool_run_init(&r, NULL, NULL);
  for (int i = 0; i < N * K; i++) w[i] = (float)(i * 37 % 101 - 50) * .01f + (float)(i % 7) * .002f;
  for (int i = 0; i < K * K; i++) h[i] = (i / K == i % K) ? 1 : .3f / (1 + (float)abs(i / K - i % K));
  c->groups = g->group ? (K + g->group - 1) / g->group : 1;
  c->per_row = (K + grid->vec - 1) / grid->vec;
  const size_t groups = (size_t)(N * c->groups);
  c->out = (tni_quant_codes){.codes = calloc((size_t)(N * c->per_row), 1),
                             .scales = calloc(groups, sizeof(float)),
                             .zeros = g->kind == TN_GRID_AFFINE ? calloc(groups, sizeof(float)) : NULL,
                             .steps = grid->steps ? calloc(groups, 1) : NULL,
                             .parents = grid->steps ? calloc(N, sizeof(float)) : NULL,
                             .q = calloc(N * K, sizeof(float))};
  const tni_quant_task t = {.N = N, .K = K, .w = w, .h = h, .grid = grid, .damp = .1f, .sweeps = 2};
  CU_ASSERT_EQUAL_FATAL(tni_quant_solve(&t, &c->out, &r.run, NULL), TN_OK);
  c->q = (tn_quant){
      .h = TN_HDR(tn_quant),
      .bits = 1,
      .group = g->group ? g->group : K,
      .scheme = g->kind == TN_GRID_LEVELS ? TN_QUANT_LEVELS : TN_QUANT_AFFINE,
      .scale_dtype = g->scale_dtype,
      .zero_kind = g->zero_kind,
      .ctx = c,
      .grid = give_grid,
      .flags = TN_QUANT_KEEP,
      .n_levels = g->kind == TN_GRID_LEVELS ? g->n_codes : 0,
      .levels = g->levels,
      .vec = g->vec,
      .n_steps = g->n_steps,
      .steps = g->steps,
      .stepped = g->n_steps ? give_steps : NULL,
  };
  while (1u << c->q.bits < g->n_codes) c->q.bits++;
}

static void free_choice(choice *c) {
  free(c->out.codes);
  free(c->out.scales);
  free(c->out.zeros);
  free(c->out.steps);
  free(c->out.parents);
  free(c->out.q);
}

static tn_status pack(const tn_host *h, const tn_format *f, const choice *c, const int64_t *params, uint32_t n,
                      float *got) {
  tn_pack_size size = {0};
  tn_pack *p = NULL;
  tn_error err = {.h = TN_HDR(tn_error)};
  const int64_t box[4] = {0, N, 0, K};
  const tn_weight w = {.h = TN_HDR(tn_weight),
                       .ctx = (void *)(uintptr_t)c,
                       .N = N,
                       .K = K,
                       .dtype = TN_DT_F32,
                       .quant = &c->q,
                       .rows = give_rows};
  tn_status st = f->size(f, N, K, params, n, &size);
  if (st) return st;
  void *at = aligned_alloc(64, (size.bytes + 63) & ~UINT64_C(63));
  memset(at, 0, size.bytes);
  const tn_blob b = {.h = TN_HDR(tn_blob),
                     .format = f,
                     .N = N,
                     .K = K,
                     .bytes = size.bytes,
                     .ptr = at,
                     .params = params,
                     .n_params = n};
  st = f->begin(h, f, &w, params, n, &p, &err);
  if (st) printf("\n  %s: %s\n", f->name, err.message);
  for (int64_t r = 0; st == TN_OK && r < N; r += size.row_unit)
    st = f->rows(p, r, r + size.row_unit < N ? r + size.row_unit : N, at);
  if (p && f->end(p, st == TN_OK ? at : NULL) != TN_OK) st = TN_E_INTERNAL;
  if (st == TN_OK) st = f->unpack(&b, box, got);
  free(at);
  return st;
}

static void try_format(const tn_host *h, const tn_format *f) {
  static const int64_t tries[][MAX_PARAMS] = {{0}, {32}, {128}, {16, 16, 0}, {32, 32, 8}, {64, 32, 32}};
  static const uint32_t counts[] = {0, 1, 1, 3, 3, 3};
  static float got[N * K];
  for (size_t t = 0; t < sizeof counts / sizeof *counts; t++) {
    tn_grid g = {.h = TN_HDR(tn_grid)};
    tni_quant_grid grid;
    choice c;
    if (f->grid(f, tries[t], counts[t], &g) != TN_OK || tni_quant_grid_init(&g, &grid, NULL) != TN_OK) continue;
    solve(&c, &g, &grid);
    CU_ASSERT_EQUAL(pack(h, f, &c, tries[t], counts[t], got), TN_OK);
    const bool same = memcmp(got, c.out.q, sizeof got) == 0;
    if (!same) printf("\n  %s: not the values that were solved\n", f->name);
    CU_ASSERT(same);
    n_kept++;
    free_choice(&c);
    tni_quant_grid_finish(&grid);
  }
}

static tn_status no_option(tn_host_ctx *ctx, const char *key, uint32_t type, void *out) {
  (void)ctx, (void)key, (void)type, (void)out;
  return TN_E_INVALID;
}

static void test_plugins(void) {
  for (int i = 0; i < n_plugins; i++) {
    kit_host h = {.threads = 0};
    tn_plugin *p = NULL;
    tn_error err = {.h = TN_HDR(tn_error)};
    kit_host_init(&h, 1);
    kit_exprs_serve(&h.host);
    h.host.option = no_option;
    (void)kit_host_load(&h, plugins[i], &p, &err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    for (uint32_t f = 0; f < p->n_formats; f++)
      if (TN_HAS(p->formats[f], tn_format, grid) && p->formats[f]->grid) try_format(&h.host, p->formats[f]);
    p->shutdown(p);
  }
  printf("%d kept ... ", n_kept);
  CU_ASSERT(n_kept >= 8);
}

int main(int argc, char **argv) {
  n_plugins = argc - 1;
  plugins = argv + 1;
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("what was solved", NULL, NULL);
  CU_add_test(s, "comes back bit for bit", test_plugins);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failed != 0;
}
