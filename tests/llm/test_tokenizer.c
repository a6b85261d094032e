/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer by itself: what needs no reference implementation. check_tokenizer.py has the comparisons.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/text/text.h"
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

/* whose: 't' for each byte that the template wrote. */
static void marks(const tni_tokenizer *t, const char *text, const char *whose, const int32_t *want, size_t n) {
  uint8_t mine[64];
  tni_ids ids = {0};
  CU_ASSERT_EQUAL_FATAL(strlen(text), strlen(whose));
  for (size_t i = 0; whose[i]; i++) mine[i] = whose[i] == 't';
  CU_ASSERT_EQUAL(tni_tokenizer_encode_marked(t, text, mine, strlen(text), &ids, NULL), TN_OK);
  const bool same = ids.n == n && memcmp(ids.v, want, n * sizeof *want) == 0;
  if (!same) printf("\n  %s: %zu ids", text, ids.n);
  CU_ASSERT(same);
  tni_ids_free(&ids);
}

/* A special token is the template's whether it is searched before the normalizer or after it, and typed it is text. */
static void test_marked(void) {
  char *after = edited(tiny_tokenizer, "\"normalized\":false", "\"normalized\":true");
  char *plain = edited(after, "{\"type\":\"Lowercase\"}", "null");
  tni_tokenizer *all[] = {parse(tiny_tokenizer), parse(after), parse(plain)};
  for (size_t i = 0; i < 3; i++) {
    marks(all[i], "<s>ab<s>c", "ttt..tttt", (int32_t[]){6, 4, 6, 3}, 4);
    marks(all[i], "<s>ab<s>c", "ttt......", (int32_t[]){6, 4, 0, 0, 0, 3}, 6);
    marks(all[i], "<s>ab<s>c", "ttt....tt", (int32_t[]){6, 4, 0, 0, 0, 3}, 6);
    tni_tokenizer_destroy(all[i]);
  }
  tni_tokenizer *t = parse(after); /* the normalizer changes what stands between the tokens */
  marks(t, "<s>aB<s>C", "ttt..tttt", (int32_t[]){6, 4, 6, 3}, 4);
  marks(t, "<s>aB<S>c", "ttt......", (int32_t[]){6, 4, 0, 0, 0, 3}, 6);
  marks(t, "<s><s>", "ttt...", (int32_t[]){6, 0, 0, 0}, 4);
  marks(t, "<S>", "...", (int32_t[]){0, 0, 0}, 3);
  tni_tokenizer_destroy(t);
  free(plain);
  free(after);
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
  size_t column = 0;
  bool ok = tni_regex_translate(in, strlen(in), &out, &why, &column);
  CU_ASSERT_EQUAL(ok, true);
  if (!ok) printf("\n  %s: column %zu: %s", in, column, why);
  bool same = ok && out.n == strlen(want) && memcmp(out.v, want, out.n) == 0;
  if (ok && !same) printf("\n  %s -> %.*s", in, (int)out.n, out.v);
  CU_ASSERT(same);
  tni_str_finish(&out);
}

static void test_translate(void) {
  translates("a{,3}b{2,}?", "a{0,3}b{2,}?");
  translates("a{x}", "a\\{x}");
  translates("\\h", "[\\x{30}-\\x{39}\\x{41}-\\x{46}\\x{61}-\\x{66}]");
  translates("[\\h_]", "[\\x{30}-\\x{39}\\x{41}-\\x{46}\\x{5f}\\x{61}-\\x{66}]");
  translates("(?m:.)(?i)(?-m)x", "(?s:.)(?i)(?-s)x");
  translates("\\u00e9\\v\\x41\\x{4e2d}\\o{101}\\O", "\\x{e9}\\x{b}\\x{41}\\x{4e2d}\\x{41}(?s:.)");
  translates("[]a][^]a]", "[\\x{5d}\\x{61}][^\\x{5d}\\x{61}]");
  translates("(?<n>a)(?<=b)(?<!c)(?>d)(?=e)(?!f)(?:g)(?#h)i", "(?<n>a)(?<=b)(?<!c)(?>d)(?=e)(?!f)(?:g)(?#)i");
  /* Sets: what is in them, not how it is written. */
  translates("[a-z&&[^b-d]]", "[\\x{61}\\x{65}-\\x{7a}]");
  translates("[a-c[x-z]&&[b-y]&&[^x]]", "[\\x{62}-\\x{63}\\x{79}]");
  translates("[^a-z&&[b]]", "[^\\x{62}]");
  translates("[a&&b]", "[^\\x{0}-\\x{10ffff}]");
  translates("[^a&&b]", "[\\x{0}-\\x{10ffff}]");
  translates("[^\\P{Zs}]", "[\\p{Zs}]");
  translates("[\\Sa]", "[^\\p{Z}\\x{9}-\\x{d}\\x{85}]");
  translates("[a\\-z-][-a][\\]\\[\\b]", "[\\x{2d}\\x{61}\\x{7a}][\\x{2d}\\x{61}][\\x{8}\\x{5b}\\x{5d}]");
  translates("[a&b][a\\&&b]", "[\\x{26}\\x{61}-\\x{62}][\\x{26}\\x{61}-\\x{62}]");
  translates("[[:xdigit:]&&[:alpha:]]", "[\\x{41}-\\x{46}\\x{61}-\\x{66}]");
  translates("\\p{Kayah Li}\\p{sc=kayah_li}\\p{Kali}",
             "[\\x{a900}-\\x{a92d}\\x{a92f}][\\x{a900}-\\x{a92d}\\x{a92f}]"
             "[\\x{a900}-\\x{a92d}\\x{a92f}]");
  /* PCRE2 adds the other cases: to classes, not to properties. Options end with their group. */
  translates("(?i)[^a]\\p{Zl}(?:(?-i)[Zl])[b]",
             "(?i)[^\\x{41}\\x{61}](?-i:[\\p{Zl}])(?:(?-i)[\\x{5a}\\x{6c}])[\\x{42}\\x{62}]");
  translates("(?i:[\\p{Zl}])\\p{Zl}", "(?i:[\\x{2028}])[\\p{Zl}]");
}

