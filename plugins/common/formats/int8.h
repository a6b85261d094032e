/* SPDX-License-Identifier: Apache-2.0
 *
 * int8: weights of products of bytes (tenon.MatMulIntegerToFloat), whole rows, for kernels that add four products of
 * bytes at a time. Exact for constants of int8 and uint8.
 *
 * params [unsigned]: 0 (offset 0), or 1 for uint8 (offset 128). w = (code + offset) * scale, code int8. Rows of int8 and uint8 constants keep
 * their bytes and have scale 1; other rows have scale absmax / 127, code round(w / scale), half away from zero, and no
 * offset.
 *
 * A blob is row blocks of 16 outputs, one after the other: codes [K_padded / 4][16 outputs][4 of k], K_padded a
 * multiple of 64 and codes past K 0; then int32 sums[16] of each output's codes, float scales[16] and int32
 * offsets[16], the offset or 0.
 */
#ifndef TENON_COMMON_FORMATS_INT8_H
#define TENON_COMMON_FORMATS_INT8_H

#include <tenon/plugin.h>

enum { TNI_INT8_ROWS = 16, TNI_INT8_STEP = 64, TNI_INT8_TAIL = 3 * 4 * TNI_INT8_ROWS };

typedef struct tni_int8_geometry {
  int64_t N, K, K_padded, row_block_bytes;
  uint64_t bytes;
} tni_int8_geometry;

/* TN_E_INVALID for dims below 1 or over 2^31, TN_E_LIMIT. */
TN_MUST_CHECK tn_status tni_int8_geometry_of(int64_t N, int64_t K, tni_int8_geometry *out);

extern const tn_format tni_int8_format;

#endif
