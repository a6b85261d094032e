/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of bytes: W [M / group, K] x (im2col) [K, positions] per image and group, in integers (bgemm.h); windows
 * over one channel directly.
 *
 * The direct ones (planes.h) sum in f32, where products of bytes and sums of up to 258 of them are integers under 2^24:
 * exact, whatever the order.
 */
#include "runtime/ops/conv/conv.h"
#include "runtime/ops/quant/qproduct.h"

enum { SHORT = 64 }; /* codes of a row that is short */

_Static_assert((int)TNI_BGEMM_COLS <= (int)TNI_IM2COL_COLS, "a tile's columns");
_Static_assert(((int)TNI_PLANES + 2 * (int)TNI_PLANE_SUMS) * (int)sizeof(float) <= (int)TNI_BGEMM_BYTES,
               "a block fits the scratch");

/* --- as a product --- */

static void pack_w(const void *ctx, int64_t batch, int64_t m0, int64_t mb, int64_t k0, int64_t kc, int16_t *dst) {
  const tni_qproduct *p = ctx;
  const int64_t first = batch % p->groups * p->group_outs + m0, ld = (kc + 1) / 2 * 2;
  if (kc == p->K && kc == ld && (!p->b.zero || tni_knumel(p->b.zero) == 1)) { /* rows lie side by side */
    p->hot->widen(dst, (const u8u *)p->b.t->data + first * p->K, tni_qof(p->b.t, tni_qzero(p->b.zero, 0)), mb * kc);
    return;
  }
  for (int64_t m = 0; m < mb; m++) {
    const int32_t zero = tni_qzero(p->b.zero, first + m);
    p->hot->widen(dst + m * ld, (const u8u *)p->b.t->data + (first + m) * p->K + k0, tni_qof(p->b.t, zero), kc);
    if (kc < ld) dst[m * ld + kc] = 0;
  }
}

static void pack_x(const void *ctx, int64_t batch, int64_t k0, int64_t kc, int64_t n0, int64_t nb, int16_t *dst) {
  const tni_qproduct *p = ctx;
  const int32_t zero = tni_qzero(p->a.zero, 0);
  const tni_of_byte q = tni_qof(p->a.t, zero);
  const int64_t pairs = (kc + 1) / 2;
  const bool as_it_is = tni_im2col_is_input(&p->im);
  tni_im2col_rows r;
  uint8_t room[2][TNI_BGEMM_COLS];
  if (!as_it_is) tni_im2col_rows_start(&p->im, batch, k0, n0, nb, &r);
  for (int64_t k = 0; k < kc; k += 2) {
    const uint8_t *row[2] = {NULL, NULL};
    for (int64_t i = 0; i < 2 && k + i < kc; i++) {
      if (as_it_is) {
        row[i] = (const uint8_t *)p->im.x + (batch * p->im.channels + k0 + k + i) * p->im.plane + n0;
      } else {
        tni_im2col_rows_bytes(&r, (uint8_t)zero, room[i]);
        row[i] = room[i];
      }
    }
    for (int64_t n = 0; n < nb; n += TNI_NR)
      p->hot->widen_pairs(dst + n * pairs * 2 + k * TNI_NR, row[0] + n, row[1] ? row[1] + n : NULL, q,
                          nb - n < TNI_NR ? nb - n : TNI_NR);
  }
}

static void bytes_w(const void *ctx, const tni_dots *dots, int64_t batch, int64_t m0, int64_t mb, int64_t k0,
                    int64_t kc, int64_t ld, int8_t *dst, int32_t *zero, int32_t *sum) {
  int8_t line[TNI_BGEMM_KC];
  const tni_qproduct *p = ctx;
  const int64_t first = batch % p->groups * p->group_outs + m0;
  for (int64_t m = 0; m < mb; m++) {
    sum[m] += tni_qline(p->b.t, (first + m) * p->K + k0, kc, ld, line);
    tni_dots_put_row(dots, dst, m, line, ld);
    zero[m] = tni_qsigned(p->b.t, tni_qzero(p->b.zero, first + m));
  }
}

