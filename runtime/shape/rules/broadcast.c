/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/shape/rules/rule.h"

static bool never_equal(tni_exprs *x, tn_expr a, tn_expr b) {
  int o = tni_ex_order(x, a, b);
  if (o == -1 || o == 1) return true;
  int64_t la, ha, lb, hb;
  tni_ex_range(x, a, &la, &ha);
  tni_ex_range(x, b, &lb, &hb);
  return ha < lb || hb < la;
}

static bool never_one(const tni_exprs *x, tn_expr a) {
  int64_t lo, hi;
  tni_ex_range(x, a, &lo, &hi);
  return lo > 1 || hi < 1;
}

/* a is min(b, c), c at least 2: where b is above c the two differ and neither is 1, so a model that works never gets
 * there. It is a fact from now on; nodes of subgraphs may not run and tell nothing. */
static bool bounds_it(const tni_infer *in, tn_expr a, tn_expr b) {
  int64_t lo, c;
  tni_ex_range(in->x, a, &lo, &c);
  if (in->concrete || in->g->outer || c < 2 || c == INT64_MAX) return false;
  const tn_expr most = tni_rule_const(in, c);
  return tni_ex_min(in->x, b, most) == a && tni_ex_assume_le(in->x, b, most) == TN_OK;
}

typedef struct free_symbols {
  const tni_infer *in;
  tn_id not_this, first;
  bool two;
} free_symbols;

/* A graph input has this symbol as an axis. */
static bool is_given(const tni_infer *in, tn_id sym) {
  for (uint32_t i = 0; i < in->g->n_inputs; i++) {
    const tni_value *v = in->g->values[in->g->inputs[i]];
    for (uint32_t d = 0; v->pub.rank <= TN_MAX_RANK && d < v->pub.rank; d++) {
      tn_id s;
      if (v->pub.dims[d] != TNI_EXPR_NONE && tni_ex_is_sym(in->x, v->pub.dims[d], &s) && s == sym) return true;
    }
  }
  return false;
}

static bool see_symbol(void *ctx, tn_id sym) {
  free_symbols *f = ctx;
  f->two = f->two || (f->first != TN_NONE && f->first != sym);
  f->first = sym;
  return sym != f->not_this && is_given(f->in, sym);
}

bool tni_rule_names_sum(const tni_infer *in, tn_expr a, tn_expr b) {
  tn_id sym;
  int64_t lo, hi;
  if (in->concrete || in->g->outer || a == TNI_EXPR_NONE || b == TNI_EXPR_NONE) return false;
  if (!tni_ex_is_sym(in->x, a, &sym) || !is_given(in, sym)) return false;
  free_symbols f = {.in = in, .not_this = sym, .first = TN_NONE};
  if (!tni_ex_each_symbol(in->x, b, see_symbol, &f) || !f.two || !tni_ex_is_sum(in->x, b)) return false;
  tni_ex_range(in->x, b, &lo, &hi);
  return lo >= 0 && tni_ex_define(in->x, sym, b) == TN_OK;
}

void tni_rule_names_const(const tni_infer *in, tn_expr a, tn_expr b) {
  tn_id sym;
  int64_t c;
  if (in->concrete || in->g->outer || a == TNI_EXPR_NONE || b == TNI_EXPR_NONE) return;
  if (tni_ex_is_sym(in->x, a, &sym) && tni_ex_is_const(in->x, b, &c) && is_given(in, sym))
    (void)!tni_ex_define(in->x, sym, b);
}

