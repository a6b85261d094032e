/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches for the oracle: the host's kernels take values as the graph has them, dense and of its dtype; the memory of a
 * cache has another order of axes, and may have another dtype.
 */
#include "runtime/host/internal.h"
#include "runtime/sched/reference.h"

/* Both directions, row by row of the view's last axis. dense is of the graph's dtype. */
static void move(const tni_sregion *q, uint32_t dtype, void *dense, float *row, bool to_cache) {
  const int64_t size = q->dims[3];
  int64_t at = 0;
  for (int64_t a = 0; a < q->dims[0]; a++)
    for (int64_t b = 0; b < q->dims[1]; b++)
      for (int64_t c = 0; c < q->dims[2]; c++, at += size) {
        const int64_t from = a * q->strides[0] + b * q->strides[1] + c * q->strides[2];
        for (int64_t d = 0; d < size; d++) {
          if (to_cache) {
            tni_load_f32(dtype, dense, at + d, 1, row);
            tni_store_f32(q->dtype, q->ptr, from + d * q->strides[3], 1, row);
          } else {
            tni_load_f32(q->dtype, q->ptr, from + d * q->strides[3], 1, row);
            tni_store_f32(dtype, dense, at + d, 1, row);
          }
        }
      }
}

tn_status tni_ref_state_load(tni_evaluation *ev, const tni_sregion *q, tni_tensor *t) {
  float row;
  t->data = tni_arena_alloc(ev->arena, t->bytes ? t->bytes : 1, 64);
  if (!t->data) return tni_fail_memory(ev->err, NULL);
  if (q->rank != 4 || !q->ptr) return tni_fail(ev->err, TN_E_INTERNAL, NULL, "the reference cannot reach a cache");
  move(q, t->dtype, t->data, &row, false);
  return TN_OK;
}

void tni_ref_state_store(const tni_sregion *q, const tni_tensor *t) {
  float row;
  if (q->rank == 4 && q->ptr) move(q, t->dtype, t->data, &row, true);
}
