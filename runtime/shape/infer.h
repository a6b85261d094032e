/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbolic shape and value inference (row TL2).
 *
 * Walks a finished graph in order and gives every value its rank, symbolic dims and dtype, and small integer tensors
 * their symbolic elements (tni_value.elems), through the op table's shape rules.
 */
#ifndef TENON_SHAPE_INFER_H
#define TENON_SHAPE_INFER_H

#include "runtime/graph/graph.h"

/* What one shape rule works with. */
typedef struct tni_infer {
  tni_graph *g;
  tni_exprs *x;
  const tni_node *node;
  tn_error *err;
} tni_infer;

/* A rule sets dtype, rank, dims (and elems where it can) of the node's outputs from its inputs. A contradiction is
 * TN_E_INVALID with the node, the two shapes and why. What is not known stays unknown: rank TNI_RANK_UNKNOWN or dims
 * TNI_EXPR_NONE is legal, never a guess. */
typedef tn_status (*tni_shape_fn)(tni_infer *in);

/* Infers all values of g. Declared output shapes are hints that are never trusted. Unknown ops leave unknown shapes. */
TN_MUST_CHECK tn_status tni_infer_graph(tni_graph *g, tn_error *err);
/* One node only (after a rewrite). */
TN_MUST_CHECK tn_status tni_infer_node(tni_graph *g, tn_id node, tn_error *err);

/* Concrete inference for one node: dims and dtype of outputs from concrete input tensors (data NULL where unknown),
 * for constant folding and single-op tests. TN_E_UNSUPPORTED where the output shape depends on data that is missing. */
TN_MUST_CHECK tn_status tni_infer_concrete(const tni_node *node, const tni_tensor *const *in, uint32_t n_in,
                                           tni_tensor *out, uint32_t n_out, tn_error *err);

/* Replaces values whose symbolic elements or inputs are all constant by CONST values (through the host kernels given
 * by the caller), up to max_bytes each. Returns how many nodes went away in *n. */
typedef tn_status (*tni_eval_fn)(void *ctx, const tni_node *node, const tni_tensor *const *in, uint32_t n_in,
                                 tni_tensor *out, uint32_t n_out, tni_arena *arena, tn_error *err);
TN_MUST_CHECK tn_status tni_fold_constants(tni_graph *g, uint64_t max_bytes, tni_eval_fn eval, void *ctx, uint32_t *n,
                                           tn_error *err);

/* Turns every value whose elements are all known symbolically, and that a remaining kernel still reads, into a STEP
 * value that the session writes (tni_step_write); shape ops whose results nobody reads any more are removed. */
TN_MUST_CHECK tn_status tni_lift_shape_values(tni_graph *g, uint32_t *n_removed, tn_error *err);
/* Writes the elements of STEP value v for these dims into dst (dtype and size from the value). */
TN_MUST_CHECK tn_status tni_step_write(const tni_graph *g, tn_id v, const int64_t *dims, uint32_t n_dims, void *dst,
                                       uint64_t bytes);
/* How many shape ops are left that run per step, each counted once; names up to cap into nodes. */
uint32_t tni_shape_ops_left(const tni_graph *g, tn_id *nodes, uint32_t cap);

#endif
