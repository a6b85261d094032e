/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/graph: nodes, values and the op table.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_GRAPH_GRAPH_H
#define TENON_GRAPH_GRAPH_H

#include "runtime/graph/core_graph.h"
#include "runtime/graph/dump.h"
#include "runtime/graph/ir.h"
#include "runtime/graph/op.h"
#include "runtime/graph/quantized.h"
#include "runtime/graph/rows.h"

#endif
