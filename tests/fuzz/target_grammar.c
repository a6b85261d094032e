/* SPDX-License-Identifier: Apache-2.0
 *
 * Grammars and texts of them: byte 0 says JSON Schema, regex or GBNF, byte 1 how many bytes at the end choose tokens;
 * the grammar lies between. The vocabulary has each byte and a few longer tokens.
 *
 * What must hold, beside that nothing breaks: a text goes on or is whole; what the mask lets through is taken, and what
 * it forbids is not; within as many tokens as `ending` says the text comes to its end; what is whole is UTF-8, and
 * JSON of a schema.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/llm/grammar/grammar.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { FREE_TOKENS = 24, ENDING_MOST = 400, SPARE = 4 };

static const char *const words[] = {"\"",   "{\"",      "\":",          "\",\"", "\"}", "true", "false", "null", "12",
                                    "0.5",  "e-",       "[]",           "a",     "ab",  "abc",  " ",     "  ",   "\n",
                                    "\xc3", "\xc3\xa9", "\xe2\x82\xac", "\\u00", ""};
enum { WORDS = sizeof words / sizeof *words, TOKENS = 256 + WORDS };

static tni_vocab *vocab;

static bool token_bytes(void *user, int32_t id, tni_str *out) {
  (void)user;
  const char one = (char)id, *s = id < 256 ? &one : words[id - 256];
  tni_str_add(out, s, id < 256 ? 1 : strlen(s));
  return true;
}

typedef struct reading {
  tni_text_reader *r;
  fz_bytes choices;
  tni_str text;
  uint32_t kind;
} reading;

static void check_whole(const reading *x) {
  if (tni_text_reader_whole(x->r) == 0) return;
  const size_t valid = tni_utf8_valid(x->text.v ? x->text.v : "", x->text.n);
  if (valid != x->text.n) fz_finding("byte %zu of a whole text is no UTF-8: %.*s", valid, (int)x->text.n, x->text.v);
  if (x->kind != TNI_GRAMMAR_SCHEMA) return;
  json_error_t e;
  json_t *j = tni_json_loadb(x->text.v ? x->text.v : "", x->text.n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
  if (!j) fz_finding("a whole text is no JSON (%s): %.*s", e.text, (int)x->text.n, x->text.v);
  json_decref(j);
}

/* A token that the mask forbids: it is refused, and the reader stays where it is. */
static void try_forbidden(reading *x, const float *logits) {
  const uint32_t from = fz_below(&x->choices, TOKENS);
  const int whole = tni_text_reader_whole(x->r);
  for (uint32_t k = 0; k < TOKENS; k++) {
    const uint32_t id = (from + k) % TOKENS;
    const tni_view v = vocab->bytes[id];
    tn_error err;
    tn_error_init(&err);
    if (logits[id] == 0 || !v.n) continue;
    const tn_status st = tni_text_reader_take(x->r, v.v, v.n, &err);
    fz_failure(st, &err);
    if (st == TN_OK) fz_finding("token %u is forbidden and taken", id);
    if (tni_text_reader_whole(x->r) != whole) fz_finding("token %u is refused and changes the text", id);
    return;
  }
}

/* One token more; left: as the mask has it. False: the text has ended, or something is too large. */
static bool go_on(reading *x, uint32_t left) {
  float logits[TOKENS] = {0};
  bool any = false;
  tn_error err;
  tn_error_init(&err);
  tn_status st = tni_text_reader_mask(x->r, left, logits, TOKENS, &any, &err);
  fz_failure(st, &err);
  if (st != TN_OK) return false;
  const int whole = tni_text_reader_whole(x->r);
  if (any && whole == 2) fz_finding("a text that has ended goes on");
  if (!any && whole == 0) fz_finding("a text neither ends nor goes on, %u tokens before its end", left);
  if (!any) return false;
  if (left == UINT32_MAX) try_forbidden(x, logits);
  uint32_t id = fz_below(&x->choices, TOKENS);
  for (uint32_t k = 0; k < TOKENS && logits[id] != 0; k++) id = (id + 1) % TOKENS;
  const tni_view v = vocab->bytes[id];
  if (logits[id] != 0 || !v.n) fz_finding("the mask says that a token follows, and has none");
  st = tni_text_reader_take(x->r, v.v, v.n, &err);
  fz_failure(st, &err);
  if (st != TN_OK && st != TN_E_NO_MEMORY) fz_finding("token %u is let through and refused: %s", id, err.message);
  tni_str_add(&x->text, v.v, v.n);
  if (st == TN_OK) check_whole(x);
  return st == TN_OK;
}

static void read_texts(tni_grammar *g, reading *x) {
  tn_error err;
  tn_error_init(&err);
  const tn_status st = tni_text_reader_create(g, &x->r, &err);
  fz_failure(st, &err);
  if (st != TN_OK) return;
  check_whole(x);
  bool ok = true;
  for (int i = 0; ok && i < FREE_TOKENS && x->choices.n; i++) ok = go_on(x, UINT32_MAX);
  const uint32_t ending = tni_text_reader_ending(x->r);
  if (ok && ending <= ENDING_MOST) {
    uint32_t left = ending + fz_below(&x->choices, SPARE);
    while (left && ok) ok = go_on(x, left--);
    if (!left && ok && tni_text_reader_whole(x->r) == 0) fz_finding("no end within %u tokens", ending);
  }
  tni_text_reader_destroy(x->r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (!vocab && !(vocab = tni_vocab_create(TOKENS, token_bytes, NULL))) fz_finding("no vocabulary");
  if (n < 2 || n - 2 < data[1]) return 0;
  reading x = {.kind = 1 + data[0] % 3, .choices = {data + n - data[1], data[1]}};
  const size_t size = n - 2 - data[1];
  tni_grammar *g = NULL;
  tn_error err;
  tn_error_init(&err);
  char *copy = malloc(size ? size : 1); /* of its exact size: a read past the end is seen */
  if (!copy) return 0;
  if (size) memcpy(copy, data + 2, size);
  fz_clock_start(NULL, NULL);
  const tn_status st = tni_grammar_create(vocab, x.kind, copy, size, &g, &err);
  fz_failure(st, &err);
  if (st == TN_OK) read_texts(g, &x);
  fz_clock_stop();
  tni_grammar_destroy(g);
  tni_str_finish(&x.text);
  free(copy);
  return 0;
}
