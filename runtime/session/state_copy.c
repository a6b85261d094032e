/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows in and out of caches: the caller's past and present of plain runs, and what one session has from another.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/place/place.h"
#include "runtime/plugin/process/process.h"
#include "runtime/session/keep.h"
#include "runtime/session/lengths.h"
#include "runtime/session/state.h"

static const tni_value *value_of(const tn_model *m, tn_id v) { return tni_graph_value(m->graph, v); }

/* A cache and a dense tensor, by the axes of the tensor: sizes, and strides in bytes. `size` is the axis that a row of
 * the cache goes along. */
typedef struct copier {
  char *cache, *user;
  uint32_t in_dtype, user_dtype, rank, size;
  int64_t dims[TN_MAX_RANK], in_cache[TN_MAX_RANK], in_user[TN_MAX_RANK];
} copier;

static copier make_copier(const tn_session *s, uint32_t k, void *user, const int64_t *dims) {
  const tni_gstate *g = &s->model->graph->states[k];
  const tni_sstate *c = &s->states[k];
  const bool flat = value_of(s->model, g->in)->pub.rank == 3;
  copier r = {.cache = c->span.ptr ? c->span.ptr : c->t.data,
              .user = user,
              .in_dtype = c->t.dtype,
              .user_dtype = value_of(s->model, g->past)->pub.dtype,
              .rank = g->rank,
              .size = g->perm[3]};
  const int64_t elem = tni_dtype_bits(c->t.dtype) / 8;
  int64_t stride = tni_dtype_bits(r.user_dtype) / 8;
  memcpy(r.dims, dims, sizeof r.dims);
  for (uint32_t i = g->rank; i-- > 0;) {
    r.in_user[i] = stride;
    stride *= dims[i];
  }
  for (uint32_t i = 0; i < 4; i++) r.in_cache[g->perm[i]] = c->strides[tni_state_axis(flat, i)] * elem;
  return r;
}

/* Row by row. No row of a plain run's cache wraps around: it has one for every position. */
static void copy_piece(const copier *c, bool to_cache) {
  const int64_t n = c->dims[c->size], step = c->in_user[c->size] / (tni_dtype_bits(c->user_dtype) / 8);
  int64_t at[TN_MAX_RANK] = {0};
  for (uint32_t i = 0; i < c->rank; i++)
    if (c->dims[i] == 0) return;
  for (;;) {
    char *cache = c->cache, *user = c->user;
    for (uint32_t i = 0; i < c->rank; i++) {
      cache += at[i] * c->in_cache[i];
      user += at[i] * c->in_user[i];
    }
    if (to_cache)
      tni_kv_store(c->in_dtype, cache, c->user_dtype, user, step, n);
    else
      tni_kv_load(c->in_dtype, cache, c->user_dtype, user, step, n);
    uint32_t i = c->rank;
    while (i > 0 && (i - 1 == c->size || ++at[i - 1] == c->dims[i - 1])) at[--i] = 0;
    if (i == 0) return;
  }
}

tn_status tni_states_load(tn_session *s, tn_error *err) {
  const tni_graph *g = s->model->graph;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t k = tni_state_of_past(g, g->inputs[i]);
    if (k == TN_NONE) continue;
    const tn_tensor *past = s->inputs[i];
    const int64_t rows = s->states[k].t.dims[TNI_STATE_ROWS];
    if (past->dims[g->states[k].axis] > rows)
      return tni_fail(err, TN_E_INVALID, past->name, "'%s' is longer than what it continues to", past->name);
    tn_status st = tni_span_take(&s->states[k].span, TN_NONE, TN_READ | TN_WRITE, err);
    if (st != TN_OK) return st;
    copier c = make_copier(s, k, (void *)(uintptr_t)past->data, past->dims);
    copy_piece(&c, true);
    tni_lengths_clear(s, &s->states[k].rows, c.cache);
    tni_span_wrote(&s->states[k].span, past->dims[g->states[k].axis]);
  }
  return TN_OK;
}

