/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings and quantized caches, on a decoder of two layers whose attention looks back a window: what steps give on rings
 * is bit for bit what they give on caches that hold everything, however they are cut, on whatever device, in whatever
 * dtype; and what a ring has lost is refused.
 */
#include <math.h>
#include <pthread.h>
#include <time.h>

#include "runtime/memory/run.h"
#include "runtime/ops/kernel/kvrow.h"
#include "ring_kit.h"

/* The ring is rounded up to blocks of keys; a cache without a window is none. */
static void test_bits(void) {
  static const struct {
    int64_t first, second, rows[2];
    const char *more;
  } cases[] = {{20, 33, {64, 64}, ""},           {20, -1, {64, CAPACITY}, ""},
               {0, 48, {64, 64}, "bucket: 8\n"}, {49, 64, {128, 128}, "bucket: 64\n"},
               {20, 33, {64, 64}, "kv: f16\n"},  {20, 33, {64, 64}, "kv: int8\n"},
               {300, 20, {CAPACITY, 64}, ""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char ring[128], all[128];
    snprintf(ring, sizeof ring, "%s%s", HOST, cases[i].more);
    snprintf(all, sizeof all, "%s%s" ALL, HOST, cases[i].more);
    for (size_t c = 0; c < sizeof walk_cuts / sizeof *walk_cuts; c++) {
      int64_t rows[2] = {0}, full[2] = {0};
      float *want = walk_logits(all, cases[i].first, cases[i].second, walk_cuts[c], full);
      float *got = walk_logits(ring, cases[i].first, cases[i].second, walk_cuts[c], rows);
      CU_ASSERT(walk_same(want, got));
      CU_ASSERT(full[0] == CAPACITY && full[1] == CAPACITY);
      CU_ASSERT(rows[0] == cases[i].rows[0] && rows[1] == cases[i].rows[1]);
      free(want);
      free(got);
    }
  }
}

/* A device that may have rings, one that says nothing of them, and two without a common memory in turns. */
static void test_devices(void) {
  static const struct {
    const char *profile;
    int64_t rows;
  } cases[] = {
      {"plugins: [{name: mirror-a, options: {layout: f32, ring: true}}, host]\n", 64},
      {"plugins: [{name: mirror-a, options: {layout: f32}}, host]\n", CAPACITY},
      {"plugins: [{name: mirror-a, options: {layout: host}}, host]\n", CAPACITY},
      {"plugins: [{name: mirror-a, options: {layout: f32, ring: true, every: 2}}, host]\n", 64},
      {"plugins: [{name: mirror-a, options: {layout: f32, ring: true}}, {name: mirror-b, options: {layout: f32}}]\n"
       "phases: {prefill: [mirror-a], decode: [mirror-b]}\n",
       CAPACITY},
      {"plugins: [{name: mirror-a, options: {layout: f32, ring: true}}, "
       "{name: mirror-b, options: {layout: f32, ring: true}}]\nphases: {prefill: [mirror-a], decode: [mirror-b]}\n",
       64},
  };
  float *want = walk_logits(HOST ALL, 20, 33, walk_cuts[0], NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t rows[2] = {0};
    float *got = walk_logits(cases[i].profile, 20, 33, walk_cuts[0], rows);
    if (!walk_same(want, got)) printf("\n    %s", cases[i].profile);
    CU_ASSERT(walk_same(want, got));
    CU_ASSERT(rows[0] == cases[i].rows && rows[1] == cases[i].rows);
    free(got);
  }
  free(want);
}

/* A row of a cache has 64 bytes. One that is too large for a device at the longest context is left to the HOST; a ring
 * is short. */
static void test_largest_buffer(void) {
  static const struct {
    const char *options, *more;
    int64_t window;
    bool taken;
  } cases[] = {{"layout: f32, largest: 16384", "", -1, true},
               {"layout: f32, largest: 16383", "", -1, false},
               {"layout: f16, largest: 8192", "", -1, true},
               {"layout: f32, ring: true, largest: 9000", "", 20, true},
               {"layout: f32, ring: true, largest: 9000", "kv_ring: false\n", 20, false}};
  float *want[2] = {walk_logits(HOST ALL, -1, -1, walk_cuts[0], NULL),
                    walk_logits(HOST ALL, 20, 20, walk_cuts[0], NULL)};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    walk w;
    char profile[256], *json = NULL;
    const int64_t window = cases[i].window;
    snprintf(profile, sizeof profile, "plugins: [{name: mirror-a, options: {%s}}, host]\nmax_seq: %d\n%s",
             cases[i].options, CAPACITY, cases[i].more);
    CU_ASSERT_FATAL(walk_begin(&w, profile, window, window));
    CU_ASSERT_EQUAL_FATAL(tn_model_report(w.r.m, TN_REPORT_CHECK, &json, &w.r.err), TN_OK);
    const bool refused = strstr(json, "than what the device allocates at once") && strstr(json, "positions fit");
    if (refused == cases[i].taken) printf("\n    %s", profile);
    CU_ASSERT(refused != cases[i].taken);
    tn_free(json);
    rig_finish(&w.r);
    float *got = walk_logits(profile, window, window, walk_cuts[0], NULL);
    CU_ASSERT(strstr(profile, "f16") || walk_same(want[window == 20], got));
    free(got);
  }
  free(want[0]);
  free(want[1]);
}

