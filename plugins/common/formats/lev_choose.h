/* SPDX-License-Identifier: Apache-2.0
 *
 * The codes of lev.h with the least squared error under a scale. Private to the folder.
 */
#ifndef TENON_COMMON_FORMATS_LEV_CHOOSE_H
#define TENON_COMMON_FORMATS_LEV_CHOOSE_H

#include "plugins/common/formats/lev.h"

typedef float tni_lev_v4 __attribute__((vector_size(16)));

/* Levels as the searches read them. */
typedef struct tni_lev_choice {
  const tni_lev_kind *kind;
  tni_lev_v4 level[4];           /* entries 4i .. 4i + 3 of the table */
  tni_lev_v4 across[4];          /* entries i, i + 4, i + 8, i + 12 */
  tni_lev_v4 by_code[4][64 / 4]; /* of a kind that shares bits: what weight j reads under each code */
} tni_lev_choice;

void tni_lev_choice_of(const tni_lev_kind *k, tni_lev_choice *out);

/* The best codes of a block of n weights, the first of those that are equally good; what is beyond n counts as 0.
 * Returns the squared error. Plain f32 operations in a stated order: the same on every machine. */
float tni_lev_choose(const tni_lev_choice *c, const float *w, uint32_t n, float scale, uint8_t *codes);

#endif
