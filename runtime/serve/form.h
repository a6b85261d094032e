/* SPDX-License-Identifier: Apache-2.0
 *
 * What an answer must be: grammars, kept for requests that ask for the same again; and the sampler's rarer wishes.
 */
#ifndef TENON_SERVE_FORM_H
#define TENON_SERVE_FORM_H

#include "runtime/serve/ask.h"

/* Reads response_format and grammar. False: refused. */
bool srv_form_read(srv_ask *a);
/* frequency_penalty, presence_penalty, logit_bias, min_tokens, typical_p, logprobs, top_logprobs. False: refused. */
bool srv_more_read(srv_ask *a);
/* What a choice needs of its own before it starts. False: no memory. */
bool srv_more_start(srv_ask *a, srv_choice *c);
/* The answer keeps to this grammar (TN_GRAMMAR_*). False: refused, by r and with this path. */
bool srv_form_take(srv_ask *a, uint32_t kind, const char *text, size_t n, srv_refusal *r, const char *param);
void srv_form_give(srv_ask *a);
void srv_forms_finish(srv_model *m);

#endif
