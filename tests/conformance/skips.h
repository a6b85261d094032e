/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of cases that may not run: lines "PATTERN WAYS REASON". PATTERN is a glob over "KIND/NAME", WAYS `all` or
 * one way's name, REASON the rest of the line; '#' begins a comment. The first line that matches counts.
 */
#ifndef TENON_TESTS_CONFORMANCE_SKIPS_H
#define TENON_TESTS_CONFORMANCE_SKIPS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct skip {
  char *pattern, *way, *reason;
  uint32_t line, matched; /* matched: cases of the whole listing */
} skip;

typedef struct skips {
  skip *at;
  uint32_t n;
  char *text;
} skips;

/* false: no such file, or a line that is not as above (said on stderr). */
bool skips_read(skips *s, const char *path);
/* The line for this case, or NULL. */
skip *skips_find(const skips *s, const char *case_name, const char *way);
void skips_free(skips *s);

#endif
