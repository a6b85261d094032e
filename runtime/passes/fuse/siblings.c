/* SPDX-License-Identifier: Apache-2.0
 *
 * siblings: products with constant weights that read one activation become one tenon.FusedMatMul, whose outputs are
 * theirs: q, k and v; gate and up. What is cut out of a product's last axis by Split or Slice, and by nothing else
 * read, becomes parts of its weight; a bias before the cut is cut too. A product between Reshapes that flatten the
 * activation and put its axes back works on the activation as it was.
 *
 * Products are joined unless one of them, through whatever else it reads, waits for another. Weights are matrices of
 * one dtype, stored the same way round.
 *
 * Keeps: the values that are read outside, with name, dtype and shape, and every bit of them: columns of a product do
 * not depend on each other. Only a bias or chain in halves that was rounded before the cut and now is after it.
 */
#include <string.h>

#include "runtime/passes/fuse/fuse.h"

/* --- Reshape, product, Reshape --- */

/* x0 with width for its last dim is what v looks like. */
static bool is_unflattened(const tni_graph *g, tn_id v, const tni_value *x0, int64_t width) {
  const tni_value *val = tni_match_value(g, v);
  int64_t n;
  if (!val || val->pub.rank != x0->pub.rank) return false;
  for (uint32_t d = 0; d + 1 < val->pub.rank; d++)
    if (val->pub.dims[d] == TNI_EXPR_NONE || val->pub.dims[d] != x0->pub.dims[d]) return false;
  const tn_expr last = tni_match_last_dim(g, v);
  return last != TNI_EXPR_NONE && tni_ex_is_const(g->exprs, last, &n) && n == width;
}

/* The only reader of *v puts the axes back: *v becomes what it makes, and it joins the set. */
static bool skip_reshape(const tni_graph *g, tni_fuse_set *s, tn_id *v, const tni_value *x0, int64_t width) {
  if (*v == TN_NONE || !tni_match_uses(g, *v)) return true;
  const tn_id reader = tni_match_only_reader(g, *v);
  if (reader == TN_NONE || g->nodes[reader]->pub.op != TN_OP_RESHAPE || g->nodes[reader]->pub.in[0] != *v) return false;
  const tn_id out = g->nodes[reader]->pub.out[0];
  if (!is_unflattened(g, out, x0, width) || !tni_fuse_set_add(g, s, reader)) return false;
  *v = out;
  return true;
}

static const tni_value *before_flatten(const tni_graph *g, tni_fusion *d) {
  const tni_value *x = g->values[d->x];
  const tni_node *flat = tni_match_node(g, d->x, TN_OP_RESHAPE);
  if (!flat) flat = tni_match_node(g, d->x, TN_OP_FLATTEN);
  const tni_value *x0 = flat ? tni_match_value(g, flat->pub.in[0]) : NULL;
  if (!x0 || x->pub.rank != 2 || x0->pub.rank == TNI_RANK_UNKNOWN || x0->pub.rank < 3) return NULL;
  if (x0->pub.dims[x0->pub.rank - 1] != x->pub.dims[1]) return NULL;
  d->x = flat->pub.in[0];
  return x0;
}

static tn_status unflatten_sibling(tni_graph *g, tni_fuse_set *s, tn_id node, uint32_t *fired, tn_error *err) {
  tni_fusion d;
  if (!tni_fusion_read(g, g->nodes[node], &d)) return TN_OK;
  const tni_value *x0 = before_flatten(g, &d);
  bool ok = x0 && tni_fuse_set_add(g, s, node);
  for (uint32_t e = 0; ok && e < d.n_extra; e++) {
    const tni_value *v = g->values[d.extra[e]];
    int64_t n;
    ok = v->pub.rank < 2 || (tni_ex_is_const(g->exprs, v->pub.dims[0], &n) && n == 1 &&
                             tni_ex_is_const(g->exprs, v->pub.dims[1], &n) && n == 1);
  }
  for (uint32_t p = 0; ok && p < d.n_parts; p++) ok = skip_reshape(g, s, &d.part_value[p], x0, d.part[p].count);
  for (uint32_t i = 0; ok && i < d.n_ops; i++)
    ok = skip_reshape(g, s, &d.op_value[i], x0, d.part[tni_fusion_part_of(&d, TNI_REG_OP + i)].count);
  ok = ok && s->n > 1;
  tni_fuse_set_clear(g, s, ok);
  *fired += ok;
  return ok ? tni_fusion_write(g, &d, g->nodes[node]->pub.name, err) : TN_OK;
}

