/* SPDX-License-Identifier: Apache-2.0
 *
 * Broken tokenizer files: each change of a good one must be refused with its status and a message that names the place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/tokenizer/tokenizer.h"
#include "tests/llm/llm_test.h"

typedef struct bad {
  const char *from, *to;
  tn_status st;
  const char *names; /* in the message */
} bad;

static const bad bpe_table[] = {
    {"\"ab c\"", "\"ab x\"", TN_E_INVALID, "model.merges[1]: \"x\" is not in model.vocab"},
    {"[\"a\",\"b\"]", "[\"b\",\"a\"]", TN_E_INVALID, "model.merges[0]: \"ba\" is not in model.vocab"},
    {"[\"a\",\"b\"]", "[\"a\"]", TN_E_INVALID, "model.merges[0][1]"},
    {"[\"a\",\"b\"]", "[\"a\",\"b\",\"c\"]", TN_E_LIMIT, "model.merges[0]"},
    {"[\"a\",\"b\"]", "[\"a\",7]", TN_E_INVALID, "model.merges[0][1]: expected a string, got an integer"},
    {"\"ab c\"", "\"abc\"", TN_E_INVALID, "model.merges[1]: expected two parts"},
    {"\"ab c\"", "\"ab c d\"", TN_E_INVALID, "model.merges[1]: expected two parts"},
    {"\"ab c\"", "7", TN_E_INVALID, "model.merges[1]: expected a string"},
    {"\"merges\":[", "\"merges\":7,\"m\":[", TN_E_INVALID, "model.merges: expected an array, got an integer"},
    {"\"merges\":[", "\"m\":[", TN_E_INVALID, "model.merges: missing"},
    {"\"b\":2", "\"b\":1", TN_E_INVALID, "have the same id 1"},
    {"\"b\":2", "\"a\":2", TN_E_INVALID, "duplicate object key"},
    {"\"b\":2", "\"b\":\"2\"", TN_E_INVALID, "model.vocab: token b"},
    {"\"b\":2", "\"b\":-2", TN_E_INVALID, "model.vocab: token b"},
    {"\"b\":2", "\"b\":2.5", TN_E_INVALID, "model.vocab: token b"},
    {"\"b\":2", "\"b\":4194304", TN_E_LIMIT, "model.vocab: id 4194304"},
    {"\"b\":2", "\"b\":9000000000000000000000", TN_E_INVALID, "model.vocab"},
    {"\"vocab\":{", "\"vocab\":[],\"v\":{", TN_E_INVALID, "model.vocab: expected an object, got an array"},
    {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", TN_E_INVALID, "model.vocab: expected an array, got an object"},
    {"\"type\":\"BPE\"", "\"type\":\"Trigram\"", TN_E_UNSUPPORTED, "model.type: model Trigram"},
    {"\"type\":\"BPE\"", "\"type\":7", TN_E_INVALID, "model.type: expected a string"},
    {"\"model\":{", "\"nodel\":{", TN_E_INVALID, "model: missing"},
    {"\"id\":6", "\"id\":5", TN_E_INVALID, "added_tokens[0]: <s> and abc have the same id 5"},
    {"\"id\":6", "\"id\":-1", TN_E_INVALID, "added_tokens[0].id"},
    {"\"id\":6", "\"id\":99999999", TN_E_LIMIT, "id 99999999"},
    {"\"content\":\"<s>\"", "\"content\":\"abc\"", TN_E_INVALID, "added_tokens[0]: abc has id 6 here and 5"},
    {"\"content\":\"<s>\"", "\"content\":\"\"", TN_E_INVALID, "added_tokens[0]: empty"},
    {"\"content\":\"<s>\"", "\"content\":[]", TN_E_INVALID, "added_tokens[0].content: expected a string, got an array"},
    {"\"lstrip\":false", "\"lstrip\":1", TN_E_INVALID, "added_tokens[0].lstrip: expected a boolean"},
    {"\"type\":\"Lowercase\"", "\"type\":\"Precompiled\"", TN_E_INVALID, "normalizer.precompiled_charsmap: missing"},
    {"\"type\":\"Lowercase\"", "\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"X\"}]",
     TN_E_UNSUPPORTED, "normalizer.normalizers[1]: normalizer X"},
    {"\"type\":\"Lowercase\"", "\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"", TN_E_UNSUPPORTED,
     "normalizer.pattern.Regex: regex: missing closing parenthesis"},
    {"\"type\":\"Lowercase\"", "\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"content\":\"\"",
     TN_E_UNSUPPORTED, "a set intersection"},
    {"\"type\":\"Lowercase\"", "\"type\":\"Replace\",\"pattern\":{\"Glob\":\"x\"},\"content\":\"\"", TN_E_UNSUPPORTED,
     "normalizer.pattern: pattern is neither"},
    {"\"type\":\"Lowercase\"", "\"type\":\"Replace\",\"pattern\":\"x\",\"content\":\"\"", TN_E_INVALID,
     "normalizer.pattern: expected an object"},
    {"\"type\":\"Lowercase\"", "\"type\":\"Prepend\"", TN_E_INVALID, "normalizer.prepend: missing"},
    {"{\"type\":\"Lowercase\"}", "[]", TN_E_INVALID, "normalizer: expected an object, got an array"},
    {"\"WhitespaceSplit\"", "\"UnicodeScripts\"", TN_E_UNSUPPORTED, "pre_tokenizer: pre-tokenizer UnicodeScripts"},
    {"\"WhitespaceSplit\"", "\"Metaspace\",\"replacement\":\"ab\"", TN_E_INVALID,
     "pre_tokenizer.replacement: expected one"},
    {"\"WhitespaceSplit\"", "\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"", TN_E_UNSUPPORTED,
     "pre_tokenizer.prepend_scheme: unknown scheme last"},
    {"\"WhitespaceSplit\"",
     "\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"add_prefix_space\":false", TN_E_INVALID,
     "contradict"},
    {"\"WhitespaceSplit\"", "\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"Eaten\"", TN_E_UNSUPPORTED,
     "pre_tokenizer.behavior: unknown behavior Eaten"},
    {"\"WhitespaceSplit\"", "\"FixedLength\",\"length\":0", TN_E_INVALID, "pre_tokenizer.length: 0 is not in"},
    {"\"WhitespaceSplit\"", "\"Sequence\"", TN_E_INVALID, "pre_tokenizer.pretokenizers: missing"},
    {"\"TemplateProcessing\"", "\"Magic\"", TN_E_UNSUPPORTED, "post_processor: post-processor Magic"},
    {"\"ids\":[6]", "\"ids\":[-6]", TN_E_INVALID, "post_processor.special_tokens.<s>.ids[0]: -6"},
    {"\"ids\":[6]", "\"ids\":6", TN_E_INVALID, "post_processor.special_tokens.<s>.ids: expected an array"},
    {"{\"SpecialToken\":{\"id\":\"<s>\"", "{\"SpecialToken\":{\"id\":\"</s>\"", TN_E_INVALID,
     "post_processor.single[0].SpecialToken.id: </s> is not in special_tokens"},
    {"{\"Sequence\":{\"id\":\"A\"", "{\"Sequence\":{\"id\":\"B\"", TN_E_INVALID, "post_processor.single[1].Sequence"},
    {"\"pair\":[]", "\"single\":[]", TN_E_INVALID, "duplicate object key"},
    {"{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}", "{\"Sequence\":{\"id\":\"A\"}}", TN_E_INVALID,
     "post_processor.single: sequence A is there 2 times"},
    {"\"type\":\"Fuse\"", "\"type\":\"Melt\"", TN_E_UNSUPPORTED, "decoder: decoder Melt"},
    {"\"type\":\"Fuse\"", "\"type\":\"Strip\",\"content\":\"\",\"start\":1,\"stop\":0", TN_E_INVALID,
     "decoder.content"},
    {"\"type\":\"Fuse\"", "\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0", TN_E_INVALID,
     "decoder.start: -1"},
    {"\"padding\":null", "\"padding\":{\"strategy\":\"BatchLongest\",\"pad_id\":-1}", TN_E_INVALID, "padding.pad_id"},
    {"\"truncation\":null", "\"truncation\":{\"max_length\":\"7\"}", TN_E_INVALID,
     "truncation.max_length: expected an integer"},
    {"{\"version\"", "[{\"version\"", TN_E_INVALID, "not valid JSON: line 1"},
    {"\"1.0\"", "\"\xff\"", TN_E_INVALID, "not valid JSON: line 1"},
};

/* Two units of a trie and the replacements "", "b". */
static const char unigram[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],"
    "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"CAAAAAAEAAAAAACAAGIA\"},"
    "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},\"post_processor\":null,"
    "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"ab\",-1.5],[\"a\",-2]],\"byte_fallback\":"
    "false}}";

static const bad unigram_table[] = {
    {"[\"a\",-2]", "[\"a\"]", TN_E_INVALID, "model.vocab[2]: expected [token, score]"},
    {"[\"a\",-2]", "[\"a\",\"-2\"]", TN_E_INVALID, "model.vocab[2]: expected [token, score]"},
    {"[\"a\",-2]", "[\"a\",-2,1]", TN_E_INVALID, "model.vocab[2]: expected [token, score]"},
    {"[\"a\",-2]", "[7,-2]", TN_E_INVALID, "model.vocab[2]: expected [token, score]"},
    {"[\"a\",-2]", "\"a\"", TN_E_INVALID, "model.vocab[2]: expected [token, score]"},
    {"\"vocab\":[", "\"vocab\":{},\"v\":[", TN_E_INVALID, "model.vocab: expected an array"},
    {"\"unk_id\":0", "\"unk_id\":3", TN_E_INVALID, "model.unk_id: 3 is not in 0..2"},
    {"\"unk_id\":0", "\"unk_id\":-1", TN_E_INVALID, "model.unk_id: -1 is not in"},
    {"\"byte_fallback\":false", "\"byte_fallback\":0", TN_E_INVALID, "model.byte_fallback: expected a boolean"},
    {"\"CAAA", "\"CAA?", TN_E_INVALID, "normalizer.precompiled_charsmap: not base64"},
    {"\"CAAA", "\"CAA", TN_E_INVALID, "normalizer.precompiled_charsmap: not base64"},
    {"\"CAAAAAAEAAAAAACAAGIA\"", "\"CAA=\"", TN_E_INVALID, "precompiled_charsmap: 2 bytes, expected at least 4"},
    {"\"CAAA", "\"EAAA", TN_E_INVALID, "precompiled_charsmap: a trie of 16 bytes in 11"},
    {"\"CAAA", "\"BwAA", TN_E_INVALID, "precompiled_charsmap: a trie of 7 bytes in 11"},
    {"\"CAAA", "\"AAAA", TN_E_INVALID, "precompiled_charsmap: a trie of 0 bytes in 11"},
    {"AGIA\"", "gGIA\"", TN_E_INVALID, "precompiled_charsmap: the replacements are not UTF-8"},
    {"\"CAAAAAAEAAAAAACAAGIA\"", "7", TN_E_INVALID, "precompiled_charsmap: expected a string, got an integer"},
};

static void try_table(const char *good_file, const bad *table, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char *json = edited(good_file, table[i].from, table[i].to);
    tn_error err;
    tni_error_init(&err);
    tni_tokenizer *t = NULL;
    tn_status st = tni_tokenizer_parse(json, strlen(json), "tiny.json", &t, &err);
    bool good = st == table[i].st && err.code == st && !t && strstr(err.message, table[i].names) &&
                strcmp(err.where, "tiny.json") == 0;
    if (!good) printf("\n  %s -> %s: status %d, %s: %s", table[i].from, table[i].to, (int)st, err.where, err.message);
    CU_ASSERT(good);
    tni_tokenizer_destroy(t);
    free(json);
  }
}

