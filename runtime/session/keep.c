/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/keep.h"

#include <string.h>

#include "runtime/memory/memory.h"
#include "runtime/session/deadline.h"
#include "runtime/session/feed.h"
#include "runtime/session/fixed.h"
#include "runtime/session/long_text.h"
#include "runtime/session/pieces.h"
#include "runtime/session/slots.h"
#include "runtime/session/state.h"

int64_t tn_session_max_step(const tn_session *s) {
  if (!s) return 0;
  s = tni_session_now(s);
  return s->keep ? s->keep->max_step : 0;
}

int64_t tn_session_length(const tn_session *s) {
  if (!s) return 0;
  s = tni_session_now(s);
  return s->keep ? s->keep->length : 0;
}

/* Room for single positions too: a kernel may want more scratch for one than for many. What takes single ones only is
 * planned for them. */
static tn_status reserve_kept(tn_session *s, tn_error *err) {
  const tn_model *m = s->model;
  tni_keep *k = s->keep;
  const int64_t total = tni_chunk_total(m, k->capacity, k->capacity);
  const int64_t chunk = tni_model_chunk(m), most = chunk ? chunk : k->max_step;
  tn_status st = tni_feed_size(s, k->fed, 1, err);
  if (st == TN_OK) st = tni_long_find(s, err);
  if (st == TN_OK) st = tni_feed_bind(s, k->fed, 1, total, 1, 1, err);
  if (st == TN_OK) st = tni_states_fit(s, s->dims, k->capacity, most, true, err);
  for (uint32_t i = 0; st == TN_OK && i < m->n_execs; i++) {
    if (!tni_exec_takes(m, s->execs[i].exec, 1)) continue;
    st = tni_exec_takes(m, s->execs[i].exec, most) ? tni_memory_reserve(s, &s->execs[i], s->dims, err)
                                                   : tni_memory_plan(s, &s->execs[i], s->dims, err);
  }
  if (k->slots) tni_slots_aim(s, 0, 1, 0, total); /* a prompt is one slot's */
  if (st == TN_OK) st = tni_feed_size(s, k->fed, most, err);
  if (st == TN_OK) st = tni_feed_bind(s, k->fed, most, total, 1, most, err);
  for (uint32_t i = 0; st == TN_OK && i < m->n_execs; i++)
    if (tni_exec_takes(m, s->execs[i].exec, most)) st = tni_memory_plan(s, &s->execs[i], s->dims, err);
  return st;
}

static tn_status check_keep(const tn_session *s, const tni_keep *k, tn_error *err) {
  const tn_model *m = s->model;
  if (m->roles.why_not) return tni_fail(err, TN_E_UNSUPPORTED, m->path, "%s", m->roles.why_not);
  if (k->batch < 1 || k->capacity < 1 || k->max_step < 1 || k->max_step > k->capacity)
    return tni_fail(err, TN_E_INVALID, m->path, "batch %lld, capacity %lld and max_step %lld make no session",
                    (long long)k->batch, (long long)k->capacity, (long long)k->max_step);
  return TN_OK;
}

tn_status tni_keep_make(tn_session *s, const tn_keep_opts *o, tn_error *err) {
  tn_keep_opts mine;
  tn_status st = tni_take(&mine, sizeof mine, o, "tn_keep_opts", err);
  if (st == TN_OK) st = tni_known_bits(mine.flags, TN_KEEP_SLOTS, "tn_keep_opts.flags", err);
  if (st == TN_OK) st = tni_known_bits(mine.reserved, 0, "tn_keep_opts.reserved", err);
  if (st != TN_OK) return st;
  const char *refusal = mine.flags & TN_KEEP_SLOTS ? tni_slots_refusal(s->model) : NULL;
  if (refusal) return tni_fail(err, TN_E_UNSUPPORTED, s->model->path, "no sequences of lengths of their own: %s", refusal);
  tni_keep k = {.batch = mine.batch ? mine.batch : 1, .capacity = mine.capacity ? mine.capacity : s->model->max_seq};
  const int64_t fixed = tni_model_chunk(s->model);
  k.max_step = mine.max_step ? mine.max_step : fixed ? k.capacity : tni_chunk_step(s->model, k.capacity);
  k.limit = k.capacity;
  st = check_keep(s, &k, err);
  if (st != TN_OK) return st;
  if (__builtin_add_overflow(k.capacity, fixed, &(int64_t){0}))
    return tni_fail(err, TN_E_INVALID, s->model->path, "a capacity of %lld", (long long)k.capacity);
  k.capacity = tni_chunk_capacity(s->model, k.capacity);
  s->keep = TNI_NEW(s->mem, tni_keep);
  if (!s->keep) return tni_fail_memory(err, s->model->path);
  *s->keep = k;
  if (mine.flags & TN_KEEP_SLOTS) st = tni_slots_make(s, err);
  if (st == TN_OK) st = tni_feed_make(s, &s->keep->fed, err);
  if (st == TN_OK) st = reserve_kept(s, err);
  return st == TN_OK && fixed ? tni_pieces_plan(s, err) : st;
}

void tni_keep_release(tn_session *s) {
  if (!s->keep) return;
  tni_feed_release(s->model, s->keep->fed);
  tni_fixed_release(s);
}

/* Calls into a device that hangs would not come back: then the memory stays where it is. */
void tni_keep_undo(tn_session *s) {
  if (s->keep && !tni_model_hangs(s->model)) {
    tni_pieces_release(s);
    tni_states_drop(s);
    tni_keep_release(s);
  }
  s->keep = NULL;
  s->tables = NULL;
  s->n_row_pos = 0;
}
