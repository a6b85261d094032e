/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of elements: exp and what is made of it, erf. Compiled once per instruction set, as hot.c. As many
 * registers at once as there are, or the processor waits for each step.
 */
#include "runtime/ops/hot/hot_lanes.h"

/* DO(v, to) for TURN elements of x in v; what it leaves in `to` goes to y. Zeros stand after the last element. */
#define IN_TURNS(DO)                                          \
  enum { TURN = REGS_W * LANES_W };                           \
  const f32u *x = xv;                                         \
  int64_t i = 0;                                              \
  for (; i + TURN <= n; i += TURN) {                          \
    vwu v[REGS_W], *to = (vwu *)(void *)(y + i);              \
    EACH_WIDE(v[u] = ((const vwu *)(const void *)(x + i))[u]) \
    DO(v, to)                                                 \
  }                                                           \
  if (i < n) {                                                \
    vwu v[REGS_W], to[REGS_W];                                \
    EACH_WIDE(v[u] = allw(0))                                 \
    memcpy(v, x + i, (size_t)(n - i) * sizeof *x);            \
    DO(v, to)                                                 \
    memcpy(y + i, to, (size_t)(n - i) * sizeof *x);           \
  }

/* v = exp(v) within about 1 ulp, no branches: x = n ln2 + r, 2^n in two factors so that results may be subnormal. NaN
 * stays. Over |r| <= ln2 / 2 Taylor to r^7, relative error under 2^-27. */
#define NEXT(c) \
  for (int u = 0; u < REGS_W; u++) p[u] = p[u] * r[u] + c
static inline __attribute__((always_inline)) void exp_wide(vwu *v) {
  vw t[REGS_W], r[REGS_W], p[REGS_W];
  vwn h[REGS_W], l[REGS_W];
  EACH_WIDE(r[u] = notabovew(notbeloww(v[u], allw(-104.f)), allw(89.f)))
  EACH_WIDE(t[u] = r[u] * 1.44269504f + 12582912.f)
  EACH_WIDE(p[u] = t[u] - 12582912.f)
  EACH_WIDE(r[u] = (r[u] - p[u] * 0.693359375f) + p[u] * 2.12194440e-4f)
  EACH_WIDE(l[u] = (vwn)t[u] - tni_f32_bits(12582912.f))
  EACH_WIDE(h[u] = (vwn)((vwi)l[u] >> 1))
  EACH_WIDE(l[u] = l[u] - h[u])
  EACH_WIDE(p[u] = allw(1.f / 5040))
  NEXT(1.f / 720);
  NEXT(1.f / 120);
  NEXT(1.f / 24);
  NEXT(1.f / 6);
  NEXT(0.5f);
  NEXT(1.f);
  NEXT(1.f);
  EACH_WIDE(v[u] = p[u] * (vw)((h[u] + 127u) << 23) * (vw)((l[u] + 127u) << 23))
}

/* p = exp(r) - 1 over r, |r| <= 0.7: Taylor to r^9, relative error under 2^-26. */
static inline __attribute__((always_inline)) void expm1_over(vw *p, const vw *r) {
  EACH_WIDE(p[u] = allw(1.f / 3628800))
  NEXT(1.f / 362880);
  NEXT(1.f / 40320);
  NEXT(1.f / 5040);
  NEXT(1.f / 720);
  NEXT(1.f / 120);
  NEXT(1.f / 24);
  NEXT(1.f / 6);
  NEXT(0.5f);
  NEXT(1.f);
}
#undef NEXT

static inline vw without_sign(vw x) { return (vw)((vwn)x & 0x7fffffffu); }
static inline vw with_sign(vw x, vw of) { return (vw)((vwn)without_sign(x) | ((vwn)of & 0x80000000u)); }

void TNI_HOT_OWN(exp)(float *y, const void *xv, int64_t n) {
#define EXP(v, to) \
  exp_wide(v);     \
  EACH_WIDE(to[u] = v[u])
  IN_TURNS(EXP)
}
void TNI_HOT_OWN(sigmoid)(float *y, const void *xv, int64_t n) {
#define SIGMOID(v, to)                 \
  EACH_WIDE(v[u] = -v[u]) exp_wide(v); \
  EACH_WIDE(to[u] = 1.f / (1.f + v[u]))
  IN_TURNS(SIGMOID)
}
void TNI_HOT_OWN(swish)(float *y, const void *xv, int64_t n, float alpha) {
#define SWISH(v, to)                \
  vwu e[REGS_W];                    \
  EACH_WIDE(e[u] = -(alpha * v[u])) \
  exp_wide(e);                      \
  EACH_WIDE(to[u] = v[u] / (1.f + e[u]))
  IN_TURNS(SWISH)
}
void TNI_HOT_OWN(tanh)(float *y, const void *xv, int64_t n) {
#define TANH(v, to)                                                        \
  vw z[REGS_W], p[REGS_W];                                                 \
  vwu e[REGS_W];                                                           \
  EACH_WIDE(e[u] = z[u] = notabovew(without_sign(v[u]) * 2.f, allw(40.f))) \
  exp_wide(e);                                                             \
  expm1_over(p, z);                                                        \
  EACH_WIDE(p[u] = pickw(z[u] < allw(0.7f), z[u] * p[u], e[u] - 1.f))      \
  EACH_WIDE(to[u] = with_sign(p[u] / (p[u] + 2.f), v[u]))
  IN_TURNS(TANH)
}

/* --- erf --- */

/* Under ERF_NEAR x + x * P(x^2), relative error 2^-25.7; above it 1 - exp(Q(|x|)), 2^-29, and 1 from ERF_ONE on. P and
 * Q have the least weighted error of their degree. */
#define ERF_NEAR 0.93f
#define ERF_ONE 3.93f
#define ERF_P(DO, p, s)    \
  DO(p, s, 0x1.46c248p-8f) \
  DO(p, s, -0x1.b676cep-6f) DO(p, s, 0x1.ce1904p-4f) DO(p, s, -0x1.8126dcp-2f) DO(p, s, 0x1.06eba6p-3f)
#define ERF_Q(DO, q, t)     \
  DO(q, t, -0x1.8ee16ep-9f) \
  DO(q, t, 0x1.6c2a76p-6f)  \
  DO(q, t, -0x1.a9b42ep-4f) DO(q, t, -0x1.463cc0p-1f) DO(q, t, -0x1.20af5ap+0f) DO(q, t, -0x1.9a5c86p-13f)

void TNI_HOT_OWN(erf)(float *y, const void *xv, int64_t n) {
  const vw zero = allw(0);
#define WIDE(to, by, next) to = fmaw(to, by, allw(next));
#define ERF(v, to)                                                    \
  vw a[REGS_W];                                                       \
  vwu q[REGS_W];                                                      \
  for (int u = 0; u < REGS_W; u++) {                                  \
    vw p = allw(0x1.9ae900p-13f);                                     \
    a[u] = without_sign(v[u]);                                        \
    const vw t = notabovew(a[u], allw(ERF_ONE));                      \
    ERF_Q(WIDE, p, t)                                                 \
    q[u] = p;                                                         \
  }                                                                   \
  decay_wide(q, &zero, 1);                                            \
  for (int u = 0; u < REGS_W; u++) {                                  \
    const vw x1 = v[u], s = x1 * x1, far = with_sign(1.f - q[u], x1); \
    vw p = allw(-0x1.382608p-11f);                                    \
    ERF_P(WIDE, p, s)                                                 \
    to[u] = pickw(a[u] < allw(ERF_NEAR), fmaw(p, x1, x1), far);       \
  }
  IN_TURNS(ERF)
}
