/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_BASE_ENDS_H
#define TENON_BASE_ENDS_H

#include <stdbool.h>
#include <string.h>

/* s ends with `end`, or is it. */
static inline bool tni_ends_with(const char *s, const char *end) {
  const size_t n = strlen(s), k = strlen(end);
  return n >= k && strcmp(s + n - k, end) == 0;
}

#endif
