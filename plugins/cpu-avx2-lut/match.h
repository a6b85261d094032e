/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node is to this backend. Pure: asked again at lowering, it gives the same answer.
 */
#ifndef TENON_CPU_AVX2_MATCH_H
#define TENON_CPU_AVX2_MATCH_H

#include "plugins/cpu-avx2-lut/device.h"

enum { TNI_CAL_NO = 0, TNI_CAL_PACKED = 1, TNI_CAL_FLOAT = 2 };

/* PACKED: y[M,N] = alpha * x[M,K] * W + beta * bias, W constant. FLOAT: y = alpha * x * w + beta * bias,
 * numpy broadcasting, all of them any f32; of a Gemm rank 2. */
typedef struct tni_cal_match {
  uint32_t kind;    /* TNI_CAL_* */
  uint32_t reason;  /* TN_WHY_* when NO */
  const char *text; /* when NO; static */
  tn_id node;
  tn_id transpose;  /* PACKED: node that turns the constant and is swallowed, or TN_NONE */
  tn_id x, w, y;    /* values; PACKED: w is the stored constant */
  tn_id bias;       /* value of C, of a packed product constant; or TN_NONE */
  bool trans_b;     /* FLOAT: w is stored [N,K] */
  bool kn;          /* PACKED: w is stored [K,N] */
  bool bias_scalar; /* one element for all n */
  int64_t N, K;     /* PACKED */
  float alpha, beta;
} tni_cal_match;

void tni_cal_match_node(const tni_cal_device *d, const tn_graph *g, tn_id node, tni_cal_match *out);

/* Two packed products that can be one: same activation, same K, same storage order. */
bool tni_cal_siblings(const tni_cal_match *a, const tni_cal_match *b);

#endif
