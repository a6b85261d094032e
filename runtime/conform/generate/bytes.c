/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of codes: a value is quantized, goes through operators of 8 bits, and comes back as floats. What is judged of a
 * step is a task at a time, so that a code that a half turns is no matter for the next.
 */
#include <math.h>
#include <stdio.h>

#include "runtime/conform/generate/grow.h"

/* Of the word: who has a sign, whether the weight has a scale for each channel, and zero points. */
enum { X_SIGN = 1, W_SIGN = 2, Y_SIGN = 4, CHANNELS = 8, TWICE = 16 };

static tn_id constant(gen_work *w, char kind, uint32_t rank, const int64_t *dims, const float *given, uint32_t n) {
  char name[16];
  snprintf(name, sizeof name, "c%u", w->n_constants++);
  return tni_cn_quantizing(w->b, name, kind, rank, dims, given, n, &w->r);
}

/* One number. */
static tn_id number(gen_work *w, char kind, float v) { return constant(w, kind, 0, NULL, &v, 1); }

static tn_id zero_point(gen_work *w, bool has_sign) {
  const int32_t off = (int32_t)(tni_cf_rng_next(&w->r) % 41) - 20;
  return number(w, has_sign ? 'I' : 'U', (float)(has_sign ? off : 128 + off));
}

bool tni_gen_codes_of(gen_work *w, const gen_value *x, uint32_t word, gen_codes *out) {
  const bool has_sign = word & X_SIGN;
  *out = (gen_codes){.dtype = has_sign ? TN_DT_I8 : TN_DT_U8,
                     .scale = number(w, 'q', 0.02f + 0.02f * (float)tni_cf_rng_unit(&w->r)),
                     .zero = zero_point(w, has_sign)};
  const tn_id in[3] = {x->id, out->scale, out->zero};
  if (out->scale == TN_NONE || out->zero == TN_NONE) return false;
  out->id = tni_gen_apply_as(w, out->dtype, "", "QuantizeLinear", 13, in, 3, NULL, 0);
  return out->id != TN_NONE;
}

/* One scale and zero point for all of the run's rows, as quantize_dynamic has it. */
static bool find_codes(gen_work *w, const gen_value *x, gen_codes *out) {
  static const uint32_t dtype[3] = {TN_DT_U8, TN_DT_F32, TN_DT_U8};
  tn_id y[3];
  for (uint32_t i = 0; i < 3; i++) {
    char name[24];
    snprintf(name, sizeof name, "v%u_%u_%u", w->n, w->b->g->n_nodes, i);
    if ((y[i] = tni_cn_value(w->b, name, TN_VALUE_ACT, dtype[i], "?")) == TN_NONE) return false;
  }
  *out = (gen_codes){.id = y[0], .scale = y[1], .zero = y[2], .dtype = TN_DT_U8, .found = true};
  return tni_cn_node(w->b, "", "DynamicQuantizeLinear", 11, &x->id, 1, y, 3, NULL, 0);
}

/* With a scale for each channel zero points are 0, as those who quantize weights write them. */
bool tni_gen_codes_weight(gen_work *w, uint32_t word, uint32_t rank, const int64_t *dims, int64_t channels,
                          gen_codes *out) {
  const bool each = word & CHANNELS, has_sign = each || word & W_SIGN;
  const float none = 0;
  *out = (gen_codes){.dtype = has_sign ? TN_DT_I8 : TN_DT_U8,
                     .id = constant(w, has_sign ? 'I' : 'U', rank, dims, NULL, 0),
                     .scale = each ? constant(w, 'q', 1, &channels, NULL, 0) : number(w, 'q', 0.019f),
                     .zero = each ? constant(w, 'I', 1, &channels, &none, 1) : zero_point(w, has_sign)};
  return out->id != TN_NONE && out->scale != TN_NONE && out->zero != TN_NONE;
}

/* Codes on both sides are spread evenly, over 256 numbers: 74 from their middle in the mean. */
bool tni_gen_codes_result(gen_work *w, uint32_t word, int64_t n, gen_codes *out) {
  const bool has_sign = word & Y_SIGN;
  const float spread = 0.03f * 0.019f * 74 * 74 * sqrtf((float)n);
  *out = (gen_codes){.id = TN_NONE,
                     .dtype = has_sign ? TN_DT_I8 : TN_DT_U8,
                     .scale = number(w, 'q', spread / 50),
                     .zero = zero_point(w, has_sign)};
  return out->scale != TN_NONE && out->zero != TN_NONE;
}

