/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/fuse/fuse.h"

#include <stdlib.h>
#include <string.h>

/* --- reading --- */

static bool is_float(uint32_t dtype) {
  return dtype == TN_DT_F32 || dtype == TN_DT_F16 || dtype == TN_DT_BF16 || dtype == TN_DT_F64;
}

static bool const_dim(const tni_graph *g, const tni_value *v, uint32_t d, int64_t *n) {
  return v->pub.dims[d] != TNI_EXPR_NONE && tni_ex_is_const(g->exprs, v->pub.dims[d], n);
}

static bool is_weight(const tni_graph *g, tn_id id, uint32_t dtype) {
  const tni_value *v = tni_match_value(g, id);
  return v && v->pub.kind == TN_VALUE_CONST && v->pub.rank == 2 && v->pub.dtype == dtype && v->tensor;
}

static bool set_activation(const tni_graph *g, tni_fusion *d, tn_id id) {
  const tni_value *x = tni_match_value(g, id);
  int64_t k;
  if (!x || !is_float(x->pub.dtype) || x->pub.rank == TNI_RANK_UNKNOWN || x->pub.rank < 2) return false;
  d->x = id;
  d->dtype = x->pub.dtype;
  return const_dim(g, x, x->pub.rank - 1, &k);
}

static bool takes_gemm(const tni_node *n) {
  return !tni_attr_i(&n->pub, "transA", 0) && tni_attr_f(&n->pub, "alpha", 1) == 1 &&
         tni_attr_f(&n->pub, "beta", 1) == 1;
}

static uint32_t fusion_operand(tni_graph *g, tni_fusion *d, uint32_t like, tn_id v);

/* MatMul or Gemm: one part, and an Add for C. */
static bool read_plain(tni_graph *g, const tni_node *n, tni_fusion *d) {
  if (n->pub.op == TN_OP_GEMM && !takes_gemm(n)) return false;
  if (!set_activation(g, d, n->pub.in[0]) || !is_weight(g, tni_match_in(n, 1), d->dtype)) return false;
  const tni_tensor *w = g->values[n->pub.in[1]]->tensor;
  const tn_id c = tni_match_in(n, 2);
  d->trans_b = n->pub.op == TN_OP_GEMM && tni_attr_i(&n->pub, "transB", 0);
  if (w->dims[!d->trans_b] < 1) return false;
  d->weight[d->n_weights++] = n->pub.in[1];
  d->part[0] = (tni_part){0, 0, w->dims[!d->trans_b]};
  d->part_value[0] = n->pub.out[0];
  d->n_parts = 1;
  if (c == TN_NONE) return true;
  const uint32_t reg = fusion_operand(g, d, TNI_REG_PART, c);
  if (reg == TNI_REG_NONE) return false;
  d->op[0] = (tni_instr){TN_OP_ADD, TNI_REG_PART, reg, 0};
  d->op_value[0] = n->pub.out[0];
  d->part_value[0] = TN_NONE;
  d->n_ops = 1;
  return true;
}

/* Register r of a node as a draft counts them. */
static uint32_t is_coded_register(const tni_fused *f, uint32_t r) {
  if (r == UINT32_MAX) return TNI_REG_NONE;
  if (r < f->n_parts) return TNI_REG_PART + r;
  return r < f->chain.n_in ? TNI_REG_EXTRA + r - f->n_parts : TNI_REG_OP + r - f->chain.n_in;
}

static tn_id *value_of(tni_fusion *d, uint32_t reg) {
  const uint32_t i = reg & 0xffff;
  switch (reg & ~0xffffu) {
    case TNI_REG_PART:
      return &d->part_value[i];
    case TNI_REG_EXTRA:
      return &d->extra[i];
    default:
      return &d->op_value[i];
  }
}

tn_id tni_fusion_value(const tni_fusion *d, uint32_t reg) { return *value_of((tni_fusion *)d, reg); }

