/* SPDX-License-Identifier: Apache-2.0
 *
 * A good plugin with one wrong planted in it: loads REAL, hands its tables on, and replaces functions in them where
 * PLANT says so. Built once per wrong; planted.txt says which case of `tenon conform` must find it. PLANT none changes
 * nothing.
 *
 * The tables of the real plugin are changed in place (its formats' pages are made writable first), so that every
 * pointer to them stays what it was. For tests only: globals hold what a real plugin must not keep.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <tenon/power.h>

#include "tests/faults/planted/ahead.h"
#include "tests/faults/planted/edges.h"
#include "tests/faults/planted/engine.h"
#include "tests/faults/planted/formats.h"
#include "tests/faults/planted/known.h"
#include "tests/faults/planted/nodes.h"

static const tn_host *services;
static tn_plugin *real, own;
static tn_device *device, saved; /* the real one, and its functions */
static const tn_device *second;  /* where there are two */

#define IS(plant) (PLANT == PLANT_##plant)

/* --- what is known of plans and args ------------------------------------------------------------------------------ */

enum { MAX_USES = 64, MAX_KNOWN = 512, ALIGNED = 1 << 16 };

typedef struct known_args {
  const tn_args *args;
  const tn_plan *plan;
  const tn_program *program;
  tn_id task;
  tn_view view[MAX_USES];
  int64_t dims[MAX_USES][TN_MAX_RANK], strides[MAX_USES][TN_MAX_RANK], small[MAX_USES][4];
  const void *theirs[MAX_USES]; /* memory that ours stands for */
  uint32_t n, runs;
  bool stopped; /* once */
  bool longer;  /* it appends more rows than its ring has */
  void *hidden; /* memory that nobody was told of */
} known_args;

typedef struct known_plan {
  const tn_plan *plan;
  const tn_program *program;
  tn_id task;
} known_plan;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static known_args *all_args[MAX_KNOWN];
static known_plan all_plans[MAX_KNOWN];
static float shared_scratch[1 << 20];
static const tn_dims *kept_dims;  /* the host's, after bind came back */
static const char *kept_name;     /* a node's, after lower came back */
static const tn_expr *kept_value; /* dims of a value, the same */
static volatile tn_expr seen;
static void *volatile leaked;
static const void *last_program, *last_args; /* of the last append, and where it went */
static tn_id last_task;
static uint32_t voted; /* for power */
static tn_error error_before;
static int64_t last_pos;

static known_args *args_of(const tn_args *a) {
  known_args *k = NULL;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_KNOWN && !k; i++)
    if (all_args[i] && all_args[i]->args == a) k = all_args[i];
  pthread_mutex_unlock(&lock);
  return k;
}

static known_plan *plan_of(const tn_plan *p) {
  known_plan *k = NULL;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_KNOWN && !k; i++)
    if (all_plans[i].plan == p) k = &all_plans[i];
  pthread_mutex_unlock(&lock);
  return k;
}

static const tn_slot *slot_of(const known_args *k, uint32_t use) {
  const tn_program_info *info = saved.info(k->program);
  return use < info->tasks[k->task]->n_uses ? info->slots[info->tasks[k->task]->uses[use].slot] : NULL;
}

/* The use that is the i-th of a kind; -1: none. */
static int use_of(const known_args *k, uint32_t kind, int i) {
  for (uint32_t u = 0; u + 1 < k->n; u++)
    if (slot_of(k, u)->kind == kind && i-- == 0) return (int)u;
  return -1;
}

/* The use that the task writes codes of 8 bits or sums of them to, an output or what another task reads (which has no
 * type); -1: none. */
