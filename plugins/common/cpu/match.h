/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node is to this backend: decided here only. Pure: a host keeps nothing between claim and lower, so both ask,
 * and get the same answer.
 */
#ifndef TENON_COMMON_CPU_MATCH_H
#define TENON_COMMON_CPU_MATCH_H

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/keep.h"

enum { TNI_CLT_NO = 0, TNI_CLT_PACKED = 1, TNI_CLT_FLOAT = 2, TNI_CLT_FUSED = 3, TNI_CLT_INTEGER = 4 };

/* PACKED: y[M,N] = alpha * x[M,K] * W + beta * bias, W constant. FLOAT: y = alpha * x * w + beta * bias,
 * numpy broadcasting, all of them any f32; of a Gemm rank 2. FUSED: a FusedMatMul whose weights are constant. INTEGER:
 * integer.h. */
typedef struct tni_clt_match {
  uint32_t kind;    /* TNI_CLT_* */
  uint32_t reason;  /* TN_WHY_* when NO */
  const char *text; /* when NO; static */
  tn_id node;
  tn_id transpose;   /* PACKED: node that turns the constant and is swallowed, or TN_NONE */
  tn_id x, w, y;     /* values; PACKED: w is the stored constant; FUSED: x only */
  tn_id bias;        /* value of C, of a packed product constant; or TN_NONE */
  bool trans_b;      /* FLOAT: w is stored [N,K] */
  bool kn;           /* PACKED, FUSED: weights are stored [K,N] */
  bool bias_scalar;  /* one element for all n */
  int64_t N, K;      /* PACKED, FUSED: of all that is packed together */
  tni_clt_grid grid; /* PACKED, FUSED: that its weights keep */
  float alpha, beta;
  int64_t offset; /* INTEGER: 128 where w is uint8 */
} tni_clt_match;

/* A FusedMatMul, read. Weights that no part uses are not packed. */
typedef struct tni_clt_fused {
  tni_cm_fused f;
  uint32_t n_strips;
  uint32_t strip[TNI_CM_MAX_REGISTERS];
  int64_t K, N;                          /* of the joined matrix */
  tni_clt_grid grid;                     /* that it keeps */
  int64_t weight_n0[TN_FUSED_MAX_PARTS]; /* its first column in the joined matrix; -1: not packed */
  uint8_t extra[TN_CHAIN_MAX_INPUTS];    /* TNI_CM_ONE .. WHOLE */
} tni_clt_fused;

/* False where it cannot be computed here; reason (TN_WHY_*) and text (static) say why. For match.c. */
bool tni_clt_fused_of(const tni_clt_device *d, const tn_graph *g, const tn_node *n, tni_clt_fused *out,
                      uint32_t *reason, const char **text);

/* fused: where a FUSED node's reading goes; NULL: it is not kept. */
void tni_clt_match_node(const tni_clt_device *d, const tn_graph *g, tn_id node, tni_clt_match *out,
                        tni_clt_fused *fused);

/* Two packed products that can be one: same activation, same K, same storage order, grids that can be joined. */
bool tni_clt_siblings(const tni_clt_match *a, const tni_clt_match *b);

#endif
