/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of many Ifs has many small graphs, and each pass over the outer graph finishes all of them again. What a finish
 * reads and writes of a graph is summed up here, so that one that is as its last finish left it is left alone.
 */
#include "runtime/graph/priv.h"

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

static uint64_t mix_two(uint64_t h, uint32_t a, uint32_t b) { return mix(h, (uint64_t)a << 32 | b); }

static uint64_t mix_ids(uint64_t h, const tn_id *ids, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) h = mix(h, ids[i]);
  return h;
}

/* Of its type only what a constant states: others' ranks are looked at in tni_graph_unchanged. */
static uint64_t mix_value(uint64_t h, const tni_value *v) {
  const tn_value *p = &v->pub;
  h = mix_two(h, p->kind | (uint32_t)v->is_output << 8 | (uint32_t)(v->captured != TN_NONE) << 9, p->n_uses);
  h = mix_two(h, p->producer, v->out_index);
  h = mix_ids(h, p->uses, p->n_uses);
  if (p->kind != TN_VALUE_CONST) return h;
  if (!v->tensor) return mix(h, 0);
  h = mix_two(mix(h, (uintptr_t)v->tensor), v->tensor->dtype, v->tensor->rank);
  for (uint32_t i = 0; i < v->tensor->rank && i < TN_MAX_RANK; i++) h = mix(h, (uint64_t)v->tensor->dims[i]);
  return mix(mix(h, v->tensor->bytes), (uintptr_t)v->tensor->data);
}

static uint64_t mix_node(uint64_t h, const tni_node *n) {
  h = mix(h, (uintptr_t)n->op << 1 | n->dead);
  h = mix_two(h, n->pub.n_in, n->pub.n_out);
  h = mix_ids(h, n->pub.in, n->pub.n_in);
  return mix_ids(h, n->pub.out, n->pub.n_out);
}

uint64_t tni_graph_stamp(const tni_graph *g) {
  if (!g->outer || g->n_subs || g->n_states || g->step_pos != TN_NONE || g->step_valid != TN_NONE || g->twice != TN_NONE)
    return 0;
  uint64_t h = mix_two(mix_two(1, g->n_nodes, g->n_values), g->n_inputs, g->n_outputs);
  h = mix_ids(mix_ids(h, g->inputs, g->n_inputs), g->outputs, g->n_outputs);
  for (uint32_t i = 0; i < g->n_values; i++) {
    if (g->values[i]->pub.state) return 0;
    h = mix_value(h, g->values[i]);
  }
  for (tn_id i = 0; i < g->n_nodes; i++) h = mix_node(h, g->nodes[i]);
  return h ? h : 1;
}

static bool rank_is_fine(uint32_t rank) { return rank <= TN_MAX_RANK || rank == TNI_RANK_UNKNOWN; }

bool tni_graph_unchanged(const tni_graph *g) {
  if (!g->stamp || g->stamp != tni_graph_stamp(g)) return false;
  for (uint32_t i = 0; i < g->n_values; i++) {
    const tni_value *v = g->values[i];
    if (!rank_is_fine(v->pub.rank) || !rank_is_fine(v->hint_rank)) return false;
    /* What became a constant outside becomes one here, which is a change. */
    if (v->captured != TN_NONE && g->outer->values[v->captured]->pub.kind == TN_VALUE_CONST) return false;
  }
  return true;
}
