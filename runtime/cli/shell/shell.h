/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/cli/shell: exit codes, streams, signals.
 */
#ifndef TENON_CLI_SHELL_SHELL_H
#define TENON_CLI_SHELL_SHELL_H

#include <stdbool.h>
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

#endif
