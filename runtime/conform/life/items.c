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

enum { ROWS = 3, WAIT_S = 10, MOST = TNI_CF_MAX_ITEMS, FEW = 8, NAP_US = 20000 };

typedef struct items_bench {
  tni_cf_host h;
  tni_cf_rig rig[MOST];
  void *want[MOST][TNI_CN_MAX_OUT];
  uint32_t n;
} items_bench;

static bool all_on_engine(const tni_cf_host *h, const tni_cf_rig *rig) {
  (void)h;
  for (uint32_t t = 0; t < rig->d.info->n_tasks; t++)
    if (rig->d.info->tasks[t]->engine != rig->d.info->tasks[0]->engine || !rig->d.info->tasks[t]->engine) return false;
  return rig->d.info->n_tasks > 0;
}

bool tni_cf_find_graph(tni_cf *cf, const tni_cf_wanted *w, tni_cf_host *h, tni_cf_rig *rig) {
  const tni_cf_listing *l = cf->listing;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < l->n_claimed; i++) {
      const tni_cf_claimed *c = &l->claimed[i];
      tni_cf_rng r = tni_cf_rng_of(cf, 1);
      if (c->verdict != TN_YES || (pass == 0) != !strcmp(c->graph, w->first)) continue;
      const bool ok =
          tni_cf_rig_claim(rig, h, tni_cf_graph_find(c->graph), c->phase, &r) && tni_cf_rig_prepare(rig, w->rows, &r);
      if (ok && w->fits(h, rig)) return true;
      if (!ok) tni_cf_fail(cf, "%s: %s", c->graph, rig->why);
      tni_cf_rig_finish(rig);
      if (!ok) return false;
    }
  tni_cf_skip(cf, "%s", w->none);
  return false;
}

/* A graph of which every task is one engine's: the chain of two products first. */
static bool find_graph(tni_cf *cf, items_bench *b) {
  const tni_cf_wanted w = {"matmul/chain", "no program of it runs on one engine alone", ROWS, all_on_engine};
  return tni_cf_find_graph(cf, &w, &b->h, &b->rig[0]);
}

static bool keep(tni_cf *cf, tni_cf_rig *rig, void **want) {
  if (!tni_cf_rig_run(rig, 0x5b, TNI_CF_INLINE)) return tni_cf_fail(cf, "%s", rig->why), false;
  return tni_cf_rig_keep(rig, cf->arena, want);
}

static bool fill_all(tni_cf *cf, items_bench *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!tni_cf_inst_fill(&b->rig[i].i, 0xa7)) return tni_cf_fail(cf, "%s", b->rig[i].i.why), false;
  return true;
}

/* The first n instances gave what each gives alone; false: how they were submitted is in the finding. */
static bool all_right(tni_cf *cf, items_bench *b, uint32_t n, const char *how) {
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t o = 0; o < b->rig[i].b.n_out; o++) {
      tni_tensor *out = &b->rig[i].out[o];
      if (!tni_cf_inst_read(&b->rig[i].i, b->rig[i].b.out[o], out->data, out->bytes))
        return tni_cf_fail(cf, "%s", b->rig[i].i.why), false;
      if (memcmp(out->data, b->want[i][o], out->bytes) != 0)
        return tni_cf_fail(
                   cf,
                   "items %s give other results than one by one: an engine is in order, and each item waits for those "
                   "before it (docs/plugin-abi.md)",
                   how),
               false;
    }
  return true;
}

/* All tasks of the first n instances in one submission, each instance's in their order; then what they gave. No args
 * are in it twice (plugin.h, args). */
static bool submit_together(tni_cf *cf, items_bench *b, uint32_t n, uint32_t depth) {
  const uint32_t n_tasks = b->rig[0].d.info->n_tasks, count = n * n_tasks;
  tni_cf_work w[TNI_CF_MAX_ITEMS];
  struct tni_cf_ticket *tickets[TNI_CF_MAX_ITEMS];
  tn_run run = tni_cf_host_run(&(tni_cf_lent){.split = TNI_CF_EVEN});
  char how[64];
  if (!fill_all(cf, b, n)) return false;
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
  snprintf(how, sizeof how, "in one submission (%u, %u of each step)", count, n_tasks);
  return all_right(cf, b, n, how);
}

