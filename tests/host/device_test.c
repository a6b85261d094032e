/* SPDX-License-Identifier: Apache-2.0
 *
 * The host device through the vtable: claims, programs, memory, runs, no extensions; every allocation is
 * counted and given back.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "runtime/graph/view.h"
#include "runtime/shape/infer.h"
#include "tests/kit/nodes.h"

/* --- a model: y = softmax(x[S,4] * W[4,3] + b[3]) and z = transpose of x + x (a value read twice) --- */

typedef struct model {
  tni_graph *g;
  tn_graph view;
  tn_id x, w, b, p, s, y, t, z;
  tni_tensor wt, bt;
  tn_error err;
} model;

static void node(model *m, const char *op, const tn_id *in, uint32_t n, tn_id out) {
  tn_id id;
  CU_ASSERT_EQUAL_FATAL(tni_graph_add_node(m->g, op, "", op, 25, in, n, &out, 1, NULL, 0, &id, &m->err), TN_OK);
}

static model model_make(void) {
  model m = {.g = NULL};
  tni_error_init(&m.err);
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "m", &m.g, &m.err), TN_OK);
  m.x = tni_graph_add_value(m.g, "x", TN_VALUE_INPUT, TN_DT_F32);
  m.w = tni_graph_add_value(m.g, "w", TN_VALUE_CONST, TN_DT_F32);
  m.b = tni_graph_add_value(m.g, "b", TN_VALUE_CONST, TN_DT_F32);
  m.p = tni_graph_add_value(m.g, "p", TN_VALUE_ACT, TN_DT_F32);
  m.s = tni_graph_add_value(m.g, "s", TN_VALUE_ACT, TN_DT_F32);
  m.y = tni_graph_add_value(m.g, "y", TN_VALUE_ACT, TN_DT_F32);
  m.t = tni_graph_add_value(m.g, "t", TN_VALUE_ACT, TN_DT_F32);
  m.z = tni_graph_add_value(m.g, "z", TN_VALUE_ACT, TN_DT_F32);
  const tn_expr dims[2] = {tni_ex_sym(m.g->exprs, "S"), tni_ex_const(m.g->exprs, 4)};
  CU_ASSERT_EQUAL_FATAL(tni_value_set_dims(m.g, m.x, 2, dims), TN_OK);
  CU_ASSERT(ht_tensor(m.g->arena, "f32[4,3] 1 0 2 0 1 0 1 1 0 0 0 1", &m.wt));
  CU_ASSERT(ht_tensor(m.g->arena, "f32[3] 0.5 0 -0.5", &m.bt));
  CU_ASSERT_EQUAL_FATAL(tni_value_set_tensor(m.g, m.w, &m.wt, NULL), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_value_set_tensor(m.g, m.b, &m.bt, NULL), TN_OK);
  node(&m, "MatMul", (tn_id[]){m.x, m.w}, 2, m.p);
  node(&m, "Add", (tn_id[]){m.p, m.b}, 2, m.s);
  node(&m, "Softmax", (tn_id[]){m.s}, 1, m.y);
  node(&m, "Transpose", (tn_id[]){m.x}, 1, m.t);
  node(&m, "Add", (tn_id[]){m.t, m.t}, 2, m.z);
  CU_ASSERT_EQUAL_FATAL(tni_graph_set_io(m.g, &m.x, 1, (tn_id[]){m.y, m.z}, 2), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(m.g, &m.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_infer_graph(m.g, &m.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(m.g, 0, &m.view, &m.err), TN_OK);
  return m;
}

typedef struct answers {
  uint32_t n, no;
  tn_claim last_no;
  double macs;
} answers;

static tn_status on_node(void *ctx, tn_id id, const tn_claim *c) {
  answers *a = ctx;
  CU_ASSERT_EQUAL(id, a->n++);
  CU_ASSERT((c->verdict == TN_NO) == (c->text[0] != 0));
  if (c->verdict == TN_NO) {
    a->no++;
    a->last_no = *c;
  }
  a->macs += c->macs;
  return TN_OK;
}

static answers claim(dev *v, const tn_graph *g, const tn_dims *at) {
  answers a = {0};
  const tn_claim_sink sink = {.h = TN_HDR(tn_claim_sink), .ctx = &a, .node = on_node};
  CU_ASSERT_EQUAL(v->d->claim(v->d, g, at, &sink, NULL), TN_OK);
  CU_ASSERT_EQUAL(a.n, g->n_nodes);
  return a;
}

static void test_claim(void) {
  const int64_t seven[4] = {7, 7, 7, 7};
  const tn_dims at = {.h = TN_HDR(tn_dims), .v = seven, .n = 4};
  dev v = ht_dev_open(false), off = ht_dev_open(true);
  model m = model_make();
  answers a = claim(&v, &m.view, &at);
  CU_ASSERT_EQUAL(a.no, 0);
  CU_ASSERT_EQUAL(a.macs, 7 * 4 * 3);
  CU_ASSERT_EQUAL(claim(&v, &m.view, NULL).macs, 0);
  a = claim(&off, &m.view, &at);
  CU_ASSERT_EQUAL(a.no, 1);
  CU_ASSERT_EQUAL(a.last_no.reason, TN_WHY_OPTION);
  tni_graph_destroy(m.g);
  ht_dev_close(&v);
  ht_dev_close(&off);
}

/* Unknown operator, unknown dtype, data-dependent shape: each with its reason. */
static void test_refusals(void) {
  static const struct {
    const char *domain, *op;
    uint32_t dtype, why;
    const char *says;
  } rows[] = {{"com.acme", "Frobnicate", TN_DT_F32, TN_WHY_OP, "com.acme.Frobnicate-3"},
              {"", "Softmax", TN_DT_I64, TN_WHY_DTYPE, "int64"},
              {"", "NonZero", TN_DT_F32, TN_WHY_SHAPE, "data"},
              {"", "Sqrt", TN_DT_F32, TN_WHY_SHAPE, "shape"}};
  dev v = ht_dev_open(false);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tni_graph *g;
    tn_error err;
    tn_graph view;
    tn_id id;
    tni_error_init(&err);
    CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "m", &g, &err), TN_OK);
    const tn_id in = tni_graph_add_value(g, "in", TN_VALUE_INPUT, rows[i].dtype);
    const tn_id out = tni_graph_add_value(g, "out", TN_VALUE_ACT, rows[i].dtype);
    const tn_expr dim = !strcmp(rows[i].op, "Sqrt") ? TNI_EXPR_NONE : tni_ex_const(g->exprs, 4);
    CU_ASSERT_EQUAL(tni_value_set_dims(g, in, 1, &dim), TN_OK);
    const int64_t version = rows[i].domain[0] ? 3 : 25;
    CU_ASSERT_EQUAL_FATAL(
        tni_graph_add_node(g, "n", rows[i].domain, rows[i].op, version, &in, 1, &out, 1, NULL, 0, &id, &err), TN_OK);
    CU_ASSERT_EQUAL(tni_graph_set_io(g, &in, 1, &out, 1), TN_OK);
    CU_ASSERT_EQUAL(tni_graph_finish(g, &err), TN_OK);
    CU_ASSERT_EQUAL(tni_infer_graph(g, &err), TN_OK);
    CU_ASSERT_EQUAL_FATAL(tni_graph_view(g, 0, &view, &err), TN_OK);
    const answers a = claim(&v, &view, NULL);
    CU_ASSERT_EQUAL(a.no, 1);
    CU_ASSERT_EQUAL(a.last_no.reason, rows[i].why);
    CU_ASSERT_PTR_NOT_NULL(strstr(a.last_no.text, rows[i].says));
    if (a.last_no.reason != rows[i].why) printf("\n    %s: %u %s", rows[i].op, a.last_no.reason, a.last_no.text);
    tni_graph_destroy(g);
  }
  ht_dev_close(&v);
}

