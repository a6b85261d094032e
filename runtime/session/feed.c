/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/feed.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/session/session_tasks.h"
#include "runtime/session/state.h"

static tn_status grow_fed(tni_fed *f, uint64_t bytes, const char *name, tn_error *err) {
  if (bytes <= f->room && f->data) return TN_OK;
  void *p = calloc(1, bytes ? bytes : 1);
  if (!p) return tni_fail_memory(err, name);
  if (f->data) memcpy(p, f->data, f->room < bytes ? f->room : bytes);
  free(f->data);
  f->data = p;
  f->room = bytes;
  f->t.data = p;
  return TN_OK;
}

uint64_t tni_feed_elem(const tn_tensor *t) { return tni_dtype_bits(t->dtype) / 8; }

uint32_t tni_feed_axis(const tn_model *m, uint32_t i) {
  const tni_value *v = tni_graph_value(m->graph, m->graph->inputs[i]);
  uint32_t a = 0;
  while (a < v->pub.rank && v->pub.dims[a] != m->roles.step) a++;
  return a;
}

bool tni_feed_stays(const tn_model *m, uint32_t i) {
  return m->roles.kinds[i] == TNI_IN_PLAIN && tni_feed_axis(m, i) == m->graph->values[m->graph->inputs[i]]->pub.rank;
}

/* --- over the context -------------------------------------------------------------------------------------------- */

static void put_ones(void *dst, uint32_t dtype, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    switch (dtype) {
      case TN_DT_I64:
        ((int64_t *)dst)[i] = 1;
        break;
      case TN_DT_I32:
        ((int32_t *)dst)[i] = 1;
        break;
      case TN_DT_F32:
        ((float *)dst)[i] = 1;
        break;
      default:
        ((uint8_t *)dst)[i] = 1;
    }
  }
}

tn_status tni_feed_lay(const tni_keep *k, tni_fed *f, int64_t total, tn_error *err) {
  const size_t e = tni_feed_elem(&f->t);
  const int64_t before = f->t.dims[1], kept = k->length < total ? k->length : total;
  tn_status st = grow_fed(f, (uint64_t)(k->batch * k->capacity) * e, f->t.name, err);
  if (st != TN_OK || before == total) return st;
  char *p = f->data;
  for (int64_t i = 0; i < k->batch; i++) {
    const int64_t b = total > before ? k->batch - 1 - i : i;
    memmove(p + (size_t)(b * total) * e, p + (size_t)(b * before) * e, (size_t)kept * e);
    memset(p + (size_t)(b * total + kept) * e, 0, (size_t)(total - kept) * e);
  }
  f->t.dims[1] = total;
  f->t.bytes = (uint64_t)(k->batch * total) * e;
  return TN_OK;
}

static char *fed_entry(const tni_fed *f, int64_t b, int64_t at) {
  return (char *)f->data + (size_t)(b * f->t.dims[1] + at) * tni_feed_elem(&f->t);
}

void tni_feed_ones(tni_fed *f, int64_t b, int64_t n) {
  put_ones(fed_entry(f, b, 0), f->t.dtype, n);
  memset(fed_entry(f, b, n), 0, (size_t)(f->t.dims[1] - n) * tni_feed_elem(&f->t));
}

static void clear_from(const tni_keep *k, const tni_fed *f, int64_t at) {
  for (int64_t b = 0; b < k->batch; b++)
    memset(fed_entry(f, b, at), 0, (size_t)(f->t.dims[1] - at) * tni_feed_elem(&f->t));
}

