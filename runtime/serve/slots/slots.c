/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread for each slot. It holds the turn while it computes and gives it away after each token.
 */
#include "runtime/serve/slots/slots.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

typedef struct slot {
  slots *owner;
  pthread_t thread;
  pthread_cond_t wake;
  tn_chat *chat;
  slots_job *job; /* NULL: free */
  int32_t *tokens; /* what the caches hold, or will */
  size_t n, cap;
  uint64_t used; /* when, by the owner's counter */
} slot;

struct slots {
  pthread_mutex_t lock;
  slots_turn *turn;
  slot *slot;
  uint32_t n, started, waiting, most_waiting;
  slots_job *first, **last;
  uint64_t uses;
  bool ends;
};

/* --- which slot --------------------------------------------------------------------------------------------------- */

static size_t common(const slot *s, const slots_job *job) {
  size_t n = 0;
  while (n < s->n && n + 1 < job->n && s->tokens[n] == job->ids[n]) n++;
  return n;
}

/* What is kept counts, and what is lost of another conversation half as much. Of equals, the one unused for longest. */
static slot *best_slot(slots *s, const slots_job *job) {
  slot *best = NULL;
  double most = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    slot *x = &s->slot[i];
    if (x->job) continue;
    const double kept = (double)common(x, job), worth = kept - ((double)x->n - kept) / 2;
    if (best && (worth < most || (worth == most && x->used >= best->used))) continue;
    best = x;
    most = worth;
  }
  return best;
}

/* Under the lock. */
static void assign(slots *s) {
  slot *x;
  while (s->first && (x = best_slot(s, s->first))) {
    slots_job *job = s->first;
    s->first = job->next;
    if (!s->first) s->last = &s->first;
    s->waiting--;
    x->job = job;
    x->used = ++s->uses;
    job->slot = x;
    pthread_cond_signal(&x->wake);
  }
}

/* --- a job -------------------------------------------------------------------------------------------------------- */

/* Tokens that are not remembered are computed again. */
static void remember(slot *x, const int32_t *ids, size_t n) {
  if (n > x->cap - x->n) {
    const size_t cap = (x->n + n) * 2;
    int32_t *grown = realloc(x->tokens, cap * sizeof *grown);
    if (!grown) return;
    x->tokens = grown;
    x->cap = cap;
  }
  memcpy(x->tokens + x->n, ids, n * sizeof *ids);
  x->n += n;
}

static int on_token(void *user, int32_t id, const char *text, size_t n) {
  slot *x = user;
  slots_job *job = x->job;
  slots_turn_give(x->owner->turn);
  remember(x, &id, 1);
  job->said++;
  job->token(job->user, id, text, n);
  slots_turn_take(x->owner->turn);
  return atomic_load(&job->cancelled);
}

static tn_status generate(slot *x, slots_job *job, tn_error *err) {
  job->result = (tn_gen_result){.h = {sizeof job->result, 1, 0}};
  tn_status st = tn_chat_rewind(x->chat, job->ids, job->n, &job->kept, err);
  x->n = 0;
  remember(x, job->ids, job->n);
  if (st == TN_OK)
    st = tn_generate_ids(x->chat, job->ids + job->kept, job->n - job->kept, &job->params, on_token, x, &job->result, err);
  if (st != TN_OK && tn_chat_length(x->chat) < x->n) x->n = tn_chat_length(x->chat);
  return st;
}

static void run_job(slot *x, slots_job *job) {
  tn_long_error err;
  tn_status st = TN_E_CANCELLED;
  tn_long_error_init(&err);
  slots_turn_take(x->owner->turn);
  if (!atomic_load(&job->cancelled)) st = generate(x, job, &err.error);
  /* A cancel that came when the job before had just ended stops the next one instead. */
  if (st == TN_E_CANCELLED && !atomic_load(&job->cancelled) && !job->said) st = generate(x, job, &err.error);
  slots_turn_give(x->owner->turn);
  if (atomic_load(&job->cancelled)) st = TN_E_CANCELLED;
  pthread_mutex_lock(&x->owner->lock);
  x->job = NULL;
  job->slot = NULL;
  assign(x->owner);
  pthread_mutex_unlock(&x->owner->lock);
  job->done(job->user, st, &err.error);
}

