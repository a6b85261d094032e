/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of a graph, and the graph run over sequences: each node by node, with what later nodes read of it.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/ops/kernel/kernel.h"
#include "runtime/quantize/walk.h"
#include "runtime/shape/shape.h"

static tn_status find_product(tni_qz *z, tn_id node, tni_qz_product *p, bool *is) {
  const tni_graph *g = z->import->graph;
  tni_product t;
  *is = false;
  if (!tni_calib_product(g, node, &t) || t.n_weights != 1) return TN_OK;
  const tni_node *n = tni_graph_node(g, node);
  const tni_tensor *w = tni_graph_value(g, t.weights[0])->tensor;
  if (w->quantized || (w->dtype != TN_DT_F32 && w->dtype != TN_DT_F16)) return TN_OK;
  if (n->pub.op == TN_OP_GEMM && n->pub.n_in > 2) return TN_OK;
  const int64_t N = w->dims[0] == t.K && t.kn[0] ? w->dims[1] : w->dims[0];
  *p = (tni_qz_product){.node = node,
                        .x = t.x,
                        .weight = t.weights[0],
                        .kn = t.kn[0],
                        .N = N,
                        .K = t.K,
                        .name = n->pub.name,
                        .output = tni_graph_value(g, n->pub.out[0])->pub.name};
  *is = true;
  return TN_OK;
}

tn_status tni_qz_find_products(tni_qz *z) {
  const tni_graph *g = z->import->graph;
  z->products = calloc((size_t)g->n_nodes + 1, sizeof *z->products);
  if (!z->products) return tni_fail_memory(z->err, z->path);
  for (tn_id i = 0; i < g->n_nodes; i++) {
    bool is;
    const tn_status st = find_product(z, i, &z->products[z->n_products], &is);
    if (st) return st;
    z->n_products += is;
  }
  return z->n_products
             ? tni_qz_find_table(z)
             : tni_fail(z->err, TN_E_UNSUPPORTED, z->path, "'%s' has no product with a constant float matrix", z->path);
}

static void drop(tni_tensor **t) {
  if (*t) free((*t)->data);
  free(*t);
  *t = NULL;
}

/* A copy of its own of what an arena holds. */
static tni_tensor *own(const tni_tensor *t) {
  tni_tensor *c = malloc(sizeof *c);
  if (!c) return NULL;
  *c = *t;
  c->data = aligned_alloc(64, ((size_t)t->bytes + 64) & ~(size_t)63);
  if (!c->data) {
    free(c);
    return NULL;
  }
  if (t->bytes) memcpy(c->data, t->data, (size_t)t->bytes);
  return c;
}

static tn_status run_node(tni_qz_walker *w, tn_id node, const tni_tensor *const *in, tni_tensor *out,
                          tni_arena *arena) {
  const tni_node *n = tni_graph_node(w->g, node);
  return tni_ops_eval(&w->z->run.run, n, in, n->pub.n_in, out, n->pub.n_out, arena, w->z->err);
}

static tn_status operands(tni_qz_walker *w, tni_qz_kept **state, const tni_node *n, const tni_tensor **in);

/* What was made of constants alone, made when it is asked for. */
static tn_status made_once(tni_qz_walker *w, tn_id v, const tni_tensor **out) {
  const tn_id node = tni_graph_value(w->g, v)->pub.producer;
  const tni_node *n = tni_graph_node(w->g, node);
  if (!w->once[v]) {
    tni_arena *arena = tni_arena_create();
    const tni_tensor *in[TN_FUSED_MAX_PARTS + 64];
    tni_tensor made[16];
    if (!arena) return tni_fail_memory(w->z->err, n->pub.name);
    tn_status st = n->pub.n_in > TN_FUSED_MAX_PARTS + 64 || n->pub.n_out > 16 ? TN_E_LIMIT : operands(w, NULL, n, in);
    if (st == TN_OK) st = run_node(w, node, in, made, arena);
    for (uint32_t i = 0; st == TN_OK && i < n->pub.n_out; i++)
      if (n->pub.out[i] != TN_NONE && !(w->once[n->pub.out[i]] = own(&made[i])))
        st = tni_fail_memory(w->z->err, n->pub.name);
    tni_arena_destroy(arena);
    if (st) return st;
  }
  *out = w->once[v];
  return TN_OK;
}

