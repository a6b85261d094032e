/* SPDX-License-Identifier: Apache-2.0
 *
 * Sliding windows: the attributes that convolutions and poolings share (kernel_shape, strides, dilations, pads,
 * auto_pad, ceil_mode), read and checked once for shape rules and kernels.
 *
 * Source: ONNX's Operators document, Conv, ConvTranspose, AveragePool and MaxPool.
 */
#ifndef TENON_SHAPE_RULES_WINDOW_H
#define TENON_SHAPE_RULES_WINDOW_H

#include "runtime/shape/rules/rule.h"

enum { TNI_WINDOW_MAX = TN_MAX_RANK - 2 }; /* most spatial dims */
enum { TNI_PAD_NOTSET, TNI_PAD_SAME_UPPER, TNI_PAD_SAME_LOWER, TNI_PAD_VALID };

/* Spatial dim d: windows of kernel[d] elements that lie dilation[d] apart, one every stride[d]; begin[d] and end[d]
 * elements of padding, none below 0. Every number is below 2^31. */
typedef struct tni_window {
  uint32_t rank;
  uint32_t auto_pad; /* TNI_PAD_* */
  bool ceil;
  int64_t kernel[TNI_WINDOW_MAX], stride[TNI_WINDOW_MAX], dilation[TNI_WINDOW_MAX];
  int64_t begin[TNI_WINDOW_MAX], end[TNI_WINDOW_MAX];
  int64_t more[TNI_WINDOW_MAX], out[TNI_WINDOW_MAX]; /* ConvTranspose: output_padding, output_shape (0: not stated) */
} tni_window;

/* Reads node's attributes for `rank` spatial dims. kernel: the weight's spatial dims, which kernel_shape must not
 * contradict; NULL: kernel_shape is required. Writes what is wrong into why and returns false. With auto_pad SAME_*
 * begin and end are 0 until tni_window_pads. */
bool tni_window_read(const tn_node *node, uint32_t rank, const int64_t *kernel, tni_window *w, char *why, size_t n);
/* How many windows fit along dim d of `size` elements, NONE where that is not known. SAME: ceil(size / stride). Else
 * floor, or with ceil_mode ceil, of (size + pads - span) / stride, + 1; a window that ceil_mode adds and that would
 * begin in the end's padding is none. */
tn_expr tni_window_count(const tni_infer *in, const tni_window *w, uint32_t d, tn_expr size);
/* Puts the padding of auto_pad into begin and end, for input dims in[rank] and output dims out[rank]. */
void tni_window_pads(tni_window *w, const int64_t *in, const int64_t *out);

/* --- ConvTranspose: windows that spread */
/* As tni_window_read, with output_padding and output_shape. */
bool tni_window_read_spread(const tn_node *node, uint32_t rank, const int64_t *kernel, tni_window *w, char *why,
                            size_t n);
/* How far windows over `size` elements spread along dim d: output_shape; SAME: size * stride; else (size - 1) * stride
 * + span + output_padding - pads. */
tn_expr tni_window_spread(const tni_infer *in, const tni_window *w, uint32_t d, tn_expr size);
/* Puts the padding that output_shape or auto_pad leads to into begin and end: the smaller half first for SAME_UPPER,
 * else the larger. An output larger than the windows reach has none, and zeros at its end. */
void tni_window_spread_pads(tni_window *w, const int64_t *in, const int64_t *out);

#endif
