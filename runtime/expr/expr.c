/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/expr/expressions.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/expr/nodes.h"

tni_exprs *tni_exprs_create(void) {
  tni_exprs *x = calloc(1, sizeof *x);
  if (!x) return NULL;
  x->arena = tni_arena_create();
  x->names = tni_map_create();
  x->cap_slots = 256;
  x->slots = malloc(x->cap_slots * sizeof *x->slots);
  if (!x->arena || !x->names || !x->slots) {
    tni_exprs_destroy(x);
    return NULL;
  }
  memset(x->slots, 0xff, x->cap_slots * sizeof *x->slots);
  return x;
}

void tni_exprs_destroy(tni_exprs *x) {
  if (!x) return;
  tni_arena_destroy(x->arena);
  tni_map_destroy(x->names);
  free(x->nodes);
  free(x->slots);
  free(x->symbols);
  free(x);
}

static uint64_t mix_hash(uint64_t h, uint64_t v) {
  h ^= v + UINT64_C(0x9e3779b97f4a7c15) + (h << 6) + (h >> 2);
  h *= UINT64_C(0xff51afd7ed558ccd);
  return h ^ (h >> 32);
}

static uint32_t node_hash(const tni_ex_node *n) {
  uint64_t h = mix_hash(n->kind, n->n);
  if (n->kind == TNI_EX_CONST) return (uint32_t)mix_hash(h, (uint64_t)n->u.v);
  if (n->kind == TNI_EX_SYM) return (uint32_t)mix_hash(h, n->u.sym);
  for (uint32_t i = 0; i < n->n; i++) {
    if (n->kind != TNI_EX_ADD) {
      h = mix_hash(h, n->u.args[i]);
      continue;
    }
    const tni_term *t = &n->u.terms[i];
    h = mix_hash(mix_hash(h, (uint64_t)t->coef), t->degree);
    for (uint32_t k = 0; k < t->degree; k++) h = mix_hash(h, t->atom[k]);
  }
  return (uint32_t)h;
}

static bool node_equal(const tni_ex_node *a, const tni_ex_node *b) {
  if (a->hash != b->hash || a->kind != b->kind || a->n != b->n) return false;
  if (a->kind == TNI_EX_CONST) return a->u.v == b->u.v;
  if (a->kind == TNI_EX_SYM) return a->u.sym == b->u.sym;
  if (a->kind != TNI_EX_ADD) return memcmp(a->u.args, b->u.args, a->n * sizeof *a->u.args) == 0;
  for (uint32_t i = 0; i < a->n; i++)
    if (a->u.terms[i].coef != b->u.terms[i].coef || tni_term_cmp(&a->u.terms[i], &b->u.terms[i]) != 0) return false;
  return true;
}

/* Adds what one child brings: depth, unfolded size, symbols; and notes that a symbol is in use. */
static void take_child(tni_exprs *x, tni_ex_node *n, tn_expr child) {
  const tni_ex_node *c = &x->nodes[child];
  if (c->depth >= n->depth) n->depth = (uint8_t)(c->depth + 1);
  n->tree += c->tree;
  n->symbols |= c->symbols;
  if (c->kind == TNI_EX_SYM) x->symbols[c->u.sym].used = true;
}

static bool copy_payload(tni_exprs *x, tni_ex_node *n) {
  n->tree = 1;
  if (n->kind == TNI_EX_CONST) return true;
  if (n->kind == TNI_EX_SYM) {
    n->symbols = tni_symbol_bit(n->u.sym);
    return true;
  }
  for (uint32_t i = 0; i < n->n; i++) {
    if (n->kind != TNI_EX_ADD) take_child(x, n, n->u.args[i]);
    for (uint32_t k = 0; n->kind == TNI_EX_ADD && k < n->u.terms[i].degree; k++)
      take_child(x, n, n->u.terms[i].atom[k]);
    if (n->tree > TREE_MAX || n->depth > DEPTH_MAX) return false;
  }
  if (n->kind == TNI_EX_ADD)
    n->u.terms = tni_arena_memdup(x->arena, n->u.terms, n->n * sizeof *n->u.terms, _Alignof(tni_term));
  else
    n->u.args = tni_arena_memdup(x->arena, n->u.args, n->n * sizeof *n->u.args, _Alignof(tn_expr));
  return n->kind == TNI_EX_ADD ? n->u.terms != NULL : n->u.args != NULL;
}

