/* SPDX-License-Identifier: Apache-2.0
 *
 * MatMulInteger, QLinearMatMul, tenon.QLinearGemm, ConvInteger, QLinearConv: sums of (a - za) * (b - zb) over bytes, in
 * integers modulo 2^32, exact for inner dims up to 33,000. The QLinear ones round each sum to f32, multiply it with the
 * f32 a_scale * b_scale / y_scale, round half to even, add the zero point and saturate.
 */
#include "runtime/ops/quant/qproduct.h"

/* --- matrices ----------------------------------------------------------------------------------------------------- */

/* Which matrices of a and b batch i multiplies. */
static void matrix_offsets(const tni_qproduct *p, int64_t i, int64_t *a, int64_t *b) {
  *a = *b = 0;
  for (int64_t d = p->batch_rank; d-- > 0; i /= p->batch_dims[d]) {
    *a += i % p->batch_dims[d] * p->a_st[d];
    *b += i % p->batch_dims[d] * p->b_st[d];
  }
}

/* A row's, or column's, parameter: one for all, one per row of a matrix, or one per row of every one. */
static int64_t param_of(const tni_tensor *p, int64_t per, int64_t matrix, int64_t i) {
  return p && tni_knumel(p) > per ? matrix * per + i : i;
}

static void pack_a(const void *ctx, int64_t batch, int64_t m0, int64_t mb, int64_t k0, int64_t kc, int16_t *dst) {
  const tni_qproduct *p = ctx;
  const int64_t ld = (kc + 1) / 2 * 2;
  int64_t a, b;
  matrix_offsets(p, batch, &a, &b);
  if (kc == p->K && kc == ld && (!p->a.zero || tni_knumel(p->a.zero) == 1)) { /* rows lie side by side */
    p->hot->widen(dst, (const u8u *)p->a.t->data + (a * p->M + m0) * p->K, tni_qof(p->a.t, tni_qzero(p->a.zero, 0)),
                  mb * kc);
    return;
  }
  for (int64_t m = 0; m < mb; m++) {
    const int32_t zero = tni_qzero(p->a.zero, param_of(p->a.zero, p->M, a, m0 + m));
    const u8u *row = (const u8u *)p->a.t->data + (a * p->M + m0 + m) * p->K + k0;
    p->hot->widen(dst + m * ld, row, tni_qof(p->a.t, zero), kc);
    if (kc < ld) dst[m * ld + kc] = 0;
  }
}

/* One panel of up to TNI_NR columns n0 .. of matrix b. */
static void qproduct_panel(const tni_qproduct *p, int64_t b, int64_t k0, int64_t kc, int64_t n0, int64_t n,
                           int16_t *dst) {
  const u8u *base = (const u8u *)p->b.t->data + b * p->K * p->N;
  const bool one = !p->b.zero || tni_knumel(p->b.zero) == 1;
  const int64_t pairs = (kc + 1) / 2;
  if (p->trans_b) { /* a column is a row: pairs of 16 bits are turned as if they were floats */
    int16_t rows[TNI_NR * TNI_BGEMM_KC];
    for (int64_t j = 0; j < n; j++) {
      const int32_t zero = tni_qzero(p->b.zero, param_of(p->b.zero, p->N, b, n0 + j));
      p->hot->widen(rows + j * pairs * 2, base + (n0 + j) * p->K + k0, tni_qof(p->b.t, zero), kc);
      if (kc % 2) rows[j * pairs * 2 + kc] = 0;
    }
    p->hot->pack_t((float *)(void *)dst, rows, pairs, n, pairs);
  } else if (one) {
    const tni_of_byte q = tni_qof(p->b.t, tni_qzero(p->b.zero, 0));
    for (int64_t k = 0; k < kc; k += 2) {
      const u8u *row = base + (k0 + k) * p->N + n0;
      p->hot->widen_pairs(dst + k * TNI_NR, row, k + 1 < kc ? row + p->N : NULL, q, n);
    }
  } else {
    for (int64_t k = 0; k < pairs * 2; k++)
      for (int64_t j = 0; j < n; j++) {
        const int32_t zero = tni_qzero(p->b.zero, param_of(p->b.zero, p->N, b, n0 + j));
        dst[k / 2 * 2 * TNI_NR + j * 2 + k % 2] =
            k < kc ? (int16_t)(tni_qbyte(p->b.t, (b * p->K + k0 + k) * p->N + n0 + j) - zero) : 0;
      }
  }
}

