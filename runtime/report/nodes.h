/* SPDX-License-Identifier: Apache-2.0
 *
 * Which node reads a weight: its name says layer and product where the weight's does not.
 */
#ifndef TENON_REPORT_NODES_H
#define TENON_REPORT_NODES_H

#include "runtime/base/json.h"
#include "runtime/graph/graph.h"

/* tensors: a list of objects with "name", of a value. Each gets "node", the first node that reads it, where there is one. */
void tni_name_nodes(const tni_graph *g, json_t *tensors);

#endif
