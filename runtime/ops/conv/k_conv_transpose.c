/* SPDX-License-Identifier: Apache-2.0
 *
 * ConvTranspose: every input element adds its multiple of the kernel to the output. X [N, C, in], W [C, M / group,
 * ...].
 *
 * f32: per image and group, columns [M / group * taps, positions] = W^T X in gemm.h's order, for as many input
 * positions at a time as COLUMNS floats hold; then they are added where they belong, taps ascending. Halves (in f32)
 * and f64: an output row is summed up in place, channels ascending, taps ascending within each. The bias comes last.
 */
#include "runtime/ops/conv/conv_transpose.h"
#include "runtime/ops/conv/im2col.h"

enum { COLUMNS = 1 << 20, POSITIONS_MIN = 64 };

typedef struct transposed {
  const tn_run *run;
  tni_window w;
  const tni_tensor *x, *weight, *bias;
  tni_tensor *y;
  int64_t groups, C, M; /* channels of one group, in and out */
  int64_t in[TNI_WINDOW_MAX], out[TNI_WINDOW_MAX], plane, taps;
} transposed;

/* Offset of the input row whose tap `tap` reaches the output row at o (outer dims), or -1. *t: the tap of the innermost
 * dim. */
static int64_t input_row(const transposed *c, int64_t tap, const int64_t *o, int64_t *t) {
  const tni_window *w = &c->w;
  const uint32_t last = w->rank - 1;
  int64_t at = 0, stride = c->in[last];
  *t = tap % w->kernel[last];
  tap /= w->kernel[last];
  for (uint32_t d = last; d-- > 0;) {
    const int64_t p = o[d] + w->begin[d] - tap % w->kernel[d] * w->dilation[d];
    tap /= w->kernel[d];
    if (p < 0 || p % w->stride[d] || p / w->stride[d] >= c->in[d]) return -1;
    at += p / w->stride[d] * stride;
    stride *= c->in[d];
  }
  return at;
}

/* Elements [i0, i1) of a row with tap offset `shift` land on outputs [o0, o0 + n): out = i * stride + shift. */
static void reach_of_shift(const transposed *c, int64_t shift, int64_t o0, int64_t n, int64_t *i0, int64_t *i1) {
  const int64_t s = c->w.stride[c->w.rank - 1], size = c->in[c->w.rank - 1], lo = o0 - shift, hi = o0 + n - shift;
  *i0 = lo > 0 ? (lo + s - 1) / s : 0;
  *i1 = hi > 0 ? (hi + s - 1) / s : 0;
  if (*i1 > size) *i1 = size;
  if (*i0 > *i1) *i0 = *i1;
}

#define PIECE(T, U, LOAD)                                                                                       \
  static void piece_##T(const transposed *c, int64_t image, int64_t m, const int64_t *o, int64_t o0, int64_t n, \
                        T *acc, tni_poll *poll) {                                                               \
    const int64_t g = m / c->M, first = (image * c->groups + g) * c->C, s = c->w.stride[c->w.rank - 1];         \
    T v[TNI_CHUNK];                                                                                             \
    for (int64_t j = 0; j < n; j++) acc[j] = 0;                                                                 \
    for (int64_t k = 0; k < c->C * c->taps && !tni_poll_stop(poll, n); k++) {                                   \
      const int64_t ch = k / c->taps, tap = k % c->taps;                                                        \
      int64_t t, i0, i1;                                                                                        \
      const int64_t row = input_row(c, tap, o, &t);                                                             \
      if (row < 0) continue;                                                                                    \
      const int64_t shift = t * c->w.dilation[c->w.rank - 1] - c->w.begin[c->w.rank - 1];                       \
      reach_of_shift(c, shift, o0, n, &i0, &i1);                                                                \
      if (i0 == i1) continue;                                                                                   \
      T w;                                                                                                      \
      LOAD(c->weight, ((g * c->C + ch) * c->M + m % c->M) * c->taps + tap, 1, &w);                              \
      LOAD(c->x, (first + ch) * c->plane + row + i0, i1 - i0, v);                                               \
      T *to = acc + i0 * s + shift - o0;                                                                        \
      for (int64_t i = 0; i < i1 - i0; i++) to[i * s] += w * v[i];                                              \
    }                                                                                                           \
    if (!c->bias) return;                                                                                       \
    T b;                                                                                                        \
    LOAD(c->bias, m, 1, &b);                                                                                    \
    for (int64_t j = 0; j < n; j++) acc[j] += b;                                                                \
  }
