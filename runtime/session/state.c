/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/state.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/engine/engine.h"
#include "runtime/memory/memory.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/place/place.h"
#include "runtime/session/keep.h"
#include "runtime/session/slots.h"

static const tni_value *value_of(const tn_model *m, tn_id v) { return tni_graph_value(m->graph, v); }

tn_status tni_state_dim(const tn_model *m, tn_id v, uint32_t axis, const int64_t *dims, int64_t *out, tn_error *err) {
  const tni_value *val = value_of(m, v);
  tn_status st = tni_ex_eval(m->graph->exprs, val->pub.dims[axis], dims, tni_ex_n_symbols(m->graph->exprs), out);
  if (st == TN_OK && *out >= 0) return TN_OK;
  return tni_fail(err, TN_E_INVALID, val->pub.name, "'%s': axis %u cannot be computed from the inputs' dims",
                  val->pub.name, axis);
}

tn_status tni_states_lengths(const tn_model *m, const int64_t *dims, int64_t *pos, int64_t *valid, tn_error *err) {
  const tni_gstate *g = &m->graph->states[0];
  tn_status st = tni_state_dim(m, g->past, g->axis, dims, pos, err);
  return st == TN_OK ? tni_state_dim(m, g->present, g->axis, dims, valid, err) : st;
}

uint32_t tni_state_axis(bool flat, uint32_t dim) {
  static const uint32_t of_flat[4] = {0, TNI_STATE_ROWS, TNI_STATE_HEADS, TNI_STATE_SIZE};
  return flat ? of_flat[dim] : dim;
}

/* Strides of t's axes as the layout has them, and bytes of it all. false: too large. */
static bool lay_out(const tn_layout *l, bool flat, tni_tensor *t, int64_t st[4]) {
  int64_t step = 1;
  for (uint32_t i = 4; i-- > 0;) {
    const uint32_t a = tni_state_axis(flat, l->order[i]);
    const int64_t align = i == 3 ? l->inner_align : i == 2 ? l->pitch_align : 1;
    st[a] = step;
    if (!tni_mul_i64(step, t->dims[a] ? t->dims[a] : 1, &step)) return false;
    if (i == 3 && !tni_add_i64(step, tni_kv_pitch(t->dtype, t->dims[a]) - t->dims[a], &step)) return false;
    if (align > 1 && !tni_add_i64(step, (align - step % align) % align, &step)) return false;
  }
  for (uint32_t a = 0; a < 4; a++)
    if (!t->dims[a]) step = 0;
  return tni_dtype_bytes(t->dtype, step, &t->bytes) == TN_OK;
}

/* Rows of cache k for a context of `positions`: as many, or, of a ring, what the window and the largest step (in
 * positions; 0: nothing may be forgotten) need. */
static int64_t state_rows(const tn_model *m, uint32_t k, int64_t positions, int64_t step) {
  enum { BLOCK = 64 }; /* keys that attention takes at once: none of them wraps around */
  int64_t rows;
  if (!(m->state_layouts[k].flags & TN_LAYOUT_CIRCULAR) || !step) return positions;
  if (!tni_add_i64(m->state_windows[k], step, &rows) || !tni_add_i64(rows, BLOCK - 1, &rows)) return positions;
  rows -= rows % BLOCK;
  return rows < positions ? rows : positions;
}

/* Memory of cache k with `rows` rows. */
static tn_status shape_of(const tn_model *m, uint32_t k, const int64_t *dims, int64_t rows, tni_tensor *t,
                          int64_t st4[4], tn_error *err) {
  const tn_id id = m->graph->states[k].in;
  const tni_value *v = value_of(m, id);
  const bool flat = v->pub.rank == 3;
  int64_t rest[2] = {1, 1}; /* heads and size, or heads * size */
  *t = (tni_tensor){.dtype = m->state_layouts[k].dtype, .rank = 4, .dims = {1, 1, rows, 1}};
  tn_status st = tni_state_dim(m, id, 0, dims, &t->dims[0], err);
  if (st == TN_OK) st = tni_state_dim(m, id, flat ? 2 : 1, dims, &rest[0], err);
  if (st == TN_OK && !flat) st = tni_state_dim(m, id, 3, dims, &rest[1], err);
  if (st != TN_OK) return st;
  t->dims[TNI_STATE_HEADS] = !flat ? rest[0] : v->pub.state->heads ? v->pub.state->heads : 1;
  t->dims[TNI_STATE_SIZE] = flat ? rest[0] / t->dims[TNI_STATE_HEADS] : rest[1];
  if (lay_out(&m->state_layouts[k], flat, t, st4)) return TN_OK;
  return tni_fail(err, TN_E_LIMIT, v->pub.name, "a cache of %lld positions is too large", (long long)rows);
}

