/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/opencl/clexpand.h"
#include "plugins/common/opencl/clprog.h"

typedef struct op_matcher {
  tni_cl_device *d;
  const tn_graph *g;
  const tn_node *n;
  tni_cl_op *o;
  uint32_t *reason;
  const char **text;
} op_matcher;

static bool refuse_node(const op_matcher *m, uint32_t reason, const char *text) {
  *m->reason = reason;
  *m->text = text;
  return false;
}

static bool take_operand(const op_matcher *m, uint32_t what) {
  m->o->what = what;
  return true;
}

static const tn_value *input_value(const op_matcher *m, uint32_t i) {
  return i < m->n->n_in ? tni_cm_value(m->g, m->n->in[i]) : NULL;
}

static int64_t attr_int(const op_matcher *m, uint32_t i, int64_t dflt) {
  const tn_attr *a = i < m->n->n_attr ? m->n->attr[i] : NULL;
  return a && a->type == TN_ATTR_INT ? a->u.i : dflt;
}

static double attr_float(const op_matcher *m, uint32_t i, double dflt) {
  const tn_attr *a = i < m->n->n_attr ? m->n->attr[i] : NULL;
  return a && a->type == TN_ATTR_FLOAT ? a->u.f : dflt;
}

static bool is_float(const tn_value *v) { return v->dtype == TN_DT_F32 || v->dtype == TN_DT_F16; }

static bool stored_matrix(const tn_value *v) {
  return is_float(v) || v->dtype == TN_DT_I64 || v->dtype == TN_DT_I32 || v->dtype == TN_DT_BOOL;
}

static bool const_dim(const op_matcher *m, const tn_value *v, uint32_t i, int64_t *out) {
  return i < v->rank && tni_cm_const(m->d->host, m->g, v->dims[i], out);
}

/* Values that this backend can hold at all. */
static bool check_values(const op_matcher *m) {
  for (uint32_t i = 0; i < (uint32_t)m->n->n_in + m->n->n_out; i++) {
    const tn_value *v = tni_cm_value(m->g, i < m->n->n_in ? m->n->in[i] : m->n->out[i - m->n->n_in]);
    if (!v) continue;
    if (!stored_matrix(v))
      return refuse_node(m, TN_WHY_DTYPE, "only float32, float16, int64, int32 and bool are stored here");
    if (v->rank > TN_MAX_RANK) return refuse_node(m, TN_WHY_SHAPE, "a rank that is unknown or over 8");
    for (uint32_t k = 0; k < v->rank; k++)
      if (v->dims[k] == TN_NONE) return refuse_node(m, TN_WHY_SHAPE, "a dim that nobody knows");
  }
  if (!m->n->n_out || !tni_cm_value(m->g, m->n->out[0])) return refuse_node(m, TN_WHY_SHAPE, "no output");
  return true;
}

static bool inputs_are_floats(const op_matcher *m, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (input_value(m, i) && !is_float(input_value(m, i))) return refuse_node(m, TN_WHY_DTYPE, "only floats");
  return true;
}

static bool no_states(const op_matcher *m) {
  for (uint32_t i = 0; i < m->n->n_in; i++)
    if (input_value(m, i) && input_value(m, i)->kind == TN_VALUE_STATE)
      return refuse_node(m, TN_WHY_OP, "a cache is read by Attention and TensorScatter only");
  return true;
}

/* A kernel of this kind works here, with typical types. */
static bool kernel_works(const op_matcher *m, uint32_t kind, uint32_t n, const uint32_t *types, const int32_t *ints) {
  const bool product = kind == TNI_CLK_GEMV || kind == TNI_CLK_GEMM;
  tni_cl_shape s = {.kind = kind, .n_operands = n, .bits = product ? m->o->geo.bits : 0};
  memcpy(s.types, types, n * sizeof *types);
  memcpy(s.ints, ints, 28 * sizeof *ints);
  tni_cl_program *p;
  tn_error err = {.h = TN_HDR(tn_error)};
  if (tni_cl_kernel_for(&m->d->kernels, &s, &p, &err) == TN_OK) return true;
  const char *text = tni_cm_text(&m->d->kernels.mem, "", err.message);
  return refuse_node(m, TN_WHY_DRIVER, text ? text : "no kernel works");
}

