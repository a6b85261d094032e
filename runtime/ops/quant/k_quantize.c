/* SPDX-License-Identifier: Apache-2.0
 *
 * QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: y = saturate(round(x / scale) + zero) and
 * y = (x - zero) * scale with one scale, one per index of an axis, or one per block along it. Rounding is half to even.
 */
#include <math.h>

#include "runtime/ops/hot/hot.h"
#include "runtime/ops/kernel/kernel.h"

/* Where the scale of an element stands: x is [outer, dim, inner] around the axis, and element (o, a, k) has scale
 * o * so + a / block * sa + k * sk. */
typedef struct grid {
  int64_t dim, inner, block, so, sa, sk;
} grid;

static tn_status make_grid(const tni_kargs *a, const tni_tensor *x, const tni_tensor *scale, grid *g) {
  const int64_t block = tni_at_i(a->node, TNI_A_BLOCK_SIZE, 0), count = tni_knumel(scale);
  *g = (grid){.dim = 1, .inner = 1, .block = 1};
  if (block < 0) return tni_kfail(a, TN_E_INVALID, "attribute 'block_size' is %lld", (long long)block);
  if (scale->rank == 0 || (count == 1 && !block)) return TN_OK;
  const int32_t axis = tni_kaxis(tni_at_i(a->node, TNI_A_AXIS, 1), x->rank);
  if (axis < 0 || !x->rank) return tni_kfail(a, TN_E_INVALID, "the axis is not one of rank %u", x->rank);
  g->dim = x->dims[axis];
  g->inner = tni_dim_product(x, (uint32_t)axis + 1, x->rank);
  g->sa = 1;
  if (!block) {
    if (scale->rank == 1 && count == g->dim) return TN_OK;
    return tni_kfail(a, TN_E_INVALID, "%lld scales for an axis of %lld", (long long)count, (long long)g->dim);
  }
  const int64_t blocks = g->dim / block + (g->dim % block != 0);
  bool fits = scale->rank == x->rank;
  for (uint32_t d = 0; fits && d < x->rank; d++) fits = scale->dims[d] == (d == (uint32_t)axis ? blocks : x->dims[d]);
  g->block = block;
  g->sk = 1;
  g->sa = g->inner;
  g->so = blocks * g->inner;
  return fits ? TN_OK
              : tni_kfail(a, TN_E_INVALID, "the scale's shape is not the input's in blocks of %lld", (long long)block);
}

/* Walks elements in order. */
typedef struct place {
  int64_t o, a, k;
} place;

static place place_at(const grid *g, int64_t i) {
  return (place){g->dim && g->inner ? i / (g->dim * g->inner) : 0, g->inner && g->dim ? i / g->inner % g->dim : 0,
                 g->inner ? i % g->inner : 0};
}

static int64_t grid_step(const grid *g, place *p) {
  const int64_t at = p->o * g->so + p->a / g->block * g->sa + p->k * g->sk;
  if (++p->k < g->inner) return at;
  p->k = 0;
  if (++p->a < g->dim) return at;
  p->a = 0;
  p->o++;
  return at;
}

typedef struct quant {
  const tni_tensor *x, *scale, *zero;
  tni_tensor *y;
  grid g;
  uint32_t precision; /* of the division */
  bool saturate;
} quant;

/* Range of the integers that values are quantized to; false: a float type. */
static bool int_range(uint32_t dtype, double *lo, double *hi) {
  static const struct {
    uint32_t dtype;
    double lo, hi;
  } rows[] = {{TN_DT_U8, 0, 255}, {TN_DT_I8, -128, 127}, {TN_DT_U16, 0, 65535}, {TN_DT_I16, -32768, 32767},
              {TN_DT_U4, 0, 15},  {TN_DT_I4, -8, 7},     {TN_DT_U2, 0, 3},      {TN_DT_I2, -2, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].dtype != dtype) continue;
    *lo = rows[i].lo;
    *hi = rows[i].hi;
    return true;
  }
  return false;
}

static float rounded_to(uint32_t dtype, float v) {
  uint16_t h;
  if (!tni_is_half(dtype)) return v;
  tni_store_f32(dtype, &h, 0, 1, &v);
  tni_load_f32(dtype, &h, 0, 1, &v);
  return v;
}