/* --- running a program --- */

static tn_subgraph whole(const model *m, tn_id *nodes, tn_id *groups) {
  static tn_id in[1], out[2];
  for (uint32_t i = 0; i < m->view.n_nodes; i++) {
    nodes[i] = i;
    groups[i] = TN_NONE;
  }
  in[0] = m->x;
  out[0] = m->y;
  out[1] = m->z;
  return (tn_subgraph){.h = TN_HDR(tn_subgraph),
                       .graph = &m->view,
                       .nodes = nodes,
                       .group_of = groups,
                       .inputs = in,
                       .outputs = out,
                       .n_nodes = m->view.n_nodes,
                       .n_inputs = 1,
                       .n_outputs = 2};
}

static uint32_t slot_of(const tn_program_info *info, tn_id value, uint32_t kind) {
  for (uint32_t i = 0; i < info->n_slots; i++)
    if (info->slots[i]->value == value && info->slots[i]->kind == kind) return i;
  return TN_NONE;
}

static void set_weights(dev *v, tn_program *p, const model *m) {
  const tn_program_info *info = v->d->info(p);
  for (uint32_t i = 0; i < info->n_slots; i++) {
    if (info->slots[i]->kind != TN_SLOT_WEIGHT || info->needs[info->slots[i]->need]->format) continue;
    const tni_tensor *t = info->slots[i]->value == m->w ? &m->wt : &m->bt;
    tn_view view = {.h = TN_HDR(tn_view), .ptr = t->data, .bytes = t->bytes - 1};
    CU_ASSERT_EQUAL(v->d->set(p, i, &view, NULL, NULL), TN_E_INVALID);
    view.bytes++;
    CU_ASSERT_EQUAL(v->d->set(p, i, &view, NULL, NULL), TN_OK);
  }
}

