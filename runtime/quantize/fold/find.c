/* SPDX-License-Identifier: Apache-2.0
 *
 * Where channels may change: from the input of a product back to what makes it, and from the product that attention
 * reads forth to the products behind it.
 */
#include "runtime/quantize/fold/fold.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/calib/calib.h"

static bool is_float(uint32_t dtype) { return dtype == TN_DT_F32 || dtype == TN_DT_F16; }

/* The last dim of v, or 0. */
static int64_t last_dim(const tni_graph *g, tn_id v) {
  const tn_value *p = &tni_graph_value(g, v)->pub;
  int64_t n = 0;
  if (p->rank == TNI_RANK_UNKNOWN || !p->rank || !tni_ex_is_const(g->exprs, p->dims[p->rank - 1], &n)) return 0;
  return n;
}

/* A vector of n floats that one node alone reads. */
static bool is_own_vector(const tni_graph *g, tn_id v, int64_t n) {
  const tni_value *c = v == TN_NONE ? NULL : tni_graph_value(g, v);
  if (!c || c->pub.kind != TN_VALUE_CONST || !c->tensor || !is_float(c->tensor->dtype) || c->pub.n_uses != 1)
    return false;
  return c->tensor->rank == 1 && c->tensor->dims[0] == n;
}

/* The product at a node, whose matrix nobody else reads and which has no bias of its own. */
static bool own_product(const tni_graph *g, tn_id node, tni_product *p) {
  const tni_node *n = node == TN_NONE ? NULL : tni_graph_node(g, node);
  if (!n || !tni_calib_product(g, node, p) || p->n_weights != 1) return false;
  if (n->pub.op == TN_OP_GEMM && n->pub.n_in > 2) return false;
  const tni_value *w = tni_graph_value(g, p->weights[0]);
  if (!w->tensor || w->tensor->quantized || !is_float(w->tensor->dtype) || w->pub.n_uses != 1) return false;
  return n->pub.in[1] == p->weights[0] || tni_graph_value(g, n->pub.in[1])->pub.n_uses == 1;
}

/* --- what reads the channels --- */

/* Every reader of v is a product, which becomes one of the place, or asks for its shape. */
static bool add_readers(const tni_graph *g, tn_id v, tni_fold_place *p) {
  const tni_value *x = tni_graph_value(g, v);
  if (x->is_output) return false;
  for (uint32_t i = 0; i < x->pub.n_uses; i++) {
    const tn_id node = x->pub.uses[i];
    tni_product t;
    if (tni_graph_node(g, node)->pub.op == TN_OP_SHAPE) continue;
    if (p->n_readers == TNI_FOLD_READERS || !own_product(g, node, &t) || t.x != v) return false;
    if (p->n_readers && t.K != p->K) return false;
    if (!p->n_readers || node < p->node) p->node = node;
    p->K = t.K;
    p->x = v;
    p->reader[p->n_readers++] = (tni_fold_side){t.weights[0], t.kn[0] ? 0 : 1};
  }
  return true;
}

/* --- what makes them --- */

static void add_maker(tni_fold_place *p, tn_id value, uint32_t axis) {
  p->maker[p->n_makers++] = (tni_fold_side){value, axis};
}

/* v is what a product gives, with a bias or without, and n channels wide: its matrix and bias make it. */
static bool made_by_product(const tni_graph *g, tn_id v, int64_t n, tni_fold_place *p) {
  const tni_value *y = tni_graph_value(g, v);
  tni_product t;
  p->n_makers = 0;
  if (y->pub.producer == TN_NONE || y->is_output) return false;
  const tni_node *node = tni_graph_node(g, y->pub.producer);
  if (node->pub.op == TN_OP_ADD) {
    const int bias = is_own_vector(g, node->pub.in[1], n);
    if (!bias && !is_own_vector(g, node->pub.in[0], n)) return false;
    const tni_value *sum = tni_graph_value(g, node->pub.in[!bias]);
    if (sum->pub.n_uses != 1 || sum->is_output || sum->pub.producer == TN_NONE) return false;
    add_maker(p, node->pub.in[bias], 0);
    y = sum;
  }
  if (!own_product(g, y->pub.producer, &t)) return false;
  const tni_tensor *w = tni_graph_value(g, t.weights[0])->tensor;
  if (w->dims[t.kn[0] ? 1 : 0] != n) return false;
  add_maker(p, t.weights[0], t.kn[0] ? 1 : 0);
  return true;
}