static bool read_fused(const tni_graph *g, const tni_node *n, tni_fusion *d) {
  tni_fused f;
  if (tni_fused_read(&n->pub, &f) || !set_activation(g, d, n->pub.in[0])) return false;
  d->trans_b = f.trans_b;
  d->n_weights = f.n_weights;
  d->n_parts = f.n_parts;
  d->n_extra = f.chain.n_in - f.n_parts;
  d->n_ops = f.chain.n_ops;
  for (uint32_t w = 0; w < f.n_weights; w++) {
    d->weight[w] = n->pub.in[1 + w];
    if (!is_weight(g, d->weight[w], d->dtype)) return false;
  }
  for (uint32_t e = 0; e < d->n_extra; e++) d->extra[e] = n->pub.in[1 + f.n_weights + e];
  memcpy(d->part, f.parts, sizeof d->part);
  for (uint32_t p = 0; p < d->n_parts; p++) d->part_value[p] = TN_NONE;
  for (uint32_t i = 0; i < d->n_ops; i++) {
    const tni_instr *op = &f.chain.ops[i];
    d->op[i] = (tni_instr){op->op, is_coded_register(&f, op->a), is_coded_register(&f, op->b), op->value};
    d->op_value[i] = TN_NONE;
  }
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    tn_id *v = value_of(d, is_coded_register(&f, f.chain.results[o]));
    if (n->pub.out[o] == TN_NONE) continue;
    if (*v != TN_NONE) return false; /* one register, two values */
    *v = n->pub.out[o];
  }
  return true;
}

bool tni_fusion_read(tni_graph *g, const tni_node *n, tni_fusion *d) {
  *d = (tni_fusion){.x = TN_NONE};
  if (n->dead || !n->op) return false;
  if (n->pub.op == TN_OP_MATMUL || n->pub.op == TN_OP_GEMM) return read_plain(g, n, d);
  return n->pub.op == TN_OP_FUSED_MATMUL && read_fused(g, n, d);
}

/* --- registers --- */

uint32_t tni_fusion_find(const tni_fusion *d, tn_id v) {
  if (v == TN_NONE) return TNI_REG_NONE;
  for (uint32_t p = 0; p < d->n_parts; p++)
    if (d->part_value[p] == v) return TNI_REG_PART + p;
  for (uint32_t i = 0; i < d->n_ops; i++)
    if (d->op_value[i] == v) return TNI_REG_OP + i;
  return TNI_REG_NONE;
}

uint32_t tni_fusion_part_of(const tni_fusion *d, uint32_t reg) {
  while ((reg & ~0xffffu) == TNI_REG_OP) {
    const tni_instr *op = &d->op[reg & 0xffff];
    reg = (op->a & ~0xffffu) != TNI_REG_EXTRA ? op->a : op->b;
  }
  return (reg & ~0xffffu) == TNI_REG_PART ? reg : TN_NONE;
}

/* v has x's dims, with width for the last. */
static bool has_shape(const tni_graph *g, const tni_value *x, const tni_value *v, int64_t width) {
  int64_t n;
  if (v->pub.rank != x->pub.rank || !const_dim(g, v, v->pub.rank - 1, &n) || n != width) return false;
  for (uint32_t i = 0; i + 1 < v->pub.rank; i++)
    if (v->pub.dims[i] == TNI_EXPR_NONE || v->pub.dims[i] != x->pub.dims[i]) return false;
  return true;
}

/* How many of the leading dims are 1, proved. */
static uint32_t leading_ones(const tni_graph *g, const tni_value *v) {
  uint32_t d = 0;
  int64_t n;
  while (d < v->pub.rank && const_dim(g, v, d, &n) && n == 1) d++;
  return d;
}

static uint32_t add_extra(tni_fusion *d, tn_id v) {
  for (uint32_t e = 0; e < d->n_extra; e++)
    if (d->extra[e] == v) return TNI_REG_EXTRA + e;
  if (d->n_extra == TN_CHAIN_MAX_INPUTS) return TNI_REG_NONE;
  d->extra[d->n_extra] = v;
  return TNI_REG_EXTRA + d->n_extra++;
}

/* The register that v is as an operand of an instruction on register `like`. */
static uint32_t fusion_operand(tni_graph *g, tni_fusion *d, uint32_t like, tn_id id) {
  const tni_value *v = tni_match_value(g, id), *x = g->values[d->x];
  const int64_t width = d->part[tni_fusion_part_of(d, like)].count;
  const uint32_t own = tni_fusion_find(d, id);
  if (!v || v->pub.dtype != d->dtype || v->pub.rank == TNI_RANK_UNKNOWN || v->pub.rank > x->pub.rank)
    return TNI_REG_NONE;
  if (own != TNI_REG_NONE) return d->part[tni_fusion_part_of(d, own)].count == width ? own : TNI_REG_NONE;
  const uint32_t ones = leading_ones(g, v);
  int64_t n;
  if (ones == v->pub.rank || has_shape(g, x, v, width)) return add_extra(d, id);
  if (ones + 1 != v->pub.rank || !const_dim(g, v, v->pub.rank - 1, &n) || n != width) return TNI_REG_NONE;
  if (v->pub.rank == 1) return add_extra(d, id);
  const tn_id flat = v->pub.kind == TN_VALUE_CONST ? tni_build_view(g, id, 1, &width) : TN_NONE;
  return flat == TN_NONE ? TNI_REG_NONE : add_extra(d, flat);
}

