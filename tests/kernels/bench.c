/* SPDX-License-Identifier: Apache-2.0
 *
 * --bench: GEMV beside a pure read of the same bytes, GEMM beside the maddubs peak, in the same run, on one thread.
 * Medians of 9, of the thread's own time: what else runs on the machine is not counted, but takes from its memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugins/common/formats/dot.h"
#include "plugins/common/formats/grid.h"
#include "plugins/common/formats/lut.h"
#include "tests/kernels/bench.h"
#include "tests/kernels/bench_avx2.h"

enum { REPEATS = 9 };
static uint64_t sink;

double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double thread_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int less(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *t) {
  qsort(t, REPEATS, sizeof *t, less);
  return t[REPEATS / 2];
}

/* Scales of 2^-7, and f32 zero points of 7.25: any bits would be denormals and infinities. */
static uint8_t *grid_scales(const subject *s, uint8_t *w, uint64_t bytes) {
  const tni_grid_layout l =
      tni_grid_layout_of(s->f->format->bits, (uint32_t)s->geo.group, s->geo.scale_bits, s->geo.zero_bits);
  for (uint8_t *sb = w; sb < w + bytes; sb += l.bytes)
    for (uint32_t i = 0; i < l.groups * TNI_GRID_ROWS; i++) {
      if (l.scale_bits == 32) memcpy(sb + i * 4, &(float){0x1p-7f}, 4);
      if (l.scale_bits == 16) memcpy(sb + i * 2, &(uint16_t){0x2000}, 2);
      if (l.zero_bits == 32) memcpy(sb + l.zeros_at + i * 4, &(float){7.25f}, 4);
    }
  return w;
}

uint8_t *bench_blob(const subject *s, uint64_t copies) {
  const tni_clt_geometry *g = &s->geo;
  const uint64_t bytes = copies * g->bytes;
  uint8_t *w = aligned_alloc(64, (bytes + 63) / 64 * 64);
  rng r = rng_of(1);
  if (!w) abort();
  for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
    uint64_t v = rng_next(&r);
    memcpy(w + i, &v, 8);
  }
  const tni_dot_kind *dot = tni_dot_kind_of(s->f->format);
  if (dot && dot->head_bytes) {
    for (uint64_t at = 0; at < bytes; at += (uint64_t)g->row_block_bytes)
      for (int64_t i = 0; i < 16; i++) memcpy(w + at + (uint64_t)i * 4, &(float){0x1p-7f}, 4);
    return w;
  }
  if (tni_lev_kind_of(s->f->format)) {
    for (uint64_t at = 0; at < bytes; at += (uint64_t)g->row_block_bytes)
      for (int64_t i = 0; i < 16; i++) memcpy(w + at + (uint64_t)i * 2, &(uint16_t){0x2000}, 2);
    return w;
  }
  if (g->scale_bits) return grid_scales(s, w, bytes);
  int64_t sb_bytes = g->row_block_bytes / g->superblocks, scales = sb_bytes % 64 ? 16 : 32;
  for (uint64_t sb = 0; sb < bytes; sb += (uint64_t)sb_bytes)
    for (int64_t i = 0; i < scales; i++) memcpy(w + sb + i * 2, &(uint16_t){0x2000}, 2);
  return w;
}

static void bench_gemv(const tni_clt_kernel *k, int64_t N, int64_t K) {
  subject s;
  double t[REPEATS], read[REPEATS];
  float acc[16];
  subject_init(&s, k, N, K);
  const tni_clt_geometry g = s.geo;
  uint8_t *w = bench_blob(&s, 1);
  float *x = malloc((size_t)K * sizeof *x);
  rng r = rng_of(2);
  fill(x, (size_t)K, V_NORMAL, 1, &r);
  act_buf a = act_make(s.prologue, x, 1, &s.geo);
  for (int i = 0; i < REPEATS; i++) {
    double at = thread_time();
    sink += bench_read(w, g.bytes);
    read[i] = thread_time() - at;
    at = thread_time();
    for (int64_t b = 0; b < (N + 15) / 16; b++) {
      ((tni_clt_gemv_fn)k->fn)(w + b * g.row_block_bytes, (size_t)g.superblocks, &a.a, acc);
      sink += (uint64_t)(int64_t)acc[0];
    }
    t[i] = thread_time() - at;
  }
  double gb = (double)g.bytes * 1e-9, tm = median(t), rm = median(read);
  printf("%-36s N %6lld K %6lld  %7.2f GB/s  read %7.2f GB/s  %5.1f %%\n", k->name, (long long)N, (long long)K, gb / tm,
         gb / rm, 100 * rm / tm);
  act_free(&a);
  free(x);
  free(w);
}

