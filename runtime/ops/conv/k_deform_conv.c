/* SPDX-License-Identifier: Apache-2.0
 *
 * DeformConv: a convolution whose taps are moved by an offset each, and weighted by a mask. Taps between elements are
 * interpolated linearly along every dim; what lies outside is zero.
 *
 * X [N, C, in], W [M, C / group, kernel], offset [N, offset_group * taps * dims, out], B [M], mask [N, offset_group *
 * taps, out]. f32 and halves are products over sampled columns in gemm.h's order, f64 one sum in ascending channel and
 * tap. Samples are computed in double. Source: ONNX's Operators document; Dai et al., "Deformable Convolutional
 * Networks", 2017.
 */
#include <math.h>

#include "runtime/ops/conv/im2col.h"

typedef struct deform {
  const tn_run *run;
  tni_im2col im;
  const tni_tensor *x, *w, *offset, *b, *mask;
  tni_tensor *y;
  int64_t groups, offset_groups;
} deform;

static double between_pixels(const deform *c, int64_t plane, const double *p) {
  const uint32_t rank = c->im.w.rank;
  double sum = 0;
  for (uint32_t corner = 0; corner < 1u << rank; corner++) {
    double w = 1;
    int64_t at = 0;
    for (uint32_t d = 0; d < rank && w != 0; d++) {
      const double lo = floor(p[d]), i = lo + (double)((corner >> d) & 1);
      w *= (corner >> d) & 1 ? p[d] - lo : 1 - (p[d] - lo);
      if (!(i >= 0 && i < (double)c->im.in[d])) w = 0;
      at = at * c->im.in[d] + (w != 0 ? (int64_t)i : 0);
    }
    if (w != 0) sum += w * tni_get_f64(c->x, plane + at);
  }
  return sum;
}

/* Element [k, position] of the matrix of one group of one image. */
static double deform_sample(const deform *c, int64_t batch, int64_t k, int64_t position) {
  const tni_window *w = &c->im.w;
  const int64_t image = batch / c->groups, channel = batch % c->groups * c->im.channels + k / c->im.taps;
  const int64_t tap = k % c->im.taps, all = c->im.channels * c->groups, og = channel / (all / c->offset_groups);
  const int64_t row = (image * c->offset_groups + og) * c->im.taps + tap;
  double p[TNI_WINDOW_MAX];
  int64_t t = tap, o = position;
  for (uint32_t d = w->rank; d-- > 0;) {
    p[d] = (double)(o % c->im.out[d] * w->stride[d] - w->begin[d] + t % w->kernel[d] * w->dilation[d]);
    p[d] += tni_get_f64(c->offset, (row * w->rank + d) * c->im.positions + position);
    o /= c->im.out[d];
    t /= w->kernel[d];
  }
  const double v = between_pixels(c, (image * all + channel) * c->im.plane, p);
  return c->mask ? v * tni_get_f64(c->mask, row * c->im.positions + position) : v;
}

static void pack_deformed(const void *ctx, int64_t batch, int64_t k0, int64_t kc, int64_t n0, int64_t nb, float *dst) {
  const deform *c = ctx;
  for (int64_t p = 0; p < nb; p += TNI_NR, dst += kc * TNI_NR)
    for (int64_t k = 0; k < kc; k++)
      for (int64_t i = 0; i < TNI_NR; i++)
        dst[k * TNI_NR + i] = p + i < nb ? (float)deform_sample(c, batch, k0 + k, n0 + p + i) : 0;
}

static void deform_wide(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const deform *c = arg;
  const int64_t M = c->w->dims[0], K = c->im.channels * c->im.taps, work = 8 << c->im.w.rank;
  tni_poll poll = {c->run, TNI_POLL};
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    const int64_t position = u % c->im.positions, m = u / c->im.positions % M, image = u / c->im.positions / M;
    double sum = 0;
    for (int64_t k = 0; k < K && !tni_poll_stop(&poll, work); k++)
      sum += ((const f64u *)c->w->data)[m * K + k] *
             deform_sample(c, image * c->groups + m / (M / c->groups), k, position);
    ((f64u *)c->y->data)[u] = sum + (c->b ? ((const f64u *)c->b->data)[m] : 0);
  }
}

