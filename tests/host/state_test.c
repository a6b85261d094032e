/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches on the host device: TensorScatter appends to one memory, Attention reads it with its strides and stops at the
 * valid length. Rows behind it and between sequences are NaN, so that whoever reads one is found out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "runtime/graph/view.h"
#include "runtime/shape/infer.h"
#include "tests/kit/nodes.h"

enum { B = 2, H = 2, HQ = 4, D = 8, ROOM = 200, MAX_ROWS = 150 };

/* y = Attention(q, k', v', -, -, -, valid), k' and v' appended to at pos. flat: [B, T, H * D] instead of [B, H, T, D].
 */
typedef struct model {
  tni_graph *g;
  tn_graph view;
  tn_id q, k, v, y, pos, valid, in[2], out[2];
  bool flat;
  tn_error err;
} model;

static tn_id value(model *m, const char *name, uint32_t kind, uint32_t dtype, uint32_t rank, const tn_expr *dims) {
  const tn_id v = tni_graph_add_value(m->g, name, kind, dtype);
  CU_ASSERT_EQUAL_FATAL(tni_value_set_dims(m->g, v, rank, dims), TN_OK);
  return v;
}

static void shape(const model *m, int64_t heads, tn_expr length, tn_expr *dims) {
  tni_exprs *x = m->g->exprs;
  const tn_expr flat[3] = {tni_ex_const(x, B), length, tni_ex_const(x, heads * D)};
  const tn_expr split[4] = {flat[0], tni_ex_const(x, heads), length, tni_ex_const(x, D)};
  memcpy(dims, m->flat ? flat : split, (m->flat ? 3 : 4) * sizeof *dims);
}

static void make_states(model *m, tn_expr whole) {
  const uint32_t rank = m->flat ? 3 : 4;
  tn_expr dims[4];
  tn_state *s = tni_arena_alloc(m->g->arena, sizeof *s, 8);
  *s = (tn_state){.h = TN_HDR(tn_state), .axis = m->flat ? 1 : 2, .pos = m->pos, .valid = m->valid};
  shape(m, H, whole, dims);
  for (int i = 0; i < 2; i++) {
    m->in[i] = value(m, i ? "v in" : "k in", TN_VALUE_STATE, TN_DT_F32, rank, dims);
    m->out[i] = value(m, i ? "v out" : "k out", TN_VALUE_STATE, TN_DT_F32, rank, dims);
    m->g->values[m->in[i]]->pub.state = m->g->values[m->out[i]]->pub.state = s;
  }
}

static void add_scatter(model *m, int i, const char *name) {
  const tn_id in[3] = {m->in[i], i ? m->v : m->k, m->pos};
  tni_raw_attr axis = {.name = "axis",
                       .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = m->flat ? 1 : 2}};
  tn_id id;
  CU_ASSERT_EQUAL_FATAL(
      tni_graph_add_node(m->g, name, "", "TensorScatter", 24, in, 3, &m->out[i], 1, &axis, 1, &id, &m->err), TN_OK);
}

