/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/graph/graph_test.h"

static const tni_value *value(fixture *f, const char *name) {
  return tni_graph_value(f->g, tni_graph_find(f->g, name));
}

static void build(fixture *f) {
  static float w[4];
  fixture_init(f);
  input(f, "x", "n, 4");
  constant(f, "w", TN_DT_F32, 1, (const int64_t[]){4}, w);
  constant(f, "unused", TN_DT_F32, 1, (const int64_t[]){4}, w);
  node(f, "id", "Identity", "x", "t");
  node(f, "add", "Add", "t w", "u");
  node(f, "side", "Exp", "t", "s");
  node(f, "side2", "Exp", "s", "s2");
  node(f, "out", "Neg", "u", "y");
  io(f, "x", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f->g, &f->err), TN_OK);
}

static void replace_uses(void) {
  fixture f;
  build(&f);
  tn_id t = val(&f, "t"), x = val(&f, "x");
  CU_ASSERT_EQUAL(tni_graph_replace(f.g, t, x), TN_OK);
  CU_ASSERT_EQUAL(value(&f, "t")->pub.n_uses, 0);
  CU_ASSERT_EQUAL(value(&f, "x")->pub.n_uses, 3);
  CU_ASSERT_EQUAL(f.g->nodes[node_id(&f, "add")]->pub.in[0], x);
  CU_ASSERT_EQUAL(f.g->nodes[node_id(&f, "side")]->pub.in[0], x);
  CU_ASSERT_EQUAL(tni_graph_replace(f.g, x, x), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_replace(f.g, 1000, x), TN_E_INTERNAL);
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 3);
  CU_ASSERT_TRUE(f.g->nodes[node_id(&f, "id")]->dead);
  CU_ASSERT_EQUAL(value(&f, "x")->pub.n_uses, 1);
  fixture_finish(&f);
}

static void dce_chains(void) {
  fixture f;
  build(&f);
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 2);
  CU_ASSERT_TRUE(f.g->nodes[node_id(&f, "side")]->dead && f.g->nodes[node_id(&f, "side2")]->dead);
  CU_ASSERT_EQUAL(value(&f, "t")->pub.n_uses, 1);
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 0);
  /* a pass that marks a node dead itself */
  f.g->nodes[node_id(&f, "out")]->dead = true;
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 2);
  CU_ASSERT_EQUAL(value(&f, "w")->pub.n_uses, 0);
  fixture_finish(&f);
}

/* A node appended since finish stands after its consumer's place; dce still sees all. */
static void dce_without_order(void) {
  fixture f;
  build(&f);
  node(&f, "p", "Neg", "q", "p");
  node(&f, "q", "Neg", "x", "q");
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 4);
  CU_ASSERT_EQUAL(value(&f, "x")->pub.n_uses, 1);
  fixture_finish(&f);
}

static void compact_renumbers(void) {
  fixture f;
  char buf[128];
  build(&f);
  tn_id old_y = val(&f, "y");
  CU_ASSERT_EQUAL(tni_graph_replace(f.g, val(&f, "t"), val(&f, "x")), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 3);
  CU_ASSERT_EQUAL_FATAL(tni_graph_compact(f.g, &f.err), TN_OK);
  CU_ASSERT_STRING_EQUAL(order_of(&f, buf, sizeof buf), "add out");
  CU_ASSERT_EQUAL(f.g->n_nodes, 2);
  CU_ASSERT_EQUAL(f.g->n_values, 4);
  CU_ASSERT_EQUAL(tni_graph_find(f.g, "unused"), TN_NONE);
  CU_ASSERT_EQUAL(tni_graph_find(f.g, "t"), TN_NONE);
  const tni_value *u = value(&f, "u"), *y = value(&f, "y");
  CU_ASSERT_EQUAL(u->pub.producer, 0);
  CU_ASSERT_TRUE(u->pub.n_uses == 1 && u->pub.uses[0] == 1);
  CU_ASSERT_EQUAL(f.g->outputs[0], tni_graph_find(f.g, "y"));
  CU_ASSERT_EQUAL(f.g->nodes[1]->pub.in[0], tni_graph_find(f.g, "u"));
  CU_ASSERT_TRUE(tni_graph_find(f.g, "y") != old_y);
  CU_ASSERT_EQUAL(y->pub.origin, old_y); /* ids of the imported graph stay known */
  fixture_finish(&f);
}

