/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "backend.h"

int fixed_dim(const device *d, const tn_graph *g, tn_id v, uint32_t i, int64_t *out) {
  int64_t lo, hi;
  if (d->host->range(g, g->values[v]->dims[i], &lo, &hi) != TN_OK || lo != hi) return 0;
  *out = lo;
  return 1;
}

static int same_dims(const tn_graph *g, tn_id a, tn_id b) {
  const tn_value *x = g->values[a], *y = g->values[b];
  return x->rank == y->rank && !memcmp(x->dims, y->dims, x->rank * sizeof *x->dims);
}

/* Results are clamped, by constants: a plugin learns them when memory is set. */
static int add_next(const tn_graph *g, step *s, const tn_node *n) {
  tn_id *low = &s->constants[LOW], *high = &s->constants[HIGH];
  if (n->n_out != 1 || !same_dims(g, s->y, n->out[0])) return 0;
  s->y = n->out[0];
  if (n->op == TN_OP_RELU) return s->relu = 1;
  if (n->op != TN_OP_CLIP) return 0;
  if (n->n_in > 1) *low = n->in[1];
  if (n->n_in > 2) *high = n->in[2];
  return (*low == TN_NONE || is_constant(g, *low, TN_DT_F32)) && (*high == TN_NONE || is_constant(g, *high, TN_DT_F32));
}

/* Two numbers of an attribute, `absent` where it is not there. */
static int read_pair(const tn_attr *a, int64_t absent, int64_t least, int64_t out[2]) {
  for (uint32_t i = 0; i < 2; i++) {
    if (a->n && a->n != 2) return 0;
    out[i] = a->n ? a->u.ints[i] : absent;
    if (out[i] < least || out[i] > 1 << 20) return 0;
  }
  return 1;
}

static int read_pads(const tn_attr *a, int64_t out[4]) {
  for (uint32_t i = 0; i < 4; i++) {
    if (a->n && a->n != 4) return 0;
    out[i] = a->n ? a->u.ints[i] : 0;
    if (out[i] < 0 || out[i] > 1 << 20) return 0;
  }
  return 1;
}

/* Conv and QLinearConv have the same attributes. */
_Static_assert((int)TN_AT_CONV_AUTO_PAD == (int)TN_AT_QLINEAR_CONV_AUTO_PAD &&
    (int)TN_AT_CONV_DILATIONS == (int)TN_AT_QLINEAR_CONV_DILATIONS && (int)TN_AT_CONV_GROUP == (int)TN_AT_QLINEAR_CONV_GROUP &&
    (int)TN_AT_CONV_PADS == (int)TN_AT_QLINEAR_CONV_PADS && (int)TN_AT_CONV_STRIDES == (int)TN_AT_QLINEAR_CONV_STRIDES &&
    (int)TN_WORD_CONV_AUTO_PAD_SAME_UPPER == (int)TN_WORD_QLINEAR_CONV_AUTO_PAD_SAME_UPPER &&
    (int)TN_WORD_CONV_AUTO_PAD_SAME_LOWER == (int)TN_WORD_QLINEAR_CONV_AUTO_PAD_SAME_LOWER &&
    (int)TN_WORD_CONV_AUTO_PAD_VALID == (int)TN_WORD_QLINEAR_CONV_AUTO_PAD_VALID, "one reader for both");

static uint32_t read_window(const device *d, const tn_graph *g, const tn_node *n, step *s, const char **text) {
  const tn_attr *const *a = n->attr;
  const tn_id w = s->constants[W];
  int64_t wi, k[2];
  *text = "XNNPACK convolves images of two axes here";
  if (g->values[s->x]->rank != 4) return TN_WHY_SHAPE;
  *text = "the channels are not known";
  if (w == TN_NONE || g->values[w]->rank != 4 || !fixed_dim(d, g, s->x, 1, &s->C) || !fixed_dim(d, g, w, 0, &s->OC) ||
      !fixed_dim(d, g, w, 1, &wi) || !fixed_dim(d, g, w, 2, &k[0]) || !fixed_dim(d, g, w, 3, &k[1]))
    return TN_WHY_SHAPE;
  *text = "attributes out of range";
  s->groups = a[TN_AT_CONV_GROUP]->n ? a[TN_AT_CONV_GROUP]->u.i : 1;
  if (!read_pair(a[TN_AT_CONV_STRIDES], 1, 1, s->stride) || !read_pair(a[TN_AT_CONV_DILATIONS], 1, 1, s->dilation) ||
      !read_pads(a[TN_AT_CONV_PADS], s->pads) || s->groups < 1)
    return TN_WHY_ATTR;
  memcpy(s->kernel, k, sizeof k);
  *text = "pads that grow at the lower end";
  const uint32_t word = a[TN_AT_CONV_AUTO_PAD]->word;
  if (word == TN_WORD_CONV_AUTO_PAD_SAME_LOWER) return TN_WHY_ATTR;
  s->same = word == TN_WORD_CONV_AUTO_PAD_SAME_UPPER;
  if (s->same || word == TN_WORD_CONV_AUTO_PAD_VALID) memset(s->pads, 0, sizeof s->pads);
  /* Where a window is shorter than its stride, XNNPACK counts pads below 0 as a large number. */
  *text = "SAME with strides longer than the window";
  for (int i = 0; i < 2; i++)
    if (s->same && (k[i] - 1) * s->dilation[i] + 1 < s->stride[i]) return TN_WHY_ATTR;
  *text = "there is nothing to convolve";
  if (s->C < 1 || s->OC < 1 || k[0] < 1 || k[1] < 1 || wi * s->groups != s->C || s->OC % s->groups) return TN_WHY_SHAPE;
  return TN_WHY_NONE;
}

