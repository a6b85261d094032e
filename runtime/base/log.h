/* SPDX-License-Identifier: Apache-2.0
 *
 * Where messages go. The library never prints: whoever creates a runtime gives a sink, or there is none.
 */
#ifndef TENON_BASE_LOG_H
#define TENON_BASE_LOG_H

#include <tenon/types.h>

typedef struct tni_log {
  void (*fn)(void *user, uint32_t level, const char *line); /* any thread; NULL: silence */
  void *user;
  uint32_t level; /* lines above it are dropped */
} tni_log;

/* l may be NULL. */
void tni_log_line(const tni_log *l, uint32_t level, const char *fmt, ...) TN_PRINTF(3, 4);

#endif
