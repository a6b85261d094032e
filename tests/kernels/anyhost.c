/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/anyhost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GUARD = 4096, FILL = 0x5b };

static tn_status fail(any_product *p, tn_status st, const char *what) {
  if (st != TN_OK) snprintf(p->why, sizeof p->why, "%s: %s", what, p->f->err.message);
  return st;
}

void any_init_weights(any_product *p, fake *f, int64_t N, int64_t K, uint32_t phase, const tn_stats *stats,
                      const float *kn) {
  memset(p, 0, sizeof *p);
  *p = (any_product){.f = f, .N = N, .K = K, .flip = UINT64_MAX, .g = malloc(sizeof *p->g)};
  if (!p->g) abort();
  graph_init(p->g);
  fake_graph *g = p->g;
  g->pub.phase = phase;
  tn_expr S = sym(g, "S", 1, 2048);
  g->symbols[0].flags = TN_SYM_PADDABLE;
  p->x = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){S, ex(g, K)});
  p->w = constant_of(g, 2, (int64_t[]){K, N}, kn);
  p->y = value(g, TN_VALUE_OUTPUT, 2, (tn_expr[]){S, ex(g, N)});
  g->values[p->x].stats = stats;
  node(g, TN_OP_MATMUL, p->x, p->w, TN_NONE, p->y);
  graph_finish(g);
}

void any_init(any_product *p, fake *f, int64_t N, int64_t K, uint32_t phase, const tn_stats *stats, uint64_t stream) {
  float *kn = malloc((size_t)(N * K + 1) * sizeof *kn);
  rng r = rng_of(stream);
  if (!kn) abort();
  fill(kn, (size_t)(N * K), V_NORMAL, 1, &r);
  any_init_weights(p, f, N, K, phase, stats, kn);
  free(kn);
}

static tn_status on_node(void *ctx, tn_id n, const tn_claim *c) {
  any_product *p = ctx;
  if (n != 0) return TN_E_INVALID;
  p->claim = *c;
  p->only_m = 0;
  for (uint32_t i = 0; i < c->n_constraints; i++)
    if (c->constraints[i].rel == TN_REL_EQ) p->only_m = c->constraints[i].rhs;
  return TN_OK;
}
static tn_status on_group(void *ctx, const tn_id *nodes, uint32_t n, const tn_claim *c) {
  return (void)ctx, (void)nodes, (void)n, (void)c, TN_OK;
}
static tn_status on_state(void *ctx, tn_id v, const tn_layout *const *accepted, uint32_t n) {
  return (void)ctx, (void)v, (void)accepted, (void)n, TN_OK;
}

