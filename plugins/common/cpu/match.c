/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/cpu/match.h"

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/integer.h"

typedef struct product_matcher {
  const tni_clt_device *d;
  const tn_graph *g;
  const tn_node *n;
  tni_clt_match *m;
  tni_clt_fused *fused; /* may be NULL */
} product_matcher;

static bool refuse_match(product_matcher *c, uint32_t reason, const char *text) {
  c->m->kind = TNI_CLT_NO;
  c->m->reason = reason;
  c->m->text = text;
  return false;
}

static const tn_value *match_input(const product_matcher *c, uint32_t i) {
  return i < c->n->n_in ? tni_cm_value(c->g, c->n->in[i]) : NULL;
}

static const tn_attr *match_attr(const tn_node *n, uint32_t i) { return i < n->n_attr ? n->attr[i] : NULL; }

static int64_t attr_int(const tn_node *n, uint32_t i, int64_t dflt) {
  const tn_attr *a = match_attr(n, i);
  return a && a->type == TN_ATTR_INT ? a->u.i : dflt;
}

static double attr_float(const tn_node *n, uint32_t i, double dflt) {
  const tn_attr *a = match_attr(n, i);
  return a && a->type == TN_ATTR_FLOAT ? a->u.f : dflt;
}

static bool const_matrix(const tn_value *v) { return v && v->kind == TN_VALUE_CONST && v->rank == 2; }

static bool swaps_two_axes(const tn_node *n) {
  const tn_attr *p = match_attr(n, TN_TRANSPOSE_PERM);
  if (!p || p->type != TN_ATTR_INTS || p->n == 0) return true; /* default: reversed */
  return p->n == 2 && p->u.ints[0] == 1 && p->u.ints[1] == 0;
}

/* The constant of a Transpose that only this node reads, or NULL. */
static const tn_value *behind_transpose(const product_matcher *c, const tn_value *b, tn_id *node, tn_id *stored) {
  if (!b || b->kind != TN_VALUE_ACT || b->n_uses != 1 || b->producer >= c->g->n_nodes) return NULL;
  const tn_node *t = c->g->nodes[b->producer];
  if (t->op != TN_OP_TRANSPOSE || t->n_in < 1) return NULL;
  const tn_value *w = tni_cm_value(c->g, t->in[0]);
  if (!const_matrix(w) || !swaps_two_axes(t)) return NULL;
  *node = b->producer;
  *stored = t->in[0];
  return w;
}

/* y's columns get C: absent, one element, or [N] / [1,N]. */
static bool match_bias(product_matcher *c) {
  tni_clt_match *m = c->m;
  const tn_value *v = match_input(c, 2);
  if (!v || m->beta == 0.0f) return true;
  if (v->kind == TN_VALUE_STATE) return refuse_match(c, TN_WHY_OP, "products with a KV cache are not computed here");
  if (v->dtype != TN_DT_F32) return refuse_match(c, TN_WHY_DTYPE, "Gemm whose C is not float32");
  int64_t last = 1, dim;
  if (v->rank > TN_MAX_RANK) return refuse_match(c, TN_WHY_SHAPE, "Gemm whose C has no known rank");
  for (uint32_t i = 0; i < v->rank; i++) {
    if (!tni_cm_const(c->d->host, c->g, v->dims[i], &dim) || (i + 1 < v->rank && dim != 1))
      return refuse_match(c, TN_WHY_SHAPE, "Gemm whose C differs from row to row");
    last = dim;
  }
  if (last != 1 && last != m->N) return refuse_match(c, TN_WHY_SHAPE, "Gemm whose C does not fit N");
  m->bias = c->n->in[2];
  m->bias_scalar = last == 1;
  return true;
}