static void bench_gemm(const tni_clt_kernel *k, int64_t M, int64_t N, int64_t K) {
  subject s;
  double t[REPEATS], peak[REPEATS], ops = 2.0 * (double)M * (double)N * (double)K;
  static float acc[96 * 16];
  int32_t s32 = 3;
  subject_init(&s, k, N, K);
  const tni_clt_geometry g = s.geo;
  uint8_t *w = bench_blob(&s, 1);
  float *x = malloc((size_t)(M * K) * sizeof *x);
  rng r = rng_of(2);
  fill(x, (size_t)(M * K), V_NORMAL, 1, &r);
  act_buf a = act_make(s.prologue, x, M, &s.geo);
  for (int i = 0; i < REPEATS; i++) {
    double at = thread_time();
    double macs = bench_peak(2000000, &s32);
    peak[i] = (thread_time() - at) / macs;
    at = thread_time();
    for (int64_t m = 0; m < M; m += 96) { /* as the plugin's units run */
      int64_t m1 = m + 96 < M ? m + 96 : M;
      for (int64_t b = 0; b < (N + 15) / 16; b++) {
        ((tni_clt_gemm_fn)k->fn)(w + b * g.row_block_bytes, (size_t)g.superblocks, &a.a, (size_t)m, (size_t)m1, acc);
        sink += (uint64_t)(int64_t)acc[0];
      }
    }
    t[i] = thread_time() - at;
  }
  double tm = median(t), top = 2e-9 / median(peak);
  printf("%-36s M %4lld N %5lld K %5lld  %7.1f GOP/s  peak %7.1f GOP/s  %5.1f %%\n", k->name, (long long)M,
         (long long)N, (long long)K, ops / tm * 1e-9, top, 100 * ops / tm * 1e-9 / top);
  sink += (uint64_t)s32;
  act_free(&a);
  free(x);
  free(w);
}

/* Sums of bytes, 96 rows at a time as the plugin's units run. */
static void bench_bytes(const tni_clt_kernel *k, int64_t N, int64_t K) {
  enum { M = 480, UNIT = 96 };
  static int32_t acc[UNIT * 32];
  double t[REPEATS];
  uint8_t *w = aligned_alloc(64, (size_t)(N * K)), *a = aligned_alloc(64, (size_t)(M * K));
  rng r = rng_of(2);
  for (int64_t i = 0; i < N * K; i++) w[i] = (uint8_t)rng_next(&r);
  for (int64_t i = 0; i < M * K; i++) a[i] = (uint8_t)rng_next(&r);
  for (int i = 0; i < REPEATS; i++) {
    const double at = thread_time();
    for (int64_t m = 0; m < M; m += UNIT)
      for (int64_t n = 0; n < N; n += 32) {
        const uint8_t *blocks[2] = {w + n * K, w + (n + 16) * K};
        const tni_clt_next next = {w + (n + 32 < N ? n + 32 : 0) * K, (size_t)(32 * K)};
        ((tni_clt_bytes_fn)k->fn)(blocks, (size_t)K / 4, a + m * K, (size_t)K, UNIT, &next, acc);
        sink += (uint64_t)acc[0];
      }
    t[i] = thread_time() - at;
  }
  printf("%-36s M %4d N %5lld K %5lld  %7.1f GOP/s\n", k->name, M, (long long)N, (long long)K,
         2e-9 * M * (double)(N * K) / median(t));
  free(a);
  free(w);
}

static void bench_quant(const tni_clt_kernel *k, int64_t K) {
  subject s;
  double t[REPEATS];
  subject_init(&s, k, 16, K);
  float *x = malloc((size_t)K * sizeof *x);
  rng r = rng_of(2);
  fill(x, (size_t)K, V_NORMAL, 1, &r);
  act_buf a = act_make(k, x, 1, &s.geo);
  for (int i = 0; i < REPEATS; i++) {
    double at = thread_time();
    for (int j = 0; j < 100; j++) ((tni_clt_quant_fn)k->fn)(x, (size_t)K, (size_t)s.geo.K_padded, &a.a, 0);
    t[i] = (thread_time() - at) / 100;
  }
  printf("%-36s K %6lld  %7.2f us\n", k->name, (long long)K, median(t) * 1e6);
  act_free(&a);
  free(x);
}