/* STATE values keep the STEP values that they name, under new ids; unused inputs and second outputs stay. */
static void compact_keeps(void) {
  fixture f;
  build(&f);
  tn_id state = tni_graph_add_value(f.g, "kv", TN_VALUE_STATE, TN_DT_F32);
  tn_id pos = tni_graph_add_value(f.g, "pos", TN_VALUE_STEP, TN_DT_I64);
  tn_state s = {.h = TN_HDR(tn_state), .axis = 2, .pos = pos, .valid = TN_NONE};
  f.g->values[state]->pub.state = &s;
  node(&f, "reader", "Add", "kv u", "z");
  node(&f, "drop", "Dropout", "z", "d mask");
  tn_id unused_in = input(&f, "unused_in", "n");
  CU_ASSERT_EQUAL(tni_graph_set_io(f.g, (const tn_id[]){val(&f, "x"), unused_in}, 2,
                                   (const tn_id[]){val(&f, "y"), val(&f, "d")}, 2),
                  TN_OK);
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_OK);
  tni_graph_dce(f.g);
  CU_ASSERT_EQUAL_FATAL(tni_graph_compact(f.g, &f.err), TN_OK);
  CU_ASSERT_PTR_NOT_NULL_FATAL(value(&f, "kv"));
  CU_ASSERT_EQUAL(value(&f, "kv")->pub.state->pos, tni_graph_find(f.g, "pos"));
  CU_ASSERT_TRUE(tni_graph_find(f.g, "pos") != TN_NONE && tni_graph_find(f.g, "pos") != pos);
  CU_ASSERT_EQUAL(value(&f, "kv")->pub.state->valid, TN_NONE);
  CU_ASSERT_EQUAL(s.pos, pos); /* the old struct is not ours to change */
  CU_ASSERT_TRUE(tni_graph_find(f.g, "unused_in") != TN_NONE && tni_graph_find(f.g, "mask") != TN_NONE);
  fixture_finish(&f);
}

/* The interface keeps its names: the new producer's value takes the output's. */
static void replace_output(void) {
  fixture f;
  build(&f);
  node(&f, "fused", "Exp", "u", "fresh");
  tn_id y = val(&f, "y"), fresh = val(&f, "fresh");
  CU_ASSERT_EQUAL_FATAL(tni_graph_replace(f.g, y, fresh), TN_OK);
  CU_ASSERT_EQUAL(f.g->outputs[0], fresh);
  CU_ASSERT_STRING_EQUAL(tni_graph_value(f.g, fresh)->pub.name, "y");
  CU_ASSERT_EQUAL(tni_graph_find(f.g, "y"), fresh);
  CU_ASSERT_EQUAL(tni_graph_find(f.g, "fresh"), y);
  CU_ASSERT_EQUAL(tni_graph_value(f.g, fresh)->pub.kind, TN_VALUE_OUTPUT);
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 3);
  CU_ASSERT_EQUAL_FATAL(tni_graph_compact(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_find(f.g, "fresh"), TN_NONE);
  CU_ASSERT_EQUAL(f.g->nodes[value(&f, "y")->pub.producer]->pub.op, TN_OP_EXP);
  /* not onto an input, a constant or another output */
  CU_ASSERT_EQUAL(tni_graph_replace(f.g, val(&f, "y"), val(&f, "x")), TN_E_UNSUPPORTED);
  CU_ASSERT_EQUAL(tni_graph_replace(f.g, val(&f, "y"), val(&f, "w")), TN_E_UNSUPPORTED);
  CU_ASSERT_EQUAL(f.g->outputs[0], tni_graph_find(f.g, "y"));
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_OK);
  fixture_finish(&f);
}

/* Compacting what a graph of every edge case left behind gives an equal graph again. */
static void compact_is_idempotent(void) {
  fixture f;
  build(&f);
  tni_graph_dce(f.g);
  CU_ASSERT_EQUAL(tni_graph_compact(f.g, &f.err), TN_OK);
  uint32_t n = f.g->n_nodes, v = f.g->n_values;
  CU_ASSERT_EQUAL(tni_graph_compact(f.g, &f.err), TN_OK);
  CU_ASSERT_TRUE(f.g->n_nodes == n && f.g->n_values == v);
  fixture_finish(&f);
}

void add_edit_suite(void) {
  CU_pSuite s = CU_add_suite("edits", NULL, NULL);
  CU_add_test(s, "replace", replace_uses);
  CU_add_test(s, "dce chains", dce_chains);
  CU_add_test(s, "dce without order", dce_without_order);
  CU_add_test(s, "compact renumbers", compact_renumbers);
  CU_add_test(s, "compact keeps", compact_keeps);
  CU_add_test(s, "replace an output", replace_output);
  CU_add_test(s, "compact is idempotent", compact_is_idempotent);
}
