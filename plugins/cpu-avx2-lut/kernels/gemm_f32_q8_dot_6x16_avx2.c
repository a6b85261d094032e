/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of dot.h for the tiles of AVX2 and of AVX-VNNI: units are unpacked to bytes, codes raised to a zero point
 * of 8, or (eight bits) as they are, which AVX2 wants signed. Few rows of w8g need no panel.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

static inline __m256i load_32_codes(const uint8_t *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }

static inline void put_codes_avx2(uint8_t *out, __m256i codes, int raise) {
  _mm256_store_si256((__m256i *)(void *)out, _mm256_add_epi8(codes, _mm256_set1_epi8((char)raise)));
}

static inline __m256i cut_codes_avx2(__m256i v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}

/* head: of the row block. */
typedef void (*unpack_fn_avx2)(const uint8_t *unit, const uint8_t *head, uint8_t *out);

static inline void two_bits(const uint8_t *u, int raise, uint8_t *out) {
  for (int half = 0; half < 64; half += 32) {
    const __m256i v = load_32_codes(u + half);
    for (int j = 0; j < 4; j++) put_codes_avx2(out + j * 64 + half, cut_codes_avx2(v, 2 * j, 3), raise);
  }
}

static inline void unpack_w2g(const uint8_t *u, const uint8_t *head, uint8_t *out) {
  (void)head;
  two_bits(u, 6, out);
}

static inline void unpack_tern20(const uint8_t *u, const uint8_t *head, uint8_t *out) {
  (void)head;
  two_bits(u, 7, out);
}

static inline void unpack_w1g(const uint8_t *u, const uint8_t *head, uint8_t *out) {
  (void)head;
  for (int half = 0; half < 64; half += 32) {
    const __m256i v = load_32_codes(u + half);
    put_codes_avx2(out + half, _mm256_add_epi8(cut_codes_avx2(v, 0, 1), cut_codes_avx2(v, 0, 1)), 7);
    for (int j = 1; j < 8; j++) put_codes_avx2(out + j * 64 + half, cut_codes_avx2(v, j - 1, 2), 7);
  }
}

static inline void unpack_w8g(const uint8_t *u, const uint8_t *head, uint8_t *out) {
  (void)head;
  put_codes_avx2(out, load_32_codes(u), 0);
  put_codes_avx2(out + 32, load_32_codes(u + 32), 0);
}

static inline void unpack_w8g_signed(const uint8_t *u, const uint8_t *head, uint8_t *out) {
  (void)head;
  put_codes_avx2(out, load_32_codes(u), -128);
  put_codes_avx2(out + 32, load_32_codes(u + 32), -128);
}

static inline void levels_of(const uint8_t *u, const uint8_t *head, int raise, uint8_t *out) {
  const __m128i levels = _mm_load_si128((const __m128i *)(const void *)(head + TNI_DOT_SCALE_BYTES));
  const __m256i table = _mm256_broadcastsi128_si256(levels);
  for (int half = 0; half < 64; half += 32) {
    const __m256i v = load_32_codes(u + half);
    put_codes_avx2(out + half, _mm256_shuffle_epi8(table, cut_codes_avx2(v, 0, 15)), raise);
    put_codes_avx2(out + 64 + half, _mm256_shuffle_epi8(table, cut_codes_avx2(v, 4, 15)), raise);
  }
}

static inline void unpack_pal16(const uint8_t *u, const uint8_t *head, uint8_t *out) { levels_of(u, head, 0, out); }
static inline void unpack_pal16_signed(const uint8_t *u, const uint8_t *head, uint8_t *out) {
  levels_of(u, head, -128, out);
}

static inline void unpack_w3g(const uint8_t *u, const uint8_t *head, uint8_t *out) {
  (void)head;
  for (int half = 0; half < 64; half += 32, out += 32) {
    const __m256i a = load_32_codes(u + half), b = load_32_codes(u + 64 + half), c = load_32_codes(u + 128 + half);
    put_codes_avx2(out, cut_codes_avx2(a, 0, 7), 4);
    put_codes_avx2(out + 64, cut_codes_avx2(a, 3, 7), 4);
    put_codes_avx2(out + 128, _mm256_or_si256(cut_codes_avx2(a, 6, 3), cut_codes_avx2(c, 4, 4)), 4);
    put_codes_avx2(out + 192, cut_codes_avx2(b, 0, 7), 4);
    put_codes_avx2(out + 256, cut_codes_avx2(b, 3, 7), 4);
    put_codes_avx2(out + 320, _mm256_or_si256(cut_codes_avx2(b, 6, 3), cut_codes_avx2(c, 5, 4)), 4);
    put_codes_avx2(out + 384, cut_codes_avx2(c, 0, 7), 4);
    put_codes_avx2(out + 448, cut_codes_avx2(c, 3, 7), 4);
  }
}