tn_status tni_states_present(tn_session *s, uint32_t k, int64_t rows, tn_tensor *out, tn_error *err) {
  const tni_gstate *g = &s->model->graph->states[k];
  tni_sstate *c = &s->states[k];
  int64_t count;
  out->dtype = value_of(s->model, g->past)->pub.dtype;
  out->rank = g->rank;
  for (uint32_t a = 0; a < g->rank; a++) out->dims[a] = rows;
  /* The state's axes in past's order; where its last two are one, the last of past is a constant of the model. */
  for (uint32_t a = 0; a < g->rank; a++) {
    tn_status st = a == g->axis ? TN_OK : tni_state_dim(s->model, g->present, a, s->dims, &out->dims[a], err);
    if (st != TN_OK) return st;
  }
  if (tni_dims_count(out->dims, out->rank, &count) != TN_OK || tni_dtype_bytes(out->dtype, count, &out->bytes) != TN_OK)
    return tni_fail(err, TN_E_LIMIT, out->name, "'%s' is too large", out->name);
  if (out->bytes > c->present_room || !c->present) {
    uint64_t room = (out->bytes + out->bytes / 4 + 4095) & ~4095ull;
    void *p = aligned_alloc(4096, room ? room : 4096);
    if (!p) return tni_fail_memory(err, out->name);
    free(c->present);
    c->present = p;
    c->present_room = room;
  }
  out->data = c->present;
  tn_status st = tni_span_take(&c->span, TN_NONE, TN_READ, err);
  if (st != TN_OK) return st;
  copier cp = make_copier(s, k, c->present, out->dims);
  copy_piece(&cp, false);
  return TN_OK;
}

/* One row of `size` elements; what has another dtype goes by way of float32. */
static void move_row(const tni_sstate *to, char *dst, const tni_sstate *from, const char *src, float *between) {
  const int64_t n = to->t.dims[TNI_STATE_SIZE];
  if (to->t.dtype == from->t.dtype) {
    memcpy(dst, src, to->rows.row_bytes);
    return;
  }
  tni_kv_load(from->t.dtype, src, TN_DT_F32, between, 1, n);
  tni_kv_store(to->t.dtype, dst, TN_DT_F32, between, 1, n);
}

/* Positions [first, n) of one cache; base: where from's memory is. between: room for one row, where dtypes differ. */
static void move_rows(const tni_sstate *to, const tni_sstate *from, const char *base, int64_t first, int64_t n,
                      float *between) {
  const tni_rows *t = &to->rows, *f = &from->rows;
  for (int64_t b = 0; b < t->dims[0]; b++)
    for (int64_t h = 0; h < t->dims[1]; h++)
      for (int64_t p = first; p < n; p++) {
        const int64_t at[3] = {b, h, t->ring ? p % t->ring : p}, in[3] = {b, h, f->ring ? p % f->ring : p};
        int64_t dst = 0, src = 0;
        for (int i = 0; i < 3; i++) {
          dst += at[i] * t->strides[i];
          src += in[i] * f->strides[i];
        }
        move_row(to, (char *)to->span.ptr + dst, from, base + src, between);
      }
}

/* The first position that `to` can take over from `from`, which is at n. */
static int64_t first_to_move(const tni_sstate *to, const tni_sstate *from, int64_t n) {
  const int64_t ring = to->rows.ring ? n - to->rows.ring : 0;
  return ring > from->held ? ring : from->held;
}

tn_status tni_states_share(tn_session *dst, const tn_session *src, int64_t n, tn_error *err) {
  for (uint32_t k = 0; k < dst->model->graph->n_states; k++) {
    tni_sstate *to = &dst->states[k];
    tni_sstate *from = &src->states[k];
    const int64_t first = first_to_move(to, from, n);
    tn_status st = tni_span_take(&from->span, TN_NONE, TN_READ, err);
    if (st == TN_OK) st = tni_span_take(&to->span, TN_NONE, TN_READ | TN_WRITE, err);
    if (st != TN_OK) return st;
    move_rows(to, from, from->span.ptr, first, n, NULL);
    tni_span_wrote(&to->span, n);
    to->held = n ? first : 0;
  }
  return TN_OK;
}

/* Where the CPU reads what cache k holds up to position n: also of a memory whose device is lost, as long as the bytes
 * are not its own. */