/* Kept as long as what follows can see is there; beyond that a refusal, and the session goes on as before. */
void test_truncate(void) {
  walk w;
  float *want = walk_logits(HOST ALL, 20, 33, walk_cuts[2], NULL), *got = calloc(LONG * VOCAB, sizeof *got);
  CU_ASSERT_FATAL(want && got && walk_begin(&w, HOST, 20, 33) && walk_keep(&w, w.r.s, CAPACITY, STEP));
  tn_session *s = w.r.s;
  CU_ASSERT(walk_steps(&w, s, walk_cuts[0], RING, got));
  CU_ASSERT_EQUAL(tn_session_truncate(s, 5, &w.r.err), TN_OK); /* nothing has wrapped around yet */
  CU_ASSERT(walk_steps(&w, s, walk_cuts[2], 200, got));
  tn_error_init(&w.r.err);
  CU_ASSERT_EQUAL(tn_session_truncate(s, 200 - RING + 32, &w.r.err), TN_E_LIMIT); /* looks back 33 */
  CU_ASSERT_PTR_NOT_NULL(strstr(w.r.err.message, "looks back to position 135"));
  CU_ASSERT_PTR_NOT_NULL(
      strstr(w.r.err.message, "'past_key_values.1.key' has 64 rows and holds positions from 136 on"));
  CU_ASSERT_EQUAL(tn_session_length(s), 200);
  CU_ASSERT(walk_steps(&w, s, walk_cuts[1], 210, got));
  CU_ASSERT_EQUAL(tn_session_truncate(s, 210 - RING + 33, &w.r.err), TN_OK); /* the least that can be kept */
  CU_ASSERT(walk_steps(&w, s, walk_cuts[3], LONG, got));
  CU_ASSERT(walk_same(want, got));
  CU_ASSERT_EQUAL(tn_session_truncate(s, 0, &w.r.err), TN_OK);
  CU_ASSERT_EQUAL(tn_session_truncate(s, 0, &w.r.err), TN_OK);
  memset(got, 0, LONG * VOCAB * sizeof *got);
  CU_ASSERT(walk_steps(&w, s, walk_cuts[0], LONG, got) && walk_same(want, got));
  CU_ASSERT_EQUAL(walk_step(&w, s, STEP + 1), TN_E_LIMIT); /* longer than the ring was made for */
  rig_finish(&w.r);
  free(want);
  free(got);
}