static void test_table(void) {
  try_table(tiny_tokenizer, bpe_table, sizeof bpe_table / sizeof *bpe_table);
  try_table(unigram, unigram_table, sizeof unigram_table / sizeof *unigram_table);
}

/* Nested Sequences end at the limit, and many steps at theirs, for each kind of component. */
static void test_nesting(void) {
  static const struct {
    const char *from, *open, *leaf;
  } kinds[] = {
      {"{\"type\":\"Lowercase\"}", "{\"type\":\"Sequence\",\"normalizers\":[", "{\"type\":\"NFC\"}"},
      {"{\"type\":\"WhitespaceSplit\"}", "{\"type\":\"Sequence\",\"pretokenizers\":[", "{\"type\":\"Whitespace\"}"},
      {"{\"type\":\"Fuse\"}", "{\"type\":\"Sequence\",\"decoders\":[", "{\"type\":\"Fuse\"}"}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (int depth = 1; depth <= 1000; depth = depth < 16 ? 16 : depth == 16 ? 17 : depth * 8) {
      char *body = NULL;
      size_t n = 0;
      FILE *f = open_memstream(&body, &n);
      for (int i = 0; i < depth; i++) fputs(kinds[k].open, f);
      fputs(kinds[k].leaf, f);
      for (int i = 0; i < depth; i++) fputs("]}", f);
      fclose(f);
      char *json = edited(tiny_tokenizer, kinds[k].from, body);
      tni_tokenizer *t = NULL;
      tn_status st = tni_tokenizer_parse(json, strlen(json), "tiny.json", &t, NULL);
      CU_ASSERT_EQUAL(st, depth <= 16 ? TN_OK : TN_E_LIMIT);
      tni_tokenizer_destroy(t);
      free(json);
      free(body);
    }
}

/* Whatever can be loaded is used: encode, decode, stream. */
static void use(const tni_tokenizer *t) {
  static const char text[] = "ABC abx  <s> \xe2\x96\x81\xf0\x9f\x98\x80 e\xcc\x81 don't 12";
  tni_ids ids = {0};
  char *back = NULL;
  size_t n = 0;
  tni_detok *d = tni_detok_create(t, false);
  if (tni_tokenizer_encode(t, text, sizeof text, true, &ids, NULL) == TN_OK) {
    if (tni_tokenizer_decode(t, ids.v, ids.n, false, &back, &n, NULL) != TN_OK) n = 0;
    for (size_t i = 0; d && i < ids.n; i++) {
      const char *s;
      size_t len;
      if (tni_detok_push(d, ids.v[i], &s, &len, NULL) != TN_OK) break;
    }
  }
  tni_detok_destroy(d);
  free(back);
  tni_ids_free(&ids);
}

static void try_bytes(const char *json, size_t n, size_t *loaded) {
  tni_tokenizer *t = NULL;
  tn_error err;
  tni_error_init(&err);
  char *copy = malloc(n ? n : 1); /* exact, so that a read past the end is seen */
  CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
  memcpy(copy, json, n);
  tn_status st = tni_tokenizer_parse(copy, n, "fuzz.json", &t, &err);
  free(copy);
  CU_ASSERT(st == TN_OK ? t && err.code == TN_OK : !t && err.code == st && *err.message);
  if (t) use(t);
  *loaded += t != NULL;
  tni_tokenizer_destroy(t);
}

static void test_truncated(void) {
  size_t n = strlen(tiny_tokenizer), loaded = 0;
  for (size_t i = 0; i < n; i++) try_bytes(tiny_tokenizer, i, &loaded);
  CU_ASSERT_EQUAL(loaded, 0);
  try_bytes(tiny_tokenizer, n, &loaded);
  CU_ASSERT_EQUAL(loaded, 1);
}

/* A file with every component, for flipping. */
static char *rich(void) {
  char *a = edited(
      tiny_tokenizer, "{\"type\":\"Lowercase\"}",
      "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"BertNormalizer\",\"lowercase\":true},{\"type\":\"NFKC\"},"
      "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+|(?i:x)\"},\"content\":\" \"},"
      "{\"type\":\"Prepend\",\"prepend\":\" \"},{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}]}");
  char *b = edited(a, "{\"type\":\"WhitespaceSplit\"}",
                   "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{L}+|[^"
                   "\\\\s\\\\d]{1,3}\"},"
                   "\"behavior\":\"MergedWithNext\",\"invert\":false},{\"type\":\"Metaspace\",\"replacement\":\"_\","
                   "\"prepend_scheme\":\"first\",\"split\":true},{\"type\":\"Digits\",\"individual_digits\":true},"
                   "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true}]}");
  char *c = edited(
      b, "{\"type\":\"Fuse\"}",
      "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Metaspace\",\"replacement\":\"_\"},{\"type\":\"ByteFallback\"},"
      "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},{\"type\":\"Fuse\"},"
      "{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"x\"},"
      "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":1}]}");
  char *d =
      edited(c, "\"padding\":null", "\"padding\":{\"strategy\":{\"Fixed\":8},\"direction\":\"Left\",\"pad_id\":0}");
  char *e = edited(d, "\"truncation\":null", "\"truncation\":{\"max_length\":8,\"direction\":\"Left\"}");
  free(a);
  free(b);
  free(c);
  free(d);
  return e;
}

