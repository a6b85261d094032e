/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalizations and what stands before them.
 */
#include "runtime/onnx/contrib.h"

/* The last axis normalised; out[0..2]: y, mean, 1 / deviation (RMSNormalization: y only). */
static void emit_norm(tni_emit *e, const char *type, tn_id x, tn_id scale, tn_id bias, tni_em_node *n) {
  *n = (tni_em_node){.type = type, .n_in = 3, .in = {x, scale, bias}, .n_attr = 2};
  n->attr[0] = tni_raw_int("axis", tni_em_int(e, "axis", -1));
  n->attr[1] = tni_raw_float("epsilon", (double)tni_em_float(e, "epsilon", 1e-12f));
}

/* 1 / sqrt(mean(x^2) + epsilon), which RMSNormalization does not hand out. */
static tn_id inverse_rms(tni_emit *e, tn_id x, float epsilon) {
  const tn_id f = tni_em_cast(e, x, TN_DT_F32);
  tni_em_node mean = {.type = "ReduceMean", .n_in = 2, .in = {tni_em_2(e, "Mul", f, f), tni_em_index(e, -1)}};
  const tn_id m = tni_em_2(e, "Add", tni_em_node_add(e, &mean), tni_em_scalar(e, TN_DT_F32, (double)epsilon));
  return tni_em_1(e, "Reciprocal", tni_em_1(e, "Sqrt", m));
}

void tni_contrib_layer_norm(tni_emit *e) {
  static const char *const names[] = {"axis", "epsilon", "stash_type", NULL};
  if (!tni_em_knows(e, 2, 2, names)) return;
  tni_em_node n;
  emit_norm(e, "RMSNormalization", tni_em_in(e, 0), tni_em_in(e, 1), TN_NONE, &n);
  const float epsilon = tni_em_float(e, "epsilon", 1e-5f);
  n.attr[1] = tni_raw_float("epsilon", (double)epsilon);
  tni_em_give(e, 0, tni_em_node_add(e, &n));
  if (!tni_em_wants(e, 1)) return;
  if (tni_em_int(e, "axis", -1) != -1) tni_em_fail(e, TN_E_UNSUPPORTED, "result 1 with another axis than the last");
  tni_em_give(e, 1, inverse_rms(e, tni_em_in(e, 0), epsilon));
}

/* operands: input, skip, gamma, beta, bias; results: y, mean, 1 / deviation, the sum. */
void tni_contrib_skip_layer_norm(tni_emit *e) {
  static const char *const names[] = {"epsilon", NULL};
  if (!tni_em_knows(e, 5, 4, names)) return;
  tni_em_node n;
  const tn_id sum = tni_em_add(e, tni_em_add(e, tni_em_in(e, 0), tni_em_in(e, 1)), tni_em_in(e, 4));
  emit_norm(e, "LayerNormalization", sum, tni_em_in(e, 2), tni_em_in(e, 3), &n);
  n.n_out = 3;
  tni_em_give(e, 0, tni_em_node_add(e, &n));
  tni_em_give(e, 1, n.out[1]);
  tni_em_give(e, 2, n.out[2]);
  tni_em_give(e, 3, sum);
}

/* operands: input, skip, gamma, bias. */
void tni_contrib_skip_simplified(tni_emit *e) {
  static const char *const names[] = {"epsilon", NULL};
  if (!tni_em_knows(e, 4, 4, names)) return;
  if (tni_em_wants(e, 1)) tni_em_fail(e, TN_E_UNSUPPORTED, "result 1, a mean that is not computed");
  tni_em_node n;
  const tn_id sum = tni_em_add(e, tni_em_add(e, tni_em_in(e, 0), tni_em_in(e, 1)), tni_em_in(e, 3));
  emit_norm(e, "RMSNormalization", sum, tni_em_in(e, 2), TN_NONE, &n);
  tni_em_give(e, 0, tni_em_node_add(e, &n));
  if (tni_em_wants(e, 2)) tni_em_give(e, 2, inverse_rms(e, sum, tni_em_float(e, "epsilon", 1e-12f)));
  tni_em_give(e, 3, sum);
}

/* Rows of the table of positions: those that position_ids name, else 0 .. S-1, [1, S, D]. */
static tn_id position_rows(tni_emit *e, tn_id ids, tn_id table, tn_id positions) {
  static const int64_t zero = 0;
  if (positions != TN_NONE) return tni_em_2(e, "Gather", table, positions);
  const tn_id S = tni_em_shape(e, ids, 1, 2);
  return tni_em_unsqueeze(e, tni_em_slice(e, table, 0, tni_em_index(e, 0), S), &zero, 1);
}

/* How many keys of each sequence the mask lets see; zeros without a mask. int32 [B]. */
static tn_id mask_index(tni_emit *e, tn_id ids, tn_id mask) {
  if (mask == TN_NONE) return tni_em_2(e, "Expand", tni_em_scalar(e, TN_DT_I32, 0), tni_em_shape(e, ids, 0, 1));
  tni_em_node sum = {.type = "ReduceSum", .n_in = 2, .n_attr = 1, .attr = {tni_raw_int("keepdims", 0)}};
  sum.in[0] = tni_em_cast(e, tni_em_2(e, "Equal", mask, tni_em_scalar(e, TN_DT_I32, 1)), TN_DT_I32);
  sum.in[1] = tni_em_index(e, 1);
  return tni_em_node_add(e, &sum);
}

/* operands: input_ids, segment_ids, word, position and segment tables, gamma, beta, mask, position_ids; results: y,
 * mask_index, the sum. */
void tni_contrib_embed_layer_norm(tni_emit *e) {
  static const char *const names[] = {"epsilon", "mask_index_type", NULL};
  if (!tni_em_knows(e, 9, 3, names)) return;
  const tn_id ids = tni_em_in(e, 0), segments = tni_em_in(e, 1);
  tn_id sum = tni_em_2(e, "Add", tni_em_2(e, "Gather", tni_em_in(e, 2), ids),
                       position_rows(e, ids, tni_em_in(e, 3), tni_em_in(e, 8)));
  if (segments != TN_NONE && tni_em_in(e, 4) != TN_NONE)
    sum = tni_em_2(e, "Add", sum, tni_em_2(e, "Gather", tni_em_in(e, 4), segments));
  tni_em_node n;
  emit_norm(e, "LayerNormalization", sum, tni_em_in(e, 5), tni_em_in(e, 6), &n);
  tni_em_give(e, 0, tni_em_node_add(e, &n));
  if (tni_em_wants(e, 1)) tni_em_give(e, 1, mask_index(e, ids, tni_em_in(e, 7)));
  tni_em_give(e, 2, sum);
}