static tn_status operands(tni_qz_walker *w, tni_qz_kept **state, const tni_node *n, const tni_tensor **in) {
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const tn_id v = n->pub.in[i];
    in[i] = NULL;
    if (v == TN_NONE) continue;
    const tni_value *val = tni_graph_value(w->g, v);
    tn_status st = TN_OK;
    if (val->pub.kind == TN_VALUE_CONST)
      in[i] = val->tensor;
    else if (w->fixed[v])
      st = made_once(w, v, &in[i]);
    else if (state[v])
      st = tni_qz_tensor(w->z, state[v], &in[i]);
    if (st) return st;
    if (!in[i])
      return tni_fail(w->z->err, TN_E_UNSUPPORTED, n->pub.name, "node '%s' reads '%s', which nothing made", n->pub.name,
                      val->pub.name);
  }
  return TN_OK;
}

static tn_status step(tni_qz_walker *w, tni_qz_kept **state, tn_id node) {
  const tni_node *n = tni_graph_node(w->g, node);
  enum { MOST = 256 };
  const tni_tensor *in[MOST];
  tni_tensor out[MOST];
  if (n->pub.n_in > MOST || n->pub.n_out > MOST)
    return tni_fail(w->z->err, TN_E_LIMIT, n->pub.name, "too many operands");
  tni_arena *arena = tni_arena_create();
  tn_status st = arena ? operands(w, state, n, in) : tni_fail_memory(w->z->err, n->pub.name);
  if (st == TN_OK) st = run_node(w, node, in, out, arena);
  for (uint32_t i = 0; st == TN_OK && i < n->pub.n_out; i++) {
    const tn_id v = n->pub.out[i];
    if (v != TN_NONE && w->last[v] != TN_NONE) st = tni_qz_hold(w->z, &out[i], &state[v]);
  }
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (n->pub.in[i] != TN_NONE && w->last[n->pub.in[i]] == node) tni_qz_let_go(w->z, &state[n->pub.in[i]]);
  tni_arena_destroy(arena);
  return st;
}

/* --- inputs --- */

static tn_status whole_numbers(tni_qz *z, uint32_t dtype, int64_t n, const int64_t *ids, int64_t first, int64_t by,
                               tni_qz_kept **out) {
  tni_tensor t = {.dtype = dtype, .rank = 2, .dims = {1, n}};
  t.bytes = (uint64_t)n * tni_elem_size(dtype);
  int64_t *wide = malloc((size_t)n * sizeof *wide + 1);
  int32_t *narrow = (int32_t *)wide;
  if (!wide) return tni_fail_memory(z->err, z->path);
  for (int64_t i = 0; i < n; i++) {
    const int64_t v = ids ? ids[i] : first + by * i;
    if (dtype == TN_DT_I32)
      narrow[i] = (int32_t)v;
    else
      wide[i] = v;
  }
  t.data = wide;
  const tn_status st = tni_qz_hold(z, &t, out);
  free(wide);
  return st;
}

/* The past of a cache, by its name: no pass has looked for caches here. That of an encoder's output is never empty. */
static bool is_past(const char *name) {
  return (strstr(name, "past") || strstr(name, "cache")) && !strstr(name, "encoder") && !strstr(name, "cross");
}

/* An empty past: one sequence, constant dims as they are, the others 0. *out stays NULL where it would not be empty. */
static tn_status empty_past(tni_qz *z, const tni_graph *g, const tni_value *v, tni_qz_kept **out) {
  tni_tensor t = {.dtype = v->pub.dtype, .rank = v->pub.rank, .data = NULL};
  int64_t count = 1, dim;
  for (uint32_t i = 0; i < t.rank; i++) {
    t.dims[i] = tni_ex_is_const(g->exprs, v->pub.dims[i], &dim) ? dim : i == 0;
    count *= t.dims[i];
  }
  return count ? TN_OK : tni_qz_hold(z, &t, out);
}