static int codes_of(const known_args *k) {
  const tn_task *t = saved.info(k->program)->tasks[k->task];
  const bool gives_sums = IS(INTEGER_MATMUL) || IS(INTEGER_CONV) || IS(INTEGER_FOUND);
  const bool gives_codes = gives_sums || IS(QCONV_ZERO) || IS(QCONV_SCALE) || IS(QCONV_WIDE) || IS(QGEMM_BIAS);
  for (uint32_t u = 0; u < t->n_uses && u < k->n; u++) {
    const bool between = gives_codes && slot_of(k, u)->kind == TN_SLOT_TEMP,
               codes = between || k->view[u].dtype == TN_DT_U8 || k->view[u].dtype == TN_DT_I8 ||
                       (gives_sums && k->view[u].dtype == TN_DT_I32);
    if (codes && t->uses[u].access & TN_WRITE && k->view[u].bytes && k->view[u].ptr) return (int)u;
  }
  return -1;
}

bool known_input(const tn_args *a, tn_view *out) {
  const known_args *k = args_of(a);
  const int u = k ? use_of(k, TN_SLOT_INPUT, 0) : -1;
  if (u >= 0) *out = k->view[u];
  return u >= 0;
}

static int64_t count(const tn_view *v) {
  int64_t n = 1;
  for (uint32_t i = 0; i < v->rank; i++) n *= v->dims[i];
  return n;
}

/* Matrix behind a view: rows, columns. */
typedef struct matrix {
  float *p;
  int64_t M, N;
} matrix;

static matrix matrix_of(const known_args *k, uint32_t kind, int i) {
  const int u = use_of(k, kind, i);
  matrix m = {0};
  if (u < 0 || k->view[u].dtype != TN_DT_F32 || !k->view[u].rank) return m;
  m.p = k->view[u].ptr;
  m.N = k->view[u].dims[k->view[u].rank - 1];
  m.M = m.N ? count(&k->view[u]) / m.N : 0;
  return m;
}

/* --- functions of the device ---------------------------------------------------------------------------------------
 */

static tn_status said(tn_error *err, tn_status st, const char *text) {
  if (err) err->code = st, snprintf(err->message, sizeof err->message, "%s", text);
  return st;
}

static tn_status my_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  if (IS(M_ZERO) && dims->n && dims->v[0] == 0) return TN_E_INVALID;
  kept_dims = dims;
  if (IS(LEAK_BIND)) leaked = malloc(40);
  if (IS(LEAK_MAP)) (void)!mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (IS(SPEAKS)) printf("bound\n");
  ahead_bind(services);
  tn_status st = saved.bind(p, task, dims, out, err);
  pthread_mutex_lock(&lock);
  for (int i = 0; st == TN_OK && i < MAX_KNOWN; i++)
    if (!all_plans[i].plan) {
      all_plans[i] = (known_plan){*out, p, task};
      break;
    }
  pthread_mutex_unlock(&lock);
  return st;
}

static void my_unbind(tn_plan *plan) {
  known_plan *k = plan_of(plan);
  if (k) k->plan = NULL;
  saved.unbind(plan);
}

static void dense_cache(known_args *k, uint32_t u) {
  int64_t stride = 1;
  for (uint32_t i = k->view[u].rank; i-- > 0;) {
    k->strides[u][i] = stride;
    stride *= k->dims[u][i];
  }
}

static bool of_state(const known_args *k, uint32_t u, bool valid) {
  const tn_slot *s = slot_of(k, u);
  return s && s->kind == TN_SLOT_STEP && s->name && !strcmp(s->name, valid ? "valid" : "pos");
}

/* The position of an append, which another session's arguments may have been told. */
static bool is_others(const known_args *k, uint32_t u) {
  const tn_slot *s = slot_of(k, u);
  return IS(OTHER_POS) && s->kind == TN_SLOT_STEP && k->view[u].dtype == TN_DT_I64 && nodes_wrong(k->program, k->task);
}

/* Views that the real plugin gets instead. */
static void replace_view(known_args *k, uint32_t u) {
  const tn_slot *s = slot_of(k, u);
  k->theirs[u] = k->view[u].ptr;
  if (IS(STRIDES) && s->kind == TN_SLOT_STATE) dense_cache(k, u);
  if (IS(RACE) && s->kind == TN_SLOT_INPUT && k->view[u].bytes <= sizeof shared_scratch)
    k->view[u].ptr = shared_scratch;
  const bool length = (IS(VALID) && of_state(k, u, true)) ||
                      ((IS(APPEND_AT) || IS(STALE_POS) || IS(ONE_POS) || IS(RING_LONG)) && of_state(k, u, false));
  if (length || is_others(k, u)) k->view[u].ptr = k->small[u];
}

