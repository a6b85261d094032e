/* SPDX-License-Identifier: Apache-2.0
 *
 * Conv: Y[n, m] = B[m] + sum over channels and taps of W[m, c, tap] * X[n, c, ...], m's group only.
 *
 * f32 and halves are products W [M / group, K] x (im2col.h; planes.h where it can) [K, positions] per image and group,
 * with gemm.h's order of sums; f32 with one channel per group, and f64, go directly: one sum per element in ascending
 * channel and tap that leaves the padding out. The bias comes last, and after it Relu or Clip where lower.c put one
 * into the convolution's task.
 */
#include <math.h>

#include "runtime/ops/conv/planes.h"

enum { MANY = 1024 }; /* taps of all channels that are asked about one by one */

typedef struct direct {
  const tn_run *run;
  tni_im2col im;
  const tni_tensor *w, *b;
  tni_tensor *y;
  int64_t group_outs, groups;
  const tni_bounds *bounds; /* NULL: none */
} direct;

/* One piece of an output row: n <= TNI_CHUNK elements from ow0 on. ADD adds v times element shift + j * s of x. */
#define DIRECT(NAME, U, T, ADD)                                                                               \
  static void NAME(const direct *c, int64_t image, int64_t m, const int64_t *o, int64_t ow0, int64_t n, U *y, \
                   tni_poll *poll) {                                                                          \
    const int64_t s = c->im.w.stride[c->im.w.rank - 1], C = c->im.channels;                                   \
    const int64_t first = (image * c->groups + m / c->group_outs) * C;                                        \
    const bool many = C * c->im.taps > MANY;                                                                  \
    T acc[TNI_CHUNK];                                                                                         \
    tni_taps t;                                                                                               \
    for (int64_t j = 0; j < n; j++) acc[j] = 0;                                                               \
    for (int64_t ch = 0; ch < C; ch++) {                                                                      \
      const U *w = (const U *)c->w->data + (m * C + ch) * c->im.taps;                                         \
      const U *plane = (const U *)c->im.x + (first + ch) * c->im.plane;                                       \
      for (bool more = tni_taps_first(&c->im, o, ow0, n, &t); more && !(many && tni_poll_stop(poll, n));      \
           more = tni_taps_next(&c->im, o, &t)) {                                                             \
        const int64_t shift = t.shift + ow0 * s;                                                              \
        const U *x = plane + t.row;                                                                           \
        const T v = w[tni_taps_index(&c->im, &t)];                                                            \
        int64_t lo, hi;                                                                                       \
        tni_im2col_inside(&c->im, shift, n, &lo, &hi);                                                        \
        ADD                                                                                                   \
      }                                                                                                       \
    }                                                                                                         \
    const T bias = c->b ? ((const U *)c->b->data)[m] : 0;                                                     \
    for (int64_t j = 0; j < n; j++) y[j] = acc[j] + bias;                                                     \
  }
/* As gemm.h's products, rounded once. */
#define ADD_F32                                              \
  float row[TNI_CHUNK];                                      \
  if (lo == hi) continue;                                    \
  tni_planes_copy(NULL, x, shift + lo * s, s, hi - lo, row); \
  tni_hot_get()->taps(acc + lo, row, &v, 1, 0, hi - lo);
#define ADD_F64 \
  for (int64_t j = lo; j < hi; j++) acc[j] += v * x[shift + j * s];
DIRECT(piece_f32, f32u, float, ADD_F32)
DIRECT(piece_f64, f64u, double, ADD_F64)
#undef DIRECT
#undef ADD_F32
#undef ADD_F64

static void bound_unaligned(const tni_bounds *b, f32u *y, int64_t n) {
  float v[TNI_CHUNK];
  memcpy(v, y, (size_t)n * sizeof *v);
  tni_bound(b, v, n);
  memcpy(y, v, (size_t)n * sizeof *v);
}

static void direct_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const direct *c = arg;
  const uint32_t last = c->im.w.rank - 1;
  const int64_t n = c->im.out[last], rows = c->im.positions / n, M = c->y->dims[1];
  tni_poll poll = {c->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    int64_t o[TNI_WINDOW_MAX] = {0};
    tni_row_position(c->im.out, last, r % rows, o);
    for (int64_t i = 0; i < n; i += TNI_CHUNK) {
      const int64_t k = n - i < TNI_CHUNK ? n - i : TNI_CHUNK, image = r / rows / M, m = r / rows % M;
      if (c->y->dtype == TN_DT_F64)
        piece_f64(c, image, m, o, i, k, (f64u *)c->y->data + r * n + i, &poll);
      else
        piece_f32(c, image, m, o, i, k, (f32u *)c->y->data + r * n + i, &poll);
      if (c->bounds) bound_unaligned(c->bounds, (f32u *)c->y->data + r * n + i, k);
    }
  }
}

/* --- f32, one channel per group, by planes --- */

typedef struct shifted {
  const direct *c;
  const tni_hot *hot;
  float *scratch;
  tni_planes b;
} shifted;

_Static_assert((int)TNI_PLANES + (int)TNI_PLANE_SUMS <= (int)TNI_GEMM_PACKED, "a block fits the scratch");

