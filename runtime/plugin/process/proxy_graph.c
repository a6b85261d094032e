/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/plugin/process/describe.h"
#include "runtime/plugin/process/graph.h"
#include "runtime/plugin/process/proxy.h"

enum { MAX_LAYOUTS = 64 };

/* --- graphs ------------------------------------------------------------------------------------------------------ */

static tn_status say_graph(tni_iso *p, const XXH128_hash_t *key, const tni_wire *bytes, bool *there, tn_error *err) {
  tni_wire w = {.n = 0};
  tni_rd r;
  tni_w_u64(&w, key->low64);
  tni_w_u64(&w, key->high64);
  if (bytes) tni_w_bytes(&w, bytes->p, bytes->n);
  tn_status st = tni_conn_call(p->c, TNI_ISO_GRAPH, "graph", &w, &r, err);
  tni_wire_finish(&w);
  if (st != TN_OK) return st;
  *there = tni_r_u32(&r) != 0;
  const bool ok = tni_rd_whole(&r);
  tni_rd_finish(&r);
  return ok ? TN_OK : tni_conn_wrong(p->c, "graph", err);
}

/* The child has the graph; key is put on w. */
static tn_status send_graph(tni_iso *p, const tn_graph *g, tni_wire *w, tn_error *err) {
  tni_wire bytes = {.n = 0};
  bool there = false;
  tni_wgraph_put(&bytes, g);
  if (bytes.bad) {
    tni_wire_finish(&bytes);
    return tni_fail(err, TN_E_LIMIT, p->o.name, "the graph is too large for a plugin in a process of its own");
  }
  const XXH128_hash_t key = XXH3_128bits(bytes.p, bytes.n);
  tn_status st = say_graph(p, &key, NULL, &there, err);
  if (st == TN_OK && !there) st = say_graph(p, &key, &bytes, &there, err);
  tni_wire_finish(&bytes);
  tni_w_u64(w, key.low64);
  tni_w_u64(w, key.high64);
  return st;
}

/* --- claims ------------------------------------------------------------------------------------------------------ */

static bool get_claim(tni_iso *p, tni_rd *r, tni_arena *a, tn_claim *c) {
  *c = (tn_claim){.h = TN_HDR(tn_claim)};
  const uint32_t size = tni_r_u32(r);
  c->verdict = tni_r_u32(r);
  c->reason = tni_r_u32(r);
  c->constraints = tni_r_array(r, a, &c->n_constraints, sizeof(tn_constraint), 64);
  const uint32_t format = tni_r_u32(r);
  c->params = tni_r_array(r, a, &c->n_params, sizeof(int64_t), 16);
  c->cost_ns = tni_r_f64(r);
  c->macs = tni_r_f64(r);
  c->weight_bytes = tni_r_u64(r);
  const char *text = tni_r_str(r, a, sizeof c->text - 1);
  if (r->bad) return false;
  if (text) memcpy(c->text, text, strlen(text));
  c->n_sets = tni_r_count(r, 4, TNI_ISO_MAX_SETS);
  tn_value_set *sets = TNI_NEW_ARRAY(a, tn_value_set, (size_t)c->n_sets + 1);
  for (uint32_t i = 0; sets && i < c->n_sets; i++)
    sets[i].v = tni_r_array(r, a, &sets[i].n, sizeof(int64_t), TNI_ISO_MAX_SETS);
  c->sets = sets;
  if (r->bad || !sets) return false;
  if (size < sizeof(tn_hdr)) c->h.size = size;
  if (format && !(c->format = tni_iso_format_at(p, format))) c->verdict = UINT32_MAX; /* none of its own */
  return true;
}

/* A wrong expression is not looked at: the host's table says what it has. */
static bool claims_ok(const tn_graph *g, const tni_iso *p, const tn_claim *c) {
  for (uint32_t i = 0; i < c->n_constraints; i++) {
    int64_t lo, hi;
    if (p->o.host->range(g, c->constraints[i].lhs, &lo, &hi) != TN_OK) return false;
  }
  return true;
}

static tn_status hand_state(tni_rd *r, const tn_claim_sink *sink, bool *bad) {
  tn_layout each[MAX_LAYOUTS];
  const tn_layout *list[MAX_LAYOUTS];
  const tn_id value = tni_r_u32(r);
  const uint32_t n = tni_r_count(r, sizeof *each, MAX_LAYOUTS);
  for (uint32_t i = 0; i < n; i++) {
    const void *p = tni_r_bytes(r, sizeof *each);
    if (p) memcpy(&each[i], p, sizeof *each);
    each[i].h = (tn_hdr)TN_HDR(tn_layout);
    list[i] = &each[i];
  }
  *bad = r->bad;
  return r->bad ? TN_OK : sink->state(sink->ctx, value, list, n);
}