static void *slot_main(void *arg) {
  slot *x = arg;
  slots *s = x->owner;
  pthread_mutex_lock(&s->lock);
  for (;;) {
    while (!x->job && !s->ends) pthread_cond_wait(&x->wake, &s->lock);
    if (!x->job) break;
    slots_job *job = x->job;
    pthread_mutex_unlock(&s->lock);
    run_job(x, job);
    pthread_mutex_lock(&s->lock);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

/* --- the door ----------------------------------------------------------------------------------------------------- */

tn_status slots_create(tn_lm *lm, slots_turn *turn, uint32_t n, uint32_t waiting, slots **out, tn_error *err) {
  slots *s = calloc(1, sizeof *s);
  slot *all = calloc(n, sizeof *all);
  if (!s || !all) {
    free(s);
    free(all);
    return tni_fail_memory(err, "slots");
  }
  *s = (slots){.turn = turn, .slot = all, .n = n, .most_waiting = waiting};
  s->last = &s->first;
  pthread_mutex_init(&s->lock, NULL);
  tn_status st = TN_OK;
  for (uint32_t i = 0; i < n && st == TN_OK; i++) {
    slot *x = &all[i];
    x->owner = s;
    pthread_cond_init(&x->wake, NULL);
    st = tn_chat_create(lm, &x->chat, err);
    if (st == TN_OK && pthread_create(&x->thread, NULL, slot_main, x) != 0)
      st = tni_fail(err, TN_E_NO_MEMORY, "slots", "no thread for a slot");
    if (st == TN_OK) s->started++;
  }
  if (st == TN_OK)
    *out = s;
  else
    slots_destroy(s);
  return st;
}

void slots_destroy(slots *s) {
  if (!s) return;
  slots_cancel_all(s);
  pthread_mutex_lock(&s->lock);
  s->ends = true;
  for (uint32_t i = 0; i < s->started; i++) pthread_cond_signal(&s->slot[i].wake);
  pthread_mutex_unlock(&s->lock);
  for (uint32_t i = 0; i < s->started; i++) pthread_join(s->slot[i].thread, NULL);
  for (uint32_t i = 0; i < s->n; i++) {
    tn_chat_destroy(s->slot[i].chat);
    if (s->slot[i].owner) pthread_cond_destroy(&s->slot[i].wake);
    free(s->slot[i].tokens);
  }
  pthread_mutex_destroy(&s->lock);
  free(s->slot);
  free(s);
}

bool slots_add(slots *s, slots_job *job) {
  job->next = NULL;
  job->slot = NULL;
  job->said = 0;
  job->kept = 0;
  job->result = (tn_gen_result){.h = {sizeof job->result, 1, 0}};
  atomic_init(&job->cancelled, false);
  pthread_mutex_lock(&s->lock);
  bool room = !s->ends && s->waiting < s->most_waiting;
  for (uint32_t i = 0; i < s->n && !room && !s->ends; i++) room = !s->slot[i].job;
  if (room) {
    *s->last = job;
    s->last = &job->next;
    s->waiting++;
    assign(s);
  }
  pthread_mutex_unlock(&s->lock);
  return room;
}

/* Under the lock. True: job waited, and does not any more. */
static bool unqueue(slots *s, slots_job *job) {
  for (slots_job **at = &s->first; *at; at = &(*at)->next)
    if (*at == job) {
      *at = job->next;
      if (s->last == &job->next) s->last = at;
      s->waiting--;
      return true;
    }
  return false;
}

void slots_cancel(slots *s, slots_job *job) {
  tn_error none;
  tni_error_init(&none);
  pthread_mutex_lock(&s->lock);
  atomic_store(&job->cancelled, true);
  const bool waited = unqueue(s, job);
  if (job->slot) tn_chat_cancel(job->slot->chat);
  pthread_mutex_unlock(&s->lock);
  if (waited) job->done(job->user, TN_E_CANCELLED, &none);
}

void slots_cancel_all(slots *s) {
  tn_error none;
  tni_error_init(&none);
  pthread_mutex_lock(&s->lock);
  slots_job *job = s->first;
  s->first = NULL;
  s->last = &s->first;
  s->waiting = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    if (!s->slot[i].job) continue;
    atomic_store(&s->slot[i].job->cancelled, true);
    tn_chat_cancel(s->slot[i].chat);
  }
  pthread_mutex_unlock(&s->lock);
  while (job) {
    slots_job *next = job->next;
    job->done(job->user, TN_E_CANCELLED, &none);
    job = next;
  }
}

void slots_count(slots *s, uint32_t *waiting, uint32_t *running) {
  pthread_mutex_lock(&s->lock);
  *waiting = s->waiting;
  *running = 0;
  for (uint32_t i = 0; i < s->n; i++) *running += s->slot[i].job != NULL;
  pthread_mutex_unlock(&s->lock);
}
