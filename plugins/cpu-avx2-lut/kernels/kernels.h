/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the x86 CPU backend: shapes, layouts and the table that picks one.
 *
 * Names: op_dst_lhs_rhs_tile_isa. q8g32 / q8g128: activations quantized in groups of 32 or 128; w4g32 / w4g128: the
 * packed format of plugins/common/w4g.h. Each op has a scalar reference; every other variant gives the same bits as it
 * (the float operations and their order are stated in w4g.h and at tni_x86_matmul_fn). Kernels neither allocate nor
 * fail; they touch no memory beyond what is stated. None assumes alignment except of packed weights (64) and of scratch
 * (64).
 */
#ifndef TENON_CPU_AVX2_KERNELS_H
#define TENON_CPU_AVX2_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugins/common/chain.h"
#include "plugins/common/cpu.h"

/* Quantized activations of M rows, K padded with zeros to the format's superblock. */
typedef struct tni_x86_act {
  int8_t *q;     /* [M][q_stride], the first K_padded of each row are codes in -127..127 */
  float *scale;  /* [M][n_groups] */
  int32_t *zero; /* [M][n_subs]: what the zero point takes off a sub-group of 32 (group 32) or 64 (group 128) codes,
                  * two s16 in one word: -8 * sum of q[k] with k % 4 < 2, then with k % 4 >= 2. A sub-group's s16 sums
                  * start from it and stay within +-8 * 127 * 32. */
  size_t q_stride, n_groups, n_subs;
} tni_x86_act;

/* x[K] -> one row: q[K_padded], scale[K_padded / group], zero[K_padded / sub]. */
typedef void (*tni_x86_quant_fn)(const float *x, size_t K, size_t K_padded, int8_t *q, float *scale, int32_t *zero);

/* One row block (16 outputs) times row 0 of act -> acc[16]. */
typedef void (*tni_x86_gemv_fn)(const uint8_t *row_block, size_t superblocks, const tni_x86_act *a, float *acc);

/* One row block times rows [m0, m1) of act -> acc[m1 - m0][16]. */
typedef void (*tni_x86_gemm_fn)(const uint8_t *row_block, size_t superblocks, const tni_x86_act *a, size_t m0,
                                size_t m1, float *acc);

/* c[M,N] = a[M,K] * b[K,N], all f32, rows lda, ldb, ldc elements apart. Each element is one chain over k in order:
 * c = fma(a[m,k], b[k,n], c) from 0. */
typedef struct tni_x86_matmul {
  const float *a, *b;
  float *c;
  size_t lda, ldb, ldc, M, N, K;
} tni_x86_matmul;
typedef void (*tni_x86_matmul_fn)(const tni_x86_matmul *m);

/* Element-wise kernels (plugins/common/chain.h); their errors stand in chain_f32.h. */
typedef const tni_cm_chain_kernels *(*tni_x86_chain_fn)(void);

enum { TNI_X86_QUANT = 1, TNI_X86_GEMV = 2, TNI_X86_GEMM = 3, TNI_X86_MATMUL = 4, TNI_X86_CHAIN = 5 };

/* A variant. features: TNI_CPU_* that it needs. Later rows win over earlier ones. */
typedef struct tni_x86_kernel {
  uint32_t op, group, features, reserved; /* group 0: MATMUL, CHAIN */
  const char *name;
  void (*fn)(void); /* cast to the op's type */
} tni_x86_kernel;

/* The table, for tests and benchmarks that run every row. */
const tni_x86_kernel *tni_x86_kernels(uint32_t *n);
/* The best row for op and group that needs only bits of features; never NULL for op and group as above. */
const tni_x86_kernel *tni_x86_select(uint32_t op, uint32_t group, uint32_t features);

/* Scalar references. */
void tni_x86_quant_q8g32_f32_1x32_scalar(const float *x, size_t K, size_t K_padded, int8_t *q, float *scale,
                                         int32_t *zero);
void tni_x86_quant_q8g128_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, int8_t *q, float *scale,
                                           int32_t *zero);
void tni_x86_gemv_f32_q8g32_w4g32_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_x86_act *a,
                                              float *acc);
void tni_x86_gemv_f32_q8g128_w4g128_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_x86_act *a,
                                                float *acc);
void tni_x86_gemm_f32_q8g32_w4g32_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_x86_act *a,
                                              size_t m0, size_t m1, float *acc);
void tni_x86_gemm_f32_q8g128_w4g128_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_x86_act *a,
                                                size_t m0, size_t m1, float *acc);
void tni_x86_matmul_f32_f32_f32_1x1_scalar(const tni_x86_matmul *m);
const tni_cm_chain_kernels *tni_x86_chain_f32_1x1_scalar(void);

/* AVX2 + FMA + F16C. */
void tni_x86_quant_q8g32_f32_1x32_avx2(const float *x, size_t K, size_t K_padded, int8_t *q, float *scale,
                                       int32_t *zero);
void tni_x86_quant_q8g128_f32_1x128_avx2(const float *x, size_t K, size_t K_padded, int8_t *q, float *scale,
                                         int32_t *zero);
void tni_x86_gemv_f32_q8g32_w4g32_1x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_x86_act *a,
                                            float *acc);
void tni_x86_gemv_f32_q8g128_w4g128_1x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_x86_act *a,
                                              float *acc);
void tni_x86_gemm_f32_q8g32_w4g32_6x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_x86_act *a,
                                            size_t m0, size_t m1, float *acc);
void tni_x86_gemm_f32_q8g128_w4g128_6x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_x86_act *a,
                                              size_t m0, size_t m1, float *acc);
void tni_x86_matmul_f32_f32_f32_6x16_avx2(const tni_x86_matmul *m);
const tni_cm_chain_kernels *tni_x86_chain_f32_1x8_avx2(void);

#endif
