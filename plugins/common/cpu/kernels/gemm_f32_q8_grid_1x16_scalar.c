/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference: what grid.h declares, in loops over 64 bytes that compilers turn into vectors. A group is unpacked once
 * for all rows. GEMV is its first row.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/kernels/grid_kernels.h"
#include "plugins/common/formats/formats.h"

enum { LINE = 64, ROWS = TNI_CLT_ROWS, MOST_QUADS = TNI_GRID_MAX_GROUP / 4 };

/* A group of 16 rows: codes less half, [k / 4][row][k % 4]; scales; zero points in two parts, whole less half and the
 * rest, both to be taken off. */
typedef struct grid_group {
  _Alignas(64) int16_t w[MOST_QUADS][LINE];
  float scale[ROWS], whole[ROWS], rest[ROWS];
} grid_group;

static void open_codes(uint32_t bits, uint32_t group, const uint8_t *u, grid_group *g) {
  const int mask = (1 << bits) - 1, half = 1 << (bits - 1);
  const uint32_t per = 8 / bits;
  for (uint32_t quad = 0; quad < group / 4; quad++) {
    const uint8_t *unit = u + quad / per * LINE;
    const uint32_t shift = quad % per * bits;
    for (int i = 0; i < LINE; i++) g->w[quad][i] = (int16_t)((unit[i] >> shift & mask) - half);
  }
}

static void open_group(const tni_grid_layout *l, const uint8_t *sb, uint32_t group, grid_group *g) {
  const float half = (float)(1 << (l->bits - 1));
  open_codes(l->bits, l->group, sb + l->codes_at + group * l->group * ROWS * l->bits / 8, g);
  for (uint32_t row = 0; row < ROWS; row++) {
    const float zero = tni_grid_zero_at(l, sb, group, row), whole = rintf(zero);
    g->scale[row] = tni_grid_scale_at(l, sb, group, row);
    g->whole[row] = half - whole;
    g->rest[row] = whole - zero;
  }
}

/* sums[r] of row r; returns the sum of q. */
static int32_t group_products(const grid_group *g, uint32_t group, const int8_t *q, int32_t *sums) {
  int32_t lane[LINE] = {0}, total = 0;
  for (uint32_t quad = 0; quad < group / 4; quad++, q += 4) {
    int16_t four[LINE];
    for (int i = 0; i < LINE; i++) four[i] = q[i % 4];
    for (int i = 0; i < LINE; i++) lane[i] += (int32_t)g->w[quad][i] * four[i];
    total += q[0] + q[1] + q[2] + q[3];
  }
  for (int r = 0; r < ROWS; r++) sums[r] = (lane[4 * r] + lane[4 * r + 1]) + (lane[4 * r + 2] + lane[4 * r + 3]);
  return total;
}

static void add_group(const tni_grid_layout *l, const grid_group *g, const int8_t *q, float sx, float *y) {
  int32_t sums[ROWS];
  const float t = (float)group_products(g, l->group, q, sums);
  for (int r = 0; r < ROWS; r++) {
    float v = (float)sums[r];
    if (l->zero_bits) v = fmaf(g->whole[r], t, v);
    if (l->zero_bits == 32) v = fmaf(g->rest[r], t, v);
    y[r] = fmaf(v, g->scale[r] * sx, y[r]);
  }
}

static void grid_rows(uint32_t bits, uint32_t group, const uint8_t *block, size_t superblocks, const tni_clt_act *a,
                      size_t m0, size_t m1, float *acc) {
  const tni_grid_layout l = tni_grid_layout_of(bits, group, a->scale_bits, a->zero_bits);
  grid_group g;
  memset(acc, 0, (m1 - m0) * ROWS * sizeof *acc);
  for (size_t i = 0; i < superblocks; i++, block += l.bytes)
    for (uint32_t k = 0; k < l.groups; k++) {
      const size_t at = i * l.groups + k;
      open_group(&l, block, k, &g);
      for (size_t m = m0; m < m1; m++)
        add_group(&l, &g, a->q + m * a->q_stride + at * group, a->scale[m * a->s_stride + at], acc + (m - m0) * ROWS);
    }
}

#define KERNELS(group, bits)                                                                                  \
  void tni_clt_gemm_f32_q8g##group##_grid##bits##_1x16_scalar(                                                \
      const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    grid_rows(bits, group, row_block, superblocks, a, m0, m1, acc);                                           \
  }                                                                                                           \
  void tni_clt_gemv_f32_q8g##group##_grid##bits##_1x16_scalar(const uint8_t *row_block, size_t superblocks,   \
                                                              const tni_clt_act *a, float *acc) {             \
    grid_rows(bits, group, row_block, superblocks, a, 0, 1, acc);                                             \
  }
TNI_CLT_EACH_GRID(KERNELS)
#undef KERNELS
