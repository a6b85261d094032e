/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/base/checked.h"

enum { HUGE_PAGE = 1 << 21 };

static const tni_value *value_of(const tn_model *m, tn_id v) { return tni_graph_value(m->graph, v); }

uint32_t tni_state_of_past(const tni_graph *g, tn_id v) {
  for (uint32_t i = 0; i < g->n_states; i++)
    if (g->states[i].past == v) return i;
  return TN_NONE;
}

uint32_t tni_state_of_present(const tni_graph *g, tn_id v) {
  for (uint32_t i = 0; i < g->n_states; i++)
    if (g->states[i].present == v) return i;
  return TN_NONE;
}

static tn_status eval(const tn_model *m, tn_id v, uint32_t axis, const int64_t *dims, int64_t *out, tn_error *err) {
  const tni_value *val = value_of(m, v);
  tn_status st = tni_ex_eval(m->graph->exprs, val->pub.dims[axis], dims, tni_ex_n_symbols(m->graph->exprs), out);
  if (st == TN_OK && *out >= 0) return TN_OK;
  return tni_fail(err, TN_E_INVALID, val->pub.name, "'%s': axis %u cannot be computed from the inputs' dims",
                  val->pub.name, axis);
}

tn_status tni_states_lengths(const tn_model *m, const int64_t *dims, int64_t *pos, int64_t *valid, tn_error *err) {
  const tni_gstate *g = &m->graph->states[0];
  tn_status st = eval(m, g->past, g->axis, dims, pos, err);
  return st == TN_OK ? eval(m, g->present, g->axis, dims, valid, err) : st;
}

/* Memory of cache k with `rows` positions: [batch, heads, rows, size], so that what a head reads lies in one piece. */
static tn_status shape_of(const tn_model *m, uint32_t k, const int64_t *dims, int64_t rows, tni_tensor *t,
                          tn_error *err) {
  const tn_id id = m->graph->states[k].in;
  const tni_value *v = value_of(m, id);
  const bool flat = v->pub.rank == 3;
  int64_t count, rest[2] = {1, 1}; /* heads and size, or heads * size */
  *t = (tni_tensor){.dtype = v->pub.dtype, .rank = 4, .dims = {1, 1, rows, 1}};
  tn_status st = eval(m, id, 0, dims, &t->dims[0], err);
  if (st == TN_OK) st = eval(m, id, flat ? 2 : 1, dims, &rest[0], err);
  if (st == TN_OK && !flat) st = eval(m, id, 3, dims, &rest[1], err);
  if (st != TN_OK) return st;
  t->dims[TNI_STATE_HEADS] = !flat ? rest[0] : v->pub.state->heads ? v->pub.state->heads : 1;
  t->dims[TNI_STATE_SIZE] = flat ? rest[0] / t->dims[TNI_STATE_HEADS] : rest[1];
  if (tni_dims_count(t->dims, t->rank, &count) == TN_OK && tni_dtype_bytes(t->dtype, count, &t->bytes) == TN_OK)
    return TN_OK;
  return tni_fail(err, TN_E_LIMIT, v->pub.name, "a cache of %lld positions is too large", (long long)rows);
}

tn_status tni_states_bytes(const tn_model *m, const int64_t *dims, int64_t rows, uint64_t *bytes, tn_error *err) {
  *bytes = 0;
  for (uint32_t k = 0; k < m->graph->n_states; k++) {
    tni_tensor t;
    tn_status st = shape_of(m, k, dims, rows, &t, err);
    if (st != TN_OK) return st;
    if (__builtin_add_overflow(*bytes, t.bytes, bytes))
      return tni_fail(err, TN_E_LIMIT, m->path, "the caches are too large");
  }
  return TN_OK;
}

/* Zeroed: rows from the valid length on are read by kernels that do not stop there, and must be finite. */
static tn_status allocate(tni_sstate *c, uint64_t bytes, const char *name, tn_error *err) {
  const bool large = bytes >= HUGE_PAGE;
  uint64_t room = (bytes + 4095) & ~4095ull;
  void *p = aligned_alloc(large ? HUGE_PAGE : 4096, room ? room : 4096);
  if (!p)
    return tni_fail(err, TN_E_NO_MEMORY, name, "cannot allocate %llu bytes for a cache", (unsigned long long)bytes);
  /* Each step reads it from end to end: fewer, larger pages. A wish, which takes no more memory. */
  if (large) (void)!madvise(p, room & ~(uint64_t)(HUGE_PAGE - 1), MADV_HUGEPAGE);
  memset(p, 0, room);
  free(c->t.data);
  c->t.data = p;
  c->room = room;
  return TN_OK;
}

tn_status tni_states_fit(tn_session *s, const int64_t *dims, int64_t rows, bool exact, tn_error *err) {
  const tni_graph *g = s->model->graph;
  if (g->n_states && !s->states && !(s->states = TNI_NEW_ARRAY(s->mem, tni_sstate, g->n_states)))
    return tni_fail_memory(err, s->model->path);
  for (uint32_t k = 0; k < g->n_states; k++) {
    tni_sstate *c = &s->states[k];
    tni_tensor t;
    tn_status st = shape_of(s->model, k, dims, rows, &t, err);
    if (st != TN_OK) return st;
    t.data = c->t.data;
    if (t.bytes > c->room || !t.data)
      st = allocate(c, exact ? t.bytes : t.bytes + t.bytes / 4, value_of(s->model, g->states[k].past)->pub.name, err);
    if (st != TN_OK) return st;
    t.data = c->t.data;
    c->t = t;
  }
  return TN_OK;
}

