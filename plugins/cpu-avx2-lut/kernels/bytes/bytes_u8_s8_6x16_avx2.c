/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes in 16 bits: VPMADDUBSW would saturate, so both sides are widened and VPMADDWD adds two exact products.
 * A lane is an output; of four k its first half has k and k + 2, its second k + 1 and k + 3, which masks and shifts
 * make of bytes. From four rows on weights are widened once for all of them, a part of K at a time that stays in the
 * first cache, and six rows times 16 outputs stand in registers. Fewer rows widen weights as they come from memory, and
 * ask for them ahead.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/bytes/bytes.h"

/* In quads: a part of K. In bytes: a quad of a block. In vectors: a widened quad. */
enum { PART = 64, LINE = 64, WIDE = 4, TILE_M = 6, FEW = 3, BLOCKS = 2 };

typedef struct wide_rows {
  _Alignas(32) int32_t even[TILE_M][PART], odd[TILE_M][PART];
} wide_rows;

static void widen_row(const uint8_t *a, size_t quads, int32_t *even, int32_t *odd) {
  for (size_t q = 0; q < quads; q += 8) {
    const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(a + 4 * q));
    _mm256_store_si256((__m256i *)(void *)(even + q), _mm256_and_si256(v, _mm256_set1_epi16(0xff)));
    _mm256_store_si256((__m256i *)(void *)(odd + q), _mm256_srli_epi16(v, 8));
  }
}

__attribute__((always_inline)) static inline __m256i load(const void *p) {
  return _mm256_load_si256((const __m256i *)p);
}
__attribute__((always_inline)) static inline __m256i evens(__m256i w) {
  return _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8);
}
__attribute__((always_inline)) static inline __m256i odds(__m256i w) { return _mm256_srai_epi16(w, 8); }

static void widen_block(const uint8_t *w, size_t quads, __m256i *wide) {
  for (size_t q = 0; q < quads; q++, w += LINE, wide += WIDE) {
    const __m256i u = load(w), v = load(w + 32);
    wide[0] = evens(u), wide[1] = evens(v);
    wide[2] = odds(u), wide[3] = odds(v);
  }
}

#define START(i)                                                           \
  int32_t *const at##i = acc + (i)*BLOCKS * TNI_CLT_ROWS;                  \
  __m256i s##i, t##i;                                                      \
  if (first)                                                               \
    s##i = t##i = _mm256_setzero_si256();                                  \
  else {                                                                   \
    s##i = _mm256_loadu_si256((const __m256i *)(const void *)at##i);       \
    t##i = _mm256_loadu_si256((const __m256i *)(const void *)(at##i + 8)); \
  }
#define STORE(i)                                       \
  _mm256_storeu_si256((__m256i *)(void *)at##i, s##i); \
  _mm256_storeu_si256((__m256i *)(void *)(at##i + 8), t##i);
/* In assembly, so that products are added one by one and sums stay where they are. */
#define STEP(i, which)                                               \
  {                                                                  \
    __m256i x, d;                                                    \
    __asm__(                                                         \
        "vpbroadcastd %[a], %[x]\n\t"                                \
        "vpmaddwd %[u], %[x], %[d]\n\t"                              \
        "vpmaddwd %[v], %[x], %[x]\n\t"                              \
        "vpaddd %[d], %[s], %[s]\n\t"                                \
        "vpaddd %[x], %[t], %[t]"                                    \
        : [s] "+x"(s##i), [t] "+x"(t##i), [x] "=&x"(x), [d] "=&x"(d) \
        : [a] "m"(a->which[i][q]), [u] "x"(u), [v] "x"(v));          \
  }
#define EVEN(i) STEP(i, even)
#define ODD(i) STEP(i, odd)
#define EACH1(F) F(0)
#define EACH2(F) EACH1(F) F(1)
#define EACH3(F) EACH2(F) F(2)
#define EACH4(F) EACH3(F) F(3)
#define EACH5(F) EACH4(F) F(4)
#define EACH6(F) EACH5(F) F(5)

/* Rows of the part times a widened block; not the first part: onto acc. */
#define TILE(M)                                                                                        \
  static void tile_##M(const __m256i *w, const wide_rows *a, size_t quads, bool first, int32_t *acc) { \
    EACH##M(START) for (size_t q = 0; q < quads; q++, w += WIDE) {                                     \
      {                                                                                                \
        const __m256i u = w[0], v = w[1];                                                              \
        EACH##M(EVEN)                                                                                  \
      }                                                                                                \
      const __m256i u = w[2], v = w[3];                                                                \
      EACH##M(ODD)                                                                                     \
    }                                                                                                  \
    EACH##M(STORE)                                                                                     \
  }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)

/* The same over codes as they are stored. */
#define CODES(M)                                                                                        \
  static void codes_##M(const uint8_t *w, const wide_rows *a, size_t quads, bool first, int32_t *acc) { \
    EACH##M(START) for (size_t q = 0; q < quads; q++, w += LINE) {                                      \
      _mm_prefetch((const char *)w + TNI_X86_AHEAD, _MM_HINT_T0);                                       \
      const __m256i low = load(w), high = load(w + 32);                                                 \
      {                                                                                                 \
        const __m256i u = evens(low), v = evens(high);                                                  \
        EACH##M(EVEN)                                                                                   \
      }                                                                                                 \
      const __m256i u = odds(low), v = odds(high);                                                      \
      EACH##M(ODD)                                                                                      \
    }                                                                                                   \
    EACH##M(STORE)                                                                                      \
  }
CODES(1)
CODES(2)
CODES(3)

typedef void (*tile_fn)(const __m256i *w, const wide_rows *a, size_t quads, bool first, int32_t *acc);
typedef void (*codes_fn)(const uint8_t *w, const wide_rows *a, size_t quads, bool first, int32_t *acc);
static const tile_fn tiles[TILE_M + 1] = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};
static const codes_fn codes[FEW + 1] = {NULL, codes_1, codes_2, codes_3};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* A block is read to its end before the other, so that one stream comes from memory. */
static void few_rows(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda, size_t rows,
                     int32_t *acc) {
  wide_rows x;
  for (size_t b = 0; b < BLOCKS; b++)
    for (size_t q = 0; q < quads; q += PART) {
      const size_t part = least(PART, quads - q);
      for (size_t m = 0; m < rows; m++) widen_row(a + m * lda + 4 * q, part, x.even[m], x.odd[m]);
      codes[rows](blocks[b] + q * LINE, &x, part, q == 0, acc + b * TNI_CLT_ROWS);
    }
}

void tni_x86_bytes_s32_u8_s8_6x16_avx2(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                       size_t rows, const tni_clt_next *next, int32_t *acc) {
  (void)next;
  if (rows <= FEW) {
    few_rows(blocks, quads, a, lda, rows, acc);
    return;
  }
  __m256i w[BLOCKS][PART * WIDE];
  wide_rows x;
  for (size_t q = 0; q < quads; q += PART) {
    const size_t part = least(PART, quads - q);
    for (size_t b = 0; b < BLOCKS; b++) widen_block(blocks[b] + q * LINE, part, w[b]);
    for (size_t m = 0; m < rows; m += TILE_M) {
      const size_t of = least(TILE_M, rows - m);
      for (size_t i = 0; i < of; i++) widen_row(a + (m + i) * lda + 4 * q, part, x.even[i], x.odd[i]);
      for (size_t b = 0; b < BLOCKS; b++)
        tiles[of](w[b], &x, part, q == 0, acc + m * BLOCKS * TNI_CLT_ROWS + b * TNI_CLT_ROWS);
    }
  }
}
