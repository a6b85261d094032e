/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of a vendor's own (tn_plugin.ops): which plugin knows a node.
 */
#ifndef TENON_SESSION_CUSTOMS_H
#define TENON_SESSION_CUSTOMS_H

#include "runtime/place/place.h"

/* Before shapes are inferred: nodes that the table of operators lacks and a plugin of the profile lists. Of two plugins
 * the one that comes first in the profile is asked for the shape. */
void tni_customs_find(const tn_runtime *rt, tni_graph *g);
/* What is to be added to the message that nobody runs node n; "" where the node is none of these. */
void tni_customs_refusal(const tn_runtime *rt, const tni_exec *x, tn_id n, char *text, size_t size);

#endif
