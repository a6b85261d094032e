/* SPDX-License-Identifier: Apache-2.0
 *
 * A chat template and its variables: byte 0 says how many of the bytes after it are JSON (times 8), the template
 * follows. What is no JSON object is replaced by one of a conversation.
 *
 * What must hold, beside that nothing breaks: what comes out is valid UTF-8, and the same again gives the same.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/jinja/jinja.h"
#include "tests/fuzz/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char usual[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\" h\\u00e9llo\\n\"},{\"role\":\"assistant\",\"content\":null,"
    "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1.5}}}]}],\"tools\":[{\"a\":[1,2]}],\"l\":[3,1,"
    "2],"
    "\"s\":\"a,b c\",\"add_generation_prompt\":true}";

static const tni_jinja_opts bounds = {.steps = 200000, .memory = 1 << 24, .output = 1 << 20, .now = 1000000000};

static void use(const tni_jinja *t, const json_t *vars, const json_t *trusted, tn_error *err) {
  tni_jinja_text text, again;
  tn_status st = tni_jinja_render(t, vars, trusted, &bounds, &text, err);
  fz_failure(st, err);
  if (st != TN_OK) return;
  if (tni_utf8_valid(text.v, text.n) != text.n) fz_finding("byte %zu is no UTF-8", tni_utf8_valid(text.v, text.n));
  for (size_t i = 0; i < text.n; i++)
    if (text.mine[i] > 1) fz_finding("byte %zu belongs to %d", i, text.mine[i]);
  st = tni_jinja_render(t, vars, trusted, &bounds, &again, err);
  if (st != TN_OK || again.n != text.n || memcmp(again.v, text.v, text.n) != 0)
    fz_finding("the same gives %zu bytes, then others", text.n);
  if (st == TN_OK) tni_jinja_text_finish(&again);
  tni_jinja_text_finish(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tni_jinja *t = NULL;
  tn_error err;
  tn_error_init(&err);
  if (n < 1 || (size_t)data[0] * 8 > n - 1) return 0;
  const size_t json = (size_t)data[0] * 8, size = n - 1 - json;
  json_t *vars = json ? json_loadb((const char *)data + 1, json, JSON_REJECT_DUPLICATES, NULL) : NULL;
  json_t *trusted = json_pack("{s:s}", "bos_token", "<s>");
  if (!json_is_object(vars)) {
    json_decref(vars);
    vars = json_loads(usual, 0, NULL);
  }
  char *copy = malloc(size ? size : 1); /* of its exact size: a read past the end is seen */
  if (copy && vars && trusted) {
    if (size) memcpy(copy, data + 1 + json, size);
    fz_clock_start(NULL, NULL);
    const tn_status st = tni_jinja_parse(copy, size, "template", &t, &err);
    fz_failure(st, &err);
    if (st == TN_OK) use(t, vars, trusted, &err);
    fz_clock_stop();
  }
  tni_jinja_destroy(t);
  free(copy);
  json_decref(vars);
  json_decref(trusted);
  return 0;
}
