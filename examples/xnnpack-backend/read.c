/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "backend.h"

static int is_constant(const tn_graph *g, tn_id v) {
  return v != TN_NONE && g->values[v]->kind == TN_VALUE_CONST && g->values[v]->dtype == TN_DT_F32;
}

/* A dim that is a number. */
static int fixed_dim(const device *d, const tn_graph *g, tn_id v, uint32_t i, int64_t *out) {
  int64_t lo, hi;
  if (d->host->range(g, g->values[v]->dims[i], &lo, &hi) != TN_OK || lo != hi) return 0;
  *out = lo;
  return 1;
}

static int same_dims(const tn_graph *g, tn_id a, tn_id b) {
  const tn_value *x = g->values[a], *y = g->values[b];
  return x->rank == y->rank && !memcmp(x->dims, y->dims, x->rank * sizeof *x->dims);
}

/* A constant with an element a column: what an operator takes as bias. */
static int is_bias(const device *d, const tn_graph *g, tn_id v, int64_t N) {
  int64_t n = 0;
  if (!is_constant(g, v) || !g->values[v]->rank) return 0;
  for (uint32_t i = 0; i < g->values[v]->rank; i++)
    if (!fixed_dim(d, g, v, i, &n) || (i + 1 < g->values[v]->rank && n != 1)) return 0;
  return n == N;
}

/* Results are clamped, by constants: a plugin learns them when memory is set. */
static int add_next(const tn_graph *g, step *s, const tn_node *n) {
  if (n->n_out != 1 || !same_dims(g, s->y, n->out[0])) return 0;
  s->y = n->out[0];
  if (n->op == TN_OP_RELU) return s->relu = 1;
  if (n->op != TN_OP_CLIP) return 0;
  if (n->n_in > 1) s->low = n->in[1];
  if (n->n_in > 2) s->high = n->in[2];
  return (s->low == TN_NONE || is_constant(g, s->low)) && (s->high == TN_NONE || is_constant(g, s->high));
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

static uint32_t read_conv(const device *d, const tn_graph *g, const tn_node *n, step *s, const char **text) {
  const tn_attr *const *a = n->attr;
  const tn_value *x = g->values[n->in[0]];
  int64_t wi, k[2];
  *text = "XNNPACK convolves float32 images of two axes here";
  if (x->dtype != TN_DT_F32) return TN_WHY_DTYPE;
  if (x->rank != 4) return TN_WHY_SHAPE;
  *text = "weight and bias are no constants of float32";
  s->w = n->in[1];
  s->bias = n->n_in > 2 ? n->in[2] : TN_NONE;
  if (!is_constant(g, s->w) || (s->bias != TN_NONE && !is_constant(g, s->bias))) return TN_WHY_NOT_CONST;
  *text = "the channels are not known";
  if (!fixed_dim(d, g, s->x, 1, &s->C) || !fixed_dim(d, g, s->w, 0, &s->OC) || !fixed_dim(d, g, s->w, 1, &wi) ||
      !fixed_dim(d, g, s->w, 2, &k[0]) || !fixed_dim(d, g, s->w, 3, &k[1]))
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
  *text = "the bias has another length";
  if (s->bias != TN_NONE && !is_bias(d, g, s->bias, s->OC)) return TN_WHY_SHAPE;
  return TN_WHY_NONE;
}

tn_id follower(const tn_graph *g, tn_id i) {
  const tn_node *n = g->nodes[i];
  const tn_value *y = n->op == TN_OP_CONV ? g->values[n->out[0]] : NULL;
  return y && y->kind == TN_VALUE_ACT && y->n_uses == 1 ? y->uses[0] : TN_NONE;
}

uint32_t read_step(const device *d, const tn_graph *g, tn_id i, tn_id next, step *s, const char **text) {
  const tn_node *n = g->nodes[i];
  uint32_t why = TN_WHY_OP;
  memset(s, 0, sizeof *s);
  *text = "XNNPACK takes convolutions here, and what clamps them";
  if (n->op == TN_OP_MATMUL || n->op == TN_OP_GEMM || n->op == TN_OP_FUSED_MATMUL)
    *text = "XNNPACK takes denormals of an activation as 0, which no numerics of a product can say";
  s->w = s->bias = s->low = s->high = TN_NONE;
  s->nodes[s->n_nodes++] = i;
  if (n->n_in && n->in[0] != TN_NONE && n->n_out) {
    s->x = n->in[0];
    s->y = n->out[0];
    if (n->op == TN_OP_CONV) why = read_conv(d, g, n, s, text);
  }
  if (why != TN_WHY_NONE) return why;
  const tn_value *x = g->values[s->x], *y = g->values[s->y];
  memcpy(s->x_dims, x->dims, x->rank * sizeof *x->dims);
  memcpy(s->y_dims, y->dims, y->rank * sizeof *y->dims);
  if (next == TN_NONE) return why;
  *text = "what follows the convolution does not clamp it";
  s->nodes[s->n_nodes++] = next;
  return add_next(g, s, g->nodes[next]) ? TN_WHY_NONE : TN_WHY_ATTR;
}
