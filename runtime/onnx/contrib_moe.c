/* SPDX-License-Identifier: Apache-2.0
 *
 * MoE and QMoE: every expert's two or three products with constants of its own, which plugins pack like any other
 * weight, summed with the router's weight of the expert, which is 0 where a token does not go there. Its row is zeros
 * there in front of each product, which the host leaves out (docs/operators-contrib.md); a device that computes all
 * rows gets the same sum.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/onnx/contrib.h"

enum { MAX_EXPERTS = 512 };

/* Operands of one of the three layers: weights [E, N, K], scales, bias [E, N], zeros. */
typedef struct layer {
  tn_id w, scales, bias, zeros;
  int64_t bits; /* 0: floats */
} layer;

typedef struct moe {
  layer fc1, fc2, fc3;
  int64_t experts, hidden, block;
  const char *activation;
  float alpha, beta, limit;
  int64_t fusion;
} moe;

/* Element i of axis 0 of a constant; its bytes are shared. */
static tn_id moe_part(tni_emit *e, tn_id v, int64_t i, const char *what) {
  const tni_tensor *t = tni_em_const(e, v);
  if (v == TN_NONE || e->st) return TN_NONE;
  if (!t || !t->data || t->rank < 2 || t->dims[0] <= i || tni_dtype_bits(t->dtype) % 8)
    return tni_em_fail(e, TN_E_UNSUPPORTED, "%s are no constants of the experts", what);
  tni_tensor one = *t;
  one.rank = t->rank - 1;
  memmove(one.dims, t->dims + 1, one.rank * sizeof *one.dims);
  one.bytes = t->bytes / (uint64_t)t->dims[0];
  one.data = (char *)t->data + (uint64_t)i * one.bytes;
  return tni_em_view(e, &one);
}

/* x [T, K] times the weights of expert i: [T, N], with the bias. */
static tn_id moe_product(tni_emit *e, const moe *m, const layer *l, tn_id x, int64_t i) {
  if (!l->bits) {
    tni_em_node g = {.type = "Gemm", .n_in = 3, .n_attr = 1, .attr = {tni_raw_int("transB", 1)}};
    g.in[0] = x;
    g.in[1] = moe_part(e, l->w, i, "weights");
    g.in[2] = moe_part(e, l->bias, i, "biases");
    return tni_em_node_add(e, &g);
  }
  const tni_tensor *w = tni_em_const(e, l->w), *s = tni_em_const(e, l->scales);
  if (!w || w->rank != 3 || !s || s->rank < 2)
    return tni_em_fail(e, TN_E_UNSUPPORTED, "weights and scales are no constants of the experts");
  tni_quantized q = {.bits = (uint32_t)l->bits, .N = w->dims[1], .transposed = true};
  q.K = w->dims[2] * (8 / l->bits);
  q.block = m->block ? m->block : q.K;
  const tn_id v = tni_contrib_quantized(e, &q, moe_part(e, l->w, i, "weights"), moe_part(e, l->scales, i, "scales"),
                                        moe_part(e, l->zeros, i, "zeros"));
  return tni_em_add(e, tni_em_2(e, "MatMul", x, v), moe_part(e, l->bias, i, "biases"));
}

static tn_id every_second(tni_emit *e, tn_id x, int64_t from) {
  tni_em_node n = {.type = "Slice", .n_in = 5, .in = {x}};
  n.in[1] = tni_em_index(e, from);
  n.in[2] = tni_em_index(e, INT64_MAX);
  n.in[3] = tni_em_index(e, -1);
  n.in[4] = tni_em_index(e, 2);
  return tni_em_node_add(e, &n);
}

static tn_id clipped_value(tni_emit *e, tn_id x, float lo, float hi) {
  const uint32_t t = tni_em_float_dtype(e, e->d->n_in);
  tni_em_node n = {.type = "Clip", .n_in = 3, .in = {x, TN_NONE, TN_NONE}};
  if (isfinite(lo)) n.in[1] = tni_em_scalar(e, t, (double)lo);
  n.in[2] = tni_em_scalar(e, t, (double)hi);
  return tni_em_node_add(e, &n);
}

/* G * sigmoid(alpha * G) * (L + beta), both clipped to the limit. */
static tn_id emit_swiglu(tni_emit *e, const moe *m, tn_id gate, tn_id linear) {
  if (isfinite(m->limit)) gate = clipped_value(e, gate, -INFINITY, m->limit);
  if (isfinite(m->limit)) linear = clipped_value(e, linear, -m->limit, m->limit);
  tni_em_node n = {.type = "Swish", .n_in = 1, .in = {gate}, .n_attr = 1};
  n.attr[0] = tni_raw_float("alpha", (double)m->alpha);
  if (m->beta != 0)
    linear = tni_em_2(e, "Add", linear, tni_em_scalar(e, tni_em_float_dtype(e, e->d->n_in), (double)m->beta));
  return tni_em_2(e, "Mul", tni_em_node_add(e, &n), linear);
}

