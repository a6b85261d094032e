/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_test.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"

static void test_first_failure_wins(void) {
  tn_error e;
  tni_error_init(&e);
  CU_ASSERT_EQUAL(e.h.size, sizeof e);
  CU_ASSERT_EQUAL(e.code, TN_OK);
  CU_ASSERT_EQUAL(e.node, TN_NONE);
  CU_ASSERT_EQUAL(tni_fail(&e, TN_E_INVALID, "a.onnx", "first %d", 1), TN_E_INVALID);
  CU_ASSERT_EQUAL(tni_fail(&e, TN_E_IO, "b.onnx", "second"), TN_E_IO);
  CU_ASSERT_EQUAL(tni_fail_memory(&e, "c"), TN_E_NO_MEMORY);
  CU_ASSERT_EQUAL(e.code, TN_E_INVALID);
  CU_ASSERT_STRING_EQUAL(e.message, "first 1");
  CU_ASSERT_STRING_EQUAL(e.where, "a.onnx");
  /* No error, and one that nobody initialised but zeroed. */
  CU_ASSERT_EQUAL(tni_fail(NULL, TN_E_LIMIT, "x", "y"), TN_E_LIMIT);
  tni_error_init(NULL);
  tni_error_prefix(NULL, "x");
  tn_error zero = {0};
  CU_ASSERT_EQUAL(tni_fail(&zero, TN_E_LIMIT, NULL, "y"), TN_E_LIMIT);
  CU_ASSERT_EQUAL(zero.h.size, sizeof zero);
  CU_ASSERT_EQUAL(zero.task, TN_NONE);
  CU_ASSERT_STRING_EQUAL(zero.where, "");
}

static void test_prefix(void) {
  tn_error e;
  tni_error_init(&e);
  tni_error_prefix(&e, "nothing");
  CU_ASSERT_STRING_EQUAL(e.message, "");
  tni_fail(&e, TN_E_IO, NULL, "no disk");
  tni_error_prefix(&e, "file '%s'", "x");
  tni_error_prefix(&e, "model");
  CU_ASSERT_STRING_EQUAL(e.message, "model: file 'x': no disk");
}

/* Whatever the lengths: all of it where it fits; else what fits, no letter cut in two, and "…"; nothing behind it
 * touched. */
static void test_truncation(void) {
  static const char letter[] = "\xc3\xa9", more[] = "\xe2\x80\xa6";
  for (size_t n_old = 0; n_old < 300; n_old += 7) {
    for (size_t n_pre = 1; n_pre < 300; n_pre += 13) {
      tn_error e;
      char old[700] = "", whole[1400];
      tni_error_init(&e);
      for (size_t i = 0; i < n_old; i++) strcat(old, letter);
      tni_fail(&e, TN_E_IO, "where", "%s", old);
      tni_error_prefix(&e, "%0*d", (int)n_pre, 7);
      const size_t n = strnlen(e.message, sizeof e.message);
      snprintf(whole, sizeof whole, "%0*d: %s", (int)n_pre, 7, old);
      CU_ASSERT_STRING_EQUAL(e.where, "where");
      if (strcmp(e.message, whole) == 0) continue;
      CU_ASSERT_FATAL(n > 250 && n < sizeof e.message && strcmp(e.message + n - 3, more) == 0);
      const char before = e.message[n - 4]; /* a whole letter, or one of the prefix */
      CU_ASSERT(before == letter[1] || (before & 0x80) == 0);
    }
  }
}

