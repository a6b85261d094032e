/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions that keep their caches, on models of several exporters' shapes: what steps give is what one plain run over
 * the whole sequence gives, however it is cut into steps, rounded up to buckets, cut back, shared, batched or padded.
 */
#include <math.h>
#include <sys/stat.h>

#include "runtime/memory/run.h"
#include "runtime/session/keep.h"
#include "session_test.h"

enum { MAX_IN = 64, TOKENS = 23, VOCAB = 4096 };

typedef struct decoder {
  rig r;
  uint32_t n_in, n_out, logits;
  const tn_tensor *in[MAX_IN];
  tn_tensor t[MAX_IN], out, *outs[MAX_IN];
  int64_t ids[2 * TOKENS], pos[2 * TOKENS], mask[2 * TOKENS];
  size_t vocab;
} decoder;

static int64_t token(int b, int64_t i) { return 3 + (i * 37 + b * 11) % 200; }

static bool has(const char *s, const char *what) { return strstr(s, what) != NULL; }

/* Which model: NULL past the last. Folders that are not there are passed over. */
static const char *model_path(int i, char *path, size_t n) {
  static const char *const exports[] = {"llama", "qwen2", "gpt2", "phi3", "gemma"};
  struct stat st;
  if (i == 0)
    snprintf(path, n, "%s/models/demo/model.onnx", getenv("TENON_TEST_SOURCE"));
  else if (i <= 5)
    snprintf(path, n, "%s/onnx/exports/%s/model.onnx", getenv("TENON_TEST_DATA"), exports[i - 1]);
  else
    return NULL;
  return stat(path, &st) == 0 ? path : "";
}

static bool open_decoder(decoder *d, const char *path, const char *profile) {
  memset(d, 0, sizeof *d);
  tn_status st = rig_init(&d->r, profile);
  if (st == TN_OK) st = rig_open(&d->r, path, 0);
  if (st == TN_OK) st = tn_session_create(d->r.m, &d->r.s, &d->r.err);
  if (st != TN_OK) {
    printf("\n    %s: %s\n", path, d->r.err.message);
    return false;
  }
  d->n_in = tn_model_n_inputs(d->r.m);
  d->n_out = tn_model_n_outputs(d->r.m);
  for (uint32_t i = 0; i < d->n_out; i++)
    if (strcmp(tn_model_output(d->r.m, i)->name, "logits") == 0) d->logits = i;
  d->vocab = (size_t)tn_model_output(d->r.m, d->logits)->dims[2];
  d->out.h = (tn_hdr){sizeof d->out, 1, 0};
  return d->n_in <= MAX_IN && d->n_out <= MAX_IN;
}

static bool keep(decoder *d, int64_t batch, int64_t capacity, int64_t max_step) {
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .batch = batch, .capacity = capacity, .max_step = max_step};
  tn_status st = tn_session_keep(d->r.s, &o, &d->r.err);
  if (st != TN_OK) printf("\n    keep: %s\n", d->r.err.message);
  return st == TN_OK;
}

/* Sequences 0 .. batch-1, positions [at, at + n). pads: left padding of sequence 1. */
static void set_inputs(decoder *d, int64_t batch, int64_t at, int64_t n, int64_t pads, bool kept) {
  for (int64_t b = 0; b < batch; b++)
    for (int64_t i = 0; i < n; i++) {
      const int64_t p = at + i - (b ? pads : 0);
      d->ids[b * n + i] = p < 0 ? 0 : token((int)b, p);
      d->pos[b * n + i] = p < 0 ? 0 : p;
      d->mask[b * n + i] = p >= 0;
    }
  for (uint32_t i = 0; i < d->n_in; i++) {
    const tn_io_info *x = tn_model_input(d->r.m, i);
    tn_tensor *t = &d->t[i];
    *t = (tn_tensor){.h = {sizeof *t, 1, 0}, .name = x->name, .dtype = x->dtype, .rank = (uint32_t)x->rank};
    d->in[i] = t;
    if (has(x->name, "past")) {
      for (uint32_t a = 0; a < t->rank; a++)
        t->dims[a] = x->dims[a] < 0 ? (has(x->dim_names[a], "past") ? 0 : batch) : x->dims[a];
      t->data = d;
      if (kept) d->in[i] = NULL;
      continue;
    }
    t->dims[0] = batch;
    t->dims[1] = n;
    t->bytes = (uint64_t)(batch * n) * sizeof(int64_t);
    t->data = has(x->name, "mask") ? d->mask : has(x->name, "position") ? d->pos : d->ids;
    if (kept && has(x->name, "mask") && !pads) d->in[i] = NULL;
  }
}

