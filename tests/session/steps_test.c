/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step does not do: allocate, and copy what the caches hold already. Linked with --wrap, so that only our own
 * calls are counted; copies by memcpy and memmove count where they read or write a cache.
 */
#include "runtime/memory/run.h"
#include "session_test.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void *__real_memcpy(void *d, const void *s, size_t n);
void *__real_memmove(void *d, const void *s, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);
void *__wrap_memcpy(void *d, const void *s, size_t n);
void *__wrap_memmove(void *d, const void *s, size_t n);

static _Atomic long allocated;
static _Atomic uint64_t into_caches, out_of_caches;
static const tn_session *watched; /* NULL: nothing is counted */

static bool in_cache(const void *p) {
  const tni_graph *g = watched ? watched->model->graph : NULL;
  for (uint32_t k = 0; g && k < g->n_states; k++) {
    const char *from = watched->states[k].t.data;
    if ((const char *)p >= from && (const char *)p < from + watched->states[k].room) return true;
  }
  return false;
}

static void copied(const void *d, const void *s, size_t n) {
  if (in_cache(d)) into_caches += n;
  if (in_cache(s)) out_of_caches += n;
}

void *__wrap_malloc(size_t n) {
  allocated++;
  return __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t m) {
  allocated++;
  return __real_calloc(n, m);
}
void *__wrap_realloc(void *p, size_t n) {
  allocated++;
  return __real_realloc(p, n);
}
void *__wrap_aligned_alloc(size_t a, size_t n) {
  allocated++;
  return __real_aligned_alloc(a, n);
}
void *__wrap_memcpy(void *d, const void *s, size_t n) {
  copied(d, s, n);
  return __real_memcpy(d, s, n);
}
void *__wrap_memmove(void *d, const void *s, size_t n) {
  copied(d, s, n);
  return __real_memmove(d, s, n);
}

enum { MAX_IN = 64, STEPS = 1000 };

typedef struct walker {
  rig r;
  int64_t id, pos;
  const tn_tensor *in[MAX_IN];
  tn_tensor t[MAX_IN], logits, *out[MAX_IN];
} walker;

static bool start(walker *w, const char *profile, int64_t capacity) {
  char path[1024];
  memset(w, 0, sizeof *w);
  snprintf(path, sizeof path, "%s/models/demo/model.onnx", getenv("TENON_TEST_SOURCE"));
  tn_status st = rig_init(&w->r, profile);
  if (st == TN_OK) st = rig_open(&w->r, path, 0);
  if (st == TN_OK) st = tn_session_create(w->r.m, &w->r.s, &w->r.err);
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .capacity = capacity, .max_step = 8};
  if (st == TN_OK) st = tn_session_keep(w->r.s, &o, &w->r.err);
  if (st != TN_OK) {
    printf("\n    %s\n", w->r.err.message);
    return false;
  }
  for (uint32_t i = 0; i < tn_model_n_inputs(w->r.m); i++) {
    const char *name = tn_model_input(w->r.m, i)->name;
    int64_t *v = strcmp(name, "input_ids") == 0 ? &w->id : strcmp(name, "position_ids") == 0 ? &w->pos : NULL;
    if (!v) continue;
    w->t[i] = i64_tensor(name, v, 2, 1, 1);
    w->in[i] = &w->t[i];
  }
  w->logits.h = (tn_hdr){sizeof w->logits, 1, 0};
  w->out[0] = &w->logits;
  return true;
}

static bool walk(walker *w, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    w->pos = tn_session_length(w->r.s);
    w->id = 3 + w->pos * 131 % 4000;
    if (tn_session_step(w->r.s, TN_PHASE_DECODE, w->in, w->out, 1, &w->r.err) == TN_OK) continue;
    printf("\n    %s\n", w->r.err.message);
    return false;
  }
  return true;
}

