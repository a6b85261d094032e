/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/conv/planes.h"

enum { NEAR = 6144 }; /* floats of a block's planes where it may be smaller: a first-level cache holds them */

static int64_t plane_rows(const tni_planes *b, int64_t rows) {
  return rows + (b->kernel[0] - 1) * b->dilation[0] / b->stride[0];
}

/* The last row's taps reach as far after it as a row is wider than the output's. */
static int64_t plane_floats(const tni_planes *b, int64_t height) { return height * b->width + b->width - b->out[1]; }

static int64_t block_floats(const tni_planes *b, int64_t rows) {
  return b->stride[0] * b->stride[1] * plane_floats(b, plane_rows(b, rows));
}

/* All but the rows of a block. false: more than two dims of space, or too large. */
static bool set_window(const tni_im2col *im, tni_planes *b) {
  const tni_window *w = &im->w;
  const uint32_t lead = 2 - w->rank;
  if (w->rank > 2 || im->taps > TNI_PLANE_TAPS) return false;
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
  return b->width <= TNI_PLANE_SUMS && plane_rows(b, 1) <= TNI_PLANES && block_floats(b, 1) <= TNI_PLANES;
}

static void set_rows(tni_planes *b, int64_t rows) {
  b->rows = rows;
  b->height = plane_rows(b, rows);
  b->blocks = (b->out[0] + rows - 1) / rows;
}

bool tni_planes_plan(const tni_im2col *im, tni_planes *b) {
  int64_t rows = 1;
  if (im->channels != 1 || !set_window(im, b)) return false;
  while (rows < b->out[0] && block_floats(b, rows + 1) <= NEAR && (rows + 1) * b->width <= TNI_PLANE_SUMS) rows++;
  set_rows(b, rows);
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

/* Where tap `tap` of a block's first position lies in its planes; that of position i of the block is i floats after.
 */
static int64_t planes_tap(const tni_planes *b, int64_t tap) {
  const int64_t dy = tap / b->kernel[1] * b->dilation[0], dx = tap % b->kernel[1] * b->dilation[1];
  const int64_t sy = b->stride[0], sx = b->stride[1];
  return (dy % sy * sx + dx % sx) * plane_floats(b, b->height) + dy / sy * b->width + dx / sx;
}

void tni_planes_sum(const tni_planes *b, const tni_hot *hot, const float *planes, const float *w, int64_t rows,
                    float *sums) {
  const int64_t n = rows * b->width;
  memset(sums, 0, (size_t)n * sizeof *sums);
  for (int64_t ky = 0; ky < b->kernel[0]; ky++) {
    const int64_t tap = ky * b->kernel[1];
    if (b->stride[1] == 1) hot->taps(sums, planes + planes_tap(b, tap), w + tap, b->kernel[1], b->dilation[1], n);
    for (int64_t kx = 0; kx < b->kernel[1] && b->stride[1] > 1; kx++)
      hot->taps(sums, planes + planes_tap(b, tap + kx), w + tap + kx, 1, 0, n);
  }
}

void tni_planes_copy(const void *ctx, const void *xv, int64_t at, int64_t stride, int64_t n, float *dst) {
  const f32u *x = (const f32u *)xv + at;
  (void)ctx;
  if (stride == 1)
    memcpy(dst, x, (size_t)n * sizeof *dst);
  else if (stride == 2)
    for (int64_t i = 0; i < n; i++) dst[i] = x[2 * i];
  else
    for (int64_t i = 0; i < n; i++) dst[i] = x[i * stride];
}

/* --- products --- */

static int64_t count_panels(int64_t columns) { return (columns + TNI_NR - 1) / TNI_NR; }

bool tni_strips_plan(const tni_im2col *im, tni_strips *s) {
  if (im->dtype != TN_DT_F32 || im->taps < 4 || !set_window(im, &s->b)) return false;
  const int64_t touched = (TNI_GEMM_COLS - 1 + s->b.width - 1) / s->b.width + 1;
  s->im = im;
  set_rows(&s->b, touched < s->b.out[0] ? touched : s->b.out[0]);
  s->columns = (s->b.out[0] - 1) * s->b.width + s->b.out[1];
  if (block_floats(&s->b, s->b.rows) > TNI_STRIP - TNI_GEMM_COLS) return false;
  if (count_panels(s->columns) * 4 > count_panels(im->positions) * 5) return false;
  for (int64_t t = 0; t < im->taps; t++) s->at[t] = planes_tap(&s->b, t);
  return true;
}

void tni_strips_pack(const void *ctx, int64_t batch, int64_t k0, int64_t kc, int64_t n0, int64_t nb, float *dst) {
  const tni_strips *s = ctx;
  const tni_im2col *im = s->im;
  const int64_t oy = n0 / s->b.width, end = kc * TNI_NR;
  float planes[TNI_STRIP];
  int64_t channel = k0 / im->taps, tap = k0 % im->taps;
  memset(planes + block_floats(&s->b, s->b.rows), 0, TNI_GEMM_COLS * sizeof *planes); /* what panels read past them */
  for (int64_t k = 0; k < end; channel++, tap = 0) {
    const f32u *x = (const f32u *)im->x + (batch * im->channels + channel) * im->plane;
    tni_planes_fill(&s->b, tni_planes_copy, NULL, x, oy, planes);
    for (; tap < im->taps && k < end; tap++, k += TNI_NR) {
      const float *row = planes + n0 % s->b.width + s->at[tap];
      for (int64_t p = 0; p < nb; p += TNI_NR) memcpy(dst + p * kc + k, row + p, TNI_NR * sizeof *dst);
    }
  }
}
