/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/observe/layer.h"

#include <stdarg.h>
#include <stdio.h>

static layer *layers;
static pthread_mutex_t layers_lock = PTHREAD_MUTEX_INITIALIZER;

layer *tni_obs_any(void) {
  pthread_mutex_lock(&layers_lock);
  layer *l = layers;
  pthread_mutex_unlock(&layers_lock);
  return l;
}

void tni_obs_wrong(layer *l, const char *fmt, ...) {
  va_list ap;
  pthread_mutex_lock(&l->lock);
  va_start(ap, fmt);
  if (!l->wrong[0]) vsnprintf(l->wrong, sizeof l->wrong, fmt, ap);
  va_end(ap);
  pthread_mutex_unlock(&l->lock);
}

void tni_obs_add(layer *l) {
  pthread_mutex_lock(&layers_lock);
  l->next = layers;
  layers = l;
  pthread_mutex_unlock(&layers_lock);
}

void tni_obs_remove(layer *l) {
  pthread_mutex_lock(&layers_lock);
  for (layer **at = &layers; *at; at = &(*at)->next)
    if (*at == l) {
      *at = l->next;
      break;
    }
  pthread_mutex_unlock(&layers_lock);
}
