/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/bounded.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/base/hand.h"

enum { LOOKS = 8, LEAST_NS = 1000000 }; /* looks in the time that a call may take */
static const uint64_t LEFT = UINT64_C(1) << 63;

struct tni_bounded {
  tni_hand *hand;
  pthread_mutex_t lock;
  pthread_cond_t change;
  void (*fn)(void *);
  void *arg;
  bool done;             /* under lock */
  _Atomic uint64_t call; /* calls begun and ended so far: odd, one is under way; LEFT: and was given up */
  const void *_Atomic whom;
  const char *_Atomic what;
};

static _Thread_local tni_bounded *mine;

void tni_call_begin(const void *whom, const char *what) {
  tni_bounded *b = mine;
  if (!b) return;
  atomic_store_explicit(&b->whom, whom, memory_order_relaxed);
  atomic_store_explicit(&b->what, what, memory_order_relaxed);
  atomic_fetch_add(&b->call, 1);
}

/* Who has given this thread up frees and replaces what it would use now. */
void tni_call_end(void) {
  if (!mine || !(atomic_fetch_add(&mine->call, 1) & LEFT)) return;
  for (;;) pause();
}

static void do_work(void *arg) {
  tni_bounded *b = arg;
  mine = b;
  b->fn(b->arg);
  pthread_mutex_lock(&b->lock);
  b->done = true;
  pthread_cond_signal(&b->change);
  pthread_mutex_unlock(&b->lock);
}

/* False: it hangs, and was given up. */
static bool await_work(tni_bounded *b, int64_t ns) {
  const int64_t slice = ns / LOOKS > LEAST_NS ? ns / LOOKS : LEAST_NS;
  uint64_t seen = atomic_load(&b->call);
  int64_t since = tni_now_ns();
  bool hangs = false;
  pthread_mutex_lock(&b->lock);
  while (!b->done && !hangs) {
    const int64_t at = tni_now_ns() + slice;
    const struct timespec t = {at / 1000000000, at % 1000000000};
    if (pthread_cond_timedwait(&b->change, &b->lock, &t) != ETIMEDOUT) continue;
    const uint64_t now = atomic_load(&b->call);
    if (now != seen || !(now & 1)) since = tni_now_ns();
    seen = now;
    if (tni_now_ns() - since >= ns) hangs = atomic_compare_exchange_strong(&b->call, &seen, seen | LEFT);
  }
  pthread_mutex_unlock(&b->lock);
  return !hangs;
}

bool tni_bounded_do(tni_bounded *b, void (*fn)(void *arg), void *arg, int64_t ns, tni_hung *out) {
  if (!b || mine) {
    fn(arg);
    return true;
  }
  b->fn = fn;
  b->arg = arg;
  b->done = false;
  tni_hand_give(b->hand, do_work, b);
  if (await_work(b, ns)) return true;
  *out = (tni_hung){atomic_load(&b->whom), atomic_load(&b->what)};
  return false;
}

tni_bounded *tni_bounded_create(void) {
  tni_bounded *b = calloc(1, sizeof *b);
  pthread_condattr_t a;
  if (!b || !(b->hand = tni_hand_start())) {
    free(b);
    return NULL;
  }
  pthread_mutex_init(&b->lock, NULL);
  pthread_condattr_init(&a);
  pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
  pthread_cond_init(&b->change, &a);
  pthread_condattr_destroy(&a);
  return b;
}

void tni_bounded_destroy(tni_bounded *b) {
  if (!b) return;
  if (atomic_load(&b->call) & LEFT) {
    tni_hand_abandon(b->hand);
    return; /* it may come back to tni_call_end yet */
  }
  tni_hand_stop(b->hand);
  pthread_cond_destroy(&b->change);
  pthread_mutex_destroy(&b->lock);
  free(b);
}
