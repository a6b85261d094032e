/* SPDX-License-Identifier: Apache-2.0
 *
 * A request for text, of chat and of completions alike: what it asks of the sampler, its choices, and the answer, whole
 * or as events.
 */
#ifndef TENON_SERVE_ASK_H
#define TENON_SERVE_ASK_H

#include "runtime/serve/exchange.h"
#include "runtime/serve/inside.h"
#include "runtime/serve/speech/speech.h"

enum { SRV_MAX_STOP = 16, SRV_MAX_N = 16, SRV_MAX_PROMPTS = 64 };

typedef struct srv_ids {
  int32_t *v;
  size_t n;
} srv_ids;

/* What a choice of a conversation said so far, and what of it was sent. */
typedef struct srv_said {
  srv_speech s;
  size_t calls;
} srv_said;

typedef struct srv_ask {
  srv_call *call;
  srv_model *model;
  json_t *body; /* holds what the fields below point to */
  bool chat, stream, usage;
  char id[48];
  int64_t created;
  tn_gen_params params;
  const char *stop[SRV_MAX_STOP];
  uint32_t n;        /* choices of a prompt */
  int64_t max_tokens; /* 0: as far as it goes */
  srv_ids prompt[SRV_MAX_PROMPTS];
  uint32_t n_prompts;
  struct srv_form *form;      /* that the answer keeps to, or NULL */
  struct tn_logit_bias *bias; /* of params */
  int64_t top;                /* likely tokens that are listed; -1: none, and not how likely */
  json_t *tools;     /* that may be called, or NULL; of the body */
  bool one_call, thinks; /* thinks: the prompt ends where thoughts begin */
  srv_exchange x;
  srv_said *speech; /* [x.n]; of chat */
  uint32_t roles; /* streams: choices that said who speaks */
  bool counted;
} srv_ask;

/* Takes body over. NULL: no memory, refused. */
srv_ask *srv_ask_create(srv_call *c, json_t *body, bool chat);
void srv_ask_destroy(srv_ask *a);
/* What both kinds have: model, sampler, n, stop, stream. False: refused. */
bool srv_ask_read(srv_ask *a);
/* ids, from malloc, are taken over. False: refused. */
bool srv_ask_prompt(srv_ask *a, int32_t *ids, size_t n, const char *param);
/* Generates and sends, or refuses. Takes a over (answer.c). */
void srv_ask_answer(srv_ask *a);

#endif
