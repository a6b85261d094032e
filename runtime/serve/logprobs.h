/* SPDX-License-Identifier: Apache-2.0
 *
 * How likely the tokens of a choice were, and which were likelier.
 */
#ifndef TENON_SERVE_LOGPROBS_H
#define TENON_SERVE_LOGPROBS_H

#include <tenon/lm.h>

#include "runtime/base/json.h"

enum { SRV_TOP = 20 };

typedef struct srv_likely {
  int32_t id;
  float logprob;
} srv_likely;

typedef struct srv_log_token {
  srv_likely token;
  uint32_t n_top;
  srv_likely top[SRV_TOP]; /* the likeliest first */
} srv_log_token;

typedef struct srv_log {
  uint32_t top;
  float *row; /* [vocab], of the token that comes next */
  size_t vocab;
  srv_log_token *v;
  size_t n, cap, taken; /* taken: of v, by who answers */
  bool no_memory;
  size_t letters; /* of the text of what was written; of who answers */
} srv_log;

/* top: of each token, so many of the likeliest. NULL: no memory. */
srv_log *srv_log_create(uint32_t top);
void srv_log_destroy(srv_log *l);
/* The logits of the next token, and which it became. */
void srv_log_row(srv_log *l, const float *row, size_t vocab);
void srv_log_add(srv_log *l, int32_t id);
/* The tokens from l->taken on, *n of them, which are taken then; malloc'd. NULL: there are none, or no memory. */
srv_log_token *srv_log_take(srv_log *l, size_t *n);
/* Of the n tokens that were taken last; as /v1/chat/completions has it, or /v1/completions. It touches nothing of l
 * that srv_log_add does. */
json_t *srv_log_json(srv_log *l, const srv_log_token *v, size_t n, const tn_lm *lm, bool chat);

#endif