/* One step: logits of the last `rows` (all where 0) copied to dst. */
static bool step(decoder *d, int64_t batch, int64_t at, int64_t n, int64_t pads, uint32_t rows, float *dst) {
  set_inputs(d, batch, at, n, pads, true);
  memset(d->outs, 0, sizeof d->outs);
  d->outs[d->logits] = &d->out;
  tn_status st = tn_session_step(d->r.s, n > 1 ? TN_PHASE_PREFILL : TN_PHASE_DECODE, d->in, d->outs, rows, &d->r.err);
  if (st != TN_OK) {
    printf("\n    step at %lld: %s\n", (long long)at, d->r.err.message);
    return false;
  }
  const int64_t want = rows ? 1 : n;
  if (d->out.rank != 3 || d->out.dims[0] != batch || d->out.dims[1] != (rows ? d->out.dims[1] : n)) return false;
  const float *src = d->out.data;
  for (int64_t b = 0; b < batch; b++)
    memcpy(dst + (size_t)(b * want) * d->vocab, src + (size_t)(b * d->out.dims[1] + d->out.dims[1] - want) * d->vocab,
           (size_t)want * d->vocab * sizeof *dst);
  return true;
}

/* A plain run over TOKENS positions: [TOKENS, vocab], malloc'd. */
static float *plain(decoder *d) {
  set_inputs(d, 1, 0, TOKENS, 0, false);
  d->out.name = "logits";
  d->out.h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  tn_status st = tn_session_run(d->r.s, TN_PHASE_PREFILL, d->in, d->n_in, &d->out, 1, &d->r.err);
  if (st != TN_OK) {
    printf("\n    run: %s\n", d->r.err.message);
    return NULL;
  }
  float *copy = malloc(d->out.bytes);
  if (copy) memcpy(copy, d->out.data, d->out.bytes);
  return copy;
}

static bool close_to(const float *a, const float *b, size_t n, const char *what) {
  double gap = 0, top = 0;
  for (size_t i = 0; i < n; i++) {
    if (!(fabs((double)a[i] - b[i]) <= gap)) gap = fabs((double)a[i] - b[i]);
    if (fabs((double)b[i]) > top) top = fabs((double)b[i]);
  }
  if (gap <= 1e-5 * top) return true;
  printf("\n    %s: off by %g of %g\n", what, gap, top);
  return false;
}

/* Steps of these sizes, all rows. */
static bool steps(decoder *d, const int64_t *sizes, float *dst) {
  int64_t at = tn_session_length(d->r.s);
  for (; *sizes; at += *sizes++) {
    if (!step(d, 1, at, *sizes, 0, 0, dst + (size_t)at * d->vocab)) return false;
    if (tn_session_length(d->r.s) != at + *sizes) return false;
  }
  return true;
}

static const char *const profiles[] = {"plugins: [host]\n", "plugins: [host]\nbucket: 8\n",
                                       "plugins: [host]\nbucket: 64\n"};

/* However the sequence is cut, and whatever the bucket: the plain run's logits; the same bits for every bucket. */
static void check_cuts(const char *path) {
  static const int64_t cuts[][8] = {{TOKENS}, {7, 1, 1, 5, 9}, {1, 1, 1, 1, 19}};
  float *first = NULL;
  for (size_t p = 0; p < 3; p++) {
    for (size_t c = 0; c < 3; c++) {
      decoder d, e;
      float *got = calloc(TOKENS * VOCAB, sizeof *got), *want = NULL;
      CU_ASSERT_FATAL(open_decoder(&d, path, profiles[p]) && open_decoder(&e, path, profiles[p]) && got);
      CU_ASSERT(tn_model_has_cache(d.r.m));
      CU_ASSERT((want = plain(&e)) != NULL);
      CU_ASSERT(keep(&d, 1, 40, 0) && steps(&d, cuts[c], got));
      CU_ASSERT(want && close_to(got, want, TOKENS * d.vocab, path));
      if (c == 1 && !first) {
        first = got;
        got = NULL;
      } else if (c == 1) {
        CU_ASSERT_EQUAL(memcmp(first, got, TOKENS * d.vocab * sizeof *got), 0);
      }
      rig_finish(&d.r);
      rig_finish(&e.r);
      free(got);
      free(want);
    }
  }
  free(first);
}

