/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/partition.h"

#include <stdlib.h>
#include <string.h>

typedef struct cluster_part {
  const tn_graph *g;
  const tni_claims *claims;
  tni_arena *arena;
  tni_partition *out;
  uint32_t *stack;   /* [n_nodes] */
  uint8_t *seen;     /* [n_nodes] */
  uint32_t *unit_of; /* [n_nodes]: first node of its accepted group, or itself */
} cluster_part;

/* What a node reads: its inputs, then what its subgraphs capture. */
static uint32_t n_reads(const tn_node *n) { return n->n_in + ((const tni_node *)n)->n_captures; }

static tn_id read_at(const tn_node *n, uint32_t i) {
  return i < n->n_in ? n->in[i] : ((const tni_node *)n)->captures[i - n->n_in];
}

static void each_user(const cluster_part *p, tn_id node, void (*fn)(void *, tn_id), void *arg) {
  const tn_node *n = p->g->nodes[node];
  for (uint32_t o = 0; o < n->n_out; o++) {
    if (n->out[o] == TN_NONE) continue;
    const tn_value *v = p->g->values[n->out[o]];
    for (uint32_t u = 0; u < v->n_uses; u++)
      if (v->uses[u] < p->g->n_nodes) fn(arg, v->uses[u]);
  }
}

/* Depth-first walk over the graph with accepted groups contracted. */
typedef struct cluster_walk {
  cluster_part *p;
  uint32_t top;
  const uint8_t *member; /* nodes of the candidate group */
  bool from_outside, cycle;
} cluster_walk;

static void visit_user(void *arg, tn_id user) {
  cluster_walk *w = arg;
  if (w->member[user]) {
    w->cycle = w->cycle || w->from_outside;
  } else if (!w->p->seen[user]) {
    w->p->seen[user] = 1;
    w->p->stack[w->top++] = user;
  }
}

/* Entering any node of an accepted group means waiting for all of it. */
static void visit_group(cluster_walk *w, tn_id node) {
  uint32_t group = w->p->out->group_of[node];
  if (group == TN_NONE) return;
  const tni_group *gr = &w->p->claims->groups[group];
  for (uint32_t i = 0; i < gr->n_nodes; i++) visit_user(w, gr->nodes[i]);
}

/* Would a path leave the group and come back? */
static bool contraction_is_cyclic(cluster_part *p, const tni_group *gr, uint8_t *member) {
  memset(p->seen, 0, p->g->n_nodes);
  memset(member, 0, p->g->n_nodes);
  for (uint32_t i = 0; i < gr->n_nodes; i++) member[gr->nodes[i]] = 1;
  cluster_walk w = {.p = p, .member = member};
  for (uint32_t i = 0; i < gr->n_nodes; i++) each_user(p, gr->nodes[i], visit_user, &w);
  w.from_outside = true;
  while (w.top && !w.cycle) {
    tn_id n = p->stack[--w.top];
    each_user(p, n, visit_user, &w);
    visit_group(&w, n);
  }
  return w.cycle;
}

static bool free_and_whole(const cluster_part *p, const tni_group *gr) {
  for (uint32_t i = 0; i < gr->n_nodes; i++)
    if (p->out->device_of[gr->nodes[i]] != TN_NONE) return false;
  return true;
}

static tn_status take_groups(cluster_part *p, uint32_t device) {
  uint8_t *member = TNI_NEW_ARRAY(p->arena, uint8_t, p->g->n_nodes);
  if (!member) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < p->claims->n_groups; i++) {
    const tni_group *gr = &p->claims->groups[i];
    if (gr->device != device || !free_and_whole(p, gr)) continue;
    if (gr->n_nodes > 1 && contraction_is_cyclic(p, gr, member)) continue;
    tn_id first = gr->nodes[0];
    for (uint32_t k = 1; k < gr->n_nodes; k++)
      if (gr->nodes[k] < first) first = gr->nodes[k];
    for (uint32_t k = 0; k < gr->n_nodes; k++) {
      p->out->device_of[gr->nodes[k]] = device;
      p->out->group_of[gr->nodes[k]] = i;
      p->unit_of[gr->nodes[k]] = first;
    }
  }
  return TN_OK;
}

static void take_nodes(cluster_part *p, uint32_t device) {
  for (tn_id n = 0; n < p->g->n_nodes; n++)
    if (p->out->device_of[n] == TN_NONE && p->claims->node[device][n].verdict == TN_YES) p->out->device_of[n] = device;
}

