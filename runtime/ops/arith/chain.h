/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains of element-wise operators (tenon.Elementwise, and after the products of tenon.FusedMatMul), one short piece
 * of every register at a time.
 *
 * Numbers: f32 and f64 instructions are the loops of k_unary.c and k_binary.c, each result rounded to the dtype, so a
 * chain gives the bits of its operators one by one. Halves are widened to f32 once, every register between inputs and
 * outputs stays f32, and outputs are rounded once.
 */
#ifndef TENON_OPS_ARITH_CHAIN_H
#define TENON_OPS_ARITH_CHAIN_H

#include "runtime/ops/kernel/kernel.h"
#include "runtime/shape/dims/dims.h"

enum {
  TNI_CHAIN_PIECE = 512, /* elements of a register at a time */
  TNI_CHAIN_REGS = TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_INPUTS + TN_CHAIN_MAX_OPS
};

/* reg[r] points at n elements of dtype `work` (step 1) or at one for all (step 0); work is F32 or F64. */
typedef struct tni_registers {
  uint32_t work;
  const void *reg[TNI_CHAIN_REGS];
  int64_t step[TNI_CHAIN_REGS];
} tni_registers;

/* Room for what the instructions make: TNI_CHAIN_PIECE elements each. */
typedef struct tni_chain_room {
  double ops[TN_CHAIN_MAX_OPS][TNI_CHAIN_PIECE];
  float in[TN_CHAIN_MAX_INPUTS][TNI_CHAIN_PIECE]; /* widened halves, for callers */
} tni_chain_room;

/* Runs the instructions over n <= TNI_CHAIN_PIECE elements; registers of inputs are set. group not NULL: only those
 * with group[register] == which. dst[i] not NULL: where instruction i's n elements go (step 1), else into room. */
void tni_chain_run(const tni_chain *c, const uint32_t *group, uint32_t which, tni_registers *r, void *const *dst,
                   tni_chain_room *room, int64_t n);
/* n elements of register reg into dst (elements [first, first + n) of dtype), rounded where dtype is a half. */
void tni_chain_store(const tni_registers *r, uint32_t reg, uint32_t dtype, void *dst, int64_t first, int64_t n);

/* The loops, for F32 and F64. value: alpha of Swish, nonzero for Gelu's tanh form. dst does not overlap src. */
void tni_unary_real(uint32_t op, uint32_t dtype, float value, void *dst, const void *src, int64_t n);
void tni_binary_real(uint32_t op, uint32_t dtype, void *dst, const void *const *src, const int64_t *step, int64_t n);

/* tenon.FusedMatMul for an activation of this dtype. */
uint64_t tni_fused_scratch(const tn_node *node, uint32_t dtype, uint32_t n_workers);
double tni_fused_macs(const tn_node *node, const tni_tensor *x);

#endif
