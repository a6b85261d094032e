/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/graph/priv.h"
#include "tests/graph/graph_test.h"

/* A graph with the given exprs whose nodes are added through the same builders. */
static fixture sub_fixture(fixture *outer, const char *name) {
  fixture s;
  tni_error_init(&s.err);
  s.g = NULL;
  CU_ASSERT_EQUAL(tni_graph_create(outer->g->exprs, name, &s.g, &s.err), TN_OK);
  return s;
}

/* An If whose branches read `then_reads` and `else_reads` of the outer graph. */
static tn_status add_if(fixture *f, const char *name, const char *then_reads, const char *else_reads, const char *out) {
  fixture t = sub_fixture(f, "then"), e = sub_fixture(f, "else");
  node(&t, "t", "Neg", then_reads, "tr");
  io(&t, "", "tr");
  node(&e, "e", "Abs", else_reads, "er");
  io(&e, "", "er");
  tni_raw_attr raw[] = {raw_graph("else_branch", &e.g), raw_graph("then_branch", &t.g)};
  return node_raw(f, name, "If", 17, "cond", out, raw, 2);
}

static tni_graph *branch(const fixture *f, const char *node_name, const char *attr) {
  const tn_attr *a = tni_attr(&f->g->nodes[node_id(f, node_name)]->pub, attr);
  return (tni_graph *)a->u.p;
}

static void captures(void) {
  fixture f;
  char buf[128];
  fixture_init(&f);
  input(&f, "cond", "");
  input(&f, "x", "n, 4");
  CU_ASSERT_EQUAL_FATAL(add_if(&f, "if", "late", "x", "y"), TN_OK);
  node(&f, "late", "Exp", "x", "late"); /* the subgraph's reading orders it before the If */
  io(&f, "cond x", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_STRING_EQUAL(order_of(&f, buf, sizeof buf), "late if");
  const tni_node *n = f.g->nodes[node_id(&f, "if")];
  CU_ASSERT_EQUAL(n->n_captures, 2);
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "late"))->pub.n_uses, 1);
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "late"))->pub.uses[0], 1);
  tni_graph *e = branch(&f, "if", "else_branch");
  CU_ASSERT_PTR_EQUAL(e->outer, f.g);
  const tni_value *x = tni_graph_value(e, tni_graph_find(e, "x"));
  CU_ASSERT_EQUAL(x->pub.kind, TN_VALUE_INPUT);
  CU_ASSERT_EQUAL(x->captured, val(&f, "x"));
  CU_ASSERT_EQUAL(x->pub.rank, 2); /* what is known outside is known inside */
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 0);
  fixture_finish(&f);
}

/* Reading through two levels makes the one between capture too. */
static void nested(void) {
  static float w[2] = {1, 2};
  fixture f;
  fixture_init(&f);
  input(&f, "cond", "");
  input(&f, "x", "n");
  constant(&f, "w", TN_DT_F32, 1, (const int64_t[]){2}, w);
  fixture a = sub_fixture(&f, "a"), b = sub_fixture(&f, "b");
  val(&a, "cond");
  CU_ASSERT_EQUAL_FATAL(add_if(&a, "inner", "x", "w", "ar"), TN_OK);
  io(&a, "", "ar");
  io(&b, "", "x"); /* an outer value as the branch's output */
  tni_raw_attr raw[] = {raw_graph("then_branch", &a.g), raw_graph("else_branch", &b.g)};
  CU_ASSERT_EQUAL_FATAL(node_raw(&f, "outer", "If", 17, "cond", "y", raw, 2), TN_OK);
  io(&f, "cond x", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_value(a.g, tni_graph_find(a.g, "x"))->captured, val(&f, "x"));
  tni_graph *t = branch(&a, "inner", "then_branch"), *e = branch(&a, "inner", "else_branch");
  CU_ASSERT_EQUAL(tni_graph_value(t, tni_graph_find(t, "x"))->captured, tni_graph_find(a.g, "x"));
  /* constants are shared */
  const tni_value *ew = tni_graph_value(e, tni_graph_find(e, "w"));
  CU_ASSERT_TRUE(ew->pub.kind == TN_VALUE_CONST && ew->tensor && ew->tensor->data == w && ew->captured == TN_NONE);
  CU_ASSERT_EQUAL(tni_graph_value(b.g, tni_graph_find(b.g, "x"))->captured, val(&f, "x"));
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "x"))->pub.n_uses, 2);
  /* twice does no harm */
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "x"))->pub.n_uses, 2);
  fixture_finish(&f);
}

