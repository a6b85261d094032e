/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompts on a device that takes pieces of one length only: every length, also with turns at odd positions, gives what
 * unpadded steps give, and what the padding leaves in the caches is never seen.
 */
#include <math.h>

#include "memory_test.h"
#include "runtime/memory/run.h"
#include "runtime/session/state.h"

enum { TOKENS = 56, CHUNK = 8, MAX_IN = 64 };

static const char *const padded =
    "plugins:\n  - name: fake-engine\n    options: {completion: inline, chunk: 8}\n"
    "  - host\nphases: {prefill: [fake-engine, host], decode: [host]}\n";
static const char *const plain = "plugins: [host]\n";

typedef struct decoder {
  rig r;
  int64_t ids[TOKENS], pos[TOKENS];
  tn_tensor t[MAX_IN], out, *outs[MAX_IN];
  const tn_tensor *in[MAX_IN];
  uint32_t logits;
  size_t vocab;
} decoder;

static bool open_demo(decoder *d, const char *profile, int64_t capacity) {
  char path[1024];
  memset(d, 0, sizeof *d);
  snprintf(path, sizeof path, "%s/models/demo/model.onnx", getenv("TENON_TEST_SOURCE"));
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .capacity = capacity};
  tn_status st = rig_init(&d->r, profile);
  if (st == TN_OK) st = rig_open(&d->r, path, 0);
  if (st == TN_OK) st = tn_session_create(d->r.m, &d->r.s, &d->r.err);
  if (st == TN_OK) st = tn_session_keep(d->r.s, &o, &d->r.err);
  if (st != TN_OK) {
    printf("\n    %s\n", d->r.err.message);
    return false;
  }
  for (uint32_t i = 0; i < tn_model_n_outputs(d->r.m); i++)
    if (strcmp(tn_model_output(d->r.m, i)->name, "logits") == 0) d->logits = i;
  d->vocab = (size_t)tn_model_output(d->r.m, d->logits)->dims[2];
  return true;
}

/* Tokens [at, at + n); rows as tn_session_step has it. NULL: it failed. */
static const float *step(decoder *d, int64_t at, int64_t n, uint32_t rows) {
  for (int64_t i = 0; i < n; i++) {
    d->ids[i] = 3 + ((at + i) * 37) % 200;
    d->pos[i] = at + i;
  }
  for (uint32_t i = 0; i < tn_model_n_inputs(d->r.m); i++) {
    const tn_io_info *x = tn_model_input(d->r.m, i);
    d->in[i] = NULL;
    if (strstr(x->name, "past") || strstr(x->name, "mask")) continue;
    d->t[i] = (tn_tensor){.h = {sizeof d->t[i], 1, 0}, .name = x->name, .dtype = x->dtype, .rank = 2, .dims = {1, n}};
    d->t[i].data = strstr(x->name, "position") ? d->pos : d->ids;
    d->t[i].bytes = (uint64_t)n * sizeof(int64_t);
    d->in[i] = &d->t[i];
  }
  d->out = (tn_tensor){.h = {sizeof d->out, 1, 0}};
  d->outs[d->logits] = &d->out;
  tn_error_init(&d->r.err);
  tn_status st = tn_session_step(d->r.s, TN_PHASE_ANY, d->in, d->outs, rows, &d->r.err);
  if (st != TN_OK) printf("\n    step of %d at %d: %s\n", (int)n, (int)at, d->r.err.message);
  if (st != TN_OK || d->out.dims[1] != (rows ? 1 : n)) return NULL;
  return d->out.data;
}

static bool same(const float *a, const float *b, size_t n) {
  double gap = 0, top = 0;
  for (size_t i = 0; a && b && i < n; i++) {
    if (!(fabs((double)a[i] - b[i]) <= gap)) gap = fabs((double)a[i] - b[i]);
    if (fabs((double)b[i]) > top) top = fabs((double)b[i]);
  }
  return a && b && gap <= 1e-5 * top;
}

