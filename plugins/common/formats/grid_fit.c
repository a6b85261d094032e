/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/grid_fit.h"

#include <math.h>

#include "plugins/common/formats/f16.h"

/* As it is stored, not below what it was: levels then reach as far as the weights. */
static float stored_scale(uint32_t scale_bits, float s) {
  if (scale_bits == 32) return s < TNI_GRID_LEAST_SCALE ? 0 : s;
  uint16_t h = tni_cm_f32_to_f16(s);
  if (tni_cm_f16_to_f32(h) < s) h++;
  return tni_cm_f16_to_f32(h);
}

int tni_grid_fit_group(const tni_grid_fit *f, const float *w, uint32_t n, uint8_t *codes, float *scale, float *zero) {
  const float top = (float)((1u << f->bits) - 1), half = (float)(1u << (f->bits - 1));
  float lo = 0, hi = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!isfinite(w[i])) return -1;
    if (w[i] < lo) lo = w[i];
    if (w[i] > hi) hi = w[i];
  }
  const float range = f->zero_bits ? hi - lo : 2 * (-lo > hi ? -lo : hi);
  const float s = stored_scale(f->scale_bits, f->zero_bits ? range / top : range / 2 / (half - 1));
  if (!isfinite(s)) return -1;
  const float z = !f->zero_bits || !(s > 0) ? half : f->zero_bits == 8 ? rintf(-lo / s) : -lo / s;
  for (uint32_t i = 0; i < n; i++) {
    const float c = s > 0 ? rintf(w[i] / s + z) : half;
    codes[i] = (uint8_t)(c < 0 ? 0 : c > top ? top : c);
  }
  *scale = s > 0 ? s : 0;
  *zero = z;
  return 0;
}
