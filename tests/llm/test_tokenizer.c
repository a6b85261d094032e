/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer by itself: what needs no reference implementation. check_tokenizer.py has the comparisons.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/text/unicode.h"
#include "runtime/llm/tokenizer/pattern.h"
#include "runtime/llm/tokenizer/tokenizer.h"
#include "tests/llm/llm_test.h"

static tni_tokenizer *parse(const char *json) {
  tni_tokenizer *t = NULL;
  tn_error err;
  tni_error_init(&err);
  if (tni_tokenizer_parse(json, strlen(json), "tiny.json", &t, &err) != TN_OK) printf("\n  %s", err.message);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  return t;
}

static void encodes(const tni_tokenizer *t, const char *text, bool special, const int32_t *want, size_t n) {
  tni_ids ids = {0};
  CU_ASSERT_EQUAL(tni_tokenizer_encode(t, text, strlen(text), special, &ids, NULL), TN_OK);
  CU_ASSERT_EQUAL(ids.n, n);
  if (ids.n == n) CU_ASSERT(n == 0 || memcmp(ids.v, want, n * sizeof *want) == 0);
  tni_ids_free(&ids);
}

static void test_tiny(void) {
  tni_tokenizer *t = parse(tiny_tokenizer);
  encodes(t, "abc", false, (int32_t[]){5}, 1);
  encodes(t, "ABC ab", true, (int32_t[]){6, 5, 4}, 3);
  encodes(t, "cabx<s>b", false, (int32_t[]){3, 4, 0, 6, 2}, 5);
  encodes(t, "", false, NULL, 0);
  encodes(t, "", true, (int32_t[]){6}, 1);
  CU_ASSERT_EQUAL(tni_tokenizer_vocab_size(t), 7);
  CU_ASSERT_STRING_EQUAL(tni_tokenizer_token(t, 6), "<s>");
  CU_ASSERT_PTR_NULL(tni_tokenizer_token(t, 7));
  CU_ASSERT_PTR_NULL(tni_tokenizer_token(t, -1));
  CU_ASSERT_EQUAL(tni_tokenizer_id(t, "abc"), 5);
  CU_ASSERT_EQUAL(tni_tokenizer_id(t, "<s>"), 6);
  CU_ASSERT_EQUAL(tni_tokenizer_id(t, "zz"), -1);
  CU_ASSERT(tni_tokenizer_is_special(t, 6) && !tni_tokenizer_is_special(t, 5) && !tni_tokenizer_is_special(t, 99));
  tni_tokenizer_destroy(t);
  tni_tokenizer_destroy(NULL);
}

/* The merge of the lowest rank comes first, not the leftmost. */
static void test_merge_order(void) {
  char *a = edited(tiny_tokenizer, "\"c\":3", "\"c\":3,\"bc\":7,\"bcab\":8");
  char *b = edited(a, "[[\"a\",\"b\"],\"ab c\"]", "[\"b c\",\"a b\",\"ab c\",\"bc ab\"]");
  tni_tokenizer *t = parse(b);
  encodes(t, "abc", false, (int32_t[]){1, 7}, 2);
  encodes(t, "aab", false, (int32_t[]){1, 4}, 2);
  encodes(t, "abcabab", false, (int32_t[]){1, 8, 4}, 3);
  encodes(t, "bcbcab", false, (int32_t[]){7, 8}, 2);
  tni_tokenizer_destroy(t);
  free(a);
  free(b);
}

static void test_invalid_text(void) {
  static const struct {
    const char *text;
    size_t n, at;
  } table[] = {{"ab\xff", 3, 2},
               {"\xc0\x80", 2, 0},
               {"a\xe2\x82", 3, 1},
               {"\xed\xa0\x80", 3, 0},
               {"\xf4\x90\x80\x80", 4, 0},
               {"a\0b\x80", 4, 3},
               {"\xf8\x88\x80\x80\x80", 5, 0},
               {"\xc3", 1, 0}};
  tni_tokenizer *t = parse(tiny_tokenizer);
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    tni_ids ids = {0};
    tn_error err;
    char want[32];
    tni_error_init(&err);
    snprintf(want, sizeof want, "at byte %zu", table[i].at);
    CU_ASSERT_EQUAL(tni_tokenizer_encode(t, table[i].text, table[i].n, true, &ids, &err), TN_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, want));
    CU_ASSERT_PTR_NULL(ids.v);
  }
  tni_tokenizer_destroy(t);
}

