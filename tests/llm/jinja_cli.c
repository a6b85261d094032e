/* SPDX-License-Identifier: Apache-2.0
 *
 * Renders templates for check_jinja.py and check_templates.py. Each line of standard input is a JSON object with
 * "template" (or "again": the one before), "vars", "trusted" and "now"; each line of output {"text": ..., "mine":
 * [[from, to], ...]} or {"error": ...}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/jinja/jinja.h"

/* Runs of bytes of the template, as offsets. */
static json_t *runs(const tni_jinja_text *t) {
  json_t *list = json_array();
  for (size_t i = 0; i < t->n;) {
    size_t end = i;
    while (end < t->n && t->mine[end] == t->mine[i]) end++;
    if (t->mine[i]) json_array_append_new(list, json_pack("[I, I]", (json_int_t)i, (json_int_t)end));
    i = end;
  }
  return list;
}

static json_t *render(const json_t *in, tni_jinja **kept) {
  tn_long_error err;
  tni_jinja_text text;
  tni_long_error_init(&err);
  const char *source = json_string_value(json_object_get(in, "template"));
  tn_status st = TN_OK;
  if (source) {
    tni_jinja_destroy(*kept);
    *kept = NULL;
    st = tni_jinja_parse(source, strlen(source), "template", kept, &err.error);
  }
  const tni_jinja_opts o = {.now = json_integer_value(json_object_get(in, "now"))};
  if (st == TN_OK && *kept)
    st = tni_jinja_render(*kept, json_object_get(in, "vars"), json_object_get(in, "trusted"), &o, &text, &err.error);
  if (st != TN_OK || !*kept) return json_pack("{s:s}", "error", tni_error_text(&err.error));
  json_t *out = json_pack("{s:o, s:o}", "text", json_stringn(text.v, text.n), "mine", runs(&text));
  tni_jinja_text_finish(&text);
  return out;
}

int main(void) {
  char *line = NULL;
  size_t cap = 0;
  tni_jinja *kept = NULL;
  for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
    json_t *in = json_loadb(line, (size_t)n, 0, NULL),
           *out = in ? render(in, &kept) : json_pack("{s:s}", "error", "no JSON");
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(in);
    json_decref(out);
  }
  tni_jinja_destroy(kept);
  free(line);
  return 0;
}
