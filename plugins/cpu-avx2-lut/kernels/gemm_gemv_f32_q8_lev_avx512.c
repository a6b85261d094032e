/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of lev.h on AVX-512 VNNI: one row, and panels for the tiles of codes with a zero point of 128. Blocks of 32
 * for AMX too, whose codes have a sign.
 */
#include <stdbool.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/lev_avx512.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

/* --- one row ------------------------------------------------------------------------------------------------------ */

/* Levels of a quad times its four codes of x. In assembly, so that the broadcast is part of the instruction. */
static inline __m512i add_quad(__m512i sum, __m512i w, const int8_t *q) {
  __asm__("vpdpbusd %[q]%{1to16%}, %[w], %[sum]"
          : [sum] "+v"(sum)
          : [w] "v"(w), [q] "m"(*(const int32_t *)(const void *)q));
  return sum;
}

/* Entries of the next block are found beside the sums of this one, which would wait for theirs; after the last block
 * they are its own once more. A sum begins with what the word of x takes off. */
__attribute__((always_inline)) static inline void gemv_lev(uint32_t which, uint32_t group, uint32_t block_bytes,
                                                           bool fetch, const uint8_t *head, size_t blocks,
                                                           const tni_clt_act *a, float *acc) {
  const uint8_t *codes = head + tni_lev_head_bytes(blocks), *index = head + 32;
  const int8_t *q = a->q;
  const lev_tables tables = lev_tables_of(which);
  const __m512 parents = lev_parents(head);
  __m512 y = _mm512_setzero_ps();
  __m512i e[LEV_PAIRS], next[LEV_PAIRS];
  lev_entries(which, codes, e);
  for (size_t b = 0; b < blocks; b++, q += group, index += 8) {
    __m512i sum = _mm512_slli_epi32(_mm512_set1_epi32(a->zero[b]), 4);
    for (uint32_t i = 0; fetch && i < block_bytes; i += 64)
      _mm_prefetch((const char *)codes + TNI_X86_LEV_AHEAD + i, _MM_HINT_T0);
    codes += b + 1 < blocks ? block_bytes : 0;
    lev_entries(which, codes, next);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < group / 8; i++) {
      sum = add_quad(sum, low_levels(tables.t[i], e[i]), q + 8 * i);
      sum = add_quad(sum, high_levels(tables.t[i], e[i]), q + 8 * i + 4);
      e[i] = next[i];
    }
    const __m512 scale = _mm512_mul_ps(_mm512_mul_ps(parents, lev_steps(index)), _mm512_set1_ps(a->scale[b]));
    y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, y);
  }
  _mm512_storeu_ps(acc, y);
}

