/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/graph/graph_test.h"

static char *dump(const tni_graph *g, void (*fn)(const tni_graph *, FILE *)) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  if (!f) CU_FAIL_FATAL("memory");
  fn(g, f);
  fclose(f);
  return text;
}

static void build(fixture *f) {
  static float w[12], eps[] = {0.5f};
  static const int64_t perm[] = {1, 0}, shape[] = {-1, 4};
  fixture_init(f);
  input(f, "x", "batch, ?");
  input(f, "odd\"name\\\n\x01", NULL);
  constant(f, "w", TN_DT_F32, 2, (const int64_t[]){3, 4}, w);
  constant(f, "to", TN_DT_I64, 1, (const int64_t[]){2}, (void *)shape);
  constant(f, "eps", TN_DT_F32, 0, NULL, eps);
  tni_raw_attr p = raw_ints("perm", perm, 2), k = raw_string("kind", "a\"b");
  node_raw(f, "t", "Transpose", 17, "w", "wt", &p, 1);
  node(f, "mm", "MatMul", "x wt", "y");
  node(f, "sh", "Shape", "y", "s");
  node_raw(f, "what", "Mystery", 17, "y -", "z", &k, 1);
  io(f, "x odd\"name\\\n\x01", "z");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f->g, &f->err), TN_OK);
}

static void text(void) {
  static const char expected[] =
      "graph \"test\" {\n"
      "  symbol \"batch\" in 0..2147483647\n"
      "  input \"x\": float32[batch, ?]\n"
      "  input \"odd\\\"name\\\\\\n\\\\x01\": float32[...]\n"
      "  output \"z\": float32[...]\n"
      "  const \"w\": float32[3, 4]\n"
      "  const \"to\": int64[2] = [-1, 4]\n"
      "  const \"eps\": float32[] = [0.5]\n"
      "  Transpose \"t\" (\"w\": float32[3, 4]) -> (\"wt\": float32[...]) {perm=[1, 0]}\n"
      "  MatMul \"mm\" (\"x\": float32[batch, ?], \"wt\": float32[...]) -> (\"y\": float32[...])\n"
      "  Shape \"sh\" (\"y\": float32[...]) -> (\"s\": float32[...]) {start=0}\n"
      "  Mystery \"what\" (\"y\": float32[...], -) -> (\"z\": float32[...]) {kind=\"a\\\"b\"} # unknown to opset 17\n"
      "}\n";
  fixture f;
  build(&f);
  char *got = dump(f.g, tni_graph_dump_text);
  CU_ASSERT_STRING_EQUAL(got, expected);
  if (strcmp(got, expected) != 0) fprintf(stderr, "\n%s", got);
  free(got);
  fixture_finish(&f);
}

static void subgraph(fixture *f) {
  fixture_init(f);
  input(f, "cond", "");
  fixture t, e;
  t.g = e.g = NULL;
  tni_error_init(&t.err);
  tni_error_init(&e.err);
  CU_ASSERT_EQUAL(tni_graph_create(f->g->exprs, "then", &t.g, &t.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_create(f->g->exprs, "else", &e.g, &e.err), TN_OK);
  node(&t, "n", "Not", "cond", "r");
  io(&t, "", "r");
  node(&e, "n", "Not", "cond", "r");
  io(&e, "", "r");
  tni_raw_attr raw[] = {raw_graph("then_branch", &t.g), raw_graph("else_branch", &e.g)};
  CU_ASSERT_EQUAL(node_raw(f, "if", "If", 17, "cond", "y", raw, 2), TN_OK);
  io(f, "cond", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f->g, &f->err), TN_OK);
}

static void text_of_subgraphs(void) {
  fixture f;
  subgraph(&f);
  char *got = dump(f.g, tni_graph_dump_text);
  CU_ASSERT_PTR_NOT_NULL(strstr(got, "If \"if\" (\"cond\": float32[]) -> (\"y\": float32[...]) {then_branch={...}, "));
  CU_ASSERT_PTR_NOT_NULL(strstr(got, "\n    then_branch = graph \"then\" {\n      output \"r\""));
  CU_ASSERT_PTR_NOT_NULL(strstr(got, "\n      captured \"cond\": float32[]\n"));
  CU_ASSERT_PTR_NOT_NULL(strstr(got, "\n    }\n  }\n") ? got : strstr(got, "\n    }\n}\n"));
  free(got);
  fixture_finish(&f);
}

static void dot(void) {
  fixture f;
  build(&f);
  char *got = dump(f.g, tni_graph_dump_dot);
  CU_ASSERT_PTR_NOT_NULL(strstr(got, "digraph \"test\" {"));
  CU_ASSERT_PTR_NOT_NULL(strstr(got, "odd\\\"name\\\\\\n\\\\x01"));
  CU_ASSERT_PTR_NOT_NULL(strstr(got, "n0 -> n1 [label=\"float32[...]\"];"));
  CU_ASSERT_PTR_NOT_NULL(strstr(got, "v0 -> n1 [label=\"float32[batch, ?]\"];"));
  free(got);
  fixture_finish(&f);
  subgraph(&f);
  got = dump(f.g, tni_graph_dump_dot);
  CU_ASSERT_PTR_NOT_NULL(strstr(got, "subgraph cluster_n0s0_ {"));
  CU_ASSERT_PTR_NOT_NULL(strstr(got, "n0s1_n0"));
  free(got);
  fixture_finish(&f);
}

void add_dump_suite(void) {
  CU_pSuite s = CU_add_suite("dumps", NULL, NULL);
  CU_add_test(s, "text", text);
  CU_add_test(s, "text of subgraphs", text_of_subgraphs);
  CU_add_test(s, "dot", dot);
}
