/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands for one node: values that are there, graph inputs and constants, shaped as a letter says, all around one
 * base tensor; now and then as nothing says.
 *
 *   x base   b bool of base   d int64 of base   f f32 of base   h [B, S, 4 H] of base's dtype   4 rank 4 of base's
 * dtype c [axis 1]   l [last axis]   k [4]   i int64 [few] constant   n int64 scalar   s f32 scalar   S scalar of
 * base's dtype u uint8 or int8 scalar   t bool scalar   D int32 [B]   N int32 scalar   m [last, 4]   w [4, axis 1, 2..]
 * W [axis 1, 4, 2..] Q bytes of base   M bytes [last, 4]   V bytes as w   B bytes [4, 2, 2]   g [1, 4, last]   r [1, 4,
 * 4]
 */
#ifndef TENON_FUZZ_OPERANDS_H
#define TENON_FUZZ_OPERANDS_H

#include "tests/fuzz/values.h"

enum { FZ_MAX_VALUES = 64, FZ_MAX_DEPTH = 2 };

typedef struct fz_value {
  char *name;
  uint32_t dtype;
  int32_t rank; /* -1: not known */
  int64_t dims[8];
} fz_value;

typedef struct fz_scope {
  tni_arena *arena;
  fz_bytes *b;
  Onnx__GraphProto *graph;
  fz_value values[FZ_MAX_VALUES];
  uint32_t n_values, depth;
  uint32_t *count; /* names given so far, in all graphs */
  uint64_t *seed;
  fz_value base; /* of the node that is being made */
} fz_scope;

void fz_scope_base(fz_scope *s);
/* Name of an operand of this kind ("" for one that is left out). */
char *fz_operand(fz_scope *s, char letter);
/* Notes a value that nodes may read. */
void fz_scope_add(fz_scope *s, char *name, uint32_t dtype, const int64_t *dims, int32_t rank);

#endif
