/* SPDX-License-Identifier: Apache-2.0
 *
 * What a decode step takes, as JSON on standard output.
 *
 *   step overhead MODEL PROFILE PLUGIN_DIR [STEPS]
 *       ns per step and per task. With the no-op plugin this is the runtime's own time on one engine; allocations are
 *       counted by interposition. The cost of a fork-join over the pool stands apart: a CPU step pays it for every
 *       parallel loop of its kernels.
 *   step context MODEL PROFILE PLUGIN_DIR ROUNDS CONTEXT...
 *       In every round: ns per step at each context, the bandwidth of reading memory in between, and how many
 *       products per second the micro tile of attention makes in cache: attention can be bound by either.
 *   step watch MODEL PROFILE PLUGIN_DIR [ROUNDS]
 *       ns per step with and without the looks at NaN that the profile's `watch: N` asks for, N steps of one and N of
 *       the other in turns, from the same position on: one task is looked at in each N.
 *
 * Medians; logits are computed for the last position, nothing is sampled.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tenon/tenon.h>

#include "runtime/base/clock.h"
#include "runtime/base/pool.h"
#include "runtime/memory/run.h"
#include "runtime/ops/hot/loops.h"

/* --- allocations, counted where the linker wraps them */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);

static atomic_long allocations;

void *__wrap_malloc(size_t n) {
  allocations++;
  return __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t m) {
  allocations++;
  return __real_calloc(n, m);
}
void *__wrap_realloc(void *p, size_t n) {
  allocations++;
  return __real_realloc(p, n);
}
void *__wrap_aligned_alloc(size_t a, size_t n) {
  allocations++;
  return __real_aligned_alloc(a, n);
}

static void die(const char *what, const tn_error *e) {
  fprintf(stderr, "step: %s: %s%s%s\n", what, e->where, *e->where ? ": " : "", e->message);
  exit(1);
}

