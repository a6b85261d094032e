/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs, claims and programs. A graph stays while programs were lowered from it: they may keep its context.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/plugin/helper/serve.h"
#include "runtime/plugin/process/process.h"

/* --- graphs ------------------------------------------------------------------------------------------------------ */

static tni_srv_graph *find_graph(tni_srv *s, const uint64_t key[2]) {
  tni_srv_graph *g = s->graphs;
  while (g && memcmp(g->key, key, sizeof g->key) != 0) g = g->next;
  return g;
}

static void drop_unused(tni_srv *s) {
  for (tni_srv_graph **at = &s->graphs; *at;) {
    tni_srv_graph *g = *at;
    if (g->users) {
      at = &g->next;
      continue;
    }
    *at = g->next;
    tni_wgraph_finish(&g->copy);
    free(g);
  }
}

/* The key; whether it is there already. Without bytes after it that is all that is asked. */
tn_status tni_srv_graph_in(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  uint64_t key[2];
  key[0] = tni_r_u64(r);
  key[1] = tni_r_u64(r);
  const bool there = find_graph(s, key) != NULL;
  tni_w_u32(w, there);
  if (there || r->at == r->n) return TN_OK;
  drop_unused(s);
  tni_srv_graph *g = calloc(1, sizeof *g);
  tn_status st = g ? tni_wgraph_get(r, &tni_srv_readers, &g->copy) : TN_E_NO_MEMORY;
  if (st != TN_OK) {
    if (g) tni_wgraph_finish(&g->copy);
    free(g);
    return tni_fail(err, st, NULL, "a graph that is none");
  }
  memcpy(g->key, key, sizeof key);
  g->next = s->graphs;
  s->graphs = g;
  return TN_OK;
}

static tni_srv_graph *get_graph(tni_srv *s, tni_rd *r) {
  uint64_t key[2];
  key[0] = tni_r_u64(r);
  key[1] = tni_r_u64(r);
  return find_graph(s, key);
}

/* --- claims ------------------------------------------------------------------------------------------------------ */

static uint32_t format_index(const tni_srv *s, const tn_format *f) {
  if (!f) return 0;
  for (uint32_t i = 0; i < s->l->plugin->n_formats; i++)
    if (s->l->plugin->formats[i] == f) return i + 1;
  return UINT32_MAX;
}

static uint32_t index_of(const void *ctx, const tn_format *f) { return format_index(ctx, f); }

typedef struct sink {
  tni_srv *s;
  tni_wire *w;
  uint32_t n;
} sink;

static void put_claim(sink *k, const tn_claim *c) {
  tn_claim all = {.h = TN_HDR(tn_claim)};
  if (c && c->h.size) memcpy(&all, c, c->h.size < sizeof all ? c->h.size : sizeof all);
  if (all.n_constraints && !all.constraints) all.n_constraints = UINT32_MAX;
  tni_w_u32(k->w, all.h.size);
  tni_w_u32(k->w, all.verdict);
  tni_w_u32(k->w, all.reason);
  if (all.n_constraints > 64) all.n_constraints = 0, all.verdict = UINT32_MAX;
  tni_w_array(k->w, all.constraints, all.n_constraints, sizeof *all.constraints);
  tni_w_u32(k->w, format_index(k->s, all.format));
  if (all.n_params > 16 || !all.params) all.n_params = 0;
  tni_w_array(k->w, all.params, all.n_params, sizeof *all.params);
  tni_w_f64(k->w, all.cost_ns);
  tni_w_f64(k->w, all.macs);
  tni_w_u64(k->w, all.weight_bytes);
  all.text[sizeof all.text - 1] = '\0';
  tni_w_str(k->w, all.text);
  if (all.n_sets > TNI_ISO_MAX_SETS || !all.sets) all.n_sets = 0;
  tni_w_u32(k->w, all.n_sets);
  for (uint32_t i = 0; i < all.n_sets; i++)
    tni_w_array(k->w, all.sets[i].v, all.sets[i].v && all.sets[i].n <= TNI_ISO_MAX_SETS ? all.sets[i].n : 0,
                sizeof *all.sets[i].v);
}

static tn_status on_node(void *ctx, tn_id node, const tn_claim *c) {
  sink *k = ctx;
  tni_w_u32(k->w, 1);
  tni_w_u32(k->w, node);
  put_claim(k, c);
  k->n++;
  return k->w->bad ? TN_E_NO_MEMORY : TN_OK;
}

static tn_status on_group(void *ctx, const tn_id *nodes, uint32_t n, const tn_claim *c) {
  sink *k = ctx;
  if (n && !nodes) return TN_E_INVALID;
  tni_w_u32(k->w, 2);
  tni_w_array(k->w, nodes, n, sizeof *nodes);
  put_claim(k, c);
  k->n++;
  return k->w->bad ? TN_E_NO_MEMORY : TN_OK;
}

