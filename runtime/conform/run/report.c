/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/run/cause.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/base/markup.h"

static const char *const verdict_words[] = {"pass", "fail", "skip"};

static size_t family_index(const char *name) { return strcspn(name, "/"); }

/* --- text -------------------------------------------------------------------------------------------------------- */

static void print_strings(const json_t *a, const char *prefix, FILE *f) {
  for (size_t i = 0; i < json_array_size(a); i++) fprintf(f, "%s%s\n", prefix, json_string_value(json_array_get(a, i)));
}

/* The last lines of what the worker printed. */
static void print_output(const char *output, FILE *f) {
  enum { MOST = 12 };
  const size_t n = output ? strlen(output) : 0;
  size_t at = n, lines = 0;
  while (at > 0 && lines < MOST)
    if (output[--at] == '\n' && at + 1 < n) lines++;
  if (lines == MOST) at++;
  for (const char *p = output ? output + at : NULL; p && *p;) {
    const size_t len = strcspn(p, "\n");
    fprintf(f, "    | %.*s\n", (int)(len > 200 ? 200 : len), p);
    p += len + (p[len] == '\n');
  }
}

static void print_case(const tni_cf_report *r, const tni_cf_about *a, const tni_cf_result *c, FILE *f) {
  if (c->verdict != TNI_CF_FAILED && !a->verbose) return;
  fprintf(f, "%-4s  %s  (%.1f s)\n", c->verdict == TNI_CF_FAILED ? "FAIL" : verdict_words[c->verdict], c->name,
          c->seconds);
  print_strings(c->findings, "    ", f);
  print_strings(c->notes, "    note: ", f);
  if (c->skip && c->verdict == TNI_CF_SKIPPED) fprintf(f, "    not asked: %s\n", c->skip);
  if (c->verdict != TNI_CF_FAILED) return;
  print_output(c->output, f);
  fprintf(f, "    again: %s --case %s --seed %llu\n", a->replay, c->name, (unsigned long long)r->seed);
}

typedef struct counts {
  uint32_t of[3];
} counts;

static counts results_count(const tni_cf_report *r, const char *name) {
  counts c = {{0}};
  for (uint32_t i = 0; i < r->n; i++)
    if (family_index(r->results[i].name) == family_index(name) &&
        !strncmp(r->results[i].name, name, family_index(name)))
      c.of[r->results[i].verdict]++;
  return c;
}

static bool first_of_family(const tni_cf_report *r, uint32_t at) {
  const char *name = r->results[at].name;
  for (uint32_t i = 0; i < at; i++)
    if (family_index(r->results[i].name) == family_index(name) &&
        !strncmp(r->results[i].name, name, family_index(name)))
      return false;
  return true;
}

/* The others with the cause of `first`, by name. */
static void print_others(const tni_cf_report *r, const uint32_t *of, uint32_t first, FILE *f) {
  enum { NAMED = 4 };
  const uint32_t n = tni_cf_cause_size(r, of, first);
  uint32_t named = 0;
  if (n < 2) return;
  fprintf(f, "    %u more of this kind: ", n - 1);
  for (uint32_t i = first + 1; i < r->n && named < NAMED; i++)
    if (of[i] == first) fprintf(f, "%s%s", named++ ? ", " : "", r->results[i].name);
  fprintf(f, n - 1 > NAMED ? ", ... (-v shows them all)\n" : "\n");
}

/* One cause, one finding: with -v every case. */
static void print_cases(const tni_cf_report *r, const tni_cf_about *a, FILE *f) {
  uint32_t *of = a->verbose ? NULL : tni_cf_causes(r);
  for (uint32_t i = 0; i < r->n; i++) {
    if (of && of[i] != i) continue;
    print_case(r, a, &r->results[i], f);
    if (of && r->results[i].verdict == TNI_CF_FAILED) print_others(r, of, i, f);
  }
  free(of);
}

