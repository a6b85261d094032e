/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the pass `heads` that are files of their own.
 */
#ifndef TENON_PASSES_DECODER_HEADS_H
#define TENON_PASSES_DECODER_HEADS_H

#include "runtime/shape/shape.h"

/* A split activation: v [batch, heads, length, size] of an activation [batch, length, heads * size]. */
typedef struct tni_head_split {
  tn_id flat, by_length;   /* the activation, or TN_NONE; [batch, length, heads, size], or TN_NONE */
  const tni_node *reshape; /* makes the one that is split of flat */
  int64_t heads, size;
} tni_head_split;

bool tni_head_split_find(tni_graph *g, tn_id v, tni_head_split *s);
/* x reshaped; a 0 in shape is the dim that x has there. TN_NONE: no memory. */
tn_id tni_heads_reshape(tni_graph *g, tn_id x, const int64_t *shape, uint32_t rank, const tn_expr *dims, tn_error *err);
/* The activation of a split: as it is, or reshaped from by_length. */
tn_id tni_heads_flatten(tni_graph *g, const tni_head_split *s, tn_error *err);

/* Norm n before what splits heads off its operand. */
TN_MUST_CHECK tn_status tni_head_norm(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err);
/* Concat n of heads before what splits them off. */
TN_MUST_CHECK tn_status tni_head_concat(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err);

#endif