#define GEMV_AS(id, ID, group, bytes, isa, fetch)                                                    \
  void tni_x86_gemv_f32_q8g##group##_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, \
                                                       const tni_clt_act *a, float *acc) {           \
    gemv_lev(TNI_##ID, group, bytes, fetch, row_block, superblocks, a, acc);                         \
  }
#define GEMV(id, ID, group, bytes)                 \
  GEMV_AS(id, ID, group, bytes, avx512vnni, false) \
  GEMV_AS(id, ID, group, bytes, avx512vnni_prefetch, true)

/* --- panels ------------------------------------------------------------------------------------------------------ */

enum { PART = TNI_X86_PAIR_LINES / 3 * 64 }; /* bytes of a block of 32 in a pair (panel.h) */

/* amx: the zeros of pairs are there, of n blocks that are even in number or the last. */
__attribute__((always_inline)) static inline void open_lev_panel(uint32_t which, uint32_t group, uint32_t block_bytes,
                                                                 bool amx, const uint8_t *head, const uint8_t *codes,
                                                                 size_t first, size_t n, tni_x86_panel *p) {
  const lev_tables tables = lev_tables_of(which);
  const __m512 parents = lev_parents(head);
  const __m512i sign = _mm512_set1_epi8(amx ? (char)0x80 : 0);
  uint8_t *out = p->w[0];
  for (size_t b = 0; b < n; b++, codes += block_bytes) {
    __m512i e[LEV_PAIRS];
    lev_entries(which, codes, e);
    if (amx && b % 2) out += PART;
#pragma GCC unroll 4
    for (uint32_t i = 0; i < group / 8; i++, out += 128) {
      _mm512_store_si512(out, _mm512_xor_si512(low_levels(tables.t[i], e[i]), sign));
      _mm512_store_si512(out + 64, _mm512_xor_si512(high_levels(tables.t[i], e[i]), sign));
    }
    _mm512_store_ps(p->scale[b], _mm512_mul_ps(parents, lev_steps(head + 32 + 8 * (first + b))));
  }
  p->groups = n;
  if (amx && n % 2) { /* half of the last pair, whose codes of x are zeros */
    _mm512_store_ps(p->scale[n], _mm512_setzero_ps());
    p->groups++;
  }
  p->first_group = first;
  p->next = codes;
  p->next_bytes = n * block_bytes;
}

/* One row block by `tiles`, or two, row_block_bytes apart, by `tiles2`. */
__attribute__((always_inline)) static inline void gemm_lev_avx512(uint32_t which, uint32_t group, uint32_t block_bytes,
                                                                  bool amx, tni_x86_tiles_fn tiles, tni_x86_tiles2_fn tiles2,
                                                                  const uint8_t *head, size_t row_block_bytes,
                                                                  size_t blocks, const tni_clt_act *a, size_t m0,
                                                                  size_t m1, float *const *acc) {
  const size_t row_blocks = tiles2 ? 2 : 1, head_bytes = tni_lev_head_bytes(blocks);
  const size_t most = (amx ? TNI_X86_PAIR_PANEL_K : TNI_X86_PANEL_K) / 32;
  tni_x86_panel p[2];
  for (size_t i = 0; amx && i < row_blocks; i++) memset(p[i].w, 0, sizeof p[i].w);
  if (amx) tni_x86_amx_begin();
  for (size_t b = 0; b < blocks; b += most) {
    const size_t n = blocks - b < most ? blocks - b : most;
    for (size_t i = 0; i < row_blocks; i++) {
      const uint8_t *own = head + i * row_block_bytes;
      open_lev_panel(which, group, block_bytes, amx, own, own + head_bytes + b * block_bytes, b, n, &p[i]);
    }
    tni_x86_tiles(tiles, tiles2, p, a, m0, m1, b == 0, acc);
  }
  if (amx) tni_x86_amx_end();
}

#define GEMM(id, ID, group, bytes)                                                                                     \
  void tni_x86_gemm_f32_q8g##group##_##id##_12x16_avx512vnni(const uint8_t *row_block, size_t superblocks,             \
                                                             const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_lev_avx512(TNI_##ID, group, bytes, false, tni_x86_tiles_b8g##group##_12x16_avx512vnni, NULL, row_block, 0,    \
                    superblocks, a, m0, m1, &acc);                                                                     \
  }
#define GEMM2(id, ID, group, bytes)                                                                                    \
  void tni_x86_gemm2_f32_q8g##group##_##id##_6x32_avx512vnni(const uint8_t *row_blocks, size_t block_bytes,            \
                                                             size_t superblocks, const tni_clt_act *a, size_t m0,      \
                                                             size_t m1, float *const *acc) {                           \
    gemm_lev_avx512(TNI_##ID, group, bytes, false, NULL, tni_x86_tiles_b8g##group##_6x32_avx512vnni, row_blocks,       \
                    block_bytes, superblocks, a, m0, m1, acc);                                                         \
  }

#define KERNELS(id, ID, group, bytes) GEMV(id, ID, group, bytes) GEMM(id, ID, group, bytes) GEMM2(id, ID, group, bytes)
KERNELS(lev4, LEV4, 32, 256)
KERNELS(lev4s, LEV4S, 16, 128)
KERNELS(lev3, LEV3, 32, 192)
KERNELS(lev2, LEV2, 32, 128)
KERNELS(lev1, LEV1, 32, 96)

#define AMX(id, ID, bytes)                                                                                             \
  void tni_x86_gemm_f32_q8g32_##id##_32x16_amx(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,     \
                                               size_t m0, size_t m1, float *acc) {                                     \
    gemm_lev_avx512(TNI_##ID, 32, bytes, true, tni_x86_tiles_g32_32x16_amx, NULL, row_block, 0, superblocks, a, m0,    \
                    m1, &acc);                                                                                         \
  }                                                                                                                    \
  void tni_x86_gemm2_f32_q8g32_##id##_16x32_amx(const uint8_t *row_blocks, size_t block_bytes, size_t superblocks,     \
                                                const tni_clt_act *a, size_t m0, size_t m1, float *const *acc) {       \
    gemm_lev_avx512(TNI_##ID, 32, bytes, true, NULL, tni_x86_tiles_g32_16x32_amx, row_blocks, block_bytes,             \
                    superblocks, a, m0, m1, acc);                                                                      \
  }
AMX(lev4, LEV4, 256)
AMX(lev3, LEV3, 192)
AMX(lev2, LEV2, 128)
AMX(lev1, LEV1, 96)
