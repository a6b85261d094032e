/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "whole.h"

static void close_all(void) {
  for (int fd = 3; fd < 256; fd++) close(fd);
}

IN_RUN(close_all())
