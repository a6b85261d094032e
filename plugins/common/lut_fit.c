/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/lut_fit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "plugins/common/f16.h"

enum { LANES = 8, MAX_GROUP = 128 };

/* One bit is better off with the mean than with anything near the maximum. */
float tni_lut_least(uint32_t levels) {
  return levels == 2 ? 0 : levels == 3 ? 0.4f : levels == 4 ? 0.35f : levels == 8 ? 0.55f : 0.75f;
}

/* Clipped, or half a step: |w| - zero * scale, or scale with zero * scale up to 1.05 of the maximum. */
float tni_lut_err(uint32_t levels) {
  float clipped = 1.001f - tni_lut_least(levels), half = 1.051f / (float)(levels - 1);
  return levels == 2 ? 1.0f : clipped > half ? clipped : half;
}

static float lane_sum(const float *s) { return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7])); }

/* Code nearest to v steps of 2 scale above the lowest level; adding and subtracting 1.5 * 2^23 rounds half to even. */
static inline float nearest_code(float v, float top) {
  const float magic = 12582912.0f;
  v = (v + magic) - magic;
  v = v > 0.0f ? v : 0.0f;
  return v < top ? v : top;
}

typedef struct fit {
  float err, wl, ll; /* squared error; sums of w * level and level * level */
} fit;

/* Loops that compilers turn into vectors. */
static fit try_scale(const float *w, uint32_t n, float top, float s) {
  float inv = 1.0f / (2.0f * s), err[LANES] = {0}, wl[LANES] = {0}, ll[LANES] = {0};
  float level[MAX_GROUP], half = 0.5f * top;
  for (uint32_t i = 0; i < n; i++) level[i] = 2.0f * nearest_code(w[i] * inv + half, top) - top;
  for (uint32_t i = 0; i < n / LANES * LANES; i += LANES)
    for (uint32_t l = 0; l < LANES; l++) {
      float e = w[i + l] - s * level[i + l];
      err[l] += e * e;
      wl[l] += w[i + l] * level[i + l];
      ll[l] += level[i + l] * level[i + l];
    }
  for (uint32_t i = n / LANES * LANES; i < n; i++) {
    float e = w[i] - s * level[i];
    err[i % LANES] += e * e;
    wl[i % LANES] += w[i] * level[i];
    ll[i % LANES] += level[i] * level[i];
  }
  return (fit){lane_sum(err), lane_sum(wl), lane_sum(ll)};
}

static int usable(float s, float absmax, float top, float least) {
  return s > 0 && s <= 65504.0f && top * s >= least * absmax && top * s <= 1.05f * absmax;
}

static float search(const float *w, uint32_t n, float absmax, float top, float least, float first) {
  static const float factor[] = {1.0f,  0.97f, 0.94f, 0.91f, 0.88f, 0.85f, 0.8f, 0.75f, 0.7f,
                                 0.65f, 0.6f,  0.55f, 0.5f,  0.45f, 0.4f,  0.3f, 0.2f,  0.1f};
  float best = FLT_MAX, best_s = first;
  for (uint32_t i = 0; i < sizeof factor / sizeof *factor; i++) {
    float s = tni_cm_f16_to_f32(tni_cm_f32_to_f16(absmax / top * factor[i]));
    for (uint32_t step = 0; step < 3 && usable(s, absmax, top, least); step++) {
      fit f = try_scale(w, n, top, s);
      if (f.err < best) {
        best = f.err;
        best_s = s;
      }
      if (!(f.ll > 0)) break;
      float refit = tni_cm_f16_to_f32(tni_cm_f32_to_f16(f.wl / f.ll));
      if (refit == s) break;
      s = refit;
    }
  }
  return best_s;
}

int tni_lut_fit(const float *w, uint32_t n, uint32_t levels, uint8_t *codes, uint16_t *scale) {
  float absmax = 0, top = (float)(levels - 1);
  for (uint32_t i = 0; i < n; i++) {
    float m = fabsf(w[i]);
    if (!(m <= FLT_MAX)) return -1;
    absmax = m > absmax ? m : absmax;
  }
  float first = tni_cm_f16_to_f32(tni_cm_f32_to_f16(absmax / top));
  if (!(first <= 65504.0f)) return -1;
  if (first == 0) { /* all zeros, or too small for any scale */
    memset(codes, (int)(levels / 2), n);
    *scale = 0;
    return 0;
  }
  float s = search(w, n, absmax, top, tni_lut_least(levels), first), inv = 1.0f / (2.0f * s);
  for (uint32_t i = 0; i < n; i++) codes[i] = (uint8_t)(int32_t)nearest_code(w[i] * inv + 0.5f * top, top);
  *scale = tni_cm_f32_to_f16(s);
  return 0;
}