bool tni_chain_takes(const tni_graph *g, const tni_node *n, tni_instr *instr) {
  const uint32_t arity = n->op && !n->dead ? tn_chain_arity(n->pub.op) : 0;
  const tni_value *x = arity ? tni_match_value(g, tni_match_in(n, 0)) : NULL;
  if (!x || !is_float(x->pub.dtype) || n->pub.n_out != 1 || n->pub.out[0] == TN_NONE) return false;
  *instr = (tni_instr){n->pub.op, TNI_REG_NONE, TNI_REG_NONE, 0};
  if (n->pub.op == TN_OP_GELU) {
    const char *form = tni_attr_s(&n->pub, "approximate", "none");
    instr->value = strcmp(form, "tanh") == 0;
    return instr->value != 0 || strcmp(form, "none") == 0;
  }
  if (n->pub.op != TN_OP_SWISH) return true;
  const double alpha = tni_attr_f(&n->pub, "alpha", 1);
  instr->value = (float)alpha;
  return x->pub.dtype != TN_DT_F64 || (double)instr->value == alpha;
}

bool tni_fusion_pull(tni_graph *g, tni_fusion *d, const tni_node *n) {
  tni_instr op;
  uint32_t like = TNI_REG_NONE, reg[2] = {TNI_REG_NONE, TNI_REG_NONE};
  const uint32_t n_extra = d->n_extra;
  if (d->n_ops == TN_CHAIN_MAX_OPS || !tni_chain_takes(g, n, &op)) return false;
  const uint32_t arity = tn_chain_arity(op.op);
  for (uint32_t i = arity; i-- > 0;)
    if (tni_fusion_find(d, n->pub.in[i]) != TNI_REG_NONE) like = tni_fusion_find(d, n->pub.in[i]);
  const tni_value *out = g->values[n->pub.out[0]];
  if (like == TNI_REG_NONE || out->pub.rank == TNI_RANK_UNKNOWN) return false;
  bool fits = has_shape(g, g->values[d->x], out, d->part[tni_fusion_part_of(d, like)].count);
  for (uint32_t i = 0; fits && i < arity; i++) {
    reg[i] = fusion_operand(g, d, like, n->pub.in[i]);
    fits = reg[i] != TNI_REG_NONE;
  }
  if (!fits) {
    d->n_extra = n_extra;
    return false;
  }
  d->op_value[d->n_ops] = n->pub.out[0];
  d->op[d->n_ops++] = (tni_instr){op.op, reg[0], reg[1], op.value};
  return true;
}

static uint32_t moved_register(uint32_t reg, const uint32_t *extra, uint32_t parts, uint32_t ops) {
  switch (reg & ~0xffffu) {
    case TNI_REG_PART:
      return reg + parts;
    case TNI_REG_EXTRA:
      return extra[reg & 0xffff];
    case TNI_REG_OP:
      return reg + ops;
    default:
      return reg;
  }
}

bool tni_fusion_join(tni_fusion *d, const tni_fusion *b) {
  tni_fusion r = *d;
  uint32_t weight[TN_FUSED_MAX_PARTS], extra[TN_CHAIN_MAX_INPUTS];
  for (uint32_t e = 0; e < d->n_extra; e++)
    if (tni_fusion_find(b, d->extra[e]) != TNI_REG_NONE) return false;
  if (d->n_parts + b->n_parts > TN_FUSED_MAX_PARTS || d->n_ops + b->n_ops > TN_CHAIN_MAX_OPS) return false;
  for (uint32_t w = 0; w < b->n_weights; w++) {
    for (weight[w] = 0; weight[w] < r.n_weights && r.weight[weight[w]] != b->weight[w];) weight[w]++;
    if (weight[w] == r.n_weights) r.weight[r.n_weights++] = b->weight[w];
  }
  for (uint32_t e = 0; e < b->n_extra; e++) {
    if (tni_fusion_find(d, b->extra[e]) != TNI_REG_NONE) return false;
    extra[e] = add_extra(&r, b->extra[e]);
    if (extra[e] == TNI_REG_NONE) return false;
  }
  for (uint32_t p = 0; p < b->n_parts; p++) {
    r.part[r.n_parts] = (tni_part){weight[b->part[p].weight], b->part[p].first, b->part[p].count};
    r.part_value[r.n_parts++] = b->part_value[p];
  }
  for (uint32_t i = 0; i < b->n_ops; i++) {
    const tni_instr *op = &b->op[i];
    r.op[r.n_ops] = (tni_instr){op->op, moved_register(op->a, extra, d->n_parts, d->n_ops),
                                moved_register(op->b, extra, d->n_parts, d->n_ops), op->value};
    r.op_value[r.n_ops++] = b->op_value[i];
  }
  *d = r;
  return true;
}

