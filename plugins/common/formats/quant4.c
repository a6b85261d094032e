/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/quant4.h"

static const tni_fit_grid four_bits = {8, 15, 0, 1, 7.0f, 9.0f, {7.1f, 7.4f, 7.7f, 8.0f, 8.2f, 8.4f, 8.7f, 8.95f}};

int tni_cm_quant4(const tni_fit *f, const float *w, uint32_t n, uint8_t *codes, uint16_t *scale) {
  return tni_fit_group(f, &four_bits, w, n, codes, scale);
}
