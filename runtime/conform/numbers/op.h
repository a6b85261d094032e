/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators without weights of a format: one row each of a table, judged against the host's kernel with a bound from
 * the dtype and the operator's length. docs/conformance-numbers.md has the rules. Private to the room.
 */
#ifndef TENON_CONFORM_NUMBERS_OP_H
#define TENON_CONFORM_NUMBERS_OP_H

#include "runtime/conform/numbers/num.h"

/* How results are judged, u being the unit of the dtype and c the row's number:
 *  EXACT    the same element, bit for bit but for the sign of zero and the payload of NaN
 *  ULP      c u |y| + d u |x| (x the first operand, where it has y's shape)
 *  TERMS    c u T, T what the operator gives on the magnitudes of its operands; c counts the additions and roundings
 *  SOFTMAX  (n + c) u y and what an argument's rounding does to it, n the last dim
 *  NORM     of rows of the last dim: LayerNormalization and RMSNormalization
 *  ATTEND   of Attention: scores, softmax, mixture
 *  BYTES    of 8 bits one unit, where a half may have been rounded the other way: of few elements alone (op.c); floats c u
 *           |y|; wider integers nothing */
enum { TNI_CN_EXACT, TNI_CN_ULP, TNI_CN_TERMS, TNI_CN_SOFTMAX, TNI_CN_NORM, TNI_CN_ATTEND, TNI_CN_BYTES };
/* Values of the operands: ANY takes all patterns, infinities and NaN; POSITIVE, SMALL (at most 8), UNIT (at most 1),
 * AWAY (between 0.1 and 10, either sign). */
enum { TNI_CN_ANY, TNI_CN_POSITIVE, TNI_CN_SMALL, TNI_CN_UNIT, TNI_CN_AWAY };

typedef struct tni_cn_row {
  const char *group, *op, *domain, *inputs, *attrs;
  int64_t version;
  uint32_t n_out, judge, range;
  double c, d;
} tni_cn_row;

extern const tni_cn_row tni_cn_rows[];
extern const uint32_t tni_cn_n_rows;

/* Bounds [count] of output o; in, out: the operands and what the host made of them. false: no memory. */
bool tni_cn_op_bound(const tni_cn_row *row, const tni_cn_graph *b, const tni_tensor *const *in, const tni_tensor *out,
                     uint32_t o, tni_arena *a, float *bound);

#endif
