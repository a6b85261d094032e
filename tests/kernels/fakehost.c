/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/fakehost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- graphs ---------------------------------------------------------------------------------------------------- */

void graph_init(fake_graph *g) {
  memset(g, 0, sizeof *g);
  g->pub = (tn_graph){
      .h = TN_HDR(tn_graph), .ctx = &g->ctx, .nodes = g->node_ptr, .values = g->value_ptr, .symbols = g->symbol_ptr};
}

void graph_free(fake_graph *g) {
  for (uint32_t i = 0; i < MAX_VALUES; i++) free(g->data[i]);
}

tn_expr ex(fake_graph *g, int64_t v) { return kit_const(&g->ctx, v); }

tn_expr sym(fake_graph *g, const char *name, int64_t lo, int64_t hi) {
  const uint32_t i = g->pub.n_symbols++;
  const tn_expr e = kit_symbol(&g->ctx, i, 0, hi);
  g->symbols[i] = (tn_symbol){.h = TN_HDR(tn_symbol), .name = name, .lo = lo, .hi = hi};
  g->symbol_ptr[i] = &g->symbols[i];
  return e;
}

tn_expr ex2(fake_graph *g, int kind, tn_expr a, tn_expr b) { return kit_binary(&g->ctx, kind, a, b); }

tn_id value(fake_graph *g, uint32_t kind, uint32_t rank, const tn_expr *dims) {
  tn_id v = g->pub.n_values++;
  if (v >= MAX_VALUES) abort();
  if (rank <= TN_MAX_RANK && rank) memcpy(g->dims[v], dims, rank * sizeof *dims);
  g->values[v] = (tn_value){.h = TN_HDR(tn_value),
                            .kind = kind,
                            .dtype = TN_DT_F32,
                            .rank = rank,
                            .dims = g->dims[v],
                            .uses = g->uses[v],
                            .producer = TN_NONE,
                            .origin = TN_NONE,
                            .name = "value"};
  g->value_ptr[v] = &g->values[v];
  return v;
}

tn_id constant_of(fake_graph *g, uint32_t rank, const int64_t *dims, const float *data) {
  tn_expr e[TN_MAX_RANK] = {0};
  int64_t n = 1;
  for (uint32_t i = 0; i < rank; i++) {
    e[i] = ex(g, dims[i]);
    n *= dims[i];
  }
  tn_id v = value(g, TN_VALUE_CONST, rank, e);
  rng r = rng_of(4000 + v);
  g->count[v] = n;
  g->data[v] = malloc((size_t)(n ? n : 1) * sizeof(float));
  if (!g->data[v]) abort();
  if (data)
    memcpy(g->data[v], data, (size_t)n * sizeof *data);
  else
    fill(g->data[v], (size_t)n, V_NORMAL, 1, &r);
  return v;
}

tn_id constant(fake_graph *g, uint32_t rank, const int64_t *dims) { return constant_of(g, rank, dims, NULL); }

tn_id node(fake_graph *g, uint32_t op, tn_id a, tn_id b, tn_id c, tn_id out) {
  tn_id n = g->pub.n_nodes++;
  if (n >= MAX_NODES) abort();
  const tn_id io[4] = {a, b, c, out};
  memcpy(g->io[n], io, sizeof io);
  g->nodes[n] = (tn_node){.h = TN_HDR(tn_node),
                          .op = op,
                          .n_in = c != TN_NONE   ? 3
                                  : b != TN_NONE ? 2
                                                 : 1,
                          .n_out = 1,
                          .in = g->io[n],
                          .out = &g->io[n][3],
                          .attr = g->attrs[n],
                          .name = "node",
                          .domain = ""};
  g->node_ptr[n] = &g->nodes[n];
  if (out != TN_NONE) g->values[out].producer = n;
  return n;
}

void gemm_attrs(fake_graph *g, tn_id n, double alpha, double beta, int64_t trans_a, int64_t trans_b) {
  for (uint32_t i = 0; i < 4; i++) {
    tn_attr *a = &g->attr[n][i];
    *a = (tn_attr){.h = TN_HDR(tn_attr), .type = i < 2 ? TN_ATTR_FLOAT : TN_ATTR_INT, .n = 1};
    if (i < 2)
      a->u.f = i ? beta : alpha;
    else
      a->u.i = i == 2 ? trans_a : trans_b;
    g->attrs[n][i] = a;
  }
  g->nodes[n].n_attr = 4;
}

