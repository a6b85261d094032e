/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/cli.h"

void cli_table_init(cli_table *t, const char *const *header, size_t n_cols) {
  *t = (cli_table){.header = header, .n_cols = n_cols};
}

void cli_table_add(cli_table *t, ...) {
  if (t->n_rows == t->cap) {
    size_t cap = t->cap ? t->cap * 2 : 64;
    char **grown = realloc(t->cells, cap * t->n_cols * sizeof *grown);
    if (!grown) {
      tni_json_lacked();
      return;
    }
    t->cells = grown;
    t->cap = cap;
  }
  va_list ap;
  va_start(ap, t);
  for (size_t i = 0; i < t->n_cols; i++) {
    const char *text = va_arg(ap, const char *);
    t->cells[t->n_rows * t->n_cols + i] = cli_escape(text ? text : "");
  }
  va_end(ap);
  t->n_rows++;
}

void cli_table_finish(cli_table *t) {
  for (size_t i = 0; i < t->n_rows * t->n_cols; i++) free(t->cells[i]);
  free(t->cells);
  *t = (cli_table){0};
}

static const char *table_cell(const cli_table *t, size_t row, size_t col) {
  const char *s = t->cells[row * t->n_cols + col];
  return s ? s : "";
}

enum { WIDEST = 60 };

static size_t column_width(const cli_table *t, size_t c) {
  size_t width = strlen(t->header[c]);
  for (size_t k = 0; k < t->n_rows; k++)
    if (strlen(table_cell(t, k, c)) > width) width = strlen(table_cell(t, k, c));
  return width > WIDEST ? WIDEST : width;
}

static void print_text(const cli_table *t) {
  size_t *widths = calloc(t->n_cols, sizeof *widths);
  if (!widths) tni_json_lacked();
  for (size_t c = 0; widths && c < t->n_cols; c++) widths[c] = column_width(t, c);
  for (size_t r = 0; r <= t->n_rows; r++) {
    for (size_t c = 0; c < t->n_cols; c++) {
      const char *s = r ? table_cell(t, r - 1, c) : t->header[c];
      if (c + 1 < t->n_cols)
        printf("%-*s  ", widths ? (int)widths[c] : 0, s);
      else
        printf("%s\n", s);
    }
  }
  free(widths);
}

/* A bar would end the cell. */
static void print_md_cell(const char *s) {
  printf("| ");
  for (; *s; s++) printf(*s == '|' ? "\\|" : "%c", *s);
  putchar(' ');
}

static void print_md(const cli_table *t) {
  for (size_t r = 0; r < t->n_rows + 2; r++) {
    for (size_t c = 0; c < t->n_cols; c++)
      print_md_cell(r == 0 ? t->header[c] : r == 1 ? "---" : table_cell(t, r - 2, c));
    printf("|\n");
  }
}

static void print_csv_cell(const char *s) {
  if (!strpbrk(s, ",\"\n")) {
    printf("%s", s);
    return;
  }
  putchar('"');
  for (; *s; s++) {
    if (*s == '"') putchar('"');
    putchar(*s);
  }
  putchar('"');
}

static void print_csv(const cli_table *t) {
  for (size_t r = 0; r <= t->n_rows; r++)
    for (size_t c = 0; c < t->n_cols; c++) {
      print_csv_cell(r ? table_cell(t, r - 1, c) : t->header[c]);
      putchar(c + 1 < t->n_cols ? ',' : '\n');
    }
}

static void print_json(const cli_table *t) {
  json_t *list = json_array();
  for (size_t r = 0; r < t->n_rows; r++) {
    json_t *row = json_object();
    for (size_t c = 0; c < t->n_cols; c++) json_object_set_new(row, t->header[c], json_string(table_cell(t, r, c)));
    json_array_append_new(list, row);
  }
  json_t *o = json_pack("{s:o}", "rows", list);
  if (t->error) json_object_set(o, "error", t->error);
  cli_print_json(o, JSON_INDENT(1));
}

void cli_table_print(const cli_table *t, cli_format f) {
  static void (*const print[])(const cli_table *) = {print_text, print_md, print_csv, print_json};
  print[f](t);
}

int cli_table_end(cli *c, cli_table *t, tn_status st) {
  const bool one = st != TN_OK && t->n_rows && c->format == FMT_JSON;
  if (one) t->error = cli_error_json(c, st);
  if (st == TN_OK || t->n_rows) cli_table_print(t, c->format);
  json_decref(t->error);
  cli_table_finish(t);
  return st == TN_OK ? EXIT_DONE : one ? cli_exit_code(c, st) : cli_fail(c, st);
}
