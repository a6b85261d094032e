/* SPDX-License-Identifier: Apache-2.0
 *
 * What errors of the head cost: second moments in which a token counts by how unsure the model is of the words.
 */
#ifndef TENON_QUANTIZE_HEAD_H
#define TENON_QUANTIZE_HEAD_H

#include "runtime/quantize/walk.h"

/* Rows in groups, each with moments and drift of its own, as tni_qz_seen has them. */
typedef struct tni_qz_head {
  uint32_t n_groups; /* 0: the product is not the head */
  uint32_t *group;   /* [N] */
  float *h, *drift;  /* [n_groups,K,K] */
} tni_qz_head;

/* Both walkers stand before p, whose moments and drift over all tokens are h and drift [K,K]. finish also after a
 * failure. */
TN_MUST_CHECK tn_status tni_qz_head_begin(tni_qz_head *head, tni_qz_walker *w, tni_qz_walker *floats,
                                          const tni_qz_product *p, const float *h, const float *drift);
void tni_qz_head_finish(tni_qz_head *head);

#endif
