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

/* How an operand meets a result y whose last dim is N; 0: in a way that we do not have. */
static uint32_t shape_of(const device *d, const tn_graph *g, tn_id v, tn_id y, int64_t N) {
  const tn_value *x = g->values[v];
  int64_t last = 1, n = 1, all = 1;
  if (x->dtype != TN_DT_F32) return 0;
  if (same_dims(g, v, y)) return ALL;
  for (uint32_t i = 0; i < x->rank; i++) {
    if (!fixed_dim(d, g, v, i, &n)) return 0;
    all *= last = n;
    if (i + 1 < x->rank && n != 1) return 0;
  }
  return all == 1 ? ONE : last == N ? COLUMN : 0;
}

static int add_post(step *s, dnnl_alg_kind_t alg, float alpha, float beta, tn_id other, uint32_t shape) {
  if (s->n_posts == MAX_POSTS) return 0;
  s->posts[s->n_posts++] = (post){.alg = alg, .alpha = alpha, .beta = beta, .other = other, .shape = shape};
  return 1;
}

static int add_unary(step *s, uint32_t op, float number) {
  switch (op) {
    case TN_OP_NEG: return add_post(s, dnnl_eltwise_linear, -1, 0, TN_NONE, 0);
    case TN_OP_RELU: return add_post(s, dnnl_eltwise_relu, 0, 0, TN_NONE, 0);
    case TN_OP_SIGMOID: return add_post(s, dnnl_eltwise_logistic, 0, 0, TN_NONE, 0);
    case TN_OP_TANH: return add_post(s, dnnl_eltwise_tanh, 0, 0, TN_NONE, 0);
    case TN_OP_SWISH: return add_post(s, dnnl_eltwise_swish, number, 0, TN_NONE, 0);
    case TN_OP_GELU: return add_post(s, number != 0 ? dnnl_eltwise_gelu_tanh : dnnl_eltwise_gelu_erf, 0, 0, TN_NONE, 0);
    default: return 0;
  }
}

/* other: the operand that is not what was computed so far; left: that stands on the left. Images divide by nothing:
 * zeros that fill up their channels would become NaN. */
static int add_binary(const device *d, const tn_graph *g, step *s, uint32_t op, tn_id other, int left) {
  const uint32_t shape = shape_of(d, g, other, s->y, s->N);
  if (!shape || (s->kind == CONV && (shape != ALL || op == TN_OP_DIV))) return 0;
  switch (op) {
    case TN_OP_ADD: return add_post(s, dnnl_binary_add, 0, 0, other, shape);
    case TN_OP_MUL: return add_post(s, dnnl_binary_mul, 0, 0, other, shape);
    case TN_OP_SUB:
      if (left) return add_post(s, dnnl_binary_sub, 0, 0, other, shape);
      return add_post(s, dnnl_eltwise_linear, -1, 0, TN_NONE, 0) && add_post(s, dnnl_binary_add, 0, 0, other, shape);
    case TN_OP_DIV: return left && add_post(s, dnnl_binary_div, 0, 0, other, shape);
    default: return 0;
  }
}

/* A chain in which every instruction takes the result of the one before, `first` to begin with. in: values of the
 * registers below n_in; the product is TN_NONE there. */
static int add_chain(const device *d, const tn_graph *g, step *s, const tn_node *n, const tn_id *in, uint32_t n_in,
                     uint32_t first) {
  const tn_attr *ops = n->attr[0], *floats = n->attr[1], *results = n->attr[2]; /* of both operators */
  int64_t now = first;
  for (uint32_t i = 0; i < ops->n / 3; i++) {
    const int64_t op = ops->u.ints[3 * i], a = ops->u.ints[3 * i + 1], b = ops->u.ints[3 * i + 2];
    const uint32_t arity = tn_chain_arity((uint32_t)op);
    if (arity == 1 && (a != now || !add_unary(s, (uint32_t)op, floats->u.floats[i]))) return 0;
    if (arity == 2) {
      const int64_t other = a == now ? b : a;
      if ((a == now) == (b == now) || other >= n_in || in[other] == TN_NONE) return 0;
      if (!add_binary(d, g, s, (uint32_t)op, in[other], a == now)) return 0;
    }
    if (!arity) return 0;
    now = n_in + i;
  }
  return results->n == 1 && results->u.ints[0] == now;
}


/* Clip's limits are constants, which a plugin gets when memory is set: they become Max and Min with one element. */
static int add_clip(const tn_graph *g, step *s, const tn_node *n) {
  for (uint32_t i = 1; i < n->n_in; i++) {
    if (n->in[i] == TN_NONE) continue;
    if (!is_constant(g, n->in[i]) || !add_post(s, i == 1 ? dnnl_binary_max : dnnl_binary_min, 0, 0, n->in[i], ONE))
      return 0;
  }
  return 1;
}