/* From floats in memory, on one thread: the least of three, of its own time. */
static void bench_pack_as(const tn_format *f, const int64_t *group, const float *w, int64_t N, int64_t K) {
  double best = 1e9;
  for (int i = 0; i < 3; i++) {
    tn_blob b;
    const double at = thread_time();
    free(pack_as(f, group, group ? 1 : 0, w, N, K, &b));
    const double t = thread_time() - at;
    best = t < best ? t : best;
  }
  printf("pack %-6s group %-3d %32.1f M weights/s, %.2f GB/s of floats\n", f->name, group ? (int)*group : (int)f->group,
         (double)(N * K) / best * 1e-6, (double)(N * K) / best * 4e-9);
}

static void bench_pack(void) {
  enum { N = 1024, K = 2048 };
  static const int64_t groups[] = {32, 128};
  float *w = malloc(sizeof(float) * N * K);
  rng r = rng_of(3);
  fill(w, N * K, V_NORMAL, 1, &r);
  for (int i = 0; i < 2; i++) bench_pack_as(&tni_w4g_format, &groups[i], w, N, K);
  for (int i = 0; i < TNI_DOT_KINDS; i++) bench_pack_as(&tni_dot_formats[i], NULL, w, N, K);
  for (int i = 0; i < TNI_LUT_KINDS; i++) bench_pack_as(&tni_lut_formats[0][i], NULL, w, N, K);
  free(w);
}

/* One GEMV of 512 x 4096 and the prologue before it, microseconds of this thread: the least of 200, since what others
 * do on the machine only adds. 1.2 MiB at most: weights from the second-level cache. */
static void bench_plane(const char *name, uint32_t format, uint32_t group) {
  enum { N = 512, K = 4096, ROUNDS = 200 };
  uint32_t cpu = tni_cm_cpu_features();
  const tni_clt_kernel *gemv = tni_clt_select(&KERNELS, TNI_CLT_GEMV, format, group, cpu, 1),
                       *quant = tni_clt_select(&KERNELS, TNI_CLT_QUANT, format, group, cpu, 1);
  subject s;
  float acc[16], x[K];
  double best = 1, before = 1;
  rng r = rng_of(2);
  subject_init(&s, gemv, N, K);
  uint8_t *w = bench_blob(&s, 1);
  fill(x, K, V_NORMAL, 1, &r);
  act_buf a = act_make(quant, x, 1, &s.geo);
  for (int i = 0; i < ROUNDS; i++) {
    double at = thread_time();
    for (int64_t b = 0; b < N / 16; b++) {
      ((tni_clt_gemv_fn)gemv->fn)(w + b * s.geo.row_block_bytes, (size_t)s.geo.superblocks, &a.a, acc);
      sink += (uint64_t)(int64_t)acc[0];
    }
    double t = thread_time() - at;
    best = t < best ? t : best;
    at = thread_time();
    ((tni_clt_quant_fn)quant->fn)(x, K, (size_t)s.geo.K_padded, &a.a, 0);
    t = thread_time() - at;
    before = t < before ? t : before;
  }
  printf("%s %.2f %.2f\n", name, best * 1e6, before * 1e6);
  act_free(&a);
  free(w);
}

/* One row over `bytes` of weights, K 4096, with sums and with averages in turns: the least of each, of the thread's own
 * time. */
static void bench_average(const char *name, uint32_t format, uint64_t bytes) {
  enum { K = 4096, ROUNDS = 25 };
  const uint32_t cpu = tni_cm_cpu_features();
  const tni_clt_kernel *k[2], *quant = tni_clt_select(&KERNELS, TNI_CLT_QUANT, format, 128, cpu, 1);
  subject s;
  float acc[16], x[K];
  double best[2] = {1, 1};
  rng r = rng_of(2);
  for (uint32_t i = 0; i < 2; i++)
    k[i] = tni_clt_select(&KERNELS, TNI_CLT_GEMV, format, 128, cpu | i * TNI_CLT_AVERAGES, 1);
  subject_init(&s, k[0], 16, K);
  const int64_t blocks = (int64_t)bytes / s.geo.row_block_bytes, rounds = ROUNDS * (bytes < 4 << 20 ? 20 : 1);
  uint8_t *w = bench_blob(&s, (uint64_t)blocks);
  fill(x, K, V_NORMAL, 1, &r);
  act_buf a = act_make(quant, x, 1, &s.geo);
  for (int64_t i = 0; i < 2 * rounds; i++) {
    const double at = thread_time();
    for (int64_t b = 0; b < blocks; b++) {
      ((tni_clt_gemv_fn)k[i % 2]->fn)(w + b * s.geo.row_block_bytes, (size_t)s.geo.superblocks, &a.a, acc);
      sink += (uint64_t)(int64_t)acc[0];
    }
    const double t = thread_time() - at;
    best[i % 2] = t < best[i % 2] ? t : best[i % 2];
  }
  const double outputs = (double)blocks * 16;
  printf("%s %5.1f MB: %6.1f ns an output of 4096, by averages %6.1f, %+.1f %%\n", name, (double)bytes * 1e-6,
         best[0] / outputs * 1e9, best[1] / outputs * 1e9, 100 * (best[1] / best[0] - 1));
  act_free(&a);
  free(w);
}