/* --- one activation --- */

static tn_status join_siblings(tni_graph *g, tni_fuse_set *s, tn_id node, uint32_t *fired, tn_error *err) {
  tni_fusion d, b;
  if (!tni_fusion_read(g, g->nodes[node], &d) || !tni_fuse_set_add(g, s, node)) return TN_OK;
  const tni_value *x = g->values[d.x];
  for (uint32_t u = 0; u < x->pub.n_uses; u++) {
    const tn_id other = x->pub.uses[u];
    tni_fusion more = d;
    if (other <= node || s->member[other] || !tni_fusion_read(g, g->nodes[other], &b)) continue;
    if (b.x != d.x || b.trans_b != d.trans_b || !tni_fusion_join(&more, &b)) continue;
    if (tni_fuse_set_add(g, s, other)) d = more;
  }
  const uint32_t joined = s->n;
  tni_fuse_set_clear(g, s, joined > 1);
  if (joined < 2) return TN_OK;
  *fired += joined - 1;
  return tni_fusion_write(g, &d, g->nodes[node]->pub.name, err);
}

/* --- Split and Slice --- */

typedef struct sibling_piece {
  int64_t first, count;
  tn_id value;
} sibling_piece;

typedef struct sibling_pieces {
  sibling_piece at[TN_FUSED_MAX_PARTS];
  uint32_t n;
} sibling_pieces;

static bool add_piece(sibling_pieces *p, int64_t first, int64_t count, tn_id value) {
  if (p->n == TN_FUSED_MAX_PARTS || count < 1) return false;
  p->at[p->n++] = (sibling_piece){first, count, value};
  return true;
}

static bool last_width(const tni_graph *g, tn_id v, int64_t *n) {
  const tn_expr e = tni_match_last_dim(g, v);
  return e != TNI_EXPR_NONE && tni_ex_is_const(g->exprs, e, n);
}

static bool is_last_axis(const tni_value *v, int64_t axis) { return axis == -1 || axis == (int64_t)v->pub.rank - 1; }

static bool split_pieces(const tni_graph *g, const tni_value *v, const tni_node *n, sibling_pieces *p) {
  int64_t first = 0, count;
  if (!is_last_axis(v, tni_attr_i(&n->pub, "axis", 0))) return false;
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    if (n->pub.out[o] == TN_NONE || !last_width(g, n->pub.out[o], &count)) return false;
    if (!add_piece(p, first, count, n->pub.out[o])) return false;
    first += count;
  }
  return true;
}

static bool one_number(const tni_graph *g, tn_id v, int64_t *c) {
  const tni_value *val = tni_match_value(g, v);
  double d;
  if (!val || !tni_match_scalar(g, v, &d) || (val->pub.dtype != TN_DT_I64 && val->pub.dtype != TN_DT_I32)) return false;
  tni_tensor_to_i64(val->tensor, 0, 1, c);
  return true;
}

static bool slice_piece(const tni_graph *g, const tni_value *v, const tni_node *n, int64_t width, sibling_pieces *p) {
  int64_t start, axis = 0, step = 1, count;
  if (!one_number(g, tni_match_in(n, 1), &start) || !last_width(g, n->pub.out[0], &count)) return false;
  if (tni_match_in(n, 3) == TN_NONE || !one_number(g, n->pub.in[3], &axis) || !is_last_axis(v, axis)) return false;
  if (tni_match_in(n, 4) != TN_NONE && (!one_number(g, n->pub.in[4], &step) || step != 1)) return false;
  if (start < 0) start = start < -width ? 0 : start + width;
  return start <= width && count <= width - start && add_piece(p, start, count, n->pub.out[0]);
}

/* All readers of v cut it; they join the set. */
static bool cut_pieces(const tni_graph *g, tni_fuse_set *s, tn_id id, int64_t width, sibling_pieces *p) {
  const tni_value *v = g->values[id];
  p->n = 0;
  if (v->is_output) return false;
  for (uint32_t u = 0; u < v->pub.n_uses; u++) {
    const tni_node *n = g->nodes[v->pub.uses[u]];
    if (n->dead) continue;
    if (n->pub.in[0] != id) return false;
    if (n->pub.op == TN_OP_SPLIT ? !split_pieces(g, v, n, p)
                                 : n->pub.op != TN_OP_SLICE || !slice_piece(g, v, n, width, p))
      return false;
    if (!tni_fuse_set_add(g, s, v->pub.uses[u])) return false;
  }
  return p->n > 0;
}