typedef struct x_rows {
  const uint8_t *x; /* NULL: out of windows */
  int64_t plane, nb;
  tni_im2col_rows r;
  uint8_t outside;
} x_rows;

static const uint8_t *row_of_x(void *ctx, int64_t k, uint8_t *room) {
  x_rows *w = ctx;
  if (w->x) return tni_qrow_from(w->x + k * w->plane, w->nb, room);
  tni_im2col_rows_bytes(&w->r, w->outside, room);
  return room;
}

static void bytes_x(const void *ctx, const tni_dots *dots, int64_t batch, int64_t k0, int64_t kc, int64_t ld,
                    int64_t n0, int64_t nb, int8_t *dst, int32_t *zero) {
  const tni_qproduct *p = ctx;
  const tni_im2col *im = &p->im;
  const int32_t one = tni_qzero(p->a.zero, 0);
  x_rows w = {.plane = im->plane, .nb = nb, .outside = (uint8_t)one};
  const tni_qrows rows = {&w, row_of_x};
  if (tni_im2col_is_input(im))
    w.x = (const uint8_t *)im->x + (batch * im->channels + k0) * im->plane + n0;
  else
    tni_im2col_rows_start(im, batch, k0, n0, nb, &w.r);
  tni_qcolumns(dots, &rows, tni_qflip(p->a.t), kc, ld, nb, dst);
  for (int64_t n = 0; n < nb; n++) zero[n] = tni_qsigned(p->a.t, one);
}

static void add_bias(int32_t *sums, const tni_qproduct *p, int64_t m, int64_t n) {
  if (!p->bias) return;
  const uint32_t b = (uint32_t)((const i32u *)p->bias->data)[m];
  for (int64_t i = 0; i < n; i++) sums[i] = (int32_t)((uint32_t)sums[i] + b);
}

static void finish_qconv(const void *ctx, int64_t batch, int64_t m0, int64_t mb, int64_t n0, int64_t nb, int32_t *c) {
  const tni_qproduct *p = ctx;
  for (int64_t m = 0; m < mb; m++) {
    const int64_t channel = batch % p->groups * p->group_outs + m0 + m;
    const float scale = tni_qscale(p, channel);
    add_bias(c + m * TNI_BGEMM_COLS, p, channel, nb);
    tni_qgive(p, c + m * TNI_BGEMM_COLS, &scale, 0, (batch * p->group_outs + m0 + m) * p->im.positions + n0, nb);
  }
}

/* --- one channel, directly --- */

typedef struct qconv_direct {
  const tni_qproduct *p;
  tni_planes b;
} qconv_direct;

static void widen_row(const void *ctx, const void *x, int64_t at, int64_t stride, int64_t n, float *dst) {
  const tni_qproduct *p = ctx;
  p->hot->widen_floats(dst, (const u8u *)x + at, stride, tni_qof(p->a.t, tni_qzero(p->a.zero, 0)), n);
}

static void direct_block(const tni_qproduct *p, const tni_planes *b, int64_t unit, const float *w, float *room) {
  const int64_t plane = unit / b->blocks, oy = unit % b->blocks * b->rows;
  const int64_t M = p->groups * p->group_outs, m = plane % M, image = plane / M;
  const int64_t rows = b->out[0] - oy < b->rows ? b->out[0] - oy : b->rows, n = rows * b->width;
  float *sums = room + TNI_PLANES;
  int32_t *c = (int32_t *)(void *)(sums + TNI_PLANE_SUMS);
  const u8u *x = (const u8u *)p->im.x + (image * p->groups + m / p->group_outs) * p->im.plane;
  tni_planes_fill(b, widen_row, p, x, oy, room);
  tni_planes_sum(b, p->hot, room, w, rows, sums);
  p->hot->integers(c, sums, p->bias ? ((const i32u *)p->bias->data)[m] : 0, n);
  const float scale = tni_qscale(p, m);
  const int64_t y = (plane * b->out[0] + oy) * b->out[1];
  if (p->y->dtype != TN_DT_I32 && b->width < SHORT) { /* short rows: all at once, then the rows' parts */
    uint8_t *codes = (uint8_t *)room;
    p->hot->requantize(codes, c, &scale, 0, p->to, n);
    for (int64_t r = 0; r < rows; r++)
      memcpy((u8u *)p->y->data + y + r * b->out[1], codes + r * b->width, (size_t)b->out[1]);
  } else {
    for (int64_t r = 0; r < rows; r++) tni_qgive(p, c + r * b->width, &scale, 0, y + r * b->out[1], b->out[1]);
  }
}