#define LOAD_FLOAT(t, at, n, dst) tni_load_f32((t)->dtype, (t)->data, at, n, dst)
#define LOAD_DOUBLE(t, at, n, dst) memcpy(dst, (const f64u *)(t)->data + (at), (size_t)(n) * sizeof(double))
PIECE(float, f32u, LOAD_FLOAT)
PIECE(double, f64u, LOAD_DOUBLE)
#undef PIECE
#undef LOAD_FLOAT
#undef LOAD_DOUBLE

static void transposed_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const transposed *c = arg;
  const uint32_t last = c->w.rank - 1;
  const int64_t n = c->out[last], all = c->groups * c->M, per = tni_dim_product(c->y, 2, c->y->rank) / n;
  tni_poll poll = {c->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    int64_t o[TNI_WINDOW_MAX] = {0};
    tni_row_position(c->out, last, r % per, o);
    for (int64_t i = 0; i < n; i += TNI_CHUNK) {
      const int64_t k = n - i < TNI_CHUNK ? n - i : TNI_CHUNK, image = r / per / all, m = r / per % all;
      if (c->y->dtype == TN_DT_F64) {
        double acc[TNI_CHUNK];
        piece_double(c, image, m, o, i, k, acc, &poll);
        memcpy((f64u *)c->y->data + r * n + i, acc, (size_t)k * sizeof *acc);
      } else {
        float acc[TNI_CHUNK];
        piece_float(c, image, m, o, i, k, acc, &poll);
        tni_store_f32(c->y->dtype, c->y->data, r * n + i, k, acc);
      }
    }
  }
}

/* --- f32: products, then sums */

/* Input positions per product. */
static int64_t block_of(const tni_tensor *x, const tni_tensor *w) {
  const int64_t rows = w->dims[1] * tni_dim_product(w, 2, w->rank), plane = tni_dim_product(x, 2, x->rank);
  const int64_t n = rows > 0 && COLUMNS / rows > POSITIONS_MIN ? COLUMNS / rows : POSITIONS_MIN;
  return n < plane ? n : plane;
}

uint64_t tni_conv_transpose_scratch(const tni_tensor *x, const tni_tensor *w, uint32_t n_workers) {
  uint64_t bytes;
  if (x->dtype != TN_DT_F32 || x->rank < 3 || w->rank != x->rank) return 0;
  const uint64_t rows = (uint64_t)tni_dim_product(w, 1, w->rank);
  if (__builtin_mul_overflow(rows, (uint64_t)block_of(x, w) * sizeof(float), &bytes)) return UINT64_MAX;
  return bytes + 64 + tni_gemm_scratch(TN_DT_F32, n_workers);
}

typedef struct tap_columns {
  const transposed *c;
  const float *v; /* [M * taps, n] */
  int64_t image, group;
  int64_t p0, n; /* input positions */
} tap_columns;

/* Where input row `row` lands under tap `tap`: offset in the output plane, or -1. */
static int64_t output_row(const transposed *c, int64_t row, int64_t tap) {
  const tni_window *w = &c->w;
  const uint32_t last = w->rank - 1;
  int64_t at = 0, stride = c->out[last];
  tap /= w->kernel[last];
  for (uint32_t d = last; d-- > 0;) {
    const int64_t o = row % c->in[d] * w->stride[d] + tap % w->kernel[d] * w->dilation[d] - w->begin[d];
    if (o < 0 || o >= c->out[d]) return -1;
    at += o * stride;
    stride *= c->out[d];
    row /= c->in[d];
    tap /= w->kernel[d];
  }
  return at;
}

/* Adds the columns of one tap to the plane y, input row by input row. */
static void add_tap(const tap_columns *k, int64_t tap, const float *v, f32u *y) {
  const transposed *c = k->c;
  const uint32_t last = c->w.rank - 1;
  const int64_t width = c->in[last], s = c->w.stride[last], end = k->p0 + k->n;
  const int64_t shift = tap % c->w.kernel[last] * c->w.dilation[last] - c->w.begin[last];
  int64_t lo, hi;
  reach_of_shift(c, shift, 0, c->out[last], &lo, &hi);
  for (int64_t row = k->p0 / width; row * width < end; row++) {
    const int64_t first = row * width, at = output_row(c, row, tap);
    const int64_t i0 = k->p0 - first > lo ? k->p0 - first : lo, i1 = end - first < hi ? end - first : hi;
    if (at < 0 || i0 >= i1) continue;
    const float *from = v + (first + i0 - k->p0);
    f32u *to = y + at + shift + i0 * s;
    if (s == 1)
      for (int64_t i = 0; i < i1 - i0; i++) to[i] += from[i];
    else
      for (int64_t i = 0; i < i1 - i0; i++) to[i * s] += from[i];
  }
}

