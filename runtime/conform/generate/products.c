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

/* A row, a row of a matrix, one number, a column, a matrix. TN_NONE: none. */
static tn_id draw_bias(gen_work *w, const gen_value *x, uint32_t how, int64_t N) {
  const int64_t row[2] = {1, N}, column[2] = {x->dims[0], 1}, all[2] = {x->dims[0], N};
  if (how % 8 < 3 || (how % 8 > 5 && (x->dims[0] != SYMBOL || w->b->n_in == TNI_CN_MAX_IN))) return TN_NONE;
  if (how % 8 == 3) return tni_gen_constant(w, 1, 1, N);
  if (how % 8 == 4) return tni_gen_constant_of(w, 2, row, 0.25f);
  if (how % 8 == 5) return tni_gen_constant(w, 1, 1, 1);
  return tni_gen_input(w, 'x', how % 8 == 6 ? column : all, 2, 0);
}

bool tni_gen_add_gemm(gen_work *w, const tni_gen_step *s) {
  static const float factors[] = {1, 1, 0.5f, -2};
  gen_value x = *tni_gen_pick(w, s->a);
  if (x.rank != 2 || x.dims[0] != SYMBOL) return tni_gen_add_matmul(w, s);
  const int64_t trans = s->word[1] & 1, trans_a = s->word[4] % 4 == 0 && w->b->n_in < TNI_CN_MAX_IN;
  if (trans_a) { /* [K, S], which is square in one run */
    const int64_t S = tni_gen_rows(w->g, 0), dims[2] = {S ? S : 1, SYMBOL};
    x.id = tni_gen_input(w, 'x', dims, 2, 0);
    x.dims[1] = dims[0];
  }
  const int64_t N = new_width(&x, s), K = tni_gen_width_of(&x);
  const tn_id in[3] = {x.id, trans ? tni_gen_constant(w, 2, N, K) : tni_gen_constant(w, 2, K, N),
                       draw_bias(w, &x, s->word[1] / 2, N)};
  const tni_raw_attr a[4] = {tni_gen_int_attr("transB", trans), tni_gen_float_attr("alpha", factors[s->word[2] % 4]),
                             tni_gen_float_attr("beta", factors[s->word[3] % 4]), tni_gen_int_attr("transA", trans_a)};
  return x.id != TN_NONE && in[1] != TN_NONE &&
         tni_gen_add_value(w, &x, tni_gen_apply(w, "", "Gemm", 13, in, in[2] != TN_NONE ? 3 : 2, a, 4), N);
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

/* What a chain takes beside its products: a row or one number, away from 0. TN_NONE: nothing. */
static tn_id draw_extra(gen_work *w, const tni_gen_step *s, int64_t N) {
  float row[MOST_WIDTH];
  char name[16];
  const int64_t n = s->word[3] / 8 % 2 ? N : 1;
  if (s->word[3] / 16 % 2 || n > MOST_WIDTH) return TN_NONE;
  for (int64_t i = 0; i < n; i++) {
    const float v = (float)tni_cf_rng_normal(&w->r);
    row[i] = v < 0 ? v - 0.5f : v + 0.5f;
  }
  snprintf(name, sizeof name, "e%u", w->n_constants++);
  return tni_cn_constant(w->b, name, TN_DT_F32, 1, &n, row);
}

/* Several weights, parts that begin anywhere, results in any order. */
bool tni_gen_add_fused(gen_work *w, const tni_gen_step *s, bool chain) {
  static const int64_t ones[] = {TN_OP_RELU, TN_OP_SIGMOID, TN_OP_TANH, TN_OP_GELU, TN_OP_SWISH, TN_OP_NEG};
  const gen_value x = *tni_gen_pick(w, s->a);
  const uint32_t n_w = 1 + s->word[1] % 3, n_parts = chain ? n_w : n_w + (s->word[1] / 4) % 2;
  const int64_t trans = s->word[2] & 1, K = tni_gen_width_of(&x), N = new_width(&x, s);
  int64_t parts[12], widths[4], results[4], ops[12], n_ops = 0;
  float floats[4] = {0};
  tn_id in[6] = {x.id}, out[4];
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
  const tn_id extra = chain ? draw_extra(w, s, N) : TN_NONE;
  const int64_t n_extras = extra != TN_NONE, first_op = n_parts + n_extras;
  if (n_extras) in[1 + n_w] = extra;
  if (chain) {
    static const float alphas[] = {1, 0.5f, 1.702f, 2};
    static const int64_t twos[] = {TN_OP_DIV, TN_OP_MUL, TN_OP_ADD, TN_OP_SUB};
    const int64_t one = ones[s->word[5] % 6], two = s->word[5] & 8 ? TN_OP_MUL : TN_OP_ADD;
    memcpy(&ops[0], ((int64_t[3]){one, 0, -1}), sizeof ops / 4);
    floats[0] = one == TN_OP_SWISH ? alphas[s->word[1] / 8 % 4] : one == TN_OP_GELU ? (float)(s->word[1] / 8 % 2) : 0;
    n_ops = 1;
    if (n_w > 1) memcpy(&ops[3], ((int64_t[3]){two, first_op, 1}), sizeof ops / 4), n_ops = 2;
    if (n_w > 2) memcpy(&ops[6], ((int64_t[3]){TN_OP_SUB, first_op + 1, 2}), sizeof ops / 4), n_ops = 3;
    if (n_extras)
      memcpy(&ops[3 * n_ops], ((int64_t[3]){twos[s->word[2] / 2 % 4], first_op + n_ops - 1, n_parts}), sizeof ops / 4),
          n_ops++;
    results[0] = first_op + n_ops - 1;
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
  if (!tni_cn_node(w->b, "tenon", "FusedMatMul", 1, in, 1 + n_w + (uint32_t)n_extras, out, n_out, a, 6)) return false;
  for (uint32_t i = 0; i < n_out; i++)
    if (!tni_gen_add_value(w, &x, out[i], chain ? N : parts[3 * results[i] + 2])) return false;
  return true;
}

bool tni_gen_add_product(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  char dims[64] = "", name[16];
  const int64_t N = s->word[0] ? s->word[0] : 17;
  for (uint32_t i = 0; i + 2 < x.rank; i++)
    snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%lld,", (long long)(x.dims[i] < 0 ? 1 : x.dims[i]));
  for (uint32_t i = 0; i + 2 < x.rank; i++)
    if (x.dims[i] < 0) return tni_gen_add_matmul(w, s);
  if (w->b->n_in == TNI_CN_MAX_IN || tni_gen_width_of(&x) < 0) return tni_gen_add_matmul(w, s);
  snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%lld,%lld", (long long)tni_gen_width_of(&x), (long long)N);
  snprintf(name, sizeof name, "x%u", w->b->n_in);
  const tn_id y = w->b->in[w->b->n_in++] = tni_cn_value(w->b, name, TN_VALUE_INPUT, TN_DT_F32, dims);
  const tn_id in[2] = {x.id, y};
  return y != TN_NONE && tni_gen_add_value(w, &x, tni_gen_apply(w, "", "MatMul", 13, in, 2, NULL, 0), N);
}