static void shifted_blocks(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const shifted *s = arg;
  const direct *c = s->c;
  const tni_planes *b = &s->b;
  const int64_t M = c->y->dims[1];
  float *room = s->scratch + (size_t)worker * (tni_gemm_scratch(TN_DT_F32, 1) / sizeof(float)),
        *sums = room + TNI_PLANES;
  float w[TNI_PLANE_TAPS];
  for (int64_t u = begin; u < end; u++) {
    const int64_t plane = u / b->blocks, oy = u % b->blocks * b->rows, m = plane % M, image = plane / M;
    const int64_t rows = b->out[0] - oy < b->rows ? b->out[0] - oy : b->rows;
    const float bias = c->b ? ((const f32u *)c->b->data)[m] : 0;
    memcpy(w, (const f32u *)c->w->data + m * c->im.taps, (size_t)c->im.taps * sizeof *w);
    tni_planes_fill(b, tni_planes_copy, NULL,
                    (const f32u *)c->im.x + (image * c->groups + m / c->group_outs) * c->im.plane, oy, room);
    tni_planes_sum(b, s->hot, room, w, rows, sums);
    for (int64_t r = 0; r < rows; r++) {
      float *row = sums + r * b->width;
      for (int64_t i = 0; i < b->out[1]; i++) row[i] = row[i] + bias;
      if (c->bounds) tni_bound(c->bounds, row, b->out[1]);
      memcpy((f32u *)c->y->data + (plane * b->out[0] + oy + r) * b->out[1], row, (size_t)b->out[1] * sizeof *row);
    }
  }
}

static bool all_finite(const tni_tensor *t) {
  float zero = 0;
  for (int64_t i = 0, n = tni_knumel(t); i < n; i++) zero += ((const f32u *)t->data)[i] * 0.f;
  return zero == 0;
}

static tn_status conv_product(const tni_kargs *a, const direct *c) {
  const tni_im2col *im = &c->im;
  const int64_t K = im->channels * im->taps;
  tni_gemm g = {.dtype = im->dtype, .a = c->w->data, .b = im->x, .y = c->y->data, .alpha = 1, .beta = 1};
  g.bounds = c->bounds;
  g.M = c->group_outs;
  g.N = im->positions;
  g.K = K;
  g.batches = c->y->dims[0] * c->groups;
  g.batch_rank = 2;
  g.batch_dims[0] = c->y->dims[0];
  g.batch_dims[1] = c->groups;
  g.a_row = K;
  g.a_col = g.b_col = g.c_row = 1;
  g.a_batch[1] = g.M * K;
  g.b_row = im->plane;
  g.b_batch[0] = c->groups * im->channels * im->plane;
  g.b_batch[1] = im->channels * im->plane;
  if (c->b) g.c = c->b->data;
  g.c_batch[1] = g.M;
  tni_strips strips;
  if (tni_strips_plan(im, &strips)) {
    g.N = strips.columns;
    g.width = strips.b.width;
    g.keep = strips.b.out[1];
    g.pack = tni_strips_pack;
    g.pack_ctx = &strips;
  } else if (!tni_im2col_is_input(im)) {
    g.pack = tni_im2col_pack;
    g.pack_ctx = im;
  }
  tni_gemm_run(&g, a->scratch, a->run);
  return TN_OK;
}

tn_status tni_k_conv(const tni_kargs *a) { return tni_conv_bounded(a, NULL); }

tn_status tni_conv_bounded(const tni_kargs *a, const tni_bounds *bounds) {
  const tni_tensor *x = a->in[0], *w = a->in[1], *b = a->n_in > 2 ? a->in[2] : NULL;
  tni_tensor *y = a->out[0];
  tni_window win;
  char why[128];
  if (w->dtype != x->dtype || (b && b->dtype != x->dtype)) return tni_kdtype(a, w->dtype);
  if (x->rank < 3 || w->rank != x->rank || y->rank != x->rank) return tni_kfail(a, TN_E_INVALID, "Conv: ranks differ");
  const int64_t groups = tni_at_i(a->node, TNI_A_GROUP, 1);
  if (!tni_window_read(a->node, x->rank - 2, w->dims + 2, &win, why, sizeof why))
    return tni_kfail(a, TN_E_INVALID, "Conv: %s", why);
  if (groups < 1 || w->dims[0] % groups || x->dims[1] % groups || x->dims[1] / groups != w->dims[1] ||
      y->dims[1] != w->dims[0] || (b && tni_knumel(b) != w->dims[0]))
    return tni_kfail(a, TN_E_INVALID, "Conv: channels do not fit the weight");
  if (!tni_knumel(y)) return TN_OK;
  direct c = {
      .run = a->run, .w = w, .b = b, .y = y, .groups = groups, .group_outs = w->dims[0] / groups, .bounds = bounds};
  tni_im2col_init(&c.im, &win, x, y, groups);
  if (x->dtype != TN_DT_F64 && (x->dtype != TN_DT_F32 || c.im.channels > 1)) return conv_product(a, &c);
  shifted s = {.c = &c, .hot = tni_hot_get(), .scratch = a->scratch};
  if (x->dtype == TN_DT_F32 && tni_planes_plan(&c.im, &s.b) && all_finite(w)) {
    tni_kfor(a->run, y->dims[0] * y->dims[1] * s.b.blocks, s.b.rows * s.b.width * (c.im.taps / 4 + 2), shifted_blocks,
             &s);
    return TN_OK;
  }
  const int64_t n = c.im.out[win.rank - 1];
  tni_kfor(a->run, y->dims[0] * y->dims[1] * (c.im.positions / n), n * (c.im.channels * c.im.taps + 1) / 4 + 1,
           direct_rows, &c);
  return TN_OK;
}
