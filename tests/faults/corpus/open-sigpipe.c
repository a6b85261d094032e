/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "whole.h"

static void write_to_nobody(void) {
  int p[2];
  if (pipe(p) != 0) return;
  close(p[0]);
  (void)!write(p[1], "x", 1);
  close(p[1]);
}

IN_OPEN(write_to_nobody())
