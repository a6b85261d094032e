/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs for any model: tensors, sequences and optionals of small sizes, their contents from a seed. A dim's name gets
 * one size everywhere.
 */
#ifndef TENON_FUZZ_FEED_H
#define TENON_FUZZ_FEED_H

#include <tenon/tenon.h>

enum { FZ_MAX_ELEMENTS = 1 << 16 };

typedef struct fz_feed fz_feed;
/* NULL: the inputs are too large, or no memory. */
fz_feed *fz_feed_create(const tn_model *m, uint64_t seed);
/* One per input, in the model's order. */
const tn_tensor *const *fz_feed_in(const fz_feed *f);
void fz_feed_destroy(fz_feed *f); /* NULL is fine */
/* Fills elements of a dtype: small whole numbers mostly, sometimes anything. */
void fz_fill(void *p, uint32_t dtype, uint64_t bytes, uint64_t *seed);

#endif