/* The same for a generated kernel of one node. */
static bool generated_works(const op_matcher *m, uint32_t half) {
  const tni_cm_chain *c = &m->o->f_spec.chain;
  tni_cl_ew e = {.n_in = c->n_in, .n_ops = c->n_ops, .n_out = c->n_results};
  tni_cl_program *p;
  tn_error err = {.h = TN_HDR(tn_error)};
  for (uint32_t i = 0; i < c->n_in + c->n_results; i++) {
    const tn_value *v = i < c->n_in ? input_value(m, i) : tni_cm_value(m->g, m->n->out[i - c->n_in]);
    if (!v || !is_float(v)) return true; /* what only moves, and integers: tested when they are bound */
    e.types[i] = v->kind == TN_VALUE_ACT ? half : v->dtype;
  }
  memcpy(e.ops, c->ops, sizeof e.ops);
  memcpy(e.results, c->results, c->n_results * sizeof *c->results);
  if (!c->n_ops || tni_cl_kernel_of_ew(&m->d->kernels, &e, &p, &err) == TN_OK) return true;
  const char *text = tni_cm_text(&m->d->kernels.mem, "", err.message);
  return refuse_node(m, TN_WHY_DRIVER, text ? text : "no kernel works");
}

/* The same with the types that this node's values will have: half inside, the graph's dtype for what comes from
 * outside. Chains of products have a kernel of their own when they are bound. */
static bool kind_works(const op_matcher *m) {
  static const int32_t ints[28] = {1, 1, 1, 1};
  const bool split = m->d->set.split != 0;
  const uint32_t half = split ? TN_DT_F32 : TN_DT_F16;
  const tn_value *v[3] = {input_value(m, 0), input_value(m, 1), input_value(m, 2)};
  int32_t of[28];
  memcpy(of, ints, sizeof of);
  switch (m->o->what) {
    case TNI_CLO_GATHER:
      return kernel_works(m, TNI_CLK_GATHER, 3, (const uint32_t[]){v[0]->dtype, v[1]->dtype, half}, of);
    case TNI_CLO_NORM:
      of[4] = (int32_t)m->o->i[0];
      return kernel_works(m, TNI_CLK_NORM, 4,
                          (const uint32_t[]){half, v[1] ? v[1]->dtype : 0, v[2] ? v[2]->dtype : 0, half}, of);
    case TNI_CLO_ROTARY:
      return kernel_works(m, TNI_CLK_ROTARY, 5,
                          (const uint32_t[]){half, TN_DT_F32, TN_DT_F32, input_value(m, 3) ? TN_DT_I64 : 0, half}, of);
    case TNI_CLO_APPEND:
      return kernel_works(m, TNI_CLK_APPEND, 3, (const uint32_t[]){half, TN_DT_I64, half}, of);
    case TNI_CLO_ATTN:
      of[23] = m->o->i[0] != 0;
      of[24] = (int32_t)m->o->i[3];
      of[25] = (int32_t)m->o->i[4];
      return kernel_works(m, TNI_CLK_ATTN, 6,
                          (const uint32_t[]){half, half, half, input_value(m, 3) ? input_value(m, 3)->dtype : 0,
                                             input_value(m, 6) ? TN_DT_I64 : 0, half},
                          of);
    case TNI_CLO_EW:
      return generated_works(m, half);
    default:
      return true;
  }
}

/* --- products ---------------------------------------------------------------------------------------------------- */

/* Bits of the codes that a weight brings where e0m can hold them: groups of its length or one for the row, whole zero
 * points, scales that are halves. 0: none. */
static uint32_t bits_of_grid(const tn_weight *w, int64_t K) {
  const tn_quant *q = w && TN_HAS(w, tn_weight, quant) ? w->quant : NULL;
  if (!q || !TN_HAS(q, tn_quant, zero_kind) || !q->grid || q->scheme != TN_QUANT_AFFINE) return 0;
  if (q->group != TNI_E0M_GROUP && (q->group < K || K > TNI_E0M_GROUP)) return 0;
  const bool whole = q->zero_kind == TN_ZERO_HALF || q->zero_kind == TN_ZERO_CODES;
  return whole && q->scale_dtype == TN_DT_F16 ? q->bits : 0;
}

/* The narrowest that holds the codes of all weights, or the one for floats. */
static const tn_format *format_of(const op_matcher *m) {
  uint32_t bits = 0;
  for (uint32_t i = 0; m->d->keeps && i < m->o->n_weights; i++) {
    const uint32_t b = bits_of_grid(input_value(m, 1 + i)->data, m->o->K);
    if (!b) return m->d->format;
    bits = b > bits ? b : bits;
  }
  for (uint32_t i = 0; bits && i < TNI_E0M_KINDS; i++)
    if (tni_e0m_formats[i].bits >= bits) return &tni_e0m_formats[i];
  return m->d->format;
}

