/* SPDX-License-Identifier: Apache-2.0
 *
 * A program under construction: needs and slots (build.c), blocks of tasks (lower.c).
 */
#ifndef TENON_NPU_INT8_BUILD_H
#define TENON_NPU_INT8_BUILD_H

#include "plugins/common/base/base.h"
#include "plugins/npu-int8-sim/program.h"

typedef struct tni_npu_builder {
  tni_cm_build c;
  tn_program *p;
} tni_npu_builder;

/* Each returns a slot, or TN_NONE without memory. Engines are bits. */
tn_id tni_npu_temp(tni_npu_builder *b, const char *prefix, const char *name, uint32_t engines);
tn_id tni_npu_weight(tni_npu_builder *b, const char *name, const tn_format *f, tn_id value, bool kn,
                     const int64_t *params, uint32_t n_params, uint32_t residency, uint32_t engines);
/* The slot of a value that is read is made on first use. */
tn_id tni_npu_reads(tni_npu_builder *b, tn_id value);
tn_id tni_npu_writes(tni_npu_builder *b, tn_id value);

/* The slot of a cache. */
tn_id tni_npu_state(tni_npu_builder *b, tn_id value);
/* The device touches the slot too. */
void tni_npu_on_device(tni_npu_builder *b, tn_id slot);

/* A task named prefix and name, of the symbols of some dims; then its uses. */
tni_npu_task *tni_npu_begin(tni_npu_builder *b, uint32_t kind, const char *prefix, const char *name,
                            const tn_expr *dims, uint32_t n_dims, uint32_t max_uses);
/* A task of a block; then its uses. */
tni_npu_task *tni_npu_start(tni_npu_builder *b, tni_npu_block *k, uint32_t kind, const char *prefix, uint32_t max_uses);
uint32_t tni_npu_use(tni_npu_builder *b, tni_npu_task *t, tn_id slot, uint32_t access);
void tni_npu_finish(tni_npu_builder *b, tni_npu_task *t);

#endif