static void missing_in_subgraph(void) {
  fixture f;
  fixture_init(&f);
  input(&f, "cond", "");
  CU_ASSERT_EQUAL_FATAL(add_if(&f, "if", "cond", "ghost", "y"), TN_OK);
  io(&f, "cond", "y");
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_E_INVALID);
  CU_ASSERT_TRUE(err_has(&f.err, "in 'else_branch' of node 'if' (If)|'ghost'|node 'e' (Abs)"));
  fixture_finish(&f);
}

/* A name that exists outside but that nothing makes there either. */
static void missing_outside(void) {
  fixture f;
  fixture_init(&f);
  input(&f, "cond", "");
  val(&f, "ghost");
  CU_ASSERT_EQUAL_FATAL(add_if(&f, "if", "cond", "ghost", "y"), TN_OK);
  io(&f, "cond", "y");
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_E_INVALID);
  CU_ASSERT_TRUE(err_has(&f.err, "'ghost', which its subgraph reads|node 'if' (If)"));
  fixture_finish(&f);
}

static void cycle_through_subgraph(void) {
  fixture f;
  fixture_init(&f);
  input(&f, "cond", "");
  CU_ASSERT_EQUAL_FATAL(add_if(&f, "if", "z", "cond", "y"), TN_OK);
  node(&f, "n", "Neg", "y", "z");
  io(&f, "cond", "z");
  CU_ASSERT_EQUAL(tni_graph_finish(f.g, &f.err), TN_E_INVALID);
  CU_ASSERT_TRUE(err_has(&f.err, "cycle of 2 nodes|'if'|'n'"));
  fixture_finish(&f);
}