static tn_status my_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  known_plan *p = plan_of(plan);
  known_args *k = calloc(1, sizeof *k);
  const tn_view *views[MAX_USES];
  if (!p || !k || n > MAX_USES) return free(k), saved.args(plan, uses, n, out, err);
  *k = (known_args){.plan = plan, .program = p->program, .task = p->task, .n = n};
  for (uint32_t u = 0; u < n; u++) {
    k->view[u] = *uses[u];
    k->view[u].offset = edges_offset(uses[u]);
    if (uses[u]->dims) memcpy(k->dims[u], uses[u]->dims, uses[u]->rank * sizeof(int64_t));
    if (uses[u]->strides) memcpy(k->strides[u], uses[u]->strides, uses[u]->rank * sizeof(int64_t));
    k->view[u].dims = k->dims[u];
    k->view[u].strides = k->strides[u];
    views[u] = &k->view[u];
  }
  for (uint32_t u = 0; IS(OK_ALIGNED) && u + 1 < n; u++)
    if ((uintptr_t)k->view[u].ptr % ALIGNED) return free(k), said(err, TN_E_INVALID, "misaligned");
  const int state = use_of(k, TN_SLOT_STATE, 0), rows = use_of(k, TN_SLOT_INPUT, 0);
  k->longer = state >= 0 && rows >= 0 && k->view[rows].rank == 4 && k->dims[rows][2] > k->dims[state][2];
  for (uint32_t u = 0; u + 1 < n; u++) replace_view(k, u);
  tn_status st = saved.args(plan, views, n, out, err);
  if (st != TN_OK) return free(k), st;
  k->args = *out;
  if (IS(HIDES_MEMORY))
    for (uint32_t u = 0; u + 1 < n && !k->hidden; u++)
      if (slot_of(k, u)->kind == TN_SLOT_INPUT)
        k->hidden = services->alloc(services->ctx, 2 * k->view[u].bytes + 1, 64, TN_TAG_PLUGIN);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_KNOWN; i++)
    if (!all_args[i]) {
      all_args[i] = k;
      break;
    }
  pthread_mutex_unlock(&lock);
  return TN_OK;
}

/* As if what stood in the tn_error before the call were not overwritten. */
static tn_status keep_error(tn_status st, tn_error *err) {
  if (!IS(OLD_ERROR) || st == TN_OK || !err) return st;
  err->code = error_before.code;
  memcpy(err->message, error_before.message, sizeof err->message);
  return st;
}

static tn_status my_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  known_args *k = args_of(a);
  if (IS(OLD_ERROR) && err) error_before = *err;
  if (IS(ARGS_ONCE)) return TN_OK;
  if (!k || use >= k->n) return keep_error(saved.args_set(a, use, view, err), err);
  tn_view *v = &k->view[use];
  *v = *view;
  v->offset = edges_offset(view);
  if (view->dims) memcpy(k->dims[use], view->dims, view->rank * sizeof(int64_t));
  if (view->strides) memcpy(k->strides[use], view->strides, view->rank * sizeof(int64_t));
  v->dims = k->dims[use];
  v->strides = k->strides[use];
  if (use + 1 < k->n) replace_view(k, use);
  return saved.args_set(a, use, v, err);
}

static void my_args_free(tn_args *a) {
  engine_join();
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MAX_KNOWN; i++)
    if (all_args[i] && all_args[i]->args == a) {
      services->free(services->ctx, all_args[i]->hidden);
      free(all_args[i]);
      all_args[i] = NULL;
      break;
    }
  pthread_mutex_unlock(&lock);
  saved.args_free(a);
}

