/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the pass `qdq` (qdq.c): values that stand for bytes with one scale and one zero point, constant weights and
 * biases.
 */
#ifndef TENON_PASSES_QUANT_QDQ_H
#define TENON_PASSES_QUANT_QDQ_H

#include "runtime/passes/build/build.h"

/* int8 or uint8 with a scale and a zero point that are constants of one element: (code - z) * s. */
typedef struct tni_grid {
  uint32_t dtype;
  float s;
  int32_t z;
  tn_id scale, zero; /* zero TN_NONE: there is none, z is 0 */
} tni_grid;

/* What n, a QuantizeLinear of f32 or a DequantizeLinear to f32, has. false: another type, several scales, not constant,
 * not positive and of ordinary size. */
bool tni_grid_of(const tni_graph *g, const tni_node *n, tni_grid *out);
bool tni_grid_same(const tni_grid *a, const tni_grid *b);
/* Lowest and highest code. */
int32_t tni_grid_low(const tni_grid *a);
int32_t tni_grid_high(const tni_grid *a);
/* The code of v, as QuantizeLinear gives it. */
int32_t tni_grid_code(const tni_grid *a, float v);
/* The zero point as a value; made where there is none. TN_NONE: without memory. */
tn_id tni_grid_zero(tni_graph *g, const tni_grid *a);

/* v is what bytes stand for: made by DequantizeLinear, with movement after it. */
bool tni_bytes_peek(const tni_graph *g, tn_id v, tni_grid *out);
/* Those bytes; movement is made again on them. TN_NONE: without memory. */
tn_id tni_bytes_make(tni_graph *g, tn_id v, tn_error *err);
/* They are there before the run. */
bool tni_bytes_const(const tni_graph *g, tn_id v);

/* DequantizeLinear of a constant matrix or kernel of bytes, with one scale or one per index of an axis. */
typedef struct tni_qweight {
  const tni_tensor *t, *scale, *zero; /* zero NULL: none */
  tn_id w, scale_id, zero_id;
} tni_qweight;
/* axis has n indices. */
bool tni_qweight_of(const tni_graph *g, tn_id v, uint32_t rank, uint32_t axis, tni_qweight *out);
/* Code i less the zero point, scale, of index m of the axis. */
int32_t tni_qweight_code(const tni_qweight *w, int64_t i, int64_t m);
float tni_qweight_scale(const tni_qweight *w, int64_t m);
/* v is n constants, or one: floats, or DequantizeLinear of codes; dims are 1 but for the last one. */
bool tni_qbias_peek(const tni_graph *g, tn_id v, int64_t n, uint32_t most_rank);
/* Number i of what that found. */
double tni_qbias_get(const tni_graph *g, tn_id v, int64_t i);

/* A copy of n, for other inputs. false: it has too many inputs or attributes, or subgraphs. */
bool tni_build_copy(const tni_node *n, tni_build_node *b);

#endif
