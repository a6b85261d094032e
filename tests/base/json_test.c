/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser beside jansson's own, which is right while there is memory.
 */
#include "runtime/base/json.h"
#include "runtime/base/json_write.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base_test.h"

#undef json_loadb

enum { REJECT = JSON_REJECT_DUPLICATES, NUL = JSON_ALLOW_NUL, ANY = JSON_DECODE_ANY };

static const char *const texts[] = {
    "{}", "[]", " [ ] ", "[1,2,3]", "[-0, 0, -1, 9223372036854775807, -9223372036854775808]", "[9223372036854775808]",
    "[-9223372036854775809]", "[1e3, 1.5, -2.5E-3, 1e+2]", "[1e999]", "[1e-999]", "[01]", "[1.]", "[.5]", "[+1]", "[-]",
    "[1e]", "[0x10]", "[true, false, null]", "[tru]", "[True]", "[nul", "{\"a\":1}", "{\"a\" : [1, {\"b\": \"c\"}] }",
    "{\"a\":1,\"a\":2}", "{\"a\"}", "{\"a\":}", "{a:1}", "{\"a\":1,}", "[1,]", "[,1]", "[1 2]", "[", "{", "]", "}", "",
    " ", "1", "-1.5e3 ", "\"a\"", "\"a\" 1", "null", "nulll", "tru", " false", "1,2",
    "[1] 2", "[1]]", "[\"a", "[\"\\", "[\"\\\"]", "[\"\\\"\"]", "[\"\\n\\t\\\\\\/\\b\\f\\r\"]",
    "[\"\\x\"]", "[\"\\u00e9\\u0041\\u20ac\"]", "[\"\\ud83d\\ude00\"]", "[\"\\ud83d\"]", "[\"\\ude00\"]",
    "[\"\\ud83d\\u0041\"]", "[\"\\u12\"]", "[\"\\u12G4\"]", "[\"\\u0000\"]", "{\"\\u0000\":1}", "{\"a\\u0000\":1}",
    "[\"\xc3\xa9\"]", "[\"\xff\"]", "[\"\xed\xa0\x80\"]", "[\"\xc0\x80\"]", "[\"\xf0\x9f\x98\x80\"]", "[\"a\nb\"]",
    "[\"a\tb\"]", "[\"\x7f\"]", "\xef\xbb\xbf[]", "[1]\n\n", "/**/[]", "[1.25, 100000000000000000000000000000]",
    "{\"vocab\": {\"<s>\": 0, \"\\u2581the\": 1}, \"merges\": [\"a b\", [\"c\", \"d\"]], \"p\": 1.5e-7}"};

static void same(const char *text, size_t n, size_t flags) {
  json_error_t mine, theirs;
  json_t *a = tni_json_loadb(text, n, flags, &mine), *b = json_loadb(text, n, flags, &theirs);
  const bool ok = !a == !b && (!a || json_equal(a, b));
  if (!ok) fprintf(stderr, "flags %zx, '%.*s': %s, jansson: %s\n", flags, (int)n, text, a ? "OK" : mine.text, b ? "OK" : theirs.text);
  CU_ASSERT(ok);
  if (!a) CU_ASSERT(mine.line >= 1 && mine.text[0] && !tni_json_no_memory(&mine));
  json_decref(a);
  json_decref(b);
}

static void test_texts(void) {
  static const size_t flags[] = {0, REJECT, NUL | REJECT, ANY, ANY | NUL};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) same(texts[i], strlen(texts[i]), flags[f]);
  json_error_t e; /* what callers ask for */
  CU_ASSERT(!tni_json_loadb("[9223372036854775808]", 21, 0, &e) && json_error_code(&e) == json_error_numeric_overflow);
  CU_ASSERT(!tni_json_loadb("[1e999]", 7, 0, &e) && json_error_code(&e) == json_error_numeric_overflow);
  same("[\"a\0b\"]", 7, NUL);
  same("[1]\0", 4, 0);
}

/* Only what 64 bits do not hold is a real. */
static void test_large(void) {
  const char text[] = "[255, 9223372036854775807, 18446744073709551615, -9223372036854775809, 2.5]";
  json_t *j = tni_json_loadb(text, sizeof text - 1, TNI_JSON_LARGE_AS_REAL, NULL);
  CU_ASSERT_EQUAL_FATAL(json_array_size(j), 5);
  CU_ASSERT_EQUAL(json_integer_value(json_array_get(j, 0)), 255);
  CU_ASSERT_EQUAL(json_integer_value(json_array_get(j, 1)), INT64_MAX);
  for (size_t i = 2; i < 5; i++) CU_ASSERT(json_is_real(json_array_get(j, i)));
  CU_ASSERT_EQUAL(json_real_value(json_array_get(j, 2)), 18446744073709551616.0);
  json_decref(j);
}

