/* SPDX-License-Identifier: Apache-2.0
 *
 * keep-test PLUGIN.so...: codes, scales, zero points and levels that somebody chose on a format's grid (tn_format.grid)
 * come back from unpack bit for bit, for every format that states one; what is not on it is refused, not rounded.
 */
#include <CUnit/Basic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/formats/f16.h"
#include "tests/kit/exprs.h"
#include "tests/kit/host.h"

enum { MAX_PARAMS = 3, MAX_LEVELS = 256 * 8 };
enum { AS_CHOSEN, BAD_CODE, BAD_SCALE, BAD_ZERO, BAD_GROUP, BAD_LEVEL, BAD_STEP, BAD_PARENT, WAYS };
static const char *const way_names[WAYS] = {"as chosen", "code",  "scale", "zero point",
                                            "group",     "level", "step",  "parent"};

static int n_plugins, n_kept, n_refused;
static char **plugins;
static uint64_t seed = 7;

static uint32_t next(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33);
}

typedef struct choice {
  tn_weight w;
  tn_quant q;
  tn_grid g;
  int64_t N, K, blocks, row_codes;
  uint8_t *codes, *index;
  float *scales, *zeros, *parents, levels[MAX_LEVELS], steps[256];
} choice;

static float value_of(const choice *c, int64_t n, int64_t k) {
  const int64_t at = n * c->blocks + k / c->q.group;
  const int64_t vec = c->g.vec ? c->g.vec : 1;
  const uint8_t code = c->codes[n * c->row_codes + k / vec];
  if (c->g.kind == TN_GRID_LEVELS) return c->levels[code * vec + k % vec] * c->scales[at];
  return ((float)code - c->zeros[at]) * c->scales[at];
}

static tn_status rows_of(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const choice *c = w->ctx;
  for (int64_t n = n0; n < n1; n++)
    for (int64_t k = 0; k < w->K; k++) *dst++ = value_of(c, n, k);
  return TN_OK;
}

static tn_status grid_rows(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *codes, float *scales, float *zeros) {
  const choice *c = q->ctx;
  const size_t n = (size_t)(n1 - n0);
  if (codes) memcpy(codes, c->codes + n0 * c->row_codes, n * (size_t)c->row_codes);
  if (scales) memcpy(scales, c->scales + n0 * c->blocks, n * (size_t)c->blocks * sizeof *scales);
  if (zeros) memcpy(zeros, c->zeros + n0 * c->blocks, n * (size_t)c->blocks * sizeof *zeros);
  return TN_OK;
}

static tn_status stepped_rows(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *index, float *parents) {
  const choice *c = q->ctx;
  if (index) memcpy(index, c->index + n0 * c->blocks, (size_t)((n1 - n0) * c->blocks));
  if (parents) memcpy(parents, c->parents + n0, (size_t)(n1 - n0) * sizeof *parents);
  return TN_OK;
}

static float any_scale(const tn_grid *g) {
  const float sign = g->flags & TN_GRID_SIGNED && next() % 2 ? -1 : 1;
  if (next() % 16 == 0) return 0;
  if (g->scale_dtype == TN_DT_F16)
    return sign * g->scale_unit * tni_cm_f16_to_f32((uint16_t)(0x0400 + next() % (0x7c00 - 0x0400)));
  return sign * g->scale_unit * ldexpf(1 + (float)(next() % 1000) / 997, (int)(next() % 40) - 20);
}

static float any_zero(const tn_grid *g) {
  if (g->zero_kind == TN_ZERO_HALF) return g->zero;
  if (g->zero_kind == TN_ZERO_CODES) return (float)(next() % g->n_codes);
  return (float)(next() % 4096) / 32 - 64;
}

/* Levels of the format's own, or ascending ones. */
static void choose_levels(choice *c) {
  const tn_grid *g = &c->g;
  int v = -127;
  for (uint32_t i = 0; i < 256; i++) c->levels[i] = (float)(i < g->n_codes ? v += 1 + (int)(next() % 14) : 0);
  if (g->levels) memcpy(c->levels, g->levels, sizeof *c->levels * g->n_codes * (g->vec ? g->vec : 1));
  if (g->kind != TN_GRID_LEVELS) return;
  c->q.levels = c->levels;
  c->q.n_levels = g->n_codes;
  c->q.vec = g->vec;
}

