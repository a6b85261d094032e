/* SPDX-License-Identifier: Apache-2.0
 *
 * A session that keeps its caches. Everything that depends on lengths is done when a length changes: the dims
 * of the inputs, or the context's length, which is rounded up to a bucket (the whole capacity where no device asks for
 * one). In between a step copies its few input numbers, writes two lengths and runs its tasks.
 *
 * Steps of more than one position run on the prefill placement, single ones on the decode placement. Where a device of
 * the former takes one length only (tni_exec.chunk), a shorter step is padded on the right: rows after the last repeat
 * its numbers, and the length that the caches are told counts them, so that causality hides them from the real ones
 * (attention counts back from it). Their rows stay in the caches as what was never there: the length goes on by the
 * real ones, and the next step writes over them. A longer one is several of them at once (pieces.h).
 */
#include <string.h>

#include "runtime/memory/memory.h"
#include "runtime/session/failover.h"
#include "runtime/session/feed.h"
#include "runtime/session/fixed.h"
#include "runtime/session/keep.h"
#include "runtime/session/lengths.h"
#include "runtime/session/long_text.h"
#include "runtime/session/losses.h"
#include "runtime/session/pieces.h"
#include "runtime/session/session_tasks.h"
#include "runtime/session/slots.h"
#include "runtime/session/state.h"

int tn_model_has_cache(const tn_model *m) { return m && m->roles.why_not == NULL; }

/* --- keep -------------------------------------------------------------------------------------------------------- */

/* What takes over has the same caches already. */
tn_status tn_session_keep(tn_session *s, const tn_keep_opts *o, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(s);
  tn_error local;
  if (!err) {
    tni_error_init(&local);
    err = &local;
  }
  s = tni_session_now(s);
  if (s->keep) return tni_fail(err, TN_E_INVALID, s->model->path, "the session keeps its caches already");
  tn_status st = tni_keep_make(s, o, err);
  if (!tni_files_failed(s->model, &st, err) && tni_failover(s, st, err)) return TN_OK;
  if (st != TN_OK) tni_keep_undo(s);
  return st;
}

/* --- step -------------------------------------------------------------------------------------------------------- */

/* Its dims with `length` positions. */
static bool same_dims(const tn_model *m, uint32_t i, const tn_tensor *t, const tn_tensor *fed, int64_t length) {
  const uint32_t axis = tni_feed_axis(m, i);
  for (uint32_t a = 0; a < t->rank; a++)
    if (fed->dims[a] != (a == axis ? length : t->dims[a])) return false;
  return true;
}

/* The caller's tensors against the last step's dims. *same: nothing but data is new. */
static tn_status read_inputs(const tn_session *s, const tn_tensor *const *in, int64_t *n, bool *same, tn_error *err) {
  const tn_model *m = s->model;
  const tn_tensor *x = in[m->roles.input];
  if (!x || x->rank <= m->roles.axis)
    return tni_fail(err, TN_E_INVALID, m->inputs[m->roles.input]->name, "input '%s' is missing or of another rank",
                    m->inputs[m->roles.input]->name);
  *n = x->dims[m->roles.axis];
  *same = true;
  for (uint32_t i = 0; i < m->n_inputs; i++) {
    const tn_tensor *t = in[i], *fed = &s->keep->fed[i].t;
    const uint8_t kind = m->roles.kinds[i];
    const bool stays = !t && s->keep->fed[i].given && tni_feed_stays(m, i);
    if (kind == TNI_IN_CACHED || kind == TNI_IN_STATE ? t != NULL : kind == TNI_IN_PLAIN && !t && !stays)
      return tni_fail(err, TN_E_INVALID, fed->name, t ? "'%s' is the session's" : "input '%s' is missing", fed->name);
    if (!t) continue;
    if (t->rank != fed->rank || t->dtype != fed->dtype || (t->bytes && !t->data))
      return tni_fail(err, TN_E_INVALID, fed->name, "input '%s' is %s of rank %u; the model takes %s of rank %u",
                      fed->name, tni_dtype_name(t->dtype), t->rank, tni_dtype_name(fed->dtype), fed->rank);
    if (kind == TNI_IN_CONTEXT) {
      if (t->dims[0] != s->keep->batch || t->dims[1] != *n)
        return tni_fail(err, TN_E_INVALID, fed->name, "input '%s' takes the entries of this step, [%lld, %lld]",
                        fed->name, (long long)s->keep->batch, (long long)*n);
      if (t->bytes < (uint64_t)(s->keep->batch * *n) * tni_feed_elem(fed))
        return tni_fail(err, TN_E_INVALID, fed->name, "input '%s' has too few bytes", fed->name);
      continue;
    }
    *same = *same && same_dims(m, i, t, fed, tni_chunk_padded(m, *n));
  }
  return TN_OK;
}

