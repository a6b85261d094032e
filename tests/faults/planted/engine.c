/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrongs of engines: how items are answered, and what a lost device says. For tests only, as planted.c.
 */
#include "tests/faults/planted/edges.h"
#include "tests/faults/planted/engine.h"
#include "tests/faults/planted/known.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IS(plant) (PLANT == PLANT_##plant)

enum { MAX_ITEMS = 64, MAX_THREADS = 1024 };

static tn_host host;
static void (*their_done)(tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err);
static tn_status (*their_submit)(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                                 tn_error *err);
static tn_caps caps;
static tn_engine engines[4];
static const tn_engine *engine_list[4];
static bool lost, answered_already, cancelled;

/* --- threads: joined before memory goes -------------------------------------------------------------------------- */

typedef struct job {
  tn_device *d;
  uint32_t engine, n;
  long delay_us;
  const tn_item *const *borrowed; /* the host's, after submit has come back */
  tn_item item[MAX_ITEMS];
  tn_ticket *again; /* is only answered */
  tn_ticket *named; /* told to end */
} job;

static pthread_t threads[MAX_THREADS];
static job jobs[MAX_THREADS];
static uint32_t n_threads;

/* Item by item; the one that was told to end is not computed, or (CANCEL_MORE) none is. */
static void *work_unless_named(job *j) {
  tn_error err = {.h = TN_HDR(tn_error)};
  tn_ticket *const named = __atomic_load_n(&j->named, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < j->n; i++) {
    const tn_item *one = &j->item[i];
    const bool ends = named && (IS(CANCEL_MORE) || one->ticket == named);
    const tn_status st = ends ? TN_E_CANCELLED : their_submit(j->d, j->engine, &one, 1, NULL, &err);
    if (st != TN_OK) their_done(one->ticket, st, NULL, &err);
  }
  return NULL;
}

static void *work(void *arg) {
  job *j = arg;
  const tn_item *items[MAX_ITEMS];
  const struct timespec t = {0, j->delay_us * 1000};
  tn_error err = {.h = TN_HDR(tn_error)};
  nanosleep(&t, NULL);
  for (uint32_t i = 0; i < j->n; i++) items[i] = j->borrowed ? j->borrowed[i] : &j->item[i];
  if (j->again) {
    their_done(j->again, TN_OK, NULL, NULL);
    return NULL;
  }
  if (IS(CANCEL_MORE) || IS(OK_CANCEL_ONE)) return work_unless_named(j);
  const tn_status st = their_submit(j->d, j->engine, items, j->n, NULL, &err);
  for (uint32_t i = 0; st != TN_OK && i < j->n; i++) their_done(items[i]->ticket, st, NULL, &err);
  return NULL;
}

static job *new_job(long delay_us) {
  job *j = &jobs[n_threads % MAX_THREADS];
  *j = (job){.delay_us = delay_us};
  return j;
}

static void start(job *j) {
  if (n_threads < MAX_THREADS && pthread_create(&threads[n_threads], NULL, work, j) == 0) n_threads++;
}

void engine_join(void) {
  while (n_threads) pthread_join(threads[--n_threads], NULL);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static bool told, several; /* the host knows of the loss; the submission is one of several items */

static void my_done(tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err) {
  lost = lost || st == TN_E_DEVICE_LOST;
  if (IS(LOST_STATUS) && st == TN_E_DEVICE_LOST) st = TN_E_INTERNAL;
  if (IS(LOST_SILENT) && st == TN_E_DEVICE_LOST && several) {
    if (told) return;
    told = true;
  }
  if (answered_already) return;
  their_done(t, st, times, err);
  if (IS(DONE_TWICE) || (IS(CANCEL_TWICE) && cancelled)) their_done(t, st, times, err);
  if (IS(DONE_LATE) && n_threads < 64) {
    job *j = new_job(15000);
    j->again = t;
    start(j);
  }
}

static tn_status on_a_thread(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, long delay_us) {
  job *j = new_job(delay_us);
  j->d = d;
  j->engine = engine;
  j->n = n;
  for (uint32_t i = 0; i < n; i++) j->item[i] = *items[i];
  if (IS(KEEPS_ITEM)) j->borrowed = items;
  start(j);
  return TN_OK;
}

static float to_bfloat16(float v) {
  uint32_t u;
  memcpy(&u, &v, sizeof u);
  if (!isnan(v)) u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000;
  memcpy(&v, &u, sizeof v);
  return v;
}

/* Item by item, each with its input rounded while it is computed. */
static tn_status submit_rounded(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                                tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    tn_view x;
    void *at = NULL;
    if (!known_input(items[i]->args, &x) || d->map(x.buffer, x.offset, x.bytes, TN_READ | TN_WRITE, &at, err) != TN_OK)
      return TN_E_INTERNAL;
    float *kept = malloc(x.bytes + 1), *v = at;
    memcpy(kept, v, x.bytes);
    for (uint64_t k = 0; k < x.bytes / sizeof *v; k++) v[k] = to_bfloat16(v[k]);
    st = their_submit(d, engine, &items[i], 1, run, err);
    memcpy(v, kept, x.bytes);
    free(kept);
    (void)d->unmap(x.buffer, at, err);
  }
  return st;
}

