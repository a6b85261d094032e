/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/junit.h"

/* Attribute text: markup escaped, what XML 1.0 forbids becomes '?'. */
static void escaped(FILE *f, const char *s) {
  for (; *s; s++) {
    if (*s == '&')
      fputs("&amp;", f);
    else if (*s == '<')
      fputs("&lt;", f);
    else if (*s == '"')
      fputs("&quot;", f);
    else
      fputc((unsigned char)*s < 32 ? '?' : *s, f);
  }
}

FILE *junit_open(const char *path, const char *suite) {
  FILE *f = path ? fopen(path, "w") : NULL;
  if (!f) return NULL;
  fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"", f);
  escaped(f, suite);
  fputs("\">\n", f);
  return f;
}

void junit_case(FILE *f, const char *kind, const char *name, double seconds, junit_result r, const char *why) {
  if (!f) return;
  fputs("<testcase classname=\"", f);
  escaped(f, kind);
  fputs("\" name=\"", f);
  escaped(f, name);
  fprintf(f, "\" time=\"%.4f\"", seconds);
  if (r == JUNIT_PASSED) {
    fputs("/>\n", f);
    return;
  }
  fputs(r == JUNIT_SKIPPED ? "><skipped message=\"" : "><failure message=\"", f);
  escaped(f, why ? why : "");
  fputs("\"/></testcase>\n", f);
}

int junit_close(FILE *f) {
  if (!f) return 1;
  fputs("</testsuite>\n</testsuites>\n", f);
  const int bad = ferror(f);
  return fclose(f) == 0 && !bad;
}
