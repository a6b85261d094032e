/* SPDX-License-Identifier: Apache-2.0
 *
 * NaN and infinities in arrays. Whole blocks are looked at without a branch, so that the compiler uses vectors.
 */
#ifndef TENON_BASE_FINITE_H
#define TENON_BASE_FINITE_H

#include <stddef.h>
#include <stdint.h>

/* The first of n elements of p that is NaN or infinite, or n. Other dtypes than f32, f16 and bf16 have none. p: of the
 * dtype's alignment. */
size_t tni_first_strange(uint32_t dtype, const void *p, size_t n);

#endif
