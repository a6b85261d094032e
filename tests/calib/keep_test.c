/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "calib_test.h"

enum { K = 4, ROWS = 96, STEP = 8, STEPS = ROWS / STEP, HEAD = 184 };

static const char *const nodes = "MatMul x wa y;Gemm y wc u;MatMul x2 wb z";
static const tni_calib_place here = {.model = "0123456789abcdef0123456789abcdef",
                                     .text = "11111111111111111111111111111111",
                                     .options = "22222222222222222222222222222222"};
static char path[64];

static int make_path(void) {
  snprintf(path, sizeof path, "/tmp/tenon-keep-%ld", (long)getpid());
  return 0;
}

static int drop_path(void) {
  (void)unlink(path);
  return 0;
}

/* Two of three activations, values whose sums depend on their order; the third never runs. */
static void feed_step(const tni_graph *g, tni_recorder *r, int step) {
  static const char *const names[] = {"x", "y"};
  float values[STEP * K];
  for (int n = 0; n < 2; n++) {
    for (int i = 0; i < STEP * K; i++)
      values[i] = sinf((float)(step * STEP * K + i) * 1.7f + (float)n) * powf(10, (float)((i * 7 + step) % 13) - 6);
    const tni_tensor t = {.dtype = TN_DT_F32, .rank = 2, .dims = {STEP, K}, .data = values, .bytes = sizeof values};
    CU_ASSERT_EQUAL(tni_recorder_add(r, tni_graph_find(g, names[n]), &t, NULL), TN_OK);
  }
}

static tni_recorder *make_recorder(const tni_graph *g) {
  tni_recorder *r = NULL;
  CU_ASSERT_EQUAL_FATAL(tni_recorder_create(g, &r, NULL), TN_OK);
  return r;
}

/* Steps [from, to) of both passes, counted through. */
static void feed_steps(const tni_graph *g, tni_recorder *r, int from, int to) {
  for (int i = from; i < to; i++) {
    if (i == STEPS) CU_ASSERT_EQUAL(tni_recorder_next(r, NULL), TN_OK);
    feed_step(g, r, i % STEPS);
  }
}

static int equal_entries(const tni_calib_entry *a, const tni_calib_entry *b) {
  return !strcmp(a->name, b->name) && a->stats.rows == b->stats.rows && a->stats.absmax == b->stats.absmax &&
         a->stats.p999 == b->stats.p999 && !memcmp(a->stats.ch_mean, b->stats.ch_mean, K * sizeof(float)) &&
         !memcmp(a->stats.ch_weight, b->stats.ch_weight, K * sizeof(float)) &&
         !memcmp(a->stats.ch_over, b->stats.ch_over, K * sizeof(float));
}

/* Stopped after each step of both passes, the result is the same to the bit, and so is the file itself. */
static void test_every_place(void) {
  tni_graph *g = graph_of(nodes);
  tni_arena *arena = tni_arena_create();
  tni_recorder *whole = make_recorder(g);
  const tni_calib_entry *want, *got;
  uint32_t n = 0, m = 0;
  feed_steps(g, whole, 0, 2 * STEPS);
  CU_ASSERT_EQUAL_FATAL(tni_recorder_result(whole, arena, &want, &n, NULL), TN_OK);
  CU_ASSERT_EQUAL(n, 2);
  for (int stop = 0; stop <= 2 * STEPS; stop++) {
    tni_recorder *a = make_recorder(g), *b = make_recorder(g);
    tni_calib_place at = here;
    tn_error err = {0};
    uint32_t pass = 0;
    feed_steps(g, a, 0, stop);
    at.done = (uint64_t)stop + 100;
    CU_ASSERT_EQUAL_FATAL(tni_recorder_keep(a, &at, path, &err), TN_OK);
    tni_recorder_destroy(a);
    at = here;
    CU_ASSERT_EQUAL_FATAL(tni_recorder_resume(b, &at, path, &pass, &err), TN_OK);
    CU_ASSERT_EQUAL(pass, stop > STEPS ? 2 : 1);
    CU_ASSERT_EQUAL(at.done, (uint64_t)stop + 100);
    feed_steps(g, b, stop, 2 * STEPS);
    CU_ASSERT_EQUAL_FATAL(tni_recorder_result(b, arena, &got, &m, NULL), TN_OK);
    CU_ASSERT_EQUAL_FATAL(m, n);
    for (uint32_t i = 0; i < n; i++) CU_ASSERT(equal_entries(&want[i], &got[i]));
    CU_ASSERT_EQUAL(tni_recorder_resume(b, &at, path, &pass, &err), TN_E_INVALID);
    CU_ASSERT(says(&err, "comes before the first run"));
    tni_recorder_destroy(b);
  }
  tni_recorder_destroy(whole);
  tni_arena_destroy(arena);
  tni_graph_destroy(g);
}

