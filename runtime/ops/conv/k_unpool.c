/* SPDX-License-Identifier: Apache-2.0
 *
 * MaxUnpool: every element goes where its index says, in a tensor of the size that the pooling had; a larger
 * output_shape holds that tensor in its corner. The rest is zero.
 */
#include "runtime/ops/conv/im2col.h"

/* Dims of the tensor that the indices count in. */
static tn_status pooled_from(const tni_kargs *a, int64_t *dims) {
  const tni_tensor *x = a->in[0];
  tni_window w;
  char why[128];
  if (!tni_window_read(a->node, x->rank - 2, NULL, &w, why, sizeof why))
    return tni_kfail(a, TN_E_INVALID, "MaxUnpool: %s", why);
  for (uint32_t d = 0; d < x->rank; d++) {
    dims[d] = x->dims[d];
    if (d >= 2) dims[d] = (x->dims[d] - 1) * w.stride[d - 2] + w.kernel[d - 2] - w.begin[d - 2] - w.end[d - 2];
    if (dims[d] < 0 || a->out[0]->dims[d] < dims[d])
      return tni_kfail(a, TN_E_INVALID, "MaxUnpool: output dim %u is %lld, less than %lld", d,
                       (long long)a->out[0]->dims[d], (long long)dims[d]);
  }
  return TN_OK;
}

tn_status tni_k_max_unpool(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *index = a->in[1];
  tni_tensor *y = a->out[0];
  const size_t size = tni_elem_size(x->dtype);
  int64_t dims[TN_MAX_RANK], total = 1;
  if (x->rank < 3 || y->rank != x->rank || tni_knumel(index) != tni_knumel(x))
    return tni_kfail(a, TN_E_INVALID, "MaxUnpool: ranks or sizes differ");
  const tn_status s = pooled_from(a, dims);
  if (s) return s;
  for (uint32_t d = 0; d < x->rank; d++) total *= dims[d];
  if (y->bytes) memset(y->data, 0, (size_t)y->bytes);
  tni_poll poll = {a->run, TNI_POLL};
  for (int64_t i = 0; i < tni_knumel(x) && !tni_poll_stop(&poll, 4); i++) {
    int64_t at = tni_get_i64(index, i), to = 0, stride = 1;
    if (at < 0 || at >= total)
      return tni_kfail(a, TN_E_INVALID, "MaxUnpool: index %lld of %lld", (long long)at, (long long)total);
    for (uint32_t d = x->rank; d-- > 0;) {
      to += at % dims[d] * stride;
      at /= dims[d];
      stride *= y->dims[d];
    }
    memcpy((char *)y->data + (size_t)to * size, (const char *)x->data + (size_t)i * size, size);
  }
  return TN_OK;
}
