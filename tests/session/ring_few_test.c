/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches of few bits (`kv: int4`), on the decoder of ring_test.c with heads of 16 elements: rows do not depend on each
 * other, so steps give the same bits however they are cut, on rings, after truncating, sharing, a file and in slots.
 * Who else reads a cache, and heads that are no whole units, keep float32.
 */
#include <math.h>

#include "ring_kit.h"
#include "runtime/graph/kept_dtype.h"
#include "runtime/memory/run.h"

#define FEW "kv: int4\n"
#define MIRROR(options) "plugins: [{name: mirror-a, options: {" options "}}, host]\n"
enum { WIDE = 16, KEY_BYTES = 12, VALUE_BYTES = 10 };

static void few_size(void) { walk_size = WIDE; }
static void few(void) {
  walk_size = WIDE;
  walk_more = FEW;
}
static void as_before(void) {
  walk_size = SIZE;
  walk_more = "";
}

/* What others test on float32, on rings of few bits. */
static void few_rings(void (*test)(void)) {
  few();
  test();
  as_before();
}
static void few_truncate(void) { few_rings(test_truncate); }
static void few_cancel(void) { few_rings(test_cancel); }
static void few_share(void) { few_rings(test_share); }
static void few_plain(void) { few_rings(test_plain); }
static void few_saved(void) { few_rings(test_saved); }
static void few_slots(void) { few_rings(test_slots); }

static void test_cuts(void) {
  static const int64_t windows[][2] = {{20, 33}, {20, -1}, {-1, -1}, {300, 20}};
  few();
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
    float *want = walk_logits(HOST ALL, windows[i][0], windows[i][1], walk_cuts[0], NULL);
    for (size_t c = 0; c < sizeof walk_cuts / sizeof *walk_cuts; c++) {
      float *got = walk_logits(HOST, windows[i][0], windows[i][1], walk_cuts[c], NULL);
      CU_ASSERT(walk_same(want, got));
      free(got);
    }
    free(want);
  }
  as_before();
}

/* One profile: what keys and values are kept as, and whether it is told that the wish is not met. exact: f32's logits.
 */
static void one_kind(const char *profile, const uint32_t dtypes[2], const float *exact) {
  walk w;
  float *got = malloc(LONG * VOCAB * sizeof *got);
  CU_ASSERT_FATAL(got && walk_begin(&w, profile, 20, 33) && walk_keep(&w, w.r.s, CAPACITY, STEP));
  CU_ASSERT(walk_steps(&w, w.r.s, walk_cuts[0], LONG, got));
  for (uint32_t k = 0; k < 2 * LAYERS; k++) CU_ASSERT_EQUAL(w.r.s->states[k].t.dtype, dtypes[k % 2]);
  const bool told = strstr(w.r.log, "the profile wants caches of int4") != NULL, kept = dtypes[0] == TNI_DT_KEYS;
  CU_ASSERT_EQUAL(told, !kept);
  const double far = walk_distance(got, exact);
  /* an element is off by half of 1/15 of its row's range; two layers make little more of it */
  if (!(kept ? far > 0 && far < 4.0 / 15 : far == 0)) printf("\n    %s: %g\n", profile, far);
  CU_ASSERT(kept ? far > 0 && far < 4.0 / 15 : far == 0);
  rig_finish(&w.r);
  free(got);
}

static void test_kinds(void) {
  static const uint32_t few_bits[2] = {TNI_DT_KEYS, TNI_DT_VALUES}, floats[2] = {TN_DT_F32, TN_DT_F32};
  few_size();
  float *exact = walk_logits(HOST, 20, 33, walk_cuts[0], NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL(exact);
  one_kind(HOST FEW, few_bits, exact);
  one_kind(MIRROR("layout: f32") FEW, floats, exact);
  one_kind(MIRROR("layout: host") FEW, floats, exact);
  free(exact);
  walk_size = SIZE; /* half a unit */
  exact = walk_logits(HOST, 20, 33, walk_cuts[0], NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL(exact);
  one_kind(HOST FEW, floats, exact);
  free(exact);
  as_before();
}

/* The statement counts what a session makes. */
static void test_bytes(void) {
  walk w;
  char *json = NULL;
  uint64_t made = 0;
  few();
  CU_ASSERT_FATAL(walk_begin(&w, HOST "max_seq: 4096\nprefill_chunk: 100\n", 80, 80));
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}};
  CU_ASSERT_EQUAL_FATAL(tn_session_keep(w.r.s, &o, &w.r.err), TN_OK);
  for (uint32_t k = 0; k < 2 * LAYERS; k++) {
    const tni_sstate *c = &w.r.s->states[k];
    CU_ASSERT_EQUAL(c->rows.row_bytes, k % 2 ? VALUE_BYTES : KEY_BYTES);
    made += c->t.bytes;
  }
  CU_ASSERT_EQUAL(made, LAYERS * KV * 192 * (KEY_BYTES + VALUE_BYTES));
  CU_ASSERT_EQUAL_FATAL(tn_model_report(w.r.m, TN_REPORT_INSPECT, &json, NULL), TN_OK);
  CU_ASSERT_EQUAL(json_number(json, "kv_bytes"), (double)made);
  CU_ASSERT(strstr(json, "\"int4 keys [0 2 1 3] ring\"") && strstr(json, "\"int4 values [0 2 1 3] ring\""));
  tn_free(json);
  rig_finish(&w.r);
  as_before();
}

CU_ErrorCode add_few_bits(void) {
  CU_pSuite s = CU_add_suite("caches of few bits", NULL, NULL);
  CU_add_test(s, "the same bits however steps are cut", test_cuts);
  CU_add_test(s, "who keeps them, and who does not", test_kinds);
  CU_add_test(s, "the memory statement", test_bytes);
  CU_add_test(s, "truncate", few_truncate);
  CU_add_test(s, "a cancelled step", few_cancel);
  CU_add_test(s, "share", few_share);
  CU_add_test(s, "plain runs", few_plain);
  CU_add_test(s, "saved to a file", few_saved);
  CU_add_test(s, "slots", few_slots);
  return CU_get_error();
}
