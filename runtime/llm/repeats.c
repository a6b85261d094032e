/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/repeats.h"

#include <math.h>
#include <string.h>

enum { LONGEST = 4 };

static bool is_break(const tni_dry *d, int32_t id) {
  for (uint32_t i = 0; i < d->n_breaks; i++)
    if (d->breaks[i] == id) return true;
  return false;
}

/* z[k]: as many of the last tokens as also stand before the k last ones (Z function of the reversed text). */
static void same_ends(const int32_t *ids, size_t n, uint32_t *z) {
  const int32_t *end = ids + n - 1;
  size_t l = 0, r = 0;
  z[0] = 0;
  for (size_t k = 1; k < n; k++) {
    size_t m = k < r ? (z[k - l] < r - k ? z[k - l] : r - k) : 0;
    while (k + m < n && end[-(ptrdiff_t)m] == end[-(ptrdiff_t)(k + m)]) m++;
    z[k] = (uint32_t)m;
    if (k + m > r) {
      l = k;
      r = k + m;
    }
  }
}

void tni_dry_find(const tni_dry *d, const int32_t *ids, size_t n, uint32_t *scratch,
                  void (*lower)(void *user, int32_t id, float amount), void *user) {
  if (d->last && n > d->last) {
    ids += n - d->last;
    n = d->last;
  }
  size_t reach = 0; /* tokens at the end before a break */
  while (reach < n && !is_break(d, ids[n - 1 - reach])) reach++;
  if (n < 2 || !reach) return;
  same_ends(ids, n, scratch);
  for (size_t k = 1; k < n; k++) {
    const size_t same = scratch[k] < reach ? scratch[k] : reach;
    const int32_t next = ids[n - k];
    if (same < d->least || !same || is_break(d, next)) continue;
    const double amount = (double)d->amount * pow((double)d->base, (double)(same - d->least));
    lower(user, next, amount < 1e30 ? (float)amount : 1e30f);
  }
}

size_t tni_repeat_guess(const int32_t *ids, size_t n, size_t shortest, size_t most, int32_t *out, size_t *same) {
  for (size_t len = LONGEST; len >= shortest; len--) {
    if (n < len + 1) continue;
    const int32_t *end = ids + n - len;
    for (size_t at = n - len; at-- > 0;) {
      if (memcmp(ids + at, end, len * sizeof *ids) != 0) continue;
      const size_t have = n - (at + len), k = have < most ? have : most;
      memcpy(out, ids + at + len, k * sizeof *out);
      *same = len;
      return k;
    }
  }
  *same = 0;
  return 0;
}
