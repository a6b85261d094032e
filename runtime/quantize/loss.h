/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a changed model's output is from the float model's, on the sequences of a walk.
 */
#ifndef TENON_QUANTIZE_LOSS_H
#define TENON_QUANTIZE_LOSS_H

#include "runtime/quantize/walk.h"

typedef struct tni_qz_loss {
  tn_id output;
  bool logits;      /* the output is logits: KL divergence */
  int64_t *n, V;    /* [n_seqs]: rows of an output, [V] each */
  float **base;     /* [n_seqs]: of the float model; log probabilities of logits */
  uint32_t n_seqs;
} tni_qz_loss;

/* The logits, or the first output of floats; before the node that makes it runs. */
TN_MUST_CHECK tn_status tni_qz_loss_find(tni_qz_loss *l, tni_qz_walker *w);
/* What the nodes from `from` on give on a copy of a sequence's state: log probabilities, or the output. [*n,V], for
 * free(), also after a failure. */
TN_MUST_CHECK tn_status tni_qz_loss_output(tni_qz_loss *l, tni_qz_walker *w, uint32_t seq, tn_id from, float **out,
                                           int64_t *n);

/* Runs all sequences once, from the beginning. w must have run nothing yet. end also after a failure. */
TN_MUST_CHECK tn_status tni_qz_loss_begin(tni_qz_loss *l, tni_qz_walker *w);
void tni_qz_loss_end(tni_qz_loss *l);
/* Runs nodes from `from` on copies of w's states. */
TN_MUST_CHECK tn_status tni_qz_loss_of(tni_qz_loss *l, tni_qz_walker *w, tn_id from, double *out);

#endif