static void pack_b(const void *ctx, int64_t batch, int64_t k0, int64_t kc, int64_t n0, int64_t nb, int16_t *dst) {
  const tni_qproduct *p = ctx;
  const int64_t pairs = (kc + 1) / 2;
  int64_t a, b;
  matrix_offsets(p, batch, &a, &b);
  for (int64_t n = 0; n < nb; n += TNI_NR)
    qproduct_panel(p, b, k0, kc, n0 + n, nb - n < TNI_NR ? nb - n : TNI_NR, dst + n * pairs * 2);
}

/* --- as signed bytes --- */

static void bytes_a(const void *ctx, const tni_dots *dots, int64_t batch, int64_t m0, int64_t mb, int64_t k0,
                    int64_t kc, int64_t ld, int8_t *dst, int32_t *zero, int32_t *sum) {
  int8_t line[TNI_BGEMM_KC];
  const tni_qproduct *p = ctx;
  int64_t a, b;
  matrix_offsets(p, batch, &a, &b);
  for (int64_t m = 0; m < mb; m++) {
    sum[m] += tni_qline(p->a.t, (a * p->M + m0 + m) * p->K + k0, kc, ld, line);
    tni_dots_put_row(dots, dst, m, line, ld);
    zero[m] = tni_qsigned(p->a.t, tni_qzero(p->a.zero, param_of(p->a.zero, p->M, a, m0 + m)));
  }
}

typedef struct b_rows {
  const uint8_t *b;
  int64_t N, nb;
} b_rows;

static const uint8_t *row_of_b(void *ctx, int64_t k, uint8_t *room) {
  const b_rows *r = ctx;
  return tni_qrow_from(r->b + k * r->N, r->nb, room);
}

/* Columns that are rows. */
static void bytes_of_lines(const tni_qproduct *p, int64_t unit, int64_t at, int64_t kc, int64_t ld, int64_t nb,
                           int8_t *dst) {
  int8_t line[TNI_BGEMM_KC];
  for (int64_t n = 0; n < nb; n++) {
    int8_t *to = dst + n / TNI_NR * TNI_NR * ld + n % TNI_NR * unit;
    (void)tni_qline(p->b.t, at + n * p->K, kc, ld, line);
    for (int64_t k = 0; k < ld; k += unit) memcpy(to + k * TNI_NR, line + k, (size_t)unit);
  }
}

static void bytes_b(const void *ctx, const tni_dots *dots, int64_t batch, int64_t k0, int64_t kc, int64_t ld,
                    int64_t n0, int64_t nb, int8_t *dst, int32_t *zero) {
  const tni_qproduct *p = ctx;
  int64_t a, b;
  matrix_offsets(p, batch, &a, &b);
  b_rows r = {(const uint8_t *)p->b.t->data + (b * p->K + k0) * p->N + n0, p->N, nb};
  const tni_qrows rows = {&r, row_of_b};
  if (p->trans_b)
    bytes_of_lines(p, dots->unit, (b * p->N + n0) * p->K + k0, kc, ld, nb, dst);
  else
    tni_qcolumns(dots, &rows, tni_qflip(p->b.t), kc, ld, nb, dst);
  for (int64_t n = 0; n < nb; n++)
    zero[n] = tni_qsigned(p->b.t, tni_qzero(p->b.zero, param_of(p->b.zero, p->N, b, n0 + n)));
}

