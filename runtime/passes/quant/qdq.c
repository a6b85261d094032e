/* SPDX-License-Identifier: Apache-2.0
 *
 * qdq: DequantizeLinear, an operator, QuantizeLinear, as quantizers write them, becomes the operator on bytes:
 *   Conv -> QLinearConv;  MatMul, Gemm (+ a bias) -> QLinearMatMul or tenon.QLinearGemm;  Add, Sub, Mul, Div ->
 *   tenon.QLinearBinary;  GlobalAveragePool, ReduceMean over the space -> tenon.QLinearGlobalAveragePool;
 *   movement, MaxPool, Concat -> the same on bytes;  any function of one value's elements -> tenon.ByteLookup.
 * Relu and Clip before QuantizeLinear bound its codes: QuantizeLinear rises, so Q(min(v, c)) is min(Q(v), Q(c)).
 *
 * Grids are one scale and one zero point, constant; weights of products may have one scale per output channel. What the
 * floats between are read for elsewhere, or QuantizeLinear's own input, stays as it is.
 *
 * Keeps: names, dtypes, shapes. Movement, binary operators and lookups keep every bit. A product's sum is exact where
 * the floats' was rounded, and scaled by one number, so that its code differs by at most one, where the float lay next
 * to a tie; that the sums fit 32 bits is proved from the weights. A bias that is not a multiple of the products' unit
 * is rounded to one: nothing is changed where that is more than 2^-6 of a step of the result.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/passes/quant/qdq.h"
#include "runtime/passes/quant/quant.h"

static const double BIAS_STEPS = 0x1p-6;

/* A QuantizeLinear under work, and what is in front of it. */
typedef struct site {
  tni_graph *g;
  tni_node *q;
  tni_grid y;
  tn_id v;        /* made by the operator, before Relu and Clip */
  int32_t lo, hi; /* codes that they leave */
  tn_error *err;
} site;

static const tni_node *qdq_maker(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  if (!x || x->pub.producer == TN_NONE || x->pub.producer >= g->n_nodes) return NULL;
  const tni_node *n = g->nodes[x->pub.producer];
  return n->dead || !n->op ? NULL : n;
}

/* v has one reader, which makes the value `next`. */
static bool only_for(const tni_graph *g, tn_id v, tn_id next) {
  const tn_id reader = tni_match_only_reader(g, v);
  return reader != TN_NONE && g->nodes[reader]->pub.n_out && g->nodes[reader]->pub.out[0] == next;
}

/* --- bounds --- */

/* The codes that n, a Relu or a Clip with constant bounds, leaves of all. */
static bool bounds_of(const site *s, const tni_node *n, int32_t *lo, int32_t *hi) {
  double low = 0, high;
  const tn_id a = tni_match_in(n, 1), b = tni_match_in(n, 2);
  *lo = tni_grid_low(&s->y);
  *hi = tni_grid_high(&s->y);
  if (n->pub.op != TN_OP_RELU && n->pub.op != TN_OP_CLIP) return false;
  if (n->pub.op == TN_OP_RELU || a != TN_NONE) {
    if (a != TN_NONE && !tni_match_scalar(s->g, a, &low)) return false;
    if (isnan(low)) return false;
    *lo = tni_grid_code(&s->y, (float)low);
  }
  if (b != TN_NONE) {
    if (!tni_match_scalar(s->g, b, &high) || isnan(high)) return false;
    *hi = tni_grid_code(&s->y, (float)high);
    if (*lo > *hi) *lo = *hi;
  }
  return true;
}

static int32_t within_codes(const site *s, int32_t c) { return c < s->lo ? s->lo : c > s->hi ? s->hi : c; }

static void strip_bounds(site *s) {
  tn_id next = s->q->pub.out[0];
  for (;;) {
    const tni_node *n = qdq_maker(s->g, s->v);
    int32_t lo, hi;
    if (!n || !only_for(s->g, s->v, next) || !bounds_of(s, n, &lo, &hi)) return;
    lo = within_codes(s, lo);
    hi = within_codes(s, hi);
    s->lo = lo;
    s->hi = hi;
    next = s->v;
    s->v = n->pub.in[0];
  }
}