tn_id fused_node(fake_graph *g, const fused_spec *s) {
  tn_id n = g->pub.n_nodes++;
  if (n >= MAX_NODES || s->n_in + s->n_out > MAX_IO) abort();
  memcpy(g->io[n], s->in, s->n_in * sizeof *s->in);
  memcpy(g->io[n] + s->n_in, s->out, s->n_out * sizeof *s->out);
  const tn_attr a[MAX_ATTR] = {{.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 3 * s->n_ops, .u.ints = s->ops},
                               {.h = TN_HDR(tn_attr), .type = TN_ATTR_FLOATS, .n = s->n_ops, .u.floats = s->floats},
                               {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = s->n_out, .u.ints = s->results},
                               {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = s->n_weights},
                               {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = s->trans_b},
                               {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 3 * s->n_parts, .u.ints = s->parts}};
  for (uint32_t i = 0; i < MAX_ATTR; i++) {
    g->attr[n][i] = a[i];
    g->attrs[n][i] = &g->attr[n][i];
  }
  g->nodes[n] = (tn_node){.h = TN_HDR(tn_node),
                          .op = TN_OP_FUSED_MATMUL,
                          .n_in = (uint16_t)s->n_in,
                          .n_out = (uint16_t)s->n_out,
                          .n_attr = MAX_ATTR,
                          .in = g->io[n],
                          .out = g->io[n] + s->n_in,
                          .attr = g->attrs[n],
                          .name = "fused",
                          .domain = "tenon"};
  g->node_ptr[n] = &g->nodes[n];
  for (uint32_t i = 0; i < s->n_out; i++)
    if (s->out[i] != TN_NONE) g->values[s->out[i]].producer = n;
  return n;
}

void graph_finish(fake_graph *g) {
  for (tn_id n = 0; n < g->pub.n_nodes; n++)
    for (uint32_t i = 0; i < g->nodes[n].n_in; i++)
      if (g->io[n][i] != TN_NONE) g->uses[g->io[n][i]][g->values[g->io[n][i]].n_uses++] = n;
}

/* --- services -------------------------------------------------------------------------------------------------- */

uint32_t fake_variant(char *text, const char **set, uint32_t cap, uint32_t *phase) {
  uint32_t n = 0;
  for (char *w = strtok(text, ","); w && n < cap; w = strtok(NULL, ",")) {
    if (!strcmp(w, "prefill"))
      *phase = TN_PHASE_PREFILL;
    else if (!strcmp(w, "decode"))
      *phase = TN_PHASE_DECODE;
    else
      set[n++] = w;
  }
  return n;
}

/* A value in the spelling of a profile. */
static tn_status option_value(uint32_t type, const char *text, void *out) {
  if (type == TN_OPT_STRING) return *(const char **)out = text, TN_OK;
  if (type == TN_OPT_FLOAT) return *(double *)out = strtod(text, NULL), TN_OK;
  if (type == TN_OPT_BOOL) return *(int64_t *)out = !strcmp(text, "true"), TN_OK;
  return *(int64_t *)out = strtoll(text, NULL, 10), TN_OK;
}

/* What the harness was told, and what the plugin's own table says. */
static tn_status generic_option(const fake *f, const char *key, uint32_t type, bool defaults, void *out) {
  const size_t n = strlen(key);
  for (uint32_t i = 0; i < f->n_set; i++)
    if (!strncmp(f->set[i], key, n) && f->set[i][n] == '=') return option_value(type, f->set[i] + n + 1, out);
  for (uint32_t i = 0; defaults && f->plugin && i < f->plugin->n_options; i++) {
    const tn_option *o = f->plugin->options[i];
    if (!strcmp(o->key, key) && o->type == type) return option_value(type, o->dflt, out);
  }
  return TN_E_INVALID;
}

