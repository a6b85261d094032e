/* SPDX-License-Identifier: Apache-2.0
 *
 * A past input and a present output of the graph, as Attention reads and makes them: themselves, or widened from halves
 * and rounded back to them by Casts (runtime/passes/widen).
 */
#ifndef TENON_PASSES_DECODER_PAST_H
#define TENON_PASSES_DECODER_PAST_H

#include "runtime/graph/graph.h"

/* The graph's input that v is, or is a lossless Cast of; neither has another reader. TN_NONE: there is none. */
tn_id tni_past_input(const tni_graph *g, tn_id v);
/* The Cast from v to an output of the graph that is half; NULL: there is none, or there are several. */
tni_node *tni_present_cast(const tni_graph *g, tn_id v);
/* Which keys Attention n shows to a query, or how much of them, depends on where the past ends: it is causal, or has a
 * window or slopes. */
bool tni_counts_positions(const tni_node *n);

#endif
