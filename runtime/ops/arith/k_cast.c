/* SPDX-License-Identifier: Apache-2.0
 *
 * Cast, CastLike and BitCast.
 *
 * Casts follow C with everything that C leaves undefined decided: a float outside the integer's range is clamped, NaN
 * becomes 0, integers wrap, bool is x != 0 and NaN is true. Integers of 2 and 4 bits keep the low bits of floats too.
 * float64 reaches halves through float32. Floats of at most 8 bits: narrow.h.
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

typedef struct cast {
  const tni_tensor *x;
  tni_tensor *y;
  tni_narrowing to;
} cast;

static bool is_half_or_f32(uint32_t d) { return d == TN_DT_F32 || tni_is_half(d); }
static bool is_real(uint32_t d) { return is_half_or_f32(d) || d == TN_DT_F64 || tni_is_small_float(d); }

/* Elements [at, at + n) of a float tensor of any width. */
static void load_real(const tni_tensor *x, int64_t at, int64_t n, double *d) {
  float f[TNI_CHUNK];
  if (x->dtype == TN_DT_F64) {
    memcpy(d, (const f64u *)x->data + at, (size_t)n * sizeof *d);
    return;
  }
  if (tni_is_small_float(x->dtype))
    tni_tensor_to_f32(x, at, n, f);
  else
    tni_load_f32(x->dtype, x->data, at, n, f);
  for (int64_t i = 0; i < n; i++) d[i] = (double)f[i];
}

static void load_int(const tni_tensor *x, int64_t at, int64_t n, int64_t *v) {
  if (tni_is_small_int(x->dtype))
    tni_tensor_to_i64(x, at, n, v);
  else
    for (int64_t i = 0; i < n; i++) v[i] = tni_get_i64(x, at + i);
}

/* HI rounded up to a float is one past the range for 32 and 64 bits, and exact below: hence the two comparisons. */
#define STORE_REAL(DT, U, T, LO, HI)                                                                       \
  case TN_DT_##DT: {                                                                                       \
    U *y = (U *)dst + at;                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                        \
      y[i] = x[i] != x[i] ? 0 : x[i] >= (double)(HI) ? (T)(HI) : x[i] <= (double)(LO) ? (T)(LO) : (T)x[i]; \
    return;                                                                                                \
  }
static void store_real(const tni_narrowing *to, const double *x, void *dst, int64_t at, int64_t n) {
  float f[TNI_CHUNK];
  uint8_t codes[TNI_CHUNK];
  switch (to->dtype) {
    TNI_INT_TYPES(STORE_REAL)
    case TN_DT_BOOL:
      for (int64_t i = 0; i < n; i++) ((u8u *)dst)[at + i] = x[i] != 0;
      return;
    case TN_DT_F64:
      memcpy((f64u *)dst + at, x, (size_t)n * sizeof *x);
      return;
    default:
      break;
  }
  if (is_half_or_f32(to->dtype)) {
    for (int64_t i = 0; i < n; i++) f[i] = (float)x[i];
    tni_store_f32(to->dtype, dst, at, n, f);
    return;
  }
  const bool integer = tni_is_small_int(to->dtype);
  for (int64_t i = 0; i < n; i++) codes[i] = integer ? (uint8_t)tni_clamp_i64(x[i]) : tni_narrow(to, x[i]);
  tni_store_codes(to->dtype, dst, at, n, codes);
}
#undef STORE_REAL

/* A chunk of integers goes through int64, which keeps every bit of every type; big: its bits are unsigned. */
static void store_int(const tni_narrowing *to, bool big, const int64_t *x, void *dst, int64_t at, int64_t n) {
  float f[TNI_CHUNK];
  uint8_t codes[TNI_CHUNK];
  switch (to->dtype) {
#define X(DT, U, T, LO, HI)                                       \
  case TN_DT_##DT:                                                \
    for (int64_t i = 0; i < n; i++) ((U *)dst)[at + i] = (T)x[i]; \
    return;
    TNI_INT_TYPES(X)
#undef X
    case TN_DT_BOOL:
      for (int64_t i = 0; i < n; i++) ((u8u *)dst)[at + i] = x[i] != 0;
      return;
    case TN_DT_F64:
      for (int64_t i = 0; i < n; i++) ((f64u *)dst)[at + i] = big ? (double)(uint64_t)x[i] : (double)x[i];
      return;
    default:
      break;
  }
  if (is_half_or_f32(to->dtype)) {
    for (int64_t i = 0; i < n; i++) f[i] = big ? (float)(uint64_t)x[i] : (float)x[i];
    tni_store_f32(to->dtype, dst, at, n, f);
    return;
  }
  const bool integer = tni_is_small_int(to->dtype);
  for (int64_t i = 0; i < n; i++)
    codes[i] = integer ? (uint8_t)x[i] : tni_narrow(to, big ? (double)(uint64_t)x[i] : (double)x[i]);
  tni_store_codes(to->dtype, dst, at, n, codes);
}

/* Units of TNI_CHUNK elements: none shares a byte with another. */
static void cast_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const cast *c = arg;
  const uint32_t from = c->x->dtype, to = c->y->dtype;
  const int64_t total = tni_knumel(c->x);
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    const int64_t at = u * TNI_CHUNK, n = total - at < TNI_CHUNK ? total - at : TNI_CHUNK;
    if (is_half_or_f32(from) && is_half_or_f32(to)) {
      float f[TNI_CHUNK];
      tni_load_f32(from, c->x->data, at, n, f);
      tni_store_f32(to, c->y->data, at, n, f);
    } else if (is_real(from)) {
      double d[TNI_CHUNK];
      load_real(c->x, at, n, d);
      store_real(&c->to, d, c->y->data, at, n);
    } else {
      int64_t v[TNI_CHUNK];
      load_int(c->x, at, n, v);
      store_int(&c->to, from == TN_DT_U64, v, c->y->data, at, n);
    }
  }
}

static bool is_castable(uint32_t d) {
  return tni_is_small_int(d) || tni_is_small_float(d) || (tni_elem_size(d) && d != TN_DT_C64 && d != TN_DT_C128);
}

/* Both operators; the output's dtype says where to. */
tn_status tni_k_cast(const tni_kargs *a) {
  const uint32_t round = tni_at_word(a->node, TNI_A_ROUND_MODE);
  cast c = {a->in[0], a->out[0], {a->out[0]->dtype, tni_at_i(a->node, TNI_A_SATURATE, 1) != 0, TNI_ROUND_UP}};
  if (!is_castable(c.x->dtype)) return tni_kdtype(a, c.x->dtype);
  if (!is_castable(c.y->dtype)) return tni_kdtype(a, c.y->dtype);
  if (round == TN_WORD_CAST_ROUND_MODE_DOWN)
    c.to.round = TNI_ROUND_DOWN;
  else if (round == TN_WORD_CAST_ROUND_MODE_NEAREST)
    c.to.round = TNI_ROUND_NEAREST;
  else if (!round)
    return tni_kfail(a, TN_E_INVALID, "round_mode '%s' is none of up, down, nearest",
                     tni_at_s(a->node, TNI_A_ROUND_MODE, ""));
  if (c.x->dtype == c.y->dtype)
    tni_kcopy(a->run, c.y->data, c.x->data, c.y->bytes);
  else
    tni_kfor(a->run, (tni_knumel(c.x) + TNI_CHUNK - 1) / TNI_CHUNK, 4 * TNI_CHUNK, cast_body, &c);
  return TN_OK;
}
