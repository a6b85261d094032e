/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of a graph as a model of their own, in ONNX's format: what a test of just these nodes needs.
 */
#ifndef TENON_ONNX_SAVE_SAVE_H
#define TENON_ONNX_SAVE_SAVE_H

#include "runtime/graph/graph.h"

/* A value that the file declares: which, and its dtype and dims in the run that is saved (t->data is not read). A dim
 * below 0: as the graph has it, an expression of symbols. */
typedef struct tni_saved {
  tn_id value;
  const tni_tensor *t;
} tni_saved;

/* Writes FOLDER/model.onnx and FOLDER/model.onnx_data (the constants; quantized ones as floats). nodes: in topological
 * order; what they read is a constant, made by them, or among `in`. The folder exists. Operators
 * of domain tenon keep their domain: only Tenon reads such a file. TN_E_UNSUPPORTED: a node with a subgraph, or one
 * that the newest opset does not have. TN_E_IO: FOLDER cannot be written. */
TN_MUST_CHECK tn_status tni_save_nodes(const tni_graph *g, const tn_id *nodes, uint32_t n_nodes, const tni_saved *in,
                                       uint32_t n_in, const tni_saved *out, uint32_t n_out, const char *folder,
                                       tn_error *err);

#endif
