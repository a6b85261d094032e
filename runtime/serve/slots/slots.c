/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread for a model. It takes the turn for each step, in which every text that has a slot goes on.
 */
#include "runtime/serve/slots/slots.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

/* Positions of a prompt that one step runs: the other texts wait no longer than for these. */
enum { CHUNK = 256 };

struct slots {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  pthread_t thread;
  slots_turn *turn;
  tn_batch *batch;
  slots_job **job; /* [n], by slot; NULL: free */
  uint32_t n, running, waiting, most_waiting;
  slots_job *first, **last;
  slots_job *starting; /* neither waits nor has a slot yet */
  uint32_t lost;       /* steps in a row that a device took along */
  tn_batch_prefixes prefixes;
  tn_batch_guesses guesses;
  bool started, ends;
};

/* --- what a step does with jobs: on the thread, with the turn ---------------------------------------------------- */

static int on_token(void *user, int32_t id, const char *text, size_t n) {
  slots_job *job = user;
  job->token(job->user, id, text, n);
  return atomic_load(&job->cancelled);
}

/* job has no slot any more. It is not looked at after this. */
static void end_job(slots_job *job, tn_status st, const tn_error *err) {
  job->done(job->user, atomic_load(&job->cancelled) ? TN_E_CANCELLED : st, err);
}

static slots_job *next_waiting(slots *s) {
  pthread_mutex_lock(&s->lock);
  slots_job *job = s->running < s->n ? s->first : NULL;
  if (job) {
    s->first = job->next;
    if (!s->first) s->last = &s->first;
    s->waiting--;
    s->running++;
    s->starting = job;
  }
  pthread_mutex_unlock(&s->lock);
  return job;
}

/* slot: which it had; s->n: none. */
static void leave(slots *s, uint32_t slot) {
  pthread_mutex_lock(&s->lock);
  s->running--;
  s->starting = NULL;
  if (slot < s->n) s->job[slot] = NULL;
  pthread_mutex_unlock(&s->lock);
}

static void take_slot(slots *s, slots_job *job, uint32_t slot) {
  pthread_mutex_lock(&s->lock);
  s->starting = NULL;
  s->job[slot] = job;
  pthread_mutex_unlock(&s->lock);
}

static void start_jobs(slots *s) {
  slots_job *job;
  while ((job = next_waiting(s))) {
    tn_long_error err;
    tn_long_error_init(&err);
    uint32_t slot;
    const tn_status st = tn_batch_start(s->batch, job->ids, job->n, &job->params, on_token, job, &slot, &err.error);
    if (st == TN_OK) {
      take_slot(s, job, slot);
      continue;
    }
    leave(s, s->n);
    end_job(job, st, &err.error);
  }
}

/* Texts that have ended, or are not wanted any more. A step that failed is the model's failure, and every text's. */
static void end_jobs(slots *s, tn_status step, const tn_error *why) {
  for (uint32_t i = 0; i < s->n; i++) {
    slots_job *job = s->job[i];
    if (!job) continue;
    tn_long_error err;
    tn_long_error_init(&err);
    const tn_status st = tn_batch_result(s->batch, i, &job->result, &job->kept, &err.error);
    if (st == TN_OK && step == TN_OK && !job->result.reason && !atomic_load(&job->cancelled)) continue;
    (void)!tn_batch_guess_counts(s->batch, i, &job->guesses, NULL);
    const bool ended = st != TN_OK || job->result.reason;
    tn_batch_stop(s->batch, i);
    leave(s, i);
    end_job(job, ended ? st : step, ended ? &err.error : why);
  }
}

static void note_counts(slots *s) {
  tn_batch_prefixes p = {.h = TN_API_HDR(tn_batch_prefixes)};
  tn_batch_guesses g = {.h = TN_API_HDR(tn_batch_guesses)};
  if (tn_batch_prefix_counts(s->batch, &p, NULL) != TN_OK || tn_batch_guess_counts(s->batch, TN_BATCH_ALL, &g, NULL) != TN_OK)
    return;
  pthread_mutex_lock(&s->lock);
  s->prefixes = p;
  s->guesses = g;
  pthread_mutex_unlock(&s->lock);
}