/* What stands in for lengths and shared memory, filled before the real run. */
static void before(known_args *k) {
  for (uint32_t u = 0; u + 1 < k->n; u++) {
    int64_t *mine = k->small[u];
    const int64_t *theirs = k->theirs[u];
    const int64_t b = k->view[u].rank ? k->dims[u][0] : 1;
    if (k->view[u].ptr == shared_scratch) {
      memcpy(shared_scratch, k->theirs[u], k->view[u].bytes);
      nanosleep(&(struct timespec){0, 50000}, NULL);
    }
    for (int64_t i = 0; k->view[u].ptr == (void *)mine && i < b && i < 4; i++) {
      if (IS(VALID)) mine[i] = theirs[i] + 3;
      if (IS(APPEND_AT)) mine[i] = theirs[i] + 1;
      if (IS(ONE_POS)) mine[i] = theirs[0];
      if (IS(RING_LONG)) mine[i] = theirs[i] + k->longer;
      if (IS(STALE_POS) && !k->runs) mine[i] = theirs[i];
      if (IS(OTHER_POS))
        mine[i] = k->program == last_program && k->task == last_task && k != last_args ? last_pos : theirs[i];
      if (IS(OTHER_POS)) last_program = k->program, last_task = k->task, last_args = k, last_pos = theirs[i];
    }
  }
}

static void scale(const matrix *m, int64_t from, float by) {
  for (int64_t i = from; i < m->M * m->N; i++) m->p[i] *= by;
}

static void nudge(const matrix *m) { m->p[0] = nextafterf(m->p[0], INFINITY); }

static _Thread_local int pieces; /* of one parallel_for of this run, the most */

typedef struct watched {
  tn_run run;
  tn_run *theirs;
  tn_body body;
  void *arg;
} watched;

static void watch_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  watched *w = arg;
  pieces++;
  w->body(w->arg, begin, end, worker);
}

static void watch_for(tn_run *run, int64_t n, int64_t grain, tn_body body, void *arg) {
  watched w = *(watched *)(void *)run;
  w.body = body;
  w.arg = arg;
  w.theirs->parallel_for(w.theirs, n, grain, watch_body, &w);
}

/* Pieces of a grain dealt like cards: who is number i takes i, i + n_hands, ... */
typedef struct dealt {
  tn_body body;
  void *arg;
  int64_t n, grain, pieces, n_hands;
} dealt;

static void deal_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const dealt *d = arg;
  for (int64_t hand = begin; hand < end; hand++)
    for (int64_t i = hand; i < d->pieces; i += d->n_hands)
      d->body(d->arg, i * d->grain, i + 1 == d->pieces ? d->n : (i + 1) * d->grain, worker);
}

static void deal_for(tn_run *run, int64_t n, int64_t grain, tn_body body, void *arg) {
  tn_run *theirs = ((watched *)(void *)run)->theirs;
  dealt d = {body, arg, n, grain > 0 ? grain : 1, 1, 1};
  if (n / d.grain > 1) d.pieces = n / d.grain;
  d.n_hands = d.pieces < theirs->n_workers ? d.pieces : theirs->n_workers;
  theirs->parallel_for(theirs, d.n_hands, 1, deal_body, &d);
}

static void swap_outputs(known_args *k) {
  const matrix a = matrix_of(k, TN_SLOT_OUTPUT, 1), b = matrix_of(k, TN_SLOT_OUTPUT, 2);
  for (int64_t m = 0; a.p && b.p && m < a.M; m++)
    for (int64_t i = 0; i < a.N && i < b.N; i++) {
      const float t = a.p[m * a.N + i];
      a.p[m * a.N + i] = b.p[m * b.N + i];
      b.p[m * b.N + i] = t;
    }
}

static void to_half_precision(const matrix *y) {
  for (int64_t i = 0; i < y->M * y->N; i++) {
    uint32_t u;
    memcpy(&u, &y->p[i], 4);
    u = (u + 0x1000) & 0xffffe000u;
    memcpy(&y->p[i], &u, 4);
  }
}

static void flush(const matrix *y) {
  for (int64_t i = 0; i < y->M * y->N; i++)
    if (fabsf(y->p[i]) < 0x1p-126f) y->p[i] = 0;
}

