/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/log.h"

#include <stdarg.h>
#include <stdio.h>

void tni_log_line(const tni_log *l, uint32_t level, const char *fmt, ...) {
  if (!l || !l->fn || level > l->level) return;
  char line[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(line, sizeof line, fmt, ap);
  va_end(ap);
  l->fn(l->user, level, line);
}
