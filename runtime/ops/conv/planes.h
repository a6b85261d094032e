/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over one channel: rows of the padded input lie in planes by their phase in the stride, so that a tap is one
 * shifted plane for all positions of a block of output rows, its padding's too. Rows of positions are as wide as those
 * of the planes then, and what lies after the output's width means nothing.
 *
 * tni_planes_sum: each position's sum starts at 0 and adds taps in ascending order, those in the padding as a product
 * with 0. For finite weights these are the bits of a sum that leaves them out: what starts at +0 never becomes -0.
 */
#ifndef TENON_OPS_CONV_PLANES_H
#define TENON_OPS_CONV_PLANES_H

#include "runtime/ops/conv/im2col.h"

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
/* The `row` of an input of f32. */
void tni_planes_copy(const void *ctx, const void *x, int64_t at, int64_t stride, int64_t n, float *dst);
/* sums[rows * b->width] of a window w[taps]; only the first b->out[1] of each row mean something. */
void tni_planes_sum(const tni_planes *b, const tni_hot *hot, const float *planes, const float *w, int64_t rows,
                    float *sums);

/* --- products: windows over all channels as a matrix (im2col.h), its columns in rows of b.width --- */
enum { TNI_STRIP = 4096 + TNI_GEMM_COLS };
typedef struct tni_strips {
  const tni_im2col *im;
  tni_planes b; /* of the rows that a tile's columns touch */
  int64_t columns, at[TNI_PLANE_TAPS];
} tni_strips;
/* false: tni_im2col_pack is to be taken. f32 only. */
bool tni_strips_plan(const tni_im2col *im, tni_strips *s);
/* A tni_gemm_pack; ctx is a tni_strips. The columns past nb of the last panel may be any numbers. */
void tni_strips_pack(const void *ctx, int64_t batch, int64_t k0, int64_t kc, int64_t n0, int64_t nb, float *dst);

#endif
