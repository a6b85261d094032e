/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/process/turns.h"

#include <stdlib.h>
#include <string.h>

enum { LOG = 1, DONE = 2, ROWS = 4, GRID = 8, READ = 16, WALLS = 32 };

/* Engines complete and blobs are read at any time once there are devices; weights are lent for a call. */
enum { ALWAYS = LOG | DONE | READ, LENT = ALWAYS | ROWS | GRID };

static const uint8_t allowed[TNI_ISO_CALLS + 1] = {
    [0] = ALWAYS,
    [TNI_ISO_START] = LOG | WALLS,
    [TNI_ISO_STOP] = ALWAYS,
    [TNI_ISO_MAP] = ALWAYS,
    [TNI_ISO_UNMAP] = ALWAYS,
    [TNI_ISO_SIZE] = ALWAYS,
    [TNI_ISO_NUMERICS] = ALWAYS,
    [TNI_ISO_PACK] = LENT,
    [TNI_ISO_PACK_ROWS] = LENT,
    [TNI_ISO_PACK_END] = LENT,
    [TNI_ISO_UNPACK] = ALWAYS,
    [TNI_ISO_GRAPH] = ALWAYS,
    [TNI_ISO_CLAIM] = LENT,
    [TNI_ISO_LOWER] = LENT,
    [TNI_ISO_MEASURE] = ALWAYS,
    [TNI_ISO_SET] = ALWAYS,
    [TNI_ISO_RELEASE] = ALWAYS,
    [TNI_ISO_BIND] = ALWAYS,
    [TNI_ISO_UNBIND] = ALWAYS,
    [TNI_ISO_ARGS] = ALWAYS,
    [TNI_ISO_ARGS_SET] = ALWAYS,
    [TNI_ISO_ARGS_FREE] = ALWAYS,
    [TNI_ISO_ENGINE] = ALWAYS,
    [TNI_ISO_CREATE] = ALWAYS,
    [TNI_ISO_DESTROY] = ALWAYS,
    [TNI_ISO_BUF_MAP] = ALWAYS,
    [TNI_ISO_RESOURCES] = ALWAYS,
    [TNI_ISO_CALLS] = LOG,
};

bool tni_turn_allows(uint32_t call, uint32_t event) {
  static const uint8_t bits[] = {LOG, DONE, ROWS, GRID, READ, WALLS};
  return event >= TNI_ISO_LOG && event < TNI_ISO_EVENTS && call <= TNI_ISO_CALLS &&
         allowed[call] & bits[event - TNI_ISO_LOG];
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

void tni_turn_begin(tni_conn *c, uint32_t call, const tn_graph *g) {
  pthread_mutex_lock(&c->state);
  c->turn = call;
  c->graph = g;
  c->at_call = c->events;
  pthread_mutex_unlock(&c->state);
}

bool tni_turn_end(tni_conn *c) {
  pthread_mutex_lock(&c->state);
  const bool open = c->asking == TNI_ISO_ROWS || c->asking == TNI_ISO_GRID; /* READ may be a run's */
  c->turn = c->turn == TNI_ISO_STOP ? TNI_ISO_CALLS : 0;
  while (c->pinned & TNI_ISO_VALUE) pthread_cond_wait(&c->changed, &c->state);
  c->graph = NULL;
  pthread_mutex_unlock(&c->state);
  return !open;
}

/* --- what is lent ------------------------------------------------------------------------------------------------ */

static uint32_t free_slot(tni_conn *c) {
  uint32_t i = 0;
  while (i < c->n_asked && c->asked[i].id) i++;
  if (i < c->n_asked) return i;
  const uint32_t n = c->n_asked ? c->n_asked * 2 : 64;
  tni_conn_asked *grown = realloc(c->asked, n * sizeof *grown);
  if (!grown) return UINT32_MAX;
  memset(grown + c->n_asked, 0, (n - c->n_asked) * sizeof *grown);
  c->asked = grown;
  c->n_asked = n;
  return i;
}

uint32_t tni_conn_offer(tni_conn *c, const tn_weight *w, const tn_blob *b) {
  uint32_t id = 0;
  pthread_mutex_lock(&c->state);
  const uint32_t i = free_slot(c);
  if (i != UINT32_MAX) {
    id = c->next_id++ % TNI_ISO_VALUE;
    if (!id) id = c->next_id++ % TNI_ISO_VALUE;
    c->asked[i] = (tni_conn_asked){id, w, b};
  }
  pthread_mutex_unlock(&c->state);
  return id;
}

void tni_conn_withdraw(tni_conn *c, uint32_t id) {
  if (!id) return;
  pthread_mutex_lock(&c->state);
  for (uint32_t i = 0; i < c->n_asked; i++)
    if (c->asked[i].id == id) c->asked[i].id = 0;
  while (c->pinned == id)
    pthread_cond_wait(&c->changed, &c->state); /* the host itself is reading: it comes to an end */
  pthread_mutex_unlock(&c->state);
}

/* --- what the child says ----------------------------------------------------------------------------------------- */

static void find_asked(const tni_conn *c, uint32_t id, const tn_weight **weight, const tn_blob **blob) {
  const uint32_t value = id & (TNI_ISO_VALUE - 1);
  *weight = NULL;
  *blob = NULL;
  if (id & TNI_ISO_VALUE) {
    if (c->graph && value < c->graph->n_values) *weight = c->graph->values[value]->data;
    return;
  }
  for (uint32_t i = 0; id && i < c->n_asked; i++)
    if (c->asked[i].id == id) {
      *weight = c->asked[i].weight;
      *blob = c->asked[i].blob;
    }
}

bool tni_turn_asked(tni_conn *c, uint32_t event, uint32_t id, const tn_weight **weight, const tn_blob **blob) {
  pthread_mutex_lock(&c->state);
  const bool ok = !c->dead && !c->asking && tni_turn_allows(c->turn, event);
  *weight = NULL;
  *blob = NULL;
  if (ok) {
    find_asked(c, id, weight, blob);
    c->asking = event;
    c->pinned = *weight || *blob ? id : 0;
  }
  pthread_mutex_unlock(&c->state);
  return ok;
}

void tni_turn_asked_end(tni_conn *c) {
  pthread_mutex_lock(&c->state);
  c->asking = 0;
  c->pinned = 0;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->state);
}

bool tni_turn_said(tni_conn *c, uint32_t event) {
  pthread_mutex_lock(&c->state);
  const bool ok = tni_turn_allows(c->turn, event) && !(event == TNI_ISO_WALLS && c->introduced);
  if (event == TNI_ISO_WALLS) c->introduced = true;
  pthread_mutex_unlock(&c->state);
  return ok;
}
