/* SPDX-License-Identifier: Apache-2.0
 *
 * "did you mean": the nearest of a list of words.
 */
#ifndef TENON_PROFILE_SUGGEST_H
#define TENON_PROFILE_SUGGEST_H

#include <stddef.h>
#include <stdint.h>

/* The candidate with the smallest edit distance to word (insert, delete, replace, swap of neighbours), the first on a
 * tie; NULL where none is near enough to be a misspelling. */
const char *tni_nearest(const char *word, const char *const *candidates, size_t n);

#endif