static model make(bool flat) {
  model m = {.flat = flat};
  tn_expr dims[4], b;
  tni_error_init(&m.err);
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "m", &m.g, &m.err), TN_OK);
  tni_exprs *x = m.g->exprs;
  const tn_expr s = tni_ex_sym(x, "S"), p = tni_ex_sym(x, "P");
  const uint32_t rank = flat ? 3 : 4;
  b = tni_ex_const(x, B);
  shape(&m, HQ, s, dims);
  m.q = value(&m, "q", TN_VALUE_INPUT, TN_DT_F32, rank, dims);
  m.y = value(&m, "y", TN_VALUE_ACT, TN_DT_F32, rank, dims);
  shape(&m, H, s, dims);
  m.k = value(&m, "k", TN_VALUE_INPUT, TN_DT_F32, rank, dims);
  m.v = value(&m, "v", TN_VALUE_INPUT, TN_DT_F32, rank, dims);
  m.g->step_pos = m.pos = value(&m, "pos", TN_VALUE_STEP, TN_DT_I64, 1, &b);
  m.g->step_valid = m.valid = value(&m, "valid", TN_VALUE_STEP, TN_DT_I64, 1, &b);
  make_states(&m, tni_ex_add(x, p, s));
  add_scatter(&m, 0, "append k");
  add_scatter(&m, 1, "append v");
  const tn_id in[7] = {m.q, m.out[0], m.out[1], TN_NONE, TN_NONE, TN_NONE, m.valid};
  tni_raw_attr attr[3];
  static const char *const names[3] = {"is_causal", "q_num_heads", "kv_num_heads"};
  for (int i = 0; i < 3; i++)
    attr[i] = (tni_raw_attr){.name = names[i], .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1}};
  attr[0].a.u.i = 1;
  attr[1].a.u.i = HQ;
  attr[2].a.u.i = H;
  tn_id id;
  CU_ASSERT_EQUAL_FATAL(
      tni_graph_add_node(m.g, "attend", "", "Attention", 24, in, 7, &m.y, 1, attr, flat ? 3 : 1, &id, &m.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_set_io(m.g, (tn_id[]){m.q, m.k, m.v}, 3, &m.y, 1), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(m.g, &m.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_infer_graph(m.g, &m.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(m.g, 0, &m.view, &m.err), TN_OK);
  return m;
}

static tn_program *lower(dev *v, const model *m) {
  static tn_id nodes[3], groups[3], in[5], states[2];
  tn_program *p = NULL;
  for (uint32_t i = 0; i < 3; i++) {
    nodes[i] = i;
    groups[i] = TN_NONE;
  }
  memcpy(in, (tn_id[]){m->q, m->k, m->v, m->pos, m->valid}, sizeof in);
  memcpy(states, m->in, sizeof states);
  const tn_subgraph s = {.h = TN_HDR(tn_subgraph),
                         .graph = &m->view,
                         .nodes = nodes,
                         .group_of = groups,
                         .inputs = in,
                         .outputs = &m->y,
                         .states = states,
                         .n_nodes = 3,
                         .n_inputs = 5,
                         .n_outputs = 1,
                         .n_states = 2};
  CU_ASSERT_EQUAL_FATAL(v->d->lower(v->d, &s, &p, NULL), TN_OK);
  return p;
}

/* --- memory of a session --- */

typedef struct memory {
  int how;
  float *cache[2], *q, *k, *v, *y;
  int64_t pos[B], valid[B], dims[4], strides[4];
  uint64_t cache_bytes;
} memory;

/* How the memory lies: as the value has it, or, of a flat one, with heads apart. */
typedef enum { SPLIT, FLAT, APART } lie;

static memory memory_make(lie how) {
  memory m = {.how = how, .cache_bytes = (uint64_t)B * ROOM * H * D * sizeof(float)};
  const int64_t n = B * ROOM * H * D;
  for (int i = 0; i < 2; i++) {
    m.cache[i] = malloc(m.cache_bytes);
    for (int64_t e = 0; e < n; e++) m.cache[i][e] = NAN;
  }
  m.q = malloc(sizeof(float) * B * MAX_ROWS * HQ * D);
  m.k = malloc(sizeof(float) * B * MAX_ROWS * H * D);
  m.v = malloc(sizeof(float) * B * MAX_ROWS * H * D);
  m.y = malloc(sizeof(float) * B * MAX_ROWS * HQ * D);
  const int64_t st3[4] = {ROOM * H * D, H * D, 1, 0}, st4[4] = {H * ROOM * D, ROOM * D, D, 1};
  const int64_t apart[4] = {H * ROOM * D, D, ROOM * D, 1}, dims[4] = {B, ROOM, H, D};
  memcpy(m.strides, how == APART ? apart : how == FLAT ? st3 : st4, sizeof st3);
  memcpy(m.dims, dims, sizeof dims);
  return m;
}

static void memory_free(memory *m) {
  free(m->cache[0]);
  free(m->cache[1]);
  free(m->q);
  free(m->k);
  free(m->v);
  free(m->y);
}

static tn_view view_of(const model *m, memory *x, const tn_slot *slot, int64_t rows) {
  const tn_id v = slot->value;
  tn_view w = {.h = TN_HDR(tn_view), .dtype = TN_DT_F32};
  if (slot->kind == TN_SLOT_STATE) {
    w.ptr = x->cache[v == m->in[1]];
    w.bytes = x->cache_bytes;
    w.rank = x->how == FLAT ? 3 : 4;
    w.dims = x->dims;
    w.strides = x->strides;
  } else if (slot->kind == TN_SLOT_STEP) {
    w.ptr = v == m->pos ? x->pos : x->valid;
    w.bytes = sizeof x->pos;
  } else {
    w.ptr = v == m->q ? x->q : v == m->k ? x->k : v == m->v ? x->v : x->y;
    w.bytes = (uint64_t)(B * rows * (v == m->q || v == m->y ? HQ : H) * D) * sizeof(float);
  }
  return w;
}

/* One task with `rows` new rows and dims of `past` before them. change: what to spoil in the views, or NULL. */
static tn_status run_task(dev *v, tn_program *p, const model *m, memory *x, uint32_t t, int64_t rows, int64_t past,
                          void (*change)(tn_view *), tn_run *run, tn_error *err) {
  const tn_program_info *info = v->d->info(p);
  const int64_t sym[2] = {rows, past};
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = sym, .n = 2};
  const tn_task *task = info->tasks[t];
  tn_measure me = {.h = TN_HDR(tn_measure)};
  tn_view views[8];
  const tn_view *ptrs[8];
  tn_plan *plan = NULL;
  tn_args *args = NULL;
  CU_ASSERT_EQUAL_FATAL(v->d->measure(p, t, &dims, &me), TN_OK);
  CU_ASSERT_EQUAL_FATAL(v->d->bind(p, t, &dims, &plan, err), TN_OK);
  for (uint32_t u = 0; u < task->n_uses; u++) {
    views[u] = view_of(m, x, info->slots[task->uses[u].slot], rows);
    if (change && info->slots[task->uses[u].slot]->kind == TN_SLOT_STATE) change(&views[u]);
    ptrs[u] = &views[u];
  }
  void *scratch = aligned_alloc(64, (me.scratch_bytes + 64) & ~63ull);
  views[task->n_uses] = (tn_view){.h = TN_HDR(tn_view), .ptr = scratch, .bytes = me.scratch_bytes};
  ptrs[task->n_uses] = &views[task->n_uses];
  tn_status st = v->d->args(plan, ptrs, task->n_uses + 1, &args, err);
  if (st == TN_OK) st = v->d->run(plan, args, run, err);
  v->d->args_free(args);
  v->d->unbind(plan);
  free(scratch);
  return st;
}

static void step(dev *v, tn_program *p, const model *m, memory *x, int64_t rows, const int64_t *pos, int64_t past,
                 tn_run *run) {
  tn_error err;
  tni_error_init(&err);
  ht_fill(x->q, B * rows * HQ * D, (uint32_t)(pos[0] + 1));
  ht_fill(x->k, B * rows * H * D, (uint32_t)(pos[0] + 1001));
  ht_fill(x->v, B * rows * H * D, (uint32_t)(pos[0] + 2001));
  for (int b = 0; b < B; b++) {
    x->pos[b] = pos[b];
    x->valid[b] = pos[b] + rows;
  }
  for (uint32_t t = 0; t < 3; t++) {
    CU_ASSERT_EQUAL(run_task(v, p, m, x, t, rows, past, NULL, run, &err), TN_OK);
    if (err.code) printf("\n  %s\n", err.message);
  }
}

/* --- what it should be: plain attention of one sequence over dense rows --- */

typedef struct plain {
  float k[MAX_ROWS * H * D], v[MAX_ROWS * H * D]; /* [rows, H, D] */
  int64_t n;
} plain;

static int64_t at(const model *m, int64_t b, int64_t h, int64_t r, int64_t heads, int64_t rows) {
  return m->flat ? ((b * rows + r) * heads + h) * D : ((b * heads + h) * rows + r) * D;
}

static void expect(const model *m, const memory *x, plain *all, int64_t rows) {
  for (int64_t b = 0; b < B; b++) {
    plain *p = &all[b];
    for (int64_t r = 0; r < rows; r++)
      for (int64_t h = 0; h < H; h++) {
        memcpy(p->k + ((p->n + r) * H + h) * D, x->k + at(m, b, h, r, H, rows), D * sizeof(float));
        memcpy(p->v + ((p->n + r) * H + h) * D, x->v + at(m, b, h, r, H, rows), D * sizeof(float));
      }
    p->n += rows;
    char text[64], attrs[64];
    const char *in[4] = {text, NULL, NULL, NULL};
    char kv[64];
    snprintf(text, sizeof text, "f32[1,%lld,%d]", (long long)rows, HQ * D);
    snprintf(kv, sizeof kv, "f32[1,%lld,%d]", (long long)p->n, H * D);
    snprintf(attrs, sizeof attrs, "q_num_heads=%d kv_num_heads=%d", HQ, H);
    in[1] = in[2] = kv;
    /* causal from the end: a mask, because without past and valid length causality counts from the first key */
    char mask[64];
    snprintf(mask, sizeof mask, "bool[%lld,%lld]", (long long)rows, (long long)p->n);
    const char *with_mask[5] = {text, kv, kv, mask, NULL};
    ht_node n;
    tni_tensor y[1];
    CU_ASSERT_FATAL(ht_node_make(&n, "Attention", 24, attrs, with_mask, 1));
    for (int64_t r = 0; r < rows; r++)
      for (int64_t h = 0; h < HQ; h++)
        memcpy((char *)n.in[0].data + (r * HQ + h) * D * 4, x->q + at(m, b, h, r, HQ, rows), D * sizeof(float));
    memcpy(n.in[1].data, p->k, (size_t)(p->n * H * D) * sizeof(float));
    memcpy(n.in[2].data, p->v, (size_t)(p->n * H * D) * sizeof(float));
    for (int64_t r = 0; r < rows; r++)
      for (int64_t j = 0; j < p->n; j++) ((uint8_t *)n.in[3].data)[r * p->n + j] = j <= p->n - rows + r;
    CU_ASSERT_EQUAL(tni_ops_eval(NULL, n.node, n.ptr, n.n_in, y, 1, n.g->arena, &n.err), TN_OK);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t h = 0; h < HQ; h++)
        CU_ASSERT(memcmp((char *)y[0].data + (r * HQ + h) * D * 4, x->y + at(m, b, h, r, HQ, rows), D * 4) == 0);
    ht_node_free(&n);
  }
}