/* What is not supported says where: the column counts characters. */
static void test_refused_regexes(void) {
  static const struct {
    const char *re, *why;
    size_t column;
  } table[] = {{"a{2}+", "an interval", 2},
               {"a{2}?", "an interval", 2},
               {"\xc3\xa9(*ACCEPT)", "a verb", 2},
               {"\\Qa\\E", "escape", 1},
               {"\\C", "escape", 1},
               {"\\N", "escape", 1},
               {"a\\k<n>", "escape", 2},
               {"\\g<n>", "escape", 1},
               {"[a", "without end", 1},
               {"\\", "backslash", 1},
               {"[a\\", "backslash", 3},
               {"\\p{L", "without end", 1},
               {"\\p", "without {}", 1},
               {"[\\pL]", "without {}", 2},
               {"a[\\p{Foo}]", "not known", 3},
               {"\\p{script=Foo}", "not known", 1},
               {"\\p{:punct}", "not known", 1},
               {"\\p{}", "not known", 1},
               {"(?~a)", "group", 2},
               {"(?P<n>a)", "group", 2},
               {"(?C1)", "group", 2},
               {"(?#a", "comment", 2},
               {"\\u12", "four digits", 5},
               {"[z-a]", "before it begins", 4},
               {"[a-\\w]", "end of a range", 4},
               {"[\\w-a]", "beginning of a range", 5},
               {"[a-[b]]", "end of a range", 4},
               {"[]", "empty", 3},
               {"[[:foo:]]", "POSIX", 2},
               {"[\\xe9]", "byte", 6},
               {"\\x{110000}", "no character", 11},
               {"[\\x{41 42}]", "one code point", 7}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    tni_str out = {0};
    const char *why = "";
    size_t column = 0;
    CU_ASSERT_EQUAL(tni_regex_translate(table[i].re, strlen(table[i].re), &out, &why, &column), false);
    bool same = strstr(why, table[i].why) && column == table[i].column;
    if (!same) printf("\n  %s: column %zu: %s", table[i].re, column, why);
    CU_ASSERT(same);
    tni_str_finish(&out);
  }
  char deep[600];
  memset(deep, '[', sizeof deep - 1);
  deep[sizeof deep - 1] = '\0';
  tni_str out = {0};
  const char *why = "";
  size_t column = 0;
  CU_ASSERT_EQUAL(tni_regex_translate(deep, sizeof deep - 1, &out, &why, &column), false);
  CU_ASSERT(strstr(why, "too deep") != NULL);
  memset(deep, '(', sizeof deep - 1);
  CU_ASSERT_EQUAL(tni_regex_translate(deep, sizeof deep - 1, &out, &why, &column), false);
  CU_ASSERT(strstr(why, "too deep") != NULL);
  tni_str_finish(&out);
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
  CU_ASSERT_EQUAL(tni_category(0x1e5d0), 4); /* Lo, of Unicode 16 */
  CU_ASSERT_EQUAL(tni_category(0x100), TNI_CAT_LU);
  CU_ASSERT_EQUAL(tni_category(0x101), TNI_CAT_LL);
  CU_ASSERT_EQUAL(tni_category(0xd800), TNI_CAT_CS);
  CU_ASSERT_EQUAL(tni_category(0x10ffff), TNI_CAT_CN);
}

void add_tokenizer_suite(void) {
  CU_pSuite s = CU_add_suite("tokenizer", NULL, NULL);
  CU_add_test(s, "a tiny file", test_tiny);
  CU_add_test(s, "merges by rank", test_merge_order);
  CU_add_test(s, "special tokens of a marked text", test_marked);
  CU_add_test(s, "invalid UTF-8", test_invalid_text);
  CU_add_test(s, "decoding id by id", test_stream);
  CU_add_test(s, "regex translation", test_translate);
  CU_add_test(s, "regexes that are refused", test_refused_regexes);
  CU_add_test(s, "truncation and padding", test_limits);
  CU_add_test(s, "endless matches", test_match_limit);
  CU_add_test(s, "endless growth", test_growth);
  CU_add_test(s, "a missing file", test_missing_file);
  CU_add_test(s, "UTF-8 and tables", test_unicode);
}
