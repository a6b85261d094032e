/* SPDX-License-Identifier: Apache-2.0
 *
 * AMX tiles in plain C: included before the AMX kernels (gcc -include), so that their rows of the kernel table can be
 * held to the scalar ones on a processor that has AVX-512 and no AMX. All tiles have 16 rows of 64 bytes.
 */
#ifndef TENON_TESTS_KERNELS_AMX_EMULATED_H
#define TENON_TESTS_KERNELS_AMX_EMULATED_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

static _Thread_local uint8_t amx_tile[8][16][64];

static inline void amx_load(int t, const void *from, size_t stride) {
  for (size_t i = 0; i < 16; i++) memcpy(amx_tile[t][i], (const uint8_t *)from + i * stride, 64);
}
static inline void amx_store(int t, void *to, size_t stride) {
  for (size_t i = 0; i < 16; i++) memcpy((uint8_t *)to + i * stride, amx_tile[t][i], 64);
}
/* sums += a [16, 64] times b [64, 16], whose row i has k = 4 i .. 4 i + 3 of each column side by side. */
static inline void amx_multiply(int sums, int a, int b, int a_has_sign) {
  int32_t s[16][16];
  memcpy(s, amx_tile[sums], sizeof s);
  for (int m = 0; m < 16; m++)
    for (int n = 0; n < 16; n++)
      for (int k = 0; k < 64; k++) {
        const uint8_t x = amx_tile[a][m][k];
        s[m][n] += (a_has_sign ? (int8_t)x : x) * (int8_t)amx_tile[b][k / 4][4 * n + k % 4];
      }
  memcpy(amx_tile[sums], s, sizeof s);
}
static inline void amx_nothing(void) {}

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_dpbusd
#define _tile_zero(t) memset(amx_tile[t], 0, sizeof amx_tile[t])
#define _tile_loadd(t, from, stride) amx_load(t, from, (size_t)(stride))
#define _tile_stored(t, to, stride) amx_store(t, to, (size_t)(stride))
#define _tile_dpbssd(s, a, b) amx_multiply(s, a, b, 1)
#define _tile_dpbusd(s, a, b) amx_multiply(s, a, b, 0)
#define _tile_release amx_nothing
#define TNI_X86_LOAD_TILES(c) ((void)(c))

#endif
