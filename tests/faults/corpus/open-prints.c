/* SPDX-License-Identifier: Apache-2.0
 *
 * Megabytes on stdout before it dies: the host keeps the last lines.
 */
#include "whole.h"

static void chatter(void) {
  for (int i = 0; i < 200000; i++) puts("a line that nobody asked for");
  fflush(stdout);
  abort();
}

IN_OPEN(chatter())