static char *read_kept(size_t *n) {
  static char bytes[1 << 20];
  FILE *f = fopen(path, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  *n = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  return bytes;
}

static void write_kept(const char *p, size_t n) {
  FILE *f = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  CU_ASSERT_EQUAL(fwrite(p, 1, n, f), n);
  fclose(f);
}

/* TN_OK or not, and then the recorder is as fresh as it was. */
static tn_status resume_status(const tni_graph *g, const tni_calib_place *of, tn_error *err) {
  tni_recorder *r = make_recorder(g);
  tni_calib_place at = *of;
  uint32_t pass = 7;
  *err = (tn_error){0};
  at.done = 9;
  const tn_status st = tni_recorder_resume(r, &at, path, &pass, err);
  if (st != TN_OK) {
    CU_ASSERT(pass == 7 && at.done == 9);
    CU_ASSERT_EQUAL(tni_recorder_resume(r, &at, path, &pass, NULL), st);
  }
  tni_recorder_destroy(r);
  return st;
}

static void keep_after(const tni_graph *g, int steps) {
  tni_recorder *r = make_recorder(g);
  feed_steps(g, r, 0, steps);
  CU_ASSERT_EQUAL_FATAL(tni_recorder_keep(r, &here, path, NULL), TN_OK);
  tni_recorder_destroy(r);
}

static void set_sums(char *p, size_t n) {
  const uint64_t body = XXH3_64bits(p + HEAD, n - HEAD), bytes = n - HEAD;
  memcpy(p + HEAD - 24, &bytes, 8);
  memcpy(p + HEAD - 16, &body, 8);
  const uint64_t head = XXH3_64bits(p, HEAD - 8);
  memcpy(p + HEAD - 8, &head, 8);
}

/* Every length and every byte, in both passes; then with checksums that are right, where what it says may be taken but
 * nothing may be read or written outside. */
static void test_damaged(void) {
  tni_graph *g = graph_of(nodes);
  static char good[1 << 16];
  tn_error err;
  for (int steps = 1; steps < 2 * STEPS; steps += STEPS) {
    size_t n;
    keep_after(g, steps);
    const char *kept = read_kept(&n);
    CU_ASSERT_FATAL(n > HEAD && n < sizeof good);
    memcpy(good, kept, n);
    for (size_t i = 0; i < n; i++) {
      write_kept(good, i);
      CU_ASSERT_EQUAL(resume_status(g, &here, &err), TN_E_CORRUPT);
      CU_ASSERT(strstr(err.message, path) != NULL);
      good[i] ^= (char)(1 << i % 8);
      write_kept(good, n);
      CU_ASSERT_EQUAL(resume_status(g, &here, &err), TN_E_CORRUPT);
      set_sums(good, n);
      write_kept(good, n);
      (void)resume_status(g, &here, &err);
      good[i] ^= (char)(1 << i % 8);
      set_sums(good, n);
      if (i % 8) continue;
      char cut[sizeof good];
      memcpy(cut, good, n);
      if (i >= HEAD) set_sums(cut, i);
      write_kept(cut, i);
      CU_ASSERT_EQUAL(resume_status(g, &here, &err), TN_E_CORRUPT);
    }
    good[n] = 0;
    set_sums(good, n + 8);
    write_kept(good, n + 8);
    CU_ASSERT_EQUAL(resume_status(g, &here, &err), TN_E_CORRUPT);
    set_sums(good, n);
    write_kept(good, n);
    CU_ASSERT_EQUAL(resume_status(g, &here, &err), TN_OK);
  }
  CU_ASSERT_EQUAL(truncate(path, (off_t)1 << 40), 0); /* is not read into memory */
  CU_ASSERT_EQUAL(resume_status(g, &here, &err), TN_E_CORRUPT);
  tni_graph_destroy(g);
}

static void test_of_another(void) {
  tni_graph *g = graph_of(nodes), *other = graph_of("MatMul x wa y;Gemm y wc u");
  tni_calib_place model = here, text = here, options = here;
  tn_error err;
  model.model[3] = text.text[3] = options.options[3] = 'x';
  CU_ASSERT_EQUAL(resume_status(g, &here, &err), TN_E_UNAVAILABLE);
  keep_after(g, 5);
  CU_ASSERT_EQUAL(resume_status(g, &model, &err), TN_E_INVALID);
  CU_ASSERT(says(&err, "is of another model") && says(&err, path));
  CU_ASSERT_EQUAL(resume_status(g, &text, &err), TN_E_INVALID);
  CU_ASSERT(says(&err, "is of another text"));
  CU_ASSERT_EQUAL(resume_status(g, &options, &err), TN_E_INVALID);
  CU_ASSERT(says(&err, "is of this text with other options"));
  tni_recorder *r = make_recorder(other);
  uint32_t pass;
  CU_ASSERT_EQUAL(tni_recorder_resume(r, &model, path, &pass, NULL), TN_E_INVALID);
  model = here;
  err = (tn_error){0};
  CU_ASSERT_EQUAL(tni_recorder_resume(r, &model, path, &pass, &err), TN_E_INVALID);
  CU_ASSERT(says(&err, "is of this model with other passes"));
  tni_recorder_destroy(r);
  tni_graph_destroy(other);
  tni_graph_destroy(g);
}

/* A name that cannot be written to, and what a killed process left. */
static void test_writing(void) {
  tni_graph *g = graph_of(nodes);
  tni_recorder *r = make_recorder(g);
  tn_error err = {0};
  char tmp[80];
  struct stat info;
  CU_ASSERT_EQUAL(tni_recorder_keep(r, &here, "/nowhere/at/all", &err), TN_E_IO);
  CU_ASSERT(says(&err, "cannot write '/nowhere/at/all': No such file or directory"));
  snprintf(tmp, sizeof tmp, "%s.tmp", path);
  CU_ASSERT_EQUAL(symlink("/nowhere/at/all", tmp), 0);
  CU_ASSERT_EQUAL(tni_recorder_keep(r, &here, path, NULL), TN_OK);
  CU_ASSERT(lstat(tmp, &info) != 0);
  CU_ASSERT_EQUAL(resume_status(g, &here, &err), TN_OK);
  (void)unlink(path);
  CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
  err = (tn_error){0};
  CU_ASSERT_EQUAL(tni_recorder_keep(r, &here, path, &err), TN_E_IO);
  CU_ASSERT(says(&err, path));
  CU_ASSERT(lstat(tmp, &info) != 0);
  CU_ASSERT_EQUAL(resume_status(g, &here, &err), TN_E_INVALID);
  CU_ASSERT_EQUAL(rmdir(path), 0);
  tni_recorder_destroy(r);
  tni_graph_destroy(g);
}

void suite_keep(void) {
  CU_pSuite s = CU_add_suite("keep", make_path, drop_path);
  CU_add_test(s, "of something else", test_of_another);
  CU_add_test(s, "stopped at every place", test_every_place);
  CU_add_test(s, "damaged", test_damaged);
  CU_add_test(s, "where it cannot be written", test_writing);
}