static void finish_qproduct(const void *ctx, int64_t batch, int64_t m0, int64_t mb, int64_t n0, int64_t nb,
                            int32_t *c) {
  const tni_qproduct *p = ctx;
  const bool by_row = p->a.scale && tni_knumel(p->a.scale) > 1, by_col = p->b.scale && tni_knumel(p->b.scale) > 1;
  float scale[TNI_BGEMM_COLS];
  int64_t a, b;
  matrix_offsets(p, batch, &a, &b);
  for (int64_t m = 0; m < mb; m++) {
    int32_t *row = c + m * TNI_BGEMM_COLS;
    for (int64_t n = 0; n < (by_col ? nb : 1) && (m == 0 || by_row); n++)
      scale[n] = by_row ? tni_qfactor(p, param_of(p->a.scale, p->M, a, m0 + m), param_of(p->b.scale, p->N, b, n0 + n))
                        : tni_qscale(p, param_of(p->b.scale, p->N, b, n0 + n));
    for (int64_t n = 0; n < nb && p->bias; n++)
      row[n] = (int32_t)((uint32_t)row[n] + (uint32_t)((const i32u *)p->bias->data)[n0 + n]);
    tni_qgive(p, row, scale, by_col, (batch * p->M + m0 + m) * p->N + n0, nb);
  }
}

/* Each sum as f32, times its scale, plus the bias. */
static void finish_to_float(const void *ctx, int64_t batch, int64_t m0, int64_t mb, int64_t n0, int64_t nb,
                            int32_t *c) {
  const tni_qproduct *p = ctx;
  const f32u *scale = p->to_float->data, *bias = p->float_bias ? p->float_bias->data : NULL;
  const bool by_col = tni_knumel(p->to_float) > 1;
  for (int64_t m = 0; m < mb; m++) {
    const int32_t *row = c + m * TNI_BGEMM_COLS;
    f32u *y = (f32u *)p->y->data + (batch * p->M + m0 + m) * p->N + n0;
    for (int64_t n = 0; n < nb; n++) y[n] = (float)row[n] * scale[by_col ? n0 + n : 0];
    for (int64_t n = 0; bias && n < nb; n++) y[n] = y[n] + bias[n0 + n];
  }
}

static tn_status qproduct_matmul(const tni_kargs *a, tni_qproduct *p) {
  const tni_tensor *x = p->a.t, *w = p->b.t;
  if (!x->rank || !w->rank) return tni_kfail(a, TN_E_INVALID, "a scalar operand");
  const uint32_t xb = x->rank > 2 ? x->rank - 2 : 0, wb = w->rank > 2 ? w->rank - 2 : 0;
  p->K = x->dims[x->rank - 1];
  p->M = x->rank > 1 ? x->dims[x->rank - 2] : 1;
  p->N = w->rank > 1 ? w->dims[w->rank - (p->trans_b ? 2 : 1)] : 1;
  if ((w->rank > 1 ? w->dims[w->rank - (p->trans_b ? 1 : 2)] : w->dims[0]) != p->K)
    return tni_kfail(a, TN_E_INVALID, "inner dims differ");
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
  if (!tni_qparams_fit(p->a.zero, p->M, xs * p->M) || !tni_qparams_fit(p->a.scale, p->M, xs * p->M) ||
      !tni_qparams_fit(p->b.zero, p->N, ws * p->N) || !tni_qparams_fit(p->b.scale, p->N, ws * p->N))
    return tni_kfail(a, TN_E_INVALID, "zero points or scales fit neither rows nor columns");
  if (batches * p->M * p->N != tni_knumel(p->y)) return tni_kfail(a, TN_E_INVALID, "the output does not fit");
  if (!p->to_float) tni_qsettle(p);
  if (p->bias && (tni_knumel(p->bias) != p->N || p->bias->dtype != TN_DT_I32))
    return tni_kfail(a, TN_E_INVALID, "the bias does not fit the columns");
  const tni_bgemm g = {.M = p->M,
                       .N = p->N,
                       .K = p->K,
                       .batches = batches,
                       .ctx = p,
                       .pack_a = pack_a,
                       .pack_b = pack_b,
                       .bytes_a = bytes_a,
                       .bytes_b = bytes_b,
                       .finish = p->to_float ? finish_to_float : finish_qproduct};
  tni_bgemm_run(&g, p->scratch, a->run);
  return TN_OK;
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static const tni_tensor *qproduct_input(const tni_kargs *a, uint32_t i) { return i < a->n_in ? a->in[i] : NULL; }

static tn_status bytes_only(const tni_kargs *a, const tni_qproduct *p) {
  const tni_tensor *all[] = {p->a.t, p->b.t, p->a.zero, p->b.zero, p->y_zero};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] && !tni_qis_byte(all[i])) return tni_kdtype(a, all[i]->dtype);
  if ((p->a.zero && p->a.zero->dtype != p->a.t->dtype) || (p->b.zero && p->b.zero->dtype != p->b.t->dtype) ||
      (p->y_zero && (p->y_zero->dtype != p->y->dtype || tni_knumel(p->y_zero) != 1)) ||
      (p->y_scale && tni_knumel(p->y_scale) != 1))
    return tni_kfail(a, TN_E_INVALID, "a zero point of another type, or several where one is due");
  return TN_OK;
}

