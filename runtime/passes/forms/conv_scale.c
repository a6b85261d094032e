/* SPDX-License-Identifier: Apache-2.0
 *
 * conv_scale:  BatchNormalization(Conv(x, W, B)), Conv(..) * c, Conv(..) + c  ->  Conv(x, W', B')
 *
 * What stands after a Conv or ConvTranspose and is a factor and a summand per output channel goes into its constant
 * weight and bias: W' = W * factor, B' = B * factor + summand, computed in double and rounded once. A
 * BatchNormalization in inference with constant operands is factor = scale / sqrt(var + epsilon), summand = bias - mean
 * * factor; the constant of a product or a sum has the dims of the result with 1 everywhere but for the channels, or
 * one element.
 *
 * Keeps: the value, name and shape of what stood behind, up to rounding. A convolution that somebody else reads too
 * stays, and so does one whose weight has more than MAX_BYTES: scaled weights live in memory, not in the mapped file.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/forms/forms.h"

enum { MAX_BYTES = 64 << 20 };

/* The constant's tensor, if it is there, float and whole; NULL otherwise. */
static const tni_tensor *scale_constant(const tni_graph *g, tn_id v, int64_t *count) {
  const tni_value *c = tni_match_value(g, v);
  uint64_t need;
  if (!c || c->pub.kind != TN_VALUE_CONST || !c->tensor || !c->tensor->data) return NULL;
  const tni_tensor *t = c->tensor;
  if (t->dtype != TN_DT_F32 && t->dtype != TN_DT_F64 && t->dtype != TN_DT_F16 && t->dtype != TN_DT_BF16) return NULL;
  if (tni_dims_count(t->dims, t->rank, count) != TN_OK || tni_dtype_bytes(t->dtype, *count, &need) != TN_OK)
    return NULL;
  return t->bytes >= need ? t : NULL;
}

static double get_scale(const tni_tensor *t, int64_t i) {
  double d;
  float f;
  if (t->dtype == TN_DT_F64) {
    memcpy(&d, (const char *)t->data + (size_t)i * sizeof d, sizeof d);
    return d;
  }
  tni_tensor_to_f32(t, i, 1, &f);
  return (double)f;
}

static void put_scale(uint32_t dtype, void *data, int64_t i, double v) {
  const float f = (float)v;
  const uint16_t h = dtype == TN_DT_F16 ? tni_f32_to_f16(f) : tni_f32_to_bf16(f);
  if (dtype == TN_DT_F64) memcpy((char *)data + (size_t)i * sizeof v, &v, sizeof v);
  if (dtype == TN_DT_F32) memcpy((char *)data + (size_t)i * sizeof f, &f, sizeof f);
  if (dtype == TN_DT_F16 || dtype == TN_DT_BF16) memcpy((char *)data + (size_t)i * sizeof h, &h, sizeof h);
}

/* A convolution with constant operands. */
typedef struct conv {
  const tni_node *node;
  const tni_tensor *w, *b; /* b NULL: none */
  int64_t n, outs, taps;   /* elements of w; output channels; elements of one kernel */
  int64_t group, part;     /* ConvTranspose: output channels of one group, input channels of one */
} conv;

static bool is_conv(const tni_graph *g, tn_id v, conv *c) {
  int64_t n_bias = 0;
  *c = (conv){.node = tni_match_node(g, v, TN_OP_CONV)};
  if (!c->node) c->node = tni_match_node(g, v, TN_OP_CONV_TRANSPOSE);
  if (!c->node || tni_match_uses(g, v) != 1) return false;
  const int64_t groups = tni_attr_i(&c->node->pub, "group", 1);
  c->w = scale_constant(g, tni_match_in(c->node, 1), &c->n);
  if (!c->w || c->w->rank < 3 || c->w->bytes > MAX_BYTES || groups < 1 || c->n == 0 || c->w->dims[0] % groups)
    return false;
  c->taps = c->n / (c->w->dims[0] * c->w->dims[1]);
  if (c->node->pub.op == TN_OP_CONV_TRANSPOSE) {
    c->group = c->w->dims[1];
    c->part = c->w->dims[0] / groups;
    c->outs = c->group * groups;
  } else {
    c->outs = c->w->dims[0];
  }
  if (tni_match_in(c->node, 2) == TN_NONE) return true;
  c->b = scale_constant(g, tni_match_in(c->node, 2), &n_bias);
  return c->b && n_bias == c->outs;
}

/* Output channel of element i of the weight. */
static int64_t channel_of(const conv *c, int64_t i) {
  if (!c->group) return i / (c->n / c->outs);
  return i / (c->taps * c->group) / c->part * c->group + i / c->taps % c->group;
}

