/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/interp/dynamic.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/interp/cells.h"
#include "runtime/memory/memory.h"

typedef struct dynamic_job {
  tn_session *s;
  tni_sexec *x;
  const tni_etask *e;
  uint32_t task;
  tn_error *err;
} dynamic_job;

/* What the memory plan has for value v, as a tensor. */
static tn_status planned_tensor(const dynamic_job *j, tn_id v, uint32_t region, tni_tensor *t) {
  const tni_graph *g = j->s->model->graph;
  const tni_value *val = tni_graph_value(g, v);
  int64_t count;
  tn_status st = tni_region_take(j->s, j->x, region, TN_NONE, TN_READ | TN_WRITE, j->err);
  *t = (tni_tensor){.dtype = val->pub.dtype, .rank = val->pub.rank, .data = j->x->regions[region].ptr};
  for (uint32_t d = 0; st == TN_OK && d < t->rank; d++)
    st = tni_ex_eval(g->exprs, val->pub.dims[d], j->x->dims, j->x->exec->view.n_symbols, &t->dims[d]);
  if (st == TN_OK) st = tni_dims_count(t->dims, t->rank, &count);
  if (st == TN_OK) st = tni_dtype_bytes(t->dtype, count, &t->bytes);
  return st == TN_OK ? st : tni_fail(j->err, st, val->pub.name, "'%s' has no dims", val->pub.name);
}

/* A sequence, an optional, or a tensor whose rank the model does not state: as the caller gave it. */
static tn_status read_given(const dynamic_job *j, tni_frame *f, tn_id v) {
  const tni_graph *g = j->s->model->graph;
  tni_cell_drop(f->cells[v]); /* of the run before */
  f->cells[v] = NULL;
  for (uint32_t i = 0; i < g->n_inputs && !f->cells[v]; i++)
    if (g->inputs[i] == v) f->cells[v] = tni_cell_given(j->s->inputs[i]);
  return f->cells[v] ? TN_OK : tni_fail_memory(j->err, j->e->label);
}

/* A result in memory that is not its own (a branch that hands an outer value on) gets a copy: it outlives the
 * task. So does what a plugin's process may change meanwhile. */
static tn_status own_cell(const dynamic_job *j, tni_cell **c) {
  tni_cell *mine = tni_cell_own(*c);
  if (!mine) return tni_fail_memory(j->err, j->e->label);
  tni_cell_drop(*c);
  *c = mine;
  return TN_OK;
}

static tn_status read_planned(const dynamic_job *j, tni_frame *f) {
  for (uint32_t u = 0; u < j->e->info->n_uses; u++) {
    const uint32_t r = j->e->regions[u];
    if (r == TN_NONE || !(j->e->info->uses[u].access & TN_READ)) continue;
    const tn_id v = tni_region_value(j->x->exec, r);
    const bool dynamic = tni_region_is_dynamic(j->x->exec, r);
    tni_tensor t;
    if (dynamic && j->x->exec->regions[r].kind != TNI_R_INPUT) continue;
    tn_status st = dynamic ? read_given(j, f, v) : planned_tensor(j, v, r, &t);
    if (st != TN_OK) return st;
    if (dynamic) continue;
    f->cells[v] = tni_cell_borrow(&t);
    if (f->cells[v] && tni_region_is_foreign(j->s->model, j->x->exec, r) && (st = own_cell(j, &f->cells[v])) != TN_OK)
      return st;
    if (!f->cells[v]) return tni_fail_memory(j->err, j->e->label);
  }
  return TN_OK;
}

static tn_status show_cell(const dynamic_job *j, tni_sregion *q, tni_cell *c) {
  int64_t stride = 1;
  tn_tensor t = {.name = NULL};
  if (tni_cell_show(c, &t) != TN_OK) return tni_fail_memory(j->err, j->e->label);
  q->dtype = t.dtype;
  q->rank = t.rank;
  q->bytes = t.bytes;
  q->ptr = (void *)(uintptr_t)t.data;
  memcpy(q->dims, t.dims, sizeof q->dims);
  for (uint32_t i = t.rank; i-- > 0;) {
    q->strides[i] = stride;
    if (__builtin_mul_overflow(stride, t.dims[i] ? t.dims[i] : 1, &stride)) stride = 0; /* only beside an axis of 0 */
  }
  return TN_OK;
}