/* Runs all tasks in order at S = s over buffers of exactly the stated sizes; mem[slot] afterwards holds the bytes. */
static void run_program(dev *v, tn_program *p, int64_t s, char **mem, uint64_t *bytes, tn_run *run) {
  const tn_program_info *info = v->d->info(p);
  const int64_t sym[4] = {s, s, s, s};
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = sym, .n = 4};
  for (uint32_t t = 0; t < info->n_tasks; t++) {
    const tn_task *task = info->tasks[t];
    tn_measure me = {.h = TN_HDR(tn_measure), .slot_bytes = bytes};
    tn_view views[16];
    const tn_view *ptrs[16];
    tn_plan *plan = NULL;
    tn_args *args = NULL;
    tn_error err;
    tni_error_init(&err);
    CU_ASSERT_EQUAL_FATAL(v->d->measure(p, t, &dims, &me), TN_OK);
    CU_ASSERT_EQUAL_FATAL(v->d->bind(p, t, &dims, &plan, &err), TN_OK);
    for (uint32_t u = 0; u < task->n_uses; u++) {
      const uint32_t slot = task->uses[u].slot;
      if (!mem[slot] && info->slots[slot]->kind == TN_SLOT_TEMP) mem[slot] = malloc(bytes[slot] ? bytes[slot] : 1);
      views[u] = (tn_view){.h = TN_HDR(tn_view), .ptr = mem[slot], .bytes = bytes[slot]};
      ptrs[u] = info->slots[slot]->kind == TN_SLOT_WEIGHT ? NULL : &views[u];
    }
    void *scratch = aligned_alloc(64, (me.scratch_bytes + 64) & ~63ull);
    views[task->n_uses] = (tn_view){.h = TN_HDR(tn_view), .ptr = scratch, .bytes = me.scratch_bytes};
    ptrs[task->n_uses] = &views[task->n_uses];
    CU_ASSERT_EQUAL(v->d->args(plan, ptrs, task->n_uses, &args, &err), TN_E_INVALID); /* no scratch entry */
    tni_error_init(&err);
    for (uint32_t u = 0; u <= task->n_uses; u++) { /* one byte short */
      if (!ptrs[u] || !views[u].bytes) continue;
      views[u].bytes--;
      CU_ASSERT_EQUAL(v->d->args(plan, ptrs, task->n_uses + 1, &args, NULL), TN_E_INVALID);
      views[u].bytes++;
    }
    CU_ASSERT_EQUAL_FATAL(v->d->args(plan, ptrs, task->n_uses + 1, &args, &err), TN_OK);
    const int live = v->f->h.live;
    CU_ASSERT_EQUAL(v->d->args_set(args, task->n_uses + 1, ptrs[0], &err), TN_E_INVALID);
    tni_error_init(&err);
    CU_ASSERT_EQUAL(v->d->args_set(args, 0, ptrs[0], &err), TN_OK);
    v->f->h.fail_at = 1; /* a run must not allocate */
    CU_ASSERT_EQUAL(v->d->run(plan, args, run, &err), TN_OK);
    v->f->h.fail_at = 0;
    CU_ASSERT_EQUAL(v->f->h.live, live);
    v->d->args_free(args);
    v->d->unbind(plan);
    free(scratch);
  }
}

