/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise arithmetic with broadcasting: Add Sub Mul Div Pow Mod PRelu SwiGLU, bits, and Min Max Sum Mean of any
 * number.
 * Integers wrap; integer division truncates and by zero gives 0; halves are computed in f32 and rounded once.
 */
#include <math.h>

#include "runtime/ops/arith/chain.h"

typedef struct binary {
  uint32_t op, dtype;
  bool fmod, left; /* left: of BitShift */
  double alpha;    /* of SwiGLU */
} binary;

/* The three ways in which an innermost run meets its operands. */
#define LOOP(T, D, E)                   \
  {                                     \
    T *restrict d = (T *)dst;           \
    const T *a = src[0], *b = src[1];   \
    if (step[0] && step[1])             \
      for (int64_t i = 0; i < n; i++) { \
        const D x = a[i], y = b[i];     \
        d[i] = (E);                     \
      }                                 \
    else if (step[0]) {                 \
      const D y = b[0];                 \
      for (int64_t i = 0; i < n; i++) { \
        const D x = a[i];               \
        d[i] = (E);                     \
      }                                 \
    } else {                            \
      const D x = a[0];                 \
      for (int64_t i = 0; i < n; i++) { \
        const D y = b[i];               \
        d[i] = (E);                     \
      }                                 \
    }                                   \
  }                                     \
  break;

