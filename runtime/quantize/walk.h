/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph run over sequences, node by node, each with what later nodes read of it.
 */
#ifndef TENON_QUANTIZE_WALK_H
#define TENON_QUANTIZE_WALK_H

#include "runtime/quantize/internal.h"

/* A value of a sequence that later nodes read. */
typedef struct tni_qz_kept {
  tni_tensor t; /* data is that of the block */
  tni_spill_block block;
} tni_qz_kept;

typedef struct tni_qz_walker {
  tni_qz *z;
  tni_graph *g;
  uint32_t n_seqs;    /* the first ones of z */
  tn_id *last; /* [n_values]: the last node that reads it, or what is made of it alone and constants; after begin,
                  n_nodes keeps a value */
  bool *fixed;        /* [n_values]: made of constants alone */
  tni_tensor **once;  /* [n_values]: what was made of constants, when it is read first */
  tni_qz_kept **state; /* [n_seqs * n_values] */
  float **weights;    /* [n_values]: of solved weights; void * of the stored type */
} tni_qz_walker;

/* g: of z, or of another import of the same file. Inputs are given; end also after a failure. */
TN_MUST_CHECK tn_status tni_qz_walk_begin(tni_qz_walker *w, tni_qz *z, tni_graph *g, uint32_t n_seqs);
void tni_qz_walk_end(tni_qz_walker *w);
/* Nodes [from, to) of one sequence's state; of all sequences. */
TN_MUST_CHECK tn_status tni_qz_run_nodes(tni_qz_walker *w, tni_qz_kept **state, tn_id from, tn_id to);
TN_MUST_CHECK tn_status tni_qz_run_segment(tni_qz_walker *w, tn_id from, tn_id to);

/* q [N,K] as p's weight is stored, for free(). */
TN_MUST_CHECK tn_status tni_qz_stored(tni_qz_walker *w, const tni_qz_product *p, const float *q, float **out);
/* p's weight becomes data; returns what it was. */
void *tni_qz_swap(tni_qz_walker *w, const tni_qz_product *p, void *data);

/* --- table_run.c --- */
/* Sequences that have run nothing yet, up to the Gather of embeddings and with it: its table rounded to a format; as it
 * is solved. */
TN_MUST_CHECK tn_status tni_qz_run_rounded_table(tni_qz_walker *w, uint32_t format);
TN_MUST_CHECK tn_status tni_qz_run_solved_table(tni_qz_walker *w);

/* --- state.c: values in memory, or in the file of z->spill --- */
/* A copy with elements of its own; in *out, which holds nothing yet. */
TN_MUST_CHECK tn_status tni_qz_hold(tni_qz *z, const tni_tensor *t, tni_qz_kept **out);
TN_MUST_CHECK tn_status tni_qz_hold_again(tni_qz *z, const tni_qz_kept *k, tni_qz_kept **out);
void tni_qz_let_go(tni_qz *z, tni_qz_kept **k);
/* Its tensor, in memory. */
TN_MUST_CHECK tn_status tni_qz_tensor(tni_qz *z, tni_qz_kept *k, const tni_tensor **out);
/* A sequence's values go into the file where memory holds more than it may. */
TN_MUST_CHECK tn_status tni_qz_put_away(tni_qz_walker *w, tni_qz_kept **state);
/* A value of p's node or of one beside it in a state, f32 [*rows, channels], for free(). */
TN_MUST_CHECK tn_status tni_qz_value(tni_qz_walker *w, tni_qz_kept **state, tn_id v, const tni_qz_product *p,
                                     int64_t channels, float **out, int64_t *rows);
/* h [K,K] += x^T x of p's input. */
TN_MUST_CHECK tn_status tni_qz_add_moments(tni_qz_walker *w, tni_qz_kept **state, const tni_qz_product *p, float *h);

#endif
