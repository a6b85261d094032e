/* SPDX-License-Identifier: Apache-2.0
 *
 * branch: which branch comes in the place of an If, and which If stays.
 */
#include <string.h>

#include "tests/passes/forms.h"

#include "runtime/passes/forms/forms.h"

enum { THEN, ELSE, STAYS };

/* A branch of one node that reads x around it. */
static tni_graph *branch_of(tni_graph *g, const char *op, tn_error *err) {
  tni_graph *sub;
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(g->exprs, op, &sub, err), TN_OK);
  const tn_id x = tni_graph_add_value(sub, "x", TN_VALUE_ACT, TN_DT_UNDEFINED);
  const tn_id r = tni_graph_add_value(sub, "r", TN_VALUE_ACT, TN_DT_F32);
  CU_ASSERT_EQUAL(tni_graph_add_node(sub, op, "", op, 13, &x, 1, &r, 1, NULL, 0, NULL, err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_set_io(sub, NULL, 0, &r, 1), TN_OK);
  return sub;
}

static tn_id condition(tni_graph *g, uint32_t rank, const bool *value) {
  static const int64_t dims[] = {1, 2};
  const tn_id c = tni_graph_add_value(g, "c", TN_VALUE_INPUT, TN_DT_BOOL);
  tni_tensor t = {.dtype = TN_DT_BOOL, .rank = rank, .data = (void *)(uintptr_t)value, .bytes = rank > 1 ? 2 : 1};
  memcpy(t.dims, dims, rank * sizeof *dims);
  CU_ASSERT_EQUAL(value ? tni_value_set_tensor(g, c, &t, NULL) : tni_value_set_dims(g, c, 0, NULL), TN_OK);
  return c;
}

static void check(uint32_t rank, const bool *value, int want) {
  tn_error err;
  tni_graph *g;
  uint32_t n = 9;
  tni_error_init(&err);
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "g", &g, &err), TN_OK);
  const tn_id in[] = {condition(g, rank, value), tni_graph_add_value(g, "x", TN_VALUE_INPUT, TN_DT_F32)};
  const tn_expr two[] = {tni_ex_const(g->exprs, 2)};
  CU_ASSERT_EQUAL(tni_value_set_dims(g, in[1], 1, two), TN_OK);
  const tn_id y = tni_graph_add_value(g, "y", TN_VALUE_ACT, TN_DT_UNDEFINED);
  tni_graph *sub[] = {branch_of(g, "Neg", &err), branch_of(g, "Abs", &err)};
  tni_raw_attr raw[] = {{.name = "then_branch", .a = {.type = TN_ATTR_GRAPH}, .graphs = &sub[0], .n_graphs = 1},
                        {.name = "else_branch", .a = {.type = TN_ATTR_GRAPH}, .graphs = &sub[1], .n_graphs = 1}};
  CU_ASSERT_EQUAL(tni_graph_add_node(g, "if", "", "If", 16, in, 1, &y, 1, raw, 2, NULL, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_set_io(g, value ? in + 1 : in, value ? 1 : 2, &y, 1), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(g, &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_infer_graph(g, &err), TN_OK);
  CU_ASSERT_EQUAL(g->values[y]->pub.dtype, TN_DT_F32); /* the branches say it */
  CU_ASSERT_EQUAL(g->values[y]->pub.rank, TNI_RANK_UNKNOWN);
  CU_ASSERT_EQUAL_FATAL(tni_pass_branch(g, &n, &err), TN_OK);
  CU_ASSERT_EQUAL(n, want != STAYS);
  CU_ASSERT_EQUAL_FATAL(tni_graph_compact(g, &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_infer_graph(g, &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(g->n_nodes, 1);
  CU_ASSERT_STRING_EQUAL(g->nodes[0]->type, want == THEN ? "Neg" : want == ELSE ? "Abs" : "If");
  if (want != STAYS) CU_ASSERT_EQUAL(g->values[g->outputs[0]]->pub.rank, 1); /* dims are known behind it now */
  tni_graph_destroy(g);
}

static void branches(void) {
  static const bool yes[] = {true, true}, no[] = {false};
  check(0, yes, THEN);
  check(1, yes, THEN); /* exporters write it as a vector of one */
  check(0, no, ELSE);
  check(2, yes, STAYS);
  check(0, NULL, STAYS);
}

CU_pSuite suite_branch(void) {
  CU_pSuite s = CU_add_suite("branch", NULL, NULL);
  if (!s || !CU_add_test(s, "branches", branches)) return NULL;
  return s;
}
