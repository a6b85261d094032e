/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/hand.h"

#include <signal.h>
#include <stdlib.h>

int tni_quiet_thread(pthread_t *t, void *(*fn)(void *), void *arg) {
  static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};
  sigset_t quiet, before;
  sigfillset(&quiet);
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) sigdelset(&quiet, open[i]);
  pthread_sigmask(SIG_SETMASK, &quiet, &before);
  const int rc = pthread_create(t, NULL, fn, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return rc;
}

typedef struct errand {
  void (*fn)(void *);
  void *arg;
} errand;

static void *run_errand(void *arg) {
  const errand *e = arg;
  e->fn(e->arg);
  return NULL;
}

bool tni_quiet_do(void (*fn)(void *), void *arg) {
  errand e = {fn, arg};
  pthread_t t;
  if (tni_quiet_thread(&t, run_errand, &e) != 0) return false;
  pthread_join(t, NULL);
  return true;
}

struct tni_hand {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t change;
  void (*fn)(void *);
  void *arg;
  bool quit;
};

static void *hand_main(void *arg) {
  tni_hand *h = arg;
  pthread_mutex_lock(&h->lock);
  while (!h->quit || h->fn) {
    if (!h->fn) {
      pthread_cond_wait(&h->change, &h->lock);
      continue;
    }
    void (*fn)(void *) = h->fn;
    void *what = h->arg;
    h->fn = NULL; /* the next may be given as soon as fn has told that it is done */
    pthread_mutex_unlock(&h->lock);
    fn(what);
    pthread_mutex_lock(&h->lock);
  }
  pthread_mutex_unlock(&h->lock);
  return NULL;
}

tni_hand *tni_hand_start(void) {
  tni_hand *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  pthread_mutex_init(&h->lock, NULL);
  pthread_cond_init(&h->change, NULL);
  if (tni_quiet_thread(&h->thread, hand_main, h) == 0) return h;
  pthread_cond_destroy(&h->change);
  pthread_mutex_destroy(&h->lock);
  free(h);
  return NULL;
}

void tni_hand_give(tni_hand *h, void (*fn)(void *), void *arg) {
  pthread_mutex_lock(&h->lock);
  h->fn = fn;
  h->arg = arg;
  pthread_cond_signal(&h->change);
  pthread_mutex_unlock(&h->lock);
}

void tni_hand_stop(tni_hand *h) {
  if (!h) return;
  pthread_mutex_lock(&h->lock);
  h->quit = true;
  pthread_cond_signal(&h->change);
  pthread_mutex_unlock(&h->lock);
  pthread_join(h->thread, NULL);
  pthread_cond_destroy(&h->change);
  pthread_mutex_destroy(&h->lock);
  free(h);
}

void tni_hand_abandon(tni_hand *h) {
  if (h) pthread_detach(h->thread);
}
