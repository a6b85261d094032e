/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeats in a conversation: DRY's penalties, and what came after the last tokens when they stood there before.
 */
#ifndef TENON_LLM_REPEATS_H
#define TENON_LLM_REPEATS_H

#include <stdbool.h>

#include "runtime/base/base.h"

typedef struct tni_dry {
  float amount, base;
  uint32_t least, last; /* last 0: the whole conversation */
  int32_t *breaks;      /* [n_breaks], the caller's */
  uint32_t n_breaks;
} tni_dry;
/* Calls lower(user, id, amount) for tokens that would make a repeat longer, maybe several times for one. scratch: [n].
 */
void tni_dry_find(const tni_dry *d, const int32_t *ids, size_t n, uint32_t *scratch,
                  void (*lower)(void *user, int32_t id, float amount), void *user);

/* At most `most` ids that followed the longest of the ends (`shortest` to 4 tokens) of ids where it stood last; how many.
 * same: the length of that end, 0 where there is none. */
size_t tni_repeat_guess(const int32_t *ids, size_t n, size_t shortest, size_t most, int32_t *out, size_t *same);

#endif
