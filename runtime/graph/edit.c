/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/priv.h"

/* --- dce --- */

static void drop_dead_uses(tni_graph *g) {
  for (uint32_t i = 0; i < g->n_values; i++) {
    tni_value *v = g->values[i];
    tn_id *uses = (tn_id *)v->pub.uses;
    uint32_t kept = 0;
    for (uint32_t k = 0; k < v->pub.n_uses; k++)
      if (!g->nodes[uses[k]]->dead) uses[kept++] = uses[k];
    v->pub.n_uses = kept;
  }
}

/* From the end: dce goes backwards, so that is where the node stands. */
static void remove_use(tni_value *v, tn_id node) {
  tn_id *uses = (tn_id *)v->pub.uses;
  for (uint32_t i = v->pub.n_uses; i-- > 0;) {
    if (uses[i] != node) continue;
    memmove(uses + i, uses + i + 1, (v->pub.n_uses - i - 1) * sizeof *uses);
    v->pub.n_uses--;
    return;
  }
}

static bool is_needed(const tni_graph *g, const tni_node *n) {
  for (uint32_t i = 0; i < n->pub.n_out; i++) {
    if (n->pub.out[i] == TN_NONE) continue;
    const tni_value *v = g->values[n->pub.out[i]];
    if (v->pub.n_uses || v->is_output || v->pub.kind == TN_VALUE_STATE) return true; /* a cache is for the next run */
  }
  return false;
}

static void kill_node(tni_graph *g, tn_id id) {
  tni_node *n = g->nodes[id];
  n->dead = true;
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (n->pub.in[i] != TN_NONE) remove_use(g->values[n->pub.in[i]], id);
  for (uint32_t i = 0; i < n->n_captures; i++) remove_use(g->values[n->captures[i]], id);
}

uint32_t tni_graph_dce(tni_graph *g) {
  uint32_t killed = 0, before;
  drop_dead_uses(g);
  do { /* one round where the order is topological; nodes added since finish may need more */
    before = killed;
    for (tn_id i = g->n_nodes; i-- > 0;) {
      if (g->nodes[i]->dead || is_needed(g, g->nodes[i])) continue;
      kill_node(g, i);
      killed++;
    }
  } while (killed != before);
  return killed;
}

/* --- compact --- */

typedef struct renumber {
  tni_graph *g;
  tn_id *new_id; /* per old value; before the ids are given: 1 keep, 0 drop */
} renumber;

static void keep_renumbered(renumber *r, const tn_id *ids, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (ids[i] != TN_NONE) r->new_id[ids[i]] = 1;
}

static void mark_kept(renumber *r) {
  tni_graph *g = r->g;
  keep_renumbered(r, g->inputs, g->n_inputs);
  keep_renumbered(r, g->outputs, g->n_outputs);
  for (uint32_t i = 0; i < g->n_states; i++) keep_renumbered(r, (const tn_id[]){g->states[i].in, g->states[i].out}, 2);
  keep_renumbered(r, (const tn_id[]){g->step_pos, g->step_valid}, 2);
  for (tn_id i = 0; i < g->n_nodes; i++) {
    const tni_node *n = g->nodes[i];
    if (n->dead) continue;
    keep_renumbered(r, n->pub.in, n->pub.n_in);
    keep_renumbered(r, n->pub.out, n->pub.n_out);
    keep_renumbered(r, n->captures, n->n_captures);
  }
  for (uint32_t i = 0; i < g->n_values; i++) {
    const tn_state *s = g->values[i]->pub.state;
    if (s && r->new_id[i]) keep_renumbered(r, (const tn_id[]){s->pos, s->valid}, 2);
  }
}

static void move_ids(const renumber *r, const tn_id *ids, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (ids[i] != TN_NONE) ((tn_id *)ids)[i] = r->new_id[ids[i]];
}

static void move_captured(const renumber *r, const tni_node *n) {
  for (uint32_t i = 0; i < n->n_raw; i++) {
    for (uint32_t k = 0; k < n->raw[i].n_graphs; k++) {
      const tni_graph *sub = n->raw[i].graphs[k];
      for (uint32_t j = 0; j < sub->n_values; j++) move_ids(r, &sub->values[j]->captured, 1);
    }
  }
}

static tn_status move_states(const renumber *r) {
  for (uint32_t i = 0; i < r->g->n_values; i++) {
    tni_value *v = r->g->values[i];
    if (!v->pub.state || r->new_id[i] == TN_NONE) continue;
    tn_state *s = tni_arena_memdup(r->g->arena, v->pub.state, v->pub.state->h.size, _Alignof(tn_state));
    if (!s) return TN_E_NO_MEMORY;
    move_ids(r, &s->pos, 1);
    move_ids(r, &s->valid, 1);
    v->pub.state = s;
  }
  return TN_OK;
}

