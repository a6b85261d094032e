/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that answer wrongly: everything they said is dropped, with one reason, and the others count on.
 */
#include <math.h>
#include <string.h>

#include "place_test.h"

typedef tn_status (*answer_fn)(fake *, const tn_graph *, const tn_claim_sink *, tn_error *);

static tn_claim yes(void) { return (tn_claim){.h = TN_HDR(tn_claim), .verdict = TN_YES}; }

static tn_status all(const tn_graph *g, const tn_claim_sink *s, const tn_claim *c) {
  for (tn_id i = 0; i < g->n_nodes; i++) {
    tn_status st = s->node(s->ctx, i, c);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static tn_status missing(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)g, (void)err;
  tn_claim c = yes();
  return s->node(s->ctx, 1, &c);
}
static tn_status twice(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  tn_claim c = yes();
  (void)all(g, s, &c);
  (void)s->node(s->ctx, 0, &c);
  return TN_OK; /* looks away from the sink's status */
}
static tn_status no_such_node(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  tn_claim c = yes();
  (void)all(g, s, &c);
  return s->node(s->ctx, g->n_nodes, &c);
}
static tn_status nan_cost(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  tn_claim c = yes();
  c.cost_ns = NAN;
  return all(g, s, &c);
}
static tn_status negative_cost(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  tn_claim c = yes();
  c.cost_ns = -1;
  return all(g, s, &c);
}
static tn_status unknown_verdict(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  tn_claim c = yes();
  c.verdict = 7;
  return all(g, s, &c);
}
static tn_status no_verdict(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  tn_claim c = yes();
  c.verdict = 0;
  return all(g, s, &c);
}
static tn_status null_claim(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  return all(g, s, NULL);
}
static tn_status size_zero(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  tn_claim c = yes();
  c.h.size = 0;
  return all(g, s, &c);
}
static tn_status absurd_params(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  tn_claim c = yes();
  c.n_params = 1u << 30;
  c.params = (const int64_t *)&c;
  return all(g, s, &c);
}
static tn_status group_bad_id(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  const tn_id ids[] = {0, 99};
  tn_claim c = yes();
  (void)all(g, s, &c);
  (void)s->group(s->ctx, (const tn_id[]){0, 1}, 2, &c); /* a good one before it goes too */
  return s->group(s->ctx, ids, 2, &c);
}
static tn_status group_twice(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  const tn_id ids[] = {1, 1};
  tn_claim c = yes();
  (void)all(g, s, &c);
  return s->group(s->ctx, ids, 2, &c);
}
static tn_status group_empty(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  tn_claim c = yes();
  (void)all(g, s, &c);
  return s->group(s->ctx, NULL, 0, &c);
}
static tn_status bad_state(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  tn_claim c = yes();
  (void)all(g, s, &c);
  return s->state(s->ctx, g->n_values, NULL, 0);
}
static tn_status fails(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d;
  tn_claim c = yes();
  (void)all(g, s, &c);
  return tni_fail(err, TN_E_UNAVAILABLE, NULL, "the driver is asleep");
}
static tn_status fails_oddly(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)g, (void)s, (void)err;
  return 4711;
}

static void test_wrong_answers(void) {
  static const struct {
    answer_fn answer;
    const char *part;
  } rows[] = {
      {missing, "no claim for some nodes"},
      {twice, "two claims for one node"},
      {no_such_node, "a claim for a node that does not exist"},
      {nan_cost, "not a finite number"},
      {negative_cost, "not a finite number"},
      {unknown_verdict, "an unknown verdict"},
      {no_verdict, "an unknown verdict"},
      {null_claim, "a size that is not one"},
      {size_zero, "a size that is not one"},
      {absurd_params, "absurd format params"},
      {group_bad_id, "a group with a node that does not exist"},
      {group_twice, "names a node twice"},
      {group_empty, "a group without nodes"},
      {bad_state, "a state that does not exist"},
      {fails, "UNAVAILABLE (3) the driver is asleep"},
      {fails_oddly, "(4711)"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f;
    fake bad, good;
    tni_dev devs[2];
    tni_claims c;
    tni_partition p;
    fixture_init(&f, "Relu:x:a;Neg:a:b;Abs:b:y", "y");
    fake_init(&bad, &devs[0], "bad");
    fake_init(&good, &devs[1], "good");
    bad.answer = rows[i].answer;
    CU_ASSERT_EQUAL_FATAL(tni_claims_collect(&f.view, devs, 2, f.arena, &c, &f.err), TN_OK);
    CU_ASSERT_EQUAL(c.n_groups, 0);
    for (uint32_t n = 0; n < f.view.n_nodes; n++) {
      CU_ASSERT_EQUAL(c.node[0][n].verdict, TN_NO);
      CU_ASSERT_EQUAL(c.node[0][n].reason, TN_WHY_DRIVER);
      CU_ASSERT_PTR_NOT_NULL(strstr(c.node[0][n].text, "'bad'"));
      CU_ASSERT_PTR_NOT_NULL(strstr(c.node[0][n].text, rows[i].part));
      CU_ASSERT_EQUAL(c.node[1][n].verdict, TN_YES);
    }
    CU_ASSERT_EQUAL(tni_partition_make(&f.view, &c, (const uint32_t[]){0, 1}, 2, f.arena, &p, &f.err), TN_OK);
    CU_ASSERT_EQUAL(p.n_unsupported, 0);
    CU_ASSERT(p.device_of[0] == 1 && p.device_of[2] == 1);
    fake_finish(&bad);
    fake_finish(&good);
    fixture_finish(&f);
  }
}

/* Node n asks for constraint n of a table. */
static tn_constraint asked[8];
static tn_status asks(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  for (tn_id i = 0; i < g->n_nodes; i++) {
    const tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_YES, .n_constraints = 1, .constraints = &asked[i]};
    if (s->node(s->ctx, i, &c) != TN_OK) return TN_E_INTERNAL;
  }
  return TN_OK;
}