static void each_model(void (*fn)(const char *path)) {
  char path[1024];
  int seen = 0;
  for (int i = 0; model_path(i, path, sizeof path); i++) {
    if (i && !*model_path(i, path, sizeof path)) continue;
    fn(path);
    seen++;
  }
  CU_ASSERT(seen > 0);
  printf("%d models ... ", seen);
}

/* Tasks in random orders that the task graph allows: the planned order's bits. */
static void check_orders(const char *path) {
  static const char *const devices[] = {"plugins: [host]\n",
                                        "plugins:\n  - name: cpu-avx2-lut\n    optional: true\n  - host\n"};
  static const int64_t sizes[8] = {7, 1, 1, 5, 9};
  for (size_t p = 0; p < 2; p++) {
    float *got = calloc(TOKENS * VOCAB, sizeof *got), *want = calloc(TOKENS * VOCAB, sizeof *want);
    for (uint64_t seed = 0; got && want && seed < 6; seed++) {
      decoder d;
      CU_ASSERT_FATAL(open_decoder(&d, path, devices[p]));
      d.r.m->order_seed = seed * 1000;
      CU_ASSERT(keep(&d, 1, 40, 0) && steps(&d, sizes, seed ? got : want));
      CU_ASSERT(!seed || memcmp(got, want, TOKENS * d.vocab * sizeof *got) == 0);
      rig_finish(&d.r);
    }
    CU_ASSERT(got && want);
    free(got);
    free(want);
  }
}

static void test_cuts(void) { each_model(check_cuts); }

/* The last row alone is the last of all rows. */
static void check_last_row(const char *path) {
  decoder d;
  float *all = calloc(TOKENS * VOCAB, sizeof *all), *last = calloc(VOCAB, sizeof *last);
  CU_ASSERT_FATAL(all && last && open_decoder(&d, path, profiles[0]) && keep(&d, 1, 40, 0));
  CU_ASSERT(step(&d, 1, 0, TOKENS, 0, 0, all));
  CU_ASSERT_EQUAL(tn_session_truncate(d.r.s, 0, &d.r.err), TN_OK);
  CU_ASSERT(step(&d, 1, 0, TOKENS, 0, 1, last));
  CU_ASSERT_EQUAL(d.out.dims[1], 1);
  CU_ASSERT(close_to(last, all + (TOKENS - 1) * d.vocab, d.vocab, "last row"));
  rig_finish(&d.r);
  free(all);
  free(last);
}

static void test_orders(void) { each_model(check_orders); }
static void test_last_row(void) { each_model(check_last_row); }

