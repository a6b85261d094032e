/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of the listing that are taken, and what they gave.
 */
#include <string.h>

#include "runtime/conform/edges/parts.h"

const tni_cf_claimed *tni_cf_edge_taken(const tni_cf_listing *l, uint32_t i) {
  for (uint32_t k = 0; k < l->n_claimed; k++) {
    bool before = l->claimed[k].verdict != TN_YES;
    for (uint32_t m = 0; m < k && !before; m++)
      before = l->claimed[m].verdict == TN_YES && !strcmp(l->claimed[m].graph, l->claimed[k].graph);
    if (!before && i-- == 0) return &l->claimed[k];
  }
  return NULL;
}

bool tni_cf_edge_results(tni_cf *cf, const tni_cf_claimed *c, int64_t rows, void **want) {
  tni_cf_host h;
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  if (!tni_cf_host_open(cf, &h, NULL)) return false;
  const bool ok = tni_cf_rig_claim(&rig, &h, tni_cf_graph_find(c->graph), c->phase, &r) &&
                  tni_cf_rig_prepare(&rig, rows, &r) && tni_cf_rig_run(&rig, 0x5b, TNI_CF_EVEN) &&
                  tni_cf_rig_keep(&rig, cf->arena, want);
  if (!ok) tni_cf_fail(cf, "%s: %s", c->graph, rig.why);
  tni_cf_rig_finish(&rig);
  tni_cf_host_close(cf, &h);
  return ok;
}
