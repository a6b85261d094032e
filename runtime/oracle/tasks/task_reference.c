/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oracle/tasks/task_reference.h"
#include "runtime/graph/quantized.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/map.h"
#include "runtime/ops/kernel/kernel.h"

struct tni_refcache {
  pthread_mutex_t lock;
  tni_map *index; /* (need, part) -> position in w */
  float **w;
  uint32_t n, cap;
};

tn_status tni_refcache_create(tn_model *m, tn_error *err) {
  struct tni_refcache *c = calloc(1, sizeof *c);
  if (!c || !(c->index = tni_map_create())) {
    free(c);
    return tni_fail_memory(err, m->path);
  }
  pthread_mutex_init(&c->lock, NULL);
  m->ref = c;
  return TN_OK;
}

void tni_refcache_destroy(tn_model *m) {
  struct tni_refcache *c = m->ref;
  if (!c) return;
  for (uint32_t i = 0; i < c->n; i++) free(c->w[i]);
  free(c->w);
  tni_map_destroy(c->index);
  pthread_mutex_destroy(&c->lock);
  free(c);
  m->ref = NULL;
}

/* --- unpacked weights ------------------------------------------------------------------------------------------- */

static tn_status unpack_part(const tn_model *m, const tni_program *p, const tni_need *need, uint32_t part, float **out,
                             tn_error *err) {
  const tn_blob *blob = tni_pack_store_blob(m->packed[p->cluster->device].store, need->blob);
  int64_t n0 = 0;
  for (uint32_t i = 0; i < part; i++) n0 += need->parts[i]->N;
  int64_t N = need->parts[part]->N, K = need->parts[part]->K;
  float *w = malloc((size_t)(N * K + 1) * sizeof *w);
  if (!w) return tni_fail_memory(err, p->dev->name);
  const int64_t box[4] = {n0, n0 + N, 0, K};
  tn_status st = blob->format->unpack(blob, box, w);
  if (st != TN_OK) {
    free(w);
    return tni_fail(err, st, p->dev->name, "format '%s' cannot unpack its own blob", blob->format->name);
  }
  *out = w;
  return TN_OK;
}

static tn_status keep(struct tni_refcache *c, const void *key, size_t n, float *w) {
  if (c->n == c->cap) {
    uint32_t cap = c->cap ? c->cap * 2 : 64;
    float **grown = realloc(c->w, cap * sizeof *grown);
    if (!grown) return TN_E_NO_MEMORY;
    c->w = grown;
    c->cap = cap;
  }
  if (!tni_map_put(c->index, key, n, c->n)) return TN_E_NO_MEMORY;
  c->w[c->n++] = w;
  return TN_OK;
}

static tn_status unpacked(const tn_model *m, const tni_program *p, const tni_need *need, uint32_t part,
                          const float **out, tn_error *err) {
  struct tni_refcache *c = m->ref;
  struct {
    const void *need;
    uint64_t part;
  } key = {need, part};
  uint64_t at;
  pthread_mutex_lock(&c->lock);
  tn_status st = TN_OK;
  if (tni_map_get(c->index, &key, sizeof key, &at)) {
    *out = c->w[at];
  } else {
    float *w = NULL;
    st = unpack_part(m, p, need, part, &w, err);
    if (st == TN_OK && keep(c, &key, sizeof key, w) != TN_OK) {
      free(w);
      st = tni_fail_memory(err, p->dev->name);
    }
    *out = w;
  }
  pthread_mutex_unlock(&c->lock);
  return st;
}

/* --- one node --------------------------------------------------------------------------------------------------- */

static const tni_tensor *find_done(const tni_evaluation *ev, tn_id v) {
  for (uint32_t i = 0; i < ev->n_done; i++)
    if (ev->done[i].value == v) return &ev->done[i].t;
  return NULL;
}

uint32_t tni_ref_region(const tni_sexec *x, uint32_t task, tn_id v) {
  const tni_etask *e = &x->exec->tasks[task];
  const tn_program_info *info = x->exec->programs[e->program].info;
  if (v != TN_NONE && x->exec->view.values[v]->kind == TN_VALUE_STATE) v = tni_state_root(&x->exec->view, v);
  if (v == TN_NONE || x->exec->region_of[v] != TN_NONE) return v == TN_NONE ? TN_NONE : x->exec->region_of[v];
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    const tn_slot *slot = info->slots[e->info->uses[u].slot];
    if (slot->kind == TN_SLOT_TEMP && slot->value == v) return e->regions[u];
  }
  return TN_NONE;
}

