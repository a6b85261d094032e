/* SPDX-License-Identifier: Apache-2.0
 *
 * NonMaxSuppression: [selected, 3] int64. The shape rule has counted.
 */
#include "runtime/ops/kernel/kernel.h"
#include "runtime/shape/dims/dims.h"

tn_status tni_k_non_max_suppression(const tni_kargs *a) {
  tni_tensor *y = a->out[0];
  tni_poll poll = {a->run, TNI_POLL};
  tni_nms n;
  const char *why;
  if (!tni_nms_read(a->node, a->in, a->n_in, &n, &why)) return tni_kfail(a, TN_E_INVALID, "NonMaxSuppression: %s", why);
  if (y->rank != 2 || y->dims[1] != 3)
    return tni_kfail(a, TN_E_INVALID, "NonMaxSuppression: the output has other dims");
  n.poll = &poll;
  if (tni_nms_select(&n, a->scratch, y->data, y->dims[0]) != y->dims[0])
    return tni_kfail(a, TN_E_INTERNAL, "NonMaxSuppression: other boxes than were counted");
  return TN_OK;
}