/* b makes the codes: in the place of QuantizeLinear, or before a Clip that is. */
static tn_status give_node(site *s, const tni_build_node *b) {
  const tn_value y = s->g->values[s->q->pub.out[0]]->pub;
  const int8_t lo = (int8_t)s->lo, hi = (int8_t)s->hi; /* the bits of either type */
  for (uint32_t i = 0; i < b->n_in; i++)
    if (b->in[i] == TN_NONE) return tni_fail_memory(s->err, s->q->pub.name);
  if (s->lo == tni_grid_low(&s->y) && s->hi == tni_grid_high(&s->y)) return tni_build_in_place(s->g, s->q, b, s->err);
  tni_build_node c = {.type = "Clip", .version = 13, .n_in = 3};
  c.in[0] = tni_build_op(s->g, b, y.dtype, y.rank, y.dims, s->err);
  c.in[1] = tni_build_const(s->g, y.dtype, 0, NULL, &lo);
  c.in[2] = tni_build_const(s->g, y.dtype, 0, NULL, &hi);
  for (int i = 0; i < 3; i++)
    if (c.in[i] == TN_NONE) return tni_fail_memory(s->err, s->q->pub.name);
  return tni_build_in_place(s->g, s->q, &c, s->err);
}

static void add_grid(const site *s, tni_build_node *b, const tni_grid *a) {
  b->in[b->n_in++] = a->scale;
  b->in[b->n_in++] = tni_grid_zero(s->g, a);
}

static void add_bytes(const site *s, tni_build_node *b, tn_id v, const tni_grid *a) {
  b->in[b->n_in++] = tni_bytes_make(s->g, v, s->err);
  add_grid(s, b, a);
}

/* --- functions of one value --- */

enum { MOST_NODES = 16 };

typedef struct function {
  tn_id x; /* what it is a function of */
  tni_grid grid;
  tn_id from[MOST_NODES], to[MOST_NODES]; /* values of the graph, and of the table */
  uint32_t n;
} function;

/* v is computed element by element from f->x and constants of one element. */
static bool collect_function(const tni_graph *g, function *f, tn_id v, uint32_t depth) {
  tni_grid grid;
  double c;
  tni_build_node b;
  const tni_node *n = qdq_maker(g, v);
  if (v == f->x || tni_match_scalar(g, v, &c)) return true;
  for (uint32_t i = 0; i < f->n; i++)
    if (f->from[i] == v) return true;
  if (f->x == TN_NONE && tni_bytes_peek(g, v, &grid)) {
    f->x = v;
    f->grid = grid;
    return true;
  }
  if (!n || depth == MOST_NODES || f->n == MOST_NODES || n->pub.n_out != 1 || !tni_build_copy(n, &b)) return false;
  if (!(n->op->flags & TNI_OPF_ELEMENTWISE) && n->pub.op != TN_OP_CLIP) return false;
  if (g->values[v]->pub.dtype != TN_DT_F32) return false;
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (n->pub.in[i] != TN_NONE && !collect_function(g, f, n->pub.in[i], depth + 1)) return false;
  if (f->n == MOST_NODES) return false;
  f->from[f->n++] = v; /* after what it reads */
  return true;
}

