/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/graph/graph_test.h"

static void links(void) {
  fixture f;
  char buf[256];
  fixture_init(&f);
  input(&f, "x", "batch, 4");
  node(&f, "a", "Neg", "x", "t");
  node(&f, "b", "Mul", "t t", "u");
  node(&f, "c", "Add", "u x", "y");
  io(&f, "x", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_STRING_EQUAL(order_of(&f, buf, sizeof buf), "a b c");
  const tni_value *t = tni_graph_value(f.g, val(&f, "t")), *x = tni_graph_value(f.g, val(&f, "x"));
  const tni_value *y = tni_graph_value(f.g, val(&f, "y"));
  CU_ASSERT_EQUAL(t->pub.producer, 0);
  CU_ASSERT_EQUAL(t->pub.n_uses, 2); /* the reader stands twice */
  CU_ASSERT_TRUE(t->pub.uses[0] == 1 && t->pub.uses[1] == 1);
  CU_ASSERT_EQUAL(x->pub.producer, TN_NONE);
  CU_ASSERT_TRUE(x->pub.n_uses == 2 && x->pub.uses[0] == 0 && x->pub.uses[1] == 2);
  CU_ASSERT_EQUAL(y->pub.kind, TN_VALUE_OUTPUT);
  CU_ASSERT_EQUAL(t->pub.kind, TN_VALUE_ACT);
  CU_ASSERT_EQUAL(t->pub.origin, val(&f, "t"));
  CU_ASSERT_EQUAL(t->pub.h.size, sizeof(tn_value));
  CU_ASSERT_EQUAL(f.g->nodes[1]->pub.h.size, sizeof(tn_node));
  CU_ASSERT_PTR_NULL(tni_graph_value(f.g, 1000));
  CU_ASSERT_PTR_NULL(tni_graph_node(f.g, TN_NONE));
  fixture_finish(&f);
}

/* A late node moves before its first reader; the others keep their places. */
static void order_is_stable(void) {
  fixture f;
  char buf[256];
  fixture_init(&f);
  input(&f, "x", "4");
  node(&f, "first", "Neg", "x", "f");
  node(&f, "reader", "Add", "late f", "r");
  node(&f, "other", "Abs", "x", "o");
  node(&f, "last", "Add", "r o", "y");
  node(&f, "late", "Exp", "late0", "late");
  node(&f, "late0", "Exp", "f", "late0");
  io(&f, "x", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_STRING_EQUAL(order_of(&f, buf, sizeof buf), "first late0 late reader other last");
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "late"))->pub.producer, 2);
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "late"))->pub.uses[0], 3);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_STRING_EQUAL(order_of(&f, buf, sizeof buf), "first late0 late reader other last");
  fixture_finish(&f);
}

/* In reverse file order, deeper than any stack would bear. */
static void long_chain(void) {
  enum { N = 300000 };
  fixture f;
  char a[32], b[32];
  fixture_init(&f);
  input(&f, "v0", "4");
  for (int i = N; i-- > 0;) {
    snprintf(a, sizeof a, "v%d", i);
    snprintf(b, sizeof b, "v%d", i + 1);
    if (node(&f, b, "Neg", a, b) != TN_OK) CU_FAIL_FATAL("node");
  }
  snprintf(b, sizeof b, "v%d", N);
  io(&f, "v0", b);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  for (tn_id i = 0; i < N; i++)
    if (atoi(f.g->nodes[i]->pub.name + 1) != (int)i + 1) CU_FAIL_FATAL("order");
  fixture_finish(&f);
}

typedef struct bad_graph {
  const char *what;
  void (*build)(fixture *f);
  tn_status st;
  const char *text;
} bad_graph;

