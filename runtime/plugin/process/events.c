/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/process/events.h"

#include <string.h>

#include "runtime/base/base.h"
#include "runtime/plugin/process/turns.h"

/* --- questions --------------------------------------------------------------------------------------------------- */

static bool fits_frame(int64_t n, uint64_t each) {
  int64_t bytes;
  return each <= TNI_ISO_WINDOW && tni_mul_i64(n, (int64_t)each, &bytes) && bytes <= TNI_ISO_WINDOW;
}

static tn_status send_rows(tni_conn *c, const tn_weight *w, int64_t n0, int64_t n1) {
  if (!w || n0 < 0 || n1 < n0 || n1 > w->N || w->K < 0 || !fits_frame(n1 - n0, (uint64_t)w->K * sizeof(float)))
    return TN_E_INVALID;
  return w->rows(w, n0, n1, (float *)(void *)c->window);
}

/* Scales, zeros and codes, one after the other; of steps parents follow the zeros, and indices the codes. */
static tn_status send_grid(tni_conn *c, const tn_weight *w, int64_t n0, int64_t n1) {
  const tn_quant *q = w ? w->quant : NULL;
  if (!q || !q->group || n0 < 0 || n1 < n0 || n1 > w->N || w->K < 0) return TN_E_INVALID;
  const int64_t blocks = (w->K + q->group - 1) / q->group, n = n1 - n0;
  const bool stepped = TN_HAS(q, tn_quant, stepped) && q->stepped;
  const int64_t vec = TN_HAS(q, tn_quant, vec) && q->vec ? q->vec : 1, row_codes = (w->K + vec - 1) / vec;
  const uint64_t floats = 2 * (uint64_t)blocks + stepped;
  if (!fits_frame(n, floats * sizeof(float) + (uint64_t)(row_codes + (stepped ? blocks : 0)))) return TN_E_INVALID;
  float *f = (float *)(void *)c->window;
  uint8_t *codes = (uint8_t *)(f + n * (int64_t)floats);
  const tn_status st = q->grid(q, n0, n1, codes, f, f + n * blocks);
  return st == TN_OK && stepped ? q->stepped(q, n0, n1, codes + n * row_codes, f + 2 * n * blocks) : st;
}

static tn_status read_blob(tni_conn *c, const tn_blob *b, int64_t offset, int64_t n) {
  if (!b || !b->read || offset < 0 || n < 0 || n > TNI_ISO_WINDOW || (uint64_t)offset > b->bytes ||
      (uint64_t)n > b->bytes - (uint64_t)offset)
    return TN_E_INVALID;
  return b->read(b, (uint64_t)offset, (uint64_t)n, c->window);
}

/* What it is about stays until it has been read; the answer goes out after that, so that the child's next message finds
 * no question open. */
static bool answer_question(tni_conn *c, tni_rd *r) {
  const uint32_t id = tni_r_u32(r);
  const int64_t a = tni_r_i64(r), b = tni_r_i64(r);
  const tn_weight *weight;
  const tn_blob *blob;
  if (!tni_rd_whole(r) || !tni_turn_asked(c, r->kind, id, &weight, &blob)) return false;
  const tn_status st = r->kind == TNI_ISO_ROWS   ? send_rows(c, weight, a, b)
                       : r->kind == TNI_ISO_GRID ? send_grid(c, weight, a, b)
                                                 : read_blob(c, blob, a, b);
  tni_turn_asked_end(c);
  tni_wire w = {.n = 0};
  tni_w_u32(&w, (uint32_t)st);
  const tn_status sent = tni_wire_send(c->child.channel, r->kind, 0, &w, tni_now_ns() + c->timeout_ns);
  tni_wire_finish(&w);
  return sent == TN_OK;
}

/* --- the rest ---------------------------------------------------------------------------------------------------- */

uint32_t tni_conn_ticket(tni_conn *c, tn_ticket *t) {
  uint32_t n = 0;
  pthread_mutex_lock(&c->state);
  while (n < TNI_CONN_TICKETS && c->tickets[n]) n++;
  if (c->dead) n = TNI_CONN_TICKETS;
  if (n < TNI_CONN_TICKETS) c->tickets[n] = t;
  pthread_mutex_unlock(&c->state);
  return n < TNI_CONN_TICKETS ? n : UINT32_MAX;
}

