/* SPDX-License-Identifier: Apache-2.0
 *
 * What comparing random tokenizers with PyPI's `tokenizers` found (fuzz_tokenizer.py): small files, one for each cause,
 * with the ids and texts that the library gives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/tokenizer/tokenizer.h"
#include "tests/llm/llm_test.h"

#define ADDED(id, content, flags) "{\"id\":" #id ",\"content\":\"" content "\"," flags "}"
#define FLAGS(single, l, r, norm, special) \
  "\"single_word\":" #single ",\"lstrip\":" #l ",\"rstrip\":" #r ",\"normalized\":" #norm ",\"special\":" #special
#define BPE \
  "{\"type\":\"BPE\",\"unk_token\":null,\"merges\":[\"a b\"],\"vocab\":{\"a\":0,\"b\":1,\"_\":2,\"'\":3,\"x\":4,\" \":5,\"\\u2032\":6,\
\"<0xC3>\":7,\"\\u00bd\":8,\"e\":9,\"\\u2e44\":12,\"ab\":13}}"
#define REPLACE(re, with) "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"" re "\"},\"content\":\"" with "\"}"
#define SPLIT(re) "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" re "\"},\"behavior\":\"Removed\",\"invert\":false}"
#define META "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"split\":true}"
#define SPECIAL(name) "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define SEQ(name) "{\"Sequence\":{\"id\":\"" name "\",\"type_id\":0}}"
#define TOKENS                                                                                               \
  "\"special_tokens\":{\"x\":{\"id\":\"x\",\"ids\":[4],\"tokens\":[\"x\"]},\"e\":{\"id\":\"e\",\"ids\":[9]," \
  "\"tokens\":[\"e\"]}}"

typedef struct found {
  const char *what, *added, *norm, *pre, *post, *dec;
  const char *text; /* encoded; NULL: only decoded */
  int32_t ids[8];
  size_t n;
  bool skip;
  const char *back; /* of the ids; NULL: not looked at */
} found;

static const found table[] = {
    {"space that the token before has taken",
     ADDED(10, "\\n", FLAGS(false, true, true, false, false)),
     "null",
     "null",
     "null",
     "null",
     "a\n\n\nb",
     {0, 10, 1},
     3,
     false,
     NULL},
    {"a token that shares its end",
     ADDED(10, "X", FLAGS(false, false, true, false, false)) "," ADDED(11, "\\n",
                                                                       FLAGS(false, false, false, false, false)),
     "null",
     "null",
     "null",
     "null",
     "X\na",
     {10, 11, 0},
     3,
     false,
     NULL},
    {"a template after a template sees a pair",
     "",
     "null",
     "null",
     "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"TemplateProcessing\",\"single\":[" SPECIAL("x") "," SEQ(
         "A") "],\"pair\":[]," TOKENS
              "},{\"type\":\"TemplateProcessing\",\"single\":[" SEQ("A") "],\"pair\":[" SEQ("A") "," SPECIAL(
                  "e") "," SEQ("B") "]," TOKENS "}]}",
     "null",
     "a",
     {4, 9, 0},
     3,
     false,
     NULL},
    {"RoBERTa's after a template",
     "",
     "null",
     "null",
     "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"TemplateProcessing\",\"single\":[" SPECIAL("x") "," SEQ(
         "A") "],\"pair\":[]," TOKENS "},{\"type\":\"RobertaProcessing\",\"sep\":[\"e\",9],\"cls\":[\"b\",1],\"trim_"
              "offsets\":true,\"add_prefix_space\":true}]}",
     "null",
     "a",
     {1, 4, 9, 9, 0, 9},
     6,
     false,
     NULL},
    {"a special token that its normalizer changes is shown",
     ADDED(10, "B", FLAGS(false, false, false, true, true)),
     "{\"type\":\"Lowercase\"}",
     "null",
     "null",
     "{\"type\":\"Fuse\"}",
     NULL,
     {10, 0},
     2,
     true,
     "ba"},
    {"each bad byte is a token for WordPiece",
     "",
     "null",
     "null",
     "null",
     "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"WordPiece\",\"prefix\":\"#\","
     "\"cleanup\":false}]}",
     NULL,
     {7, 0},
     2,
     false,
     "\xef\xbf\xbd a"},
    {"fractions are words", "", "null", SPLIT("\\\\w"), "null", "null", "\xc2\xbd'", {3}, 1, false, NULL},
    {"but not in a class", "", "null", SPLIT("[^\\\\W\\\\d_]"), "null", "null", "\xc2\xbd'", {8, 3}, 2, false, NULL},
    {"an empty match is not the first character",
     ADDED(10, "X", FLAGS(false, false, false, false, true)),
     REPLACE("^", "b"),
     META,
     "null",
     "null",
     "Xa",
     {10, 1, 0},
     3,
     false,
     NULL},
    {"both characters that the first became are first",
     "",
     "{\"type\":\"NFKC\"}",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Punctuation\",\"behavior\":\"Isolated\"}," META "]}",
     "null",
     "null",
     "\xe2\x80\xb3",
     {2, 6, 2, 6},
     4,
     false,
     NULL},
    {"nothing matches in an empty text",
     "",
     "null",
     "null",
     "null",
     "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"}," REPLACE("x*", "ab") "]}",
     NULL,
     {0},
     0,
     false,
     ""},
    {"sets inside sets", "", "null", SPLIT("[a-z&&[^b-d[x]]]"), "null", "null", "abxe", {1, 4}, 2, false, NULL},
    {"a token that its normalizer makes nothing of cuts the text",
     ADDED(10, "\\t", FLAGS(false, false, false, true, false)),
     "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
     "null",
     "null",
     "null",
     "ab",
     {0, 1},
     2,
     false,
     NULL},
    {"and takes space",
     ADDED(10, "z", FLAGS(false, false, true, true, false)),
     REPLACE("z", ""),
     "null",
     "null",
     "null",
     "a  b",
     {0, 10, 10, 1},
     4,
     false,
     NULL},
    {"newer than Unicode 8: no punctuation",
     "",
     "null",
     "{\"type\":\"Punctuation\",\"behavior\":\"Removed\"}",
     "null",
     "null",
     "a\xe2\xb9\x84"
     "b\xe2\x80\xa7",
     {0, 12, 1},
     3,
     false,
     NULL},
};

