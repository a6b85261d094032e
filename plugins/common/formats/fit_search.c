/* SPDX-License-Identifier: Apache-2.0
 *
 * What all forms of fit.h share: the bounds of a search, which step is kept, and what whole lanes leave over.
 */
#include <float.h>
#include <string.h>

#include "plugins/common/formats/fit_form.h"

enum { LANES = TNI_FIT_LANES };

/* Both roundings, then a choice. Of v >= 0. */
static inline float half_of(float v) {
  const float tiny = (v + 0.5f) - 0.5f; /* multiples of 2^-24 */
  uint32_t b;
  memcpy(&b, &v, sizeof b);
  b = (b + 0xfffu + (b >> 13 & 1u)) & ~0x1fffu;
  float other;
  memcpy(&other, &b, sizeof other);
  return v < 0x1p-14f ? tiny : other;
}

float tni_fit_half(float v) { return v < 0 ? -half_of(-v) : half_of(v); }

/* Clipped on the side with fewer levels, or half a step. */
float tni_fit_err(const tni_fit_grid *g) {
  const float clipped = 1.001f - ((float)(g->top - g->zero) + g->half) / g->most, step = 0.5005f / g->least;
  return clipped > step ? clipped : step;
}

int tni_fit_begin(const tni_fit_grid *g, float extreme, uint32_t n, tni_fit_search *s, uint8_t *codes,
                  uint16_t *scale) {
  const tni_fit_range r = {-(float)g->zero, (float)(g->top - g->zero), g->half};
  const float absmax = fabsf(extreme), widest = 65504.0f / g->unit;
  const float first = half_of(absmax / -(r.lo + r.half) * g->unit);
  if (!(first <= 65504.0f)) return -1;
  if (first == 0) { /* all zeros, or too small for any scale */
    memset(codes, (int)g->zero, n);
    *scale = 0;
    return 0;
  }
  *s = (tni_fit_search){
      r, g->unit, r.hi + 2 * r.half == -r.lo ? absmax : -extreme, absmax / g->most, absmax / g->least, -FLT_MAX, 0};
  s->d = copysignf(first, s->from) / g->unit;
  if (s->most > widest) s->most = widest;
  return 1;
}

void tni_fit_consider(tni_fit_search *s, float wc, float cc, float d) {
  float m = fabsf(cc > 0 ? wc / cc : d);
  m = m < s->least ? s->least : m;
  m = m > s->most ? s->most : m;
  m = half_of(m * s->unit) * (1.0f / s->unit);
  const float step = d < 0 ? -m : m, gain = step * (2 * wc - step * cc);
  if (!(gain > s->gain && step != 0)) return;
  s->gain = gain;
  s->d = step;
}

tni_fit_size tni_fit_size_from(const float *sum, const float *squares, const float *most) {
  tni_fit_size z = {.sum = tni_fit_lane_sum(sum), .squares = tni_fit_lane_sum(squares)};
  for (uint32_t l = 0; l < LANES; l++) z.most = most[l] > z.most ? most[l] : z.most;
  return z;
}

uint32_t tni_fit_add_sizes(const float *w, size_t i, size_t n, float *sum, float *squares, float *most) {
  uint32_t odd = 0;
  for (; i < n; i += LANES)
    for (size_t l = 0; l < LANES && i + l < n; l++) {
      const float m = fabsf(w[i + l]);
      odd |= (uint32_t) !(m <= FLT_MAX);
      sum[l] += m;
      squares[l] += m * m;
      most[l] = m > most[l] ? m : most[l];
    }
  return odd;
}

void tni_fit_add_above(const float *w, size_t i, size_t n, float from, float *sum, float *count) {
  for (; i < n; i += LANES)
    for (size_t l = 0; l < LANES && i + l < n; l++) {
      const float m = fabsf(w[i + l]);
      sum[l] += m >= from ? m : 0;
      count[l] += m >= from ? 1.0f : 0;
    }
}
