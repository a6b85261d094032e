/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes that recognise one operator in its primitives, or drop what changes nothing.
 * Uses must be current before a pass and are afterwards; *n: how often it fired. What each matches and keeps stands at
 * the head of its file, and in docs/passes.md.
 */
#ifndef TENON_PASSES_FORMS_FORMS_H
#define TENON_PASSES_FORMS_FORMS_H

#include "runtime/shape/shape.h"

/* Nodes that hand their input on unchanged: Identity, Dropout in inference, Cast to the same type, Concat or Split of
 * one, and Reshape, Flatten, Squeeze, Unsqueeze, Expand, Tile, Slice, Transpose whose shapes are proved equal and that
 * move nothing; x * 1, x / 1, x and true, x or false. */
TN_MUST_CHECK tn_status tni_pass_identity(tni_graph *g, uint32_t *n, tn_error *err);
/* Equal constants (up to 64 KiB), equal STEP values, and nodes with equal operator, attributes and operands. */
TN_MUST_CHECK tn_status tni_pass_cse(tni_graph *g, uint32_t *n, tn_error *err);
/* The branch that an If takes, where its condition is constant. */
TN_MUST_CHECK tn_status tni_pass_branch(tni_graph *g, uint32_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_pass_reshape(tni_graph *g, uint32_t *n, tn_error *err);
/* Gather from GatherND of what Expand made. */
TN_MUST_CHECK tn_status tni_pass_repeat(tni_graph *g, uint32_t *n, tn_error *err);
/* Row-wise operators between Reshapes that flatten leading axes: on what was flattened. */
TN_MUST_CHECK tn_status tni_pass_rows(tni_graph *g, uint32_t *n, tn_error *err);
/* Transposes before what makes their operands, where they are free there. */
TN_MUST_CHECK tn_status tni_pass_turn(tni_graph *g, uint32_t *n, tn_error *err);
/* Movement that only concerns axes of one element. */
TN_MUST_CHECK tn_status tni_pass_unit(tni_graph *g, uint32_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_pass_layer_norm(tni_graph *g, uint32_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_pass_rms_norm(tni_graph *g, uint32_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_pass_gelu(tni_graph *g, uint32_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_pass_silu(tni_graph *g, uint32_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_pass_conv_scale(tni_graph *g, uint32_t *n, tn_error *err);
/* MatMul from Einsum of two operands. */
TN_MUST_CHECK tn_status tni_pass_einsum(tni_graph *g, uint32_t *n, tn_error *err);
/* Products of [batch * heads, ..] that are unfolded after them: on [batch, heads, ..]. */
TN_MUST_CHECK tn_status tni_pass_unflatten(tni_graph *g, uint32_t *n, tn_error *err);

#endif
