/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/state.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/checked.h"
#include "runtime/base/half.h"
#include "runtime/plan/devlock.h"
#include "runtime/sched/guard.h"
#include "runtime/sched/session.h"

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

/* The axis of the memory ([batch, heads, rows, size]) that dim `dim` of the view is. */
static uint32_t axis_of(bool flat, uint32_t dim) {
  static const uint32_t of_flat[4] = {0, TNI_STATE_ROWS, TNI_STATE_HEADS, TNI_STATE_SIZE};
  return flat ? of_flat[dim] : dim;
}

/* Strides of t's axes as the layout has them, and bytes of it all. false: too large. */
static bool lay_out(const tn_layout *l, bool flat, tni_tensor *t, int64_t st[4]) {
  int64_t step = 1;
  for (uint32_t i = 4; i-- > 0;) {
    const uint32_t a = axis_of(flat, l->order[i]);
    const int64_t align = i == 3 ? l->inner_align : i == 2 ? l->pitch_align : 1;
    st[a] = step;
    if (!tni_mul_i64(step, t->dims[a] ? t->dims[a] : 1, &step)) return false;
    if (align > 1 && !tni_add_i64(step, (align - step % align) % align, &step)) return false;
  }
  for (uint32_t a = 0; a < 4; a++)
    if (!t->dims[a]) step = 0;
  return tni_dtype_bytes(t->dtype, step, &t->bytes) == TN_OK;
}

/* Memory of cache k with `rows` positions. */
static tn_status shape_of(const tn_model *m, uint32_t k, const int64_t *dims, int64_t rows, tni_tensor *t,
                          int64_t st4[4], tn_error *err) {
  const tn_id id = m->graph->states[k].in;
  const tni_value *v = value_of(m, id);
  const bool flat = v->pub.rank == 3;
  int64_t rest[2] = {1, 1}; /* heads and size, or heads * size */
  *t = (tni_tensor){.dtype = m->state_layouts[k].dtype, .rank = 4, .dims = {1, 1, rows, 1}};
  tn_status st = eval(m, id, 0, dims, &t->dims[0], err);
  if (st == TN_OK) st = eval(m, id, flat ? 2 : 1, dims, &rest[0], err);
  if (st == TN_OK && !flat) st = eval(m, id, 3, dims, &rest[1], err);
  if (st != TN_OK) return st;
  t->dims[TNI_STATE_HEADS] = !flat ? rest[0] : v->pub.state->heads ? v->pub.state->heads : 1;
  t->dims[TNI_STATE_SIZE] = flat ? rest[0] / t->dims[TNI_STATE_HEADS] : rest[1];
  if (lay_out(&m->state_layouts[k], flat, t, st4)) return TN_OK;
  return tni_fail(err, TN_E_LIMIT, v->pub.name, "a cache of %lld positions is too large", (long long)rows);
}

tn_status tni_states_bytes(const tn_model *m, const int64_t *dims, int64_t rows, uint64_t *bytes, tn_error *err) {
  *bytes = 0;
  for (uint32_t k = 0; k < m->graph->n_states; k++) {
    tni_tensor t;
    int64_t strides[4];
    tn_status st = shape_of(m, k, dims, rows, &t, strides, err);
    if (st != TN_OK) return st;
    if (__builtin_add_overflow(*bytes, t.bytes, bytes))
      return tni_fail(err, TN_E_LIMIT, m->path, "the caches are too large");
  }
  return TN_OK;
}

/* Args must not name memory that goes. */
static void drop_args(tn_session *s) {
  for (uint32_t e = 0; e < s->model->n_execs; e++)
    for (uint32_t t = 0; t < s->execs[e].exec->n_tasks; t++) {
      const tni_dev *d = s->execs[e].exec->programs[s->execs[e].exec->tasks[t].program].dev;
      tni_stask *k = &s->execs[e].tasks[t];
      if (!k->args) continue;
      tni_devlock_lock(d->lock);
      d->device->args_free(k->args);
      tni_devlock_unlock(d->lock);
      k->args = NULL;
      s->execs[e].ready = false;
    }
}

/* Zeroed: rows from the valid length on are read by kernels that do not stop there, and must be finite. */
static tn_status allocate(tn_session *s, uint32_t k, uint64_t bytes, tn_error *err) {
  tni_sstate *c = &s->states[k];
  const tni_mem_spec spec = {.users = s->model->state_users[k],
                             .bytes = bytes + TNI_GUARD_BYTES,
                             .usage = 1u << TN_SLOT_STATE,
                             .zero = true,
                             .what = "a cache"};
  if (spec.users.devices) drop_args(s);
  tni_mem_destroy(&c->mem);
  tn_status st = tni_mem_create(s->model->rt->devs, &spec, &s->memory, &c->mem, err);
  c->span = (tni_span){.mem = &c->mem, .bytes = c->mem.bytes};
  c->room = st == TN_OK ? c->mem.bytes - TNI_GUARD_BYTES : 0;
  c->t.data = st == TN_OK && !c->mem.n_parts ? c->mem.host[0] : NULL;
  if (st == TN_OK) return st;
  tni_mem_destroy(&c->mem);
  tni_error_prefix(err, "'%s'", value_of(s->model, s->model->graph->states[k].past)->pub.name);
  return st;
}