static void add_columns(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const tap_columns *k = arg;
  const transposed *c = k->c;
  const int64_t plane = tni_dim_product(c->y, 2, c->y->rank);
  tni_poll poll = {c->run, TNI_POLL};
  (void)worker;
  for (int64_t m = begin; m < end; m++) {
    const int64_t channel = k->group * c->M + m;
    f32u *y = (f32u *)c->y->data + (k->image * c->groups * c->M + channel) * plane;
    if (k->p0 == 0) memset(y, 0, (size_t)plane * sizeof(float));
    for (int64_t t = 0; t < c->taps && !tni_poll_stop(&poll, k->n); t++)
      add_tap(k, t, k->v + (m * c->taps + t) * k->n, y);
    if (!c->bias || k->p0 + k->n < c->plane) continue;
    const float b = ((const f32u *)c->bias->data)[channel];
    for (int64_t i = 0; i < plane; i++) y[i] += b;
  }
}

static void transposed_products(const tni_kargs *a, const transposed *c) {
  const int64_t rows = c->M * c->taps, block = block_of(c->x, c->weight);
  float *v = (float *)((char *)a->scratch + (tni_gemm_scratch(TN_DT_F32, a->run->n_workers) + 63) / 64 * 64);
  for (int64_t u = 0; u < c->x->dims[0] * c->groups; u++)
    for (int64_t p0 = 0; p0 < c->plane; p0 += block) {
      tap_columns k = {c, v, u / c->groups, u % c->groups, p0, c->plane - p0 < block ? c->plane - p0 : block};
      tni_gemm g = {.dtype = TN_DT_F32, .M = rows, .N = k.n, .K = c->C, .batches = 1, .y = v, .alpha = 1, .beta = 1};
      g.a = (const f32u *)c->weight->data + k.group * c->C * rows;
      g.b = (const f32u *)c->x->data + u * c->C * c->plane + p0;
      g.a_row = g.b_col = 1;
      g.a_col = rows;
      g.b_row = c->plane;
      tni_gemm_run(&g, a->scratch, a->run);
      if (tni_run_cancelled(a->run)) return;
      tni_kfor(a->run, c->M, c->taps * k.n, add_columns, &k);
    }
}

tn_status tni_k_conv_transpose(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *w = a->in[1], *b = a->n_in > 2 ? a->in[2] : NULL;
  transposed c = {
      .run = a->run, .x = x, .weight = w, .bias = b, .y = a->out[0], .groups = tni_at_i(a->node, TNI_A_GROUP, 1)};
  char why[128];
  if (w->dtype != x->dtype || (b && b->dtype != x->dtype)) return tni_kdtype(a, w->dtype);
  if (x->rank < 3 || w->rank != x->rank || c.y->rank != x->rank)
    return tni_kfail(a, TN_E_INVALID, "ConvTranspose: ranks differ");
  if (!tni_window_read_spread(a->node, x->rank - 2, w->dims + 2, &c.w, why, sizeof why))
    return tni_kfail(a, TN_E_INVALID, "ConvTranspose: %s", why);
  if (c.groups < 1 || x->dims[1] != w->dims[0] || x->dims[1] % c.groups || c.y->dims[1] != w->dims[1] * c.groups ||
      (b && tni_knumel(b) != c.y->dims[1]))
    return tni_kfail(a, TN_E_INVALID, "ConvTranspose: channels do not fit the weight");
  if (!tni_knumel(c.y)) return TN_OK;
  c.C = x->dims[1] / c.groups;
  c.M = w->dims[1];
  c.plane = tni_dim_product(x, 2, x->rank);
  c.taps = tni_dim_product(w, 2, w->rank);
  for (uint32_t d = 0; d < c.w.rank; d++) {
    c.in[d] = x->dims[d + 2];
    c.out[d] = c.y->dims[d + 2];
  }
  tni_window_spread_pads(&c.w, c.in, c.out);
  const int64_t n = c.out[c.w.rank - 1];
  if (x->dtype == TN_DT_F32 && c.C && c.plane)
    transposed_products(a, &c);
  else
    tni_kfor(a->run, tni_knumel(c.y) / n, n * (c.C * c.taps + 1) / 2 + 1, transposed_rows, &c);
  return TN_OK;
}
