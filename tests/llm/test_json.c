/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of JSON beside jansson: the same texts are taken, and the trees are equal.
 */
#include <jansson.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/json.h"
#include "tests/llm/llm_test.h"

enum { ROUNDS = 200000, MOST = 512, DEPTH = 2048 };

static bool equal(const tni_json *v, json_t *w);

static bool equal_members(const tni_json *v, json_t *w) {
  void *at = json_object_iter(w);
  if (json_object_size(w) != v->n) return false;
  for (uint32_t i = 0; i < v->n; i++, at = json_object_iter_next(w, at)) {
    const tni_json *key = &v->v[2 * i];
    if (key->kind != TNI_JSON_STRING || key->n != strlen(key->s) || strcmp(key->s, json_object_iter_key(at)) != 0 ||
        tni_json_get(v, key->s) != key + 1 || !equal(key + 1, json_object_iter_value(at)))
      return false;
  }
  return true;
}

static bool equal(const tni_json *v, json_t *w) {
  switch (v->kind) {
    case TNI_JSON_OBJECT:
      return json_is_object(w) && equal_members(v, w);
    case TNI_JSON_ARRAY:
      if (!json_is_array(w) || json_array_size(w) != v->n) return false;
      for (uint32_t i = 0; i < v->n; i++)
        if (!equal(tni_json_item(v, i), json_array_get(w, i))) return false;
      return !tni_json_item(v, v->n);
    case TNI_JSON_STRING:
      return json_is_string(w) && json_string_length(w) == v->n && memcmp(json_string_value(w), v->s, v->n + 1) == 0;
    case TNI_JSON_INT: /* where another number overflows, all are reals for jansson */
      return json_is_integer(w) ? json_integer_value(w) == v->i
                                : json_is_real(w) && json_real_value(w) == tni_json_real(v);
    case TNI_JSON_REAL:
      return json_is_real(w) && json_real_value(w) == v->real;
    case TNI_JSON_TRUE:
      return json_is_true(w);
    case TNI_JSON_FALSE:
      return json_is_false(w);
    default:
      return v->kind == TNI_JSON_NULL && json_is_null(w);
  }
}

static json_t *by_jansson(const char *text, size_t n) {
  const size_t flags = JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES;
  json_error_t je;
  json_t *w = json_loadb(text, n, flags, &je);
  if (!w && json_error_code(&je) == json_error_numeric_overflow)
    w = json_loadb(text, n, flags | JSON_DECODE_INT_AS_REAL, &je);
  return w;
}

/* In memory of its own size: what is read behind it is seen by sanitizers. */
static bool agree(const char *text, size_t n, bool *taken) {
  tni_json_tree *t = NULL;
  tn_error err;
  char *copy = malloc(n ? n : 1);
  if (!copy) abort();
  memcpy(copy, text, n);
  tni_error_init(&err);
  const tn_status st = tni_json_parse(copy, n, "a.json", &t, &err);
  free(copy);
  json_t *w = by_jansson(text, n);
  *taken = w != NULL;
  const bool same = w ? st == TN_OK && equal(tni_json_root(t), w)
                      : st == TN_E_INVALID && strstr(err.message, "line ") && strcmp(err.where, "a.json") == 0;
  if (!same) printf("\n  differs: %.*s", (int)(n < 300 ? n : 300), text);
  json_decref(w);
  tni_json_destroy(t);
  return same;
}

static const char *const good[] = {
    "{}",
    "[]",
    " [ ] ",
    "\r\n\t{ \"a\" : [ 1 , -2 , 0 , -0 , 12345678901234567 , 999999999999999999 ] }\n",
    "[9223372036854775807, -9223372036854775808, 9223372036854775808, 1000000000000000019884624838656, 3]",
    "[0.5, -1.25e3, 1E+2, 1e-400, 2.2250738585072014e-308, 123456789.123456789, 0e0, 1.7976931348623157e308]",
    "{\"a\": true, \"b\": false, \"c\": null, \"\": \"\"}",
    "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\u0041\\u00e9\\u4e2D\\ud83d\\ude00\\u0000x\", \"\x7f\"]",
    "[\"na\xc3\xafve \xe4\xb8\xad \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf \xed\x9f\xbf \xee\x80\x80\"]",
    "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":{\"a\":[[[{}]]]}}"};

static const char *const bad[] = {
    "",
    " ",
    "1",
    "\"a\"",
    "null",
    "{",
    "[",
    "[1",
    "[1,",
    "[1,]",
    "[,]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{,}",
    "{1:2}",
    "[] []",
    "[]x",
    "[01]",
    "[-]",
    "[+1]",
    "[1.]",
    "[.5]",
    "[1e]",
    "[1e+]",
    "[1e999]",
    "[-1e999]",
    "[0x1]",
    "[NaN]",
    "[tru]",
    "[truex]",
    "[nul",
    "[\"a]",
    "[\"a\nb\"]",
    "[\"\x01\"]",
    "[\"\\x\"]",
    "[\"\\",
    "[\"\\u12\"]",
    "[\"\\u12g4\"]",
    "[\"\\ud800\"]",
    "[\"\\ud800\\u0041\"]",
    "[\"\\udc00\"]",
    "[\"\xc0\x80\"]",
    "[\"\xed\xa0\x80\"]",
    "[\"\xf4\x90\x80\x80\"]",
    "[\"\xe4\xb8\"]",
    "[\"\x80\"]",
    "[\xc3\xaf]",
    "\xef\xbb\xbf[]",
    "['a']",
    "[1 2]",
    "{\"a\":1,\"a\":1}",
    "{\"\":1,\"\":1}",
    "{\"a\\u0000\":1}",
    "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":10,\"\\u0061\":1}",
    "[1] // no"};

static void test_tables(void) {
  bool taken;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) CU_ASSERT(agree(good[i], strlen(good[i]), &taken) && taken);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CU_ASSERT(agree(bad[i], strlen(bad[i]), &taken) && !taken);
  CU_ASSERT(agree("[\0]", 3, &taken) && !taken);
  CU_ASSERT(agree("[]\0", 3, &taken) && !taken);
  tni_json_tree *t = NULL;
  tn_error err;
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_json_parse("[1\0]", 4, "a.json", &t, &err), TN_E_INVALID); /* which jansson takes */
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "NUL"));
}

