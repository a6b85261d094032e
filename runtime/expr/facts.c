/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known about symbols: bounds, definitions, inequalities. Facts are only ever added, except that the bounds of
 * a symbol which nothing was built from yet may be replaced: simplifications made under old bounds then stay right.
 */
#include <string.h>

#include "runtime/expr/nodes.h"

/* Ids are in topological order, so one pass is enough. */
static void refresh_ranges(tni_exprs *x) {
  for (uint32_t i = 0; i < x->n_nodes; i++) x->nodes[i].range = tni_node_range(x, &x->nodes[i]);
}

tn_status tni_ex_bound(tni_exprs *x, tn_id sym, int64_t lo, int64_t hi) {
  if (sym >= x->n_symbols || lo > hi) return TN_E_INVALID;
  tni_ex_symbol_info *s = &x->symbols[sym];
  if (s->used || s->definition != TNI_EXPR_NONE) {
    if (lo < s->range.lo) lo = s->range.lo;
    if (hi > s->range.hi) hi = s->range.hi;
    if (lo > hi) return TN_E_INVALID;
  }
  if (lo == s->range.lo && hi == s->range.hi) return TN_OK;
  s->range = (tni_range){lo, hi};
  refresh_ranges(x);
  return TN_OK;
}

/* e >= 0 from now on. Too many facts, or one that says nothing: dropped, which is sound. */
static void assume_nonnegative(tni_exprs *x, tn_expr e) {
  if (!tni_ex_valid(x, e) || x->n_facts == FACTS_MAX || x->nodes[e].range.lo >= 0) return;
  for (uint32_t i = 0; i < x->n_facts; i++)
    if (x->facts[i] == e) return;
  x->facts[x->n_facts++] = e;
}

tn_status tni_ex_assume_le(tni_exprs *x, tn_expr a, tn_expr b) {
  a = tni_ex_resolve(x, a);
  b = tni_ex_resolve(x, b);
  if (a == TNI_EXPR_NONE || b == TNI_EXPR_NONE) return TN_E_INVALID;
  tn_expr d = tni_build_add(x, b, a, -1);
  if (d != TNI_EXPR_NONE && x->nodes[d].range.hi < 0) return TN_E_INVALID;
  assume_nonnegative(x, d);
  refresh_ranges(x);
  return TN_OK;
}

/* e with one free symbol replaced, or (sym TN_NONE) every defined one. */
static tn_expr rebuild_expr(tni_exprs *x, tn_expr e, tn_id sym, tn_expr as);

static tn_expr rebuild_sum(tni_exprs *x, const tni_ex_node *n, tn_id sym, tn_expr as) {
  tn_expr sum = tni_ex_const(x, 0);
  for (uint32_t i = 0; i < n->n && sum != TNI_EXPR_NONE; i++) {
    const tni_term *t = &n->u.terms[i];
    tn_expr prod = tni_ex_const(x, t->coef);
    for (uint32_t k = 0; k < t->degree; k++) prod = tni_build_mul(x, prod, rebuild_expr(x, t->atom[k], sym, as));
    sum = tni_build_add(x, sum, prod, 1);
  }
  return sum;
}

static tn_expr rebuild_atom(tni_exprs *x, const tni_ex_node *n, tn_id sym, tn_expr as) {
  tn_expr args[ARGS_MAX];
  for (uint32_t i = 0; i < n->n; i++)
    if ((args[i] = rebuild_expr(x, n->u.args[i], sym, as)) == TNI_EXPR_NONE) return TNI_EXPR_NONE;
  switch (n->kind) {
    case TNI_EX_FLOORDIV:
      return tni_build_floordiv(x, args[0], args[1]);
    case TNI_EX_MOD:
      return tni_build_mod(x, args[0], args[1]);
    case TNI_EX_EXACTDIV:
      return tni_build_exactdiv(x, args[0], args[1]);
    default:
      return tni_build_minmax(x, (tni_ex_kind)n->kind, args, n->n);
  }
}

