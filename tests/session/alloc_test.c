/* SPDX-License-Identifier: Apache-2.0
 *
 * 1,000 decode steps, and what phases in turns cost, without one allocation: not by the runtime, nor by plugins, nor by
 * any library. malloc and its like are this program's own, which all that is loaded calls.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

#include "runtime/memory/run.h"
#include "session_test.h"

#define EXPORT __attribute__((visibility("default")))

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t a, size_t n);

EXPORT void *malloc(size_t n);
EXPORT void *calloc(size_t n, size_t m);
EXPORT void *realloc(void *p, size_t n);
EXPORT void *aligned_alloc(size_t a, size_t n);
EXPORT void *memalign(size_t a, size_t n);
EXPORT int posix_memalign(void **out, size_t a, size_t n);

static atomic_long counted, watching;
static _Atomic(const void *) first_caller;

static void count(const void *caller) {
  const void *none = NULL;
  if (!watching) return;
  counted++;
  atomic_compare_exchange_strong(&first_caller, &none, caller);
}

void *malloc(size_t n) {
  count(__builtin_return_address(0));
  return __libc_malloc(n);
}
void *calloc(size_t n, size_t m) {
  count(__builtin_return_address(0));
  return __libc_calloc(n, m);
}
void *realloc(void *p, size_t n) {
  count(__builtin_return_address(0));
  return __libc_realloc(p, n);
}
void *aligned_alloc(size_t a, size_t n) {
  count(__builtin_return_address(0));
  return __libc_memalign(a, n);
}
void *memalign(size_t a, size_t n) {
  count(__builtin_return_address(0));
  return __libc_memalign(a, n);
}
int posix_memalign(void **out, size_t a, size_t n) {
  count(__builtin_return_address(0));
  void *p = __libc_memalign(a, n);
  if (p) *out = p;
  return p ? 0 : ENOMEM;
}

static long watched(void) {
  const long n = counted;
  Dl_info who = {0};
  watching = 0;
  if (n && dladdr(first_caller, &who))
    printf("\n    %ld allocations, the first by %s at %#lx\n", n, who.dli_fname,
           (unsigned long)((const char *)first_caller - (const char *)who.dli_fbase));
  return n;
}

static void watch(void) {
  counted = 0;
  first_caller = NULL;
  watching = 1;
}

enum { MAX_IN = 64, CHUNK = 256, STEPS = 1000, SOME = 100 };

typedef struct walker {
  rig r;
  int64_t ids[CHUNK], pos[CHUNK];
  const tn_tensor *in[MAX_IN];
  tn_tensor t[MAX_IN], logits, *out[MAX_IN];
} walker;

static bool start(walker *w, const char *profile, int64_t max_step) {
  char path[1024];
  memset(w, 0, sizeof *w);
  snprintf(path, sizeof path, "%s/models/demo/model.onnx", getenv("TENON_TEST_SOURCE"));
  tn_status st = rig_init(&w->r, profile);
  if (st == TN_OK) st = rig_open(&w->r, path, 0);
  if (st == TN_OK) st = tn_session_create(w->r.m, &w->r.s, &w->r.err);
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .capacity = STEPS + CHUNK + 8, .max_step = max_step};
  if (st == TN_OK) st = tn_session_keep(w->r.s, &o, &w->r.err);
  w->logits.h = (tn_hdr){sizeof w->logits, 1, 0};
  w->out[0] = &w->logits;
  if (st != TN_OK) printf("\n    %s\n", w->r.err.message);
  return st == TN_OK;
}

static bool step(walker *w, int64_t n) {
  const int64_t at = tn_session_length(w->r.s);
  for (int64_t i = 0; i < n; i++) {
    w->pos[i] = at + i;
    w->ids[i] = 3 + (at + i) * 131 % 4000;
  }
  for (uint32_t i = 0; i < tn_model_n_inputs(w->r.m); i++) {
    const char *name = tn_model_input(w->r.m, i)->name;
    int64_t *v = strcmp(name, "input_ids") == 0 ? w->ids : strcmp(name, "position_ids") == 0 ? w->pos : NULL;
    if (!v) continue;
    w->t[i] = i64_tensor(name, v, 2, 1, n);
    w->in[i] = &w->t[i];
  }
  if (tn_session_step(w->r.s, n > 1 ? TN_PHASE_PREFILL : TN_PHASE_DECODE, w->in, w->out, 1, &w->r.err) == TN_OK)
    return true;
  printf("\n    step at %lld: %s\n", (long long)at, w->r.err.message);
  return false;
}

/* Warm: each phase twice. Then single positions; and phases in turns, where each has a placement of its own (elsewhere
 * the arguments of tasks are made anew, for the other dims). */