static tn_status give_input(tni_qz_walker *w, tni_qz_kept **state, const tni_qz_tokens *s, tn_id v) {
  const tni_value *val = tni_graph_value(w->g, v);
  const char *name = val->pub.name;
  const uint32_t dtype = val->pub.dtype;
  tni_qz *z = w->z;
  tn_status st = TN_OK;
  if (val->preset || w->last[v] == TN_NONE) return TN_OK;
  if ((dtype == TN_DT_I64 || dtype == TN_DT_I32) && val->pub.rank == 2) {
    if (strcmp(name, "input_ids") == 0) st = whole_numbers(z, dtype, s->n, s->ids, 0, 0, &state[v]);
    if (strcmp(name, "attention_mask") == 0) st = whole_numbers(z, dtype, s->n, NULL, 1, 0, &state[v]);
    if (strcmp(name, "position_ids") == 0) st = whole_numbers(z, dtype, s->n, NULL, 0, 1, &state[v]);
    if (strcmp(name, "token_type_ids") == 0) st = whole_numbers(z, dtype, s->n, NULL, 0, 0, &state[v]);
  } else if (val->pub.rank >= 3 && val->pub.rank <= TN_MAX_RANK && is_past(name)) {
    st = empty_past(z, w->g, val, &state[v]);
  }
  if (st != TN_OK || state[v]) return st;
  return tni_fail(z->err, TN_E_UNSUPPORTED, name,
                  "input '%s' is neither input_ids, attention_mask, position_ids, token_type_ids nor an empty past",
                  name);
}

static tn_status give_inputs(tni_qz_walker *w) {
  const tni_graph *g = w->g;
  bool tokens = false;
  tn_status st = TN_OK;
  for (uint32_t s = 0; st == TN_OK && s < w->n_seqs; s++)
    for (uint32_t i = 0; st == TN_OK && i < g->n_inputs; i++) {
      st = give_input(w, w->state + (size_t)s * g->n_values, &w->z->seqs[s], g->inputs[i]);
      tokens = tokens || strcmp(tni_graph_value(g, g->inputs[i])->pub.name, "input_ids") == 0;
    }
  return st != TN_OK || tokens
             ? st
             : tni_fail(w->z->err, TN_E_UNSUPPORTED, w->z->path, "'%s' has no input 'input_ids'", w->z->path);
}

/* --- stops --- */

tn_status tni_qz_stored(tni_qz_walker *w, const tni_qz_product *p, const float *q, float **out) {
  const tni_tensor *t = tni_graph_value(w->g, p->weight)->tensor;
  float *f = malloc((size_t)(p->N * p->K) * sizeof *f);
  if (!f) return tni_fail_memory(w->z->err, p->name);
  for (int64_t n = 0; n < p->N; n++)
    for (int64_t k = 0; k < p->K; k++) f[p->kn ? k * p->N + n : n * p->K + k] = q[n * p->K + k];
  if (t->dtype == TN_DT_F16) {
    uint16_t *half = (uint16_t *)(void *)f;
    for (int64_t i = 0; i < p->N * p->K; i++) {
      float v;
      memcpy(&v, f + i, sizeof v);
      half[i] = tni_f32_to_f16(v);
    }
  }
  *out = f;
  return TN_OK;
}

void *tni_qz_swap(tni_qz_walker *w, const tni_qz_product *p, void *data) {
  tni_tensor *t = tni_graph_value(w->g, p->weight)->tensor;
  void *before = t->data;
  t->data = data;
  for (tn_id v = 0; v < w->g->n_values; v++) /* a Transpose of it */
    if (w->once[v] && w->fixed[v]) drop(&w->once[v]);
  return before;
}