static bool grow_slots(tni_exprs *x) {
  uint32_t cap = x->cap_slots * 2;
  tn_expr *slots = malloc(cap * sizeof *slots);
  if (!slots) return !(x->lacked = true);
  memset(slots, 0xff, cap * sizeof *slots);
  for (uint32_t id = 0; id < x->n_nodes; id++) {
    uint32_t i = x->nodes[id].hash & (cap - 1);
    while (slots[i] != TNI_EXPR_NONE) i = (i + 1) & (cap - 1);
    slots[i] = id;
  }
  free(x->slots);
  x->slots = slots;
  x->cap_slots = cap;
  return true;
}

void tni_ex_bill(tni_exprs *x, tni_budget *b) {
  x->budget = b;
  tni_arena_bill(x->arena, b);
}

tni_budget *tni_ex_budget(const tni_exprs *x) { return x->budget; }

bool tni_ex_short(const tni_exprs *x) { return x->lacked || tni_arena_short(x->arena); }

static bool reserve_node(tni_exprs *x) {
  if (x->n_nodes >= NODES_MAX) return false;
  if (x->n_nodes * 2 >= x->cap_slots && !grow_slots(x)) return false;
  if (x->n_nodes < x->cap_nodes) return true;
  uint32_t cap = x->cap_nodes ? x->cap_nodes * 2 : 128;
  tni_ex_node *nodes = realloc(x->nodes, cap * sizeof *nodes);
  if (!nodes) return !(x->lacked = true);
  x->nodes = nodes;
  x->cap_nodes = cap;
  return true;
}

tn_expr tni_ex_intern(tni_exprs *x, tni_ex_node node) {
  node.hash = node_hash(&node);
  uint32_t i = node.hash & (x->cap_slots - 1);
  for (; x->slots[i] != TNI_EXPR_NONE; i = (i + 1) & (x->cap_slots - 1))
    if (node_equal(&x->nodes[x->slots[i]], &node)) return x->slots[i];
  if (!reserve_node(x) || !copy_payload(x, &node)) return TNI_EXPR_NONE;
  node.range = tni_node_range(x, &node);
  for (i = node.hash & (x->cap_slots - 1); x->slots[i] != TNI_EXPR_NONE;) i = (i + 1) & (x->cap_slots - 1);
  x->nodes[x->n_nodes] = node;
  return x->slots[i] = x->n_nodes++;
}

tn_expr tni_ex_intern_args(tni_exprs *x, tni_ex_kind kind, const tn_expr *args, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!tni_ex_valid(x, args[i])) return TNI_EXPR_NONE;
  return tni_ex_intern(x, (tni_ex_node){.kind = (uint8_t)kind, .n = (uint16_t)n, .u.args = args});
}

tn_expr tni_ex_const(tni_exprs *x, int64_t v) {
  return tni_ex_intern(x, (tni_ex_node){.kind = TNI_EX_CONST, .u.v = v});
}

static bool reserve_symbol(tni_exprs *x) {
  if (x->n_symbols < x->cap_symbols) return true;
  if (x->n_symbols >= NODES_MAX) return false;
  uint32_t cap = x->cap_symbols ? x->cap_symbols * 2 : 16;
  tni_ex_symbol_info *s = realloc(x->symbols, cap * sizeof *s);
  if (!s) return !(x->lacked = true);
  x->symbols = s;
  x->cap_symbols = cap;
  return true;
}

tn_expr tni_ex_sym(tni_exprs *x, const char *name) {
  uint64_t at;
  if (!name || !*name) return TNI_EXPR_NONE;
  if (tni_map_get_str(x->names, name, &at)) {
    const tni_ex_symbol_info *s = &x->symbols[at];
    return s->definition != TNI_EXPR_NONE ? s->definition : s->node;
  }
  const char *copy = tni_arena_strdup(x->arena, name);
  if (!copy || !reserve_symbol(x)) return TNI_EXPR_NONE;
  tn_id id = x->n_symbols;
  x->symbols[id] = (tni_ex_symbol_info){.name = copy, .definition = TNI_EXPR_NONE, .range = {0, INT32_MAX}};
  tn_expr e = tni_ex_intern(x, (tni_ex_node){.kind = TNI_EX_SYM, .u.sym = id});
  if (e != TNI_EXPR_NONE && !tni_map_put_str(x->names, name, id)) x->lacked = true;
  if (e == TNI_EXPR_NONE || x->lacked) return TNI_EXPR_NONE;
  x->symbols[id].node = e;
  x->n_symbols++;
  return e;
}
