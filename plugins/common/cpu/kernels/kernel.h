/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the CPU backends: what they take, and the table from which one is picked.
 *
 * Names: op_dst_lhs_rhs_tile_isa. q8g32 / q8g128: activations quantized in groups of 32 or 128 (q8g32s: with the start
 * words of TNI_CLT_ROWS_S32, TILES8 or TILES16, which tiles of 1, 8 or 16 rows tell apart; q8g32n: TNI_CLT_ROWS_SUM;
 * q8g32k: in TNI_CLT_SLABS);
 * w4g32 / w4g128: the packed format of plugins/common/formats/w4g.h. Each op has a scalar reference (here); every other
 * variant gives the same bits as it (the float operations and their order are stated in w4g.h and at
 * tni_clt_matmul_fn). Kernels neither allocate nor fail; they touch no memory beyond what is stated. None assumes
 * alignment except of packed weights (64) and of scratch (64).
 *
 * Products over packed weights have two steps: a prologue (TNI_CLT_QUANT) makes of each row of x what the kernels of
 * the format read, once for all products that share x; GEMV and GEMM take it and one row block of weights.
 */
#ifndef TENON_COMMON_CPU_KERNELS_KERNEL_H
#define TENON_COMMON_CPU_KERNELS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/kernels/cpu_features.h"

#define TNI_CLT_ROWS 16 /* outputs of a row block, whatever the format */

/* How a prologue lays its rows out. A prologue and the kernels that it serves name the same layout. */
enum {
  /* Row by row. zero: a word of two s16 for each sub-group of 32 (group 32) or 64 (group 128) codes, which is what the
   * zero point takes off: -8 * sum of q[k] with k % 4 < 2, then with k % 4 >= 2. A sub-group's s16 sums start from it
   * and stay within +-8 * 127 * 32. */
  TNI_CLT_ROWS_S16 = 1,
  /* Row by row. zero: four equal words for each group, TNI_CLT_START - 8 * sum of q: s32 sums that start from it are,
   * read as floats, 1.5 * 2^23 + sum. */
  TNI_CLT_ROWS_S32 = 2,
  /* Tiles of 8 rows, [K_padded / 8][8 rows][8 codes]. Each group has 16 scales and 16 start words, for rows
   * 0 0 1 1 2 2 .. 7 7 of the tile. What belongs to rows beyond M is whatever was there. */
  TNI_CLT_TILES8 = 3,
  /* Row by row: tables of all quads, 4 bytes for each element, and one word for each group
     (plugins/common/formats/lut.h). */
  TNI_CLT_TABLES = 4,
  /* Row by row: codes in 16 bits; no words. */
  TNI_CLT_Q16 = 5,
  /* Row by row. zero: one word for each group, -8 * sum of q: what a zero point of 8 takes off. */
  TNI_CLT_ROWS_SUM = 6,
  /* Slabs of 64 k, [K_padded / 64][M][64 codes], and scales [groups][M], so that many rows of few k lie side by side.
   * No words. */
  TNI_CLT_SLABS = 7,
  /* Row by row: codes q of nine bits as two bytes h = floor(q / 2) and l = q - 2 h. For each 16 k first all h, then all
   * l. No words. */
  TNI_CLT_HALVES = 8,
  /* Tiles of 8 rows of the same, [K_padded / 8][2][8 rows][8 bytes] with the 16 k of each run as above; scales as
   * TILES8 has them. No words. */
  TNI_CLT_HALVES8 = 9,
  /* Tiles of 16 rows, [K_padded / 4][16 rows][4 codes]. Each group has 16 scales and 16 start words, one for each row.
   * What belongs to rows beyond M is whatever was there. */
  TNI_CLT_TILES16 = 10,
  /* Tiles of 16 rows of halves, [K_padded / 16][h, l][4][16 rows][4 bytes]; scales as TILES16 has them. No words. */
  TNI_CLT_HALVES16 = 11
};
enum { TNI_CLT_SLAB_K = 64 };
#define TNI_CLT_START 0x4b400000

/* Quantized activations of M rows, K padded with zeros to the format's superblock. Strides are elements from one row to
 * the next, or from one tile of rows to the next; of slabs also from a slab or a group's scales to the next. */
typedef struct tni_clt_act {
  int8_t *q;    /* codes in -127..127 */
  float *scale; /* a row has one for each group */
  /* NULL, or [M]: a scale for each row, and those of groups are 1. What GEMV and GEMM give is then to be multiplied
   * with it, and they may rely on the 1. Prologues of codes in 8 bits. */
  float *row;
  float runs; /* of codes for tables: what the largest quad of a group sums up to (TNI_LUT_WIDE or _NARROW) */
  int32_t *zero;
  size_t q_stride, s_stride, z_stride;
  size_t slab_stride, group_stride; /* 0 but for TNI_CLT_SLABS */
  /* How the weights are stored that meet it, of grids: bits of a scale and of a zero point (formats/grid.h). */
  uint32_t scale_bits, zero_bits;
} tni_clt_act;