/* Pieces of TNI_CHUNK elements, so that no two workers share a byte. */
static void quantize_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const quant *q = arg;
  const int64_t total = tni_knumel(q->x);
  const uint32_t bits = tni_dtype_bits(q->y->dtype);
  double lo = 0, hi = 0;
  const bool ints = int_range(q->y->dtype, &lo, &hi);
  (void)worker;
  for (int64_t c = begin; c < end; c++) {
    const int64_t at = c * TNI_CHUNK, n = total - at < TNI_CHUNK ? total - at : TNI_CHUNK;
    place p = place_at(&q->g, at);
    uint8_t codes[TNI_CHUNK];
    for (int64_t i = 0; i < n; i++) {
      const int64_t s = grid_step(&q->g, &p);
      float scale, zero = 0;
      tni_tensor_to_f32(q->scale, s, 1, &scale);
      if (q->zero) tni_tensor_to_f32(q->zero, s, 1, &zero);
      const float v = rounded_to(q->precision, (float)(tni_get_f64(q->x, at + i) / (double)scale));
      if (ints) {
        const double r = v != v ? 0 : rint((double)v) + (double)zero;
        const int32_t code = (int32_t)(r < lo ? lo : r > hi ? hi : r);
        if (bits == 16) ((u16u *)q->y->data)[at + i] = (uint16_t)code;
        codes[i] = (uint8_t)code;
      } else {
        codes[i] = (uint8_t)tni_f32_to_code(q->y->dtype, v + zero, q->saturate);
      }
    }
    if (bits <= 8) tni_store_codes(q->y->dtype, q->y->data, at, n, codes);
  }
}

/* One scale and zero point for all of an f32 tensor to bytes: the loop of activations. */
static void quantize_bytes(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const quant *q = arg;
  float scale, zero = 0;
  double lo = 0, hi = 0;
  (void)worker;
  (void)int_range(q->y->dtype, &lo, &hi);
  tni_tensor_to_f32(q->scale, 0, 1, &scale);
  if (q->zero) tni_tensor_to_f32(q->zero, 0, 1, &zero);
  const tni_to_byte to = {.zero = zero, .lo = (float)lo, .hi = (float)hi};
  tni_hot_get()->quantize((u8u *)q->y->data + begin, (const f32u *)q->x->data + begin, scale, to, end - begin);
}

static bool zero_fits(const quant *q) {
  bool same = q->zero->rank == q->scale->rank;
  for (uint32_t d = 0; same && d < q->zero->rank; d++) same = q->zero->dims[d] == q->scale->dims[d];
  return same || (tni_knumel(q->zero) == 1 && tni_knumel(q->scale) == 1);
}

tn_status tni_k_quantize_linear(const tni_kargs *a) {
  quant q = {a->in[0], a->in[1], a->n_in > 2 ? a->in[2] : NULL, a->out[0],
             .saturate = tni_at_i(a->node, TNI_A_SATURATE, 1) != 0};
  double lo, hi;
  q.precision = (uint32_t)tni_at_i(a->node, TNI_A_PRECISION, 0);
  if (!q.precision) q.precision = q.scale->dtype;
  if (!int_range(q.y->dtype, &lo, &hi) && !(q.y->dtype >= TN_DT_F8E4M3FN && q.y->dtype <= TN_DT_F8E5M2FNUZ) &&
      q.y->dtype != TN_DT_F4E2M1)
    return tni_kdtype(a, q.y->dtype);
  if (q.zero && q.zero->dtype != q.y->dtype) return tni_kdtype(a, q.zero->dtype);
  tn_status st = make_grid(a, q.x, q.scale, &q.g);
  if (st) return st;
  if (q.zero && !zero_fits(&q)) return tni_kfail(a, TN_E_INVALID, "the zero point has another shape than the scale");
  const int64_t n = tni_knumel(q.x);
  if (!n) return TN_OK;
  if (q.x->dtype == TN_DT_F32 && q.precision == TN_DT_F32 && !q.g.sa && tni_dtype_bits(q.y->dtype) == 8 &&
      int_range(q.y->dtype, &lo, &hi))
    tni_kfor(a->run, n, 2, quantize_bytes, &q);
  else
    tni_kfor(a->run, (n + TNI_CHUNK - 1) / TNI_CHUNK, TNI_CHUNK * 8, quantize_body, &q);
  return TN_OK;
}