static void cycle3(fixture *f) {
  input(f, "x", "4");
  node(f, "ok", "Neg", "x", "o");
  node(f, "a", "Add", "x c", "a");
  node(f, "b", "Neg", "a", "b");
  node(f, "c", "Neg", "b", "c");
  io(f, "x", "c");
}
static void cycle1(fixture *f) {
  node(f, "self", "Neg", "t", "t");
  io(f, "", "t");
}
static void missing(fixture *f) {
  input(f, "x", "4");
  node(f, "a", "Add", "x ghost", "y");
  io(f, "x", "y");
}
static void missing_output(fixture *f) {
  input(f, "x", "4");
  node(f, "a", "Neg", "x", "t");
  io(f, "x", "ghost");
}
static void two_producers(fixture *f) {
  input(f, "x", "4");
  node(f, "a", "Neg", "x", "t");
  node(f, "b", "Abs", "x", "t");
  io(f, "x", "t");
}
static void writes_input(fixture *f) {
  input(f, "x", "4");
  input(f, "z", "4");
  node(f, "a", "Neg", "x", "z");
  io(f, "x z", "z");
}
static void writes_constant(fixture *f) {
  static float one = 1;
  input(f, "x", "4");
  constant(f, "w", TN_DT_F32, 0, NULL, &one);
  node(f, "a", "Neg", "x", "w");
  io(f, "x", "w");
}
static void same_name(fixture *f) {
  input(f, "x", "4");
  input(f, "x", "5");
  io(f, "x", "x");
}
static void too_few(fixture *f) {
  input(f, "x", "4");
  node(f, "a", "Add", "x", "y");
  io(f, "x", "y");
}
static void too_many(fixture *f) {
  input(f, "x", "4");
  node(f, "a", "Neg", "x x", "y");
  io(f, "x", "y");
}
static void gap(fixture *f) {
  input(f, "x", "4");
  node(f, "a", "Add", "- x", "y");
  io(f, "x", "y");
}
static void no_variadic(fixture *f) {
  node(f, "a", "Max", "", "y");
  io(f, "", "y");
}
static void clip_many(fixture *f) {
  input(f, "x", "4");
  node(f, "a", "Clip", "x x x x", "y");
  io(f, "x", "y");
}
static void no_outputs(fixture *f) {
  input(f, "x", "4");
  node(f, "a", "Neg", "x", "");
  io(f, "x", "x");
}
static void absurd_rank(fixture *f) {
  static const tn_expr dims[9];
  input(f, "x", "4");
  CU_ASSERT_EQUAL(tni_value_set_dims(f->g, val(f, "x"), 9, dims), TN_E_LIMIT);
  f->g->values[0]->pub.rank = 2000000000;
  io(f, "x", "x");
}
static void short_tensor(fixture *f) {
  static float w[5];
  tni_tensor t = {.dtype = TN_DT_F32, .rank = 2, .dims = {2, 3}, .data = w, .bytes = 20};
  CU_ASSERT_EQUAL(tni_value_set_tensor(f->g, val(f, "w"), &t, NULL), TN_OK);
  io(f, "", "w");
}
static void absurd_tensor(fixture *f) {
  tni_tensor t = {.dtype = TN_DT_F32, .rank = 3, .dims = {INT64_MAX, INT64_MAX, 4}, .bytes = 16};
  CU_ASSERT_EQUAL(tni_value_set_tensor(f->g, val(f, "w"), &t, NULL), TN_OK);
  io(f, "", "w");
}
static void absurd_hint(fixture *f) {
  input(f, "x", "4");
  f->g->values[0]->hint_rank = 9;
  io(f, "x", "x");
}
static void no_data(fixture *f) {
  tni_tensor t = {.dtype = TN_DT_F32, .rank = 1, .dims = {2}, .bytes = 8};
  CU_ASSERT_EQUAL(tni_value_set_tensor(f->g, val(f, "w"), &t, NULL), TN_OK);
  io(f, "", "w");
}

static void bad_graphs(void) {
  static const bad_graph rows[] = {
      {"cycle of 3", cycle3, TN_E_INVALID, "cycle of 3 nodes, 'a' -> 'b' -> 'c' -> 'a'|node 'a'"},
      {"cycle of 1", cycle1, TN_E_INVALID, "cycle of 1 node, 'self' -> 'self'|node 'self' (Neg)"},
      {"missing input", missing, TN_E_INVALID, "input 1, 'ghost'|node 'a' (Add)"},
      {"missing output", missing_output, TN_E_INVALID, "output 0 of graph 'test'|@ ghost"},
      {"two producers", two_producers, TN_E_INVALID, "output 't' is written by node 'a' too|node 'b' (Abs)"},
      {"node writes input", writes_input, TN_E_INVALID, "output 'z' is a graph input|node 'a'"},
      {"node writes constant", writes_constant, TN_E_INVALID, "output 'w' is a graph input or a constant|node 'a'"},
      {"same name", same_name, TN_E_INVALID, "two values of graph 'test'|@ x"},
      {"too few inputs", too_few, TN_E_INVALID, "1 inputs, takes 2|node 'a' (Add)"},
      {"too many inputs", too_many, TN_E_INVALID, "2 inputs, takes 1|node 'a' (Neg)"},
      {"absent required input", gap, TN_E_INVALID, "input 0 is missing|node 'a' (Add)"},
      {"empty variadic", no_variadic, TN_E_INVALID, "0 inputs, takes at least 1|node 'a' (Max)"},
      {"more than optional", clip_many, TN_E_INVALID, "4 inputs, takes 1 to 3|node 'a' (Clip)"},
      {"no outputs", no_outputs, TN_E_INVALID, "0 outputs, takes 1|node 'a' (Neg)"},
      {"absurd rank", absurd_rank, TN_E_LIMIT, "rank 2000000000 is above 8|@ x"},
      {"short tensor", short_tensor, TN_E_INVALID, "20 bytes|need 24|@ w"},
      {"absurd tensor", absurd_tensor, TN_E_LIMIT, "overflows|@ w"},
      {"absurd declared rank", absurd_hint, TN_E_LIMIT, "declared rank 9 is above 8|@ x"},
      {"tensor without data", no_data, TN_E_INVALID, "0 bytes|need 8|@ w"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f;
    fixture_init(&f);
    rows[i].build(&f);
    tn_status st = tni_graph_finish(f.g, &f.err);
    if (st != rows[i].st) fprintf(stderr, "\n%s: status %d, %s\n", rows[i].what, st, f.err.message);
    CU_ASSERT_EQUAL(st, rows[i].st);
    CU_ASSERT_TRUE(err_has(&f.err, rows[i].text));
    fixture_finish(&f);
  }
}

/* Trailing empty names are no inputs; optional ones may be empty in the middle; dead nodes are not looked at. */
static void good_edges(void) {
  fixture f;
  fixture_init(&f);
  input(&f, "x", "4");
  node(&f, "a", "Clip", "x - x", "c");
  node(&f, "b", "Neg", "c -", "d");
  node(&f, "d", "Add", "d ghost", "ghost2");
  node(&f, "e", "Dropout", "d", "e -");
  f.g->nodes[node_id(&f, "d")]->dead = true;
  io(&f, "x", "e");
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "d"))->pub.n_uses, 1);
  fixture_finish(&f);
}