static bool match_gemm_attrs(product_matcher *c) {
  if (attr_int(c->n, TN_GEMM_TRANS_A, 0)) return refuse_match(c, TN_WHY_ATTR, "Gemm with transA");
  c->m->alpha = (float)attr_float(c->n, TN_GEMM_ALPHA, 1.0);
  c->m->beta = (float)attr_float(c->n, TN_GEMM_BETA, 1.0);
  c->m->trans_b = attr_int(c->n, TN_GEMM_TRANS_B, 0) != 0;
  return true;
}

/* Dims of the stored constant and of x agree, and are worth packing. */
static bool match_dims(product_matcher *c, const tn_value *x, const tn_value *w) {
  tni_clt_match *m = c->m;
  const tn_host *h = c->d->host;
  int64_t xk;
  tni_clt_geometry geo;
  if (!tni_cm_const(h, c->g, w->dims[m->kn ? 0 : 1], &m->K) || !tni_cm_const(h, c->g, w->dims[m->kn ? 1 : 0], &m->N))
    return refuse_match(c, TN_WHY_SHAPE, "a constant without known dims");
  if (x->rank < 1 || !tni_cm_const(h, c->g, x->dims[x->rank - 1], &xk) || xk != m->K)
    return refuse_match(c, TN_WHY_SHAPE, "the last dim of A is not known to be K");
  if (m->K < c->d->set.min_k) return refuse_match(c, TN_WHY_OPTION, "constant with K below option min_k");
  if (m->N < c->d->set.min_n) return refuse_match(c, TN_WHY_OPTION, "constant with N below option min_n");
  m->grid = tni_clt_grid_of(c->d, w->data, m->K);
  if (tni_clt_geometry_of(c->d, &m->grid, m->N, m->K, &geo) != TN_OK)
    return refuse_match(c, TN_WHY_TOO_BIG, "constant with a dim of zero or over 2^31");
  return true;
}

static bool match_packed(product_matcher *c) {
  tni_clt_match *m = c->m;
  bool gemm = c->n->op == TN_OP_GEMM;
  const tn_value *x = match_input(c, 0), *b = match_input(c, 1), *w = b;
  if (gemm && !match_gemm_attrs(c)) return false;
  if (x->kind == TN_VALUE_CONST) return refuse_match(c, TN_WHY_NOT_CONST, "constant A; only B may be packed");
  m->kn = !m->trans_b;
  m->w = c->n->in[1];
  if (!const_matrix(b)) {
    w = behind_transpose(c, b, &m->transpose, &m->w);
    if (!w && b->kind == TN_VALUE_CONST) return refuse_match(c, TN_WHY_SHAPE, "constant B that is not a matrix");
    if (!w && !c->d->set.act_matmul)
      return refuse_match(c, TN_WHY_OPTION, "product of two activations, option act_matmul is off");
    if (!w) return refuse_match(c, TN_WHY_NOT_CONST, "B is not constant");
    m->kn = !m->kn;
  }
  if (!match_dims(c, x, w) || (gemm && !match_bias(c))) return false;
  if (m->bias != TN_NONE && c->g->values[m->bias]->kind != TN_VALUE_CONST)
    return refuse_match(c, TN_WHY_NOT_CONST, "Gemm whose C is not constant");
  m->kind = TNI_CLT_PACKED;
  return true;
}

static bool known_dims(const tn_value *v) {
  for (uint32_t i = 0; i < v->rank; i++)
    if (v->dims[i] == TN_NONE) return false;
  return true;
}

/* A Gemm in f32 takes two matrices with a known N. */
static bool match_float_gemm(product_matcher *c, const tn_value *x, const tn_value *b) {
  tni_clt_match *m = c->m;
  if (m->reason == TN_WHY_ATTR) return false;
  if (x->rank != 2 || b->rank != 2) return refuse_match(c, TN_WHY_SHAPE, "Gemm of something that is not two matrices");
  if (!tni_cm_const(c->d->host, c->g, b->dims[m->trans_b ? 0 : 1], &m->N))
    return refuse_match(c, TN_WHY_SHAPE, "Gemm whose N is not known");
  return match_bias(c);
}