/* The real rows of an output that has one for each of `length`, brought together. The memory is the session's. */
static void cut_rows(const tn_session *s, tn_id v, tn_tensor *t, int64_t n, int64_t length) {
  const tni_value *val = tni_graph_value(s->model->graph, v);
  uint32_t axis = 0;
  while (axis < t->rank && (val->pub.dims[axis] != s->model->roles.step || t->dims[axis] != length)) axis++;
  if (axis == t->rank || n == length) return;
  size_t inner = tni_feed_elem(t), outer = 1;
  for (uint32_t a = axis + 1; a < t->rank; a++) inner *= (size_t)t->dims[a];
  for (uint32_t a = 0; a < axis; a++) outer *= (size_t)t->dims[a];
  char *p = (char *)(uintptr_t)t->data;
  for (size_t o = 1; o < outer; o++)
    memmove(p + o * (size_t)n * inner, p + o * (size_t)length * inner, (size_t)n * inner);
  t->dims[axis] = n;
  t->bytes = outer * (size_t)n * inner;
}

/* The session holds what output i would give. */
static bool is_kept_output(const tn_model *m, uint32_t i) {
  bool kept = tni_state_of_present(m->graph, m->graph->outputs[i]) != TN_NONE;
  for (uint32_t k = 0; k < m->n_inputs; k++) kept = kept || m->roles.continues[k] == i;
  return kept;
}

static tn_status make_outputs(tn_session *s, tni_sexec *x, tn_tensor *const *out, int64_t n, tn_error *err) {
  const tni_graph *g = s->model->graph;
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < g->n_outputs; i++) {
    if (!out[i]) continue;
    if (is_kept_output(s->model, i))
      return tni_fail(err, TN_E_INVALID, s->model->outputs[i]->name, "'%s' is the session's",
                      s->model->outputs[i]->name);
    st = tni_session_output(s, x, g->outputs[i], out[i], err);
    if (st == TN_OK) cut_rows(s, g->outputs[i], out[i], n, tni_chunk_padded(s->model, n));
  }
  return st;
}

static tn_status check_room(const tni_keep *k, int64_t n, tn_error *err) {
  if (n < 1) return tni_fail(err, TN_E_INVALID, NULL, "a step of %lld positions", (long long)n);
  if (n > k->max_step)
    return tni_fail(err, TN_E_LIMIT, NULL, "%lld positions in one step; the session takes %lld", (long long)n,
                    (long long)k->max_step);
  if (n > k->limit - k->length)
    return tni_fail(err, TN_E_LIMIT, NULL, "%lld positions after %lld; the caches hold %lld", (long long)n,
                    (long long)k->length, (long long)k->limit);
  return TN_OK;
}

static tn_status prepare_step(tn_session *s, tni_sexec *x, int64_t n, int64_t rows, bool same, tn_error *err) {
  tni_keep *k = s->keep;
  const int64_t length = tni_chunk_padded(s->model, n),
                total = tni_chunk_total(s->model, k->capacity, k->length + length);
  if (same && x->ready && total == k->total && rows == k->rows && n == k->end && x == k->exec) return TN_OK;
  tn_status st = tni_feed_bind(s, k->fed, length, total, rows, n, err);
  if (st == TN_OK) st = tni_session_prepare(s, x, err);
  k->total = total;
  k->rows = rows;
  k->end = n;
  k->exec = st == TN_OK ? x : NULL;
  return st;
}

/* One position is decoded, more are prefilled; without phases there is one placement for all. */
static tni_sexec *exec_of(tn_session *s, int64_t n) {
  uint32_t i = 0;
  while (i + 1 < s->model->n_execs && !tni_exec_takes(s->model, s->execs[i].exec, tni_chunk_padded(s->model, n))) i++;
  return &s->execs[i];
}

