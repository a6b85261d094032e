/* SPDX-License-Identifier: Apache-2.0
 *
 * One answer per node. A yes holds under the constraint that there are exactly as many rows as a chunk has (of each
 * sequence of a batch).
 */
#include <stdio.h>

#include "plugins/common/answer.h"
#include "plugins/npu-int8-sim/linear.h"

static tn_claim yes(const tni_npu_device *d, const tni_npu_linear *l) {
  tn_claim c = {.h = TN_HDR(tn_claim),
                .verdict = TN_YES,
                .n_constraints = l->n_rows,
                .constraints = &l->rows,
                .format = &tni_w8a8_format,
                .params = l->params,
                .n_params = 2,
                .cost_ns = (double)(tni_npu_product_ns(d, l) + tni_npu_cpu_part_ns(d, l))};
  for (uint32_t i = 0; i < l->n_weights; i++) {
    c.macs += (double)d->set.chunk * (double)l->N[i] * (double)l->K;
    c.weight_bytes += tni_w8a8_codes(l->N[i], l->K) + TNI_W8_TRAILER;
  }
  return c;
}

tn_status tni_npu_claim(tn_device *dev, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink,
                        tn_error *err) {
  const tni_npu_device *d = (const tni_npu_device *)dev;
  tni_cm_mem mem = {.host = d->host};
  (void)at; /* shapes are static: costs do not depend on dims */
  const tni_npu_answer *a = tni_npu_read(d, g, &mem);
  tn_status st = a ? TN_OK : tni_cm_fail(err, TN_E_NO_MEMORY, TNI_NPU_NAME, "out of memory");
  for (uint32_t i = 0; st == TN_OK && i < g->n_nodes; i++) {
    if (!a[i].linear) {
      st = tni_cm_refuse(sink, i, a[i].reason, a[i].text);
      continue;
    }
    const tn_claim c = yes(d, a[i].linear);
    st = sink->node(sink->ctx, i, &c);
  }
  tni_cm_free(&mem);
  return st;
}
