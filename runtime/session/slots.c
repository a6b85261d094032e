/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/slots.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/session/feed.h"
#include "runtime/session/fixed.h"
#include "runtime/session/keep.h"
#include "runtime/session/state.h"

/* --- which models ------------------------------------------------------------------------------------------------ */

/* An input's axes but the first are the model's own, or (rank from `from` on) the step's. */
static bool has_sequences(const tn_model *m, uint32_t i, uint32_t step) {
  const tni_value *v = tni_graph_value(m->graph, m->graph->inputs[i]);
  int64_t fixed;
  for (uint32_t a = 0; a < v->pub.rank; a++)
    if (a != step && tni_ex_is_const(m->graph->exprs, v->pub.dims[a], &fixed) == (a == 0)) return false;
  return v->pub.rank > 0 && step != 0;
}

static bool is_constant(const tn_model *m, uint32_t i) {
  const tni_value *v = tni_graph_value(m->graph, m->graph->inputs[i]);
  int64_t fixed;
  for (uint32_t a = 0; a < v->pub.rank; a++)
    if (!tni_ex_is_const(m->graph->exprs, v->pub.dims[a], &fixed)) return false;
  return true;
}

const char *tni_slots_refusal(const tn_model *m) {
  if (m->roles.why_not) return m->roles.why_not;
  if (m->roles.exact) return m->roles.exact;
  if (m->flags & (TN_MODEL_REFERENCE | TN_MODEL_CAPTURE)) return "the model is watched, all sequences together";
  if (tni_model_chunk(m)) return "a device takes steps of certain lengths only";
  for (uint32_t k = 0; m->state_users && k < m->graph->n_states; k++)
    if (m->state_users[k].devices || m->state_users[k].process) return "a device or another process holds the caches";
  for (uint32_t i = 0; i < m->n_inputs; i++) {
    const uint8_t kind = m->roles.kinds[i];
    const uint32_t rank = tni_graph_value(m->graph, m->graph->inputs[i])->pub.rank;
    if (kind == TNI_IN_PLAIN && tni_feed_axis(m, i) == rank ? !is_constant(m, i)
        : kind == TNI_IN_PLAIN                              ? !has_sequences(m, i, tni_feed_axis(m, i))
        : kind == TNI_IN_STATE                              ? !has_sequences(m, i, rank)
                                                            : false)
      return "an input is the same for all sequences";
  }
  return NULL;
}

int tn_model_has_slots(const tn_model *m) { return m && tni_slots_refusal(m) == NULL; }

/* --- life -------------------------------------------------------------------------------------------------------- */

tn_status tni_slots_make(tn_session *s, tn_error *err) {
  const uint32_t n = (uint32_t)s->keep->batch, n_states = s->model->graph->n_states;
  tni_sequences *t = TNI_NEW(s->mem, tni_sequences);
  int64_t *length = TNI_NEW_ARRAY(s->mem, int64_t, n), *held = TNI_NEW_ARRAY(s->mem, int64_t, (size_t)n * n_states + 1);
  int64_t *rows = realloc(s->row_pos, n * sizeof *rows);
  if (rows) s->row_pos = rows;
  if (!t || !length || !held || !rows) return tni_fail_memory(err, s->model->path);
  *t = (tni_sequences){.n = n, .length = length, .held = held};
  s->keep->slots = t;
  return TN_OK;
}

static bool is_state(const tn_session *s, uint32_t i) { return s->model->roles.kinds[i] == TNI_IN_STATE; }

uint64_t tni_slots_state_bytes(const tn_session *s, uint32_t i) { return s->keep->fed[i].room / s->keep->slots->n; }

static void aim_context(const tni_keep *k, tni_fed *f, uint32_t first, int64_t n, int64_t total) {
  f->t.dims[0] = k->batch;
  f->t.dims[1] = total;
  f->t.bytes = (uint64_t)(k->batch * total) * tni_feed_elem(&f->t);
  for (int64_t b = 0; b < k->batch; b++) tni_feed_ones(f, b, k->slots->length[first + b] + n);
}

