/* SPDX-License-Identifier: Apache-2.0
 *
 * GroupQueryAttention: the standard's Attention with its past inside, causal, after RotaryEmbedding where the operator
 * turns queries and keys itself; tenon.Attention where the softmax has sinks.
 *
 * Where positions begin is where the rows of a sequence end, which a session knows before it runs: the length of the
 * past, or, where sequences of a batch were padded on the right, what seqlens_k says of each (lengths.c). In a prompt
 * no key after a query is seen, so there they begin at 0.
 */
#include <inttypes.h>

#include "runtime/onnx/contrib.h"

enum {
  QUERY,
  KEY,
  VALUE,
  PAST_KEY,
  PAST_VALUE,
  SEQLENS_K,
  TOTAL,
  COS,
  SIN,
  POSITIONS,
  BIAS,
  SINKS,
  K_SCALE,
  V_SCALE,
  Q_NORM,
  K_NORM,
  OPERANDS
};

typedef struct gqa {
  int64_t heads, kv_heads;
  tn_id q, k, v;
  tn_id first; /* int64 [1] or [B, 1]: the position of the first row */
} gqa;

/* The size of a head, -1 where no operand states it. */
static int64_t head_size(const tni_emit *e, const gqa *a) {
  const int64_t past = tni_em_dim(e, tni_em_in(e, PAST_KEY), 3), all = tni_em_dim(e, a->q, 2);
  const int64_t n = tni_em_in(e, KEY) == TN_NONE ? a->heads + 2 * a->kv_heads : a->heads;
  return past > 0 ? past : all > 0 && all % n == 0 ? all / n : -1;
}

/* [B, S, (heads + 2 kv_heads) * size] -> q, k, v. */
static void unpack_gqa(tni_emit *e, gqa *a) {
  const int64_t size = head_size(e, a);
  tn_id part[3];
  if (size > 0 && size <= INT32_MAX) {
    const int64_t sizes[] = {a->heads * size, a->kv_heads * size, a->kv_heads * size};
    tni_em_split(e, a->q, 2, sizes, 3, part);
  } else {
    const int64_t split[] = {0, 0, a->heads + 2 * a->kv_heads, -1}, flat[] = {0, 0, -1};
    const int64_t sizes[] = {a->heads, a->kv_heads, a->kv_heads};
    tni_em_split(e, tni_em_reshape(e, a->q, split, 4), 2, sizes, 3, part);
    for (int i = 0; i < 3; i++) part[i] = tni_em_reshape(e, part[i], flat, 3);
  }
  a->q = part[0];
  a->k = part[1];
  a->v = part[2];
}

/* RMS norm of each head of x [B, S, heads * size]. */
static tn_id head_norm(tni_emit *e, tn_id x, int64_t heads, tn_id scale) {
  const int64_t split[] = {0, 0, heads, -1}, flat[] = {0, 0, -1};
  if (scale == TN_NONE) return x;
  tni_em_node n = {.type = "RMSNormalization", .n_in = 2, .in = {tni_em_reshape(e, x, split, 4), scale}, .n_attr = 2};
  n.attr[0] = tni_raw_int("axis", -1);
  n.attr[1] = tni_raw_float("epsilon", (double)tni_em_float(e, "qk_norm_epsilon", 1e-6f));
  return tni_em_reshape(e, tni_em_node_add(e, &n), flat, 3);
}

static void turn_gqa(tni_emit *e, gqa *a) {
  if (!tni_em_int(e, "do_rotary", 0)) return;
  const tn_id cos = tni_em_in(e, COS), sin = tni_em_in(e, SIN);
  if (cos == TN_NONE || sin == TN_NONE) {
    tni_em_fail(e, TN_E_INVALID, "do_rotary without cos_cache and sin_cache");
    return;
  }
  const bool interleaved = tni_em_int(e, "rotary_interleaved", 0) != 0;
  const int64_t half = tni_em_dim(e, cos, 1);
  const int64_t dim = half > 0 && half <= INT32_MAX ? 2 * half : 0;
  const tn_id stated = tni_em_in(e, POSITIONS);
  const tn_id positions = stated != TN_NONE ? stated : tni_contrib_positions(e, a->q, a->first);
  a->q = tni_contrib_turn(e, a->q, cos, sin, positions, a->heads, interleaved, dim);
  a->k = tni_contrib_turn(e, a->k, cos, sin, positions, a->kv_heads, interleaved, dim);
}

