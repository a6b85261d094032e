/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over one channel, directly: rows of the padded input lie in planes by their phase in the stride, so that a
 * tap is one shifted plane for all positions of a block of output rows, its padding's too.
 *
 * Each position's sum starts at 0 and adds taps in ascending order, those in the padding as a product with 0. For
 * finite weights these are the bits of a sum that leaves them out: what starts at +0 never becomes -0.
 */
#ifndef TENON_HOST_PLANES_H
#define TENON_HOST_PLANES_H

#include "runtime/host/im2col.h"

enum {
  TNI_PLANES = 20480,    /* floats of a block's planes at most */
  TNI_PLANE_SUMS = 8192, /* positions of a block */
  TNI_PLANE_TAPS = 258   /* of a window; products of bytes are exact so far */
};

/* A block of output rows: planes of its input, one per phase. [0] height, [1] width. */
typedef struct tni_planes {
  int64_t stride[2], dilation[2], kernel[2], in[2], out[2], begin[2];
  int64_t rows, blocks;  /* of the output in a block; how many blocks */
  int64_t height, width; /* of one plane; sums have rows of this width */
} tni_planes;

/* false: several channels, more than two dims of space, or too large. */
bool tni_planes_plan(const tni_im2col *im, tni_planes *b);
/* dst[i] = element at + i * stride of a plane of the input, i < n. */
typedef void (*tni_planes_row)(const void *ctx, const void *x, int64_t at, int64_t stride, int64_t n, float *dst);
/* planes[TNI_PLANES] for output rows oy on; x: what `row` knows. 0 in the padding. */
void tni_planes_fill(const tni_planes *b, tni_planes_row row, const void *ctx, const void *x, int64_t oy,
                     float *planes);
/* sums[rows * b->width] of a window w[taps]; only the first b->out[1] of each row mean something. */
void tni_planes_sum(const tni_planes *b, const tni_hot *hot, const float *planes, const float *w, int64_t rows,
                    float *sums);

#endif