static void test_damaged(void) {
  char text[256];
  uint32_t seed = 17;
  for (int i = 0; i < 40000; i++) {
    const char *from = texts[(seed = seed * 1664525 + 1013904223) >> 16 & 63];
    const size_t n = strlen(from);
    memcpy(text, from, n + 1);
    for (int k = 0; n && k < 2; k++) {
      seed = seed * 1664525 + 1013904223;
      text[(seed >> 8) % n] = "\"\\{}[]:,0e-.utn 1\xc3\xa9"[seed >> 27 & 15 ? (seed >> 20) % 19 : 0];
    }
    same(text, n, i & 1 ? REJECT : i & 2 ? ANY : 0);
  }
}

static void test_deep(void) {
  static char text[5000];
  for (size_t depth = 2047; depth <= 2049; depth++) {
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    same(text, 2 * depth, 0);
  }
}

static void test_place(void) {
  json_error_t e;
  const char text[] = "{\"a\": 1,\n \"b\": x}";
  CU_ASSERT_PTR_NULL(tni_json_loadb(text, sizeof text - 1, 0, &e));
  CU_ASSERT(e.line == 2 && e.column == 6 && e.position == 15);
  CU_ASSERT_STRING_EQUAL(e.text, "invalid token near 'x}'");
  json_t *j = tni_json_loadb("[7] trailing", 12, JSON_DISABLE_EOF_CHECK, NULL);
  CU_ASSERT_EQUAL(json_integer_value(json_array_get(j, 0)), 7);
  json_decref(j);
}

/* --- equal, by a pointer --- */

static bool are_same(const char *a, const char *b) {
  json_t *x = tni_json_loads(a, JSON_DECODE_ANY, NULL), *y = tni_json_loads(b, JSON_DECODE_ANY, NULL);
  const bool is = tni_json_same(x, y);
  CU_ASSERT_EQUAL(is, tni_json_same(y, x));
  json_decref(x);
  json_decref(y);
  return is;
}

static void test_same(void) {
  CU_ASSERT(are_same("1", "1.0") && are_same("[{\"a\": 1}, -2.0]", "[{\"a\": 1.0}, -2]"));
  CU_ASSERT(are_same("{\"a\": 1, \"b\": null}", "{\"b\": null, \"a\": 1.0}"));
  CU_ASSERT(!are_same("1", "1.5") && !are_same("9007199254740993", "9007199254740992.0") && !are_same("1", "1e300"));
  CU_ASSERT(!are_same("1", "true") && !are_same("1", "\"1\"") && !are_same("[1]", "[1, 1]") && !are_same("[]", "{}"));
  CU_ASSERT(!are_same("{\"a\": 1}", "{\"a\": 1, \"b\": 1}") && !are_same("{\"a\": null}", "{\"b\": null}"));
}

static json_int_t at(const char *pointer) {
  static const char text[] = "{\"a/b\": [1, 2], \"a~1b\": 3, \"\": {\"c d\": 4}, \"~\": 5, \"%25\": 6, \"0\": 7}";
  json_t *j = tni_json_loads(text, 0, NULL), *found = tni_json_at(j, pointer);
  const json_int_t is = !found ? -1 : found == j ? 0 : json_is_integer(found) ? json_integer_value(found) : -2;
  json_decref(j);
  return is;
}