static tn_status option(tn_host_ctx *ctx, const char *key, uint32_t type, void *out) {
  const fake *f = (const fake *)ctx;
  if (f->set) return generic_option(f, key, type, true, out);
  const struct {
    const char *key;
    uint32_t type;
    int64_t v;
  } ints[] = {{"group", TN_OPT_INT, f->group},
              {"min_k", TN_OPT_INT, f->min_k},
              {"min_n", TN_OPT_INT, f->min_n},
              {"act_matmul", TN_OPT_BOOL, f->act_matmul},
              {"act_bits", TN_OPT_INT, f->act_bits ? f->act_bits : 9}};
  for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
    if (!strcmp(key, ints[i].key) && type == ints[i].type) return *(int64_t *)out = ints[i].v, TN_OK;
  if (!strcmp(key, "format") && type == TN_OPT_STRING)
    return *(const char **)out = f->format ? f->format : "w4g", TN_OK;
  if (!strcmp(key, "act_scales") && type == TN_OPT_STRING)
    return *(const char **)out = f->act_scales ? f->act_scales : "group", TN_OK;
  if (!strcmp(key, "isa") && type == TN_OPT_STRING) return *(const char **)out = f->isa, TN_OK;
  return TN_E_INVALID;
}

bool fake_open(fake *f, const char *so) {
  kit_host_init(&f->h, 4);
  kit_exprs_serve(&f->h.host);
  f->h.host.option = option;
  f->err = (tn_error){.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
  f->plugin = NULL; /* options are asked for before it is known */
  f->device = NULL;
  return kit_host_load(&f->h, so, &f->plugin, &f->err) && f->plugin->open(f->plugin, 0, &f->device, &f->err) == TN_OK;
}

void fake_close(fake *f) {
  if (f->device) f->plugin->close(f->device);
  if (f->plugin) f->plugin->shutdown(f->plugin);
  f->device = NULL;
  f->plugin = NULL;
}

/* --- claims ---------------------------------------------------------------------------------------------------- */

static tn_status on_node(void *ctx, tn_id n, const tn_claim *c) {
  answers *a = ctx;
  if (n >= MAX_NODES) return TN_E_INVALID;
  a->node[n] = *c;
  a->n_answers[n]++;
  return TN_OK;
}

static tn_status on_group(void *ctx, const tn_id *nodes, uint32_t n, const tn_claim *c) {
  answers *a = ctx;
  if (a->n_groups == MAX_GROUPS || n > MAX_NODES) return TN_E_INVALID;
  memcpy(a->group[a->n_groups], nodes, n * sizeof *nodes);
  a->group_n[a->n_groups] = n;
  a->group_claim[a->n_groups++] = *c;
  return TN_OK;
}

tn_status fake_claim(fake *f, const fake_graph *g, const tn_dims *at, answers *a) {
  memset(a, 0, sizeof *a);
  tn_claim_sink sink = {.h = TN_HDR(tn_claim_sink), .ctx = a, .node = on_node, .group = on_group};
  return f->device->claim(f->device, &g->pub, at, &sink, &f->err);
}

void fake_dims(tn_dims *d, const fake_graph *g, const int64_t *symbols) {
  *d = (tn_dims){.h = TN_HDR(tn_dims), .v = symbols, .n = g->pub.n_symbols};
}

int64_t fake_count(const fake_graph *g, tn_id v, const int64_t *symbols) {
  tn_dims d;
  int64_t n = 1, one;
  fake_dims(&d, g, symbols);
  for (uint32_t i = 0; i < g->values[v].rank; i++) {
    if (kit_eval(&g->pub, g->dims[v][i], &d, &one) != TN_OK) abort();
    n *= one;
  }
  return n;
}

/* --- the walk -------------------------------------------------------------------------------------------------- */

typedef struct chosen {
  tn_id nodes[MAX_NODES], group_of[MAX_NODES], inputs[MAX_VALUES], outputs[MAX_VALUES];
  tn_subgraph s;
} chosen;

static bool is_output(const fake_graph *g, tn_id v, const bool *taken) {
  if (g->values[v].kind == TN_VALUE_OUTPUT) return true;
  for (uint32_t i = 0; i < g->values[v].n_uses; i++)
    if (!taken[g->uses[v][i]]) return true;
  return false;
}

static void choose(const fake_graph *g, const answers *a, chosen *c) {
  bool taken[MAX_NODES] = {false};
  tn_id group[MAX_NODES];
  memset(c, 0, sizeof *c);
  for (uint32_t i = 0; i < MAX_NODES; i++) group[i] = TN_NONE;
  for (uint32_t k = 0; k < a->n_groups; k++) {
    bool all_free = true;
    for (uint32_t i = 0; i < a->group_n[k]; i++) all_free = all_free && !taken[a->group[k][i]];
    for (uint32_t i = 0; all_free && i < a->group_n[k]; i++) {
      taken[a->group[k][i]] = true;
      group[a->group[k][i]] = k;
    }
  }
  for (tn_id n = 0; n < g->pub.n_nodes; n++) taken[n] = taken[n] || a->node[n].verdict == TN_YES;
  for (tn_id n = 0; n < g->pub.n_nodes; n++) {
    if (!taken[n]) continue;
    c->nodes[c->s.n_nodes] = n;
    c->group_of[c->s.n_nodes++] = group[n];
    for (uint32_t i = 0; i < g->nodes[n].n_out; i++) {
      tn_id y = g->nodes[n].out[i];
      if (y != TN_NONE && is_output(g, y, taken)) c->outputs[c->s.n_outputs++] = y;
    }
  }
  c->s.h = (tn_hdr)TN_HDR(tn_subgraph);
  c->s.graph = &g->pub;
  c->s.nodes = c->nodes;
  c->s.group_of = c->group_of;
  c->s.inputs = c->inputs;
  c->s.outputs = c->outputs;
}

float *fake_joined(const fake_graph *g, const tn_need *need, int64_t *N, int64_t *K) {
  int64_t n0 = 0, total = 1;
  bool kn = need->flags & TN_NEED_KN;
  for (uint32_t i = 0; i < need->n_values; i++) total += g->count[need->values[i]];
  float *w = malloc((size_t)total * sizeof *w);
  if (!w) abort();
  for (uint32_t i = 0; i < need->n_values; i++) {
    tn_id v = need->values[i];
    int64_t r = g->ctx.e[g->dims[v][0]].v, c = g->ctx.e[g->dims[v][1]].v, n = kn ? c : r;
    *K = kn ? r : c;
    for (int64_t a = 0; a < n; a++)
      for (int64_t k = 0; k < *K; k++) w[(n0 + a) * *K + k] = g->data[v][kn ? k * n + a : a * *K + k];
    n0 += n;
  }
  *N = n0;
  return w;
}

static tn_status give_weights(fake *f, const fake_graph *g, walked *w) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < w->info->n_slots; i++) {
    const tn_slot *s = w->info->slots[i];
    if (s->kind != TN_SLOT_WEIGHT) continue;
    const tn_need *need = w->info->needs[s->need];
    tn_view v = {.h = TN_HDR(tn_view)};
    const tn_blob *blob = NULL;
    if (need->format) {
      int64_t N = 0, K = 0;
      float *m = fake_joined(g, need, &N, &K);
      w->packed[s->need] = pack_as(need->format, need->params, need->n_params, m, N, K, &w->blobs[s->need]);
      free(m);
      blob = &w->blobs[s->need];
      v.ptr = w->packed[s->need];
      v.bytes = blob->bytes;
    } else {
      /* As in a mapped file: at any address. */
      v.bytes = (uint64_t)g->count[need->values[0]] * 4;
      w->packed[s->need] = malloc(v.bytes + 1);
      if (!w->packed[s->need]) abort();
      v.ptr = memcpy(w->packed[s->need] + 1, g->data[need->values[0]], v.bytes);
    }
    st = f->device->set(w->program, i, &v, blob, &f->err);
  }
  return st;
}

