/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/slot_rows.h"

#include <string.h>

#include "runtime/memory/memory.h"
#include "runtime/session/keep.h"
#include "runtime/session/slots.h"

static bool is_state(const tn_session *s, uint32_t i) { return s->model->roles.kinds[i] == TNI_IN_STATE; }

void tni_slot_form_of(const tn_session *s, tni_slot_form *f) {
  s = tni_session_now(s);
  *f = (tni_slot_form){.of = s};
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
    const tni_rows *t = &s->states[k].rows;
    *(t->ring ? &f->ring_bytes : &f->row_bytes) += (uint64_t)t->dims[1] * t->row_bytes;
  }
  for (uint32_t i = 0; i < s->model->n_inputs; i++)
    if (is_state(s, i)) f->state_bytes += tni_slots_state_bytes(s, i);
}

/* A query at position n looks back to here. */
static int64_t looks_to(const tn_session *s, uint32_t k, int64_t n) {
  const int64_t window = s->model->state_windows[k];
  return window >= 0 && window < n ? n - window : 0;
}

int64_t tni_slot_needs(const tn_session *s, int64_t n) {
  s = tni_session_now(s);
  int64_t first = n;
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
    const int64_t from = looks_to(s, k, n);
    if (s->states[k].rows.ring && from < first) first = from;
  }
  return first;
}

int64_t tni_slot_back(const tn_session *s, uint32_t slot) {
  s = tni_session_now(s);
  int64_t first = 0;
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
    const int64_t held = tni_slots_held(s, slot)[k], window = s->model->state_windows[k];
    if (s->states[k].rows.ring && held && held + window > first) first = held + window;
  }
  return first;
}

/* One head's rows, between a cache and a block. */
static void copy_head(const tni_rows *t, char *head, int64_t first, int64_t n, char *block, bool out) {
  if (!t->ring && t->strides[2] == (int64_t)t->row_bytes) {
    char *at = head + first * t->strides[2];
    memcpy(out ? block : at, out ? at : block, (size_t)n * t->row_bytes);
    return;
  }
  for (int64_t p = first; p < first + n; p++, block += t->row_bytes) {
    char *at = head + (t->ring ? p % t->ring : p) * t->strides[2];
    memcpy(out ? block : at, out ? at : block, t->row_bytes);
  }
}

/* rows: of a block; n of them are copied. */
static void copy_caches(const tn_session *s, uint32_t slot, bool rings, int64_t first, int64_t n, int64_t rows,
                        char *block, bool out) {
  for (uint32_t k = 0; k < s->model->graph->n_states; k++) {
    const tni_sstate *c = &s->states[k];
    if ((c->rows.ring != 0) != rings) continue;
    for (int64_t h = 0; h < c->rows.dims[1]; h++, block += (uint64_t)rows * c->rows.row_bytes)
      copy_head(&c->rows, (char *)c->t.data + slot * c->rows.strides[0] + h * c->rows.strides[1], first, n, block, out);
  }
}

static void copy_states(const tn_session *s, uint32_t slot, char *block, bool out) {
  for (uint32_t i = 0; i < s->model->n_inputs; i++) {
    if (!is_state(s, i)) continue;
    const uint64_t bytes = tni_slots_state_bytes(s, i);
    char *at = (char *)s->keep->fed[i].data + slot * bytes;
    memcpy(out ? block : at, out ? at : block, bytes);
    block += bytes;
  }
}

void tni_slot_read(const tn_session *s, uint32_t slot, tni_slot_part part, int64_t first, int64_t n, void *dst) {
  s = tni_session_now(s);
  if (part == TNI_SLOT_STATES)
    copy_states(s, slot, dst, true);
  else
    copy_caches(s, slot, part == TNI_SLOT_RINGS, first, n, n, dst, true);
}

void tni_slot_write(tn_session *s, uint32_t slot, tni_slot_part part, int64_t first, int64_t n, int64_t rows,
                    const void *src) {
  char *block = (char *)(uintptr_t)src;
  s = tni_session_now(s);
  if (part == TNI_SLOT_STATES)
    copy_states(s, slot, block, false);
  else
    copy_caches(s, slot, part == TNI_SLOT_RINGS, first, n, rows, block, false);
}

void tni_slot_begin(tn_session *s, uint32_t slot, int64_t n) {
  s = tni_session_now(s);
  tni_slots_clear(s, slot);
  s->keep->slots->length[slot] = n;
  for (uint32_t k = 0; k < s->model->graph->n_states; k++)
    if (s->states[k].rows.ring) tni_slots_held(s, slot)[k] = looks_to(s, k, n);
}
