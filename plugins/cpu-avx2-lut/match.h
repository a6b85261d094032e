/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node is to this backend. Pure: asked again at lowering, it gives the same answer.
 */
#ifndef TENON_CPU_AVX2_MATCH_H
#define TENON_CPU_AVX2_MATCH_H

#include "plugins/common/chain.h"
#include "plugins/cpu-avx2-lut/device.h"

enum { TNI_CAL_NO = 0, TNI_CAL_PACKED = 1, TNI_CAL_FLOAT = 2, TNI_CAL_FUSED = 3 };

/* PACKED: y[M,N] = alpha * x[M,K] * W + beta * bias, W constant. FLOAT: y = alpha * x * w + beta * bias,
 * numpy broadcasting, all of them any f32; of a Gemm rank 2. FUSED: a FusedMatMul whose weights are constant. */
typedef struct tni_cal_match {
  uint32_t kind;    /* TNI_CAL_* */
  uint32_t reason;  /* TN_WHY_* when NO */
  const char *text; /* when NO; static */
  tn_id node;
  tn_id transpose;  /* PACKED: node that turns the constant and is swallowed, or TN_NONE */
  tn_id x, w, y;    /* values; PACKED: w is the stored constant; FUSED: x only */
  tn_id bias;       /* value of C, of a packed product constant; or TN_NONE */
  bool trans_b;     /* FLOAT: w is stored [N,K] */
  bool kn;          /* PACKED, FUSED: weights are stored [K,N] */
  bool bias_scalar; /* one element for all n */
  int64_t N, K;     /* PACKED, FUSED: of all that is packed together */
  float alpha, beta;
} tni_cal_match;

void tni_cal_match_node(const tni_cal_device *d, const tn_graph *g, tn_id node, tni_cal_match *out);

/* How an operand of a chain meets the products: the same number everywhere, one for each column, or element by element.
 */
enum { TNI_CAL_NUMBER = 0, TNI_CAL_ONE = 1, TNI_CAL_ROW = 2, TNI_CAL_WHOLE = 3 };

/* A FusedMatMul, read. Weights that no part uses are not packed. */
typedef struct tni_cal_fused {
  tni_cm_fused f;
  uint32_t n_strips;
  uint32_t strip[TNI_CM_MAX_REGISTERS];
  int64_t K, N;                          /* of the joined matrix */
  int64_t weight_n0[TN_FUSED_MAX_PARTS]; /* its first column in the joined matrix; -1: not packed */
  uint8_t extra[TN_CHAIN_MAX_INPUTS];    /* TNI_CAL_ONE .. WHOLE */
} tni_cal_fused;

/* False where it cannot be computed here; reason (TN_WHY_*) and text (static) say why. */
bool tni_cal_fused_of(const tni_cal_device *d, const tn_graph *g, const tn_node *n, tni_cal_fused *out,
                      uint32_t *reason, const char **text);

/* Two packed products that can be one: same activation, same K, same storage order. */
bool tni_cal_siblings(const tni_cal_match *a, const tni_cal_match *b);

#endif
