/* SPDX-License-Identifier: Apache-2.0
 *
 * w4g for the tiles of AVX2 and of AVX-VNNI: a panel is unpacked once to bytes and used by all rows.
 */
#include <immintrin.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

static void unpack_panel(tni_x86_panel *p, const uint8_t *sb, size_t n_sb, size_t group, size_t sb_bytes) {
  const __m256i nibble = _mm256_set1_epi8(15);
  uint8_t *out = &p->w[0][0];
  for (size_t s = 0; s < n_sb; s++, sb += sb_bytes) {
    for (size_t c = 0; c < group / 4; c++, out += 128) {
      for (size_t half = 0; half < 64; half += 32) {
        __m256i v = _mm256_load_si256((const __m256i *)(const void *)(sb + 64 + c * 64 + half));
        __m256i lo = _mm256_and_si256(v, nibble), hi = _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble);
        _mm256_store_si256((__m256i *)(void *)(out + half), lo);
        _mm256_store_si256((__m256i *)(void *)(out + 64 + half), hi);
      }
    }
    for (size_t j = 0; j < 4; j++) {
      __m256 f = _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)(sb + j * 16)));
      _mm256_store_ps(&p->scale[s * 2 + j / 2][j % 2 * 8], f);
    }
  }
  p->groups = n_sb * 2;
}

static void gemm_w4_avx2(size_t group, size_t sb_bytes, tni_x86_tiles_fn tiles, const uint8_t *block,
                         size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  tni_x86_panel p;
  const size_t per_panel = TNI_X86_PANEL_K / (2 * group);
  for (size_t sb = 0; sb < superblocks; sb += per_panel) {
    size_t n = superblocks - sb < per_panel ? superblocks - sb : per_panel;
    unpack_panel(&p, block + sb * sb_bytes, n, group, sb_bytes);
    p.next = block + (sb + per_panel) * sb_bytes;
    p.next_bytes = per_panel * sb_bytes;
    p.first_group = sb * 2;
    tiles(&p, a, m0, m1, sb == 0, acc);
  }
}

#define GEMM(group, isa)                                                                                               \
  void tni_x86_gemm_f32_q8g##group##_w4g##group##_6x16_##isa(const uint8_t *row_block, size_t superblocks,             \
                                                             const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_w4_avx2(group, sizeof(tni_w4g_sb##group), tni_x86_tiles_g##group##_6x16_##isa, row_block, superblocks, a, m0, \
                 m1, acc);                                                                                             \
  }
GEMM(32, avx2)
GEMM(128, avx2)
GEMM(32, avxvnni)
GEMM(128, avxvnni)
