/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/cli/page: weight formats side by side, as one HTML page. Every figure is what a command of this
 * program prints with --format json: the commands run one after another, each in a process of its own, and the page shows
 * them beside what they gave.
 */
#ifndef TENON_CLI_PAGE_H
#define TENON_CLI_PAGE_H

#include <jansson.h>
#include <tenon/tenon.h>

typedef struct cli_page {
  const char *model; /* a folder or a .onnx file */
  const char *out;   /* the page; replaced as a whole */
  const char *work;  /* a folder that keeps what commands gave, for a later call; NULL: OUT.partial, gone in the end */
  const char *text, *calibration; /* files; NULL: no quality; nothing calibrated */
  const char *prompt;             /* of the samples */
  const char *profile;            /* of the row `default`; NULL: the default one */
  const char *const *weights;     /* formats as "w4g:32", ended by NULL; NULL: the usual ones that the device states */
  const char *const *shared;      /* options that every command is given, ended by NULL */
  int max_tokens;                 /* of each text; 0: all */
  int sample;                     /* tokens of a sample */
  int n_prompt, n_gen, rounds;    /* what is timed */
  void (*progress)(const char *id, int done, int count); /* before each command; NULL id: the end */
} cli_page;

/* Runs the commands and writes the page. A command that fails leaves its figures out, and the page says why.
 * *figures: an object with the rows; the caller's. TN_E_CANCELLED; TN_E_IO: a file that cannot be written; else what the
 * model in f32 failed with. Nothing is printed. */
TN_MUST_CHECK tn_status cli_page_make(const cli_page *with, json_t **figures, tn_error *err);

#endif