static tn_status step_session(tn_session *s, const tn_tensor *const *in, tn_tensor *const *out, uint32_t rows,
                              tn_error *err) {
  tni_keep *k = s->keep;
  int64_t n = 0;
  bool same = false;
  if (!k || k->slots)
    return tni_fail(err, TN_E_INVALID, s->model->path,
                    k ? "the session runs slots: tn_session_step_slots" : "tn_session_keep comes first");
  tn_status st = read_inputs(s, in, &n, &same, err);
  if (st == TN_OK) st = check_room(k, n, err);
  if (st == TN_OK) st = tni_states_hold(s, k->length, err); /* not after pieces that failed (pieces.c) */
  if (st == TN_OK) tni_long_begin(s, n);
  tni_sexec *x = exec_of(s, n);
  if (st == TN_OK) k->gaps = k->gaps || tni_feed_has_zero(s, in);
  if (st == TN_OK && x->exec->chunk && n > x->exec->chunk) return tni_pieces_step(s, x, in, out, n, rows, err);
  if (st == TN_OK) st = tni_feed_take(s, k->fed, in, n, 0, n, tni_chunk_padded(s->model, n), err);
  if (st == TN_OK) st = prepare_step(s, x, n, tni_chunk_rows(s->model, rows, n), same, err);
  if (st != TN_OK) {
    k->exec = NULL; /* what was taken so far may not be what was prepared for */
    return st;
  }
  st = tni_fixed_remember(s, n, err);
  if (st != TN_OK) return st;
  tni_feed_context(s, k->fed, in, n, 0, n);
  st = tni_lengths_step(s, n, err);
  x->pos = k->length;
  x->valid = k->length + tni_chunk_padded(s->model, n);
  if (st == TN_OK) st = tni_session_tasks(s, &x, 1, err);
  __atomic_store_n(&s->cancel, 0, __ATOMIC_RELAXED);
  if (st == TN_OK) st = make_outputs(s, x, out, n, err);
  if (st == TN_OK) st = tni_fixed_carry(s, x, err);
  if (st == TN_OK)
    k->length += n;
  else
    tni_feed_clear(s);
  return st;
}

/* --- slots ------------------------------------------------------------------------------------------------------- */

static tn_status check_slots(const tn_session *s, uint32_t first, uint32_t count, tn_error *err) {
  const tni_sequences *t = s->keep ? s->keep->slots : NULL;
  if (!t) return tni_fail(err, TN_E_INVALID, s->model->path, "the session does not keep its caches in slots");
  if (count && first < t->n && count <= t->n - first) return TN_OK;
  return tni_fail(err, TN_E_INVALID, "slots", "%u slots from %u on; there are %u", count, first, t->n);
}

/* *longest: of the slots, before the step. */
static tn_status check_slots_room(const tni_keep *k, uint32_t first, uint32_t count, int64_t n, int64_t *longest,
                                  tn_error *err) {
  tni_keep one = *k;
  tn_status st = TN_OK;
  *longest = 0;
  for (uint32_t i = first; st == TN_OK && i < first + count; i++) {
    one.length = k->slots->length[i];
    if (one.length > *longest) *longest = one.length;
    st = check_room(&one, n, err);
  }
  return st;
}

static tn_status check_no_context(const tn_session *s, const tn_tensor *const *in, tn_error *err) {
  for (uint32_t i = 0; i < s->model->n_inputs; i++)
    if (s->model->roles.kinds[i] == TNI_IN_CONTEXT && in[i])
      return tni_fail(err, TN_E_INVALID, s->model->inputs[i]->name, "'%s' is the session's", s->model->inputs[i]->name);
  return TN_OK;
}

/* Dims, memory and numbers of the step. */
static tn_status aim_step(tn_session *s, uint32_t first, uint32_t count, const tn_tensor *const *in, uint32_t rows,
                          int64_t *n, tni_sexec **x, tn_error *err) {
  tni_keep *k = s->keep;
  int64_t longest = 0;
  bool same;
  k->batch = count;
  k->exec = NULL;
  tn_status st = check_no_context(s, in, err);
  if (st == TN_OK) st = read_inputs(s, in, n, &same, err);
  if (st == TN_OK) st = check_slots_room(k, first, count, *n, &longest, err);
  if (st == TN_OK) st = tni_feed_take(s, k->fed, in, *n, 0, *n, *n, err);
  if (st != TN_OK) return st;
  const int64_t total = tni_chunk_total(s->model, k->capacity, longest + *n);
  *x = exec_of(s, *n);
  tni_slots_aim(s, first, count, *n, total);
  st = tni_feed_bind(s, k->fed, *n, total, tni_chunk_rows(s->model, rows, *n), *n, err);
  return st == TN_OK ? tni_session_prepare(s, *x, err) : st;
}

static tn_status step_slots(tn_session *s, uint32_t first, uint32_t count, const tn_tensor *const *in,
                            tn_tensor *const *out, uint32_t rows, tn_error *err) {
  tni_sexec *x = NULL;
  int64_t n = 0;
  tn_status st = check_slots(s, first, count, err);
  if (st == TN_OK) st = aim_step(s, first, count, in, rows, &n, &x, err);
  if (st != TN_OK) return st;
  x->pos = s->pos;
  x->valid = s->valid;
  tni_slots_wrote(s, n);
  st = tni_session_tasks(s, &x, 1, err);
  __atomic_store_n(&s->cancel, 0, __ATOMIC_RELAXED);
  if (st == TN_OK) st = make_outputs(s, x, out, n, err);
  if (st == TN_OK) st = tni_fixed_carry(s, x, err);
  for (uint32_t i = first; st == TN_OK && i < first + count; i++) s->keep->slots->length[i] += n;
  return st;
}

