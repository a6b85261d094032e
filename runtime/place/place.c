/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/place_fused.h"

#include "runtime/passes/fuse/fuse.h"

enum { MAX_PHASES = 2 };

/* A fused node by names, which outlive ids: to put it together again. */
typedef struct form {
  const tni_node *node; /* its strings and attributes live on the graph's arena */
  const char **in, **out;
} form;

typedef struct candidate {
  form whole, joined;
  tni_unfused parts;         /* what is in its place while it is on trial; empty: itself */
  uint32_t rank[MAX_PHASES]; /* of the device that the accepted form, or its products, are on */
  const form *now;           /* accepted: a form, or NULL where it stays apart */
} candidate;

typedef struct placing {
  tn_model *m;
  const uint32_t *phases;
  candidate *c;
  uint32_t n;
  tn_error *err;
} placing;

static bool on_trial(const candidate *c) { return c->parts.n_products || c->parts.n_ops; }

static tn_status claim_all(placing *p) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < p->m->n_execs; i++)
    st = tni_exec_place(p->m, &p->m->execs[i], p->phases[i], p->err);
  return st;
}

/* How far behind in the phase's order node's device stands; nobody is behind everybody. */
static uint32_t rank_of(const placing *p, uint32_t exec, tn_id node) {
  const tn_runtime *rt = p->m->rt;
  const uint32_t phase = p->phases[exec], dev = p->m->execs[exec].part.device_of[node];
  uint32_t r = 0;
  while (r < rt->n_order[phase] && rt->order[phase][r] != dev) r++;
  return r;
}

static tn_id find_node(const tni_graph *g, const tni_node *node) {
  for (tn_id i = 0; i < g->n_nodes; i++)
    if (g->nodes[i] == node) return i;
  return TN_NONE;
}

static const char **names_of(tn_model *m, const tn_id *ids, uint32_t n) {
  const char **names = TNI_NEW_ARRAY(m->arena, const char *, n);
  for (uint32_t i = 0; names && i < n; i++)
    names[i] = ids[i] == TN_NONE ? NULL : tni_graph_value(m->graph, ids[i])->pub.name;
  return names;
}

static bool remember_form(tn_model *m, const tni_node *node, form *f) {
  *f = (form){node, names_of(m, node->pub.in, node->pub.n_in), names_of(m, node->pub.out, node->pub.n_out)};
  return f->in && f->out;
}

/* Fused nodes that a better device of some phase might want in pieces. */
static tn_status find_candidates(placing *p) {
  const tni_graph *g = p->m->graph;
  p->c = TNI_NEW_ARRAY(p->m->arena, candidate, g->n_nodes);
  if (!p->c) return tni_fail_memory(p->err, p->m->path);
  for (tn_id i = 0; i < g->n_nodes; i++) {
    const tni_node *n = g->nodes[i];
    candidate c = {.parts = {.n_ops = 0}};
    uint32_t worst = 0;
    if (n->dynamic || (n->pub.op != TN_OP_FUSED_MATMUL && n->pub.op != TN_OP_ELEMENTWISE)) continue;
    for (uint32_t x = 0; x < p->m->n_execs; x++) {
      c.rank[x] = rank_of(p, x, i);
      if (c.rank[x] > worst) worst = c.rank[x];
    }
    if (!worst) continue;
    if (!remember_form(p->m, n, &c.whole)) return tni_fail_memory(p->err, p->m->path);
    p->c[p->n] = c;
    p->c[p->n].now = &p->c[p->n].whole;
    p->n++;
  }
  return TN_OK;
}

static tn_status settle_places(placing *p) {
  tni_graph *g = p->m->graph;
  tn_status st = tni_graph_finish(g, p->err);
  if (st == TN_OK) st = tni_infer_graph(g, p->err);
  if (st == TN_OK) (void)tni_graph_dce(g);
  if (st == TN_OK) st = tni_graph_compact(g, p->err);
  p->m->passes.nodes_after = g->n_nodes;
  return st == TN_OK ? claim_all(p) : st;
}

static bool ids_of(const tni_graph *g, const char *const *names, uint32_t n, tn_id *ids) {
  for (uint32_t i = 0; i < n; i++) {
    ids[i] = names[i] ? tni_graph_find(g, names[i]) : TN_NONE;
    if (names[i] && ids[i] == TN_NONE) return false;
  }
  return true;
}

/* Who reads what nobody makes any more goes with it, down to the outputs of the form: products and operators of a
 * trial, and what cuts a product into parts. Nodes stand in their order. */
static void let_die(tni_graph *g, const tn_id *out, uint32_t n_out) {
  for (tn_id i = 0; i < g->n_nodes; i++) {
    tni_node *n = g->nodes[i];
    for (uint32_t k = 0; k < n->pub.n_in && !n->dead; k++) {
      const tn_id v = n->pub.in[k], by = v == TN_NONE ? TN_NONE : g->values[v]->pub.producer;
      bool again = by >= g->n_nodes || !g->nodes[by]->dead;
      for (uint32_t o = 0; o < n_out && !again; o++) again = out[o] == v;
      n->dead = !again;
    }
  }
}

