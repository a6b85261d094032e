/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "whole.h"

static void start(void) {
  if (fork() == 0) {
    sleep(600);
    _exit(0);
  }
}

IN_OPEN(start())