static tn_ticket *take_ticket(tni_conn *c, uint32_t n) {
  pthread_mutex_lock(&c->state);
  tn_ticket *t = n < TNI_CONN_TICKETS ? c->tickets[n] : NULL;
  if (t) {
    c->tickets[n] = NULL;
    c->completing = n + 1;
  }
  pthread_mutex_unlock(&c->state);
  return t;
}

static void complete_ticket(tni_conn *c, tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err) {
  c->o->host->done(t, st, times, err);
  pthread_mutex_lock(&c->state);
  c->completing = 0;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->state);
}

bool tni_conn_tickets_drop(tni_conn *c, const uint32_t *numbers, uint32_t n) {
  bool all = true;
  pthread_mutex_lock(&c->state);
  for (uint32_t i = 0; i < n; i++) all = all && c->tickets[numbers[i]];
  for (uint32_t i = 0; all && i < n; i++) c->tickets[numbers[i]] = NULL;
  pthread_mutex_unlock(&c->state);
  return all;
}

static bool run_done(tni_conn *c, tni_rd *r) {
  const uint32_t number = tni_r_u32(r);
  const tn_status st = (tn_status)tni_r_u32(r);
  const void *times = tni_r_bytes(r, sizeof(tn_times));
  tn_times t;
  tn_error err;
  tni_r_error(r, &err);
  if (!tni_rd_whole(r) || !times) return false;
  memcpy(&t, times, sizeof t);
  t.h = (tn_hdr)TN_HDR(tn_times);
  tn_ticket *ticket = take_ticket(c, number);
  if (!ticket) return false;
  complete_ticket(c, ticket, st, &t, st == TN_OK ? NULL : &err);
  return true;
}

/* Before any of the plugin's code ran: the process's own number and what confines it. */
static bool note_walls(tni_conn *c, tni_rd *r) {
  const int pid = (int)tni_r_u32(r);
  const tni_walls w = {.level = tni_r_u32(r), .stand = tni_r_u32(r), .landlock = tni_r_u32(r)};
  if (!tni_rd_whole(r)) return false;
  pthread_mutex_lock(&c->state);
  c->pid = pid;
  c->walls = w;
  pthread_mutex_unlock(&c->state);
  return true;
}

static bool log_line(tni_conn *c, tni_rd *r) {
  tni_arena *a = tni_arena_create();
  const uint32_t level = tni_r_u32(r);
  const char *line = a ? tni_r_str(r, a, TNI_ISO_MAX_TEXT) : NULL;
  const bool ok = tni_rd_whole(r) && line;
  if (ok) {
    /* The child's own services have put the name before it. */
    const size_t n = strlen(c->name);
    if (strncmp(line, c->name, n) == 0 && line[n] == ':' && line[n + 1] == ' ') line += n + 2;
    c->o->host->log(c->o->host->ctx, level, line);
  }
  tni_arena_destroy(a);
  return ok;
}

static bool take_event(tni_conn *c, tni_rd *r) {
  switch (r->kind) {
    case TNI_ISO_LOG:
      return tni_turn_said(c, r->kind) && log_line(c, r);
    case TNI_ISO_DONE:
      return tni_turn_said(c, r->kind) && run_done(c, r);
    case TNI_ISO_WALLS:
      return tni_turn_said(c, r->kind) && note_walls(c, r);
    case TNI_ISO_ROWS:
    case TNI_ISO_GRID:
    case TNI_ISO_READ:
      return answer_question(c, r);
    default:
      return false;
  }
}

bool tni_event_take(tni_conn *c, tni_rd *r) {
  if (r->n_fds || !take_event(c, r)) {
    tni_conn_fail(c, "it sent a message that is none, or not at this time (kind %u)", r->kind);
    return false;
  }
  pthread_mutex_lock(&c->state);
  c->events++;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->state);
  return true;
}

void tni_event_all_lost(tni_conn *c) {
  tn_error err;
  tni_error_init(&err);
  (void)!tni_conn_lost(c, &err);
  for (uint32_t i = 0; i < TNI_CONN_TICKETS; i++) {
    tn_ticket *t = take_ticket(c, i);
    if (t) complete_ticket(c, t, TN_E_DEVICE_LOST, NULL, &err);
  }
  pthread_mutex_lock(&c->state);
  c->ended = true;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->state);
}

void tni_conn_await_end(tni_conn *c) {
  pthread_mutex_lock(&c->state);
  while (!c->ended) pthread_cond_wait(&c->changed, &c->state);
  pthread_mutex_unlock(&c->state);
}
