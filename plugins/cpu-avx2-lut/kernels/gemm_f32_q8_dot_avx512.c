/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of dot.h for the tiles of AVX-512 VNNI and of AMX: units are unpacked to bytes, codes raised to a zero
 * point of 8 or lowered to one of 0.
 */
#include <immintrin.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

static inline void put_codes_avx512(uint8_t *out, __m512i codes, int raise) {
  _mm512_store_si512(out, _mm512_add_epi8(codes, _mm512_set1_epi8((char)raise)));
}

static inline __m512i cut_codes_avx512(__m512i v, int shift, int mask) {
  return _mm512_and_si512(_mm512_srli_epi16(v, (unsigned)shift), _mm512_set1_epi8((char)mask));
}

/* `zero`: the zero point that the bytes are to have; head: of the row block. */
typedef void (*unpack_fn_avx512)(const uint8_t *unit, const uint8_t *head, int zero, uint8_t *out);

static inline void two_bits(const uint8_t *u, int raise, uint8_t *out) {
  const __m512i v = _mm512_load_si512(u);
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) put_codes_avx512(out + j * 64, cut_codes_avx512(v, 2 * j, 3), raise);
}

static inline void unpack_w2g(const uint8_t *u, const uint8_t *head, int zero, uint8_t *out) {
  (void)head;
  two_bits(u, zero - 2, out);
}

static inline void unpack_tern20(const uint8_t *u, const uint8_t *head, int zero, uint8_t *out) {
  (void)head;
  two_bits(u, zero - 1, out);
}

static inline void unpack_w1g(const uint8_t *u, const uint8_t *head, int zero, uint8_t *out) {
  const __m512i v = _mm512_load_si512(u), one = cut_codes_avx512(v, 0, 1);
  (void)head;
  put_codes_avx512(out, _mm512_add_epi8(one, one), zero - 1);
#pragma GCC unroll 7
  for (int j = 1; j < 8; j++) put_codes_avx512(out + j * 64, cut_codes_avx512(v, j - 1, 2), zero - 1);
}

static inline void unpack_w8g(const uint8_t *u, const uint8_t *head, int zero, uint8_t *out) {
  (void)head;
  put_codes_avx512(out, _mm512_load_si512(u), zero - 128);
}

static inline void unpack_pal16(const uint8_t *u, const uint8_t *head, int zero, uint8_t *out) {
  const __m128i levels = _mm_load_si128((const __m128i *)(const void *)(head + TNI_DOT_SCALE_BYTES));
  const __m512i table = _mm512_broadcast_i32x4(levels), v = _mm512_load_si512(u);
  put_codes_avx512(out, _mm512_shuffle_epi8(table, cut_codes_avx512(v, 0, 15)), zero - 128);
  put_codes_avx512(out + 64, _mm512_shuffle_epi8(table, cut_codes_avx512(v, 4, 15)), zero - 128);
}

static inline void unpack_w3g(const uint8_t *u, const uint8_t *head, int zero, uint8_t *out) {
  (void)head;
  const __m512i a = _mm512_load_si512(u), b = _mm512_load_si512(u + 64), c = _mm512_load_si512(u + 128);
  put_codes_avx512(out, cut_codes_avx512(a, 0, 7), zero - 4);
  put_codes_avx512(out + 64, cut_codes_avx512(a, 3, 7), zero - 4);
  put_codes_avx512(out + 128, _mm512_or_si512(cut_codes_avx512(a, 6, 3), cut_codes_avx512(c, 4, 4)), zero - 4);
  put_codes_avx512(out + 192, cut_codes_avx512(b, 0, 7), zero - 4);
  put_codes_avx512(out + 256, cut_codes_avx512(b, 3, 7), zero - 4);
  put_codes_avx512(out + 320, _mm512_or_si512(cut_codes_avx512(b, 6, 3), cut_codes_avx512(c, 5, 4)), zero - 4);
  put_codes_avx512(out + 384, cut_codes_avx512(c, 0, 7), zero - 4);
  put_codes_avx512(out + 448, cut_codes_avx512(c, 3, 7), zero - 4);
}

enum {
  SIGNED = 0,
  /* the zero point that AMX reads */ PER_PANEL = 2,
  QUADS = 64,
  MAX_GROUPS = TNI_X86_PANEL_K / TNI_DOT_GROUP
};

/* n superblocks of 256 k from `block` on: units of `quads` quads in unit_bytes, after scales where the row block has
 * no head. Returns where it ends. */