tn_status tni_qz_run_nodes(tni_qz_walker *w, tni_qz_kept **state, tn_id from, tn_id to) {
  for (tn_id i = from; i < to; i++) {
    const tni_node *n = tni_graph_node(w->g, i);
    if (n->dead || !n->pub.n_out || n->pub.out[0] == TN_NONE || w->fixed[n->pub.out[0]]) continue;
    const tn_status st = step(w, state, i);
    if (st) return st;
  }
  return TN_OK;
}

tn_status tni_qz_run_segment(tni_qz_walker *w, tn_id from, tn_id to) {
  tn_status st = TN_OK;
  for (uint32_t s = 0; st == TN_OK && s < w->n_seqs; s++) {
    tni_qz_kept **state = w->state + (size_t)s * w->g->n_values;
    st = tni_qz_run_nodes(w, state, from, to);
    if (st == TN_OK) st = tni_qz_put_away(w, state);
  }
  return st;
}

/* A constant is read as long as what is made of it: a Transpose, say. */
static void read_through(tni_qz_walker *w) {
  for (tn_id i = w->g->n_nodes; i-- > 0;) {
    const tni_node *n = tni_graph_node(w->g, i);
    for (uint32_t k = 0; k < n->pub.n_out && !n->dead; k++) {
      const tn_id o = n->pub.out[k];
      if (o == TN_NONE || !w->fixed[o] || w->last[o] == TN_NONE) continue;
      for (uint32_t j = 0; j < n->pub.n_in; j++)
        if (n->pub.in[j] != TN_NONE && w->last[n->pub.in[j]] < w->last[o]) w->last[n->pub.in[j]] = w->last[o];
    }
  }
}

static void prepare(tni_qz_walker *w) {
  for (tn_id v = 0; v < w->g->n_values; v++) {
    w->last[v] = TN_NONE;
    w->fixed[v] = false;
  }
  for (tn_id i = 0; i < w->g->n_nodes; i++) {
    const tni_node *n = tni_graph_node(w->g, i);
    bool fixed = n->pub.n_in > 0;
    for (uint32_t k = 0; k < n->pub.n_in && !n->dead; k++) {
      const tn_id v = n->pub.in[k];
      if (v == TN_NONE) continue;
      w->last[v] = i;
      fixed = fixed && (tni_graph_value(w->g, v)->pub.kind == TN_VALUE_CONST || w->fixed[v]);
    }
    for (uint32_t k = 0; k < n->pub.n_out; k++)
      if (n->pub.out[k] != TN_NONE) w->fixed[n->pub.out[k]] = fixed;
  }
  read_through(w);
}

tn_status tni_qz_walk_begin(tni_qz_walker *w, tni_qz *z, tni_graph *g, uint32_t n_seqs) {
  const size_t n = (size_t)g->n_values + 1;
  *w = (tni_qz_walker){.z = z,
                       .g = g,
                       .n_seqs = n_seqs,
                       .last = calloc(n, sizeof *w->last),
                       .fixed = calloc(n, sizeof *w->fixed),
                       .once = calloc(n, sizeof *w->once),
                       .state = calloc(n * n_seqs, sizeof *w->state),
                       .weights = calloc(n, sizeof *w->weights)};
  tn_status st = w->last && w->fixed && w->once && w->state && w->weights ? TN_OK : tni_fail_memory(z->err, z->path);
  if (st == TN_OK) prepare(w);
  return st == TN_OK ? give_inputs(w) : st;
}

void tni_qz_walk_end(tni_qz_walker *w) {
  const size_t n = (size_t)w->g->n_values + 1;
  for (size_t i = 0; w->state && i < n * w->n_seqs; i++) tni_qz_let_go(w->z, &w->state[i]);
  for (size_t i = 0; w->once && i < n; i++) drop(&w->once[i]);
  for (size_t i = 0; w->weights && i < n; i++) free(w->weights[i]);
  free(w->last);
  free(w->fixed);
  free(w->once);
  free(w->state);
  free(w->weights);
}