/* Text goes in and comes out in pieces; no piece may cut a character. */
static void streams(const char *decoder, const char *vocab, const int32_t *ids, size_t n, const char *want) {
  char *a = edited(tiny_tokenizer, "{\"type\":\"Fuse\"}", decoder);
  char *b = edited(a, "\"a\":1", vocab);
  tni_tokenizer *t = parse(b);
  char *text = NULL, sum[256] = "";
  const char *s;
  size_t len = 0, got = 0;
  CU_ASSERT_EQUAL_FATAL(tni_tokenizer_decode(t, ids, n, false, &text, &len, NULL), TN_OK);
  if (strcmp(text, want) != 0) printf("\n  %s: \"%s\", expected \"%s\"", decoder, text, want);
  CU_ASSERT_STRING_EQUAL(text, want);
  CU_ASSERT_EQUAL(len, strlen(want));
  tni_detok *d = tni_detok_create(t, false);
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  for (size_t i = 0; i <= n; i++) {
    tn_status st = i < n ? tni_detok_push(d, ids[i], &s, &len, NULL) : tni_detok_finish(d, &s, &len, NULL);
    CU_ASSERT_EQUAL_FATAL(st, TN_OK);
    CU_ASSERT_EQUAL(tni_utf8_valid(s, len), len);
    memcpy(sum + got, s, len);
    got += len;
  }
  CU_ASSERT_STRING_EQUAL(sum, want);
  tni_detok_destroy(d);
  tni_tokenizer_destroy(t);
  free(text);
  free(a);
  free(b);
}

#define BYTES "\"a\":1,\"<0xE2>\":10,\"<0x82>\":11,\"<0xAC>\":12,\"<0x41>\":13"
#define LEVEL "\"a\":1,\"\\u00e2\":10,\"\\u0124\":11,\"\\u00ac\":12,\"\\u0120a\":13"

