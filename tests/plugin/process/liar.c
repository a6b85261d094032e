/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon-helper serve whose sendmsg goes wrong: bytes flipped, messages cut, sent twice, or of noise; every other seed
 * also writes into the page that it shares with the host. TENON_LIAR_SEED says how, or TENON_LIAR_ORDER (liar_order.c);
 * linked with --wrap=sendmsg.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "runtime/plugin/helper/serve.h"

#include "liar.h"

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);

static uint64_t state, first; /* messages before `first` are true */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool scribbles;
static const char *order;

static uint64_t roll(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static void spoil(uint8_t *p, size_t n) {
  const uint64_t how = roll() % 8;
  const size_t times = 1 + roll() % 4;
  for (size_t i = 0; how < 6 && n && i < times; i++) {
    /* Rather behind the frame, where the lies are finer. */
    const size_t at = how < 4 && n > 24 ? 24 + roll() % (n - 24) : roll() % n;
    p[at] = roll() % 3 ? (uint8_t)(p[at] ^ (1u << roll() % 8)) : (uint8_t)roll();
  }
  for (size_t i = 24; how == 6 && i < n; i++) p[i] = (uint8_t)roll();
  if (how == 7 && n >= 32) memset(p + 24, 0xff, 8);
}

static void *scribble(void *arg);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags) {
  if (order) return liar_send_in_order(order, fd, m, flags);
  pthread_mutex_lock(&lock);
  pthread_t t; /* begun here, as the process that started this one has no second thread to give */
  if (scribbles && pthread_create(&t, NULL, scribble, NULL) == 0) pthread_detach(t);
  scribbles = false;
  const bool lie = first ? (first--, false) : roll() % 3 == 0;
  if (!lie) {
    pthread_mutex_unlock(&lock);
    return __real_sendmsg(fd, m, flags);
  }
  size_t n = 0, at = 0;
  for (size_t i = 0; i < m->msg_iovlen; i++) n += m->msg_iov[i].iov_len;
  uint8_t *copy = malloc(n + 1);
  for (size_t i = 0; copy && i < m->msg_iovlen; i++) {
    if (m->msg_iov[i].iov_len) memcpy(copy + at, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
    at += m->msg_iov[i].iov_len;
  }
  if (copy) spoil(copy, n);
  const bool twice = roll() % 16 == 0, cut = roll() % 16 == 0;
  pthread_mutex_unlock(&lock);
  struct iovec io = {copy, cut ? n / 2 : n};
  const struct msghdr one = {.msg_iov = &io, .msg_iovlen = 1};
  if (twice) (void)!__real_sendmsg(fd, &one, flags);
  const ssize_t k = __real_sendmsg(fd, &one, flags);
  free(copy);
  return k < 0 ? k : (ssize_t)n;
}

/* The page holds no word that a hostile child could not write. */
static void *scribble(void *arg) {
  const struct timespec t = {0, 300000};
  (void)arg;
  for (;;) {
    nanosleep(&t, NULL);
    tni_iso_page *g = tni_srv_self()->page;
    if (!g) continue;
    pthread_mutex_lock(&lock);
    const uint64_t what = first ? 8 : roll() % 24, v = roll();
    pthread_mutex_unlock(&lock);
    if (what == 0) atomic_store(&g->answered, (uint32_t)v);
    if (what == 1) g->status = (int32_t)v;
    if (what == 2) g->events = v;
    if (what == 3) memset((void *)&g->error, (int)v | 1, sizeof g->error);
    if (what == 4) atomic_store(&g->host_sleeps, (uint32_t)v);
    if (what == 5) atomic_store(&g->answered, atomic_load(&g->asked));
  }
  return NULL;
}

int main(int argc, char **argv) {
  const char *seed = getenv("TENON_LIAR_SEED");
  const unsigned long n = seed ? strtoul(seed, NULL, 10) : 1;
  (void)argc;
  (void)argv;
  state = n * UINT64_C(0x9E3779B97F4A7C15) | 1;
  for (int i = 0; i < 8; i++) roll();
  first = n % 6 == 0 ? 0 : roll() % (n % 3 ? 900 : 40);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  scribbles = n % 2;
  order = getenv("TENON_LIAR_ORDER");
  return tni_isolate_serve(3);
}