static void step(slots *s) {
  tn_long_error err;
  uint32_t running = 0;
  tn_long_error_init(&err);
  slots_turn_take(s->turn);
  start_jobs(s);
  end_jobs(s, TN_OK, &err.error);
  tn_status st = s->running ? tn_batch_step(s->batch, &running, &err.error) : TN_OK;
  s->lost = st == TN_E_DEVICE_LOST ? s->lost + 1 : 0;
  /* What texts had on a lost device is run again, once; a cancel is slots_cancel_all's, which marks whom it means. */
  if (st == TN_E_CANCELLED || s->lost == 1) st = TN_OK;
  note_counts(s);
  end_jobs(s, st, &err.error);
  slots_turn_give(s->turn);
}

static void *engine(void *arg) {
  slots *s = arg;
  pthread_mutex_lock(&s->lock);
  for (;;) {
    while (!s->first && !s->running && !s->ends) pthread_cond_wait(&s->wake, &s->lock);
    if (!s->first && !s->running) break;
    pthread_mutex_unlock(&s->lock);
    step(s);
    pthread_mutex_lock(&s->lock);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

/* --- the door ----------------------------------------------------------------------------------------------------- */

tn_status slots_create(tn_lm *lm, slots_turn *turn, const slots_opts *opts, slots **out, tn_error *err) {
  const tn_batch_opts o = {.h = TN_API_HDR(tn_batch_opts), .slots = opts->n, .chunk = CHUNK, .prefix_bytes = opts->prefix_bytes,
                           .flags = opts->exact ? TN_BATCH_EXACT : 0};
  slots *s = calloc(1, sizeof *s);
  if (!s) return tni_fail_memory(err, "slots");
  *s = (slots){.turn = turn,
               .n = opts->n,
               .most_waiting = opts->waiting,
               .job = calloc(opts->n, sizeof(slots_job *)),
               .prefixes = {.h = TN_API_HDR(tn_batch_prefixes)},
               .guesses = {.h = TN_API_HDR(tn_batch_guesses)}};
  s->last = &s->first;
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->wake, NULL);
  tn_status st = s->job ? tn_batch_create(lm, &o, &s->batch, err) : tni_fail_memory(err, "slots");
  if (st == TN_OK && opts->draft) st = tn_batch_draft(s->batch, opts->draft, opts->draft_tokens, err);
  if (st == TN_OK && pthread_create(&s->thread, NULL, engine, s) != 0)
    st = tni_fail(err, TN_E_NO_MEMORY, "slots", "no thread for a model");
  s->started = st == TN_OK;
  if (st == TN_OK)
    *out = s;
  else
    slots_destroy(s);
  return st;
}

void slots_destroy(slots *s) {
  if (!s) return;
  if (s->started) {
    slots_cancel_all(s);
    pthread_mutex_lock(&s->lock);
    s->ends = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
  }
  tn_batch_destroy(s->batch);
  pthread_cond_destroy(&s->wake);
  pthread_mutex_destroy(&s->lock);
  free(s->job);
  free(s);
}

bool slots_add(slots *s, slots_job *job) {
  job->next = NULL;
  job->kept = 0;
  job->result = (tn_gen_result){.h = {sizeof job->result, 1, 0}};
  job->guesses = (tn_batch_guesses){.h = TN_API_HDR(tn_batch_guesses)};
  atomic_init(&job->cancelled, false);
  pthread_mutex_lock(&s->lock);
  const bool room = !s->ends && (uint64_t)s->running + s->waiting < (uint64_t)s->n + s->most_waiting;
  if (room) {
    *s->last = job;
    s->last = &job->next;
    s->waiting++;
    pthread_cond_signal(&s->wake);
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
  if (s->starting) atomic_store(&s->starting->cancelled, true);
  for (uint32_t i = 0; i < s->n; i++)
    if (s->job[i]) atomic_store(&s->job[i]->cancelled, true);
  if (s->running) tn_batch_cancel(s->batch);
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
  *running = s->running;
  pthread_mutex_unlock(&s->lock);
}

void slots_guesses(slots *s, tn_batch_guesses *out) {
  pthread_mutex_lock(&s->lock);
  *out = s->guesses;
  pthread_mutex_unlock(&s->lock);
}

void slots_prefixes(slots *s, tn_batch_prefixes *out) {
  pthread_mutex_lock(&s->lock);
  *out = s->prefixes;
  pthread_mutex_unlock(&s->lock);
}