/* Proved ones and multiples of the padded length are promised; all others make a refusal. */
static void test_constraints(void) {
  fixture f;
  fake d;
  tni_dev dev;
  tni_claims c;
  fixture_init(&f, "Relu:x:a;Neg:a:b;Abs:b:c;Relu:c:d;Neg:d:e;Abs:e:g;Relu:g:y", "y");
  fake_init(&d, &dev, "d");
  d.answer = asks;
  tni_exprs *x = f.g->exprs;
  const tn_expr past = tni_ex_sym(x, "past"), seq = tni_ex_sym(x, "seq"), total = tni_ex_add(x, past, seq);
  f.g->padded = total;
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(f.g, TN_PHASE_ANY, &f.view, &f.err), TN_OK);
  const tn_constraint table[] = {{tni_ex_const(x, 4), TN_REL_EQ, 4},
                                 {total, TN_REL_MOD, 12},
                                 {total, TN_REL_MOD, 8},
                                 {seq, TN_REL_MOD, 8},
                                 {seq, TN_REL_EQ, 1},
                                 {past, TN_REL_GE, 0},
                                 {total, TN_REL_LE, 100}};
  static const bool yes[] = {true, true, true, false, false, true, false};
  memcpy(asked, table, sizeof table);
  CU_ASSERT_EQUAL_FATAL(tni_claims_collect(&f.view, &dev, 1, f.arena, &c, &f.err), TN_OK);
  for (uint32_t i = 0; i < 7; i++) {
    CU_ASSERT_EQUAL(c.node[0][i].verdict, yes[i] ? TN_YES : TN_NO);
    if (!yes[i]) CU_ASSERT_PTR_NOT_NULL(strstr(c.node[0][i].text, "does not always hold"));
  }
  CU_ASSERT_EQUAL(c.bucket, 24);
  f.g->padded = TNI_EXPR_NONE; /* nothing may be rounded */
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(f.g, TN_PHASE_ANY, &f.view, &f.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_claims_collect(&f.view, &dev, 1, f.arena, &c, &f.err), TN_OK);
  CU_ASSERT(c.bucket == 1 && c.node[0][1].verdict == TN_NO);
  f.g->step = seq; /* positions of a run, in one placement for all phases */
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(f.g, TN_PHASE_ANY, &f.view, &f.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_claims_collect(&f.view, &dev, 1, f.arena, &c, &f.err), TN_OK);
  CU_ASSERT(c.node[0][4].verdict == TN_NO && strstr(c.node[0][4].text, "without `phases` in the profile"));
  asked[0].rel = 99;
  CU_ASSERT_EQUAL_FATAL(tni_claims_collect(&f.view, &dev, 1, f.arena, &c, &f.err), TN_OK);
  CU_ASSERT(c.node[0][5].verdict == TN_NO && strstr(c.node[0][5].text, "unknown relation"));
  fake_finish(&d);
  fixture_finish(&f);
}

/* A device that takes layouts of caches, among others or not, and one that takes none that can be given. */
static const tn_layout *wished[2];
static uint32_t n_wished;
static tn_status wishes(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  const tn_claim yes = {.h = TN_HDR(tn_claim), .verdict = TN_YES};
  (void)d, (void)err;
  tn_status st = s->node(s->ctx, 0, &yes);
  return st == TN_OK ? s->state(s->ctx, g->nodes[0]->in[0], wished, n_wished) : st;
}

