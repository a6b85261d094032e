/* SPDX-License-Identifier: Apache-2.0
 *
 * What products lose by each format, measured in one walk of the float model.
 */
#ifndef TENON_QUANTIZE_SENSE_H
#define TENON_QUANTIZE_SENSE_H

#include "runtime/quantize/loss.h"

enum { TNI_QZ_SENSE_FORMATS = 32 };

typedef struct tni_qz_sense {
  double error[TNI_QZ_SENSE_FORMATS]; /* tr(dW H dW^T) / tr(W H W^T), rounded, over rows taken evenly */
  double loss; /* the model's, this product alone in format `reference`: mean KL divergence of logits; of other outputs
                  the squared difference over the square. Where it was not measured, what the error says */
  uint32_t measured; /* 1: loss was measured */
} tni_qz_sense;

typedef struct tni_qz_senses {
  tni_qz_sense *of;    /* [n_items] */
  uint32_t n_measured; /* products */
  double rank; /* correlation of ranks of measured losses and what errors of the other measured ones say of them */
  int64_t tokens;
  bool logits;
} tni_qz_senses;

/* Fills out; each product's is kept in the work folder. reference: a format of z. */
TN_MUST_CHECK tn_status tni_qz_sense_all(tni_qz *z, uint32_t reference, tni_qz_senses *out);
void tni_qz_senses_finish(tni_qz_senses *s);
/* How many of the first sequences losses are measured on, and their tokens. */
uint32_t tni_qz_sense_texts(const tni_qz *z, int64_t *tokens);
/* What it loses by a format: a loss grows with the error. */
double tni_qz_sense_cost(const tni_qz_sense *s, uint32_t reference, uint32_t format);

/* --- rounded.c --- */
/* w [N,K], all of p's rows or some, rounded to a format. squares [K]: of the input; NULL: all the same. *q is for
 * free(), also after a failure. */
TN_MUST_CHECK tn_status tni_qz_rounded(tni_qz *z, const tni_qz_product *p, uint32_t format, const float *w, int64_t N,
                                       const float *squares, float **q);

/* --- table_run.c --- */
/* What a table of embeddings loses: errors are those of the rows that the texts take. loss has run the float model. */
TN_MUST_CHECK tn_status tni_qz_sense_table(tni_qz *z, tni_qz_loss *loss, uint32_t n_seqs, uint32_t reference,
                                           tni_qz_sense *out);

/* --- whole.c --- */
/* The loss of the model with every item rounded to its format, on the same texts. formats [n, n_items], losses
 * [n]; each is kept in the work folder as it comes. */
TN_MUST_CHECK tn_status tni_qz_whole_losses(tni_qz *z, const uint32_t *formats, uint32_t n, double *losses);

#endif