static bool has_dims(const tni_tensor *t, const tni_tensor *y, int64_t channels) {
  if (t->rank != y->rank || t->dims[0] != y->dims[0] || t->dims[1] != channels) return false;
  for (uint32_t d = 2; d < y->rank; d++)
    if (t->dims[d] != y->dims[d]) return false;
  return true;
}

static tn_status deform_product(const tni_kargs *a, deform *c) {
  const int64_t M = c->w->dims[0], K = c->im.channels * c->im.taps;
  tni_gemm g = {.dtype = c->x->dtype, .a = c->w->data, .y = c->y->data, .alpha = 1, .beta = 1};
  g.M = M / c->groups;
  g.N = c->im.positions;
  g.K = K;
  g.batches = c->y->dims[0] * c->groups;
  g.batch_rank = 2;
  g.batch_dims[0] = c->y->dims[0];
  g.batch_dims[1] = c->groups;
  g.a_row = K;
  g.a_col = g.c_row = 1;
  g.a_batch[1] = g.M * K;
  if (c->b) g.c = c->b->data;
  g.c_batch[1] = g.M;
  g.pack = pack_deformed;
  g.pack_ctx = c;
  tni_gemm_run(&g, a->scratch, a->run);
  return TN_OK;
}

tn_status tni_k_deform_conv(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *w = a->in[1];
  deform c = {.run = a->run, .x = x, .w = w, .offset = a->in[2], .y = a->out[0]};
  tni_window win;
  char why[128];
  c.b = a->n_in > 3 ? a->in[3] : NULL;
  c.mask = a->n_in > 4 ? a->in[4] : NULL;
  c.groups = tni_at_i(a->node, TNI_A_GROUP, 1);
  c.offset_groups = tni_at_i(a->node, TNI_A_OFFSET_GROUP, 1);
  if (w->dtype != x->dtype || (c.b && c.b->dtype != x->dtype)) return tni_kdtype(a, w->dtype);
  if (x->rank < 3 || w->rank != x->rank || c.y->rank != x->rank)
    return tni_kfail(a, TN_E_INVALID, "DeformConv: ranks differ");
  if (!tni_window_read(a->node, x->rank - 2, w->dims + 2, &win, why, sizeof why))
    return tni_kfail(a, TN_E_INVALID, "DeformConv: %s", why);
  if (c.groups < 1 || c.offset_groups < 1 || w->dims[0] % c.groups || x->dims[1] % c.groups ||
      x->dims[1] % c.offset_groups || x->dims[1] / c.groups != w->dims[1] || c.y->dims[1] != w->dims[0] ||
      (c.b && tni_knumel(c.b) != w->dims[0]))
    return tni_kfail(a, TN_E_INVALID, "DeformConv: channels do not fit the weight");
  tni_im2col_init(&c.im, &win, x, c.y, c.groups);
  int64_t rows; /* of the mask; where there is no channel, offset_group may be anything */
  if (__builtin_mul_overflow(c.offset_groups, c.im.taps, &rows) || rows > INT64_MAX / TNI_WINDOW_MAX ||
      !has_dims(c.offset, c.y, rows * win.rank) || (c.mask && !has_dims(c.mask, c.y, rows)))
    return tni_kfail(a, TN_E_INVALID, "DeformConv: offset or mask do not fit the output");
  if (!tni_knumel(c.y)) return TN_OK;
  if (x->dtype != TN_DT_F64) return deform_product(a, &c);
  tni_kfor(a->run, tni_knumel(c.y), c.im.channels * c.im.taps * 32, deform_wide, &c);
  return TN_OK;
}
