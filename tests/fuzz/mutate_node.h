/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts that mutate.c puts together: what may be changed in a model, found by a walk, and changes of one part.
 */
#ifndef TENON_FUZZ_MUTATE_NODE_H
#define TENON_FUZZ_MUTATE_NODE_H

#include "tests/fuzz/bytes.h"
#include "tests/fuzz/pb.h"

enum { FZ_MAX_PARTS = 512 };

/* What stands in a model, subgraphs included; past the room the rest is left alone. */
typedef struct fz_parts {
  Onnx__GraphProto *graphs[FZ_MAX_PARTS];
  Onnx__NodeProto *nodes[FZ_MAX_PARTS];
  Onnx__AttributeProto *attrs[FZ_MAX_PARTS];
  Onnx__TensorProto *tensors[FZ_MAX_PARTS];
  Onnx__TypeProto *types[FZ_MAX_PARTS];
  char **names[FZ_MAX_PARTS]; /* operands and results of nodes, names of inputs, outputs and initializers */
  char *values[FZ_MAX_PARTS]; /* names that somebody gives */
  uint32_t n_graphs, n_nodes, n_attrs, n_tensors, n_types, n_names, n_values;
} fz_parts;

void fz_find_parts(Onnx__ModelProto *m, fz_parts *p);
void fz_change_node(tni_arena *a, fz_bytes *b, Onnx__NodeProto *n, const fz_parts *p);
void fz_change_attribute(tni_arena *a, fz_bytes *b, Onnx__AttributeProto *at);
void fz_change_tensor(tni_arena *a, fz_bytes *b, Onnx__TensorProto *t);
void fz_change_type(tni_arena *a, fz_bytes *b, Onnx__TypeProto *t);

#endif