void tni_feed_context(const tn_session *s, tni_fed *fed, const tn_tensor *const *in, int64_t n, int64_t from,
                      int64_t count) {
  const tni_keep *k = s->keep;
  for (uint32_t i = 0; i < s->model->n_inputs; i++) {
    tni_fed *f = &fed[i];
    const size_t e = tni_feed_elem(&f->t);
    if (s->model->roles.kinds[i] != TNI_IN_CONTEXT) continue;
    for (int64_t b = 0; b < k->batch; b++) {
      if (fed != k->fed) memcpy(fed_entry(f, b, 0), fed_entry(&k->fed[i], b, 0), (size_t)k->length * e);
      if (in[i])
        memcpy(fed_entry(f, b, k->length), (const char *)in[i]->data + (size_t)(b * n + from) * e, (size_t)count * e);
      else
        put_ones(fed_entry(f, b, k->length), f->t.dtype, count);
    }
    if (fed != k->fed) clear_from(k, f, k->length + count);
  }
}

static bool has_zero(const char *p, size_t n, size_t elem) {
  static const uint64_t zero;
  for (size_t k = 0; k < n; k++)
    if (memcmp(p + k * elem, &zero, elem) == 0) return true;
  return false;
}

bool tni_feed_has_zero(const tn_session *s, const tn_tensor *const *in) {
  for (uint32_t i = 0; i < s->model->n_inputs; i++) {
    if (s->model->roles.kinds[i] != TNI_IN_CONTEXT || !in[i]) continue;
    if (has_zero(in[i]->data, (size_t)(in[i]->dims[0] * in[i]->dims[1]), tni_feed_elem(in[i]))) return true;
  }
  return false;
}

bool tni_feed_has_gaps(const tn_session *s) {
  const tni_keep *k = s->keep;
  for (uint32_t i = 0; i < s->model->n_inputs; i++)
    for (int64_t b = 0; s->model->roles.kinds[i] == TNI_IN_CONTEXT && b < k->batch; b++)
      if (has_zero(fed_entry(&k->fed[i], b, 0), (size_t)k->length, tni_feed_elem(&k->fed[i].t))) return true;
  return false;
}

void tni_feed_clear(const tn_session *s) {
  const tni_keep *k = s->keep;
  for (uint32_t i = 0; i < s->model->n_inputs; i++)
    if (s->model->roles.kinds[i] == TNI_IN_CONTEXT && k->fed[i].data) clear_from(k, &k->fed[i], k->length);
}

/* --- life, dims -------------------------------------------------------------------------------------------------- */

/* A state of fixed size, which begins with zeros. */
static tn_status make_state(const tn_session *s, tni_fed *f, const tni_value *v, tn_error *err) {
  int64_t count;
  for (uint32_t a = 0; a < f->t.rank; a++)
    if (!tni_ex_is_const(s->model->graph->exprs, v->pub.dims[a], &f->t.dims[a])) f->t.dims[a] = s->keep->batch;
  if (tni_dims_count(f->t.dims, f->t.rank, &count) != TN_OK || tni_dtype_bytes(f->t.dtype, count, &f->t.bytes) != TN_OK)
    return tni_fail(err, TN_E_LIMIT, f->t.name, "state '%s' is too large", f->t.name);
  return grow_fed(f, f->t.bytes, f->t.name, err);
}