static void bench_averages(void) {
  static const char *const names[] = {"lut1", "lut2", "lut3", "lut4", "lutt"};
  static const uint64_t sizes[] = {512 << 10, 128 << 20};
  for (uint32_t s = 0; s < 2; s++)
    for (uint32_t i = 0; i < 5; i++) bench_average(names[i], TNI_CLT_LUT1 + i, sizes[s]);
}

/* "name gemv_us prologue_us", for bench/planes.py. */
static void bench_planes(void) {
  bench_plane("lut1", TNI_CLT_LUT1, 128);
  bench_plane("lut2", TNI_CLT_LUT2, 128);
  bench_plane("lut3", TNI_CLT_LUT3, 128);
  bench_plane("lut4", TNI_CLT_LUT4, 128);
  bench_plane("w1g", TNI_CLT_W1G, 128);
  bench_plane("tern17", TNI_CLT_TERN17, 128);
  bench_plane("tern20", TNI_CLT_TERN20, 128);
  bench_plane("w2g", TNI_CLT_W2G, 128);
  bench_plane("w3g", TNI_CLT_W3G, 128);
  bench_plane("pal16", TNI_CLT_PAL16, 128);
  bench_plane("w8g", TNI_CLT_W8G, 128);
  bench_plane("w4g128", TNI_CLT_W4G, 128);
  bench_plane("w4g32", TNI_CLT_W4G, 32);
}

int run_bench(void) {
  uint32_t n = KERNELS.n, cpu = tni_cm_cpu_features();
  const tni_clt_kernel *k = KERNELS.rows;
  if (!(cpu & TNI_CPU_AVX2)) {
    printf("no AVX2 on this machine\n");
    return 77;
  }
  if (!strcmp(test_only, "pack")) {
    bench_pack();
    return 0;
  }
  if (!strcmp(test_only, "averages")) {
    bench_averages();
    return 0;
  }
  if (!strcmp(test_only, "nmse")) {
    run_nmse_bench();
    return 0;
  }
  if (!strncmp(test_only, "targets", 7)) {
    run_targets_bench(test_only[7] == ':' ? test_only + 8 : "");
    return 0;
  }
  if (!strncmp(test_only, "grids", 5)) {
    run_grids_bench(test_only[5] == ':' ? test_only + 6 : "");
    return 0;
  }
  if (!strcmp(test_only, "planes")) {
    bench_planes();
    return 0;
  }
  for (uint32_t i = 0; i < n; i++) {
    if (k[i].features & ~cpu || !strstr(k[i].name, test_only)) continue;
    bool scalar = k[i].features == 0;
    if (k[i].op == TNI_CLT_GEMV) bench_gemv(&k[i], scalar ? 256 : 65536, 2048);
    if (k[i].op == TNI_CLT_GEMV && !scalar) bench_gemv(&k[i], 16384, 5632);
    if (k[i].op == TNI_CLT_GEMV && !scalar) bench_gemv(&k[i], 512, 2048); /* from the second-level cache */
    if (k[i].op == TNI_CLT_GEMM) bench_gemm(&k[i], scalar ? 8 : 512, scalar ? 64 : 2048, 2048);
    if (k[i].op == TNI_CLT_GEMM && !scalar) bench_gemm(&k[i], 4, 2048, 2048);
    if (k[i].op == TNI_CLT_QUANT) bench_quant(&k[i], 2048);
    for (int64_t K = 2048; k[i].op == TNI_CLT_BYTES && !scalar && K < 8192; K += 3584) bench_bytes(&k[i], 2048, K);
  }
  if (!*test_only) bench_pack();
  return sink == 42; /* keeps what was computed */
}