static bool made_by_norm(const tni_graph *g, const tni_node *n, tni_fold_place *p) {
  const bool norm = n->pub.op == TN_OP_RMS_NORMALIZATION || n->pub.op == TN_OP_LAYER_NORMALIZATION;
  p->n_makers = 0;
  p->kind = TNI_FOLD_GAIN;
  if (n->pub.op == TN_OP_MUL) { /* a norm that is written out */
    const int gain = is_own_vector(g, n->pub.in[1], p->K);
    if (!gain && !is_own_vector(g, n->pub.in[0], p->K)) return false;
    add_maker(p, n->pub.in[gain], 0);
    return true;
  }
  if (!norm || !is_own_vector(g, n->pub.in[1], p->K)) return false;
  add_maker(p, n->pub.in[1], 0);
  if (n->pub.n_in < 3 || n->pub.in[2] == TN_NONE) return true;
  if (!is_own_vector(g, n->pub.in[2], p->K)) return false;
  add_maker(p, n->pub.in[2], 0);
  return true;
}

static bool made_by_factor(const tni_graph *g, const tni_node *n, tni_fold_place *p) {
  p->kind = TNI_FOLD_FACTOR;
  if (n->pub.op != TN_OP_MUL) return false;
  for (int i = 1; i >= 0; i--) {
    const tn_id v = n->pub.in[i];
    if (tni_graph_value(g, v)->pub.n_uses == 1 && made_by_product(g, v, p->K, p)) return true;
  }
  return false;
}

/* --- values of attention --- */

typedef struct trace {
  const tni_graph *g;
  tni_fold_place *p;
  tn_id *seen; /* values that carry the heads */
  uint32_t n_seen;
  bool summed; /* attention was met */
} trace;

static bool carries(const trace *t, tn_id v) {
  for (uint32_t i = 0; i < t->n_seen; i++)
    if (t->seen[i] == v) return true;
  return false;
}

static bool is_past(const trace *t, tn_id v) { return tni_graph_value(t->g, v)->pub.kind == TN_VALUE_INPUT; }

/* Runs of p->head channels stay together from v to out, in their order; the whole of v's last dim while nothing said
 * how wide a head is. */
static bool goes_on(trace *t, tn_id v, tn_id out) {
  const int64_t n = last_dim(t->g, out);
  if (!n || (t->p->head ? n % t->p->head != 0 : n != last_dim(t->g, v))) return false;
  if (!carries(t, out)) t->seen[t->n_seen++] = out;
  return true;
}

/* The first split of the last dim says how wide a head is. */
static bool reshapes(trace *t, tn_id v, tn_id out) {
  const int64_t n = last_dim(t->g, out), from = last_dim(t->g, v);
  if (!t->p->head && n > 0 && n < from && from % n == 0) t->p->head = n;
  return goes_on(t, v, out);
}

/* Past rows before those of this run, on another axis than the last. The whole may be what the model gives back. */
static bool joins_past(trace *t, const tni_node *n, tn_id v) {
  const uint32_t rank = tni_graph_value(t->g, v)->pub.rank;
  const int64_t axis = tni_attr_i(&n->pub, "axis", 0);
  if (axis == -1 || axis == (int64_t)rank - 1) return false;
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (n->pub.in[i] != v && !is_past(t, n->pub.in[i])) return false;
  return goes_on(t, v, n->pub.out[0]);
}

static bool attends(trace *t, const tni_node *n, tn_id v) {
  const int64_t heads = tni_attr_i(&n->pub, "kv_num_heads", 0), width = last_dim(t->g, v);
  const bool flat = tni_graph_value(t->g, v)->pub.rank == 3;
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (i != 2 && n->pub.in[i] == v) return false;
  if (n->pub.n_in > 5 && n->pub.in[5] != TN_NONE && !is_past(t, n->pub.in[5])) return false;
  if (flat && (heads < 1 || width % heads)) return false;
  if (!t->p->head) t->p->head = flat ? width / heads : width;
  t->summed = true;
  for (uint32_t i = 0; i < n->pub.n_out && i < 3; i += 2)
    if (n->pub.out[i] != TN_NONE && !goes_on(t, v, n->pub.out[i])) return false;
  return true;
}

/* A node between v and the products, which must not mix channels of a head nor tell heads apart. */
static bool passes(trace *t, tn_id node, tn_id v) {
  const tni_node *n = tni_graph_node(t->g, node);
  const uint32_t rank = tni_graph_value(t->g, v)->pub.rank;
  const int64_t *perm;
  switch (n->pub.op) {
    case TN_OP_SHAPE:
      return true;
    case TN_OP_RESHAPE:
      return n->pub.in[0] == v && reshapes(t, v, n->pub.out[0]);
    case TN_OP_IDENTITY:
    case TN_OP_CAST:
      return is_float(tni_graph_value(t->g, n->pub.out[0])->pub.dtype) && goes_on(t, v, n->pub.out[0]);
    case TN_OP_UNSQUEEZE:
    case TN_OP_SQUEEZE:
    case TN_OP_EXPAND:
      return n->pub.in[0] == v && last_dim(t->g, v) == last_dim(t->g, n->pub.out[0]) && goes_on(t, v, n->pub.out[0]);
    case TN_OP_TRANSPOSE:
      return tni_attr_ints(&n->pub, "perm", &perm) == rank && perm[rank - 1] == (int64_t)rank - 1 &&
             goes_on(t, v, n->pub.out[0]);
    case TN_OP_CONCAT:
      return joins_past(t, n, v);
    case TN_OP_MATMUL:
      t->summed = true;
      return n->pub.in[1] == v && n->pub.in[0] != v && !carries(t, n->pub.in[0]) && goes_on(t, v, n->pub.out[0]);
    case TN_OP_ATTENTION:
    case TN_OP_TENON_ATTENTION:
      return attends(t, n, v);
    default:
      return false;
  }
}

