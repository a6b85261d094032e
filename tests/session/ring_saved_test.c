/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings that go through a file, and rings of several slots.
 */
#include "ring_kit.h"

/* The same through a file, and into a model whose rings are none. */
void test_saved(void) {
  walk w, v;
  static const int64_t most[] = {STEP, 4, 90};
  char path[128];
  void *note = NULL;
  uint64_t bytes = 0;
  float *want = walk_logits(HOST ALL, 20, 33, walk_cuts[2], NULL), *got = calloc(LONG * VOCAB, sizeof *got);
  CU_ASSERT_FATAL(want && got && walk_begin(&w, HOST, 20, 33) && walk_keep(&w, w.r.s, CAPACITY, STEP));
  CU_ASSERT(walk_steps(&w, w.r.s, walk_cuts[0], 190, got));
  snprintf(path, sizeof path, "%s/state", w.r.dir);
  CU_ASSERT_EQUAL_FATAL(tn_session_save(w.r.s, path, "note", 4, &w.r.err), TN_OK);
  for (size_t i = 0; i < 3; i++) {
    tn_session *other = NULL;
    CU_ASSERT_EQUAL_FATAL(tn_session_create(w.r.m, &other, &w.r.err), TN_OK);
    CU_ASSERT_EQUAL(tn_session_load(other, path, &note, &bytes, &w.r.err), TN_E_INVALID); /* it keeps nothing yet */
    CU_ASSERT(walk_keep(&w, other, CAPACITY, most[i]));
    CU_ASSERT_EQUAL_FATAL(tn_session_load(other, path, &note, &bytes, &w.r.err), TN_OK);
    CU_ASSERT(bytes == 4 && memcmp(note, "note", 4) == 0);
    tn_free(note);
    CU_ASSERT_EQUAL(tn_session_length(other), 190);
    CU_ASSERT_EQUAL(tn_session_truncate(other, 120, &w.r.err), TN_E_LIMIT);
    CU_ASSERT(walk_steps(&w, other, walk_cuts[1], LONG, got) && walk_same(want, got));
    tn_session_destroy(other);
    CU_ASSERT_EQUAL_FATAL(tn_session_create(w.r.m, &other, &w.r.err), TN_OK);
    CU_ASSERT(walk_keep(&w, other, 189, most[i]));
    CU_ASSERT_EQUAL(tn_session_load(other, path, &note, &bytes, &w.r.err), TN_E_LIMIT);
    tn_session_destroy(other);
  }
  CU_ASSERT_FATAL(walk_begin(&v, HOST ALL, 20, 33) && walk_keep(&v, v.r.s, CAPACITY, STEP));
  CU_ASSERT_EQUAL(tn_session_load(v.r.s, path, &note, &bytes, &v.r.err), TN_E_INVALID);
  rig_finish(&v.r);
  CU_ASSERT_FATAL(walk_begin(&v, HOST, 20, 32) && walk_keep(&v, v.r.s, CAPACITY, STEP)); /* another window */
  CU_ASSERT_EQUAL(tn_session_load(v.r.s, path, &note, &bytes, &v.r.err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(v.r.err.message, "another model"));
  rig_finish(&v.r);
  rig_finish(&w.r);
  free(want);
  free(got);
}

/* Slots over rings: three of lengths of their own, side by side. */
void test_slots(void) {
  walk w;
  static const int64_t starts[3] = {90, 7, 31};
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .batch = 4, .capacity = CAPACITY, .max_step = STEP, .flags = TN_KEEP_SLOTS};
  float *want = walk_logits(HOST ALL, 20, 33, walk_cuts[1], NULL);
  CU_ASSERT_FATAL(want && walk_begin(&w, HOST, 20, 33));
  CU_ASSERT_TRUE(tn_model_has_slots(w.r.m));
  CU_ASSERT_EQUAL_FATAL(tn_session_keep(w.r.s, &o, &w.r.err), TN_OK);
  for (int b = 0; b < 3; b++)
    for (int64_t at = 0; at < starts[b]; at += w.ids.dims[1]) {
      const int64_t n = starts[b] - at < STEP ? starts[b] - at : STEP;
      for (int64_t i = 0; i < n; i++) w.id[i] = (at + i) * (at + i + 5) % VOCAB;
      w.ids = i64_tensor("input_ids", w.id, 2, 1, n);
      CU_ASSERT_EQUAL_FATAL(tn_session_step_slots(w.r.s, (uint32_t)b, 1, w.in, w.out, 0, &w.r.err), TN_OK);
    }
  for (int64_t k = 0; starts[0] + k < LONG; k++) {
    for (int b = 0; b < 3; b++) w.id[b] = (starts[b] + k) * (starts[b] + k + 5) % VOCAB;
    w.ids = i64_tensor("input_ids", w.id, 2, 3, 1);
    CU_ASSERT_EQUAL_FATAL(tn_session_step_slots(w.r.s, 0, 3, w.in, w.out, 1, &w.r.err), TN_OK);
    const float *got = w.logits.data;
    bool equal = true;
    for (int b = 0; b < 3; b++)
      equal = equal && memcmp(got + b * VOCAB, want + (starts[b] + k) * VOCAB, VOCAB * sizeof *got) == 0;
    if (!equal) printf("\n  %lld steps", (long long)k);
    CU_ASSERT_FATAL(equal);
    if (k == 20) { /* by way of another place */
      CU_ASSERT_EQUAL(tn_session_slot_copy(w.r.s, 3, 0, starts[0] + k + 1, &w.r.err), TN_OK);
      CU_ASSERT_EQUAL(tn_session_slot_truncate(w.r.s, 0, 0, &w.r.err), TN_OK);
      CU_ASSERT_EQUAL(tn_session_slot_copy(w.r.s, 0, 3, starts[0] + k + 1, &w.r.err), TN_OK);
    }
  }
  CU_ASSERT_EQUAL(tn_session_slot_truncate(w.r.s, 0, 3, &w.r.err), TN_E_LIMIT);
  CU_ASSERT_EQUAL(tn_session_step(w.r.s, TN_PHASE_DECODE, w.in, w.out, 1, &w.r.err), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_session_step_slots(w.r.s, 3, 2, w.in, w.out, 1, &w.r.err), TN_E_INVALID);
  rig_finish(&w.r);
  free(want);
}