void tni_slots_aim(tn_session *s, uint32_t first, uint32_t count, int64_t n, int64_t total) {
  tni_keep *k = s->keep;
  k->batch = count;
  k->slots->first = first;
  for (uint32_t i = 0; i < s->model->n_inputs; i++) {
    tni_fed *f = &k->fed[i];
    if (s->model->roles.kinds[i] == TNI_IN_CONTEXT) aim_context(k, f, first, n, total);
    if (!is_state(s, i)) continue;
    f->t.dims[0] = count;
    f->t.bytes = count * tni_slots_state_bytes(s, i);
    f->t.data = (char *)f->data + first * tni_slots_state_bytes(s, i);
  }
  s->n_row_pos = count;
  memcpy(s->row_pos, k->slots->length + first, count * sizeof *s->row_pos);
  s->pos = s->row_pos[0];
  s->valid = s->pos + n;
}

/* --- verbs ------------------------------------------------------------------------------------------------------- */

int64_t *tni_slots_held(const tn_session *s, uint32_t slot) {
  return s->keep->slots->held + (size_t)slot * s->model->graph->n_states;
}

static tn_status check_slot(const tn_session *s, uint32_t slot, int64_t n, tn_error *err) {
  const tni_sequences *t = s->keep ? s->keep->slots : NULL;
  if (!t) return tni_fail(err, TN_E_INVALID, s->model->path, "the session does not keep its caches in slots");
  if (slot >= t->n) return tni_fail(err, TN_E_INVALID, s->model->path, "slot %u of %u", slot, t->n);
  if (n >= 0 && n <= t->length[slot]) return TN_OK;
  return tni_fail(err, TN_E_INVALID, s->model->path, "cannot keep %lld of %lld positions of slot %u", (long long)n,
                  (long long)t->length[slot], slot);
}

/* Whether a slot's state can be at n positions. */
static tn_status can_be_at(tn_session *s, uint32_t slot, int64_t n, tn_error *err) {
  if (n == s->keep->slots->length[slot] || n == 0) return TN_OK;
  if (s->model->roles.n_fixed)
    return tni_fail(
        err, TN_E_LIMIT, s->model->path,
        "slot %u cannot go back from position %lld to %lld: a state holds all positions at once; go back to 0 "
        "and run the tokens again",
        slot, (long long)s->keep->slots->length[slot], (long long)n);
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) s->states[k].held = tni_slots_held(s, slot)[k];
  return tni_states_hold(s, n, err);
}

void tni_slots_clear(tn_session *s, uint32_t slot) {
  for (uint32_t i = 0; i < s->model->n_inputs; i++)
    if (is_state(s, i))
      memset((char *)s->keep->fed[i].data + slot * tni_slots_state_bytes(s, i), 0, tni_slots_state_bytes(s, i));
  memset(tni_slots_held(s, slot), 0, s->model->graph->n_states * sizeof(int64_t));
}

int64_t tn_session_slot_length(const tn_session *s, uint32_t slot) {
  if (!s) return 0;
  s = tni_session_now(s);
  const tni_sequences *t = s->keep ? s->keep->slots : NULL;
  return t && slot < t->n ? t->length[slot] : 0;
}

tn_status tn_session_slot_truncate(tn_session *s, uint32_t slot, int64_t n, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(s);
  s = tni_session_now(s);
  tn_status st = check_slot(s, slot, n, err);
  if (st == TN_OK) st = can_be_at(s, slot, n, err);
  if (st != TN_OK) return st;
  if (n == 0) tni_slots_clear(s, slot);
  s->keep->slots->length[slot] = n;
  return TN_OK;
}

