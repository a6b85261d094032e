/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon.QLinearBinary, tenon.QLinearGlobalAveragePool, tenon.ByteLookup (tenon/ops.h).
 *
 * QLinearBinary computes what DequantizeLinear, the operator and QuantizeLinear do, in their order: the same bits.
 * QLinearGlobalAveragePool sums integers and multiplies once: (sum - n * x_zero) * (x_scale / (n * y_scale)).
 */
#include <math.h>

#include "runtime/ops/quant/qproduct.h"

/* A scale and zero point of one element each, that of t's type; where they stand in the inputs. */
static tn_status one_grid(const tni_kargs *a, const tni_tensor *t, uint32_t scale, uint32_t zero) {
  const tni_tensor *s = a->in[scale], *z = a->in[zero];
  if (!tni_qis_byte(t)) return tni_kdtype(a, t->dtype);
  if (s->dtype != TN_DT_F32) return tni_kdtype(a, s->dtype);
  if (z->dtype != t->dtype || tni_knumel(s) != 1 || tni_knumel(z) != 1)
    return tni_kfail(a, TN_E_INVALID, "inputs %u and %u are not one scale and one zero point of %s", scale, zero,
                     tni_dtype_name(t->dtype));
  return TN_OK;
}

static float scale_of(const tni_tensor *s) { return *(const f32u *)s->data; }

/* --- two operands --- */

typedef struct qlinear_binary {
  const tni_hot *hot;
  uint32_t op;
  tni_of_byte of[2];
  float scale[2], y_scale;
  tni_to_byte to;
} qlinear_binary;

static void combine_rows(uint32_t op, float *restrict x, const float *restrict y, int64_t n) {
  switch (op) {
    case TN_OP_ADD:
      for (int64_t i = 0; i < n; i++) x[i] = x[i] + y[i];
      break;
    case TN_OP_SUB:
      for (int64_t i = 0; i < n; i++) x[i] = x[i] - y[i];
      break;
    case TN_OP_MUL:
      for (int64_t i = 0; i < n; i++) x[i] = x[i] * y[i];
      break;
    default:
      for (int64_t i = 0; i < n; i++) x[i] = x[i] / y[i];
      break;
  }
}

static void binary_piece(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n) {
  const qlinear_binary *b = ctx;
  float v[2][TNI_CHUNK];
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    for (int k = 0; k < 2; k++) {
      b->hot->dequantize(v[k], (const u8u *)src[k] + i * step[k], b->scale[k], b->of[k], step[k] ? m : 1);
      for (int64_t j = 1; j < m && !step[k]; j++) v[k][j] = v[k][0];
    }
    combine_rows(b->op, v[0], v[1], m);
    b->hot->quantize((u8u *)dst + i, v[0], b->y_scale, b->to, m);
  }
}

tn_status tni_k_qlinear_binary(const tni_kargs *a) {
  const tni_tensor *in[] = {a->in[0], a->in[3]};
  tni_tensor *y = a->out[0];
  qlinear_binary b = {
      .hot = tni_hot_get(), .op = (uint32_t)tni_at_i(a->node, TNI_A_OP, 0), .y_scale = scale_of(a->in[6])};
  tn_status st = one_grid(a, y, 6, 7);
  tni_bcast bc;
  if (b.op != TN_OP_ADD && b.op != TN_OP_SUB && b.op != TN_OP_MUL && b.op != TN_OP_DIV)
    return tni_kfail(a, TN_E_INVALID, "attribute 'op' is %u", b.op);
  for (uint32_t k = 0; k < 2 && !st; k++) {
    st = one_grid(a, in[k], 3 * k + 1, 3 * k + 2);
    if (st) break;
    b.scale[k] = scale_of(a->in[3 * k + 1]);
    b.of[k] = tni_qof(in[k], tni_qbyte(a->in[3 * k + 2], 0));
  }
  if (st) return st;
  b.to = tni_qto(y, tni_qbyte(a->in[7], 0));
  if (!tni_bcast_init(&bc, y, in, 2)) return tni_kfail(a, TN_E_INVALID, "the operands do not broadcast");
  const void *src[] = {in[0]->data, in[1]->data};
  const uint32_t sizes[] = {1, 1};
  tni_bcast_run(a->run, &bc, y->data, 1, src, sizes, binary_piece, &b);
  return TN_OK;
}

/* --- means --- */

typedef struct mean {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y;
  int64_t n;
  int32_t zero, y_zero;
  float scale;
} mean;

static void mean_planes(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const mean *m = arg;
  const tni_to_byte q = tni_qto(m->y, m->y_zero);
  tni_poll poll = {m->run, TNI_POLL};
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const u8u *p = (const u8u *)m->x->data + i * m->n;
    const bool is_signed = m->x->dtype == TN_DT_I8;
    int64_t sum = 0;
    for (int64_t j = 0; j < m->n && !tni_poll_stop(&poll, 1 << 17);) { /* pieces whose sum fits 32 bits */
      const int64_t end_j = m->n - j < 1 << 20 ? m->n : j + (1 << 20);
      int32_t part = 0;
      if (is_signed)
        for (; j < end_j; j++) part += (int8_t)p[j];
      else
        for (; j < end_j; j++) part += p[j];
      sum += part;
    }
    float v = rintf((float)(sum - m->n * m->zero) * m->scale) + q.zero;
    v = !(v >= q.lo) ? q.lo : v > q.hi ? q.hi : v;
    ((u8u *)m->y->data)[i] = (uint8_t)(int32_t)v;
  }
}

tn_status tni_k_qlinear_global_pool(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  mean m = {.run = a->run, .x = x, .y = a->out[0]};
  tn_status st = one_grid(a, x, 1, 2);
  if (!st) st = one_grid(a, m.y, 3, 4);
  if (st) return st;
  if (x->rank < 2) return tni_kfail(a, TN_E_INVALID, "an input of rank %u", x->rank);
  m.n = tni_dim_product(x, 2, x->rank);
  m.zero = tni_qbyte(a->in[2], 0);
  m.y_zero = tni_qbyte(a->in[4], 0);
  m.scale = scale_of(a->in[1]) / (scale_of(a->in[3]) * (float)m.n);
  tni_kfor(a->run, tni_knumel(m.y), m.n / 8 + 1, mean_planes, &m);
  return TN_OK;
}

/* --- tables --- */

typedef struct lookup {
  const u8u *x, *table;
  u8u *y;
} lookup;

static void lookup_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const lookup *l = arg;
  uint8_t table[256];
  (void)worker;
  memcpy(table, l->table, sizeof table);
  for (int64_t i = begin; i < end; i++) l->y[i] = table[l->x[i]];
}

tn_status tni_k_byte_lookup(const tni_kargs *a) {
  lookup l = {a->in[0]->data, a->in[1]->data, a->out[0]->data};
  for (int i = 0; i < 2; i++)
    if (!tni_qis_byte(a->in[i])) return tni_kdtype(a, a->in[i]->dtype);
  if (tni_knumel(a->in[1]) != 256)
    return tni_kfail(a, TN_E_INVALID, "a table of %lld", (long long)tni_knumel(a->in[1]));
  tni_kfor(a->run, tni_knumel(a->in[0]), 1, lookup_body, &l);
  return TN_OK;
}
