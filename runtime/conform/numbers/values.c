/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "runtime/conform/numbers/num.h"

const char *tni_cn_pattern(int p) {
  static const char *const names[] = {"normal", "zero",    "max",        "alternating", "denormal",
                                      "huge",   "outlier", "tiny_mixed", "one_sign",    "neg_zero",
                                      "ties",   "equal",   "tiny_scale"};
  return p >= 0 && p < TNI_CN_PATTERNS ? names[p] : "one-hot";
}

/* Halves of the steps of a group whose largest element is 127: what a quantizer to int8 rounds by its rule. */
static float tie_value(size_t i, int64_t group, tni_cf_rng *r) {
  if (i % (size_t)group == 0) return 127;
  return (float)((int64_t)(tni_cf_rng_next(r) % 253) - 126) + 0.5f;
}

static float pattern_value(int pattern, size_t i, int64_t group, double top, tni_cf_rng *r) {
  const float u = (float)tni_cf_rng_normal(r);
  switch (pattern) {
    case TNI_CN_ZERO:
      return 0;
    case TNI_CN_MAX:
      return tni_cf_rng_next(r) & 1 ? 1.0f : -1.0f;
    case TNI_CN_ALTERNATING:
      return i & 1 ? -1.0f : 1.0f;
    case TNI_CN_DENORMAL:
      return u * 1e-41f;
    case TNI_CN_HUGE:
      return u * (float)fmin(1e25, top / 8);
    case TNI_CN_OUTLIER:
      return i % (size_t)group == (size_t)group / 3 ? 100.0f * u : 0.1f * u;
    case TNI_CN_TINY_MIXED:
      return ldexpf(u, -(int)(tni_cf_rng_next(r) % 140));
    case TNI_CN_ONE_SIGN:
      return -1.0f - 0.001f * fabsf(u);
    case TNI_CN_NEG_ZERO:
      return tni_cf_rng_next(r) & 1 ? -0.0f : u;
    case TNI_CN_TIES:
      return tie_value(i, group, r);
    case TNI_CN_EQUAL:
      return (float)(1 + i / (size_t)group % 7) * ((i / (size_t)group) & 1 ? -0.37f : 0.37f);
    case TNI_CN_TINY_SCALE:
      return u * 5e-37f;
    default:
      return u;
  }
}

void tni_cn_fill(float *x, size_t n, int pattern, int64_t group, double top, tni_cf_rng *r) {
  if (group < 1) group = 1;
  for (size_t i = 0; i < n; i++) {
    const float v = pattern_value(pattern, i, group, top, r);
    x[i] = (double)fabsf(v) > top ? copysignf((float)top, v) : v;
  }
}
