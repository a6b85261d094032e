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
 * A row of few bits (`kv: int4`; TNI_DT_KEYS has 5 bits, TNI_DT_VALUES 4; n is a multiple of 16) is quantized by itself
 * between lo = min(row, 0) and hi = max(row, 0): element = (code - zero) * scale, exact in float32. most = 2^bits - 1;
 * scale = (hi - lo) / most, half to even to 6 bits of mantissa, and the next above where (hi - lo) / most is more and
 * the codes would not reach; zero = -lo / scale and code = x / scale + zero, each half to even, not over most.
 *   n / 2 bytes: the lower four bits of codes: of each 32 elements (the last may be 16) i and i + 16 (8) share a byte,
 *                i in its lower half;
 *   n / 8 bytes, keys only: the fifth bits: of each 32 (16) elements i has bit i / 4 (2) of byte i % 4 (2);
 *   2 bytes: zero + 32 * s, the lower byte first: scale = s * 2^-23 below s = 64, then (64 + s % 64) * 2^(s / 64 - 24).
 * Scales go up to 126 * 2^7. s = 2047 is a row that reads as NaN throughout: one with an inf or NaN, or with more than
 * that. A scale of 2^-24 or less is 0, and so is the row.
 * |x - element| <= scale * (1/2 + 2^-16), scale <= (hi - lo) / most * (1 + 2^-6) + 2^-23; of a row of zeros most *
 * 2^-24.
 *
 * Rows need no alignment. Any thread; src and row do not overlap.
 */
#ifndef TENON_OPS_KERNEL_KVROW_H
#define TENON_OPS_KERNEL_KVROW_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/graph/kept_dtype.h"

#define TNI_KV_TINY 0x1p-120f

/* Dtypes that the host keeps caches of float32 values in. */
bool tni_kv_dtype(uint32_t dtype);
/* int8 or few bits. */
bool tni_kv_quantized(uint32_t dtype);
/* Few bits. */
static inline bool tni_kv_packed(uint32_t dtype) { return dtype == TNI_DT_KEYS || dtype == TNI_DT_VALUES; }
/* From one row to the next where they lie close, in elements: n, and for int8 the padding and the scale too. Of few
 * bits an element of memory is a byte. */
int64_t tni_kv_pitch(uint32_t dtype, int64_t n);

/* n floats of dtype `from`, each `step` elements after the last, become a row; and back. */
void tni_kv_store(uint32_t to, void *row, uint32_t from, const void *src, int64_t step, int64_t n);
void tni_kv_load(uint32_t from, const void *row, uint32_t to, void *dst, int64_t step, int64_t n);
/* A row of few bits becomes one of int8 with the same elements. */
void tni_kv_unpack(uint32_t from, const void *row, void *int8_row, int64_t n);

#endif