/* Cut back and gone on, and gone on from another session's prefix: as if nothing else had ever been there. */
static void check_verbs(const char *path) {
  decoder d, e;
  const int64_t before[] = {9, 8, 0}, after[] = {3, 1, 0}, whole[] = {9, 3, 1, 0};
  float *got = calloc(TOKENS * VOCAB, sizeof *got), *want = calloc(TOKENS * VOCAB, sizeof *want);
  CU_ASSERT_FATAL(got && want && open_decoder(&d, path, profiles[1]) && open_decoder(&e, path, profiles[1]));
  CU_ASSERT(keep(&d, 1, 40, 0) && steps(&d, before, got));
  tn_session *other = NULL;
  tn_keep_opts o = {.h = {sizeof o, 1, 0}, .batch = 1, .capacity = 24};
  CU_ASSERT_EQUAL_FATAL(tn_session_create(d.r.m, &other, &d.r.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_keep(other, &o, &d.r.err), TN_OK);
  CU_ASSERT_EQUAL(tn_session_share(other, d.r.s, 9, &d.r.err), TN_OK);
  CU_ASSERT_EQUAL(tn_session_truncate(d.r.s, 18, &d.r.err), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_session_truncate(d.r.s, 9, &d.r.err), TN_OK);
  CU_ASSERT(steps(&d, after, got));
  CU_ASSERT(keep(&e, 1, 40, 0) && steps(&e, whole, want));
  CU_ASSERT_EQUAL(memcmp(got, want, 13 * d.vocab * sizeof *got), 0);
  tn_session *mine = d.r.s;
  d.r.s = other;
  memset(got + 9 * d.vocab, 0, 4 * d.vocab * sizeof *got);
  CU_ASSERT(steps(&d, after, got));
  d.r.s = mine;
  CU_ASSERT_EQUAL(memcmp(got, want, 13 * d.vocab * sizeof *got), 0);
  tn_session_destroy(other);
  rig_finish(&d.r);
  rig_finish(&e.r);
  free(got);
  free(want);
}

static void test_verbs(void) { each_model(check_verbs); }

/* Two sequences, the second padded on the left: each as if it were alone. */
static void check_batch(const char *path) {
  enum { PADS = 4, N = 9, MORE = 3 };
  decoder d, e[2];
  float *got = calloc(2 * TOKENS * VOCAB, sizeof *got), *alone = calloc(TOKENS * VOCAB, sizeof *alone);
  CU_ASSERT_FATAL(got && alone && open_decoder(&d, path, profiles[1]) && keep(&d, 2, 40, 0));
  const size_t v = d.vocab;
  CU_ASSERT(step(&d, 2, 0, N, PADS, 0, got));
  for (int b = 0; b < 2; b++) {
    const int64_t n = b ? N - PADS : N;
    CU_ASSERT_FATAL(open_decoder(&e[b], path, profiles[1]) && keep(&e[b], 1, 40, 0));
    /* sequence b of one: the other's tokens are never looked at */
    set_inputs(&e[b], 2, 0, n, 0, true);
    memmove(e[b].ids, e[b].ids + b * n, (size_t)n * sizeof *e[b].ids);
    for (uint32_t i = 0; i < e[b].n_in; i++) {
      e[b].t[i].dims[0] = 1;
      e[b].t[i].bytes = (uint64_t)n * sizeof(int64_t);
    }
    memset(e[b].outs, 0, sizeof e[b].outs);
    e[b].outs[e[b].logits] = &e[b].out;
    CU_ASSERT_EQUAL_FATAL(tn_session_step(e[b].r.s, TN_PHASE_PREFILL, e[b].in, e[b].outs, 0, &e[b].r.err), TN_OK);
    CU_ASSERT(close_to(got + ((size_t)(b * N) + (size_t)(b ? PADS : 0)) * v, e[b].out.data, (size_t)n * v, "batch"));
  }
  for (int64_t k = 0; k < MORE; k++) {
    CU_ASSERT(step(&d, 2, N + k, 1, PADS, 1, got));
    for (int b = 0; b < 2; b++) {
      set_inputs(&e[b], 2, N + k, 1, PADS, true);
      for (uint32_t i = 0; i < e[b].n_in; i++) {
        if (has(e[b].t[i].name, "mask")) e[b].in[i] = NULL;
        e[b].t[i].dims[0] = 1;
        e[b].t[i].bytes = sizeof(int64_t);
      }
      e[b].ids[0] = e[b].ids[b];
      e[b].pos[0] = e[b].pos[b];
      CU_ASSERT_EQUAL_FATAL(tn_session_step(e[b].r.s, TN_PHASE_DECODE, e[b].in, e[b].outs, 1, &e[b].r.err), TN_OK);
      CU_ASSERT(close_to(got + (size_t)b * v, e[b].out.data, v, "batch, decode"));
    }
  }
  rig_finish(&d.r);
  rig_finish(&e[0].r);
  rig_finish(&e[1].r);
  free(got);
  free(alone);
}

static void test_batch(void) { each_model(check_batch); }

/* Limits and wrong calls: a status with a message, and the session goes on as before. */
static void test_errors(void) {
  decoder d;
  char path[1024];
  float *got = calloc(TOKENS * VOCAB, sizeof *got);
  CU_ASSERT_FATAL(got && open_decoder(&d, model_path(0, path, sizeof path), profiles[1]));
  CU_ASSERT_EQUAL(tn_session_step(d.r.s, 0, d.in, d.outs, 1, &d.r.err), TN_E_INVALID);
  const tn_keep_opts bad = {.h = {sizeof bad, 1, 0}, .capacity = 12, .max_step = 13};
  tn_error_init(&d.r.err);
  CU_ASSERT_EQUAL(tn_session_keep(d.r.s, &bad, &d.r.err), TN_E_INVALID);
  CU_ASSERT(keep(&d, 1, 12, 8));
  CU_ASSERT_EQUAL(tn_session_keep(d.r.s, &bad, &d.r.err), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_session_max_step(d.r.s), 8);
  CU_ASSERT_FALSE(step(&d, 1, 0, 9, 0, 0, got));
  CU_ASSERT_EQUAL(d.r.err.code, TN_E_LIMIT); /* each call says its own */
  CU_ASSERT(step(&d, 1, 0, 8, 0, 0, got));
  tn_error_init(&d.r.err);
  CU_ASSERT_FALSE(step(&d, 1, 8, 5, 0, 0, got));
  CU_ASSERT_EQUAL(d.r.err.code, TN_E_LIMIT);
  CU_ASSERT_EQUAL(tn_session_length(d.r.s), 8);
  CU_ASSERT(step(&d, 1, 8, 4, 0, 0, got));
  set_inputs(&d, 1, 0, 1, 0, false);
  d.out.h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  CU_ASSERT_EQUAL(tn_session_run(d.r.s, 0, d.in, d.n_in, &d.out, 1, &d.r.err), TN_E_INVALID);
  tn_session_cancel(d.r.s);
  CU_ASSERT_EQUAL(tn_session_truncate(d.r.s, 8, &d.r.err), TN_OK);
  CU_ASSERT_FALSE(step(&d, 1, 8, 1, 0, 0, got));
  CU_ASSERT_EQUAL(tn_session_length(d.r.s), 8);
  CU_ASSERT(step(&d, 1, 8, 1, 0, 0, got));
  rig_finish(&d.r);
  free(got);
}

/* --- plain runs beside them ---------------------------------------------------------------------------------------- */

enum { LONGER = 61, HEAD = 4 * 32 }; /* of the demo model: floats of a position in one cache */

/* One position after `past` ones, whose rows are drawn from the seed: its logits. */
static bool run_after(decoder *d, uint32_t phase, int64_t past, uint32_t seed, float *logits) {
  static float rows[LONGER * HEAD];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    seed = seed * 1664525u + 1013904223u;
    rows[i] = (float)(int32_t)seed / 2147483648.0f;
  }
  set_inputs(d, 1, past, 1, 0, false);
  static int64_t ones[LONGER + 1];
  for (int64_t i = 0; i <= past; i++) ones[i] = 1;
  for (uint32_t i = 0; i < d->n_in; i++) {
    tn_tensor *t = &d->t[i];
    if (has(t->name, "mask")) *t = i64_tensor(t->name, ones, 2, 1, past + 1);
    if (!has(t->name, "past")) continue;
    t->dims[2] = past;
    t->data = rows;
    t->bytes = (uint64_t)(past * HEAD) * sizeof *rows;
  }
  d->out = (tn_tensor){.h = {sizeof(tn_tensor), 1, 0}, .name = "logits"};
  const tn_status st = tn_session_run(d->r.s, phase, d->in, d->n_in, &d->out, 1, &d->r.err);
  if (st != TN_OK) printf("\n    run: %s\n", d->r.err.message);
  if (st != TN_OK || d->out.bytes != d->vocab * sizeof *logits) return false;
  memcpy(logits, d->out.data, d->out.bytes);
  return true;
}