static tn_status my_submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                           tn_error *err) {
  tn_item copy[MAX_ITEMS];
  const tn_item *list[MAX_ITEMS];
  if (n > MAX_ITEMS) return TN_E_LIMIT;
  several = n > 1;
  for (uint32_t i = 0; i < n; i++) {
    copy[i] = *items[i];
    list[i] = &copy[i];
    if (IS(DONE_SWAPPED)) copy[i].ticket = items[0]->ticket;
  }
  if (IS(OK_THREADED) || IS(KEEPS_ITEM) || IS(BLOCKING_LATE)) return on_a_thread(d, engine, items, n, 1500);
  if (IS(CANCEL_MORE) || IS(OK_CANCEL_ONE)) return on_a_thread(d, engine, items, n, 20000);
  if (IS(OK_BFLOAT16)) return submit_rounded(d, engine, list, n, run, err);
  if (IS(LOST_INVALID) && lost) return TN_E_INVALID;
  for (uint32_t i = 0; IS(OK_ARGS_APART) && i < n; i++)
    for (uint32_t k = 0; k < i; k++)
      if (items[k]->args == items[i]->args) return TN_E_INVALID;
  if (IS(CANCEL_STICKY) && cancelled) {
    for (uint32_t i = 0; i < n; i++) their_done(items[i]->ticket, TN_E_CANCELLED, NULL, NULL);
    return TN_OK;
  }
  if ((IS(LOST_OK) && lost) || IS(DONE_EARLY)) {
    for (uint32_t i = 0; i < n; i++) their_done(items[i]->ticket, TN_OK, NULL, NULL);
    answered_already = IS(DONE_EARLY);
    return IS(DONE_EARLY) ? on_a_thread(d, engine, items, n, 20000) : TN_OK;
  }
  return their_submit(d, engine, list, n, run, err);
}

static void my_cancel(tn_device *d, uint32_t engine, tn_ticket *ticket) {
  (void)d, (void)engine;
  cancelled = true;
  for (uint32_t i = 0; ticket && i < n_threads; i++)
    for (uint32_t k = 0; k < jobs[i].n; k++)
      if (jobs[i].item[k].ticket == ticket) __atomic_store_n(&jobs[i].named, ticket, __ATOMIC_RELEASE);
}

/* --- what planted.c hangs in -------------------------------------------------------------------------------------- */

const tn_host *engine_host(const tn_host *h) {
  memcpy(&host, h, h->h.size < sizeof host ? h->h.size : sizeof host);
  their_done = h->done;
  host.done = my_done;
  edges_host(&host);
  return &host;
}

bool engine_gone(void) { return IS(LOST_FOREVER) && lost; }

/* An engine that answers later is not one that blocks. */
static void unblock(tn_device *d) {
  caps = *d->caps;
  for (uint32_t i = 0; i < caps.n_engines && i < 4; i++) {
    engines[i] = *caps.engines[i];
    engines[i].flags &= ~(uint32_t)TN_ENGINE_BLOCKING;
    engine_list[i] = &engines[i];
  }
  caps.engines = engine_list;
  d->caps = &caps;
}

void engine_plant(tn_device *d) {
  if (!d->submit) return;
  their_submit = d->submit;
  d->submit = my_submit;
  if (!IS(LOST_FOREVER)) lost = false;
  answered_already = cancelled = told = false;
  const bool one = IS(CANCEL_MORE) || IS(OK_CANCEL_ONE);
  if (IS(CANCEL_TWICE) || IS(CANCEL_STICKY) || one) d->cancel = my_cancel;
  if (IS(OK_THREADED) || IS(KEEPS_ITEM) || one) unblock(d);
}
