/* SPDX-License-Identifier: Apache-2.0
 *
 * The engines, each a thread that works off a queue, and the device's memory, which the CPU sees all the time.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fixed.h"

/* --- memory ------------------------------------------------------------------------------------------------------- */

typedef struct fixed_buffer {
  tn_buffer pub;
  unsigned char *bytes;
  int fd; /* -1: they are malloc's; else its pages, as many as room has */
  size_t room;
  bool imported;
  struct fixed_note { struct fixed_note *next; } *notes; /* of the mistake map_adds */
} fixed_buffer;

/* Pages that others can map: its own, or those of a descriptor, whose mapping may be shorter than its room. */
static unsigned char *shared_pages(fixed_buffer *b, const tn_buffer_req *req) {
  b->fd = b->imported ? dup(req->fd) : memfd_create("fixed", MFD_CLOEXEC);
  if (b->fd < 0 || (!b->imported && ftruncate(b->fd, (off_t)b->room) != 0)) return NULL;
  void *p = mmap(NULL, b->room, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, b->imported ? (off_t)req->offset : 0);
  return p == MAP_FAILED ? NULL : p;
}

/* Of the mistake import_copies: pages of its own, with what is there now. */
static unsigned char *copied(fixed_buffer *b) {
  void *p = mmap(NULL, b->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return b->bytes;
  memcpy(p, b->bytes, b->pub.bytes);
  munmap(b->bytes, b->room);
  return p;
}

tn_status fixed_share(tn_buffer *pub, uint32_t kind, tn_buffer_req *out, tn_error *err) {
  const fixed_buffer *b = (const fixed_buffer *)(const void *)pub;
  if (kind != TN_MEM_FD || b->fd < 0) return fixed_fail(err, TN_E_UNSUPPORTED, "fixed shares no memory of kind %u", kind);
  out->kind = kind;
  out->bytes = pub->bytes;
  out->offset = 0;
  if (((fixed_device *)pub->device)->wrong == FIXED_share_copies) {
    out->fd = memfd_create("fixed copy", MFD_CLOEXEC);
    if (out->fd >= 0 && write(out->fd, b->bytes, b->room) != (ssize_t)b->room) out->fd = -1;
  } else {
    out->fd = dup(b->fd);
  }
  return out->fd < 0 ? fixed_fail(err, TN_E_NO_MEMORY, "no descriptor") : TN_OK;
}

static tn_status create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  if (req->kind != TN_MEM_NEW && !(d->caps->import_kinds >> req->kind & 1))
    return fixed_fail(err, TN_E_UNSUPPORTED, "fixed imports no memory of kind %u", req->kind);
  if (req->bytes > d->caps->max_buffer_bytes) return fixed_fail(err, TN_E_NO_MEMORY, "a buffer of fixed has less room");
  fixed_buffer *b = calloc(1, sizeof *b);
  if (!b) return fixed_fail(err, TN_E_NO_MEMORY, "no memory for a buffer");
  b->fd = -1;
  b->room = (req->bytes + 4096) / 4096 * 4096;
  b->imported = req->kind != TN_MEM_NEW;
  unsigned char *bytes = d->caps->export_kinds ? shared_pages(b, req) : aligned_alloc(4096, b->room);
  if (!bytes) {
    if (b->fd >= 0) close(b->fd);
    free(b);
    return fixed_fail(err, TN_E_NO_MEMORY, "no memory for a buffer");
  }
  b->pub = (tn_buffer){.h = TN_HDR(tn_buffer), .device = d, .bytes = req->bytes, .flags = TN_BUF_COHERENT};
  b->bytes = bytes;
  if (req->flags & TN_BUF_ZERO && !b->imported) memset(bytes, 0, req->bytes);
  if (b->imported && ((fixed_device *)d)->wrong == FIXED_import_copies) b->bytes = copied(b);
  if (b->imported && ((fixed_device *)d)->wrong == FIXED_import_closes) close(req->fd);
  *out = &b->pub;
  return TN_OK;
}

static void destroy(tn_buffer *b) {
  fixed_device *d = (fixed_device *)b->device;
  if (fixed_hangs(d) && !(d->given_up && d->wrong == FIXED_abandon_destroys)) return;
  for (struct fixed_note *n = ((fixed_buffer *)b)->notes, *next; n; n = next) next = n->next, free(n);
  fixed_buffer *mine = (fixed_buffer *)b;
  if (mine->fd < 0)
    free(mine->bytes);
  else
    munmap(mine->bytes, mine->room);
  if (mine->fd >= 0 && mine->imported && d->wrong == FIXED_import_frees) (void)!ftruncate(mine->fd, 0);
  if (mine->fd >= 0) close(mine->fd);
  free(b);
}