/* Rows behind the length in every cache become large: who sees one is far off. */
static void poison(decoder *d) {
  const int64_t length = tn_session_length(d->r.s);
  for (uint32_t k = 0; k < d->r.m->graph->n_states; k++) {
    const tni_tensor *t = &d->r.s->states[k].t;
    const size_t row = (size_t)t->dims[TNI_STATE_SIZE];
    for (int64_t o = 0; o < t->dims[0] * t->dims[TNI_STATE_HEADS]; o++)
      for (size_t i = (size_t)length * row; i < (size_t)t->dims[TNI_STATE_ROWS] * row; i++)
        ((float *)t->data)[(size_t)o * (size_t)t->dims[TNI_STATE_ROWS] * row + i] = 6e4f;
  }
}

/* A first turn of every length, then turns at odd positions and single tokens. */
static void test_lengths(void) {
  static const int64_t more[] = {1, 3, 8, 1, 17, 2, 0};
  decoder d, e;
  CU_ASSERT_FATAL(open_demo(&d, padded, TOKENS) && open_demo(&e, plain, TOKENS));
  CU_ASSERT_EQUAL(tn_session_max_step(d.r.s), TOKENS); /* in pieces of CHUNK, several at once */
  for (int64_t first = 1; first <= 2 * CHUNK + 2; first++) {
    int64_t at = 0;
    CU_ASSERT_EQUAL(tn_session_truncate(d.r.s, 0, NULL), TN_OK);
    CU_ASSERT_EQUAL(tn_session_truncate(e.r.s, 0, NULL), TN_OK);
    for (const int64_t *n = &first; *n; n = n == &first ? more : n + 1) {
      const uint32_t rows = (uint32_t)(at & 1);
      poison(&d);
      const float *want = step(&e, at, *n, rows), *got = step(&d, at, *n, rows);
      CU_ASSERT(same(got, want, (rows ? 1 : (size_t)*n) * d.vocab));
      at += *n;
      CU_ASSERT_EQUAL(tn_session_length(d.r.s), at);
    }
  }
  rig_finish(&d.r);
  rig_finish(&e.r);
}

/* To the last position of the context: the padded chunk has room behind it. */
static void test_full(void) {
  decoder d, e;
  CU_ASSERT_FATAL(open_demo(&d, padded, 21) && open_demo(&e, plain, 21));
  for (int64_t at = 0; at < 21; at += 7) CU_ASSERT(same(step(&d, at, 7, 0), step(&e, at, 7, 0), 7 * d.vocab));
  CU_ASSERT_PTR_NULL(step(&d, 21, 2, 0));
  CU_ASSERT_EQUAL(d.r.err.code, TN_E_LIMIT);
  rig_finish(&d.r);
  rig_finish(&e.r);
}

static void count_tasks(void *user, const tn_trace_event *e) { ((int *)user)[strncmp(e->track, "fake", 4) == 0]++; }

/* The device works on prompts, never on single positions. */
static void test_phases(void) {
  decoder d;
  int n[2] = {0};
  CU_ASSERT_FATAL(open_demo(&d, padded, TOKENS));
  tn_session_trace(d.r.s, count_tasks, n);
  CU_ASSERT_PTR_NOT_NULL(step(&d, 0, 5, 1));
  CU_ASSERT(n[1] > 0);
  n[1] = 0;
  CU_ASSERT_PTR_NOT_NULL(step(&d, 5, 1, 1));
  CU_ASSERT_EQUAL(n[1], 0);
  rig_finish(&d.r);
}

static const struct {
  const char *label, *profile, *part;
  tn_status st;
} wrong[] = {
    {"another length in the profile", "prefill_chunk: 16\n",
     "prefill_chunk: 16, but plugin 'fake-engine' takes prompts in pieces of 8 only", TN_E_INVALID},
    {"the same", "prefill_chunk: 8\n", NULL, TN_OK},
};