/* A step that was cancelled has written over rows all the same. */
void test_cancel(void) {
  walk w;
  float *want = walk_logits(HOST ALL, 20, 33, walk_cuts[2], NULL), *got = calloc(LONG * VOCAB, sizeof *got);
  CU_ASSERT_FATAL(want && got && walk_begin(&w, HOST, 20, 33) && walk_keep(&w, w.r.s, CAPACITY, STEP));
  CU_ASSERT(walk_steps(&w, w.r.s, walk_cuts[2], 96, got));
  tn_session_cancel(w.r.s);
  CU_ASSERT_EQUAL(walk_step(&w, w.r.s, STEP), TN_E_CANCELLED);
  CU_ASSERT_EQUAL(tn_session_length(w.r.s), 96);
  CU_ASSERT_EQUAL(tn_session_truncate(w.r.s, 80, &w.r.err), TN_E_LIMIT); /* holds 48 on: 112 were written */
  CU_ASSERT(walk_steps(&w, w.r.s, walk_cuts[3], LONG, got) && walk_same(want, got));
  rig_finish(&w.r);
  free(want);
  free(got);
}

/* Verbs where nothing has been run, and in the middle of nothing. */
static void test_fresh(void) {
  walk w;
  tn_session *other = NULL;
  CU_ASSERT_FATAL(walk_begin(&w, HOST, 20, 33));
  CU_ASSERT_EQUAL(tn_session_truncate(w.r.s, 0, &w.r.err), TN_E_INVALID); /* it keeps nothing yet */
  CU_ASSERT_EQUAL_FATAL(tn_session_create(w.r.m, &other, &w.r.err), TN_OK);
  CU_ASSERT_EQUAL(tn_session_share(other, w.r.s, 0, &w.r.err), TN_E_INVALID);
  CU_ASSERT(walk_keep(&w, w.r.s, CAPACITY, STEP) && walk_keep(&w, other, CAPACITY, STEP));
  CU_ASSERT_EQUAL(tn_session_truncate(w.r.s, 0, &w.r.err), TN_OK);
  CU_ASSERT_EQUAL(tn_session_truncate(w.r.s, 1, &w.r.err), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_session_truncate(w.r.s, -1, &w.r.err), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_session_share(other, w.r.s, 0, &w.r.err), TN_OK);
  CU_ASSERT_EQUAL(tn_session_share(other, w.r.s, 1, &w.r.err), TN_E_INVALID);
  CU_ASSERT_EQUAL(walk_step(&w, other, 5), TN_OK);
  CU_ASSERT_EQUAL(tn_session_share(other, w.r.s, 0, &w.r.err), TN_OK);
  CU_ASSERT_EQUAL(tn_session_length(other), 0);
  CU_ASSERT_EQUAL(tn_session_share(other, other, 0, &w.r.err), TN_OK);
  CU_ASSERT_EQUAL(walk_step(&w, other, 5), TN_OK);
  tn_session_destroy(other);
  rig_finish(&w.r);
}

typedef struct canceller {
  tn_session *s;
  long after_ns;
} canceller;

static void *cancel_later(void *arg) {
  const canceller *c = arg;
  nanosleep(&(struct timespec){.tv_nsec = c->after_ns}, NULL);
  tn_session_cancel(c->s);
  return NULL;
}

