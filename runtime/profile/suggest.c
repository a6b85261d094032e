/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/profile/suggest.h"

#include <string.h>

enum { MAX_WORD = 63 };

static size_t min3(size_t a, size_t b, size_t c) {
  if (b < a) a = b;
  return c < a ? c : a;
}

/* Optimal string alignment distance with three rolling rows. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb) {
  size_t rows[3][MAX_WORD + 1];
  size_t *before = rows[0], *last = rows[1], *now = rows[2];
  for (size_t j = 0; j <= nb; j++) last[j] = j;
  for (size_t i = 1; i <= na; i++) {
    now[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < now[j])
        now[j] = before[j - 2] + 1;
    }
    size_t *spare = before;
    before = last;
    last = now;
    now = spare;
  }
  return last[nb];
}

const char *tni_nearest(const char *word, const char *const *candidates, size_t n) {
  size_t len = strlen(word), best = SIZE_MAX;
  const char *found = NULL;
  if (len == 0 || len > MAX_WORD) return NULL;
  for (size_t i = 0; i < n; i++) {
    size_t m = strlen(candidates[i]);
    if (m == 0 || m > MAX_WORD) continue;
    size_t d = edit_distance(word, len, candidates[i], m), most = (len > m ? len : m) / 3;
    if (d <= (most ? most : 1) && d < best) {
      best = d;
      found = candidates[i];
    }
  }
  return found;
}