/* Positions [first, n) of one cache from a slot to another. */
static void copy_positions(const tni_sstate *c, uint32_t to, uint32_t from, int64_t first, int64_t n) {
  const tni_rows *t = &c->rows;
  const bool dense = !t->ring && t->strides[2] == (int64_t)t->row_bytes;
  for (int64_t h = 0; h < t->dims[1]; h++) {
    char *dst = (char *)c->t.data + to * t->strides[0] + h * t->strides[1];
    const char *src = (const char *)c->t.data + from * t->strides[0] + h * t->strides[1];
    if (dense) {
      memcpy(dst + first * t->strides[2], src + first * t->strides[2], (size_t)(n - first) * t->row_bytes);
      continue;
    }
    for (int64_t p = first; p < n; p++) {
      const int64_t row = (t->ring ? p % t->ring : p) * t->strides[2];
      memcpy(dst + row, src + row, t->row_bytes);
    }
  }
}

tn_status tn_session_slot_copy(tn_session *s, uint32_t to, uint32_t from, int64_t n, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(s);
  s = tni_session_now(s);
  tn_status st = check_slot(s, to, 0, err);
  if (st == TN_OK) st = check_slot(s, from, n, err);
  if (st == TN_OK && to == from) st = tni_fail(err, TN_E_INVALID, s->model->path, "slot %u to itself", to);
  if (st == TN_OK) st = can_be_at(s, from, n, err);
  if (st != TN_OK) return st;
  tni_slots_clear(s, to);
  s->keep->slots->length[to] = n;
  if (n == 0) return TN_OK;
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
    const tni_sstate *c = &s->states[k];
    const int64_t ring = c->rows.ring ? n - c->rows.ring : 0, has = tni_slots_held(s, from)[k];
    const int64_t first = ring > has ? ring : has;
    copy_positions(c, to, from, first, n);
    tni_slots_held(s, to)[k] = first;
  }
  for (uint32_t i = 0; i < s->model->n_inputs; i++)
    if (is_state(s, i))
      memcpy((char *)s->keep->fed[i].data + to * tni_slots_state_bytes(s, i),
             (char *)s->keep->fed[i].data + from * tni_slots_state_bytes(s, i), tni_slots_state_bytes(s, i));
  return TN_OK;
}

void tni_slots_wrote(tn_session *s, int64_t n) {
  const tni_sequences *t = s->keep->slots;
  for (int64_t b = 0; b < s->keep->batch; b++)
    for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
      int64_t *held = &tni_slots_held(s, t->first + (uint32_t)b)[k];
      const int64_t ring = s->states[k].rows.ring, from = t->length[t->first + b] + n - ring;
      if (ring && from > *held) *held = from;
    }
}

/* Rings of one size hold the same positions in the same rows, whatever the lengths. */
tn_status tni_slots_move(tn_session *to, tn_session *from, tn_error *err) {
  const tni_sequences *t = from->keep->slots;
  const uint32_t n_states = from->model->graph->n_states;
  int64_t longest = 0;
  for (uint32_t i = 0; i < t->n; i++) longest = t->length[i] > longest ? t->length[i] : longest;
  for (uint32_t k = 0; k < n_states; k++) {
    if (to->states[k].rows.ring != from->states[k].rows.ring)
      return tni_fail(err, TN_E_DEVICE_LOST, from->model->path, "placed again, the model keeps other rings");
    from->states[k].held = 0;
  }
  const tn_status st = tni_states_move(to, from, longest, err);
  if (st != TN_OK) return st;
  for (uint32_t i = 0; i < from->model->n_inputs; i++)
    if (is_state(from, i)) memcpy(to->keep->fed[i].data, from->keep->fed[i].data, from->keep->fed[i].room);
  memcpy(to->keep->slots->length, t->length, t->n * sizeof *t->length);
  memcpy(to->keep->slots->held, t->held, (size_t)t->n * n_states * sizeof *t->held);
  return TN_OK;
}