/* v is a constant per channel: one element, or dims [.., C, 1, ..] under a result of c's rank. */
static const tni_tensor *per_channel(const tni_graph *g, const conv *c, tn_id v, int64_t *n) {
  const tni_tensor *t = scale_constant(g, v, n);
  const uint32_t after = c->w->rank - 2;
  if (!t || t->dtype != c->w->dtype || t->rank > c->w->rank || (*n != 1 && *n != c->outs)) return NULL;
  if (*n == 1) return t;
  return t->rank > after && t->dims[t->rank - after - 1] == *n ? t : NULL;
}

/* factor and summand [outs] of node n after c. */
static bool affine_of_channel(const tni_graph *g, const tni_node *n, const conv *c, double *factor, double *summand) {
  const tni_tensor *t[5] = {NULL};
  int64_t count;
  for (int64_t i = 0; i < c->outs; i++) {
    factor[i] = 1;
    summand[i] = 0;
  }
  if (n->pub.op != TN_OP_BATCH_NORMALIZATION) {
    t[0] = per_channel(g, c, tni_match_other(n, c->node->pub.out[0]), &count);
    for (int64_t i = 0; i < c->outs && t[0]; i++)
      *(n->pub.op == TN_OP_MUL ? &factor[i] : &summand[i]) = get_scale(t[0], count == 1 ? 0 : i);
    return t[0] != NULL;
  }
  if (tni_attr_i(&n->pub, "training_mode", 0)) return false;
  for (uint32_t k = 1; k < 5; k++) {
    t[k] = scale_constant(g, tni_match_in(n, k), &count);
    if (!t[k] || count != c->outs) return false;
  }
  const double eps = tni_attr_f(&n->pub, "epsilon", 1e-5);
  for (int64_t i = 0; i < c->outs; i++) {
    factor[i] = get_scale(t[1], i) / sqrt(get_scale(t[4], i) + eps);
    summand[i] = get_scale(t[2], i) - get_scale(t[3], i) * factor[i];
    if (!isfinite(factor[i]) || !isfinite(summand[i])) return false;
  }
  return true;
}

/* The convolution with factor and summand in its weight and bias, in the place of `last`. */
static tn_status replace_conv(tni_graph *g, tni_node *last, const conv *c, const double *factor, const double *summand,
                              tn_error *err) {
  const uint32_t dtype = c->w->dtype;
  tni_build_node b = {.type = c->node->type, .version = c->node->version, .n_in = 3, .n_attr = c->node->n_raw};
  unsigned char *w = malloc((size_t)c->w->bytes), *bias = calloc((size_t)c->outs, sizeof(double));
  tn_status st = w && bias ? TN_OK : tni_fail_memory(err, last->pub.name);
  for (int64_t i = 0; !st && i < c->n; i++) put_scale(dtype, w, i, get_scale(c->w, i) * factor[channel_of(c, i)]);
  for (int64_t i = 0; !st && i < c->outs; i++)
    put_scale(dtype, bias, i, (c->b ? get_scale(c->b, i) : 0) * factor[i] + summand[i]);
  if (!st) {
    b.in[0] = tni_match_in(c->node, 0);
    b.in[1] = tni_build_const(g, dtype, c->w->rank, c->w->dims, w);
    b.in[2] = tni_build_const(g, dtype, 1, &c->outs, bias);
    memcpy(b.attr, c->node->raw, c->node->n_raw * sizeof *b.attr);
    st = b.in[1] == TN_NONE || b.in[2] == TN_NONE ? tni_fail_memory(err, last->pub.name)
                                                  : tni_build_in_place(g, last, &b, err);
  }
  free(w);
  free(bias);
  return st;
}

static bool is_behind(const tni_node *n) {
  const uint32_t op = n->dead || !n->op ? 0 : n->pub.op;
  return op == TN_OP_BATCH_NORMALIZATION || op == TN_OP_MUL || op == TN_OP_ADD;
}

static tn_status join_scale(tni_graph *g, tni_node *last, uint32_t *fired, tn_error *err) {
  conv c;
  const uint32_t n_in = last->pub.op == TN_OP_BATCH_NORMALIZATION ? 1 : 2;
  bool found = false;
  for (uint32_t k = 0; k < n_in && !found; k++) found = is_conv(g, tni_match_in(last, k), &c);
  if (!found || c.node->n_raw > sizeof(((tni_build_node *)0)->attr) / sizeof(tni_raw_attr)) return TN_OK;
  double *factor = malloc(2 * (size_t)c.outs * sizeof *factor);
  if (!factor) return tni_fail_memory(err, last->pub.name);
  tn_status st = TN_OK;
  if (affine_of_channel(g, last, &c, factor, factor + c.outs)) {
    st = replace_conv(g, last, &c, factor, factor + c.outs, err);
    *fired += st == TN_OK;
  }
  free(factor);
  return st;
}

tn_status tni_pass_conv_scale(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    if (!is_behind(g->nodes[i])) continue;
    const tn_status st = join_scale(g, g->nodes[i], &fired, err);
    if (st != TN_OK) return st;
  }
  return tni_build_done(g, fired, n, err);
}
