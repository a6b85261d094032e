/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "whole.h"

static void block(void) {
  sigset_t s;
  sigemptyset(&s);
  sigaddset(&s, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &s, NULL);
}

IN_BIND(block())