/* dtype, dims and bytes of v in this run. */
tn_status tni_ref_header(tni_evaluation *ev, tn_id v, tni_tensor *t) {
  const tni_value *val = tni_graph_value(ev->s->model->graph, v);
  int64_t count;
  *t = (tni_tensor){.dtype = val->pub.dtype, .rank = val->pub.rank};
  for (uint32_t i = 0; i < val->pub.rank; i++) {
    tn_status st = tni_ex_eval(ev->s->model->graph->exprs, val->pub.dims[i], ev->x->dims, ev->x->exec->view.n_symbols,
                               &t->dims[i]);
    if (st != TN_OK) return tni_fail(ev->err, st, val->pub.name, "'%s' has unknown dims", val->pub.name);
  }
  if (tni_dims_count(t->dims, t->rank, &count) != TN_OK || tni_dtype_bytes(t->dtype, count, &t->bytes) != TN_OK)
    return tni_fail(ev->err, TN_E_LIMIT, val->pub.name, "'%s' is too large", val->pub.name);
  return TN_OK;
}

tn_status tni_ref_operand(tni_evaluation *ev, tn_id v, tni_tensor *out) {
  const tni_value *val = tni_graph_value(ev->s->model->graph, v);
  const tni_tensor *done = find_done(ev, v);
  const uint32_t r = tni_ref_region(ev->x, ev->task, v);
  if (val->pub.kind == TN_VALUE_CONST) {
    *out = *val->tensor;
    out->rows = NULL; /* only the host's own Gather reads these */
    if (tni_quantized_dense(out, ev->arena) != TN_OK) return tni_fail_memory(ev->err, val->pub.name);
  } else if (done) {
    *out = *done;
  } else if (r != TN_NONE && ev->x->exec->regions[r].kind == TNI_R_STATE) {
    tn_status st = tni_ref_header(ev, v, out);
    return st == TN_OK ? tni_ref_state_load(ev, &ev->x->regions[r], out) : st;
  } else if (r != TN_NONE && ev->x->exec->regions[r].value == TN_NONE) {
    tn_status st = tni_ref_header(ev, v, out);
    out->data = ev->x->regions[r].ptr;
    if (st == TN_OK && out->bytes > ev->x->regions[r].bytes)
      return tni_fail(ev->err, TN_E_INTERNAL, val->pub.name, "the slot of '%s' is too small for it", val->pub.name);
    return st;
  } else if (r != TN_NONE) {
    const tni_sregion *q = &ev->x->regions[r];
    *out = (tni_tensor){.dtype = q->dtype, .rank = q->rank, .data = q->ptr, .bytes = q->bytes};
    memcpy(out->dims, q->dims, sizeof out->dims);
  } else {
    return tni_fail(ev->err, TN_E_INTERNAL, val->pub.name, "the reference cannot see '%s'", val->pub.name);
  }
  return TN_OK;
}

tn_status tni_ref_output(tni_evaluation *ev, tn_id v, tni_evaluated *out) {
  *out = (tni_evaluated){.value = v};
  tn_status st = tni_ref_header(ev, v, &out->t);
  if (st != TN_OK) return st;
  out->t.data = tni_arena_alloc(ev->arena, out->t.bytes, 64);
  return out->t.data ? TN_OK : tni_fail_memory(ev->err, tni_graph_value(ev->s->model->graph, v)->pub.name);
}

/* The constant behind a product's second operand, through a Transpose of it. */
static tn_id weight_of(const tn_graph *g, const tn_node *n) {
  if ((n->op != TN_OP_MATMUL && n->op != TN_OP_GEMM) || n->n_in < 2 || n->in[1] == TN_NONE) return TN_NONE;
  const tn_value *b = g->values[n->in[1]];
  if (b->kind == TN_VALUE_CONST) return b->rank == 2 ? n->in[1] : TN_NONE;
  if (b->producer == TN_NONE || b->producer >= g->n_nodes || g->nodes[b->producer]->op != TN_OP_TRANSPOSE)
    return TN_NONE;
  tn_id src = g->nodes[b->producer]->in[0];
  return g->values[src]->kind == TN_VALUE_CONST && g->values[src]->rank == 2 ? src : TN_NONE;
}

