/* SPDX-License-Identifier: Apache-2.0
 *
 * What nodes of a task read, for its reference: unpacked weights with their numerics, constants, the task's memory.
 */
#include "runtime/graph/graph.h"
#include "runtime/oracle/tasks/evaluation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
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

static tn_status unpack_part(const tn_model *m, const tni_program *p, const tni_need *need, uint32_t part, float *w,
                             tn_error *err) {
  const tn_blob *blob = tni_pack_store_blob(m->packed[p->cluster->device].store, need->blob);
  int64_t n0 = 0;
  for (uint32_t i = 0; i < part; i++) n0 += need->parts[i]->N;
  const int64_t box[4] = {n0, n0 + need->parts[part]->N, 0, need->parts[part]->K};
  tn_status st = blob->format->unpack(blob, box, w);
  if (st == TN_OK) return st;
  return tni_fail(err, st, p->dev->name, "format '%s' cannot unpack its own blob", blob->format->name);
}

static size_t part_bytes(const tni_need *need, uint32_t part) {
  return (size_t)(need->parts[part]->N * need->parts[part]->K + 1) * sizeof(float);
}

static tn_status keep_weight(struct tni_refcache *c, const void *key, size_t n, float *w) {
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

/* For this evaluation alone. */
static tn_status unpack_once(tni_evaluation *ev, const tni_program *p, const tni_need *need, uint32_t part,
                             const float **out) {
  float *w = tni_arena_alloc(ev->arena, part_bytes(need, part), 64);
  *out = w;
  return w ? unpack_part(ev->s->model, p, need, part, w, ev->err) : tni_fail_memory(ev->err, p->dev->name);
}

tn_status tni_ref_unpacked(tni_evaluation *ev, const tni_program *p, const tni_need *need, uint32_t part,
                           const float **out) {
  struct tni_refcache *c = ev->s->model->ref;
  struct {
    const void *need;
    uint64_t part;
  } key = {need, part};
  uint64_t at;
  if (!c) return unpack_once(ev, p, need, part, out);
  pthread_mutex_lock(&c->lock);
  tn_status st = TN_OK;
  if (tni_map_get(c->index, &key, sizeof key, &at)) {
    *out = c->w[at];
  } else {
    float *w = malloc(part_bytes(need, part));
    st = w ? unpack_part(ev->s->model, p, need, part, w, ev->err) : tni_fail_memory(ev->err, p->dev->name);
    if (st == TN_OK && keep_weight(c, &key, sizeof key, w) != TN_OK) st = tni_fail_memory(ev->err, p->dev->name);
    if (st != TN_OK) {
      free(w);
      w = NULL;
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
    return tni_fail(
        ev->err, TN_E_INTERNAL, val->pub.name,
        "the reference cannot see '%s': the task that lists its reader in `nodes` has no slot of it in `uses` "
        "(plugin.h, tn_task.nodes)",
        val->pub.name);
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

const tni_need *tni_ref_need(const tni_program *p, tn_id weight, uint32_t *part) {
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

const tn_numerics *tni_ref_numerics(const tni_evaluation *ev, const tni_program *p, const tni_need *need) {
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
  const tni_need *need = tni_ref_need(p, v, &part);
  *num = &f32;
  if (!need) return plain_weight(ev, v, kn, w, N, K);
  if (!(*num = tni_ref_numerics(ev, p, need))) return TN_E_INTERNAL;
  *N = need->parts[part]->N;
  *K = need->parts[part]->K;
  return tni_ref_unpacked(ev, p, need, part, w);
}

tn_status tni_ref_floats(tni_evaluation *ev, const tn_node *n, uint32_t i, float **x, int64_t *count) {
  tni_tensor t;
  *x = NULL;
  *count = 0;
  if (i >= n->n_in || n->in[i] == TN_NONE) return TN_OK;
  const tn_status st = tni_ref_operand(ev, n->in[i], &t);
  if (st != TN_OK || t.dtype == TN_DT_BOOL || t.dtype == TN_DT_I64 || t.dtype == TN_DT_I32) return st;
  if (tni_dims_count(t.dims, t.rank, count) != TN_OK) return TN_E_LIMIT;
  *x = tni_arena_alloc(ev->arena, (size_t)(*count + 1) * sizeof(float), 64);
  if (!*x) return tni_fail_memory(ev->err, n->name);
  tni_tensor_to_f32(&t, 0, *count, *x);
  return TN_OK;
}
