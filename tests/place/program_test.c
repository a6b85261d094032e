/* SPDX-License-Identifier: Apache-2.0
 *
 * A good program of one task, and one fault at a time.
 */
#include <stdio.h>
#include <string.h>

#include "place_test.h"
#include "runtime/place/program_check.h"

/* n0: Neg x -> t. n1: MatMul t, w -> y (output, also read by n2 of another device). n2: Neg y -> z. Cluster: n0, n1. */
typedef struct good {
  fixture f;
  fake d;
  tni_dev dev;
  tni_cluster cluster;
  tn_id nodes[2], inputs[1], outputs[1];
  tn_need need;
  tn_slot slots[4]; /* x, w, t, y */
  tn_task tasks[2];
  tn_use uses[2][3];
  tn_id deps[1], node0[1], node1[1], values[2];
  const tn_need *needs_p[1];
  const tn_slot *slots_p[4];
  const tn_task *tasks_p[2];
  tn_program_info info;
  tn_format format;
} good;

static tn_status fmt_size(const tn_format *f, int64_t N, int64_t K, const int64_t *p, uint32_t n, tn_pack_size *o) {
  (void)f, (void)N, (void)K, (void)p, (void)n, (void)o;
  return TN_OK;
}
static tn_status fmt_begin(const tn_host *h, const tn_format *f, const tn_weight *w, const int64_t *p, uint32_t n,
                           tn_pack **o, tn_error *e) {
  (void)h, (void)f, (void)w, (void)p, (void)n, (void)o, (void)e;
  return TN_OK;
}
static tn_status fmt_rows(tn_pack *p, int64_t a, int64_t b, void *blob) {
  (void)p, (void)a, (void)b, (void)blob;
  return TN_OK;
}
static tn_status fmt_end(tn_pack *p, void *blob) {
  (void)p, (void)blob;
  return TN_OK;
}
static tn_status fmt_unpack(const tn_blob *b, const int64_t box[4], float *dst) {
  (void)b, (void)box, (void)dst;
  return TN_OK;
}

static void good_init(good *g) {
  memset(g, 0, sizeof *g);
  fixture_init(&g->f, "Neg:x:t;MatMul:t,w:y;Neg:y:z", "z");
  fake_init(&g->d, &g->dev, "fake");
  g->nodes[0] = 0;
  g->nodes[1] = 1;
  g->inputs[0] = value_id(&g->f, "x");
  g->outputs[0] = value_id(&g->f, "y");
  g->cluster = (tni_cluster){
      .nodes = g->nodes, .inputs = g->inputs, .outputs = g->outputs, .n_nodes = 2, .n_inputs = 1, .n_outputs = 1};
  g->format = (tn_format){.h = TN_HDR(tn_format),
                          .name = "f",
                          .size = fmt_size,
                          .begin = fmt_begin,
                          .rows = fmt_rows,
                          .end = fmt_end,
                          .unpack = fmt_unpack};
  g->values[0] = g->values[1] = value_id(&g->f, "w");
  g->need = (tn_need){.h = TN_HDR(tn_need), .format = &g->format, .values = g->values, .n_values = 1};
  static const uint32_t kinds[] = {TN_SLOT_INPUT, TN_SLOT_WEIGHT, TN_SLOT_TEMP, TN_SLOT_OUTPUT};
  const tn_id value[] = {g->inputs[0], TN_NONE, TN_NONE, g->outputs[0]};
  for (int i = 0; i < 4; i++) {
    g->slots[i] = (tn_slot){.h = TN_HDR(tn_slot), .kind = kinds[i], .align = 64, .value = value[i], .alias = TN_NONE};
    g->slots_p[i] = &g->slots[i];
  }
  g->uses[0][0] = (tn_use){0, TN_READ};
  g->uses[0][1] = (tn_use){2, TN_WRITE};
  g->uses[1][0] = (tn_use){2, TN_READ};
  g->uses[1][1] = (tn_use){1, TN_READ};
  g->uses[1][2] = (tn_use){3, TN_WRITE};
  g->node1[0] = 1;
  for (int i = 0; i < 2; i++) {
    g->tasks[i] = (tn_task){.h = TN_HDR(tn_task), .name = "t", .uses = g->uses[i], .n_uses = 2 + (uint32_t)i};
    g->tasks[i].nodes = i ? g->node1 : g->node0;
    g->tasks[i].n_nodes = 1;
    g->tasks_p[i] = &g->tasks[i];
  }
  g->tasks[1].deps = g->deps;
  g->tasks[1].n_deps = 1;
  g->needs_p[0] = &g->need;
  g->info = (tn_program_info){.h = TN_HDR(tn_program_info),
                              .needs = g->needs_p,
                              .slots = g->slots_p,
                              .tasks = g->tasks_p,
                              .n_needs = 1,
                              .n_slots = 4,
                              .n_tasks = 2};
  g->d.info = &g->info;
}

