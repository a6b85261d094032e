/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/npu/minihost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/npu-int8-sim/w8.h"

extern const char *npu_so;

/* --- random ----------------------------------------------------------------------------------------------------- */

uint64_t npu_seed = 20260;

rng rng_of(uint64_t stream) { return (rng){npu_seed * 0x9e3779b97f4a7c15u + stream}; }

uint64_t rng_next(rng *r) {
  uint64_t z = r->s += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

int64_t rng_below(rng *r, int64_t n) { return (int64_t)(rng_next(r) % (uint64_t)n); }

/* Sum of twelve: near enough. */
double rng_normal(rng *r) {
  double s = 0;
  for (int i = 0; i < 12; i++) s += (double)(rng_next(r) >> 11) * 0x1p-53;
  return s - 6;
}

/* --- services --------------------------------------------------------------------------------------------------- */

static int64_t now(tn_host_ctx *ctx) { return ((mini *)ctx)->h.total; }

static tn_status option(tn_host_ctx *ctx, const char *key, uint32_t type, void *out) {
  const mini *m = (const mini *)ctx;
  const struct {
    const char *key;
    uint32_t type;
    int64_t i;
    double f;
    const char *s;
  } all[] = {{"profile", TN_OPT_STRING, 0, 0, m->profile},
             {"shadow", TN_OPT_STRING, 0, 0, m->shadow},
             {"fault", TN_OPT_STRING, 0, 0, m->fault},
             {"ffn", TN_OPT_STRING, 0, 0, "one"},
             {"chunk", TN_OPT_INT, m->chunk, 0, NULL},
             {"pieces", TN_OPT_INT, 1, 0, NULL},
             {"wake", TN_OPT_BOOL, m->wake, 0, NULL},
             {"offline", TN_OPT_BOOL, 0, 0, NULL},
             {"window_mib", TN_OPT_INT, m->window_mib, 0, NULL},
             {"prune", TN_OPT_FLOAT, 0, m->prune, NULL},
             {"hot", TN_OPT_FLOAT, 0, m->hot, NULL}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (strcmp(all[i].key, key) != 0 || all[i].type != type) continue;
    if (type == TN_OPT_STRING) *(const char **)out = all[i].s;
    if (type == TN_OPT_INT || type == TN_OPT_BOOL) *(int64_t *)out = all[i].i;
    if (type == TN_OPT_FLOAT) *(double *)out = all[i].f;
    return TN_OK;
  }
  return TN_E_INVALID;
}

tn_run mini_run(mini *m) { return kit_host_run(&m->h); }

mini mini_defaults(void) {
  return (mini){.h.backwards = true,
                .profile = "hmx-2026",
                .shadow = "all",
                .fault = "none",
                .chunk = 64,
                .wake = 1,
                .prune = 0.85,
                .hot = 0.8};
}

bool mini_open(mini *m) {
  kit_host_init(&m->h, 3);
  kit_exprs_serve(&m->h.host);
  m->h.host.now = now;
  m->h.host.option = option;
  m->err = (tn_error){.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
  if (!kit_host_load(&m->h, npu_so, &m->plugin, &m->err)) return false;
  m->counters = m->plugin->get_extension(m->plugin, TNI_NPU_COUNTERS, 1);
  return m->counters && m->plugin->open(m->plugin, 0, &m->device, &m->err) == TN_OK;
}

void mini_close(mini *m) {
  if (m->device) m->plugin->close(m->device);
  if (m->plugin) m->plugin->shutdown(m->plugin);
  m->device = NULL;
  m->plugin = NULL;
}

npusim_counters mini_count(mini *m) {
  npusim_counters c;
  m->counters->count(m->device, &c);
  return c;
}

/* --- graphs ----------------------------------------------------------------------------------------------------- */

static float *floats(int64_t n) {
  float *p = malloc((size_t)(n ? n : 1) * sizeof *p);
  if (!p) abort();
  return p;
}

void net_init(net *n, int64_t K, uint32_t n_weights, const int64_t *N, float s, rng *r) {
  memset(n, 0, sizeof *n);
  n->K = K;
  n->n_weights = n_weights;
  n->op = TN_OP_MATMUL;
  n->phase = TN_PHASE_PREFILL;
  n->ch_over = floats(K);
  for (int64_t k = 0; k < K; k++) n->ch_over[k] = 0;
  for (uint32_t j = 0; j < n_weights; j++) {
    const float amplitude = (float)(1 + rng_below(r, 100)) * 0.013f;
    n->N[j] = N[j];
    n->w[j] = floats(K * N[j]);
    for (int64_t i = 0; i < K * N[j]; i++) n->w[j][i] = amplitude * (float)rng_normal(r);
  }
  n->stats = (tn_stats){
      .h = TN_HDR(tn_stats), .absmax = 127 * 8 * s, .p999 = 127 * s, .n = (uint32_t)K, .ch_over = n->ch_over};
}

void net_extra(net *n, int64_t kind, int64_t elems, bool constant, rng *r) {
  n->extra_kind[n->n_extras] = kind;
  n->extra_const[n->n_extras] = constant;
  n->extra[n->n_extras] = floats(elems);
  for (int64_t i = 0; i < elems; i++) n->extra[n->n_extras][i] = (float)rng_normal(r);
  n->n_extras++;
}

static tn_expr number(net *n, int64_t v) { return kit_const(&n->ctx, v); }

static tn_id add_value(net *n, uint32_t kind, uint32_t rank, tn_expr a, tn_expr b) {
  const tn_id v = n->graph.n_values++;
  uint32_t at = 0;
  if (n->rank3 && kind != TN_VALUE_CONST && rank == 2) n->dims[v][at++] = 1;
  if (rank == 2) n->dims[v][at++] = a;
  if (rank >= 1) n->dims[v][at++] = b;
  n->value[v] = (tn_value){.h = TN_HDR(tn_value),
                           .kind = kind,
                           .dtype = TN_DT_F32,
                           .rank = at,
                           .dims = n->dims[v],
                           .producer = kind == TN_VALUE_OUTPUT ? 0 : TN_NONE,
                           .origin = TN_NONE,
                           .uses = n->uses,
                           .n_uses = kind != TN_VALUE_OUTPUT,
                           .name = "value"};
  n->values[v] = &n->value[v];
  return v;
}

static void add_attrs(net *n) {
  const chain_spec *c = n->chain;
  const tn_attr all[6] = {{.type = TN_ATTR_INTS, .n = 3 * c->n_ops, .u.ints = c->ops},
                          {.type = TN_ATTR_FLOATS, .n = c->n_ops, .u.floats = c->floats},
                          {.type = TN_ATTR_INTS, .n = c->n_results, .u.ints = c->results},
                          {.type = TN_ATTR_INT, .n = 1, .u.i = n->n_weights},
                          {.type = TN_ATTR_INT, .n = 1, .u.i = n->trans_b},
                          {.type = TN_ATTR_INTS, .n = 3 * c->n_parts, .u.ints = c->parts}};
  for (int i = 0; i < 6; i++) {
    n->attr[i] = all[i];
    n->attr[i].h = (tn_hdr)TN_HDR(tn_attr);
    n->attrs[i] = &n->attr[i];
  }
  n->node.attr = n->attrs;
  n->node.n_attr = 6;
}

/* Width of result i: of the part that it names or was computed from; the tests' chains have one width for all. */
static int64_t width(const net *n) { return n->chain ? n->chain->parts[2] : n->N[0]; }

void net_build(net *n, int64_t chunk) {
  (void)chunk;
  if (kit_symbol(&n->ctx, 0, 1, 4096) != 0) abort();
  const tn_expr one = number(n, 1), K = number(n, n->K), W = number(n, width(n));
  if (one != 1) abort();
  uint32_t n_in = 0;
  n->in[n_in++] = add_value(n, TN_VALUE_INPUT, 2, 0, K);
  if (!n->no_stats) n->value[n->in[0]].stats = &n->stats;
  for (uint32_t j = 0; j < n->n_weights; j++) {
    const tn_expr N = number(n, n->N[j]);
    n->in[n_in++] = n->trans_b ? add_value(n, TN_VALUE_CONST, 2, N, K) : add_value(n, TN_VALUE_CONST, 2, K, N);
  }
  for (uint32_t e = 0; e < n->n_extras; e++)
    n->in[n_in++] = add_value(n, n->extra_const[e] ? TN_VALUE_CONST : TN_VALUE_INPUT, (uint32_t)n->extra_kind[e], 0, W);
  n->n_out = n->chain ? n->chain->n_results : 1;
  for (uint32_t i = 0; i < n->n_out; i++) n->out[i] = add_value(n, TN_VALUE_OUTPUT, 2, 0, W);
  n->node = (tn_node){.h = TN_HDR(tn_node),
                      .op = n->op,
                      .n_in = (uint16_t)n_in,
                      .n_out = (uint16_t)n->n_out,
                      .in = n->in,
                      .out = n->out,
                      .name = "linear",
                      .domain = ""};
  if (n->chain) add_attrs(n);
  n->nodes[0] = &n->node;
  n->symbol = (tn_symbol){.h = TN_HDR(tn_symbol), .name = "S", .lo = 1, .hi = 4096, .flags = TN_SYM_PADDABLE};
  n->symbols[0] = &n->symbol;
  n->graph.h = (tn_hdr)TN_HDR(tn_graph);
  n->graph.ctx = &n->ctx;
  n->graph.phase = n->phase;
  n->graph.n_nodes = 1;
  n->graph.n_symbols = 1;
  n->graph.nodes = n->nodes;
  n->graph.values = n->values;
  n->graph.symbols = n->symbols;
}

void net_free(net *n) {
  for (uint32_t j = 0; j < n->n_weights; j++) free(n->w[j]);
  for (uint32_t e = 0; e < n->n_extras; e++) free(n->extra[e]);
  free(n->ch_over);
}

float net_weight(const net *n, uint32_t j, int64_t row, int64_t k) {
  return n->w[j][n->trans_b ? row * n->K + k : k * n->N[j] + row];
}

/* --- claims ------------------------------------------------------------------------------------------------------ */

static tn_status on_node(void *ctx, tn_id node, const tn_claim *c) {
  claimed *o = ctx;
  if (node != 0 || c->n_constraints > 8 || c->n_params > 4) return TN_E_INVALID;
  o->claim = *c;
  for (uint32_t i = 0; i < c->n_constraints; i++) o->constraints[i] = c->constraints[i];
  for (uint32_t i = 0; i < c->n_params; i++) o->params[i] = c->params[i];
  o->n++;
  return TN_OK;
}

tn_status mini_claim(mini *m, const net *n, claimed *out) {
  memset(out, 0, sizeof *out);
  const tn_claim_sink sink = {.h = TN_HDR(tn_claim_sink), .ctx = out, .node = on_node};
  return m->device->claim(m->device, &n->graph, NULL, &sink, &m->err);
}

/* --- programs ---------------------------------------------------------------------------------------------------- */

typedef struct source {
  tn_weight w;
  const net *n;
  uint32_t j;
} source;

static tn_status rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const source *s = (const source *)w;
  for (int64_t i = n0; i < n1; i++)
    for (int64_t k = 0; k < w->K; k++) *dst++ = net_weight(s->n, s->j, i, k);
  return TN_OK;
}

typedef struct disk {
  mini *m;
  const uint8_t *bytes;
} disk;

static tn_status read_disk(const tn_blob *b, uint64_t offset, uint64_t n, void *dst) {
  const disk *d = b->ctx;
  if (offset > b->bytes || n > b->bytes - offset) return TN_E_IO;
  d->m->disk_reads++;
  d->m->disk_bytes += n;
  memcpy(dst, d->bytes + offset, n);
  return TN_OK;
}

static disk disks[MAX_SLOTS];

static uint32_t weight_of(const net *n, tn_id value) {
  for (uint32_t j = 0; j < n->n_weights; j++)
    if (n->in[1 + j] == value) return j;
  abort();
}

static tn_status pack(mini *m, const net *n, built *b, uint32_t slot) {
  const tn_need *need = b->info->needs[b->info->slots[slot]->need];
  const uint32_t j = weight_of(n, need->values[0]);
  source s = {.w = {.h = TN_HDR(tn_weight), .N = n->N[j], .K = n->K, .dtype = TN_DT_F32, .rows = rows}, .n = n, .j = j};
  tn_pack_size size;
  tn_pack *p = NULL;
  const tn_format *f = need->format;
  tn_status st = f->size(f, n->N[j], n->K, need->params, need->n_params, &size);
  if (st != TN_OK) return st;
  b->bytes[slot] = aligned_alloc(128, (size.bytes + 127) / 128 * 128);
  if (!b->bytes[slot]) abort();
  st = f->begin(&m->h.host, f, &s.w, need->params, need->n_params, &p, &m->err);
  if (st != TN_OK) return st;
  st = f->rows(p, 0, n->N[j], b->bytes[slot]);
  const tn_status last = f->end(p, st == TN_OK ? b->bytes[slot] : NULL);
  b->blob[slot] = (tn_blob){.h = TN_HDR(tn_blob),
                            .format = f,
                            .N = n->N[j],
                            .K = n->K,
                            .bytes = size.bytes,
                            .ptr = b->bytes[slot],
                            .params = need->params,
                            .n_params = need->n_params};
  return st == TN_OK ? last : st;
}

static tn_status make_buffer(mini *m, built *b, uint32_t slot, uint64_t bytes) {
  const tn_buffer_req req = {.h = TN_HDR(tn_buffer_req), .bytes = bytes + 128, .fd = -1, .flags = TN_BUF_HOST};
  void *p = NULL;
  tn_status st = m->device->create(m->device, &req, &b->buffer[slot], &m->err);
  if (st == TN_OK) st = m->device->map(b->buffer[slot], 128, bytes, TN_WRITE, &p, &m->err);
  if (st != TN_OK) return st;
  b->view[slot] = (tn_view){.h = TN_HDR(tn_view), .buffer = b->buffer[slot], .ptr = p, .offset = 128, .bytes = bytes};
  return TN_OK;
}

static tn_status attach_weight(mini *m, const net *n, built *b, uint32_t slot, bool in_memory) {
  const tn_need *need = b->info->needs[b->info->slots[slot]->need];
  if (!need->format) {
    for (uint32_t e = 0; e < n->n_extras; e++)
      if (n->in[1 + n->n_weights + e] == need->values[0])
        b->view[slot] = (tn_view){.h = TN_HDR(tn_view), .ptr = n->extra[e], .bytes = 4};
    return m->device->set(b->p, slot, &b->view[slot], NULL, &m->err);
  }
  tn_status st = pack(m, n, b, slot);
  if (st != TN_OK) return st;
  if (need->residency == TN_RESIDENCY_DISK) {
    disks[slot] = (disk){m, b->bytes[slot]};
    b->blob[slot].ctx = &disks[slot];
    b->blob[slot].read = read_disk;
    if (!in_memory) b->blob[slot].ptr = NULL;
    return m->device->set(b->p, slot, NULL, &b->blob[slot], &m->err);
  }
  st = make_buffer(m, b, slot, b->blob[slot].bytes);
  if (st != TN_OK) return st;
  memcpy(b->view[slot].ptr, b->bytes[slot], b->blob[slot].bytes);
  return m->device->set(b->p, slot, &b->view[slot], &b->blob[slot], &m->err);
}

/* Memory of a slot: INPUT and OUTPUT dense, TEMP as measured. */
static tn_status attach_memory(mini *m, const net *n, built *b, uint32_t slot, int64_t rows_of_x, uint64_t temp) {
  const tn_slot *s = b->info->slots[slot];
  if (s->engines & ~1u) return make_buffer(m, b, slot, temp);
  uint64_t bytes = temp;
  if (s->kind != TN_SLOT_TEMP) {
    bytes = 4;
    for (uint32_t i = 0; i < n->value[s->value].rank; i++) {
      const tn_expr e = n->dims[s->value][i];
      bytes *= (uint64_t)(e ? n->ctx.e[e].v : rows_of_x);
    }
  }
  b->bytes[slot] = aligned_alloc(128, (bytes + 255) / 128 * 128);
  if (!b->bytes[slot]) abort();
  memset(b->bytes[slot], 0xa5, (bytes + 255) / 128 * 128);
  b->view[slot] = (tn_view){.h = TN_HDR(tn_view), .ptr = b->bytes[slot], .bytes = bytes};
  for (uint32_t e = 0; e < n->n_extras; e++)
    if (s->kind == TN_SLOT_INPUT && s->value == n->in[1 + n->n_weights + e]) memcpy(b->bytes[slot], n->extra[e], bytes);
  return TN_OK;
}

static tn_status bind_tasks(mini *m, built *b, const tn_dims *dims) {
  for (uint32_t t = 0; t < b->info->n_tasks; t++) {
    const tn_task *k = b->info->tasks[t];
    uint64_t slots[MAX_SLOTS] = {0};
    const tn_view *views[MAX_SLOTS];
    tn_measure me = {.h = TN_HDR(tn_measure), .slot_bytes = slots};
    tn_status st = m->device->measure(b->p, t, dims, &me);
    if (st == TN_OK) st = m->device->bind(b->p, t, dims, &b->plan[t], &m->err);
    if (st != TN_OK) return st;
    b->scratch[t] = aligned_alloc(64, (me.scratch_bytes + 64) / 64 * 64);
    if (!b->scratch[t]) abort();
    const tn_view scratch = {.h = TN_HDR(tn_view), .ptr = b->scratch[t], .bytes = me.scratch_bytes};
    for (uint32_t u = 0; u < k->n_uses; u++) views[u] = &b->view[k->uses[u].slot];
    views[k->n_uses] = &scratch;
    st = m->device->args(b->plan[t], views, k->n_uses + 1, &b->args[t], &m->err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static tn_status build(mini *m, net *n, built *b, int64_t rows_of_x, bool in_memory) {
  const tn_id node = 0, none = TN_NONE;
  const tn_subgraph s = {.h = TN_HDR(tn_subgraph),
                         .graph = &n->graph,
                         .nodes = &node,
                         .group_of = &none,
                         .inputs = n->in,
                         .outputs = n->out,
                         .n_nodes = 1,
                         .n_inputs = 1,
                         .n_outputs = n->n_out};
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = &rows_of_x, .n = 1};
  tn_status st = m->device->lower(m->device, &s, &b->p, &m->err);
  if (st != TN_OK) return st;
  b->info = m->device->info(b->p);
  if (b->info->n_slots > MAX_SLOTS || b->info->n_tasks > MAX_TASKS) abort();
  uint64_t temps[MAX_SLOTS] = {0};
  for (uint32_t t = 0; st == TN_OK && t < b->info->n_tasks; t++) {
    tn_measure me = {.h = TN_HDR(tn_measure), .slot_bytes = temps};
    st = m->device->measure(b->p, t, &dims, &me);
  }
  for (uint32_t i = 0; st == TN_OK && i < b->info->n_slots; i++)
    st = b->info->slots[i]->kind == TN_SLOT_WEIGHT ? attach_weight(m, n, b, i, in_memory)
                                                   : attach_memory(m, n, b, i, rows_of_x, temps[i]);
  return st == TN_OK ? bind_tasks(m, b, &dims) : st;
}

built mini_build(mini *m, net *n, int64_t rows_of_x, bool in_memory) {
  built b = {0};
  b.st = build(m, n, &b, rows_of_x, in_memory);
  return b;
}

static tn_status run_task(mini *m, built *b, uint32_t t) {
  tn_run run = mini_run(m);
  if (b->info->tasks[t]->engine == 0) return m->device->run(b->plan[t], b->args[t], &run, &m->err);
  struct tn_ticket ticket = {.st = TN_E_INTERNAL};
  const tn_item item = {.h = TN_HDR(tn_item), .plan = b->plan[t], .args = b->args[t], .ticket = &ticket, .ready = 1000};
  const tn_item *items[1] = {&item};
  tn_status st = m->device->submit(m->device, 1, items, 1, &run, &m->err);
  if (st != TN_OK) return st;
  if (ticket.done != 1) return TN_E_DEVICE_LOST; /* what a host does after its timeout */
  b->times[t] = ticket.times;
  if (ticket.st != TN_OK) m->err = ticket.err;
  return ticket.st;
}

tn_status mini_step(mini *m, built *b, const float *x, bool shadow_first) {
  const int64_t before = m->h.total;
  tn_status st = TN_OK;
  const tn_slot *const *slots = b->info->slots;
  for (uint32_t i = 0; i < b->info->n_slots; i++)
    if (slots[i]->kind == TN_SLOT_INPUT && slots[i]->value == 0) memcpy(b->view[i].ptr, x, b->view[i].bytes);
  const uint32_t n = b->info->n_tasks;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    uint32_t t = i;
    if (shadow_first && n == 4 && (i == 1 || i == 2)) t = 3 - i;
    st = run_task(m, b, t);
  }
  b->run_allocs += m->h.total - before;
  return st;
}

const float *mini_output(const net *n, const built *b, uint32_t i) {
  for (uint32_t s = 0; s < b->info->n_slots; s++)
    if (b->info->slots[s]->kind == TN_SLOT_OUTPUT && b->info->slots[s]->value == n->out[i]) return b->view[s].ptr;
  return NULL;
}

void mini_unbuild(mini *m, built *b) {
  for (uint32_t t = 0; t < MAX_TASKS; t++) {
    m->device->args_free(b->args[t]);
    free(b->scratch[t]);
  }
  for (uint32_t t = 0; t < MAX_TASKS; t++) m->device->unbind(b->plan[t]);
  if (b->p) m->device->release(b->p);
  for (uint32_t i = 0; i < MAX_SLOTS; i++) {
    m->device->destroy(b->buffer[i]);
    free(b->bytes[i]);
  }
}
