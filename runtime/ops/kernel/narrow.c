/* SPDX-License-Identifier: Apache-2.0
 *
 * Source of FLOAT8E8M0: OCP microscaling specification.
 */
#include "runtime/ops/kernel/narrow.h"

#include <math.h>

bool tni_is_small_float(uint32_t dtype) {
  return (dtype >= TN_DT_F8E4M3FN && dtype <= TN_DT_F8E5M2FNUZ) || dtype == TN_DT_F4E2M1 || dtype == TN_DT_F8E8M0;
}
bool tni_is_small_int(uint32_t dtype) {
  return dtype == TN_DT_U4 || dtype == TN_DT_I4 || dtype == TN_DT_U2 || dtype == TN_DT_I2;
}

static uint8_t encode_e8m0(const tni_narrowing *n, double x) {
  enum { BIAS = 127, MAX = 254, NONE = 255 };
  int e = 0;
  if (isnan(x)) return NONE;
  if (isinf(x)) return n->saturate ? MAX : NONE;
  const double m = frexp(fabs(x), &e); /* in [0.5, 1) */
  if (m == 0) return n->saturate ? 0 : NONE;
  if (n->round == TNI_ROUND_UP ? m > 0.5 : n->round == TNI_ROUND_NEAREST && m >= 0.75) e++;
  const int code = e - 1 + BIAS;
  if (code < 0) return n->saturate ? 0 : NONE;
  return (uint8_t)(code <= MAX ? code : n->saturate ? MAX : NONE);
}

uint8_t tni_narrow(const tni_narrowing *n, double x) {
  if (n->dtype == TN_DT_F8E8M0) return encode_e8m0(n, x);
  return (uint8_t)tni_f32_to_code(n->dtype, (float)x, n->saturate);
}

void tni_store_codes(uint32_t dtype, void *dst, int64_t first, int64_t n, const uint8_t *codes) {
  const uint32_t bits = tni_dtype_bits(dtype), per = 8 / bits, mask = (1u << bits) - 1;
  uint8_t *p = dst;
  if (bits == 8) {
    memcpy(p + first, codes, (size_t)n);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = first + i;
    const uint32_t shift = (uint32_t)(at % per) * bits;
    const uint32_t before = shift ? p[at / per] & ((1u << shift) - 1) : 0;
    p[at / per] = (uint8_t)(before | (codes[i] & mask) << shift);
  }
}