/* n arrays in each other, with `inner` in the last. */
static void nest(size_t n, const char *inner, bool good_one) {
  const size_t m = strlen(inner);
  char *text = malloc(2 * n + m);
  bool taken;
  CU_ASSERT_PTR_NOT_NULL_FATAL(text);
  memset(text, '[', n);
  memcpy(text + n, inner, m);
  memset(text + n + m, ']', n);
  CU_ASSERT(agree(text, 2 * n + m, &taken) && taken == good_one);
  free(text);
}

static void test_depth(void) {
  nest(DEPTH - 1, "", true);
  nest(DEPTH - 1, "1", true);
  nest(DEPTH - 1, "{}", true);
  nest(DEPTH, "", true);
  nest(DEPTH, "1", false);
  nest(DEPTH + 1, "", false);
  nest(1 << 20, "", false);
}

static uint32_t next(uint32_t *x) { return (*x = *x * 1664525u + 1013904223u) >> 8; }

/* One byte set, taken out or put in, or a piece doubled. */
static size_t edit(char *s, size_t n, uint32_t *x) {
  static const char bytes[] = "{}[],:\"\\/u0123dD89eE+-. \t\n\x01\x1f\x7f\x80\xbf\xc0\xc3\xe0\xed\xf0\xf4truefalsn";
  const size_t at = next(x) % (n + 1), len = next(x) % 8;
  const char c = bytes[next(x) % (sizeof bytes - 1)];
  switch (next(x) % 4) {
    case 0:
      if (at < n) s[at] = c;
      return n;
    case 1:
      if (at == n) return n;
      memmove(s + at, s + at + 1, n - at - 1);
      return n - 1;
    case 2:
      if (n == MOST) return n;
      memmove(s + at + 1, s + at, n - at);
      s[at] = c;
      return n + 1;
    default:
      if (n + len > MOST || at + len > n) return n;
      memmove(s + at + len, s + at, n - at);
      return n + len;
  }
}

static void test_edited(void) {
  const size_t n_good = sizeof good / sizeof *good;
  uint32_t x = 7;
  size_t taken = 0, differ = 0;
  char s[MOST];
  for (uint32_t i = 0; i < ROUNDS && differ < 10; i++) {
    size_t n = strlen(good[i % n_good]);
    bool one;
    memcpy(s, good[i % n_good], n);
    for (uint32_t k = next(&x) % 4 + 1; k; k--) n = edit(s, n, &x);
    differ += !agree(s, n, &one);
    taken += one;
  }
  CU_ASSERT_EQUAL(differ, 0);
  CU_ASSERT(taken > ROUNDS / 10 && taken < ROUNDS / 10 * 9);
}

/* Numbers have points where the locale's have commas. */
static void test_locale(void) {
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8"};
  tni_json_tree *t = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !setlocale(LC_NUMERIC, names[i]); i++) {
  }
  CU_ASSERT_EQUAL_FATAL(tni_json_parse("[1.5]", 5, "a.json", &t, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_json_real(tni_json_item(tni_json_root(t), 0)), 1.5);
  setlocale(LC_NUMERIC, "C");
  tni_json_destroy(t);
}

/* What is not there is NULL, of another kind 0. */
static void test_absent(void) {
  static const char text[] = "{\"a\": [1.5], \"b\": \"x\"}";
  tni_json_tree *t = NULL;
  CU_ASSERT_EQUAL_FATAL(tni_json_parse(text, strlen(text), "a.json", &t, NULL), TN_OK);
  const tni_json *root = tni_json_root(t), *a = tni_json_get(root, "a");
  CU_ASSERT(!tni_json_get(root, "c") && !tni_json_get(a, "a") && !tni_json_get(NULL, "a"));
  CU_ASSERT(!tni_json_item(a, 1) && !tni_json_item(root, 0) && !tni_json_item(NULL, 0));
  CU_ASSERT(tni_json_int(tni_json_item(a, 0)) == 0 && tni_json_int(NULL) == 0);
  CU_ASSERT(tni_json_real(tni_json_get(root, "b")) == 0 && !tni_json_number(root));
  CU_ASSERT_PTR_NULL(tni_json_root(NULL));
  tni_json_destroy(t);
  tni_json_destroy(NULL);
}

void add_json_suite(void) {
  CU_pSuite s = CU_add_suite("json", NULL, NULL);
  CU_add_test(s, "texts that are taken, and not", test_tables);
  CU_add_test(s, "depth", test_depth);
  CU_add_test(s, "edited texts", test_edited);
  CU_add_test(s, "locale", test_locale);
  CU_add_test(s, "what is absent", test_absent);
}