static tni_qproduct integer_product(const tni_kargs *a) {
  return (tni_qproduct){.a = {a->in[0], qproduct_input(a, 2), NULL},
                        .b = {a->in[1], qproduct_input(a, 3), NULL},
                        .y = a->out[0],
                        .hot = tni_hot_get(),
                        .scratch = a->scratch};
}

static tni_qproduct linear_product(const tni_kargs *a) {
  return (tni_qproduct){.a = {a->in[0], a->in[2], a->in[1]},
                        .b = {a->in[3], a->in[5], a->in[4]},
                        .y_scale = a->in[6],
                        .y_zero = a->in[7],
                        .y = a->out[0],
                        .hot = tni_hot_get(),
                        .scratch = a->scratch};
}

tn_status tni_k_matmul_integer(const tni_kargs *a) {
  tni_qproduct p = integer_product(a);
  tn_status st = bytes_only(a, &p);
  return st ? st : qproduct_matmul(a, &p);
}

tn_status tni_k_matmul_integer_to_float(const tni_kargs *a) {
  tni_qproduct p = {.a = {a->in[0], qproduct_input(a, 3), NULL},
                    .b = {a->in[1], qproduct_input(a, 4), NULL},
                    .to_float = a->in[2],
                    .float_bias = qproduct_input(a, 5),
                    .y = a->out[0],
                    .hot = tni_hot_get(),
                    .scratch = a->scratch};
  tn_status st = bytes_only(a, &p);
  if (st != TN_OK) return st;
  const tni_tensor *all[] = {p.to_float, p.float_bias, p.y};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] && all[i]->dtype != TN_DT_F32) return tni_kdtype(a, all[i]->dtype);
  const int64_t N = p.b.t->rank > 1 ? p.b.t->dims[p.b.t->rank - 1] : 1;
  if ((tni_knumel(p.to_float) != 1 && tni_knumel(p.to_float) != N) || (p.float_bias && tni_knumel(p.float_bias) != N))
    return tni_kfail(a, TN_E_INVALID, "the scale or the bias does not fit the columns");
  return qproduct_matmul(a, &p);
}

tn_status tni_k_qlinear_matmul(const tni_kargs *a) {
  tni_qproduct p = linear_product(a);
  tn_status st = bytes_only(a, &p);
  return st ? st : qproduct_matmul(a, &p);
}

tn_status tni_k_conv_integer(const tni_kargs *a) {
  tni_qproduct p = integer_product(a);
  tn_status st = bytes_only(a, &p);
  return st ? st : tni_qconv(a, &p);
}

tn_status tni_k_qlinear_conv(const tni_kargs *a) {
  tni_qproduct p = linear_product(a);
  p.bias = qproduct_input(a, 8);
  tn_status st = bytes_only(a, &p);
  return st ? st : tni_qconv(a, &p);
}

tn_status tni_k_qlinear_gemm(const tni_kargs *a) {
  tni_qproduct p = linear_product(a);
  p.bias = qproduct_input(a, 8);
  p.trans_b = tni_at_i(a->node, TNI_A_TRANS_B, 0) != 0;
  tn_status st = bytes_only(a, &p);
  return st ? st : qproduct_matmul(a, &p);
}
