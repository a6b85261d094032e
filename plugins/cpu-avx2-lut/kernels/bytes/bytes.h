/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bytes with exact sums, for models whose activations are quantized in the graph; shapes, layouts and names
 * are those of plugins/common/cpu/kernels/kernels.h.
 */
#ifndef TENON_CPU_AVX2_BYTES_H
#define TENON_CPU_AVX2_BYTES_H

#include "plugins/common/cpu/kernels/kernels.h"

/* How far ahead GEMVs for TNI_CPU_PREFETCH fetch weights. Sapphire Rapids: 75 % of what a pure read gets become 97 %.
 * Where there is AVX2 alone: Zen 3 reads 30 % faster with 2,048 than without, and up to a fifth slower with 4,096 than
 * with that.
 */
#if defined(__AVXVNNI__) || defined(__AVX512F__)
enum { TNI_X86_AHEAD = 4096 };
#else
enum { TNI_X86_AHEAD = 2048 };
#endif
/* Of the formats of lev.h with AVX-VNNI and AVX-512: a Zen 5 reads them up to 30 % faster than with half of it. */
enum { TNI_X86_LEV_AHEAD = 8192 };

void tni_x86_bytes_s32_u8_s8_6x16_avx2(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                       size_t rows, const tni_clt_next *next, int32_t *acc);
void tni_x86_bytes_s32_u8_s8_2x32_avxvnni(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                          size_t rows, const tni_clt_next *next, int32_t *acc);
void tni_x86_bytes_s32_u8_s8_12x32_avx512vnni(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                              size_t rows, const tni_clt_next *next, int32_t *acc);
/* Tiles: all of 16 rows of 64 bytes, between begin and end. */
void tni_x86_amx_begin(void);
void tni_x86_amx_end(void);
/* From 16 rows on. Rows past a multiple of 16 go by avx512vnni's. */
void tni_x86_bytes_s32_u8_s8_32x32_amx(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                       size_t rows, const tni_clt_next *next, int32_t *acc);

#endif
