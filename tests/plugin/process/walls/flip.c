/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that takes ArgMax along axis 0 and has a thread that changes the indices in the memory it shares with the
 * host, for ever: right, far outside of any table, right again.
 */
#include <pthread.h>

#include "tests/faults/corpus/whole.h"

static int64_t *volatile shared;
static volatile int64_t count;

static void *flip_main(void *arg) {
  for (;;) {
    volatile int64_t *at = shared;
    for (int64_t i = 0; at && i < 2 * count; i++) at[i % count] = i < count ? INT64_C(1) << 34 : i % 8;
  }
  return arg;
}

static tn_status flip_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink,
                            tn_error *e) {
  tn_status st = TN_OK;
  (void)d, (void)at, (void)e;
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    const uint32_t verdict = g->nodes[i]->op == TN_OP_ARG_MAX ? TN_YES : TN_NO;
    st = sink->node(sink->ctx, i, &(tn_claim){.h = TN_HDR(tn_claim), .verdict = verdict, .reason = TN_WHY_OP});
  }
  return st;
}

/* One node: whole.h's program without the weight. */
static tn_status flip_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *e) {
  tn_program *p;
  tn_status st = s->n_nodes == 1 ? lower(d, s, &p, e) : TN_E_UNSUPPORTED;
  if (st != TN_OK) return st;
  p->info.n_slots = p->info.n_needs = 0;
  p->uses[0][0].slot = whole_slot(p, s->graph->nodes[s->nodes[0]]->in[0], TN_SLOT_INPUT, TN_NONE);
  p->uses[0][1] = (tn_use){whole_slot(p, s->graph->nodes[s->nodes[0]]->out[0], TN_SLOT_OUTPUT, TN_NONE), TN_WRITE};
  p->tasks[0].n_uses = 2;
  *out = p;
  return TN_OK;
}

static tn_status flip_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  const tn_view *const all[] = {uses[0], uses[0], uses[1], uses[2]};
  return n == 3 ? args(plan, all, 4, out, err) : TN_E_INTERNAL;
}

static tn_status flip_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  return args_set(a, use ? use + 1 : 0, view, err);
}

static tn_status flip_run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  const int64_t n = (int64_t)(a->y.bytes / sizeof(int64_t));
  const float *x = a->x.ptr;
  int64_t *y = a->y.ptr;
  pthread_t thread;
  (void)plan, (void)pool, (void)err;
  for (int64_t i = 0; i < n; i++) {
    int64_t best = 0; /* not y[i], which the thread changes */
    for (int64_t k = 1; k < 8; k++)
      if (x[k * n + i] > x[best * n + i]) best = k;
    y[i] = best;
  }
  count = n;
  if (shared || (shared = y, pthread_create(&thread, NULL, flip_main, NULL) == 0)) return TN_OK;
  return TN_E_INTERNAL;
}

WHOLE(w->device.claim = flip_claim; w->device.lower = flip_lower; w->device.args = flip_args;
      w->device.args_set = flip_set; w->device.run = flip_run)
