/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/cli/shell: exit codes, streams, signals.
 */
#ifndef TENON_CLI_SHELL_SHELL_H
#define TENON_CLI_SHELL_SHELL_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <tenon/tenon.h>

enum {
  EXIT_DONE = 0,
  EXIT_CHECK = 1,
  EXIT_USAGE = 2,
  EXIT_INPUT = 3,
  EXIT_UNSUPPORTED = 4,
  EXIT_DEVICE = 5,
  EXIT_OUTPUT = 6,
  EXIT_INT = 130,
  EXIT_PIPE = 141
};

/* --- output (output.c) --- */

/* Descriptors 0, 1 and 2 that the caller closed: no file that is opened later gets their number. What is written to a
 * closed stdout fails; what is written to a closed stderr is nowhere, as the caller wants it. */
void cli_streams_open(void);
/* What was printed on stdout goes out now. false: it does not, and cli_streams_close will say why. */
bool cli_streams_flush(void);
/* Closes stdout and stderr, once, at the very end. rc, or what the output makes of it: EXIT_PIPE where a reader went
 * away (nothing is said), EXIT_OUTPUT where something else kept the output from being complete (said on stderr). */
int cli_streams_close(int rc);

/* --- signals (signals.c) --- */

/* The running thing that Ctrl-C stops; NULL: nothing. */
void cli_cancel_chat(tn_chat *chat);
void cli_cancel_session(tn_session *s);
void cli_cancel_load(tn_runtime *rt);
/* Any other object, by a function of its own. */
void cli_cancel_by(void (*cancel)(void *), void *object);
int cli_interrupted(void);
/* What was interrupted has ended, and the program goes on: the next Ctrl-C is a first one. */
void cli_forget_interrupt(void);
/* All is done but what plugins' libraries do at the end of the process, which has ten seconds for that. rc. */
int cli_end_soon(int rc);

/* --- memory (free_memory.c) --- */

/* What the machine, the process's cgroups and --max-memory leave free. own: of private memory. */
typedef struct cli_free {
  uint64_t all, own;
} cli_free;
/* root: "" for this machine; tests give a folder with proc/ and sys/ in it. */
cli_free cli_free_memory(const char *root);

/* --- files (replace.c) --- */

/* A file that is written beside the one at path, which stays until all is there. */
typedef struct cli_replaced {
  const char *path;
  char half[PATH_MAX];
  bool through; /* path is no regular file, and is written itself */
  FILE *f;
} cli_replaced;
/* r->f is to be written. A file that is there gives its mode on. 0, or an errno and nothing to end; r->path is
 * borrowed. */
int cli_replace_begin(cli_replaced *r, const char *path);
/* why: 0, or an errno of what was written. 0: the file is at its path; else an errno, and what was there is. */
int cli_replace_end(cli_replaced *r, int why);

/* --- limits (limit.c) --- */

/* "1500000", "64K", "512M", "2G"; units of 1024. 0: not a size. */
unsigned long long cli_size(const char *s);
/* The process's own data holds to so many bytes. 0; -1: the system allows it less; errno. */
int cli_limit_data(unsigned long long bytes);
/* That limit holds no more. */
void cli_lift_limit(void);

/* --- inputs (made_inputs.c) --- */

/* Inputs for a model that has no test data: out[i], for each input of m, by the seed, of its type, within its dims, and
 * with values that its name asks for. Ids are below 100, masks let all through, positions go on after the past, other
 * whole numbers are below 10, floats within -1 and 1. A batch is 1, a past 4, heights and widths 32, other lengths `length`.
 * Each is tn_free'd. TN_E_UNSUPPORTED: a type or rank that is none of a plain tensor; err says which. After an error
 * out holds what was made so far. */
tn_status cli_made_inputs(const tn_model *m, uint64_t seed, int64_t length, tn_tensor **out, tn_error *err);

#endif
