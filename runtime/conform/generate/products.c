/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that are products.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/conform/generate/grow.h"

static int64_t new_width(const gen_value *x, const tni_gen_step *s) {
  return s->word[0] ? s->word[0] : tni_gen_width_of(x);
}

bool tni_gen_add_matmul(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  const int64_t N = new_width(&x, s);
  const tn_id in[2] = {x.id, tni_gen_constant(w, 2, tni_gen_width_of(&x), N)};
  return in[1] != TN_NONE && tni_gen_add_value(w, &x, tni_gen_apply(w, "", "MatMul", 13, in, 2, NULL, 0), N);
}

bool tni_gen_add_gemm(gen_work *w, const tni_gen_step *s) {
  static const float factors[] = {1, 1, 0.5f, -2};
  const gen_value x = *tni_gen_pick(w, s->a);
  if (x.rank != 2) return tni_gen_add_matmul(w, s);
  const int64_t N = new_width(&x, s), K = tni_gen_width_of(&x), trans = s->word[1] & 1;
  const bool bias = s->word[1] & 2;
  const tn_id in[3] = {x.id, trans ? tni_gen_constant(w, 2, N, K) : tni_gen_constant(w, 2, K, N),
                       bias ? tni_gen_constant(w, 1, 1, N) : TN_NONE};
  const tni_raw_attr a[3] = {tni_gen_int_attr("transB", trans), tni_gen_float_attr("alpha", factors[s->word[2] % 4]),
                             tni_gen_float_attr("beta", factors[s->word[3] % 4])};
  return in[1] != TN_NONE && tni_gen_add_value(w, &x, tni_gen_apply(w, "", "Gemm", 13, in, bias ? 3 : 2, a, 3), N);
}

bool tni_gen_add_siblings(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  const uint32_t n = 2 + s->word[1] % 2;
  for (uint32_t i = 0; i < n; i++) {
    const int64_t N = i && s->word[2] % 2 ? new_width(&x, s) / 2 + 1 : new_width(&x, s);
    const tn_id in[2] = {x.id, tni_gen_constant(w, 2, tni_gen_width_of(&x), N)};
    if (in[1] == TN_NONE || !tni_gen_add_value(w, &x, tni_gen_apply(w, "", "MatMul", 13, in, 2, NULL, 0), N))
      return false;
  }
  return true;
}

/* Several weights, parts that begin anywhere, results in any order. */
bool tni_gen_add_fused(gen_work *w, const tni_gen_step *s, bool chain) {
  static const int64_t ones[] = {TN_OP_RELU, TN_OP_SIGMOID, TN_OP_TANH, TN_OP_GELU, TN_OP_SWISH, TN_OP_NEG};
  const gen_value x = *tni_gen_pick(w, s->a);
  const uint32_t n_w = 1 + s->word[1] % 3, n_parts = chain ? n_w : n_w + (s->word[1] / 4) % 2;
  const int64_t trans = s->word[2] & 1, K = tni_gen_width_of(&x), N = new_width(&x, s);
  int64_t parts[12], widths[4], results[4], ops[9], n_ops = 0;
  float floats[3] = {0};
  tn_id in[5] = {x.id}, out[4];
  for (uint32_t i = 0; i < n_w; i++) {
    widths[i] = chain ? N + (s->word[3] >> i) % 2 : N + (int64_t)((s->word[3] >> (2 * i)) % 4);
    in[1 + i] = trans ? tni_gen_constant(w, 2, widths[i], K) : tni_gen_constant(w, 2, K, widths[i]);
    if (in[1 + i] == TN_NONE) return false;
  }
  for (uint32_t p = 0; p < n_parts; p++) {
    const int64_t weight = p % n_w, first = s->word[4] % 4 == 0 ? 0 : (s->word[4] >> p) % widths[weight];
    parts[3 * p] = weight;
    parts[3 * p + 1] = chain ? (first && widths[weight] > N) : first;
    parts[3 * p + 2] = chain ? N : 1 + (int64_t)(s->word[5] >> p) % (widths[weight] - first);
    if (!chain && s->word[5] % 3 == 0) parts[3 * p + 2] = widths[weight] - first;
    results[p] = (p + s->word[5] / 8) % n_parts;
  }
  if (chain) {
    const int64_t one = ones[s->word[5] % 6];
    memcpy(&ops[0], ((int64_t[3]){one, 0, -1}), sizeof ops / 3);
    floats[0] = 1;
    n_ops = 1;
    if (n_w > 1)
      memcpy(&ops[3], ((int64_t[3]){s->word[5] & 8 ? TN_OP_MUL : TN_OP_ADD, n_parts, 1}), sizeof ops / 3), n_ops = 2;
    if (n_w > 2) memcpy(&ops[6], ((int64_t[3]){TN_OP_SUB, n_parts + 1, 2}), sizeof ops / 3), n_ops = 3;
    results[0] = n_parts + n_ops - 1;
  }
  const uint32_t n_out = chain ? 1 : n_parts;
  const tni_raw_attr a[] = {
      tni_gen_ints_attr("ops", ops, (uint64_t)n_ops * 3),
      {.name = "floats", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_FLOATS, .n = (uint64_t)n_ops, .u.floats = floats}},
      tni_gen_ints_attr("results", results, n_out),
      tni_gen_int_attr("n_weights", n_w),
      tni_gen_int_attr("trans_b", trans),
      tni_gen_ints_attr("parts", parts, n_parts * 3)};
  for (uint32_t i = 0; i < n_out; i++) {
    char name[24];
    snprintf(name, sizeof name, "v%u_%u_%u", w->n, w->b->g->n_nodes, i);
    out[i] = tni_cn_value(w->b, name, TN_VALUE_ACT, TN_DT_F32, "?");
  }
  if (!tni_cn_node(w->b, "tenon", "FusedMatMul", 1, in, 1 + n_w, out, n_out, a, 6)) return false;
  for (uint32_t i = 0; i < n_out; i++)
    if (!tni_gen_add_value(w, &x, out[i], chain ? N : parts[3 * results[i] + 2])) return false;
  return true;
}

bool tni_gen_add_product(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  char dims[64] = "", name[16];
  const int64_t N = s->word[0] ? s->word[0] : 17;
  for (uint32_t i = 0; i + 2 < x.rank; i++)
    snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%lld,",
             (long long)(x.dims[i] == SYMBOL ? 1 : x.dims[i]));
  for (uint32_t i = 0; i + 2 < x.rank; i++)
    if (x.dims[i] == SYMBOL) return tni_gen_add_matmul(w, s);
  if (w->b->n_in == TNI_CN_MAX_IN || tni_gen_width_of(&x) == SYMBOL) return tni_gen_add_matmul(w, s);
  snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%lld,%lld", (long long)tni_gen_width_of(&x), (long long)N);
  snprintf(name, sizeof name, "x%u", w->b->n_in);
  const tn_id y = w->b->in[w->b->n_in++] = tni_cn_value(w->b, name, TN_VALUE_INPUT, TN_DT_F32, dims);
  const tn_id in[2] = {x.id, y};
  return y != TN_NONE && tni_gen_add_value(w, &x, tni_gen_apply(w, "", "MatMul", 13, in, 2, NULL, 0), N);
}
