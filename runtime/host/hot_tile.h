/* SPDX-License-Identifier: Apache-2.0
 *
 * The micro tile of 1 to TNI_MR rows and TNI_NR columns: `static void tile`, with the parameters of tni_hot's gemm.
 */
#ifndef TENON_HOST_HOT_TILE_H
#define TENON_HOST_HOT_TILE_H

#include "runtime/host/hot_lanes.h"
#include "runtime/host/hot_rows.h"

#define ACC(i) v8 c##i##0 = {0}, c##i##1 = {0};
#define ROW(i) const f32u *restrict a##i = a + (i)*lda;
#define STEP(i)                     \
  {                                 \
    const v8 s = all8(a##i[k]);     \
    c##i##0 = fma8(s, b0, c##i##0); \
    c##i##1 = fma8(s, b1, c##i##1); \
  }
#define OUT(i)                                      \
  {                                                 \
    v8u *restrict d = (v8u *)(void *)(c + (i)*ldc); \
    if (first) {                                    \
      d[0] = c##i##0;                               \
      d[1] = c##i##1;                               \
    } else {                                        \
      d[0] = d[0] + c##i##0;                        \
      d[1] = d[1] + c##i##1;                        \
    }                                               \
  }
#define MICRO(n, LIST)                                                                                        \
  static void micro_##n(int64_t kc, const f32u *restrict a, int64_t lda, const f32u *restrict b, int64_t ldb, \
                        float *restrict c, int64_t ldc, int first) {                                          \
    (void)lda;                                                                                                \
    (void)ldc;                                                                                                \
    LIST(ACC) LIST(ROW) for (int64_t k = 0; k < kc; k++) {                                                    \
      const v8u *p = (const v8u *)(const void *)(b + k * ldb);                                                \
      const v8 b0 = p[0], b1 = p[1];                                                                          \
      LIST(STEP)                                                                                              \
    }                                                                                                         \
    LIST(OUT)                                                                                                 \
  }
MICRO(1, L1)
MICRO(2, L2)
MICRO(3, L3)
MICRO(4, L4)
MICRO(5, L5)
MICRO(6, L6)

static void tile(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc,
                 int first) {
#define CALL(n) micro_##n(kc, a, lda, b, ldb, c, ldc, first)
  TNI_ROWS(mr, CALL)
#undef CALL
}

#endif
