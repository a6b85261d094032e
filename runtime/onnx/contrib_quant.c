/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantized operators: integers where the standard has the product, else DequantizeLinear, the operator,
 * QuantizeLinear.
 */
#include "runtime/onnx/contrib.h"

static tn_id scaled_quant(tni_emit *e, const char *type, tn_id x, tn_id scale, tn_id zero, int64_t axis) {
  tni_em_node n = {.type = type, .n_in = 3, .in = {x, scale, zero}, .n_attr = 1};
  n.attr[0] = tni_raw_int("axis", axis);
  return tni_em_node_add(e, &n);
}

static tn_id dequantized_input(tni_emit *e, uint32_t i, int64_t axis) {
  return scaled_quant(e, "DequantizeLinear", tni_em_in(e, i), tni_em_in(e, i + 1), tni_em_in(e, i + 2), axis);
}

static void give_quantized(tni_emit *e, tn_id y, uint32_t i) {
  tni_em_give(e, 0, scaled_quant(e, "QuantizeLinear", y, tni_em_in(e, i), tni_em_in(e, i + 1), 1));
}

/* QuantizeLinear, DequantizeLinear: what the standard's had not yet (16 and 4 bits) when exporters wrote these. */
void tni_contrib_linear(tni_emit *e) {
  static const char *const names[] = {"axis", "block_size", NULL};
  if (!tni_em_knows(e, 3, 1, names)) return;
  tni_em_node n = {.type = e->d->type, .n_in = 3, .in = {tni_em_in(e, 0), tni_em_in(e, 1), tni_em_in(e, 2)}};
  n.attr[n.n_attr++] = tni_raw_int("axis", tni_em_int(e, "axis", 1));
  n.attr[n.n_attr++] = tni_raw_int("block_size", tni_em_int(e, "block_size", 0));
  tni_em_give(e, 0, tni_em_node_add(e, &n));
}

/* QLinearAdd, QLinearMul: A, its scale and zero, B, its scale and zero, the result's. */
void tni_contrib_qlinear_binary(tni_emit *e) {
  static const char *const names[] = {NULL};
  if (!tni_em_knows(e, 8, 1, names)) return;
  const tn_id a = dequantized_input(e, 0, 1), b = dequantized_input(e, 3, 1);
  give_quantized(e, tni_em_2(e, e->d->type + sizeof "QLinear" - 1, a, b), 6);
}

void tni_contrib_qlinear_sigmoid(tni_emit *e) {
  static const char *const names[] = {NULL};
  if (!tni_em_knows(e, 5, 1, names)) return;
  give_quantized(e, tni_em_1(e, "Sigmoid", dequantized_input(e, 0, 1)), 3);
}

void tni_contrib_qlinear_leaky_relu(tni_emit *e) {
  static const char *const names[] = {"alpha", NULL};
  if (!tni_em_knows(e, 5, 1, names)) return;
  tni_em_node n = {.type = "LeakyRelu", .n_in = 1, .in = {dequantized_input(e, 0, 1)}, .n_attr = 1};
  n.attr[0] = tni_raw_float("alpha", (double)tni_em_float(e, "alpha", 0.01f));
  give_quantized(e, tni_em_node_add(e, &n), 3);
}

/* The standard's Softmax before 13 took all axes from `axis` on. */
void tni_contrib_qlinear_softmax(tni_emit *e) {
  static const char *const names[] = {"axis", "opset", NULL};
  if (!tni_em_knows(e, 5, 1, names)) return;
  tni_em_node n = {.type = "Softmax", .n_in = 1, .in = {dequantized_input(e, 0, 1)}, .n_attr = 2};
  n.attr[0] = tni_raw_int("axis", tni_em_int(e, "axis", -1));
  n.attr[1] = tni_raw_int("coerce_2d", tni_em_int(e, "opset", 13) < 13);
  give_quantized(e, tni_em_node_add(e, &n), 3);
}

void tni_contrib_qlinear_global_pool(tni_emit *e) {
  static const char *const names[] = {"channels_last", NULL};
  if (!tni_em_knows(e, 5, 1, names)) return;
  if (tni_em_int(e, "channels_last", 0)) tni_em_fail(e, TN_E_UNSUPPORTED, "channels last");
  give_quantized(e, tni_em_1(e, "GlobalAveragePool", dequantized_input(e, 0, 1)), 3);
}