static tn_status give_planned(const dynamic_job *j, tn_id v, uint32_t region, const tni_cell *c) {
  tni_tensor t;
  tn_status st = planned_tensor(j, v, region, &t);
  if (st != TN_OK) return st;
  if (c->form == TNI_FORM_TENSOR && !t.bytes && !c->t.bytes) return TN_OK; /* of no turns: dims of 0 may differ */
  if (c->form != TNI_FORM_TENSOR || t.dtype != c->t.dtype || t.rank != c->t.rank ||
      memcmp(t.dims, c->t.dims, t.rank * sizeof *t.dims) != 0)
    return tni_fail(j->err, TN_E_INTERNAL, tni_graph_value(j->s->model->graph, v)->pub.name,
                    "'%s' has another shape than was inferred", tni_graph_value(j->s->model->graph, v)->pub.name);
  if (t.bytes) memcpy(t.data, c->t.data, (size_t)t.bytes);
  return TN_OK;
}

static tn_status give_results(const dynamic_job *j, tni_frame *f) {
  for (uint32_t u = 0; u < j->e->info->n_uses; u++) {
    const uint32_t r = j->e->regions[u];
    if (r == TN_NONE || !(j->e->info->uses[u].access & TN_WRITE)) continue;
    const tn_id v = tni_region_value(j->x->exec, r);
    const bool dynamic = tni_region_is_dynamic(j->x->exec, r);
    tn_status st = dynamic ? own_cell(j, &f->cells[v]) : give_planned(j, v, r, f->cells[v]);
    if (st == TN_OK && dynamic) st = show_cell(j, &j->x->regions[r], f->cells[v]);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* What was borrowed or made for this task only, and what nobody reads after it. */
static void tidy_frame(const dynamic_job *j, tni_frame *f, const tni_node *n) {
  for (uint32_t u = 0; u < j->e->info->n_uses; u++) {
    const uint32_t r = j->e->regions[u];
    const tn_id v = r == TN_NONE ? TN_NONE : tni_region_value(j->x->exec, r);
    if (v == TN_NONE) continue;
    const tni_region *region = &j->x->exec->regions[r];
    const bool later = region->kind == TNI_R_OUTPUT || region->last > j->task || j->x->order; /* random: nobody knows */
    if (tni_region_is_dynamic(j->x->exec, r) && later) continue;
    tni_cell_drop(f->cells[v]);
    f->cells[v] = NULL;
  }
  for (uint32_t o = 0; o < n->pub.n_out; o++) { /* results without a region: nobody reads them */
    const tn_id v = n->pub.out[o];
    bool used = v == TN_NONE;
    for (uint32_t u = 0; !used && u < j->e->info->n_uses; u++)
      used = j->e->regions[u] != TN_NONE && tni_region_value(j->x->exec, j->e->regions[u]) == v;
    if (used) continue;
    tni_cell_drop(f->cells[v]);
    f->cells[v] = NULL;
  }
}

tn_status tni_dynamic_run(tn_session *s, tni_sexec *x, uint32_t task, tn_error *err) {
  dynamic_job j = {s, x, &x->exec->tasks[task], task, err};
  const tni_node *n = (const tni_node *)x->exec->view.nodes[j.e->info->nodes[0]];
  if (!x->cells && !(x->cells = calloc(x->exec->view.n_values + 1, sizeof *x->cells)))
    return tni_fail_memory(err, j.e->label);
  tni_frame f = {.g = s->model->graph, .cells = x->cells};
  tni_interp ip = {.run = &s->run.run, .err = err};
  tn_status st = read_planned(&j, &f);
  if (st == TN_OK) st = tni_interp_node(&ip, &f, n);
  if (st == TN_OK) st = give_results(&j, &f);
  tidy_frame(&j, &f, n);
  return st;
}

void tni_dynamic_release(tni_sexec *x) {
  for (uint32_t v = 0; x->cells && v < x->exec->view.n_values; v++) tni_cell_drop(x->cells[v]);
  free(x->cells);
  x->cells = NULL;
}