tn_status tni_states_bytes(const tn_model *m, const int64_t *dims, int64_t positions, int64_t step, uint64_t *bytes,
                           tn_error *err) {
  *bytes = 0;
  for (uint32_t k = 0; k < m->graph->n_states; k++) {
    tni_tensor t;
    int64_t strides[4];
    tn_status st = shape_of(m, k, dims, state_rows(m, k, positions, step), &t, strides, err);
    if (st != TN_OK) return st;
    if (__builtin_add_overflow(*bytes, t.bytes, bytes))
      return tni_fail(err, TN_E_LIMIT, m->path, "the caches are too large");
  }
  return TN_OK;
}

/* Args of no placement name the caches that there are, also of one whose dims come back as they were. */
static void forget_args(tn_session *s) {
  for (uint32_t e = 0; e < s->model->n_execs; e++) s->execs[e].ready = false;
}

/* Args must not name a device's memory that goes. */
static void drop_args(tn_session *s) {
  for (uint32_t e = 0; e < s->model->n_execs; e++)
    for (uint32_t t = 0; t < s->execs[e].exec->n_tasks; t++) tni_task_drop_args(&s->execs[e], t);
}

/* Zeroed: rows from the valid length on are read by kernels that do not stop there, and must be finite. */
static tn_status allocate_state(tn_session *s, uint32_t k, uint64_t bytes, tni_slab *slab, tn_error *err) {
  tni_sstate *c = &s->states[k];
  const tni_mem_users users = s->model->state_users[k];
  const tni_mem_spec spec = {.users = users,
                             .bytes = bytes + TNI_GUARD_BYTES,
                             .usage = 1u << TN_SLOT_STATE,
                             .zero = true,
                             .watched = s->model->rt->checked,
                             .what = "a cache",
                             .shm = users.process || users.devices ? s->model->rt->shm : NULL,
                             .slab = slab};
  forget_args(s);
  if (spec.users.devices) drop_args(s);
  tni_mem_destroy(&c->mem);
  tn_status st = tni_mem_create(s->model->rt->devs, &spec, &s->memory, &c->mem, err);
  c->span = (tni_span){.mem = &c->mem, .bytes = c->mem.bytes, .rows = &c->rows};
  memset(c->rows.have, 0, sizeof c->rows.have);
  c->room = st == TN_OK ? c->mem.bytes - TNI_GUARD_BYTES : 0;
  c->t.data = st == TN_OK && !c->mem.n_parts ? c->mem.host[0] : NULL;
  if (st == TN_OK) return st;
  tni_mem_destroy(&c->mem);
  tni_error_prefix(err, "'%s'", value_of(s->model, s->model->graph->states[k].past)->pub.name);
  return st;
}

/* What of a cache is where, for hand-overs. */
static void describe_rows(tni_sstate *c, bool ring) {
  static const uint32_t axes[3] = {0, TNI_STATE_HEADS, TNI_STATE_ROWS};
  const int64_t elem = tni_dtype_bits(c->t.dtype) / 8;
  for (uint32_t i = 0; i < 3; i++) {
    c->rows.dims[i] = c->t.dims[axes[i]];
    c->rows.strides[i] = c->strides[axes[i]] * elem;
  }
  c->rows.ring = ring ? c->t.dims[TNI_STATE_ROWS] : 0;
  c->rows.row_bytes = (uint64_t)(tni_kv_pitch(c->t.dtype, c->t.dims[TNI_STATE_SIZE]) * elem);
}

static bool too_small(const tni_sstate *c, uint64_t bytes) { return bytes > c->room || !c->room; }

/* What the CPU alone uses of caches that are too small goes, and comes back in one piece. *slab: room for all of it, or
 * NULL. */
static tn_status begin_slab(tn_session *s, const int64_t *dims, int64_t positions, int64_t step, tni_slab **slab,
                            tn_error *err) {
  uint64_t bytes = 0;
  *slab = NULL;
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
    tni_sstate *c = &s->states[k];
    tni_tensor t;
    int64_t strides[4];
    tn_status st = shape_of(s->model, k, dims, state_rows(s->model, k, positions, step), &t, strides, err);
    if (st != TN_OK) return st;
    if (s->model->rt->shm || s->model->state_users[k].devices || !too_small(c, t.bytes)) continue;
    tni_mem_destroy(&c->mem);
    c->room = 0;
    c->t.data = NULL;
    if (__builtin_add_overflow(bytes, tni_slab_bytes(t.bytes + TNI_GUARD_BYTES), &bytes)) return TN_OK;
  }
  /* Long contexts are seldom full: their pages come when rows are written. */
  *slab = tni_slab_create(bytes, positions <= TN_DEFAULT_MAX_SEQ ? s->model->rt->pool : NULL);
  return TN_OK;
}

