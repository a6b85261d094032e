/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/stop.h"
#include "tests/llm/llm_test.h"

typedef struct row {
  const char *stops[3];
  const char *text, *want;
  bool hit;
} row;

static const row table[] = {
    {{"END"}, "one END two", "one ", true},
    {{"END"}, "EN EN EN", "EN EN EN", false},
    {{"END"}, "ENEND", "EN", true},
    {{"aab"}, "aaaaab", "aaa", true},
    {{"\n\n", "User:"}, "a\nb\nUser: x", "a\nb\n", true},
    {{"abcd", "bc"}, "xabcd", "xa", true}, /* bc is complete first */
    {{"cd", "bcd"}, "abcd", "a", true},    /* both end here: the longer */
    {{"x"}, "", "", false},
    {{"\xc3\xa9"}, "caf\xc3\xa9!", "caf", true},
    {{"a"}, "a", "", true},
};

/* However the text is cut, the same comes out, and never more than is sure. */
static void run(const row *r, size_t chunk) {
  size_t n_stops = 0, n = strlen(r->text), got = 0;
  while (n_stops < 3 && r->stops[n_stops]) n_stops++;
  char buf[256] = "";
  tni_stop *s = NULL;
  const char *out;
  size_t len;
  bool hit = false;
  CU_ASSERT_EQUAL_FATAL(tni_stop_create(r->stops, n_stops, &s, NULL), TN_OK);
  for (size_t i = 0; i < n; i += chunk) {
    CU_ASSERT_EQUAL(tni_stop_push(s, r->text + i, n - i < chunk ? n - i : chunk, &out, &len, &hit, NULL), TN_OK);
    memcpy(buf + got, out, len);
    got += len;
    CU_ASSERT(got <= strlen(r->want) && memcmp(buf, r->want, got) == 0);
  }
  tni_stop_finish(s, &out, &len);
  memcpy(buf + got, out, len);
  CU_ASSERT_EQUAL(hit, r->hit);
  if (strcmp(buf, r->want) != 0) printf("\n  %s by %zu: %s, expected %s", r->text, chunk, buf, r->want);
  CU_ASSERT_STRING_EQUAL(buf, r->want);
  tni_stop_destroy(s);
}

static void test_table(void) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    run(&table[i], 1);
    run(&table[i], 2);
    if (i != 5) run(&table[i], 3);
  }
}

static void test_hold(void) {
  tni_stop *s = NULL;
  const char *out;
  size_t len;
  bool hit;
  CU_ASSERT_EQUAL_FATAL(tni_stop_create((const char *[]){"STOP"}, 1, &s, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_stop_push(s, "a ST", 4, &out, &len, &hit, NULL), TN_OK);
  CU_ASSERT(len == 2 && memcmp(out, "a ", 2) == 0 && !hit);
  CU_ASSERT_EQUAL(tni_stop_push(s, "Oa", 2, &out, &len, &hit, NULL), TN_OK);
  CU_ASSERT(len == 4 && memcmp(out, "STOa", 4) == 0 && !hit);
  CU_ASSERT_EQUAL(tni_stop_push(s, "STO", 3, &out, &len, &hit, NULL), TN_OK);
  CU_ASSERT(len == 0 && !hit);
  CU_ASSERT_EQUAL(tni_stop_push(s, "P more", 6, &out, &len, &hit, NULL), TN_OK);
  CU_ASSERT(len == 0 && hit);
  CU_ASSERT_EQUAL(tni_stop_push(s, "again", 5, &out, &len, &hit, NULL), TN_OK);
  CU_ASSERT(len == 0 && hit);
  tni_stop_destroy(s);
}

static void test_bad(void) {
  tni_stop *s = NULL;
  tn_error err;
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_stop_create((const char *[]){"a", ""}, 2, &s, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "stop[1]"));
  CU_ASSERT_EQUAL(tni_stop_create((const char *[]){NULL}, 1, &s, NULL), TN_E_INVALID);
  static const char *many[257];
  CU_ASSERT_EQUAL(tni_stop_create(many, 257, &s, NULL), TN_E_INVALID);
  CU_ASSERT_PTR_NULL(s);
}

void add_stop_suite(void) {
  CU_pSuite s = CU_add_suite("stop strings", NULL, NULL);
  CU_add_test(s, "texts in pieces", test_table);
  CU_add_test(s, "what may begin a stop string waits", test_hold);
  CU_add_test(s, "bad strings", test_bad);
}
