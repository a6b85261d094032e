/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the pass `experts`: what an expert's rows are in a mixture of experts whose tokens are picked by NonZero.
 *
 *   picked [T, k] = TopK(..).1;  Z = NonZero(OneHot(picked) of expert e): a row of token numbers and one of 0 .. k-1
 *   rows [n, K] = x [T, K] at the tokens;  weight [n, 1] = weights [T * k] at token * k + place
 *   sum += weight * expert(rows), scattered to the tokens
 */
#ifndef TENON_PASSES_DECODER_EXPERTS_H
#define TENON_PASSES_DECODER_EXPERTS_H

#include "runtime/passes/build/build.h"

/* One NonZero. */
typedef struct tni_picked {
  const tni_node *nonzero;
  tn_id picked;   /* [tokens, k], different experts in each row */
  tn_expr tokens; /* T */
  int64_t k, experts, expert;
  uint32_t token_row; /* which row of the NonZero has tokens; the other has places in 0 .. k-1 */
} tni_picked;

/* v's first operand that is not a Reshape, Squeeze, Unsqueeze or Flatten. */
tn_id tni_experts_unmoved(const tni_graph *g, tn_id v);
/* The NonZero that v [n] or [n, 1] is a row of, and which row; NULL. */
const tni_node *tni_experts_row(const tni_graph *g, tn_id v, uint32_t *row);
bool tni_experts_picked(const tni_graph *g, const tni_node *nonzero, tni_picked *p);
/* v [n, K] is rows of *x, which has as many elements as [T, K], at p's tokens. */
bool tni_experts_rows(const tni_graph *g, const tni_picked *p, tn_id v, tn_id *x);
/* v [n, 1] is *weights, [T, k] but for its shape, at p's tokens and places. */
bool tni_experts_weight(const tni_graph *g, const tni_picked *p, tn_id v, tn_id *weights);

/* Experts that are one product of three axes, summed by n: products of their own. */
TN_MUST_CHECK tn_status tni_experts_dense(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err);

#endif
