/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of runtime/graph share among themselves.
 */
#ifndef TENON_GRAPH_PRIV_H
#define TENON_GRAPH_PRIV_H

#include "runtime/graph/ir.h"

#define TNI_MAX_SUBGRAPH_DEPTH 64

/* Fails with the node's name as `where` and its id in err->node. */
tn_status tni_fail_node(tn_error *err, tn_status st, const tni_node *n, tn_id id, const char *fmt, ...) TN_PRINTF(5, 6);

/* Whether t's rank, dims, dtype and bytes fit each other; why not into why. Strings have no size to check. */
TN_MUST_CHECK tn_status tni_tensor_check(const tni_tensor *t, char *why, size_t n);

/* Copies raw attributes onto the arena: strings and lists too, tensors and graphs not. NULL without memory. */
const tni_raw_attr *tni_raw_copy(tni_arena *a, const tni_raw_attr *raw, uint32_t n);
/* Types n->raw by n->op into n->pub.attr. id: for messages. */
tn_status tni_attrs_type(tni_arena *a, tni_node *n, tn_id id, tn_error *err);
/* Of an operator that the table lacks: what the model wrote, in its order. */
tn_status tni_attrs_untyped(tni_arena *a, tni_node *n, tn_error *err);

/* Room for n more uses of v. */
bool tni_value_reserve_uses(tni_graph *g, tni_value *v, uint32_t n);
/* One more use of v by node; room must be there. */
void tni_value_push_use(tni_value *v, tn_id node);
/* order[i]: old index of the node that comes at place i. *changed: it is not the identity. Producers must be set. */
tn_status tni_graph_order(const tni_graph *g, tn_id *order, bool *changed, tn_error *err);

/* A sum of all that tni_graph_finish reads and writes of a subgraph, but for the types that it takes from outside. 0: a
 * graph that is always finished again: an outermost one, one with subgraphs or caches. */
uint64_t tni_graph_stamp(const tni_graph *g);
/* g is as its last finish left it (g->stamp), and finishing it again would only take types from outside. */
bool tni_graph_unchanged(const tni_graph *g);

#endif