/* e is one symbol less another. */
static bool is_difference(const tni_infer *in, tn_expr e, tn_id *less, tn_id *more) {
  const uint64_t mask = tni_ex_symbols(in->x, e);
  const uint32_t n = tni_ex_n_symbols(in->x);
  tn_id found[2];
  uint32_t k = 0;
  if (mask >> 63) return false;
  for (tn_id s = 0; s < n && s < 63; s++) {
    if (!(mask >> s & 1)) continue;
    if (k == 2) return false;
    found[k++] = s;
  }
  if (k != 2) return false;
  const tn_expr a = tni_ex_sym(in->x, tni_ex_symbol_name(in->x, found[0])),
                b = tni_ex_sym(in->x, tni_ex_symbol_name(in->x, found[1]));
  *less = found[0];
  *more = found[1];
  return a != TNI_EXPR_NONE && b != TNI_EXPR_NONE && (tni_ex_sub(in->x, a, b) == e || tni_ex_sub(in->x, b, a) == e);
}

bool tni_rule_names_equal(const tni_infer *in, tn_expr a, tn_expr b) {
  tn_id first, then;
  if (in->concrete || in->g->outer || a == TNI_EXPR_NONE || b == TNI_EXPR_NONE) return false;
  if (!tni_ex_is_sum(in->x, a) || !tni_ex_is_sum(in->x, b)) return false;
  if (!is_difference(in, tni_ex_sub(in->x, a, b), &first, &then) || !is_given(in, first) || !is_given(in, then))
    return false;
  return tni_ex_define(in->x, then, tni_ex_sym(in->x, tni_ex_symbol_name(in->x, first))) == TN_OK;
}

tn_expr tni_rule_same_dim(const tni_infer *in, tn_expr a, tn_expr b, bool *ok) {
  int64_t c;
  *ok = true;
  if (a == TNI_EXPR_NONE || a == b) return b;
  if (b == TNI_EXPR_NONE) return a;
  /* Where they differ one is 0 and the model does not get there; the plainer one is the size. */
  if (tni_ex_same_unless_zero(in->x, a, b)) return b;
  if (tni_ex_same_unless_zero(in->x, b, a)) return a;
  if (tni_rule_names_equal(in, a, b)) return a;
  *ok = !never_equal(in->x, a, b);
  return tni_ex_is_const(in->x, b, &c) ? b : a;
}

/* cut is min(other, whole), where other differs from whole in one symbol: a mask over one past that is sliced to the
 * length of another. That it might be shorter, and then would not fit, is given up: the two pasts are one. */
static bool is_cut_to(const tni_infer *in, tn_expr cut, tn_expr whole) {
  const uint64_t mask = tni_ex_symbols(in->x, cut) & ~tni_ex_symbols(in->x, whole);
  if (in->concrete || in->g->outer || !tni_ex_is_sum(in->x, whole) || tni_ex_is_sum(in->x, cut)) return false;
  for (tn_id p = 0; p < tni_ex_n_symbols(in->x) && p < 63; p++) {
    if (!(mask >> p & 1)) continue;
    for (tn_id q = 0; q < tni_ex_n_symbols(in->x) && q < 63; q++) {
      if (!(tni_ex_symbols(in->x, whole) >> q & 1)) continue;
      const tn_expr a = tni_ex_sym(in->x, tni_ex_symbol_name(in->x, p)),
                    b = tni_ex_sym(in->x, tni_ex_symbol_name(in->x, q));
      const tn_expr other = tni_ex_add(in->x, tni_ex_sub(in->x, whole, b), a);
      if (tni_ex_min(in->x, other, whole) == cut) return tni_rule_names_equal(in, other, whole);
    }
  }
  return false;
}

/* `more` is what an input says, `some`, and something more: [1, length] or [length, length] meets length + past. Where
 * they differ, some is 1, or it is 0 beside 1, and nobody runs nothing after one position. */
static bool contains_it(const tni_infer *in, tn_expr more, tn_expr some) {
  tn_id sym;
  int64_t lo, hi;
  if (in->concrete || in->g->outer || !tni_ex_is_sum(in->x, more) || !tni_ex_is_sym(in->x, some, &sym) ||
      !is_given(in, sym))
    return false;
  const tn_expr rest = tni_ex_sub(in->x, more, some);
  if (rest == TNI_EXPR_NONE) return false;
  tni_ex_range(in->x, rest, &lo, &hi);
  return lo >= 0;
}