/* What goes wrong after the real run. x, y: the first input and output. */
static void after(known_args *k, const matrix *x, const matrix *y, float last, uint8_t leftover, bool grains) {
  const int out = use_of(k, TN_SLOT_OUTPUT, 0);
  const uint32_t rank = out < 0 ? 0 : k->view[out].rank;
  const tn_view *s = &k->view[k->n - 1];
  const int64_t K = x->N;
  if (!y->p || !y->M || !y->N) return;
  edges_rows(y->p, y->M, y->N);
  if (IS(TAIL) && y->N % 16 && y->N > 1) y->p[y->N - 1] = last;
  if ((IS(PAST_K) || IS(OPS_PAST)) && x->p)
    for (int64_t m = 0; m < y->M && K % 2; m++) y->p[m * y->N] += x->p[m * K + K];
  if (IS(LAST_BATCH) && rank > 2 && y->M > 1) y->p[(y->M - 1) * y->N] += 1;
  if (IS(BLOB_TRUSTED) || IS(BLOB_PARTS)) scale(y, 0, ahead_gain());
  if (IS(M_ONE) && y->M == 1) scale(y, 0, 1.01f);
  if (IS(MODEL_OFF) && K >= 192) scale(y, 0, 1.01f);
  if (IS(M_LARGE) && y->M > 64) scale(y, 64 * y->N, 1.01f);
  if (IS(M_TAIL) && y->M % 4 == 3) scale(y, (y->M - 1) * y->N, 0);
  if (IS(K_ODD) && K % 32) y->p[0] *= 1.01f;
  if (IS(K_LONG) && K > 4096) scale(y, 0, 0.99f);
  if (IS(K_16) && K > UINT16_MAX) scale(y, 0, 0);
  if (IS(SCRATCH_OVER)) memset((uint8_t *)s->ptr + s->bytes, 1, 4);
  if (IS(OUTPUT_OVER)) y->p[y->M * y->N] = 1;
  if (IS(UNINITIALISED) && leftover == 0) nudge(y);
  if (IS(KV_SWAP)) swap_outputs(k);
  if (IS(SPLIT) && grains) nudge(y);
  if (IS(SECOND_RUN) && k->runs == 1) nudge(y);
  if (IS(HALF_OUTPUT)) to_half_precision(y);
  if (IS(POWER_BITS) && __atomic_load_n(&voted, __ATOMIC_RELAXED) == TN_POWER_SAVE) nudge(y);
  if (IS(DENORMALS)) flush(y);
  if (IS(INPUT_WRITTEN) && x->p) x->p[0] = 0;
  if (IS(SATURATES))
    for (int64_t i = 0; i < y->M * y->N; i++) y->p[i] = fminf(fmaxf(y->p[i], -1e20f), 1e20f);
  for (int64_t i = 0; IS(OK_NARROW) && x->p && i < x->M * K; i++)
    if (fabsf(x->p[i]) > 300) y->p[i / K * y->N] = INFINITY;
  if (IS(NAN_SWALLOWED))
    for (int64_t i = 0; i < y->M * y->N; i++) y->p[i] = isnan(y->p[i]) ? 0 : y->p[i];
}

static bool reads_from_the_end(const known_args *k) {
  const int64_t *ids = NULL;
  int64_t n = 0;
  for (uint32_t u = 0; u + 1 < k->n && !ids; u++)
    if (slot_of(k, u)->kind == TN_SLOT_INPUT && k->view[u].dtype == TN_DT_I64)
      ids = k->view[u].ptr, n = count(&k->view[u]);
  for (int64_t i = 0; ids && i < n; i++)
    if (ids[i] < 0) return true;
  return false;
}

