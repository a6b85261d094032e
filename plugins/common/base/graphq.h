/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions to a graph that every claim and lowering asks, through the host's services.
 */
#ifndef TENON_COMMON_BASE_GRAPHQ_H
#define TENON_COMMON_BASE_GRAPHQ_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* The only value that e can have. False where it has more than one or is unknown. */
bool tni_cm_const(const tn_host *host, const tn_graph *g, tn_expr e, int64_t *v);

/* Product of n expressions under dims; 1 for none. TN_E_INVALID where one cannot be evaluated or is negative,
 * TN_E_LIMIT on overflow. */
TN_MUST_CHECK tn_status tni_cm_product(const tn_host *host, const tn_graph *g, const tn_expr *e, uint32_t n,
                                       const tn_dims *dims, int64_t *out);

/* Symbols that some e depends on, as tn_task.symbols wants them; an unknown dim depends on everything. */
uint64_t tni_cm_symbols(const tn_host *host, const tn_graph *g, const tn_expr *e, uint32_t n);

const tn_value *tni_cm_value(const tn_graph *g, tn_id v); /* NULL for TN_NONE or out of range */

/* The cache as it enters the graph, of a state value v: itself, or what the TensorScatter that makes v appends to. */
tn_id tni_cm_state_root(const tn_graph *g, tn_id v);

#endif