static const char *readable_state(const tn_session *s, uint32_t k, int64_t n) {
  tni_sstate *c = &s->states[k];
  const tni_mem *m = &c->mem;
  if (!m->n_parts) return c->t.data;
  for (uint32_t h = 0; h < m->homes.n; h++) {
    if (m->homes.n > 1 && c->rows.have[h] < n) continue;
    const tni_dev *owner = m->homes.v[h].owner == TN_NONE ? NULL : &m->devs[m->homes.v[h].owner];
    const bool lost = owner && tni_devlock_lost(owner->lock);
    if (m->host[h] && (!lost || owner->process)) return (const char *)m->host[h] + c->span.offset;
    if (lost && owner->process)
      for (uint32_t i = 0; i < m->n_parts; i++) {
        const char *shared = m->parts[i].dev == m->homes.v[h].owner ? tni_isolate_memory(m->parts[i].buffer) : NULL;
        if (shared) return shared + c->span.offset;
      }
    if (!lost && tni_span_take(&c->span, TN_NONE, TN_READ, NULL) == TN_OK) return c->span.ptr;
  }
  return NULL;
}

static bool moves_between(const tni_sstate *to, const tni_sstate *from) {
  const bool same = to->t.dims[0] == from->t.dims[0] && to->t.dims[TNI_STATE_HEADS] == from->t.dims[TNI_STATE_HEADS] &&
                    to->t.dims[TNI_STATE_SIZE] == from->t.dims[TNI_STATE_SIZE];
  const bool whole = to->strides[TNI_STATE_SIZE] <= 1 && from->strides[TNI_STATE_SIZE] <= 1;
  return same && whole && (to->t.dtype == from->t.dtype || (tni_kv_dtype(to->t.dtype) && tni_kv_dtype(from->t.dtype)));
}

static tn_status move_state(tn_session *dst, const tn_session *src, uint32_t k, int64_t n, tn_error *err) {
  tni_sstate *to = &dst->states[k], *from = &src->states[k];
  const char *name = value_of(src->model, src->model->graph->states[k].past)->pub.name;
  const char *base = readable_state(src, k, n);
  if (!base)
    return tni_fail(err, TN_E_DEVICE_LOST, name, "cache '%s' was in the memory of the device that is lost", name);
  if (!moves_between(to, from)) return tni_fail(err, TN_E_UNSUPPORTED, name, "cache '%s' has another form now", name);
  const int64_t first = first_to_move(to, from, n);
  float *between = malloc((size_t)(to->t.dims[TNI_STATE_SIZE] + 1) * sizeof *between);
  if (!between) return tni_fail_memory(err, name);
  tn_status st = tni_span_take(&to->span, TN_NONE, TN_READ | TN_WRITE, err);
  if (st == TN_OK) {
    move_rows(to, from, base, first, n, between);
    tni_span_wrote(&to->span, n);
    to->held = first;
  }
  free(between);
  return st;
}

tn_status tni_states_move(tn_session *dst, const tn_session *src, int64_t n, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t k = 0; st == TN_OK && n && k < dst->model->graph->n_states; k++) st = move_state(dst, src, k, n, err);
  return st;
}

/* --- what rings still hold --------------------------------------------------------------------------------------- */

void tni_states_wrote(tn_session *s, int64_t valid) {
  if (s->keep && s->keep->slots) return; /* each slot has its own (slots.c) */
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
    tni_sstate *c = &s->states[k];
    if (c->rows.ring && valid - c->rows.ring > c->held) c->held = valid - c->rows.ring;
  }
}

/* The next query is at position n: it looks back by the window. */
tn_status tni_states_hold(const tn_session *s, int64_t n, tn_error *err) {
  for (uint32_t k = 0; n && k < s->model->graph->n_states; k++) {
    const tni_sstate *c = &s->states[k];
    const int64_t window = s->model->state_windows[k], from = window >= 0 && window < n ? n - window : 0;
    if (!c->rows.ring || from >= c->held) continue;
    const char *name = value_of(s->model, s->model->graph->states[k].past)->pub.name;
    return tni_fail(err, TN_E_LIMIT, name,
                    "cannot go on from position %lld: what follows looks back to position %lld, and the ring of cache "
                    "'%s' has %lld rows and holds positions from %lld on (`kv_ring: false` in the profile keeps all)",
                    (long long)n, (long long)from, name, (long long)c->rows.ring, (long long)c->held);
  }
  return TN_OK;
}

void tni_states_forget(tn_session *s) {
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) s->states[k].held = 0;
}