static bool product_dims(const op_matcher *m, int64_t K) {
  tni_cl_op *o = m->o;
  if (o->K != K) return refuse_node(m, TN_WHY_SHAPE, "the last dim of the activation is not known to be K");
  o->format = format_of(m);
  if (o->K < m->d->set.min_k) return refuse_node(m, TN_WHY_OPTION, "weights with K below option min_k");
  if (o->N < m->d->set.min_n) return refuse_node(m, TN_WHY_OPTION, "weights with N below option min_n");
  if (o->K > INT32_MAX / 2 || o->N > INT32_MAX / 2 || 
      tni_e0m_geometry_of(o->format->bits, o->N, o->K, &o->geo) != TN_OK)
    return refuse_node(m, TN_WHY_TOO_BIG, "weights with a dim of zero or over 2^30");
  if (o->geo.bytes > m->d->info.max_alloc)
    return refuse_node(m, TN_WHY_TOO_BIG, "packed weights are larger than the device allocates at once");
  static const int32_t ints[28] = {1, 131, 301, 256, 304, 132};
  static const uint32_t types[4] = {TN_DT_F16, TN_DT_U8, TN_DT_U8, TN_DT_F16};
  return kernel_works(m, TNI_CLK_GEMV, 4, types, ints) && kernel_works(m, TNI_CLK_GEMM, 4, types, ints);
}

static bool weight_dims(const op_matcher *m, const tn_value *w, int64_t *N, int64_t *K) {
  if (w->kind != TN_VALUE_CONST || w->rank != 2 || !is_float(w))
    return refuse_node(m, TN_WHY_NOT_CONST, "a weight is no constant matrix");
  if (!const_dim(m, w, m->o->kn ? 0 : 1, K) || !const_dim(m, w, m->o->kn ? 1 : 0, N))
    return refuse_node(m, TN_WHY_SHAPE, "a weight without known dims");
  return true;
}

static bool last_dim(const op_matcher *m, const tn_value *x, int64_t *K) {
  if (x->kind == TN_VALUE_CONST)
    return refuse_node(m, TN_WHY_NOT_CONST, "constant activation; only weights may be packed");
  if (x->rank < 1 || !const_dim(m, x, x->rank - 1, K))
    return refuse_node(m, TN_WHY_SHAPE, "the last dim of the activation is not known");
  return true;
}

static bool match_fused(const op_matcher *m) {
  tni_cl_op *o = m->o;
  int64_t K = 0, N = 0, k = 0;
  const char *why = tni_cm_fused_read(m->n, &o->f_spec);
  if (why) return refuse_node(m, TN_WHY_ATTR, why);
  o->n_strips = tni_cm_strips(&o->f_spec, o->strip);
  if (!o->n_strips) return refuse_node(m, TN_WHY_ATTR, "a chain that is not made of products");
  o->n_weights = o->f_spec.n_weights;
  o->kn = !o->f_spec.trans_b;
  if (!inputs_are_floats(m, m->n->n_in) || !last_dim(m, input_value(m, 0), &K)) return false;
  for (uint32_t w = 0; w < o->n_weights; w++) {
    if (!weight_dims(m, input_value(m, 1 + w), &N, &k)) return false;
    if (w && k != o->K) return refuse_node(m, TN_WHY_SHAPE, "weights of different K");
    o->K = k;
    o->weight_n0[w] = o->N;
    o->N += N;
  }
  return product_dims(m, K) && take_operand(m, TNI_CLO_PRODUCT);
}

/* MatMul or Gemm with a constant matrix, as a product without chain or with a bias. */
static bool match_linear(const op_matcher *m) {
  tni_cl_op *o = m->o;
  const bool gemm = m->n->op == TN_OP_GEMM;
  int64_t K, k, N, dim = 0;
  if (gemm &&
      (attr_int(m, TN_GEMM_TRANS_A, 0) || attr_float(m, TN_GEMM_ALPHA, 1) != 1 || attr_float(m, TN_GEMM_BETA, 1) != 1))
    return refuse_node(m, TN_WHY_ATTR, "Gemm with transA, alpha or beta");
  o->kn = !(gemm && attr_int(m, TN_GEMM_TRANS_B, 0));
  if (!last_dim(m, input_value(m, 0), &K) || !weight_dims(m, input_value(m, 1), &N, &k)) return false;
  o->N = N;
  o->K = k;
  o->n_weights = 1;
  o->f_spec =
      (tni_cm_fused){.n_weights = 1, .n_parts = 1, .parts = {{.count = N}}, .chain = {.n_in = 1, .n_results = 1}};
  const tn_value *c = gemm ? input_value(m, 2) : NULL;
  if (c) {
    if (c->rank < 1 || c->rank > 2 || !const_dim(m, c, c->rank - 1, &dim) || dim != N ||
        (c->rank == 2 && (!const_dim(m, c, 0, &dim) || dim != 1)))
      return refuse_node(m, TN_WHY_SHAPE, "Gemm whose C is no row of N");
    o->f_spec.n_extras = 1;
    o->f_spec.chain = (tni_cm_chain){
        .n_in = 2, .n_ops = 1, .n_results = 1, .ops = {{.op = TN_OP_ADD, .a = 0, .b = 1}}, .results = {2}};
  }
  o->n_strips = tni_cm_strips(&o->f_spec, o->strip);
  return product_dims(m, K) && take_operand(m, TNI_CLO_PRODUCT);
}