static void flip(char *json) {
  size_t n = strlen(json), loaded = 0;
  uint32_t x = 1;
  try_bytes(json, n, &loaded);
  CU_ASSERT_EQUAL(loaded, 1);
  for (size_t i = 0; i < n; i++)
    for (int k = 0; k < 6; k++) {
      char old = json[i];
      x = x * 1664525u + 1013904223u;
      json[i] = k == 0 ? (char)(old ^ 1) : k == 1 ? '9' : k == 2 ? '-' : (char)(x >> 24);
      try_bytes(json, n, &loaded);
      json[i] = old;
    }
  CU_ASSERT(loaded > 100); /* else the flips only try the JSON parser */
  free(json);
}

/* A file with rules of which every unit counts. */
static char *with_rules(void) {
  static const uint32_t units[] = {8 << 10, 0, 0, 0, 0, 0x80000002, 0x80000000, 0x80000001};
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint8_t b[4 + 4 * 128 + 8] = {0, 2, 0, 0};
  char s[4 * sizeof b / 3 + 8];
  for (size_t i = 0; i < 128; i++) { /* "a" and "b" end with values, "c" leads on */
    uint32_t u = i < 8              ? units[i]
                 : i == (8 ^ 'a')   ? ('a' | 1 << 8 | (i ^ 5) << 10)
                 : i == (8 ^ 'b')   ? ('b' | 1 << 8 | (i ^ 6) << 10)
                 : i == (8 ^ 'c')   ? ('c' | (i ^ 120) << 10)
                 : i == (120 ^ 'd') ? ('d' | 1 << 8 | (i ^ 7) << 10)
                                    : 0;
    for (size_t k = 0; k < 4; k++) b[4 + 4 * i + k] = (uint8_t)(u >> (8 * k));
  }
  memcpy(b + 4 + 4 * 128, "\0x\0\xc3\xa4\0\0", 8);
  size_t n = 0;
  for (size_t i = 0; i + 2 < sizeof b; i += 3) {
    uint32_t v = (uint32_t)b[i] << 16 | (uint32_t)b[i + 1] << 8 | b[i + 2];
    for (int k = 18; k >= 0; k -= 6) s[n++] = digits[v >> k & 63];
  }
  s[n] = 0;
  return edited(unigram, "CAAAAAAEAAAAAACAAGIA", s);
}

static void test_flips(void) {
  flip(rich());
  flip(with_rules());
}

void add_malformed_suite(void) {
  CU_pSuite s = CU_add_suite("malformed tokenizer files", NULL, NULL);
  CU_add_test(s, "each change is refused by name", test_table);
  CU_add_test(s, "nesting", test_nesting);
  CU_add_test(s, "truncated", test_truncated);
  CU_add_test(s, "flipped bytes", test_flips);
}
