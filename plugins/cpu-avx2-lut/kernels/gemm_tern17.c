/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "plugins/common/dot.h"
#include "plugins/cpu-avx2-lut/kernels/tern17.h"

void tni_x86_gemm_tern17(tni_x86_third_fn unpack, int zero, tni_x86_tiles_fn tiles, const uint8_t *row_block,
                         size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  enum { GROUPS = TNI_X86_PANEL_K / TNI_DOT_GROUP, THIRDS = TNI_X86_PANEL_K / 32 };
  const uint8_t *u = row_block + TNI_DOT_SCALE_BYTES;
  const size_t thirds = superblocks * 3;
  tni_x86_panel p;
  for (size_t g = 0; g < GROUPS; g++) memcpy(p.scale[g], row_block, sizeof p.scale[g]);
  for (size_t at = 0; at < thirds; at += THIRDS) {
    const size_t n = thirds - at < THIRDS ? thirds - at : THIRDS;
    for (size_t i = 0; i < n; i++)
      unpack(u + (at + i) / 3 * TNI_X86_TERN17_UNIT, (int)((at + i) % 3), zero, p.w[i * 8]);
    p.groups = (n + 7) / 8 * 2;
    memset(p.w[n * 8], zero, (p.groups * 4 - n) * 8 * sizeof p.w[0]);
    p.first_group = at / 4;
    p.next = u + (at + n) / 3 * TNI_X86_TERN17_UNIT;
    p.next_bytes = (n + 2) / 3 * TNI_X86_TERN17_UNIT;
    tiles(&p, a, m0, m1, at == 0, acc);
  }
}
