/* SPDX-License-Identifier: Apache-2.0
 *
 * What ONNX Runtime's graph optimizer writes into a file: Conv and Gemm with an activation, T5's relative positions,
 * group normalization of images.
 */
#include <math.h>
#include <string.h>

#include "runtime/onnx/contrib.h"

/* --- an activation after a product --- */

/* params: alpha and beta in order, n of them. */
static tn_id activated_fused(tni_emit *e, const char *type, tn_id x, const float *params, size_t n) {
  static const struct {
    const char *type, *params[2];
  } known[] = {{"Relu", {NULL}},
               {"Sigmoid", {NULL}},
               {"Tanh", {NULL}},
               {"Softsign", {NULL}},
               {"Softplus", {NULL}},
               {"HardSwish", {NULL}},
               {"Elu", {"alpha"}},
               {"LeakyRelu", {"alpha"}},
               {"ThresholdedRelu", {"alpha"}},
               {"HardSigmoid", {"alpha", "beta"}}};
  if (!*type) return x;
  if (strcmp(type, "Clip") == 0 && n == 2) {
    const uint32_t t = tni_em_float_dtype(e, e->d->n_in);
    return tni_em_3(e, "Clip", x, tni_em_scalar(e, t, (double)params[0]), tni_em_scalar(e, t, (double)params[1]));
  }
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].type, type) != 0) continue;
    tni_em_node a = {.type = known[i].type, .n_in = 1, .in = {x}};
    for (size_t k = 0; k < 2 && k < n && known[i].params[k]; k++)
      a.attr[a.n_attr++] = tni_raw_float(known[i].params[k], (double)params[k]);
    return tni_em_node_add(e, &a);
  }
  return tni_em_fail(e, TN_E_UNSUPPORTED, "activation '%s'", type);
}

/* The node's attributes that are not of the activation. */
static void take_attributes(tni_emit *e, tni_em_node *n) {
  for (uint32_t i = 0; i < e->d->n_raw; i++) {
    if (strncmp(e->d->raw[i].name, "activation", 10) == 0) continue;
    if (n->n_attr == TNI_EM_ATTR)
      tni_em_fail(e, TN_E_INVALID, "more attributes than it has");
    else
      n->attr[n->n_attr++] = e->d->raw[i];
  }
}

tn_id tni_contrib_plain(tni_emit *e, const char *type, const tn_id *in, uint32_t n) {
  tni_em_node c = {.type = type, .n_in = n};
  for (uint32_t i = 0; i < n; i++) c.in[i] = in[i];
  take_attributes(e, &c);
  return tni_em_node_add(e, &c);
}

tn_id tni_contrib_conv(tni_emit *e, tn_id x, tn_id w, tn_id bias, tn_id z) {
  const float *params;
  const size_t n = tni_em_float_list(e, "activation_params", &params);
  const tn_id y = tni_em_add(e, tni_contrib_plain(e, "Conv", (tn_id[]){x, w, bias}, 3), z);
  return activated_fused(e, tni_em_string(e, "activation", ""), y, params, n);
}

/* operands: X, W, B, Z, which is added before the activation. */
void tni_contrib_fused_conv(tni_emit *e) {
  tni_em_give(e, 0, tni_contrib_conv(e, tni_em_in(e, 0), tni_em_in(e, 1), tni_em_in(e, 2), tni_em_in(e, 3)));
}

void tni_contrib_fused_gemm(tni_emit *e) {
  const float params[] = {tni_em_float(e, "activation_alpha", 0), tni_em_float(e, "activation_beta", 0)};
  tni_em_node g = {.type = "Gemm", .n_in = 3, .in = {tni_em_in(e, 0), tni_em_in(e, 1), tni_em_in(e, 2)}};
  take_attributes(e, &g);
  tni_em_give(e, 0, activated_fused(e, tni_em_string(e, "activation", ""), tni_em_node_add(e, &g), params, 2));
}

/* --- RelativePositionBias --- */

static tn_id i64_const(tni_emit *e, int64_t v) { return tni_em_scalar(e, TN_DT_I64, (double)v); }
static tn_id f32_const(tni_emit *e, double v) { return tni_em_scalar(e, TN_DT_F32, v); }

/* 0 .. n-1, as a column where column is set. */
static tn_id row_of_steps(tni_emit *e, tn_id n, bool column) {
  static const int64_t axis = 1;
  static const int64_t scalar[1];
  const tn_id steps = tni_em_3(e, "Range", i64_const(e, 0), tni_em_reshape(e, n, scalar, 0), i64_const(e, 1));
  return column ? tni_em_unsqueeze(e, steps, &axis, 1) : steps;
}

