/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/im2col.h"

void tni_im2col_init(tni_im2col *c, const tni_window *w, const tni_tensor *x, const tni_tensor *y, int64_t groups) {
  *c = (tni_im2col){.w = *w, .dtype = x->dtype, .x = x->data, .channels = x->dims[1] / groups};
  c->plane = c->positions = c->taps = 1;
  for (uint32_t d = 0; d < w->rank; d++) {
    c->in[d] = x->dims[d + 2];
    c->out[d] = y->dims[d + 2];
    c->plane *= c->in[d];
    c->positions *= c->out[d];
    if (__builtin_mul_overflow(c->taps, w->kernel[d], &c->taps))
      c->taps = INT64_MAX; /* a pooling's; none counts them */
  }
  tni_window_pads(&c->w, c->in, c->out);
}

/* Offset in the plane of the input row that the tap at `at` reads for the output row at o, -1 in the padding; *shift:
 * what the innermost position adds to stride * ow. */
static int64_t row_of(const tni_im2col *c, const int64_t *at, const int64_t *o, int64_t *shift) {
  const tni_window *w = &c->w;
  const uint32_t last = w->rank - 1;
  int64_t row = 0;
  for (uint32_t d = 0; d < last; d++) {
    const int64_t i = o[d] * w->stride[d] - w->begin[d] + at[d] * w->dilation[d];
    if (i < 0 || i >= c->in[d]) return -1;
    row = (row + i) * c->in[d + 1];
  }
  *shift = at[last] * w->dilation[last] - w->begin[last];
  return row;
}

int64_t tni_im2col_row(const tni_im2col *c, int64_t tap, const int64_t *o, int64_t *shift) {
  int64_t at[TNI_WINDOW_MAX];
  for (uint32_t d = c->w.rank; d-- > 0; tap /= c->w.kernel[d]) at[d] = tap % c->w.kernel[d];
  return row_of(c, at, o, shift);
}

static void locate(const tni_im2col *c, const int64_t *o, tni_taps *t) { t->row = row_of(c, t->at, o, &t->shift); }

int64_t tni_taps_index(const tni_im2col *c, const tni_taps *t) {
  int64_t tap = 0;
  for (uint32_t d = 0; d < c->w.rank; d++) tap = tap * c->w.kernel[d] + t->at[d];
  return tap;
}

bool tni_taps_first(const tni_im2col *c, const int64_t *o, int64_t o0, int64_t n, tni_taps *t) {
  const tni_window *w = &c->w;
  for (uint32_t d = 0; d < w->rank; d++) {
    const bool inner = d + 1 == w->rank;
    /* Positions of tap 0: of the last output for the first tap that is inside, of the first output for the last one. */
    const int64_t s = w->stride[d], dil = w->dilation[d];
    const int64_t high = (inner ? o0 + n - 1 : o[d]) * s - w->begin[d], low = (inner ? o0 : o[d]) * s - w->begin[d];
    const int64_t past = c->in[d] > low ? (c->in[d] - low + dil - 1) / dil : 0;
    t->lo[d] = t->at[d] = high < 0 ? (-high + dil - 1) / dil : 0;
    t->hi[d] = past < w->kernel[d] ? past : w->kernel[d];
    if (t->lo[d] >= t->hi[d]) return false;
  }
  locate(c, o, t);
  return true;
}

bool tni_taps_next(const tni_im2col *c, const int64_t *o, tni_taps *t) {
  for (uint32_t d = c->w.rank; d-- > 0;) {
    if (++t->at[d] < t->hi[d]) {
      locate(c, o, t);
      return true;
    }
    t->at[d] = t->lo[d];
  }
  return false;
}

void tni_im2col_inside(const tni_im2col *c, int64_t shift, int64_t n, int64_t *lo, int64_t *hi) {
  const int64_t s = c->w.stride[c->w.rank - 1], size = c->in[c->w.rank - 1];
  if (s == 1) {
    *lo = shift < 0 ? -shift : 0;
    *hi = size > shift ? size - shift : 0;
  } else {
    *lo = shift < 0 ? (-shift + s - 1) / s : 0;
    *hi = size > shift ? (size - shift + s - 1) / s : 0;
  }
  if (*hi > n) *hi = n;
  if (*lo > *hi) *lo = *hi;
}

/* Columns that lie side by side in one output row. */
typedef struct run {
  int64_t first, n; /* positions of the innermost dim */
  int64_t o[TNI_WINDOW_MAX];
} run;

static uint32_t split_runs(const tni_im2col *c, int64_t n0, int64_t nb, run *runs) {
  const uint32_t last = c->w.rank - 1;
  uint32_t count = 0;
  while (nb > 0) {
    run *r = &runs[count++];
    r->first = n0 % c->out[last];
    r->n = c->out[last] - r->first < nb ? c->out[last] - r->first : nb;
    tni_row_position(c->out, last, n0 / c->out[last], r->o);
    n0 += r->n;
    nb -= r->n;
  }
  return count;
}

/* One run of one row of the matrix; x: element offset of the channel's plane. */
static void fill(const tni_im2col *c, const run *r, int64_t x, const int64_t *tap, float *dst) {
  const int64_t s = c->w.stride[c->w.rank - 1];
  int64_t shift = 0, lo = 0, hi = 0;
  const int64_t row = row_of(c, tap, r->o, &shift);
  shift += r->first * s;
  if (row >= 0) tni_im2col_inside(c, shift, r->n, &lo, &hi);
  for (int64_t i = 0; i < lo; i++) dst[i] = 0;
  for (int64_t i = hi; i < r->n; i++) dst[i] = 0;
  if (lo == hi) return;
  const int64_t at = x + row + shift;
  if (s == 1)
    tni_load_f32(c->dtype, c->x, at + lo, hi - lo, dst + lo);
  else if (c->dtype == TN_DT_F32)
    for (int64_t i = lo; i < hi; i++) dst[i] = ((const f32u *)c->x)[at + i * s];
  else
    for (int64_t i = lo; i < hi; i++) tni_load_f32(c->dtype, c->x, at + i * s, 1, dst + i);
}

void tni_im2col_pack(const void *ctx, int64_t batch, int64_t k0, int64_t kc, int64_t n0, int64_t nb, float *dst) {
  const tni_im2col *c = ctx;
  run runs[TNI_GEMM_COLS];
  float row[TNI_GEMM_COLS] = {0};
  int64_t tap[TNI_WINDOW_MAX] = {0}, x = (batch * c->channels + k0 / c->taps) * c->plane, rest = k0 % c->taps;
  const uint32_t n = split_runs(c, n0, nb, runs);
  for (uint32_t d = c->w.rank; d-- > 0; rest /= c->w.kernel[d]) tap[d] = rest % c->w.kernel[d];
  for (int64_t k = 0; k < kc; k++) {
    int64_t at = 0;
    for (uint32_t i = 0; i < n; at += runs[i++].n) fill(c, &runs[i], x, tap, row + at);
    for (int64_t p = 0; p < nb; p += TNI_NR) memcpy(dst + p * kc + k * TNI_NR, row + p, TNI_NR * sizeof *row);
    uint32_t d = c->w.rank;
    while (d > 0 && ++tap[d - 1] == c->w.kernel[d - 1]) tap[--d] = 0;
    if (d == 0) x += c->plane;
  }
}
