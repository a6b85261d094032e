/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking values away from their producers.
 */
#ifndef TENON_SHAPE_EDIT_H
#define TENON_SHAPE_EDIT_H

#include "runtime/graph/graph.h"
#include "runtime/shape/infer.h"

/* Output o of node n is made by it no longer; a node without outputs is dead. Uses and producers are stale afterwards
 * until tni_graph_finish. Returns whether the node died. */
bool tni_detach_output(tni_graph *g, tni_node *n, uint32_t o);
/* All elements of v are known, and there are as many as its (constant) dims say. */
bool tni_elems_complete(const tni_graph *g, const tni_value *v);
/* Symbols that graph inputs carry, and the rows of logits, which a session sets, as tni_ex_symbols counts them. Bit 63 stands for many: it is only trusted where
 * there are no more than 64. */
uint64_t tni_given_symbols(const tni_graph *g);
/* All of e[n] are known and made of such symbols only: they can be written before the step. */
bool tni_symbols_given(const tni_graph *g, uint64_t given, const tn_expr *e, uint32_t n);
/* Stores int64 into element i of a dense integer or bool tensor; false if the dtype cannot hold it. */
bool tni_store_index(uint32_t dtype, void *data, uint64_t i, int64_t v);

#endif
