/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/cli/chat: a conversation with whoever is at standard input, answers on standard output.
 */
#ifndef TENON_CLI_CHAT_CHAT_H
#define TENON_CLI_CHAT_CHAT_H

#include <tenon/lm.h>

/* What the program gives. */
typedef struct cli_chat {
  tn_lm *lm; /* with a chat template */
  tn_gen_params params;
  tn_lm *draft; /* that guesses; NULL: none */
  uint32_t draft_tokens;
  const char *system; /* what the model is told first; NULL: nothing */
  tn_error *err;
  void (*note)(const char *fmt, ...) TN_PRINTF(1, 2); /* a line on stderr */
  void (*say)(const char *fmt, ...) TN_PRINTF(1, 2);  /* text on stderr */
  int (*fail)(void *user, tn_status st);              /* reports *err; the exit code */
  void *user;
} cli_chat;

/* Until the input ends. The exit code, failures reported. */
int cli_converse(const cli_chat *with);

#endif