static tn_status map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  (void)access;
  if (offset > b->bytes || n > b->bytes - offset)
    return fixed_fail(err, TN_E_INVALID, "the range is outside of the buffer");
  fixed_buffer *mine = (fixed_buffer *)b;
  struct fixed_note *note = ((fixed_device *)b->device)->wrong == FIXED_map_adds ? calloc(1, sizeof *note) : NULL;
  if (note) note->next = mine->notes, mine->notes = note;
  *ptr = mine->bytes + offset;
  return TN_OK;
}

static tn_status unmap(tn_buffer *b, void *ptr, tn_error *err) {
  (void)b, (void)ptr, (void)err;
  return TN_OK;
}

/* --- fences ------------------------------------------------------------------------------------------------------- */

static void nap_us(long us) { nanosleep(&(struct timespec){0, us * 1000}, NULL); }

static bool is_over(const fixed_device *d, const tn_fence *f) {
  const uint64_t now = __atomic_load_n(f->word, __ATOMIC_ACQUIRE);
  return d->wrong == FIXED_wait_half ? (uint32_t)now >= (uint32_t)f->value : now >= f->value;
}

/* With the lock. Where an item was given up, nothing but close ends it. */
static bool ends_early(const fixed_device *d, const fixed_item *i) { return i->cancelled || d->lost || (d->hangs && d->stop); }

/* Until its fences are over, or the item is to end. */
static void await(fixed_device *d, const fixed_item *i) {
  for (uint32_t k = 0; k < i->n_waits && d->wrong != FIXED_wait_none && !(k && d->wrong == FIXED_wait_first); k++) {
    const tn_fence *f = d->wrong == FIXED_wait_kept ? i->theirs[k] : &i->waits[k];
    for (bool stop = false; !stop && !is_over(d, f);) {
      nap_us(20);
      pthread_mutex_lock(&d->lock);
      stop = ends_early(d, i);
      pthread_mutex_unlock(&d->lock);
    }
  }
}

static void tell(const fixed_device *d, const tn_fence *f, tn_status st) {
  if (!f->word || (st == TN_E_CANCELLED && d->wrong == FIXED_fence_cancelled)) return;
  if (st == TN_E_DEVICE_LOST && d->wrong == FIXED_fence_lost) return;
  if (d->wrong == FIXED_fence_line) memset(f->word, 0, 64);
  const uint64_t value = d->wrong == FIXED_fence_one    ? 1
                         : d->wrong == FIXED_fence_half ? (uint32_t)f->value
                                                        : f->value;
  __atomic_store_n(f->word, value, __ATOMIC_RELEASE);
}

/* --- the queues --------------------------------------------------------------------------------------------------- */

/* What becomes of an item whose fences are over. */
static tn_status finish(fixed_device *d, tn_args *a, tn_error *err) {
  const fixed_item *i = fixed_item_of(a);
  pthread_mutex_lock(&d->lock);
  const bool lost = d->lost || (d->hangs && d->stop), cancelled = i->cancelled;
  pthread_mutex_unlock(&d->lock);
  if (lost) return fixed_fail(err, TN_E_DEVICE_LOST, "the device is gone");
  if (cancelled) return fixed_fail(err, TN_E_CANCELLED, "the item was told to end");
  if (d->wrong == FIXED_fence_early) tell(d, &i->signal, TN_OK), nap_us(20000);
  return fixed_compute(a, err);
}

