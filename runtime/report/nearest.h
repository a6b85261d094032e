/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes nearest to a node that nobody takes: another version of the operator, another domain, another dtype, a
 * name like it, or why the operator stays out.
 */
#ifndef TENON_REPORT_NEAREST_H
#define TENON_REPORT_NEAREST_H

#include "runtime/graph/graph.h"

/* Text for people into buf, "" where nothing comes near. */
void tni_nearest_node(const tni_graph *g, const tni_node *n, char *buf, size_t size);

#endif
