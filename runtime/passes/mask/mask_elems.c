/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of small integer tensors that are known.
 */
#include "runtime/passes/mask/forms.h"

bool tni_mask_elems(tni_mask *m, tn_id id, tn_expr *e, uint32_t max, uint32_t *n) {
  const tni_value *v = tni_match_value(m->g, id);
  int64_t count, c;
  if (!v) return false;
  if (v->elems) {
    *n = v->n_elems;
    for (uint32_t i = 0; i < v->n_elems && i < max; i++)
      if ((e[i] = v->elems[i]) == TNI_EXPR_NONE) return false;
    return *n <= max;
  }
  if (!v->tensor || !v->tensor->data || !tni_mask_is_int(v->tensor->dtype)) return false;
  if (tni_dims_count(v->tensor->dims, v->tensor->rank, &count) != TN_OK || count > (int64_t)max) return false;
  *n = (uint32_t)count;
  for (uint32_t i = 0; i < *n; i++) {
    tni_tensor_to_i64(v->tensor, i, 1, &c);
    e[i] = tni_ex_const(m->x, c);
  }
  return true;
}
