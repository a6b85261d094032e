/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of tn_batch: texts in slots (batch.c), how their steps run (batch_run.c), and what these try beside the texts'
 * last tokens (batch_guess.c).
 *
 * Where steps are shared one session has a row of its caches for each slot and one to spare. Rows [0, k) are those of
 * the k texts that decode together, side by side as tn_session_step_slots wants them. A text that comes to them or
 * leaves them changes places with another, by way of the spare row. Otherwise each slot's chat has a session of its
 * own.
 */
#ifndef TENON_LLM_BATCH_H
#define TENON_LLM_BATCH_H

#include <tenon/lm.h>

#include "runtime/llm/lm.h"
#include "runtime/llm/pace.h"
#include "runtime/llm/prefix.h"
#include "runtime/session/session.h"

/* Guesses make no step of texts that decode longer than so many positions. */
enum { TNI_GUESS_ROWS = 16 };

typedef struct tni_text {
  tn_chat *c;       /* its tokens; also of what a free slot holds */
  tni_gen *gen;     /* of a used slot */
  bool used, begun; /* begun: a step of its prompt ran */
  bool restored;    /* cached tokens were not in a slot */
  uint32_t row;     /* of the session, where steps are shared */
  size_t cached;    /* tokens that it began with and did not run */
  size_t mark;    /* 0, or where others began alike and nobody had what goes on there: what the slot has then is kept */
  uint64_t order; /* when it was started */
  uint64_t left;  /* when the slot was given back */
  int32_t guess[TNI_GUESS_ROWS]; /* that the step under way tries */
  size_t n_guess;
  bool single; /* they followed where one token stood before */
  tni_pace_odds odds; /* of its guesses; right 0: none was tried yet */
  tn_status st; /* its own failure */
  tn_long_error why;
  int64_t begun_ns, first_ns, last_ns; /* start, first and last token; 0: none yet */
} tni_text;

struct tn_batch {
  tn_lm *lm;
  uint32_t n;
  tni_text *slots; /* [n] */
  int64_t context, chunk;
  uint64_t clock;
  atomic_bool cancelled;
  /* Where steps are shared. */
  tn_session *session;
  uint32_t spare;     /* the row that is nobody's */
  tni_chat_mem *feed; /* [n_in] */
  tn_tensor *in, logits;
  const tn_tensor **in_ptr;
  tn_tensor **out_ptr;
  tni_chat_mem row;  /* logits as floats, where they are others */
  tni_prefix prefix; /* what slots had before (batch_prefix.c) */
  const tn_session *prefix_of;
  tn_batch_prefixes counts;
  bool no_guesses;          /* the model's state cannot go back, or it has no logits but the last */
  tn_batch_guesses guesses; /* of texts that gave their slots back */
  tni_pace pace;
};

/* Whether the text goes on. */
bool tni_text_runs(const tni_text *t);
/* It is past its prompt: one token of it is to be run. */
bool tni_text_decodes(const tni_text *t);
/* Its next tokens, from the logits of its last one and of its guesses, [n_guess + 1, vocab]; its own failure is its
 * end. */
void tni_text_token(tn_batch *b, tni_text *t, const float *logits, size_t vocab);

/* shared: one session for all slots, where the model can. Makes the slots' chats, and b->chunk. */
TN_MUST_CHECK tn_status tni_batch_open(tn_batch *b, bool shared, tn_error *err);
void tni_batch_close(tn_batch *b);
/* How many tokens of ids, less than n, the text's slot begins with. */
size_t tni_text_common(const tni_text *t, const int32_t *ids, size_t n);
/* The slot, which has the first `had` tokens of ids, gets more: the first `same` of slot `from` (which may be itself),
 * or what is kept. How much it has then. */
size_t tni_batch_take(tn_batch *b, uint32_t slot, size_t had, uint32_t from, size_t same, const int32_t *ids, size_t n);
/* It has nothing any more. */
void tni_batch_forget(tn_batch *b, uint32_t slot);
/* What a slot has is kept beside the slots, as far as there is room. */
void tni_batch_save(tn_batch *b, uint32_t slot);
/* Before the first step of a slot's prompt: others may have come so far since it was started. */
void tni_batch_begin(tn_batch *b, uint32_t slot);
/* The next step of the texts that decode, n of them, tries guesses: t->guess of each, and *more, the most of them.
 * Their histories have so many tokens beyond their ends, of which the last repeat where a text has fewer guesses. */
TN_MUST_CHECK tn_status tni_batch_guess(tn_batch *b, uint32_t n, size_t *more, tn_error *err);
/* The step took so long, and `tokens` of the text came of it. */
void tni_batch_took(tn_batch *b, size_t rows, int64_t ns);
void tni_batch_came(tn_batch *b, tni_text *t, size_t tokens);
/* The text's last token and `more` guesses ran, and its tokens were drawn: what it did not become is forgotten. Before
 * the step it had n tokens. */
TN_MUST_CHECK tn_status tni_batch_rewind(tn_batch *b, tni_text *t, size_t n, size_t more, tn_error *err);
/* One step. */
TN_MUST_CHECK tn_status tni_batch_run(tn_batch *b, tn_error *err);
/* After a cancelled one. */
void tni_batch_go_on(tn_batch *b);

#endif
