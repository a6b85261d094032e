/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake engine through the registry, call by call as the core makes them: claim, lower, measure, create, bind, args,
 * copies and tasks through submit and done, read back. In each of its completion modes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plugins/common/plugdir.h"
#include "plugin_test.h"
#include "runtime/base/pool.h"
#include "runtime/plugin/load/registry.h"
#include "runtime/plugin/ticket.h"
#include "runtime/graph/view.h"

enum { N = 3, K = 4 }; /* x [N,K]; y = x + c[K]; z = y + y */
enum { V_X, V_C, V_Y, V_Z, V_I, V_J, V_W, N_VALUES };

typedef struct rig {
  tni_registry *r;
  tn_device *dev;
  const tn_host *host;
  tni_exprs *x;
  struct tn_graph_ctx ctx;
  tn_expr dims[2], k;
  tn_value values[N_VALUES];
  tn_node nodes[4];
  tn_id io[4][3];
  const tn_value *value_ptrs[N_VALUES];
  const tn_node *node_ptrs[4];
  tn_graph graph;
  tni_waker waker;
  tni_pool_run run;
} rig;

static tn_status open_registry(const char *options, tni_registry **r, tn_error *err) {
  const char *at = getenv("TENON_TEST_PLUGINS");
  const char *const dirs[] = {at ? at : "/nonexistent"};
  char yaml[300];
  snprintf(yaml, sizeof yaml, "plugins:\n  - name: fake-engine\n    optional: true\n    options: {%s}\n", options);
  tni_profile *p = NULL;
  tn_status st = tni_profile_parse(yaml, strlen(yaml), "f.yaml", &p, err);
  if (st != TN_OK) return st;
  tni_registry_opts o = {
      .dirs = dirs, .n_dirs = 1, .max_workers = 1, .allow_shared_writable = true, .host_entry = plugdir_host_entry};
  st = tni_registry_create(&o, p, r, err);
  tni_profile_destroy(p);
  return st;
}

static void add_value(rig *g, tn_id id, uint32_t kind, uint32_t dtype, uint32_t rank, const tn_expr *dims,
                      const char *name) {
  g->values[id] = (tn_value){.h = TN_HDR(tn_value),
                             .kind = kind,
                             .dtype = dtype,
                             .rank = rank,
                             .dims = dims,
                             .producer = TN_NONE,
                             .origin = TN_NONE,
                             .name = name};
  g->value_ptrs[id] = &g->values[id];
}

static void add_node(rig *g, tn_id id, uint32_t op, tn_id a, tn_id b, tn_id out) {
  memcpy(g->io[id], (tn_id[]){a, b, out}, sizeof g->io[id]);
  g->nodes[id] = (tn_node){.h = TN_HDR(tn_node),
                           .op = op,
                           .n_in = 2,
                           .n_out = 1,
                           .in = g->io[id],
                           .out = g->io[id] + 2,
                           .name = "n",
                           .domain = ""};
  g->node_ptrs[id] = &g->nodes[id];
}

static void build_graph(rig *g) {
  g->x = tni_exprs_create();
  CU_ASSERT_PTR_NOT_NULL_FATAL(g->x);
  g->ctx.exprs = g->x;
  g->dims[0] = tni_ex_sym(g->x, "N");
  g->dims[1] = g->k = tni_ex_const(g->x, K);
  add_value(g, V_X, TN_VALUE_INPUT, TN_DT_F32, 2, g->dims, "x");
  add_value(g, V_C, TN_VALUE_CONST, TN_DT_F32, 1, &g->k, "c");
  add_value(g, V_Y, TN_VALUE_ACT, TN_DT_F32, 2, g->dims, "y");
  add_value(g, V_Z, TN_VALUE_OUTPUT, TN_DT_F32, 2, g->dims, "z");
  add_value(g, V_I, TN_VALUE_INPUT, TN_DT_I64, 2, g->dims, "i");
  add_value(g, V_J, TN_VALUE_OUTPUT, TN_DT_I64, 2, g->dims, "j");
  add_value(g, V_W, TN_VALUE_OUTPUT, TN_DT_F32, 2, g->dims, "w");
  add_node(g, 0, TN_OP_ADD, V_X, V_C, V_Y);
  add_node(g, 1, TN_OP_ADD, V_Y, V_Y, V_Z);
  add_node(g, 2, TN_OP_ADD, V_I, V_I, V_J);
  add_node(g, 3, TN_OP_MUL, V_X, V_X, V_W);
  g->graph = (tn_graph){.h = TN_HDR(tn_graph),
                        .ctx = &g->ctx,
                        .n_nodes = 4,
                        .n_values = N_VALUES,
                        .n_symbols = 1,
                        .nodes = g->node_ptrs,
                        .values = g->value_ptrs};
}

