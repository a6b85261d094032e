/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>

#include "runtime/serve/slots/slots.h"

struct slots_turn {
  pthread_mutex_t lock;
  pthread_cond_t next;
  uint64_t asked, serving; /* numbers, as at a counter */
};

slots_turn *slots_turn_create(void) {
  slots_turn *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->next, NULL);
  return t;
}

void slots_turn_destroy(slots_turn *t) {
  if (!t) return;
  pthread_cond_destroy(&t->next);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

void slots_turn_take(slots_turn *t) {
  pthread_mutex_lock(&t->lock);
  const uint64_t mine = t->asked++;
  while (t->serving != mine) pthread_cond_wait(&t->next, &t->lock);
  pthread_mutex_unlock(&t->lock);
}

void slots_turn_give(slots_turn *t) {
  pthread_mutex_lock(&t->lock);
  t->serving++;
  pthread_cond_broadcast(&t->next);
  pthread_mutex_unlock(&t->lock);
}
