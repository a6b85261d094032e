/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/lut_fit.h"

#include "plugins/common/formats/dot_fit.h"

static const tni_fit_grid ternary_grid = {
    1, 2, 0, 0.5f, 0.952f, 2.5f, {1.3f, 1.5f, 1.7f, 1.9f, 2.05f, 2.2f, 2.35f, 2.5f}};
static const tni_fit_grid two_bits = {
    2, 3, 0.5f, 0.5f, 1.43f, 4.285f, {1.7f, 2.1f, 2.4f, 2.7f, 3.0f, 3.4f, 3.8f, 4.28f}};
static const tni_fit_grid three_bits = {
    4, 7, 0.5f, 0.5f, 3.334f, 6.363f, {3.5f, 4.0f, 4.4f, 4.8f, 5.2f, 5.6f, 6.0f, 6.36f}};
static const tni_fit_grid four_bits = {
    8, 15, 0.5f, 0.5f, 7.143f, 10.0f, {7.3f, 7.65f, 8.0f, 8.35f, 8.7f, 9.1f, 9.5f, 9.9f}};

static const tni_fit_grid *grid_of(uint32_t levels) {
  return levels == 3 ? &ternary_grid : levels == 4 ? &two_bits : levels == 8 ? &three_bits : &four_bits;
}

float tni_lut_err(uint32_t levels) { return levels == 2 ? 1.0f : tni_fit_err(grid_of(levels)); }

int tni_lut_fit(const tni_fit *f, const float *w, uint32_t n, uint32_t levels, uint8_t *codes, uint16_t *scale) {
  if (levels > 2) return tni_fit_group(f, grid_of(levels), w, n, codes, scale);
  if (tni_dot_fit_signs(f, w, n, codes, scale)) return -1;
  for (uint32_t i = 0; i < n; i++) codes[i] /= 2;
  return 0;
}