/* Scales as steps below one of their row. */
static void choose_steps(choice *c) {
  const tn_grid *g = &c->g;
  memcpy(c->steps, g->steps, sizeof *c->steps * g->n_steps);
  c->q.n_steps = g->n_steps;
  c->q.steps = c->steps;
  c->q.stepped = stepped_rows;
  for (int64_t n = 0; n < c->N; n++) {
    c->parents[n] = any_scale(g);
    for (int64_t i = n * c->blocks; i < (n + 1) * c->blocks; i++) {
      c->index[i] = (uint8_t)(next() % g->n_steps);
      c->scales[i] = c->parents[n] * c->steps[c->index[i]];
    }
  }
}

static void choose(choice *c, int way) {
  const tn_grid *g = &c->g;
  const int64_t vec = g->vec ? g->vec : 1;
  c->q = (tn_quant){.h = TN_HDR(tn_quant), .bits = 1, .ctx = c, .grid = grid_rows, .flags = TN_QUANT_KEEP};
  while (1u << c->q.bits < g->n_codes) c->q.bits++;
  c->q.group = g->group ? g->group : (uint32_t)c->K;
  if (way == BAD_GROUP) c->q.group = 24;
  c->q.scale_dtype = g->scale_dtype;
  c->q.zero_kind = g->zero_kind;
  c->q.scheme = g->kind == TN_GRID_LEVELS ? TN_QUANT_LEVELS : TN_QUANT_AFFINE;
  c->blocks = (c->K + c->q.group - 1) / c->q.group;
  c->row_codes = (c->K + vec - 1) / vec;
  c->codes = calloc((size_t)(c->N * c->row_codes), 1);
  c->index = calloc((size_t)(c->N * c->blocks), 1);
  c->parents = calloc((size_t)c->N, sizeof(float));
  c->scales = calloc((size_t)(c->N * c->blocks), sizeof(float));
  c->zeros = calloc((size_t)(c->N * c->blocks), sizeof(float));
  for (int64_t i = 0; i < c->N * c->row_codes; i++) c->codes[i] = (uint8_t)(next() % g->n_codes);
  for (int64_t i = 0; i < c->N * c->blocks; i++) {
    c->scales[i] = any_scale(g);
    c->zeros[i] = any_zero(g);
  }
  choose_levels(c);
  if (g->n_steps) choose_steps(c);
  const size_t at = next() % (size_t)(c->N * c->blocks);
  if (way == BAD_CODE) c->codes[next() % (size_t)(c->N * c->row_codes)] = (uint8_t)g->n_codes;
  if (way == BAD_SCALE) c->scales[at] = g->scale_dtype == TN_DT_F16 ? 1.0f / 3 : INFINITY;
  if (way == BAD_ZERO) c->zeros[at] = g->zero_kind == TN_ZERO_VALUES ? 257 : c->zeros[at] + 0.25f;
  if (way == BAD_LEVEL) c->levels[3] += 0.5f;
  if (way == BAD_STEP) c->steps[g->n_steps / 2] *= 1.25f;
  if (way == BAD_PARENT) c->parents[next() % (size_t)c->N] = g->scale_unit / 3;
  c->w = (tn_weight){
      .h = TN_HDR(tn_weight), .ctx = c, .N = c->N, .K = c->K, .dtype = TN_DT_F32, .quant = &c->q, .rows = rows_of};
}

/* Whether this can be wrong of such a grid. */
static bool can_be_bad(const tn_grid *g, int way) {
  if (way == BAD_CODE) return g->n_codes < 256;
  if (way == BAD_SCALE) return !g->n_steps;
  if (way == BAD_STEP || way == BAD_PARENT) return g->n_steps > 0;
  if (way == BAD_ZERO) return g->kind == TN_GRID_AFFINE;
  if (way == BAD_LEVEL) return g->kind == TN_GRID_LEVELS && g->level_dtype == TN_DT_I8;
  return true;
}

static tn_status pack(const tn_host *h, const tn_format *f, const choice *c, const int64_t *params, uint32_t n,
                      tn_blob *out) {
  tn_pack_size size = {0};
  tn_pack *p = NULL;
  tn_error err = {.h = TN_HDR(tn_error)};
  tn_status st = f->size(f, c->N, c->K, params, n, &size);
  if (st != TN_OK) return st;
  void *at = aligned_alloc(64, (size.bytes + 63) & ~UINT64_C(63));
  memset(at, 0, size.bytes);
  *out = (tn_blob){.h = TN_HDR(tn_blob),
                   .format = f,
                   .N = c->N,
                   .K = c->K,
                   .bytes = size.bytes,
                   .ptr = at,
                   .params = params,
                   .n_params = n};
  st = f->begin(h, f, &c->w, params, n, &p, &err);
  if (st != TN_OK) return st;
  for (int64_t r = 0; st == TN_OK && r < c->N; r += size.row_unit)
    st = f->rows(p, r, r + size.row_unit < c->N ? r + size.row_unit : c->N, at);
  const tn_status end = f->end(p, st == TN_OK ? at : NULL);
  return st == TN_OK ? end : st;
}

