/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/quantize/fold: a model's constants changed so that the model gives the same, and its products are
 * easier to bring to few bits.
 *
 * Channels between what makes them and the products that read them may be divided by numbers there and multiplied by
 * them here, or turned within heads by a matrix and back. Where a graph allows it:
 *
 *   gain     a norm's gain (and bias), and the products that read the norm
 *   factor   the product that is a factor of Mul, and those that read its result: up and down
 *   values   the product whose heads attention sums up, and those that read the sums: v and o
 *
 * Everything between must keep channels apart: what else reads them leaves the place as it is.
 */
#ifndef TENON_QUANTIZE_FOLD_H
#define TENON_QUANTIZE_FOLD_H

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"
#include "runtime/quant/quant.h"

typedef enum tni_fold_kind { TNI_FOLD_GAIN, TNI_FOLD_FACTOR, TNI_FOLD_VALUES } tni_fold_kind;
enum { TNI_FOLD_READERS = 8, TNI_FOLD_MAKERS = 2, TNI_FOLD_LEAST_HEAD = 8 };

/* A constant and the axis on which the channels lie, as it is stored. */
typedef struct tni_fold_side {
  tn_id value;
  uint32_t axis;
} tni_fold_side;

typedef struct tni_fold_place {
  tni_fold_kind kind;
  tn_id x, node;    /* what the products read; the first of them */
  int64_t K;        /* channels of x */
  int64_t head;     /* channels that change: of VALUES those of a head, and all heads alike; else K */
  int64_t channels; /* of the makers: K, or those of the heads that several share */
  tni_fold_side maker[TNI_FOLD_MAKERS], reader[TNI_FOLD_READERS];
  uint32_t n_makers, n_readers;
} tni_fold_place;

typedef struct tni_fold {
  const tni_graph *g;
  tni_arena *arena;
  tni_fold_place *places;
  uint32_t n_places;
  struct tni_fold_edit *edits; /* [n_values] or NULL: what becomes of constants (edit.c) */
  uint32_t n_edited;           /* how many */
} tni_fold;

/* Finds the places of g, whose dims are inferred. g outlives out; finish it also after a failure. */
TN_MUST_CHECK tn_status tni_fold_find(const tni_graph *g, tni_fold *out, tn_error *err);
void tni_fold_finish(tni_fold *f);

/* --- edit.c: what becomes of constants. Each axis changes once. --- */
/* Makers are divided by s [head], readers multiplied. */
TN_MUST_CHECK tn_status tni_fold_scale(tni_fold *f, const tni_fold_place *p, const float *s, tn_error *err);
/* Makers and readers are turned, each run of `turn` channels by a Hadamard matrix; it is a power of 2 that divides
 * head. */
TN_MUST_CHECK tn_status tni_fold_turn(tni_fold *f, const tni_fold_place *p, uint32_t turn, tn_error *err);
/* The constant's elements as they become, in its own type; NULL: it stays. For free(). */
TN_MUST_CHECK tn_status tni_fold_elements(const tni_fold *f, const char *name, void **out, uint64_t *bytes,
                                          tn_error *err);

/* --- scales.c --- */
/* The scales s [head] by which the place's readers lose least on a grid, tried on some of their rows by rounding:
 * powers of the channels' mean squares in h [K,K] and in the weights. *gain: the error with them over that without; 1:
 * s is 1. */
TN_MUST_CHECK tn_status tni_fold_search(const tni_fold *f, const tni_fold_place *p, const float *h,
                                        const tni_quant_grid *grid, tn_run *run, float *s, double *gain, tn_error *err);

#endif