/* Past rows and those of this run: a session alone reads what a model gives of it. */
static bool is_cache(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_graph_value(g, v);
  const tni_node *made = tni_graph_node(g, x->pub.producer);
  if (made->pub.op == TN_OP_IDENTITY) return is_cache(g, made->pub.in[0]);
  return made->pub.op == TN_OP_CONCAT || (made->pub.op != TN_OP_MATMUL && x->out_index == 2);
}

/* What reads v: products that belong to the place, or nodes that carry the heads on. */
static bool follow(trace *t, tn_id v) {
  const tni_value *x = tni_graph_value(t->g, v);
  if (x->is_output && !is_cache(t->g, v)) return false;
  for (uint32_t i = 0; i < x->pub.n_uses; i++) {
    tni_product u;
    const bool reads = tni_calib_product(t->g, x->pub.uses[i], &u) && u.x == v;
    if (reads && (t->p->n_readers || !t->p->head || !t->summed)) return false; /* one set of readers */
    if (!reads && !passes(t, x->pub.uses[i], v)) return false;
    if (!reads) continue;
    return add_readers(t->g, v, t->p) && t->p->K % t->p->head == 0;
  }
  return true;
}

/* From what the product at a node gives. */
static bool made_by_values(const tni_graph *g, tn_id v, tn_id *seen, tni_fold_place *p) {
  const int64_t n = last_dim(g, v);
  trace t = {.g = g, .p = p, .seen = seen};
  *p = (tni_fold_place){.kind = TNI_FOLD_VALUES, .channels = n};
  if (!n || !made_by_product(g, v, n, p)) return false;
  seen[t.n_seen++] = v;
  for (uint32_t i = 0; i < t.n_seen; i++)
    if (!follow(&t, seen[i])) return false;
  return p->n_readers && t.summed;
}

/* --- all --- */

static bool add_place(tni_fold *f, const tni_fold_place *p) {
  tni_fold_place *grown = realloc(f->places, (f->n_places + (size_t)1) * sizeof *grown);
  if (!grown) return false;
  f->places = grown;
  grown[f->n_places++] = *p;
  return true;
}

/* A place whose readers begin with this node's x. */
static bool find_before(const tni_graph *g, tn_id x, tni_fold_place *p) {
  const tn_id from = tni_graph_value(g, x)->pub.producer;
  *p = (tni_fold_place){0};
  if (from == TN_NONE || !add_readers(g, x, p) || !p->n_readers) return false;
  p->head = p->channels = p->K;
  const tni_node *n = tni_graph_node(g, from);
  return made_by_norm(g, n, p) || made_by_factor(g, n, p);
}

static bool is_first_reader(const tni_graph *g, tn_id x, tn_id node) {
  const tni_value *v = tni_graph_value(g, x);
  tni_product t;
  for (uint32_t i = 0; i < v->pub.n_uses; i++)
    if (v->pub.uses[i] < node && tni_calib_product(g, v->pub.uses[i], &t)) return false;
  return true;
}

tn_status tni_fold_find(const tni_graph *g, tni_fold *out, tn_error *err) {
  *out = (tni_fold){.g = g, .arena = tni_arena_create()};
  tn_id *seen = malloc(((size_t)g->n_values + 1) * sizeof *seen);
  bool ok = out->arena && seen;
  for (tn_id i = 0; ok && i < g->n_nodes; i++) {
    tni_product t;
    tni_fold_place p;
    if (!tni_calib_product(g, i, &t)) continue;
    if (is_first_reader(g, t.x, i) && find_before(g, t.x, &p)) ok = add_place(out, &p);
    const tni_value *y = tni_graph_value(g, tni_graph_node(g, i)->pub.out[0]);
    tn_id v = tni_graph_node(g, i)->pub.out[0];
    if (y->pub.n_uses == 1 && tni_graph_node(g, y->pub.uses[0])->pub.op == TN_OP_ADD)
      v = tni_graph_node(g, y->pub.uses[0])->pub.out[0]; /* a bias */
    if (ok && made_by_values(g, v, seen, &p)) ok = add_place(out, &p);
  }
  free(seen);
  return ok ? TN_OK : tni_fail_memory(err, g->name);
}

void tni_fold_finish(tni_fold *f) {
  free(f->places);
  free(f->edits);
  if (f->arena) tni_arena_destroy(f->arena);
  *f = (tni_fold){0};
}
