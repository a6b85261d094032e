/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/serve/slots: conversations of one model, and the requests that wait for one.
 *
 * Requests are taken in the order in which they came; each gets a slot of a tn_batch, which keeps what its caches hold, so
 * that only the rest of a prompt is computed. All that have a slot make a token in each step.
 *
 * Every function from any thread.
 */
#ifndef TENON_SERVE_SLOTS_SLOTS_H
#define TENON_SERVE_SLOTS_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <tenon/lm.h>

/* Who may compute: one at a time, in the order of asking. Shared by all models of a server. */
typedef struct slots_turn slots_turn;
slots_turn *slots_turn_create(void); /* NULL without memory */
void slots_turn_destroy(slots_turn *t);
void slots_turn_take(slots_turn *t);
void slots_turn_give(slots_turn *t);

typedef struct slots slots;

/* One text to generate, in memory of who asks for it, from slots_add until `done`. */
typedef struct slots_job {
  const int32_t *ids; /* the prompt */
  size_t n;
  tn_gen_params params;
  /* On a thread of the room: a token, as of tn_generate_ids; and the end, the last thing that is said of the job.
   * TN_E_CANCELLED: slots_cancel, or slots_end. */
  void (*token)(void *user, int32_t id, const char *text, size_t n);
  void (*done)(void *user, tn_status st, const tn_error *err);
  void *user;
  /* Filled before `done`. kept: tokens of the prompt that were in a cache. */
  tn_gen_result result;
  size_t kept;
  tn_batch_guesses guesses;
  /* The room's. */
  struct slots_job *next;
  atomic_bool cancelled;
} slots_job;

typedef struct slots_opts {
  uint32_t n;            /* texts at a time */
  uint32_t waiting;      /* jobs that wait for a slot at most */
  uint64_t prefix_bytes; /* as of tn_batch_opts */
  bool exact;            /* TN_BATCH_EXACT */
  tn_lm *draft;          /* as of tn_batch_draft, or NULL; outlives them too */
  uint32_t draft_tokens;
} slots_opts;
/* Texts of lm, which outlives them. Statuses of tn_batch_create. */
TN_MUST_CHECK tn_status slots_create(tn_lm *lm, slots_turn *turn, const slots_opts *o, slots **out, tn_error *err);
/* Every job is done. */
void slots_destroy(slots *s);
/* False: too many wait; nothing happened. */
TN_MUST_CHECK bool slots_add(slots *s, slots_job *job);
/* job, which was added, is done soon; where it waited, within this call. Right also when it is done already, as long as its
 * memory is there. */
void slots_cancel(slots *s, slots_job *job);
/* Every job is done soon. */
void slots_cancel_all(slots *s);
/* Jobs that wait, and that have a slot. */
void slots_count(slots *s, uint32_t *waiting, uint32_t *running);
/* Guesses of all texts, as after the last step. */
void slots_guesses(slots *s, tn_batch_guesses *out);
/* Beginnings that did not run again, as after the last step. */
void slots_prefixes(slots *s, tn_batch_prefixes *out);

#endif
