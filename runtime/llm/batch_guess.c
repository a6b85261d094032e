/* SPDX-License-Identifier: Apache-2.0
 *
 * Guesses of texts that decode together: which of them the next step tries, and what is forgotten after it.
 *
 * All texts of a step run as many positions. One with fewer guesses than another repeats its last, and those rows are
 * work for nothing. So the more texts decode, the fewer guesses each may have, and a step tries no more than so many
 * that at least half of the rows beside the texts' last tokens are guesses, and than the device is fast enough for
 * (pace.h).
 */
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/batch.h"
#include "runtime/llm/draft.h"

/* A draft runs each text alone, a step for every guess: beyond so many texts that takes longer than it saves. */
enum { DRAFT_TEXTS = 2 };

bool tni_text_runs(const tni_text *t) { return t->used && t->st == TN_OK && !tni_gen_result(t->gen)->reason; }

bool tni_text_decodes(const tni_text *t) { return tni_text_runs(t) && t->c->n - t->c->fed == 1; }

/* --- what is tried ------------------------------------------------------------------------------------------------ */

/* Guesses that a text may have beside n - 1 others; where one is short of room, all are. */
static size_t allowed(const tn_batch *b, uint32_t n) {
  size_t most = n <= TNI_GUESS_ROWS ? TNI_GUESS_ROWS / n - 1 : 0;
  if (b->no_guesses) return 0;
  if (most > (size_t)b->chunk - 1) most = (size_t)b->chunk - 1;
  for (uint32_t i = 0; i < b->n; i++) {
    const tni_text *t = &b->slots[i];
    const size_t room = (size_t)t->c->context - t->c->n;
    if (tni_text_decodes(t) && most > room) most = room;
  }
  return most;
}

/* A draft that fails guesses nothing; one that has a long text to read yet goes on with it. */
static void guess_of(tn_batch *b, tni_text *t, size_t most, bool draft) {
  tn_long_error none;
  bool near = true;
  tn_long_error_init(&none);
  draft = draft && t->c->draft && tni_draft_near(t->c, (size_t)b->chunk, &near, &none.error) == TN_OK && near;
  if (tni_gen_guess(t->gen, most, draft, t->guess, &t->n_guess, &none.error) != TN_OK) t->n_guess = 0;
  t->single = tni_gen_single(t->gen);
}

static tni_pace_text paced(const tn_batch *b, const tni_text *t) {
  return (tni_pace_text){t->n_guess, t->odds.right > 0 ? t->odds : b->pace.odds, t->single};
}

/* The most of guesses with which half of the rows beside the last tokens are some, and that pay. */
static size_t worth(tn_batch *b, uint32_t n, size_t most) {
  tni_pace_text texts[TNI_GUESS_ROWS];
  size_t k = 0;
  for (; most; most--) {
    size_t guesses = 0;
    for (uint32_t i = 0; i < b->n; i++) guesses += b->slots[i].n_guess < most ? b->slots[i].n_guess : most;
    if (2 * guesses >= n * most) break;
  }
  for (uint32_t i = 0; most && i < b->n; i++)
    if (tni_text_decodes(&b->slots[i])) texts[k++] = paced(b, &b->slots[i]);
  return most ? tni_pace_worth(&b->pace, texts, k, most) : 0;
}

/* Guesses that are there but not worth a row. */
static void leave_guesses(tn_batch *b, tni_text *t, size_t most) {
  if (t->n_guess <= most) return;
  if (!most) {
    t->odds = paced(b, t).odds;
    tni_pace_forget(&t->odds, t->single);
    tni_pace_forget(&b->pace.odds, t->single);
  }
  t->n_guess = most;
}

void tni_batch_took(tn_batch *b, size_t rows, int64_t ns) { tni_pace_took(&b->pace, rows, ns); }

void tni_batch_came(tn_batch *b, tni_text *t, size_t tokens) {
  if (!t->n_guess || !tokens || !tni_text_runs(t)) return; /* a text that ended says nothing of its guesses */
  const size_t came = tni_pace_came(t->n_guess, tokens);
  t->odds = paced(b, t).odds;
  tni_pace_learn(&t->odds, t->single, t->n_guess, came);
  tni_pace_learn(&b->pace.odds, t->single, t->n_guess, came);
}

static tn_status append_guesses(tni_text *t, size_t more, tn_error *err) {
  tn_chat *c = t->c;
  const size_t n = c->n;
  const int32_t last = t->n_guess ? t->guess[t->n_guess - 1] : c->history[n - 1];
  tn_status st = tni_chat_append(c, t->guess, t->n_guess, err);
  for (size_t k = t->n_guess; st == TN_OK && k < more; k++) st = tni_chat_append(c, &last, 1, err);
  c->n = n;
  return st;
}

tn_status tni_batch_guess(tn_batch *b, uint32_t n, size_t *more, tn_error *err) {
  const size_t most = allowed(b, n);
  size_t longest = 0;
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < b->n; i++) {
    tni_text *t = &b->slots[i];
    t->n_guess = 0;
    if (most && tni_text_decodes(t)) guess_of(b, t, most, n <= DRAFT_TEXTS);
    if (t->n_guess > longest) longest = t->n_guess;
  }
  *more = b->session ? worth(b, n, longest) : 0;
  for (uint32_t i = 0; i < b->n; i++) {
    tni_text *t = &b->slots[i];
    const tni_pace_text alone = paced(b, t);
    leave_guesses(b, t, b->session ? *more : tni_pace_worth(&b->pace, &alone, 1, t->n_guess));
    if (!b->session && t->n_guess > *more) *more = t->n_guess;
  }
  for (uint32_t i = 0; st == TN_OK && *more && i < b->n; i++)
    if (tni_text_decodes(&b->slots[i])) st = append_guesses(&b->slots[i], *more, err);
  return st;
}

/* --- what is forgotten -------------------------------------------------------------------------------------------- */

static tn_status truncate_text(tn_batch *b, tni_text *t, size_t n, tn_error *err) {
  t->c->fed = n;
  return b->session ? tn_session_slot_truncate(b->session, t->row, (int64_t)n, err)
                    : tn_session_truncate(t->c->session, (int64_t)n, err);
}

tn_status tni_batch_rewind(tn_batch *b, tni_text *t, size_t n, size_t more, tn_error *err) {
  /* Of the tokens that were drawn the last never ran. */
  const size_t ran = t->c->n > n ? t->c->n - 1 : n;
  if (!more || truncate_text(b, t, ran, NULL) == TN_OK) return TN_OK;
  b->no_guesses = true; /* a state that cannot go back: all once more, as a prompt */
  return truncate_text(b, t, 0, err);
}

/* --- the door ----------------------------------------------------------------------------------------------------- */

tn_status tn_batch_draft(tn_batch *b, tn_lm *draft, uint32_t n, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(b);
  const bool can = !b->no_guesses && (b->session || b->slots[0].c->kept);
  if (draft && n && !can)
    return tni_fail(err, TN_E_UNSUPPORTED, "draft", "it wants caches that the batch keeps and that can go back");
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < b->n; i++) st = tni_draft_make(b->slots[i].c, draft, n, i == 0, err);
  for (uint32_t i = 0; st != TN_OK && i < b->n; i++) (void)!tni_draft_make(b->slots[i].c, NULL, 0, false, NULL);
  return st;
}
