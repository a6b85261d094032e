/* SPDX-License-Identifier: Apache-2.0
 *
 * MatMulInteger, QLinearMatMul, ConvInteger, QLinearConv: sums of (a - za) * (b - zb) over bytes, in integers modulo
 * 2^32, exact for inner dims up to 33,000. The QLinear ones scale each sum in double, round it half to even, add the
 * zero point and saturate.
 */
#include <math.h>

#include "runtime/host/im2col.h"

enum { COLS = 512 }; /* sums under way */

typedef struct operand {
  const tni_tensor *t, *zero, *scale; /* zero, scale: NULL: 0, none */
} operand;

typedef struct product {
  operand a, b;
  const tni_tensor *y_scale, *y_zero, *bias;
  tni_tensor *y;
  int64_t M, N, K, batch_rank, batch_dims[TN_MAX_RANK], a_st[TN_MAX_RANK], b_st[TN_MAX_RANK]; /* in matrices */
  tni_im2col im;                                                                              /* of a convolution */
  int64_t groups, group_outs;
} product;

static int32_t byte_at(const tni_tensor *t, int64_t i) {
  return t->dtype == TN_DT_I8 ? ((const i8u *)t->data)[i] : ((const u8u *)t->data)[i];
}

/* Parameter i of count: a tensor's only one, or one per index. */
static int64_t param(const tni_tensor *p, int64_t i) { return tni_knumel(p) == 1 ? 0 : i; }
static int32_t zero_of(const tni_tensor *p, int64_t i) { return p ? byte_at(p, param(p, i)) : 0; }
static float scale_of(const tni_tensor *p, int64_t i) {
  float s = 1;
  if (p) tni_tensor_to_f32(p, param(p, i), 1, &s);
  return s;
}

/* acc[n] += f * (p[n] - zero); what wraps is meant to. */
#define ADD(NAME, U)                                                                                         \
  static void NAME(uint32_t *restrict acc, const U *p, int64_t stride, int32_t zero, int32_t f, int64_t n) { \
    if (stride == 1)                                                                                         \
      for (int64_t i = 0; i < n; i++) acc[i] += (uint32_t)(f * ((int32_t)p[i] - zero));                      \
    else                                                                                                     \
      for (int64_t i = 0; i < n; i++) acc[i] += (uint32_t)(f * ((int32_t)p[i * stride] - zero));             \
  }
ADD(add_u8, u8u)
ADD(add_i8, i8u)
#undef ADD

static void add(uint32_t *acc, const tni_tensor *t, int64_t at, int64_t stride, int32_t zero, int32_t f, int64_t n) {
  if (t->dtype == TN_DT_I8)
    add_i8(acc, (const i8u *)t->data + at, stride, zero, f, n);
  else
    add_u8(acc, (const u8u *)t->data + at, stride, zero, f, n);
}

/* n sums into y from element `at` on. */
static void give(const product *p, const uint32_t *acc, double scale, int64_t at, int64_t n) {
  if (p->y->dtype == TN_DT_I32) {
    for (int64_t i = 0; i < n; i++) ((i32u *)p->y->data)[at + i] = (int32_t)acc[i];
    return;
  }
  const bool is_signed = p->y->dtype == TN_DT_I8;
  const double zero = zero_of(p->y_zero, 0), lo = is_signed ? -128 : 0, hi = is_signed ? 127 : 255;
  for (int64_t i = 0; i < n; i++) {
    const double v = rint((double)(int32_t)acc[i] * scale) + zero;
    ((u8u *)p->y->data)[at + i] = (uint8_t)(int32_t)(!(v >= lo) ? lo : v > hi ? hi : v);
  }
}

/* a_scale * b_scale / y_scale, in the scales' own type, as ONNX's functions do it. */
static double factor(const product *p, int64_t a, int64_t b) {
  if (!p->y_scale) return 1;
  const uint32_t dtype = p->y_scale->dtype;
  float s = scale_of(p->a.scale, a) * scale_of(p->b.scale, b), y = scale_of(p->y_scale, 0);
  uint16_t h;
  for (int i = 0; i < 2; i++) {
    if (i) s /= y;
    if (!tni_is_half(dtype)) continue;
    tni_store_f32(dtype, &h, 0, 1, &s);
    tni_load_f32(dtype, &h, 0, 1, &s);
  }
  return (double)s;
}

/* --- matrices ----------------------------------------------------------------------------------------------------- */