/* What makes the form's outputs now dies, and the form makes them again. *back false: something that it reads or makes was
 * read by nobody in the pieces and went away with them; nothing changed. */
static tn_status put_back(placing *p, candidate *c, const form *f, bool *back) {
  tni_graph *g = p->m->graph;
  const tni_node *n = f->node;
  tn_id *in = TNI_NEW_ARRAY(p->m->arena, tn_id, n->pub.n_in), *out = TNI_NEW_ARRAY(p->m->arena, tn_id, n->pub.n_out);
  if (!in || !out) return tni_fail_memory(p->err, p->m->path);
  *back = ids_of(g, f->in, n->pub.n_in, in) && ids_of(g, f->out, n->pub.n_out, out);
  if (!*back) return TN_OK;
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    const tn_id by = out[o] == TN_NONE ? TN_NONE : g->values[out[o]]->pub.producer;
    if (by < g->n_nodes) g->nodes[by]->dead = true;
  }
  let_die(g, out, n->pub.n_out);
  c->parts = (tni_unfused){.n_ops = 0};
  return tni_graph_add_node(g, n->pub.name, n->pub.domain, n->type, n->version, in, n->pub.n_in, out, n->pub.n_out,
                            n->raw, n->n_raw, NULL, p->err);
}

/* The node that makes the form's outputs. */
static tn_id node_of(const tni_graph *g, const form *f) {
  for (uint32_t o = 0; o < f->node->pub.n_out; o++)
    if (f->out[o]) return g->values[tni_graph_find(g, f->out[o])]->pub.producer;
  return TN_NONE;
}

/* The best rank of these nodes in phase x; UINT32_MAX without any. */
static uint32_t best_of(const placing *p, uint32_t x, const tni_node *const *nodes, uint32_t n) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < n; i++) {
    const tn_id node = find_node(p->m->graph, nodes[i]);
    const uint32_t r = node == TN_NONE ? UINT32_MAX : rank_of(p, x, node);
    if (r < best) best = r;
  }
  return best;
}

/* Whether a phase prefers what is there in pieces now; rank: of the products then. */
static bool is_better(const placing *p, const candidate *c, uint32_t *rank) {
  bool better = false;
  for (uint32_t x = 0; x < p->m->n_execs; x++) {
    rank[x] = best_of(p, x, c->parts.product, c->parts.n_products);
    better = better || rank[x] < c->rank[x] || best_of(p, x, c->parts.op, c->parts.n_ops) < c->rank[x];
  }
  return better;
}

static bool is_best(const placing *p, const candidate *c) {
  for (uint32_t x = 0; x < p->m->n_execs; x++)
    if (c->rank[x]) return false;
  return true;
}

/* One trial: every candidate that is not where all phases want it is taken apart this far, devices are asked, and what
 * did not gain is put back. *open: it is, but nobody was asked since. */
static tn_status try_placing(placing *p, uint32_t how, bool *open) {
  tni_graph *g = p->m->graph;
  uint32_t tried = 0;
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < p->n; i++) {
    candidate *c = &p->c[i];
    c->parts = (tni_unfused){.n_ops = 0};
    if (is_best(p, c) || !c->now) continue;
    const tn_id node = node_of(g, c->now);
    if (node < g->n_nodes) st = tni_unfuse_node(g, node, how, &c->parts, p->err);
    tried += on_trial(c);
  }
  if (st != TN_OK || !tried) return st;
  st = settle_places(p);
  *open = false;
  for (uint32_t i = 0; st == TN_OK && i < p->n; i++) {
    candidate *c = &p->c[i];
    uint32_t rank[MAX_PHASES];
    if (!on_trial(c)) continue;
    bool back = false;
    if (!is_better(p, c, rank)) st = put_back(p, c, c->now, &back);
    *open = *open || back;
    if (st != TN_OK || back) continue;
    for (uint32_t x = 0; x < p->m->n_execs; x++) c->rank[x] = rank[x];
    c->now = NULL;
    if (how == TNI_UNFUSE_ALL || find_node(g, c->parts.product[0]) == TN_NONE) continue;
    c->now = &c->joined;
    if (!remember_form(p->m, c->parts.product[0], &c->joined)) st = tni_fail_memory(p->err, p->m->path);
  }
  return st;
}

tn_status tni_place_fused(tn_model *m, const uint32_t *phases, tn_error *err) {
  placing p = {.m = m, .phases = phases, .err = err};
  bool open = false;
  tn_status st = claim_all(&p);
  if (st == TN_OK) st = find_candidates(&p);
  if (st == TN_OK && p.n) st = try_placing(&p, TNI_UNFUSE_CHAIN, &open);
  if (st == TN_OK && p.n && open) st = tni_graph_finish(m->graph, err);
  if (st == TN_OK && p.n) st = try_placing(&p, TNI_UNFUSE_ALL, &open);
  return st == TN_OK && open ? settle_places(&p) : st;
}
