/* SPDX-License-Identifier: Apache-2.0 */
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

static void execute(fake_device *d, const tn_item *it, int64_t queued) {
  tn_error err = {.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
  const fake_plugin *p = d->plugin;
  if (p->delay_us > 0) {
    struct timespec ts = {.tv_sec = p->delay_us / 1000000, .tv_nsec = (long)(p->delay_us % 1000000) * 1000};
    nanosleep(&ts, NULL);
  }
  tn_times t = {.h = TN_HDR(tn_times), .queued = queued, .start = d->host->now(d->host->ctx)};
  tn_status st;
  if (p->fail_after && d->items >= p->fail_after)
    st = fake_fail(&err, TN_E_DEVICE_LOST, "fake-engine was told to fail after %lld items", (long long)p->fail_after);
  else
    st = it->plan ? add(it, &err) : copy(it, &err);
  d->items++;
  t.end = d->host->now(d->host->ctx);
  t.bytes = it->plan ? it->args->views[2].bytes : it->src->bytes;
  d->host->done(it->ticket, st, &t, st == TN_OK ? NULL : &err); /* the item may be gone from here on */
}

/* Runs the oldest item, or waits for who runs one. With lock held, and held again on return. */
static void step(fake_device *d) {
  if (d->busy) {
    pthread_cond_wait(&d->less, &d->lock);
    return;
  }
  if (!d->n) return;
  const tn_item *it = d->queue[d->head];
  d->head = (d->head + 1) % FAKE_QUEUE;
  d->n--;
  d->busy = true;
  pthread_mutex_unlock(&d->lock);
  execute(d, it, d->host->now(d->host->ctx));
  pthread_mutex_lock(&d->lock);
  d->busy = false;
  pthread_cond_broadcast(&d->less);
}

/* Mode map: whoever calls map or submit first completes items; this thread only keeps a host that waits from hanging.
 */
static void linger(fake_device *d) {
  const struct timespec ts = {.tv_nsec = 20000000};
  pthread_mutex_unlock(&d->lock);
  nanosleep(&ts, NULL);
  pthread_mutex_lock(&d->lock);
}

static void *engine_main(void *arg) {
  fake_device *d = arg;
  pthread_mutex_lock(&d->lock);
  while (!d->quit || d->n) {
    if (!d->n) {
      pthread_cond_wait(&d->more, &d->lock);
      continue;
    }
    if (d->plugin->mode == FAKE_MAP && !d->quit) linger(d);
    step(d);
  }
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

tn_status fake_engine_start(fake_device *d) {
  if (pthread_mutex_init(&d->lock, NULL) != 0) return TN_E_NO_MEMORY;
  pthread_cond_init(&d->more, NULL);
  pthread_cond_init(&d->less, NULL);
  d->has_thread = d->plugin->mode != FAKE_INLINE;
  if (!d->has_thread || pthread_create(&d->thread, NULL, engine_main, d) == 0) return TN_OK;
  d->has_thread = false;
  fake_engine_stop(d);
  return TN_E_NO_MEMORY;
}

void fake_engine_stop(fake_device *d) {
  fake_engine_drain(d);
  if (d->has_thread) {
    pthread_mutex_lock(&d->lock);
    d->quit = true;
    pthread_cond_broadcast(&d->more);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
  }
  pthread_cond_destroy(&d->more);
  pthread_cond_destroy(&d->less);
  pthread_mutex_destroy(&d->lock);
}

void fake_engine_drain(fake_device *d) {
  if (d->plugin->mode != FAKE_MAP) return;
  pthread_mutex_lock(&d->lock);
  while (d->n || d->busy) step(d);
  pthread_mutex_unlock(&d->lock);
}

static tn_status check_item(const tn_item *it, tn_error *err) {
  if (!it->ticket) return fake_fail(err, TN_E_INVALID, "an item has no ticket");
  if (it->plan ? !it->args || it->args->plan != it->plan : !it->src || !it->dst)
    return fake_fail(err, TN_E_INVALID, "an item is neither a plan with its args nor a copy");
  return TN_OK;
}

tn_status fake_submit(tn_device *pub, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                      tn_error *err) {
  fake_device *d = (fake_device *)pub;
  const fake_plugin *p = d->plugin;
  if (engine != 1) return fake_fail(err, TN_E_INVALID, "there is no engine %u", engine);
  if (p->mode == FAKE_BLOCKING && !run) return fake_fail(err, TN_E_INVALID, "a BLOCKING engine was lent no tn_run");
  if (n > FAKE_QUEUE) return fake_fail(err, TN_E_LIMIT, "%u items, at most %d", n, FAKE_QUEUE);
  for (uint32_t i = 0; i < n; i++) {
    tn_status st = check_item(items[i], err);
    if (st != TN_OK) return st;
  }
  if (p->mode == FAKE_INLINE) {
    for (uint32_t i = 0; i < n; i++) execute(d, items[i], d->host->now(d->host->ctx));
    return TN_OK;
  }
  fake_engine_drain(d);
  pthread_mutex_lock(&d->lock);
  while (d->n + n > FAKE_QUEUE) pthread_cond_wait(&d->less, &d->lock);
  for (uint32_t i = 0; i < n; i++) d->queue[(d->head + d->n++) % FAKE_QUEUE] = items[i];
  pthread_cond_broadcast(&d->more);
  while (p->mode == FAKE_BLOCKING && (d->n || d->busy)) pthread_cond_wait(&d->less, &d->lock);
  pthread_mutex_unlock(&d->lock);
  return TN_OK;
}