static void test_stream(void) {
  const char *fallback = "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}";
  const char *level = "{\"type\":\"ByteLevel\"}";
  streams(fallback, BYTES, (int32_t[]){1, 10, 11, 12, 2}, 5,
          "a\xe2\x82\xac"
          "b");
  streams(fallback, BYTES, (int32_t[]){13, 10, 11, 2}, 4,
          "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
          "b"); /* the whole run is broken */
  streams(fallback, BYTES, (int32_t[]){13, 10}, 2, "\xef\xbf\xbd\xef\xbf\xbd");
  streams(level, LEVEL, (int32_t[]){1, 10, 11, 12, 13}, 5, "a\xe2\x82\xac a");
  streams(level, LEVEL, (int32_t[]){10, 11, 1}, 3,
          "\xef\xbf\xbd"
          "a"); /* one for the longest valid beginning */
  streams(level, LEVEL, (int32_t[]){1, 10, 11}, 3, "a\xef\xbf\xbd");
  streams(level, LEVEL, (int32_t[]){11, 11, 99, -5, 12}, 5, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  streams("{\"type\":\"BPEDecoder\",\"suffix\":\"c\"}", "\"a\":1", (int32_t[]){5, 4, 5}, 3, "ab abab");
}

static void translates(const char *in, const char *want) {
  tni_str out = {0};
  const char *why = NULL;
  bool ok = tni_regex_translate(in, strlen(in), &out, &why);
  CU_ASSERT_EQUAL(ok, want != NULL);
  if (ok && want) {
    bool same = out.n == strlen(want) && memcmp(out.v, want, out.n) == 0;
    if (!same) printf("\n  %s -> %.*s", in, (int)out.n, out.v);
    CU_ASSERT(same);
  }
  if (!ok) CU_ASSERT_PTR_NOT_NULL(why);
  tni_str_finish(&out);
}

static void test_translate(void) {
  translates("a{,3}b{2}?c", NULL);
  translates("a{,3}b{2,}?", "a{0,3}b{2,}?");
  translates("a{x}", "a\\{x}");
  translates("\\h", "[0-9a-fA-F]");
  translates("[\\h_]", "[0-9a-fA-F_]");
  translates("(?m:.)(?i)(?-m)x", "(?s:.)(?i)(?-s)x");
  translates("\\u00e9\\v", "\\x{00e9}\\x{b}");
  translates("[]a][^]a][[:alpha:]]", "[]a][^]a][[:alpha:]]");
  translates("(?<n>a)(?<=b)(?<!c)(?>d)(?=e)(?!f)(?:g)", "(?<n>a)(?<=b)(?<!c)(?>d)(?=e)(?!f)(?:g)");
  static const char *const refused[] = {"[a&&b]", "[a[b]]", "a{2}+",  "(*ACCEPT)", "\\Qa\\E", "\\C",
                                        "\\N",    "\\k<n>", "\\g<n>", "[a",        "\\",      "\\p{L",
                                        "\\p",    "(?~a)",  "[\\W]",  "(?P<n>a)",  "(?C1)",   "\\u12"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) translates(refused[i], NULL);
}

/* The file's truncation and padding are of batches: a prompt keeps its length. A batch's limit counts special ids. */
static tni_ids ids_of(const tni_tokenizer *t, const char *text) {
  tni_ids ids = {0};
  CU_ASSERT_EQUAL_FATAL(tni_tokenizer_encode(t, text, strlen(text), true, &ids, NULL), TN_OK);
  return ids;
}

static void test_limits(void) {
  char *a =
      edited(tiny_tokenizer, "\"truncation\":null",
             "\"truncation\":{\"max_length\":2,\"direction\":\"Left\",\"strategy\":\"LongestFirst\",\"stride\":0}");
  char *json =
      edited(a, "\"padding\":null",
             "\"padding\":{\"strategy\":{\"Fixed\":9},\"direction\":\"Right\",\"pad_id\":2,\"pad_token\":\"b\"}");
  tni_tokenizer *t = parse(json), *bare = parse(tiny_tokenizer);
  tni_ids got = ids_of(t, "ab abc c"), want = ids_of(bare, "ab abc c");
  CU_ASSERT_FATAL(want.n > 3);
  CU_ASSERT_EQUAL_FATAL(got.n, want.n);
  CU_ASSERT_EQUAL(memcmp(got.v, want.v, want.n * sizeof *want.v), 0);
  CU_ASSERT_EQUAL(tni_tokenizer_pad(t), 2);
  CU_ASSERT_EQUAL(tni_tokenizer_pad(bare), -1);
  tni_ids_free(&got);
  tni_tokenizer_limit(t, 3);
  got = ids_of(t, "ab abc c");
  CU_ASSERT_EQUAL_FATAL(got.n, 3);
  CU_ASSERT_EQUAL(got.v[2], want.v[want.n - 1]); /* direction Left keeps the end */
  CU_ASSERT_EQUAL(got.v[0], want.v[0]);          /* <s> */
  tni_ids_free(&got);
  tni_ids_free(&want);
  tni_tokenizer_destroy(t);
  tni_tokenizer_destroy(bare);
  free(json);
  free(a);
}

/* A pattern that backtracks without end is given up with a status. */
static void test_match_limit(void) {
  char *json = edited(tiny_tokenizer, "{\"type\":\"WhitespaceSplit\"}",
                      "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a*)*b\"},\"behavior\":\"Isolated\"}");
  tni_tokenizer *t = parse(json);
  char text[200];
  tni_ids ids = {0};
  memset(text, 'a', sizeof text);
  text[sizeof text - 1] = 'c';
  tn_status st = tni_tokenizer_encode(t, text, sizeof text, true, &ids, NULL);
  CU_ASSERT(st == TN_E_LIMIT || st == TN_OK); /* PCRE2 may prove that there is no match */
  tni_ids_free(&ids);
  tni_tokenizer_destroy(t);
  free(json);
  json = edited(tiny_tokenizer, "{\"type\":\"WhitespaceSplit\"}",
                "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a|aa)*[bd]\"},\"behavior\":\"Isolated\"}");
  t = parse(json);
  text[sizeof text - 1] = 'c';
  CU_ASSERT_EQUAL(tni_tokenizer_encode(t, text, sizeof text, true, &ids, NULL), TN_E_LIMIT);
  tni_tokenizer_destroy(t);
  free(json);
}

/* A tiny file with two rules one after the other in place of `old`, each of which makes 4,000 bytes of one. */
static tni_tokenizer *growing(const char *old, const char *list) {
  char many[4001], *body = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&body, &n);
  memset(many, 'a', sizeof many - 1);
  many[sizeof many - 1] = '\0';
  fprintf(f, "{\"type\":\"Sequence\",\"%s\":[", list);
  for (int i = 0; i < 2; i++)
    fprintf(f, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"}", i ? "," : "", many);
  fputs("]}", f);
  fclose(f);
  char *json = edited(tiny_tokenizer, old, body);
  tni_tokenizer *t = parse(json);
  free(json);
  free(body);
  return t;
}

