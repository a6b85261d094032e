/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk: the graph over all sequences, from one product to the next. At a stop the inputs of all sequences give the
 * second moments, every product of that input is solved, and its weight becomes what was solved: so later layers see
 * what quantized earlier ones give. The float model is walked beside it, so that a product can make up for how far its
 * inputs have drifted.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quantize/head.h"
#include "runtime/quantize/walk.h"

/* d [channels,K] += (v' - v)^T x, x the input of p and v' the float model's v. */
static tn_status add_drift(tni_qz_walker *w, tni_qz_walker *floats, uint32_t s, const tni_qz_product *p, tn_id v,
                           int64_t channels, float *d) {
  const size_t at = (size_t)s * w->g->n_values;
  float *x = NULL, *y = NULL, *aim = NULL;
  int64_t rows = 0, T = 0;
  tn_status st = tni_qz_value(w, w->state + at, p->x, p, p->K, &x, &T);
  if (st == TN_OK) st = tni_qz_value(w, w->state + at, v, p, channels, &y, &rows);
  if (st == TN_OK) st = tni_qz_value(floats, floats->state + at, v, p, channels, &aim, &rows);
  if (st == TN_OK && rows == T)
    st = tni_quant_drift(d, &(tni_quant_drifts){T, p->K, channels, x, y, aim}, &w->z->run.run, w->z->err);
  free(x);
  free(y);
  free(aim);
  return st;
}

/* The node that alone reads v, or TN_NONE. */
static tn_id only_reader(const tni_graph *g, tn_id v) {
  tn_id reader = TN_NONE;
  for (tn_id i = 0; i < g->n_nodes; i++) {
    const tni_node *n = tni_graph_node(g, i);
    for (uint32_t k = 0; k < n->pub.n_in && !n->dead; k++) {
      if (n->pub.in[k] != v) continue;
      if (reader != TN_NONE) return TN_NONE;
      reader = i;
    }
  }
  return reader;
}

/* What p's output is added to, a bias apart, once that is there: the residual stream. Else TN_NONE. */
static tn_id added_to(const tni_qz_walker *w, const tni_qz_product *p) {
  tn_id v = tni_graph_node(w->g, p->node)->pub.out[0];
  for (;;) {
    const tn_id reader = only_reader(w->g, v);
    const tni_node *n = reader == TN_NONE ? NULL : tni_graph_node(w->g, reader);
    if (!n || n->pub.op != TN_OP_ADD) return TN_NONE;
    const tn_id other = n->pub.in[n->pub.in[0] == v];
    if (tni_graph_value(w->g, other)->pub.kind != TN_VALUE_CONST && !w->fixed[other]) {
      if (!w->state[p->x] || !w->state[other]) return TN_NONE;
      const tni_tensor *x = &w->state[p->x]->t, *t = &w->state[other]->t;
      if (t->rank != x->rank) return TN_NONE;
      for (uint32_t i = 0; i < t->rank; i++)
        if (t->dims[i] != (i + 1 < t->rank ? x->dims[i] : p->N)) return TN_NONE;
      return other;
    }
    v = n->pub.out[0];
  }
}

/* p's drift of what its output is added to, [N,K], for free(); NULL where it is added to nothing. */
static tn_status added_drift(tni_qz_walker *w, tni_qz_walker *floats, const tni_qz_product *p, float **out) {
  const tn_id v = added_to(w, p);
  tn_status st = TN_OK;
  *out = NULL;
  if (v == TN_NONE) return TN_OK;
  if (!(*out = calloc((size_t)(p->N * p->K), sizeof **out))) return tni_fail_memory(w->z->err, p->name);
  for (uint32_t s = 0; st == TN_OK && s < w->n_seqs; s++) st = add_drift(w, floats, s, p, v, p->N, *out);
  return st;
}

/* The weight is what was solved, from here on. */
static tn_status replace_weight(tni_qz_walker *w, const tni_qz_product *p, const tni_qz_solved *s) {
  float *f;
  const tn_status st = tni_qz_stored(w, p, s->q, &f);
  if (st) return st;
  (void)tni_qz_swap(w, p, f);
  free(w->weights[p->weight]);
  w->weights[p->weight] = f;
  return TN_OK;
}

/* What all sequences say of an input. */
typedef struct sums {
  float *h, *drift; /* [K,K] */
} sums;

static void sums_finish(sums *s) {
  free(s->h);
  free(s->drift);
}

static tn_status sums_make(sums *s, const tni_qz_walker *w, const tni_qz_product *p) {
  const size_t n = (size_t)(p->K * p->K);
  *s = (sums){calloc(n, sizeof *s->h), calloc(n, sizeof *s->drift)};
  return s->h && s->drift ? TN_OK : tni_fail_memory(w->z->err, p->name);
}

static tn_status sum_up(tni_qz_walker *w, tni_qz_walker *floats, const tni_qz_product *p, sums *s) {
  tn_status st = sums_make(s, w, p);
  for (uint32_t i = 0; st == TN_OK && i < w->n_seqs; i++) {
    st = tni_qz_add_moments(w, w->state + (size_t)i * w->g->n_values, p, s->h);
    if (st == TN_OK) st = add_drift(w, floats, i, p, p->x, p->K, s->drift);
  }
  return st;
}

