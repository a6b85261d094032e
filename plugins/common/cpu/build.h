/* SPDX-License-Identifier: Apache-2.0
 *
 * A program under construction, and the one task of it that is being built.
 */
#ifndef TENON_COMMON_CPU_BUILD_H
#define TENON_COMMON_CPU_BUILD_H

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/match.h"
#include "plugins/common/cpu/program.h"

typedef struct tni_clt_builder {
  tni_cm_build c;
  const tni_clt_device *d;
  tn_program *p;
  tni_clt_match *match;  /* [c.s->n_nodes] */
  tni_clt_fused **fused; /* [c.s->n_nodes]: read, of a FUSED node */
  uint8_t *done;         /* [c.s->n_nodes]: belongs to a task */
  tni_clt_task *task;    /* being built */
} tni_clt_builder;

tni_clt_dims tni_clt_copy_dims(tni_clt_builder *b, const tn_expr *e, uint32_t rank);

/* Each returns an index, or TN_NONE without memory. */
/* packing NULL: values as they are. */
uint32_t tni_clt_add_need(tni_clt_builder *b, const tni_clt_packing *packing, const tn_id *values, uint32_t n, bool kn);
/* The same with a format that is not chosen by the weight. */
uint32_t tni_clt_add_need_with(tni_clt_builder *b, const tn_format *format, const int64_t *params, uint32_t n_params,
                               const tn_id *values, uint32_t n, bool kn);
uint32_t tni_clt_add_blob_slot(tni_clt_builder *b, uint32_t need);
/* The slot of a value that a task reads is made on first use. */
uint32_t tni_clt_slot_to_read(tni_clt_builder *b, tn_id value);
uint32_t tni_clt_slot_to_write(tni_clt_builder *b, tn_id value);
/* A use of the task. */
uint32_t tni_clt_add_use(tni_clt_builder *b, uint32_t slot, uint32_t access);

bool tni_clt_start_task(tni_clt_builder *b, uint32_t kind, const char *prefix, tn_id node, uint32_t max_uses,
                        uint32_t max_nodes);
void tni_clt_add_node(tni_clt_builder *b, tn_id node);
void tni_clt_finish_task(tni_clt_builder *b);

/* What is packed: the product at c.s->nodes[i] with its siblings, and a FusedMatMul. members: [c.s->n_nodes], to be
 * used.
 */
TN_MUST_CHECK tn_status tni_clt_lower_packed(tni_clt_builder *b, uint32_t i, uint32_t *members, tn_error *err);
TN_MUST_CHECK tn_status tni_clt_lower_fused(tni_clt_builder *b, uint32_t i, tn_error *err);

#endif