/* Level of a unit: the longest count of device changes on a way to it. Units are not contiguous in node order, so
 * levels are raised until nothing moves; each pass settles at least one more unit along any path. */
static tn_status set_levels(cluster_part *p, uint32_t *level) {
  const tn_graph *g = p->g;
  bool moved = true;
  for (uint32_t pass = 0; moved && pass <= g->n_nodes; pass++) {
    moved = false;
    for (tn_id n = 0; n < g->n_nodes; n++) {
      uint32_t lv = level[p->unit_of[n]], dev = p->out->device_of[n];
      for (uint32_t i = 0; i < n_reads(g->nodes[n]); i++) {
        tn_id v = read_at(g->nodes[n], i);
        tn_id from = v == TN_NONE ? TN_NONE : g->values[v]->producer;
        if (from == TN_NONE || from >= g->n_nodes) continue;
        uint32_t need = level[p->unit_of[from]] + (p->out->device_of[from] != dev);
        if (need > lv) lv = need;
      }
      if (lv > level[p->unit_of[n]]) {
        level[p->unit_of[n]] = lv;
        moved = true;
      }
    }
  }
  return moved ? TN_E_INTERNAL : TN_OK;
}

typedef struct cluster_key {
  uint32_t level, device, node;
} cluster_key;

static int by_level(const void *a, const void *b) {
  const cluster_key *x = a, *y = b;
  if (x->level != y->level) return x->level < y->level ? -1 : 1;
  if (x->device != y->device) return x->device < y->device ? -1 : 1;
  return x->node < y->node ? -1 : x->node > y->node;
}

static bool used_outside(const cluster_part *p, const tn_value *v, const uint32_t *cluster_of, uint32_t cluster) {
  if (v->kind == TN_VALUE_OUTPUT || ((const tni_value *)v)->is_output) return true;
  for (uint32_t u = 0; u < v->n_uses; u++)
    if (v->uses[u] >= p->g->n_nodes || cluster_of[v->uses[u]] != cluster) return true;
  return false;
}

tn_id tni_state_root(const tn_graph *view, tn_id v) {
  const tn_id from = view->values[v]->producer;
  return from == TN_NONE || view->nodes[from]->n_in == 0 ? v : view->nodes[from]->in[0];
}

static void add_state(const cluster_part *p, tni_cluster *c, tn_id v, uint8_t *listed) {
  const tn_id root = tni_state_root(p->g, v);
  if (listed[root]) return;
  listed[root] = 1;
  c->states[c->n_states++] = root;
}

static tn_status set_borders(cluster_part *p, tni_cluster *c, const uint32_t *cluster_of, uint32_t index,
                             uint8_t *listed) {
  uint32_t n_in = 0, n_out = 0;
  for (uint32_t i = 0; i < c->n_nodes; i++) {
    n_in += n_reads(p->g->nodes[c->nodes[i]]);
    n_out += p->g->nodes[c->nodes[i]]->n_out;
  }
  c->inputs = TNI_NEW_ARRAY(p->arena, tn_id, n_in);
  c->outputs = TNI_NEW_ARRAY(p->arena, tn_id, n_out);
  c->states = TNI_NEW_ARRAY(p->arena, tn_id, n_in + n_out);
  if (!c->inputs || !c->outputs || !c->states) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < c->n_nodes; i++) {
    const tn_node *n = p->g->nodes[c->nodes[i]];
    for (uint32_t k = 0; k < n_reads(n); k++) {
      tn_id v = read_at(n, k);
      if (v == TN_NONE || listed[v] || p->g->values[v]->kind == TN_VALUE_CONST) continue;
      if (p->g->values[v]->kind == TN_VALUE_STATE) {
        add_state(p, c, v, listed);
        continue;
      }
      tn_id from = p->g->values[v]->producer;
      if (from != TN_NONE && from < p->g->n_nodes && cluster_of[from] == index) continue;
      listed[v] = 1;
      c->inputs[c->n_inputs++] = v;
    }
    for (uint32_t k = 0; k < n->n_out; k++)
      if (n->out[k] != TN_NONE && p->g->values[n->out[k]]->kind != TN_VALUE_STATE &&
          used_outside(p, p->g->values[n->out[k]], cluster_of, index))
        c->outputs[c->n_outputs++] = n->out[k];
  }
  for (uint32_t i = 0; i < c->n_inputs; i++) listed[c->inputs[i]] = 0;
  for (uint32_t i = 0; i < c->n_states; i++) listed[c->states[i]] = 0;
  return TN_OK;
}

