/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "runtime/conform/numbers/num.h"

double tni_cn_unit(uint32_t dtype) {
  return dtype == TN_DT_F16 ? 0x1p-11 : dtype == TN_DT_BF16 ? 0x1p-8 : dtype == TN_DT_F64 ? 0x1p-53 : 0x1p-24;
}

double tni_cn_tiny(uint32_t dtype, bool flush) {
  if (dtype == TN_DT_F16) return flush ? 0x1p-14 : 0x1p-24;
  if (dtype == TN_DT_BF16) return flush ? (double)FLT_MIN : 0x1p-133;
  return flush ? (double)FLT_MIN : 0x1p-149;
}

tni_cn_found tni_cn_compare(const float *got, const float *want, const float *bound, int64_t n) {
  tni_cn_found f = {.first = -1};
  for (int64_t i = 0; i < n; i++) {
    const double g = (double)got[i], w = (double)want[i], b = bound ? (double)bound[i] : 0;
    if (isnan(w) ? isnan(g) : g == w) continue;
    if (isinf(b)) continue;
    const double diff = fabs(g - w), ratio = b > 0 ? diff / b : INFINITY;
    if (diff <= b && !isnan(w)) {
      if (ratio > f.worst) f.worst = ratio;
      continue;
    }
    if (f.bad++ == 0) {
      f.first = i;
      f.got = g;
      f.want = w;
      f.bound = b;
    }
    f.worst = isnan(ratio) ? INFINITY : fmax(f.worst, ratio);
  }
  return f;
}

void tni_cn_complain(tni_cf *cf, const char *where, const tni_cn_found *f, int64_t n) {
  tni_cf_fail(cf, "results are outside the bound: %s: %lld of %lld elements, first [%lld]: %.9g instead of %.9g (allowed %.3g)",
              where, (long long)f->bad, (long long)n, (long long)f->first, f->got, f->want, f->bound);
}