/* What the child answered, into the host's sink, which checks it. */
static tn_status hand_over(tni_iso *p, const tn_graph *g, tni_rd *r, const tn_claim_sink *sink, bool *bad) {
  tni_arena *a = tni_arena_create();
  tn_status st = a ? TN_OK : TN_E_NO_MEMORY;
  *bad = false;
  while (st == TN_OK && !*bad) {
    const uint32_t kind = tni_r_u32(r);
    tn_claim c;
    if (!kind && !r->bad) break;
    if (kind == 3) {
      st = hand_state(r, sink, bad);
      continue;
    }
    uint32_t n = 0;
    const tn_id node = kind == 1 ? tni_r_u32(r) : 0;
    const tn_id *nodes = kind == 2 ? tni_r_array(r, a, &n, sizeof *nodes, g->n_nodes) : NULL;
    *bad = kind < 1 || kind > 2 || !get_claim(p, r, a, &c) || !claims_ok(g, p, &c);
    if (!*bad) st = kind == 1 ? sink->node(sink->ctx, node, &c) : sink->group(sink->ctx, nodes, n, &c);
  }
  *bad = *bad || (st == TN_OK && !tni_rd_whole(r));
  tni_arena_destroy(a);
  return st;
}

tn_status tni_iso_claim(tn_device *pub, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink,
                        tn_error *err) {
  const tni_iso_device *d = (const tni_iso_device *)pub;
  tni_iso *p = d->p;
  tni_wire w = {.n = 0};
  tni_rd r;
  bool bad = false;
  tni_w_u32(&w, d->index);
  tn_status st = send_graph(p, g, &w, err);
  tni_w_u32(&w, at != NULL);
  if (at) tni_w_array(&w, at->v, at->n, sizeof *at->v);
  if (st == TN_OK) st = tni_conn_call_about(p->c, g, TNI_ISO_CLAIM, "claim", &w, &r, err);
  tni_wire_finish(&w);
  if (st != TN_OK) return st;
  st = hand_over(p, g, &r, sink, &bad);
  tni_rd_finish(&r);
  return bad ? tni_conn_wrong(p->c, "claim", err) : st;
}

/* --- programs ---------------------------------------------------------------------------------------------------- */

static void put_subgraph(tni_wire *w, const tn_subgraph *s) {
  tni_w_array(w, s->nodes, s->n_nodes, sizeof *s->nodes);
  tni_w_array(w, s->group_of, s->n_nodes, sizeof *s->group_of);
  tni_w_array(w, s->inputs, s->n_inputs, sizeof *s->inputs);
  tni_w_array(w, s->outputs, s->n_outputs, sizeof *s->outputs);
  tni_w_array(w, s->states, s->n_states, sizeof *s->states);
  tni_w_u32(w, s->n_states);
  for (uint32_t i = 0; i < s->n_states; i++) tni_w_bytes(w, s->layouts[i], sizeof *s->layouts[i]);
  tni_w_bytes(w, s->hash, sizeof s->hash);
}

static tn_program *new_program(tni_iso_device *d) {
  tni_arena *a = tni_arena_create();
  tn_program *k = a ? TNI_NEW(a, tn_program) : NULL;
  if (k)
    *k = (tn_program){.d = d, .arena = a, .id = TN_NONE};
  else
    tni_arena_destroy(a);
  return k;
}

tn_status tni_iso_lower(tn_device *pub, const tn_subgraph *s, tn_program **out, tn_error *err) {
  tni_iso_device *d = (tni_iso_device *)pub;
  tni_iso *p = d->p;
  tn_program *k = new_program(d);
  tni_wire w = {.n = 0};
  tni_rd r;
  if (!k) return tni_fail_memory(err, p->o.name);
  tni_w_u32(&w, d->index);
  tn_status st = send_graph(p, s->graph, &w, err);
  put_subgraph(&w, s);
  if (st == TN_OK) st = tni_conn_call_about(p->c, s->graph, TNI_ISO_LOWER, "lower", &w, &r, err);
  tni_wire_finish(&w);
  if (st == TN_OK) {
    k->id = tni_r_u32(&r);
    k->info = tni_info_get(&r, k->arena, tni_iso_format_at, p);
    if (!k->info || !tni_rd_whole(&r)) st = tni_conn_wrong(p->c, "lower", err);
    tni_rd_finish(&r);
  }
  if (st == TN_OK) {
    k->consts = TNI_NEW_ARRAY(k->arena, tni_iso_const, (size_t)k->info->n_slots + 1);
    k->offered = TNI_NEW_ARRAY(k->arena, uint32_t, (size_t)k->info->n_slots + 1);
    if (!k->consts || !k->offered) st = tni_fail_memory(err, p->o.name);
  }
  if (st == TN_OK)
    *out = k;
  else
    tni_iso_release(k);
  return st;
}

const tn_program_info *tni_iso_info(const tn_program *k) { return k->info; }

void tni_iso_release(tn_program *k) {
  tni_iso *p = k->d->p;
  if (k->id != TN_NONE) {
    tni_wire w = {.n = 0};
    tni_w_u32(&w, k->id);
    (void)!tni_conn_tell(p->c, TNI_ISO_RELEASE, "release", &w, NULL);
    tni_wire_finish(&w);
  }
  for (uint32_t i = 0; k->consts && k->offered && i < k->info->n_slots; i++) {
    tni_iso_const_drop(p, &k->consts[i]);
    tni_conn_withdraw(p->c, k->offered[i]);
  }
  tni_iso_sweep(p);
  tni_arena_destroy(k->arena);
}
