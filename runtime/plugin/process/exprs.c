/* SPDX-License-Identifier: Apache-2.0
 *
 * The table as bytes, ids and all.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/expr/expr.h"
#include "runtime/plugin/process/exprs.h"

void tni_exprs_write(const tni_exprs *x, tni_wire *w) {
  tni_w_u32(w, x->n_symbols);
  for (uint32_t i = 0; i < x->n_symbols; i++) {
    const tni_ex_symbol_info *s = &x->symbols[i];
    tni_w_str(w, s->name);
    tni_w_u32(w, s->node);
    tni_w_u32(w, s->definition);
    tni_w_i64(w, s->range.lo);
    tni_w_i64(w, s->range.hi);
  }
  tni_w_u32(w, x->n_nodes);
  for (uint32_t i = 0; i < x->n_nodes; i++) {
    const tni_ex_node *n = &x->nodes[i];
    tni_w_bytes(w, n, sizeof *n);
    if (n->kind == TNI_EX_ADD)
      tni_w_bytes(w, n->u.terms, n->n * sizeof *n->u.terms);
    else if (n->kind != TNI_EX_CONST && n->kind != TNI_EX_SYM)
      tni_w_bytes(w, n->u.args, n->n * sizeof *n->u.args);
  }
  tni_w_u32(w, x->n_defined);
  tni_w_u64(w, x->defined);
  tni_w_array(w, x->facts, x->n_facts, sizeof *x->facts);
}

static bool read_symbols(tni_exprs *x, tni_rd *r) {
  const uint32_t n = tni_r_count(r, 28, NODES_MAX);
  x->symbols = calloc((size_t)n + 1, sizeof *x->symbols);
  if (!x->symbols) return false;
  x->cap_symbols = n + 1;
  for (; x->n_symbols < n; x->n_symbols++) {
    tni_ex_symbol_info *s = &x->symbols[x->n_symbols];
    s->name = tni_r_str(r, x->arena, 1 << 16);
    s->node = tni_r_u32(r);
    s->definition = tni_r_u32(r);
    s->range.lo = tni_r_i64(r);
    s->range.hi = tni_r_i64(r);
    s->used = true;
    if (r->bad || !s->name || !tni_map_put_str(x->names, s->name, x->n_symbols)) return false;
  }
  return true;
}

static bool all_below(const tn_expr *v, uint32_t n, uint32_t end) {
  for (uint32_t i = 0; i < n; i++)
    if (v[i] >= end) return false;
  return true;
}

static bool read_payload(tni_exprs *x, tni_ex_node *n, uint32_t id, tni_rd *r) {
  if (n->kind == TNI_EX_CONST) return true;
  if (n->kind == TNI_EX_SYM) return n->u.sym < x->n_symbols;
  const bool sum = n->kind == TNI_EX_ADD;
  const size_t each = sum ? sizeof(tni_term) : sizeof(tn_expr);
  if (n->kind > TNI_EX_EXACTDIV || n->n > TERMS_MAX) return false;
  const void *p = tni_r_bytes(r, n->n * each);
  void *copy = p ? tni_arena_memdup(x->arena, p, n->n * each + !n->n, 16) : NULL;
  if (!copy) return false;
  if (!sum) {
    n->u.args = copy;
    return all_below(copy, n->n, id);
  }
  n->u.terms = copy;
  for (uint32_t i = 0; i < n->n; i++)
    if (n->u.terms[i].degree > DEGREE_MAX || !all_below(n->u.terms[i].atom, n->u.terms[i].degree, id)) return false;
  return true;
}

static bool read_nodes(tni_exprs *x, tni_rd *r) {
  const uint32_t n = tni_r_count(r, sizeof(tni_ex_node), NODES_MAX);
  uint32_t slots = 256;
  while (slots < n * 2 + 2) slots *= 2;
  free(x->slots);
  x->slots = malloc(slots * sizeof *x->slots);
  x->nodes = calloc((size_t)n + 1, sizeof *x->nodes);
  if (!x->slots || !x->nodes) return false;
  memset(x->slots, 0xff, slots * sizeof *x->slots);
  x->cap_slots = slots;
  x->cap_nodes = n + 1;
  for (uint32_t id = 0; id < n; id++) {
    const void *p = tni_r_bytes(r, sizeof(tni_ex_node));
    if (!p) return false;
    memcpy(&x->nodes[id], p, sizeof *x->nodes);
    if (!read_payload(x, &x->nodes[id], id, r)) return false;
    x->n_nodes = id + 1;
    uint32_t at = x->nodes[id].hash & (slots - 1);
    while (x->slots[at] != TNI_EXPR_NONE) at = (at + 1) & (slots - 1);
    x->slots[at] = id;
  }
  for (uint32_t i = 0; i < x->n_symbols; i++)
    if (x->symbols[i].node >= n || (x->symbols[i].definition >= n && x->symbols[i].definition != TNI_EXPR_NONE))
      return false;
  return true;
}

tni_exprs *tni_exprs_read(tni_rd *r) {
  tni_exprs *x = tni_exprs_create();
  uint32_t n = 0;
  if (!x) return NULL;
  bool ok = read_symbols(x, r) && read_nodes(x, r);
  x->n_defined = tni_r_u32(r);
  x->defined = tni_r_u64(r);
  const tn_expr *facts = tni_r_array(r, x->arena, &n, sizeof *facts, FACTS_MAX);
  ok = ok && !r->bad && facts && all_below(facts, n, x->n_nodes);
  if (ok && n) memcpy(x->facts, facts, n * sizeof *facts);
  x->n_facts = n;
  if (ok) return x;
  tni_exprs_destroy(x);
  return NULL;
}
