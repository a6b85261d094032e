/* SPDX-License-Identifier: Apache-2.0
 *
 * A tenon.FusedMatMul while it is being put together: what the passes `siblings` and `chain` add to, and what undoing
 * takes apart. A draft is read from a node, grows by what the pass finds, and takes the place of the nodes it stands
 * for; results are decided last, from what is still read.
 */
#ifndef TENON_PASSES_FUSE_FUSE_H
#define TENON_PASSES_FUSE_FUSE_H

#include "runtime/passes/build/build.h"
#include "runtime/shape/dims/dims.h"

/* Registers of a draft: numbers that stay when parts and inputs are added. */
enum { TNI_REG_PART = 0, TNI_REG_EXTRA = 1 << 16, TNI_REG_OP = 2 << 16, TNI_REG_NONE = 3 << 16 };

typedef struct tni_fusion {
  tn_id x;
  uint32_t dtype, n_weights, n_parts, n_extra, n_ops;
  bool trans_b;
  tn_id weight[TN_FUSED_MAX_PARTS], extra[TN_CHAIN_MAX_INPUTS];
  tni_part part[TN_FUSED_MAX_PARTS];
  tni_instr op[TN_CHAIN_MAX_OPS]; /* a and b are TNI_REG_*; b TNI_REG_NONE */
  /* The value that a register is in the graph, TN_NONE: none. */
  tn_id part_value[TN_FUSED_MAX_PARTS], op_value[TN_CHAIN_MAX_OPS];
} tni_fusion;

/* MatMul, Gemm (alpha, beta 1, nothing transposed but B) or FusedMatMul of floats, with constant matrices as weights
 * and an activation of known rank and width. false: n is none of these, or nothing that a draft can hold. */
bool tni_fusion_read(tni_graph *g, const tni_node *n, tni_fusion *d);
/* The register that value v is; TNI_REG_NONE: none. */
uint32_t tni_fusion_find(const tni_fusion *d, tn_id v);
/* The value of register reg: part, instruction or input. */
tn_id tni_fusion_value(const tni_fusion *d, uint32_t reg);
/* The first part that reg is computed from: its width is the register's. TN_NONE for an input. */
uint32_t tni_fusion_part_of(const tni_fusion *d, uint32_t reg);
/* Adds element-wise node n, one of whose inputs is a register; false and nothing changed where it does not fit: another
 * operator, dtype or shape, an operand that ops.h does not allow, no room. Nothing is asked of the graph's order. */
bool tni_fusion_pull(tni_graph *g, tni_fusion *d, const tni_node *n);
/* Appends what b has; b reads the same activation with the same trans_b. false, nothing changed: no room, or one reads
 * what the other makes. */
bool tni_fusion_join(tni_fusion *d, const tni_fusion *b);
/* Writes the draft as a node with this name, after all others: FusedMatMul, or MatMul where that says all. Its outputs
 * are the registers whose values are read by a live node or are graph outputs: what it stands for is dead already. */
TN_MUST_CHECK tn_status tni_fusion_write(tni_graph *g, const tni_fusion *d, const char *name, tn_error *err);

/* Whether n is float arithmetic that a chain may have; its instruction without registers. */
bool tni_chain_takes(const tni_graph *g, const tni_node *n, tni_instr *instr);
/* Nodes that are to become one, by id. Room for twice the nodes that the graph has now. */
typedef struct tni_fuse_set {
  uint8_t *member;
  uint32_t *seen, *level; /* by node: the round in which it was on the stack; above the levels of what it waits for */
  tn_id *list, *stack;
  uint32_t n, cap, known, round, top, highest; /* known: nodes that have a level */
} tni_fuse_set;
/* false: no memory; tni_fuse_set_free is right all the same. */
bool tni_fuse_set_init(tni_fuse_set *s, const tni_graph *g);
void tni_fuse_set_free(tni_fuse_set *s);
/* Adds node, unless the set would then wait for itself if it were one node; false: it is as it was. */
bool tni_fuse_set_add(const tni_graph *g, tni_fuse_set *s, tn_id node);
/* Empties it; kill: its nodes are dead from now on. */
void tni_fuse_set_clear(tni_graph *g, tni_fuse_set *s, bool kill);

/* --- taking apart (unfuse.c) --- */

/* CHAIN: element-wise operators stand for themselves, products stay joined. ALL: MatMul (Gemm for transposed weights),
 * Split or Slice for parts, and the operators. */
enum { TNI_UNFUSE_CHAIN = 1, TNI_UNFUSE_ALL = 2 };
/* The nodes that do the work now. They stay where they are in memory. */
typedef struct tni_unfused {
  const tni_node *product[TN_FUSED_MAX_PARTS], *op[TN_CHAIN_MAX_OPS];
  uint32_t n_products, n_ops; /* both 0: nothing was changed */
} tni_unfused;
/* Puts plain nodes in the place of FusedMatMul or Elementwise `node`, which is dead then; its outputs keep their
 * values. Changes nothing where it is neither, has nothing of that kind to take apart, or dims that would have to be
 * known are not. Without tni_graph_finish and without inference of what is new: the caller does both, for many at once.
 */
TN_MUST_CHECK tn_status tni_unfuse_node(tni_graph *g, tn_id node, uint32_t how, tni_unfused *out, tn_error *err);

/* --- the passes; uses must be current before and are afterwards, *n: how often it fired --- */
/* tenon.FusedMatMul of products of one activation, and of parts of one product. */
TN_MUST_CHECK tn_status tni_pass_siblings(tni_graph *g, uint32_t *n, tn_error *err);
/* Element-wise operators become part of the product before them, or one tenon.Elementwise. */
TN_MUST_CHECK tn_status tni_pass_chain(tni_graph *g, uint32_t *n, tn_error *err);

#endif
