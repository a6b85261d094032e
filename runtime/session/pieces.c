/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/engine/engine.h"
#include "runtime/interp/interp.h"
#include "runtime/memory/memory.h"
#include "runtime/session/feed.h"
#include "runtime/session/keep.h"
#include "runtime/session/session_tasks.h"

/* Rows [from, from + count) of the prompt. */
typedef struct piece {
  tni_sexec *x;
  tni_fed *fed;
  int64_t from, count;
} piece;

typedef struct joined {
  void *data;
  uint64_t room;
} joined;

struct tni_pieces {
  uint32_t most[2]; /* in flight: where all rows of logits are wanted, where only the last */
  uint32_t cap, n;  /* pieces[] that have memory */
  piece *pieces;    /* [cap]; the first is the session's own */
  tni_sexec **xs;   /* [cap] */
  joined *outputs;  /* [n_outputs] rows of all pieces, one after the other */
};

uint32_t tni_pieces_most(const tn_model *m, const tni_exec *x, int64_t positions, uint64_t bytes) {
  const tni_profile *p = m->rt->profile;
  const uint32_t watched = TN_MODEL_REFERENCE | TN_MODEL_CAPTURE | TN_MODEL_CALIBRATE;
  if (!x->chunk || m->roles.why_not || m->flags & watched || !tni_executor_wanted(m, x)) return 1;
  int64_t n = positions / x->chunk + (positions % x->chunk != 0);
  if (p->memory && bytes) {
    const uint64_t room = p->memory / bytes < TNI_PIECES_FLOOR ? TNI_PIECES_FLOOR : p->memory / bytes;
    if ((uint64_t)n > room) n = (int64_t)room;
  }
  if (p->chunks_in_flight && n > p->chunks_in_flight) n = p->chunks_in_flight;
  return n < 1 ? 1 : n > TNI_PIECES_MAX ? TNI_PIECES_MAX : (uint32_t)n;
}

/* --- how many ---------------------------------------------------------------------------------------------------- */

static tn_status measure_piece(tn_session *s, const tni_sexec *x, int64_t rows, uint32_t *most, tn_error *err) {
  const tni_keep *k = s->keep;
  const int64_t chunk = x->exec->chunk;
  uint64_t arena = 0, outputs = 0, scratch;
  tn_status st = tni_feed_bind(s, k->fed, chunk, tni_chunk_total(s->model, k->capacity, k->capacity), rows, chunk, err);
  const int64_t *dims[1] = {s->dims};
  if (st == TN_OK) st = tni_memory_measure(s->model, x->exec, dims, 1, &arena, &outputs, &scratch, err);
  const int64_t positions = k->max_step < k->limit ? k->max_step : k->limit;
  if (st == TN_OK) *most = tni_pieces_most(s->model, x->exec, positions, arena + outputs);
  return st;
}

/* One executor for all: its arrays and records are for so many tasks. */
static tn_status widen_piece(tn_session *s, tni_sexec *x, uint32_t cap, tn_error *err) {
  tni_executor *wide = NULL;
  const tn_status st = tni_executor_create(s, x, cap, &wide, err);
  if (st != TN_OK) return st;
  tni_executor_destroy(x->executor);
  x->executor = wide;
  return TN_OK;
}