static void good_finish(good *g) {
  fake_finish(&g->d);
  fixture_finish(&g->f);
}

static tn_status no_submit(tn_device *d, uint32_t e, const tn_item *const *i, uint32_t n, tn_run *r, tn_error *err) {
  (void)d, (void)e, (void)i, (void)n, (void)r, (void)err;
  return TN_OK;
}

/* Breaks one thing; false past the last. */
static bool break_it(good *g, int which, const char **expect) {
  static const tn_engine engine = {.h = TN_HDR(tn_engine), .name = "e"};
  static const tn_engine *const engines[] = {&engine};
  static const tn_caps with_engine = {.h = TN_HDR(tn_caps), .name = "fake", .engines = engines, .n_engines = 1};
  static tn_id absurd[1] = {77777};
#define CASE(n, part, change) \
  case n:                     \
    *expect = part;           \
    change;                   \
    return true
  switch (which) {
    CASE(0, "info 0: none", g->d.info = NULL);
    CASE(1, "info 0: none", g->info.h.size = 0);
    CASE(2, "info 0: absurd counts", g->info.n_tasks = 1u << 30);
    CASE(3, "info 0: absurd counts", g->info.n_slots = UINT32_MAX);
    CASE(4, "info 0: a table that is missing", g->info.slots = NULL);
    CASE(5, "info 0: a table that is missing", g->info.tasks = NULL);
    CASE(6, "info 0: a table that is missing", g->info.needs = NULL);
    CASE(7, "need 0: no need", g->needs_p[0] = NULL);
    CASE(8, "need 0: no need", g->need.h.size = 8);
    CASE(9, "need 0: no values", g->need.n_values = 0);
    CASE(10, "need 0: no values", g->need.values = NULL);
    CASE(11, "need 0: no values", g->need.n_values = 1u << 30);
    CASE(12, "need 0: raw needs take one value", (g->need.format = NULL, g->need.n_values = 2));
    CASE(13, "need 0: a value that does not exist", g->values[0] = 12345);
    CASE(14, "need 0: a value that is not a constant", g->values[0] = g->inputs[0]);
    CASE(15, "need 0: a format that lacks functions", g->format.unpack = NULL);
    CASE(16, "need 0: a format that lacks functions", g->format.name = NULL);
    CASE(17, "slot 0: no slot", g->slots_p[0] = NULL);
    CASE(18, "slot 2: an unknown kind", g->slots[2].kind = 99);
    CASE(19, "slot 2: an unknown kind", g->slots[2].kind = 0);
    CASE(20, "slot 0: a value that does not exist", g->slots[0].value = TN_NONE);
    CASE(21, "slot 1: a need that does not exist", g->slots[1].need = 1);
    CASE(22, "slot 0: an absurd alignment", g->slots[0].align = 48);
    CASE(23, "slot 0: an absurd alignment", g->slots[0].align = 1u << 30);
    CASE(24, "slot 0: a state that is none", g->slots[0].kind = TN_SLOT_STATE);
    CASE(25, "slot 0: a constant that is no need", g->slots[0].value = g->values[0]);
    CASE(26, "slot 3: an output that its nodes do not compute", g->slots[3].value = value_id(&g->f, "z"));
    CASE(27, "slot 3: an output that its nodes do not compute", g->slots[3].value = g->inputs[0]);
    CASE(28, "slot 0: an input that its own nodes compute", g->slots[0].value = g->outputs[0]);
    CASE(29, "slot 0: a step value that is none", g->slots[0].kind = TN_SLOT_STEP);
    CASE(30, "task 1: no task", g->tasks_p[1] = NULL);
    CASE(31, "task 0: an engine that does not exist", g->tasks[0].engine = 1);
    CASE(32, "task 0: an engine without submit", (g->tasks[0].engine = 1, g->d.pub.caps = &with_engine));
    CASE(33, "task 0: a CPU task without run", g->d.pub.run = NULL);
    CASE(34, "task 1: absurd uses", g->tasks[1].n_uses = 1u << 30);
    CASE(35, "task 1: absurd uses", g->tasks[1].uses = NULL);
    CASE(36, "task 1: a slot that does not exist", g->uses[1][2].slot = 4);
    CASE(37, "task 1: a dependency that is not an earlier task", g->deps[0] = 1);
    CASE(38, "task 1: absurd dependencies", g->tasks[1].deps = NULL);
    CASE(39, "task 1: absurd dependencies", g->tasks[1].n_deps = 1u << 30);
    CASE(40, "task 1: a node that does not exist", g->node1[0] = 5);
    CASE(41, "task 1: absurd nodes", g->tasks[1].nodes = NULL);
    CASE(42, "task 0: it writes what it may only read", g->uses[0][0].access = TN_WRITE);
    CASE(43, "task 1: it writes what it may only read", g->uses[1][1].access = TN_READ | TN_WRITE);
    CASE(44, "output 0: no task writes it", g->uses[1][2].access = TN_READ);
    CASE(45, "output 0: no task writes it", g->uses[1][2].slot = 2);
    CASE(46, "task 0: a dependency", (g->tasks[0].deps = absurd, g->tasks[0].n_deps = 0, g->deps[0] = 77));
    default:
      return false;
  }
#undef CASE
}