/* A copy of a group's registers for one piece. */
typedef struct copy {
  const tni_fusion *from;
  tni_fusion *to;
  uint32_t part[TN_FUSED_MAX_PARTS], op[TN_CHAIN_MAX_OPS]; /* registers in `to` */
} copy;

/* Input e for columns [first, first + count) of its width. */
static uint32_t copy_extra(tni_graph *g, copy *c, uint32_t e, const sibling_piece *p) {
  tn_id v = c->from->extra[e];
  const tni_value *val = g->values[v];
  int64_t n;
  bool one = true;
  for (uint32_t d = 0; d < val->pub.rank; d++) one = one && tni_ex_is_const(g->exprs, val->pub.dims[d], &n) && n == 1;
  if (!one && p) {
    v = val->pub.rank == 1 && val->pub.kind == TN_VALUE_CONST ? tni_build_slice(g, v, p->first, p->count) : TN_NONE;
    if (v == TN_NONE) return TNI_REG_NONE;
  }
  for (uint32_t i = 0; i < c->to->n_extra; i++)
    if (c->to->extra[i] == v) return TNI_REG_EXTRA + i;
  if (c->to->n_extra == TN_CHAIN_MAX_INPUTS) return TNI_REG_NONE;
  c->to->extra[c->to->n_extra] = v;
  return TNI_REG_EXTRA + c->to->n_extra++;
}

static uint32_t copy_reg(tni_graph *g, copy *c, uint32_t reg, const sibling_piece *p) {
  const uint32_t i = reg & 0xffff;
  switch (reg & ~0xffffu) {
    case TNI_REG_PART:
      return c->part[i];
    case TNI_REG_EXTRA:
      return copy_extra(g, c, i, p);
    case TNI_REG_OP:
      return c->op[i];
    default:
      return reg;
  }
}

/* Parts and instructions of the group (marked), or of all others (p NULL). result: the register that p cuts. */
static bool copy_group(tni_graph *g, copy *c, const bool *parts, const bool *ops, const sibling_piece *p,
                       uint32_t result) {
  const tni_fusion *from = c->from;
  tni_fusion *to = c->to;
  for (uint32_t i = 0; i < from->n_parts; i++) {
    if (parts[i] != (p != NULL)) continue;
    if (to->n_parts == TN_FUSED_MAX_PARTS) return false;
    to->part[to->n_parts] = from->part[i];
    to->part_value[to->n_parts] = p ? (result == TNI_REG_PART + i ? p->value : TN_NONE) : from->part_value[i];
    if (p) to->part[to->n_parts].first += p->first;
    if (p) to->part[to->n_parts].count = p->count;
    c->part[i] = TNI_REG_PART + to->n_parts++;
  }
  for (uint32_t i = 0; i < from->n_ops; i++) {
    if (ops[i] != (p != NULL)) continue;
    if (to->n_ops == TN_CHAIN_MAX_OPS) return false;
    const tni_instr *op = &from->op[i];
    const uint32_t a = copy_reg(g, c, op->a, p), b = copy_reg(g, c, op->b, p);
    if (a == TNI_REG_NONE || (b == TNI_REG_NONE && op->b != TNI_REG_NONE)) return false;
    to->op[to->n_ops] = (tni_instr){op->op, a, b, op->value};
    to->op_value[to->n_ops] = p ? (result == TNI_REG_OP + i ? p->value : TN_NONE) : from->op_value[i];
    c->op[i] = TNI_REG_OP + to->n_ops++;
  }
  return true;
}

/* What belongs to register reg: everything that is computed from what it is computed from. */
static void mark_group(const tni_fusion *d, uint32_t reg, bool *parts, bool *ops) {
  bool grown = true;
  memset(parts, 0, TN_FUSED_MAX_PARTS * sizeof *parts);
  memset(ops, 0, TN_CHAIN_MAX_OPS * sizeof *ops);
  *((reg & ~0xffffu) == TNI_REG_PART ? &parts[reg & 0xffff] : &ops[reg & 0xffff]) = true;
  while (grown) {
    grown = false;
    for (uint32_t i = 0; i < d->n_ops; i++) {
      bool *at[3] = {&ops[i], NULL, NULL};
      const uint32_t regs[2] = {d->op[i].a, d->op[i].b};
      for (uint32_t k = 0; k < 2; k++) {
        if ((regs[k] & ~0xffffu) == TNI_REG_PART) at[k + 1] = &parts[regs[k] & 0xffff];
        if ((regs[k] & ~0xffffu) == TNI_REG_OP) at[k + 1] = &ops[regs[k] & 0xffff];
      }
      bool any = false, all = true;
      for (uint32_t k = 0; k < 3; k++) {
        any = any || (at[k] && *at[k]);
        all = all && (!at[k] || *at[k]);
      }
      for (uint32_t k = 0; any && k < 3; k++)
        if (at[k]) *at[k] = true;
      grown = grown || (any && !all);
    }
  }
}

