/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker's end says of its cases.
 */
#include <stdio.h>
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

/* One line, and where the next begins. */
static const char *next_line(tni_cf_result *r, const char *p, bool *ended) {
  const size_t n = strcspn(p, "\n");
  *ended |= take_line(r, p, n);
  return p + n + (p[n] == '\n');
}

void tni_cf_result_judge(tni_cf_result *r, tni_cf_child *c) {
  char text[256];
  bool ended = false;
  for (const char *p = c->report.s; p && *p;) p = next_line(r, p, &ended);
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

uint32_t tni_cf_ended(const tni_cf_child *c) {
  uint32_t n = 0;
  for (const char *p = c->report.s; p && (p = strstr(p, "{\"end\"")); p++) n += p == c->report.s || p[-1] == '\n';
  return n;
}

bool tni_cf_sanitizer_spoke(const tni_cf_child *c) {
  char *said = sanitizer_finding(c->output.s);
  free(said);
  return said != NULL;
}

const char *tni_cf_result_take(tni_cf_result *r, const char *p, char *found, size_t n) {
  tni_cf_result one = {.findings = json_array(), .notes = json_array()};
  bool ended = false;
  while (p && *p && !ended) p = next_line(&one, p, &ended);
  const bool taken = ended && one.verdict != TNI_CF_FAILED;
  if (taken) {
    json_array_extend(r->notes, one.notes);
    r->verdict = one.verdict;
    r->skip = one.skip;
  } else {
    const char *first = json_string_value(json_array_get(one.findings, 0));
    snprintf(found, n, "%s", first ? first : "");
    free(one.skip);
  }
  json_decref(one.findings);
  json_decref(one.notes);
  return taken ? p : NULL;
}
