/* SPDX-License-Identifier: Apache-2.0
 *
 * What each kind computes, in plain C with sums in double: the oracle of self-tests.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/common/opencl/clkern.h"

static double load_scalar(uint32_t type, const void *p, int64_t i) {
  uint16_t h;
  float f;
  int64_t l;
  int32_t n;
  switch (type) {
    case TN_DT_F32:
      return memcpy(&f, (const char *)p + i * 4, 4), f;
    case TN_DT_F16:
      return memcpy(&h, (const char *)p + i * 2, 2), tni_cm_f16_to_f32(h);
    case TN_DT_I64:
      return memcpy(&l, (const char *)p + i * 8, 8), (double)l;
    case TN_DT_I32:
      return memcpy(&n, (const char *)p + i * 4, 4), n;
    default:
      return ((const uint8_t *)p)[i];
  }
}

static void store_scalar(uint32_t type, double v, void *p, int64_t i) {
  const float f = (float)v;
  const uint16_t h = tni_cm_f32_to_f16(f);
  if (type == TN_DT_F16)
    memcpy((char *)p + i * 2, &h, 2);
  else
    memcpy((char *)p + i * 4, &f, 4);
}

static void gather_reference(const tni_cl_shape *s, void *const *p) {
  const int32_t *n = s->ints; /* rows, D, V, y_pitch */
  for (int64_t r = 0; r < n[0]; r++) {
    int64_t id = (int64_t)load_scalar(s->types[1], p[1], r);
    if (id < 0) id += n[2];
    for (int64_t d = 0; d < n[1]; d++)
      store_scalar(s->types[2], id >= 0 && id < n[2] ? load_scalar(s->types[0], p[0], id * n[1] + d) : 0, p[2],
                   r * n[3] + d);
  }
}

static void norm_reference(const tni_cl_shape *s, void *const *p) {
  const int32_t *n = s->ints; /* rows, D, x_pitch, y_pitch, layer */
  for (int64_t r = 0; r < n[0]; r++) {
    double mean = 0, sum = 0;
    for (int64_t d = 0; n[4] && d < n[1]; d++) mean += load_scalar(s->types[0], p[0], r * n[2] + d);
    mean /= n[1];
    for (int64_t d = 0; d < n[1]; d++) {
      const double v = load_scalar(s->types[0], p[0], r * n[2] + d) - mean;
      sum += v * v;
    }
    const double inv = 1 / sqrt(sum / n[1] + (double)s->floats[0]);
    for (int64_t d = 0; d < n[1]; d++) {
      double v = (load_scalar(s->types[0], p[0], r * n[2] + d) - mean) * inv;
      if (s->types[1]) v *= load_scalar(s->types[1], p[1], d);
      if (s->types[2]) v += load_scalar(s->types[2], p[2], d);
      store_scalar(s->types[3], v, p[3], r * n[3] + d);
    }
  }
}

static void product_reference(const tni_cl_shape *s, void *const *p) {
  const int32_t *n = s->ints; /* M, N, K, Pn, x_pitch, y_pitch */
  const int64_t N = n[1], K = n[2], Pn = n[3];
  const double codes = (double)(1u << s->bits);
  const uint16_t *w = p[1], *sc = p[2];
  for (int64_t m = 0; m < n[0]; m++)
    for (int64_t c = 0; c < N; c++) {
      double y = 0;
      for (int64_t g = 0; g < K; g += 128) {
        const double scale = tni_cm_f16_to_f32(sc[(g / 128 * Pn + c) * 2]);
        const double centre = tni_cm_f16_to_f32(sc[(g / 128 * Pn + c) * 2 + 1]);
        double a = 0;
        for (int64_t k = g; k < K && k < g + 128; k++) {
          const uint16_t *unit = w + k / TNI_E0M_UNIT * s->bits * Pn + c;
          const uint32_t code = tni_e0m_code(s->bits, unit, Pn, (uint32_t)k % TNI_E0M_UNIT);
          a += load_scalar(s->types[0], p[0], m * n[4] + k) * (1 + code / codes - centre);
        }
        y += a * scale;
      }
      store_scalar(s->types[3], y, p[3], m * n[5] + c);
    }
}

static void rotary_reference(const tni_cl_shape *s, void *const *p) {
  const int32_t *n = s->ints; /* B, S, H, D, R, interleaved, xb, xs, xh, yb, ys, yh, cb, cs, pos_rows */
  for (int64_t i = 0; i < (int64_t)n[0] * n[1] * n[2]; i++) {
    const int64_t h = i % n[2], t = i / n[2] % n[1], b = i / n[2] / n[1];
    const int64_t x = b * n[6] + t * n[7] + h * n[8], y = b * n[9] + t * n[10] + h * n[11], R = n[4];
    int64_t row = b * n[12] + t * n[13];
    if (s->types[3]) {
      int64_t at = (int64_t)load_scalar(s->types[3], p[3], b * n[1] + t);
      row = (at < 0 ? 0 : at >= n[14] ? n[14] - 1 : at) * n[13];
    }
    for (int64_t d = 0; d < n[3]; d++) {
      const int64_t pair = n[5] ? d / 2 : d % (R ? R : 1), second = n[5] ? d & 1 : d >= R;
      const int64_t other = n[5] ? d ^ 1 : second ? d - R : d + R;
      double v = load_scalar(s->types[0], p[0], x + d);
      if (d < 2 * R) {
        const double c = load_scalar(s->types[1], p[1], row + pair), t2 = load_scalar(s->types[2], p[2], row + pair);
        const double o = load_scalar(s->types[0], p[0], x + other);
        v = second ? o * t2 + v * c : v * c - o * t2;
      }
      store_scalar(s->types[4], v, p[4], y + d);
    }
  }
}

