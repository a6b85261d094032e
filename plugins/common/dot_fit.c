/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/dot_fit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "plugins/common/f16.h"

enum { LANES = 8, GROUP = 128, STARTS = 8 };

/* Largest magnitude over scale, signed: the side on which the largest weight lies. `most`: what refits may reach. */
typedef struct search {
  float start[STARTS], least, most;
} search;
static const search two_bits = {{4.0f, 3.3f, 2.7f, 2.2f, -3.6f, -3.0f, -2.4f, -1.9f}, 1.25f, 5.0f};
static const search three_bits = {{5.2f, 4.8f, 4.4f, 4.0f, 3.6f, -4.4f, -4.0f, -3.6f}, 2.5f, 6.0f};

static const search *search_of(uint32_t zero) { return zero == 2 ? &two_bits : &three_bits; }

/* Clipped on the side with zero - 1 levels: |w| - (zero - 1) * |scale|. */
float tni_dot_err(uint32_t zero) { return 1.001f - (float)(zero - 1) / search_of(zero)->most; }

/* Adding and subtracting 1.5 * 2^23 rounds to an integer, half to even, for |v| < 2^22. */
static inline float nearest(float v, float lo, float hi) {
  const float magic = 12582912.0f;
  v = v < lo ? lo : v;
  v = v > hi ? hi : v;
  return (v + magic) - magic;
}

static float lane_sum(const float *s) { return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7])); }

/* What the codes of scale d take off the squared error once their scale is refitted, and that scale. */
typedef struct fit {
  float gain, scale;
} fit;

/* Loops that compilers turn into vectors. */
static fit try_scale(const float *w, float lo, float hi, float d) {
  float inv = 1.0f / d, wc[LANES] = {0}, cc[LANES] = {0};
  for (uint32_t i = 0; i < GROUP; i += LANES)
    for (uint32_t l = 0; l < LANES; l++) {
      float c = nearest(w[i + l] * inv, lo, hi);
      wc[l] += w[i + l] * c;
      cc[l] += c * c;
    }
  float a = lane_sum(wc), b = lane_sum(cc);
  return b > 0 ? (fit){a * (a / b), a / b} : (fit){0, d};
}

/* The weight of largest magnitude, the first of equals; 0 for all zeros. -1 for NaN or infinity. */
static int signed_extreme(const float *w, float *extreme) {
  float top[LANES] = {0}, best = 0;
  uint32_t odd = 0;
  for (uint32_t i = 0; i < GROUP; i += LANES)
    for (uint32_t l = 0; l < LANES; l++) {
      float m = fabsf(w[i + l]);
      odd |= (uint32_t) !(m <= FLT_MAX);
      top[l] = m > top[l] ? m : top[l];
    }
  if (odd) return -1;
  for (uint32_t l = 0; l < LANES; l++) best = top[l] > best ? top[l] : best;
  *extreme = 0;
  for (uint32_t i = 0; i < GROUP && best > 0; i++)
    if (fabsf(w[i]) == best) {
      *extreme = w[i];
      break;
    }
  return 0;
}

static float half_of(float v) { return tni_cm_f16_to_f32(tni_cm_f32_to_f16(v)); }

static int usable(float d, float absmax, const search *s) {
  float m = fabsf(d);
  return m > 0 && m <= 65504.0f && absmax <= s->most * m && absmax >= s->least * m;
}

static float best_scale(const float *w, float extreme, float lo, float hi, const search *s, float first) {
  float absmax = fabsf(extreme), best = -1, best_d = first, kept = first;
  for (uint32_t i = 0; i < STARTS + 1; i++) {
    float d = i < STARTS ? -extreme / s->start[i] : kept;
    fit f = try_scale(w, lo, hi, d);
    float refit = half_of(f.scale);
    if (!(f.gain > best) || !usable(refit, absmax, s)) continue;
    best = f.gain;
    best_d = kept = refit;
  }
  return best_d;
}

int tni_dot_fit(const float *w, uint32_t zero, uint32_t top, uint8_t *codes, uint16_t *scale) {
  const float lo = -(float)zero, hi = (float)(top - zero);
  float extreme;
  if (signed_extreme(w, &extreme)) return -1;
  float first = half_of(-extreme / (float)zero);
  if (!(fabsf(first) <= 65504.0f)) return -1;
  if (fabsf(first) < 0x1p-24f) { /* all zeros, or too small for any scale */
    memset(codes, (int)zero, GROUP);
    *scale = 0;
    return 0;
  }
  float d = best_scale(w, extreme, lo, hi, search_of(zero), first), inv = 1.0f / d;
  for (uint32_t i = 0; i < GROUP; i++) codes[i] = (uint8_t)(int32_t)(nearest(w[i] * inv, lo, hi) - lo);
  *scale = tni_cm_f32_to_f16(d);
  return 0;
}