void tni_cf_report_text(const tni_cf_report *r, const tni_cf_about *a, FILE *f) {
  print_cases(r, a, f);
  for (uint32_t i = 0; i < r->n; i++) {
    if (!first_of_family(r, i)) continue;
    const counts c = results_count(r, r->results[i].name);
    fprintf(f, "%-10.*s %4u passed %4u failed %4u not asked\n", (int)family_index(r->results[i].name),
            r->results[i].name, c.of[0], c.of[1], c.of[2]);
  }
  fprintf(f, "%s: %u cases: %u passed, %u failed, %u not asked, %.1f s, seed %llu\n", a->plugin, r->n, r->passed,
          r->failed, r->skipped, r->seconds, (unsigned long long)r->seed);
  uint32_t late = 0;
  for (uint32_t i = 0; i < r->n; i++) late += r->results[i].skip && !strcmp(r->results[i].skip, TNI_CF_TIME_UP);
  if (late) fprintf(f, "%u cases were not asked because %s: give it more minutes, or --case\n", late, TNI_CF_TIME_UP);
  const char *why = json_string_value(json_object_get(r->listing, "why"));
  if (why) fprintf(f, "%s: %s\n", a->plugin, why);
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

json_t *tni_cf_report_json(const tni_cf_report *r, const tni_cf_about *a) {
  json_t *cases = json_array();
  uint32_t *of = tni_cf_causes(r);
  for (uint32_t i = 0; i < r->n; i++) {
    const tni_cf_result *c = &r->results[i];
    json_t *o = json_pack("{s:s, s:s, s:f, s:O, s:O}", "name", c->name, "verdict", verdict_words[c->verdict], "seconds",
                          c->seconds, "findings", c->findings, "notes", c->notes);
    if (c->skip && c->verdict == TNI_CF_SKIPPED) json_object_set_new(o, "skip", json_string(c->skip));
    json_t *output = c->output && c->verdict == TNI_CF_FAILED ? json_string(c->output) : NULL;
    if (output) json_object_set_new(o, "output", output);
    if (of && of[i] != i) json_object_set_new(o, "cause", json_string(r->results[of[i]].name));
    json_array_append_new(cases, o);
  }
  free(of);
  return json_pack("{s:s, s:s?, s:I, s:s, s:I, s:I, s:I, s:f, s:b, s:O?, s:o}", "plugin", a->plugin, "level", a->level,
                   "seed", (json_int_t)r->seed, "replay", a->replay, "passed", (json_int_t)r->passed, "failed",
                   (json_int_t)r->failed, "skipped", (json_int_t)r->skipped, "seconds", r->seconds, "interrupted",
                   r->interrupted, "listing", r->listing, "cases", cases);
}

/* --- JUnit ------------------------------------------------------------------------------------------------------- */

static void xml_case(const tni_cf_report *r, const tni_cf_about *a, const tni_cf_result *c, FILE *f) {
  fprintf(f, "    <testcase classname=\"conform.%.*s\" name=\"", (int)family_index(c->name), c->name);
  tni_put_markup(c->name, f);
  fprintf(f, "\" time=\"%.3f\">\n", c->seconds);
  if (c->verdict == TNI_CF_SKIPPED) {
    fputs("      <skipped message=\"", f);
    tni_put_markup(c->skip, f);
    fputs("\"/>\n", f);
  } else if (c->verdict == TNI_CF_FAILED) {
    fputs("      <failure message=\"", f);
    tni_put_markup(json_string_value(json_array_get(c->findings, 0)), f);
    fputs("\">", f);
    for (size_t i = 0; i < json_array_size(c->findings); i++) {
      tni_put_markup(json_string_value(json_array_get(c->findings, i)), f);
      fputc('\n', f);
    }
    tni_put_markup(a->replay, f);
    fprintf(f, " --case ");
    tni_put_markup(c->name, f);
    fprintf(f, " --seed %llu</failure>\n", (unsigned long long)r->seed);
    if (c->output) {
      fputs("      <system-err>", f);
      tni_put_markup(c->output, f);
      fputs("</system-err>\n", f);
    }
  }
  fputs("    </testcase>\n", f);
}

int tni_cf_report_junit(const tni_cf_report *r, const tni_cf_about *a, const char *file) {
  FILE *f = fopen(file, "w");
  if (!f) return errno;
  fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"", f);
  tni_put_markup(a->plugin, f);
  fprintf(f, "\" tests=\"%u\" failures=\"%u\" skipped=\"%u\" time=\"%.3f\">\n", r->n, r->failed, r->skipped,
          r->seconds);
  for (uint32_t i = 0; i < r->n; i++) {
    if (!first_of_family(r, i)) continue;
    const char *name = r->results[i].name;
    const counts c = results_count(r, name);
    fprintf(f, "  <testsuite name=\"%.*s\" tests=\"%u\" failures=\"%u\" skipped=\"%u\">\n", (int)family_index(name),
            name, c.of[0] + c.of[1] + c.of[2], c.of[1], c.of[2]);
    for (uint32_t k = i; k < r->n; k++)
      if (family_index(r->results[k].name) == family_index(name) &&
          !strncmp(r->results[k].name, name, family_index(name)))
        xml_case(r, a, &r->results[k], f);
    fputs("  </testsuite>\n", f);
  }
  fputs("</testsuites>\n", f);
  return tni_close_written(f);
}