static tn_status my_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err) {
  known_args *k = args_of(a);
  if (!k) return saved.run(plan, a, run, err);
  const matrix x = matrix_of(k, TN_SLOT_INPUT, 0), y = matrix_of(k, TN_SLOT_OUTPUT, 0);
  const tn_view *s = &k->view[k->n - 1];
  const float last = y.p && y.N && y.M ? y.p[y.N - 1] : 0;
  const uint8_t leftover = s->ptr && s->bytes ? *((uint8_t *)s->ptr + s->bytes - 1) : 1;
  const bool stop = run->cancelled && (IS(CANCEL_OK) || IS(CANCEL_STATUS) || IS(CANCEL_STICKS)) && run->cancelled(run);
  k->stopped |= stop;
  if (IS(CANCEL_OK) && stop) return TN_OK;
  if (IS(CANCEL_STATUS) && stop) return TN_E_INTERNAL;
  if (IS(CANCEL_STICKS) && k->stopped) return TN_E_CANCELLED;
  watched w = {.run = *run, .theirs = run};
  const bool deals = IS(OK_DEALT) && nodes_wrong(k->program, k->task);
  w.run.parallel_for = deals ? deal_for : watch_for;
  pieces = 0;
  before(k);
  if (IS(KEEPS_DIMS) && kept_dims && kept_dims->n > 64) return TN_E_INVALID;
  if (IS(KEEPS_NAME) && kept_name) seen = (tn_expr)*kept_name;
  if (IS(KEEPS_VALUE) && kept_value) seen = *kept_value;
  void *block = IS(ALLOCATES) ? services->alloc(services->ctx, 64, 16, TN_TAG_PLUGIN) : NULL;
  tn_status st = saved.run(plan, a, IS(SPLIT) || deals ? &w.run : run, err);
  if (block) services->free(services->ctx, block);
  if (st == TN_OK) after(k, &x, &y, last, leftover, pieces > 8);
  const bool off = !IS(OTHER_POS) && !IS(OK_DEALT) && (!IS(GATHER_END) || reads_from_the_end(k)) &&
                   nodes_wrong(k->program, k->task);
  const int codes = off ? codes_of(k) : -1;
  if (st == TN_OK && off && y.p && y.M > 0 && y.N > 0) y.p[0] += 1;
  if (st == TN_OK && codes >= 0) *(uint8_t *)k->view[codes].ptr ^= 4;
  k->runs++;
  return st;
}

static tn_status my_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  tn_status st = saved.measure(p, task, dims, out);
  if (st == TN_OK) edges_measure(saved.info(p), task, dims, out);
  if (IS(CONTEXT_UNNAMED) && st == TN_OK && dims->n > 1) out->scratch_bytes += (uint64_t)dims->v[1];
  if (IS(MEASURE_SMALL) && out->scratch_bytes > 64) out->scratch_bytes -= 64;
  return st;
}

/* Packed bytes by shape: the first that came. */
static tn_status my_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  static struct {
    int64_t N, K;
    void *bytes;
  } kept[64];
  if (!IS(STALE_BLOB) || !blob || !view) return saved.set(p, slot, view, blob, err);
  int i = 0;
  while (i < 63 && kept[i].bytes && (kept[i].N != blob->N || kept[i].K != blob->K)) i++;
  if (!kept[i].bytes) {
    kept[i].N = blob->N;
    kept[i].K = blob->K;
    kept[i].bytes = aligned_alloc(64, (blob->bytes + 63) / 64 * 64);
    memcpy(kept[i].bytes, view->ptr, blob->bytes);
  }
  tn_view v = *view;
  tn_blob b = *blob;
  v.ptr = kept[i].bytes;
  b.ptr = kept[i].bytes;
  return saved.set(p, slot, &v, &b, err);
}