static void test_layouts(void) {
  for (uint32_t rank = 3; rank <= 4; rank++) {
    fixture f;
    fake d;
    tni_dev dev;
    tni_claims c;
    fixture_init(&f, "Relu:x:y", "y");
    fake_init(&d, &dev, "d");
    d.answer = wishes;
    tni_value *v = tni_graph_value(f.g, value_id(&f, "x"));
    v->pub.kind = TN_VALUE_STATE;
    v->pub.rank = rank;
    const tn_layout mine = {.h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 4, .order = {0, 1, 2, 3}};
    const tn_layout heads_first = {.h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 4, .order = {0, 2, 1, 3}};
    const tn_layout flat = {.h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 3, .order = {0, 1, 2}};
    const tn_layout half = {
        .h = TN_HDR(tn_layout), .dtype = TN_DT_F16, .rank = 4, .order = {0, 2, 1, 3}, .pitch_align = 64};
    const tn_layout int8 = {.h = TN_HDR(tn_layout), .dtype = TN_DT_I8, .rank = 4, .order = {0, 1, 2, 3}};
    const tn_layout int4 = {.h = TN_HDR(tn_layout), .dtype = TN_DT_I4, .rank = 4, .order = {0, 1, 2, 3}};
    /* Of a plugin that was built before there were rings; and flags that nobody knows. */
    const tn_layout old = {
        .h = {offsetof(tn_layout, flags), 1, 0}, .dtype = TN_DT_F32, .rank = 4, .order = {0, 1, 2, 3}, .flags = 77};
    const tn_layout odd = {.h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 4, .order = {0, 1, 2, 3}, .flags = 6};
    const tn_layout turned = {.h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 4, .order = {0, 1, 3, 2}};
    const tn_layout twice = {.h = TN_HDR(tn_layout), .dtype = TN_DT_F32, .rank = 4, .order = {0, 1, 1, 3}};
    const struct {
      const tn_layout *a, *b;
      bool yes;
      uint32_t kept;
      const char *part; /* of the refusal */
    } cases[] = {
        {&mine, NULL, true, 1, ""},
        {&heads_first, NULL, true, 1, ""},
        {&flat, NULL, false, 0, "rank"},
        {&twice, NULL, false, 0, "order"},
        {&half, &mine, true, 2, ""},
        {&int8, NULL, rank == 4, rank == 4, rank == 4 ? "" : "cache 'x' as int8 [0 1 2 3]: the host has no kernels"},
        {&int4, NULL, false, 0, "cache 'x' as int4 [0 1 2 3]: the host has no kernels"},
        {&old, NULL, true, 1, ""},
        {&odd, NULL, false, 0, "flags"},
        {&turned, NULL, false, 0, "side by side"},
        {&int8, &half, true, rank == 4 ? 2 : 1, ""},
        {NULL, NULL, true, 0, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      wished[0] = cases[i].a;
      wished[1] = cases[i].b;
      n_wished = cases[i].b ? 2 : cases[i].a ? 1 : 0;
      CU_ASSERT_EQUAL_FATAL(tni_claims_collect(&f.view, &dev, 1, f.arena, &c, &f.err), TN_OK);
      CU_ASSERT_EQUAL(c.node[0][0].verdict, cases[i].yes ? TN_YES : TN_NO);
      CU_ASSERT_PTR_NOT_NULL(strstr(c.node[0][0].text, cases[i].part));
      CU_ASSERT_EQUAL(c.n_states && c.states[0].n, cases[i].kept != 0);
      if (cases[i].kept) CU_ASSERT_EQUAL(c.states[0].n, cases[i].kept);
    }
    fake_finish(&d);
    fixture_finish(&f);
  }
}

/* What a claim carries is copied: the plugin may reuse its memory. */
static tn_status reuses(fake *d, const tn_graph *g, const tn_claim_sink *s, tn_error *err) {
  (void)d, (void)err;
  int64_t params[] = {32, 7};
  tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = TN_WHY_SHAPE, .params = params, .n_params = 2};
  for (tn_id i = 0; i < g->n_nodes; i++) {
    memset(c.text, 'a' + (int)i, sizeof c.text); /* not even terminated */
    c.cost_ns = i;
    params[0] = 32 + i;
    if (s->node(s->ctx, i, &c) != TN_OK) return TN_E_INTERNAL;
  }
  memset(params, 0xff, sizeof params);
  return TN_OK;
}

static void test_copies(void) {
  fixture f;
  fake d;
  tni_dev dev;
  tni_claims c;
  fixture_init(&f, "Relu:x:a;Neg:a:y", "y");
  fake_init(&d, &dev, "d");
  d.answer = reuses;
  CU_ASSERT_EQUAL_FATAL(tni_claims_collect(&f.view, &dev, 1, f.arena, &c, &f.err), TN_OK);
  for (uint32_t i = 0; i < 2; i++) {
    const tni_claim *k = &c.node[0][i];
    CU_ASSERT_EQUAL(k->reason, TN_WHY_SHAPE);
    CU_ASSERT(k->cost_ns == i && k->n_params == 2 && k->params[0] == 32 + i && k->params[1] == 7);
    CU_ASSERT(strlen(k->text) == 119 && k->text[0] == (char)('a' + i) && k->text[118] == (char)('a' + i));
  }
  CU_ASSERT_STRING_EQUAL(tni_why_name(TN_WHY_NOT_CONST), "not_constant");
  CU_ASSERT_STRING_EQUAL(tni_why_name(TN_WHY_CPU), "cpu");
  CU_ASSERT_STRING_EQUAL(tni_why_name(999), "unknown");
  fake_finish(&d);
  fixture_finish(&f);
}

void suite_claims(void) {
  CU_pSuite s = CU_add_suite("plan: claims", NULL, NULL);
  CU_add_test(s, "constraints", test_constraints);
  CU_add_test(s, "layouts of caches", test_layouts);
  CU_add_test(s, "devices that answer wrongly", test_wrong_answers);
  CU_add_test(s, "answers are copied", test_copies);
}
