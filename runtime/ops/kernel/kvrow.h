/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a cache: the elements of one head at one position, in whatever dtype the cache is kept.
 *
 * Float rows are n elements. A row of int8 is quantized by itself: n codes, zeros up to a multiple of 4 bytes, and a
 * float32 scale; an element is code * scale (plugin.h, tn_layout). With a the largest |x| of the row: scale = a / 127,
 * code = x * (127 / a), half to even; a row below TNI_KV_TINY is all zeros, one with an inf or NaN reads as NaN
 * throughout. |x - element| <= a / 254 * (1 + 2^-14): half a step, and the roundings of quotient, products
 * and scale (up to 127 times 2^-22 of a step).
 *
 * Rows need no alignment. Any thread; src and row do not overlap.
 */
#ifndef TENON_OPS_KERNEL_KVROW_H
#define TENON_OPS_KERNEL_KVROW_H

#include <stdbool.h>
#include <stdint.h>

#define TNI_KV_TINY 0x1p-120f

/* Dtypes that the host keeps caches of float32 values in. */
bool tni_kv_dtype(uint32_t dtype);
/* From one row to the next where they lie close, in elements: n, and for int8 the padding and the scale too. */
int64_t tni_kv_pitch(uint32_t dtype, int64_t n);

/* n floats of dtype `from`, each `step` elements after the last, become a row; and back. */
void tni_kv_store(uint32_t to, void *row, uint32_t from, const void *src, int64_t step, int64_t n);
void tni_kv_load(uint32_t from, const void *row, uint32_t to, void *dst, int64_t step, int64_t n);

#endif