/* The 256 results, for folding: codes, DequantizeLinear, the function, QuantizeLinear. */
static tn_id make_table(const site *s, function *f) {
  tni_build_node b = {.type = "DequantizeLinear", .version = 13, .n_in = f->grid.zero == TN_NONE ? 2 : 3};
  const int64_t n = 256;
  uint8_t codes[256];
  for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
  b.in[0] = tni_build_const(s->g, f->grid.dtype, 1, &n, codes);
  b.in[1] = f->grid.scale;
  b.in[2] = f->grid.zero;
  if (b.in[0] == TN_NONE) return TN_NONE;
  tn_id last = tni_build_op(s->g, &b, TN_DT_F32, TNI_RANK_UNKNOWN, NULL, s->err);
  const tn_id x = last;
  for (uint32_t k = 0; k < f->n && last != TN_NONE; k++) {
    (void)tni_build_copy(qdq_maker(s->g, f->from[k]), &b);
    for (uint32_t i = 0; i < b.n_in; i++) {
      if (b.in[i] == f->x) b.in[i] = x;
      for (uint32_t j = 0; j < k; j++)
        if (b.in[i] == f->from[j]) b.in[i] = f->to[j];
    }
    last = f->to[k] = tni_build_op(s->g, &b, TN_DT_F32, TNI_RANK_UNKNOWN, NULL, s->err);
  }
  if (last == TN_NONE || !tni_build_copy(s->q, &b)) return TN_NONE;
  b.in[0] = last;
  return tni_build_op(s->g, &b, s->y.dtype, TNI_RANK_UNKNOWN, NULL, s->err);
}

static tn_status give_lookup(site *s, function *f) {
  tni_build_node b = {.domain = "tenon", .type = "ByteLookup", .version = 1, .n_in = 2};
  b.in[0] = tni_bytes_make(s->g, f->x, s->err);
  b.in[1] = make_table(s, f);
  return give_node(s, &b);
}

static tn_status function_of_one(site *s, bool *done) {
  function f = {.x = TN_NONE};
  const tn_id v = s->q->pub.in[0];
  if (!collect_function(s->g, &f, v, 0) || f.x == TN_NONE || tni_bytes_const(s->g, f.x)) return TN_OK;
  if (!tni_match_same_shape(s->g, f.x, v)) return TN_OK;
  *done = true;
  if (f.n || !tni_grid_same(&f.grid, &s->y)) return give_lookup(s, &f);
  const tni_build_node b = {.type = "Identity", .version = 16, .n_in = 1, .in = {tni_bytes_make(s->g, v, s->err)}};
  return give_node(s, &b);
}

/* --- Concat --- */

static tn_status qdq_concat(site *s, const tni_node *n, bool *done) {
  tni_build_node b;
  tni_grid grid;
  bool all_const = true;
  if (!tni_build_copy(n, &b)) return TN_OK;
  for (uint32_t i = 0; i < b.n_in; i++) {
    if (!tni_bytes_peek(s->g, b.in[i], &grid)) return TN_OK;
    all_const = all_const && tni_bytes_const(s->g, b.in[i]);
  }
  if (all_const) return TN_OK;
  *done = true;
  for (uint32_t i = 0; i < b.n_in; i++) {
    function f = {.x = b.in[i]};
    (void)tni_bytes_peek(s->g, b.in[i], &f.grid);
    tni_build_node l = {.domain = "tenon", .type = "ByteLookup", .version = 1, .n_in = 2};
    const tn_value x = s->g->values[b.in[i]]->pub;
    b.in[i] = tni_bytes_make(s->g, b.in[i], s->err);
    if (b.in[i] == TN_NONE || tni_grid_same(&f.grid, &s->y)) continue;
    l.in[0] = b.in[i];
    l.in[1] = make_table(s, &f);
    b.in[i] = l.in[1] == TN_NONE ? TN_NONE : tni_build_op(s->g, &l, s->y.dtype, x.rank, x.dims, s->err);
  }
  return give_node(s, &b);
}

/* --- two operands, means --- */

static tn_status qdq_binary(site *s, const tni_node *n, bool *done) {
  tni_grid a, c;
  tni_build_node b = {.domain = "tenon", .type = "QLinearBinary", .version = 1, .n_attr = 1};
  if (n->pub.n_in != 2 || !tni_bytes_peek(s->g, n->pub.in[0], &a) || !tni_bytes_peek(s->g, n->pub.in[1], &c))
    return TN_OK;
  if (tni_bytes_const(s->g, n->pub.in[0]) && tni_bytes_const(s->g, n->pub.in[1])) return TN_OK;
  *done = true;
  b.attr[0] = tni_raw_int("op", n->pub.op);
  add_bytes(s, &b, n->pub.in[0], &a);
  add_bytes(s, &b, n->pub.in[1], &c);
  add_grid(s, &b, &s->y);
  return give_node(s, &b);
}

