/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounds of a node, from those of its children.
 */
#include "runtime/expr/nodes.h"

static tni_range minmax_range(const tni_exprs *x, const tni_ex_node *n) {
  tni_range r = x->nodes[n->u.args[0]].range;
  for (uint32_t i = 1; i < n->n; i++) {
    tni_range a = x->nodes[n->u.args[i]].range;
    bool is_min = n->kind == TNI_EX_MIN;
    if (is_min == (a.lo < r.lo)) r.lo = a.lo;
    if (is_min == (a.hi < r.hi)) r.hi = a.hi;
  }
  return r;
}

tni_range tni_node_range(const tni_exprs *x, const tni_ex_node *n) {
  tni_poly p;
  switch (n->kind) {
    case TNI_EX_CONST:
      return (tni_range){n->u.v, n->u.v};
    case TNI_EX_SYM:
      return x->symbols[n->u.sym].range;
    case TNI_EX_MIN:
    case TNI_EX_MAX:
      return minmax_range(x, n);
    case TNI_EX_FLOORDIV:
    case TNI_EX_EXACTDIV:
      return tni_range_floordiv(x->nodes[n->u.args[0]].range, x->nodes[n->u.args[1]].range);
    case TNI_EX_MOD:
      return tni_range_mod(x->nodes[n->u.args[0]].range, x->nodes[n->u.args[1]].range);
    default:
      break;
  }
  p.n = n->n;
  for (uint32_t i = 0; i < p.n; i++) p.t[i] = n->u.terms[i];
  return tni_poly_range(x, &p);
}