/* Room for the rows of one stride, in elements. */
typedef struct tni_clt_act_room {
  uint32_t layout;
  size_t rows, q_stride, s_stride, z_stride;
} tni_clt_act_room;
/* K_padded: at most 2^31 and a multiple of 2 * group. */
tni_clt_act_room tni_clt_act_room_of(uint32_t layout, size_t K_padded, size_t group);
/* M rows in memory that has room for them: ceil(M / room->rows) times what it says. */
tni_clt_act tni_clt_act_of(const tni_clt_act_room *room, size_t M, void *q, void *scale, void *zero);

/* A scale whose `steps` are `largest`, and its reciprocal; both 0 where the scale would be denormal, which is declared.
 */
typedef struct tni_clt_scale {
  float of, inv;
} tni_clt_scale;
static inline tni_clt_scale tni_clt_scale_of(float largest, float steps) {
  const float s = largest / steps;
  return s < 0x1p-126f ? (tni_clt_scale){0, 0} : (tni_clt_scale){s, steps / largest};
}
#define TNI_CLT_STEPS 127.0f /* of codes in 8 bits */

/* x[K] -> row m of a: all of its K_padded codes, its scales and zero words. */
typedef void (*tni_clt_quant_fn)(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);

/* One row block (16 outputs) times row 0 of act -> acc[16]. */
typedef void (*tni_clt_gemv_fn)(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, float *acc);

/* One row block times rows [m0, m1) of act -> acc[m1 - m0][16]; m0 is a multiple of 8. */
typedef void (*tni_clt_gemm_fn)(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, size_t m0,
                                size_t m1, float *acc);

/* The same for two row blocks, the second block_bytes after the first: acc[i][m1 - m0][16] is block i's. */
typedef void (*tni_clt_gemm2_fn)(const uint8_t *row_blocks, size_t block_bytes, size_t superblocks,
                                 const tni_clt_act *a, size_t m0, size_t m1, float *const *acc);

/* c[M,N] = a[M,K] * b[K,N], all f32, rows lda, ldb, ldc elements apart. Each element is one chain over k in order:
 * c = fma(a[m,k], b[k,n], c) from 0. */
typedef struct tni_clt_matmul {
  const float *a, *b;
  float *c;
  size_t lda, ldb, ldc, M, N, K;
} tni_clt_matmul;
typedef void (*tni_clt_matmul_fn)(const tni_clt_matmul *m);

/* Sums of bytes: acc[rows][32] = rows of a (uint8, lda apart) times two row blocks of int8 codes (formats/int8.h),
 * `quads` times four of k; modulo 2^32. quads is a multiple of 16; the two blocks may be one. next, or NULL: what will
 * be read after this call; kernels of many rows may ask for it meanwhile, and read nothing of it. */
typedef struct tni_clt_next {
  const uint8_t *p;
  size_t bytes;
} tni_clt_next;
typedef void (*tni_clt_bytes_fn)(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda, size_t rows,
                                 const tni_clt_next *next, int32_t *acc);

/* Element-wise kernels (plugins/common/base/chain.h); their errors stand in chain_f32.h. */
typedef const tni_cm_chain_kernels *(*tni_clt_chain_fn)(void);

/* GEMM2 is optional: where it wins over GEMM, and reads the same layout. */
enum {
  TNI_CLT_QUANT = 1,
  TNI_CLT_GEMV = 2,
  TNI_CLT_GEMM = 3,
  TNI_CLT_MATMUL = 4,
  TNI_CLT_CHAIN = 5,
  TNI_CLT_GEMM2 = 6,
  TNI_CLT_BYTES = 7
};
/* Weight formats; ANY: MATMUL, CHAIN, BYTES. Plain and paired forms of one kind are one format: a backend has one of
 * them. */
enum {
  TNI_CLT_ANY = 0,
  TNI_CLT_W4G = 1,
  TNI_CLT_LUT1 = 2,
  TNI_CLT_LUT2 = 3,
  TNI_CLT_LUT3 = 4,
  TNI_CLT_LUT4 = 5,
  TNI_CLT_LUTT = 6,
  TNI_CLT_W8G = 7,
  TNI_CLT_W3G = 8,
  TNI_CLT_W2G = 9,
  TNI_CLT_W1G = 10,
  TNI_CLT_TERN20 = 11,
  TNI_CLT_TERN17 = 12,
  TNI_CLT_PAL16 = 13,
  TNI_CLT_GRID2 = 14,
  TNI_CLT_GRID4 = 15,
  TNI_CLT_GRID8 = 16,
  TNI_CLT_LEV4 = 17,
  TNI_CLT_LEV4S = 18,
  TNI_CLT_LEV3 = 19,
  TNI_CLT_LEV2 = 20,
  TNI_CLT_LEV1 = 21
};

/* Beside TNI_CPU_* in features: rows that add table entries by averages (plugins/common/formats/lut.h), for who asks
 * for them.
 */
