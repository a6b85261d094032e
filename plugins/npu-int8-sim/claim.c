/* SPDX-License-Identifier: Apache-2.0
 *
 * One answer per node. A yes holds under the constraint that there are exactly as many rows as a chunk has, or as some
 * chunks have (of each sequence of a batch).
 */
#include <stdio.h>

#include "plugins/common/base/base.h"
#include "plugins/npu-int8-sim/linear.h"

static tn_claim claim_of_linear(const tni_npu_device *d, const tni_npu_linear *l, const tn_value_set *lengths) {
  tn_claim c = {.h = TN_HDR(tn_claim),
                .verdict = TN_YES,
                .n_constraints = l->n_rows,
                .constraints = &l->rows,
                .format = &tni_w8a8_format,
                .params = l->params,
                .n_params = 2,
                .sets = lengths,
                .n_sets = l->rows.rel == TN_REL_IN,
                .cost_ns = (double)(tni_npu_product_ns(d, l) + tni_npu_cpu_part_ns(d, l))};
  for (uint32_t i = 0; i < l->n_weights; i++) {
    c.macs += (double)d->set.chunk * (double)l->N[i] * (double)l->K;
    c.weight_bytes += tni_w8a8_codes(l->N[i], l->K) + TNI_W8_TRAILER;
  }
  return c;
}

static tn_claim yes_attention(const tni_npu_device *d, const tn_graph *g, const tn_dims *at,
                              const tni_npu_attention *o) {
  int64_t T = o->a.M;
  if (at && tni_cm_product(d->host, g, &o->keys, 1, at, &T) != TN_OK) T = o->a.M;
  return (tn_claim){.h = TN_HDR(tn_claim),
                    .verdict = TN_YES,
                    .n_constraints = o->n_rows,
                    .constraints = &o->rows,
                    .cost_ns = (double)tni_npu_attention_ns(d, o, T),
                    .macs = (double)o->a.M * (double)T * (double)(o->a.heads * (o->a.size + o->a.v_size))};
}

tn_status tni_npu_claim(tn_device *dev, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink,
                        tn_error *err) {
  const tni_npu_device *d = (const tni_npu_device *)dev;
  const tn_value_set lengths = {.v = d->set.lengths, .n = d->set.n_lengths};
  tni_cm_mem mem = {.host = d->host};
  const tni_npu_answer *a = tni_npu_read(d, g, &mem);
  tn_status st = a ? TN_OK : tni_cm_fail(err, TN_E_NO_MEMORY, TNI_NPU_NAME, "out of memory");
  for (uint32_t i = 0; st == TN_OK && i < g->n_nodes; i++) {
    if (a[i].attention) { /* what it costs depends on the context; of products nothing does: shapes are static */
      const tn_claim c = yes_attention(d, g, at, a[i].attention);
      st = sink->node(sink->ctx, i, &c);
      if (st == TN_OK) st = tni_npu_attention_states(g, (const tn_id[]){a[i].attention->k, a[i].attention->v}, 2, sink);
      continue;
    }
    if (!a[i].linear) {
      st = tni_cm_refuse(sink, i, a[i].reason, a[i].text);
      continue;
    }
    const tn_claim c = claim_of_linear(d, a[i].linear, &lengths);
    st = sink->node(sink->ctx, i, &c);
  }
  tni_cm_free(&mem);
  return st;
}
