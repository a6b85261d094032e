/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and numbers as JSON can hold them, and the largest of a tensor's.
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"
#include "runtime/oracle/tasks/evaluation.h"

json_t *tni_text_json(const char *s) {
  json_t *j = json_string(s ? s : "");
  return j ? j : json_string("(not UTF-8)");
}

double tni_json_number(double v) { return isfinite(v) ? v : 1e30; }

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