static const tni_need *find_need(const tni_program *p, tn_id weight, uint32_t *part) {
  for (uint32_t i = 0; weight != TN_NONE && i < p->info->n_needs; i++) {
    const tn_need *n = p->needs[i].need;
    for (uint32_t k = 0; n->format && k < n->n_values; k++)
      if (n->values[k] == weight) {
        *part = k;
        return &p->needs[i];
      }
  }
  return NULL;
}

static const tn_numerics *numerics_of(const tn_need *n) {
  const tn_format *f = n->format;
  if (TN_HAS(f, tn_format, numerics_of) && f->numerics_of) return f->numerics_of(f, n->params, n->n_params);
  return f->numerics;
}

/* A static scale that stands in the params. */
static const tn_numerics *with_scale(const tni_evaluation *ev, const tn_numerics *num, const tn_need *n) {
  if (!TN_HAS(num, tn_numerics, act_scale) || num->act_scale != 0 || n->n_params == 0) return num;
  tn_numerics *own = TNI_NEW(ev->arena, tn_numerics);
  if (!own) return num; /* without a scale the reference refuses it */
  *own = tni_numerics_of(num);
  const uint32_t bits = (uint32_t)n->params[0];
  memcpy(&own->act_scale, &bits, sizeof bits);
  return own;
}

static const tn_numerics *declared_numerics(const tni_evaluation *ev, const tni_program *p, const tni_need *need) {
  const tn_numerics *num = numerics_of(need->need);
  if (!num)
    tni_fail(ev->err, TN_E_INTERNAL, p->dev->name, "format '%s' declares no numerics", need->need->format->name);
  return num && num->act_scheme == TN_ACT_STATIC ? with_scale(ev, num, need->need) : num;
}

/* A constant of the graph as floats [N,K]. */
static tn_status plain_weight(tni_evaluation *ev, tn_id v, bool kn, const float **out, int64_t *N, int64_t *K) {
  tni_tensor t;
  tn_status st = tni_ref_operand(ev, v, &t);
  if (st != TN_OK) return st;
  *N = t.dims[kn ? 1 : 0];
  *K = t.dims[kn ? 0 : 1];
  float *w = tni_arena_alloc(ev->arena, (size_t)(*N * *K + 1) * sizeof(float), 64);
  if (!w) return tni_fail_memory(ev->err, tni_graph_value(ev->s->model->graph, v)->pub.name);
  *out = w;
  if (!kn) {
    tni_tensor_to_f32(&t, 0, *N * *K, w);
    return TN_OK;
  }
  for (int64_t k = 0; k < *K; k++)
    for (int64_t n = 0; n < *N; n++) tni_tensor_to_f32(&t, k * *N + n, 1, &w[n * *K + k]);
  return TN_OK;
}

tn_status tni_ref_weight(tni_evaluation *ev, tn_id v, bool kn, const float **w, int64_t *N, int64_t *K,
                         const tn_numerics **num) {
  static const tn_numerics f32 = {.h = TN_HDR(tn_numerics),
                                  .act_dtype = TN_DT_F32,
                                  .act_scheme = TN_ACT_NONE,
                                  .acc_inner = TN_DT_F32,
                                  .acc_outer = TN_DT_F32};
  const tni_program *p = &ev->x->exec->programs[ev->x->exec->tasks[ev->task].program];
  uint32_t part = 0;
  const tni_need *need = find_need(p, v, &part);
  *num = &f32;
  if (!need) return plain_weight(ev, v, kn, w, N, K);
  if (!(*num = declared_numerics(ev, p, need))) return TN_E_INTERNAL;
  *N = need->parts[part]->N;
  *K = need->parts[part]->K;
  return unpacked(ev->s->model, p, need, part, w, ev->err);
}

