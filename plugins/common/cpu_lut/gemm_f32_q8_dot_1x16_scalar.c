/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference: what dot.h declares, written down. GEMV is its first row.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu_lut/dot_kernels.h"
#include "plugins/common/dot.h"

enum { MAX_QUADS = 64, QUADS = TNI_DOT_GROUP / 4 /* of a group */ };

/* sum of (code - zero) * q over one group of row `lane`. */
static int32_t group_sum(const uint8_t *quads, size_t lane, int32_t zero, const int8_t *q) {
  int32_t sum = 0;
  for (size_t i = 0; i < QUADS; i++)
    for (size_t b = 0; b < 4; b++) sum += (quads[i * TNI_DOT_QUAD + lane * 4 + b] - zero) * q[i * 4 + b];
  return sum;
}

static void rows(uint32_t which, const uint8_t *block, size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1,
                 float *acc) {
  const tni_dot_kind *kind = tni_dot_kind_of(&tni_dot_formats[which]);
  const size_t groups = (size_t)kind->units * kind->unit_quads / QUADS;
  const size_t sb_bytes = TNI_DOT_SCALE_BYTES + (size_t)kind->units * kind->unit_bytes;
  uint8_t quads[MAX_QUADS * TNI_DOT_QUAD];
  memset(acc, 0, (m1 - m0) * TNI_DOT_ROWS * sizeof *acc);
  for (size_t sb = 0; sb < superblocks; sb++, block += sb_bytes) {
    tni_dot_decode(kind, block, quads);
    for (size_t m = m0; m < m1; m++)
      for (size_t i = 0; i < groups * TNI_DOT_ROWS; i++) {
        const size_t lane = i % TNI_DOT_ROWS, g = i / TNI_DOT_ROWS, at = sb * groups + g;
        const int8_t *q = a->q + m * a->q_stride + at * TNI_DOT_GROUP;
        const int32_t sum = group_sum(quads + g * QUADS * TNI_DOT_QUAD, lane, (int32_t)kind->zero, q);
        float *y = acc + (m - m0) * TNI_DOT_ROWS + lane;
        *y = fmaf((float)sum, tni_dot_scale(block, (uint32_t)lane, (uint32_t)g) * a->scale[m * a->s_stride + at], *y);
      }
  }
}

#define KERNELS(id, kind)                                                                                             \
  void tni_clt_gemv_f32_q8g128_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                  float *acc) {                                                       \
    rows(kind, row_block, superblocks, a, 0, 1, acc);                                                                 \
  }                                                                                                                   \
  void tni_clt_gemm_f32_q8g128_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                  size_t m0, size_t m1, float *acc) {                                 \
    rows(kind, row_block, superblocks, a, m0, m1, acc);                                                               \
  }
KERNELS(w2g, TNI_DOT_W2G)
KERNELS(w3g, TNI_DOT_W3G)
#undef KERNELS