static void test_profile(void) {
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char profile[512], path[1024];
    rig r;
    snprintf(profile, sizeof profile, "%s%s", padded, wrong[i].profile);
    snprintf(path, sizeof path, "%s/models/demo/model.onnx", getenv("TENON_TEST_SOURCE"));
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile), TN_OK);
    CU_ASSERT_EQUAL(rig_open(&r, path, 0), wrong[i].st);
    if (wrong[i].part && !strstr(r.err.message, wrong[i].part)) printf("\n    %s: %s\n", wrong[i].label, r.err.message);
    if (wrong[i].part) CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, wrong[i].part));
    rig_finish(&r);
  }
}

/* A length that is no run's, and a placement for single positions too: refusals that say so, and the host adds. */
static void test_refusals(void) {
  static const char *const profiles[] = {
      "plugins:\n  - name: fake-engine\n    options: {completion: inline, chunk: 8}\n  - host\n", padded};
  static float x[16];
  for (size_t i = 0; i < 2; i++) {
    rig r;
    char *json = NULL;
    tn_tensor out[1], in = f32_tensor("x", x, 3, 1, 2, 8);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profiles[i]), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, text_model("Add:a:x,x:y", "x=b,n,8", "y=b,n,8", NULL, NULL, 0), 0), TN_OK);
    CU_ASSERT_EQUAL(tn_model_report(r.m, TN_REPORT_CHECK, &json, &r.err), TN_OK);
    CU_ASSERT_PTR_NOT_NULL(json ? strstr(json, "it needs n = 8, which does not always hold") : NULL);
    CU_ASSERT_EQUAL(rig_run(&r, TN_PHASE_PREFILL, &in, NULL, NULL, out, 1), TN_OK);
    tn_free(json);
    rig_finish(&r);
  }
}

/* Plain runs are not padded: of another length they go to the placement that takes any. */
static void test_plain(void) {
  decoder d;
  int n[2] = {0};
  CU_ASSERT_FATAL(open_demo(&d, padded, TOKENS));
  tn_session *kept = d.r.s;
  CU_ASSERT_EQUAL_FATAL(tn_session_create(d.r.m, &d.r.s, &d.r.err), TN_OK);
  tn_session_trace(d.r.s, count_tasks, n);
  for (int64_t rows = CHUNK - 1; rows <= CHUNK; rows++) {
    static char nothing[1];
    tn_tensor all[MAX_IN];
    memset(n, 0, sizeof n);
    for (uint32_t i = 0; i < tn_model_n_inputs(d.r.m); i++) {
      const tn_io_info *x = tn_model_input(d.r.m, i);
      all[i] = (tn_tensor){.h = {sizeof all[i], 1, 0}, .name = x->name, .dtype = x->dtype, .rank = (uint32_t)x->rank};
      const bool past = strstr(x->name, "past") != NULL;
      for (uint32_t a = 0; a < all[i].rank; a++)
        all[i].dims[a] = x->dims[a] >= 0 ? x->dims[a] : past ? (strstr(x->dim_names[a], "past") ? 0 : 1) : a ? rows : 1;
      all[i].data = past ? (void *)nothing : (void *)d.ids;
      all[i].bytes = past ? 0 : (uint64_t)rows * sizeof(int64_t);
      d.in[i] = &all[i];
    }
    d.out.name = "logits";
    d.out.h = (tn_hdr){sizeof(tn_tensor), 1, 0};
    tn_status st = tn_session_run(d.r.s, TN_PHASE_PREFILL, d.in, tn_model_n_inputs(d.r.m), &d.out, 1, &d.r.err);
    if (st != TN_OK) printf("\n    %s\n", d.r.err.message);
    CU_ASSERT_EQUAL(st, TN_OK);
    CU_ASSERT_EQUAL(n[1] > 0, rows == CHUNK);
  }
  tn_session_destroy(kept);
  rig_finish(&d.r);
}

void suite_chunk(void) {
  CU_pSuite s = CU_add_suite("prompts in padded chunks", NULL, NULL);
  CU_add_test(s, "every length", test_lengths);
  CU_add_test(s, "to the end of the context", test_full);
  CU_add_test(s, "phases by rows", test_phases);
  CU_add_test(s, "the profile's chunk", test_profile);
  CU_add_test(s, "refusals", test_refusals);
  CU_add_test(s, "plain runs", test_plain);
}