/* n reduces axes 2 .. rank, all of them. */
static bool over_space(const site *s, const tni_node *n, uint32_t rank) {
  const tni_value *axes = tni_match_value(s->g, tni_match_in(n, 1));
  int64_t count;
  uint32_t seen = 0;
  if (!axes || axes->pub.kind != TN_VALUE_CONST || !axes->tensor || axes->pub.dtype != TN_DT_I64) return false;
  if (tni_dims_count(axes->tensor->dims, axes->tensor->rank, &count) != TN_OK || count != (int64_t)rank - 2)
    return false;
  for (int64_t i = 0; i < count; i++) {
    int64_t axis;
    memcpy(&axis, (const char *)axes->tensor->data + (size_t)i * sizeof axis, sizeof axis);
    axis = axis < 0 ? axis + rank : axis;
    if (axis < 2 || axis >= (int64_t)rank || seen & 1u << axis) return false;
    seen |= 1u << axis;
  }
  return true;
}

static tn_status qdq_mean(site *s, const tni_node *n, bool *done) {
  tni_grid a;
  tni_build_node b = {.domain = "tenon", .type = "QLinearGlobalAveragePool", .version = 1};
  const tni_value *x = tni_match_value(s->g, n->pub.in[0]);
  if (!tni_bytes_peek(s->g, n->pub.in[0], &a) || tni_bytes_const(s->g, n->pub.in[0])) return TN_OK;
  if (x->pub.rank == TNI_RANK_UNKNOWN || x->pub.rank < 3 || x->pub.rank > 8) return TN_OK;
  const bool reduce = n->pub.op == TN_OP_REDUCE_MEAN;
  if (reduce && !over_space(s, n, x->pub.rank)) return TN_OK;
  *done = true;
  add_bytes(s, &b, n->pub.in[0], &a);
  add_grid(s, &b, &s->y);
  if (!reduce || tni_attr_i(&n->pub, "keepdims", 1)) return give_node(s, &b);
  tni_build_node squeeze = {.type = "Squeeze", .version = 13, .n_in = 2, .in = {TN_NONE, n->pub.in[1]}};
  for (uint32_t i = 0; i < b.n_in; i++)
    if (b.in[i] == TN_NONE) return tni_fail_memory(s->err, s->q->pub.name);
  squeeze.in[0] = tni_build_op(s->g, &b, s->y.dtype, TNI_RANK_UNKNOWN, NULL, s->err);
  return give_node(s, &squeeze);
}

/* --- products --- */

/* Sums of K products for each of M outputs. */
typedef struct product {
  tni_grid a;
  tni_qweight w;
  int64_t M, K, w_m, w_k; /* strides of the weight */
  tn_id x, bias;          /* bias TN_NONE: none */
  int32_t *sums;          /* NULL, or the bias in units of the products [M] */
} product;

/* Largest |code - zero point|. */
static int64_t grid_span(const tni_grid *a) {
  const int64_t down = (int64_t)a->z - tni_grid_low(a), up = (int64_t)tni_grid_high(a) - a->z;
  return down > up ? down : up;
}

/* The bias in units, and the proof that no sum leaves 32 bits. p->sums is to be freed. */
static bool settle_product(const site *s, product *p) {
  if (p->bias != TN_NONE) {
    p->sums = malloc((size_t)p->M * sizeof *p->sums);
    if (!p->sums) return false;
  }
  for (int64_t m = 0; m < p->M; m++) {
    const double unit = (double)p->a.s * (double)tni_qweight_scale(&p->w, m);
    int64_t most = 0;
    double b = 0;
    for (int64_t k = 0; k < p->K; k++) most += labs((long)tni_qweight_code(&p->w, m * p->w_m + k * p->w_k, m));
    if (most > INT32_MAX / 256) return false;
    if (p->bias != TN_NONE) {
      const double want = tni_qbias_get(s->g, p->bias, m);
      b = rint(want / unit);
      if (!(fabs(b * unit - want) <= BIAS_STEPS * (double)s->y.s)) return false;
    }
    if (!(fabs(b) + (double)most * (double)grid_span(&p->a) <= INT32_MAX)) return false;
    if (p->sums) p->sums[m] = (int32_t)b;
  }
  return true;
}

