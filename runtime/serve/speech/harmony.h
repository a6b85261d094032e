/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of messages as gpt-oss writes them ("harmony"), between <|start|> and <|message|>:
 * "assistant<|channel|>commentary to=functions.NAME <|constrain|>json". The receiver may stand before the channel too.
 */
#ifndef TENON_SERVE_SPEECH_HARMONY_H
#define TENON_SERVE_SPEECH_HARMONY_H

#include <stdbool.h>
#include <stddef.h>

typedef enum srv_channel { SRV_CHANNEL_FINAL, SRV_CHANNEL_ANALYSIS, SRV_CHANNEL_COMMENTARY } srv_channel;

typedef struct srv_head {
  srv_channel channel; /* one that nobody knows is final */
  const char *to;      /* whom the message is for, n_to bytes of the text; n_to 0: whoever reads */
  size_t n_to;
} srv_head;

/* text: n bytes, a head without the marks around it. */
void srv_harmony_head(const char *text, size_t n, srv_head *out);
/* Whether a text of n bytes is the beginning of an answer whose head is under way: 1 yes, 0 no, -1 it may become one. */
int srv_harmony_begins(const char *text, size_t n);

#endif