bool any_claimed(any_product *p) {
  tn_claim_sink sink = {.h = TN_HDR(tn_claim_sink), .ctx = p, .node = on_node, .group = on_group, .state = on_state};
  tn_status st = p->f->device->claim(p->f->device, &p->g->pub, NULL, &sink, &p->f->err);
  if (st != TN_OK) return fail(p, st, "claim"), false;
  return p->claim.verdict == TN_YES;
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static bool on_device(const any_product *p, uint32_t slot) {
  return p->f->device->create && (p->info->slots[slot]->engines & ~1u);
}

/* The CPU's view of a slot; of a buffer mapped whole, guards included. */
static tn_status look(any_product *p, uint32_t slot, uint32_t access, uint8_t **at) {
  any_memory *m = &p->slot[slot];
  if (!m->buffer) return *at = m->host.p, TN_OK;
  tn_status st =
      m->mapped ? TN_OK : p->f->device->map(m->buffer, 0, m->offset + m->bytes + GUARD, access, &m->mapped, &p->f->err);
  if (st == TN_OK) *at = (uint8_t *)m->mapped + m->offset;
  return fail(p, st, "map");
}

/* Memory that engine 0 uses too stays mapped. */
static tn_status look_away(any_product *p, uint32_t slot) {
  any_memory *m = &p->slot[slot];
  if (!m->buffer || (p->info->slots[slot]->engines & 1)) return TN_OK;
  tn_status st = p->f->device->unmap(m->buffer, m->mapped, &p->f->err);
  m->mapped = NULL;
  return fail(p, st, "unmap");
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static tn_status make_memory(any_product *p, uint32_t slot, uint64_t bytes) {
  any_memory *m = &p->slot[slot];
  const tn_slot *s = p->info->slots[slot];
  const tn_caps *caps = p->f->device->caps;
  m->bytes = bytes;
  m->view = (tn_view){.h = TN_HDR(tn_view), .bytes = bytes, .dtype = TN_DT_F32};
  if (!on_device(p, slot)) {
    m->host = guarded_new(bytes);
    m->view.ptr = m->host.p;
    return TN_OK;
  }
  uint64_t align = larger(larger(s->align, caps->align), larger(caps->sub_align, caps->image_base_px * 8));
  m->offset = larger(GUARD, align);
  tn_buffer_req req = {.h = TN_HDR(tn_buffer_req),
                       .bytes = m->offset + bytes + GUARD,
                       .fd = -1,
                       .kind = TN_MEM_NEW,
                       .usage = 1u << s->kind,
                       .flags = TN_BUF_HOST,
                       .align = (uint32_t)larger(caps->align, 1)};
  tn_status st = p->f->device->create(p->f->device, &req, &m->buffer, &p->f->err);
  if (st != TN_OK) return fail(p, st, "create");
  uint8_t *at;
  st = look(p, slot, TN_WRITE, &at);
  if (st != TN_OK) return st;
  memset(at - m->offset, FILL, m->offset + bytes + GUARD);
  m->view.buffer = m->buffer;
  m->view.offset = m->offset;
  if (s->engines & 1) m->view.ptr = at;
  return look_away(p, slot);
}

static bool guards_hold(any_product *p, uint32_t slot) {
  any_memory *m = &p->slot[slot];
  if (!m->buffer) return !m->host.base || guarded_ok(&m->host);
  uint8_t *at;
  bool ok = look(p, slot, TN_READ, &at) == TN_OK;
  for (uint64_t i = 0; ok && i < m->offset; i++) ok = at[-(int64_t)i - 1] == FILL;
  for (uint64_t i = 0; ok && i < GUARD; i++) ok = at[m->bytes + i] == FILL;
  return look_away(p, slot) == TN_OK && ok;
}

static tn_status read_packed(const tn_blob *b, uint64_t offset, uint64_t n, void *dst) {
  if (offset > b->bytes || n > b->bytes - offset) return TN_E_IO;
  memcpy(dst, (const uint8_t *)b->ctx + offset, n);
  return TN_OK;
}

static tn_status attach_packed(any_product *p, uint32_t slot, const tn_need *need) {
  int64_t N = 0, K = 0;
  float *m = fake_joined(p->g, need, &N, &K);
  tn_blob *b = &p->blob[slot];
  p->packed[slot] = pack_as(need->format, need->params, need->n_params, m, N, K, b);
  free(m);
  if (!p->packed[slot]) return fail(p, TN_E_INTERNAL, "pack");
  b->ctx = p->packed[slot];
  b->read = read_packed;
  if (!p->weights) p->weights = b;
  tn_blob given = *b;
  if (need->residency == TN_RESIDENCY_DISK) {
    given.ptr = NULL;
    p->blob[slot] = given;
    return fail(p, p->f->device->set(p->p, slot, NULL, &p->blob[slot], &p->f->err), "set");
  }
  tn_status st = make_memory(p, slot, b->bytes);
  uint8_t *at;
  if (st == TN_OK) st = look(p, slot, TN_WRITE, &at);
  if (st != TN_OK) return st;
  memcpy(at, p->packed[slot], b->bytes);
  if (p->flip < b->bytes * 8 && b == p->weights) at[p->flip / 8] ^= (uint8_t)(1u << p->flip % 8);
  st = look_away(p, slot);
  if (st == TN_OK) st = p->f->device->set(p->p, slot, &p->slot[slot].view, b, &p->f->err);
  return fail(p, st, "set");
}

static tn_status attach_constant(any_product *p, uint32_t slot, const tn_need *need) {
  uint64_t bytes = (uint64_t)p->g->count[need->values[0]] * 4;
  tn_status st = make_memory(p, slot, bytes);
  uint8_t *at;
  if (st == TN_OK) st = look(p, slot, TN_WRITE, &at);
  if (st != TN_OK) return st;
  memcpy(at, p->g->data[need->values[0]], bytes);
  st = look_away(p, slot);
  if (st == TN_OK) st = p->f->device->set(p->p, slot, &p->slot[slot].view, NULL, &p->f->err);
  return fail(p, st, "set");
}

static tn_status attach(any_product *p, uint32_t slot, uint64_t measured, const tn_dims *dims) {
  const tn_slot *s = p->info->slots[slot];
  const tn_need *need = s->kind == TN_SLOT_WEIGHT ? p->info->needs[s->need] : NULL;
  if (need) return need->format ? attach_packed(p, slot, need) : attach_constant(p, slot, need);
  bool known = s->kind != TN_SLOT_TEMP && s->kind != TN_SLOT_PRIVATE;
  tn_status st = make_memory(p, slot, known ? (uint64_t)fake_count(p->g, s->value, dims->v) * 4 : measured);
  if (st == TN_OK && s->kind == TN_SLOT_PRIVATE)
    st = fail(p, p->f->device->set(p->p, slot, &p->slot[slot].view, NULL, &p->f->err), "set");
  return st;
}

/* --- tasks ------------------------------------------------------------------------------------------------------- */

static tn_status bind_task(any_product *p, uint32_t t, const tn_dims *dims) {
  const tn_task *k = p->info->tasks[t];
  uint64_t bytes[ANY_SLOTS] = {0};
  const tn_view *views[ANY_SLOTS + 1];
  tn_measure m = {.h = TN_HDR(tn_measure), .slot_bytes = bytes};
  tn_device *d = p->f->device;
  tn_status st = d->measure(p->p, t, dims, &m);
  if (st != TN_OK) return fail(p, st, "measure");
  p->scratch[t] = guarded_new(m.scratch_bytes);
  const tn_view scratch = {.h = TN_HDR(tn_view), .ptr = p->scratch[t].p, .bytes = m.scratch_bytes};
  for (uint32_t u = 0; u < k->n_uses; u++) views[u] = &p->slot[k->uses[u].slot].view;
  views[k->n_uses] = &scratch;
  st = d->bind(p->p, t, dims, &p->plan[t], &p->f->err);
  if (st != TN_OK) return fail(p, st, "bind");
  return fail(p, d->args(p->plan[t], views, k->n_uses + 1, &p->args[t], &p->f->err), "args");
}

tn_status any_prepare(any_product *p, int64_t M) {
  const tn_id nodes[1] = {0}, groups[1] = {TN_NONE}, in[1] = {p->x}, out[1] = {p->y};
  const tn_subgraph s = {.h = TN_HDR(tn_subgraph),
                         .graph = &p->g->pub,
                         .nodes = nodes,
                         .group_of = groups,
                         .inputs = in,
                         .outputs = out,
                         .n_nodes = 1,
                         .n_inputs = 1,
                         .n_outputs = 1};
  const int64_t symbols[1] = {M};
  uint64_t bytes[ANY_SLOTS] = {0};
  tn_dims dims;
  tn_device *d = p->f->device;
  p->M = M;
  fake_dims(&dims, p->g, symbols);
  tn_status st = d->lower(d, &s, &p->p, &p->f->err);
  if (st != TN_OK) return fail(p, st, "lower");
  p->info = d->info(p->p);
  if (p->info->n_slots > ANY_SLOTS || p->info->n_tasks > ANY_TASKS) return fail(p, TN_E_LIMIT, "a large program");
  for (uint32_t t = 0; st == TN_OK && t < p->info->n_tasks; t++) {
    tn_measure m = {.h = TN_HDR(tn_measure), .slot_bytes = bytes};
    st = fail(p, d->measure(p->p, t, &dims, &m), "measure");
  }
  for (uint32_t i = 0; st == TN_OK && i < p->info->n_slots; i++) st = attach(p, i, bytes[i], &dims);
  for (uint32_t t = 0; st == TN_OK && t < p->info->n_tasks; t++) st = bind_task(p, t, &dims);
  return st;
}

static tn_status wait_for(any_product *p, struct tn_ticket *ticket) {
  const struct timespec nap = {0, 200000};
  for (int i = 0; i < 100000 && !__atomic_load_n(&ticket->done, __ATOMIC_ACQUIRE); i++) nanosleep(&nap, NULL);
  if (ticket->done != 1) return fail(p, TN_E_INTERNAL, "a ticket was not answered exactly once");
  if (ticket->st != TN_OK) p->f->err = ticket->err;
  return fail(p, ticket->st, "done");
}

static tn_status run_task(any_product *p, uint32_t t) {
  tn_run run = fake_run(p->f);
  tn_device *d = p->f->device;
  uint32_t engine = p->info->tasks[t]->engine;
  if (engine == 0) return fail(p, d->run(p->plan[t], p->args[t], &run, &p->f->err), "run");
  struct tn_ticket ticket = {.st = TN_E_INTERNAL};
  const tn_item item = {.h = TN_HDR(tn_item), .plan = p->plan[t], .args = p->args[t], .ticket = &ticket};
  const tn_item *items[1] = {&item};
  tn_status st = d->submit(d, engine, items, 1, &run, &p->f->err);
  return st == TN_OK ? wait_for(p, &ticket) : fail(p, st, "submit");
}

static uint32_t slot_of(const any_product *p, tn_id v) {
  for (uint32_t i = 0; i < p->info->n_slots; i++)
    if (p->info->slots[i]->value == v && p->info->slots[i]->kind != TN_SLOT_WEIGHT) return i;
  return TN_NONE;
}

tn_status any_step(any_product *p, const float *x, float *y) {
  uint32_t in = slot_of(p, p->x), out = slot_of(p, p->y);
  uint8_t *at;
  if (in == TN_NONE || out == TN_NONE) return fail(p, TN_E_INTERNAL, "no slot for x or y");
  tn_status st = look(p, in, TN_WRITE, &at);
  if (st != TN_OK) return st;
  memcpy(at, x, p->slot[in].bytes);
  st = look_away(p, in);
  for (uint32_t t = 0; st == TN_OK && t < p->info->n_tasks; t++) st = run_task(p, t);
  if (st == TN_OK) st = look(p, out, TN_READ, &at);
  if (st != TN_OK) return st;
  memcpy(y, at, p->slot[out].bytes);
  return look_away(p, out);
}

tn_status any_guards(any_product *p) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < p->info->n_slots; i++)
    if (!guards_hold(p, i)) st = fail(p, TN_E_INTERNAL, "bytes outside a slot changed");
  for (uint32_t t = 0; st == TN_OK && t < p->info->n_tasks; t++)
    if (!guarded_ok(&p->scratch[t])) st = fail(p, TN_E_INTERNAL, "bytes outside the scratch changed");
  return st;
}

tn_status any_run(any_product *p, const float *x, float *y) {
  tn_status st = any_step(p, x, y);
  return st == TN_OK ? any_guards(p) : st;
}

void any_free(any_product *p) {
  tn_device *d = p->f->device;
  for (uint32_t t = 0; t < ANY_TASKS; t++) {
    if (p->args[t]) d->args_free(p->args[t]);
    if (p->scratch[t].base) guarded_free(&p->scratch[t]);
  }
  for (uint32_t t = 0; t < ANY_TASKS; t++)
    if (p->plan[t]) d->unbind(p->plan[t]);
  if (p->p) d->release(p->p);
  for (uint32_t i = 0; i < ANY_SLOTS; i++) {
    any_memory *m = &p->slot[i];
    if (m->mapped) (void)d->unmap(m->buffer, m->mapped, NULL);
    if (m->buffer) d->destroy(m->buffer);
    if (m->host.base) guarded_free(&m->host);
    free(p->packed[i]);
  }
  graph_free(p->g);
  free(p->g);
}