static void direct_blocks(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const qconv_direct *d = arg;
  const tni_qproduct *p = d->p;
  const int64_t M = p->groups * p->group_outs;
  float w[TNI_PLANE_TAPS];
  int64_t had = -1;
  for (int64_t u = begin; u < end; u++) {
    const int64_t m = u / d->b.blocks % M;
    if (m != had)
      p->hot->widen_floats(w, (const u8u *)p->b.t->data + m * p->im.taps, 1, tni_qof(p->b.t, tni_qzero(p->b.zero, m)),
                           p->im.taps);
    had = m;
    direct_block(p, &d->b, u, w, (float *)p->scratch + (size_t)worker * (TNI_BGEMM_BYTES / sizeof(float)));
  }
}

tn_status tni_qconv(const tni_kargs *a, tni_qproduct *p) {
  const tni_tensor *x = p->a.t, *w = p->b.t;
  tni_window win;
  char why[128];
  qconv_direct d = {.p = p};
  if (x->rank < 3 || w->rank != x->rank || p->y->rank != x->rank) return tni_kfail(a, TN_E_INVALID, "ranks differ");
  if (!tni_window_read(a->node, x->rank - 2, w->dims + 2, &win, why, sizeof why))
    return tni_kfail(a, TN_E_INVALID, "%s", why);
  p->groups = tni_at_i(a->node, TNI_A_GROUP, 1);
  const int64_t M = w->dims[0];
  if (p->groups < 1 || M % p->groups || x->dims[1] % p->groups || x->dims[1] / p->groups != w->dims[1] ||
      p->y->dims[1] != M)
    return tni_kfail(a, TN_E_INVALID, "channels do not fit the weight");
  if (!tni_qparams_fit(p->a.zero, 1, 1) || !tni_qparams_fit(p->a.scale, 1, 1) || !tni_qparams_fit(p->b.zero, M, M) ||
      !tni_qparams_fit(p->b.scale, M, M) || (p->bias && (tni_knumel(p->bias) != M || p->bias->dtype != TN_DT_I32)))
    return tni_kfail(a, TN_E_INVALID, "zero points, scales or bias do not fit the channels");
  if (!tni_knumel(p->y)) return TN_OK;
  tni_qsettle(p);
  p->group_outs = M / p->groups;
  tni_im2col_init(&p->im, &win, x, p->y, p->groups);
  p->K = p->im.channels * p->im.taps;
  if (tni_planes_plan(&p->im, &d.b)) {
    tni_kfor(a->run, x->dims[0] * M * d.b.blocks, d.b.rows * d.b.width * (p->im.taps / 4 + 2), direct_blocks, &d);
    return TN_OK;
  }
  const tni_bgemm g = {.M = p->group_outs,
                       .N = p->im.positions,
                       .K = p->K,
                       .batches = x->dims[0] * p->groups,
                       .ctx = p,
                       .pack_a = pack_w,
                       .pack_b = pack_x,
                       .bytes_a = bytes_w,
                       .bytes_b = bytes_x,
                       .finish = finish_qconv};
  tni_bgemm_run(&g, p->scratch, a->run);
  return TN_OK;
}
