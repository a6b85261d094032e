/* SPDX-License-Identifier: Apache-2.0
 *
 * grammar-walk: no model, a vocabulary of single bytes. A line of JSON in, {"kind": 1, "text": SCHEMA, "texts": [..],
 * "draws": N, "seed": S}, a line out: {"accepted": [true, ..], "drawn": [..]} or {"error": .., "status": ..}. Draws are
 * texts that the grammar allows, bytes at random. check_schema_suite.py runs it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "runtime/llm/grammar/grammar.h"

enum { BYTES = 256, MOST = 160 };

static bool bytes_of(void *user, int32_t id, tni_str *out) {
  const char c = (char)id;
  (void)user;
  tni_str_add(out, &c, 1);
  return !out->failed;
}

static json_t *failed(tn_status st, const tn_error *e) {
  return json_pack("{s:s, s:s}", "error", e->message, "status", tni_status_name(st));
}

static void must(tn_status st, const tn_error *e) {
  if (st == TN_OK) return;
  fprintf(stderr, "grammar-walk: %s\n", e->message);
  exit(1);
}

static bool accepts(tni_grammar *g, const char *s, size_t n) {
  tn_error e;
  tni_error_init(&e);
  tni_text_reader *r = NULL;
  must(tni_text_reader_create(g, &r, &e), &e);
  const tn_status st = tni_text_reader_take(r, s, n, &e);
  if (st != TN_E_INVALID) must(st, &e);
  const bool ok = st == TN_OK && tni_text_reader_whole(r) != 0;
  tni_text_reader_destroy(r);
  return ok;
}

static uint64_t draw(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

/* A text of at most MOST bytes, or of the shortest end's; NULL where it would be no UTF-8. */
static json_t *draw_text(tni_grammar *g, uint64_t *state) {
  tn_error e;
  tni_error_init(&e);
  tni_text_reader *r = NULL;
  char text[4 * MOST];
  size_t n = 0;
  must(tni_text_reader_create(g, &r, &e), &e);
  const uint32_t shortest = tni_text_reader_ending(r);
  const size_t most = shortest > MOST ? shortest : MOST;
  while (n < sizeof text && n < most) {
    const int whole = tni_text_reader_whole(r);
    if (whole == 1 || (whole == 2 && draw(state) % 4 == 0)) break;
    float logits[BYTES] = {0};
    bool any = false;
    must(tni_text_reader_mask(r, (uint32_t)(most - n), logits, BYTES, &any, &e), &e);
    int32_t allowed[BYTES], k = 0;
    for (int32_t i = 0; i < BYTES; i++)
      if (!isinf(logits[i])) allowed[k++] = i;
    if (!any || !k) break;
    text[n] = (char)allowed[draw(state) % (uint64_t)k];
    must(tni_text_reader_take(r, text + n, 1, &e), &e);
    n++;
  }
  json_t *out = tni_text_reader_whole(r) ? json_stringn(text, n) : json_null();
  tni_text_reader_destroy(r);
  return out ? out : json_null();
}

static json_t *answer(const tni_vocab *vocab, const json_t *ask) {
  tn_error e;
  tni_error_init(&e);
  const json_t *text = json_object_get(ask, "text"), *texts = json_object_get(ask, "texts");
  tni_grammar *g = NULL;
  const tn_status st = tni_grammar_create(vocab, (uint32_t)json_integer_value(json_object_get(ask, "kind")),
                                          json_string_value(text), json_string_length(text), &g, &e);
  if (st != TN_OK) return failed(st, &e);
  json_t *accepted = json_array(), *drawn = json_array();
  for (size_t i = 0; i < json_array_size(texts); i++) {
    const json_t *t = json_array_get(texts, i);
    json_array_append_new(accepted, json_boolean(accepts(g, json_string_value(t), json_string_length(t))));
  }
  uint64_t state = (uint64_t)json_integer_value(json_object_get(ask, "seed"));
  for (json_int_t i = json_integer_value(json_object_get(ask, "draws")); i > 0; i--)
    json_array_append_new(drawn, draw_text(g, &state));
  tni_grammar_destroy(g);
  return json_pack("{s:o, s:o}", "accepted", accepted, "drawn", drawn);
}

int main(void) {
  tni_vocab *vocab = tni_vocab_create(BYTES, bytes_of, NULL);
  char *line = NULL;
  size_t cap = 0;
  if (!vocab) return 1;
  while (getline(&line, &cap, stdin) > 0) {
    json_t *ask = json_loads(line, JSON_ALLOW_NUL, NULL),
           *out = ask ? answer(vocab, ask) : json_pack("{s:s, s:s}", "error", "no JSON", "status", "INVALID");
    if (!out) abort();
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(out);
    json_decref(ask);
  }
  free(line);
  tni_vocab_destroy(vocab);
  return 0;
}