#define TNI_CLT_AVERAGES 0x40000000u
/* Likewise: rows that multiply codes for tables which fit a byte. */
#define TNI_CLT_NARROW 0x20000000u

/* A variant. Later rows win over earlier ones. */
typedef struct tni_clt_kernel {
  uint32_t op, format; /* TNI_CLT_* */
  uint32_t group;      /* of the format; 0: ANY */
  uint32_t features;   /* TNI_CPU_* that it needs, TNI_CLT_AVERAGES */
  uint32_t min_m;      /* fewest rows of x that it is for: QUANT, GEMM, GEMM2 */
  uint32_t layout;     /* QUANT: what it makes; GEMV, GEMM: what they read; 0: none, or any that is row by row */
  const char *name;
  void (*fn)(void); /* cast to the op's type */
} tni_clt_kernel;

/* All variants of a backend. */
typedef struct tni_clt_table {
  const tni_clt_kernel *rows;
  uint32_t n, reserved;
} tni_clt_table;

/* The best row for M rows of x that needs only bits of features; NULL where there is none. t may be NULL. */
const tni_clt_kernel *tni_clt_select(const tni_clt_table *t, uint32_t op, uint32_t format, uint32_t group,
                                     uint32_t features, int64_t M);

/* Scalar references. */
void tni_clt_quant_q8g32_f32_1x32_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g128_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g16s_f32_1x16_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g32s_f32_1x32_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g64s_f32_1x64_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g128s_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g16s_f32_8x16_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g16s_f32_16x16_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g32s_f32_8x32_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g32s_f32_16x32_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g64s_f32_8x64_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g64s_f32_16x64_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g128s_f32_8x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g128s_f32_16x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g16n_f32_1x16_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g64n_f32_1x64_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g32n_f32_1x32_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g128n_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g32k_f32_1x32_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q8g128k_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
/* Narrow codes for tables (plugins/common/formats/lut.h), in the layouts of q8g128s, q8g128n and q8g128k. */
void tni_clt_quant_r8g128s_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_r8g128s_f32_8x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_r8g128s_f32_16x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_r8g128n_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_r8g128k_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_gemv_f32_q8g32_w4g32_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              float *acc);
void tni_clt_gemv_f32_q8g128_w4g128_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                                float *acc);
void tni_clt_gemm_f32_q8g32_w4g32_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              size_t m0, size_t m1, float *acc);
void tni_clt_gemm_f32_q8g128_w4g128_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                                size_t m0, size_t m1, float *acc);
void tni_clt_matmul_f32_f32_f32_1x1_scalar(const tni_clt_matmul *m);
const tni_cm_chain_kernels *tni_clt_chain_f32_1x1_scalar(void);
void tni_clt_bytes_s32_u8_s8_1x32_scalar(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                         size_t rows, const tni_clt_next *next, int32_t *acc);

/* The rows of a table that every backend starts with. */
#define TNI_CLT_ROW(op, format, group, features, min_m, layout, prefix, name) \
  { op, format, group, features, min_m, layout, #name, (void (*)(void))prefix##name }
#define TNI_CLT_SCALAR_ROWS                                                                                          \
  TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 32, 0, 0, TNI_CLT_ROWS_S16, tni_clt_, quant_q8g32_f32_1x32_scalar),        \
      TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 128, 0, 0, TNI_CLT_ROWS_S16, tni_clt_, quant_q8g128_f32_1x128_scalar), \
      TNI_CLT_ROW(TNI_CLT_GEMV, TNI_CLT_W4G, 32, 0, 0, 0, tni_clt_, gemv_f32_q8g32_w4g32_1x16_scalar),               \
      TNI_CLT_ROW(TNI_CLT_GEMV, TNI_CLT_W4G, 128, 0, 0, 0, tni_clt_, gemv_f32_q8g128_w4g128_1x16_scalar),            \
      TNI_CLT_ROW(TNI_CLT_GEMM, TNI_CLT_W4G, 32, 0, 0, 0, tni_clt_, gemm_f32_q8g32_w4g32_1x16_scalar),               \
      TNI_CLT_ROW(TNI_CLT_GEMM, TNI_CLT_W4G, 128, 0, 0, 0, tni_clt_, gemm_f32_q8g128_w4g128_1x16_scalar),            \
      TNI_CLT_ROW(TNI_CLT_MATMUL, TNI_CLT_ANY, 0, 0, 0, 0, tni_clt_, matmul_f32_f32_f32_1x1_scalar),                 \
      TNI_CLT_ROW(TNI_CLT_BYTES, TNI_CLT_ANY, 0, 0, 0, 0, tni_clt_, bytes_s32_u8_s8_1x32_scalar),                    \
      TNI_CLT_ROW(TNI_CLT_CHAIN, TNI_CLT_ANY, 0, 0, 0, 0, tni_clt_, chain_f32_1x1_scalar)

#endif
