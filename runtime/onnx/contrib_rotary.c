/* SPDX-License-Identifier: Apache-2.0
 *
 * RotaryEmbedding: the standard's operator (23) but for the order of operands, positions as an offset, and heads that
 * the tables tell.
 */
#include "runtime/onnx/contrib.h"

tn_id tni_contrib_turn(tni_emit *e, tn_id x, tn_id cos, tn_id sin, tn_id positions, int64_t heads, bool interleaved,
                       int64_t dim) {
  tni_em_node n = {.type = "RotaryEmbedding", .n_in = 4, .in = {x, cos, sin, positions}};
  n.attr[n.n_attr++] = tni_raw_int("interleaved", interleaved);
  n.attr[n.n_attr++] = tni_raw_int("rotary_embedding_dim", dim);
  if (heads) n.attr[n.n_attr++] = tni_raw_int("num_heads", heads);
  return tni_em_node_add(e, &n);
}

tn_id tni_contrib_positions(tni_emit *e, tn_id x, tn_id first) {
  const tn_id B = tni_em_shape(e, x, 0, 1), S = tni_em_shape(e, x, 1, 2), both[] = {B, S};
  const tn_id zero = tni_em_scalar(e, TN_DT_I64, 0), one = tni_em_scalar(e, TN_DT_I64, 1);
  const tn_id steps = tni_em_3(e, "Range", zero, tni_em_2(e, "Squeeze", S, tni_em_index(e, 0)), one);
  return tni_em_2(e, "Expand", tni_em_2(e, "Add", steps, first), tni_em_concat(e, both, 2, 0));
}

/* [B, S, D] of heads that only the tables' width tells: by way of [B, heads, S, size]. */
static tn_id turn_unsplit(tni_emit *e, tn_id x, tn_id cos, tn_id sin, tn_id positions, bool interleaved) {
  static const int64_t perm[] = {0, 2, 1, 3}, back[] = {0, 0, -1};
  const int64_t half = tni_em_dim(e, cos, 1);
  if (half < 1 || half > INT32_MAX)
    return tni_em_fail(e, TN_E_UNSUPPORTED, "neither num_heads nor the width of cos_cache is known");
  const int64_t split[] = {0, 0, -1, 2 * half};
  const tn_id four = tni_em_transpose(e, tni_em_reshape(e, x, split, 4), perm, 4);
  const tn_id y = tni_contrib_turn(e, four, cos, sin, positions, 0, interleaved, 0);
  return tni_em_reshape(e, tni_em_transpose(e, y, perm, 4), back, 3);
}

/* operands: input, position_ids, cos_cache, sin_cache. */
void tni_contrib_rotary(tni_emit *e) {
  static const char *const names[] = {"interleaved", "is_packed_batching",   "num_heads",
                                      "scale",       "rotary_embedding_dim", NULL};
  if (!tni_em_knows(e, 4, 1, names)) return;
  const tn_id x = tni_em_in(e, 0), cos = tni_em_in(e, 2), sin = tni_em_in(e, 3);
  const int64_t heads = tni_em_int(e, "num_heads", 0), dim = tni_em_int(e, "rotary_embedding_dim", 0);
  const bool interleaved = tni_em_int(e, "interleaved", 0) != 0;
  const uint32_t rank = tni_em_rank(e, x);
  tn_id positions = tni_em_in(e, 1);
  if (tni_em_int(e, "is_packed_batching", 0)) tni_em_fail(e, TN_E_UNSUPPORTED, "packed batching");
  /* [B, heads, S, size]: S is axis 2; the row of positions is made from a view without heads. */
  if (tni_em_rank(e, positions) == 1) {
    static const int64_t perm[] = {0, 2, 1, 3};
    positions = tni_contrib_positions(e, rank == 4 ? tni_em_transpose(e, x, perm, 4) : x, positions);
  }
  if (rank != 3 && rank != 4 && (heads == 0 || rank != TNI_RANK_UNKNOWN))
    tni_em_fail(e, TN_E_UNSUPPORTED, "an input whose rank is neither 3 nor 4, or that the model does not state");
  tni_em_give(e, 0,
              rank != 4 && heads == 0
                  ? turn_unsplit(e, x, cos, sin, positions, interleaved)
                  : tni_contrib_turn(e, x, cos, sin, positions, rank == 4 ? 0 : heads, interleaved, dim));
}
