/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments that are freed while their item is in flight, as those of an item that the host gives up: it is taken out of
 * the queue, or waited for. Nothing of an item that is over soon is left then.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/engine.h"

enum { MANY = 257, ROUNDS = 6, MOST_MS = 900 };

/* The first task of an engine that does not block; n_tasks: there is none. */
static uint32_t task_to_leave(const tni_cf_host *h, const tni_cf_rig *rig) {
  uint32_t t = 0;
  for (; t < rig->d.info->n_tasks; t++)
    if (rig->d.info->tasks[t]->engine && !tni_cf_blocking(h, rig->d.info->tasks[t]->engine)) break;
  return t;
}

static bool has_task(const tni_cf_host *h, const tni_cf_rig *rig) {
  return task_to_leave(h, rig) < rig->d.info->n_tasks;
}

/* Submits the task and frees its arguments; how long that took, or -1. */
static int64_t leave(tni_cf *cf, tni_cf_host *h, tni_cf_rig *rig, int round, struct tni_cf_ticket **ticket) {
  const uint32_t task = task_to_leave(h, rig);
  tn_run run = tni_cf_host_run(&(tni_cf_lent){.split = TNI_CF_INLINE});
  bool ok = tni_cf_inst_fill(&rig->i, 0xa7);
  for (uint32_t t = 0; ok && t < task; t++) ok = tni_cf_inst_task(&rig->i, t, TNI_CF_INLINE) == TN_OK;
  ok = ok && tni_cf_inst_submit(&(tni_cf_work){&rig->i, task}, 1, &run, ticket) == TN_OK;
  if (!ok) return tni_cf_fail(cf, "%s", rig->i.why), -1;
  if (round / 2) tni_cf_nap_ms(round / 2); /* it has begun, most likely */
  const int64_t since = tni_now_ns();
  h->device->args_free(rig->i.args[task]);
  rig->i.args[task] = NULL;
  return tni_now_ns() - since;
}

static void one_life(tni_cf *cf, int round, int64_t *longest) {
  tni_cf_host h;
  tni_cf_rig rig;
  struct tni_cf_ticket *ticket = NULL;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  /* A product that takes a while, or the first graph with such a task. */
  const tni_cf_wanted w = {"matmul/large", "no task of it runs on an engine that does not block", MANY, has_task};
  if (tni_cf_find_graph(cf, &w, &h, &rig)) {
    int64_t took = -1;
    if (!tni_cf_rig_run(&rig, 0x5b, TNI_CF_INLINE))
      tni_cf_fail(cf, "%s", rig.why);
    else
      took = leave(cf, &h, &rig, round, &ticket);
    if (took > *longest) *longest = took;
    if (took > INT64_C(1000000) * MOST_MS) { /* after a second what the item may touch stays for good */
      tni_cf_skip(cf, "args_free has waited for a second: the machine is slow, or an item of %lld rows takes longer",
                  (long long)rig.sym[0]);
      tni_cf_leave();
    }
    tni_cf_rig_finish(&rig);
  }
  if (ticket) { /* `done` may come until close, or never */
    pthread_mutex_lock(&ticket->lock);
    ticket->used = false;
    pthread_mutex_unlock(&ticket->lock);
  }
  tni_cf_host_close(cf, &h); /* blocks that are left are a finding */
}

static void ask_left(tni_cf *cf, const void *arg) {
  int64_t longest = 0;
  (void)arg;
  for (int round = 0; round < ROUNDS && cf->verdict == TNI_CF_PASS; round++) one_life(cf, round, &longest);
  if (cf->verdict == TNI_CF_PASS)
    tni_cf_note(cf, "%d items, of which args_free waited up to %.1f ms", ROUNDS, (double)longest / 1e6);
}

void tni_cf_life_left_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"life/args-free", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_left, NULL, 60000});
}