static inline void halves_to(const uint8_t *from, float *scale) {
  _mm256_store_ps(scale, _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)from)));
  _mm256_store_ps(scale + 8, _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)(from + 16))));
}

enum { PER_PANEL = 2, QUADS = 64, MAX_GROUPS = TNI_X86_PANEL_K / TNI_DOT_GROUP };

/* Superblocks of 256 k: units of `quads` quads in unit_bytes. head_bytes: 0 where they have scales. */
__attribute__((always_inline)) static inline void gemm_dot_avx2(unpack_fn_avx2 unpack, size_t quads, size_t unit_bytes,
                                                                size_t head_bytes, tni_x86_tiles_fn tiles,
                                                                const uint8_t *block, size_t superblocks,
                                                                const tni_clt_act *a, size_t m0, size_t m1,
                                                                float *acc) {
  const uint8_t *head = block;
  tni_x86_panel p;
  for (size_t g = 0; head_bytes && g < MAX_GROUPS; g++) memcpy(p.scale[g], head, sizeof p.scale[g]);
  block += head_bytes;
  for (size_t sb = 0; sb < superblocks; sb += PER_PANEL) {
    const size_t n = superblocks - sb < PER_PANEL ? superblocks - sb : PER_PANEL;
    const uint8_t *from = block;
    for (size_t s = 0; s < n; s++) {
      if (!head_bytes) {
        halves_to(block, p.scale[s * 2]);
        halves_to(block + 32, p.scale[s * 2 + 1]);
        block += TNI_DOT_SCALE_BYTES;
      }
      for (size_t i = 0; i < QUADS; i += quads, block += unit_bytes) unpack(block, head, p.w[s * QUADS + i]);
    }
    p.next = block;
    p.next_bytes = (size_t)(block - from);
    p.groups = n * 2;
    p.first_group = sb * 2;
    tiles(&p, a, m0, m1, sb == 0, acc);
  }
}

#define GEMM(id, how, quads, unit_bytes, head_bytes, tile, isa, tiles)                                            \
  void tni_x86_gemm_f32_q8g128_##id##_##tile##_##isa(const uint8_t *row_block, size_t superblocks,                \
                                                     const tni_clt_act *a, size_t m0, size_t m1, float *acc) {    \
    gemm_dot_avx2(unpack_##how, quads, unit_bytes, head_bytes, tni_x86_tiles_##tiles##_##tile##_##isa, row_block, \
                  superblocks, a, m0, m1, acc);                                                                   \
  }
#define GEMMS(id, quads, unit_bytes, head_bytes)                \
  GEMM(id, id, quads, unit_bytes, head_bytes, 6x16, avx2, g128) \
  GEMM(id, id, quads, unit_bytes, head_bytes, 6x16, avxvnni, g128)
#define BYTES(id, quads, unit_bytes, head_bytes)                           \
  GEMM(id, id##_signed, quads, unit_bytes, head_bytes, 4x16, avx2, s8g128) \
  GEMM(id, id, quads, unit_bytes, head_bytes, 6x16, avxvnni, b8g128)
BYTES(w8g, 1, 64, 0)
GEMMS(w3g, 8, 192, 0)
GEMMS(w2g, 4, 64, 0)
GEMMS(w1g, 8, 64, 0)
GEMMS(tern20, 4, 64, 64)
BYTES(pal16, 2, 64, 128)

/* --- few rows of w8g: tiles over superblocks as they are packed ----------------------------------------------------
 */

__attribute__((always_inline)) static inline void gemm_w8g_few(bool fetch, const uint8_t *block, size_t superblocks,
                                                               const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  const size_t bytes = TNI_DOT_SCALE_BYTES + QUADS * 64;
  tni_x86_grid_panel z;
  memset(z.zero, 0, sizeof z.zero);
  z.p.groups = 2;
  z.p.next_bytes = 0;
  for (size_t sb = 0; sb < superblocks; sb++, block += bytes) {
    for (size_t i = 0; fetch && i < bytes; i += 64) _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    halves_to(block, z.p.scale[0]);
    halves_to(block + 32, z.p.scale[1]);
    z.codes = block + TNI_DOT_SCALE_BYTES;
    z.p.first_group = sb * 2;
    tni_x86_tiles_zb128_4x16_avx2(&z.p, a, m0, m1, sb == 0, acc);
  }
}

#define FEW(isa, fetch)                                                                                           \
  void tni_x86_gemm_f32_q8g128_w8g_4x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                              size_t m0, size_t m1, float *acc) {                                 \
    gemm_w8g_few(fetch, row_block, superblocks, a, m0, m1, acc);                                                  \
  }
FEW(avx2_few, false)
FEW(avx2_few_prefetch, true)