/* Caches that one placement's run makes longer lie elsewhere when the other's sizes come back: it runs on the new ones. */
static void test_grown(void) {
  decoder d, e;
  char path[1024];
  float *got = calloc(VOCAB, sizeof *got), *want = calloc(VOCAB, sizeof *want);
  const char *const profile = "plugins: [host]\nphases: {prefill: [host], decode: [host]}\n";
  model_path(0, path, sizeof path);
  CU_ASSERT_FATAL(got && want && open_decoder(&d, path, profile) && open_decoder(&e, path, profile));
  CU_ASSERT(run_after(&d, TN_PHASE_PREFILL, 4, 1, got));
  CU_ASSERT(run_after(&d, TN_PHASE_DECODE, LONGER, 2, got));
  CU_ASSERT(run_after(&d, TN_PHASE_PREFILL, 4, 3, got));
  CU_ASSERT(run_after(&e, TN_PHASE_PREFILL, 4, 3, want));
  CU_ASSERT_EQUAL(memcmp(got, want, d.vocab * sizeof *got), 0);
  rig_finish(&d.r);
  rig_finish(&e.r);
  free(got);
  free(want);
}

/* A session that ran before it keeps caches: the first step has the plain run's sizes, and sizes of its own were planned. */
static void test_ran_before(void) {
  enum { LENGTH = 8 };
  decoder d, e;
  char path[1024];
  float *got = calloc(VOCAB, sizeof *got), *want = calloc(VOCAB, sizeof *want);
  model_path(0, path, sizeof path);
  CU_ASSERT_FATAL(got && want && open_decoder(&d, path, profiles[0]) && open_decoder(&e, path, profiles[0]));
  CU_ASSERT(run_after(&d, TN_PHASE_ANY, LENGTH - 1, 1, got));
  CU_ASSERT_FATAL(keep(&d, 1, LENGTH, LENGTH) && keep(&e, 1, LENGTH, LENGTH));
  CU_ASSERT(step(&d, 1, 0, 1, 0, 0, got) && step(&e, 1, 0, 1, 0, 0, want));
  CU_ASSERT_EQUAL(memcmp(got, want, d.vocab * sizeof *got), 0);
  rig_finish(&d.r);
  rig_finish(&e.r);
  free(got);
  free(want);
}