/* x [.., M, K] times one matrix: a convolution over M images of one pixel. */
static uint32_t read_matrix(const device *d, const tn_graph *g, step *s, const char **text) {
  const tn_value *x = g->values[s->x], *w = s->constants[W] == TN_NONE ? NULL : g->values[s->constants[W]];
  int64_t k;
  *text = "XNNPACK multiplies with one matrix of known sizes here";
  if (!w || w->rank != 2 || !x->rank || !fixed_dim(d, g, s->x, x->rank - 1, &s->C) ||
      !fixed_dim(d, g, s->constants[W], s->kn ? 0 : 1, &k) || !fixed_dim(d, g, s->constants[W], s->kn ? 1 : 0, &s->OC) ||
      k != s->C || s->C < 1 || s->OC < 1)
    return TN_WHY_SHAPE;
  s->matrix = 1;
  s->groups = s->kernel[0] = s->kernel[1] = s->stride[0] = s->stride[1] = s->dilation[0] = s->dilation[1] = 1;
  return TN_WHY_NONE;
}

static uint32_t read_op(const device *d, const tn_graph *g, const tn_node *n, step *s, const char **text) {
  const uint32_t kind = g->values[s->x]->kind;
  uint32_t why;
  *text = "XNNPACK reads activations here";
  if (kind == TN_VALUE_CONST || kind == TN_VALUE_STATE) return TN_WHY_DRIVER;
  switch (n->op) {
    case TN_OP_CONV:
      s->constants[W] = n->in[1];
      s->constants[BIAS] = n->n_in > 2 ? n->in[2] : TN_NONE;
      why = read_window(d, g, n, s, text);
      return why == TN_WHY_NONE ? read_floats(d, g, s, text) : why;
    case TN_OP_QLINEAR_CONV:
    case TN_OP_QLINEAR_MATMUL:
    case TN_OP_QLINEAR_GEMM: /* inputs in one order; the product has no bias */
      for (uint32_t i = 1; i < n->n_in && i <= BIAS + 1; i++) s->constants[i - 1] = n->in[i];
      s->kn = n->op == TN_OP_QLINEAR_MATMUL || (n->op == TN_OP_QLINEAR_GEMM && !n->attr[TN_AT_QLINEAR_GEMM_TRANS_B]->u.i);
      why = n->op == TN_OP_QLINEAR_CONV ? read_window(d, g, n, s, text) : read_matrix(d, g, s, text);
      return why == TN_WHY_NONE ? read_bytes(d, g, s, text) : why;
  }
  *text = "XNNPACK takes convolutions here, what clamps them, and products of bytes";
  if (n->op == TN_OP_MATMUL || n->op == TN_OP_GEMM || n->op == TN_OP_FUSED_MATMUL)
    *text = "XNNPACK takes denormals of an activation as 0, which no numerics of a product can say";
  return TN_WHY_OP;
}

tn_id follower(const tn_graph *g, tn_id i) {
  const tn_node *n = g->nodes[i];
  const tn_value *y = n->op == TN_OP_CONV ? g->values[n->out[0]] : NULL;
  return y && y->kind == TN_VALUE_ACT && y->n_uses == 1 ? y->uses[0] : TN_NONE;
}

uint32_t read_step(const device *d, const tn_graph *g, tn_id i, tn_id next, step *s, const char **text) {
  const tn_node *n = g->nodes[i];
  memset(s, 0, sizeof *s);
  memset(s->constants, 0xff, sizeof s->constants); /* TN_NONE */
  s->nodes[s->n_nodes++] = i;
  *text = "XNNPACK takes what has an input and an output";
  if (!n->n_in || n->in[0] == TN_NONE || !n->n_out || n->out[0] == TN_NONE) return TN_WHY_OP;
  s->x = n->in[0];
  s->y = n->out[0];
  const uint32_t why = read_op(d, g, n, s, text);
  if (why != TN_WHY_NONE) return why;
  const tn_value *x = g->values[s->x], *y = g->values[s->y];
  s->x_rank = x->rank;
  s->y_rank = y->rank;
  memcpy(s->x_dims, x->dims, x->rank * sizeof *x->dims);
  memcpy(s->y_dims, y->dims, y->rank * sizeof *y->dims);
  if (next == TN_NONE) return why;
  *text = "what follows the convolution does not clamp it";
  s->nodes[s->n_nodes++] = next;
  return add_next(g, s, g->nodes[next]) ? TN_WHY_NONE : TN_WHY_ATTR;
}
