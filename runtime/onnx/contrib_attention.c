/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention and MultiHeadAttention of com.microsoft: the standard's Attention on operands of rank 3, after what cuts
 * packed operands apart, adds biases and turns masks into what is added to the scores.
 */
#include <inttypes.h>

#include "runtime/onnx/contrib.h"

typedef struct attention_op {
  tn_id q, k, v; /* [B, S, heads * size]; k, v: [B, heads, L, size] where four is set (a cache of another run) */
  tn_id past_k, past_v;
  tn_id mask; /* added to the scores, or TN_NONE */
  int64_t heads;
  bool four;
} attention_op;

static bool heads_of(tni_emit *e, int64_t *heads) {
  *heads = tni_em_int(e, "num_heads", 0);
  if (*heads < 1 || *heads > INT32_MAX) tni_em_fail(e, TN_E_INVALID, "attribute 'num_heads' is %" PRId64, *heads);
  return e->st == TN_OK;
}

static void apply_attention(tni_emit *e, const attention_op *a, tni_em_node *n) {
  static const int64_t perm[] = {0, 2, 1, 3}, back[] = {0, 0, -1};
  const int64_t split[] = {0, 0, a->heads, -1};
  const float scale = tni_em_float(e, "scale", 0);
  tn_id q = a->q;
  if (a->four) q = tni_em_transpose(e, tni_em_reshape(e, q, split, 4), perm, 4);
  *n = (tni_em_node){.type = "Attention", .n_in = 6, .in = {q, a->k, a->v, a->mask, a->past_k, a->past_v}, .n_out = 3};
  if (!a->four) {
    n->attr[n->n_attr++] = tni_raw_int("q_num_heads", a->heads);
    n->attr[n->n_attr++] = tni_raw_int("kv_num_heads", a->heads);
  }
  if (scale != 0) n->attr[n->n_attr++] = tni_raw_float("scale", (double)scale);
  n->attr[n->n_attr++] = tni_raw_int("is_causal", tni_em_int(e, "unidirectional", 0) != 0);
  tn_id y = tni_em_node_add(e, n);
  if (a->four) y = tni_em_reshape(e, tni_em_transpose(e, y, perm, 4), back, 3);
  tni_em_give(e, 0, y);
}

/* T of the keys: what came before and what comes now; int64 [1]. */
static tn_id total_length(tni_emit *e, tn_id k, int64_t axis, tn_id past) {
  const tn_id now = tni_em_shape(e, k, axis, axis + 1);
  return past == TN_NONE ? now : tni_em_2(e, "Add", tni_em_shape(e, past, 2, 3), now);
}

/* --- Attention --- */

static void cut_qkv(tni_emit *e, tn_id all, tn_id *q, tn_id *k, tn_id *v) {
  const int64_t *sizes;
  const size_t n = tni_em_ints(e, "qkv_hidden_sizes", &sizes);
  tn_id part[3];
  if (sizes && (n != 3 || sizes[0] < 1 || sizes[1] != sizes[0] || sizes[2] < 1)) {
    tni_em_fail(e, TN_E_INVALID, "attribute 'qkv_hidden_sizes' does not fit");
    return;
  }
  tni_em_split(e, all, -1, sizes, 3, part);
  *q = part[0];
  *k = part[1];
  *v = part[2];
}

/* past [2, B, heads, P, size]. */
static void take_past(tni_emit *e, tn_id past, attention_op *a) {
  a->past_k = a->past_v = TN_NONE;
  if (past == TN_NONE) return;
  a->past_k = tni_em_2(e, "Gather", past, tni_em_scalar(e, TN_DT_I64, 0));
  a->past_v = tni_em_2(e, "Gather", past, tni_em_scalar(e, TN_DT_I64, 1));
}

/* packed: what x gave, [B, S, Dq + Dk + Dv]. */
static void attend_packed(tni_emit *e, attention_op *a, tn_id x, tn_id packed, tn_id mask, tn_id past, tn_id added) {
  static const int64_t zero = 0;
  if (tni_em_int(e, "do_rotary", 0) || tni_em_int(e, "past_present_share_buffer", 0))
    tni_em_fail(e, TN_E_UNSUPPORTED, "do_rotary or a shared buffer");
  cut_qkv(e, packed, &a->q, &a->k, &a->v);
  take_past(e, past, a);
  const float filter = tni_em_float(e, "mask_filter_value", -10000.0f);
  const tn_id T = mask == TN_NONE ? TN_NONE : total_length(e, x, 1, a->past_k);
  a->mask = tni_em_add(e, tni_contrib_mask(e, mask, x, T, filter, tni_em_float_dtype(e, e->d->n_in)), added);
  tni_em_node n;
  apply_attention(e, a, &n);
  if (!tni_em_wants(e, 1)) return;
  const tn_id both[] = {tni_em_unsqueeze(e, n.out[1], &zero, 1), tni_em_unsqueeze(e, n.out[2], &zero, 1)};
  tni_em_give(e, 1, tni_em_concat(e, both, 2, 0));
}

