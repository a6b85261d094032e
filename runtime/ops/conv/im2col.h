/* SPDX-License-Identifier: Apache-2.0
 *
 * A convolution's input as the right-hand matrix of a product: row k is one tap of one channel (k = channel * taps +
 * tap, taps in the kernel's row-major order), column p one output position (row-major). The matrix is never stored: the
 * product asks for blocks of it.
 */
#ifndef TENON_OPS_CONV_IM2COL_H
#define TENON_OPS_CONV_IM2COL_H

#include "runtime/ops/gemm/gemm.h"
#include "runtime/shape/rules/rules.h"

typedef struct tni_im2col {
  tni_window w; /* pads resolved */
  uint32_t dtype;
  const void *x;    /* [batches][channels][plane] */
  int64_t channels; /* of one group */
  int64_t in[TNI_WINDOW_MAX], out[TNI_WINDOW_MAX];
  int64_t plane, positions, taps; /* products of in, out and kernel */
} tni_im2col;

/* The windows of x [N, C, ..] that give y [N, M, ..], C in `groups`; pads of auto_pad are put in. */
void tni_im2col_init(tni_im2col *c, const tni_window *w, const tni_tensor *x, const tni_tensor *y, int64_t groups);
/* o[0 .. last): position of output row `row` in the dims out[0 .. last). */
static inline void tni_row_position(const int64_t *out, uint32_t last, int64_t row, int64_t *o) {
  for (uint32_t d = last; d-- > 0; row /= out[d]) o[d] = row % out[d];
}
/* A tni_gemm_pack; ctx is a tni_im2col of f32 or halves. A batch is one group of one image. */
void tni_im2col_pack(const void *ctx, int64_t batch, int64_t k0, int64_t kc, int64_t n0, int64_t nb, float *dst);
/* The matrix is the input: one tap, no stride, no padding. */
bool tni_im2col_is_input(const tni_im2col *c);
enum { TNI_IM2COL_COLS = 128 };
/* Columns [n0, n0 + nb), nb <= TNI_IM2COL_COLS, of rows k0, k0 + 1, .. of the matrix, for input of bytes. */
typedef struct tni_im2col_rows {
  const tni_im2col *c;
  int64_t x, tap[TNI_WINDOW_MAX];
  uint32_t n;
  struct {
    int64_t first, n, o[TNI_WINDOW_MAX]; /* columns that lie side by side in one output row */
  } runs[TNI_IM2COL_COLS];
} tni_im2col_rows;
void tni_im2col_rows_start(const tni_im2col *c, int64_t batch, int64_t k0, int64_t n0, int64_t nb, tni_im2col_rows *r);
/* The next row; what lies in the padding is `outside`. */
void tni_im2col_rows_bytes(tni_im2col_rows *r, uint8_t outside, uint8_t *dst);
/* The taps that an output row's elements [o0, o0 + n) have inside the input, in ascending order:
 * for (bool more = tni_taps_first(..); more; more = tni_taps_next(..)). However large a kernel or its padding is, there
 * are no more of them than the input has elements. */
typedef struct tni_taps {
  int64_t row;   /* offset of the input row in the plane */
  int64_t shift; /* output ow reads element ow * stride + shift of it */
  int64_t lo[TNI_WINDOW_MAX], hi[TNI_WINDOW_MAX], at[TNI_WINDOW_MAX];
} tni_taps;
/* o: the row's position in the outer dims. */
bool tni_taps_first(const tni_im2col *c, const int64_t *o, int64_t o0, int64_t n, tni_taps *t);
bool tni_taps_next(const tni_im2col *c, const int64_t *o, tni_taps *t);
/* Its number, row-major in the kernel: of kernels that a weight has, not of a pooling's, which may be of any size. */
int64_t tni_taps_index(const tni_im2col *c, const tni_taps *t);
/* The ow in [0, n) for which 0 <= ow * stride + shift < in of the innermost dim: [*lo, *hi). */
void tni_im2col_inside(const tni_im2col *c, int64_t shift, int64_t n, int64_t *lo, int64_t *hi);

#endif