/* Memory of an output: its own, or that of the input that it may overwrite, filled with it. */
static void place_output(fake *f, const fake_graph *g, walked *w, const tn_slot *s, int64_t n, guarded *memory) {
  memory[s->value] = guarded_new((size_t)n * 4);
  if (!f->alias || s->alias == TN_NONE) return;
  tn_id in = w->info->slots[s->alias]->value;
  if (w->info->slots[s->alias]->kind != TN_SLOT_INPUT || g->count[in] != n || memory[in].base) abort();
  memcpy(memory[s->value].p, g->data[in], (size_t)n * 4);
  memory[in] = (guarded){.p = memory[s->value].p};
  w->n_aliased++;
}

tn_run fake_run(fake *f) { return kit_host_run(&f->h); }

static tn_status run_task(fake *f, fake_graph *g, walked *w, tn_id task, const tn_dims *dims, guarded *memory) {
  const tn_task *t = w->info->tasks[task];
  uint64_t slot_bytes[MAX_VALUES] = {0};
  tn_view views[MAX_VALUES];
  const tn_view *ptrs[MAX_VALUES];
  tn_measure m = {.h = TN_HDR(tn_measure), .slot_bytes = slot_bytes};
  tn_plan *plan = NULL;
  tn_args *args = NULL;
  tn_status st = f->device->measure(w->program, task, dims, &m);
  if (st != TN_OK) return st;
  w->scratch += m.scratch_bytes;
  for (uint32_t i = 0; i < t->n_uses; i++) {
    const tn_slot *s = w->info->slots[t->uses[i].slot];
    if ((t->uses[i].access & TN_WRITE) && !memory[s->value].p)
      place_output(f, g, w, s, fake_count(g, s->value, dims->v), memory);
  }
  for (uint32_t i = 0; i < t->n_uses; i++) {
    const tn_slot *s = w->info->slots[t->uses[i].slot];
    views[i] = (tn_view){.h = TN_HDR(tn_view)};
    ptrs[i] = &views[i];
    if (s->kind == TN_SLOT_WEIGHT) continue;
    int64_t n = fake_count(g, s->value, dims->v);
    if (s->kind == TN_SLOT_TEMP && slot_bytes[t->uses[i].slot] != (uint64_t)n * 4) return TN_E_INTERNAL;
    views[i].ptr = memory[s->value].p ? (void *)memory[s->value].p : (void *)g->data[s->value];
    views[i].bytes = (uint64_t)n * 4;
  }
  guarded scratch = guarded_new(m.scratch_bytes);
  views[t->n_uses] = (tn_view){.h = TN_HDR(tn_view), .ptr = scratch.p, .bytes = scratch.bytes};
  ptrs[t->n_uses] = &views[t->n_uses];
  st = f->device->bind(w->program, task, dims, &plan, &f->err);
  if (st == TN_OK) st = f->device->args(plan, ptrs, t->n_uses + 1, &args, &f->err);
  if (st == TN_OK) {
    tn_run run = fake_run(f);
    int64_t before = f->h.total;
    st = f->device->run(plan, args, &run, &f->err);
    w->run_allocs += f->h.total - before;
  }
  f->device->args_free(args);
  f->device->unbind(plan);
  w->guards_ok = w->guards_ok && guarded_ok(&scratch);
  guarded_free(&scratch);
  return st;
}