/* The result's scale and zero, then each part with its own. */
void tni_contrib_qlinear_concat(tni_emit *e) {
  static const char *const names[] = {"axis", NULL};
  const uint32_t n = e->d->n_in > 2 ? (e->d->n_in - 2) / 3 : 0;
  if (!tni_em_knows(e, e->d->n_in, 1, names)) return;
  if (n < 1 || n > TNI_EM_IN || e->d->n_in != 2 + 3 * n) {
    tni_em_fail(e, TN_E_UNSUPPORTED, "%u operands", e->d->n_in);
    return;
  }
  tn_id part[TNI_EM_IN];
  for (uint32_t i = 0; i < n; i++) part[i] = dequantized_input(e, 2 + 3 * i, 1);
  give_quantized(e, tni_em_concat(e, part, n, tni_em_int(e, "axis", 0)), 0);
}

/* --- products --- */

tn_id tni_contrib_integer_product(tni_emit *e, tn_id a, tn_id b, tn_id a_zero, tn_id b_zero, tn_id a_scale,
                                  tn_id b_scale, tn_id bias) {
  tni_em_node n = {.type = "MatMulInteger", .n_in = 4, .in = {a, b, a_zero, b_zero}};
  const tn_id sums = tni_em_cast(e, tni_em_node_add(e, &n), TN_DT_F32);
  return tni_em_add(e, tni_em_2(e, "Mul", sums, tni_em_2(e, "Mul", a_scale, b_scale)), bias);
}

/* operands: A float, B, b_scale, b_zero_point, bias. */
void tni_contrib_dynamic_matmul(tni_emit *e) {
  static const char *const names[] = {NULL};
  if (!tni_em_knows(e, 5, 1, names)) return;
  tni_em_node n = {.type = "DynamicQuantizeLinear", .n_in = 1, .in = {tni_em_in(e, 0)}, .n_out = 3};
  tni_em_node_add(e, &n);
  tni_em_give(e, 0,
              tni_contrib_integer_product(e, n.out[0], tni_em_in(e, 1), n.out[2], tni_em_in(e, 3), n.out[1],
                                          tni_em_in(e, 2), tni_em_in(e, 4)));
}

/* operands: A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias. */
void tni_contrib_matmul_to_float(tni_emit *e) {
  static const char *const names[] = {NULL};
  if (!tni_em_knows(e, 7, 1, names)) return;
  tni_em_give(e, 0,
              tni_contrib_integer_product(e, tni_em_in(e, 0), tni_em_in(e, 1), tni_em_in(e, 4), tni_em_in(e, 5),
                                          tni_em_in(e, 2), tni_em_in(e, 3), tni_em_in(e, 6)));
}

/* operands: A, its scale and zero, B, its scale and zero, C int32 in units of both scales, the result's scale and zero
 * (absent: the result is float). */
void tni_contrib_qgemm(tni_emit *e) {
  static const char *const names[] = {"alpha", "transA", "transB", NULL};
  if (!tni_em_knows(e, 9, 1, names)) return;
  const int64_t trans_b = tni_em_int(e, "transB", 0);
  const tn_id c = tni_em_in(e, 6);
  tni_em_node n = {.type = "Gemm", .n_in = 3, .n_attr = 4};
  n.in[0] = dequantized_input(e, 0, 1);
  n.in[1] = dequantized_input(e, 3, trans_b ? 0 : 1);
  n.in[2] = TN_NONE;
  if (c != TN_NONE)
    n.in[2] = tni_em_2(e, "Mul", tni_em_cast(e, c, TN_DT_F32), tni_em_2(e, "Mul", tni_em_in(e, 1), tni_em_in(e, 4)));
  n.attr[0] = tni_raw_float("alpha", (double)tni_em_float(e, "alpha", 1.0f));
  n.attr[3] = tni_raw_float("beta", (double)tni_em_float(e, "alpha", 1.0f)); /* alpha times all of the sum */
  n.attr[1] = tni_raw_int("transA", tni_em_int(e, "transA", 0));
  n.attr[2] = tni_raw_int("transB", trans_b);
  const tn_id y = tni_em_node_add(e, &n);
  if (tni_em_in(e, 7) == TN_NONE)
    tni_em_give(e, 0, y);
  else
    give_quantized(e, y, 7);
}