/* Sequences of different lengths, steps of several and of one row; dims rounded up beyond what is valid. */
static void test_steps(void) {
  static const int64_t rows[] = {3, 1, 70, 1, 1, 2};
  tni_pool *pool = tni_pool_create(2);
  tni_pool_run run;
  tni_pool_run_init(&run, pool, NULL);
  for (lie how = SPLIT; how <= APART; how++) {
    const bool flat = how != SPLIT;
    dev v = ht_dev_open(false);
    model m = make(flat);
    memory x = memory_make(how);
    tn_program *p = lower(&v, &m);
    plain *all = calloc(B, sizeof *all);
    int64_t pos[B] = {0, 0};
    /* the second sequence begins 5 rows later: rows that it has on its own */
    for (int64_t r = 0; r < 5; r++)
      for (int64_t h = 0; h < H; h++)
        for (int64_t d = 0; d < D; d++) {
          const int64_t row = flat ? x.strides[1] : x.strides[2], head = how == SPLIT  ? x.strides[1]
                                                                         : how == FLAT ? D
                                                                                       : x.strides[2];
          const int64_t to = x.strides[0] + r * row + h * head + d;
          x.cache[0][to] = all[1].k[(r * H + h) * D + d] = (float)(r + d) / 8;
          x.cache[1][to] = all[1].v[(r * H + h) * D + d] = (float)(r - h) / 8;
        }
    all[1].n = pos[1] = 5;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      const int64_t past = i % 2 ? 120 : pos[1];
      step(&v, p, &m, &x, rows[i], pos, past, &run.run);
      expect(&m, &x, all, rows[i]);
      for (int b = 0; b < B; b++) pos[b] += rows[i];
    }
    for (int i = 0; i < 2; i++) /* nothing was written behind the valid rows */
      for (int64_t r = pos[0]; r < ROOM; r++) CU_ASSERT(isnan(x.cache[i][flat ? r * x.strides[1] : r * x.strides[2]]));
    free(all);
    memory_free(&x);
    v.d->release(p);
    tni_graph_destroy(m.g);
    ht_dev_close(&v);
  }
  tni_pool_destroy(pool);
}

