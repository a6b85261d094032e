/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of attention, compiled once per instruction set as hot.c. Products over few rows are hot_neon.c's on
 * aarch64.
 */
#include "runtime/ops/hot/hot_lanes.h"

#ifndef TNI_HOT_NEON

/* --- scores: lanes are rows, by even and odd elements --- */

/* Two elements of a key, four times. */
static inline v8 load_pairs(const f32u *p) {
  const double d = *(const f64u *)(const void *)p;
  return (v8)(v4d){d, d, d, d};
}
static inline v8 load_last(const f32u *p) {
  const float f = *p;
  return (v8){f, 0, f, 0, f, 0, f, 0};
}

/* Keys at once: as many as there are registers for. */
enum { KEYS_8 = 6, KEYS_4 = 8 };

#define PAIR_8(k, KEY)                                           \
  {                                                              \
    const v8 a0 = load8(at + (k)*8), a1 = load8(at + (k)*8 + 8); \
    for (int i = 0; i < KEYS_8; i++) {                           \
      const v8 x = KEY(r[i] + (k));                              \
      acc[i][0] = fma8(a0, x, acc[i][0]);                        \
      acc[i][1] = fma8(a1, x, acc[i][1]);                        \
    }                                                            \
  }
#define PAIR_4(k, KEY)                                                           \
  {                                                                              \
    const v8 a0 = load8(at + (k)*4);                                             \
    for (int i = 0; i < KEYS_4; i++) acc[i] = fma8(a0, KEY(r[i] + (k)), acc[i]); \
  }

/* Keys past the last repeat it. Eight elements of six keys are three lines of memory. */
static void rows_8(int64_t n, int64_t kc, const float *at, const f32u *restrict b, int64_t ldb, float *c,
                   const char *next) {
  for (int64_t j = 0; j < n; j += KEYS_8) {
    const f32u *r[KEYS_8];
    v8 acc[KEYS_8][2] = {{{0}}};
    for (int64_t i = 0; i < KEYS_8; i++) r[i] = b + (j + i < n ? j + i : n - 1) * ldb;
    int64_t k = 0, ask = j * kc / 16;
#pragma GCC unroll 1
    for (; k + 8 <= kc; k += 8, ask += 3) {
      PAIR_8(k, load_pairs)
      fetch(next, ask);
      PAIR_8(k + 2, load_pairs)
      fetch(next, ask + 1);
      PAIR_8(k + 4, load_pairs)
      fetch(next, ask + 2);
      PAIR_8(k + 6, load_pairs)
    }
#pragma GCC unroll 1
    for (; k + 2 <= kc; k += 2) PAIR_8(k, load_pairs)
    if (k < kc) PAIR_8(k, load_last)
    for (int i = 0; i < KEYS_8; i++)
      store8(c + (j + i) * 8, __builtin_shufflevector(acc[i][0], acc[i][1], 0, 2, 8, 10, 4, 6, 12, 14) +
                                  __builtin_shufflevector(acc[i][0], acc[i][1], 1, 3, 9, 11, 5, 7, 13, 15));
  }
}

/* The same; two elements of eight keys are a line. */
static void rows_4(int64_t n, int64_t kc, const float *at, const f32u *restrict b, int64_t ldb, float *c,
                   const char *next) {
  const v8 zero = {0};
  for (int64_t j = 0; j < n; j += KEYS_4) {
    const f32u *r[KEYS_4];
    v8 acc[KEYS_4] = {{0}};
    for (int64_t i = 0; i < KEYS_4; i++) r[i] = b + (j + i < n ? j + i : n - 1) * ldb;
    int64_t k = 0, ask = j * kc / 16;
#pragma GCC unroll 1
    for (; k + 2 <= kc; k += 2, ask++) {
      fetch(next, ask);
      PAIR_4(k, load_pairs)
    }
    if (k < kc) PAIR_4(k, load_last)
    for (int i = 0; i < KEYS_4; i++) {
      const v8 s = __builtin_shufflevector(acc[i], zero, 0, 2, 4, 6, 8, 8, 8, 8) +
                   __builtin_shufflevector(acc[i], zero, 1, 3, 5, 7, 8, 8, 8, 8);
      store8(c + (j + i) * 8, s);
    }
  }
}