/* --- writing --- */

/* A draft as the lists that the node gets. */
typedef struct lists {
  tn_id in[1 + TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_INPUTS], out[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_OPS];
  int64_t ops[3 * TN_CHAIN_MAX_OPS], parts[3 * TN_FUSED_MAX_PARTS], results[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_OPS];
  float floats[TN_CHAIN_MAX_OPS];
  uint32_t n_in, n_out;
} lists;

/* Register reg as a node counts them. */
static int64_t plain_operand(const tni_fusion *d, uint32_t reg) {
  const int64_t i = reg & 0xffff;
  switch (reg & ~0xffffu) {
    case TNI_REG_PART:
      return i;
    case TNI_REG_EXTRA:
      return d->n_parts + i;
    case TNI_REG_OP:
      return (int64_t)d->n_parts + d->n_extra + i;
    default:
      return -1;
  }
}

static void add_result(const tni_graph *g, const tni_fusion *d, uint32_t reg, lists *l) {
  const tn_id v = tni_fusion_value(d, reg);
  if (v == TN_NONE || !tni_match_uses(g, v)) return;
  l->results[l->n_out] = plain_operand(d, reg);
  l->out[l->n_out++] = v;
}

static void fill_fusion(const tni_graph *g, const tni_fusion *d, lists *l) {
  l->in[l->n_in++] = d->x;
  for (uint32_t w = 0; w < d->n_weights; w++) l->in[l->n_in++] = d->weight[w];
  for (uint32_t e = 0; e < d->n_extra; e++) l->in[l->n_in++] = d->extra[e];
  for (uint32_t p = 0; p < d->n_parts; p++) {
    memcpy(l->parts + (size_t)p * 3, (int64_t[]){d->part[p].weight, d->part[p].first, d->part[p].count},
           3 * sizeof(int64_t));
    add_result(g, d, TNI_REG_PART + p, l);
  }
  for (uint32_t i = 0; i < d->n_ops; i++) {
    const tni_instr *op = &d->op[i];
    memcpy(l->ops + (size_t)i * 3, (int64_t[]){op->op, plain_operand(d, op->a), plain_operand(d, op->b)},
           3 * sizeof(int64_t));
    l->floats[i] = op->value;
    add_result(g, d, TNI_REG_OP + i, l);
  }
}

static bool is_matmul(const tni_graph *g, const tni_fusion *d, const lists *l) {
  const tni_part *p = &d->part[0];
  return d->n_parts == 1 && !d->n_ops && !d->trans_b && l->n_out == 1 && p->first == 0 &&
         p->count == g->values[d->weight[0]]->tensor->dims[1];
}

tn_status tni_fusion_write(tni_graph *g, const tni_fusion *d, const char *name, tn_error *err) {
  lists l = {.n_in = 0};
  fill_fusion(g, d, &l);
  if (!l.n_out) return TN_OK;
  if (is_matmul(g, d, &l)) return tni_graph_add_node(g, name, "", "MatMul", 13, l.in, 2, l.out, 1, NULL, 0, NULL, err);
  const tni_raw_attr attr[] = {
      tni_raw_ints("ops", l.ops, 3 * d->n_ops),    tni_raw_floats("floats", l.floats, d->n_ops),
      tni_raw_ints("results", l.results, l.n_out), tni_raw_int("n_weights", d->n_weights),
      tni_raw_int("trans_b", d->trans_b),          tni_raw_ints("parts", l.parts, 3 * d->n_parts)};
  return tni_graph_add_node(g, name, "tenon", "FusedMatMul", 1, l.in, l.n_in, l.out, l.n_out, attr,
                            sizeof attr / sizeof *attr, NULL, err);
}