/* One slot for the two values; who appends, who reads, and who waits for whom. */
static void test_program(void) {
  dev v = ht_dev_open(false);
  model m = make(true);
  tn_program *p = lower(&v, &m);
  const tn_program_info *info = v.d->info(p);
  uint32_t states = 0;
  CU_ASSERT_EQUAL_FATAL(info->n_tasks, 3);
  for (uint32_t i = 0; i < info->n_slots; i++) {
    if (info->slots[i]->kind != TN_SLOT_STATE) continue;
    CU_ASSERT(info->slots[i]->value == m.in[0] || info->slots[i]->value == m.in[1]);
    states++;
  }
  CU_ASSERT_EQUAL(states, 2);
  for (uint32_t t = 0; t < 3; t++)
    for (uint32_t u = 0; u < info->tasks[t]->n_uses; u++) {
      const tn_use use = info->tasks[t]->uses[u];
      if (info->slots[use.slot]->kind == TN_SLOT_STATE) CU_ASSERT_EQUAL(use.access, t < 2 ? TN_APPEND : TN_READ);
    }
  CU_ASSERT_EQUAL(info->tasks[2]->n_deps, 2);
  CU_ASSERT_EQUAL(info->tasks[0]->n_deps + info->tasks[1]->n_deps, 0);
  /* what is moved is the rows, not the cache */
  const int64_t sym[2] = {1, 1000};
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = sym, .n = 2};
  tn_measure me = {.h = TN_HDR(tn_measure)};
  CU_ASSERT_EQUAL(v.d->measure(p, 0, &dims, &me), TN_OK);
  CU_ASSERT(me.moved_bytes < 4 * B * H * D * 4);
  CU_ASSERT_EQUAL(v.d->measure(p, 2, &dims, &me), TN_OK);
  const uint64_t scratch = me.scratch_bytes;
  const tn_dims longer = {.h = TN_HDR(tn_dims), .v = (const int64_t[]){1, 100000}, .n = 2};
  CU_ASSERT_EQUAL(v.d->measure(p, 2, &longer, &me), TN_OK);
  CU_ASSERT_EQUAL(me.scratch_bytes, scratch);
  v.d->release(p);
  tni_graph_destroy(m.g);
  ht_dev_close(&v);
}

