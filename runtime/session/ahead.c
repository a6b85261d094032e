/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/ahead.h"

#include <stdlib.h>
#include <string.h>

#include <tenon/offline.h>

#include "runtime/base/base.h"
#include "runtime/expr/expr.h"
#include "runtime/plugin/plugin.h"

/* Values of symbols, as far as they are known: bit i of `known` is symbol i, as in tn_task.symbols. */
typedef struct known_dims {
  int64_t *v;
  uint64_t known;
} known_dims;

static uint64_t bit_of(tn_id symbol) { return UINT64_C(1) << (symbol < 63 ? symbol : 63); }

static void know(const tn_model *m, known_dims *k, tn_expr e, int64_t value) {
  tn_id s;
  if (e == TNI_EXPR_NONE || !tni_ex_is_sym(m->graph->exprs, e, &s)) return;
  k->v[s] = value;
  if (s < 63) k->known |= bit_of(s); /* bit 63 is many */
}

/* One sequence of `length` positions; everything else is as good as 1. */
static void know_run(const tn_model *m, const tni_exec *x, int64_t length, known_dims *k) {
  const tni_graph *g = m->graph;
  for (uint32_t i = 0; i < x->view.n_symbols; i++) k->v[i] = 1;
  k->known = 0;
  know(m, k, m->roles.step, length);
  for (uint32_t i = 0; m->roles.past != TN_NONE && i < g->n_inputs; i++) {
    const tni_value *v = tni_graph_value(g, g->inputs[i]);
    if (v->pub.rank && v->pub.rank <= TN_MAX_RANK) know(m, k, v->pub.dims[0], 1);
  }
}

static const tn_offline *offline_of(const tni_dev *d) {
  const tn_offline *o = tni_dev_extension(d, TN_OFFLINE, 1);
  return o && TN_HAS(o, tn_offline, compile) && o->compile ? o : NULL;
}

/* --- weights ------------------------------------------------------------------------------------------------------- */

static tn_status set_slot(const tn_model *m, const tni_program *p, const tn_offline *o, tn_id slot, tn_error *err) {
  const tn_slot *s = p->info->slots[slot];
  const tni_need *need = &p->needs[s->need];
  tn_view view = {.h = TN_HDR(tn_view)};
  int64_t strides[TN_MAX_RANK] = {0};
  const tn_blob *blob = NULL;
  tn_error why;
  tni_error_init(&why);
  if (need->need->format) {
    blob = tni_pack_store_blob(m->packed[p->cluster->device].store, need->blob);
    tn_section part;
    const tn_status found = tni_need_section(need->need, s->align, blob, &part, err);
    if (found != TN_OK) return found;
    view.ptr = blob->ptr ? (char *)(uintptr_t)blob->ptr + part.offset : NULL;
    view.bytes = part.bytes;
  } else {
    const tni_tensor *t = tni_graph_value(m->graph, need->need->values[0])->tensor;
    view.ptr = (void *)(uintptr_t)t->data;
    view.bytes = t->bytes;
    view.dtype = t->dtype;
    view.rank = t->rank;
    view.dims = t->dims;
    view.strides = strides;
    for (uint32_t i = t->rank, n = 0; i-- > 0; n = i) strides[i] = i + 1 == t->rank ? 1 : strides[n] * t->dims[n];
  }
  const tn_status st = o->set(p->program, slot, &view, blob, &why);
  return tni_plugin_result(p->dev->name, "set ahead of time", st, &why, err);
}

static tn_status set_weights(const tn_model *m, const tni_program *p, const tn_offline *o, tn_error *err) {
  tn_status st = TN_OK;
  for (tn_id s = 0; o->set && st == TN_OK && s < p->info->n_slots; s++)
    if (p->info->slots[s]->kind == TN_SLOT_WEIGHT) st = set_slot(m, p, o, s, err);
  return st;
}

/* --- tasks --------------------------------------------------------------------------------------------------------- */

static tn_status compile_task(tn_model *m, const tni_exec *x, const tni_program *p, const tn_offline *o, tn_id task,
                              const known_dims *k, tn_error *err) {
  tni_packed *packed = &m->packed[p->cluster->device];
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = k->v, .n = x->view.n_symbols};
  tn_error why;
  tni_error_init(&why);
  if (p->info->tasks[task]->symbols & ~k->known) {
    packed->left++;
    return TN_OK;
  }
  tn_status st = o->compile(p->program, task, &dims, &why);
  if (st == TN_E_UNSUPPORTED) return TN_OK;
  st = tni_plugin_result(p->dev->name, "compile", st, &why, err);
  if (st != TN_OK) tni_error_prefix(err, "'%s'", p->info->tasks[task]->name ? p->info->tasks[task]->name : "");
  packed->compiled += st == TN_OK;
  return st == TN_OK ? tni_runtime_cancelled(m->rt, m->path, err) : st;
}

static tn_status compile_program(tn_model *m, const tni_exec *x, const tni_program *p, const tn_offline *o,
                                 known_dims *k, tn_error *err) {
  static const int64_t one[] = {1};
  const int64_t *lengths = x->chunk ? x->lengths.v : one;
  const uint32_t n = x->chunk ? x->lengths.n : 1;
  tn_status st = set_weights(m, p, o, err);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    know_run(m, x, lengths[i], k);
    for (tn_id t = 0; st == TN_OK && t < p->info->n_tasks; t++) st = compile_task(m, x, p, o, t, k, err);
  }
  return st;
}

static void log_compiled(const tn_model *m, const tni_packed *p) {
  if (p->compiled || p->left)
    tni_log_line(&m->rt->log, TN_LOG_INFO,
                 "%s: %u tasks compiled ahead of time in %.2f s, %u have dims that only a run knows", p->dev->name,
                 p->compiled, (double)p->compile_ns / 1e9, p->left);
}

tn_status tni_ahead_compile(tn_model *m, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t d = 0; st == TN_OK && d < m->rt->n_devs; d++) {
    const tni_dev *dev = &m->rt->devs[d];
    const tn_offline *o = offline_of(dev);
    const int64_t begin = tni_now_ns();
    if (!o) continue;
    tni_devlock_lock(dev->lock);
    tni_services_ahead(dev->host->ctx, true);
    for (uint32_t e = 0; st == TN_OK && e < m->n_execs; e++) {
      const tni_exec *x = &m->execs[e];
      known_dims k = {.v = calloc(x->view.n_symbols + 1, sizeof *k.v)};
      if (!k.v) st = tni_fail_memory(err, m->path);
      for (uint32_t p = 0; st == TN_OK && p < x->n_programs; p++)
        if (x->programs[p].cluster->device == d) st = compile_program(m, x, &x->programs[p], o, &k, err);
      free(k.v);
    }
    tni_services_ahead(dev->host->ctx, false);
    tni_devlock_unlock(dev->lock);
    m->packed[d].compile_ns = tni_now_ns() - begin;
    log_compiled(m, &m->packed[d]);
  }
  return st;
}
