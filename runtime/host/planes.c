/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/planes.h"

enum { NEAR = 6144 }; /* floats of a block's planes where it may be smaller: a first-level cache holds them */

static int64_t plane_rows(const tni_planes *b, int64_t rows) {
  return rows + (b->kernel[0] - 1) * b->dilation[0] / b->stride[0];
}

/* The last row's taps reach as far behind it as a row is wider than the output's. */
static int64_t plane_floats(const tni_planes *b, int64_t height) { return height * b->width + b->width - b->out[1]; }

static int64_t block_floats(const tni_planes *b, int64_t rows) {
  return b->stride[0] * b->stride[1] * plane_floats(b, plane_rows(b, rows));
}

bool tni_planes_plan(const tni_im2col *im, tni_planes *b) {
  const tni_window *w = &im->w;
  const uint32_t lead = 2 - w->rank;
  if (w->rank > 2 || im->channels != 1 || im->taps > TNI_PLANE_TAPS) return false;
  *b = (tni_planes){{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 0, 0, 0, 0};
  for (uint32_t d = 0; d < w->rank; d++) {
    b->stride[lead + d] = w->stride[d];
    b->dilation[lead + d] = w->dilation[d];
    b->kernel[lead + d] = w->kernel[d];
    b->in[lead + d] = im->in[d];
    b->out[lead + d] = im->out[d];
    b->begin[lead + d] = w->begin[d];
  }
  for (int d = 0; d < 2; d++) /* so that nothing below overflows */
    if (b->stride[d] > 64 || b->dilation[d] > TNI_PLANES || b->out[d] > TNI_PLANE_SUMS || b->begin[d] > TNI_PLANES)
      return false;
  b->width = b->out[1] + (b->kernel[1] - 1) * b->dilation[1] / b->stride[1];
  if (b->width > TNI_PLANE_SUMS || plane_rows(b, 1) > TNI_PLANES || block_floats(b, 1) > TNI_PLANES) return false;
  b->rows = 1;
  while (b->rows < b->out[0] && block_floats(b, b->rows + 1) <= NEAR && (b->rows + 1) * b->width <= TNI_PLANE_SUMS)
    b->rows++;
  b->height = plane_rows(b, b->rows);
  b->blocks = (b->out[0] + b->rows - 1) / b->rows;
  return true;
}

void tni_planes_fill(const tni_planes *b, tni_planes_row row, const void *ctx, const void *x, int64_t oy,
                     float *planes) {
  const int64_t sy = b->stride[0], sx = b->stride[1], size = plane_floats(b, b->height);
  for (int64_t f = 0; f < sy * sx; f++, planes += size) {
    for (int64_t j = b->height * b->width; j < size; j++) planes[j] = 0;
    for (int64_t i = 0; i < b->height; i++) {
      const int64_t y = (oy + i) * sy + f / sx - b->begin[0], at = f % sx - b->begin[1]; /* of column 0 */
      int64_t lo = at < 0 ? (-at + sx - 1) / sx : 0, hi = b->in[1] > at ? (b->in[1] - at + sx - 1) / sx : 0;
      float *to = planes + i * b->width;
      if (hi > b->width) hi = b->width;
      if (lo > hi || y < 0 || y >= b->in[0]) lo = hi = 0;
      for (int64_t j = 0; j < lo; j++) to[j] = 0;
      for (int64_t j = hi; j < b->width; j++) to[j] = 0;
      if (hi > lo) row(ctx, x, y * b->in[1] + at + lo * sx, sx, hi - lo, to + lo);
    }
  }
}

void tni_planes_sum(const tni_planes *b, const tni_hot *hot, const float *planes, const float *w, int64_t rows,
                    float *sums) {
  const int64_t sy = b->stride[0], sx = b->stride[1], size = plane_floats(b, b->height), n = rows * b->width;
  memset(sums, 0, (size_t)n * sizeof *sums);
  for (int64_t ky = 0; ky < b->kernel[0]; ky++) {
    const int64_t dy = ky * b->dilation[0];
    const float *row = planes + dy % sy * sx * size + dy / sy * b->width;
    if (sx == 1) hot->taps(sums, row, w + ky * b->kernel[1], b->kernel[1], b->dilation[1], n);
    for (int64_t kx = 0; kx < b->kernel[1] && sx > 1; kx++) {
      const int64_t dx = kx * b->dilation[1];
      hot->taps(sums, row + dx % sx * size + dx / sx, w + ky * b->kernel[1] + kx, 1, 0, n);
    }
  }
}
