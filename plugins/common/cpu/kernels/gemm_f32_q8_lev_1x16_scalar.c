/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference: what lev.h declares, in loops over 64 bytes that compilers turn into vectors. A block is unpacked once
 * for all rows. GEMV is its first row.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/kernels/lev_kernels.h"
#include "plugins/common/formats/formats.h"

enum { LINE = TNI_LEV_UNIT, ROWS = TNI_CLT_ROWS, MOST_QUADS = TNI_LEV_MAX_BLOCK / 4 };

/* sums[r] of row r. */
static void block_products(uint32_t quads, const int8_t *w, const int8_t *q, int32_t *sums) {
  int32_t lane[LINE] = {0};
  for (uint32_t quad = 0; quad < quads; quad++, q += 4, w += LINE) {
    int16_t four[LINE];
    for (int i = 0; i < LINE; i++) four[i] = q[i % 4];
    for (int i = 0; i < LINE; i++) lane[i] += (int32_t)w[i] * four[i];
  }
  for (int r = 0; r < ROWS; r++) sums[r] = (lane[4 * r] + lane[4 * r + 1]) + (lane[4 * r + 2] + lane[4 * r + 3]);
}

static void lev_rows(uint32_t which, const uint8_t *row_block, size_t blocks, const tni_clt_act *a, size_t m0,
                     size_t m1, float *acc) {
  const tni_lev_kind *k = &tni_lev_kinds[which];
  const uint8_t *codes = row_block + tni_lev_head_bytes(blocks);
  int8_t w[MOST_QUADS * LINE];
  memset(acc, 0, (m1 - m0) * ROWS * sizeof *acc);
  for (size_t b = 0; b < blocks; b++, codes += k->block_bytes) {
    float scale[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) scale[r] = tni_lev_scale(row_block, r, b);
    tni_lev_decode(k, codes, w);
    for (size_t m = m0; m < m1; m++) {
      const float sx = a->scale[m * a->s_stride + b];
      float *y = acc + (m - m0) * ROWS;
      int32_t sums[ROWS];
      block_products(k->block / 4, w, a->q + m * a->q_stride + b * k->block, sums);
      for (int r = 0; r < ROWS; r++) y[r] = fmaf((float)sums[r], scale[r] * sx, y[r]);
    }
  }
}

#define KERNELS(id, ID, group)                                                                                    \
  void tni_clt_gemm_f32_q8g##group##_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks,             \
                                                        const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    lev_rows(TNI_##ID, row_block, superblocks, a, m0, m1, acc);                                                   \
  }                                                                                                               \
  void tni_clt_gemv_f32_q8g##group##_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks,             \
                                                        const tni_clt_act *a, float *acc) {                       \
    lev_rows(TNI_##ID, row_block, superblocks, a, 0, 1, acc);                                                     \
  }
TNI_CLT_EACH_LEV(KERNELS)
#undef KERNELS
