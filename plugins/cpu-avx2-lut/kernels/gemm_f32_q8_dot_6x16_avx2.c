/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of dot.h for the tiles of AVX2: units are unpacked to bytes, codes raised to a zero point of 8.
 */
#include <immintrin.h>

#include "plugins/common/dot.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

static inline __m256i load(const uint8_t *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }

static inline void put(uint8_t *out, __m256i codes, int raise) {
  _mm256_store_si256((__m256i *)(void *)out, _mm256_add_epi8(codes, _mm256_set1_epi8((char)raise)));
}

static inline __m256i cut(__m256i v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}

static inline void unpack_w2g(const uint8_t *u, uint8_t *out) {
  for (int half = 0; half < 64; half += 32) {
    const __m256i v = load(u + half);
    for (int j = 0; j < 4; j++) put(out + j * 64 + half, cut(v, 2 * j, 3), 6);
  }
}

static inline void unpack_w3g(const uint8_t *u, uint8_t *out) {
  for (int half = 0; half < 64; half += 32, out += 32) {
    const __m256i a = load(u + half), b = load(u + 64 + half), c = load(u + 128 + half);
    put(out, cut(a, 0, 7), 4);
    put(out + 64, cut(a, 3, 7), 4);
    put(out + 128, _mm256_or_si256(cut(a, 6, 3), cut(c, 4, 4)), 4);
    put(out + 192, cut(b, 0, 7), 4);
    put(out + 256, cut(b, 3, 7), 4);
    put(out + 320, _mm256_or_si256(cut(b, 6, 3), cut(c, 5, 4)), 4);
    put(out + 384, cut(c, 0, 7), 4);
    put(out + 448, cut(c, 3, 7), 4);
  }
}

typedef void (*unpack_fn)(const uint8_t *unit, uint8_t *out);

/* Superblocks of 256 k: units of `quads` quads in unit_bytes. */
__attribute__((always_inline)) static inline void gemm(unpack_fn unpack, size_t quads, size_t unit_bytes,
                                                       const uint8_t *block, size_t superblocks, const tni_clt_act *a,
                                                       size_t m0, size_t m1, float *acc) {
  enum { PER_PANEL = 2, QUADS = 64 };
  tni_x86_panel p;
  for (size_t sb = 0; sb < superblocks; sb += PER_PANEL) {
    const size_t n = superblocks - sb < PER_PANEL ? superblocks - sb : PER_PANEL;
    for (size_t s = 0; s < n; s++) {
      for (size_t j = 0; j < 4; j++)
        _mm256_store_ps(&p.scale[s * 2 + j / 2][j % 2 * 8],
                        _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)(block + j * 16))));
      block += TNI_DOT_SCALE_BYTES;
      for (size_t i = 0; i < QUADS; i += quads, block += unit_bytes) unpack(block, p.w[s * QUADS + i]);
    }
    p.groups = n * 2;
    p.first_group = sb * 2;
    tni_x86_tiles_g128_6x16_avx2(&p, a, m0, m1, sb == 0, acc);
  }
}

#define GEMM(id, quads, unit_bytes)                                                                                 \
  void tni_x86_gemm_f32_q8g128_##id##_6x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                size_t m0, size_t m1, float *acc) {                                 \
    gemm(unpack_##id, quads, unit_bytes, row_block, superblocks, a, m0, m1, acc);                                   \
  }
GEMM(w2g, 4, 64)
GEMM(w3g, 8, 192)