static void append_reference(const tni_cl_shape *s, void *const *p) {
  const int32_t *n = s->ints; /* B, S, H, D, xb, xs, xh, cb, cs, ch, rows */
  for (int64_t i = 0; i < (int64_t)n[0] * n[1] * n[2]; i++) {
    const int64_t h = i % n[2], t = i / n[2] % n[1], b = i / n[2] / n[1];
    const int64_t at = (int64_t)load_scalar(TN_DT_I64, p[1], b) + t;
    if (at < 0 || at >= n[10]) continue;
    for (int64_t d = 0; d < n[3]; d++)
      store_scalar(s->types[2], load_scalar(s->types[0], p[0], b * n[4] + t * n[5] + h * n[6] + d), p[2],
                   b * n[7] + at * n[8] + h * n[9] + d);
  }
}

/* Score of a key; false where it is masked. */
static int score_reference(const tni_cl_shape *s, void *const *p, const int64_t at[3], int64_t t, double *out) {
  const int32_t *n = s->ints;
  const int64_t b = at[0], q = at[1], h = at[2], kv = h / (n[2] / n[3]);
  double sum = 0;
  for (int64_t d = 0; d < n[4]; d++)
    sum += load_scalar(s->types[0], p[0], b * n[7] + q * n[8] + h * n[9] + d) *
           load_scalar(s->types[1], p[1], b * n[10] + t * n[11] + kv * n[12] + d);
  sum *= (double)s->floats[0];
  if (s->floats[1] > 0) sum = tanh(sum / (double)s->floats[1]) * (double)s->floats[1];
  if (s->types[3]) {
    if (t >= n[19]) return 0;
    const double m = load_scalar(s->types[3], p[3], b * n[16] + h * n[17] + q * n[18] + t);
    if (s->types[3] == TN_DT_BOOL ? m == 0 : m <= -1e30) return 0;
    if (s->types[3] != TN_DT_BOOL) sum += m;
  }
  *out = sum;
  return 1;
}

/* ints: B, S, H, KVH, D, DV, T, qb, qs, qh, kb, ks, kh, vb, vs, vh, mb, mh, ms, mask_len, yb, ys, yh, causal, left,
 * right, past. Two passes: the largest score, then the sums. */
static void attention_reference(const tni_cl_shape *s, void *const *p) {
  const int32_t *n = s->ints;
  for (int64_t i = 0; i < (int64_t)n[0] * n[1] * n[2]; i++) {
    const int64_t h = i % n[2], q = i / n[2] % n[1], b = i / n[2] / n[1], kv = h / (n[2] / n[3]), at[3] = {b, q, h};
    int64_t end = n[6], offset = n[26], lo = 0, hi;
    if (s->types[4]) {
      end = (int64_t)load_scalar(TN_DT_I64, p[4], b);
      end = end < 0 ? 0 : end > n[6] ? n[6] : end;
      offset = end - n[1];
    }
    hi = end;
    if (n[23] && hi > q + offset + 1) hi = q + offset + 1;
    if (n[25] >= 0 && hi > q + offset + n[25] + 1) hi = q + offset + n[25] + 1;
    if (n[24] >= 0 && lo < q + offset - n[24]) lo = q + offset - n[24];
    double top = -1e300, sum = 0, v;
    for (int64_t t = lo; t < hi; t++)
      if (score_reference(s, p, at, t, &v) && v > top) top = v;
    for (int64_t t = lo; t < hi; t++)
      if (score_reference(s, p, at, t, &v)) sum += exp(v - top);
    for (int64_t d = 0; d < n[5]; d++) {
      double y = 0;
      for (int64_t t = lo; t < hi; t++)
        if (score_reference(s, p, at, t, &v))
          y += exp(v - top) / sum * load_scalar(s->types[2], p[2], b * n[13] + t * n[14] + kv * n[15] + d);
      store_scalar(s->types[5], y, p[5], b * n[20] + q * n[21] + h * n[22] + d);
    }
  }
}

static void matmul_reference(const tni_cl_shape *s, void *const *p) {
  const int32_t *n = s->ints; /* M, N, K, n0, n1, ar, ac, a0, a1, br, bc, b0, b1, y_pitch */
  for (int64_t i = 0; i < (int64_t)n[3] * n[4] * n[0]; i++) {
    const int64_t m = i % n[0], i1 = i / n[0] % n[4], i0 = i / n[0] / n[4];
    for (int64_t c = 0; c < n[1]; c++) {
      double sum = 0;
      for (int64_t k = 0; k < n[2]; k++)
        sum += load_scalar(s->types[0], p[0], i0 * n[7] + i1 * n[8] + m * n[5] + k * n[6]) *
               load_scalar(s->types[1], p[1], i0 * n[11] + i1 * n[12] + k * n[9] + c * n[10]);
      store_scalar(s->types[2], sum, p[2], i * n[13] + c);
    }
  }
}

void tni_cl_reference(const tni_cl_shape *s, void *const *p) {
  static void (*const of[TNI_CLK_COUNT])(const tni_cl_shape *, void *const *) = {
      [TNI_CLK_GATHER] = gather_reference,  [TNI_CLK_NORM] = norm_reference,     [TNI_CLK_GEMV] = product_reference,
      [TNI_CLK_GEMM] = product_reference,   [TNI_CLK_ROTARY] = rotary_reference, [TNI_CLK_APPEND] = append_reference,
      [TNI_CLK_ATTN] = attention_reference, [TNI_CLK_MATMUL] = matmul_reference,
  };
  if (s->kind < TNI_CLK_COUNT && of[s->kind]) of[s->kind](s, p);
}
