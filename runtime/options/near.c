/* SPDX-License-Identifier: Apache-2.0
 *
 * The word that was meant: the smallest number of letters put in, left out, changed or swapped with a neighbour.
 */
#include <ctype.h>
#include <string.h>

#include "runtime/options/options.h"

enum { LONGEST = 63 };

static size_t least_of(size_t a, size_t b) { return a < b ? a : b; }

static bool same_letter(char a, char b) { return tolower((unsigned char)a) == tolower((unsigned char)b); }

/* Damerau and Levenshtein's distance, neighbours swapped once (optimal string alignment). */
static size_t word_distance(const char *a, const char *b) {
  size_t rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *now = rows[2];
  const size_t n = strlen(a), m = strlen(b);
  if (n > LONGEST || m > LONGEST) return LONGEST;
  for (size_t k = 0; k <= m; k++) last[k] = k;
  for (size_t i = 1; i <= n; i++) {
    now[0] = i;
    for (size_t k = 1; k <= m; k++) {
      now[k] = least_of(least_of(last[k], now[k - 1]) + 1, last[k - 1] + !same_letter(a[i - 1], b[k - 1]));
      if (i > 1 && k > 1 && same_letter(a[i - 1], b[k - 2]) && same_letter(a[i - 2], b[k - 1]))
        now[k] = least_of(now[k], before[k - 2] + 1);
    }
    size_t *free_row = before;
    before = last, last = now, now = free_row;
  }
  return last[m];
}

const char *opts_near(const char *typed, const char *const *words, size_t n) {
  const size_t long_typed = strlen(typed);
  const char *best = NULL;
  size_t best_far = LONGEST;
  for (size_t i = 0; i < n; i++) {
    size_t far = word_distance(typed, words[i]);
    const size_t longer = strlen(words[i]) > long_typed ? strlen(words[i]) : long_typed;
    /* The beginning of a word is as good as one slip. */
    if (long_typed >= 2 && strncmp(words[i], typed, long_typed) == 0) far = 1;
    if (far < best_far && far * 3 <= longer + 1) best = words[i], best_far = far;
  }
  return best;
}

void opts_each_word(const char *words, void (*fn)(void *ctx, const char *word, size_t n), void *ctx) {
  for (size_t n; *words; words += n + (words[n] != 0)) {
    n = strcspn(words, "|");
    fn(ctx, words, n);
  }
}
