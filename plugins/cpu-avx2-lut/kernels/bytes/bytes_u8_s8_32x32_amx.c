/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes in AMX tiles: 32 rows of a times 32 outputs, then 16 rows, the rest by AVX-512. A row block's codes of
 * 64 k are a tile as they lie, and so are 64 k of 16 rows of a.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/bytes/bytes.h"

enum { TILES = 8, TILE_M = 16, TILE_BYTES = 64, TILE_SIZE = TILE_M * TILE_BYTES, ACC_BYTES = 32 * 4 };

typedef struct tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16]; /* of a row */
  uint8_t rows[16];
} tile_config;
_Static_assert(sizeof(tile_config) == 64, "as the instruction has it");

#ifndef TNI_X86_LOAD_TILES /* gcc's intrinsic says that it reads eight bytes; tests/kernels/amx_emulated.h has another */
#define TNI_X86_LOAD_TILES(c) __asm__ volatile("ldtilecfg %0" ::"m"(c))
#endif

void tni_x86_amx_begin(void) {
  tile_config c = {.palette = 1};
  for (size_t i = 0; i < TILES; i++) c.rows[i] = TILE_M, c.bytes[i] = TILE_BYTES;
  TNI_X86_LOAD_TILES(c);
}

void tni_x86_amx_end(void) { _tile_release(); }

/* What is read next, asked for line by line while tiles are multiplied. */
typedef struct ahead {
  const uint8_t *p;
  size_t lines; /* with each 64 k of a step of 16 rows */
} ahead;

__attribute__((always_inline)) static inline void ask(ahead *next, size_t steps) {
  for (size_t i = 0; i < next->lines * steps; i++) _mm_prefetch((const char *)next->p + i * 64, _MM_HINT_T1);
  next->p += next->lines * steps * 64;
}

static void bytes_32x32(const uint8_t *u, const uint8_t *v, size_t tiles, const uint8_t *a, size_t lda, ahead *next,
                        int32_t *acc) {
  const uint8_t *b = a + TILE_M * lda;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (size_t t = 0; t < tiles; t++, u += TILE_SIZE, v += TILE_SIZE, a += TILE_BYTES, b += TILE_BYTES) {
    _tile_loadd(6, u, TILE_BYTES);
    _tile_loadd(4, a, lda);
    _tile_dpbusd(0, 4, 6);
    _tile_loadd(7, v, TILE_BYTES);
    _tile_dpbusd(1, 4, 7);
    _tile_loadd(5, b, lda);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
    ask(next, 2);
  }
  _tile_stored(0, acc, ACC_BYTES);
  _tile_stored(1, acc + 16, ACC_BYTES);
  _tile_stored(2, acc + TILE_M * 32, ACC_BYTES);
  _tile_stored(3, acc + TILE_M * 32 + 16, ACC_BYTES);
}

static void bytes_16x32(const uint8_t *u, const uint8_t *v, size_t tiles, const uint8_t *a, size_t lda, ahead *next,
                        int32_t *acc) {
  _tile_zero(0);
  _tile_zero(1);
  for (size_t t = 0; t < tiles; t++, u += TILE_SIZE, v += TILE_SIZE, a += TILE_BYTES) {
    _tile_loadd(4, a, lda);
    _tile_loadd(6, u, TILE_BYTES);
    _tile_dpbusd(0, 4, 6);
    _tile_loadd(7, v, TILE_BYTES);
    _tile_dpbusd(1, 4, 7);
    ask(next, 1);
  }
  _tile_stored(0, acc, ACC_BYTES);
  _tile_stored(1, acc + 16, ACC_BYTES);
}

void tni_x86_bytes_s32_u8_s8_32x32_amx(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                       size_t rows, const tni_clt_next *next, int32_t *acc) {
  const uint8_t *u = blocks[0], *v = blocks[1];
  const size_t tiles = quads / 16, whole = rows / TILE_M * TILE_M, turns = whole / TILE_M * tiles;
  ahead more = {.p = a, .lines = 0};
  if (next && turns) more = (ahead){next->p, (next->bytes / 64 + turns - 1) / turns};
  size_t m = 0;
  tni_x86_amx_begin();
  for (; m + 2 * TILE_M <= whole; m += 2 * TILE_M) bytes_32x32(u, v, tiles, a + m * lda, lda, &more, acc + m * 32);
  if (m < whole) bytes_16x32(u, v, tiles, a + m * lda, lda, &more, acc + m * 32);
  tni_x86_amx_end();
  if (whole < rows)
    tni_x86_bytes_s32_u8_s8_12x32_avx512vnni(blocks, quads, a + whole * lda, lda, rows - whole, NULL, acc + whole * 32);
}
