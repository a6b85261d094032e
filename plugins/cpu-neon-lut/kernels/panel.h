/* SPDX-License-Identifier: Apache-2.0
 *
 * A panel of 512 k of one row block, unpacked once and used by all rows of x: codes as the kernel's unpacker lays them
 * out, 8 KiB, stay in L1.
 */
#ifndef TENON_CPU_NEON_PANEL_H
#define TENON_CPU_NEON_PANEL_H

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

enum { TNI_ARM_PANEL_K = 512 };

typedef struct tni_arm_panel {
  _Alignas(64) uint8_t w[TNI_ARM_PANEL_K * TNI_CLT_ROWS];
  float scale[TNI_ARM_PANEL_K / 32][TNI_CLT_ROWS];
  size_t groups, first_group;
} tni_arm_panel;

/* 64 bytes (8 k of 16 outputs) -> 128 codes. */
typedef void (*tni_arm_unpack_fn)(const uint8_t *chunk, uint8_t *out);
/* All rows [m0, m1) over one panel: acc[m1 - m0][16] += .. */
typedef void (*tni_arm_tiles_fn)(const tni_arm_panel *p, const tni_clt_act *a, size_t m0, size_t m1, float *acc);

__attribute__((always_inline)) static inline void tni_arm_gemm(size_t group, size_t sb_bytes, tni_arm_unpack_fn unpack,
                                                               tni_arm_tiles_fn tiles, const uint8_t *block,
                                                               size_t superblocks, const tni_clt_act *a, size_t m0,
                                                               size_t m1, float *acc) {
  tni_arm_panel p;
  const size_t per_panel = TNI_ARM_PANEL_K / (2 * group);
  memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);
  for (size_t sb = 0; sb < superblocks; sb += per_panel) {
    size_t n = superblocks - sb < per_panel ? superblocks - sb : per_panel;
    uint8_t *out = p.w;
    for (size_t s = 0; s < n; s++, block += sb_bytes) {
      for (size_t c = 0; c < group / 4; c++, out += 128) unpack(block + 64 + c * 64, out);
      for (size_t j = 0; j < 8; j++) vst1q_f32(&p.scale[s * 2][0] + j * 4, tni_arm_scales(block + j * 8));
    }
    p.groups = n * 2;
    p.first_group = sb * 2;
    tiles(&p, a, m0, m1, acc);
  }
}

/* [k / 4][output][k % 4] */
static inline void tni_arm_unpack_quads(const uint8_t *chunk, uint8_t *out) {
  const uint8x16_t nibble = vdupq_n_u8(15);
  for (size_t i = 0; i < 64; i += 16) {
    uint8x16_t w = vld1q_u8(chunk + i);
    vst1q_u8(out + i, vandq_u8(w, nibble));
    vst1q_u8(out + 64 + i, vshrq_n_u8(w, 4));
  }
}

#endif
