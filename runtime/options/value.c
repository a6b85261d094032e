/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/options/options.h"

typedef struct bounds {
  double least, most;
  bool above; /* least itself is too small */
} bounds;

/* "0..256", "1..", ">0", ">0..1". A number is read up to the dots: strtod would take the first of them. */
static bounds read_bounds(const char *takes, double least, double most) {
  bounds b = {least, most, false};
  char first[32];
  if (!takes) return b;
  b.above = *takes == '>';
  const char *dots = strstr(takes, "..");
  snprintf(first, sizeof first, "%.*s", dots ? (int)(dots - takes) - b.above : 31, takes + b.above);
  b.least = strtod(first, NULL);
  if (dots && dots[2]) b.most = strtod(dots + 2, NULL);
  return b;
}

static bool is_within(const bounds *b, double v) { return v <= b->most && (b->above ? v > b->least : v >= b->least); }

/* "--top-p takes a number from 0 to 1, not '7'" */
static bool refuse_number(opts *o, const opt_row *row, const char *shown, const char *text) {
  const char *what = row->kind == OPT_REAL ? "a number" : "a whole number",
             *dots = row->takes ? strstr(row->takes, "..") : NULL;
  char range[64] = "";
  if (row->takes && *row->takes == '>' && dots)
    snprintf(range, sizeof range, " above %.*s and at most %s", (int)(dots - row->takes) - 1, row->takes + 1, dots + 2);
  else if (row->takes && *row->takes == '>')
    snprintf(range, sizeof range, " above %s", row->takes + 1);
  else if (dots && dots[2])
    snprintf(range, sizeof range, " from %.*s to %s", (int)(dots - row->takes), row->takes, dots + 2);
  else if (dots)
    snprintf(range, sizeof range, ", %.*s or more", (int)(dots - row->takes), row->takes);
  snprintf(o->why, sizeof o->why, "%s takes %s%s, not '%.80s'", shown, what, range, text);
  return false;
}

static bool set_whole(opts *o, const opt_row *row, const char *shown, const char *text) {
  const bounds b = row->kind == OPT_INT ? read_bounds(row->takes, INT_MIN, INT_MAX)
                                        : read_bounds(row->takes, (double)LLONG_MIN, (double)LLONG_MAX);
  char *end = NULL;
  errno = 0;
  const long long v = strtoll(text, &end, 10);
  if (errno || end == text || *end || !is_within(&b, (double)v)) return refuse_number(o, row, shown, text);
  if (row->kind == OPT_INT)
    *(int *)row->value = (int)v;
  else
    *(long long *)row->value = v;
  return true;
}

static bool set_real(opts *o, const opt_row *row, const char *shown, const char *text) {
  const bounds b = read_bounds(row->takes, -HUGE_VAL, HUGE_VAL);
  char *end = NULL;
  const double v = strtod(text, &end);
  if (end == text || *end || !isfinite(v) || !is_within(&b, v)) return refuse_number(o, row, shown, text);
  *(double *)row->value = v;
  return true;
}

enum { MOST_WORDS = 16, LONGEST_WORD = 32 };

typedef struct word_list {
  char words[MOST_WORDS][LONGEST_WORD];
  const char *at[MOST_WORDS];
  size_t n;
} word_list;

static void add_word(void *ctx, const char *word, size_t n) {
  word_list *l = ctx;
  if (l->n == MOST_WORDS || n >= LONGEST_WORD) return;
  memcpy(l->words[l->n], word, n);
  l->words[l->n][n] = '\0';
  l->at[l->n] = l->words[l->n];
  l->n++;
}

/* "--against takes reference or host, not 'hsot': did you mean 'host'?" */
static bool check_word(opts *o, const opt_row *row, const char *shown, const char *text) {
  word_list l = {.n = 0};
  if (!row->takes) return true;
  opts_each_word(row->takes, add_word, &l);
  for (size_t i = 0; i < l.n; i++)
    if (strcmp(l.at[i], text) == 0) return true;
  int at = snprintf(o->why, sizeof o->why, "%s takes ", shown);
  for (size_t i = 0; i < l.n; i++)
    at += snprintf(o->why + at, sizeof o->why - (size_t)at, "%s%s",
                   i == 0         ? ""
                   : i + 1 == l.n ? " or "
                                  : ", ",
                   l.at[i]);
  at += snprintf(o->why + at, sizeof o->why - (size_t)at, ", not '%.80s'", text);
  const char *near = opts_near(text, l.at, l.n);
  if (near) snprintf(o->why + at, sizeof o->why - (size_t)at, ": did you mean '%s'?", near);
  return false;
}

/* The list is one of o->lists from its first element on. */
static bool add_to_list(opts *o, const opt_row *row, const char *text) {
  char **old = *(char ***)row->value;
  size_t n = 0, slot = 0;
  while (old && old[n]) n++;
  while (slot < o->n_lists && o->lists[slot] != old) slot++;
  char **grown = slot < sizeof o->lists / sizeof *o->lists ? realloc(old, (n + 2) * sizeof *grown) : NULL;
  if (!grown) return snprintf(o->why, sizeof o->why, OPTS_NO_MEMORY " for the options") < 0;
  grown[n] = (char *)text;
  grown[n + 1] = NULL;
  if (slot == o->n_lists) o->n_lists++;
  o->lists[slot] = grown;
  *(char ***)row->value = grown;
  return true;
}

bool opts_value(opts *o, const opt_row *row, const char *shown, const char *text) {
  switch (row->kind) {
    case OPT_FLAG:
      *(int *)row->value = 1;
      return true;
    case OPT_INT:
    case OPT_LONG:
      return set_whole(o, row, shown, text);
    case OPT_REAL:
      return set_real(o, row, shown, text);
    case OPT_TEXT:
      if (!check_word(o, row, shown, text)) return false;
      *(char **)row->value = (char *)text;
      return true;
    case OPT_LIST:
      return check_word(o, row, shown, text) && add_to_list(o, row, text);
    case OPT_END:
      break;
  }
  return false;
}