static bool rig_open(rig *g, const char *options) {
  memset(g, 0, sizeof *g);
  tn_error err = {0};
  tn_status st = open_registry(options, &g->r, &err);
  if (st != TN_OK) printf("\n  %s: %s (%s)\n", options, err.message, err.where);
  CU_ASSERT_EQUAL(st, TN_OK);
  if (st != TN_OK) return false;
  const tni_plugin_info *i = tni_registry_find(g->r, "fake-engine");
  if (!i->n_devices) printf("\n  %s: %s (%s)\n", options, i->why.message, i->why.where);
  CU_ASSERT_EQUAL_FATAL(i->n_devices, 1);
  g->dev = i->devices[0];
  g->host = i->host;
  CU_ASSERT_EQUAL_FATAL(tni_waker_init(&g->waker), TN_OK);
  tni_pool_run_init(&g->run, NULL, NULL);
  build_graph(g);
  return true;
}

static void rig_close(rig *g) {
  tni_registry_destroy(g->r);
  tni_waker_finish(&g->waker);
  tni_exprs_destroy(g->x);
}

typedef struct verdicts {
  uint32_t verdict[4], reason[4], n;
} verdicts;

static tn_status take_claim(void *ctx, tn_id node, const tn_claim *c) {
  verdicts *v = ctx;
  v->n++;
  v->verdict[node] = c->verdict;
  v->reason[node] = c->reason;
  CU_ASSERT_EQUAL(c->verdict == TN_YES, c->text[0] == '\0');
  return TN_OK;
}

static void test_claim(void) {
  rig g;
  if (!rig_open(&g, "")) return;
  verdicts v = {.n = 0};
  tn_claim_sink sink = {.h = TN_HDR(tn_claim_sink), .ctx = &v, .node = take_claim};
  tn_error err = {0};
  CU_ASSERT_EQUAL(g.dev->claim(g.dev, &g.graph, NULL, &sink, &err), TN_OK);
  CU_ASSERT_EQUAL(v.n, 4);
  CU_ASSERT(v.verdict[0] == TN_YES && v.verdict[1] == TN_YES && v.verdict[2] == TN_NO && v.verdict[3] == TN_NO);
  CU_ASSERT(v.reason[2] == TN_WHY_DTYPE && v.reason[3] == TN_WHY_OP);
  rig_close(&g);
}

static tn_buffer *new_buffer(const rig *g, uint64_t bytes) {
  tn_buffer_req q = {.h = TN_HDR(tn_buffer_req), .bytes = bytes, .fd = -1, .flags = TN_BUF_ZERO | TN_BUF_HOST};
  tn_buffer *b = NULL;
  tn_error err = {0};
  CU_ASSERT_EQUAL_FATAL(g->dev->create(g->dev, &q, &b, &err), TN_OK);
  return b;
}

static tn_view view(tn_buffer *b, void *ptr, uint64_t bytes) {
  return (tn_view){.h = TN_HDR(tn_view), .buffer = b, .ptr = ptr, .bytes = bytes, .dtype = TN_DT_F32};
}

/* Submits and waits; the first failure of an item. */
static tn_status submit(rig *g, tn_item *items, uint32_t n, tn_error *err) {
  tn_ticket t[4] = {{.what = ""}};
  const tn_item *list[4];
  for (uint32_t i = 0; i < n; i++) {
    tni_ticket_init(&t[i], &g->waker, NULL, "item");
    items[i].h = (tn_hdr)TN_HDR(tn_item);
    items[i].ticket = tni_ticket_arm(&t[i]);
    list[i] = &items[i];
  }
  tn_status st = g->dev->submit(g->dev, 1, list, n, &g->run.run, err);
  if (st != TN_OK) return st;
  uint32_t flags = g->dev->caps->engines[0]->flags;
  if (flags & TN_ENGINE_BLOCKING)
    for (uint32_t i = 0; i < n; i++) CU_ASSERT_TRUE(tni_ticket_is_done(&t[i]));
  for (uint32_t i = 0; i < n; i++) {
    CU_ASSERT_EQUAL_FATAL(tni_ticket_wait(&t[i], 5000000000, err), TN_OK);
    CU_ASSERT(t[i].status != TN_OK || (t[i].times.start > 0 && t[i].times.end >= t[i].times.start));
    if (st == TN_OK && t[i].status != TN_OK) {
      st = t[i].status;
      *err = t[i].error;
    }
  }
  return st;
}