static tn_status on_state(void *ctx, tn_id value, const tn_layout *const *accepted, uint32_t n) {
  sink *k = ctx;
  if (n > 64 || (n && !accepted)) return TN_E_INVALID;
  tni_w_u32(k->w, 3);
  tni_w_u32(k->w, value);
  tni_w_u32(k->w, n);
  for (uint32_t i = 0; i < n; i++) {
    tn_layout l = {.h = TN_HDR(tn_layout)};
    if (accepted[i]) memcpy(&l, accepted[i], accepted[i]->h.size < sizeof l ? accepted[i]->h.size : sizeof l);
    tni_w_bytes(k->w, &l, sizeof l);
  }
  k->n++;
  return k->w->bad ? TN_E_NO_MEMORY : TN_OK;
}

static const tn_dims *get_dims(tni_rd *r, tni_arena *a, tn_dims *d) {
  *d = (tn_dims){.h = TN_HDR(tn_dims)};
  d->v = tni_r_array(r, a, &d->n, sizeof(int64_t), TNI_ISO_MAX_OBJECTS);
  return d;
}

tn_status tni_srv_claim(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tn_device *d = tni_srv_device(s, tni_r_u32(r));
  tni_srv_graph *g = get_graph(s, r);
  tni_arena *a = tni_arena_create();
  tn_dims dims;
  const bool at = tni_r_u32(r) != 0;
  if (at && a) get_dims(r, a, &dims);
  sink k = {.s = s, .w = w};
  const tn_claim_sink out = {TN_HDR(tn_claim_sink), &k, on_node, on_group, on_state};
  tn_status st = d && g && a && !r->bad ? TN_OK : TN_E_INVALID;
  if (st == TN_OK) st = d->claim(d, &g->copy.g, at ? &dims : NULL, &out, err);
  tni_w_u32(w, 0);
  tni_arena_destroy(a);
  return st;
}

/* --- programs ---------------------------------------------------------------------------------------------------- */

static bool get_subgraph(tni_rd *r, tni_arena *a, const tn_graph *g, tn_subgraph *out) {
  uint32_t n;
  *out = (tn_subgraph){.h = TN_HDR(tn_subgraph), .graph = g};
  out->nodes = tni_r_array(r, a, &out->n_nodes, sizeof(tn_id), TNI_ISO_MAX_OBJECTS);
  out->group_of = tni_r_array(r, a, &n, sizeof(tn_id), TNI_ISO_MAX_OBJECTS);
  out->inputs = tni_r_array(r, a, &out->n_inputs, sizeof(tn_id), TNI_ISO_MAX_OBJECTS);
  out->outputs = tni_r_array(r, a, &out->n_outputs, sizeof(tn_id), TNI_ISO_MAX_OBJECTS);
  out->states = tni_r_array(r, a, &out->n_states, sizeof(tn_id), TNI_ISO_MAX_OBJECTS);
  tn_layout *each = tni_r_array(r, a, &n, sizeof(tn_layout), TNI_ISO_MAX_OBJECTS);
  const tn_layout **list = each ? TNI_NEW_ARRAY(a, const tn_layout *, (size_t)n + 1) : NULL;
  for (uint32_t i = 0; list && i < n; i++) list[i] = &each[i];
  out->layouts = list;
  const void *hash = tni_r_bytes(r, sizeof out->hash);
  if (hash) memcpy(out->hash, hash, sizeof out->hash);
  return !r->bad && list && n == out->n_states;
}

tn_status tni_srv_lower(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tn_device *d = tni_srv_device(s, tni_r_u32(r));
  tni_srv_graph *g = get_graph(s, r);
  tni_arena *a = tni_arena_create();
  tni_srv_program *p = a ? TNI_NEW(a, tni_srv_program) : NULL;
  tn_subgraph sub;
  uint32_t id = 0;
  if (!d || !g || !p || !get_subgraph(r, a, &g->copy.g, &sub)) {
    tni_arena_destroy(a);
    return TN_E_INVALID;
  }
  *p = (tni_srv_program){.d = d, .graph = g, .arena = a};
  tn_status st = d->lower(d, &sub, &p->p, err);
  if (st == TN_OK && !p->p) st = tni_fail(err, TN_E_INTERNAL, NULL, "it gave no program");
  if (st == TN_OK) {
    p->info = d->info(p->p);
    p->set = p->info ? TNI_NEW_ARRAY(a, tni_srv_view, (size_t)p->info->n_slots + 1) : NULL;
    if (!p->set || !tni_srv_add(s, TNI_SRV_PROGRAMS, p, &id)) st = tni_fail(err, TN_E_INTERNAL, NULL, "no program");
  }
  if (st != TN_OK) {
    if (p->p) d->release(p->p);
    tni_arena_destroy(a);
    return st;
  }
  g->users++;
  tni_w_u32(w, id);
  tni_info_put(w, p->info, index_of, s);
  return TN_OK;
}

tn_status tni_srv_release(tni_srv *s, tni_rd *r, tni_wire *w, tn_error *err) {
  tni_srv_program *p = tni_srv_take(s, TNI_SRV_PROGRAMS, tni_r_u32(r));
  (void)w;
  (void)err;
  if (!p) return TN_E_INVALID;
  p->d->release(p->p);
  p->graph->users--;
  tni_arena_destroy(p->arena);
  return TN_OK;
}
