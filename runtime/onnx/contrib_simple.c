/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations and products.
 */
#include "runtime/onnx/contrib.h"

static const char *const no_attributes[] = {NULL};

static tn_id emit_gelu(tni_emit *e, tn_id x, bool approximate) {
  return tni_em_node_add(e, &(tni_em_node){.type = "Gelu",
                                           .n_in = 1,
                                           .in = {x},
                                           .n_attr = 1,
                                           .attr = {tni_raw_string("approximate", approximate ? "tanh" : "none")}});
}

void tni_contrib_gelu(tni_emit *e) {
  if (!tni_em_knows(e, 2, 1, no_attributes)) return;
  tni_em_give(e, 0, emit_gelu(e, tni_em_add(e, tni_em_in(e, 0), tni_em_in(e, 1)), false));
}

void tni_contrib_fast_gelu(tni_emit *e) {
  if (!tni_em_knows(e, 2, 1, no_attributes)) return;
  tni_em_give(e, 0, emit_gelu(e, tni_em_add(e, tni_em_in(e, 0), tni_em_in(e, 1)), true));
}

/* x * sigmoid(alpha * x). */
void tni_contrib_quick_gelu(tni_emit *e) {
  static const char *const names[] = {"alpha", NULL};
  if (!tni_em_knows(e, 1, 1, names)) return;
  tni_em_node n = {.type = "Swish", .n_in = 1, .in = {tni_em_in(e, 0)}, .n_attr = 1};
  n.attr[0] = tni_raw_float("alpha", (double)tni_em_float(e, "alpha", 1.702f));
  tni_em_give(e, 0, tni_em_node_add(e, &n));
}

/* [.., 2D] + bias: the first half times Gelu of the second. */
void tni_contrib_bias_split_gelu(tni_emit *e) {
  if (!tni_em_knows(e, 2, 1, no_attributes)) return;
  tn_id half[2];
  tni_em_split(e, tni_em_add(e, tni_em_in(e, 0), tni_em_in(e, 1)), -1, NULL, 2, half);
  tni_em_give(e, 0, tni_em_2(e, "Mul", half[0], emit_gelu(e, half[1], false)));
}

void tni_contrib_bias_add(tni_emit *e) {
  if (!tni_em_knows(e, 3, 1, no_attributes)) return;
  tni_em_give(e, 0, tni_em_add(e, tni_em_add(e, tni_em_in(e, 0), tni_em_in(e, 1)), tni_em_in(e, 2)));
}

/* The last two axes of x change places. Where nobody states the rank, by way of [-1, m, n]. */
static tn_id turned_matrix(tni_emit *e, tn_id x) {
  const uint32_t rank = tni_em_rank(e, x);
  int64_t perm[TN_MAX_RANK];
  if (rank == 1) return x;
  if (rank >= 2 && rank <= TN_MAX_RANK) {
    for (uint32_t i = 0; i < rank; i++) perm[i] = i;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    return tni_em_transpose(e, x, perm, rank);
  }
  static const int64_t swap[] = {0, 2, 1};
  const tn_id m = tni_em_shape(e, x, -2, -1), n = tni_em_shape(e, x, -1, 0), all = tni_em_shape(e, x, 0, -2);
  const tn_id flat[] = {tni_em_index(e, -1), m, n}, back[] = {all, n, m};
  const tn_id three = tni_em_2(e, "Reshape", x, tni_em_concat(e, flat, 3, 0));
  return tni_em_2(e, "Reshape", tni_em_transpose(e, three, swap, 3), tni_em_concat(e, back, 3, 0));
}

/* transBatch: the first axis stands before the last: [B.., ] -> perm 1 .. rank-2, 0, rank-1. */
static tn_id batch_turned(tni_emit *e, tn_id x) {
  const uint32_t rank = tni_em_rank(e, x);
  int64_t perm[TN_MAX_RANK];
  if (rank < 2 || rank > TN_MAX_RANK)
    return tni_em_fail(e, TN_E_UNSUPPORTED, "a batch is to be transposed and the model does not state the rank");
  for (uint32_t i = 0; i + 2 < rank; i++) perm[i] = i + 1;
  perm[rank - 2] = 0;
  perm[rank - 1] = rank - 1;
  return tni_em_transpose(e, x, perm, rank);
}

/* alpha * op(A) op(B). */
void tni_contrib_fused_matmul(tni_emit *e) {
  static const char *const names[] = {"alpha", "transA", "transB", "transBatchA", "transBatchB", NULL};
  if (!tni_em_knows(e, 2, 1, names)) return;
  tn_id x[2] = {tni_em_in(e, 0), tni_em_in(e, 1)};
  const int64_t batch[2] = {tni_em_int(e, "transBatchA", 0), tni_em_int(e, "transBatchB", 0)};
  const int64_t trans[2] = {tni_em_int(e, "transA", 0), tni_em_int(e, "transB", 0)};
  for (int i = 0; i < 2; i++) {
    if (batch[i]) x[i] = batch_turned(e, x[i]);
    /* The rank of what was just made is not known by name. */
    if (trans[i] && batch[i]) tni_em_fail(e, TN_E_UNSUPPORTED, "transBatch and trans of one operand");
    if (trans[i]) x[i] = turned_matrix(e, x[i]);
  }
  tn_id y = tni_em_2(e, "MatMul", x[0], x[1]);
  const float alpha = tni_em_float(e, "alpha", 1.0f);
  if (alpha != 1.0f) y = tni_em_2(e, "Mul", y, tni_em_scalar(e, tni_em_float_dtype(e, 2), (double)alpha));
  tni_em_give(e, 0, y);
}