/* Text that multiplies is given up soon, in both directions. */
static void test_growth(void) {
  tni_tokenizer *t = growing("{\"type\":\"Lowercase\"}", "normalizers");
  tni_ids ids = {0};
  CU_ASSERT_EQUAL(tni_tokenizer_encode(t, "a", 1, true, &ids, NULL), TN_E_LIMIT);
  tni_tokenizer_destroy(t);
  t = growing("{\"type\":\"Fuse\"}", "decoders");
  char *text = NULL;
  size_t len;
  tn_error err;
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_tokenizer_decode(t, (int32_t[]){1}, 1, false, &text, &len, &err), TN_E_LIMIT);
  CU_ASSERT(strstr(err.message, "grows over") != NULL);
  tni_tokenizer_destroy(t);
}

static void test_missing_file(void) {
  tni_tokenizer *t = NULL;
  tn_error err;
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_tokenizer_load("/nonexistent/tokenizer.json", &t, &err), TN_E_UNAVAILABLE);
  CU_ASSERT_PTR_NULL(t);
}

/* The byte alphabet is a bijection and every code point survives put and get. */
static void test_unicode(void) {
  for (int b = 0; b < 256; b++) CU_ASSERT_EQUAL(tni_char_byte(tni_byte_char((uint8_t)b)), b);
  unsigned bad = 0;
  for (uint32_t cp = 0; cp < 0x110000; cp++) {
    char s[4];
    size_t len, n = tni_utf8_put(cp, s);
    bool surrogate = cp >= 0xd800 && cp < 0xe000;
    bad += tni_utf8_get(s, n, &len) != cp || len != n || (tni_utf8_valid(s, n) == n) == surrogate;
  }
  CU_ASSERT_EQUAL(bad, 0);
  CU_ASSERT_STRING_EQUAL(tni_category(0x1e5d0), "Lo"); /* Unicode 16 */
  for (size_t i = 1; i < tni_n_newer_ranges; i++) CU_ASSERT(tni_newer_ranges[i - 1].hi < tni_newer_ranges[i].lo);
}

void add_tokenizer_suite(void) {
  CU_pSuite s = CU_add_suite("tokenizer", NULL, NULL);
  CU_add_test(s, "a tiny file", test_tiny);
  CU_add_test(s, "merges by rank", test_merge_order);
  CU_add_test(s, "invalid UTF-8", test_invalid_text);
  CU_add_test(s, "decoding id by id", test_stream);
  CU_add_test(s, "regex translation", test_translate);
  CU_add_test(s, "truncation and padding", test_limits);
  CU_add_test(s, "endless matches", test_match_limit);
  CU_add_test(s, "endless growth", test_growth);
  CU_add_test(s, "a missing file", test_missing_file);
  CU_add_test(s, "UTF-8 and tables", test_unicode);
}
