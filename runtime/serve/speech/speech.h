/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model says, taken apart as it comes: thoughts between tags or in a channel of their own, calls of tools,
 * and the rest.
 *
 * Calls are known in the shapes of docs/serve.md#tools. A text that begins like one and is none, names no tool, or has
 * arguments that the tool's schema does not allow, is content.
 */
#ifndef TENON_SERVE_SPEECH_H
#define TENON_SERVE_SPEECH_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/json.h"
#include "runtime/serve/speech/shape.h" /* this is the room's door */

typedef struct srv_buffer {
  char *v; /* terminated where n > 0 */
  size_t n, cap;
} srv_buffer;

/* Where in an answer of channels (harmony.h) the text is. */
typedef enum srv_place { SRV_NO_CHANNELS, SRV_HEAD, SRV_SAYS, SRV_THINKS, SRV_CALLS } srv_place;

typedef struct srv_speech {
  const json_t *tools; /* NULL: nobody calls one; lives on */
  bool one;            /* one call at most */
  bool thinks, began;
  unsigned thought; /* how thoughts are marked: a row of speech.c's table */
  bool skips;       /* blanks that come next are not said */
  int tag;          /* the open tag of a call, or -1 */
  srv_place place;
  srv_buffer name; /* of the tool that a message of a channel calls */
  srv_buffer held; /* not decided yet */
  /* Whoever reads them sets n to 0, or lets them grow. */
  srv_buffer content, thoughts;
  json_t *calls; /* as OpenAI's API has them, all so far */
  bool no_memory;
} srv_speech;

/* Special tokens that these shapes are known by: a tokenizer leaves them out of texts unless they are asked for
 * (tn_lm_marks). */
extern const char *const srv_speech_marks[];
extern const unsigned srv_speech_n_marks, srv_speech_n_channel_marks; /* the latter are the first, those of channels */
/* thinks: the prompt ends inside of <think>. */
void srv_speech_init(srv_speech *s, const json_t *tools, bool one, bool thinks);
void srv_speech_finish(srv_speech *s);
/* last: nothing comes after it. */
void srv_speech_push(srv_speech *s, const char *text, size_t n, bool last);

#endif