__attribute__((always_inline)) static inline const uint8_t *open_panel(unpack_fn_avx512 unpack, size_t quads,
                                                                       size_t unit_bytes, size_t head_bytes, int zero,
                                                                       const uint8_t *head, const uint8_t *block,
                                                                       size_t n, tni_x86_panel *p) {
  for (size_t s = 0; s < n; s++) {
    for (size_t g = 0; !head_bytes && g < 2; g++, block += 32)
      _mm512_store_ps(p->scale[s * 2 + g], _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)block)));
    for (size_t i = 0; i < QUADS; i += quads, block += unit_bytes) unpack(block, head, zero, p->w[s * QUADS + i]);
  }
  p->groups = n * 2;
  return block;
}

/* One row block by `tiles`, or two, block_bytes apart, by `tiles2`. */
__attribute__((always_inline)) static inline void gemm_dot_avx512(unpack_fn_avx512 unpack, size_t quads,
                                                                  size_t unit_bytes, size_t head_bytes, int zero,
                                                                  tni_x86_tiles_fn tiles, tni_x86_tiles2_fn tiles2,
                                                                  const uint8_t *head, size_t block_bytes,
                                                                  size_t superblocks, const tni_clt_act *a, size_t m0,
                                                                  size_t m1, float *const *acc) {
  const size_t blocks = tiles2 ? 2 : 1;
  const uint8_t *from = head + head_bytes;
  tni_x86_panel p[2];
  for (size_t i = 0; i < blocks; i++)
    for (size_t g = 0; head_bytes && g < MAX_GROUPS; g++)
      _mm512_store_ps(p[i].scale[g], _mm512_load_ps(head + i * block_bytes));
  if (zero == SIGNED) tni_x86_amx_begin();
  for (size_t sb = 0; sb < superblocks; sb += PER_PANEL) {
    const size_t n = superblocks - sb < PER_PANEL ? superblocks - sb : PER_PANEL;
    const uint8_t *end = from;
    for (size_t i = 0; i < blocks; i++) {
      const uint8_t *at = from + i * block_bytes;
      end = open_panel(unpack, quads, unit_bytes, head_bytes, zero, head + i * block_bytes, at, n, &p[i]);
      p[i].next = end;
      p[i].next_bytes = (size_t)(end - at);
      p[i].first_group = sb * 2;
    }
    from = end - (blocks - 1) * block_bytes;
    tni_x86_tiles(tiles, tiles2, p, a, m0, m1, sb == 0, acc);
  }
  if (zero == SIGNED) tni_x86_amx_end();
}

#define GEMM(id, quads, unit_bytes, head_bytes, tile, isa, tiles, zero)                                             \
  void tni_x86_gemm_f32_q8g128_##id##_##tile##_##isa(const uint8_t *row_block, size_t superblocks,                  \
                                                     const tni_clt_act *a, size_t m0, size_t m1, float *acc) {      \
    gemm_dot_avx512(unpack_##id, quads, unit_bytes, head_bytes, zero, tni_x86_tiles_##tiles##_##tile##_##isa, NULL, \
                    row_block, 0, superblocks, a, m0, m1, &acc);                                                    \
  }
#define GEMM2(id, quads, unit_bytes, head_bytes, tile, isa, tiles, zero)                                              \
  void tni_x86_gemm2_f32_q8g128_##id##_##tile##_##isa(const uint8_t *row_blocks, size_t block_bytes,                  \
                                                      size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, \
                                                      float *const *acc) {                                            \
    gemm_dot_avx512(unpack_##id, quads, unit_bytes, head_bytes, zero, NULL, tni_x86_tiles_##tiles##_##tile##_##isa,   \
                    row_blocks, block_bytes, superblocks, a, m0, m1, acc);                                            \
  }
#define GEMMS(id, quads, unit_bytes, head_bytes, tiles, zero)              \
  GEMM(id, quads, unit_bytes, head_bytes, 12x16, avx512vnni, tiles, zero)  \
  GEMM2(id, quads, unit_bytes, head_bytes, 12x32, avx512vnni, tiles, zero) \
  GEMM(id, quads, unit_bytes, head_bytes, 32x16, amx, g128, SIGNED)        \
  GEMM2(id, quads, unit_bytes, head_bytes, 16x32, amx, g128, SIGNED)
GEMMS(w8g, 1, 64, 0, b8g128, 128)
GEMMS(w3g, 8, 192, 0, g128, 8)
GEMMS(w2g, 4, 64, 0, g128, 8)
GEMMS(w1g, 8, 64, 0, g128, 8)
GEMMS(tern20, 4, 64, 64, g128, 8)
GEMMS(pal16, 2, 64, 128, b8g128, 128)
