/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "plugins/common/cpu/kernels/kernels.h"

enum { OUTPUTS = TNI_CLT_ROWS, QUAD = 4 };

void tni_clt_bytes_s32_u8_s8_1x32_scalar(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                         size_t rows, const tni_clt_next *next, int32_t *acc) {
  (void)next;
  for (size_t m = 0; m < rows; m++, a += lda, acc += 2 * OUTPUTS) {
    memset(acc, 0, 2 * OUTPUTS * sizeof *acc);
    for (size_t q = 0; q < quads; q++)
      for (size_t n = 0; n < 2 * OUTPUTS; n++) {
        const uint8_t *w = blocks[n / OUTPUTS] + (q * OUTPUTS + n % OUTPUTS) * QUAD;
        int32_t s = 0; /* at most 4 * 255 * 128 */
        for (size_t k = 0; k < QUAD; k++) s += (int32_t)a[q * QUAD + k] * (int32_t)(int8_t)w[k];
        acc[n] = (int32_t)((uint32_t)acc[n] + (uint32_t)s);
      }
  }
}