/* Rows of all batches. The left zero point is one or one per row of a matrix, the right one or one per column. */
static void rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const product *p = arg;
  uint32_t acc[COLS];
  const bool per_col = (p->b.zero && tni_knumel(p->b.zero) > 1) || (p->b.scale && tni_knumel(p->b.scale) > 1);
  const int64_t wide = per_col ? 1 : COLS;
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    int64_t a = 0, b = 0, rest = r / p->M;
    for (int64_t d = p->batch_rank; d-- > 0;) {
      a += rest % p->batch_dims[d] * p->a_st[d];
      b += rest % p->batch_dims[d] * p->b_st[d];
      rest /= p->batch_dims[d];
    }
    const int64_t m = r % p->M, row = a * p->M + m;
    const int32_t za = zero_of(p->a.zero, p->a.zero && tni_knumel(p->a.zero) > p->M ? row : m);
    for (int64_t n0 = 0; n0 < p->N; n0 += COLS) {
      const int64_t n = p->N - n0 < COLS ? p->N - n0 : COLS;
      memset(acc, 0, (size_t)n * sizeof *acc);
      for (int64_t j = 0; j < n; j += wide) { /* columns of one zero point */
        const int64_t w = n - j < wide ? n - j : wide, col = n0 + j;
        const int32_t zb = zero_of(p->b.zero, p->b.zero && tni_knumel(p->b.zero) > p->N ? b * p->N + col : col);
        for (int64_t k = 0; k < p->K; k++)
          add(acc + j, p->b.t, (b * p->K + k) * p->N + col, 1, zb, byte_at(p->a.t, row * p->K + k) - za, w);
      }
      for (int64_t j = 0; j < n; j += wide) {
        const int64_t w = n - j < wide ? n - j : wide, col = n0 + j;
        const int64_t sa = p->a.scale && tni_knumel(p->a.scale) > p->M ? row : m;
        const int64_t sb = p->b.scale && tni_knumel(p->b.scale) > p->N ? b * p->N + col : col;
        give(p, acc + j, factor(p, sa, sb), r * p->N + col, w);
      }
    }
  }
}

/* One, one per row (column), or one per row (column) of every matrix. */
static bool params_fit(const tni_tensor *p, int64_t per, int64_t all) {
  const int64_t n = p ? tni_knumel(p) : 1;
  return n == 1 || n == per || n == all;
}

static tn_status matmul(const tni_kargs *a, product *p) {
  const tni_tensor *x = p->a.t, *w = p->b.t;
  if (!x->rank || !w->rank) return tni_kfail(a, TN_E_INVALID, "a scalar operand");
  const uint32_t xb = x->rank > 2 ? x->rank - 2 : 0, wb = w->rank > 2 ? w->rank - 2 : 0;
  p->K = x->dims[x->rank - 1];
  p->M = x->rank > 1 ? x->dims[x->rank - 2] : 1;
  p->N = w->rank > 1 ? w->dims[w->rank - 1] : 1;
  if ((w->rank > 1 ? w->dims[w->rank - 2] : w->dims[0]) != p->K) return tni_kfail(a, TN_E_INVALID, "inner dims differ");
  p->batch_rank = xb > wb ? xb : wb;
  int64_t batches = 1, xs = 1, ws = 1;
  for (int64_t d = p->batch_rank; d-- > 0;) {
    const int64_t ix = d - (p->batch_rank - xb), iw = d - (p->batch_rank - wb);
    const int64_t nx = ix < 0 ? 1 : x->dims[ix], nw = iw < 0 ? 1 : w->dims[iw];
    if (nx != nw && nx != 1 && nw != 1) return tni_kfail(a, TN_E_INVALID, "batch dims do not broadcast");
    p->batch_dims[d] = nx == 1 ? nw : nx;
    p->a_st[d] = nx == 1 ? 0 : xs;
    p->b_st[d] = nw == 1 ? 0 : ws;
    batches *= p->batch_dims[d];
    xs *= nx;
    ws *= nw;
  }
  if (!params_fit(p->a.zero, p->M, xs * p->M) || !params_fit(p->a.scale, p->M, xs * p->M) ||
      !params_fit(p->b.zero, p->N, ws * p->N) || !params_fit(p->b.scale, p->N, ws * p->N))
    return tni_kfail(a, TN_E_INVALID, "zero points or scales fit neither rows nor columns");
  if (batches * p->M * p->N != tni_knumel(p->y)) return tni_kfail(a, TN_E_INVALID, "the output does not fit");
  tni_kfor(a->run, batches * p->M, p->N * (p->K / 4 + 1), rows, p);
  return TN_OK;
}

/* --- convolutions ------------------------------------------------------------------------------------------------- */

