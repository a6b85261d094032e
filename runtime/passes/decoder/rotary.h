/* SPDX-License-Identifier: Apache-2.0
 *
 * What the pass `rotary` is made of: the two elements of a pair, and tables that hold every number twice.
 *
 * A head of 2 n elements has n pairs. HALVES: pair i is elements i and n + i; PAIRS: elements 2 i and 2 i + 1. A table
 * that is multiplied with whole heads holds the number of pair i at both places; RotaryEmbedding wants it once.
 */
#ifndef TENON_PASSES_DECODER_ROTARY_H
#define TENON_PASSES_DECODER_ROTARY_H

#include "runtime/passes/build/build.h"

typedef enum { TNI_ROTARY_HALVES, TNI_ROTARY_PAIRS } tni_rotary_order;

/* The last dim of v where it is a constant. */
bool tni_rotary_last(const tni_graph *g, tn_id v, int64_t *n);
/* axis, maybe counted from the end, is v's last. */
bool tni_rotary_is_last(const tni_graph *g, tn_id v, int64_t axis);
/* v is [first, first + count) of the last axis of *x, by Slice or Split. */
bool tni_rotary_range(const tni_graph *g, tn_id v, tn_id *x, int64_t *first, int64_t *count);
/* v is the first (*which 0) or second (1) element of all pairs of *x. */
bool tni_rotary_part(const tni_graph *g, tn_id v, tn_id *x, tni_rotary_order *order, uint32_t *which);
/* v has *a as the first elements of its pairs and *b as the second. */
bool tni_rotary_joined(const tni_graph *g, tn_id v, tni_rotary_order order, tn_id *a, tn_id *b);

/* Halved tables of one run of the pass, by value: what was halved once is not halved again. */
typedef struct tni_rotary_tables {
  tni_graph *g;
  tni_arena *arena;
  tn_id *half[2]; /* by order */
  uint32_t n_values, nested;
} tni_rotary_tables;

TN_MUST_CHECK tn_status tni_rotary_tables_init(tni_rotary_tables *t, tni_graph *g, tn_error *err);
void tni_rotary_tables_free(tni_rotary_tables *t);
/* Every number of v stands twice, proved: by the way v is made, or by the elements of a constant. */
bool tni_rotary_is_double(tni_rotary_tables *t, tn_id v, tni_rotary_order order);
/* v with each number once, of v's rank and dims but for the last; TN_NONE without memory. v is double. */
tn_id tni_rotary_halve(tni_rotary_tables *t, tn_id v, tni_rotary_order order, tn_error *err);

#endif
