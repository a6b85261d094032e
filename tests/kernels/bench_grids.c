/* SPDX-License-Identifier: Apache-2.0
 *
 * --bench --only grids[:PART]: kernels of grids beside those of the plain format of the same bits, by instruction set,
 * on one thread: GEMV in percent of a pure read of the same bytes and, from the second-level cache, in weights a
 * nanosecond, where memory is not seen; GEMM of 512 rows in GOP/s, as the plugin runs them
 * (two row blocks at once where there is a kernel). Medians of 9, of the thread's own time, all in turns. PART: of "ISA
 * gridBITS:GROUP,SCALE,ZERO".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugins/common/cpu/program.h"
#include "tests/kernels/bench.h"
#include "tests/kernels/bench_avx2.h"

enum { REPEATS = 9, M = 512, ROWS = TNI_CLT_ROWS };

static const struct {
  const char *name;
  uint32_t features, needed;
} isas[] = {{"avx2", TNI_CPU_AVX2 | TNI_CPU_FMA | TNI_CPU_F16C, TNI_CPU_AVX2},
            {"avxvnni", TNI_CPU_AVX2 | TNI_CPU_FMA | TNI_CPU_F16C | TNI_CPU_AVXVNNI, TNI_CPU_AVXVNNI},
            {"avx512vnni", TNI_CPU_AVX2 | TNI_CPU_FMA | TNI_CPU_F16C | TNI_CPU_AVX512VNNI, TNI_CPU_AVX512VNNI},
            {"amx", TNI_CPU_AVX2 | TNI_CPU_FMA | TNI_CPU_F16C | TNI_CPU_AVX512VNNI | TNI_CPU_AMX, TNI_CPU_AMX}};

static const int64_t ways[][2] = {{16, 8}, {32, 8}, {32, 0}, {32, 32}}; /* bits of scales, of zero points */

/* A matrix and what runs over it. */
typedef struct side {
  subject s;
  const tni_clt_kernel *k, *two;
  act_buf a;
  uint8_t *w;
} side;

static volatile double kept;

static double thread_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int less(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *t) {
  qsort(t, REPEATS, sizeof *t, less);
  return t[REPEATS / 2];
}

static void side_open(side *o, uint32_t op, uint32_t format, uint32_t group, uint32_t cpu, const int64_t *way,
                      int64_t N, int64_t K) {
  const int64_t rows = op == TNI_CLT_GEMM ? M : 1;
  o->k = tni_clt_select(&KERNELS, op, format, group, cpu, rows);
  o->two = op == TNI_CLT_GEMM ? tni_clt_select(&KERNELS, TNI_CLT_GEMM2, format, group, cpu, rows) : NULL;
  if (o->two && o->two->features != o->k->features) o->two = NULL;
  subject_init(&o->s, o->k, N, K);
  if (way) subject_way(&o->s, way[0], way[1]);
  float *x = malloc((size_t)(rows * K) * sizeof *x);
  rng r = rng_of(2);
  fill(x, (size_t)(rows * K), V_NORMAL, 1, &r);
  o->a = act_make(o->s.prologue, x, rows, &o->s.geo);
  o->w = bench_blob(&o->s, 1);
  free(x);
}

static void side_close(side *o) {
  act_free(&o->a);
  free(o->w);
}

static double time_of_gemv(const side *o) {
  const tni_clt_geometry *g = &o->s.geo;
  float acc[ROWS];
  const double at = thread_time();
  for (int64_t b = 0; b < g->N / ROWS; b++) {
    ((tni_clt_gemv_fn)o->k->fn)(o->w + b * g->row_block_bytes, (size_t)g->superblocks, &o->a.a, acc);
    kept += (double)acc[0];
  }
  return thread_time() - at;
}

static double time_of_gemm(const side *o) {
  const tni_clt_geometry *g = &o->s.geo;
  const int64_t unit = tni_clt_unit_rows(g, M);
  static _Alignas(64) float acc[2][TNI_CLT_MOST_ROWS * ROWS];
  float *const both[] = {acc[0], acc[1]};
  const double at = thread_time();
  for (int64_t m = 0; m < M; m += unit) {
    const size_t m0 = (size_t)m, m1 = (size_t)(m + unit < M ? m + unit : M);
    for (int64_t b = 0; b < g->N / ROWS; b += o->two ? 2 : 1) {
      const uint8_t *w = o->w + b * g->row_block_bytes;
      if (o->two)
        ((tni_clt_gemm2_fn)o->two->fn)(w, (size_t)g->row_block_bytes, (size_t)g->superblocks, &o->a.a, m0, m1, both);
      else
        ((tni_clt_gemm_fn)o->k->fn)(w, (size_t)g->superblocks, &o->a.a, m0, m1, acc[0]);
    }
    kept += (double)acc[0][0];
  }
  return thread_time() - at;
}