static void test_good(void) {
  good g;
  good_init(&g);
  tni_program p;
  CU_ASSERT_EQUAL(tni_program_lower(&g.f.view, &g.dev, &g.cluster, g.f.arena, &p, &g.f.err), TN_OK);
  CU_ASSERT_STRING_EQUAL(g.f.err.message, "");
  CU_ASSERT_PTR_EQUAL(p.info, &g.info);
  CU_ASSERT(p.needs[0].joined.N == 4 && p.needs[0].joined.K == 4);
  tni_program_release(&p);
  tni_program_release(&p);
  CU_ASSERT_EQUAL(g.d.released, 1);
  /* The same with an engine that has submit. */
  static const tn_engine engine = {.h = TN_HDR(tn_engine), .name = "e"};
  static const tn_engine *const engines[] = {&engine};
  static const tn_caps caps = {.h = TN_HDR(tn_caps), .name = "fake", .engines = engines, .n_engines = 1};
  g.d.pub.caps = &caps;
  g.d.pub.submit = no_submit;
  g.tasks[0].engine = 1;
  CU_ASSERT_EQUAL(tni_program_check(&g.f.view, &g.dev, &g.cluster, &g.info, &g.f.err), TN_OK);
  good_finish(&g);
}

static void test_faults(void) {
  const char *expect = NULL;
  int n = 0;
  for (;; n++) {
    good g;
    good_init(&g);
    bool more = break_it(&g, n, &expect);
    if (more) {
      if (n == 46) expect = "task 1: a dependency that is not an earlier task";
      tni_program p;
      CU_ASSERT_EQUAL(tni_program_lower(&g.f.view, &g.dev, &g.cluster, g.f.arena, &p, &g.f.err), TN_E_INTERNAL);
      bool named = strstr(g.f.err.message, "plugin 'fake'") && strstr(g.f.err.message, expect);
      if (!named) printf("\n    case %d: \"%s\" lacks \"%s\"\n", n, g.f.err.message, expect);
      CU_ASSERT_TRUE(named);
      CU_ASSERT_EQUAL(g.d.released, 1);
    }
    good_finish(&g);
    if (!more) break;
  }
  CU_ASSERT(n > 40);
}

static tn_status lower_fails(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  (void)d, (void)s, (void)out;
  return tni_fail(err, TN_E_UNSUPPORTED, NULL, "not today");
}
static tn_status lower_null(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  (void)d, (void)s, (void)out, (void)err;
  return TN_OK;
}
static tn_status lower_silent(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  (void)d, (void)s, (void)out, (void)err;
  return TN_E_UNAVAILABLE;
}

static void test_lower(void) {
  static const struct {
    tn_status (*lower)(tn_device *, const tn_subgraph *, tn_program **, tn_error *);
    tn_status st;
    const char *part;
  } rows[] = {{lower_fails, TN_E_UNSUPPORTED, "plugin 'fake': lower failed (UNSUPPORTED): not today"},
              {lower_null, TN_E_INTERNAL, "plugin 'fake' gave no program"},
              {lower_silent, TN_E_UNAVAILABLE, "plugin 'fake': lower failed (UNAVAILABLE)"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    good g;
    tni_program p;
    good_init(&g);
    g.d.pub.lower = rows[i].lower;
    CU_ASSERT_EQUAL(tni_program_lower(&g.f.view, &g.dev, &g.cluster, g.f.arena, &p, &g.f.err), rows[i].st);
    CU_ASSERT_PTR_NOT_NULL(strstr(g.f.err.message, rows[i].part));
    CU_ASSERT_EQUAL(g.d.released, 0);
    good_finish(&g);
  }
}

void suite_program(void) {
  CU_pSuite s = CU_add_suite("plan: program", NULL, NULL);
  CU_add_test(s, "a good one", test_good);
  CU_add_test(s, "one fault at a time", test_faults);
  CU_add_test(s, "lowering that fails", test_lower);
}