static void take_results(fake_graph *g, walked *w, guarded *memory, const int64_t *symbols) {
  for (tn_id v = 0; v < g->pub.n_values; v++) {
    if (!memory[v].base) continue;
    w->guards_ok = w->guards_ok && guarded_ok(&memory[v]);
    free(g->data[v]);
    g->count[v] = fake_count(g, v, symbols);
    g->data[v] = malloc(memory[v].bytes + 1);
    if (!g->data[v]) abort();
    memcpy(g->data[v], memory[v].p, memory[v].bytes);
    guarded_free(&memory[v]);
  }
}

walked fake_prepare(fake *f, const fake_graph *g, const tn_dims *dims) {
  walked w = {.guards_ok = true};
  static answers a;
  chosen c;
  w.st = fake_claim(f, g, dims, &a);
  if (w.st != TN_OK) return w;
  choose(g, &a, &c);
  w.st = f->device->lower(f->device, &c.s, &w.program, &f->err);
  if (w.st != TN_OK) return w;
  memset(&c, 0xee, sizeof c); /* nothing of the subgraph may be kept */
  w.info = f->device->info(w.program);
  w.st = give_weights(f, g, &w);
  return w;
}

walked walk(fake *f, fake_graph *g, const int64_t *symbols) {
  guarded memory[MAX_VALUES] = {{0}};
  tn_dims dims;
  fake_dims(&dims, g, symbols);
  walked w = fake_prepare(f, g, &dims);
  for (tn_id t = 0; w.st == TN_OK && t < w.info->n_tasks; t++) w.st = run_task(f, g, &w, t, &dims, memory);
  take_results(g, &w, memory, symbols);
  return w;
}

void walked_free(fake *f, walked *w) {
  if (w->program) f->device->release(w->program);
  for (uint32_t i = 0; i < MAX_NEEDS; i++) free(w->packed[i]);
}