static void names(void) {
  fixture f;
  fixture_init(&f);
  tn_id a = tni_graph_add_value(f.g, "%0", TN_VALUE_ACT, TN_DT_F32);
  tn_id b = tni_graph_add_value(f.g, "", TN_VALUE_ACT, TN_DT_F32);
  tn_id c = tni_graph_add_value(f.g, NULL, TN_VALUE_ACT, TN_DT_F32);
  CU_ASSERT_STRING_NOT_EQUAL(f.g->values[a]->pub.name, f.g->values[b]->pub.name);
  CU_ASSERT_STRING_NOT_EQUAL(f.g->values[b]->pub.name, f.g->values[c]->pub.name);
  CU_ASSERT_EQUAL(tni_graph_find(f.g, f.g->values[c]->pub.name), c);
  CU_ASSERT_EQUAL(tni_graph_find(f.g, "none"), TN_NONE);
  input(&f, "x", "4");
  node(&f, "", "Neg", "x", "y");
  node(&f, "", "Neg", "x", "z");
  CU_ASSERT_STRING_EQUAL(f.g->nodes[1]->pub.name, "Neg_1");
  tn_id bad = 12345;
  tn_id id = 77;
  CU_ASSERT_EQUAL(tni_graph_add_node(f.g, "n", "", "Neg", 17, &bad, 1, &a, 1, NULL, 0, &id, &f.err), TN_E_INTERNAL);
  CU_ASSERT_EQUAL(id, 77);
  CU_ASSERT_EQUAL(tni_graph_set_io(f.g, &bad, 1, &a, 1), TN_E_INTERNAL);
  CU_ASSERT_EQUAL(tni_value_set_dims(f.g, bad, 0, NULL), TN_E_INTERNAL);
  fixture_finish(&f);
}

/* Nodes added after finish are linked at once. */
static void links_before_finish(void) {
  fixture f;
  fixture_init(&f);
  input(&f, "x", "4");
  node(&f, "a", "Neg", "x", "y");
  io(&f, "x", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  node(&f, "b", "Abs", "y", "z");
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "y"))->pub.n_uses, 1);
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "z"))->pub.producer, 1);
  f.g->nodes[0]->dead = true;
  node(&f, "c", "Exp", "x", "y"); /* takes over from a dead one */
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "y"))->pub.producer, 2);
  node(&f, "d", "Split", "x", "s z"); /* while the other maker of z is alive still */
  f.g->nodes[1]->dead = true;
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "z"))->pub.producer, 3);
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "z"))->out_index, 1);
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "s"))->out_index, 0);
  fixture_finish(&f);
}

void add_build_suite(void) {
  CU_pSuite s = CU_add_suite("build and verify", NULL, NULL);
  CU_add_test(s, "links", links);
  CU_add_test(s, "order is stable", order_is_stable);
  CU_add_test(s, "long chain", long_chain);
  CU_add_test(s, "bad graphs", bad_graphs);
  CU_add_test(s, "good edges", good_edges);
  CU_add_test(s, "names", names);
  CU_add_test(s, "links before finish", links_before_finish);
}
