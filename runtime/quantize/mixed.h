/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of choosing formats by a budget.
 */
#ifndef TENON_QUANTIZE_MIXED_H
#define TENON_QUANTIZE_MIXED_H

#include "runtime/quantize/sense.h"

/* Items are the products, and the table of embeddings where it is open; choices the formats, and floats after them. */
typedef struct tni_qz_mixing {
  uint64_t *bytes; /* [items, choices] */
  double *cost;
  uint32_t *chosen, *alone; /* [items]: of the mix, and where products have one format */
  uint32_t reference;       /* the format that losses were measured in */
  bool shared;              /* the table reads the lender's codes */
} tni_qz_mixing;

/* What was checked on the whole. */
typedef struct tni_qz_checked {
  bool same;      /* there is nothing beside the mix: none fits, or it is that */
  uint32_t alone; /* the format that is best where all products have it; TNI_QZ_FLOAT: none fits */
  double loss[2]; /* of the mix; of that */
} tni_qz_checked;

/* --- mixed_notes.c --- */
/* Of all products, and bits of one in so many bytes of all. */
double tni_qz_count_weights(const tni_qz *z);
double tni_qz_in_bits(const tni_qz *z, uint64_t bytes);
/* quantize.json, once formats are chosen. */
TN_MUST_CHECK tn_status tni_qz_mix_notes(tni_qz *z, const tni_qz_senses *s, uint32_t reference,
                                         const tni_qz_checked *c);

#endif