static int by_value(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int64_t median(int64_t *v, size_t n) {
  qsort(v, n, sizeof *v, by_value);
  return v[n / 2];
}

/* --- a model that steps */

typedef struct rig {
  tn_runtime *rt;
  tn_model *m;
  tn_session *s;
  tn_tensor *tensors, logits, **out;
  const tn_tensor **in;
  int64_t max_step;
  uint64_t kv_row; /* bytes that one position has in all caches */
  tn_error err;
} rig;

static int is_cache(const char *name) { return strstr(name, "past") != NULL; }

/* Inputs by what exporters call them; everything that is not the session's gets [1, n] integers. */
static void make_inputs(rig *r) {
  const uint32_t n = tn_model_n_inputs(r->m);
  r->tensors = calloc(n, sizeof *r->tensors);
  r->in = calloc(n, sizeof *r->in);
  r->out = calloc(tn_model_n_outputs(r->m), sizeof *r->out);
  for (uint32_t i = 0; i < n; i++) {
    const tn_io_info *x = tn_model_input(r->m, i);
    uint64_t row = 4;
    for (int32_t d = 0; is_cache(x->name) && d < x->rank; d++)
      if (x->dims[d] > 0) row *= (uint64_t)x->dims[d];
    if (is_cache(x->name)) r->kv_row += row;
    if (is_cache(x->name) || strcmp(x->name, "attention_mask") == 0) continue;
    r->tensors[i] = (tn_tensor){.h = {sizeof(tn_tensor), 1, 0}, .name = x->name, .dtype = x->dtype, .rank = 2};
    r->tensors[i].dims[0] = 1;
    r->tensors[i].data = calloc((size_t)r->max_step, sizeof(int64_t));
    r->in[i] = &r->tensors[i];
  }
  r->logits.h = (tn_hdr){sizeof r->logits, 1, 0};
  r->out[0] = &r->logits;
}

static void rig_make(rig *r, char **argv, int64_t capacity) {
  const char *dirs[] = {argv[4]};
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = argv[3],
                             .plugin_dirs = dirs,
                             .n_plugin_dirs = 1,
                             .cache_dir = getenv("TENON_CACHE_DIR"),
                             .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  const tn_keep_opts k = {.h = {sizeof k, 1, 0}, .capacity = capacity};
  tn_error_init(&r->err);
  if (tn_runtime_create(&o, &r->rt, &r->err) != TN_OK) die("runtime", &r->err);
  if (tn_model_load(r->rt, argv[2], NULL, &r->m, &r->err) != TN_OK) die("model", &r->err);
  if (tn_session_create(r->m, &r->s, &r->err) != TN_OK) die("session", &r->err);
  if (tn_session_keep(r->s, &k, &r->err) != TN_OK) die("caches", &r->err);
  r->max_step = tn_session_max_step(r->s);
  make_inputs(r);
}

/* The session and its inputs; the model stays. */
static void rig_leave(rig *r) {
  for (uint32_t i = 0; i < tn_model_n_inputs(r->m); i++) free((void *)(uintptr_t)r->tensors[i].data);
  free(r->tensors);
  free(r->in);
  free(r->out);
  tn_session_destroy(r->s);
}

static void rig_free(rig *r) {
  rig_leave(r);
  tn_model_destroy(r->m);
  tn_runtime_destroy(r->rt);
}

/* Position i of every input is the i-th of the context, modulo small numbers that any vocabulary has. */
static void step(rig *r, int64_t n) {
  const int64_t at = tn_session_length(r->s);
  for (uint32_t i = 0; i < tn_model_n_inputs(r->m); i++) {
    tn_tensor *t = &r->tensors[i];
    int64_t *v = (int64_t *)(uintptr_t)t->data;
    if (!r->in[i]) continue;
    t->dims[1] = n;
    t->bytes = (uint64_t)n * sizeof *v;
    for (int64_t k = 0; k < n; k++) v[k] = strcmp(t->name, "input_ids") == 0 ? (at + k) % 61 : at + k;
  }
  const uint32_t phase = n > 1 ? TN_PHASE_PREFILL : TN_PHASE_DECODE;
  if (tn_session_step(r->s, phase, r->in, r->out, 1, &r->err) != TN_OK) die("step", &r->err);
}

enum { FORKS = 2001, BUSY_NS = 5000 };

/* One piece per worker: each is busy for as long, so that none can take another's. */
static void busy(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  (void)arg, (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t t0 = tni_now_ns();
    while (tni_now_ns() - t0 < BUSY_NS) continue;
  }
}

/* What a loop over all workers takes beyond its pieces. The pool is a second one of the same size: the runtime's is not
 * for hire. */
static int64_t fork_join(void) {
  static int64_t t[FORKS];
  tni_pool *pool = tni_pool_create(0);
  for (int i = 0; i < FORKS; i++) {
    const int64_t t0 = tni_now_ns();
    tni_pool_for(pool, tni_pool_workers(pool), 1, busy, NULL);
    t[i] = tni_now_ns() - t0 - BUSY_NS;
  }
  tni_pool_destroy(pool);
  return median(t, FORKS);
}

static uint32_t tasks_seen;
static void count_task(void *user, const tn_trace_event *e) {
  (void)user, (void)e;
  tasks_seen++;
}

static int overhead(int argc, char **argv) {
  const int64_t steps = argc > 5 ? atoll(argv[5]) : 1000;
  int64_t *t = calloc((size_t)steps, sizeof *t);
  rig r = {0};
  if (!t || steps < 1) return 2;
  rig_make(&r, argv, steps + 64);
  for (int i = 0; i < 16; i++) step(&r, 1);
  tn_session_trace(r.s, count_task, NULL);
  step(&r, 1);
  tn_session_trace(r.s, NULL, NULL);
  const long before = allocations;
  for (int64_t i = 0; i < steps; i++) {
    const int64_t t0 = tni_now_ns();
    step(&r, 1);
    t[i] = tni_now_ns() - t0;
  }
  const long made = allocations - before;
  const int64_t mid = median(t, (size_t)steps);
  printf(
      "{\"steps\": %lld, \"tasks\": %u, \"step_ns\": %lld, \"p99_ns\": %lld, \"ns_per_task\": %.1f, \"allocations\": "
      "%ld, "
      "\"fork_join_ns\": %lld}\n",
      (long long)steps, tasks_seen, (long long)mid, (long long)t[steps * 99 / 100], (double)mid / tasks_seen, made,
      (long long)fork_join());
  rig_free(&r);
  free(t);
  return 0;
}

/* --- looks */

static int watch(int argc, char **argv) {
  enum { AT = 64 };
  const size_t rounds = argc > 5 ? (size_t)atoll(argv[5]) : 300;
  int64_t *t[2] = {calloc(rounds + 1, sizeof *t[0]), calloc(rounds + 1, sizeof *t[0])};
  rig r = {0};
  if (!t[0] || !t[1] || !rounds) return 2;
  rig_make(&r, argv, AT + 1024);
  const uint32_t every = r.s->looks.every;
  if (!every || every > 1024) return 2;
  while (tn_session_length(r.s) < AT) step(&r, 1);
  for (size_t i = 0; i < 2 * rounds; i++) {
    const size_t on = i % 4 == 1 || i % 4 == 2; /* each is first as often as second */
    r.s->looks.every = on ? every : 0;
    const int64_t t0 = tni_now_ns();
    for (uint32_t k = 0; k < every; k++) step(&r, 1);
    t[on][i / 2] = tni_now_ns() - t0;
    if (tn_session_truncate(r.s, AT, &r.err) != TN_OK) die("truncate", &r.err);
  }
  const double without = (double)median(t[0], rounds) / every, with = (double)median(t[1], rounds) / every;
  printf("{\"every\": %u, \"rounds\": %zu, \"step_ns\": %.0f, \"watched_step_ns\": %.0f, \"percent\": %.2f, "
         "\"percent_of_best\": %.2f}\n",
         every, rounds, without, with, 100 * (with / without - 1), 100 * ((double)t[1][0] / (double)t[0][0] - 1));
  rig_free(&r);
  free(t[0]);
  free(t[1]);
  return 0;
}

/* --- context */

enum { SUM_BYTES = 256 << 20, N = 11, MOST = 16 };
typedef struct reading {
  const uint64_t *p;
  atomic_ullong sum;
} reading;

static void read_part(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  reading *x = arg;
  uint64_t s[8] = {0};
  (void)worker;
  for (const uint64_t *p = x->p + begin * 512; p < x->p + end * 512; p += 8)
    for (int i = 0; i < 8; i++) s[i] += p[i];
  atomic_fetch_add(&x->sum, s[0] ^ s[1] ^ s[2] ^ s[3] ^ s[4] ^ s[5] ^ s[6] ^ s[7]);
}

/* SUM_BYTES, by all workers together. */
static void read_all(tni_pool *pool, const uint64_t *p) {
  reading x = {.p = p};
  tni_pool_for(pool, SUM_BYTES / 4096, 64, read_part, &x);
}

/* The micro tile of attention on operands in the nearest cache: products per second of all workers. */
static void multiply(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  static float a[TNI_MR * TNI_KC], b[TNI_KC * TNI_NR];
  float c[TNI_MR * TNI_NR];
  (void)arg, (void)worker;
  for (int64_t i = begin; i < end; i++) tni_hot_get()->gemm(TNI_MR, TNI_KC, a, TNI_KC, b, TNI_NR, c, TNI_NR, 1);
}

static double products(tni_pool *pool) {
  enum { TILES = 20000 };
  const int64_t t0 = tni_now_ns();
  tni_pool_for(pool, TILES, 64, multiply, NULL);
  return (double)TILES * TNI_MR * TNI_NR * TNI_KC / ((double)(tni_now_ns() - t0) / 1e9);
}

/* A session of r's model with `want` positions in its caches and room for N more. */
static void at_context(rig *r, const rig *model, int64_t want) {
  const tn_keep_opts k = {.h = {sizeof k, 1, 0}, .capacity = want + N};
  *r = (rig){.rt = model->rt, .m = model->m};
  tn_error_init(&r->err);
  if (tn_session_create(r->m, &r->s, &r->err) != TN_OK) die("session", &r->err);
  if (tn_session_keep(r->s, &k, &r->err) != TN_OK) die("caches", &r->err);
  r->max_step = tn_session_max_step(r->s);
  make_inputs(r);
  while (tn_session_length(r->s) < want) {
    const int64_t left = want - tn_session_length(r->s);
    step(r, left < r->max_step ? left : r->max_step);
  }
}

/* One round: N turns of one step at each context and one reading of memory; medians, ns[i] of sessions i. */
static void some_turns(rig *r, int n, char **contexts, tni_pool *pool, const uint64_t *p, int64_t *ns, double *rate) {
  int64_t t[MOST + 1][N];
  for (int k = 0; k < N; k++) {
    for (int i = 0; i < n; i++) {
      const int64_t t0 = tni_now_ns();
      step(&r[i], 1);
      t[i][k] = tni_now_ns() - t0;
    }
    const int64_t t0 = tni_now_ns();
    read_all(pool, p);
    t[n][k] = tni_now_ns() - t0;
  }
  for (int i = 0; i < n; i++) {
    ns[i] = median(t[i], N);
    if (tn_session_truncate(r[i].s, atoll(contexts[i]), &r[i].err) != TN_OK) die("truncate", &r[i].err);
  }
  *rate = SUM_BYTES / ((double)median(t[n], N) / 1e9);
}

/* Machines that others share change from one second to the next: sessions at all contexts and the reading of memory
 * take turns step by step, and every round measures what the machine gives just then. */
static int context(int argc, char **argv) {
  const int n = argc - 6, rounds = atoi(argv[5]);
  rig first = {0}, r[MOST];
  uint64_t *p = aligned_alloc(2 << 20, SUM_BYTES); /* on large pages, as caches are */
  if (p) (void)madvise(p, SUM_BYTES, MADV_HUGEPAGE);
  if (!p || n < 1 || n > MOST || rounds < 1) return 2;
  memset(p, 1, SUM_BYTES);
  rig_make(&first, argv, N);
  tni_pool *pool = tni_pool_create(0);
  for (int i = 0; i < n; i++) at_context(&r[i], &first, atoll(argv[6 + i]));
  printf("{\"kv_bytes_per_position\": %llu, \"contexts\": [", (unsigned long long)first.kv_row);
  for (int i = 0; i < n; i++) printf("%s%lld", i ? ", " : "", atoll(argv[6 + i]));
  printf("], \"rounds\": [");
  fflush(stdout); /* who waits for the caches to be full sees it */
  for (int k = 0; k < rounds; k++) {
    const double made = products(pool);
    int64_t ns[MOST];
    double rate;
    some_turns(r, n, argv + 6, pool, p, ns, &rate);
    printf("%s{\"products_per_s\": %.4g, \"read_bytes_per_s\": %.4g, \"step_ns\": [", k ? ", " : "", made, rate);
    for (int i = 0; i < n; i++) printf("%s%lld", i ? ", " : "", (long long)ns[i]);
    printf("]}");
  }
  printf("]}\n");
  tni_pool_destroy(pool);
  free(p);
  for (int i = 0; i < n; i++) rig_leave(&r[i]);
  rig_free(&first);
  return 0;
}

int main(int argc, char **argv) {
  if (argc >= 5 && strcmp(argv[1], "overhead") == 0) return overhead(argc, argv);
  if (argc >= 7 && strcmp(argv[1], "context") == 0) return context(argc, argv);
  if (argc >= 5 && strcmp(argv[1], "watch") == 0) return watch(argc, argv);
  fprintf(stderr, "usage: step overhead|context|watch MODEL PROFILE PLUGIN_DIR [STEPS | ROUNDS CONTEXT...]\n");
  return 2;
}
