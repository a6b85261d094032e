/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers to claim(), written in one line each.
 */
#ifndef TENON_COMMON_BASE_ANSWER_H
#define TENON_COMMON_BASE_ANSWER_H

#include <tenon/plugin.h>

/* What a yes says; zero what is unknown. */
typedef struct tni_cm_offer {
  const tn_format *format;
  const int64_t *params;
  uint32_t n_params;
  double cost_ns, macs;
  uint64_t weight_bytes;
} tni_cm_offer;

/* A refusal; the text is cut to what a claim holds. */
TN_MUST_CHECK tn_status tni_cm_refuse(const tn_claim_sink *s, tn_id node, uint32_t reason, const char *text);
/* verdict: TN_YES or TN_GROUP_ONLY. */
TN_MUST_CHECK tn_status tni_cm_accept(const tn_claim_sink *s, tn_id node, uint32_t verdict, const tni_cm_offer *o);
TN_MUST_CHECK tn_status tni_cm_group(const tn_claim_sink *s, const tn_id *nodes, uint32_t n, const tni_cm_offer *o);

#endif