/* A new index of names; the graph keeps its old one when memory ends. */
static tn_status index_names(const renumber *r) {
  tni_map *names = tni_map_create_lent(); /* names are on the graph's arena */
  bool ok = names != NULL;
  for (uint32_t i = 0; ok && i < r->g->n_values; i++)
    if (r->new_id[i] != TN_NONE) ok = tni_map_put_str(names, r->g->values[i]->pub.name, r->new_id[i]);
  if (!ok) {
    tni_map_destroy(names);
    return TN_E_NO_MEMORY;
  }
  tni_map_destroy(r->g->names);
  r->g->names = names;
  return TN_OK;
}

static tn_status apply_renumbering(renumber *r) {
  tni_graph *g = r->g;
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->n_values; i++) r->new_id[i] = r->new_id[i] ? n++ : TN_NONE;
  tn_status st = move_states(r);
  if (st == TN_OK) st = index_names(r);
  if (st != TN_OK) return st;
  for (uint32_t i = 0; i < g->n_values; i++)
    if (r->new_id[i] != TN_NONE) g->values[r->new_id[i]] = g->values[i];
  g->n_values = n;
  move_ids(r, g->inputs, g->n_inputs);
  move_ids(r, g->outputs, g->n_outputs);
  for (uint32_t i = 0; i < g->n_states; i++) {
    tni_gstate *s = &g->states[i];
    for (uint32_t k = 0; k < 4; k++) move_ids(r, (tn_id *[]){&s->past, &s->present, &s->in, &s->out}[k], 1);
  }
  move_ids(r, &g->step_pos, 1);
  move_ids(r, &g->step_valid, 1);
  move_ids(r, &g->total_rows, 1);
  move_ids(r, &g->tables, 1);
  uint32_t live = 0;
  for (tn_id i = 0; i < g->n_nodes; i++) {
    tni_node *node = g->nodes[i];
    if (node->dead) continue;
    move_ids(r, node->pub.in, node->pub.n_in);
    move_ids(r, node->pub.out, node->pub.n_out);
    move_captured(r, node);
    g->nodes[live++] = node;
  }
  g->n_nodes = live;
  return TN_OK;
}

static tn_status compact_finished(tni_graph *g, bool *changed, tn_error *err);

static tn_status compact_subs(const tni_node *n, bool *changed, tn_error *err) {
  for (uint32_t i = 0; i < n->n_raw; i++) {
    for (uint32_t k = 0; k < n->raw[i].n_graphs; k++) {
      tn_status st = compact_finished(n->raw[i].graphs[k], changed, err);
      if (st != TN_OK) return st;
    }
  }
  return TN_OK;
}

/* Every id would stay as it is. */
static bool is_compact(const renumber *r) {
  for (uint32_t i = 0; i < r->g->n_values; i++)
    if (!r->new_id[i]) return false;
  for (tn_id i = 0; i < r->g->n_nodes; i++)
    if (r->g->nodes[i]->dead) return false;
  return true;
}

/* g was finished, its subgraphs with it. *changed becomes true where ids of g changed. */
static tn_status compact_finished(tni_graph *g, bool *changed, tn_error *err) {
  bool below = false;
  tn_status st = TN_OK;
  for (tn_id i = 0; g->n_subs && st == TN_OK && i < g->n_nodes; i++)
    if (!g->nodes[i]->dead) st = compact_subs(g->nodes[i], &below, err);
  if (st == TN_OK && below) st = tni_graph_finish(g, err); /* subgraphs may capture less */
  if (st != TN_OK || (g->stamp && g->stamp == g->compact)) return st;
  renumber r = {g, calloc(g->n_values ? g->n_values : 1, sizeof *r.new_id)};
  if (!r.new_id) return tni_fail_memory(err, g->name);
  mark_kept(&r);
  const bool done = is_compact(&r);
  if (!done) st = apply_renumbering(&r);
  free(r.new_id);
  if (st != TN_OK) return tni_fail_memory(err, g->name);
  if (!done) st = tni_graph_finish(g, err);
  if (st == TN_OK) g->compact = g->stamp;
  *changed |= !done;
  return st;
}

tn_status tni_graph_compact(tni_graph *g, tn_error *err) {
  bool changed = false;
  tn_status st = tni_graph_finish(g, err);
  return st == TN_OK ? compact_finished(g, &changed, err) : st;
}