tn_status tni_pieces_plan(tn_session *s, tn_error *err) {
  tni_keep *k = s->keep;
  tni_sexec *x = tni_session_exec(s, TN_PHASE_PREFILL);
  struct tni_pieces *p = TNI_NEW(s->mem, struct tni_pieces);
  if (!p) return tni_fail_memory(err, s->model->path);
  tn_status st = measure_piece(s, x, tni_chunk_rows(s->model, 0, x->exec->chunk), &p->most[0], err);
  if (st == TN_OK) st = measure_piece(s, x, tni_chunk_rows(s->model, 1, x->exec->chunk), &p->most[1], err);
  if (st != TN_OK) return st;
  p->cap = p->most[p->most[1] > p->most[0]];
  p->pieces = TNI_NEW_ARRAY(s->mem, piece, p->cap);
  p->xs = TNI_NEW_ARRAY(s->mem, tni_sexec *, p->cap);
  p->outputs = TNI_NEW_ARRAY(s->mem, joined, s->model->n_outputs);
  x->also = TNI_NEW_ARRAY(s->mem, tni_sexec *, p->cap);
  if (!p->pieces || !p->xs || !p->outputs || !x->also) return tni_fail_memory(err, s->model->path);
  p->pieces[0] = (piece){.x = x, .fed = k->fed};
  p->xs[0] = x;
  p->n = 1;
  k->pieces = p;
  return p->cap > 1 ? widen_piece(s, x, p->cap, err) : TN_OK;
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static tn_status make_piece(tn_session *s, tni_sexec *head, tn_error *err) {
  struct tni_pieces *p = s->keep->pieces;
  piece *q = &p->pieces[p->n];
  if (!q->x) q->x = TNI_NEW(s->mem, tni_sexec);
  tn_status st = q->x ? TN_OK : TN_E_NO_MEMORY;
  if (st == TN_OK && !q->x->exec) st = tni_sexec_init(s, q->x, head->exec, head);
  if (st == TN_OK && s->model->order_seed && !q->x->order) {
    q->x->order = TNI_NEW_ARRAY(s->mem, uint32_t, head->exec->n_tasks + 1);
    if (!q->x->order) st = TN_E_NO_MEMORY;
  }
  if (st != TN_OK) {
    q->x = NULL;
    return tni_fail_memory(err, s->model->path);
  }
  if (!q->fed) st = tni_feed_make(s, &q->fed, err);
  if (st != TN_OK) return st;
  q->x->ahead = p->n;
  q->x->executor = head->executor;
  head->also[head->n_also++] = q->x;
  p->xs[p->n++] = q->x;
  return TN_OK;
}

void tni_pieces_release(tn_session *s) {
  struct tni_pieces *p = s->keep ? s->keep->pieces : NULL;
  if (!p || !p->n) return;
  const uint32_t n = p->xs[0]->exec->n_tasks;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t t = 0; t < n; t++) tni_task_drop_args(p->xs[i], t);
  for (uint32_t i = 1; i < p->n; i++) {
    for (uint32_t t = 0; t < n; t++) tni_task_release(p->xs[i], t);
    tni_dynamic_release(p->xs[i]);
    tni_memory_release(s, p->xs[i]);
    tni_feed_release(s->model, p->pieces[i].fed);
  }
  for (uint32_t o = 0; o < s->model->n_outputs; o++) free(p->outputs[o].data);
  p->xs[0]->n_also = 0;
}

/* --- outputs ----------------------------------------------------------------------------------------------------- */

/* The axis of output v that has a row for each position (of `length`, counted with padding) or each row of logits; its
 * rank where there is none. */
static uint32_t rows_axis(const tn_session *s, tn_id v, uint32_t rank) {
  const tni_graph *g = s->model->graph;
  const tni_value *val = tni_graph_value(g, v);
  for (uint32_t a = 0; a < rank && a < val->pub.rank; a++) {
    tn_id symbol = TN_NONE;
    if (val->pub.dims[a] == s->model->roles.step) return a;
    if (g->rows_symbol != TN_NONE && tni_ex_is_sym(g->exprs, val->pub.dims[a], &symbol) && symbol == g->rows_symbol)
      return a;
  }
  return rank;
}

/* The first `count` rows of a piece's output to rows [at, at + count) of n. */
static tn_status join_output(joined *j, tn_tensor *t, uint32_t axis, int64_t at, int64_t count, int64_t n,
                             tn_error *err) {
  tn_tensor all = *t;
  int64_t elems;
  all.dims[axis] = n;
  if (tni_dims_count(all.dims, all.rank, &elems) != TN_OK || tni_dtype_bytes(all.dtype, elems, &all.bytes) != TN_OK)
    return tni_fail(err, TN_E_LIMIT, t->name, "'%s' is too large", t->name);
  if (all.bytes > j->room || !j->data) {
    void *p = aligned_alloc(64, (all.bytes + 64) & ~UINT64_C(63));
    if (!p) return tni_fail_memory(err, t->name);
    free(j->data); /* rows of an earlier step */
    j->data = p;
    j->room = all.bytes;
  }
  size_t inner = tni_feed_elem(t), outer = 1;
  for (uint32_t a = axis + 1; a < t->rank; a++) inner *= (size_t)t->dims[a];
  for (uint32_t a = 0; a < axis; a++) outer *= (size_t)t->dims[a];
  for (size_t o = 0; inner && o < outer; o++)
    memcpy((char *)j->data + (o * (size_t)n + (size_t)at) * inner,
           (const char *)t->data + o * (size_t)t->dims[axis] * inner, (size_t)count * inner);
  all.data = j->data;
  *t = all;
  return TN_OK;
}