/* Sign of the divisor, as Python's %. */
static double pymod(double x, double y) {
  const double r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static float swiglu_f32(float x, float y, float alpha) { return x / (1 + expf(-(alpha * x))) * y; }
static double swiglu_f64(double x, double y, double alpha) { return x / (1 + exp(-(alpha * x))) * y; }

static void bin_f32(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n) {
  const binary *k = ctx;
  switch (k->op) {
    case TN_OP_ADD:
    case TN_OP_SUM:
    case TN_OP_MEAN:
      LOOP(f32u, float, x + y)
    case TN_OP_SUB:
      LOOP(f32u, float, x - y)
    case TN_OP_MUL:
      LOOP(f32u, float, x *y)
    case TN_OP_DIV:
      LOOP(f32u, float, x / y)
    case TN_OP_PRELU:
      LOOP(f32u, float, x < 0 ? x * y : x)
    case TN_OP_MIN:
      LOOP(f32u, float, x < y || x != x ? x : y)
    case TN_OP_MAX:
      LOOP(f32u, float, x > y || x != x ? x : y)
    case TN_OP_MOD:
      if (k->fmod) {
        LOOP(f32u, float, fmodf(x, y))
      }
      LOOP(f32u, float, (float)pymod(x, y))
    case TN_OP_SWIGLU:
      LOOP(f32u, float, swiglu_f32(x, y, (float)k->alpha))
    default:
      break;
  }
}

static void bin_f64(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n) {
  const binary *k = ctx;
  switch (k->op) {
    case TN_OP_ADD:
    case TN_OP_SUM:
    case TN_OP_MEAN:
      LOOP(f64u, double, x + y)
    case TN_OP_SUB:
      LOOP(f64u, double, x - y)
    case TN_OP_MUL:
      LOOP(f64u, double, x *y)
    case TN_OP_DIV:
      LOOP(f64u, double, x / y)
    case TN_OP_PRELU:
      LOOP(f64u, double, x < 0 ? x * y : x)
    case TN_OP_MIN:
      LOOP(f64u, double, x < y || x != x ? x : y)
    case TN_OP_MAX:
      LOOP(f64u, double, x > y || x != x ? x : y)
    case TN_OP_MOD:
      if (k->fmod) {
        LOOP(f64u, double, fmod(x, y))
      }
      LOOP(f64u, double, pymod(x, y))
    case TN_OP_SWIGLU:
      LOOP(f64u, double, swiglu_f64(x, y, k->alpha))
    default:
      break;
  }
}

static void bin_half(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n) {
  const binary *k = ctx;
  float a[TNI_CHUNK], b[TNI_CHUNK], y[TNI_CHUNK];
  const void *in[2] = {a, b};
  for (int64_t at = 0; at < n; at += TNI_CHUNK) {
    const int64_t m = n - at < TNI_CHUNK ? n - at : TNI_CHUNK;
    tni_load_f32(k->dtype, src[0], at * step[0], step[0] ? m : 1, a);
    tni_load_f32(k->dtype, src[1], at * step[1], step[1] ? m : 1, b);
    bin_f32(ctx, y, in, step, m);
    tni_store_f32(k->dtype, dst, at, m, y);
  }
}

#define INT_FN(DT, U, T, LO, HI)                                                                                \
  static T div_##DT(T x, T y) { return y == 0 ? 0 : LO < 0 && y == (T)-1 ? (T)(0 - (uint64_t)x) : (T)(x / y); } \
  static T rem_##DT(T x, T y) { return y == 0 || (LO < 0 && y == (T)-1) ? 0 : (T)(x % y); }                     \
  static T mod_##DT(T x, T y) {                                                                                 \
    const T r = rem_##DT(x, y);                                                                                 \
    return r != 0 && LO < 0 && ((r ^ y) >> (sizeof(T) * 8 - 1)) ? (T)(r + y) : r;                               \
  }                                                                                                             \
  /* Past the width, or by less than nothing: what the sign alone gives. */                                     \
  static T shift_##DT(T x, T y, bool left) {                                                                    \
    const bool minus = LO < 0 && x < (T)1 && x != 0, none = (LO < 0 && y < (T)1 && y != 0);                     \
    if (none || (uint64_t)y >= sizeof(T) * 8) return (T)(minus && !left ? -1 : 0);                              \
    return left ? (T)((uint64_t)x << y) : minus ? (T) ~((uint64_t) ~(int64_t)x >> y) : (T)((uint64_t)x >> y);   \
  }                                                                                                             \
  static void bin_##DT(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n) {    \
    const binary *k = ctx;                                                                                      \
    switch (k->op) {                                                                                            \
      case TN_OP_ADD:                                                                                           \
      case TN_OP_SUM:                                                                                           \
      case TN_OP_MEAN:                                                                                          \
        LOOP(U, T, (T)((uint64_t)x + (uint64_t)y))                                                              \
      case TN_OP_SUB:                                                                                           \
        LOOP(U, T, (T)((uint64_t)x - (uint64_t)y))                                                              \
      case TN_OP_MUL:                                                                                           \
        LOOP(U, T, (T)((uint64_t)x * (uint64_t)y))                                                              \
      case TN_OP_DIV:                                                                                           \
        LOOP(U, T, div_##DT(x, y))                                                                              \
      case TN_OP_PRELU:                                                                                         \
        LOOP(U, T, LO < 0 && x < (T)1 && x != 0 ? (T)((uint64_t)x * (uint64_t)y) : x)                           \
      case TN_OP_MIN:                                                                                           \
        LOOP(U, T, x < y ? x : y)                                                                               \
      case TN_OP_MAX:                                                                                           \
        LOOP(U, T, x > y ? x : y)                                                                               \
      case TN_OP_MOD:                                                                                           \
        if (k->fmod) {                                                                                          \
          LOOP(U, T, rem_##DT(x, y))                                                                            \
        }                                                                                                       \
        LOOP(U, T, mod_##DT(x, y))                                                                              \
      case TN_OP_BITWISE_AND:                                                                                   \
        LOOP(U, T, (T)(x & y))                                                                                  \
      case TN_OP_BITWISE_OR:                                                                                    \
        LOOP(U, T, (T)(x | y))                                                                                  \
      case TN_OP_BITWISE_XOR:                                                                                   \
        LOOP(U, T, (T)(x ^ y))                                                                                  \
      case TN_OP_BIT_SHIFT:                                                                                     \
        LOOP(U, T, shift_##DT(x, y, k->left))                                                                   \
      default:                                                                                                  \
        break;                                                                                                  \
    }                                                                                                           \
  }
TNI_INT_TYPES(INT_FN)
#undef INT_FN

static tni_bcast_fn binary_fn(uint32_t dtype) {
  switch (dtype) {
    case TN_DT_F32:
      return bin_f32;
    case TN_DT_F64:
      return bin_f64;
    case TN_DT_F16:
    case TN_DT_BF16:
      return bin_half;
#define X(DT, U, T, LO, HI) \
  case TN_DT_##DT:          \
    return bin_##DT;
      TNI_INT_TYPES(X)
#undef X
    default:
      return NULL;
  }
}

void tni_binary_real(uint32_t op, uint32_t dtype, void *dst, const void *const *src, const int64_t *step, int64_t n) {
  const binary k = {.op = op, .dtype = dtype};
  (dtype == TN_DT_F64 ? bin_f64 : bin_f32)(&k, dst, src, step, n);
}

/* --- Pow: the base's type is the result's; the exponent may be of another --- */

typedef struct power {
  uint32_t base, exponent;
} power;

/* Exact for integers of any size; a negative exponent truncates 1/x toward zero. */
static int64_t ipow(int64_t x, int64_t e) {
  uint64_t r = 1, b = (uint64_t)x;
  if (e < 0) return x == 1 ? 1 : x == -1 ? (e % 2 ? -1 : 1) : 0;
  for (; e; e >>= 1, b *= b)
    if (e & 1) r *= b;
  return (int64_t)r;
}

static void pow_fn(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n) {
  const power *k = ctx;
  const bool int_exp = k->exponent != TN_DT_F32 && k->exponent != TN_DT_F64 && !tni_is_half(k->exponent);
  if (k->base == TN_DT_F32 && !step[1]) {
    const tni_tensor t = {.dtype = k->exponent, .data = (void *)(uintptr_t)src[1]};
    const double e = tni_get_f64(&t, 0);
    const f32u *x = src[0];
    f32u *y = dst;
    if (e == 2) {
      for (int64_t i = 0; i < n; i++) y[i] = x[i] * x[i];
      return;
    }
    if (e == 3) {
      for (int64_t i = 0; i < n; i++) y[i] = (float)((double)x[i] * x[i] * x[i]);
      return;
    }
  }
  const tni_tensor tb = {.dtype = k->base, .data = (void *)(uintptr_t)src[0]};
  const tni_tensor te = {.dtype = k->exponent, .data = (void *)(uintptr_t)src[1]};
  for (int64_t i = 0; i < n; i++) {
    const int64_t ib = i * step[0], ie = i * step[1];
    const bool exact = int_exp && k->base != TN_DT_F32 && k->base != TN_DT_F64 && !tni_is_half(k->base);
    const double r = exact ? 0 : pow(tni_get_f64(&tb, ib), tni_get_f64(&te, ie));
    const int64_t w = exact ? ipow(tni_get_i64(&tb, ib), tni_get_i64(&te, ie)) : tni_clamp_i64(r);
    const float f = (float)r;
    switch (k->base) {
      case TN_DT_F32:
        ((f32u *)dst)[i] = f;
        break;
      case TN_DT_F64:
        ((f64u *)dst)[i] = r;
        break;
      case TN_DT_F16:
      case TN_DT_BF16:
        tni_store_f32(k->base, dst, i, 1, &f);
        break;
#define X(DT, U, T, LO, HI) \
  case TN_DT_##DT:          \
    ((U *)dst)[i] = (T)w;   \
    break;
        TNI_INT_TYPES(X)
#undef X
      default:
        break;
    }
  }
}

tn_status tni_k_binary(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *y = a->in[1];
  const uint32_t op = a->node->op;
  const uint32_t direction = op == TN_OP_BIT_SHIFT ? tni_at_word(a->node, TNI_A_DIRECTION) : 0;
  const binary k = {.op = op,
                    .dtype = x->dtype,
                    .fmod = tni_at_i(a->node, TNI_A_FMOD, 0) != 0,
                    .left = direction == TN_WORD_BIT_SHIFT_DIRECTION_LEFT,
                    .alpha = tni_at_f(a->node, TNI_A_ALPHA, 1)};
  const power p = {x->dtype, y->dtype};
  const tni_bcast_fn fn = binary_fn(x->dtype);
  tni_bcast b;
  if (!fn) return tni_kdtype(a, x->dtype);
  if (op == TN_OP_BIT_SHIFT && !direction)
    return tni_kfail(a, TN_E_INVALID, "BitShift: direction is neither LEFT nor RIGHT");
  if (op == TN_OP_POW ? !binary_fn(y->dtype) : x->dtype != y->dtype) return tni_kdtype(a, y->dtype);
  if (!tni_bcast_init(&b, a->out[0], a->in, 2)) return tni_kfail(a, TN_E_INVALID, "inputs do not broadcast");
  const void *src[2] = {x->data, y->data};
  const uint32_t size[2] = {tni_elem_size(x->dtype), tni_elem_size(y->dtype)};
  const bool pw = op == TN_OP_POW;
  tni_bcast_run(a->run, &b, a->out[0]->data, size[0], src, size, pw ? pow_fn : fn, pw ? (const void *)&p : &k);
  return TN_OK;
}

/* --- any number of inputs --- */

typedef struct many {
  const tni_kargs *a;
  binary k;
  tni_bcast_fn fn;
  uint32_t size, work; /* work: dtype of the running value */
} many;

/* n elements (of the work dtype) of input t at out's linear index `at`, broadcast; n stays inside one innermost row. */
static void gather_operand(const many *m, const tni_tensor *t, int64_t at, int64_t n, void *dst) {
  const tni_tensor *out = m->a->out[0];
  int64_t off = 0, stride = 1, last = 0;
  for (uint32_t d = out->rank; d-- > 0;) {
    const int64_t i = at % out->dims[d], pad = (int64_t)out->rank - t->rank;
    at /= out->dims[d];
    if ((int64_t)d < pad) continue;
    const int64_t size = t->dims[d - pad];
    if (d == out->rank - 1) last = size != 1;
    if (size != 1) off += i * stride;
    stride *= size;
  }
  const uint32_t esz = m->size;
  if (m->work != t->dtype) {
    float *f = dst;
    tni_load_f32(t->dtype, t->data, off, last ? n : 1, f);
    for (int64_t i = 1; !last && i < n; i++) f[i] = f[0];
  } else if (last)
    memcpy(dst, (const char *)t->data + off * esz, (size_t)n * esz);
  else
    for (int64_t i = 0; i < n; i++) memcpy((char *)dst + i * esz, (const char *)t->data + off * esz, esz);
}

static void many_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const many *m = arg;
  const tni_tensor *out = m->a->out[0];
  const int64_t row = out->rank ? out->dims[out->rank - 1] : 1;
  double acc[TNI_CHUNK], next[TNI_CHUNK], sum[TNI_CHUNK];
  const int64_t step[2] = {1, 1};
  (void)worker;
  for (int64_t at = begin; at < end;) {
    int64_t n = row - at % row;
    n = n < TNI_CHUNK ? n : TNI_CHUNK;
    n = n < end - at ? n : end - at;
    gather_operand(m, m->a->in[0], at, n, acc);
    for (uint32_t i = 1; i < m->a->n_in; i++) {
      const void *src[2] = {acc, next};
      gather_operand(m, m->a->in[i], at, n, next);
      m->fn(&m->k, sum, src, step, n);
      memcpy(acc, sum, (size_t)n * sizeof(double));
    }
    if (m->k.op == TN_OP_MEAN && m->work == TN_DT_F32)
      for (int64_t i = 0; i < n; i++) ((f32u *)(void *)acc)[i] /= (float)m->a->n_in;
    if (m->k.op == TN_OP_MEAN && m->work == TN_DT_F64)
      for (int64_t i = 0; i < n; i++) acc[i] /= m->a->n_in;
    if (m->work != out->dtype)
      tni_store_f32(out->dtype, out->data, at, n, (float *)(void *)acc);
    else
      memcpy((char *)out->data + at * m->size, acc, (size_t)n * m->size);
    at += n;
  }
}

tn_status tni_k_variadic(const tni_kargs *a) {
  const uint32_t dtype = a->out[0]->dtype, op = a->node->op;
  const bool half = tni_is_half(dtype);
  many m = {.a = a, .size = tni_elem_size(dtype), .work = half ? TN_DT_F32 : dtype, .k = {.op = op}};
  m.fn = binary_fn(m.work);
  m.k.dtype = m.work;
  if (!m.fn || (op == TN_OP_MEAN && m.work != TN_DT_F32 && m.work != TN_DT_F64)) return tni_kdtype(a, dtype);
  for (uint32_t i = 0; i < a->n_in; i++) {
    tni_bcast b;
    if (a->in[i]->dtype != dtype) return tni_kdtype(a, a->in[i]->dtype);
    if (!tni_bcast_init(&b, a->out[0], &a->in[i], 1)) return tni_kfail(a, TN_E_INVALID, "inputs do not broadcast");
  }
  tni_kfor(a->run, tni_knumel(a->out[0]), a->n_in * 2, many_body, &m);
  return TN_OK;
}