/* Rows of the output; what lies in the padding is the zero point, and adds nothing. */
static void conv_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const product *p = arg;
  const tni_im2col *im = &p->im;
  const uint32_t last = im->w.rank - 1;
  const int64_t width = im->out[last], s = im->w.stride[last], lines = im->positions / width, M = p->y->dims[1];
  const int32_t zx = zero_of(p->a.zero, 0);
  uint32_t acc[COLS];
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    int64_t o[TNI_WINDOW_MAX] = {0};
    tni_row_position(im->out, last, r % lines, o);
    const int64_t m = r / lines % M, first = (r / lines / M * p->groups + m / p->group_outs) * im->channels;
    const int32_t zw = zero_of(p->b.zero, m);
    for (int64_t x0 = 0; x0 < width; x0 += COLS) {
      const int64_t n = width - x0 < COLS ? width - x0 : COLS;
      for (int64_t j = 0; j < n; j++) acc[j] = p->bias ? (uint32_t)((const i32u *)p->bias->data)[m] : 0;
      for (int64_t i = 0; i < p->K; i++) {
        int64_t shift, lo, hi;
        const int64_t line = tni_im2col_row(im, i % im->taps, o, &shift);
        if (line < 0) continue;
        shift += x0 * s;
        tni_im2col_inside(im, shift, n, &lo, &hi);
        if (hi > lo)
          add(acc + lo, p->a.t, (first + i / im->taps) * im->plane + line + shift + lo * s, s, zx,
              byte_at(p->b.t, m * p->K + i) - zw, hi - lo);
      }
      give(p, acc, factor(p, 0, m), r * width + x0, n);
    }
  }
}

static tn_status conv(const tni_kargs *a, product *p) {
  const tni_tensor *x = p->a.t, *w = p->b.t;
  tni_window win;
  char why[128];
  if (x->rank < 3 || w->rank != x->rank || p->y->rank != x->rank) return tni_kfail(a, TN_E_INVALID, "ranks differ");
  if (!tni_window_read(a->node, x->rank - 2, w->dims + 2, &win, why, sizeof why))
    return tni_kfail(a, TN_E_INVALID, "%s", why);
  p->groups = tni_attr_i(a->node, "group", 1);
  const int64_t M = w->dims[0];
  if (p->groups < 1 || M % p->groups || x->dims[1] % p->groups || x->dims[1] / p->groups != w->dims[1] ||
      p->y->dims[1] != M)
    return tni_kfail(a, TN_E_INVALID, "channels do not fit the weight");
  if (!params_fit(p->a.zero, 1, 1) || !params_fit(p->a.scale, 1, 1) || !params_fit(p->b.zero, M, M) ||
      !params_fit(p->b.scale, M, M) || (p->bias && (tni_knumel(p->bias) != M || p->bias->dtype != TN_DT_I32)))
    return tni_kfail(a, TN_E_INVALID, "zero points, scales or bias do not fit the channels");
  if (!tni_knumel(p->y)) return TN_OK;
  p->group_outs = M / p->groups;
  tni_im2col_init(&p->im, &win, x, p->y, p->groups);
  p->K = p->im.channels * p->im.taps;
  const int64_t width = p->im.out[win.rank - 1];
  tni_kfor(a->run, x->dims[0] * M * (p->im.positions / width), width * (p->K / 4 + 1), conv_rows, p);
  return TN_OK;
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static const tni_tensor *input(const tni_kargs *a, uint32_t i) { return i < a->n_in ? a->in[i] : NULL; }

static bool is_byte(const tni_tensor *t) { return t->dtype == TN_DT_I8 || t->dtype == TN_DT_U8; }

static tn_status bytes_only(const tni_kargs *a, const product *p) {
  const tni_tensor *all[] = {p->a.t, p->b.t, p->a.zero, p->b.zero, p->y_zero};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] && !is_byte(all[i])) return tni_kdtype(a, all[i]->dtype);
  if ((p->a.zero && p->a.zero->dtype != p->a.t->dtype) || (p->b.zero && p->b.zero->dtype != p->b.t->dtype) ||
      (p->y_zero && (p->y_zero->dtype != p->y->dtype || tni_knumel(p->y_zero) != 1)) ||
      (p->y_scale && tni_knumel(p->y_scale) != 1))
    return tni_kfail(a, TN_E_INVALID, "a zero point of another type, or several where one is due");
  return TN_OK;
}

static product integer(const tni_kargs *a) {
  return (product){.a = {a->in[0], input(a, 2), NULL}, .b = {a->in[1], input(a, 3), NULL}, .y = a->out[0]};
}

static product linear(const tni_kargs *a) {
  return (product){.a = {a->in[0], a->in[2], a->in[1]},
                   .b = {a->in[3], a->in[5], a->in[4]},
                   .y_scale = a->in[6],
                   .y_zero = a->in[7],
                   .y = a->out[0]};
}

tn_status tni_k_matmul_integer(const tni_kargs *a) {
  product p = integer(a);
  tn_status st = bytes_only(a, &p);
  return st ? st : matmul(a, &p);
}

tn_status tni_k_qlinear_matmul(const tni_kargs *a) {
  product p = linear(a);
  tn_status st = bytes_only(a, &p);
  return st ? st : matmul(a, &p);
}

tn_status tni_k_conv_integer(const tni_kargs *a) {
  product p = integer(a);
  tn_status st = bytes_only(a, &p);
  return st ? st : conv(a, &p);
}

tn_status tni_k_qlinear_conv(const tni_kargs *a) {
  product p = linear(a);
  p.bias = input(a, 8);
  tn_status st = bytes_only(a, &p);
  return st ? st : conv(a, &p);
}