void TNI_HOT_OWN(dots8)(int rows, int64_t n, int64_t kc, const float *at, const void *b, int64_t ldb, float *c,
                        const void *next) {
  if (rows <= 4)
    rows_4(n, kc, at, b, ldb, c, next);
  else
    rows_8(n, kc, at, b, ldb, c, next);
}

/* --- values --- */

#define VALUE(k)                                                                                 \
  {                                                                                              \
    const v8 b0 = load8((const float *)b + (k)*ldb), b1 = load8((const float *)b + (k)*ldb + 8); \
    for (int i = 0; i < 4; i++) {                                                                \
      const v8 x = all8(p[(k)*8 + i]);                                                           \
      acc[i][0] = fma8(b0, x, acc[i][0]);                                                        \
      acc[i][1] = fma8(b1, x, acc[i][1]);                                                        \
    }                                                                                            \
  }

/* Four rows at a time: for more, b is read twice, from the nearest cache. */
void TNI_HOT_OWN(values8)(int rows, int64_t n, const float *p, const void *bv, int64_t ldb, const float *decay,
                          float *c, int64_t ldc, const void *nextv) {
  const f32u *restrict b = bv;
  const char *next = nextv;
  const int64_t lines = rows <= 4 ? 2 : 1; /* per two keys */
  for (int h = 0; h < rows; h += 4, p += 4) {
    v8 acc[4][2] = {{{0}}};
    int64_t k = 0, ask = h / 4 * n / 2;
#pragma GCC unroll 1
    for (; k + 2 <= n; k += 2, ask += lines) {
      fetch(next, ask);
      VALUE(k)
      if (lines == 2) fetch(next, ask + 1);
      VALUE(k + 1)
    }
    if (k < n) VALUE(k)
    for (int i = 0; i < 4; i++) {
      float *o = c + (h + i) * ldc;
      store8(o, load8(o) * decay[h + i] + acc[i][0]);
      store8(o + 8, load8(o + 8) * decay[h + i] + acc[i][1]);
    }
  }
}

#endif

/* --- probabilities --- */

bool TNI_HOT_OWN(softmax8)(int64_t n, float *s, float *max, float *sum, float *decay) {
  const v8 old = load8(max), zero = {0};
  v8u *restrict v = (v8u *)(void *)s;
  vw most[WIDE_ABREAST];
  v8 top[ABREAST], part[TNI_LANES];
  v8u d[ABREAST] = {{0}};
  for (int u = 0; u < WIDE_ABREAST; u++) most[u] = allw(-INFINITY);
  for (int64_t i = 0; i < n; i += ABREAST) {
    const vwu *x = (const vwu *)(const void *)(v + i);
    for (int u = 0; u < WIDE_ABREAST; u++) most[u] = maxw(x[u], most[u]);
  }
  memcpy(top, most, sizeof top);
  top[0] = max8(max8(top[0], top[1]), max8(top[2], top[3]));
  const v8 now = pick8(above8(top[0], old), top[0], old), finite = now - now;
  for (int r = 0; r < 8; r++)
    if (finite[r] != 0.f) return false;
  d[0] = pick8(old == now, zero, old - now);
  decay8x4(d, zero);
  if (n == ABREAST * TNI_LANES) {
#pragma GCC unroll 1
    for (int j = 0; j < TNI_LANES; j++) {
      v8u e[ABREAST];
      EACH(e[u] = v[j + u * TNI_LANES])
      decay8x4(e, now);
      EACH(v[j + u * TNI_LANES] = e[u])
      part[j] = e[0] + e[1] + e[2] + e[3];
    }
  } else {
    for (int64_t i = 0; i < n; i += ABREAST) decay8x4(v + i, now);
    for (int j = 0; j < TNI_LANES; j++) part[j] = v[j];
    for (int64_t i = TNI_LANES; i < n; i += TNI_LANES)
      for (int j = 0; j < TNI_LANES; j++) part[j] = part[j] + v[i + j];
  }
  for (int w = TNI_LANES / 2; w > 0; w /= 2)
    for (int i = 0; i < w; i++) part[i] = part[i] + part[i + w];
  store8(max, now);
  store8(decay, d[0]);
  store8(sum, load8(sum) * d[0] + part[0]);
  return true;
}