static double time_of_read(const side *o) {
  const double at = thread_time();
  kept += (double)bench_read(o->w, o->s.geo.bytes / 256 * 256);
  return thread_time() - at;
}

/* Percent of reading, of the grid and of the plain format. */
static void gemv_line(side *grid, side *plain) {
  side *const o[2] = {grid, plain};
  double t[2][REPEATS], read[2][REPEATS];
  for (int i = 0; i < REPEATS; i++)
    for (int j = 0; j < 2; j++) {
      read[j][i] = time_of_read(o[j]);
      t[j][i] = time_of_gemv(o[j]);
    }
  const double a = 100 * median(read[0]) / median(t[0]), b = 100 * median(read[1]) / median(t[1]);
  printf(" %5.1f | %5.1f | %.2f |", a, b, a / b);
}

/* The least of many: what others do on the machine only adds. */
static void cached_line(side *grid, side *plain) {
  enum { ROUNDS = 200 };
  side *const o[2] = {grid, plain};
  double best[2] = {1, 1};
  for (int i = 0; i < ROUNDS; i++)
    for (int j = 0; j < 2; j++) {
      time_of_gemv(o[j]);
      const double t = time_of_gemv(o[j]);
      best[j] = t < best[j] ? t : best[j];
    }
  const double weights = 1e-9 * (double)grid->s.geo.N * (double)grid->s.geo.K;
  printf(" %5.1f | %5.1f | %.2f |", weights / best[0], weights / best[1], best[1] / best[0]);
}

static void gemm_line(side *grid, side *plain) {
  side *const o[2] = {grid, plain};
  double t[2][REPEATS];
  for (int i = 0; i < REPEATS; i++)
    for (int j = 0; j < 2; j++) t[j][i] = time_of_gemm(o[j]);
  const double ops = 2e-9 * M * (double)grid->s.geo.N * (double)grid->s.geo.K;
  const double a = ops / median(t[0]), b = ops / median(t[1]);
  printf(" %6.1f | %6.1f | %.2f |", a, b, a / b);
}

static void one_way(uint32_t cpu, uint32_t bits, uint32_t group, const int64_t *way) {
  const uint32_t grid = bits == 2 ? TNI_CLT_GRID2 : bits == 4 ? TNI_CLT_GRID4 : TNI_CLT_GRID8;
  const uint32_t plain = bits == 2 ? TNI_CLT_W2G : bits == 4 ? TNI_CLT_W4G : TNI_CLT_W8G;
  const uint32_t near = bits == 4 && group < 128 ? 32 : 128;
  static const struct {
    uint32_t op;
    int64_t N;
    void (*line)(side *grid, side *plain);
  } parts[] = {{TNI_CLT_GEMV, 32768, gemv_line}, {TNI_CLT_GEMV, 256, cached_line}, {TNI_CLT_GEMM, 2048, gemm_line}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    side a, b;
    side_open(&a, parts[i].op, grid, group, cpu, way, parts[i].N, 2048);
    side_open(&b, parts[i].op, plain, near, cpu, NULL, parts[i].N, 2048);
    parts[i].line(&a, &b);
    side_close(&a);
    side_close(&b);
  }
  printf("\n");
  fflush(stdout);
}

void run_grids_bench(const char *part) {
  static const uint32_t bits[] = {2, 4, 8}, groups[] = {16, 32, 64, 128};
  const uint32_t cpu = tni_cm_cpu_features();
  printf(
      "| isa, grid | GEMV, %% of reading | plain | ratio | GEMM, GOP/s | plain | ratio "
      "|\n|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < sizeof isas / sizeof *isas; i++)
    for (size_t j = 0; (isas[i].needed & cpu) && j < 3 * 4 * sizeof ways / sizeof *ways; j++) {
      const int64_t *way = ways[j % 4];
      char text[64];
      snprintf(text, sizeof text, "%s grid%u:%u,%lld,%lld", isas[i].name, bits[j / 16], groups[j / 4 % 4],
               (long long)way[0], (long long)way[1]);
      if (!strstr(text, part)) continue;
      printf("| %s |", text);
      one_way(cpu & isas[i].features, bits[j / 16], groups[j / 4 % 4], way);
    }
}
