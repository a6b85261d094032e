/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants of halves as float32. A matrix that only products and Gather read stays as it is stored
 * (runtime/graph/quantized.h), so that a model is not in memory twice; what else is read is widened once.
 */
#ifndef TENON_PASSES_WIDEN_CONSTANT_H
#define TENON_PASSES_WIDEN_CONSTANT_H

#include "runtime/graph/graph.h"

static inline bool tni_widen_is_half(uint32_t dtype) { return dtype == TN_DT_F16 || dtype == TN_DT_BF16; }

/* n elements that were of this dtype, as float32: the lowest float16 stands for minus infinity in masks, since any
 * score vanishes in it. What it does there it does as the lowest of float32. */
void tni_widen_lowest(uint32_t dtype, float *x, int64_t n);
/* The CONST v may stay as it is stored: a matrix of halves, every reader of which reads it so, or one that is not to be
 * read now. */
bool tni_widen_stays(const tni_graph *g, tn_id v);
/* to: v's own id, or a fresh CONST. stays: as tni_widen_stays said; the readers' Transposes become constants too. */
TN_MUST_CHECK tn_status tni_widen_constant(tni_graph *g, tn_id v, tn_id to, bool stays, tn_error *err);

#endif