/* Steps of two devices and the CPU, cancelled at any moment and taken again: as if nothing had been. */
static void test_cancel_anywhere(void) {
  static const char *const profiles[] = {
      "plugins: [{name: mirror-a, options: {layout: f32, ring: true, every: 2, share: fd}}, "
      "{name: mirror-b, options: {layout: f32, ring: true, import: fd}}, host]\n",
      "plugins: [{name: mirror-a, options: {layout: f32, ring: true}}, "
      "{name: mirror-b, options: {layout: f32, ring: true}}]\nphases: {prefill: [mirror-a], decode: [mirror-b]}\n"};
  float *want = walk_logits(HOST ALL, 20, 33, walk_cuts[0], NULL), *got = calloc(LONG * VOCAB, sizeof *got);
  int cancelled = 0;
  CU_ASSERT_FATAL(want && got);
  for (size_t i = 0; i < 2; i++) {
    walk w;
    const int64_t *next = walk_cuts[0];
    CU_ASSERT_FATAL(walk_begin(&w, profiles[i], 20, 33) && walk_keep(&w, w.r.s, CAPACITY, STEP));
    for (int64_t at = 0, k = 0, tries = 1; at < LONG; k++, tries++) {
      canceller c = {w.r.s, k * 37 % 100 * tries * 10000}; /* later and later, until it ends */
      pthread_t thread;
      const int64_t n = *next < LONG - at ? *next : LONG - at;
      CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, cancel_later, &c), 0);
      const tn_status st = walk_step(&w, w.r.s, n);
      pthread_join(thread, NULL);
      __atomic_store_n(&w.r.s->cancel, 0, __ATOMIC_RELAXED); /* not for the next one */
      cancelled += st == TN_E_CANCELLED;
      CU_ASSERT_FATAL(st == TN_OK || st == TN_E_CANCELLED);
      CU_ASSERT_EQUAL(tn_session_length(w.r.s), st == TN_OK ? at + n : at);
      if (st != TN_OK) continue;
      memcpy(got + at * VOCAB, w.logits.data, (size_t)n * VOCAB * sizeof *got);
      at += n;
      tries = 0;
      next = next[1] ? next + 1 : walk_cuts[0];
    }
    CU_ASSERT(walk_same(want, got));
    rig_finish(&w.r);
  }
  CU_ASSERT(cancelled > 0);
  printf("%d cancelled ... ", cancelled);
  free(want);
  free(got);
}

#define PIECES                                                                              \
  "chunks_in_flight: 1\nphases: {prefill: [fake-engine, host], decode: [host]}\nplugins:\n" \
  "  - {name: fake-engine, options: {chunk: 16%s}}\n  - host\n"

typedef struct countdown {
  tn_session *s;
  _Atomic int left; /* events until it is cancelled */
} countdown;

static void cancel_at(void *user, const tn_trace_event *e) {
  countdown *c = user;
  (void)e;
  if (c->left-- == 0) tn_session_cancel(c->s);
}

/* A prompt of several pieces, of which some ran before it failed: they stand where the ring held what came before. */
static void test_failed_pieces(void) {
  walk w;
  char profile[200];
  countdown c = {.left = -1};
  float *want = walk_logits(HOST ALL, 20, 33, walk_cuts[0], NULL), *got = calloc(LONG * VOCAB, sizeof *got);
  snprintf(profile, sizeof profile, PIECES, "");
  CU_ASSERT_FATAL(want && got && walk_begin(&w, profile, 20, 33) && walk_keep(&w, w.r.s, CAPACITY, 0));
  CU_ASSERT_EQUAL(walk_step(&w, w.r.s, 80), TN_OK);
  c.s = w.r.s;
  tn_session_trace(w.r.s, cancel_at, &c);
  CU_ASSERT_EQUAL(walk_step(&w, w.r.s, 16), TN_OK); /* how many events a piece has */
  const int piece = -1 - c.left;
  c.left = 6 * piece + piece / 2;
  CU_ASSERT_EQUAL(walk_step(&w, w.r.s, 130), TN_E_CANCELLED);
  tn_session_trace(w.r.s, NULL, NULL);
  CU_ASSERT_EQUAL(tn_session_length(w.r.s), 96);
  CU_ASSERT_EQUAL(tn_session_truncate(w.r.s, 96, &w.r.err), TN_E_LIMIT);
  CU_ASSERT_EQUAL(walk_step(&w, w.r.s, 1), TN_E_LIMIT);
  CU_ASSERT_PTR_NOT_NULL(strstr(w.r.err.message, "cannot go on from position 96"));
  CU_ASSERT_EQUAL(tn_session_truncate(w.r.s, 0, &w.r.err), TN_OK);
  CU_ASSERT(walk_steps(&w, w.r.s, walk_cuts[0], LONG, got) && walk_same(want, got));
  rig_finish(&w.r);
  free(want);
  free(got);
}