static void want_softmax(const float *x, int64_t s, const float *w, float *y) {
  static const float b[3] = {0.5f, 0, -0.5f};
  for (int64_t i = 0; i < s; i++) {
    double e[3], sum = 0;
    for (int n = 0; n < 3; n++) {
      double v = (double)b[n];
      for (int k = 0; k < 4; k++) v += (double)x[i * 4 + k] * (double)w[k * 3 + n];
      sum += e[n] = exp(v);
    }
    for (int n = 0; n < 3; n++) y[i * 3 + n] = (float)(e[n] / sum);
  }
}

static void check_run(dev *v, tn_program *p, const model *m, int64_t s, tn_run *run) {
  const tn_program_info *info = v->d->info(p);
  char *mem[16] = {NULL};
  uint64_t bytes[16] = {0};
  float x[64], y[48], z[64], want[48];
  const uint32_t sx = slot_of(info, m->x, TN_SLOT_INPUT), sy = slot_of(info, m->y, TN_SLOT_OUTPUT),
                 sz = slot_of(info, m->z, TN_SLOT_OUTPUT);
  CU_ASSERT_FATAL(sx != TN_NONE && sy != TN_NONE && sz != TN_NONE && info->n_slots <= 16);
  CU_ASSERT(slot_of(info, m->p, TN_SLOT_TEMP) != TN_NONE);
  ht_fill(x, 64, (uint32_t)s);
  mem[sx] = (char *)x;
  mem[sy] = (char *)y;
  mem[sz] = (char *)z;
  bytes[sx] = (uint64_t)s * 16;
  bytes[sy] = (uint64_t)s * 12;
  bytes[sz] = (uint64_t)s * 16;
  run_program(v, p, s, mem, bytes, run);
  float w[12];
  memcpy(w, m->wt.data, sizeof w);
  want_softmax(x, s, w, want);
  for (int64_t i = 0; i < s * 3; i++) CU_ASSERT_DOUBLE_EQUAL((double)y[i], (double)want[i], 1e-6);
  for (int64_t i = 0; i < s * 4; i++) CU_ASSERT(z[i] == 2 * x[(i % s) * 4 + i / s]);
  for (uint32_t i = 0; i < info->n_slots; i++)
    if (info->slots[i]->kind == TN_SLOT_TEMP) free(mem[i]);
}

/* The graph is lent for the call of lower(): what a program needs of it after that is its own. */
static void spoil_graph(model *m) {
  for (uint32_t i = 0; i < m->g->n_nodes; i++) memset(&m->g->nodes[i]->pub, 0xa5, sizeof m->g->nodes[i]->pub);
  for (uint32_t i = 0; i < m->g->n_values; i++) memset(&m->g->values[i]->pub, 0xa5, sizeof m->g->values[i]->pub);
}

static void test_program(void) {
  dev v = ht_dev_open(false);
  model m = model_make();
  tn_id nodes[8], groups[8];
  const tn_subgraph sub = whole(&m, nodes, groups);
  tn_program *p = NULL;
  tni_pool *pool = tni_pool_create(2);
  tni_pool_run run;
  tni_pool_run_init(&run, pool, NULL);
  CU_ASSERT_EQUAL_FATAL(v.d->lower(v.d, &sub, &p, NULL), TN_OK);
  const tn_program_info *info = v.d->info(p);
  CU_ASSERT_EQUAL(info->n_tasks, 5);
  CU_ASSERT_EQUAL(info->n_needs, 2);
  for (uint32_t i = 0; i < info->n_tasks; i++) {
    CU_ASSERT_EQUAL(info->tasks[i]->engine, 0);
    CU_ASSERT_EQUAL(info->tasks[i]->symbols, 1);
    const uint32_t op = m.view.nodes[info->tasks[i]->nodes[0]]->op;
    const bool first = op == TN_OP_MATMUL || op == TN_OP_TRANSPOSE;
    CU_ASSERT_EQUAL(info->tasks[i]->n_deps, !first);
  }
  spoil_graph(&m);
  set_weights(&v, p, &m);
  for (int64_t s = 0; s <= 16; s += s < 2 ? 1 : 7) check_run(&v, p, &m, s, &run.run);
  v.d->release(p);
  tni_pool_destroy(pool);
  tni_graph_destroy(m.g);
  ht_dev_close(&v);
}