static void free_choice(choice *c, tn_blob *b) {
  free((void *)(uintptr_t)b->ptr);
  free(c->codes);
  free(c->scales);
  free(c->zeros);
  free(c->index);
  free(c->parents);
}

static void try_grid(const tn_host *h, const tn_format *f, const int64_t *params, uint32_t n, int way, int64_t N,
                     int64_t K) {
  choice c = {.N = N, .K = K, .g = {.h = TN_HDR(tn_grid)}};
  tn_blob b = {0};
  if (f->grid(f, params, n, &c.g) != TN_OK || !can_be_bad(&c.g, way)) return;
  choose(&c, way);
  const tn_status st = pack(h, f, &c, params, n, &b);
  if (way != AS_CHOSEN) {
    if (st != TN_E_INVALID)
      printf("\n  %s [%lld,%lld]: %s: status %d\n", f->name, (long long)N, (long long)K, way_names[way], st);
    CU_ASSERT_EQUAL(st, TN_E_INVALID);
    n_refused++;
    free_choice(&c, &b);
    return;
  }
  CU_ASSERT_EQUAL(st, TN_OK);
  float *got = calloc((size_t)(N * K), sizeof *got);
  const int64_t box[4] = {0, N, 0, K};
  if (st == TN_OK) CU_ASSERT_EQUAL(f->unpack(&b, box, got), TN_OK);
  bool same = st == TN_OK;
  for (int64_t i = 0; same && i < N * K; i++) {
    const float want = value_of(&c, i / K, i % K);
    same = memcmp(&want, &got[i], sizeof want) == 0;
    if (!same)
      printf("\n  %s [%lld,%lld] at %lld: %a, not %a\n", f->name, (long long)N, (long long)K, (long long)i, got[i],
             want);
  }
  CU_ASSERT(same);
  n_kept++;
  free(got);
  free_choice(&c, &b);
}

static void try_format(const tn_host *h, const tn_format *f) {
  static const int64_t tries[][MAX_PARAMS] = {{0},         {0},         {1},          {32},        {128},
                                              {16, 16, 0}, {32, 32, 8}, {64, 32, 32}, {128, 16, 8}};
  static const uint32_t counts[] = {0, 1, 1, 1, 1, 3, 3, 3, 3};
  static const int64_t shapes[][2] = {{1, 1}, {5, 40}, {33, 300}, {64, 512}};
  for (size_t t = 0; t < sizeof counts / sizeof *counts; t++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int way = 0; way < WAYS; way++) {
        if (way == BAD_GROUP && shapes[s][1] <= 24) continue; /* a whole row is any group */
        try_grid(h, f, tries[t], counts[t], way, shapes[s][0], shapes[s][1]);
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
    int grids = 0;
    kit_host_init(&h, 1);
    kit_exprs_serve(&h.host);
    h.host.option = no_option;
    (void)kit_host_load(&h, plugins[i], &p, &err); /* formats need no device */
    if (!p) {
      printf("\n  %s: %s\n", plugins[i], err.message);
      CU_FAIL("a plugin cannot be loaded");
      continue;
    }
    for (uint32_t f = 0; f < p->n_formats; f++) {
      if (!TN_HAS(p->formats[f], tn_format, grid) || !p->formats[f]->grid) continue;
      grids++;
      try_format(&h.host, p->formats[f]);
    }
    printf("%d of %u formats of %s state a grid ... ", grids, p->n_formats, p->name);
    CU_ASSERT(grids > 0);
    p->shutdown(p);
    CU_ASSERT_EQUAL(h.live, 0);
  }
  printf("%d kept, %d refused ... ", n_kept, n_refused);
  CU_ASSERT(n_kept > 0 && n_refused > 0);
}

int main(int argc, char **argv) {
  n_plugins = argc - 1;
  plugins = argv + 1;
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("codes that were chosen", NULL, NULL);
  CU_add_test(s, "come back bit for bit, or are refused", test_plugins);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failed != 0;
}
