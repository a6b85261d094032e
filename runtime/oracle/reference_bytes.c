/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oracle/reference_bytes.h"

#include <stdlib.h>

#include <tenon/ops.h>

enum { FEW = 2, ONE_OF = 32 };

bool tni_reference_rounds(uint32_t op) {
  switch (op) {
    case TN_OP_QUANTIZE_LINEAR:
    case TN_OP_DYNAMIC_QUANTIZE_LINEAR:
    case TN_OP_QLINEAR_MATMUL:
    case TN_OP_QLINEAR_CONV:
    case TN_OP_QLINEAR_GEMM:
    case TN_OP_QLINEAR_BINARY:
    case TN_OP_QLINEAR_GLOBAL_AVERAGE_POOL:
      return true;
    default:
      return false;
  }
}

int64_t tni_reference_halves(int64_t n) { return FEW + n / ONE_OF; }

bool tni_reference_codes(const void *got, const void *want, bool has_sign, int64_t n, int *most) {
  const uint8_t flip = has_sign ? 0x80 : 0, *g = got, *w = want;
  int64_t off = 0;
  *most = 0;
  for (int64_t i = 0; i < n; i++) {
    const int d = abs((g[i] ^ flip) - (w[i] ^ flip));
    off += d != 0;
    if (d > *most) *most = d;
  }
  return *most <= 1 && off <= tni_reference_halves(n);
}