static tn_expr rebuild_expr(tni_exprs *x, tn_expr e, tn_id sym, tn_expr as) {
  const tni_ex_node n = x->nodes[e]; /* a copy: building moves the table */
  uint64_t mask = sym == TN_NONE ? x->defined : tni_symbol_bit(sym);
  if (!(n.symbols & mask)) return e;
  if (n.kind == TNI_EX_SYM) {
    if (n.u.sym == sym) return as;
    tn_expr d = x->symbols[n.u.sym].definition;
    return sym == TN_NONE && d != TNI_EXPR_NONE ? d : e;
  }
  return n.kind == TNI_EX_ADD ? rebuild_sum(x, &n, sym, as) : rebuild_atom(x, &n, sym, as);
}

tn_expr tni_ex_resolve(tni_exprs *x, tn_expr e) {
  if (!tni_ex_valid(x, e)) return TNI_EXPR_NONE;
  return x->nodes[e].symbols & x->defined ? rebuild_expr(x, e, TN_NONE, TNI_EXPR_NONE) : e;
}

/* True if sym stands in e (exact, where the mask is shared by all symbols past 63). */
static bool depends_on_symbol(const tni_exprs *x, tn_expr e, tn_id sym) {
  const tni_ex_node *n = &x->nodes[e];
  if (!(n->symbols & tni_symbol_bit(sym))) return false;
  if (n->kind == TNI_EX_SYM) return n->u.sym == sym;
  for (uint32_t i = 0; i < n->n; i++) {
    if (n->kind != TNI_EX_ADD && depends_on_symbol(x, n->u.args[i], sym)) return true;
    for (uint32_t k = 0; n->kind == TNI_EX_ADD && k < n->u.terms[i].degree; k++)
      if (depends_on_symbol(x, n->u.terms[i].atom[k], sym)) return true;
  }
  return false;
}

/* sym = as, and sym's bounds, said of expressions that still hold sym or do so no more. */
static void define_facts(tni_exprs *x, tn_id sym, tn_expr as) {
  tn_expr node = x->symbols[sym].node;
  tni_range r = x->symbols[sym].range;
  assume_nonnegative(x, tni_build_add(x, node, as, -1));
  assume_nonnegative(x, tni_build_add(x, as, node, -1));
  if (r.lo != INT64_MIN) assume_nonnegative(x, tni_build_add(x, as, tni_ex_const(x, r.lo), -1));
  if (r.hi != INT64_MAX) assume_nonnegative(x, tni_build_add(x, tni_ex_const(x, r.hi), as, -1));
  refresh_ranges(x);
}

tn_status tni_ex_define(tni_exprs *x, tn_id sym, tn_expr as) {
  if (sym >= x->n_symbols) return TN_E_INVALID;
  as = tni_ex_resolve(x, as);
  if (as == TNI_EXPR_NONE) return TN_E_INVALID;
  tni_ex_symbol_info *s = &x->symbols[sym];
  if (s->definition != TNI_EXPR_NONE) return s->definition == as ? TN_OK : TN_E_INVALID;
  if (as == s->node) return TN_OK;
  tni_range r = x->nodes[as].range;
  if (depends_on_symbol(x, as, sym) || r.hi < s->range.lo || r.lo > s->range.hi) return TN_E_INVALID;
  for (tn_id i = 0; i < x->n_symbols; i++) { /* definitions hold no defined symbol */
    tn_expr d = x->symbols[i].definition;
    if (d == TNI_EXPR_NONE) continue;
    d = rebuild_expr(x, d, sym, as);
    if (d == TNI_EXPR_NONE) return TN_E_LIMIT;
    x->symbols[i].definition = d;
  }
  x->symbols[sym].definition = as;
  x->symbols[sym].used = true;
  x->defined |= tni_symbol_bit(sym);
  x->n_defined++;
  define_facts(x, sym, as);
  return TN_OK;
}
