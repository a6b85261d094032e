/* SPDX-License-Identifier: Apache-2.0
 *
 * --bench --only targets[:PART]: every format's kernels on shapes of models, by instruction set, on one thread and on
 * all: GEMV as percent of a pure read of the same bytes by the same threads, GEMM of 512 rows as percent of the peak of
 * its instructions on the same threads. Medians of 5, both in turns, wall time: it wants a machine with nothing else to
 * do. Weights of GEMV come from memory: as many copies as 256 MB hold. PART: of "ISA FORMAT".
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugins/common/cpu/program.h"
#include "tests/kernels/bench.h"
#include "tests/kernels/bench_avx2.h"

enum { REPEATS = 5, MOST_THREADS = 64, M = 512, SPACE = 256 << 20, ROWS = TNI_CLT_ROWS };

static const int64_t shapes[][2] = {{2048, 5632}, {5632, 2048}, {4096, 14336}, {4096, 4096}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* needed: what a processor without it is passed over for; Zen 4 has AVX-512 VNNI and no AVX-VNNI. */
typedef struct isa {
  const char *name;
  uint32_t features, needed;
  double (*peak)(size_t n, int32_t *sink);
  size_t rounds;
} isa;

enum {
  AVX2 = TNI_CPU_AVX2 | TNI_CPU_FMA | TNI_CPU_F16C | TNI_CPU_PREFETCH,
  AVXVNNI = AVX2 | TNI_CPU_AVXVNNI | TNI_CPU_GFNI,
  AVX512 = AVXVNNI | TNI_CPU_AVX512VNNI
};
static const isa isas[] = {{"avx2", AVX2, TNI_CPU_AVX2, bench_peak, 2000000},
                           {"avxvnni", AVXVNNI, TNI_CPU_AVXVNNI, bench_peak_avxvnni, 2000000},
                           {"avx512vnni", AVX512, TNI_CPU_AVX512VNNI, bench_peak_avx512vnni, 2000000},
                           {"amx", AVX512 | TNI_CPU_AMX, TNI_CPU_AMX, bench_peak_amx, 300000}};

static const struct {
  const char *name;
  uint32_t id, group;
} formats[] = {{"w8g", TNI_CLT_W8G, 128},       {"w4g 32", TNI_CLT_W4G, 32},     {"w4g 128", TNI_CLT_W4G, 128},
               {"pal16", TNI_CLT_PAL16, 128},   {"w3g", TNI_CLT_W3G, 128},       {"w2g", TNI_CLT_W2G, 128},
               {"tern20", TNI_CLT_TERN20, 128}, {"tern17", TNI_CLT_TERN17, 128}, {"w1g", TNI_CLT_W1G, 128},
               {"lev4", TNI_CLT_LEV4, 32},      {"lev4s", TNI_CLT_LEV4S, 16},    {"lev3", TNI_CLT_LEV3, 32},
               {"lev2", TNI_CLT_LEV2, 32},      {"lev1", TNI_CLT_LEV1, 32},      {"lut4", TNI_CLT_LUT4, 128},
               {"lut3", TNI_CLT_LUT3, 128},     {"lut2", TNI_CLT_LUT2, 128},     {"lutt", TNI_CLT_LUTT, 128},
               {"lut1", TNI_CLT_LUT1, 128}};

/* --- threads that begin and end together ------------------------------------------------------------------------ */

typedef struct job {
  void (*work)(struct job *j, int thread);
  const subject *s;
  const tni_clt_kernel *k, *two; /* two: for pairs of row blocks, or NULL */
  const isa *of;
  const act_buf *a;
  const uint8_t *w;
  int64_t blocks, unit_rows; /* row blocks, of all copies */
  int threads;
} job;

typedef struct team {
  atomic_int begun, ended;
  atomic_bool over;
  int threads;
  job *j;
  pthread_t id[MOST_THREADS];
} team;

typedef struct member {
  team *t;
  int thread;
} member;

