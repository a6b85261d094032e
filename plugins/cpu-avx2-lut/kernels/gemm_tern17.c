/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/tern17.h"

enum { GROUPS = TNI_X86_PANEL_K / TNI_DOT_GROUP, THIRDS = TNI_X86_PANEL_K / 32 };

/* n thirds of units from `at` on. */
static void open_panel(tni_x86_third_fn unpack, int zero, const uint8_t *units, size_t at, size_t n, tni_x86_panel *p) {
  for (size_t i = 0; i < n; i++)
    unpack(units + (at + i) / 3 * TNI_X86_TERN17_UNIT, (int)((at + i) % 3), zero, p->w[i * 8]);
  p->groups = (n + 7) / 8 * 2;
  memset(p->w[n * 8], zero, (p->groups * 4 - n) * 8 * sizeof p->w[0]);
  p->first_group = at / 4;
  p->next = units + (at + n) / 3 * TNI_X86_TERN17_UNIT;
  p->next_bytes = (n + 2) / 3 * TNI_X86_TERN17_UNIT;
}

void tni_x86_gemm_tern17(tni_x86_third_fn unpack, int zero, tni_x86_tiles_fn tiles, tni_x86_tiles2_fn tiles2,
                         const uint8_t *row_block, size_t block_bytes, size_t superblocks, const tni_clt_act *a,
                         size_t m0, size_t m1, float *const *acc) {
  const size_t thirds = superblocks * 3, blocks = tiles2 ? 2 : 1;
  tni_x86_panel p[2];
  for (size_t i = 0; i < blocks; i++)
    for (size_t g = 0; g < GROUPS; g++) memcpy(p[i].scale[g], row_block + i * block_bytes, sizeof p[i].scale[g]);
  for (size_t at = 0; at < thirds; at += THIRDS) {
    const size_t n = thirds - at < THIRDS ? thirds - at : THIRDS;
    for (size_t i = 0; i < blocks; i++)
      open_panel(unpack, zero, row_block + i * block_bytes + TNI_DOT_SCALE_BYTES, at, n, &p[i]);
    tni_x86_tiles(tiles, tiles2, p, a, m0, m1, at == 0, acc);
  }
}
