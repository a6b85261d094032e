/* SPDX-License-Identifier: Apache-2.0
 *
 * Small models from bytes: one to a few nodes of any operator of the table or of com.microsoft, with random dtypes,
 * ranks, attributes, constants and subgraphs, right enough that many of them load.
 */
#ifndef TENON_FUZZ_GEN_H
#define TENON_FUZZ_GEN_H

#include "tests/fuzz/bytes.h"
#include "tests/fuzz/pb.h"

Onnx__ModelProto *fz_generate(tni_arena *a, fz_bytes *b);
/* Writes the model of `data` into a malloc'd buffer, NULL where it is too large; for a target. */
uint8_t *fz_generate_bytes(const uint8_t *data, size_t n, size_t *size);
/* One more random node at the end of a graph, reading values of these names among others. */
void fz_add_node(tni_arena *a, fz_bytes *b, Onnx__GraphProto *g, char *const *names, uint32_t n_names);

#endif