/* x, w, y and their grids, bias: the operands that QLinearConv, QLinearMatMul and QLinearGemm share. */
static void add_product(const site *s, tni_build_node *b, const product *p) {
  const uint8_t none = 0;
  b->n_in = 0;
  add_bytes(s, b, p->x, &p->a);
  b->in[b->n_in++] = p->w.w;
  b->in[b->n_in++] = p->w.scale_id;
  b->in[b->n_in++] = p->w.zero_id != TN_NONE ? p->w.zero_id : tni_build_const(s->g, p->w.t->dtype, 0, NULL, &none);
  add_grid(s, b, &s->y);
  if (p->sums) b->in[b->n_in++] = tni_build_const(s->g, TN_DT_I32, 1, &p->M, p->sums);
}

static tn_status qdq_conv(site *s, const tni_node *n, bool *done) {
  product p = {.x = n->pub.in[0], .bias = tni_match_in(n, 2)};
  const tni_value *w = tni_match_value(s->g, n->pub.in[1]);
  tni_build_node b;
  tn_status st = TN_OK;
  if (!w || w->pub.rank == TNI_RANK_UNKNOWN || w->pub.rank < 3 || !tni_build_copy(n, &b)) return TN_OK;
  if (!tni_bytes_peek(s->g, p.x, &p.a) || !tni_qweight_of(s->g, n->pub.in[1], w->pub.rank, 0, &p.w)) return TN_OK;
  p.M = p.w.t->dims[0];
  p.K = 1;
  for (uint32_t d = 1; d < p.w.t->rank; d++) p.K *= p.w.t->dims[d];
  p.w_m = p.K;
  p.w_k = 1;
  if (p.bias != TN_NONE && !tni_qbias_peek(s->g, p.bias, p.M, 1)) return TN_OK;
  if (settle_product(s, &p)) {
    *done = true;
    b.domain = NULL;
    b.type = "QLinearConv";
    b.version = 10;
    add_product(s, &b, &p);
    st = give_node(s, &b);
  }
  free(p.sums);
  return st;
}

/* x times a constant matrix [K, N], or [N, K] turned, and a bias. */
static tn_status qdq_matrix(site *s, tn_id x, tn_id w, bool turned, tn_id bias, uint32_t bias_rank, bool *done) {
  product p = {.x = x, .bias = bias};
  tni_build_node b = {.domain = "tenon", .type = "QLinearGemm", .version = 1};
  tn_status st = TN_OK;
  if (!tni_bytes_peek(s->g, x, &p.a) || !tni_qweight_of(s->g, w, 2, turned ? 0 : 1, &p.w)) return TN_OK;
  p.M = p.w.t->dims[turned ? 0 : 1];
  p.K = p.w.t->dims[turned ? 1 : 0];
  p.w_m = turned ? p.K : 1;
  p.w_k = turned ? 1 : p.M;
  if (bias != TN_NONE && !tni_qbias_peek(s->g, bias, p.M, bias_rank)) return TN_OK;
  if (settle_product(s, &p)) {
    *done = true;
    if (turned) b.attr[b.n_attr++] = tni_raw_int("trans_b", 1);
    if (!turned && !p.sums) b = (tni_build_node){.type = "QLinearMatMul", .version = 10};
    add_product(s, &b, &p);
    st = give_node(s, &b);
  }
  free(p.sums);
  return st;
}