/* With the lock, which is open while it computes and while the host hears of it. Done: the arguments are the host's. */
static void work_off(fixed_queue *q) {
  fixed_device *d = q->device;
  tn_args *a = q->now = q->first;
  fixed_item *i = fixed_item_of(a);
  tn_ticket *ticket = i->ticket;
  const tn_fence signal = i->signal;
  tn_error err = {.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
  tn_times times = {.h = TN_HDR(tn_times)};
  q->first = i->next;
  if (!q->first) q->last = NULL;
  d->lost = d->lost || ++d->items == d->lose_at;
  pthread_mutex_unlock(&d->lock);
  await(d, i);
  times.start = d->host->now(d->host->ctx);
  const tn_status st = finish(d, a, &err);
  times.end = d->host->now(d->host->ctx);
  if (d->wrong != FIXED_fence_late) tell(d, &signal, st);
  pthread_mutex_lock(&d->lock);
  q->in_flight--;
  q->now = NULL;
  pthread_cond_broadcast(&d->news);
  pthread_mutex_unlock(&d->lock);
  d->host->done(ticket, st, &times, st == TN_OK ? NULL : &err);
  if (d->wrong == FIXED_fence_late) nap_us(1000), tell(d, &signal, st);
  pthread_mutex_lock(&d->lock);
}

static void *work(void *arg) {
  fixed_queue *q = arg;
  fixed_device *d = q->device;
  pthread_mutex_lock(&d->lock);
  while (q->first || !d->stop) {
    if (q->first)
      work_off(q);
    else
      pthread_cond_wait(&d->news, &d->lock);
  }
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

/* Room for the fences that an item waits for. */
static bool take_room(fixed_item *i, const tn_item *item) {
  const uint32_t n = TN_HAS(item, tn_item, signal) ? item->n_waits : 0;
  if (n <= i->room_waits) return true;
  tn_fence *waits = realloc(i->waits, n * sizeof *waits);
  if (!waits) return false;
  i->waits = waits;
  i->room_waits = n;
  return true;
}

static void take(fixed_item *i, const tn_item *item) {
  const bool fences = TN_HAS(item, tn_item, signal);
  i->next = NULL;
  i->ticket = item->ticket;
  i->cancelled = false;
  i->n_waits = fences ? item->n_waits : 0;
  i->theirs = fences ? item->waits : NULL;
  for (uint32_t k = 0; k < i->n_waits; k++) i->waits[k] = *item->waits[k];
  i->signal = (tn_fence){.word = NULL};
  if (fences && item->signal) i->signal = *item->signal;
}

static void add(fixed_queue *q, const tn_item *item) {
  take(fixed_item_of(item->args), item);
  if (q->device->wrong == FIXED_drops && q->in_flight == FIXED_DEPTH) return;
  q->in_flight++;
  if (q->last) fixed_item_of(q->last)->next = item->args;
  if (!q->first) q->first = item->args;
  q->last = item->args;
}

static tn_status submit(tn_device *pub, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                        tn_error *err) {
  fixed_device *d = (fixed_device *)pub;
  (void)run;
  if (engine < 1 || engine > FIXED_ENGINES) return fixed_fail(err, TN_E_INVALID, "there is no engine %u", engine);
  for (uint32_t i = 0; i < n; i++) {
    if (!items[i]->plan) return fixed_fail(err, TN_E_UNSUPPORTED, "fixed copies nothing");
    if (!take_room(fixed_item_of(items[i]->args), items[i])) return fixed_fail(err, TN_E_NO_MEMORY, "no memory for fences");
  }
  fixed_queue *q = &d->queues[engine - 1];
  pthread_mutex_lock(&d->lock);
  const bool lost = d->lost, full = d->wrong == FIXED_refuses && q->in_flight + n > FIXED_DEPTH;
  for (uint32_t i = 0; !lost && !full && i < n; i++) {
    const bool second = d->wrong == FIXED_wait_second && i, queued = d->wrong == FIXED_wait_queued && q->in_flight;
    add(q, items[i]);
    if (second || queued) fixed_item_of(items[i]->args)->n_waits = 0;
  }
  pthread_cond_broadcast(&d->news);
  pthread_mutex_unlock(&d->lock);
  if (lost) return fixed_fail(err, TN_E_DEVICE_LOST, "the device is gone");
  return full ? fixed_fail(err, TN_E_LIMIT, "the engine has no room") : TN_OK;
}

static fixed_queue *queue_of(fixed_device *d, const tn_args *a) {
  for (uint32_t e = 0; e < FIXED_ENGINES; e++) {
    if (d->queues[e].now == a) return &d->queues[e];
    for (const tn_args *at = d->queues[e].first; at; at = fixed_item_of((tn_args *)(uintptr_t)at)->next)
      if (at == a) return &d->queues[e];
  }
  return NULL;
}

static void take_out(fixed_queue *q, const tn_args *a) {
  tn_args *before = NULL;
  for (tn_args *at = q->first; at != a; at = fixed_item_of(at)->next) before = at;
  if (before)
    fixed_item_of(before)->next = fixed_item_of((tn_args *)(uintptr_t)a)->next;
  else
    q->first = fixed_item_of((tn_args *)(uintptr_t)a)->next;
  if (q->last == a) q->last = before;
  q->in_flight--;
}

bool fixed_hangs(fixed_device *d) {
  pthread_mutex_lock(&d->lock);
  const bool hangs = d->hangs;
  pthread_mutex_unlock(&d->lock);
  return hangs;
}

bool fixed_let_go(fixed_device *d, tn_args *a) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 1;
  pthread_mutex_lock(&d->lock);
  fixed_queue *q = queue_of(d, a);
  if (q && q->now != a && !d->hangs) take_out(q, a), q = NULL;
  const bool waits = d->given_up && d->wrong == FIXED_abandon_waits;
  for (int rc = 0; q && q->now == a && (!d->hangs || waits) && (!rc || waits) && d->wrong != FIXED_left_stays;)
    rc = waits ? pthread_cond_wait(&d->news, &d->lock) : pthread_cond_timedwait(&d->news, &d->lock, &until);
  d->hangs = d->hangs || (q && q->now == a);
  const bool frees = d->wrong == (d->given_up ? FIXED_abandon_frees : FIXED_left_frees);
  const bool free = !d->hangs || frees;
  pthread_mutex_unlock(&d->lock);
  return free;
}

static void abandon(tn_device *pub) {
  fixed_device *d = (fixed_device *)pub;
  pthread_mutex_lock(&d->lock);
  d->given_up = true;
  for (uint32_t e = 0; e < FIXED_ENGINES; e++) d->hangs = d->hangs || d->queues[e].in_flight;
  pthread_mutex_unlock(&d->lock);
}

static void cancel_in(fixed_queue *q, const tn_ticket *ticket) {
  if (q->now && (!ticket || fixed_item_of(q->now)->ticket == ticket)) fixed_item_of(q->now)->cancelled = true;
  for (tn_args *a = q->first; a; a = fixed_item_of(a)->next)
    if (!ticket || fixed_item_of(a)->ticket == ticket) {
      fixed_item_of(a)->cancelled = true;
      if (q->device->wrong == FIXED_cancel_early) tell(q->device, &fixed_item_of(a)->signal, TN_E_CANCELLED);
    }
}

static void cancel(tn_device *pub, uint32_t engine, tn_ticket *ticket) {
  fixed_device *d = (fixed_device *)pub;
  pthread_mutex_lock(&d->lock);
  for (uint32_t e = 1; e <= FIXED_ENGINES; e++) {
    const bool others = d->wrong == FIXED_cancel_all || (d->wrong == FIXED_cancel_other && ticket);
    if (d->wrong == FIXED_cancel_first ? e == 1 : e == engine || others) cancel_in(&d->queues[e - 1], ticket);
  }
  pthread_mutex_unlock(&d->lock);
}

/* Its threads take no signals of the application's. */
bool fixed_engine_start(fixed_device *d) {
  sigset_t all, before;
  bool ok = true;
  pthread_mutex_init(&d->lock, NULL);
  pthread_cond_init(&d->news, NULL);
  sigfillset(&all);
  sigdelset(&all, SIGSEGV), sigdelset(&all, SIGBUS), sigdelset(&all, SIGFPE), sigdelset(&all, SIGILL);
  if (d->wrong == FIXED_signals) sigemptyset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (uint32_t e = 0; ok && e < FIXED_ENGINES; e++) {
    d->queues[e].device = d;
    ok = pthread_create(&d->queues[e].worker, NULL, work, &d->queues[e]) == 0;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return ok;
}

void fixed_engine_stop(fixed_device *d) {
  pthread_mutex_lock(&d->lock);
  d->stop = true;
  pthread_cond_broadcast(&d->news);
  pthread_mutex_unlock(&d->lock);
  for (uint32_t e = 0; e < FIXED_ENGINES; e++) pthread_join(d->queues[e].worker, NULL);
  if (d->hangs) return; /* who waits in done is not the device's */
  pthread_cond_destroy(&d->news);
  pthread_mutex_destroy(&d->lock);
}

void fixed_engine_fill(tn_device *d) {
  d->submit = submit;
  d->create = create;
  d->destroy = destroy;
  d->map = map;
  d->unmap = unmap;
  d->cancel = cancel;
  d->abandon = abandon;
}