static tn_status my_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  void *block = IS(LEAKS) ? services->alloc(services->ctx, 64, 16, TN_TAG_PLUGIN) : NULL;
  tn_status st = edges_lower(s);
  if (IS(STOPPED_INTERNAL) && services->cancelled(services->ctx)) st = said(err, TN_E_INTERNAL, "stopped");
  if (IS(OK_SECOND_DEVICE) && d != second) st = said(err, TN_E_INTERNAL, "the first device lowers nothing");
  if (st == TN_OK) st = saved.lower(d, s, out, err);
  if (block && st == TN_OK) services->free(services->ctx, block);
  if (st == TN_OK) nodes_note(services, s, *out, saved.info(*out));
  for (uint32_t i = 0; IS(CONTEXT_UNNAMED) && st == TN_OK && i < saved.info(*out)->n_tasks; i++)
    ((tn_task *)(uintptr_t)saved.info(*out)->tasks[i])->symbols &= ~UINT64_C(2);
  for (uint32_t i = 0; IS(OK_ALIGNED) && st == TN_OK && i < saved.info(*out)->n_slots; i++)
    ((tn_slot *)(uintptr_t)saved.info(*out)->slots[i])->align = ALIGNED;
  if (IS(KEEPS_NAME)) kept_name = s->graph->nodes[s->nodes[0]]->name;
  if (IS(KEEPS_VALUE)) kept_value = s->graph->values[s->inputs[0]]->dims;
  if (st != TN_OK || !IS(TRANSPOSED)) return st;
  const tn_program_info *info = saved.info(*out);
  for (uint32_t i = 0; i < info->n_needs; i++) ((tn_need *)(uintptr_t)info->needs[i])->flags ^= TN_NEED_KN;
  return TN_OK;
}

/* --- claims --------------------------------------------------------------------------------------------------------
 */

typedef struct sink {
  tn_claim_sink pub;
  const tn_claim_sink *theirs;
  const tn_graph *g;
} sink;

static tn_status on_node(void *ctx, tn_id node, const tn_claim *c) {
  const sink *s = ctx;
  tn_claim mine = *c;
  if (IS(CLAIMS_ALL) && node < s->g->n_nodes && s->g->nodes[node]->op == TN_OP_SOFTMAX)
    mine = (tn_claim){.h = TN_HDR(tn_claim), .verdict = TN_YES};
  if (IS(NO_REASON) && mine.verdict == TN_NO) mine.text[0] = '\0';
  if (IS(COST_NAN)) mine.cost_ns = NAN;
  const tn_status st = s->theirs->node(s->theirs->ctx, node, &mine);
  return IS(SINK_IGNORED) ? TN_OK : st;
}
static tn_status on_group(void *ctx, const tn_id *nodes, uint32_t n, const tn_claim *c) {
  const sink *s = ctx;
  return s->theirs->group(s->theirs->ctx, nodes, n, c);
}
static tn_status on_state(void *ctx, tn_id value, const tn_layout *const *accepted, uint32_t n) {
  const sink *s = ctx;
  return s->theirs->state(s->theirs->ctx, value, accepted, n);
}

/* The built-in device as a plugin names no layouts: caches may be rings. */
static tn_status say_rings(const tn_graph *g, const tn_claim_sink *s) {
  tn_status st = TN_OK;
  for (tn_id v = 0; st == TN_OK && v < g->n_values; v++) {
    if (g->values[v]->kind != TN_VALUE_STATE || g->values[v]->producer != TN_NONE) continue;
    const tn_layout l = {
        .h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 4, .order = {0, 1, 2, 3}, .flags = TN_LAYOUT_CIRCULAR};
    const tn_layout *const one[1] = {&l};
    st = s->state(s->ctx, v, one, 1);
  }
  return st;
}

static tn_status my_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *theirs,
                          tn_error *err) {
  sink s = {.pub = *theirs, .theirs = theirs, .g = g};
  s.pub.ctx = &s;
  s.pub.node = on_node;
  s.pub.group = on_group;
  s.pub.state = on_state;
  const tn_status st = saved.claim(d, g, at, &s.pub, err);
  return IS(RING_LONG) && st == TN_OK ? say_rings(g, theirs) : st;
}

/* --- life ------------------------------------------------------------------------------------------------------------
 */

static tn_status my_enumerate(tn_plugin *p, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  (void)p;
  const tn_status st = real->enumerate(real, cap, out, n, err);
  if (IS(OK_SECOND_DEVICE) && cap > 1) out[1] = out[0];
  if (IS(OK_SECOND_DEVICE)) *n = 2;
  return st;
}

