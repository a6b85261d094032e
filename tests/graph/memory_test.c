/* SPDX-License-Identifier: Apache-2.0
 *
 * Building, finishing, editing and viewing a graph with the n-th allocation failing, for every n: a status or TN_NONE,
 * no crash, no leak (the sanitizers watch), and success once n is past the last one. Linked with --wrap.
 */
#include <stdlib.h>

#include "tests/graph/graph_test.h"

static long budget = -1; /* allocations left before one fails; negative: none fails */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t n);

static int fails(void) { return budget >= 0 && budget-- == 0; }
void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_aligned_alloc(size_t align, size_t n) { return fails() ? NULL : __real_aligned_alloc(align, n); }

static tn_status add(tni_graph *g, const char *type, tn_id in, tn_id out, const tni_raw_attr *raw, uint32_t n_raw,
                     tn_error *err) {
  if (out == TN_NONE) return TN_E_NO_MEMORY;
  return tni_graph_add_node(g, "", "", type, 17, &in, 1, &out, 1, raw, n_raw, NULL, err);
}

static tn_status make_branch(tni_graph *outer, tni_graph **out, tn_error *err) {
  tn_status st = tni_graph_create(outer->exprs, "branch", out, err);
  if (st != TN_OK) return st;
  tn_id x = tni_graph_add_value(*out, "x", TN_VALUE_ACT, TN_DT_F32);
  tn_id r = x == TN_NONE ? TN_NONE : tni_graph_add_value(*out, "r", TN_VALUE_ACT, TN_DT_F32);
  st = add(*out, "Neg", x, r, NULL, 0, err);
  if (st == TN_OK) st = tni_graph_set_io(*out, NULL, 0, &r, 1);
  if (st == TN_OK) return TN_OK;
  tni_graph_destroy(*out);
  return st;
}

static tn_status add_if(tni_graph *g, tn_id cond, tn_id out, tn_error *err) {
  tni_graph *t, *e;
  tn_status st = make_branch(g, &t, err);
  if (st != TN_OK) return st;
  st = make_branch(g, &e, err);
  if (st != TN_OK) {
    tni_graph_destroy(t);
    return st;
  }
  tni_raw_attr raw[] = {raw_graph("then_branch", &t), raw_graph("else_branch", &e)};
  return add(g, "If", cond, out, raw, 2, err);
}

/* Enough values and nodes that arrays, the arena and the index of names grow. */
static tn_status build(tni_graph *g, tn_error *err) {
  static float w[6];
  const tni_tensor t = {.dtype = TN_DT_F32, .rank = 2, .dims = {2, 3}, .data = w, .bytes = sizeof w};
  const tn_id x = tni_graph_add_value(g, "x", TN_VALUE_INPUT, TN_DT_F32);
  const tn_id c = tni_graph_add_value(g, "c", TN_VALUE_CONST, TN_DT_F32);
  if (x == TN_NONE || c == TN_NONE) return TN_E_NO_MEMORY;
  tn_expr n = tni_ex_sym(g->exprs, "n");
  if (n == TNI_EXPR_NONE) return TN_E_NO_MEMORY;
  tn_status st = tni_value_set_dims(g, x, 1, &n);
  if (st == TN_OK) st = tni_value_set_tensor(g, c, &t, NULL);
  tn_id last = x;
  for (int i = 0; i < 40 && st == TN_OK; i++) {
    tn_id out = tni_graph_add_value(g, "", TN_VALUE_ACT, TN_DT_F32);
    st = add(g, i % 2 ? "Neg" : "Identity", last, out, NULL, 0, err);
    last = out;
  }
  tn_id y = st == TN_OK ? tni_graph_add_value(g, "y", TN_VALUE_ACT, TN_DT_F32) : TN_NONE;
  if (st == TN_OK) st = add_if(g, last, y, err);
  return st == TN_OK ? tni_graph_set_io(g, &x, 1, &y, 1) : st;
}

static tn_status whole_life(tn_error *err) {
  tni_graph *g;
  tn_graph view;
  tn_status st = tni_graph_create(NULL, "g", &g, err);
  if (st != TN_OK) return st;
  st = build(g, err);
  if (st == TN_OK) st = tni_graph_finish(g, err);
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++)
    if (g->nodes[i]->pub.op == TN_OP_IDENTITY)
      st = tni_graph_replace(g, g->nodes[i]->pub.out[0], g->nodes[i]->pub.in[0]);
  if (st == TN_OK) tni_graph_dce(g);
  if (st == TN_OK) st = tni_graph_compact(g, err);
  if (st == TN_OK) st = tni_graph_view(g, TN_PHASE_ANY, &view, err);
  if (st == TN_OK) CU_ASSERT_EQUAL(view.n_nodes, 21);
  tni_graph_destroy(g);
  return st;
}

static void every_allocation(void) {
  tn_error err;
  long n = 0;
  tn_status st = TN_E_NO_MEMORY;
  for (; st != TN_OK && n < 5000; n++) {
    tni_error_init(&err);
    budget = n;
    st = whole_life(&err);
    budget = -1;
    CU_ASSERT_TRUE(st == TN_OK || st == TN_E_NO_MEMORY);
  }
  CU_ASSERT_EQUAL(st, TN_OK);
  CU_ASSERT_TRUE(n > 20);
}

void add_memory_suite(void) {
  CU_pSuite s = CU_add_suite("memory", NULL, NULL);
  CU_add_test(s, "every allocation fails once", every_allocation);
}
