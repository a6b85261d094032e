/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph run over sequences, node by node, each with what later nodes read of it.
 */
#ifndef TENON_QUANTIZE_WALK_H
#define TENON_QUANTIZE_WALK_H

#include "runtime/quantize/internal.h"

typedef struct tni_qz_walker {
  tni_qz *z;
  tni_graph *g;
  uint32_t n_seqs;    /* the first ones of z */
  tn_id *last;        /* [n_values]: the last node that reads it; after begin, n_nodes keeps a value */
  bool *fixed;        /* [n_values]: made of constants alone */
  tni_tensor **once;  /* [n_values]: what was made of constants, when it is read first */
  tni_tensor **state; /* [n_seqs * n_values] */
  float **weights;    /* [n_values]: of solved weights; void * of the stored type */
} tni_qz_walker;

/* g: of z, or of another import of the same file. Inputs are given; end also after a failure. */
TN_MUST_CHECK tn_status tni_qz_walk_begin(tni_qz_walker *w, tni_qz *z, tni_graph *g, uint32_t n_seqs);
void tni_qz_walk_end(tni_qz_walker *w);
/* Nodes [from, to) of one sequence's state; of all sequences. */
TN_MUST_CHECK tn_status tni_qz_run_nodes(tni_qz_walker *w, tni_tensor **state, tn_id from, tn_id to);
TN_MUST_CHECK tn_status tni_qz_run_segment(tni_qz_walker *w, tn_id from, tn_id to);
/* A value of p's node or of one beside it in a state, f32 [*rows, channels], for free(). */
TN_MUST_CHECK tn_status tni_qz_value(tni_qz_walker *w, tni_tensor **state, tn_id v, const tni_qz_product *p,
                                     int64_t channels, float **out, int64_t *rows);
/* h [K,K] += x^T x of p's input. */
TN_MUST_CHECK tn_status tni_qz_add_moments(tni_qz_walker *w, tni_tensor **state, const tni_qz_product *p, float *h);

/* q [N,K] as p's weight is stored, for free(). */
TN_MUST_CHECK tn_status tni_qz_stored(tni_qz_walker *w, const tni_qz_product *p, const float *q, float **out);
/* p's weight becomes data; returns what it was. */
void *tni_qz_swap(tni_qz_walker *w, const tni_qz_product *p, void *data);

/* A copy with elements of its own; NULL without memory. */
tni_tensor *tni_qz_own(const tni_tensor *t);
void tni_qz_drop(tni_tensor **t);

#endif
