/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "fake.h"

/* Bytes of a view: device memory is encoded, host memory (copies only) is not. */
typedef struct place {
  unsigned char *p;
  unsigned char key;
} place;

static tn_status locate(const tn_view *v, bool host_ok, place *out, tn_error *err) {
  if (!v->buffer) {
    if (!host_ok || !v->ptr) return fake_fail(err, TN_E_INVALID, "a view names no buffer of this device");
    *out = (place){v->ptr, 0};
    return TN_OK;
  }
  const fake_buffer *b = (const fake_buffer *)v->buffer;
  if (v->offset > b->pub.bytes || v->bytes > b->pub.bytes - v->offset)
    return fake_fail(err, TN_E_INVALID, "a view of %llu bytes at %llu leaves its buffer of %llu",
                     (unsigned long long)v->bytes, (unsigned long long)v->offset, (unsigned long long)b->pub.bytes);
  if (fake_is_mapped(b, v->offset, v->bytes))
    return fake_fail(err, TN_E_INVALID, "a buffer is mapped where an item uses it");
  if (!host_ok && v->offset % FAKE_SUB_ALIGN)
    return fake_fail(err, TN_E_INVALID, "a view begins at %llu, no multiple of %d", (unsigned long long)v->offset,
                     FAKE_SUB_ALIGN);
  *out = (place){b->bytes + v->offset, FAKE_KEY};
  return TN_OK;
}

static float load(const place *p, int64_t i) {
  unsigned char raw[4];
  float f;
  for (int k = 0; k < 4; k++) raw[k] = p->p[i * 4 + k] ^ p->key;
  memcpy(&f, raw, 4);
  return f;
}

static void store(const place *p, int64_t i, float f) {
  unsigned char raw[4];
  memcpy(raw, &f, 4);
  for (int k = 0; k < 4; k++) p->p[i * 4 + k] = raw[k] ^ p->key;
}

static tn_status copy(const tn_item *it, tn_error *err) {
  place src, dst;
  tn_status st = locate(it->src, true, &src, err);
  if (st == TN_OK) st = locate(it->dst, true, &dst, err);
  if (st != TN_OK) return st;
  uint64_t n = it->src->bytes;
  if (n != it->dst->bytes) return fake_fail(err, TN_E_INVALID, "a copy between views of different sizes");
  for (uint64_t i = 0; i < n; i++) dst.p[i] = src.p[i] ^ src.key ^ dst.key;
  return TN_OK;
}

static int64_t count(const fake_shape *s) {
  int64_t n = 1;
  for (uint32_t i = 0; i < s->rank; i++) n *= s->dims[i];
  return n;
}

/* Element of s that meets element `at` of out: dims are aligned at their ends, 1 stands for all. */
static int64_t broadcast(const fake_shape *s, const fake_shape *out, const int64_t *at) {
  int64_t index = 0;
  for (uint32_t i = 0; i < s->rank; i++)
    index = index * s->dims[i] + (s->dims[i] == 1 ? 0 : at[out->rank - s->rank + i]);
  return index;
}

static tn_status add(const tn_item *it, tn_error *err) {
  const tn_plan *plan = it->plan;
  const tn_view *v = it->args->views;
  const fake_shape *shapes[3] = {&plan->a, &plan->b, &plan->out};
  place p[3];
  for (int i = 0; i < 3; i++) {
    tn_status st = locate(&v[i], false, &p[i], err);
    if (st != TN_OK) return st;
    if (v[i].bytes < (uint64_t)count(shapes[i]) * 4)
      return fake_fail(err, TN_E_INVALID, "use %d has %llu bytes, its dims need %lld", i,
                       (unsigned long long)v[i].bytes, (long long)count(shapes[i]) * 4);
  }
  int64_t at[TN_MAX_RANK] = {0}, n = count(&plan->out);
  for (int64_t e = 0; e < n; e++) {
    store(&p[2], e,
          load(&p[0], broadcast(&plan->a, &plan->out, at)) + load(&p[1], broadcast(&plan->b, &plan->out, at)));
    for (uint32_t d = plan->out.rank; d-- > 0;) {
      if (++at[d] < plan->out.dims[d]) break;
      at[d] = 0;
    }
  }
  return TN_OK;
}