/* Bytes that one position has in all caches. */
static uint64_t row_bytes(const tn_session *s) {
  uint64_t n = 0;
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
    const tni_tensor *t = &s->states[k].t;
    n += t->bytes / (uint64_t)t->dims[TNI_STATE_ROWS];
  }
  return n;
}

static void check(const char *profile) {
  walker w;
  CU_ASSERT_FATAL(start(&w, profile, STEPS + 8));
  CU_ASSERT(walk(&w, 4));
  watched = w.r.s;
  allocated = 0;
  into_caches = out_of_caches = 0;
  CU_ASSERT(walk(&w, STEPS));
  const long made = allocated;
  watched = NULL;
  CU_ASSERT_EQUAL(made, 0);
  CU_ASSERT(row_bytes(w.r.s) == 6 * 2 * 4 * 32 * sizeof(float)); /* layers, K and V, heads, head size */
  CU_ASSERT_EQUAL(into_caches, STEPS * row_bytes(w.r.s));
  CU_ASSERT_EQUAL(out_of_caches, 0);
  printf("%ld allocations, %llu bytes into caches, %llu out of them ... ", made,
         (unsigned long long)into_caches / STEPS, (unsigned long long)out_of_caches);
  rig_finish(&w.r);
}

/* Tasks on several threads, when they are ready: nothing is allocated for that either. */
static void test_executor(void) {
  walker w;
  CU_ASSERT_FATAL(start(&w, "plugins: [host]\nprefill_chunk: 8\n", STEPS));
  tn_session_destroy(w.r.s);
  w.r.m->order_seed = 7;
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .capacity = STEPS, .max_step = 8};
  CU_ASSERT_EQUAL_FATAL(tn_session_create(w.r.m, &w.r.s, &w.r.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_keep(w.r.s, &o, &w.r.err), TN_OK);
  CU_ASSERT(w.r.s->execs[0].executor != NULL);
  CU_ASSERT(walk(&w, 4));
  allocated = 0;
  CU_ASSERT(walk(&w, STEPS / 5));
  CU_ASSERT_EQUAL(allocated, 0);
  rig_finish(&w.r);
}

static void test_host(void) { check("plugins: [host]\nprefill_chunk: 8\n"); }

static void test_avx2(void) {
  const char *dir = getenv("TENON_TEST_AVX2");
  if (!dir || !*dir) return;
  check("plugins: [{name: cpu-avx2-lut, optional: true}, host]\nprefill_chunk: 8\n");
}

/* The counters count: a cut-back session shares rows, which is a copy, and a bucket that grows makes plans. */
static void test_counters(void) {
  walker w, v;
  CU_ASSERT_FATAL(start(&w, "plugins: [host]\nbucket: 16\n", 64) && start(&v, "plugins: [host]\n", 64));
  CU_ASSERT(walk(&w, 4));
  allocated = 0;
  CU_ASSERT(walk(&w, 12));
  CU_ASSERT_EQUAL(allocated, 0);
  CU_ASSERT(walk(&w, 1));
  CU_ASSERT(allocated > 0);
  tn_session *other = NULL;
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .capacity = 64};
  CU_ASSERT_EQUAL_FATAL(tn_session_create(w.r.m, &other, &w.r.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_keep(other, &o, &w.r.err), TN_OK);
  watched = w.r.s;
  into_caches = out_of_caches = 0;
  CU_ASSERT_EQUAL(tn_session_share(other, w.r.s, 5, &w.r.err), TN_OK);
  CU_ASSERT_EQUAL(out_of_caches, 5 * row_bytes(w.r.s));
  watched = NULL;
  tn_session_destroy(other);
  rig_finish(&w.r);
  rig_finish(&v.r);
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("steps", NULL, NULL);
  CU_add_test(s, "tasks when they are ready", test_executor);
  CU_add_test(s, "1,000 steps on the host", test_host);
  CU_add_test(s, "1,000 steps on the default plugins", test_avx2);
  CU_add_test(s, "the counters count", test_counters);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