static tn_program *lower(rig *g, tn_error *err) {
  static const tn_id nodes[] = {0, 1}, none[] = {TN_NONE, TN_NONE}, in[] = {V_X}, out[] = {V_Z};
  tn_subgraph s = {.h = TN_HDR(tn_subgraph),
                   .graph = &g->graph,
                   .nodes = nodes,
                   .group_of = none,
                   .inputs = in,
                   .outputs = out,
                   .n_nodes = 2,
                   .n_inputs = 1,
                   .n_outputs = 1};
  tn_program *p = NULL;
  CU_ASSERT_EQUAL_FATAL(g->dev->lower(g->dev, &s, &p, err), TN_OK);
  return p;
}

static void check_program(const rig *g, const tn_program *p) {
  const tn_program_info *i = g->dev->info(p);
  CU_ASSERT_FATAL(i->n_slots == 4 && i->n_tasks == 2 && i->n_needs == 1);
  CU_ASSERT(i->slots[0]->kind == TN_SLOT_INPUT && i->slots[0]->value == V_X);
  CU_ASSERT(i->slots[1]->kind == TN_SLOT_WEIGHT && i->slots[1]->need == 0 && i->needs[0]->values[0] == V_C);
  CU_ASSERT(i->slots[2]->kind == TN_SLOT_TEMP && i->slots[3]->kind == TN_SLOT_OUTPUT);
  CU_ASSERT(i->tasks[0]->engine == 1 && i->tasks[0]->n_deps == 0);
  CU_ASSERT(i->tasks[1]->n_deps == 1 && i->tasks[1]->deps[0] == 0 && i->tasks[1]->n_uses == 2);
}