static void check(const char *profile, int64_t chunk, int steps, bool engine) {
  walker w;
  CU_ASSERT_FATAL(start(&w, profile, chunk));
  for (int i = 0; i < 2; i++) CU_ASSERT(step(&w, chunk) && step(&w, 1) && step(&w, 1));
  CU_ASSERT_EQUAL((w.r.s->execs[w.r.m->n_execs - 1].executor != NULL), engine);
  CU_ASSERT_EQUAL(tn_session_truncate(w.r.s, 8, &w.r.err), TN_OK);
  CU_ASSERT(step(&w, 1));
  watch();
  bool ok = true;
  for (int i = 0; ok && i < steps; i++) ok = step(&w, 1);
  CU_ASSERT(ok);
  CU_ASSERT_EQUAL(watched(), 0);
  watch();
  for (int i = 0; ok && i < 2 && w.r.m->n_execs > 1; i++)
    ok = tn_session_truncate(w.r.s, 40, &w.r.err) == TN_OK && step(&w, chunk) && step(&w, 1) && step(&w, 1);
  CU_ASSERT(ok);
  CU_ASSERT_EQUAL(watched(), 0);
  rig_finish(&w.r);
}

static bool has(const char *variable) { return getenv(variable) && *getenv(variable); }

static void test_host(void) { check("plugins: [host]\n", 16, SOME, false); }

static void test_rings(void) { check("plugins: [host]\nkv: int8\n", 16, SOME, false); }

static void test_avx2(void) {
  if (has("TENON_TEST_AVX2")) check("plugins: [{name: cpu-avx2-lut, optional: true}, host]\n", 16, STEPS, false);
}

/* A whole decoder on an engine with a thread: one submit per step. */
static void test_engine(void) {
  check("plugins: [{name: mirror-a, options: {coherent: true, layout: f16}}, host]\n", 16, SOME, true);
}

/* Completions come from the engine's own thread, in no order with the CPU's tasks. */
static void test_thread(void) {
  check(has("TENON_TEST_AVX2") ? "plugins: [{name: fake-engine, options: {completion: thread}}, {name: cpu-avx2-lut, "
                                 "optional: true}, host]\n"
                               : "plugins: [{name: fake-engine, options: {completion: thread}}, host]\n",
        16, STEPS, true);
}

/* Prompts on the NPU's two queues in chunks of 256, tokens on the CPU plugin: the phases hand the caches over. */
static void test_npu(void) {
  char profile[1024];
  if (!has("TENON_TEST_NPU")) return;
  snprintf(profile, sizeof profile,
           "plugin_path: [%s]\ncalibration: %s/models/demo/calibration.yaml\n"
           "plugins:\n  - npu-int8-sim\n  - {name: cpu-avx2-lut, optional: true}\n  - host\n"
           "phases: {prefill: [npu-int8-sim, cpu-avx2-lut, host], decode: [cpu-avx2-lut, host]}\n",
           getenv("TENON_TEST_NPU"), getenv("TENON_TEST_SOURCE"));
  check(profile, CHUNK, SOME, false);
}

/* The counter counts: a bucket that grows makes plans, and what a plugin asks for is seen too. */
static void test_counter(void) {
  walker w;
  CU_ASSERT_FATAL(start(&w, "plugins: [host]\nbucket: 16\n", 16));
  CU_ASSERT(step(&w, 14) && step(&w, 1) && step(&w, 1));
  watch();
  CU_ASSERT(step(&w, 1));
  CU_ASSERT(counted > 0);
  watching = 0;
  watch();
  char *volatile p = strdup("a library's"); /* or a compiler may leave it out */
  CU_ASSERT(counted == 1);
  watching = 0;
  free(p);
  rig_finish(&w.r);
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("allocations of a step, by whoever", NULL, NULL);
  CU_add_test(s, "the host", test_host);
  CU_add_test(s, "the host, int8 caches", test_rings);
  CU_add_test(s, "cpu-avx2-lut", test_avx2);
  CU_add_test(s, "a decoder on an engine", test_engine);
  CU_add_test(s, "an engine that completes from its thread", test_thread);
  CU_add_test(s, "npu-int8-sim, then the CPU", test_npu);
  CU_add_test(s, "the counter counts", test_counter);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
