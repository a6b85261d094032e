/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference: what dot.h declares, written down. GEMV is its first row.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/kernels/dot_kernels.h"
#include "plugins/common/formats/formats.h"

enum { MAX_QUADS = 96, QUADS = TNI_DOT_GROUP / 4 /* of a group */ };

/* sum of (code - zero) * q over one group of row `lane`. */
static int32_t group_sum(const uint8_t *quads, size_t lane, int32_t zero, const int8_t *q) {
  int32_t sum = 0;
  for (size_t i = 0; i < QUADS; i++)
    for (size_t b = 0; b < 4; b++) sum += (quads[i * TNI_DOT_QUAD + lane * 4 + b] - zero) * q[i * 4 + b];
  return sum;
}

/* Superblocks of 256 k two groups, of 96 k three for four of them: `span` at a time are whole groups, the last span may
 * be cut short. */
static void dot_rows(uint32_t which, const uint8_t *block, size_t superblocks, const tni_clt_act *a, size_t m0,
                     size_t m1, float *acc) {
  const tni_dot_kind *kind = tni_dot_kind_of(&tni_dot_formats[which]);
  const size_t sb_quads = (size_t)kind->units * kind->unit_quads, span = sb_quads % QUADS ? 4 : 1;
  const int32_t zero = (int32_t)kind->zero;
  uint8_t quads[MAX_QUADS * TNI_DOT_QUAD];
  memset(acc, 0, (m1 - m0) * TNI_DOT_ROWS * sizeof *acc);
  for (size_t sb = 0; sb < superblocks; sb += span) {
    const size_t n = superblocks - sb < span ? superblocks - sb : span, groups = (n * sb_quads + QUADS - 1) / QUADS;
    memset(quads, zero, sizeof quads);
    for (size_t i = 0; i < n; i++) tni_dot_decode(kind, block, sb + i, quads + i * sb_quads * TNI_DOT_QUAD);
    for (size_t m = m0; m < m1; m++)
      for (size_t i = 0; i < groups * TNI_DOT_ROWS; i++) {
        const size_t lane = i % TNI_DOT_ROWS, g = i / TNI_DOT_ROWS, at = sb * sb_quads / QUADS + g;
        const int8_t *q = a->q + m * a->q_stride + at * TNI_DOT_GROUP;
        const int32_t sum = group_sum(quads + g * QUADS * TNI_DOT_QUAD, lane, zero, q);
        float *y = acc + (m - m0) * TNI_DOT_ROWS + lane;
        *y = fmaf((float)sum, tni_dot_scale(kind, block, (uint32_t)lane, at) * a->scale[m * a->s_stride + at], *y);
      }
  }
}

#define KERNELS(id, kind)                                                                                             \
  void tni_clt_gemv_f32_q8g128_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                  float *acc) {                                                       \
    dot_rows(kind, row_block, superblocks, a, 0, 1, acc);                                                             \
  }                                                                                                                   \
  void tni_clt_gemm_f32_q8g128_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                  size_t m0, size_t m1, float *acc) {                                 \
    dot_rows(kind, row_block, superblocks, a, m0, m1, acc);                                                           \
  }
KERNELS(w8g, TNI_DOT_W8G)
KERNELS(w3g, TNI_DOT_W3G)
KERNELS(w2g, TNI_DOT_W2G)
KERNELS(w1g, TNI_DOT_W1G)
KERNELS(tern20, TNI_DOT_TERN20)
KERNELS(tern17, TNI_DOT_TERN17)
KERNELS(pal16, TNI_DOT_PAL16)
#undef KERNELS