static void one_byte_short(tn_view *w) {
  const int64_t last = 9 * w->strides[1] + w->strides[0] + H * D - 1;
  w->bytes = (uint64_t)(last + 1) * sizeof(float) - 1;
}
static void no_strides(tn_view *w) { w->strides = NULL; }
static void other_rank(tn_view *w) { w->rank = 4; }
static void apart(tn_view *w) {
  static const int64_t strides[3] = {ROOM * H * D, H * D, 2};
  w->strides = strides;
}
static void huge(tn_view *w) {
  static const int64_t strides[3] = {INT64_MAX, INT64_MAX, 1};
  w->strides = strides;
}
static void negative(tn_view *w) {
  static const int64_t strides[3] = {ROOM * H * D, -1, 1};
  w->strides = strides;
}

/* Views that do not hold the cache, and rows outside of it: a status with a name, and nothing is written. */
static void test_errors(void) {
  static void (*const changes[])(tn_view *) = {one_byte_short, no_strides, other_rank, apart, huge, negative};
  static const struct { int64_t rows, past, pos; } rows[] = {{2, 8, 9}, {2, 8, -1}, {3, 8, INT64_MAX}, {1, 0, 1}};
  dev v = ht_dev_open(false);
  model m = make(true);
  memory x = memory_make(FLAT);
  tn_program *p = lower(&v, &m);
  tn_run run;
  tni_run_inline(&run);
  ht_fill(x.k, B * 3 * H * D, 1);
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
    for (uint32_t t = 0; t < 3; t += 2) {
      tn_error err;
      tni_error_init(&err);
      CU_ASSERT_EQUAL(run_task(&v, p, &m, &x, t, 2, 8, changes[i], &run, &err), TN_E_INVALID);
      CU_ASSERT(strstr(err.where, t ? "attend" : "append k") != NULL);
    }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tn_error err;
    tni_error_init(&err);
    x.pos[0] = 0;
    x.pos[1] = rows[i].pos;
    CU_ASSERT_EQUAL(run_task(&v, p, &m, &x, 0, rows[i].rows, rows[i].past, NULL, &run, &err), TN_E_INVALID);
    CU_ASSERT(strstr(err.where, "append k") != NULL && strstr(err.message, "sequence 1") != NULL);
  }
  for (int64_t e = 0; e < B * ROOM * H * D; e++) CU_ASSERT(isnan(x.cache[0][e]));
  memory_free(&x);
  v.d->release(p);
  tni_graph_destroy(m.g);
  ht_dev_close(&v);
}