/* The same where the device is lost: what takes over has no positions. */
static void test_lost_pieces(void) {
  walk w;
  char profile[200];
  float *want = walk_logits(HOST ALL, 20, 33, walk_cuts[0], NULL), *got = calloc(LONG * VOCAB, sizeof *got);
  snprintf(profile, sizeof profile, PIECES, ", fail_after: 25");
  CU_ASSERT_FATAL(want && got && walk_begin(&w, profile, 20, 33) && walk_keep(&w, w.r.s, CAPACITY, 0));
  CU_ASSERT_EQUAL(walk_step(&w, w.r.s, 80), TN_OK);
  CU_ASSERT_EQUAL(walk_step(&w, w.r.s, 146), TN_E_DEVICE_LOST);
  CU_ASSERT_EQUAL(tn_session_length(w.r.s), 0);
  CU_ASSERT(walk_steps(&w, w.r.s, walk_cuts[0], LONG, got) && walk_same(want, got));
  rig_finish(&w.r);
  free(want);
  free(got);
}

/* Into rings of other sizes, which hold less or more. */
void test_share(void) {
  walk w;
  static const int64_t most[] = {STEP, 4, 90};
  float *want = walk_logits(HOST ALL, 20, 33, walk_cuts[2], NULL), *got = calloc(LONG * VOCAB, sizeof *got);
  CU_ASSERT_FATAL(want && got && walk_begin(&w, HOST, 20, 33) && walk_keep(&w, w.r.s, CAPACITY, STEP));
  CU_ASSERT(walk_steps(&w, w.r.s, walk_cuts[0], 190, got));
  for (size_t i = 0; i < 3; i++) {
    tn_session *other = NULL;
    CU_ASSERT_EQUAL_FATAL(tn_session_create(w.r.m, &other, &w.r.err), TN_OK);
    CU_ASSERT(walk_keep(&w, other, CAPACITY, most[i]));
    tn_error_init(&w.r.err);
    CU_ASSERT_EQUAL(tn_session_share(other, w.r.s, 150, &w.r.err), TN_E_LIMIT);
    CU_ASSERT_EQUAL(tn_session_length(other), 0);
    CU_ASSERT_EQUAL(tn_session_share(other, w.r.s, 180, &w.r.err), TN_OK);
    /* It holds what it was given, not what its size could hold. */
    CU_ASSERT_EQUAL(tn_session_truncate(other, 140, &w.r.err), TN_E_LIMIT);
    CU_ASSERT(walk_steps(&w, other, walk_cuts[1], LONG, got) && walk_same(want, got));
    tn_session_destroy(other);
  }
  rig_finish(&w.r);
  free(want);
  free(got);
}

static double inspected(const walk *w, const char *key, char **json) {
  if (tn_model_report(w->r.m, TN_REPORT_INSPECT, json, NULL) != TN_OK) return -1;
  return json_number(*json, key);
}

