/* SPDX-License-Identifier: Apache-2.0
 *
 * Which elements of the last axis of an activation a value holds, and in which order.
 */
#ifndef TENON_PASSES_DECODER_LANES_H
#define TENON_PASSES_DECODER_LANES_H

#include "runtime/shape/shape.h"

enum { TNI_LANES_LEADS = 2 }; /* batch and length */

/* v is root [lead, .., n] seen through Reshape, Squeeze, Unsqueeze, Flatten, Transpose, Slice, Split, Gather by
 * constants. */
typedef struct tni_lanes {
  tn_id root;
  uint32_t rank, n_leads;
  int64_t dim[TN_MAX_RANK]; /* of v: a constant, or -1 - i for axis i of the root */
  int32_t *column;          /* of the root, for each place on v's constant axes in order; calloc'd */
  int64_t n;                /* of columns */
  bool moved;               /* they are not simply all, in order */
} tni_lanes;

/* The node that makes v only moves elements. */
bool tni_lanes_is_view(const tni_graph *g, tn_id v);
/* false: v is no such value, or memory is short. Then nothing is to be freed. */
bool tni_lanes_read(const tni_graph *g, tn_id v, tni_lanes *l);
void tni_lanes_free(tni_lanes *l);

#endif
