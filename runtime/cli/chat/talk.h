/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation of `tenon chat`: its messages, and answers that stream to stdout.
 */
#ifndef TENON_CLI_CHAT_TALK_H
#define TENON_CLI_CHAT_TALK_H

#include <stdbool.h>
#include <tenon/lm.h>

#include "runtime/base/json.h"
#include "runtime/cli/chat/chat.h"

typedef struct talk {
  const cli_chat *with;
  tn_lm *lm;
  tn_chat *chat;
  tn_gen_params p;
  json_t *messages; /* what was said; the system's first */
  /* Of the last answer, and of all. */
  tn_gen_result last;
  size_t kept;
  uint64_t answers, new_tokens;
  int64_t decode_ns;
} talk;

/* Finish in both cases. */
tn_status talk_start(talk *t, const cli_chat *with);
/* Overwrites the error. Returns st. */
tn_status talk_error(const talk *t, tn_status st, const char *where, const char *fmt, ...) TN_PRINTF(4, 5);
void talk_finish(talk *t);
/* Adds what the user says and the answer to it, which is printed. TN_E_CANCELLED: Ctrl-C; what was printed stays in the
 * conversation. Another failure leaves it as it was. */
tn_status talk_say(talk *t, const char *text);
/* Answers the last thing that the user said once more, with another seed. */
tn_status talk_retry(talk *t);
/* Forgets that and its answer. False: there is none. */
bool talk_undo(talk *t);
/* Text NULL: none. What was said stays. */
void talk_system(talk *t, const char *text);
/* JSON: {"messages": [...]}. */
tn_status talk_save(talk *t, const char *path);
/* The same, and what the model has computed of it, in PATH.state. */
tn_status talk_keep(talk *t, const char *path);
/* PATH.state is taken where it is there and fits; else the next turn computes all. */
tn_status talk_load(talk *t, const char *path);
/* Speed of the last answer, and how much of the context is used; all: of all answers too. To stderr. */
void talk_stats(const talk *t, bool all);

#endif
