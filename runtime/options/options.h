/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a command line, driven by tables. To add an option, add a row:
 *
 *   {"threads", 't', OPT_INT, &o.threads, "N", "0..256", "threads of the pool", "all processors"},
 *
 * Options and operands may stand in any order; "--" ends the options. "--name VALUE", "--name=VALUE", "-n VALUE",
 * "-nVALUE".
 */
#ifndef TENON_OPTIONS_H
#define TENON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum opt_kind {
  OPT_FLAG, /* int: 1 where it is given */
  OPT_INT,  /* int */
  OPT_LONG, /* long long */
  OPT_REAL, /* double, finite */
  OPT_TEXT, /* char *, a part of argv: the last one given */
  OPT_LIST, /* char **, ended by NULL: all that are given; freed by opts_finish */
  OPT_END
} opt_kind;

/* The value before parsing is the default. */
typedef struct opt_row {
  const char *name; /* without dashes */
  char letter;      /* 0: none */
  opt_kind kind;
  void *value;
  const char *argument; /* what --help calls the value; NULL: nothing, or the words of `takes` */
  const char *takes;    /* numbers: "0..256", "1..", ">0" and so on; texts: the words "a|b|c"; NULL: anything */
  const char *help;     /* NULL: for tests, not listed */
  const char *unset;    /* the default in words; NULL: a number's own value, nothing for others; "": nothing */
} opt_row;

#define OPT_ROWS_END \
  { NULL, 0, OPT_END, NULL, NULL, NULL, NULL, NULL }

enum { OPT_TABLES = 4 };

/* How `why` begins where memory is what is missing: no mistake of the user. */
#define OPTS_NO_MEMORY "out of memory"

typedef struct opts {
  struct {
    const char *title; /* NULL: the table is not there */
    const opt_row *rows;
  } tables[OPT_TABLES];
  bool help;         /* --help or -h stands somewhere: nothing was parsed */
  const char **rest; /* operands, ended by NULL */
  size_t n_rest;
  char why[512]; /* what is wrong with the command line */
  char **lists[32];
  size_t n_lists;
} opts;

/* Parses argv[1...]. false: o->why. Call opts_finish in both cases. */
bool opts_parse(opts *o, int argc, const char *const *argv);
void opts_finish(opts *o);

/* Rows in two columns, each table under its title. */
void opts_help(const opts *o, FILE *f);
/* The same as the paragraphs of a man page. */
void opts_man(const opts *o, FILE *f);
/* "--name" of each row, a line each. */
void opts_words(const opts *o, FILE *f);

/* The word of n that is nearest to what was typed, or NULL where none is near. */
const char *opts_near(const char *typed, const char *const *words, size_t n);
/* Takes "a|b|c" apart: calls fn with each word. */
void opts_each_word(const char *words, void (*fn)(void *ctx, const char *word, size_t n), void *ctx);
/* One value by its row. false: why. */
bool opts_value(opts *o, const opt_row *row, const char *shown, const char *text);

#endif