/* A submission of each instance's step, one after the other at once: more items in flight than the engine's depth says,
 * as several runtimes may have. Each `done` takes a while, so that few are done when the last comes. */
static bool submit_beyond(tni_cf *cf, items_bench *b, uint32_t depth) {
  const uint32_t n_tasks = b->rig[0].d.info->n_tasks;
  struct tni_cf_ticket *tickets[MOST][TNI_CF_MAX_ITEMS];
  tn_run run = tni_cf_host_run(&(tni_cf_lent){.split = TNI_CF_EVEN});
  uint32_t sent = 0;
  tn_status st = TN_OK;
  if (!fill_all(cf, b, b->n)) return false;
  b->h.nap_us = depth < FEW ? NAP_US : NAP_US / 10;
  for (; st == TN_OK && sent < b->n; sent += st == TN_OK) {
    tni_cf_work w[TNI_CF_MAX_ITEMS];
    for (uint32_t k = 0; k < n_tasks; k++) w[k] = (tni_cf_work){&b->rig[sent].i, k};
    st = tni_cf_inst_submit(w, n_tasks, &run, tickets[sent]);
  }
  b->h.nap_us = 0;
  if (st != TN_OK)
    tni_cf_fail(cf,
                "a submission is refused (%s: %s) with up to %u items in flight, and the engine's depth is %u: several "
                "runtimes may have more, and submit queues them (plugin.h, tn_engine)",
                tni_status_name(st), b->rig[sent].i.why, sent * n_tasks, depth);
  bool ok = true;
  for (uint32_t i = 0; ok && i < sent; i++)
    for (uint32_t k = 0; ok && k < n_tasks; k++)
      ok = tni_cf_ticket_wait(tickets[i][k], WAIT_S) == 1 && tickets[i][k]->st == TN_OK;
  if (!ok)
    tni_cf_fail(cf,
                "of %u items, in submissions of %u, one is never completed or fails, and the engine's depth is %u: "
                "submit queues "
                "what is more (plugin.h, tn_engine)",
                b->n * n_tasks, n_tasks, depth);
  return ok && st == TN_OK && all_right(cf, b, b->n, "beyond the engine's depth");
}

/* Instances until one step of them more would be over `most` items. */
static void make_instances(tni_cf *cf, items_bench *b, uint32_t most) {
  const uint32_t n_tasks = b->rig[0].d.info->n_tasks;
  for (b->n = 1; keep(cf, &b->rig[b->n - 1], b->want[b->n - 1]) && b->n < MOST && (b->n + 1) * n_tasks <= most;
       b->n++) {
    tni_cf_rng r = tni_cf_rng_of(cf, 1 + b->n);
    if (tni_cf_rig_share(&b->rig[b->n], &b->rig[0], &r)) continue;
    tni_cf_fail(cf, "%s", b->rig[b->n].why);
    break;
  }
}

static void ask_depth(tni_cf *cf, items_bench *b) {
  const uint32_t n_tasks = b->rig[0].d.info->n_tasks, engine = b->rig[0].d.info->tasks[0]->engine,
                 says = b->h.caps->engines[engine - 1]->depth,
                 depth = says && says < TNI_CF_MAX_ITEMS ? says : TNI_CF_MAX_ITEMS;
  /* An engine that blocks has nothing in flight when submit comes back. */
  const bool beyond = says && says < TNI_CF_MAX_ITEMS && !tni_cf_blocking(&b->h, engine);
  if (n_tasks > depth)
    tni_cf_skip(cf, "a step has %u tasks, and the engine takes %u items at a time: none is submitted with its step",
                n_tasks, depth);
  make_instances(cf, b, beyond ? 2 * depth + 2 * n_tasks : depth);
  const uint32_t n = depth / n_tasks < b->n ? depth / n_tasks : b->n;
  if (cf->verdict == TNI_CF_PASS) (void)(submit_together(cf, b, n, says) && submit_together(cf, b, n, says));
  if (cf->verdict == TNI_CF_PASS && beyond) (void)(submit_beyond(cf, b, says) && submit_beyond(cf, b, says));
  if (cf->verdict == TNI_CF_PASS)
    tni_cf_note(cf, "%u items in one submission, %u of each step; %u in several", n * n_tasks, n_tasks,
                beyond ? b->n * n_tasks : 0);
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
    ask_depth(cf, b);
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