tn_id tni_gen_codes_back(gen_work *w, const gen_codes *c) {
  const tn_id in[3] = {c->id, c->scale, c->zero};
  return tni_gen_apply(w, "", "DequantizeLinear", 13, in, 3, NULL, 0);
}

bool tni_gen_is_integer(const tni_gen_step *s) { return s->word[5] % 4 == 1; }

static tn_id sums_scale(gen_work *w, const gen_codes *x, int64_t n) {
  if (!x->found) return number(w, 'q', 1.0f / (74 * 74 * sqrtf((float)n)));
  const tn_id in[2] = {x->scale, number(w, 'q', 1.0f / (74 * sqrtf((float)n)))};
  return in[1] == TN_NONE ? TN_NONE : tni_gen_apply(w, "", "Mul", 14, in, 2, NULL, 0);
}

tn_id tni_gen_sums_back(gen_work *w, tn_id sums, const gen_codes *x, int64_t n) {
  const tni_raw_attr to = tni_gen_int_attr("to", 1); /* float32 */
  const tn_id scale = sums_scale(w, x, n);
  if (sums == TN_NONE || scale == TN_NONE) return TN_NONE;
  const tn_id floats = tni_gen_apply(w, "", "Cast", 13, &sums, 1, &to, 1), in[2] = {floats, scale};
  return floats == TN_NONE ? TN_NONE : tni_gen_apply(w, "", "Mul", 14, in, 2, NULL, 0);
}

/* one: node, as passes make it of the three. */
static bool add_integer_matmul(gen_work *w, const gen_value *x, uint32_t word, bool one, const gen_codes *q, int64_t K,
                               int64_t N) {
  const int64_t dims[2] = {K, N};
  gen_codes k;
  if (!tni_gen_codes_weight(w, word, 2, dims, N, &k)) return false;
  if (one) {
    const tn_id in[6] = {q->id, k.id, sums_scale(w, q, K), q->zero, k.zero, tni_gen_constant(w, 1, 1, N)};
    if (in[2] == TN_NONE || in[5] == TN_NONE) return false;
    return tni_gen_add_value(w, x, tni_gen_apply(w, "tenon", "MatMulIntegerToFloat", 1, in, 6, NULL, 0), N);
  }
  const tn_id in[4] = {q->id, k.id, q->zero, k.zero};
  const tn_id sums = tni_gen_apply_as(w, TN_DT_I32, "", "MatMulInteger", 10, in, 4, NULL, 0);
  return tni_gen_add_value(w, x, tni_gen_sums_back(w, sums, q, K), N);
}

static bool multiply(gen_work *w, uint32_t word, const gen_codes *x, int64_t K, int64_t N, gen_codes *y) {
  const int64_t dims[2] = {K, N};
  gen_codes k;
  if (!tni_gen_codes_weight(w, word, 2, dims, N, &k) || !tni_gen_codes_result(w, word, K, y)) return false;
  const tn_id in[8] = {x->id, x->scale, x->zero, k.id, k.scale, k.zero, y->scale, y->zero};
  y->id = tni_gen_apply_as(w, y->dtype, "", "QLinearMatMul", 21, in, 8, NULL, 0);
  return y->id != TN_NONE;
}

/* One product, whose sums may stay integers, or two of which the second reads the first one's codes. */
bool tni_gen_add_code_matmul(gen_work *w, const tni_gen_step *s) {
  const gen_value x = *tni_gen_pick(w, s->a);
  const uint32_t word = s->word[4];
  int64_t K = tni_gen_width_of(&x), N = s->word[0] ? s->word[0] : K;
  gen_codes q, y;
  if (K < 1) return tni_gen_add_matmul(w, s);
  const bool found = tni_gen_is_integer(s) && s->word[5] / 8 % 2;
  if (!(found ? find_codes(w, &x, &q) : tni_gen_codes_of(w, &x, word, &q))) return false;
  if (tni_gen_is_integer(s)) return add_integer_matmul(w, &x, word, s->word[5] / 4 % 2, &q, K, N);
  if (!multiply(w, word, &q, K, N, &y)) return false;
  if (word & TWICE) {
    q = y;
    if (!multiply(w, word >> 5, &q, N, N / 2 + 1, &y)) return false;
    N = N / 2 + 1;
  }
  return tni_gen_add_value(w, &x, tni_gen_codes_back(w, &y), N);
}
