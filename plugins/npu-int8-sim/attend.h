/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over caches in float32 on the device, where its profile has that (hmx-2026-fa). Queries, result, both
 * caches and the lengths lie in memory of the device; nothing is copied, since the CPU has the same memory.
 */
#ifndef TENON_NPU_INT8_ATTEND_H
#define TENON_NPU_INT8_ATTEND_H

#include "plugins/npu-int8-sim/device.h"

/* What an Attention node is to us. Pure, as tni_npu_linear. */
typedef struct tni_npu_attention {
  tn_id node, q, k, v, y, valid, mask; /* values; no mask: TN_NONE */
  npusim_attention a;                  /* M and T as bound */
  tn_expr batch, keys;
  tn_constraint rows; /* the queries are a chunk; n_rows 0: they always are */
  uint32_t n_rows, q_rank;
  tn_id slot[6]; /* q, k, v, valid, y, mask: uses of its task in this order, once lowered */
  const char *name;
} tni_npu_attention;

/* false: not ours, for this reason and static text. */
bool tni_npu_attention_read(const tni_npu_device *d, const tn_graph *g, tn_id node, tni_npu_attention *out,
                            uint32_t *reason, const char **text);
/* Time on the device's clock, at T keys. */
int64_t tni_npu_attention_ns(const tni_npu_device *d, const tni_npu_attention *a, int64_t T);
/* Layouts of the caches that attention of g reads. */
TN_MUST_CHECK tn_status tni_npu_attention_states(const tn_graph *g, const tn_id *values, uint32_t n,
                                                 const tn_claim_sink *sink);

typedef struct tni_npu_task tni_npu_task;
struct tni_npu_place;
TN_MUST_CHECK tn_status tni_npu_attend_measure(const tn_program *p, const tni_npu_task *t, const tn_dims *dims,
                                               tn_measure *out);
/* Graphs of attention hold no weights: plans of all layers share one for each number of keys. */
TN_MUST_CHECK tn_status tni_npu_attend_bind(tn_program *p, const tni_npu_task *t, const tn_dims *dims, tn_plan *plan,
                                            tn_error *err);
void tni_npu_attend_unbind(tn_plan *plan);
/* The view of one use; to has handle and offset already. */
TN_MUST_CHECK tn_status tni_npu_attend_attach(const tn_plan *plan, uint32_t use, const tn_view *v,
                                              struct tni_npu_place *to, tn_error *err);
int tni_npu_attend_run(const tn_item *it, int (*stop)(void *arg), void *arg, npusim_times *t);

#endif