/* Only the register that is cut is read outside its group. */
static bool only_result(const tni_graph *g, const tni_fusion *d, uint32_t reg, const bool *parts, const bool *ops) {
  for (uint32_t i = 0; i < d->n_parts; i++)
    if (parts[i] && reg != TNI_REG_PART + i && tni_match_uses(g, d->part_value[i])) return false;
  for (uint32_t i = 0; i < d->n_ops; i++)
    if (ops[i] && reg != TNI_REG_OP + i && tni_match_uses(g, d->op_value[i])) return false;
  return true;
}

/* The draft with the group of register reg cut as its readers cut it; they join the set. */
static bool divide_register(tni_graph *g, tni_fuse_set *s, tni_fusion *d, uint32_t reg) {
  bool parts[TN_FUSED_MAX_PARTS], ops[TN_CHAIN_MAX_OPS];
  const tn_id v = tni_fusion_value(d, reg);
  const uint32_t before = s->n;
  sibling_pieces p;
  if (v == TN_NONE || !tni_match_uses(g, v)) return false;
  bool ok = cut_pieces(g, s, v, d->part[tni_fusion_part_of(d, reg)].count, &p);
  tni_fusion r = *d;
  r.n_parts = r.n_ops = r.n_extra = 0;
  copy c = {.from = d, .to = &r};
  mark_group(d, reg, parts, ops);
  ok = ok && only_result(g, d, reg, parts, ops) && copy_group(g, &c, parts, ops, NULL, TNI_REG_NONE);
  for (uint32_t i = 0; ok && i < p.n; i++) ok = copy_group(g, &c, parts, ops, &p.at[i], reg);
  if (ok) *d = r;
  while (!ok && s->n > before) s->member[s->list[--s->n]] = 0;
  return ok;
}

static tn_status divide_pieces(tni_graph *g, tni_fuse_set *s, tn_id node, uint32_t *fired, tn_error *err) {
  tni_fusion d;
  bool again = true;
  if (!tni_fusion_read(g, g->nodes[node], &d) || !tni_fuse_set_add(g, s, node)) return TN_OK;
  while (again) {
    again = false;
    for (uint32_t i = 0; i < d.n_ops && !again; i++) again = divide_register(g, s, &d, TNI_REG_OP + i);
    for (uint32_t i = 0; i < d.n_parts && !again; i++) again = divide_register(g, s, &d, TNI_REG_PART + i);
  }
  const uint32_t cuts = s->n - 1;
  tni_fuse_set_clear(g, s, cuts > 0);
  *fired += cuts;
  return cuts ? tni_fusion_write(g, &d, g->nodes[node]->pub.name, err) : TN_OK;
}

/* --- the pass --- */

typedef tn_status (*step_fn)(tni_graph *, tni_fuse_set *, tn_id, uint32_t *, tn_error *);

static tn_status each_node(tni_graph *g, step_fn step, uint32_t *fired, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes, before = *fired;
  tni_fuse_set s;
  tn_status st = tni_fuse_set_init(&s, g) ? TN_OK : tni_fail_memory(err, g->name);
  for (tn_id i = 0; st == TN_OK && i < n_nodes; i++)
    if (!g->nodes[i]->dead) st = step(g, &s, i, fired, err);
  tni_fuse_set_free(&s);
  return st == TN_OK && *fired != before ? tni_graph_finish(g, err) : st;
}

tn_status tni_pass_siblings(tni_graph *g, uint32_t *n, tn_error *err) {
  uint32_t fired = 0;
  tn_status st = each_node(g, unflatten_sibling, &fired, err);
  if (st == TN_OK) st = each_node(g, divide_pieces, &fired, err);
  if (st == TN_OK) st = each_node(g, join_siblings, &fired, err);
  *n = fired;
  return st;
}