static tn_status make_clusters(cluster_part *p, const uint32_t *level) {
  const tn_graph *g = p->g;
  cluster_key *keys = TNI_NEW_ARRAY(p->arena, cluster_key, g->n_nodes);
  uint32_t *cluster_of = TNI_NEW_ARRAY(p->arena, uint32_t, g->n_nodes);
  uint8_t *listed = TNI_NEW_ARRAY(p->arena, uint8_t, g->n_values);
  p->out->clusters = TNI_NEW_ARRAY(p->arena, tni_cluster, g->n_nodes);
  if (!keys || !cluster_of || !listed || !p->out->clusters) return TN_E_NO_MEMORY;
  for (tn_id n = 0; n < g->n_nodes; n++) keys[n] = (cluster_key){level[p->unit_of[n]], p->out->device_of[n], n};
  qsort(keys, g->n_nodes, sizeof *keys, by_level);
  for (uint32_t i = 0, first = 0; i < g->n_nodes; i++) {
    cluster_of[keys[i].node] = p->out->n_clusters;
    bool last = i + 1 == g->n_nodes || keys[i + 1].level != keys[i].level || keys[i + 1].device != keys[i].device;
    if (!last) continue;
    tni_cluster *c = &p->out->clusters[p->out->n_clusters++];
    *c = (tni_cluster){.device = keys[i].device, .level = keys[i].level, .n_nodes = i + 1 - first};
    c->nodes = TNI_NEW_ARRAY(p->arena, tn_id, c->n_nodes);
    c->group_of = TNI_NEW_ARRAY(p->arena, tn_id, c->n_nodes);
    if (!c->nodes || !c->group_of) return TN_E_NO_MEMORY;
    for (uint32_t k = 0; k < c->n_nodes; k++) {
      c->nodes[k] = keys[first + k].node;
      c->group_of[k] = p->out->group_of[c->nodes[k]];
    }
    first = i + 1;
  }
  for (uint32_t i = 0; i < p->out->n_clusters; i++)
    if (set_borders(p, &p->out->clusters[i], cluster_of, i, listed) != TN_OK) return TN_E_NO_MEMORY;
  return TN_OK;
}

tn_status tni_partition_make(const tn_graph *view, const tni_claims *claims, const uint32_t *order, uint32_t n_order,
                             tni_arena *arena, tni_partition *out, tn_error *err) {
  uint32_t n = view->n_nodes;
  *out = (tni_partition){.device_of = TNI_NEW_ARRAY(arena, uint32_t, n), .group_of = TNI_NEW_ARRAY(arena, uint32_t, n)};
  cluster_part p = {.g = view, .claims = claims, .arena = arena, .out = out};
  p.stack = TNI_NEW_ARRAY(arena, uint32_t, n);
  p.seen = TNI_NEW_ARRAY(arena, uint8_t, n);
  p.unit_of = TNI_NEW_ARRAY(arena, uint32_t, n);
  uint32_t *level = TNI_NEW_ARRAY(arena, uint32_t, n);
  if (!out->device_of || !out->group_of || !p.stack || !p.seen || !p.unit_of || !level)
    return tni_fail_memory(err, "partition");
  for (tn_id i = 0; i < n; i++) {
    out->device_of[i] = out->group_of[i] = TN_NONE;
    p.unit_of[i] = i;
  }
  for (uint32_t i = 0; i < n_order; i++) {
    if (take_groups(&p, order[i]) != TN_OK) return tni_fail_memory(err, "partition");
    take_nodes(&p, order[i]);
  }
  for (tn_id i = 0; i < n; i++) out->n_unsupported += out->device_of[i] == TN_NONE;
  if (out->n_unsupported) return TN_OK;
  tn_status st = set_levels(&p, level);
  if (st == TN_OK) st = make_clusters(&p, level);
  if (st == TN_E_NO_MEMORY) return tni_fail_memory(err, "partition");
  return st == TN_OK ? TN_OK : tni_fail(err, st, "partition", "accepted groups wait for each other in a circle");
}

const tni_claim *tni_partition_claim(const tni_partition *p, const tni_claims *c, tn_id node) {
  if (p->device_of[node] == TN_NONE) return NULL;
  if (p->group_of[node] != TN_NONE) return &c->groups[p->group_of[node]].claim;
  return &c->node[p->device_of[node]][node];
}