static tn_id activated_moe(tni_emit *e, const moe *m, tn_id x) {
  tni_em_node n = {.type = "Gelu", .n_in = 1, .in = {x}, .n_attr = 1, .attr = {tni_raw_string("approximate", "tanh")}};
  if (strcmp(m->activation, "relu") == 0) return tni_em_1(e, "Relu", x);
  if (strcmp(m->activation, "identity") == 0) return x;
  if (strcmp(m->activation, "silu") == 0) {
    n.type = "Swish";
    n.attr[0] = tni_raw_float("alpha", 1);
  } else if (strcmp(m->activation, "gelu") != 0) {
    return tni_em_fail(e, TN_E_UNSUPPORTED, "activation '%s'", m->activation);
  }
  return tni_em_node_add(e, &n);
}

/* x [T, K], zeros in rows that do not go to the expert. */
static tn_id rows_of_expert(tni_emit *e, tn_id x, tn_id goes) {
  return tni_em_3(e, "Where", goes, x, tni_em_scalar(e, tni_em_float_dtype(e, e->d->n_in), 0));
}

/* goes: bool [T, 1]. */
static tn_id emit_expert(tni_emit *e, const moe *m, tn_id all, tn_id goes, int64_t i) {
  const tn_id x = rows_of_expert(e, all, goes);
  tn_id h = moe_product(e, m, &m->fc1, x, i), half[2];
  const bool glu = strcmp(m->activation, "swiglu") == 0;
  if (!glu) {
    h = activated_moe(e, m, h);
    if (m->fc3.w != TN_NONE) h = tni_em_2(e, "Mul", h, moe_product(e, m, &m->fc3, x, i));
  } else if (m->fusion == 1) {
    h = emit_swiglu(e, m, every_second(e, h, 0), every_second(e, h, 1));
  } else if (m->fusion == 2) {
    tni_em_split(e, h, -1, NULL, 2, half);
    h = emit_swiglu(e, m, half[0], half[1]);
  } else if (m->fc3.w != TN_NONE) {
    h = emit_swiglu(e, m, h, moe_product(e, m, &m->fc3, x, i));
  } else {
    return tni_em_fail(e, TN_E_INVALID, "swiglu of one product");
  }
  /* A bias makes something of zeros. */
  if (m->fc1.bias != TN_NONE || m->fc3.bias != TN_NONE) h = rows_of_expert(e, h, goes);
  return moe_product(e, m, &m->fc2, h, i);
}

/* [T, E]: the softmax of the k largest logits' experts (over all experts, or made to sum to 1), else 0. given: weights
 * of all experts in the softmax's place, TN_NONE: none. */
static tn_id emit_routing(tni_emit *e, tn_id logits, tn_id given) {
  const int64_t k = tni_em_int(e, "k", 1);
  tni_em_node soft = {.type = "Softmax", .n_in = 1, .in = {logits}, .n_attr = 1, .attr = {tni_raw_int("axis", -1)}};
  const tn_id p = tni_em_node_add(e, &soft);
  tni_em_node top = {.type = "TopK", .n_in = 2, .in = {p, tni_em_index(e, k)}, .n_out = 2};
  tn_id values = tni_em_node_add(e, &top);
  tni_em_node pick = {.type = "GatherElements", .n_in = 2, .in = {given, top.out[1]}, .n_attr = 1};
  pick.attr[0] = tni_raw_int("axis", -1);
  if (given != TN_NONE) values = tni_em_node_add(e, &pick);
  if (tni_em_int(e, "normalize_routing_weights", 0)) {
    tni_em_node sum = {.type = "ReduceSum", .n_in = 2, .in = {values, tni_em_index(e, -1)}};
    values = tni_em_2(e, "Div", values, tni_em_node_add(e, &sum));
  }
  const tn_id zeros = tni_em_2(e, "Mul", p, tni_em_scalar(e, tni_em_float_dtype(e, 2), 0));
  tni_em_node put = {.type = "ScatterElements", .n_in = 3, .in = {zeros, top.out[1], values}, .n_attr = 1};
  put.attr[0] = tni_raw_int("axis", -1);
  return tni_em_node_add(e, &put);
}