/* y = alpha * q(x) W^T + beta * C, with its bound per element. */
static tn_status formatted_product(tni_evaluation *ev, const tn_node *n, const tni_program *p, const tni_need *need,
                                   uint32_t part, tni_evaluated *out) {
  tni_tensor a, c = {0};
  const float *w = NULL;
  const tn_numerics *num = declared_numerics(ev, p, need);
  tn_status st = num ? tni_ref_operand(ev, n->in[0], &a) : TN_E_INTERNAL;
  if (st == TN_OK) st = tni_ref_output(ev, n->out[0], out);
  if (st == TN_OK) st = unpacked(ev->s->model, p, need, part, &w, ev->err);
  bool has_c = n->op == TN_OP_GEMM && n->n_in > 2 && n->in[2] != TN_NONE;
  if (st == TN_OK && has_c) st = tni_ref_operand(ev, n->in[2], &c);
  if (st != TN_OK) return st;
  if (n->op == TN_OP_GEMM && tni_attr_i(n, "transA", 0))
    return tni_fail(ev->err, TN_E_UNSUPPORTED, n->name, "the reference does not transpose A");
  int64_t N = need->parts[part]->N, K = need->parts[part]->K, total = 0;
  (void)!tni_dims_count(a.dims, a.rank, &total);
  int64_t M = K ? total / K : 0;
  float *x = tni_arena_alloc(ev->arena, (size_t)(M * K + 1) * sizeof(float), 64), *y = out->t.data;
  out->bound = tni_arena_alloc(ev->arena, (size_t)(M * N + 1) * sizeof(float), 64);
  if (!x || !out->bound) return tni_fail_memory(ev->err, n->name);
  tni_tensor_to_f32(&a, 0, M * K, x);
  st = tni_reference_product(num, x, M, K, w, N, y, out->bound, &ev->s->run.run);
  if (st != TN_OK) return st;
  double alpha = 1, beta = 1;
  if (n->op == TN_OP_GEMM) {
    alpha = tni_attr_f(n, "alpha", 1);
    beta = tni_attr_f(n, "beta", 1);
  }
  const bool exact = tni_reference_bound(num, K) == 0 && n->op == TN_OP_MATMUL; /* wide integers, one conversion */
  int64_t c_cols = has_c && c.rank ? c.dims[c.rank - 1] : 1, c_rows = has_c && c.rank > 1 ? c.dims[c.rank - 2] : 1;
  for (int64_t i = 0; i < M * N; i++) {
    double add = 0;
    if (has_c) {
      float v;
      tni_tensor_to_f32(&c, (c_rows > 1 ? i / N : 0) * c_cols + (c_cols > 1 ? i % N : 0), 1, &v);
      add = beta * v;
    }
    double r = alpha * y[i] + add;
    out->bound[i] = exact ? 0 : (float)(fabs(alpha) * out->bound[i] + 2 * 0x1p-24 * (fabs(r) + fabs(add)));
    y[i] = (float)r;
  }
  return TN_OK;
}

static tn_status host_node(tni_evaluation *ev, tn_id node, bool absolute, tni_evaluated *outs) {
  const tni_node *n = tni_graph_node(ev->s->model->graph, node);
  enum { MAX_IO = 64 };
  tni_tensor in[MAX_IO], out[MAX_IO];
  const tni_tensor *pin[MAX_IO];
  if (n->pub.n_in > MAX_IO || n->pub.n_out > MAX_IO)
    return tni_fail(ev->err, TN_E_UNSUPPORTED, n->pub.name, "too many operands for the reference");
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    pin[i] = NULL;
    if (n->pub.in[i] == TN_NONE) continue;
    tn_status st = tni_ref_operand(ev, n->pub.in[i], &in[i]);
    if (st != TN_OK) return st;
    pin[i] = &in[i];
    if (!absolute) continue;
    int64_t count = 0;
    (void)!tni_dims_count(in[i].dims, in[i].rank, &count);
    float *p = tni_arena_alloc(ev->arena, (size_t)(count + 1) * sizeof(float), 64);
    if (!p) return tni_fail_memory(ev->err, n->pub.name);
    tni_tensor_to_f32(&in[i], 0, count, p);
    for (int64_t k = 0; k < count; k++) p[k] = fabsf(p[k]);
    in[i].data = p;
  }
  tn_status st = tni_host_eval(&ev->s->run.run, n, pin, n->pub.n_in, out, n->pub.n_out, ev->arena, ev->err);
  for (uint32_t i = 0; st == TN_OK && i < n->pub.n_out; i++)
    outs[i] = (tni_evaluated){.value = n->pub.out[i], .t = out[i]};
  return st;
}

