/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbolic shape and value inference (row TL2).
 *
 * Walks a finished graph in order and gives every value its rank, symbolic dims and dtype, and small integer tensors
 * their symbolic elements (tni_value.elems), through the op table's shape rules.
 */
#ifndef TENON_SHAPE_INFER_H
#define TENON_SHAPE_INFER_H

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"
#include "runtime/shape/rules/rules.h"

/* Infers all values of g. Declared output shapes are hints that are never trusted. Unknown ops leave unknown shapes. */
TN_MUST_CHECK tn_status tni_infer_graph(tni_graph *g, tn_error *err);
/* One node only (after a rewrite). */
TN_MUST_CHECK tn_status tni_infer_node(tni_graph *g, tn_id node, tn_error *err);

/* Concrete inference for one node: dims and dtype of outputs from concrete input tensors (data NULL where unknown),
 * for constant folding and single-op tests. TN_E_UNSUPPORTED where the output shape depends on data that is missing.
 * run (NULL: none) may end it with TN_E_CANCELLED: some operators go through all of their data. */
TN_MUST_CHECK tn_status tni_infer_concrete(const tni_node *node, const tni_tensor *const *in, uint32_t n_in,
                                           tni_tensor *out, uint32_t n_out, const tn_run *run, tn_error *err);

/* Runs one node. out: dtype, dims and bytes are set, and stay as they are; data comes from the arena. An output that is
 * absent in the node has out zeroed and is not wanted. */
typedef tn_status (*tni_eval_fn)(void *ctx, const tni_node *node, const tni_tensor *const *in, uint32_t n_in,
                                 tni_tensor *out, uint32_t n_out, tni_arena *arena, tn_error *err);
/* Replaces values whose symbolic elements or inputs are all constant by CONST values (through the host kernels given
 * by the caller; eval NULL: only where elements are known), up to max_bytes each. Call after tni_infer_graph; uses and
 * order are current afterwards. A node that the kernels refuse stays. Returns how many nodes went away in *n. */
TN_MUST_CHECK tn_status tni_fold_constants(tni_graph *g, uint64_t max_bytes, tni_eval_fn eval, void *ctx, uint32_t *n,
                                           tn_error *err);

/* Turns every value whose elements are all known symbolically, and that something still reads, into a STEP value
 * without producer that the session writes (tni_step_write); nodes whose results nobody reads any more are removed.
 * Call after tni_infer_graph; uses are current afterwards.
 *  - A graph output may become STEP (or, by folding, CONST): then the session copies it out.
 *  - Operands that only the shape rule reads (tni_op.shape_inputs) become STEP like others, or stay CONST, so that
 *    inference can be repeated; kernels get data NULL for them. tni_step_is_read tells which STEP values need writing.
 *    Where such an operand of Reshape, Expand or ConstantOfShape is not known but the node's output dims are, the dims
 *    take its place.
 *  - Elements over symbols that no graph input carries (sizes found by NonZero and the like) are not lifted: nobody
 *    knows them before the step. */
TN_MUST_CHECK tn_status tni_lift_shape_values(tni_graph *g, uint32_t *n_removed, tn_error *err);
/* Writes the elements of STEP value v for these dims (one per symbol of the graph) into dst (dtype and size from the
 * value). TN_E_INVALID for bytes that do not match, an element that is not known for these dims or that the dtype
 * cannot hold; dst is then undefined. */
TN_MUST_CHECK tn_status tni_step_write(const tni_graph *g, tn_id v, const int64_t *dims, uint32_t n_dims, void *dst,
                                       uint64_t bytes);
/* Whether a kernel reads STEP value v, or it is a graph output; false: only shape rules do. Uses must be current. */
bool tni_step_is_read(const tni_graph *g, tn_id v);
/* Marks values whose dims no input gives (sizes found by NonZero, results of Loop, what follows from them) and the
 * nodes that read or make one, control flow, and operators whose results the data size: they run one after the other on
 * the host, and memory comes when they do. Call when nothing changes any more; uses must be current. Returns how many
 * nodes, UINT32_MAX without memory. */
uint32_t tni_mark_dynamic(tni_graph *g);
/* Why node n still runs per step, or only the run can size what it makes: "the length of 'v' depends on the data of
 * NonZero 'x'". Returns buf. */
char *tni_dynamic_reason(const tni_graph *g, tn_id n, char *buf, size_t size);

/* How many shape ops are left that run per step, each counted once; ids of the first cap into nodes. A shape op is
 * Shape or Size, or a node that depends on nothing but constants, STEP values and shape ops, and makes a tensor of at
 * most 1024 elements; positions and masks whose length is symbolic are tensor ops. */
uint32_t tni_shape_ops_left(const tni_graph *g, tn_id *nodes, uint32_t cap);

#endif
