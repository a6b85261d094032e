/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about an expression: what it is and which symbols stand in it.
 */
#include "runtime/expr/nodes.h"

bool tni_ex_is_const(const tni_exprs *x, tn_expr e, int64_t *v) {
  if (!tni_ex_valid(x, e) || x->nodes[e].kind != TNI_EX_CONST) return false;
  if (v) *v = x->nodes[e].u.v;
  return true;
}

bool tni_ex_is_sym(const tni_exprs *x, tn_expr e, tn_id *sym) {
  if (!tni_ex_valid(x, e) || x->nodes[e].kind != TNI_EX_SYM) return false;
  if (sym) *sym = x->nodes[e].u.sym;
  return true;
}

uint32_t tni_ex_n_symbols(const tni_exprs *x) { return x->n_symbols; }

const char *tni_ex_symbol_name(const tni_exprs *x, tn_id sym) {
  return sym < x->n_symbols ? x->symbols[sym].name : "?";
}

void tni_ex_symbol_bounds(const tni_exprs *x, tn_id sym, int64_t *lo, int64_t *hi) {
  tni_range r = sym < x->n_symbols ? x->symbols[sym].range : (tni_range){INT64_MIN, INT64_MAX};
  *lo = r.lo;
  *hi = r.hi;
}

uint64_t tni_ex_symbols(const tni_exprs *x, tn_expr e) {
  if (!tni_ex_valid(x, e)) return 0;
  uint64_t mask = x->nodes[e].symbols;
  if (!(mask & x->defined)) return mask;
  for (tn_id s = 0; s < x->n_symbols; s++)
    if (x->symbols[s].definition != TNI_EXPR_NONE && (mask & tni_symbol_bit(s)))
      mask |= x->nodes[x->symbols[s].definition].symbols;
  return mask;
}

bool tni_ex_each_symbol(const tni_exprs *x, tn_expr e, bool (*fn)(void *ctx, tn_id sym), void *ctx) {
  if (!tni_ex_valid(x, e)) return false;
  const tni_ex_node *n = &x->nodes[e];
  if (n->kind == TNI_EX_CONST) return true;
  if (n->kind == TNI_EX_SYM) {
    const tn_expr as = x->symbols[n->u.sym].definition;
    return as == TNI_EXPR_NONE ? fn(ctx, n->u.sym) : tni_ex_each_symbol(x, as, fn, ctx);
  }
  for (uint32_t i = 0; i < n->n; i++) {
    if (n->kind != TNI_EX_ADD) {
      if (!tni_ex_each_symbol(x, n->u.args[i], fn, ctx)) return false;
      continue;
    }
    const tni_term *t = &n->u.terms[i];
    for (uint32_t k = 0; k < t->degree; k++)
      if (!tni_ex_each_symbol(x, t->atom[k], fn, ctx)) return false;
  }
  return true;
}

bool tni_ex_is_sum(const tni_exprs *x, tn_expr e) {
  uint32_t n = 0;
  if (!tni_ex_valid(x, e) || x->nodes[e].kind != TNI_EX_ADD) return false;
  for (uint32_t i = 0; i < x->nodes[e].n; i++) {
    const tni_term *t = &x->nodes[e].u.terms[i];
    if (t->degree == 0) continue;
    if (t->degree > 1 || t->coef != 1 || x->nodes[t->atom[0]].kind != TNI_EX_SYM) return false;
    n++;
  }
  return n > 1;
}

uint32_t tni_ex_n_defined(const tni_exprs *x) { return x->n_defined; }
