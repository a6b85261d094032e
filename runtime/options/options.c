/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/options/options.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 96 };

static const opt_row *find_long(const opts *o, const char *name, size_t n) {
  for (int t = 0; t < OPT_TABLES; t++)
    for (const opt_row *r = o->tables[t].rows; r && r->name; r++)
      if (strlen(r->name) == n && strncmp(r->name, name, n) == 0) return r;
  return NULL;
}

static const opt_row *find_letter(const opts *o, char letter) {
  for (int t = 0; t < OPT_TABLES; t++)
    for (const opt_row *r = o->tables[t].rows; r && r->name; r++)
      if (letter && r->letter == letter) return r;
  return NULL;
}

/* "there is no option --tmep: did you mean --temp?" */
static bool refuse_unknown(opts *o, const char *name, size_t n) {
  const char *words[MOST_ROWS];
  char typed[64];
  size_t count = 0;
  for (int t = 0; t < OPT_TABLES; t++)
    for (const opt_row *r = o->tables[t].rows; r && r->name && count < MOST_ROWS; r++)
      if (r->help) words[count++] = r->name;
  snprintf(typed, sizeof typed, "%.*s", (int)(n < sizeof typed ? n : sizeof typed - 1), name);
  const char *near = opts_near(typed, words, count);
  const int at = snprintf(o->why, sizeof o->why, "there is no option --%s", typed);
  if (near) snprintf(o->why + at, sizeof o->why - (size_t)at, ": did you mean --%s?", near);
  return false;
}

static bool refuse_missing(opts *o, const opt_row *row, const char *shown) {
  snprintf(o->why, sizeof o->why, "%s needs a value: %s", shown, row->argument ? row->argument : row->takes);
  return false;
}

/* What follows "--". Returns how many words of argv it took, 0: o->why. */
static int take_long(opts *o, const char *text, const char *next) {
  const size_t n = strcspn(text, "=");
  const opt_row *row = find_long(o, text, n);
  char shown[64];
  if (!row) return refuse_unknown(o, text, n);
  snprintf(shown, sizeof shown, "--%s", row->name);
  if (row->kind == OPT_FLAG && text[n]) {
    snprintf(o->why, sizeof o->why, "%s takes no value", shown);
    return 0;
  }
  const bool takes_next = row->kind != OPT_FLAG && !text[n];
  if (takes_next && !next) return refuse_missing(o, row, shown);
  return opts_value(o, row, shown, text[n] ? text + n + 1 : next) ? 1 + takes_next : 0;
}

/* Letters after one "-": flags, the last may have a value. */
static int take_letters(opts *o, const char *text, const char *next) {
  for (; *text; text++) {
    const opt_row *row = find_letter(o, *text);
    char shown[] = {'-', *text, '\0'};
    if (!row) {
      const opt_row *meant = text[1] ? find_long(o, text, strcspn(text, "=")) : NULL;
      snprintf(o->why, sizeof o->why, "there is no option -%c%s%s%s", *text, meant ? ": did you mean --" : "",
               meant ? meant->name : "", meant ? "?" : "");
      return 0;
    }
    if (row->kind == OPT_FLAG) {
      if (!opts_value(o, row, shown, NULL)) return 0;
      continue;
    }
    if (!text[1] && !next) return refuse_missing(o, row, shown);
    return opts_value(o, row, shown, text[1] ? text + 1 : next) ? 1 + !text[1] : 0;
  }
  return 1;
}

/* How many words of argv an option takes, without a look at its value. */
static int words_of(const opts *o, const char *word) {
  const opt_row *row = NULL;
  if (word[0] != '-' || !word[1]) return 1;
  if (word[1] == '-') {
    row = find_long(o, word + 2, strlen(word + 2));
    return row && row->kind != OPT_FLAG ? 2 : 1;
  }
  for (const char *p = word + 1; *p; p++) {
    row = find_letter(o, *p);
    if (row && row->kind != OPT_FLAG) return p[1] ? 1 : 2;
  }
  return 1;
}

/* --help counts wherever it stands, also after a mistake. */
static bool wants_help(const opts *o, int argc, const char *const *argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i += words_of(o, argv[i]))
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "-?") == 0) return true;
  return false;
}

bool opts_parse(opts *o, int argc, const char *const *argv) {
  o->rest = calloc((size_t)(argc > 0 ? argc : 0) + 1, sizeof *o->rest);
  if (!o->rest) return snprintf(o->why, sizeof o->why, OPTS_NO_MEMORY " for the options") < 0;
  o->help = wants_help(o, argc, argv);
  for (int i = 1, took; i < argc && !o->help; i += took) {
    const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
    took = 1;
    if (strcmp(word, "--") == 0) {
      while (++i < argc) o->rest[o->n_rest++] = argv[i];
    } else if (word[0] == '-' && word[1]) {
      took = word[1] == '-' ? take_long(o, word + 2, next) : take_letters(o, word + 1, next);
      if (!took) return false;
    } else {
      o->rest[o->n_rest++] = word;
    }
  }
  return true;
}

void opts_finish(opts *o) {
  for (size_t i = 0; i < o->n_lists; i++) free(o->lists[i]);
  free(o->rest);
  o->n_lists = o->n_rest = 0;
  o->rest = NULL;
}
