/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as a page: one file that needs no other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/base/markup.h"
#include "runtime/conform/run/cause.h"

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}"
    "h1{font-size:1.4em}table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:right;"
    "border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}"
    ".bad{color:#a40000}.cause{border-left:4px solid #a40000;padding:.1em 1em;margin:1em 0;background:#fbf4f4}"
    "code,pre{font:13px/1.4 "
    "ui-monospace,monospace}pre{white-space:pre-wrap;background:#f4f4f4;padding:.5em;margin:.4em 0}"
    "summary{cursor:pointer}.quiet{color:#666}";

static void put_list(const json_t *list, const char *class, FILE *f) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    fprintf(f, "<p%s>", class);
    tni_put_markup(json_string_value(json_array_get(list, i)), f);
    fputs("</p>\n", f);
  }
}

static void put_again(const tni_cf_report *r, const tni_cf_about *a, const tni_cf_result *c, FILE *f) {
  fputs("<pre>", f);
  tni_put_markup(a->replay, f);
  fputs(" --case ", f);
  tni_put_markup(c->name, f);
  fprintf(f, " --seed %llu</pre>\n", (unsigned long long)r->seed);
}

/* The cause, with its first case; the others by name. */
static void put_cause(const tni_cf_report *r, const tni_cf_about *a, const uint32_t *of, uint32_t first, FILE *f) {
  const tni_cf_result *c = &r->results[first];
  const uint32_t n = tni_cf_cause_size(r, of, first);
  fputs("<div class=cause>\n<p><b><code>", f);
  tni_put_markup(c->name, f);
  fprintf(f, "</code></b> <span class=quiet>%.1f s</span></p>\n", c->seconds);
  put_list(c->findings, "", f);
  put_list(c->notes, " class=quiet", f);
  if (c->output) {
    fputs("<details><summary>what it printed</summary><pre>", f);
    tni_put_markup(c->output, f);
    fputs("</pre></details>\n", f);
  }
  put_again(r, a, c, f);
  if (n > 1) {
    fprintf(f, "<details><summary>%u more of this kind</summary><ul>\n", n - 1);
    for (uint32_t i = first + 1; i < r->n; i++) {
      if (!of || of[i] != first) continue;
      fputs("<li><code>", f);
      tni_put_markup(r->results[i].name, f);
      fputs("</code></li>\n", f);
    }
    fputs("</ul></details>\n", f);
  }
  fputs("</div>\n", f);
}

static size_t family_of(const char *name) { return strcspn(name, "/"); }

static void put_families(const tni_cf_report *r, FILE *f) {
  fputs("<table><tr><th>family</th><th>passed</th><th>failed</th><th>not asked</th></tr>\n", f);
  for (uint32_t i = 0; i < r->n; i++) {
    const char *name = r->results[i].name;
    const size_t len = family_of(name);
    uint32_t of[3] = {0};
    bool seen = false;
    for (uint32_t k = 0; k < r->n; k++) {
      if (family_of(r->results[k].name) != len || strncmp(r->results[k].name, name, len) != 0) continue;
      seen = seen || k < i;
      of[r->results[k].verdict]++;
    }
    if (!seen)
      fprintf(f, "<tr><td>%.*s</td><td>%u</td><td%s>%u</td><td>%u</td></tr>\n", (int)len, name, of[0],
              of[1] ? " class=bad" : "", of[1], of[2]);
  }
  fputs("</table>\n", f);
}

/* Everything that did not fail, folded away. */
static void put_rest(const tni_cf_report *r, FILE *f) {
  fputs("<details><summary>all cases</summary>\n<table><tr><th>case</th><th>verdict</th><th>seconds</th></tr>\n", f);
  for (uint32_t i = 0; i < r->n; i++) {
    const tni_cf_result *c = &r->results[i];
    fputs("<tr><td><code>", f);
    tni_put_markup(c->name, f);
    fprintf(f, "</code><br><span class=quiet>");
    tni_put_markup(c->verdict == TNI_CF_SKIPPED ? c->skip : json_string_value(json_array_get(c->notes, 0)), f);
    fprintf(f, "</span></td><td%s>%s</td><td>%.1f</td></tr>\n", c->verdict == TNI_CF_FAILED ? " class=bad" : "",
            c->verdict == TNI_CF_PASSED   ? "passed"
            : c->verdict == TNI_CF_FAILED ? "failed"
                                          : "not asked",
            c->seconds);
  }
  fputs("</table></details>\n", f);
}

int tni_cf_report_html(const tni_cf_report *r, const tni_cf_about *a, const char *file) {
  FILE *f = fopen(file, "w");
  if (!f) return errno;
  uint32_t *of = tni_cf_causes(r), causes = 0;
  for (uint32_t i = 0; i < r->n; i++) causes += r->results[i].verdict == TNI_CF_FAILED && (!of || of[i] == i);
  fprintf(f, "<!doctype html><meta charset=utf-8><title>tenon conform</title><style>%s</style>\n<h1>tenon conform ",
          style);
  tni_put_markup(a->plugin, f);
  fprintf(f, "</h1>\n<p>%u cases: %u passed, <span%s>%u failed</span>, %u not asked; %.1f s, seed %llu", r->n,
          r->passed, r->failed ? " class=bad" : "", r->failed, r->skipped, r->seconds, (unsigned long long)r->seed);
  if (a->level) fputs(", level ", f), tni_put_markup(a->level, f);
  fputs("</p>\n", f);
  put_families(r, f);
  if (causes) fprintf(f, "<h2>%u cause%s</h2>\n", causes, causes == 1 ? "" : "s");
  for (uint32_t i = 0; i < r->n; i++)
    if (r->results[i].verdict == TNI_CF_FAILED && (!of || of[i] == i)) put_cause(r, a, of, i, f);
  put_rest(r, f);
  free(of);
  return tni_close_written(f);
}
