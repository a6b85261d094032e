/* SPDX-License-Identifier: Apache-2.0
 *
 * Masks that stand one after another between scores and Softmax, as one operand of Attention; sinks.
 */
#ifndef TENON_PASSES_DECODER_ATTENTION_H
#define TENON_PASSES_DECODER_ATTENTION_H

#include "runtime/passes/build/build.h"

enum { TNI_ATTENTION_LAYERS = 4 };

/* One of them: scores + mask, or scores where keep is true (inverted: false) and low elsewhere. The other is TN_NONE.
 * Softmax sees it times scale. */
typedef struct tni_attention_layer {
  tn_id mask, keep;
  double low, scale;
  bool inverted;
} tni_attention_layer;

typedef struct tni_attention_masks {
  tni_attention_layer layer[TNI_ATTENTION_LAYERS]; /* from the Softmax inwards */
  uint32_t n;
} tni_attention_masks;

/* v puts a mask on *under, by Add or Where, and has its dims, if there are as many keys; side: which operand of Add is
 * the scores (0 only for Where). false: it does not, or what it puts in their place is not so low (-inf, or at most
 * -1e30 but in halves) that any score vanishes in it. */
bool tni_attention_layer_of(const tni_graph *g, tn_id v, uint32_t side, tni_attention_layer *l, tn_id *under);
/* All of them end in the keys, broadcast to scores, if they have one number per key, and have dtype where they are
 * added. one_head: scores are [batch, length, keys]; then masks have two axes at most. */
bool tni_attention_masks_fit(const tni_graph *g, const tni_attention_masks *m, tn_id scores, bool one_head,
                             uint32_t dtype);
/* All of them as one operand: boolean where none is added and all put in -inf. *mask TN_NONE without any. A mask
 * of an unknown number of keys, a Slice of the last ones, is sliced anew, of at most n. */
TN_MUST_CHECK tn_status tni_attention_masks_build(tni_graph *g, const tni_attention_masks *m, tn_id scores,
                                                  uint32_t dtype, tn_id *mask, tn_error *err);

/* Reshape(Expand(x)) that repeats every head of [batch, heads, length, size]: x's own operand, else v. */
tn_id tni_attention_without_repeat(const tni_graph *g, tn_id v);
/* Attention n on three axes, whose keys and values were repeated and joined: on four, and not repeated. */
TN_MUST_CHECK tn_status tni_attention_repeat(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err);

/* The Softmax over the last axis that makes v, or NULL. */
const tni_node *tni_attention_softmax(const tni_graph *g, tn_id v);
/* p [batch, heads, length, keys] is Softmax(Concat(scores, sinks)) without its last column, and nobody else reads what
 * lies between. *sinks: a value of rank 3 or 4 that holds one number per head, for tni_attention_per_head. */
bool tni_attention_sinks(const tni_graph *g, tn_id p, tn_id *scores, tn_id *sinks);
/* [heads] of [heads, 1, 1] or [1, heads, 1, 1], heads constant. TN_NONE: without memory. */
tn_id tni_attention_per_head(tni_graph *g, tn_id column, tn_error *err);

#endif