/* y = x + c, z = y + y on the device; memory as the core would lay it out: one arena with x, y and z at offsets. */
static void run_all(rig *g, tn_program *p) {
  tn_error err = {0};
  int64_t n[1] = {N};
  tn_dims dims = {.h = TN_HDR(tn_dims), .v = n, .n = 1};
  uint64_t slot_bytes[4] = {0}, bytes = N * K * 4;
  for (tn_id t = 0; t < 2; t++) {
    tn_measure m = {.h = TN_HDR(tn_measure), .slot_bytes = slot_bytes};
    CU_ASSERT_EQUAL(g->dev->measure(p, t, &dims, &m), TN_OK);
  }
  CU_ASSERT(slot_bytes[0] == 0 && slot_bytes[2] == bytes && slot_bytes[3] == 0);

  tn_buffer *arena = new_buffer(g, 3 * 128), *weights = new_buffer(g, 64);
  float c[K] = {0.5f, 1, 2, 4}, x[N * K], z[N * K];
  for (int i = 0; i < N * K; i++) x[i] = (float)i;
  tn_view vc = view(weights, NULL, sizeof c), hc = view(NULL, c, sizeof c), vx = view(arena, NULL, bytes), vy = vx,
          vz = vx, hx = view(NULL, x, bytes), scratch = view(NULL, NULL, 0);
  vy.offset = 128;
  vz.offset = 256;
  tn_item copy = {.src = &hc, .dst = &vc};
  CU_ASSERT_EQUAL(submit(g, &copy, 1, &err), TN_OK);
  CU_ASSERT_EQUAL(g->dev->set(p, 1, &vc, NULL, &err), TN_OK);

  tn_plan *plans[2];
  tn_args *args[2];
  const tn_view *uses0[] = {&vx, &vc, &vy, &scratch}, *uses1[] = {&vy, &vz, &scratch};
  for (tn_id t = 0; t < 2; t++) CU_ASSERT_EQUAL_FATAL(g->dev->bind(p, t, &dims, &plans[t], &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(g->dev->args(plans[0], uses0, 4, &args[0], &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(g->dev->args(plans[1], uses1, 3, &args[1], &err), TN_OK);

  for (int step = 0; step < 3; step++) { /* three steps over the same args, one submission each */
    x[0] = (float)(100 * step);
    tn_item items[3] = {
        {.src = &hx, .dst = &vx}, {.plan = plans[0], .args = args[0]}, {.plan = plans[1], .args = args[1]}};
    CU_ASSERT_EQUAL(submit(g, items, 3, &err), TN_OK);
    void *at = NULL;
    memset(z, 0, sizeof z);
    CU_ASSERT_EQUAL_FATAL(g->dev->map(arena, 256, bytes, TN_READ, &at, &err), TN_OK);
    memcpy(z, at, bytes);
    tn_item busy = {.plan = plans[1], .args = args[1]}; /* a mapped buffer may not be computed on */
    CU_ASSERT_EQUAL(submit(g, &busy, 1, &err), TN_E_INVALID);
    tni_error_init(&err);
    CU_ASSERT_EQUAL(g->dev->unmap(arena, at, &err), TN_OK);
    for (int i = 0; i < N * K; i++) CU_ASSERT_EQUAL(z[i], 2 * (x[i] + c[i % K]));
  }

  /* host memory where device memory belongs is refused, not used */
  const tn_view *wrong[] = {&hx, &vc, &vy, &scratch};
  tn_args *none = NULL;
  CU_ASSERT_EQUAL(g->dev->args(plans[0], wrong, 4, &none, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NULL(none);
  for (int t = 0; t < 2; t++) g->dev->args_free(args[t]);
  for (int t = 0; t < 2; t++) g->dev->unbind(plans[t]);
  g->dev->release(p);
  g->dev->destroy(arena);
  g->dev->destroy(weights);
}

static void test_modes(void) {
  static const char *const modes[] = {"completion: blocking", "completion: thread", "completion: inline",
                                      "completion: map", "completion: thread, delay_us: 2000"};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    rig g;
    if (!rig_open(&g, modes[i])) return;
    CU_ASSERT_EQUAL(g.dev->caps->engines[0]->flags, i == 0 ? TN_ENGINE_BLOCKING : 0);
    tn_error err = {0};
    tn_program *p = lower(&g, &err);
    check_program(&g, p);
    run_all(&g, p);
    rig_close(&g);
  }
}

/* Bytes in a buffer are not what the CPU would see at its address: only map and copies translate. */
static void test_separate_memory(void) {
  rig g;
  if (!rig_open(&g, "")) return;
  tn_error err = {0};
  tn_buffer *a = new_buffer(&g, 16), *b = new_buffer(&g, 16);
  void *at = NULL, *again = NULL;
  CU_ASSERT_EQUAL_FATAL(g.dev->map(a, 4, 8, TN_WRITE, &at, &err), TN_OK);
  memcpy(at, "ABCDEFGH", 8);
  CU_ASSERT_EQUAL(g.dev->map(a, 0, 5, TN_READ, &again, &err), TN_E_INVALID); /* mapped ranges are disjoint */
  tni_error_init(&err);
  CU_ASSERT_EQUAL_FATAL(g.dev->map(a, 0, 4, TN_READ, &again, &err), TN_OK);
  CU_ASSERT_EQUAL(g.dev->unmap(a, again, &err), TN_OK);
  tni_error_init(&err);
  CU_ASSERT_EQUAL(g.dev->unmap(a, at, &err), TN_OK);
  tn_view va = view(a, NULL, 16), vb = view(b, NULL, 16);
  tn_item copy = {.src = &va, .dst = &vb};
  CU_ASSERT_EQUAL(submit(&g, &copy, 1, &err), TN_OK);
  char host[16] = {0};
  tn_view vh = view(NULL, host, 16);
  copy = (tn_item){.src = &vb, .dst = &vh};
  CU_ASSERT_EQUAL(submit(&g, &copy, 1, &err), TN_OK);
  CU_ASSERT_EQUAL(memcmp(host, "\0\0\0\0ABCDEFGH\0\0\0\0", 16), 0);
  CU_ASSERT_EQUAL(g.dev->map(a, 12, 8, TN_READ, &at, &err), TN_E_INVALID); /* past the end */
  tni_error_init(&err);
  tn_view past = va;
  past.offset = 8;
  copy = (tn_item){.src = &past, .dst = &vh};
  CU_ASSERT_EQUAL(submit(&g, &copy, 1, &err), TN_E_INVALID);
  tn_buffer_req import = {.h = TN_HDR(tn_buffer_req), .bytes = 16, .ptr = host, .kind = TN_MEM_HOST_PTR};
  tni_error_init(&err);
  CU_ASSERT_EQUAL(g.dev->create(g.dev, &import, &b, &err), TN_E_UNSUPPORTED);
  g.dev->destroy(a);
  g.dev->destroy(b);
  rig_close(&g);
}

static void test_device_lost(void) {
  rig g;
  if (!rig_open(&g, "fail_after: 2")) return;
  tn_error err = {0};
  float c[4] = {0};
  tn_buffer *b = new_buffer(&g, 16);
  tn_view h = view(NULL, c, 16), v = view(b, NULL, 16);
  tn_item copy = {.src = &h, .dst = &v};
  CU_ASSERT_EQUAL(submit(&g, &copy, 1, &err), TN_OK);
  CU_ASSERT_EQUAL(submit(&g, &copy, 1, &err), TN_OK);
  CU_ASSERT_EQUAL(submit(&g, &copy, 1, &err), TN_E_DEVICE_LOST);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "told to fail"));
  g.dev->destroy(b);
  rig_close(&g);
}

/* A mistake in the profile's options is an error even for an optional plugin. */
static void test_option_mistake(void) {
  static const struct {
    const char *options, *where, *says;
  } t[] = {{"completion: later", "f.yaml:4:27", "must be one of blocking|thread|inline|map|twice|never|wrong"},
           {"compleiton: map", "f.yaml:4:15", "did you mean 'completion'?"},
           {"delay_us: -1", "f.yaml:4:25", "out of range"}};
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    tni_registry *r = NULL;
    tn_error err = {0};
    CU_ASSERT_EQUAL(open_registry(t[i].options, &r, &err), TN_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.where, t[i].where);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, t[i].says));
    CU_ASSERT_PTR_NULL(r);
    tni_registry_destroy(r);
  }
}