/* Two values that the run computes. */
static tn_status qdq_matmul(site *s, const tni_node *n, bool *done) {
  tni_grid a, c;
  tni_build_node b = {.type = "QLinearMatMul", .version = 10};
  int64_t K;
  const tn_expr last = tni_match_last_dim(s->g, n->pub.in[0]);
  if (!tni_bytes_peek(s->g, n->pub.in[0], &a) || !tni_bytes_peek(s->g, n->pub.in[1], &c)) return TN_OK;
  if (tni_bytes_const(s->g, n->pub.in[0]) && tni_bytes_const(s->g, n->pub.in[1])) return TN_OK;
  if (last == TNI_EXPR_NONE || !tni_ex_is_const(s->g->exprs, last, &K) ||
      K > INT32_MAX / (grid_span(&a) * grid_span(&c)))
    return TN_OK;
  *done = true;
  add_bytes(s, &b, n->pub.in[0], &a);
  add_bytes(s, &b, n->pub.in[1], &c);
  add_grid(s, &b, &s->y);
  return give_node(s, &b);
}

static tn_status qdq_gemm(site *s, const tni_node *n, bool *done) {
  const tn_id bias = tni_match_in(n, 2);
  if (tni_attr_i(&n->pub, "transA", 0) || tni_attr_f(&n->pub, "alpha", 1) != 1 ||
      (bias != TN_NONE && tni_attr_f(&n->pub, "beta", 1) != 1))
    return TN_OK;
  return qdq_matrix(s, n->pub.in[0], n->pub.in[1], tni_attr_i(&n->pub, "transB", 0) != 0, bias, 2, done);
}

/* Add of a product and its bias. */
static tn_status qdq_biased(site *s, const tni_node *n, bool *done) {
  for (uint32_t k = 0; k < 2 && n->pub.n_in == 2; k++) {
    const tn_id v = n->pub.in[k], bias = n->pub.in[1 - k];
    const tni_node *m = tni_match_node(s->g, v, TN_OP_MATMUL);
    const tni_value *y = tni_match_value(s->g, v);
    if (!m || y->pub.rank == TNI_RANK_UNKNOWN || !only_for(s->g, v, n->pub.out[0])) continue;
    const tn_status st = qdq_matrix(s, m->pub.in[0], m->pub.in[1], false, bias, y->pub.rank, done);
    if (st || *done) return st;
  }
  return TN_OK;
}

/* --- the pass --- */

static tn_status qdq_operator(site *s, bool *done) {
  const tni_node *n = qdq_maker(s->g, s->v);
  const tn_id next = s->v == s->q->pub.in[0] ? s->q->pub.out[0] : TN_NONE;
  tn_status st = TN_OK;
  if (!n || (next != TN_NONE && !only_for(s->g, s->v, next))) return TN_OK;
  if (next == TN_NONE && tni_match_only_reader(s->g, s->v) == TN_NONE) return TN_OK;
  switch (n->pub.op) {
    case TN_OP_CONV:
      return qdq_conv(s, n, done);
    case TN_OP_GEMM:
      return qdq_gemm(s, n, done);
    case TN_OP_MATMUL:
      st = qdq_matrix(s, n->pub.in[0], n->pub.in[1], false, TN_NONE, 0, done);
      return st || *done ? st : qdq_matmul(s, n, done);
    case TN_OP_ADD:
      st = qdq_biased(s, n, done);
      return st || *done ? st : qdq_binary(s, n, done);
    case TN_OP_SUB:
    case TN_OP_MUL:
    case TN_OP_DIV:
      return qdq_binary(s, n, done);
    case TN_OP_GLOBAL_AVERAGE_POOL:
    case TN_OP_REDUCE_MEAN:
      return qdq_mean(s, n, done);
    case TN_OP_CONCAT:
      return qdq_concat(s, n, done);
    default:
      return TN_OK;
  }
}

tn_status tni_pass_qdq(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    site s = {.g = g, .q = g->nodes[i], .err = err};
    bool done = false;
    if (s.q->dead || !s.q->op || s.q->pub.op != TN_OP_QUANTIZE_LINEAR || !tni_grid_of(g, s.q, &s.y)) continue;
    s.v = s.q->pub.in[0];
    s.lo = tni_grid_low(&s.y);
    s.hi = tni_grid_high(&s.y);
    tn_status st = function_of_one(&s, &done);
    if (st == TN_OK && !done) {
      strip_bounds(&s);
      st = qdq_operator(&s, &done);
    }
    if (st != TN_OK) return st;
    fired += done;
  }
  return tni_build_done(g, fired, n, err);
}