/* What says no to fifteen choices, and one that nobody explains; or a text. */
static const tn_option kind = {.h = TN_HDR(tn_option),
                               .key = "kind",
                               .help = "which",
                               .dflt = IS(OK_BOARD) ? "" : "a",
                               .choices = IS(OK_BOARD) ? NULL : "a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p",
                               .type = TN_OPT_STRING};
static const tn_option silent = {
    .h = TN_HDR(tn_option), .key = "silent", .help = "", .dflt = "", .type = TN_OPT_STRING};
static const tn_option *const options[] = {&kind, &silent};

static bool is_refused(void) {
  const char *text = "a";
  if (!IS(NOTES_HIDE) || services->option(services->ctx, "kind", TN_OPT_STRING, &text) != TN_OK) return false;
  return strcmp(text, "a") != 0;
}

static tn_status my_open(tn_plugin *p, uint32_t index, tn_device **out, tn_error *err) {
  (void)p;
  if (engine_gone()) return TN_E_UNAVAILABLE;
  if (is_refused()) return said(err, TN_E_INVALID, "not this kind");
  tn_status st = real->open(real, IS(OK_SECOND_DEVICE) && index == 1 ? 0 : index, out, err);
  if (st != TN_OK) return st;
  device = *out;
  if (index == 1) second = device;
  edges_plant(device);
  saved = *device;
  device->claim = my_claim;
  device->lower = my_lower;
  device->set = my_set;
  device->measure = my_measure;
  device->bind = my_bind;
  device->unbind = my_unbind;
  device->args = my_args;
  device->args_set = my_args_set;
  device->args_free = my_args_free;
  device->run = my_run;
  engine_plant(device);
  return TN_OK;
}

static void my_close(tn_device *d) {
  engine_join();
  real->close(d);
}
static void my_shutdown(tn_plugin *p) {
  (void)p;
  formats_restore();
  real->shutdown(real);
}
static tn_status my_vote(tn_device *d, uint32_t mode, tn_error *err) {
  (void)d, (void)err;
  if (IS(POWER_CRASH)) abort();
  __atomic_store_n(&voted, mode, __ATOMIC_RELAXED);
  return TN_OK;
}
static const tn_power power = {.h = TN_HDR(tn_power), .vote = my_vote};

static const void *my_extension(tn_plugin *p, const char *name, uint32_t version) {
  (void)p;
  if ((IS(POWER_CRASH) || IS(POWER_BITS) || IS(OK_POWER)) && !strcmp(name, TN_POWER) && version == 1) return &power;
  return ahead_extension(services, name, real->get_extension ? real->get_extension(real, name, version) : NULL);
}

static tn_status entry(const tn_host *h, tn_negotiate *neg, tn_plugin **out) {
  void *lib = dlopen(REAL, RTLD_NOW | RTLD_LOCAL), *at = lib ? dlsym(lib, TN_ENTRY_SYMBOL) : NULL;
  tn_entry_v1 theirs;
  if (!at) {
    snprintf(neg->message, sizeof neg->message, "%s", dlerror());
    return TN_E_UNAVAILABLE;
  }
  memcpy(&theirs, &at, sizeof at);
  services = h;
  if (edges_refuses(neg)) return TN_E_INCOMPATIBLE;
  tn_status st = theirs(engine_host(h), neg, &real);
  snprintf(neg->name, sizeof neg->name, "%.31s", PLANT_NAME);
  if (st != TN_OK) return st;
  own = *real;
  own.name = PLANT_NAME;
  if (IS(NOTES_HIDE) || IS(OK_BOARD)) own.options = options, own.n_options = 2 - IS(OK_BOARD);
  own.enumerate = my_enumerate;
  own.open = my_open;
  own.close = my_close;
  own.shutdown = my_shutdown;
  own.get_extension = my_extension;
  formats_plant(real->formats, real->n_formats);
  *out = &own;
  return TN_OK;
}

TN_PLUGIN(planted, entry)
