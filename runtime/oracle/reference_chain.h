/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference of a FusedMatMul's chain: products with their bounds go in, results in double come out, and beside each
 * number how far a device may be from it. docs/numerics.md derives the steps. Any thread; keeps nothing.
 */
#ifndef TENON_ORACLE_REFERENCE_CHAIN_H
#define TENON_ORACLE_REFERENCE_CHAIN_H

#include "runtime/shape/dims/dims.h"

/* tiny: what is lost where a result is denormal. product[p]: y and how far a device may be from it, [M,
 * parts[p].count]. extra[i]: other operands of the chain; one element, [N] (rank 1), or the products' shape. */
typedef struct tni_chain_given {
  const tni_fused *f;
  int64_t M;
  double tiny;
  struct {
    const float *y, *e;
  } product[TN_FUSED_MAX_PARTS];
  struct {
    const float *v;
    int64_t count, rank;
  } extra[TN_CHAIN_MAX_INPUTS];
} tni_chain_given;

/* y[o] and bound[o], [M, width] of result o; NULL: not wanted. An infinite bound: nothing can be said. */
void tni_reference_chain(const tni_chain_given *k, float *const *y, float *const *bound);

#endif
