/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of the device: prepared once for a program, whatever is bound, and kept in the host's cache, since preparing
 * takes seconds where there are billions of weights.
 */
#include "plugins/npu-int8-sim/program.h"

/* From the cache by what it is made for: shapes, costs, weights. What is there and does not fit, or has changed, is
 * refused by the device, and made and kept anew. */
static int get_graph(const tni_npu_device *d, const npusim_gemm *g, uint32_t n, const npusim_middle *mid,
                     npusim_graph **out) {
  const tn_host *h = d->host;
  npusim_saved now;
  const void *saved = NULL;
  uint64_t bytes = 0;
  int rc = npusim_describe(d->sim, g, n, mid, &now);
  if (rc != NPUSIM_OK) return rc;
  if (h->cache_get && h->cache_get(h->ctx, &now, sizeof now, &saved, &bytes) == TN_OK) {
    rc = npusim_load(d->sim, g, n, mid, &now, saved, bytes, out);
    if (rc != NPUSIM_STALE) return rc;
    h->log(h->ctx, TN_LOG_WARN, TNI_NPU_NAME ": a prepared graph in the cache does not fit and is made anew");
  }
  rc = npusim_prepare(d->sim, g, n, mid, out);
  if (rc == NPUSIM_OK && h->cache_put) (void)!h->cache_put(h->ctx, &now, sizeof now, &now, sizeof now);
  return rc;
}

tn_status tni_npu_prepare(const tn_program *p, const tni_npu_task *t, tn_error *err) {
  tni_npu_block *b = t->b;
  npusim_gemm g[TN_FUSED_MAX_PARTS];
  if (b->graph) return TN_OK;
  for (uint32_t i = 0; i < b->l.n_weights; i++) {
    if (!b->w_handle[i]) return tni_cm_fail(err, TN_E_INVALID, t->pub.name, "its weights are not set");
    g[i] = (npusim_gemm){
        .shape = {p->device->set.chunk, b->l.N[i], b->l.K}, .weights = b->w_handle[i], .weights_at = b->w_at[i]};
  }
  const int rc = get_graph(p->device, g, b->l.n_weights, NULL, &b->graph);
  return rc == NPUSIM_OK ? TN_OK : tni_npu_fail(err, rc, t->pub.name, "the graph cannot be prepared");
}