tn_status tni_states_fit(tn_session *s, const int64_t *dims, int64_t rows, bool exact, tn_error *err) {
  const tni_graph *g = s->model->graph;
  if (g->n_states && !s->states && !(s->states = TNI_NEW_ARRAY(s->mem, tni_sstate, g->n_states)))
    return tni_fail_memory(err, s->model->path);
  for (uint32_t k = 0; k < g->n_states; k++) {
    tni_sstate *c = &s->states[k];
    tni_tensor t;
    tn_status st = shape_of(s->model, k, dims, rows, &t, c->strides, err);
    if (st != TN_OK) return st;
    if (t.bytes > c->room || !c->room) st = allocate(s, k, exact ? t.bytes : t.bytes + t.bytes / 4, err);
    if (st != TN_OK) return st;
    t.data = c->t.data;
    c->t = t;
    if (t.data) tni_guard_put((char *)t.data + t.bytes);
  }
  return TN_OK;
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
    q->dims[rows] = length;
    q->dims[heads] = t->dims[TNI_STATE_HEADS];
    memcpy(q->strides, strides, sizeof strides);
    q->rank = 4;
    q->dtype = t->dtype;
    q->ptr = s->states[k].span.ptr;
    if (!s->states[k].mem.n_parts) q->ptr = t->data;
    q->span = &s->states[k].span;
    q->bytes = t->bytes;
  }
}

/* A cache and a dense tensor, by the axes of the tensor: sizes, and strides in bytes. */
typedef struct copier {
  char *cache, *user;
  uint32_t in_dtype, user_dtype, rank;
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
              .rank = g->rank};
  const int64_t elem = tni_dtype_bits(c->t.dtype) / 8;
  int64_t stride = tni_dtype_bits(r.user_dtype) / 8;
  memcpy(r.dims, dims, sizeof r.dims);
  for (uint32_t i = g->rank; i-- > 0;) {
    r.in_user[i] = stride;
    stride *= dims[i];
  }
  for (uint32_t i = 0; i < 4; i++) r.in_cache[g->perm[i]] = c->strides[axis_of(flat, i)] * elem;
  return r;
}

static float load(uint32_t dtype, const void *p) {
  uint16_t h;
  float f;
  if (dtype == TN_DT_F32) {
    memcpy(&f, p, sizeof f);
    return f;
  }
  memcpy(&h, p, sizeof h);
  return dtype == TN_DT_F16 ? tni_f16_to_f32(h) : tni_bf16_to_f32(h);
}

static void store(uint32_t dtype, void *p, float f) {
  const uint16_t h = dtype == TN_DT_F16 ? tni_f32_to_f16(f) : tni_f32_to_bf16(f);
  memcpy(p, dtype == TN_DT_F32 ? (const void *)&f : &h, dtype == TN_DT_F32 ? sizeof f : sizeof h);
}

/* Runs of the last axis are contiguous on both sides and of one dtype, or copied one by one. */
static void copy(const copier *c, bool to_cache) {
  const uint32_t last = c->rank - 1;
  const bool same = c->in_dtype == c->user_dtype, run = same && c->in_cache[last] == c->in_user[last];
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
    if (same)
      memcpy(to_cache ? cache : user, to_cache ? user : cache, bytes);
    else if (to_cache)
      store(c->in_dtype, cache, load(c->user_dtype, user));
    else
      store(c->user_dtype, user, load(c->in_dtype, cache));
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
    tn_status st = tni_span_take(&s->states[k].span, TN_NONE, TN_READ | TN_WRITE, err);
    if (st != TN_OK) return st;
    copier c = make_copier(s, k, (void *)(uintptr_t)past->data, past->dims);
    copy(&c, true);
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
  tn_status st = tni_span_take(&c->span, TN_NONE, TN_READ, err);
  if (st != TN_OK) return st;
  copier cp = make_copier(s, k, c->present, out->dims);
  copy(&cp, false);
  return TN_OK;
}

/* Rows [0, n) of one cache; both have one layout, and as many sequences and heads. */
static void copy_rows(const tni_sstate *to, const tni_sstate *from, int64_t n) {
  const int64_t elem = tni_dtype_bits(to->t.dtype) / 8;
  const size_t row = (size_t)(to->t.dims[TNI_STATE_SIZE] * elem);
  for (int64_t b = 0; b < to->t.dims[0]; b++)
    for (int64_t h = 0; h < to->t.dims[TNI_STATE_HEADS]; h++)
      for (int64_t r = 0; r < n; r++) {
        const int64_t at[3] = {b, h, r};
        int64_t t = 0, f = 0;
        for (int i = 0; i < 3; i++) {
          t += at[i] * to->strides[i] * elem;
          f += at[i] * from->strides[i] * elem;
        }
        memcpy((char *)to->span.ptr + t, (const char *)from->span.ptr + f, row);
      }
}

