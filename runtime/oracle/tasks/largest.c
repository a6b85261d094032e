/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest of a tensor's numbers.
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"
#include "runtime/oracle/tasks/evaluation.h"

double tni_ref_largest(const tni_tensor *t) {
  enum { SOME = 64 };
  int64_t count = 0;
  float v[SOME];
  double top = 0;
  if (tni_dims_count(t->dims, t->rank, &count) != TN_OK) return 0;
  for (int64_t at = 0; at < count; at += SOME) {
    const int64_t n = count - at < SOME ? count - at : SOME;
    tni_tensor_to_f32(t, at, n, v);
    for (int64_t i = 0; i < n; i++)
      if (isfinite(v[i]) && fabs((double)v[i]) > top) top = fabs((double)v[i]);
  }
  return top;
}