/* Every allocation that lower, bind and args make may fail: a status, and nothing is left behind. */
static void test_no_memory(void) {
  dev v = ht_dev_open(false);
  model m = model_make();
  tn_id nodes[8], groups[8];
  const tn_subgraph sub = whole(&m, nodes, groups);
  tn_program *p = NULL;
  const int before = v.f->h.live;
  const int64_t asked = v.f->h.total;
  CU_ASSERT_EQUAL_FATAL(v.d->lower(v.d, &sub, &p, NULL), TN_OK);
  const int64_t needed = v.f->h.total - asked;
  v.d->release(p);
  p = NULL;
  int failures = 0;
  for (int at = 1;; at++, failures++) {
    v.f->h.fail_at = at;
    const tn_status st = v.d->lower(v.d, &sub, &p, NULL);
    v.f->h.fail_at = 0;
    if (st == TN_OK) break;
    CU_ASSERT_EQUAL(st, TN_E_NO_MEMORY);
    CU_ASSERT_EQUAL(v.f->h.live, before);
    CU_ASSERT_PTR_NULL(p);
  }
  CU_ASSERT(failures > 5);
  CU_ASSERT_EQUAL(failures, needed); /* each of them, once */
  const int64_t one[4] = {1, 1, 1, 1};
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = one, .n = 4}, none = {.h = TN_HDR(tn_dims)};
  tn_plan *plan = NULL;
  v.f->h.fail_at = 1;
  CU_ASSERT_EQUAL(v.d->bind(p, 0, &dims, &plan, NULL), TN_E_NO_MEMORY);
  v.f->h.fail_at = 0;
  CU_ASSERT_EQUAL(v.d->bind(p, 0, &none, &plan, NULL), TN_E_INVALID); /* the symbol has no value */
  CU_ASSERT_EQUAL(v.d->bind(p, 99, &dims, &plan, NULL), TN_E_INVALID);
  v.d->release(p);
  tni_graph_destroy(m.g);
  ht_dev_close(&v);
}

static void test_negotiate(void) {
  fake *f = ht_fake_make(false);
  tn_plugin *p = NULL;
  tn_negotiate neg = {.h = TN_HDR(tn_negotiate), .host_min = 7, .host_max = 9};
  CU_ASSERT_EQUAL(tni_host_plugin_entry(&f->h.host, &neg, &p), TN_E_INCOMPATIBLE);
  CU_ASSERT_PTR_NULL(p);
  CU_ASSERT_PTR_NOT_NULL(strstr(neg.message, "7"));
  CU_ASSERT_STRING_EQUAL(neg.name, "host");
  free(f);
}

static void test_extensions(void) {
  dev v = ht_dev_open(false);
  CU_ASSERT_PTR_NULL(v.plugin->get_extension(v.plugin, "tenon.trace", 1));
  CU_ASSERT_PTR_NULL(v.plugin->get_extension(v.plugin, "", 0));
  ht_dev_close(&v);
}

bool ht_add_device(void) {
  CU_pSuite s = CU_add_suite("host device", NULL, NULL);
  return s && CU_add_test(s, "claims", test_claim) && CU_add_test(s, "refusals", test_refusals) &&
         CU_add_test(s, "program", test_program) && CU_add_test(s, "no memory", test_no_memory) &&
         CU_add_test(s, "negotiation", test_negotiate) && CU_add_test(s, "no extensions", test_extensions);
}