static bool match_matmul(const op_matcher *m) {
  const tn_value *a = input_value(m, 0), *b = input_value(m, 1);
  if (!a || !b || !inputs_are_floats(m, 3)) return refuse_node(m, TN_WHY_DTYPE, "only floats");
  if (b->kind == TN_VALUE_CONST && b->rank == 2 && match_linear(m)) return true;
  if (m->n->op == TN_OP_GEMM)
    return m->o->what != TNI_CLO_NO || *m->reason ? false : refuse_node(m, TN_WHY_NOT_CONST, "Gemm of activations");
  if (b->kind == TN_VALUE_CONST && b->rank == 2 && *m->reason != TN_WHY_OPTION) return false;
  if (a->rank < 2 || b->rank < 2 || a->rank > 4 || b->rank > 4)
    return refuse_node(m, TN_WHY_SHAPE, "a product of activations whose ranks are not 2 to 4");
  return take_operand(m, TNI_CLO_MATMUL);
}

/* --- the rest ---------------------------------------------------------------------------------------------------- */

static bool last_axis(const op_matcher *m, int64_t axis, const tn_value *x) {
  return axis == -1 || axis == (int64_t)x->rank - 1;
  (void)m;
}

static bool match_norm(const op_matcher *m) {
  const tn_value *x = input_value(m, 0);
  int64_t D, s;
  if (!x || !inputs_are_floats(m, 3) || x->rank < 1 || !last_axis(m, attr_int(m, 0, -1), x))
    return refuse_node(m, TN_WHY_ATTR, "a norm over another axis than the last");
  if (m->n->n_out > 1 && (m->n->out[1] != TN_NONE || (m->n->n_out > 2 && m->n->out[2] != TN_NONE)))
    return refuse_node(m, TN_WHY_ATTR, "a norm whose mean is an output");
  if (!const_dim(m, x, x->rank - 1, &D)) return refuse_node(m, TN_WHY_SHAPE, "a norm over a dim that is not known");
  for (uint32_t i = 1; i < m->n->n_in; i++)
    if (input_value(m, i) && (input_value(m, i)->rank != 1 || !const_dim(m, input_value(m, i), 0, &s) || s != D))
      return refuse_node(m, TN_WHY_SHAPE, "a norm whose scale is no vector of its dim");
  m->o->i[0] = m->n->op == TN_OP_LAYER_NORMALIZATION;
  m->o->f[0] = (float)attr_float(m, 1, 1e-5);
  return take_operand(m, TNI_CLO_NORM);
}

static bool match_head_norm(const op_matcher *m) {
  const tn_value *x = input_value(m, 0);
  const int64_t heads = attr_int(m, TN_HEAD_NORM_NUM_HEADS, 0);
  int64_t all, s;
  if (!x || !inputs_are_floats(m, 3) || x->rank < 1 || heads < 1 || !const_dim(m, x, x->rank - 1, &all) || all % heads)
    return refuse_node(m, TN_WHY_SHAPE, "a norm over heads that are not known");
  for (uint32_t i = 1; i < m->n->n_in; i++)
    if (input_value(m, i) &&
        (input_value(m, i)->rank != 1 || !const_dim(m, input_value(m, i), 0, &s) || s != all / heads))
      return refuse_node(m, TN_WHY_SHAPE, "a norm whose scale is no vector of a head's size");
  m->o->i[0] = m->n->op == TN_OP_TENON_LAYER_NORMALIZATION;
  m->o->i[1] = heads;
  m->o->f[0] = (float)attr_float(m, TN_HEAD_NORM_EPSILON, 1e-5);
  return take_operand(m, TNI_CLO_NORM);
}

static bool match_gather(const op_matcher *m) {
  const tn_value *t = input_value(m, 0), *ids = input_value(m, 1);
  if (!t || !ids || !is_float(t)) return refuse_node(m, TN_WHY_DTYPE, "Gather of something else than floats");
  if (attr_int(m, 0, 0) != 0 || t->rank != 2 || t->kind != TN_VALUE_CONST)
    return refuse_node(m, TN_WHY_SHAPE, "Gather of something else than rows of a constant table");
  if (ids->dtype != TN_DT_I64 && ids->dtype != TN_DT_I32)
    return refuse_node(m, TN_WHY_DTYPE, "indices that are no integers");
  const tn_weight *w = t->data; /* here it would lie as floats */
  if (w && TN_HAS(w, tn_weight, quant) && w->quant)
    return refuse_node(m, TN_WHY_DTYPE, "Gather of a quantized table, whose rows the host unpacks");
  return take_operand(m, TNI_CLO_GATHER);
}

