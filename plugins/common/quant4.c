/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/quant4.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "plugins/common/f16.h"

enum { LANES = 8, MAX_GROUP = 128 };

/* Adding and subtracting 1.5 * 2^23 rounds to an integer, half to even, for |v| < 2^22. */
static inline float nearest_code(float v) {
  const float magic = 12582912.0f;
  v = v < -8.0f ? -8.0f : v;
  v = v > 7.0f ? 7.0f : v;
  return (v + magic) - magic;
}

static float lane_sum(const float *s) { return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7])); }

typedef struct fit {
  float err, wc, cc; /* squared error; sums of w * code and code * code */
} fit;

/* Split into loops that compilers turn into vectors; n is a constant where this is inlined. */
__attribute__((always_inline)) static inline fit try_scale_n(const float *w, uint32_t n, float d) {
  float inv = 1.0f / d, err[LANES] = {0}, wc[LANES] = {0}, cc[LANES] = {0};
  float c[MAX_GROUP], e[MAX_GROUP];
  for (uint32_t i = 0; i < n; i++) c[i] = nearest_code(w[i] * inv);
  for (uint32_t i = 0; i < n; i++) e[i] = w[i] - d * c[i];
  for (uint32_t i = 0; i < n; i += LANES) {
    for (uint32_t l = 0; l < LANES; l++) err[l] += e[i + l] * e[i + l];
    for (uint32_t l = 0; l < LANES; l++) wc[l] += w[i + l] * c[i + l];
    for (uint32_t l = 0; l < LANES; l++) cc[l] += c[i + l] * c[i + l];
  }
  return (fit){lane_sum(err), lane_sum(wc), lane_sum(cc)};
}

static fit try_scale(const float *w, uint32_t n, float d) {
  if (n == 32) return try_scale_n(w, 32, d);
  if (n == 128) return try_scale_n(w, 128, d);
  return try_scale_n(w, n, d);
}

static int usable(float d, float absmax) {
  float m = fabsf(d);
  return m > 0 && m <= 65504.0f && absmax <= 9.0f * m && absmax >= 7.0f * m;
}

/* The weight of largest magnitude, the first of equals; 0 for all zeros. -1 for NaN or infinity. */
static int signed_extreme(const float *w, uint32_t n, float *extreme) {
  float best = 0, at = 0;
  for (uint32_t i = 0; i < n; i++) {
    float m = fabsf(w[i]);
    if (!(m <= FLT_MAX)) return -1;
    if (m > best) {
      best = m;
      at = w[i];
    }
  }
  *extreme = at;
  return 0;
}

static float search(const float *w, uint32_t n, float extreme, float first) {
  static const float ratio[] = {8.0f, 7.0f, 7.25f, 7.5f, 7.75f, 8.25f, 8.5f, 8.75f, 9.0f};
  float best_d = first, best = FLT_MAX, absmax = fabsf(extreme);
  for (uint32_t i = 0; i < sizeof ratio / sizeof *ratio; i++) {
    float d = tni_cm_f16_to_f32(tni_cm_f32_to_f16(-extreme / ratio[i]));
    for (uint32_t step = 0; step < 2 && usable(d, absmax); step++) {
      fit f = try_scale(w, n, d);
      if (f.err < best) {
        best = f.err;
        best_d = d;
      }
      if (!(f.cc > 0)) break;
      float refit = tni_cm_f16_to_f32(tni_cm_f32_to_f16(f.wc / f.cc));
      if (refit == d) break;
      d = refit;
    }
  }
  return best_d;
}

int tni_cm_quant4(const float *w, uint32_t n, uint8_t *codes, uint16_t *scale) {
  float extreme;
  if (signed_extreme(w, n, &extreme)) return -1;
  float first = tni_cm_f16_to_f32(tni_cm_f32_to_f16(-extreme / 8.0f));
  if (!(fabsf(first) <= 65504.0f)) return -1;
  if (first == 0) { /* all zeros, or too small for any scale */
    memset(codes, 8, n);
    *scale = 0;
    return 0;
  }
  float d = search(w, n, extreme, first), inv = 1.0f / d;
  for (uint32_t i = 0; i < n; i++) codes[i] = (uint8_t)(int32_t)(nearest_code(w[i] * inv) + 8.0f);
  *scale = tni_cm_f32_to_f16(d);
  return 0;
}