/* From sum nan_after on, for nan_items of them: the last element of the result is NaN. With first_off the first is wrong. */
static void spoil(fake_device *d, const tn_item *it) {
  const fake_plugin *p = d->plugin;
  const int64_t i = d->sums++, n = count(&it->plan->out);
  place y;
  tn_error err;
  if (p->first_off && n > 0 && locate(&it->args->views[2], false, &y, &err) == TN_OK) store(&y, 0, load(&y, 0) + 1);
  if (!p->nan_after || i < p->nan_after || (p->nan_items && i >= p->nan_after + p->nan_items) || n < 1) return;
  if (locate(&it->args->views[2], false, &y, &err) == TN_OK) store(&y, n - 1, NAN);
}

/* Virtual time: a microsecond per item. */
static void set_times(fake_lane *l, const tn_item *it, tn_times *t) {
  if (!l->d->plugin->virtual_clock) return;
  t->clock = 1;
  t->queued = it->ready;
  t->start = it->ready > l->free ? it->ready : l->free;
  t->end = l->free = t->start + 1000;
}

static void nap(int64_t us) {
  struct timespec ts = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
  if (us > 0) nanosleep(&ts, NULL);
}

static bool is_cancelled(const fake_lane *l, int64_t index) { return index < atomic_load(&l->cancelled); }

/* The item's delay, cut short where it is cancelled. */
static void delay(const fake_lane *l, int64_t index) {
  enum { SLICE_US = 1000 };
  for (int64_t left = l->d->plugin->delay_us; left > 0 && !is_cancelled(l, index); left -= SLICE_US)
    nap(left < SLICE_US ? left : SLICE_US);
}

static void wait_for(const fake_lane *l, const tn_item *it) {
  for (uint32_t i = 0; l->d->plugin->fences && i < it->n_waits; i++) {
    const tn_fence *f = it->waits[i];
    atomic_fetch_add(&l->d->waits, 1);
    while (__atomic_load_n(f->word, __ATOMIC_ACQUIRE) < f->value) nap(50);
  }
}

static void hang(void) {
  for (;;) nap(1000000);
}

void fake_abandon(tn_device *pub) {
  if (((fake_device *)pub)->plugin->hang_in == FAKE_HANG_ABANDON) hang();
  atomic_store(&((fake_device *)pub)->abandoned, 1);
}

/* The items that the engine has now. One alone is not told from the others: it ends with them. */
void fake_cancel(tn_device *pub, uint32_t engine, tn_ticket *ticket) {
  fake_lane *l = &((fake_device *)pub)->lanes[engine - 1];
  (void)ticket;
  if (l->d->plugin->hang_in == FAKE_HANG_CANCEL) hang();
  atomic_store(&l->cancelled, atomic_load(&l->given));
}

/* Mode stale: everything that was completed is completed again. */
static void repeat(fake_lane *l) {
  const int n = l->n_seen < FAKE_SEEN ? l->n_seen : FAKE_SEEN;
  for (int i = 0; i < n; i++) l->d->host->done(l->seen[i], TN_E_INTERNAL, NULL, NULL);
}

static void finish(fake_lane *l, tn_ticket *ticket, tn_status st, const tn_times *t, const tn_error *err) {
  const tn_host *h = l->d->host;
  const int mode = l->d->plugin->mode;
  if (mode == FAKE_NEVER || (mode == FAKE_DROP && l->begun == FAKE_DROPPED)) return;
  if (mode == FAKE_STALE) {
    repeat(l);
    l->seen[l->n_seen++ % FAKE_SEEN] = ticket;
  }
  if (mode == FAKE_WRONG) h->done(NULL, TN_OK, NULL, NULL);
  if (mode == FAKE_WRONG || mode == FAKE_TWICE) {
    if (l->last && l->last_submit == atomic_load(&l->n_submits))
      h->done(l->last, TN_E_INTERNAL, t, NULL); /* of an item that is done already */
  }
  l->last = ticket;
  l->last_submit = atomic_load(&l->n_submits);
  h->done(ticket, st, t, err); /* the item may be gone from here on */
}

