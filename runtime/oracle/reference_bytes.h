/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of 8 bits that are rounded from a product with scales. Where the product is a half, or within rounding of one, it
 * may go either way: one code, and few of them. Where many codes differ it is no matter of halves.
 */
#ifndef TENON_ORACLE_REFERENCE_BYTES_H
#define TENON_ORACLE_REFERENCE_BYTES_H

#include <stdbool.h>
#include <stdint.h>

/* The operator (TN_OP_*) rounds to bytes by scales; what others give of bytes is the same bits. */
bool tni_reference_rounds(uint32_t op);
/* How many of n codes may differ. */
int64_t tni_reference_halves(int64_t n);
/* Whether n codes of 8 bits hold. most: the largest difference. */
bool tni_reference_codes(const void *got, const void *want, bool has_sign, int64_t n, int *most);

#endif
