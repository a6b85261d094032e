/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node is to this backend. Pure: asked again at lowering, it gives the same answer.
 */
#ifndef TENON_CPU_AVX2_MATCH_H
#define TENON_CPU_AVX2_MATCH_H

#include "plugins/cpu-avx2-lut/device.h"

enum { TNI_CAL_NO = 0, TNI_CAL_PACKED = 1, TNI_CAL_FLOAT = 2 };

/* PACKED: y[M,N] = alpha * x[M,K] * W + beta * bias, W constant. FLOAT: y = x * w, numpy broadcasting, both any f32. */
typedef struct tni_cal_match {
  uint32_t kind;    /* TNI_CAL_* */
  uint32_t reason;  /* TN_WHY_* when NO */
  const char *text; /* when NO; static */
  tn_id node;
  tn_id transpose;  /* PACKED: node that turns the constant and is swallowed, or TN_NONE */
  tn_id x, w, y;    /* values; PACKED: w is the stored constant */
  tn_id bias;       /* PACKED: constant value, or TN_NONE */
  bool kn;          /* PACKED: w is stored [K,N] */
  bool bias_scalar; /* one element for all n */
  int64_t N, K;     /* PACKED */
  float alpha, beta;
} tni_cal_match;

void tni_cal_match_node(const tni_cal_device *d, const tn_graph *g, tn_id node, tni_cal_match *out);

/* Two packed products that can be one: same activation, same K, same storage order. */
bool tni_cal_siblings(const tni_cal_match *a, const tni_cal_match *b);

#endif
