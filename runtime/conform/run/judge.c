/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker's end says of its case.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/run/judge.h"

void tni_cf_add_finding(tni_cf_result *r, const char *text) {
  r->verdict = TNI_CF_FAILED;
  json_t *s = json_string(text);
  json_array_append_new(r->findings, s ? s : json_string("(text that is not UTF-8)"));
}

/* The line of a sanitizer's report that says what it is, cut at its end; NULL: none. */
static char *sanitizer_finding(const char *output) {
  static const char *const marks[] = {"ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer",
                                      "WARNING: MemorySanitizer", "runtime error:"};
  for (size_t i = 0; output && i < sizeof marks / sizeof *marks; i++) {
    const char *at = strstr(output, marks[i]);
    if (!at) continue;
    while (at > output && at[-1] != '\n') at--;
    return strndup(at, strcspn(at, "\n"));
  }
  return NULL;
}

static bool take_line(tni_cf_result *r, const char *text, size_t n) {
  json_t *o = json_loadb(text, n, 0, NULL);
  const char *s = json_string_value(json_object_get(o, "fail")), *end;
  if (s) tni_cf_add_finding(r, s);
  if ((s = json_string_value(json_object_get(o, "note")))) json_array_append_new(r->notes, json_string(s));
  if ((s = json_string_value(json_object_get(o, "skip"))) && !r->skip) r->skip = strdup(s);
  end = json_string_value(json_object_get(o, "end"));
  if (end && !strcmp(end, "skip") && r->verdict == TNI_CF_PASSED) r->verdict = TNI_CF_SKIPPED;
  if (end && !strcmp(end, "fail")) r->verdict = TNI_CF_FAILED;
  const bool ended = end != NULL;
  json_decref(o);
  return ended;
}

void tni_cf_result_judge(tni_cf_result *r, tni_cf_child *c) {
  char text[256];
  bool ended = false;
  for (const char *p = c->report.s; p && *p;) {
    const size_t n = strcspn(p, "\n");
    ended |= take_line(r, p, n);
    p += n + (p[n] == '\n');
  }
  char *said = sanitizer_finding(c->output.s);
  if (said) tni_cf_add_finding(r, said);
  free(said);
  if (tni_cf_child_end(c, text, sizeof text))
    tni_cf_add_finding(r, text);
  else if (!ended)
    tni_cf_add_finding(r, "the process ended with status 0 before the case was done: something called exit");
  r->seconds = tni_cf_clock() - c->started;
  if (c->output.n && !(r->output = strdup(c->output.s))) tni_json_lacked();
}
