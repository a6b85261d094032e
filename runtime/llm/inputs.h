/* SPDX-License-Identifier: Apache-2.0
 *
 * What the inputs of language models mean, by their names: the one place that knows what exporters call them. Chats
 * (lm_io.c) and tasks on texts ask here.
 *
 * A session that keeps caches knows their inputs by the data flow instead (tn_model_has_cache): their names do not
 * matter to it.
 */
#ifndef TENON_LLM_INPUTS_H
#define TENON_LLM_INPUTS_H

#include <stdint.h>

typedef enum tni_input {
  TNI_INPUT_OTHER,
  TNI_INPUT_IDS,            /* [B, S] */
  TNI_INPUT_MASK,           /* [B, past + S], ones where there is a token */
  TNI_INPUT_TYPES,          /* [B, S]: which text of a pair */
  TNI_INPUT_POSITIONS,      /* [B, S]: past .. past + S - 1 */
  TNI_INPUT_CACHE_POSITION, /* [S]: the same */
  TNI_INPUT_USE_CACHE,      /* [1]: past > 0 */
  TNI_INPUT_PAST,           /* a cache that an output continues */
  TNI_INPUT_SOURCE,         /* keys and values of an encoder's output: the same in all steps */
  TNI_INPUT_SOURCE_MASK,    /* [B, positions of the source], ones where there is a token */
  TNI_INPUT_PIXELS          /* of tasks: an image. No name tells it */
} tni_input;

tni_input tni_input_named(const char *name);
/* The rank that an input of this meaning has; 0: any. */
int32_t tni_input_rank(tni_input what);
/* What follows the word for past or present: the same for a cache's input and the output that continues it. NULL: the
 * name is no such. */
const char *tni_input_past(const char *name);
const char *tni_output_present(const char *name);

#endif