/* Renumbering and replacing outside keep the subgraph's references right. */
static void edits_outside(void) {
  fixture f;
  fixture_init(&f);
  val(&f, "unused");
  input(&f, "cond", "");
  input(&f, "x", "n");
  node(&f, "id", "Identity", "x", "t");
  CU_ASSERT_EQUAL_FATAL(add_if(&f, "if", "t", "t", "y"), TN_OK);
  io(&f, "cond x", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_replace(f.g, val(&f, "t"), val(&f, "x")), TN_OK);
  CU_ASSERT_EQUAL(f.g->nodes[node_id(&f, "if")]->captures[0], val(&f, "x"));
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 1);
  CU_ASSERT_EQUAL_FATAL(tni_graph_compact(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(f.g->n_nodes, 1);
  CU_ASSERT_EQUAL(f.g->n_values, 3);
  tni_graph *t = branch(&f, "if", "then_branch");
  CU_ASSERT_EQUAL(tni_graph_value(t, tni_graph_find(t, "t"))->captured, tni_graph_find(f.g, "x"));
  CU_ASSERT_EQUAL(tni_graph_value(f.g, tni_graph_find(f.g, "x"))->pub.n_uses, 2);
  fixture_finish(&f);
}

/* A capture that nothing in the subgraph reads any more goes with compact, and its maker with dce. */
static void edits_inside(void) {
  fixture f;
  fixture_init(&f);
  input(&f, "cond", "");
  input(&f, "x", "n");
  node(&f, "big", "Exp", "x", "big");
  CU_ASSERT_EQUAL_FATAL(add_if(&f, "if", "big", "x", "y"), TN_OK);
  io(&f, "cond x", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 0);
  tni_graph *t = branch(&f, "if", "then_branch");
  tn_id x = tni_graph_add_value(t, "x", TN_VALUE_ACT, TN_DT_F32);
  CU_ASSERT_EQUAL(tni_graph_replace(t, tni_graph_find(t, "big"), x), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_compact(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_find(t, "big"), TN_NONE);
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 1);
  CU_ASSERT_EQUAL_FATAL(tni_graph_compact(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_find(f.g, "big"), TN_NONE);
  fixture_finish(&f);
}

/* What the branch `then` of an If computes, changed in one way. */
typedef struct change {
  const char *what;
  void (*make)(tni_graph *t);
} change;

static tn_id id_in(tni_graph *t, const char *name) { return tni_graph_find(t, name); }

static void kills_node(tni_graph *t) { t->nodes[0]->dead = true; }
static void reads_other(tni_graph *t) { ((tn_id *)t->nodes[0]->pub.in)[0] = id_in(t, "w"); }
static void reads_less(tni_graph *t) { t->nodes[0]->pub.n_in = 0; }
static void adds_value(tni_graph *t) { (void)!tni_graph_add_value(t, "", TN_VALUE_ACT, TN_DT_F32); }
static void moves_output(tni_graph *t) { t->outputs[0] = id_in(t, "w"); }
static void other_kind(tni_graph *t) { t->values[id_in(t, "tr")]->pub.kind = TN_VALUE_ACT; }
static void other_elements(tni_graph *t) { t->values[id_in(t, "w")]->tensor->bytes = 3; }
static void other_dims(tni_graph *t) { t->values[id_in(t, "w")]->tensor->dims[0] = 9; }
static void absurd_rank(tni_graph *t) { t->values[id_in(t, "tr")]->pub.rank = TN_MAX_RANK + 1; }
static void forgets_use(tni_graph *t) { t->values[id_in(t, "big")]->pub.n_uses = 0; }
static void other_maker(tni_graph *t) { t->values[id_in(t, "tr")]->pub.producer = TN_NONE; }

/* A branch that nobody changed is not finished again (its uses stay where they are), takes types from outside all the
 * same, and is finished after any change. */
static void unchanged(void) {
  static const change changes[] = {{"a dead node", kills_node},       {"another input", reads_other},
                                   {"no input", reads_less},          {"a value", adds_value},
                                   {"another output", moves_output},  {"another kind", other_kind},
                                   {"fewer bytes", other_elements},   {"other dims", other_dims},
                                   {"an absurd rank", absurd_rank},   {"a use that is gone", forgets_use},
                                   {"a producer that is gone", other_maker}};
  static float w[2] = {1, 2};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    fixture f;
    fixture_init(&f);
    input(&f, "cond", "");
    input(&f, "x", "n");
    node(&f, "big", "Exp", "x", "big");
    CU_ASSERT_EQUAL_FATAL(add_if(&f, "if", "big", "x", "y"), TN_OK);
    io(&f, "cond x", "y");
    tni_graph *t = branch(&f, "if", "then_branch");
    const tn_id c = tni_graph_add_value(t, "w", TN_VALUE_CONST, TN_DT_F32);
    CU_ASSERT_EQUAL(tni_value_set_tensor(t, c, &(tni_tensor){TN_DT_F32, 1, {2}, w, sizeof w, NULL, NULL}, NULL), TN_OK);
    CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
    const tni_value *big = t->values[id_in(t, "big")];
    const tn_id *const uses = big->pub.uses;
    const tn_expr three = tni_ex_const(f.g->exprs, 3);
    CU_ASSERT_EQUAL(tni_value_set_dims(f.g, val(&f, "big"), 1, &three), TN_OK);
    f.g->values[val(&f, "big")]->pub.dtype = TN_DT_F16;
    CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
    CU_ASSERT_PTR_EQUAL(big->pub.uses, uses);
    CU_ASSERT_EQUAL(big->pub.dtype, TN_DT_F16);
    CU_ASSERT_EQUAL_FATAL(tni_graph_compact(f.g, &f.err), TN_OK); /* without w */
    CU_ASSERT_EQUAL(tni_graph_add_value(t, "w", TN_VALUE_CONST, TN_DT_F32), t->n_values - 1);
    CU_ASSERT_EQUAL(tni_value_set_tensor(t, t->n_values - 1, &(tni_tensor){TN_DT_F32, 1, {2}, w, sizeof w, NULL, NULL}, NULL),
                    TN_OK);
    CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
    CU_ASSERT_TRUE(tni_graph_unchanged(t));
    changes[i].make(t);
    if (tni_graph_unchanged(t)) CU_FAIL(changes[i].what);
    (void)!tni_graph_finish(f.g, &f.err); /* some are errors; ASan looks */
    fixture_finish(&f);
  }
}

/* What becomes a constant outside becomes one inside, and is captured no more. */
static void constant_outside(void) {
  static float w[2] = {1, 2};
  fixture f;
  fixture_init(&f);
  input(&f, "cond", "");
  input(&f, "x", "n");
  node(&f, "big", "Exp", "x", "big");
  CU_ASSERT_EQUAL_FATAL(add_if(&f, "if", "big", "x", "y"), TN_OK);
  io(&f, "cond x", "y");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  f.g->nodes[node_id(&f, "big")]->dead = true;
  CU_ASSERT_EQUAL(tni_value_set_tensor(f.g, val(&f, "big"), &(tni_tensor){TN_DT_F32, 1, {2}, w, sizeof w, NULL, NULL}, NULL),
                  TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  tni_graph *t = branch(&f, "if", "then_branch");
  const tni_value *big = t->values[id_in(t, "big")];
  CU_ASSERT_EQUAL(big->pub.kind, TN_VALUE_CONST);
  CU_ASSERT_EQUAL(big->captured, TN_NONE);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(f.g->nodes[node_id(&f, "if")]->n_captures, 1);
  fixture_finish(&f);
}

/* A dead node's captures are uses no more. */
static void dce_of_captures(void) {
  fixture f;
  fixture_init(&f);
  input(&f, "cond", "");
  input(&f, "x", "n");
  node(&f, "big", "Exp", "x", "big");
  CU_ASSERT_EQUAL_FATAL(add_if(&f, "if", "big", "big", "y"), TN_OK);
  io(&f, "cond x", "x");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_value(f.g, val(&f, "big"))->pub.n_uses, 2);
  CU_ASSERT_EQUAL(tni_graph_dce(f.g), 2);
  fixture_finish(&f);
}

/* Too deep a nest is refused, and everything is freed (the sanitizers watch). */
static void depth(void) {
  fixture f;
  fixture_init(&f);
  tni_graph *inner = NULL;
  tn_status st = TN_OK;
  for (int i = 0; i < 80 && st == TN_OK; i++) {
    fixture s = sub_fixture(&f, "s");
    if (inner) {
      tni_raw_attr raw = raw_graph("body", &inner);
      st = node_raw(&s, "loop", "Loop", 17, "- -", "z", &raw, 1);
      f.err = s.err;
    }
    io(&s, "", "z");
    inner = s.g;
  }
  CU_ASSERT_EQUAL(st, TN_E_LIMIT);
  CU_ASSERT_TRUE(err_has(&f.err, "nest deeper than 64|@ loop"));
  tni_graph_destroy(inner);
  fixture_finish(&f);
}

/* A node that fails takes its subgraphs along. */
static void ownership_on_failure(void) {
  fixture f;
  fixture_init(&f);
  fixture s = sub_fixture(&f, "s");
  tni_raw_attr raw = raw_graph("then_branch", &s.g);
  CU_ASSERT_EQUAL(node_raw(&f, "if", "If", 17, "cond", "y", &raw, 1), TN_E_INVALID);
  CU_ASSERT_TRUE(err_has(&f.err, "'else_branch' is required"));
  fixture_finish(&f);
}

/* A branch in the place of its If: what it makes, a constant, an outer value, and a graph of one of its nodes. */
static void inlined(void) {
  static float w[2] = {1, 2};
  fixture f;
  bool done = false;
  fixture_init(&f);
  input(&f, "cond", "");
  input(&f, "x", "2");
  node(&f, "before", "Exp", "x", "t");
  fixture a = sub_fixture(&f, "a"), b = sub_fixture(&f, "b");
  constant(&a, "w", TN_DT_F32, 1, (const int64_t[]){2}, w);
  node(&a, "sum", "Add", "t w", "s");
  CU_ASSERT_EQUAL_FATAL(add_if(&a, "inner", "s", "x", "i"), TN_OK);
  node(&a, "last", "Neg", "i", "y"); /* a name that the graph around has too */
  io(&a, "", "y t w y");
  io(&b, "", "x x x x");
  tni_raw_attr raw[] = {raw_graph("then_branch", &a.g), raw_graph("else_branch", &b.g)};
  CU_ASSERT_EQUAL_FATAL(node_raw(&f, "if", "If", 17, "cond", "y p c q", raw, 2), TN_OK);
  io(&f, "cond x", "y p c q");
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_inline(f.g, node_id(&f, "if"), a.g, &done, &f.err), TN_OK);
  CU_ASSERT_TRUE(done);
  CU_ASSERT_EQUAL_FATAL(tni_graph_compact(f.g, &f.err), TN_OK);
  CU_ASSERT_NOT_EQUAL_FATAL(node_id(&f, "sum"), TN_NONE);
  CU_ASSERT_EQUAL(f.g->n_nodes, 7); /* before, sum, inner, last, and what only hands on: p, c, q */
  const tni_node *last = f.g->nodes[node_id(&f, "last")], *inner = f.g->nodes[node_id(&f, "inner")];
  CU_ASSERT_EQUAL(last->pub.out[0], val(&f, "y"));
  CU_ASSERT_EQUAL(f.g->values[val(&f, "y")]->pub.producer, node_id(&f, "last"));
  const tni_node *sum = f.g->nodes[node_id(&f, "sum")], *c = f.g->nodes[f.g->values[val(&f, "c")]->pub.producer];
  CU_ASSERT_EQUAL(sum->pub.in[0], val(&f, "t"));
  CU_ASSERT_EQUAL(f.g->values[sum->pub.in[1]]->tensor->data, w);
  CU_ASSERT_STRING_EQUAL(c->type, "Identity");
  CU_ASSERT_EQUAL(c->pub.in[0], sum->pub.in[1]);
  CU_ASSERT_EQUAL(f.g->nodes[f.g->values[val(&f, "p")]->pub.producer]->pub.in[0], val(&f, "t"));
  CU_ASSERT_EQUAL(f.g->nodes[f.g->values[val(&f, "q")]->pub.producer]->pub.in[0], val(&f, "y"));
  /* the graph of a moved node reads what now lies here */
  tni_graph *t = branch(&f, "inner", "then_branch");
  CU_ASSERT_PTR_EQUAL(t->outer, f.g);
  CU_ASSERT_EQUAL(inner->n_captures, 2);
  for (uint32_t i = 0; i < t->n_values; i++)
    if (t->values[i]->captured != TN_NONE) CU_ASSERT_EQUAL(t->values[i]->captured, sum->pub.out[0]);
  fixture_finish(&f);
}

void add_subgraph_suite(void) {
  CU_pSuite s = CU_add_suite("subgraphs", NULL, NULL);
  CU_add_test(s, "captures", captures);
  CU_add_test(s, "nested", nested);
  CU_add_test(s, "missing in the subgraph", missing_in_subgraph);
  CU_add_test(s, "missing outside", missing_outside);
  CU_add_test(s, "cycle through a subgraph", cycle_through_subgraph);
  CU_add_test(s, "edits outside", edits_outside);
  CU_add_test(s, "edits inside", edits_inside);
  CU_add_test(s, "unchanged", unchanged);
  CU_add_test(s, "constant outside", constant_outside);
  CU_add_test(s, "dce of captures", dce_of_captures);
  CU_add_test(s, "inlined", inlined);
  CU_add_test(s, "depth", depth);
  CU_add_test(s, "ownership on failure", ownership_on_failure);
}