/* Two registries in one process, and many one after the other: contexts do not mix, nothing piles up. */
static void test_registries(void) {
  tni_registry *a = NULL, *b = NULL;
  tn_error err = {0};
  CU_ASSERT_EQUAL_FATAL(open_registry("", &a, &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(open_registry("completion: thread", &b, &err), TN_OK);
  const tni_plugin_info *i = tni_registry_find(a, "fake-engine"), *j = tni_registry_find(b, "fake-engine");
  CU_ASSERT_FATAL(i->n_devices == 1 && j->n_devices == 1);
  CU_ASSERT(i->host->ctx != j->host->ctx && i->plugin != j->plugin && i->devices[0] != j->devices[0]);
  CU_ASSERT(i->loaded && i->minor == TN_ABI_MINOR && !i->builtin && i->why.code == TN_OK);
  CU_ASSERT_STRING_EQUAL(i->version, "1.0.0");
  CU_ASSERT_STRING_EQUAL(tni_registry_get(a, 1)->name, "host"); /* always there, at the end */
  tni_registry_destroy(a);
  CU_ASSERT_EQUAL(j->devices[0]->caps->n_engines, 1);
  tni_registry_destroy(b);
  for (int k = 0; k < 50; k++) {
    CU_ASSERT_EQUAL(open_registry("", &a, &err), TN_OK);
    tni_registry_destroy(a);
  }
}

/* The built-in host device and whatever the build made of the shipped plugins, through the same door. */
static void test_shipped(void) {
  const char *avx2 = getenv("TENON_TEST_AVX2");
  const char *const dirs[] = {avx2 && *avx2 ? avx2 : "/nonexistent"};
  static const char yaml[] = "plugins: [{name: cpu-avx2-lut, optional: true}]";
  tni_profile *p = NULL;
  tni_registry *r = NULL;
  tn_error err = {0};
  CU_ASSERT_EQUAL_FATAL(tni_profile_parse(yaml, sizeof yaml - 1, "s.yaml", &p, &err), TN_OK);
  const tni_profile_option no_matmul = {.key = "no_matmul", .value = "true"};
  tni_registry_opts o = {.dirs = dirs,
                         .n_dirs = 1,
                         .max_workers = 1,
                         .allow_shared_writable = true,
                         .host_options = &no_matmul,
                         .n_host_options = 1};
  tn_status st = tni_registry_create(&o, p, &r, &err);
  tni_profile_destroy(p);
  if (st != TN_OK) printf("\n  %s (%s)\n", err.message, err.where);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  const tni_plugin_info *i = tni_registry_get(r, 0), *host = tni_registry_get(r, 1);
  /* Without AVX2, or built for another machine, it must say so; nothing else may keep it away. */
  CU_ASSERT(!avx2 || !*avx2 || i->n_devices == 1 || strstr(i->why.message, "needs processor features"));
  CU_ASSERT(host->builtin && host->n_devices == 1 && host->devices[0]->caps->n_engines == 0);
  int64_t on = 0;
  CU_ASSERT_EQUAL(host->host->option(host->host->ctx, "no_matmul", TN_OPT_BOOL, &on), TN_OK);
  CU_ASSERT_EQUAL(on, 1);
  tni_registry_destroy(r);
}

const test_case engine_tests[] = {{"claim", test_claim},
                                  {"completion modes", test_modes},
                                  {"separate memory", test_separate_memory},
                                  {"device lost", test_device_lost},
                                  {"option mistakes", test_option_mistake},
                                  {"registries", test_registries},
                                  {"shipped", test_shipped},
                                  {0}};
