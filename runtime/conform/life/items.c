/* SPDX-License-Identifier: Apache-2.0
 *
 * Many items at once: as many as an engine says it takes, those that wait for each other among them. An engine is in
 * order, so a step that it takes alone is one submission.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/engine.h"

enum { ROWS = 3, WAIT_S = 10, MOST = TNI_CF_MAX_ITEMS };

typedef struct items_bench {
  tni_cf_host h;
  tni_cf_rig rig[MOST];
  void *want[MOST][TNI_CN_MAX_OUT];
  uint32_t n;
} items_bench;

static bool all_on_engine(const tni_cf_rig *rig) {
  for (uint32_t t = 0; t < rig->d.info->n_tasks; t++)
    if (rig->d.info->tasks[t]->engine != rig->d.info->tasks[0]->engine || !rig->d.info->tasks[t]->engine) return false;
  return rig->d.info->n_tasks > 0;
}

/* A graph of which every task is one engine's: the chain of two products first. */
static bool find_graph(tni_cf *cf, items_bench *b) {
  const tni_cf_listing *l = cf->listing;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < l->n_claimed; i++) {
      const tni_cf_claimed *c = &l->claimed[i];
      tni_cf_rng r = tni_cf_rng_of(cf, 1);
      if (c->verdict != TN_YES || (pass == 0) != !strcmp(c->graph, "matmul/chain")) continue;
      const bool ok = tni_cf_rig_claim(&b->rig[0], &b->h, tni_cf_graph_find(c->graph), c->phase, &r) &&
                      tni_cf_rig_prepare(&b->rig[0], ROWS, &r);
      if (ok && all_on_engine(&b->rig[0])) return true;
      if (!ok) tni_cf_fail(cf, "%s: %s", c->graph, b->rig[0].why);
      tni_cf_rig_finish(&b->rig[0]);
      if (!ok) return false;
    }
  tni_cf_skip(cf, "no program of it runs on one engine alone");
  return false;
}

static bool keep(tni_cf *cf, tni_cf_rig *rig, void **want) {
  if (!tni_cf_rig_run(rig, 0x5b, TNI_CF_INLINE)) return tni_cf_fail(cf, "%s", rig->why), false;
  for (uint32_t o = 0; o < rig->b.n_out; o++)
    if (!(want[o] = tni_arena_memdup(cf->arena, rig->out[o].data, rig->out[o].bytes + 1, 64))) return false;
  return true;
}

/* All tasks of all instances in one submission, each instance's in their order; then what they gave. No args are in it
 * twice (plugin.h, args). */
static bool submit_together(tni_cf *cf, items_bench *b, uint32_t depth) {
  const uint32_t n_tasks = b->rig[0].d.info->n_tasks, count = b->n * n_tasks;
  tni_cf_work w[TNI_CF_MAX_ITEMS];
  struct tni_cf_ticket *tickets[TNI_CF_MAX_ITEMS];
  tn_run run = tni_cf_host_run(&(tni_cf_lent){.split = TNI_CF_EVEN});
  for (uint32_t i = 0; i < b->n; i++)
    if (!tni_cf_inst_fill(&b->rig[i].i, 0xa7)) return tni_cf_fail(cf, "%s", b->rig[i].i.why), false;
  for (uint32_t k = 0; k < count; k++) w[k] = (tni_cf_work){&b->rig[k / n_tasks].i, k % n_tasks};
  const tn_status st = tni_cf_inst_submit(w, count, &run, tickets);
  if (st != TN_OK)
    return tni_cf_fail(
               cf, "a submission of %u items is refused (%s: %s), and the engine's depth is %u (plugin.h, tn_engine)",
               count, tni_status_name(st), w[0].i->why, depth),
           false;
  for (uint32_t k = 0; k < count; k++)
    if (tni_cf_ticket_wait(tickets[k], WAIT_S) != 1 || tickets[k]->st != TN_OK)
      return tni_cf_fail(cf, "item %u of %u in one submission: answered %u times, %s %s", k, count, tickets[k]->done,
                         tni_status_name(tickets[k]->st), tickets[k]->message),
             false;
  for (uint32_t i = 0; i < b->n; i++)
    for (uint32_t o = 0; o < b->rig[i].b.n_out; o++) {
      tni_tensor *out = &b->rig[i].out[o];
      if (!tni_cf_inst_read(&b->rig[i].i, b->rig[i].b.out[o], out->data, out->bytes))
        return tni_cf_fail(cf, "%s", b->rig[i].i.why), false;
      if (memcmp(out->data, b->want[i][o], out->bytes) != 0)
        return tni_cf_fail(
                   cf,
                   "items in one submission give other results than one by one: an engine is in order, and each item "
                   "waits for those before it (docs/plugin-abi.md): %u items, %u of each step",
                   count, n_tasks),
               false;
    }
  return true;
}

static void ask_items(tni_cf *cf, const void *arg) {
  items_bench *b = calloc(1, sizeof *b);
  (void)arg;
  if (!b || !tni_cf_host_open(cf, &b->h, NULL)) {
    free(b);
    return;
  }
  if (!b->h.caps->n_engines) {
    tni_cf_skip(cf, "it has no engines: its tasks run on the CPU");
  } else if (find_graph(cf, b)) {
    const uint32_t n_tasks = b->rig[0].d.info->n_tasks, engine = b->rig[0].d.info->tasks[0]->engine,
                   says = b->h.caps->engines[engine - 1]->depth,
                   depth = says && says < TNI_CF_MAX_ITEMS ? says : TNI_CF_MAX_ITEMS;
    if (n_tasks > depth)
      tni_cf_skip(cf, "a step has %u tasks, and the engine takes %u items at a time: none is submitted with its step",
                  n_tasks, depth);
    for (b->n = 1; keep(cf, &b->rig[b->n - 1], b->want[b->n - 1]) && (b->n + 1) * n_tasks <= depth; b->n++) {
      tni_cf_rng r = tni_cf_rng_of(cf, 1 + b->n);
      if (!tni_cf_rig_share(&b->rig[b->n], &b->rig[0], &r)) {
        tni_cf_fail(cf, "%s", b->rig[b->n].why);
        break;
      }
    }
    if (cf->verdict == TNI_CF_PASS) (void)(submit_together(cf, b, says) && submit_together(cf, b, says));
    if (cf->verdict == TNI_CF_PASS)
      tni_cf_note(cf, "%u items in one submission, %u of each step", b->n * n_tasks, n_tasks);
    for (uint32_t i = MOST; i-- > 0;)
      if (b->rig[i].h) tni_cf_rig_finish(&b->rig[i]);
  }
  tni_cf_host_close(cf, &b->h);
  free(b);
}

void tni_cf_life_item_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"life/items", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_items, NULL, 0});
}
