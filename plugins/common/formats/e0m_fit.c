/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/e0m_fit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "plugins/common/formats/e0m.h"
#include "plugins/common/formats/f16.h"

enum { GROUP = TNI_E0M_GROUP, LANES = 8, STARTS = 7, C_ZERO = 0x3e00 /* half 1.5 */ };
#define SMALLEST 0x1p-14f /* normal half */
#define LARGEST 65504.0f
#define C_MOST 1.9990234375f /* below 2, or h - c would not be exact */

typedef float v4 __attribute__((vector_size(16)));

/* One group. Elements from n on repeat the first and count nothing. */
typedef struct e0m_search {
  float w[GROUP], weight[GROUP];
  float codes, top; /* 2^m, 2^m - 1 */
  float limit;      /* no element may be off by more */
  bool zero_exact;
  float step, zero, err; /* the best: w = step * (code - zero) */
} e0m_search;

/* In eight partial sums, element i in sum i % 8. */
static float sum_of(const float *v) {
  v4 a = {0}, b = {0}, x, y;
  for (uint32_t i = 0; i < GROUP; i += LANES) {
    memcpy(&x, v + i, sizeof x);
    memcpy(&y, v + i + 4, sizeof y);
    a += x;
    b += y;
  }
  a += b;
  return (a[0] + a[2]) + (a[1] + a[3]);
}

/* Codes of all elements at a step and zero point. */
static void codes_of(const e0m_search *s, float step, float zero, float *restrict code) {
  const float inverse = 1.0f / step, start = zero + 0.5f, top = s->top + 0.5f;
  for (uint32_t i = 0; i < GROUP; i++) {
    float q = s->w[i] * inverse + start;
    q = q > 0 ? q : 0;
    q = q < top ? q : top;
    code[i] = (float)(int32_t)q;
  }
}

static float stored_half(float v) { return tni_cm_f16_to_f32(tni_cm_f32_to_f16(v)); }

/* A step and a zero point as s and c hold them. False where s is no normal half. */
static bool snap(const e0m_search *s, float *step, float *zero) {
  const float scale = stored_half(*step * s->codes);
  if (!(scale >= SMALLEST && scale <= LARGEST)) return false;
  const float z = s->zero_exact ? floorf(*zero + 0.5f) : *zero, most = s->zero_exact ? s->top : (C_MOST - 1) * s->codes;
  const float c = 1.0f + (z > 0 ? z < most ? z : most : 0) / s->codes;
  *step = scale / s->codes;
  *zero = (stored_half(c) - 1.0f) * s->codes;
  return true;
}

/* Tries one: its squared error, and whether every element is within the limit. */
static void try_fit(e0m_search *s, float step, float zero) {
  float code[GROUP], square[GROUP];
  if (!snap(s, &step, &zero)) return;
  const float limit = s->limit;
  uint32_t over = 0;
  codes_of(s, step, zero, code);
  for (uint32_t i = 0; i < GROUP; i++) {
    const float off = s->w[i] - (code[i] - zero) * step;
    square[i] = s->weight[i] * (off * off);
    over |= fabsf(off) > limit ? 1u : 0;
  }
  const float err = sum_of(square);
  if (!(err < s->err) || over) return;
  s->err = err;
  s->step = step;
  s->zero = zero;
}

/* Least squares on the codes of the best: the step and, where it is free, the zero point. */
static void refit(e0m_search *s) {
  float q[GROUP], by_q[GROUP], by_qq[GROUP], by_w[GROUP], by_wq[GROUP];
  codes_of(s, s->step, s->zero, q);
  for (uint32_t i = 0; i < GROUP; i++) {
    const float l = q[i] - s->zero; /* centred, so that sums stay small */
    by_q[i] = s->weight[i] * l;
    by_qq[i] = by_q[i] * l;
    by_w[i] = s->weight[i] * s->w[i];
    by_wq[i] = by_w[i] * l;
  }
  const float Q1 = sum_of(by_q), Q2 = sum_of(by_qq), W1 = sum_of(by_w), WQ = sum_of(by_wq), M = sum_of(s->weight);
  float step = Q2 > 0 ? WQ / Q2 : 0, zero = s->zero;
  const float spread = M * Q2 - Q1 * Q1;
  if (!s->zero_exact && spread > 0) {
    const float free_step = (M * WQ - Q1 * W1) / spread;
    if (free_step > 0) {
      step = free_step;
      zero = s->zero + (free_step * Q1 - W1) / (M * free_step);
    }
  }
  if (step > 0) try_fit(s, step, zero);
}

/* Steps from clipped ranges to what covers lo .. hi; with a whole zero point for the two next to the free one. */
static void search(e0m_search *s, float lo, float hi) {
  const float least = s->top > 100 ? 0.9f : s->top > 10 ? 0.62f : s->top > 5 ? 0.44f : 0.3f;
  const float free_zero = -lo / (hi - lo) * s->top;
  for (int side = 0; side < (s->zero_exact ? 2 : 1); side++) {
    const float zero = s->zero_exact ? floorf(free_zero) + (float)side : free_zero;
    const float below = zero > 0 ? -lo / zero : 0, above = zero < s->top ? hi / (s->top - zero) : 0;
    const float cover = below > above ? below : above;
    for (int i = 0; i < STARTS; i++) {
      const float f = least + (1.001f - least) / (float)(STARTS - 1) * (float)i;
      if (zero <= s->top) try_fit(s, cover * f, zero);
    }
  }
  for (float before = FLT_MAX; s->err < before;) {
    before = s->err;
    refit(s);
    if (s->zero_exact) continue;
    const float step = s->step, z = s->zero;
    try_fit(s, step, z + 0.25f);
    try_fit(s, step, z - 0.25f);
    try_fit(s, step * 0.98f, z);
    try_fit(s, step * 1.02f, z);
  }
}

static void write_fit(const e0m_search *s, uint32_t n, uint8_t *codes, uint16_t sc[2]) {
  float code[GROUP];
  codes_of(s, s->step, s->zero, code);
  for (uint32_t i = 0; i < n; i++) codes[i] = (uint8_t)code[i];
  sc[0] = tni_cm_f32_to_f16(s->step * s->codes);
  sc[1] = tni_cm_f32_to_f16(1.0f + s->zero / s->codes);
}

int tni_e0m_fit(uint32_t bits, bool zero_exact, const float *w, const float *weight, uint32_t n, uint8_t *codes,
                uint16_t sc[2]) {
  const float all = (float)(1u << bits);
  e0m_search s = {.codes = all, .top = all - 1, .zero_exact = zero_exact, .err = FLT_MAX};
  float lo = 0, hi = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!(fabsf(w[i]) <= FLT_MAX)) return -1;
    lo = w[i] < lo ? w[i] : lo;
    hi = w[i] > hi ? w[i] : hi;
  }
  const float range = hi - lo;
  if (!(range <= LARGEST)) return -1;
  memset(codes, 1 << (bits - 1), n);
  sc[0] = 0;
  sc[1] = C_ZERO;
  if (range < SMALLEST) return 0;
  for (uint32_t i = 0; i < GROUP; i++) {
    s.w[i] = w[i < n ? i : 0];
    s.weight[i] = i >= n ? 0 : weight ? weight[i] : 1.0f;
  }
  s.limit = TNI_E0M_ERR(bits) * (-lo > hi ? -lo : hi);
  search(&s, lo, hi);
  if (!(s.err < FLT_MAX)) return -1;
  write_fit(&s, n, codes, sc);
  return 0;
}