void tni_states_release(tn_session *s) {
  for (uint32_t k = 0; s->states && k < s->model->graph->n_states; k++) {
    free(s->states[k].t.data);
    free(s->states[k].present);
  }
}

/* Strides of the memory's four axes, in elements. */
static void strides_of(const tni_tensor *t, int64_t st[4]) {
  st[3] = 1;
  for (uint32_t i = 3; i-- > 0;) st[i] = st[i + 1] * (t->dims[i + 1] ? t->dims[i + 1] : 1);
}

void tni_states_attach(tn_session *s, tni_sexec *x, bool *moved) {
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
    const tni_tensor *t = &s->states[k].t;
    const bool flat = value_of(s->model, s->model->graph->states[k].in)->pub.rank == 3;
    const uint32_t r = x->exec->region_of[s->model->graph->states[k].in];
    const uint32_t rows = flat ? 1 : TNI_STATE_ROWS, heads = flat ? 2 : TNI_STATE_HEADS;
    int64_t st[4], length;
    if (r == TN_NONE) continue;
    tni_sregion *q = &x->regions[r];
    length = q->dims[rows]; /* as the value has it */
    strides_of(t, st);
    const int64_t strides[4] = {st[0], flat ? st[2] : st[1], flat ? st[1] : st[2], 1};
    *moved = *moved || q->ptr != t->data || q->rank != 4 || memcmp(q->strides, strides, sizeof strides) != 0;
    memcpy(q->dims, t->dims, sizeof(int64_t[4]));
    q->dims[rows] = length;
    q->dims[heads] = t->dims[TNI_STATE_HEADS];
    memcpy(q->strides, strides, sizeof strides);
    q->rank = 4;
    q->ptr = t->data;
    q->bytes = t->bytes;
  }
}

/* A cache and a dense tensor of the user's, by the axes of the user's: sizes, and strides in bytes. */
typedef struct copier {
  char *cache, *user;
  int64_t dims[TN_MAX_RANK], in_cache[TN_MAX_RANK], in_user[TN_MAX_RANK];
  uint32_t rank;
} copier;

static copier make_copier(const tn_model *m, uint32_t k, const tni_tensor *cache, void *user, const int64_t *dims) {
  const tni_gstate *g = &m->graph->states[k];
  const int64_t elem = tni_dtype_bits(cache->dtype) / 8;
  int64_t stride = elem;
  copier c = {.cache = cache->data, .user = user, .rank = g->rank};
  memcpy(c.dims, dims, sizeof c.dims);
  for (uint32_t i = g->rank; i-- > 0;) {
    c.in_user[i] = stride;
    stride *= dims[i];
  }
  const bool flat = value_of(m, g->in)->pub.rank == 3;
  int64_t st[4];
  strides_of(cache, st);
  c.in_cache[g->perm[0]] = st[0] * elem;
  c.in_cache[g->perm[1]] = (flat ? st[TNI_STATE_ROWS] : st[TNI_STATE_HEADS]) * elem;
  c.in_cache[g->perm[2]] = (flat ? st[TNI_STATE_HEADS] : st[TNI_STATE_ROWS]) * elem;
  c.in_cache[g->perm[3]] = elem;
  return c;
}

/* Runs of the last axis are contiguous on both sides, or copied one by one. */
static void copy(const copier *c, bool to_cache) {
  const uint32_t last = c->rank - 1;
  const bool run = c->in_cache[last] == c->in_user[last];
  const size_t bytes = (size_t)(run ? c->dims[last] * c->in_user[last] : c->in_user[last]);
  int64_t at[TN_MAX_RANK] = {0};
  for (uint32_t i = 0; i <= last; i++)
    if (c->dims[i] == 0) return;
  for (;;) {
    char *cache = c->cache, *user = c->user;
    for (uint32_t i = 0; i <= last; i++) {
      cache += at[i] * c->in_cache[i];
      user += at[i] * c->in_user[i];
    }
    memcpy(to_cache ? cache : user, to_cache ? user : cache, bytes);
    uint32_t i = c->rank - (run ? 1 : 0);
    while (i > 0 && ++at[i - 1] == c->dims[i - 1]) at[--i] = 0;
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
    copier c = make_copier(s->model, k, &s->states[k].t, (void *)(uintptr_t)past->data, past->dims);
    copy(&c, true);
  }
  return TN_OK;
}

tn_status tni_states_present(tn_session *s, uint32_t k, int64_t rows, tn_tensor *out, tn_error *err) {
  const tni_gstate *g = &s->model->graph->states[k];
  tni_sstate *c = &s->states[k];
  int64_t count;
  out->dtype = c->t.dtype;
  out->rank = g->rank;
  for (uint32_t a = 0; a < g->rank; a++) out->dims[a] = rows;
  /* The state's axes in past's order; where its last two are one, the last of past is a constant of the model. */
  for (uint32_t a = 0; a < g->rank; a++) {
    tn_status st = a == g->axis ? TN_OK : eval(s->model, g->present, a, s->dims, &out->dims[a], err);
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
  copier cp = make_copier(s->model, k, &c->t, c->present, out->dims);
  copy(&cp, false);
  return TN_OK;
}
