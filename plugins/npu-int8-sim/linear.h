/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node is to this backend: products of one calibrated activation with constant matrices, and a chain after
 * them. Pure: asked again at lowering, it gives the same answer.
 */
#ifndef TENON_NPU_INT8_LINEAR_H
#define TENON_NPU_INT8_LINEAR_H

#include "plugins/common/base/base.h"
#include "plugins/npu-int8-sim/attend.h"
#include "plugins/npu-int8-sim/device.h"
#include "plugins/npu-int8-sim/w8.h"

typedef struct tni_npu_linear {
  tn_id node, x;
  bool kn;     /* weights are stored [K,N] */
  bool shadow; /* outliers run beside the device */
  float scale; /* of the activation */
  int64_t params[2];
  double importance; /* largest |x| over its scale: NPU6 */
  int64_t K;
  uint32_t n_weights, n_rows, n_strips, reserved; /* weights that a part uses */
  tn_id weight[TN_FUSED_MAX_PARTS];
  int64_t N[TN_FUSED_MAX_PARTS];
  tn_constraint rows; /* n_rows 1: a symbol must be the chunk */
  tni_cm_fused f;     /* parts[].weight counts used weights */
  tn_id extras[TN_CHAIN_MAX_INPUTS];
  uint8_t extra[TN_CHAIN_MAX_INPUTS]; /* TNI_CM_ONE ..; of those that a chain reads */
  uint32_t strip[TNI_CM_MAX_REGISTERS];
} tni_npu_linear;

/* linear NULL: not ours, for this reason (TN_WHY_*) and static text. */
typedef struct tni_npu_answer {
  const tni_npu_linear *linear;
  const tni_npu_attention *attention; /* or this */
  uint32_t reason;
  const char *text;
} tni_npu_answer;

/* Answers for all nodes of g, on mem; which products are shadowed depends on all of them. NULL without memory. */
const tni_npu_answer *tni_npu_read(const tni_npu_device *d, const tn_graph *g, tni_cm_mem *mem);

/* Refuses what does not fit the device's window (window.c): NPU9, a greedy choice by time saved per byte. False without
 * memory. */
bool tni_npu_fit_window(const tni_npu_device *d, tni_npu_answer *a, uint32_t n, tni_cm_mem *mem);

/* cost.c: time on the device's clock of one execution of all its products, and of the CPU's part, at the device's
 * chunk. */
int64_t tni_npu_product_ns(const tni_npu_device *d, const tni_npu_linear *l);
int64_t tni_npu_cpu_part_ns(const tni_npu_device *d, const tni_npu_linear *l);

#endif