/* The statement counts what a session makes, and names what the caches are. */
static void test_statement(void) {
  static const struct {
    const char *profile, *layout;
    uint64_t row;
    int64_t rows;
  } cases[] = {
      {"plugins: [host]\nmax_seq: 4096\nprefill_chunk: 100\n", "float32 [0 2 1 3] ring", 4 * SIZE, 192},
      {"plugins: [host]\nmax_seq: 4096\nprefill_chunk: 100\nkv_ring: false\n", "float32 [0 2 1 3]", 4 * SIZE, 4096},
      {"plugins: [host]\nmax_seq: 4096\nprefill_chunk: 0\n", "float32 [0 2 1 3] ring", 4 * SIZE, 4096},
      {"plugins: [host]\nmax_seq: 4096\nprefill_chunk: 100\nkv: int8\n", "int8 [0 2 1 3] ring", SIZE + 4, 192}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    walk w;
    char *json = NULL;
    uint64_t made = 0;
    CU_ASSERT_FATAL(walk_begin(&w, cases[i].profile, 80, 80));
    const tn_keep_opts o = {.h = {sizeof o, 1, 0}};
    CU_ASSERT_EQUAL_FATAL(tn_session_keep(w.r.s, &o, &w.r.err), TN_OK);
    for (uint32_t k = 0; k < 2 * LAYERS; k++) made += w.r.s->states[k].t.bytes;
    CU_ASSERT_EQUAL(made, 2 * LAYERS * KV * (uint64_t)cases[i].rows * cases[i].row);
    CU_ASSERT_EQUAL(inspected(&w, "kv_bytes", &json), (double)made);
    char text[64];
    snprintf(text, sizeof text, "\"%s\"", cases[i].layout);
    CU_ASSERT(json && strstr(json, text) != NULL);
    tn_free(json);
    rig_finish(&w.r);
  }
}

/* Plain runs hold everything: the caller's past goes in and the present comes out whole. */
void test_plain(void) {
  walk w;
  const tn_tensor *in[1 + 2 * LAYERS];
  tn_tensor t[1 + 2 * LAYERS], out;
  float *want = walk_logits(HOST ALL, 20, 33, walk_cuts[2], NULL);
  CU_ASSERT_FATAL(want && walk_begin(&w, HOST, 20, 33));
  for (int64_t i = 0; i < LONG; i++) w.id[i] = i * (i + 5) % VOCAB;
  for (uint32_t i = 0; i < 1 + 2 * LAYERS; i++) {
    in[i] = &t[i];
    t[i] = f32_tensor(tn_model_input(w.r.m, i)->name, want, 4, 1, KV, 0);
    t[i].dims[3] = walk_size;
    t[i].bytes = 0;
  }
  t[0] = i64_tensor("input_ids", w.id, 2, 1, LONG);
  memset(&out, 0, sizeof out);
  out.name = "logits";
  out.h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  CU_ASSERT_EQUAL(tn_session_run(w.r.s, TN_PHASE_ANY, in, 1 + 2 * LAYERS, &out, 1, &w.r.err), TN_OK);
  CU_ASSERT(out.data && walk_distance(out.data, want) <= 1e-5);
  rig_finish(&w.r);
  free(want);
}

/* --- quantized rows ---------------------------------------------------------------------------------------------- */

static void check_row(const float *x, int64_t n, double most) {
  enum { ROOM = 2048 };
  static _Alignas(4) char row[ROOM];
  static float y[ROOM];
  memset(row, 0x55, sizeof row);
  tni_kv_store(TN_DT_I8, row, TN_DT_F32, x, 1, n);
  const int64_t pitch = tni_kv_pitch(TN_DT_I8, n);
  CU_ASSERT(pitch == (n + 3) / 4 * 4 + 4 && row[pitch] == 0x55);
  tni_kv_load(TN_DT_I8, row, TN_DT_F32, y, 1, n);
  for (int64_t i = 0; i < n; i++) CU_ASSERT(fabs((double)y[i] - x[i]) <= most / 254 * (1 + 0x1p-14) + 0x1p-120);
}