/* Caches for more positions than there is memory for: the session is as before, and less may be asked for. */
static void test_too_large(void) {
  decoder d, e;
  char path[1024];
  float *got = calloc(TOKENS * VOCAB, sizeof *got), *want = calloc(TOKENS * VOCAB, sizeof *want);
  model_path(0, path, sizeof path);
  CU_ASSERT_FATAL(got && want && open_decoder(&d, path, profiles[1]) && open_decoder(&e, path, profiles[1]));
  for (int i = 0; i < 2; i++) {
    const tn_keep_opts large = {.h = {sizeof large, 1, 0},
                                .capacity = i ? INT64_C(100000000000) : INT64_C(4000000000000000000),
                                .max_step = 8};
    tn_error_init(&d.r.err);
    CU_ASSERT_NOT_EQUAL(tn_session_keep(d.r.s, &large, &d.r.err), TN_OK);
    CU_ASSERT_PTR_NULL(strstr(d.r.err.message, "already"));
    CU_ASSERT_EQUAL(tn_session_step(d.r.s, 0, d.in, d.outs, 1, &d.r.err), TN_E_INVALID);
    CU_ASSERT_EQUAL(tn_session_max_step(d.r.s), 0);
  }
  CU_ASSERT(run_after(&d, TN_PHASE_ANY, 4, 1, got) && run_after(&e, TN_PHASE_ANY, 4, 1, want));
  CU_ASSERT_EQUAL(memcmp(got, want, d.vocab * sizeof *got), 0);
  CU_ASSERT_FATAL(keep(&d, 1, 12, 8) && keep(&e, 1, 12, 8));
  CU_ASSERT(step(&d, 1, 0, 8, 0, 0, got) && step(&e, 1, 0, 8, 0, 0, want));
  CU_ASSERT_EQUAL(memcmp(got, want, 8 * d.vocab * sizeof *got), 0);
  rig_finish(&d.r);
  rig_finish(&e.r);
  free(got);
  free(want);
}

/* What takes over a batch with padding knows that it has some. */
static void test_gaps_move(void) {
  decoder d;
  char path[1024];
  float *got = calloc(2 * TOKENS * VOCAB, sizeof *got);
  model_path(0, path, sizeof path);
  const char *const profile = "plugins:\n  - {name: fake-engine, options: {fail_after: 20}}\n  - host\n";
  CU_ASSERT_FATAL(got && open_decoder(&d, path, profile));
  CU_ASSERT_FATAL(keep(&d, 2, 40, 0));
  CU_ASSERT(step(&d, 2, 0, 9, 4, 0, got));
  CU_ASSERT_EQUAL(tn_runtime_losses(d.r.rt, NULL), 0);
  CU_ASSERT(d.r.s->keep->gaps);
  /* Each one after the padding brings a mask of its own, of which none has a zero. */
  for (int64_t k = 0; k < 12 && !d.r.s->next; k++) CU_ASSERT(step(&d, 2, 9 + k, 1, 0, 1, got));
  CU_ASSERT_PTR_NOT_NULL_FATAL(d.r.s->next);
  CU_ASSERT(d.r.s->next->keep->gaps);
  CU_ASSERT_EQUAL(tn_session_truncate(d.r.s, 0, &d.r.err), TN_OK);
  CU_ASSERT_FALSE(d.r.s->next->keep->gaps);
  rig_finish(&d.r);
  free(got);
}

void suite_keep(void) {
  CU_pSuite s = CU_add_suite("caches kept in place", NULL, NULL);
  CU_add_test(s, "however it is cut, whatever the bucket", test_cuts);
  CU_add_test(s, "random orders, same bits", test_orders);
  CU_add_test(s, "last row", test_last_row);
  CU_add_test(s, "truncate and share", test_verbs);
  CU_add_test(s, "batch and left padding", test_batch);
  CU_add_test(s, "limits and wrong calls", test_errors);
  CU_add_test(s, "grown in a run of another placement", test_grown);
  CU_add_test(s, "after a plain run of the first step's sizes", test_ran_before);
  CU_add_test(s, "more than there is room for, then less", test_too_large);
  CU_add_test(s, "padding, after a device is lost", test_gaps_move);
}
