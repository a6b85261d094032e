/* SPDX-License-Identifier: Apache-2.0
 *
 * Einsum's equation, read once for the shape rule and the kernel.
 *
 * Every axis of an operand has a label; an operand's ellipsis stands for its further axes, aligned at the end with
 * those of the other operands. Labels are numbered: first those of the output, in its order, then those that are
 * summed. A label may stand twice in one operand (its diagonal) and not in the output twice. Source: ONNX Einsum-12,
 * NumPy's einsum.
 */
#ifndef TENON_SHAPE_DIMS_EINSUM_H
#define TENON_SHAPE_DIMS_EINSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenon/types.h>

enum { TNI_EINSUM_MAX_IN = 16, TNI_EINSUM_MAX_LABELS = 52 + TN_MAX_RANK };

typedef struct tni_einsum {
  uint32_t n_in, n_labels, n_out; /* n_out: axes of the output, labels 0 .. n_out - 1 */
  uint32_t rank[TNI_EINSUM_MAX_IN];
  uint8_t label[TNI_EINSUM_MAX_IN][TN_MAX_RANK];
} tni_einsum;

/* Reads equation for n operands of these ranks. NULL, or what is wrong with it. */
const char *tni_einsum_read(const char *equation, const uint32_t *rank, uint32_t n, tni_einsum *out);

#endif