static void test_rows(void) {
  float x[600], y[600], z[1200];
  char row[700];
  uint32_t state = 3;
  for (int64_t n = 0; n < 600; n += n < 9 ? 1 : 97)
    for (int e = -140; e < 127; e += 19) {
      float most = 0;
      for (int64_t i = 0; i < n; i++) {
        x[i] = ldexpf((float)walk_random(&state) / 0x1p23f - 1, e);
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
      }
      check_row(x, n, most);
    }
  for (int i = 0; i < 300; i++) x[i] = (float)i;
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (int b = 0; b < 3; b++) {
    x[299] = bad[b];
    tni_kv_store(TN_DT_I8, row, TN_DT_F32, x, 1, 300);
    tni_kv_load(TN_DT_I8, row, TN_DT_F32, y, 1, 300);
    for (int i = 0; i < 300; i++) CU_ASSERT(isnan(y[i]));
  }
  /* Steps, and other floats, give the same row. */
  for (int i = 0; i < 300; i++) x[i] = z[4 * i] = (float)(i % 64) / 64;
  tni_kv_store(TN_DT_F16, row, TN_DT_F32, z, 4, 300);
  tni_kv_load(TN_DT_F16, row, TN_DT_F32, y, 1, 300);
  CU_ASSERT_EQUAL(memcmp(x, y, 300 * sizeof *x), 0);
  tni_kv_store(TN_DT_I8, row, TN_DT_F32, x, 1, 300);
  tni_kv_load(TN_DT_I8, row, TN_DT_F32, y, 1, 300);
  memset(z, 0, sizeof z);
  tni_kv_store(TN_DT_I8, row, TN_DT_F32, y, 1, 300); /* once more changes nothing but the scale's last bit */
  tni_kv_load(TN_DT_I8, row, TN_DT_F32, z, 4, 300);
  for (int i = 0; i < 300; i++) CU_ASSERT(fabsf(z[4 * i] - y[i]) <= 0x1p-22f * fabsf(y[i]));
}

/* int8 caches: near the others, the same bits whoever computes, and on a device that does not know them f32. */
static void test_int8(void) {
  static const struct {
    const char *profile;
    uint32_t dtype;
  } cases[] = {
      {"plugins: [host]\nkv: int8\n", TN_DT_I8},
      {"plugins: [{name: mirror-a, options: {layout: int8}}, host]\n", TN_DT_I8},
      {"plugins: [{name: mirror-a, options: {layout: int8-rows, every: 2}}, host]\n", TN_DT_I8},
      {"plugins: [{name: mirror-a, options: {layout: int8, ring: true}}, host]\nkv: int8\n", TN_DT_I8},
      {"plugins: [{name: mirror-a, options: {layout: f32}}, host]\nkv: int8\n", TN_DT_F32},
      {"plugins: [{name: mirror-a, options: {layout: host}}, host]\nkv: int8\n", TN_DT_F32},
  };
  float *exact = walk_logits("plugins: [host]\n", 20, 33, walk_cuts[0], NULL), *first = NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(exact);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    walk w;
    float *got = malloc(LONG * VOCAB * sizeof *got);
    CU_ASSERT_FATAL(got && walk_begin(&w, cases[i].profile, 20, 33) && walk_keep(&w, w.r.s, CAPACITY, STEP));
    CU_ASSERT(walk_steps(&w, w.r.s, walk_cuts[0], LONG, got));
    for (uint32_t k = 0; k < 2 * LAYERS; k++) CU_ASSERT_EQUAL(w.r.s->states[k].t.dtype, cases[i].dtype);
    const bool told = strstr(w.r.log, "the profile wants caches of int8") != NULL;
    CU_ASSERT_EQUAL(told, cases[i].dtype != TN_DT_I8);
    if (cases[i].dtype == TN_DT_F32) CU_ASSERT(walk_same(exact, got));
    if (cases[i].dtype == TN_DT_I8 && first) CU_ASSERT(walk_same(first, got));
    rig_finish(&w.r);
    if (first) {
      free(got);
      continue;
    }
    first = got;
    /* Each element is off by 1/254 of its row's largest; two layers make little more of it. */
    CU_ASSERT(walk_distance(first, exact) > 0 && walk_distance(first, exact) < 8.0 / 254);
  }
  free(first);
  free(exact);
}

