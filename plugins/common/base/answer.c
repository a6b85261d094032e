/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/base/answer.h"

#include <stdio.h>

static tn_claim claim_of(uint32_t verdict, const tni_cm_offer *o) {
  return (tn_claim){.h = TN_HDR(tn_claim),
                    .verdict = verdict,
                    .format = o->format,
                    .params = o->params,
                    .n_params = o->n_params,
                    .cost_ns = o->cost_ns,
                    .macs = o->macs,
                    .weight_bytes = o->weight_bytes};
}

tn_status tni_cm_refuse(const tn_claim_sink *s, tn_id node, uint32_t reason, const char *text) {
  tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = reason};
  snprintf(c.text, sizeof c.text, "%s", text);
  return s->node(s->ctx, node, &c);
}

tn_status tni_cm_accept(const tn_claim_sink *s, tn_id node, uint32_t verdict, const tni_cm_offer *o) {
  tn_claim c = claim_of(verdict, o);
  return s->node(s->ctx, node, &c);
}

tn_status tni_cm_group(const tn_claim_sink *s, const tn_id *nodes, uint32_t n, const tni_cm_offer *o) {
  tn_claim c = claim_of(TN_YES, o);
  return s->group(s->ctx, nodes, n, &c);
}