/* TensorScatter on plain tensors, beyond ONNX's own cases. */
static const struct {
  const char *attrs, *in[4], *out, *says;
} rows[] = {
    {"axis=1", {"f32[2,3,1] 1 2 3 4 5 6", "f32[2,1,1] 7 8"}, "f32[2,3,1] 7 2 3 8 5 6", NULL},
    {"axis=1", {"i8[2,3,1] 1 2 3 4 5 6", "i8[2,2,1] 7 8 9 10", "i64[2] 1 0"}, "i8[2,3,1] 1 7 8 9 10 6", NULL},
    {"axis=-1", {"f16[1,2,3] 1 2 3 4 5 6", "f16[1,2,1] 7 8", "i64[1] 2"}, "f16[1,2,3] 1 2 7 4 5 8", NULL},
    {"axis=1", {"f32[1,2,1] 1 2", "f32[1,0,1]", "i64[1] 9"}, "f32[1,2,1] 1 2", NULL},
    {"axis=1 mode='circular'", {"f32[1,3,1] 1 2 3", "f32[1,5,1] 4 5 6 7 8", "i64[1] 2"}, "f32[1,3,1] 8 6 7", NULL},
    {"axis=1", {"f32[1,3,1] 1 2 3", "f32[1,2,1] 4 5", "i64[1] 2"}, NULL, "2 rows at row 2 of sequence 0"},
    {"axis=1 mode='circular'", {"f32[1,3,1] 1 2 3", "f32[1,2,1] 4 5", "i64[1] -1"}, NULL, "row -1"},
    {"axis=0", {"f32[1,3,1] 1 2 3", "f32[1,2,1] 4 5"}, NULL, "axis"},
    {"axis=1", {"f32[1,3,1] 1 2 3", "f32[1,2,2] 4 5 6 7"}, NULL, "differ"},
    {"axis=1", {"f32[1,3,1] 1 2 3", "f32[1,2] 4 5"}, NULL, "rank"},
    {"axis=1", {"f32[2,3,1]", "f32[2,2,1]", "i64[1] 0"}, NULL, "one element per batch"},
};

static void test_rows(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ht_node n;
    tni_tensor out[1], want;
    CU_ASSERT_FATAL(ht_node_make(&n, "TensorScatter", 24, rows[i].attrs, rows[i].in, 1));
    const tn_status st = tni_ops_eval(NULL, n.node, n.ptr, n.n_in, out, 1, n.g->arena, &n.err);
    bool ok = st == (rows[i].says ? TN_E_INVALID : TN_OK);
    if (rows[i].says) ok = ok && strstr(n.err.message, rows[i].says) != NULL;
    if (rows[i].out) ok = ok && ht_tensor(n.g->arena, rows[i].out, &want) && ht_same(&out[0], &want, 0);
    CU_ASSERT(ok);
    if (!ok) printf("\n  row %zu: %s\n", i, n.err.message);
    ht_node_free(&n);
  }
}

bool ht_add_states(void) {
  CU_pSuite s = CU_add_suite("caches", NULL, NULL);
  return s && CU_add_test(s, "steps", test_steps) && CU_add_test(s, "program", test_program) &&
         CU_add_test(s, "errors", test_errors) && CU_add_test(s, "tensor scatter", test_rows);
}
