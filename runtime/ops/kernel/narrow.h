/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of types below one byte, and floats of at most 8 bits: writing them. Reading is tni_tensor_to_f32 and
 * tni_tensor_to_i64 (graph.h), which know all of them.
 *
 * Rules: ONNX Cast, version 28, and tni_f32_to_code. FLOAT8E8M0 holds powers of two: the magnitude counts, zero and
 * what is below the smallest one are the smallest one, or NaN without saturate. float64 goes through float32 to the
 * others.
 */
#ifndef TENON_OPS_KERNEL_NARROW_H
#define TENON_OPS_KERNEL_NARROW_H

#include "runtime/ops/kernel/elements.h"

/* How FLOAT8E8M0 goes to a power of two: ONNX's round_mode. */
typedef enum tni_round { TNI_ROUND_UP, TNI_ROUND_DOWN, TNI_ROUND_NEAREST } tni_round;
typedef struct tni_narrowing {
  uint32_t dtype;
  bool saturate;
  tni_round round; /* FLOAT8E8M0 only */
} tni_narrowing;

/* Whether a code of this float type fits a byte. */
bool tni_is_small_float(uint32_t dtype);
/* Whether it is an integer of 2 or 4 bits. */
bool tni_is_small_int(uint32_t dtype);
/* The code of x in a small float type. */
uint8_t tni_narrow(const tni_narrowing *n, double x);
/* Codes (their low bits) as elements [first, first + n) of dst, in ascending order: what a byte holds after an element
 * becomes zero, so that the last byte is whole. Types of 2, 4 or 8 bits. Calls at the same time must not share bytes.
 */
void tni_store_codes(uint32_t dtype, void *dst, int64_t first, int64_t n, const uint8_t *codes);

#endif