static void pin(int thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(thread, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *member_main(void *arg) {
  const member m = *(member *)arg;
  free(arg);
  pin(m.thread);
  for (int round = 1;; round++) {
    while (atomic_load_explicit(&m.t->begun, memory_order_acquire) < round)
      if (atomic_load(&m.t->over)) return NULL;
    m.t->j->work(m.t->j, m.thread);
    atomic_fetch_add(&m.t->ended, 1);
  }
}

static void team_start(team *t, int threads) {
  *t = (team){.threads = threads};
  for (int i = 1; i < threads; i++) {
    member *m = malloc(sizeof *m);
    *m = (member){t, i};
    if (pthread_create(&t->id[i], NULL, member_main, m)) abort();
  }
}

static void team_stop(team *t) {
  atomic_store(&t->over, true);
  for (int i = 1; i < t->threads; i++) pthread_join(t->id[i], NULL);
}

/* Seconds. */
static double team_run(team *t, job *j, void (*work)(job *, int)) {
  j->work = work;
  j->threads = t->threads;
  t->j = j;
  atomic_store(&t->ended, 0);
  const double at = bench_now();
  atomic_fetch_add_explicit(&t->begun, 1, memory_order_release);
  work(j, 0);
  while (atomic_load(&t->ended) < t->threads - 1) continue;
  return bench_now() - at;
}

/* --- work ------------------------------------------------------------------------------------------------------- */

static int64_t share(const job *j, int thread) { return j->blocks * thread / j->threads; }
static _Atomic uint64_t kept;

static void read_all(job *j, int thread) {
  const uint64_t begin = (uint64_t)(share(j, thread) * j->s->geo.row_block_bytes) / 256 * 256;
  const uint64_t end = (uint64_t)(share(j, thread + 1) * j->s->geo.row_block_bytes) / 256 * 256;
  kept += bench_read(j->w + begin, end - begin);
}

static void gemv_all(job *j, int thread) {
  const tni_clt_geometry *g = &j->s->geo;
  _Alignas(64) float acc[ROWS];
  for (int64_t b = share(j, thread); b < share(j, thread + 1); b++)
    ((tni_clt_gemv_fn)j->k->fn)(j->w + b * g->row_block_bytes, (size_t)g->superblocks, &j->a->a, acc);
  kept += (uint64_t)(int64_t)acc[0];
}

static void peak_all(job *j, int thread) {
  int32_t s32 = 3;
  (void)thread;
  j->of->peak(j->of->rounds, &s32);
  kept += (uint64_t)s32;
}

static void gemm_all(job *j, int thread) {
  const tni_clt_geometry *g = &j->s->geo;
  static _Thread_local _Alignas(64) float acc[2][TNI_CLT_MOST_ROWS * ROWS];
  float *const both[] = {acc[0], acc[1]};
  for (int64_t m = 0, m1; m < M; m = m1) {
    m1 = m + j->unit_rows < M ? m + j->unit_rows : M;
    int64_t b = share(j, thread);
    for (; j->two && b + 2 <= share(j, thread + 1); b += 2)
      ((tni_clt_gemm2_fn)j->two->fn)(j->w + b * g->row_block_bytes, (size_t)g->row_block_bytes, (size_t)g->superblocks,
                                     &j->a->a, (size_t)m, (size_t)m1, both);
    for (; b < share(j, thread + 1); b++)
      ((tni_clt_gemm_fn)j->k->fn)(j->w + b * g->row_block_bytes, (size_t)g->superblocks, &j->a->a, (size_t)m,
                                  (size_t)m1, acc[0]);
  }
  kept += (uint64_t)(int64_t)acc[0][0];
}

/* --- one kernel on one shape ------------------------------------------------------------------------------------ */

static int less(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *t) {
  qsort(t, REPEATS, sizeof *t, less);
  return t[REPEATS / 2];
}

/* Medians of a yardstick and of the kernel, in turns. */
static void in_turns(team *t, job *j, void (*yard)(job *, int), void (*work)(job *, int), double *of_yard,
                     double *of_work) {
  double y[REPEATS], w[REPEATS];
  team_run(t, j, work);
  for (int i = 0; i < REPEATS; i++) {
    y[i] = team_run(t, j, yard);
    w[i] = team_run(t, j, work);
  }
  *of_yard = median(y);
  *of_work = median(w);
}

static act_buf activations(const subject *s, int64_t rows) {
  const size_t n = (size_t)(rows * s->geo.K);
  float *x = malloc(n * sizeof *x);
  rng r = rng_of(2);
  fill(x, n, V_NORMAL, 1, &r);
  act_buf a = act_make(s->prologue, x, rows, &s->geo);
  free(x);
  return a;
}

/* Percent, and the yardstick in GB/s or GOP/s. */
static double measure(team *t, const isa *of, const tni_clt_kernel *k, const int64_t *shape, double *yard) {
  const bool many = k->op == TNI_CLT_GEMM;
  subject s;
  double ty, tw;
  subject_init(&s, k, shape[0], shape[1]);
  const uint64_t copies = many ? 1 : SPACE / s.geo.bytes + 1;
  const act_buf a = activations(&s, many ? M : 1);
  uint8_t *w = bench_blob(&s, copies);
  const uint32_t cpu = tni_cm_cpu_features() & of->features;
  const tni_clt_kernel *two = tni_clt_select(&KERNELS, TNI_CLT_GEMM2, k->format, k->group, cpu, M);
  job j = {.s = &s,
           .k = k,
           .two = many && two && two->features == k->features ? two : NULL,
           .of = of,
           .a = &a,
           .w = w,
           .blocks = (int64_t)copies * ((shape[0] + ROWS - 1) / ROWS),
           .unit_rows = tni_clt_unit_rows(&s.geo, M)};
  in_turns(t, &j, many ? peak_all : read_all, many ? gemm_all : gemv_all, &ty, &tw);
  free(w);
  act_free((act_buf *)&a);
  if (!many) {
    *yard = (double)(copies * s.geo.bytes) / ty * 1e-9;
    return 100 * ty / tw;
  }
  int32_t unused = 0;
  *yard = 2e-9 * of->peak(1, &unused) * (double)of->rounds * t->threads / ty;
  return 100 * 2e-9 * (double)M * (double)shape[0] * (double)shape[1] / tw / *yard;
}

static void one_format(team *t, const isa *of, size_t f) {
  const uint32_t cpu = tni_cm_cpu_features() & of->features, id = formats[f].id, group = formats[f].group;
  const tni_clt_kernel *const k[2] = {tni_clt_select(&KERNELS, TNI_CLT_GEMV, id, group, cpu, 1),
                                      tni_clt_select(&KERNELS, TNI_CLT_GEMM, id, group, cpu, M)};
  double yard[2][N_SHAPES];
  printf("| %s | %d | %s |", of->name, t->threads, formats[f].name);
  for (int op = 0; op < 2; op++)
    for (int i = 0; i < N_SHAPES; i++) printf(" %.0f |", measure(t, of, k[op], shapes[i], &yard[op][i]));
  for (int op = 0; op < 2; op++) {
    qsort(yard[op], N_SHAPES, sizeof **yard, less);
    printf(" %.1f to %.1f |", yard[op][0], yard[op][N_SHAPES - 1]);
  }
  printf("\n");
  fflush(stdout);
}

/* A bit-serial format has no kernels behind AVX2. */
static bool wanted(const isa *of, size_t f, const char *part) {
  char text[64];
  snprintf(text, sizeof text, "%s %s", of->name, formats[f].name);
  return strstr(text, part) && (of->features == AVX2 || strncmp(formats[f].name, "lut", 3) != 0);
}

void run_targets_bench(const char *part) {
  const uint32_t cpu = tni_cm_cpu_features();
  const long all = sysconf(_SC_NPROCESSORS_ONLN), most = all > MOST_THREADS ? MOST_THREADS : all;
  printf("Compiled by " __VERSION__
         ". GEMV in percent of reading, GEMM of %d rows in percent of the instructions' peak.\n\n",
         M);
  printf("| isa | threads | format |");
  for (int op = 0; op < 2; op++)
    for (int i = 0; i < N_SHAPES; i++)
      printf(" %s %lldx%lld |", op ? "GEMM" : "GEMV", (long long)shapes[i][0], (long long)shapes[i][1]);
  printf(" read, GB/s | peak, GOP/s |\n|---|---|---|");
  for (int i = 0; i < 2 * N_SHAPES + 2; i++) printf("---|");
  printf("\n");
  pin(0);
  for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
    if (!(isas[i].needed & cpu)) continue;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
      for (long threads = 1; threads <= most && wanted(&isas[i], f, part); threads += most > 1 ? most - 1 : 1) {
        team t;
        team_start(&t, (int)threads);
        one_format(&t, &isas[i], f);
        team_stop(&t);
      }
  }
}