static const char *const attention_names[] = {"mask_filter_value",
                                              "num_heads",
                                              "qkv_hidden_sizes",
                                              "scale",
                                              "unidirectional",
                                              "do_rotary",
                                              "past_present_share_buffer",
                                              "rotary_embedding_dim",
                                              NULL};

/* operands: input, weights, bias, mask_index, past, attention_bias; results: y, present [2, B, heads, T, size]. */
void tni_contrib_attention(tni_emit *e) {
  attention_op a = {.q = TN_NONE};
  if (!tni_em_knows(e, 6, 2, attention_names) || !heads_of(e, &a.heads)) return;
  if (tni_em_in(e, 1) == TN_NONE) tni_em_fail(e, TN_E_INVALID, "no weights");
  const tn_id x = tni_em_in(e, 0);
  attend_packed(e, &a, x, tni_em_add(e, tni_em_2(e, "MatMul", x, tni_em_in(e, 1)), tni_em_in(e, 2)), tni_em_in(e, 3),
                tni_em_in(e, 4), tni_em_in(e, 5));
}

/* operands: input, weight, bias, input_scale, weight_scale, mask_index, input_zero_point, weight_zero_point, past. */
void tni_contrib_qattention(tni_emit *e) {
  attention_op a = {.q = TN_NONE};
  if (!tni_em_knows(e, 9, 2, attention_names) || !heads_of(e, &a.heads)) return;
  const tn_id x = tni_em_in(e, 0);
  attend_packed(e, &a, x,
                tni_contrib_integer_product(e, x, tni_em_in(e, 1), tni_em_in(e, 6), tni_em_in(e, 7), tni_em_in(e, 3),
                                            tni_em_in(e, 4), tni_em_in(e, 2)),
                tni_em_in(e, 5), tni_em_in(e, 8), TN_NONE);
}

/* --- MultiHeadAttention --- */

/* [B, L, heads, n, size] -> n operands [B, L, heads * size]. */
static void unpack_heads(tni_emit *e, tn_id packed, uint32_t n, tn_id *parts) {
  static const int64_t flat[] = {0, 0, -1};
  tni_em_split(e, packed, 3, NULL, n, parts);
  for (uint32_t i = 0; i < n; i++) parts[i] = tni_em_reshape(e, parts[i], flat, 3);
}

/* bias [Dq + Dq + Dv]: each operand its part. */
static void add_biases(tni_emit *e, tn_id bias, attention_op *a) {
  if (bias == TN_NONE) return;
  const tn_id zero = tni_em_index(e, 0), D = tni_em_shape(e, a->q, 2, 3), D2 = tni_em_2(e, "Add", D, D);
  a->q = tni_em_2(e, "Add", a->q, tni_em_slice(e, bias, 0, zero, D));
  if (a->four) return; /* keys of another run have theirs */
  a->k = tni_em_2(e, "Add", a->k, tni_em_slice(e, bias, 0, D, D2));
  a->v = tni_em_2(e, "Add", a->v, tni_em_slice(e, bias, 0, D2, tni_em_index(e, INT64_MAX)));
}

static void read_operands_of(tni_emit *e, attention_op *a) {
  tn_id part[3] = {TN_NONE, TN_NONE, TN_NONE};
  *a = (attention_op){.q = tni_em_in(e, 0), .k = tni_em_in(e, 1), .v = tni_em_in(e, 2), .heads = a->heads};
  a->past_k = tni_em_in(e, 6);
  a->past_v = tni_em_in(e, 7);
  if ((a->past_k == TN_NONE) != (a->past_v == TN_NONE))
    tni_em_fail(e, TN_E_INVALID, "past_key and past_value come together");
  if (a->k == TN_NONE) {
    unpack_heads(e, a->q, 3, part);
    a->q = part[0];
    a->k = part[1];
    a->v = part[2];
  } else if (a->v == TN_NONE) {
    unpack_heads(e, a->k, 2, part);
    a->k = part[0];
    a->v = part[1];
  } else {
    a->four = tni_em_rank(e, a->k) == 4;
  }
}

/* operands: query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value; results: y, present key
 * and value. */
void tni_contrib_multi_head(tni_emit *e) {
  static const char *const names[] = {"mask_filter_value", "num_heads", "scale", "unidirectional", NULL};
  attention_op a = {.q = TN_NONE};
  if (!tni_em_knows(e, 8, 3, names) || !heads_of(e, &a.heads)) return;
  read_operands_of(e, &a);
  const float filter = tni_em_float(e, "mask_filter_value", -10000.0f);
  const tn_id mask = tni_em_in(e, 4);
  const tn_id T = mask == TN_NONE ? TN_NONE : total_length(e, a.k, a.four ? 2 : 1, a.past_k);
  a.mask = tni_em_add(e, tni_contrib_mask(e, mask, a.q, T, filter, tni_em_float_dtype(e, 8)), tni_em_in(e, 5));
  add_biases(e, tni_em_in(e, 3), &a);
  tni_em_node n;
  apply_attention(e, &a, &n);
  tni_em_give(e, 1, n.out[1]);
  tni_em_give(e, 2, n.out[2]);
}
