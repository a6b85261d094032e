/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/hand.h"

#include <pthread.h>
#include <stdlib.h>

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
  if (pthread_create(&h->thread, NULL, hand_main, h) == 0) return h;
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