/* --- back --------------------------------------------------------------------------------------------------------- */

/* x - zero is exact, its product with the scale an f32. */
static void dequantize_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const quant *q = arg;
  const int64_t total = tni_knumel(q->x);
  (void)worker;
  for (int64_t c = begin; c < end; c++) {
    const int64_t at = c * TNI_CHUNK, n = total - at < TNI_CHUNK ? total - at : TNI_CHUNK;
    float v[TNI_CHUNK], scale = 0, zero = 0;
    place p = place_at(&q->g, at);
    int64_t had = -1;
    tni_tensor_to_f32(q->x, at, n, v); /* at most 16 bits: exact. 32-bit ones have no zero point */
    for (int64_t i = 0; i < n;) {
      const bool one = !q->g.sa && !q->g.sk, runs = one || !q->g.sk; /* elements in a row with one scale */
      const int64_t left = one                        ? n - i
                           : runs && q->g.inner > p.k ? q->g.inner - p.k
                                                      : 1,
                    m = left < n - i ? left : n - i;
      const int64_t s = p.o * q->g.so + p.a / q->g.block * q->g.sa + p.k * q->g.sk;
      if (s != had) {
        tni_tensor_to_f32(q->scale, s, 1, &scale);
        if (q->zero) tni_tensor_to_f32(q->zero, s, 1, &zero);
        had = s;
      }
      for (int64_t e = i + m; i < e; i++) v[i] = (v[i] - zero) * scale;
      if (!one) {
        p.k += m - 1;
        (void)grid_step(&q->g, &p);
      }
    }
    tni_store_f32(q->y->dtype, q->y->data, at, n, v);
  }
}

tn_status tni_k_dequantize_linear(const tni_kargs *a) {
  quant q = {.x = a->in[0], .scale = a->in[1], .zero = a->n_in > 2 ? a->in[2] : NULL, .y = a->out[0]};
  if (q.y->dtype != TN_DT_F32 && !tni_is_half(q.y->dtype)) return tni_kdtype(a, q.y->dtype);
  if (q.zero && q.zero->dtype != q.x->dtype) return tni_kdtype(a, q.zero->dtype);
  tn_status st = make_grid(a, q.x, q.scale, &q.g);
  if (st) return st;
  if (q.zero && !zero_fits(&q)) return tni_kfail(a, TN_E_INVALID, "the zero point has another shape than the scale");
  tni_kfor(a->run, (tni_knumel(q.x) + TNI_CHUNK - 1) / TNI_CHUNK, TNI_CHUNK * 2, dequantize_body, &q);
  return TN_OK;
}

/* The range always holds 0, so that 0 is exact. */
tn_status tni_k_dynamic_quantize_linear(const tni_kargs *a) {
  const f32u *x = a->in[0]->data;
  const int64_t n = tni_knumel(a->in[0]);
  float lo = 0, hi = 0, zero;
  if (a->in[0]->dtype != TN_DT_F32) return tni_kdtype(a, a->in[0]->dtype);
  tni_poll poll = {a->run, TNI_POLL};
  for (int64_t i = 0, to; (to = tni_poll_until(&poll, i, n)) > i;)
    for (; i < to; i = to) tni_hot_get()->range(x + i, to - i, &lo, &hi);
  float scale = hi == lo ? 1.0f / 255 : (hi - lo) / 255;
  zero = -lo / scale;
  zero = zero != zero ? 0 : zero > 255 ? 255 : rintf(zero);
  uint8_t z = (uint8_t)zero;
  const tni_tensor s = {.dtype = TN_DT_F32, .data = &scale, .bytes = 4},
                   zp = {.dtype = TN_DT_U8, .data = &z, .bytes = 1};
  quant q = {a->in[0], &s, &zp, a->out[0], .g = {.dim = 1, .inner = 1, .block = 1}};
  if (q.y) tni_kfor(a->run, n, 2, quantize_bytes, &q);
  if (a->n_out > 1 && a->out[1]) *(f32u *)a->out[1]->data = scale;
  if (a->n_out > 2 && a->out[2]) *(u8u *)a->out[2]->data = z;
  return TN_OK;
}
