/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/cli/sampling: how run, chat and trace choose tokens, and what form the text has.
 */
#ifndef TENON_CLI_SAMPLING_H
#define TENON_CLI_SAMPLING_H

#include <tenon/lm.h>

#include "runtime/options/options.h"

enum { SAMPLING_ROWS = 24 };

typedef struct sampling_opts {
  char *seed, *schema, *grammar_file, *regex;
  char **stop;
  char *draft;      /* a model's folder */
  tn_lm *draft_lm; /* of sampling_draft */
  int top_k, ignore_eos, lookup, draft_tokens, min_tokens, dry_length; /* below 0: not given */
  double temp, top_p, min_p, repeat, typical, mirostat, frequency, presence, dry;
  tn_grammar *grammar; /* of sampling_params */
  char why[128];       /* a mistake in the command line; "": none */
} sampling_opts;

/* Writes rows of options that point into s, without an end; how many. */
size_t sampling_rows(sampling_opts *s, opt_row *rows);
/* The model's defaults with the options on top. TN_E_INVALID with s->why: a mistake in the command line. */
tn_status sampling_params(sampling_opts *s, const tn_lm *lm, tn_gen_params *p, tn_error *err);
/* s->draft_lm: the model of --draft, for conversations of lm; NULL where none is given. */
tn_status sampling_draft(sampling_opts *s, tn_runtime *rt, const tn_lm *lm, tn_error *err);
void sampling_finish(sampling_opts *s);

#endif