/* A product of two activations: f32 in some order; bound from K and the sum of absolute terms. */
static tn_status float_product(tni_evaluation *ev, tn_id node, tni_evaluated *out) {
  tn_status st = host_node(ev, node, false, out);
  if (st != TN_OK || out->t.dtype != TN_DT_F32) return st;
  tni_evaluated abs;
  tni_tensor a;
  st = host_node(ev, node, true, &abs);
  if (st == TN_OK) st = tni_ref_operand(ev, ev->x->exec->view.nodes[node]->in[0], &a);
  if (st != TN_OK) return st;
  int64_t K = a.rank ? a.dims[a.rank - 1] : 1, count = 0;
  (void)!tni_dims_count(out->t.dims, out->t.rank, &count);
  out->bound = abs.t.data;
  for (int64_t i = 0; i < count; i++) out->bound[i] *= (float)(2 * (double)(K + 2) * 0x1p-24);
  return TN_OK;
}

static tn_status evaluate_node(tni_evaluation *ev, tn_id node) {
  const tni_program *p = &ev->x->exec->programs[ev->x->exec->tasks[ev->task].program];
  const tn_node *n = ev->x->exec->view.nodes[node];
  uint32_t part = 0;
  const tni_need *need = find_need(p, weight_of(&ev->x->exec->view, n), &part);
  tni_evaluated *out = &ev->done[ev->n_done];
  tn_status st;
  if (tni_ref_is_shaped(ev, node))
    st = tni_ref_shaped(ev, node, out);
  else if (need)
    st = formatted_product(ev, n, p, need, part, out);
  else if (n->op == TN_OP_FUSED_MATMUL && ev->x->exec->view.values[n->in[0]]->dtype == TN_DT_F32)
    st = tni_ref_fused(ev, node, out);
  else if (n->op == TN_OP_MATMUL)
    st = float_product(ev, node, out);
  else
    st = host_node(ev, node, false, out);
  ev->n_done += n->n_out;
  return st;
}

/* A Transpose whose only purpose is to turn a packed constant is not computed. */
static bool only_turns_weight(const tni_evaluation *ev, tn_id node) {
  const tn_graph *g = &ev->x->exec->view;
  const tn_node *n = g->nodes[node];
  return n->op == TN_OP_TRANSPOSE && g->values[n->in[0]]->kind == TN_VALUE_CONST &&
         ev->x->exec->region_of[n->out[0]] == TN_NONE;
}

tn_status tni_evaluate(tni_evaluation *ev) {
  const tn_task *t = ev->x->exec->tasks[ev->task].info;
  uint32_t outs = 0;
  for (uint32_t i = 0; i < t->n_nodes; i++) outs += ev->x->exec->view.nodes[t->nodes[i]]->n_out;
  ev->done = TNI_NEW_ARRAY(ev->arena, tni_evaluated, outs + 1);
  if (!ev->done) return tni_fail_memory(ev->err, NULL);
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < t->n_nodes; i++)
    if (!only_turns_weight(ev, t->nodes[i])) st = evaluate_node(ev, t->nodes[i]);
  return st;
}

/* --- users ------------------------------------------------------------------------------------------------------ */

tn_status tni_reference_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  tni_evaluation ev = {.s = s, .x = x, .task = i, .arena = tni_arena_create(), .err = err};
  tn_status st = ev.arena ? tni_evaluate(&ev) : tni_fail_memory(err, NULL);
  for (uint32_t k = 0; st == TN_OK && k < ev.n_done; k++) {
    const uint32_t r = tni_ref_region(x, i, ev.done[k].value);
    if (r != TN_NONE && x->exec->regions[r].kind == TNI_R_STATE)
      tni_ref_state_store(x, &x->regions[r], &ev.done[k].t);
    else if (r != TN_NONE && ev.done[k].t.bytes > x->regions[r].bytes)
      st = tni_fail(err, TN_E_INTERNAL, x->exec->tasks[i].label, "an output of the task has too little room");
    else if (r != TN_NONE && ev.done[k].t.bytes)
      memcpy(x->regions[r].ptr, ev.done[k].t.data, ev.done[k].t.bytes);
  }
  tni_arena_destroy(ev.arena);
  return st;
}