static void test_pointer(void) {
  static const struct {
    const char *pointer;
    json_int_t is;
  } rows[] = {{"", 0},          {"/a~1b/0", 1},    {"/a%2Fb/1", 2}, {"/a%7e1b/1", 2}, {"/a~01b", 3},
              {"//c%20d", 4},   {"/~0", 5},        {"/~", 5},       {"/%2525", 6},    {"/0", 7},
              {"/a~1b", -2},    {"/a~1b/2", -1},   {"/a~1b/x", -1}, {"/a~1b/", -1},   {"/a~1b/-1", -1},
              {"/a~1b/0x", -1}, {"/a~1b/0/0", -1}, {"a~1b", -1},    {"/nowhere", -1}, {"/nowhere/a", -1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) CU_ASSERT_EQUAL(at(rows[i].pointer), rows[i].is);
  char longer[1000] = "/";
  memset(longer + 1, 'a', sizeof longer - 2);
  CU_ASSERT_EQUAL(at(longer), -1);
}

static int countdown;
static void *failing(size_t n) { return countdown-- == 0 ? NULL : malloc(n); }

/* jansson's own values cannot be made: an error each time, and all again afterwards. */
static void test_no_memory(void) {
  const char *text = texts[sizeof texts / sizeof *texts - 1];
  json_malloc_t m;
  json_free_t f;
  json_get_alloc_funcs(&m, &f);
  int points = 0;
  for (bool whole = false; !whole; points++) {
    json_error_t e;
    countdown = points;
    tni_json_begin();
    json_set_alloc_funcs(failing, free);
    json_t *j = tni_json_loadb(text, strlen(text), REJECT, &e);
    json_set_alloc_funcs(m, f);
    whole = countdown >= 0;
    CU_ASSERT_EQUAL(j != NULL, whole);
    CU_ASSERT_EQUAL(tni_json_short(), !whole);
    if (!j) CU_ASSERT(tni_json_no_memory(&e));
    json_decref(j);
  }
  CU_ASSERT(points > 20);
}

/* --- the writer beside json_dumps --- */

static char *written(json_t *j) {
  tni_json_writer w = {0};
  tni_json_put_tree(&w, NULL, json_incref(j));
  return tni_json_written(&w);
}

static void test_written(void) {
  static const char *const more[] = {
      "{\"e\": {}, \"l\": [], \"n\": [[], {}, [{}]], \"s\": \"\\u0000\\u0001\\u001f\\u007f\\\"\\\\/\"}",
      "[0.1, 1e300, 1e-300, 5e-324, -0.0, 1.0, 123456789.123456789, 1e22, 3.0e5]"};
  const size_t n = sizeof texts / sizeof *texts;
  int compared = 0;
  for (size_t i = 0; i < n + 2; i++) {
    json_t *j = tni_json_loads(i < n ? texts[i] : more[i - n], NUL, NULL);
    if (!j) continue;
    char *mine = written(j), *theirs = tni_json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    CU_ASSERT_STRING_EQUAL(mine, theirs);
    if (strcmp(mine, theirs) != 0) fprintf(stderr, "%s\njansson: %s\n", mine, theirs);
    free(mine);
    free(theirs);
    json_decref(j);
    compared++;
  }
  CU_ASSERT(compared > 20);
}

/* Piece by piece the same text as of the tree; what is not UTF-8 is said. */
static void test_pieces(void) {
  enum { MANY = 3000 };
  tni_json_writer w = {0};
  json_t *tree = json_object(), *list = json_array();
  tni_json_open(&w, NULL, '{');
  tni_json_open(&w, "list", '[');
  for (int i = 0; i < MANY; i++) {
    tni_json_open(&w, NULL, '{');
    tni_json_put_count(&w, "i", i - 7);
    tni_json_put_text(&w, "s", i % 2 ? "a\n\"b\"" : NULL);
    tni_json_open(&w, "none", '[');
    tni_json_shut(&w, ']');
    tni_json_shut(&w, '}');
    json_array_append_new(list, json_pack("{s:i, s:s, s:[]}", "i", i - 7, "s", i % 2 ? "a\n\"b\"" : "", "none"));
  }
  tni_json_shut(&w, ']');
  tni_json_put_text(&w, "bad", "\xff");
  tni_json_put_tree(&w, "nothing", NULL);
  tni_json_put_members(&w, json_pack("{s:b, s:f}", "yes", 1, "half", 0.5));
  tni_json_shut(&w, '}');
  json_object_set_new(tree, "list", list);
  json_object_set_new(tree, "bad", json_string("(not UTF-8)"));
  json_object_set_new(tree, "nothing", json_null());
  json_object_set_new(tree, "yes", json_true());
  json_object_set_new(tree, "half", json_real(0.5));
  char *mine = tni_json_written(&w), *theirs = json_dumps(tree, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  CU_ASSERT_STRING_EQUAL(mine, theirs);
  free(mine);
  free(theirs);
  json_decref(tree);
}

/* Reals as few digits have them; strings that look like some stay. */
static void test_reals(void) {
  static const char *const kept[] = {
      "[0.1,21.7,-3.0,1e300,0.30000000000000004,123456789012345.6,-2.5e-7]",
      "{\"0.10000000000000001\":\"a\\\"0.10000000000000001\\\\\",\"n\":[1,true,null,2.2]}", "1.1"};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    json_t *j = tni_json_loadb(kept[i], strlen(kept[i]), ANY, NULL);
    char *text = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);
    CU_ASSERT_STRING_EQUAL(text, kept[i]);
    free(text);
    json_decref(j);
  }
  uint64_t state = 7;
  for (int i = 0; i < 2000; i++) {
    double v;
    state = state * 6364136223846793005u + 1442695040888963407u;
    memcpy(&v, &state, sizeof v);
    json_t *j = json_real(v);
    char *text = j ? json_dumps(j, JSON_ENCODE_ANY) : NULL;
    json_t *back = text ? tni_json_loadb(text, strlen(text), ANY, NULL) : NULL;
    CU_ASSERT(!j || json_equal(j, back));
    free(text);
    json_decref(j);
    json_decref(back);
  }
}

void suite_json(void) {
  CU_pSuite s = CU_add_suite("base: json", NULL, NULL);
  CU_add_test(s, "texts", test_texts);
  CU_add_test(s, "large whole numbers", test_large);
  CU_add_test(s, "damaged", test_damaged);
  CU_add_test(s, "deep", test_deep);
  CU_add_test(s, "place", test_place);
  CU_add_test(s, "no_memory", test_no_memory);
  CU_add_test(s, "written", test_written);
  CU_add_test(s, "pieces", test_pieces);
  CU_add_test(s, "reals", test_reals);
  CU_add_test(s, "equal", test_same);
  CU_add_test(s, "by a pointer", test_pointer);
}