tn_expr tni_rule_broadcast_dim(const tni_infer *in, tn_expr a, tn_expr b, bool *ok) {
  *ok = true;
  if (a == b) return a;
  if (tni_rule_is(in, a, 1)) return b;
  if (tni_rule_is(in, b, 1)) return a;
  bool a_not_1 = a != TNI_EXPR_NONE && never_one(in->x, a), b_not_1 = b != TNI_EXPR_NONE && never_one(in->x, b);
  if (a_not_1 && b_not_1) return tni_rule_same_dim(in, a, b, ok);
  if (a_not_1) return a;
  if (b_not_1) return b;
  if (a == TNI_EXPR_NONE || b == TNI_EXPR_NONE) return TNI_EXPR_NONE;
  /* That one might be 1 and stretched is given up: nobody exports a mask of one entry for several positions. */
  if (tni_rule_names_sum(in, a, b)) return b;
  if (tni_rule_names_sum(in, b, a)) return a;
  if (tni_rule_names_equal(in, a, b)) return a;
  if (contains_it(in, a, b)) return a;
  if (contains_it(in, b, a)) return b;
  if (is_cut_to(in, b, a)) return a;
  if (is_cut_to(in, a, b)) return b;
  /* Where b is 0, a is 0 or 1 in a model that works, and the result is 0. */
  if (tni_ex_same_unless_zero(in->x, a, b)) return b;
  if (tni_ex_same_unless_zero(in->x, b, a)) return a;
  if (bounds_it(in, a, b)) return b;
  if (bounds_it(in, b, a)) return a;
  int64_t la, ha, lb, hb;
  tni_ex_range(in->x, a, &la, &ha);
  tni_ex_range(in->x, b, &lb, &hb);
  tn_expr larger = tni_ex_max(in->x, a, b);
  return la >= 1 && lb >= 1 ? larger : tni_ex_min(in->x, tni_ex_mul(in->x, a, b), larger);
}

tn_status tni_rule_broadcast_with(tni_infer *in, uint32_t i, uint32_t *rank, tn_expr *dims) {
  const tni_value *v = tni_rule_in(in, i);
  if (!v) return tni_rule_fail(in, "operand %u is missing", i);
  if (*rank == TNI_RANK_UNKNOWN || v->pub.rank == TNI_RANK_UNKNOWN) {
    *rank = TNI_RANK_UNKNOWN;
    return TN_OK;
  }
  if (v->pub.rank > TN_MAX_RANK) return tni_rule_fail(in, "operand %u has rank %u", i, v->pub.rank);
  uint32_t r = *rank > v->pub.rank ? *rank : v->pub.rank, pad = r - *rank, vpad = r - v->pub.rank;
  tn_expr out[TN_MAX_RANK];
  for (uint32_t d = 0; d < r; d++) {
    bool ok = true;
    tn_expr a = d < pad ? tni_rule_const(in, 1) : dims[d - pad];
    tn_expr b = d < vpad ? tni_rule_const(in, 1) : v->pub.dims[d - vpad];
    out[d] = tni_rule_broadcast_dim(in, a, b, &ok);
    if (!ok) return tni_rule_fail(in, "operand %u does not broadcast: axis %u differs and neither is 1", i, d);
  }
  memcpy(dims, out, r * sizeof *dims);
  *rank = r;
  return TN_OK;
}

uint32_t tni_val_index(const tni_vals *v, uint32_t orank, const int64_t *odims, uint32_t flat) {
  uint32_t at = 0, stride = 1;
  for (uint32_t k = 0; k < orank; k++) {
    uint32_t d = orank - 1 - k, size = (uint32_t)odims[d], pos = size ? flat % size : 0;
    flat = size ? flat / size : 0;
    if (k >= v->rank) continue;
    uint32_t own = (uint32_t)v->dims[v->rank - 1 - k];
    if (own != 1) at += pos * stride;
    stride *= own;
  }
  return at;
}