/* A product that is not packed; keeps the reason of match_packed where f32 products are switched off. */
static bool match_float(product_matcher *c, const tn_value *x, const tn_value *b, const tn_value *y) {
  tni_clt_match *m = c->m;
  m->transpose = m->bias = TN_NONE;
  if (!c->d->set.act_matmul) return false;
  if (x->rank < 1 || b->rank < 1) return refuse_match(c, TN_WHY_SHAPE, "a scalar operand");
  if (!known_dims(x) || !known_dims(b) || !known_dims(y))
    return refuse_match(c, TN_WHY_SHAPE, "a dim that nobody knows");
  if (c->n->op == TN_OP_GEMM && !match_float_gemm(c, x, b)) return false;
  m->kind = TNI_CLT_FLOAT;
  m->w = c->n->in[1];
  return true;
}

static bool match_fused(product_matcher *c) {
  tni_clt_fused here, *fused = c->fused ? c->fused : &here;
  if (!tni_clt_fused_of(c->d, c->g, c->n, fused, &c->m->reason, &c->m->text)) return false;
  c->m->kind = TNI_CLT_FUSED;
  c->m->x = c->n->in[0];
  c->m->N = fused->N;
  c->m->K = fused->K;
  c->m->grid = fused->grid;
  c->m->kn = !fused->f.trans_b;
  return true;
}

static bool match_product(product_matcher *c) {
  const tn_node *n = c->n;
  if (n->op == TN_OP_FUSED_MATMUL) return match_fused(c);
  if (n->op == TN_OP_MATMUL_INTEGER_TO_FLOAT) {
    const char *why = tni_clt_integer_match(c->d, c->g, n, c->m);
    c->m->kind = TNI_CLT_INTEGER;
    return why ? refuse_match(c, c->m->reason, why) : true;
  }
  if (n->op != TN_OP_MATMUL && n->op != TN_OP_GEMM)
    return refuse_match(c, TN_WHY_OP, "only MatMul, Gemm, FusedMatMul and integer products are computed here");
  const tn_value *x = match_input(c, 0), *b = match_input(c, 1), *y = n->n_out ? tni_cm_value(c->g, n->out[0]) : NULL;
  if (!x || !b || !y) return refuse_match(c, TN_WHY_SHAPE, "an input or output is missing");
  if (x->dtype != TN_DT_F32 || b->dtype != TN_DT_F32 || y->dtype != TN_DT_F32)
    return refuse_match(c, TN_WHY_DTYPE, "only float32 inputs and outputs");
  if (x->kind == TN_VALUE_STATE || b->kind == TN_VALUE_STATE)
    return refuse_match(c, TN_WHY_OP, "products with a KV cache are not computed here");
  if (x->rank > TN_MAX_RANK || b->rank > TN_MAX_RANK || y->rank > TN_MAX_RANK)
    return refuse_match(c, TN_WHY_SHAPE, "a rank that is unknown or over 8");
  c->m->x = n->in[0];
  c->m->y = n->out[0];
  return match_packed(c) || match_float(c, x, b, y);
}

void tni_clt_match_node(const tni_clt_device *d, const tn_graph *g, tn_id node, tni_clt_match *out,
                        tni_clt_fused *fused) {
  *out = (tni_clt_match){.node = node, .transpose = TN_NONE, .bias = TN_NONE, .alpha = 1, .beta = 1, .text = ""};
  product_matcher c = {d, g, g->nodes[node], out, fused};
  match_product(&c);
}

bool tni_clt_siblings(const tni_clt_match *a, const tni_clt_match *b) {
  tni_clt_grid both = a->grid;
  return a->kind == TNI_CLT_PACKED && b->kind == TNI_CLT_PACKED && a->x == b->x && a->K == b->K && a->kn == b->kn &&
         tni_clt_grid_join(&both, &b->grid);
}