static tni_tokenizer *open_found(const found *f) {
  char *json = NULL;
  tni_tokenizer *t = NULL;
  tn_error err;
  tni_error_init(&err);
  if (asprintf(&json,
               "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[%s],\"normalizer\":%s,"
               "\"pre_tokenizer\":%s,\"post_processor\":%s,\"decoder\":%s,\"model\":" BPE "}",
               f->added, f->norm, f->pre, f->post, f->dec) < 0)
    json = NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(json);
  if (tni_tokenizer_parse(json, strlen(json), "found.json", &t, &err) != TN_OK)
    printf("\n  %s: %s", f->what, err.message);
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  free(json);
  return t;
}

static void check_text(const found *f, const tni_tokenizer *t) {
  tni_ids ids = {0};
  CU_ASSERT_EQUAL_FATAL(tni_tokenizer_encode(t, f->text, strlen(f->text), true, &ids, NULL), TN_OK);
  bool same = ids.n == f->n && (!f->n || memcmp(ids.v, f->ids, f->n * sizeof *ids.v) == 0);
  if (!same) printf("\n  %s:", f->what);
  for (size_t i = 0; !same && i < ids.n; i++) printf(" %d", (int)ids.v[i]);
  CU_ASSERT(same);
  tni_ids_free(&ids);
}

/* At once and id by id. */
static void check_back(const found *f, const tni_tokenizer *t) {
  char *text = NULL, sum[64] = "";
  const char *s;
  size_t len, got = 0;
  CU_ASSERT_EQUAL_FATAL(tni_tokenizer_decode(t, f->ids, f->n, f->skip, &text, &len, NULL), TN_OK);
  if (strcmp(text, f->back) != 0) printf("\n  %s: \"%s\"", f->what, text);
  CU_ASSERT_STRING_EQUAL(text, f->back);
  free(text);
  tni_detok *d = tni_detok_create(t, f->skip);
  CU_ASSERT_PTR_NOT_NULL_FATAL(d);
  for (size_t i = 0; i <= f->n; i++) {
    tn_status st = i < f->n ? tni_detok_push(d, f->ids[i], &s, &len, NULL) : tni_detok_finish(d, &s, &len, NULL);
    CU_ASSERT_EQUAL_FATAL(st, TN_OK);
    memcpy(sum + got, s, len);
    got += len;
  }
  CU_ASSERT_STRING_EQUAL(sum, f->back);
  tni_detok_destroy(d);
}

static void test_found(void) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    tni_tokenizer *t = open_found(&table[i]);
    if (table[i].text) check_text(&table[i], t);
    if (table[i].back) check_back(&table[i], t);
    tni_tokenizer_destroy(t);
  }
}

void add_found_suite(void) {
  CU_pSuite s = CU_add_suite("found by comparing", NULL, NULL);
  CU_add_test(s, "each cause", test_found);
}