/* A tn_long_error holds all of it, also through a copy, a prefix and an addition; a plain one as before. */
static void test_long(void) {
  char text[1001];
  memset(text, 'm', 1000);
  text[1000] = '\0';
  tn_long_error e, other;
  tni_long_error_init(&e);
  tni_long_error_init(&other);
  CU_ASSERT_EQUAL(e.error.h.size, sizeof e);
  CU_ASSERT_STRING_EQUAL(tni_error_text(&e.error), "");
  CU_ASSERT_STRING_EQUAL(tni_error_text(NULL), "");
  tni_fail(&e.error, TN_E_LIMIT, "where", "%s", text);
  CU_ASSERT_STRING_EQUAL(tni_error_text(&e.error), text);
  CU_ASSERT_STRING_EQUAL(e.error.message + strlen(e.error.message) - 3, "\xe2\x80\xa6");
  tni_error_prefix(&e.error, "file '%s'", "x");
  tni_error_append(&e.error, "; %s", "more");
  CU_ASSERT_EQUAL(strlen(tni_error_text(&e.error)), 10 + 1000 + 6);
  CU_ASSERT_NSTRING_EQUAL(tni_error_text(&e.error), "file 'x': mmm", 13);
  CU_ASSERT_EQUAL(tni_error_pass(&other.error, TN_E_LIMIT, &e.error), TN_E_LIMIT);
  CU_ASSERT_STRING_EQUAL(tni_error_text(&other.error), tni_error_text(&e.error));
  CU_ASSERT_EQUAL(other.error.h.size, sizeof other);
  tn_error plain = {0};
  tni_error_give(&plain, &e.error);
  CU_ASSERT_EQUAL(plain.h.size, sizeof plain);
  CU_ASSERT_EQUAL(plain.code, TN_E_LIMIT);
  CU_ASSERT_STRING_EQUAL(tni_error_text(&plain), plain.message);
  CU_ASSERT_STRING_EQUAL(plain.message, e.error.message);
  /* The next call says its own. */
  tni_error_begin(&e.error);
  CU_ASSERT_STRING_EQUAL(tni_error_text(&e.error), "");
  tni_fail(&e.error, TN_E_IO, NULL, "another");
  CU_ASSERT_STRING_EQUAL(tni_error_text(&e.error), "another");
  CU_ASSERT_STRING_EQUAL(e.error.where, "");
  CU_ASSERT_EQUAL(e.error.code, TN_E_IO);
}

static void test_names(void) {
  CU_ASSERT_STRING_EQUAL(tni_status_name(TN_OK), "OK");
  CU_ASSERT_STRING_EQUAL(tni_status_name(TN_E_LIMIT), "LIMIT");
  CU_ASSERT_STRING_EQUAL(tni_status_name(TN_E_DEVICE_LOST), "DEVICE_LOST");
  CU_ASSERT_STRING_EQUAL(tni_status_name(12), "INTERNAL");
  CU_ASSERT_STRING_EQUAL(tni_status_name(-1), "INTERNAL");
  CU_ASSERT_STRING_EQUAL(tni_status_name(INT32_MIN), "INTERNAL");
}

static char last_line[2048];
static uint32_t n_lines, last_level;

static void on_line(void *user, uint32_t level, const char *line) {
  (*(uint32_t *)user)++;
  last_level = level;
  snprintf(last_line, sizeof last_line, "%s", line);
}

static void test_log(void) {
  tni_log l = {on_line, &n_lines, TN_LOG_INFO};
  char text[3000];
  tni_log_line(&l, TN_LOG_DEBUG, "dropped");
  CU_ASSERT_EQUAL(n_lines, 0);
  tni_log_line(&l, TN_LOG_INFO, "%d of %s", 3, "them");
  CU_ASSERT_EQUAL(n_lines, 1);
  CU_ASSERT_STRING_EQUAL(last_line, "3 of them");
  tni_log_line(&l, TN_LOG_ERROR, "bad");
  CU_ASSERT_EQUAL(last_level, TN_LOG_ERROR);
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  tni_log_line(&l, TN_LOG_WARN, "%s", text);
  CU_ASSERT_EQUAL(strlen(last_line), 1023);
  l.fn = NULL;
  tni_log_line(&l, TN_LOG_ERROR, "nobody");
  tni_log_line(NULL, TN_LOG_ERROR, "nobody");
  CU_ASSERT_EQUAL(n_lines, 3);
}

static void test_file(void) {
  char dir[] = "/tmp/tenon-base-XXXXXX", path[64], missing[64], below[80];
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/f", dir);
  snprintf(missing, sizeof missing, "%s/none", dir);
  snprintf(below, sizeof below, "%s/f/x", dir);
  FILE *f = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fclose(f);
  tni_file m = {.bytes = 99};
  CU_ASSERT_EQUAL(tni_file_map(path, &m, NULL), TN_OK); /* empty */
  CU_ASSERT_EQUAL(m.bytes, 0);
  CU_ASSERT_PTR_NULL(m.data);
  tni_file_unmap(&m);
  f = fopen(path, "wb");
  fputs("hello", f);
  fclose(f);
  CU_ASSERT_EQUAL(tni_file_map(path, &m, NULL), TN_OK);
  CU_ASSERT_EQUAL(m.bytes, 5);
  CU_ASSERT_EQUAL(memcmp(m.data, "hello", 5), 0);
  CU_ASSERT(m.inode != 0 && m.mtime_ns != 0);
  tni_file_unmap(&m);
  CU_ASSERT_PTR_NULL(m.data);
  tni_file_unmap(&m);
  tni_file_unmap(NULL);
  const struct {
    const char *path;
    tn_status st;
  } rows[] = {{missing, TN_E_UNAVAILABLE}, {below, TN_E_UNAVAILABLE}, {dir, TN_E_INVALID}, {"/dev/null", TN_E_INVALID}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tn_error e;
    tni_error_init(&e);
    tni_file out = {.bytes = 42};
    CU_ASSERT_EQUAL(tni_file_map(rows[i].path, &out, &e), rows[i].st);
    CU_ASSERT_PTR_NOT_NULL(strstr(e.message, rows[i].path));
    CU_ASSERT_EQUAL(out.bytes, 42); /* untouched */
  }
  unlink(path);
  rmdir(dir);
}

