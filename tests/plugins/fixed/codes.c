/* SPDX-License-Identifier: Apache-2.0
 *
 * ok_codes: who attends over rows of int8 may make codes and a scale of a query as of a row (tenon/graph.h, tn_layout).
 */
#include <math.h>
#include <stdlib.h>

#include "fixed.h"

tn_id fixed_codes_query(const fixed_device *d, const tn_subgraph *s, tn_id *keys) {
  bool int8 = false;
  for (uint32_t i = 0; i < s->n_states; i++) int8 = int8 || s->layouts[i]->dtype == TN_DT_I8;
  for (uint32_t i = 0; d->wrong == FIXED_ok_codes && int8 && i < s->n_nodes; i++)
    if (s->graph->nodes[s->nodes[i]]->op == TN_OP_ATTENTION) {
      const tn_id *in = s->graph->nodes[s->nodes[i]]->in;
      const tn_id from = s->graph->values[in[1]]->producer; /* what appends: the cache is known by its state before */
      const tn_node *append = from == TN_NONE ? NULL : s->graph->nodes[from];
      *keys = append && append->op == TN_OP_TENSOR_SCATTER ? append->in[0] : in[1];
      return in[0];
    }
  return TN_NONE;
}

bool fixed_codes_attach(fixed_codes *c, tn_view *v) {
  float *room = realloc(c->room, v->bytes ? v->bytes : 1);
  if (!room) return false;
  c->from = v->ptr;
  c->n = v->bytes / sizeof(float);
  v->ptr = c->room = room;
  return true;
}

static void round_row(const float *x, float *y, uint64_t n) {
  float most = 0;
  for (uint64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
  for (uint64_t i = 0; i < n; i++) y[i] = most < 0x1p-120f ? 0 : rintf(x[i] * (127 / most)) * (most / 127);
}

void fixed_codes_make(const fixed_codes *c) {
  for (uint64_t at = 0; c->room && c->size && at < c->n; at += c->size) round_row(c->from + at, c->room + at, c->size);
}
