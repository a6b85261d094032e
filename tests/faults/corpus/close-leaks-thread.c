/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <unistd.h>

#include "whole.h"

static void *forever(void *arg) {
  for (;;) pause();
  return arg;
}

static void start(void) {
  pthread_t t;
  pthread_create(&t, NULL, forever, NULL);
}

IN_OPEN(start())
