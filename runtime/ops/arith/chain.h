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
  TNI_CHAIN_PIECE = 512,     /* elements of a register at a time, at most */
  TNI_CHAIN_ROOM = 16 << 10, /* bytes of a thread's stack for registers, less than a first-level cache */
  TNI_CHAIN_REGS = TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_INPUTS + TN_CHAIN_MAX_OPS
};

/* reg[r] points at n elements of dtype `work` (step 1) or at one for all (step 0); work is F32 or F64. */
typedef struct tni_registers {
  uint32_t work;
  const void *reg[TNI_CHAIN_REGS];
  int64_t step[TNI_CHAIN_REGS];
} tni_registers;

/* Room for `piece` elements of what each instruction makes, and of each input that is a half. */
typedef struct tni_chain_room {
  double cells[TNI_CHAIN_ROOM / sizeof(double)];
  int64_t piece;  /* at most TNI_CHAIN_PIECE; fewer in a chain of many instructions */
  uint32_t n_ops; /* of the chain */
} tni_chain_room;

/* For chain c on registers of dtype `work`, F32 or F64. */
void tni_chain_begin(const tni_chain *c, uint32_t work, tni_chain_room *room);
/* Where input i's widened halves go: `piece` elements. */
float *tni_chain_widened(tni_chain_room *room, uint32_t i);
/* Runs the instructions over n <= room->piece elements; registers of inputs are set. group not NULL: only those
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
