/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer as it comes. Most models write text, which is printed as it is. Of those that write messages in channels
 * (gpt-oss) what is said goes to stdout, and what is thought to stderr.
 */
#ifndef TENON_CLI_CHAT_HEAR_H
#define TENON_CLI_CHAT_HEAR_H

#include <stdbool.h>
#include <stdio.h>

#include "runtime/cli/chat/chat.h"
#include "runtime/serve/speech/speech.h"

/* A text that grows. */
typedef struct hear_text {
  FILE *f;
  char *v;
  size_t n;
} hear_text;

typedef struct hearing {
  const cli_chat *with;
  srv_speech s;
  bool plain, thought; /* plain: it has no channels; thought: a line on stderr has no end */
  hear_text all, said, thoughts;
} hearing;

/* Special tokens that it knows channels by. */
TN_MUST_CHECK tn_status hear_marks(tn_lm *lm, tn_error *err);
/* False: no memory. Finish in both cases. */
TN_MUST_CHECK bool hear_begin(hearing *h, const cli_chat *with);
/* last: nothing comes after it. */
void hear(hearing *h, const char *text, size_t n, bool last);
/* After the last: what of it is the message. */
const hear_text *hear_said(const hearing *h);
void hear_finish(hearing *h);

#endif