tn_status tni_states_fit(tn_session *s, const int64_t *dims, int64_t positions, int64_t step, bool exact,
                         tn_error *err) {
  const tni_graph *g = s->model->graph;
  tni_slab *slab = NULL;
  tn_status st = TN_OK;
  if (g->n_states && !s->states && !(s->states = TNI_NEW_ARRAY(s->mem, tni_sstate, g->n_states)))
    return tni_fail_memory(err, s->model->path);
  if (exact) st = begin_slab(s, dims, positions, step, &slab, err);
  for (uint32_t k = 0; st == TN_OK && k < g->n_states; k++) {
    tni_sstate *c = &s->states[k];
    tni_slab *from = s->model->state_users[k].devices ? NULL : slab;
    tni_tensor t;
    st = shape_of(s->model, k, dims, state_rows(s->model, k, positions, step), &t, c->strides, err);
    if (st == TN_OK && too_small(c, t.bytes))
      st = allocate_state(s, k, exact ? t.bytes : t.bytes + t.bytes / 4, from, err);
    if (st != TN_OK) break;
    t.data = c->t.data;
    c->t = t;
    describe_rows(c, s->model->state_layouts[k].flags & TN_LAYOUT_CIRCULAR);
    if (t.data) tni_guard_put((char *)t.data + t.bytes);
  }
  tni_slab_drop(slab);
  return st;
}

void tni_states_release(tn_session *s) {
  for (uint32_t k = 0; s->states && k < s->model->graph->n_states; k++) {
    const tni_tensor *t = &s->states[k].t;
    if (t->data && !tni_guard_holds((const char *)t->data + t->bytes))
      tni_log_line(&s->model->rt->log, TN_LOG_ERROR, "something wrote past the end of cache '%s'",
                   value_of(s->model, s->model->graph->states[k].past)->pub.name);
    tni_memory_free(s, &s->states[k].mem);
    free(s->states[k].present);
  }
}

void tni_states_drop(tn_session *s) {
  forget_args(s);
  drop_args(s);
  tni_states_release(s);
  if (s->states) memset(s->states, 0, s->model->graph->n_states * sizeof *s->states);
}

void tni_states_attach(tn_session *s, tni_sexec *x, bool *moved) {
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
    const tni_tensor *t = &s->states[k].t;
    const bool flat = value_of(s->model, s->model->graph->states[k].in)->pub.rank == 3;
    const uint32_t r = x->exec->region_of[s->model->graph->states[k].in];
    const uint32_t rows = flat ? 1 : TNI_STATE_ROWS, heads = flat ? 2 : TNI_STATE_HEADS;
    const int64_t *st = s->states[k].strides;
    int64_t length;
    if (r == TN_NONE) continue;
    tni_sregion *q = &x->regions[r];
    length = q->dims[rows]; /* as the value has it */
    const int64_t strides[4] = {st[0], flat ? st[2] : st[1], flat ? st[1] : st[2], 1};
    *moved = *moved || q->span != &s->states[k].span || q->bytes != t->bytes || q->rank != 4 ||
             memcmp(q->strides, strides, sizeof strides) != 0;
    memcpy(q->dims, t->dims, sizeof(int64_t[4]));
    q->dims[rows] = t->dims[TNI_STATE_ROWS];
    if (!s->states[k].rows.ring) q->dims[rows] = length;
    q->dims[heads] = t->dims[TNI_STATE_HEADS];
    memcpy(q->strides, strides, sizeof strides);
    q->rank = 4;
    q->dtype = t->dtype;
    void *ptr = s->states[k].mem.n_parts ? s->states[k].span.ptr : t->data;
    if (s->keep && s->keep->slots) {
      q->dims[0] = s->keep->batch;
      ptr = (char *)t->data + s->keep->slots->first * s->states[k].rows.strides[0];
      *moved = *moved || q->ptr != ptr;
    }
    q->ptr = ptr;
    q->span = &s->states[k].span;
    q->bytes = t->bytes;
  }
}