/* The format reference reads rings and quantized rows as they lie. */
static void test_reference(void) {
  static const char *const profiles[] = {
      "plugins: [{name: mirror-a, options: {layout: f32, ring: true}}, host]\n",
      "plugins: [{name: mirror-a, options: {layout: int8-rows, ring: true, every: 2}}, host]\n"};
  for (size_t i = 0; i < 2; i++) {
    walk w;
    float *want = walk_logits(profiles[i], 20, 33, walk_cuts[0], NULL), *got = malloc(LONG * VOCAB * sizeof *got);
    CU_ASSERT_FATAL(want && got);
    memset(&w, 0, sizeof w);
    CU_ASSERT_EQUAL_FATAL(rig_init(&w.r, profiles[i]), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&w.r, walk_model(20, 33), TN_MODEL_REFERENCE), TN_OK);
    w.logits.h = (tn_hdr){sizeof w.logits, 1, 0};
    w.in[0] = &w.ids;
    w.out[0] = &w.logits;
    CU_ASSERT(walk_keep(&w, w.r.s, CAPACITY, STEP) && walk_steps(&w, w.r.s, walk_cuts[0], LONG, got));
    /* Products are summed in double there: a code may be the next one. */
    CU_ASSERT(walk_distance(got, want) < (i ? 4.0 / 254 : 1e-5));
    rig_finish(&w.r);
    free(want);
    free(got);
  }
}

/* Task by task within bounds that know what a cache is kept as: half a step of a half, or of a row's codes. */
static void test_capture(void) {
  static const char *const layouts[] = {"layout: f32, ring: true", "layout: f16", "layout: int8",
                                        "layout: int8-rows, ring: true"};
  float *got = malloc(LONG * VOCAB * sizeof *got);
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    walk w;
    char profile[128], *json = NULL;
    snprintf(profile, sizeof profile, "plugins: [{name: mirror-a, options: {%s}}, host]\n", layouts[i]);
    memset(&w, 0, sizeof w);
    CU_ASSERT_EQUAL_FATAL(rig_init(&w.r, profile), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&w.r, walk_model(20, 33), TN_MODEL_CAPTURE), TN_OK);
    w.logits.h = (tn_hdr){sizeof w.logits, 1, 0};
    w.in[0] = &w.ids;
    w.out[0] = &w.logits;
    CU_ASSERT(walk_keep(&w, w.r.s, CAPACITY, STEP) && walk_steps(&w, w.r.s, walk_cuts[0], LONG, got));
    CU_ASSERT_EQUAL_FATAL(tn_session_capture_report(w.r.s, &json, &w.r.err), TN_OK);
    const double worst = json_number(json, "worst_ratio");
    if (!(worst > 0 && worst <= 1)) printf("\n    %s: %g\n", layouts[i], worst);
    CU_ASSERT(worst > 0 && worst <= 1);
    tn_free(json);
    rig_finish(&w.r);
  }
  free(got);
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("rings and quantized caches", NULL, NULL);
  CU_add_test(s, "the bits of caches that hold everything", test_bits);
  CU_add_test(s, "devices that know rings, and that do not", test_devices);
  CU_add_test(s, "caches that are too large for a device", test_largest_buffer);
  CU_add_test(s, "truncate", test_truncate);
  CU_add_test(s, "a cancelled step", test_cancel);
  CU_add_test(s, "verbs of fresh sessions", test_fresh);
  CU_add_test(s, "steps of two devices, cancelled at any moment", test_cancel_anywhere);
  CU_add_test(s, "a prompt of several pieces that fails", test_failed_pieces);
  CU_add_test(s, "a prompt of several pieces whose device is lost", test_lost_pieces);
  CU_add_test(s, "share", test_share);
  CU_add_test(s, "saved to a file", test_saved);
  CU_add_test(s, "slots", test_slots);
  CU_add_test(s, "the memory statement", test_statement);
  CU_add_test(s, "plain runs", test_plain);
  CU_add_test(s, "quantized rows", test_rows);
  CU_add_test(s, "int8 caches", test_int8);
  CU_add_test(s, "the format reference", test_reference);
  CU_add_test(s, "capture", test_capture);
  if (add_few_bits() != CUE_SUCCESS) return 1;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