/* s is overwritten. */
static tn_status solve_one(tni_qz_walker *w, tni_qz_walker *floats, uint32_t i, const sums *s, tni_qz_solved *out) {
  const tni_qz_product *p = &w->z->products[i];
  float *added = NULL;
  tni_qz_head head = {0};
  tn_status st = added_drift(w, floats, p, &added);
  if (st == TN_OK) st = tni_qz_head_begin(&head, w, floats, p, s->h, s->drift);
  const tni_qz_seen seen = head.n_groups ? (tni_qz_seen){head.n_groups, head.group, head.h, head.drift, added}
                                         : (tni_qz_seen){1, NULL, s->h, s->drift, added};
#ifdef __GLIBC__
  (void)malloc_trim(0); /* what sums had, the solver may have */
#endif
  if (st == TN_OK) st = tni_qz_solve(w->z, i, &seen, out);
  free(added);
  tni_qz_head_finish(&head);
  return st;
}

static tn_status take_solved(tni_qz_walker *w, uint32_t i, tni_qz_solved *s) {
  tni_qz_product *p = &w->z->products[i];
  const tn_status st = replace_weight(w, p, s);
  tni_qz_solved_finish(s);
  p->done = st == TN_OK;
  w->z->n_done += p->done;
  return st;
}

static bool is_open(const tni_qz *z, uint32_t i, const tni_qz_product *p) {
  const tni_qz_product *q = &z->products[i];
  return q->x == p->x && q->K == p->K && !q->done && q->format != TNI_QZ_FLOAT;
}

/* Those of the input that an earlier call solved. left: how many are not. */
static tn_status take_found(tni_qz_walker *w, uint32_t first, uint32_t *left) {
  tni_qz *z = w->z;
  tn_status st = TN_OK;
  *left = 0;
  for (uint32_t i = first; st == TN_OK && i < z->n_products; i++) {
    tni_qz_solved solved;
    bool found;
    if (!is_open(z, i, &z->products[first])) continue;
    st = tni_qz_solved_read(z, i, &solved, &found);
    if (st == TN_OK && found) st = take_solved(w, i, &solved);
    *left += !found;
  }
  return st;
}

static tn_status stop_at(tni_qz_walker *w, tni_qz_walker *floats, uint32_t first) {
  tni_qz *z = w->z;
  const tni_qz_product *p = &z->products[first];
  const size_t bytes = (size_t)(p->K * p->K) * sizeof(float);
  sums all = {0}, copy = {0};
  uint32_t left;
  tn_status st = take_found(w, first, &left);
  if (st == TN_OK && left) st = sum_up(w, floats, p, &all);
  if (st == TN_OK && left > 1) st = sums_make(&copy, w, p);
  for (uint32_t i = first; st == TN_OK && left && i < z->n_products; i++) {
    tni_qz_solved solved;
    if (!is_open(z, i, p)) continue;
    if (--left) {
      memcpy(copy.h, all.h, bytes);
      memcpy(copy.drift, all.drift, bytes);
    }
    st = solve_one(w, floats, i, left ? &copy : &all, &solved);
    if (st == TN_OK) st = take_solved(w, i, &solved);
  }
  sums_finish(&all);
  sums_finish(&copy);
  return st;
}

/* Solved weights that no node after this one reads go. */
static void drop_weights(tni_qz_walker *w, tn_id node) {
  for (tn_id v = 0; v < w->g->n_values; v++) {
    if (!w->weights[v] || w->last[v] == TN_NONE || w->last[v] > node) continue;
    free(w->weights[v]);
    w->weights[v] = NULL;
    tni_graph_value(w->g, v)->tensor->data = NULL;
  }
}

tn_status tni_qz_walk(tni_qz *z) {
  tni_qz_walker w, floats;
  tn_id at = 0;
  tn_status st = tni_qz_walk_begin(&w, z, z->import->graph, z->n_seqs);
  const tn_status second = tni_qz_walk_begin(&floats, z, z->floats->graph, z->n_seqs);
  if (st == TN_OK) st = second;
  if (st == TN_OK && z->products[z->n_products].format != TNI_QZ_FLOAT && z->n_items > z->n_products) {
    at = z->products[z->n_products].node + 1;
    st = tni_qz_run_solved_table(&w);
    if (st == TN_OK) st = tni_qz_run_segment(&floats, 0, at);
    z->n_done++;
  }
  for (uint32_t i = 0; st == TN_OK && i < z->n_products; i++) {
    if (z->products[i].done || z->products[i].format == TNI_QZ_FLOAT) continue;
    st = tni_qz_run_segment(&w, at, z->products[i].node);
    if (st == TN_OK) st = tni_qz_run_segment(&floats, at, z->products[i].node);
    at = z->products[i].node;
    if (st == TN_OK) drop_weights(&w, at ? at - 1 : 0);
    tni_model_rest(z->import);
    tni_model_rest(z->floats);
    if (st == TN_OK) st = stop_at(&w, &floats, i);
  }
  tni_qz_walk_end(&w);
  tni_qz_walk_end(&floats);
  return st;
}