/* Distances below half of the buckets have one each, longer ones share them by logarithm. */
static tn_id bucket_of_distance(tni_emit *e, tn_id distance, int64_t buckets, int64_t max_distance) {
  const int64_t exact = buckets / 2;
  const double by = (double)(buckets - exact) / (double)logf((float)max_distance / (float)exact);
  const tn_id far = tni_em_cast(e, tni_em_2(e, "Max", distance, i64_const(e, 1)), TN_DT_F32);
  const tn_id log = tni_em_1(e, "Log", tni_em_2(e, "Div", far, f32_const(e, (double)exact)));
  const tn_id shared = tni_em_cast(e, tni_em_2(e, "Mul", log, f32_const(e, by)), TN_DT_I64);
  const tn_id large = tni_em_2(e, "Min", tni_em_2(e, "Add", shared, i64_const(e, exact)), i64_const(e, buckets - 1));
  return tni_em_3(e, "Where", tni_em_2(e, "Less", distance, i64_const(e, exact)), distance, large);
}

/* operands: bias_table, declared [buckets, heads] and stored column by column, that is [heads, buckets]; lengths of
 * queries and keys; the result is [1, heads, queries, keys]. */
void tni_contrib_relative_bias(tni_emit *e) {
  static const char *const names[] = {"is_bidirectional", "max_distance", NULL};
  static const int64_t front = 0;
  if (!tni_em_knows(e, 3, 1, names)) return;
  const bool both = tni_em_int(e, "is_bidirectional", 0) != 0;
  const int64_t all = tni_em_dim(e, tni_em_in(e, 0), 0), n = both ? all / 2 : all;
  const int64_t most = tni_em_int(e, "max_distance", 0);
  if (n < 2 || n > INT32_MAX || most <= n / 2 || most > INT32_MAX) {
    tni_em_fail(e, TN_E_UNSUPPORTED, "buckets that are not known, or a max_distance below them");
    return;
  }
  const tn_id far = tni_em_2(e, "Sub", row_of_steps(e, tni_em_in(e, 2), false), row_of_steps(e, tni_em_in(e, 1), true));
  tn_id at = both ? tni_em_1(e, "Abs", far) : tni_em_1(e, "Neg", tni_em_2(e, "Min", far, i64_const(e, 0)));
  at = bucket_of_distance(e, at, n, most);
  if (both)
    at = tni_em_2(e, "Add", at,
                  tni_em_3(e, "Where", tni_em_2(e, "Greater", far, i64_const(e, 0)), i64_const(e, n), i64_const(e, 0)));
  const int64_t stored[] = {-1, all};
  tni_em_node g = {.type = "Gather", .n_in = 2, .in = {tni_em_reshape(e, tni_em_in(e, 0), stored, 2), at}, .n_attr = 1};
  g.attr[0] = tni_raw_int("axis", 1);
  tni_em_give(e, 0, tni_em_unsqueeze(e, tni_em_node_add(e, &g), &front, 1));
}

/* --- GroupNorm --- */

/* operands: X [N, .., C] (channels_last, the default) or [N, C, ..], gamma, beta [C]; activation 1: SiLU after it. */
void tni_contrib_group_norm(tni_emit *e) {
  static const char *const names[] = {"activation", "channels_last", "epsilon", "groups", NULL};
  static const int64_t first[] = {0, 3, 1, 2}, last[] = {0, 2, 3, 1};
  if (!tni_em_knows(e, 3, 1, names)) return;
  const bool turned = tni_em_int(e, "channels_last", 1) != 0;
  tn_id x = tni_em_in(e, 0);
  if (turned) x = tni_em_transpose(e, x, first, 4);
  tni_em_node n = {.type = "GroupNormalization", .n_in = 3, .in = {x, tni_em_in(e, 1), tni_em_in(e, 2)}, .n_attr = 2};
  n.attr[0] = tni_raw_int("num_groups", tni_em_int(e, "groups", 0));
  n.attr[1] = tni_raw_float("epsilon", (double)tni_em_float(e, "epsilon", 1e-5f));
  tn_id y = tni_em_node_add(e, &n);
  if (tni_em_int(e, "activation", 0) == 1) {
    tni_em_node s = {.type = "Swish", .n_in = 1, .in = {y}, .n_attr = 1, .attr = {tni_raw_float("alpha", 1)}};
    y = tni_em_node_add(e, &s);
  }
  tni_em_give(e, 0, turned ? tni_em_transpose(e, y, last, 4) : y);
}