static bool read_gqa(tni_emit *e, gqa *a) {
  static const char *const names[] = {"do_rotary",
                                      "kv_num_heads",
                                      "local_window_size",
                                      "num_heads",
                                      "rotary_interleaved",
                                      "scale",
                                      "smooth_softmax",
                                      "softcap",
                                      "causal",
                                      "qk_norm_epsilon",
                                      "sliding_window_cache",
                                      "qk_output",
                                      "k_quant_type",
                                      "v_quant_type",
                                      "kv_cache_bit_width",
                                      NULL};
  if (!tni_em_knows(e, OPERANDS, 3, names)) return false;
  *a = (gqa){.heads = tni_em_int(e, "num_heads", 0), .kv_heads = tni_em_int(e, "kv_num_heads", 0)};
  if (a->heads < 1 || a->heads > INT16_MAX || a->kv_heads < 1 || a->heads % a->kv_heads)
    tni_em_fail(e, TN_E_INVALID, "%" PRId64 " heads on %" PRId64 " heads of keys", a->heads, a->kv_heads);
  const char *quant[] = {tni_em_string(e, "k_quant_type", "NONE"), tni_em_string(e, "v_quant_type", "NONE")};
  for (int i = 0; i < 2; i++)
    if (*quant[i] && *quant[i] != 'N') tni_em_fail(e, TN_E_UNSUPPORTED, "a quantized cache (%s)", quant[i]);
  if ((tni_em_in(e, PAST_KEY) == TN_NONE) != (tni_em_in(e, PAST_VALUE) == TN_NONE))
    tni_em_fail(e, TN_E_INVALID, "past_key and past_value come together");
  if (tni_em_in(e, K_SCALE) != TN_NONE || tni_em_in(e, V_SCALE) != TN_NONE)
    tni_em_fail(e, TN_E_UNSUPPORTED, "a quantized cache");
  if (tni_em_int(e, "sliding_window_cache", 0)) tni_em_fail(e, TN_E_UNSUPPORTED, "a cache of the window alone");
  a->q = tni_em_in(e, QUERY);
  a->k = tni_em_in(e, KEY);
  a->v = tni_em_in(e, VALUE);
  return e->st == TN_OK;
}

static void gqa_attributes(tni_emit *e, const gqa *a, tni_em_node *n) {
  const float scale = tni_em_float(e, "scale", 0), cap = tni_em_float(e, "softcap", 0);
  const int64_t window = tni_em_int(e, "local_window_size", -1);
  n->attr[n->n_attr++] = tni_raw_int("is_causal", tni_em_int(e, "causal", 1) != 0);
  n->attr[n->n_attr++] = tni_raw_int("q_num_heads", a->heads);
  n->attr[n->n_attr++] = tni_raw_int("kv_num_heads", a->kv_heads);
  if (scale != 0) n->attr[n->n_attr++] = tni_raw_float("scale", (double)scale);
  if (cap != 0) n->attr[n->n_attr++] = tni_raw_float("softcap", (double)cap);
  /* A window counts the query's own key, the standard's attribute those before it. */
  if (window > 0) n->attr[n->n_attr++] = tni_raw_int("left_window_size", window - 1);
}

/* Where positions begin. */
static tn_id first_position(tni_emit *e) {
  static const int64_t axes[] = {1};
  const tn_id past = tni_em_in(e, PAST_KEY), lengths = tni_em_in(e, SEQLENS_K), total = tni_em_in(e, TOTAL);
  if (past == TN_NONE) return tni_em_index(e, 0);
  const bool told = lengths != TN_NONE && total != TN_NONE;
  const tn_id rows = told ? tni_lengths_note(e->c, e->g, lengths, total, past, e->d->name) : TN_NONE;
  return rows == TN_NONE ? tni_em_shape(e, past, 2, 3) : tni_em_unsqueeze(e, rows, axes, 1);
}

void tni_contrib_gqa(tni_emit *e) {
  gqa a;
  if (!read_gqa(e, &a)) return;
  a.first = first_position(e);
  if (a.k == TN_NONE) unpack_gqa(e, &a);
  a.q = head_norm(e, a.q, a.heads, tni_em_in(e, Q_NORM));
  a.k = head_norm(e, a.k, a.kv_heads, tni_em_in(e, K_NORM));
  turn_gqa(e, &a);
  tni_em_node n = {.type = "Attention", .n_in = 6, .n_out = 3};
  const tn_id in[] = {a.q, a.k, a.v, tni_em_in(e, BIAS), tni_em_in(e, PAST_KEY), tni_em_in(e, PAST_VALUE)};
  for (int i = 0; i < 6; i++) n.in[i] = in[i];
  gqa_attributes(e, &a, &n);
  tn_id sinks = tni_em_in(e, SINKS);
  /* exp(0) in the sum of every row is a sink whose logit is 0. */
  if (sinks == TN_NONE && tni_em_int(e, "smooth_softmax", 0) > 0)
    sinks = tni_em_filled(e, tni_em_float_dtype(e, OPERANDS), a.heads, 0);
  if (sinks != TN_NONE) {
    n.domain = "tenon";
    n.in[6] = TN_NONE;
    n.in[TN_ATTENTION_SINKS] = sinks;
    n.n_in = TN_ATTENTION_SINKS + 1;
  }
  tni_em_give(e, 0, tni_em_node_add(e, &n));
  tni_em_give(e, 1, n.out[1]);
  tni_em_give(e, 2, n.out[2]);
}
