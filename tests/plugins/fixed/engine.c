/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine, whose thread works off a queue, and the device's memory, which the CPU sees all the time.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "fixed.h"

/* --- memory ------------------------------------------------------------------------------------------------------- */

typedef struct fixed_buffer {
  tn_buffer pub;
  unsigned char *bytes;
} fixed_buffer;

static tn_status create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  if (req->kind != TN_MEM_NEW) return fixed_fail(err, TN_E_UNSUPPORTED, "fixed imports no memory");
  if (req->bytes > d->caps->max_buffer_bytes) return fixed_fail(err, TN_E_NO_MEMORY, "a buffer of fixed has less room");
  fixed_buffer *b = calloc(1, sizeof *b);
  unsigned char *bytes = b ? aligned_alloc(4096, (req->bytes + 4096) / 4096 * 4096) : NULL;
  if (!bytes) {
    free(b);
    return fixed_fail(err, TN_E_NO_MEMORY, "no memory for a buffer");
  }
  b->pub = (tn_buffer){.h = TN_HDR(tn_buffer), .device = d, .bytes = req->bytes, .flags = TN_BUF_COHERENT};
  b->bytes = bytes;
  if (req->flags & TN_BUF_ZERO) memset(bytes, 0, req->bytes);
  *out = &b->pub;
  return TN_OK;
}

static void destroy(tn_buffer *b) {
  free(((fixed_buffer *)b)->bytes);
  free(b);
}

static tn_status map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  (void)access;
  if (offset > b->bytes || n > b->bytes - offset)
    return fixed_fail(err, TN_E_INVALID, "the range is outside of the buffer");
  *ptr = ((fixed_buffer *)b)->bytes + offset;
  return TN_OK;
}

static tn_status unmap(tn_buffer *b, void *ptr, tn_error *err) {
  (void)b, (void)ptr, (void)err;
  return TN_OK;
}

/* --- the queue ---------------------------------------------------------------------------------------------------- */

/* With the lock, which is open while it computes and while the host hears of it. Done: the arguments are the host's. */
static void work_off(fixed_device *d) {
  tn_args *a = d->first;
  tn_ticket *ticket = fixed_item_of(a)->ticket;
  tn_error err = {.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
  tn_times times = {.h = TN_HDR(tn_times)};
  d->first = fixed_item_of(a)->next;
  if (!d->first) d->last = NULL;
  pthread_mutex_unlock(&d->lock);
  times.start = d->host->now(d->host->ctx);
  const tn_status st = fixed_compute(a, &err);
  times.end = d->host->now(d->host->ctx);
  pthread_mutex_lock(&d->lock);
  d->in_flight--;
  pthread_mutex_unlock(&d->lock);
  d->host->done(ticket, st, &times, st == TN_OK ? NULL : &err);
  pthread_mutex_lock(&d->lock);
}

static void *work(void *arg) {
  fixed_device *d = arg;
  pthread_mutex_lock(&d->lock);
  while (d->first || !d->stop) {
    if (d->first)
      work_off(d);
    else
      pthread_cond_wait(&d->news, &d->lock);
  }
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

static void add(fixed_device *d, const tn_item *item) {
  fixed_item *i = fixed_item_of(item->args);
  *i = (fixed_item){.ticket = item->ticket};
  if (d->wrong == FIXED_drops && d->in_flight == FIXED_DEPTH) return;
  d->in_flight++;
  if (d->last) fixed_item_of(d->last)->next = item->args;
  if (!d->first) d->first = item->args;
  d->last = item->args;
}

static tn_status submit(tn_device *pub, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                        tn_error *err) {
  fixed_device *d = (fixed_device *)pub;
  (void)run;
  if (engine != 1) return fixed_fail(err, TN_E_INVALID, "there is one engine");
  for (uint32_t i = 0; i < n; i++)
    if (!items[i]->plan) return fixed_fail(err, TN_E_UNSUPPORTED, "fixed copies nothing");
  pthread_mutex_lock(&d->lock);
  const bool full = d->wrong == FIXED_refuses && d->in_flight + n > FIXED_DEPTH;
  for (uint32_t i = 0; !full && i < n; i++) add(d, items[i]);
  pthread_cond_broadcast(&d->news);
  pthread_mutex_unlock(&d->lock);
  return full ? fixed_fail(err, TN_E_LIMIT, "the engine has no room") : TN_OK;
}

/* Its thread takes no signals of the application's. */
bool fixed_engine_start(fixed_device *d) {
  sigset_t all, before;
  pthread_mutex_init(&d->lock, NULL);
  pthread_cond_init(&d->news, NULL);
  sigfillset(&all);
  sigdelset(&all, SIGSEGV), sigdelset(&all, SIGBUS), sigdelset(&all, SIGFPE), sigdelset(&all, SIGILL);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool ok = pthread_create(&d->worker, NULL, work, d) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return ok;
}

void fixed_engine_stop(fixed_device *d) {
  pthread_mutex_lock(&d->lock);
  d->stop = true;
  pthread_cond_broadcast(&d->news);
  pthread_mutex_unlock(&d->lock);
  pthread_join(d->worker, NULL);
  pthread_cond_destroy(&d->news);
  pthread_mutex_destroy(&d->lock);
}

void fixed_engine_fill(tn_device *d) {
  d->submit = submit;
  d->create = create;
  d->destroy = destroy;
  d->map = map;
  d->unmap = unmap;
}