tn_status tni_states_share(tn_session *dst, const tn_session *src, int64_t n, tn_error *err) {
  for (uint32_t k = 0; k < dst->model->graph->n_states; k++) {
    tn_status st = tni_span_take(&src->states[k].span, TN_NONE, TN_READ, err);
    if (st == TN_OK) st = tni_span_take(&dst->states[k].span, TN_NONE, TN_READ | TN_WRITE, err);
    if (st != TN_OK) return st;
    copy_rows(&dst->states[k], &src->states[k], n);
  }
  return TN_OK;
}

/* --- layouts ------------------------------------------------------------------------------------------------------ */

static bool uses_cache(const tni_exec *x, uint32_t dev, tn_id cache) {
  for (uint32_t c = 0; c < x->part.n_clusters; c++) {
    const tni_cluster *cl = &x->part.clusters[c];
    for (uint32_t i = 0; cl->device == dev && i < cl->n_states; i++)
      if (cl->states[i] == cache) return true;
  }
  return false;
}

/* Who touches a cache with conditions of its own: the placement of single positions leads, in it the profile's order.
 */
typedef struct asked {
  const tni_state_claim *by[2 * TNI_MEM_DEVICES];
  tni_state_claim silent; /* of who says nothing */
  uint32_t n;
} asked;

static tn_status ask(const tn_model *m, const tni_exec *x, tn_id cache, asked *a, tn_error *err) {
  for (uint32_t o = 0; o < m->rt->n_order[x->phase]; o++) {
    const uint32_t dev = m->rt->order[x->phase][o];
    const tni_state_claim *said = &a->silent;
    if (m->rt->devs[dev].is_host || !uses_cache(x, dev, cache)) continue;
    for (uint32_t i = 0; i < x->claims.n_states; i++)
      if (x->claims.states[i].device == dev && x->claims.states[i].value == cache) said = &x->claims.states[i];
    if (a->n == 2 * TNI_MEM_DEVICES) return tni_fail(err, TN_E_LIMIT, m->path, "too many devices share a cache");
    a->by[a->n++] = said;
  }
  return TN_OK;
}

static tn_status disagree(const tn_model *m, const asked *a, const char *name, tn_error *err) {
  char text[2][64] = {"", ""};
  const char *who[2] = {"", ""};
  for (uint32_t i = 0, k = 0; i < a->n && k < 2; i++) {
    if (k && a->by[i]->device == a->by[0]->device) continue;
    who[k] = a->by[i] == &a->silent ? "a device that asks for nothing" : m->rt->devs[a->by[i]->device].name;
    tni_layout_print(&a->by[i]->layouts[0], text[k++], sizeof text[0]);
  }
  return tni_fail(err, TN_E_UNSUPPORTED, name, "no layout of cache '%s' suits all: '%s' asks for %s, '%s' for %s", name,
                  who[0], text[0], who[1], text[1]);
}

static tn_status agree(tn_model *m, uint32_t k, tn_error *err) {
  const tni_gstate *g = &m->graph->states[k];
  const tni_value *v = value_of(m, g->in);
  tn_layout plain = tni_state_layout(&v->pub);
  asked a = {.silent = {.device = TN_NONE, .layouts = &plain, .n = 1}};
  tn_status st = TN_OK;
  for (uint32_t e = m->n_execs; st == TN_OK && e-- > 0;) st = ask(m, &m->execs[e], g->in, &a, err);
  m->state_layouts[k] = plain;
  if (st != TN_OK || !a.n || tni_layouts_agree(a.by, a.n, &m->state_layouts[k])) return st;
  return disagree(m, &a, value_of(m, g->past)->pub.name, err);
}

/* What lowering is told: by cluster. */
static tn_status tell(tn_model *m, tni_cluster *c, tn_error *err) {
  tn_layout *l = TNI_NEW_ARRAY(m->arena, tn_layout, c->n_states + 1);
  if (!l) return tni_fail_memory(err, m->path);
  for (uint32_t i = 0; i < c->n_states; i++)
    for (uint32_t k = 0; k < m->graph->n_states; k++)
      if (m->graph->states[k].in == c->states[i]) l[i] = m->state_layouts[k];
  c->layouts = l;
  return TN_OK;
}

tn_status tni_states_layouts(tn_model *m, tn_error *err) {
  tn_status st = TN_OK;
  m->state_layouts = TNI_NEW_ARRAY(m->arena, tn_layout, m->graph->n_states + 1);
  if (!m->state_layouts) return tni_fail_memory(err, m->path);
  for (uint32_t k = 0; st == TN_OK && k < m->graph->n_states; k++) st = agree(m, k, err);
  for (uint32_t e = 0; st == TN_OK && e < m->n_execs; e++)
    for (uint32_t c = 0; st == TN_OK && c < m->execs[e].part.n_clusters; c++)
      st = tell(m, &m->execs[e].part.clusters[c], err);
  return st;
}