static bool ew_rank(const op_matcher *m) {
  const tn_value *y = tni_cm_value(m->g, m->n->out[0]);
  if (y->rank > 4) return refuse_node(m, TN_WHY_SHAPE, "more than 4 dims");
  for (uint32_t i = 0; i < m->n->n_in; i++)
    if (input_value(m, i) && input_value(m, i)->rank > 4)
      return refuse_node(m, TN_WHY_SHAPE, "more than 4 dims");
  return true;
}

/* First axis where two values' dims differ; -1: none. */
static int64_t differing_axis(const tn_value *a, const tn_value *b) {
  for (uint32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return i;
  return -1;
}

static bool match_slice(const op_matcher *m) {
  const tn_value *x = input_value(m, 0), *start = input_value(m, 1), *y = tni_cm_value(m->g, m->n->out[0]);
  int64_t n;
  if (!x || !start || start->dtype != TN_DT_I64) return refuse_node(m, TN_WHY_DTYPE, "Slice without int64 starts");
  if (input_value(m, 4)) return refuse_node(m, TN_WHY_ATTR, "Slice with steps");
  if (start->rank != 1 || !const_dim(m, start, 0, &n) || n != 1)
    return refuse_node(m, TN_WHY_ATTR, "Slice of more than one axis");
  m->o->i[0] = differing_axis(x, y);
  if (m->o->i[0] < 0) return take_operand(m, TNI_CLO_ALIAS);
  if (!ew_rank(m)) return false;
  for (uint32_t i = (uint32_t)m->o->i[0] + 1; i < x->rank; i++)
    if (x->dims[i] != y->dims[i]) return refuse_node(m, TN_WHY_SHAPE, "Slice of more than one axis");
  return take_operand(m, TNI_CLO_SLICE);
}

static void one_instruction(const op_matcher *m, uint32_t n_in) {
  tni_cm_chain *c = &m->o->f_spec.chain;
  *c = (tni_cm_chain){.n_in = n_in, .n_ops = 1, .n_results = 1, .results = {n_in}};
  c->ops[0] = (tni_cm_instr){.op = m->n->op, .a = 0, .b = n_in > 1 ? 1 : TN_NONE};
  if (m->n->op == TN_OP_SWISH) c->ops[0].value = (float)attr_float(m, 0, 1.0);
  const tn_attr *a = m->n->n_attr ? m->n->attr[0] : NULL;
  if (m->n->op == TN_OP_GELU && a && a->type == TN_ATTR_STRING && a->n && a->u.s)
    c->ops[0].value = !strcmp(a->u.s, "tanh");
}

static bool match_elementwise(const op_matcher *m) {
  const tn_value *y = tni_cm_value(m->g, m->n->out[0]);
  if (!ew_rank(m)) return false;
  if (m->n->op == TN_OP_ELEMENTWISE) {
    const char *why = tni_cm_chain_read(m->n, m->n->n_in, &m->o->f_spec.chain);
    if (why) return refuse_node(m, TN_WHY_ATTR, why);
    if (!inputs_are_floats(m, m->n->n_in)) return false;
    return take_operand(m, TNI_CLO_EW);
  }
  if (m->n->op == TN_OP_EXPAND || m->n->op == TN_OP_TRANSPOSE) {
    const tn_attr *p = m->n->op == TN_OP_TRANSPOSE && m->n->n_attr ? m->n->attr[0] : NULL;
    if (y->kind == TN_VALUE_STATE) return refuse_node(m, TN_WHY_OP, "a cache");
    m->o->permuted = m->n->op == TN_OP_TRANSPOSE;
    for (uint32_t i = 0; i < y->rank; i++)
      m->o->perm[i] =
          p && p->type == TN_ATTR_INTS && p->n == y->rank ? (uint8_t)p->u.ints[i] : (uint8_t)(y->rank - 1 - i);
    m->o->f_spec.chain = (tni_cm_chain){.n_in = 1, .n_results = 1, .results = {0}};
    return take_operand(m, TNI_CLO_EW);
  }
  if (m->n->op == TN_OP_CAST) {
    const tn_value *x = input_value(m, 0);
    if (is_float(x) && !is_float(y)) return refuse_node(m, TN_WHY_DTYPE, "Cast of floats to integers");
    m->o->f_spec.chain = (tni_cm_chain){.n_in = 1, .n_results = 1, .results = {0}};
    return take_operand(m, TNI_CLO_EW);
  }
  if (!tni_cl_ew_operator(m->n->op)) return refuse_node(m, TN_WHY_OP, "no kernel for this operator");
  if (!inputs_are_floats(m, m->n->n_in)) return false;
  if (m->n->n_in > 2 || (tn_chain_arity(m->n->op) && tn_chain_arity(m->n->op) != m->n->n_in))
    return refuse_node(m, TN_WHY_ATTR, "more operands than a kernel takes");
  one_instruction(m, m->n->n_in);
  return take_operand(m, TNI_CLO_EW);
}

/* Heads and size of a 3-D or 4-D operand of Rotary and Attention. */
static bool heads_known(const op_matcher *m, const tn_value *v, int64_t heads) {
  int64_t n;
  if (v->rank == 4) return const_dim(m, v, 3, &n) && const_dim(m, v, 1, &n);
  return v->rank == 3 && heads > 0 && const_dim(m, v, 2, &n) && n % heads == 0;
}

static bool match_rotary(const op_matcher *m) {
  const tn_value *x = input_value(m, 0), *c = input_value(m, 1), *s = input_value(m, 2), *p = input_value(m, 3);
  if (!x || !c || !s || !inputs_are_floats(m, 3)) return refuse_node(m, TN_WHY_DTYPE, "only floats");
  m->o->i[0] = attr_int(m, TN_ROTARY_INTERLEAVED, 0);
  m->o->i[1] = attr_int(m, TN_ROTARY_NUM_HEADS, 0);
  m->o->i[2] = attr_int(m, TN_ROTARY_DIM, 0);
  if (!heads_known(m, x, m->o->i[1])) return refuse_node(m, TN_WHY_SHAPE, "heads that are not known");
  if (p && p->dtype != TN_DT_I64) return refuse_node(m, TN_WHY_DTYPE, "positions that are not int64");
  if (c->rank != (p ? 2u : 3u) || s->rank != c->rank) return refuse_node(m, TN_WHY_SHAPE, "tables of another rank");
  return take_operand(m, TNI_CLO_ROTARY);
}

static bool match_append(const op_matcher *m) {
  const tn_value *cache = input_value(m, 0), *x = input_value(m, 1), *pos = input_value(m, 2),
                 *y = tni_cm_value(m->g, m->n->out[0]);
  if (!cache || !x || !cache->state || cache->kind != TN_VALUE_STATE || y->kind != TN_VALUE_STATE)
    return refuse_node(m, TN_WHY_OP, "TensorScatter into something else than a cache");
  if (cache->state->flags & TN_STATE_CIRCULAR) return refuse_node(m, TN_WHY_ATTR, "a circular cache");
  if (!inputs_are_floats(m, 2) || !pos || pos->dtype != TN_DT_I64)
    return refuse_node(m, TN_WHY_DTYPE, "only floats at int64 positions");
  m->o->i[1] = cache->state->heads ? cache->state->heads : 1;
  if (!heads_known(m, x, m->o->i[1]) || x->rank != cache->rank)
    return refuse_node(m, TN_WHY_SHAPE, "heads that are not known");
  return take_operand(m, TNI_CLO_APPEND);
}

static bool match_attention(const op_matcher *m) {
  tni_cl_op *o = m->o;
  const tn_value *q = input_value(m, 0), *k = input_value(m, 1), *v = input_value(m, 2), *mask = input_value(m, 3),
                 *valid = input_value(m, 6);
  if (!q || !k || !v || !is_float(q) || !is_float(k) || !is_float(v))
    return refuse_node(m, TN_WHY_DTYPE, "only floats");
  if (input_value(m, 4) || input_value(m, 5) || input_value(m, 7) || input_value(m, 8))
    return refuse_node(m, TN_WHY_ATTR, "Attention with past inputs, sinks or slopes");
  for (uint32_t i = 1; i < m->n->n_out; i++)
    if (m->n->out[i] != TN_NONE) return refuse_node(m, TN_WHY_ATTR, "Attention with more than one output");
  o->i[0] = attr_int(m, TN_ATTENTION_IS_CAUSAL, 0);
  o->i[1] = attr_int(m, TN_ATTENTION_Q_NUM_HEADS, 0);
  o->i[2] = attr_int(m, TN_ATTENTION_KV_NUM_HEADS, 0);
  o->i[3] = attr_int(m, TN_ATTENTION_LEFT_WINDOW, -1);
  o->i[4] = attr_int(m, TN_ATTENTION_RIGHT_WINDOW, -1);
  o->f[0] = (float)attr_float(m, TN_ATTENTION_SCALE, 0);
  o->f[1] = (float)attr_float(m, TN_ATTENTION_SOFTCAP, 0);
  if (!heads_known(m, q, o->i[1]) || !heads_known(m, k, o->i[2]) || !heads_known(m, v, o->i[2]))
    return refuse_node(m, TN_WHY_SHAPE, "heads that are not known");
  int64_t dim, size = 0;
  const_dim(m, q, q->rank - 1, &dim);
  size = q->rank == 4 ? dim : dim / o->i[1];
  const_dim(m, v, v->rank - 1, &dim);
  if (size > 256 || (v->rank == 4 ? dim : dim / o->i[2]) > 256)
    return refuse_node(m, TN_WHY_TOO_BIG, "heads of more than 256");
  if (mask && mask->dtype != TN_DT_BOOL && !is_float(mask)) return refuse_node(m, TN_WHY_DTYPE, "a mask of integers");
  if (mask && (mask->rank < 2 || mask->rank > 4))
    return refuse_node(m, TN_WHY_SHAPE, "a mask whose rank is not 2 to 4");
  if (valid && valid->dtype != TN_DT_I64) return refuse_node(m, TN_WHY_DTYPE, "lengths that are not int64");
  return take_operand(m, TNI_CLO_ATTN);
}

static bool match_concat(const op_matcher *m) {
  const tn_value *y = tni_cm_value(m->g, m->n->out[0]);
  const int64_t axis = attr_int(m, 0, 0);
  if (!ew_rank(m)) return false;
  m->o->i[0] = axis < 0 ? axis + y->rank : axis;
  return take_operand(m, TNI_CLO_CONCAT);
}

static bool match_concat_heads(const op_matcher *m) {
  const tn_value *y = tni_cm_value(m->g, m->n->out[0]);
  int64_t n;
  if (!inputs_are_floats(m, m->n->n_in)) return refuse_node(m, TN_WHY_DTYPE, "only floats");
  if (y->rank < 1 || y->rank > 3) return refuse_node(m, TN_WHY_SHAPE, "heads in more than 3 dims");
  m->o->i[0] = attr_int(m, TN_CONCAT_HEADS_NUM_HEADS, 0);
  m->o->i[1] = attr_int(m, TN_CONCAT_HEADS_SHARED, 0);
  for (uint32_t i = 0; i < m->n->n_in; i++)
    if (m->o->i[0] < 1 || !const_dim(m, input_value(m, i), y->rank - 1, &n))
      return refuse_node(m, TN_WHY_SHAPE, "heads that are not known");
  return take_operand(m, TNI_CLO_CONCAT_HEADS);
}

static bool match_split(const op_matcher *m) {
  const tn_value *x = input_value(m, 0);
  const int64_t axis = attr_int(m, 0, 0);
  if (!ew_rank(m)) return false;
  m->o->i[0] = axis < 0 ? axis + x->rank : axis;

  return take_operand(m, TNI_CLO_SPLIT);
}

static bool dispatch_match(const op_matcher *m) {
  switch (m->n->op) {
    case TN_OP_FUSED_MATMUL:
      return match_fused(m);
    case TN_OP_MATMUL:
    case TN_OP_GEMM:
      return match_matmul(m);
    case TN_OP_TENSOR_SCATTER:
      return match_append(m);
    case TN_OP_ATTENTION:
    case TN_OP_TENON_ATTENTION:
      return match_attention(m);
    default:
      break;
  }
  if (!no_states(m)) return false;
  switch (m->n->op) {
    case TN_OP_RMS_NORMALIZATION:
    case TN_OP_LAYER_NORMALIZATION:
      return match_norm(m);
    case TN_OP_TENON_RMS_NORMALIZATION:
    case TN_OP_TENON_LAYER_NORMALIZATION:
      return match_head_norm(m);
    case TN_OP_GATHER:
      return match_gather(m);
    case TN_OP_SLICE:
      return match_slice(m);
    case TN_OP_ROTARY_EMBEDDING:
      return match_rotary(m);
    case TN_OP_CONCAT:
      return match_concat(m);
    case TN_OP_CONCAT_HEADS:
      return match_concat_heads(m);
    case TN_OP_SPLIT:
      return match_split(m);
    case TN_OP_RESHAPE:
    case TN_OP_FLATTEN:
    case TN_OP_SQUEEZE:
    case TN_OP_UNSQUEEZE:
    case TN_OP_IDENTITY:
      return take_operand(m, TNI_CLO_ALIAS);
    default:
      return match_elementwise(m);
  }
}

/* Constants that are not packed: the host reads larger ones where they are mapped. */
static bool constants_fit(const op_matcher *m) {
  const tni_cl_op *o = m->o;
  for (uint32_t i = 0; i < o->n_in; i++) {
    const tn_value *v = input_value(m, i);
    if (!v || v->kind != TN_VALUE_CONST || tni_cl_is_weight(o, i)) continue;
    uint64_t bytes = tni_cx_size_of(v->dtype);
    int64_t n = 0;
    for (uint32_t k = 0; k < v->rank && const_dim(m, v, k, &n); k++)
      if (__builtin_mul_overflow(bytes, (uint64_t)n, &bytes)) bytes = UINT64_MAX;
    if (bytes > m->d->info.max_alloc)
      return refuse_node(m, TN_WHY_TOO_BIG, "a constant is larger than the device allocates at once");
  }
  return true;
}

bool tni_cl_match(tni_cl_device *d, const tn_graph *g, tn_id node, tni_cl_op *out, uint32_t *reason,
                  const char **text) {
  const tn_node *n = g->nodes[node];
  memset(out, 0, sizeof *out);
  out->op = n->op;
  out->node = node;
  out->name = n->name;
  out->in = n->in;
  out->out = n->out;
  out->n_in = n->n_in;
  out->n_out = n->n_out;
  out->need = out->blob_slot = out->blob_use = TN_NONE;
  *reason = TN_WHY_NONE;
  *text = "";
  op_matcher m = {d, g, n, out, reason, text};
  if (!check_values(&m) || !dispatch_match(&m)) return false;
  if (constants_fit(&m) && kind_works(&m)) return true;
  out->what = TNI_CLO_NO;
  return false;
}

/* --- claims ------------------------------------------------------------------------------------------------------ */

static double cost_of_op(const tni_cl_device *d, const tni_cl_op *o, const tn_graph *g, const tn_dims *at,
                         double *macs) {
  const tn_value *x = tni_cm_value(g, o->in[0]);
  int64_t rows = 1;
  *macs = 0;
  if (o->what != TNI_CLO_PRODUCT) return 1000;
  if (at && x->rank > 1 && tni_cm_product(d->host, g, x->dims, x->rank - 1, at, &rows) != TN_OK) rows = 1;
  *macs = (double)rows * (double)o->N * (double)o->K;
  return 5000 + (double)o->geo.bytes / 40 + *macs / 500;
}

/* With a task for each operation nothing is stored in half, caches neither. */
static tn_status tell_states(const tni_cl_device *d, const tn_graph *g, const tn_claim_sink *sink) {
  static const tn_layout layouts[] = {{.h = TN_HDR(tn_layout), .dtype = TN_DT_F16, .rank = 4, .order = {0, 1, 2, 3}},
                                      {.h = TN_HDR(tn_layout), .dtype = TN_DT_F16, .rank = 4, .order = {0, 2, 1, 3}},
                                      {.h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 4, .order = {0, 1, 2, 3}},
                                      {.h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 4, .order = {0, 2, 1, 3}}};
  static const tn_layout *const list[] = {&layouts[0], &layouts[1], &layouts[2], &layouts[3]};
  for (tn_id v = 0; sink->state && v < g->n_values; v++) {
    if (g->values[v]->kind != TN_VALUE_STATE || g->values[v]->producer != TN_NONE) continue; /* once for each cache */
    tn_status st = sink->state(sink->ctx, v, d->set.split ? list + 2 : list, d->set.split ? 2 : 4);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

tn_status tni_cl_claim(tn_device *dev, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  tni_cl_device *d = (tni_cl_device *)dev;
  tni_cl_op *o = d->host->alloc(d->host->ctx, sizeof *o, 64, TN_TAG_PLUGIN);
  if (!o) return tni_cm_fail(err, TN_E_NO_MEMORY, d->vendor->name, "out of memory");
  tn_status st = TN_OK;
  for (tn_id n = 0; st == TN_OK && n < g->n_nodes; n++) {
    uint32_t reason;
    const char *text;
    if (!tni_cl_match(d, g, n, o, &reason, &text)) {
      st = tni_cm_refuse(sink, n, reason ? reason : TN_WHY_OP, text);
      continue;
    }
    tni_cm_offer offer = {0};
    offer.cost_ns = cost_of_op(d, o, g, at, &offer.macs);
    if (o->what == TNI_CLO_PRODUCT) {
      offer.format = o->format;
      offer.params = d->params;
      offer.n_params = 1;
      offer.weight_bytes = o->geo.bytes;
    }
    st = tni_cm_accept(sink, n, TN_YES, &offer);
  }
  d->host->free(d->host->ctx, o);
  return st == TN_OK ? tell_states(d, g, sink) : st;
}