static int add_next(const device *d, const tn_graph *g, step *s, const tn_node *n) {
  const tn_id product = s->y;
  tn_id in[TN_CHAIN_MAX_INPUTS];
  uint32_t first = 0, times = 0;
  s->y = n->out[0];
  if (n->n_out != 1 || !same_dims(g, product, s->y)) return 0;
  if (n->op == TN_OP_RELU) return add_unary(s, TN_OP_RELU, 0);
  if (n->op == TN_OP_CLIP) return add_clip(g, s, n);
  if (n->op == TN_OP_ADD) {
    const int left = n->in[0] == product;
    return n->in[0] != n->in[1] && add_binary(d, g, s, TN_OP_ADD, n->in[left], left);
  }
  if (n->op != TN_OP_ELEMENTWISE || n->n_in > TN_CHAIN_MAX_INPUTS) return 0;
  for (uint32_t i = 0; i < n->n_in; i++) {
    in[i] = n->in[i];
    if (in[i] != product) continue;
    in[first = i] = TN_NONE;
    times++;
  }
  return times == 1 && add_chain(d, g, s, n, in, n->n_in, first);
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
  s->kind = CONV;
  s->alg = dnnl_convolution_direct;
  *text = "oneDNN convolves float32 images of two axes here";
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
  s->auto_pad = a[TN_AT_CONV_AUTO_PAD]->word;
  if (!read_pair(a[TN_AT_CONV_STRIDES], 1, 1, s->stride) || !read_pair(a[TN_AT_CONV_DILATIONS], 1, 1, s->dilation) ||
      !read_pads(a[TN_AT_CONV_PADS], s->pads) || s->groups < 1)
    return TN_WHY_ATTR;
  memcpy(s->kernel, k, sizeof k);
  *text = "there is nothing to convolve";
  if (s->C < 1 || s->OC < 1 || k[0] < 1 || k[1] < 1 || wi * s->groups != s->C || s->OC % s->groups) return TN_WHY_SHAPE;
  const int64_t og = s->OC / s->groups;
  s->form = s->groups == 1 ? DENSE : wi == 1 && og == 1 ? DEPTHWISE : wi % d->block || og % d->block ? PLAIN : GROUPED;
  s->plain_x = s->form == PLAIN || (s->form == DENSE && s->C < d->block);
  s->plain_y = s->form == PLAIN;
  return TN_WHY_NONE;
}

static uint32_t read_pool(const device *d, const tn_graph *g, const tn_node *n, step *s, const char **text) {
  const tn_attr *const *a = n->attr;
  const tn_value *x = g->values[n->in[0]];
  s->kind = POOL;
  s->form = DEPTHWISE;
  *text = "oneDNN pools float32 images of two axes here";
  if (x->dtype != TN_DT_F32) return TN_WHY_DTYPE;
  if (x->rank != 4 || !fixed_dim(d, g, s->x, 1, &s->C) || s->C < 1) return TN_WHY_SHAPE;
  s->OC = s->groups = s->C;
  s->stride[0] = s->stride[1] = s->dilation[0] = s->dilation[1] = 1;
  s->alg = dnnl_pooling_avg_exclude_padding;
  if (n->op == TN_OP_GLOBAL_AVERAGE_POOL) { /* the kernel is the image: kernel[0] is 0 */
    int64_t lo, hi;
    *text = "the image may be empty";
    for (uint32_t i = 2; i < 4; i++)
      if (d->host->range(g, x->dims[i], &lo, &hi) != TN_OK || lo < 1) return TN_WHY_SHAPE;
    return TN_WHY_NONE;
  }
  s->alg = dnnl_pooling_max;
  s->auto_pad = a[TN_AT_MAX_POOL_AUTO_PAD]->word;
  *text = "no indices, no rounding up, no dilations";
  if (n->n_out > 1 && n->out[1] != TN_NONE) return TN_WHY_ATTR;
  if (!read_pair(a[TN_AT_MAX_POOL_DILATIONS], 1, 1, s->dilation) || s->dilation[0] != 1 || s->dilation[1] != 1 ||
      (a[TN_AT_MAX_POOL_CEIL_MODE]->n && a[TN_AT_MAX_POOL_CEIL_MODE]->u.i))
    return TN_WHY_ATTR;
  *text = "attributes out of range";
  if (!read_pair(a[TN_AT_MAX_POOL_KERNEL_SHAPE], 0, 1, s->kernel) ||
      !read_pair(a[TN_AT_MAX_POOL_STRIDES], 1, 1, s->stride) || !read_pads(a[TN_AT_MAX_POOL_PADS], s->pads))
    return TN_WHY_ATTR;
  *text = "a pad is not smaller than the kernel";
  for (int i = 0; i < 4; i++)
    if (s->pads[i] >= s->kernel[i % 2]) return TN_WHY_ATTR;
  return TN_WHY_NONE;
}