static void apply_moe(tni_emit *e, moe *m, tn_id given) {
  const tn_id x = tni_em_in(e, 0);
  const int64_t rows[] = {-1, m->hidden};
  const tn_id flat = tni_em_reshape(e, x, rows, 2), weights = emit_routing(e, tni_em_in(e, 1), given);
  const tn_id any = tni_em_cast(e, weights, TN_DT_BOOL);
  tn_id sum = TN_NONE;
  for (int64_t i = 0; i < m->experts && !e->st; i++) {
    const tn_id w = tni_em_slice(e, weights, 1, tni_em_index(e, i), tni_em_index(e, i + 1));
    const tn_id goes = tni_em_slice(e, any, 1, tni_em_index(e, i), tni_em_index(e, i + 1));
    sum = tni_em_add(e, sum, tni_em_2(e, "Mul", emit_expert(e, m, flat, goes, i), w));
  }
  tni_em_give(e, 0, tni_em_2(e, "Reshape", sum, tni_em_shape(e, x, 0, 0)));
}

static bool read_moe(tni_emit *e, moe *m) {
  const tni_tensor *w2 = tni_em_const(e, m->fc2.w);
  if (!w2 || w2->rank != 3 || w2->dims[0] < 1 || w2->dims[0] > MAX_EXPERTS || w2->dims[1] < 1) {
    tni_em_fail(e, TN_E_UNSUPPORTED, "fc2's weights are no constant of at most %d experts", MAX_EXPERTS);
    return false;
  }
  m->experts = w2->dims[0];
  m->hidden = w2->dims[1];
  m->activation = tni_em_string(e, "activation_type", "relu");
  m->alpha = tni_em_float(e, "activation_alpha", 1);
  m->beta = tni_em_float(e, "activation_beta", 0);
  m->limit = tni_em_float(e, "swiglu_limit", INFINITY);
  m->fusion = tni_em_int(e, "swiglu_fusion", 0);
  if (tni_em_int(e, "use_sparse_mixer", 0)) tni_em_fail(e, TN_E_UNSUPPORTED, "the sparse mixer");
  return e->st == TN_OK;
}

/* operands: input [.., H], router_probs (logits) [T, E], then weights and bias of each layer. */
void tni_contrib_moe(tni_emit *e) {
  static const char *const names[] = {
      "activation_alpha", "activation_beta", "activation_type",  "k", "normalize_routing_weights",
      "swiglu_fusion",    "swiglu_limit",    "use_sparse_mixer", NULL};
  if (!tni_em_knows(e, 8, 1, names)) return;
  moe m = {.fc1 = {tni_em_in(e, 2), TN_NONE, tni_em_in(e, 3), TN_NONE, 0},
           .fc2 = {tni_em_in(e, 4), TN_NONE, tni_em_in(e, 5), TN_NONE, 0},
           .fc3 = {tni_em_in(e, 6), TN_NONE, tni_em_in(e, 7), TN_NONE, 0}};
  if (read_moe(e, &m)) apply_moe(e, &m, TN_NONE);
}

/* operands: input, router_probs, then weights, scales and bias of each layer, zeros of each, router_weights. */
void tni_contrib_qmoe(tni_emit *e) {
  static const char *const names[] = {"accuracy_level",
                                      "activation_alpha",
                                      "activation_beta",
                                      "activation_type",
                                      "block_size",
                                      "expert_weight_bits",
                                      "fc1_expert_weight_bits",
                                      "fc2_expert_weight_bits",
                                      "fc3_expert_weight_bits",
                                      "k",
                                      "normalize_routing_weights",
                                      "quant_type",
                                      "swiglu_fusion",
                                      "swiglu_limit",
                                      "use_sparse_mixer",
                                      "weights_prepacked",
                                      NULL};
  if (!tni_em_knows(e, 15, 1, names)) return;
  const int64_t bits = tni_em_int(e, "expert_weight_bits", 4);
  moe m = {.block = tni_em_int(e, "block_size", 0)};
  layer *const layers[] = {&m.fc1, &m.fc2, &m.fc3};
  static const char *const own[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"};
  for (uint32_t i = 0; i < 3; i++) {
    *layers[i] = (layer){tni_em_in(e, 2 + 3 * i), tni_em_in(e, 3 + 3 * i), tni_em_in(e, 4 + 3 * i),
                         tni_em_in(e, 11 + i), tni_em_int(e, own[i], bits)};
    if (layers[i]->bits != 2 && layers[i]->bits != 4 && layers[i]->bits != 8)
      tni_em_fail(e, TN_E_UNSUPPORTED, "weights of %" PRId64 " bits", layers[i]->bits);
  }
  if (strcmp(tni_em_string(e, "quant_type", "int"), "int") != 0)
    tni_em_fail(e, TN_E_UNSUPPORTED, "weights of float types");
  if (tni_em_int(e, "weights_prepacked", 0) > 0) tni_em_fail(e, TN_E_UNSUPPORTED, "weights in the order of one device");
  if (read_moe(e, &m)) apply_moe(e, &m, tni_em_in(e, 14));
}
