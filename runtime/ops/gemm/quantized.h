/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that a model brings quantized, as the host's products read them: floats of a tile at a time, never of the
 * whole.
 */
#ifndef TENON_OPS_GEMM_QUANTIZED_H
#define TENON_OPS_GEMM_QUANTIZED_H

#include "runtime/graph/graph.h"
#include "runtime/ops/gemm/floats.h"

typedef struct tni_ops_quantized {
  const tni_quantized *q;
  bool by_row;   /* a row of codes is a column of b (along K); otherwise it is a row of b */
  int64_t first; /* column of the matrix that b's column 0 is */
} tni_ops_quantized;

/* Makes g read w, which has no floats in memory, through room: g->pack is set, or b and its strides to
 * halves (call it when those of floats are set). kn: w is [K, N]. Does nothing for
 * others. */
void tni_ops_quantized_pack(tni_gemm *g, const tni_tensor *w, bool kn, int64_t first, tni_ops_quantized *room);
/* The node's kernel reads operand i quantized. */
bool tni_ops_takes_quantized(const tn_node *n, uint32_t i, const tni_tensor *t);

#endif
