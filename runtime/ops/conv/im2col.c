/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/conv/im2col.h"

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

static void locate_taps(const tni_im2col *c, const int64_t *o, tni_taps *t) { t->row = row_of(c, t->at, o, &t->shift); }

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
  locate_taps(c, o, t);
  return true;
}

bool tni_taps_next(const tni_im2col *c, const int64_t *o, tni_taps *t) {
  for (uint32_t d = c->w.rank; d-- > 0;) {
    if (++t->at[d] < t->hi[d]) {
      locate_taps(c, o, t);
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

_Static_assert((int)TNI_GEMM_COLS <= (int)TNI_IM2COL_COLS, "a tile's columns");

bool tni_im2col_is_input(const tni_im2col *c) {
  for (uint32_t d = 0; d < c->w.rank; d++)
    if (c->w.kernel[d] != 1 || c->w.stride[d] != 1 || c->w.begin[d] || c->w.end[d]) return false;
  return true;
}

void tni_im2col_rows_start(const tni_im2col *c, int64_t batch, int64_t k0, int64_t n0, int64_t nb, tni_im2col_rows *r) {
  const uint32_t last = c->w.rank - 1;
  int64_t rest = k0 % c->taps;
  r->c = c;
  r->x = (batch * c->channels + k0 / c->taps) * c->plane;
  for (uint32_t d = c->w.rank; d-- > 0; rest /= c->w.kernel[d]) r->tap[d] = rest % c->w.kernel[d];
  for (r->n = 0; nb > 0; r->n++) {
    const int64_t first = n0 % c->out[last], n = c->out[last] - first < nb ? c->out[last] - first : nb;
    r->runs[r->n].first = first;
    r->runs[r->n].n = n;
    tni_row_position(c->out, last, n0 / c->out[last], r->runs[r->n].o);
    n0 += n;
    nb -= n;
  }
}

static void next_tap(tni_im2col_rows *r) {
  const tni_im2col *c = r->c;
  uint32_t d = c->w.rank;
  while (d > 0 && ++r->tap[d - 1] == c->w.kernel[d - 1]) r->tap[--d] = 0;
  if (d == 0) r->x += c->plane;
}

/* The part [*lo, *hi) of run i of this row that lies inside; *at: the input element of the run's first. */
static void inside_run(const tni_im2col_rows *r, uint32_t i, int64_t *at, int64_t *lo, int64_t *hi) {
  const tni_im2col *c = r->c;
  int64_t shift = 0;
  const int64_t row = row_of(c, r->tap, r->runs[i].o, &shift);
  shift += r->runs[i].first * c->w.stride[c->w.rank - 1];
  *lo = *hi = 0;
  if (row >= 0) tni_im2col_inside(c, shift, r->runs[i].n, lo, hi);
  *at = r->x + row + shift;
}

void tni_im2col_rows_bytes(tni_im2col_rows *r, uint8_t outside, uint8_t *dst) {
  const int64_t s = r->c->w.stride[r->c->w.rank - 1];
  for (uint32_t i = 0; i < r->n; dst += r->runs[i++].n) {
    const u8u *x = r->c->x;
    int64_t at, lo, hi;
    inside_run(r, i, &at, &lo, &hi);
    for (int64_t j = 0; j < lo; j++) dst[j] = outside;
    for (int64_t j = hi; j < r->runs[i].n; j++) dst[j] = outside;
    if (s == 1 && hi > lo)
      memcpy(dst + lo, x + at + lo, (size_t)(hi - lo));
    else
      for (int64_t j = lo; j < hi; j++) dst[j] = x[at + j * s];
  }
  next_tap(r);
}

/* One run of one row of the matrix. */
static void fill_columns(const tni_im2col_rows *r, uint32_t i, float *dst) {
  const tni_im2col *c = r->c;
  const int64_t s = c->w.stride[c->w.rank - 1];
  int64_t at, lo, hi;
  inside_run(r, i, &at, &lo, &hi);
  for (int64_t j = 0; j < lo; j++) dst[j] = 0;
  for (int64_t j = hi; j < r->runs[i].n; j++) dst[j] = 0;
  if (lo == hi) return;
  if (s == 1)
    tni_load_f32(c->dtype, c->x, at + lo, hi - lo, dst + lo);
  else if (c->dtype == TN_DT_F32)
    for (int64_t j = lo; j < hi; j++) dst[j] = ((const f32u *)c->x)[at + j * s];
  else
    for (int64_t j = lo; j < hi; j++) tni_load_f32(c->dtype, c->x, at + j * s, 1, dst + j);
}

void tni_im2col_pack(const void *ctx, int64_t batch, int64_t k0, int64_t kc, int64_t n0, int64_t nb, float *dst) {
  tni_im2col_rows r;
  float row[TNI_GEMM_COLS] = {0};
  tni_im2col_rows_start(ctx, batch, k0, n0, nb, &r);
  for (int64_t k = 0; k < kc; k++) {
    int64_t at = 0;
    for (uint32_t i = 0; i < r.n; at += r.runs[i++].n) fill_columns(&r, i, row + at);
    for (int64_t p = 0; p < nb; p += TNI_NR) memcpy(dst + p * kc + k * TNI_NR, row + p, TNI_NR * sizeof *row);
    next_tap(&r);
  }
}
