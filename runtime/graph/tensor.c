/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: whether their parts fit each other, and their elements as floats, dense or quantized.
 */
#include <stdio.h>

#include "runtime/graph/priv.h"
#include "runtime/graph/quantized.h"

tn_status tni_tensor_check(const tni_tensor *t, char *why, size_t n) {
  int64_t count;
  uint64_t bytes, have = t->data || t->quantized ? t->bytes : 0;
  if (t->rank > TN_MAX_RANK) {
    snprintf(why, n, "rank %u is above %d", t->rank, TN_MAX_RANK);
    return TN_E_LIMIT;
  }
  if (tni_dims_count(t->dims, t->rank, &count) != TN_OK) {
    snprintf(why, n, "its dims are negative or their product overflows");
    return TN_E_LIMIT;
  }
  if (t->dtype == TN_DT_STRING) return TN_OK;
  if (tni_dtype_bytes(t->dtype, count, &bytes) != TN_OK) {
    snprintf(why, n, "no size is known for %lld elements of dtype %u", (long long)count, t->dtype);
    return TN_E_INVALID;
  }
  if (have == bytes) return TN_OK;
  snprintf(why, n, "%llu bytes of elements, its dims need %llu", (unsigned long long)have, (unsigned long long)bytes);
  return TN_E_INVALID;
}

void tni_tensor_to_f32(const tni_tensor *t, int64_t first, int64_t n, float *dst) {
  if (t->quantized && !t->data)
    tni_quantized_read(t->quantized, first, n, dst);
  else
    tni_elems_to_f32(t->dtype, t->data, first, n, dst);
}