/* A file of one byte per unit, two ranges cut out: the rest lies where it lay. */
static void test_cut(void) {
  enum { UNIT = TNI_CUT_UNIT, UNITS = 8 };
  static const struct {
    tni_cut cuts[2];
    uint32_t n;
    tn_status st;
  } rows[] = {{{{UNIT, 2 * UNIT}, {5 * UNIT, UNIT}}, 2, TN_OK},
              {{{0, 3 * UNIT}}, 1, TN_OK},
              {{{6 * UNIT, 2 * UNIT}}, 1, TN_OK},    /* behind the end of what is left */
              {{{9 * UNIT, UNIT}}, 1, TN_E_CORRUPT}, /* there is a gap before it */
              {{{UNIT + 1, UNIT}}, 1, TN_E_CORRUPT},
              {{{UNIT, UNIT - 1}}, 1, TN_E_CORRUPT},
              {{{UNIT, 0}}, 1, TN_E_CORRUPT},
              {{{3 * UNIT, UNIT}, {UNIT, UNIT}}, 2, TN_E_CORRUPT},
              {{{UNIT, 2 * UNIT}, {2 * UNIT, UNIT}}, 2, TN_E_CORRUPT},
              {{{UNIT, UINT64_MAX / UNIT * UNIT}}, 1, TN_E_CORRUPT}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char path[] = "/tmp/tenon-base-XXXXXX";
    const int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    unlink(path);
    bool gone[UNITS] = {false};
    uint64_t left = 0;
    for (uint32_t c = 0; rows[i].st == TN_OK && c < rows[i].n; c++)
      for (uint64_t u = 0; u < rows[i].cuts[c].bytes / UNIT; u++) gone[rows[i].cuts[c].at / UNIT + u] = true;
    for (uint64_t u = 0; u < UNITS; u++)
      if (!gone[u]) CU_ASSERT_EQUAL(pwrite(fd, &(char){(char)('a' + u)}, 1, (off_t)(left++ * UNIT)), 1);
    CU_ASSERT_EQUAL(ftruncate(fd, (off_t)(left * UNIT)), 0);
    tni_file f = {.bytes = 42};
    CU_ASSERT_EQUAL(tni_file_map_cut(fd, path, rows[i].cuts, rows[i].n, false, &f, NULL), rows[i].st);
    CU_ASSERT_EQUAL(f.bytes, rows[i].st ? 42 : UNITS * UNIT);
    for (uint64_t u = 0; rows[i].st == TN_OK && u < UNITS; u++)
      CU_ASSERT_EQUAL(((const char *)f.data)[u * UNIT], gone[u] ? 0 : (char)('a' + u));
    if (rows[i].st == TN_OK) tni_file_unmap(&f);
    close(fd);
  }
}

static void test_clock(void) {
  int64_t a = tni_now_ns();
  usleep(2000);
  int64_t b = tni_now_ns();
  CU_ASSERT(b - a >= 2000000 && b - a < INT64_C(60000000000));
}

void suite_error(void) {
  CU_pSuite s = CU_add_suite("base: error, log, file", NULL, NULL);
  CU_add_test(s, "first failure wins", test_first_failure_wins);
  CU_add_test(s, "prefixes", test_prefix);
  CU_add_test(s, "truncation", test_truncation);
  CU_add_test(s, "messages of any length", test_long);
  CU_add_test(s, "status names", test_names);
  CU_add_test(s, "log", test_log);
  CU_add_test(s, "file", test_file);
  CU_add_test(s, "files that ranges were cut out of", test_cut);
  CU_add_test(s, "clock", test_clock);
}
