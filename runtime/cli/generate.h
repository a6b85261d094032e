/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of commands that generate text (run, trace).
 */
#ifndef TENON_CLI_GENERATE_H
#define TENON_CLI_GENERATE_H

#include "runtime/cli/cli.h"
#include "runtime/cli/sampling/sampling.h"

enum { GEN_ROWS = 32 };

typedef struct gen_opts {
  opt_row rows[GEN_ROWS]; /* the table of these options, for cli_parse */
  char *prompt, *file, *prompt_ids;
  int n, ids;
  sampling_opts sampling; /* sampling_finish it */
} gen_opts;

/* Values below 0 mean: not given. g stays where it is: its rows point into it. */
void gen_options(gen_opts *g);
/* The prompt: -p, -f, or standard input for "-f -". malloc'd. NULL with --prompt-ids. */
int gen_prompt(cli *c, const gen_opts *g, char **text, size_t *n);
/* Its ids: those of --prompt-ids, or what the tokenizer makes of the text. For tn_free. 0 or an exit code. */
int gen_ids(cli *c, const gen_opts *g, const tn_lm *lm, const char *text, size_t n, int32_t **ids, size_t *n_ids);
/* The model's defaults with the options on top. 0 or an exit code. */
int gen_params(cli *c, gen_opts *g, const tn_lm *lm, tn_gen_params *p);
/* Loads a language model; unsupported nodes are listed. */
int gen_load(cli *c, const char *path, uint32_t flags, tn_lm **lm);
/* The same with as long a context as config.json says and memory has room for, or --max-seq. */
int gen_load_fit(cli *c, const char *path, uint32_t flags, tn_lm **lm);
/* The same with caches for max_seq positions, more with --max-seq; 0: the library's default. */
int gen_load_for(cli *c, const char *path, uint32_t flags, int64_t max_seq, tn_lm **lm);
void gen_summary(const tn_gen_result *r);

#endif