/* rows 1: of logits only the last piece's are of use. */
static tn_status take_outputs(tn_session *s, const piece *q, tn_tensor *const *out, int64_t n, uint32_t rows,
                              tn_error *err) {
  const tni_graph *g = s->model->graph;
  const bool last = q->from + q->count == n;
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const tn_id v = g->outputs[i];
    if (!out[i]) continue;
    if (tni_state_of_present(g, v) != TN_NONE)
      return tni_fail(err, TN_E_INVALID, s->model->outputs[i]->name, "'%s' is the session's",
                      s->model->outputs[i]->name);
    const tni_value *val = tni_graph_value(g, v);
    const uint32_t axis = rows_axis(s, v, val->pub.rank);
    const bool every = axis < val->pub.rank && (!rows || val->pub.dims[axis] == s->model->roles.step);
    if (!every && !last) continue;
    tn_status st = tni_session_output(s, q->x, v, out[i], err);
    if (st == TN_OK && every) st = join_output(&s->keep->pieces->outputs[i], out[i], axis, q->from, q->count, n, err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* --- steps ------------------------------------------------------------------------------------------------------- */

/* Numbers, memory, plans and lengths of rows [q->from, q->from + q->count); `first` of them are in flight before it. */
static tn_status prepare_piece(tn_session *s, piece *q, const tn_tensor *const *in, int64_t n, int64_t first,
                               uint32_t rows, tn_error *err) {
  tni_keep *k = s->keep;
  const int64_t length = tni_exec_length(q->x->exec, q->count), at = k->length + q->from - first,
                total = tni_chunk_total(s->model, k->capacity, at + length);
  tn_status st = tni_feed_take(s, q->fed, in, n, q->from, q->count, length, err);
  if (st == TN_OK)
    st = tni_feed_bind(s, q->fed, length, total, tni_chunk_rows(s->model, rows, q->count), q->count, err);
  if (st == TN_OK) st = tni_session_prepare(s, q->x, err);
  if (st != TN_OK) return st;
  tni_feed_context(s, q->fed, in, n, first, q->from + q->count - first);
  q->x->pos = at;
  q->x->valid = at + length;
  return TN_OK;
}

/* The session's own inputs over the context get the entries of all that was run. */
static tn_status note_context(tn_session *s, const tn_tensor *const *in, int64_t n, int64_t first, int64_t count,
                              tn_error *err) {
  tni_keep *k = s->keep;
  const int64_t total = tni_chunk_total(s->model, k->capacity, k->length + tni_chunk_padded(s->model, count));
  for (uint32_t i = 0; i < s->model->n_inputs; i++) {
    if (s->model->roles.kinds[i] != TNI_IN_CONTEXT) continue;
    const int64_t room = total > k->length + count ? total : k->length + count;
    tn_status st = tni_feed_lay(k, &k->fed[i], room, err);
    if (st != TN_OK) return st;
  }
  tni_feed_context(s, k->fed, in, n, first, count);
  return TN_OK;
}

/* Rows from `first` on, as many as may be in flight; *first moves on by them. */
static tn_status run_wave(tn_session *s, tni_sexec *x, const tn_tensor *const *in, tn_tensor *const *out, int64_t n,
                          int64_t *first, uint32_t rows, tn_error *err) {
  struct tni_pieces *p = s->keep->pieces;
  const int64_t chunk = x->exec->chunk;
  int64_t at = *first;
  uint32_t count = 0;
  tn_status st = TN_OK;
  for (; st == TN_OK && at < n && count < p->most[rows != 0]; count++) {
    if (count == p->n) st = make_piece(s, x, err);
    if (st != TN_OK) break;
    piece *q = &p->pieces[count];
    q->from = at;
    q->count = n - at < chunk ? n - at : chunk;
    st = prepare_piece(s, q, in, n, *first, rows, err);
    at += q->count;
  }
  if (st == TN_OK) st = tni_session_tasks(s, p->xs, count, err);
  for (uint32_t i = 0; st == TN_OK && i < count; i++) st = take_outputs(s, &p->pieces[i], out, n, rows, err);
  if (st == TN_OK) st = note_context(s, in, n, *first, at - *first, err);
  if (st != TN_OK) return st;
  s->keep->length += at - *first;
  *first = at;
  return TN_OK;
}

tn_status tni_pieces_step(tn_session *s, tni_sexec *x, const tn_tensor *const *in, tn_tensor *const *out, int64_t n,
                          uint32_t rows, tn_error *err) {
  tni_keep *k = s->keep;
  const int64_t before = k->length;
  tn_status st =
      k->pieces ? TN_OK : tni_fail(err, TN_E_INTERNAL, NULL, "a step of several pieces that was not planned");
  k->exec = NULL; /* dims of the inputs are those of a piece */
  s->n_row_pos = 0;
  if (k->gaps && s->model->graph->lengths)
    st =
        tni_fail(err, TN_E_UNSUPPORTED, s->model->path,
                 "sequences of different lengths in a step of %lld positions, more than the %lld of the device's piece",
                 (long long)n, (long long)x->exec->chunk);
  for (int64_t at = 0; st == TN_OK && at < n;) st = run_wave(s, x, in, out, n, &at, rows, err);
  __atomic_store_n(&s->cancel, 0, __ATOMIC_RELAXED);
  if (st == TN_OK) return TN_OK;
  k->length = before; /* what waves before it left in the caches was never there, but rings may have lost what was */
  tni_feed_clear(s);
  return st;
}