tn_status tn_session_step_slots(tn_session *s, uint32_t first, uint32_t count, const tn_tensor *const *in,
                                tn_tensor *const *out, uint32_t rows, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(s);
  TNI_NOT_NULL(in);
  TNI_NOT_NULL(out);
  tn_error local;
  if (rows > 1) return tni_fail(err, TN_E_INVALID, "rows", "%u: 1 is the last position's, 0 all", rows);
  if (!err) {
    tni_error_init(&local);
    err = &local;
  }
  tn_status st;
  do {
    s = tni_session_now(s);
    st = step_slots(s, first, count, in, out, rows, err);
  } while (!tni_files_failed(s->model, &st, err) && tni_failover(s, st, err));
  return st;
}

/* --- step of all ------------------------------------------------------------------------------------------------- */

/* phase: what is run is told by the positions. */
tn_status tn_session_step(tn_session *s, uint32_t phase, const tn_tensor *const *in, tn_tensor *const *out,
                          uint32_t rows, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(s);
  TNI_NOT_NULL(in);
  TNI_NOT_NULL(out);
  tn_error local;
  tn_status st = tni_check_phase(phase, err);
  if (st != TN_OK) return st;
  if (rows > 1) return tni_fail(err, TN_E_INVALID, "rows", "%u: 1 is the last position's, 0 all", rows);
  if (!err) {
    tni_error_init(&local);
    err = &local;
  }
  do {
    s = tni_session_now(s);
    st = step_session(s, in, out, rows, err);
    if (st == TN_OK) tni_long_ran(s);
  } while (!tni_files_failed(s->model, &st, err) && tni_failover(s, st, err));
  return st;
}

/* --- verbs ------------------------------------------------------------------------------------------------------- */

tn_status tn_session_truncate(tn_session *s, int64_t n, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(s);
  s = tni_session_now(s);
  if (!s->keep || s->keep->slots || n < 0 || n > s->keep->length)
    return tni_fail(err, TN_E_INVALID, s->model->path, "cannot keep %lld of %lld positions", (long long)n,
                    (long long)tn_session_length(s));
  tn_status st = tni_states_hold(s, n, err);
  if (st == TN_OK) st = tni_fixed_can_rewind(s, n, err);
  if (st != TN_OK) return st;
  tni_fixed_rewind(s, n);
  if (n == 0) tni_states_forget(s);
  s->keep->gaps = s->keep->gaps && n;
  s->keep->length = n;
  tni_feed_clear(s);
  return TN_OK;
}

/* One model, or one that was placed again for the other (failover.h): then the caches may be kept otherwise. */
static bool are_related(const tn_model *a, const tn_model *b) {
  bool found = false;
  for (const tn_model *m = a; m; m = m->next) found = found || m == b;
  for (const tn_model *m = b; m; m = m->next) found = found || m == a;
  return found;
}

tn_status tn_session_share(tn_session *dst, const tn_session *src, int64_t n, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(dst);
  TNI_NOT_NULL(src);
  dst = tni_session_now(dst);
  src = tni_session_now(src);
  const tn_model *m = dst->model;
  if (!dst->keep || !src->keep || dst->keep->slots || src->keep->slots || !are_related(m, src->model) || dst->keep->batch != src->keep->batch)
    return tni_fail(err, TN_E_INVALID, m->path, "the sessions do not keep caches of one model and batch");
  if (n < 0 || n > src->keep->length || n > dst->keep->limit)
    return tni_fail(err, TN_E_INVALID, m->path, "cannot share %lld of %lld positions", (long long)n,
                    (long long)src->keep->length);
  if (dst == src) return tn_session_truncate(dst, n, err);
  tn_status st = tni_states_hold(src, n, err);
  if (st == TN_OK) st = m == src->model ? tni_states_share(dst, src, n, err) : tni_states_move(dst, src, n, err);
  if (st == TN_OK) st = tni_feed_share(dst, src, n, err);
  if (st == TN_OK) st = tni_fixed_share(dst, src, n, err);
  if (st != TN_OK) return st;
  dst->keep->length = n;
  dst->keep->gaps = src->keep->gaps && n;
  tni_long_share(dst, src);
  tni_feed_clear(dst);
  return TN_OK;
}