static void execute(fake_lane *l, const tn_item *it, int64_t queued) {
  tn_error err = {.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
  fake_device *d = l->d;
  const fake_plugin *p = d->plugin;
  tn_times t = {.h = TN_HDR(tn_times), .queued = queued, .start = d->host->now(d->host->ctx)};
  tn_status st;
  const int64_t index = l->begun++;
  wait_for(l, it);
  if (p->mode == FAKE_HANG) {
    while (!atomic_load(&d->abandoned)) nap(1000);
    return;
  }
  const int now = atomic_fetch_add(&d->computing, 1) + 1;
  if (now > atomic_load(&d->together)) atomic_store(&d->together, now);
  delay(l, index);
  pthread_mutex_lock(&d->memory);
  const bool ends = is_cancelled(l, index);
  if (ends)
    st = fake_fail(&err, TN_E_CANCELLED, "fake-engine was told to end");
  else if (p->fail_after && atomic_load(&d->items) >= p->fail_after)
    st = fake_fail(&err, TN_E_DEVICE_LOST, "fake-engine was told to fail after %lld items", (long long)p->fail_after);
  else
    st = it->plan ? add(it, &err) : copy(it, &err);
  if (st == TN_OK && it->plan) spoil(d, it);
  pthread_mutex_unlock(&d->memory);
  atomic_fetch_add(&d->items, !ends);
  atomic_fetch_sub(&d->computing, 1);
  t.end = d->host->now(d->host->ctx);
  t.bytes = it->plan ? it->args->views[2].bytes : it->src->bytes;
  set_times(l, it, &t);
  if (p->fences && it->signal) __atomic_store_n(it->signal->word, it->signal->value, __ATOMIC_RELEASE);
  atomic_fetch_sub(&d->in_flight, 1);
  finish(l, it->ticket, st, &t, st == TN_OK ? NULL : &err);
}

/* Runs the oldest item, or waits for who runs one. With lock held, and held again on return. */
static void step(fake_lane *l) {
  if (l->busy) {
    pthread_cond_wait(&l->less, &l->lock);
    return;
  }
  if (!l->n) return;
  const tn_item *it = l->queue[l->head];
  l->head = (l->head + 1) % FAKE_QUEUE;
  l->n--;
  l->busy = true;
  pthread_mutex_unlock(&l->lock);
  execute(l, it, l->d->host->now(l->d->host->ctx));
  pthread_mutex_lock(&l->lock);
  l->busy = false;
  pthread_cond_broadcast(&l->less);
}

/* Mode map: whoever calls map or submit first completes items; this thread only keeps a host that waits from hanging.
 */
static void linger(fake_lane *l) {
  pthread_mutex_unlock(&l->lock);
  nap(20000);
  pthread_mutex_lock(&l->lock);
}

static void *engine_main(void *arg) {
  fake_lane *l = arg;
  pthread_mutex_lock(&l->lock);
  while (!l->quit || l->n) {
    if (!l->n) {
      pthread_cond_wait(&l->more, &l->lock);
      continue;
    }
    if (l->d->plugin->mode == FAKE_MAP && !l->quit) linger(l);
    step(l);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

static tn_status start(fake_device *d, fake_lane *l) {
  l->d = d;
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->more, NULL);
  pthread_cond_init(&l->less, NULL);
  l->has_thread = d->plugin->mode != FAKE_INLINE;
  if (!l->has_thread || pthread_create(&l->thread, NULL, engine_main, l) == 0) return TN_OK;
  l->has_thread = false;
  return TN_E_NO_MEMORY;
}

tn_status fake_engine_start(fake_device *d) {
  tn_status st = TN_OK;
  pthread_mutex_init(&d->memory, NULL);
  for (int i = 0; i < FAKE_ENGINES; i++) {
    tn_status one = start(d, &d->lanes[i]);
    if (one != TN_OK) st = one;
  }
  if (st != TN_OK) fake_engine_stop(d);
  return st;
}

static void stop(fake_lane *l) {
  if (l->has_thread) {
    pthread_mutex_lock(&l->lock);
    l->quit = true;
    pthread_cond_broadcast(&l->more);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
  }
  if (l->d->plugin->mode == FAKE_STALE) repeat(l); /* their sessions are gone */
  pthread_cond_destroy(&l->more);
  pthread_cond_destroy(&l->less);
  pthread_mutex_destroy(&l->lock);
}

void fake_engine_stop(fake_device *d) {
  fake_engine_drain(d);
  for (int i = 0; i < FAKE_ENGINES; i++) stop(&d->lanes[i]);
  pthread_mutex_destroy(&d->memory);
}

static void drain(fake_lane *l) {
  pthread_mutex_lock(&l->lock);
  while (l->n || l->busy) step(l);
  pthread_mutex_unlock(&l->lock);
}

void fake_engine_drain(fake_device *d) {
  for (int i = 0; i < FAKE_ENGINES && d->plugin->mode == FAKE_MAP; i++) drain(&d->lanes[i]);
}

void fake_engine_forget(fake_device *d) {
  for (int i = 0; i < FAKE_ENGINES; i++) {
    fake_lane *l = &d->lanes[i];
    if (!l->has_thread) continue;
    pthread_mutex_lock(&l->lock);
    while (l->n || l->busy) pthread_cond_wait(&l->less, &l->lock);
    pthread_mutex_unlock(&l->lock);
  }
}

static tn_status check_item(const fake_device *d, const tn_item *it, tn_error *err) {
  if (d->plugin->priority && it->deadline <= d->host->now(d->host->ctx))
    return fake_fail(err, TN_E_INVALID, "an item whose deadline is over");
  if (it->priority != d->plugin->priority)
    return fake_fail(err, TN_E_INVALID, "an item of priority %u, not %lld", it->priority,
                     (long long)d->plugin->priority);
  if (!it->ticket) return fake_fail(err, TN_E_INVALID, "an item has no ticket");
  if (it->plan ? !it->args || it->args->plan != it->plan : !it->src || !it->dst)
    return fake_fail(err, TN_E_INVALID, "an item is neither a plan with its args nor a copy");
  return TN_OK;
}

tn_status fake_submit(tn_device *pub, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                      tn_error *err) {
  fake_device *d = (fake_device *)pub;
  const fake_plugin *p = d->plugin;
  if (engine < 1 || engine > (uint32_t)p->n_engines)
    return fake_fail(err, TN_E_INVALID, "there is no engine %u", engine);
  if (p->mode == FAKE_BLOCKING && !run) return fake_fail(err, TN_E_INVALID, "a BLOCKING engine was lent no tn_run");
  if (n > FAKE_QUEUE) return fake_fail(err, TN_E_LIMIT, "%u items, at most %d", n, FAKE_QUEUE);
  for (uint32_t i = 0; i < n; i++) {
    tn_status st = check_item(d, items[i], err);
    if (st != TN_OK) return st;
  }
  fake_lane *l = &d->lanes[engine - 1];
  atomic_fetch_add(&d->submits, 1);
  atomic_fetch_add(&l->n_submits, 1);
  atomic_fetch_add(&l->given, n);
  const long long now = atomic_fetch_add(&d->in_flight, n) + n;
  for (long long most = atomic_load(&d->most); now > most && !atomic_compare_exchange_weak(&d->most, &most, now);) continue;
  if (p->mode == FAKE_INLINE) {
    for (uint32_t i = 0; i < n; i++) execute(l, items[i], d->host->now(d->host->ctx));
    return TN_OK;
  }
  fake_engine_drain(d);
  pthread_mutex_lock(&l->lock);
  while (l->n + n > FAKE_QUEUE) pthread_cond_wait(&l->less, &l->lock);
  for (uint32_t i = 0; i < n; i++) l->queue[(l->head + l->n++) % FAKE_QUEUE] = items[i];
  pthread_cond_broadcast(&l->more);
  while (p->mode == FAKE_BLOCKING && (l->n || l->busy)) pthread_cond_wait(&l->less, &l->lock);
  pthread_mutex_unlock(&l->lock);
  return TN_OK;
}
