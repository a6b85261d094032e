/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/npu-int8-sim/linear.h"

int64_t tni_npu_product_ns(const tni_npu_device *d, const tni_npu_linear *l) {
  npusim_shape shape[TN_FUSED_MAX_PARTS];
  for (uint32_t i = 0; i < l->n_weights; i++) shape[i] = (npusim_shape){d->set.chunk, l->N[i], l->K};
  return npusim_graph_ns(d->set.profile, shape, l->n_weights);
}

/* Quantize reads floats and writes bytes; merge reads sums, and the shadow's, and writes floats. */
int64_t tni_npu_cpu_part_ns(const tni_npu_device *d, const tni_npu_linear *l) {
  const double M = (double)d->set.chunk;
  double N = 0;
  for (uint32_t i = 0; i < l->n_weights; i++) N += (double)l->N[i];
  return npusim_cpu_ns(d->set.profile, 0, 5 * M * (double)l->K + (l->shadow ? 24 : 8) * M * N);
}
