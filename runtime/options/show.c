/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/options/options.h"

enum { WIDTH = 100, LEFT_MOST = 34, TEXT = 1024 };

static const char *argument_text(const opt_row *r) { return r->argument ? r->argument : r->takes; }

/* "  -n, --predict N" */
static size_t left_text(const opt_row *r, char *out, size_t size) {
  char letter[8] = "    ";
  if (r->letter) snprintf(letter, sizeof letter, "-%c, ", r->letter);
  const int n = snprintf(out, size, "  %s--%s%s%s", letter, r->name, argument_text(r) ? " " : "",
                         argument_text(r) ? argument_text(r) : "");
  return n > 0 ? (size_t)n : 0;
}

static void default_text(const opt_row *r, char *out, size_t size) {
  *out = '\0';
  if (r->unset)
    snprintf(out, size, "%s", r->unset);
  else if (r->kind == OPT_INT)
    snprintf(out, size, "%d", *(const int *)r->value);
  else if (r->kind == OPT_LONG)
    snprintf(out, size, "%lld", *(const long long *)r->value);
  else if (r->kind == OPT_REAL)
    snprintf(out, size, "%g", *(const double *)r->value);
}

/* "keep the K most likely; 0: off (default: the model's)" */
static void right_text(const opt_row *r, char *out, size_t size) {
  char unset[256];
  default_text(r, unset, sizeof unset);
  snprintf(out, size, "%s%s%s%s%s", r->help, r->kind == OPT_LIST ? " (repeatable)" : "", *unset ? " (default: " : "",
           unset, *unset ? ")" : "");
}

/* Words from `column` on, lines of at most WIDTH; the cursor stands at `at`. */
static void put_wrapped(FILE *f, const char *text, size_t at, size_t column) {
  if (at + 2 > column) fprintf(f, "\n"), at = 0;
  fprintf(f, "%*s", (int)(column - at), "");
  for (size_t x = column; *text;) {
    const size_t n = strcspn(text, " ");
    if (x > column && x + 1 + n > WIDTH) {
      fprintf(f, "\n%*s", (int)column, "");
      x = column;
    } else if (x > column) {
      fputc(' ', f);
      x++;
    }
    fprintf(f, "%.*s", (int)n, text);
    x += n;
    text += n + strspn(text + n, " ");
  }
  fputc('\n', f);
}

static size_t left_width(const opts *o) {
  size_t most = 0;
  char left[256];
  for (int t = 0; t < OPT_TABLES; t++)
    for (const opt_row *r = o->tables[t].rows; r && r->name; r++) {
      const size_t n = r->help ? left_text(r, left, sizeof left) : 0;
      if (n > most && n <= LEFT_MOST) most = n;
    }
  return most + 2;
}

void opts_help(const opts *o, FILE *f) {
  const size_t column = left_width(o);
  for (int t = 0; t < OPT_TABLES; t++) {
    if (!o->tables[t].rows || !o->tables[t].rows->name || !o->tables[t].title) continue;
    fprintf(f, "\n%s\n", o->tables[t].title);
    for (const opt_row *r = o->tables[t].rows; r->name; r++) {
      char left[256], right[TEXT];
      if (!r->help) continue;
      const size_t n = left_text(r, left, sizeof left);
      right_text(r, right, sizeof right);
      fprintf(f, "%s", left);
      put_wrapped(f, right, n, column);
    }
  }
}

static void put_man_text(FILE *f, const char *text) {
  if (*text == '.' || *text == '\'') fprintf(f, "\\&");
  for (; *text; text++) {
    if (*text == '\\') fputc('\\', f);
    if (*text == '-') fputc('\\', f);
    fputc(*text, f);
  }
}

void opts_man(const opts *o, FILE *f) {
  for (int t = 0; t < OPT_TABLES; t++)
    for (const opt_row *r = o->tables[t].rows; r && r->name; r++) {
      char right[TEXT];
      if (!r->help) continue;
      fprintf(f, ".TP\n");
      if (r->letter) fprintf(f, "\\fB\\-%c\\fR, ", r->letter);
      fprintf(f, "\\fB\\-\\-");
      put_man_text(f, r->name);
      fprintf(f, "\\fR%s", argument_text(r) ? " \\fI" : "");
      if (argument_text(r)) put_man_text(f, argument_text(r));
      fprintf(f, "%s\n", argument_text(r) ? "\\fR" : "");
      right_text(r, right, sizeof right);
      put_man_text(f, right);
      fputc('\n', f);
    }
}

void opts_words(const opts *o, FILE *f) {
  for (int t = 0; t < OPT_TABLES; t++)
    for (const opt_row *r = o->tables[t].rows; r && r->name; r++)
      if (r->help) fprintf(f, "--%s\n", r->name);
}
