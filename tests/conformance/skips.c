/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conformance/skips.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_text(const char *path) {
  FILE *f = fopen(path, "r");
  char *text = NULL;
  size_t n = 0, got;
  char block[4096];
  while (f && (got = fread(block, 1, sizeof block, f)) > 0) {
    char *grown = realloc(text, n + got + 1);
    if (!grown) break;
    text = grown;
    memcpy(text + n, block, got);
    n += got;
    text[n] = 0;
  }
  if (f) fclose(f);
  return f && !text ? calloc(1, 1) : text;
}

/* The word at *p, terminated; *p moves behind it and the blanks that follow. */
static char *word(char **p) {
  char *w = *p;
  *p += strcspn(*p, " \t");
  if (**p) *(*p)++ = 0;
  *p += strspn(*p, " \t");
  return w;
}

bool skips_read(skips *s, const char *path) {
  memset(s, 0, sizeof *s);
  s->text = read_text(path);
  if (!s->text) return false;
  char *next = s->text;
  for (uint32_t line = 1; next; line++) {
    char *p = next, *end = strchr(p, '\n');
    next = end ? end + 1 : NULL;
    if (end) *end = 0;
    p += strspn(p, " \t");
    if (!*p || *p == '#') continue;
    skip *grown = realloc(s->at, (s->n + 1) * sizeof *grown);
    if (!grown) return false;
    s->at = grown;
    skip *k = &s->at[s->n];
    *k = (skip){.line = line};
    k->pattern = word(&p);
    k->way = word(&p);
    k->reason = p;
    if (!*k->way || !*k->reason) {
      fprintf(stderr, "%s:%u: not PATTERN WAYS REASON\n", path, line);
      return false;
    }
    s->n++;
  }
  return true;
}

skip *skips_find(const skips *s, const char *case_name, const char *way) {
  for (uint32_t i = 0; i < s->n; i++) {
    skip *k = &s->at[i];
    if ((!strcmp(k->way, "all") || !strcmp(k->way, way)) && !fnmatch(k->pattern, case_name, 0)) return k;
  }
  return NULL;
}

void skips_free(skips *s) {
  free(s->at);
  free(s->text);
}
