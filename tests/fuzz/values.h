/* SPDX-License-Identifier: Apache-2.0
 *
 * What models are made of: operators with their attributes (the op table's and com.microsoft's), and values that
 * attributes, dims and small integer operands tend to have or should not have.
 */
#ifndef TENON_FUZZ_VALUES_H
#define TENON_FUZZ_VALUES_H

#include "runtime/graph/op.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/pb.h"

typedef struct fz_op {
  const char *domain, *name;
  const char *operands; /* one letter each (operands.h) */
  uint32_t in_min, in_max, out_min, out_max;
  const tni_op *row; /* of the op table, or NULL */
  const char *attrs; /* otherwise: "name:i other:f", i f s I F */
} fz_op;
/* n: any number; every operator has some. */
fz_op fz_pick_op(uint32_t n);
/* A whole number: small mostly, sometimes at an end of the range. */
int64_t fz_int(fz_bytes *b);
float fz_float(fz_bytes *b);
uint32_t fz_dtype(fz_bytes *b);
const char *fz_string(fz_bytes *b);
/* A value of this type (TN_ATTR_*) for an attribute. name: what it is called. Graphs are left out. */
Onnx__AttributeProto *fz_attribute(tni_arena *a, fz_bytes *b, const char *name, uint32_t type, uint64_t seed);
/* The attribute i of op; false past the end. */
bool fz_attr_spec(const fz_op *op, uint32_t i, char name[64], uint32_t *type, bool *required);

#endif
