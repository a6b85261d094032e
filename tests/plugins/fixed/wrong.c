/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes of reading: nodes whose operands or attributes are others than the graph's, before they are lowered.
 */
#include <stdlib.h>
#include <string.h>

#include <tenon/attrs.h>

#include "fixed.h"

enum { MOST_IN = 24, MOST_ATTRS = 16, MOST_NUMBERS = 3 * TN_CHAIN_MAX_OPS };

/* One node that is read wrong. */
typedef struct misread_node {
  tn_node n;
  tn_id in[MOST_IN];
  tn_attr a[MOST_ATTRS];
  const tn_attr *list[MOST_ATTRS];
  int64_t ints[MOST_NUMBERS];
  float floats[TN_CHAIN_MAX_OPS];
} misread_node;

struct fixed_misread {
  tn_graph graph;
  const tn_node **nodes;
  misread_node *wrong; /* [n_nodes of the cluster] */
};

static bool is_int8(const tn_subgraph *s) {
  for (uint32_t i = 0; i < s->n_states; i++)
    if (s->layouts[i]->dtype == TN_DT_I8) return true;
  return false;
}

/* What of attention is passed over: the base of the mistake, or TN_NONE. */
static uint32_t passed_over(const fixed_device *d, const tn_subgraph *s) {
  if (d->wrong == FIXED_apart_softcap) return FIXED_softcap;
  if (d->wrong == FIXED_kept_scale) return FIXED_scale;
  if (d->wrong >= FIXED_scale && d->wrong <= FIXED_window) return d->wrong;
  if (d->wrong == FIXED_masked_cap || d->wrong == FIXED_all_keys) return d->wrong;
  if (d->wrong >= FIXED_int8_scale && d->wrong <= FIXED_int8_window && is_int8(s))
    return d->wrong - FIXED_int8_scale + FIXED_scale;
  return FIXED_none;
}

static bool attention(misread_node *m, uint32_t wrong) {
  switch (wrong) {
    case FIXED_masked_cap:
      if (m->n.n_in > 3 && m->in[3] != TN_NONE) m->a[TN_ATTENTION_SOFTCAP].u.f = 0;
      return true;
    case FIXED_all_keys:
      if (!m->a[TN_ATTENTION_IS_CAUSAL].u.i && m->n.n_in > 6) m->in[6] = TN_NONE;
      return true;
    case FIXED_scale:
      m->a[TN_ATTENTION_SCALE].n = 0;
      return true;
    case FIXED_softcap:
      m->a[TN_ATTENTION_SOFTCAP].u.f = 0;
      return true;
    case FIXED_mask:
      if (m->n.n_in > 3) m->in[3] = TN_NONE;
      return true;
    case FIXED_window:
      m->a[TN_ATTENTION_LEFT_WINDOW].u.i = -1;
      return true;
    default:
      return false;
  }
}

/* Attributes of chains: 0 is `ops`, 1 `floats`. */
static bool chain(misread_node *m, uint32_t wrong) {
  bool changed = false;
  for (uint64_t i = 0; i < m->a[1].n && i < TN_CHAIN_MAX_OPS; i++) {
    int64_t *op = &m->ints[3 * i];
    const bool sub = wrong == FIXED_chain_sub && op[0] == TN_OP_SUB,
               gelu = wrong == FIXED_chain_gelu && op[0] == TN_OP_GELU,
               swish = wrong == FIXED_chain_swish && op[0] == TN_OP_SWISH;
    const int64_t a = op[1];
    if (sub) op[1] = op[2], op[2] = a;
    if (gelu || swish) m->floats[i] = 1;
    changed = changed || sub || gelu || swish;
  }
  return changed;
}

static bool misread(const fixed_device *d, const tn_subgraph *s, misread_node *m) {
  if (m->n.op == TN_OP_ATTENTION) return attention(m, passed_over(d, s));
  if (m->n.op == TN_OP_FUSED_MATMUL || m->n.op == TN_OP_ELEMENTWISE) return chain(m, d->wrong);
  if (d->wrong == FIXED_sub && m->n.op == TN_OP_SUB) {
    const tn_id first = m->in[0];
    m->in[0] = m->in[1], m->in[1] = first;
    return true;
  }
  if (d->wrong == FIXED_gelu && m->n.op == TN_OP_GELU) {
    m->a[TN_AT_GELU_APPROXIMATE].u.s = "tanh";
    m->a[TN_AT_GELU_APPROXIMATE].n = 4;
    m->a[TN_AT_GELU_APPROXIMATE].word = TN_WORD_GELU_APPROXIMATE_TANH;
    return true;
  }
  if (d->wrong == FIXED_swish && m->n.op == TN_OP_SWISH) return m->a[TN_AT_SWISH_ALPHA].u.f = 1, true;
  return false;
}

static bool copy_node(misread_node *m, const tn_node *n) {
  if (n->n_in > MOST_IN || n->n_attr > MOST_ATTRS) return false;
  m->n = *n;
  memcpy(m->in, n->in, n->n_in * sizeof *m->in);
  for (uint32_t i = 0; i < n->n_attr; i++) {
    m->a[i] = *n->attr[i];
    m->list[i] = &m->a[i];
  }
  const bool chains = n->op == TN_OP_FUSED_MATMUL || n->op == TN_OP_ELEMENTWISE;
  if (chains && m->a[0].n) memcpy(m->ints, m->a[0].u.ints, m->a[0].n * sizeof *m->ints), m->a[0].u.ints = m->ints;
  if (chains && m->a[1].n)
    memcpy(m->floats, m->a[1].u.floats, m->a[1].n * sizeof *m->floats), m->a[1].u.floats = m->floats;
  m->n.in = m->in;
  m->n.attr = m->list;
  return true;
}

fixed_misread *fixed_misread_make(const fixed_device *d, const tn_subgraph *s, tn_subgraph *out) {
  fixed_misread *r = calloc(1, sizeof *r);
  *out = *s;
  if (!r) return NULL;
  r->nodes = calloc(s->graph->n_nodes + 1, sizeof *r->nodes);
  r->wrong = calloc(s->n_nodes + 1, sizeof *r->wrong);
  if (!r->nodes || !r->wrong) return r;
  memcpy(r->nodes, s->graph->nodes, s->graph->n_nodes * sizeof *r->nodes);
  for (uint32_t i = 0; i < s->n_nodes; i++) {
    misread_node *m = &r->wrong[i];
    if (copy_node(m, s->graph->nodes[s->nodes[i]]) && misread(d, s, m)) r->nodes[s->nodes[i]] = &m->n;
  }
  r->graph = *s->graph;
  r->graph.nodes = r->nodes;
  out->graph = &r->graph;
  return r;
}

void fixed_misread_free(fixed_misread *r) {
  if (!r) return;
  free(r->nodes);
  free(r->wrong);
  free(r);
}