static uint32_t read_gemm(const device *d, const tn_graph *g, const tn_node *n, step *s, const char **text) {
  *text = "alpha and beta of 1, A as it comes";
  if (n->attr[TN_AT_GEMM_TRANS_A]->u.i || n->attr[TN_AT_GEMM_ALPHA]->u.f != 1 || n->attr[TN_AT_GEMM_BETA]->u.f != 1)
    return TN_WHY_ATTR;
  s->transposed = n->attr[TN_AT_GEMM_TRANS_B]->u.i != 0;
  (void)d, (void)g;
  return TN_WHY_NONE;
}

static uint32_t read_product(const device *d, const tn_graph *g, const tn_node *n, step *s, const char **text) {
  const tn_value *x = g->values[n->in[0]];
  const tn_attr *parts = n->op == TN_OP_FUSED_MATMUL ? n->attr[TN_FUSED_PARTS] : NULL;
  tn_id in[1 + TN_CHAIN_MAX_INPUTS + TN_FUSED_MAX_PARTS] = {TN_NONE};
  s->kind = PRODUCT;
  *text = "oneDNN multiplies float32 here, and a matrix at least";
  if (x->dtype != TN_DT_F32) return TN_WHY_DTYPE;
  if (x->rank < 2) return TN_WHY_SHAPE;
  *text = "the weight is no constant matrix of float32";
  s->w = n->in[1];
  if (!is_constant(g, s->w) || g->values[s->w]->rank != 2) return TN_WHY_NOT_CONST;
  if (n->op == TN_OP_GEMM && read_gemm(d, g, n, s, text) != TN_WHY_NONE) return TN_WHY_ATTR;
  *text = "one weight, used whole, and a chain that goes straight on";
  if (parts) s->transposed = n->attr[TN_FUSED_TRANS_B]->u.i != 0;
  if (!fixed_dim(d, g, s->w, s->transposed ? 0 : 1, &s->N) || !fixed_dim(d, g, s->w, s->transposed ? 1 : 0, &s->K))
    return TN_WHY_SHAPE;
  if (s->N < 1 || s->K < 1) return TN_WHY_SHAPE;
  if (n->op == TN_OP_GEMM && n->n_in > 2 && n->in[2] != TN_NONE && !add_binary(d, g, s, TN_OP_ADD, n->in[2], 1))
    return TN_WHY_SHAPE;
  if (!parts) return TN_WHY_NONE;
  if (n->attr[TN_FUSED_N_WEIGHTS]->u.i != 1 || parts->n != 3 || parts->u.ints[1] || parts->u.ints[2] != s->N ||
      n->n_out != 1 || n->n_in > 2 + TN_CHAIN_MAX_INPUTS)
    return TN_WHY_ATTR;
  for (uint32_t i = 2; i < n->n_in; i++) in[i - 1] = n->in[i];
  return add_chain(d, g, s, n, in, n->n_in - 1u, 0) ? TN_WHY_NONE : TN_WHY_ATTR;
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
  *text = "oneDNN takes convolutions, pools, products and what follows them";
  s->w = s->bias = TN_NONE;
  s->nodes[s->n_nodes++] = i;
  if (n->n_in && n->in[0] != TN_NONE && n->n_out) {
    s->x = n->in[0];
    s->y = n->out[0];
    if (n->op == TN_OP_CONV) why = read_conv(d, g, n, s, text);
    if (n->op == TN_OP_MAX_POOL || n->op == TN_OP_GLOBAL_AVERAGE_POOL) why = read_pool(d, g, n, s, text);
    if (n->op == TN_OP_MATMUL || n->op == TN_OP_GEMM || n->op == TN_OP_FUSED_MATMUL)
      why = read_product(d, g, n, s, text);
  }
  if (why != TN_WHY_NONE) return why;
  const tn_value *x = g->values[s->x], *y = g->values[s->y];
  s->x_rank = x->rank;
  s->y_rank = y->rank;
  memcpy(s->x_dims, x->dims, x->rank * sizeof *x->dims);
  memcpy(s->y_dims, y->dims, y->rank * sizeof *y->dims);
  if (next == TN_NONE) return why;
  *text = "what follows the convolution is nothing that oneDNN can append to it";
  s->nodes[s->n_nodes++] = next;
  return add_next(d, g, s, g->nodes[next]) ? TN_WHY_NONE : TN_WHY_ATTR;
}