tn_status tni_feed_make(const tn_session *s, tni_fed **out, tn_error *err) {
  const tn_model *m = s->model;
  const tni_keep *k = s->keep;
  tni_fed *fed = *out = TNI_NEW_ARRAY(s->mem, tni_fed, m->n_inputs);
  if (!fed) return tni_fail_memory(err, m->path);
  for (uint32_t i = 0; i < m->n_inputs; i++) {
    const tni_value *v = tni_graph_value(m->graph, m->graph->inputs[i]);
    tn_tensor *t = &fed[i].t;
    *t = (tn_tensor){.h = TN_API_HDR(tn_tensor), .name = v->pub.name, .dtype = v->pub.dtype, .rank = v->pub.rank};
    if (m->roles.kinds[i] == TNI_IN_CACHED) {
      t->data = s; /* never read: the caches are the session's */
      t->bytes = UINT64_MAX;
    }
    if (m->roles.kinds[i] == TNI_IN_STATE) {
      const tn_status made = make_state(s, &fed[i], v, err);
      if (made != TN_OK) return made;
    }
    if (m->roles.kinds[i] != TNI_IN_CONTEXT) continue;
    t->dims[0] = k->batch;
    tn_status st = tni_feed_lay(k, &fed[i], 0, err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

void tni_feed_release(const tn_model *m, tni_fed *fed) {
  for (uint32_t i = 0; fed && i < m->n_inputs; i++) free(fed[i].data);
}

tn_status tni_feed_size(const tn_session *s, tni_fed *fed, int64_t n, tn_error *err) {
  const tni_graph *g = s->model->graph;
  for (uint32_t i = 0; i < s->model->n_inputs; i++) {
    if (s->model->roles.kinds[i] != TNI_IN_PLAIN) continue;
    const tni_value *v = tni_graph_value(g, g->inputs[i]);
    tn_tensor *t = &fed[i].t;
    uint64_t bytes = tni_feed_elem(t);
    for (uint32_t a = 0; a < t->rank; a++) {
      if (!tni_ex_is_const(g->exprs, v->pub.dims[a], &t->dims[a]))
        t->dims[a] = v->pub.dims[a] == s->model->roles.step ? n : s->keep->batch;
      bytes *= (uint64_t)t->dims[a];
    }
    t->bytes = bytes;
    tn_status st = grow_fed(&fed[i], bytes, t->name, err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* Dims of a past input: constants, the batch, and the length on its axis. */
static void set_past_dims(const tn_session *s, tni_fed *fed, uint32_t i, int64_t length) {
  const tni_graph *g = s->model->graph;
  const tni_gstate *st = &g->states[tni_state_of_past(g, g->inputs[i])];
  tn_tensor *t = &fed[i].t;
  for (uint32_t a = 0; a < t->rank; a++)
    if (a == st->axis)
      t->dims[a] = length;
    else if (!tni_ex_is_const(g->exprs, tni_graph_value(g, g->inputs[i])->pub.dims[a], &t->dims[a]))
      t->dims[a] = s->keep->batch;
}

tn_status tni_feed_bind(tn_session *s, tni_fed *fed, int64_t n, int64_t total, int64_t rows, int64_t end,
                        tn_error *err) {
  const tni_graph *g = s->model->graph;
  for (uint32_t i = 0; i < s->model->n_inputs; i++) {
    s->inputs[i] = &fed[i].t;
    if (s->model->roles.kinds[i] == TNI_IN_CACHED) set_past_dims(s, fed, i, total - n);
    if (s->model->roles.kinds[i] != TNI_IN_CONTEXT) continue;
    tn_status st = tni_feed_lay(s->keep, &fed[i], total, err);
    if (st != TN_OK) return st;
  }
  tn_status st = tni_bind_symbols(s->model, s->inputs, s->dims, err);
  if (st == TN_OK && g->rows_symbol != TN_NONE) {
    s->dims[g->rows_symbol] = rows;
    s->dims[g->rows_end] = end;
  }
  return st;
}

/* --- the caller's numbers ---------------------------------------------------------------------------------------- */

/* Entries [from, from + count) along axis, and after the last of them copies of it up to `length`. */
static void put_rows(tni_fed *f, const tn_tensor *in, uint32_t axis, int64_t from, int64_t count, int64_t length) {
  size_t inner = tni_feed_elem(in), outer = 1;
  for (uint32_t a = axis + 1; a < in->rank; a++) inner *= (size_t)in->dims[a];
  for (uint32_t a = 0; a < axis; a++) outer *= (size_t)in->dims[a];
  const size_t all = (size_t)in->dims[axis], n = (size_t)count;
  for (size_t o = 0; o < outer; o++) {
    char *to = (char *)f->data + o * (size_t)length * inner;
    memcpy(to, (const char *)in->data + (o * all + (size_t)from) * inner, n * inner);
    for (size_t k = n; k < (size_t)length; k++) memcpy(to + k * inner, to + (n - 1) * inner, inner);
  }
}

/* axis: its rank where all of it is taken as it is. */
static tn_status take_one(tni_fed *f, const tn_tensor *in, uint32_t axis, int64_t from, int64_t count, int64_t length,
                          tn_error *err) {
  tn_tensor t = *in;
  int64_t elems, mine;
  uint64_t bytes, all;
  if (axis < in->rank) t.dims[axis] = length;
  if (tni_dims_count(in->dims, in->rank, &mine) != TN_OK || tni_dtype_bytes(in->dtype, mine, &bytes) != TN_OK ||
      tni_dims_count(t.dims, t.rank, &elems) != TN_OK || tni_dtype_bytes(t.dtype, elems, &all) != TN_OK ||
      in->bytes < bytes)
    return tni_fail(err, TN_E_INVALID, f->t.name, "input '%s' has %llu bytes, fewer than its shape takes", f->t.name,
                    (unsigned long long)in->bytes);
  tn_status st = grow_fed(f, all, f->t.name, err);
  if (st != TN_OK) return st;
  memcpy(f->t.dims, t.dims, t.rank * sizeof *t.dims);
  f->t.bytes = all;
  if (all && axis < in->rank)
    put_rows(f, in, axis, from, count, length);
  else if (all)
    memcpy(f->data, in->data, all);
  return TN_OK;
}

tn_status tni_feed_take(const tn_session *s, tni_fed *fed, const tn_tensor *const *in, int64_t n, int64_t from,
                        int64_t count, int64_t length, tn_error *err) {
  const tn_model *m = s->model;
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < m->n_inputs; i++) {
    const tn_tensor *given = in[i] ? in[i] : &s->keep->fed[i].t;
    if (m->roles.kinds[i] != TNI_IN_PLAIN || given == &fed[i].t) continue;
    uint32_t axis = tni_feed_axis(m, i);
    if (length == n || axis >= given->rank || given->dims[axis] != n) axis = given->rank;
    st = take_one(&fed[i], given, axis, from, count, length, err);
    fed[i].given = st == TN_OK;
  }
  return st;
}

tn_status tni_feed_give(tn_session *s, uint32_t i, const tn_tensor *t, tn_error *err) {
  tni_fed *f = &s->keep->fed[i];
  const tn_status st = take_one(f, t, t->rank, 0, 0, 0, err);
  f->given = st == TN_OK;
  s->keep->exec = NULL; /* its dims may be others */
  return st;
}

static tn_status share_given(tn_session *dst, const tn_session *src, uint32_t i, tn_error *err) {
  const tni_fed *from = &src->keep->fed[i];
  return tni_feed_stays(src->model, i) && from->given ? tni_feed_give(dst, i, &from->t, err) : TN_OK;
}

/* Entries of inputs over the whole context, and what was given for all steps. */
tn_status tni_feed_share(tn_session *dst, const tn_session *src, int64_t n, tn_error *err) {
  const tn_model *m = dst->model;
  for (uint32_t i = 0; i < m->n_inputs; i++) {
    const tn_status given = share_given(dst, src, i, err);
    if (given != TN_OK) return given;
    if (m->roles.kinds[i] != TNI_IN_CONTEXT) continue;
    tni_fed *to = &dst->keep->fed[i];
    const tni_fed *from = &src->keep->fed[i];
    const size_t e = tni_feed_elem(&to->t);
    if (to->t.dims[1] < n) {
      tn_status st = tni_feed_lay(dst->keep, to, n, err);
      if (st != TN_OK) return st;
      dst->keep->exec = NULL;
    }
    for (int64_t b = 0; b < dst->keep->batch; b++)
      memcpy((char *)to->data + (size_t)(b * to->t.dims[1]) * e,
             (const char *)from->data + (size_t)(b * from->t.dims[1]) * e, (size_t)n * e);
  }
  return TN_OK;
}
