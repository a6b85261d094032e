/* SPDX-License-Identifier: Apache-2.0
 *
 * Family life: what a plugin leaves behind, what it does when memory ends, two of everything, stopping in the middle.
 */
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/both.h"
#include "runtime/conform/life/engine.h"
#include "runtime/conform/life/life.h"

enum { ROWS = 5, BUDGET_S = 10 };

/* The graph that life is tried on: the first that is claimed in a phase. */
static const tni_cf_claimed *subject_of(const tni_cf_listing *l) {
  for (uint32_t i = 0; i < l->n_claimed; i++)
    if (l->claimed[i].verdict == TN_YES) return &l->claimed[i];
  return NULL;
}

static int64_t budget_bytes(const tni_cf *cf) {
  return tni_now_ns() + (int64_t)(cf->subject->thorough ? 8 : 1) * BUDGET_S * 1000000000;
}

/* --- what is left behind ----------------------------------------------------------------------------------------- */

typedef struct holdings {
  size_t heap;
  int fds, threads;
} holdings;

static int count_folder_entries(const char *path) {
  DIR *d = opendir(path);
  int n = 0;
  if (!d) return 0;
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

static holdings holdings_look(void) {
  return (holdings){mallinfo2().uordblks, count_folder_entries("/proc/self/fd"),
                    count_folder_entries("/proc/self/task")};
}

/* One life: entry to shutdown, with one product where work is set. */
static bool one_life(tni_cf *cf, const tni_cf_claimed *c, bool work) {
  tni_cf_host *h = calloc(1, sizeof *h);
  tni_cf_rig rig = {0};
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  if (!h || !tni_cf_host_open(cf, h, &(tni_cf_ask){.offline = !work})) {
    free(h);
    return false;
  }
  if (work && !(tni_cf_rig_claim(&rig, h, tni_cf_graph_find(c->graph), c->phase, &r) &&
                tni_cf_rig_prepare(&rig, ROWS, &r) && tni_cf_rig_run(&rig, 0x5b, TNI_CF_EVEN)))
    tni_cf_fail(cf, "%s: %s", c->graph, rig.why);
  if (work) tni_cf_rig_finish(&rig);
  tni_cf_host_close(cf, h);
  free(h);
  return cf->verdict == TNI_CF_PASS;
}

/* Bytes of the heap that may stay of one life: threads leave caches of the allocator behind, which fill over the first
 * hundred (10 to 20 KB of 40 programs of the host, none of the next 300), and life/slopes counts blocks. A device with memory of its own has a driver below it, which no plugin can help: a leak per buffer, kernel or
 * plan of the plugin's own is far more over the run. */
static long long blocks_kept(const tni_cf *cf) {
  const tni_cf_listing *l = cf->listing;
  const uint32_t i = cf->subject->device;
  return i < l->n_devices && l->devices[i].has_buffers ? 8192 : 1024;
}

/* Many lives. After the first few, which may fill caches, nothing may grow with their number: neither descriptors nor
 * threads, and of the heap no more than a little a life. */
static void many_lives(tni_cf *cf, const void *arg) {
  const bool work = arg != NULL;
  const tni_cf_claimed *c = subject_of(cf->listing);
  const int want = cf->subject->thorough ? 1000 : work ? 30 : 100, settle = want / 4;
  const int64_t until = budget_bytes(cf);
  holdings at = {0}, now;
  int n = 0, from = 0;
  if (work && !c) {
    tni_cf_skip(cf, "none of the graphs was claimed");
    return;
  }
  for (; n < want && (n < 8 || tni_now_ns() < until); n++) {
    if (!one_life(cf, c, work)) return;
    if (n + 1 == settle || (n == 3 && tni_now_ns() + (until - tni_now_ns()) / 2 > until))
      at = holdings_look(), from = n + 1;
  }
  if (!from) {
    tni_cf_note(cf, "only %d lives in the time there was", n);
    return;
  }
  now = holdings_look();
  const int lives = n - from;
  const long long grown = (long long)now.heap - (long long)at.heap;
  tni_cf_note(cf, "%d lives; in the last %d the heap grew by %lld bytes", n, lives, grown);
  if (grown > blocks_kept(cf) * lives + 4096) tni_cf_fail(cf, "the heap grew by %lld bytes in %d lives", grown, lives);
  if (now.fds > at.fds) tni_cf_fail(cf, "descriptors are left behind by lives: %d after %d", now.fds - at.fds, lives);
  if (now.threads > at.threads) tni_cf_fail(cf, "threads are left behind by lives: %d after %d", now.threads - at.threads, lives);
}

/* Plans, args and packed weights of one device, over and over. */
static void many_plans(tni_cf *cf, const void *arg) {
  const tni_cf_claimed *c = subject_of(cf->listing);
  const int want = cf->subject->thorough ? 400 : 40, settle = want / 4;
  const int64_t until = budget_bytes(cf);
  tni_cf_host h;
  (void)arg;
  if (!c) {
    tni_cf_skip(cf, "none of the graphs was claimed");
    return;
  }
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  holdings at = {0};
  long long live = 0;
  int n = 0;
  for (; n < want && (n <= settle || tni_now_ns() < until) && cf->verdict == TNI_CF_PASS; n++) {
    tni_cf_rig rig;
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    if (!tni_cf_rig_claim(&rig, &h, tni_cf_graph_find(c->graph), c->phase, &r) ||
        !tni_cf_rig_prepare(&rig, 1 + n % 7, &r) || !tni_cf_rig_run(&rig, 0x5b, TNI_CF_INLINE))
      tni_cf_fail(cf, "round %d: %s: %s", n, c->graph, rig.why);
    tni_cf_rig_finish(&rig);
    if (n == settle) at = holdings_look(), live = atomic_load(&h.p.host.live);
  }
  const holdings now = holdings_look();
  const long long grown = (long long)now.heap - (long long)at.heap, blocks = atomic_load(&h.p.host.live) - live;
  tni_cf_note(cf, "%d programs; in the last %d the heap grew by %lld bytes", n, n - settle, grown);
  if (n > settle + 1 && grown > blocks_kept(cf) * (n - settle) + 4096)
    tni_cf_fail(cf, "the heap grew by %lld bytes in %d programs", grown, n - settle);
  if (n > settle + 1 && blocks > 0)
    tni_cf_fail(cf, "release, unbind and args_free do not give back the host's memory: %lld blocks", blocks);
  if (n > settle + 1 && now.fds > at.fds) tni_cf_fail(cf, "descriptors are left behind by programs: %d", now.fds - at.fds);
  tni_cf_host_close(cf, &h);
}

/* --- memory that ends -------------------------------------------------------------------------------------------- */

/* A whole life in which the host's n-th allocation fails, or all from it on. true: no allocation failed any more. */
static bool starve_life(tni_cf *cf, const tni_cf_claimed *c, long long n, bool all) {
  tni_cf_host *h = calloc(1, sizeof *h);
  const tni_cf_ask ask = {.fail_at = all ? 0 : n, .fail_from = all ? n : 0, .offline = true};
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  if (!h) return true;
  fprintf(stderr, "%s %lld\n", all ? "all allocations fail from number" : "the allocation that fails is number", n);
  if (tni_cf_host_open(cf, h, &ask)) {
    tni_cf_rig rig;
    const bool offline = h->caps->flags & TN_CAPS_OFFLINE; /* it packs, and cannot run */
    bool ok = !c || tni_cf_rig_claim(&rig, h, tni_cf_graph_find(c->graph), c->phase, &r);
    if (c && ok && offline) ok = tni_cf_drive_lower(&rig.d);
    if (c && ok && !offline) ok = tni_cf_rig_prepare(&rig, ROWS, &r) && tni_cf_rig_run(&rig, 0x5b, TNI_CF_INLINE);
    if (!ok && !atomic_load(&h->p.host.failed)) tni_cf_fail(cf, "%s: %s", c->graph, rig.why);
    if (c) tni_cf_rig_finish(&rig);
    if (h->p.device) h->p.plugin->close(h->p.device);
    if (h->p.plugin) h->p.plugin->shutdown(h->p.plugin);
    h->p.device = NULL;
    h->p.plugin = NULL;
  } else if (cf->verdict == TNI_CF_PASS && !atomic_load(&h->p.host.failed)) {
    tni_cf_fail(cf, "%s: %s", h->p.step, h->p.err.message);
  }
  const long long left = atomic_load(&h->p.host.live);
  if (left) tni_cf_fail(cf, "after allocation %lld failed, %lld blocks were not given back", n, left);
  const bool survived = atomic_load(&h->p.host.failed) == 0;
  if (h->p.host.services) tni_cf_host_close(cf, h);
  free(h);
  return survived || cf->n_findings > 5;
}

static void nth_allocation(tni_cf *cf, const void *arg) {
  const bool all = arg != NULL;
  const tni_cf_claimed *c = subject_of(cf->listing);
  const int64_t until = budget_bytes(cf);
  long long n = 1;
  bool end = false;
  while (!end && (n < 3 || tni_now_ns() < until)) end = starve_life(cf, c, n++, all);
  if (end)
    tni_cf_note(cf, "%lld allocations, each failed once", n - 2);
  else
    tni_cf_note(cf, "the first %lld allocations failed once each; there was no time for the rest", n - 1);
}

/* --- two of everything ------------------------------------------------------------------------------------------- */

static bool same_outputs(const tni_cf_rig *a, const tni_cf_rig *b) {
  for (uint32_t i = 0; i < a->b.n_out; i++)
    if (a->out[i].bytes != b->out[i].bytes || memcmp(a->out[i].data, b->out[i].data, a->out[i].bytes)) return false;
  return true;
}

/* Runs of two devices, on two threads, again and again: each gives what it gives alone. */
static void both_at_once(tni_cf *cf, tni_cf_rig *rig) {
  tni_cf_runner w[2] = {{.rig = &rig[0], .rounds = 40}, {.rig = &rig[1], .rounds = 40}};
  tni_cf_rng r = tni_cf_rng_of(cf, 9);
  for (int i = 0; i < 2; i++) /* other inputs each */
    if (!tni_cf_rig_inputs(&rig[i], &r) || !tni_cf_rig_run(&rig[i], 0x5b, TNI_CF_INLINE) || !tni_cf_runner_keep(cf, &w[i])) {
      tni_cf_fail(cf, "%s", rig[i].why);
      return;
    }
  tni_cf_run_both(w);
  for (int i = 0; i < 2; i++)
    if (w[i].failed || w[i].differs)
      tni_cf_fail(cf,
                  "runs on two devices at once: device %d %s: what a run needs is its own (no global, nothing that an "
                  "earlier run left)",
                  i, w[i].failed ? rig[i].why : "gives other bits than alone");
}

/* Two hosts in one process: nothing of the one may be the other's. */
static void two_hosts(tni_cf *cf, const void *arg) {
  const tni_cf_claimed *c = subject_of(cf->listing);
  tni_cf_host *h = calloc(2, sizeof *h);
  tni_cf_rig rig[2] = {{0}};
  (void)arg;
  if (!h || !c) {
    if (!c) tni_cf_skip(cf, "none of the graphs was claimed");
    free(h);
    return;
  }
  bool open[2] = {false, false};
  for (int i = 0; i < 2; i++) {
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    if (!i) open[0] = tni_cf_host_open(cf, &h[0], NULL), open[1] = tni_cf_host_open(cf, &h[1], NULL);
    const long long other = atomic_load(&h[!i].p.host.total);
    if (open[i] && !(tni_cf_rig_claim(&rig[i], &h[i], tni_cf_graph_find(c->graph), c->phase, &r) &&
                     tni_cf_rig_prepare(&rig[i], ROWS, &r)))
      tni_cf_fail(cf, "host %d: %s: %s", i, c->graph, rig[i].why);
    if (open[!i] && atomic_load(&h[!i].p.host.total) != other)
      tni_cf_fail(cf,
                  "what host %d asks for takes memory of the other host in the process: keep the tn_host with what it "
                  "made, not in a global (plugin.h, tn_host)",
                  i);
  }
  if (open[0] && open[1] && h[0].p.plugin == h[1].p.plugin) tni_cf_fail(cf, "both hosts got the same tn_plugin");
  if (open[0] && open[1] && h[0].device == h[1].device) tni_cf_fail(cf, "both hosts got the same device");
  if (cf->verdict == TNI_CF_PASS) {
    const bool ok = tni_cf_rig_run(&rig[0], 1, TNI_CF_INLINE) && tni_cf_rig_run(&rig[1], 2, TNI_CF_INLINE);
    if (!ok) tni_cf_fail(cf, "%s%s", rig[0].why, rig[1].why);
    if (ok && !same_outputs(&rig[0], &rig[1])) tni_cf_fail(cf, "the two compute different results");
    if (ok && cf->verdict == TNI_CF_PASS) both_at_once(cf, rig);
  }
  if (open[0]) tni_cf_rig_finish(&rig[0]), tni_cf_host_close(cf, &h[0]);
  if (open[1]) {
    if (cf->verdict == TNI_CF_PASS && !tni_cf_rig_run(&rig[1], 3, TNI_CF_EVEN))
      tni_cf_fail(cf, "once the first is closed, the second says: %s", rig[1].why);
    tni_cf_rig_finish(&rig[1]);
    tni_cf_host_close(cf, &h[1]);
  }
  free(h);
}

/* Sessions share programs and plans: args of one program run on two threads at once, with other inputs each; what they
 * give is what they give alone. */
static void at_once(tni_cf *cf, const void *arg) {
  const tni_cf_claimed *c = subject_of(cf->listing);
  tni_cf_host h;
  tni_cf_rig a, b = {0};
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  (void)arg;
  if (!c) {
    tni_cf_skip(cf, "none of the graphs was claimed");
    return;
  }
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  bool ok = tni_cf_rig_claim(&a, &h, tni_cf_graph_find(c->graph), c->phase, &r) && tni_cf_rig_prepare(&a, ROWS, &r);
  if (ok) ok = tni_cf_rig_share(&b, &a, &r);
  tni_cf_runner w[2] = {{.rig = &a, .rounds = 24}, {.rig = &b, .rounds = 24}};
  for (int i = 0; ok && i < 2; i++) ok = tni_cf_rig_run(w[i].rig, 0x5b, TNI_CF_INLINE) && tni_cf_runner_keep(cf, &w[i]);
  if (!ok) {
    tni_cf_fail(cf, "%s: %s%s", c->graph, a.why, b.why);
  } else {
    tni_cf_run_both(w);
    for (int i = 0; i < 2; i++) {
      if (w[i].failed) tni_cf_fail(cf, "two runs at once: %s", w[i].rig->why);
      if (w[i].differs) tni_cf_fail(cf, "two runs of one program at once: run %d gives other bits than alone", i);
    }
  }
  if (b.h) tni_cf_rig_finish(&b);
  tni_cf_rig_finish(&a);
  tni_cf_host_close(cf, &h);
}

/* --- stopping ---------------------------------------------------------------------------------------------------- */

/* From claim to a run, while `cancelled` says yes from poll `after` on: whoever asked may stop, with CANCELLED. True:
 * it did. */
static bool stopped_at(tni_cf *cf, tni_cf_host *h, const tni_cf_claimed *c, int after) {
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  tni_error_init(&h->err);
  atomic_store(&h->p.host.polls, 0);
  atomic_store(&h->p.host.cancel_after, after);
  const bool made = tni_cf_rig_claim(&rig, h, tni_cf_graph_find(c->graph), c->phase, &r) &&
                    tni_cf_rig_prepare(&rig, ROWS, &r);
  const tn_status st = made ? tni_cf_inst_run(&rig.i, 0x5b, TNI_CF_INLINE) : h->err.code;
  const bool ok = made && st == TN_OK && tni_cf_inst_guards(&rig.i);
  const long long asked = atomic_load(&h->p.host.polls);
  const char *why = made ? rig.i.why : rig.why;
  atomic_store(&h->p.host.cancel_after, 0);
  if (!ok && asked < after)
    tni_cf_fail(cf, "cancelled at poll %d, which never came: %s", after, why);
  else if (!ok && st != TN_E_CANCELLED)
    tni_cf_fail(cf,
                "`cancelled` says yes from poll %d on, and the call ends with %s, not CANCELLED (plugin.h, tn_host): "
                "%s",
                after, st == TN_OK ? "OK" : tni_status_name(st), why);
  tni_cf_rig_finish(&rig);
  return !ok;
}

/* Whatever polls `cancelled` may stop there with CANCELLED, and must work when asked again. */
static void ask_cancel(tni_cf *cf, const void *arg) {
  const tni_cf_claimed *c = subject_of(cf->listing);
  tni_cf_host h;
  uint32_t stopped = 0, polls = 0;
  (void)arg;
  if (!c) {
    tni_cf_skip(cf, "none of the graphs was claimed");
    return;
  }
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  for (int after = 1; after <= 6 && cf->verdict == TNI_CF_PASS; after++) {
    tni_cf_rig rig;
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    stopped += stopped_at(cf, &h, c, after);
    const long long asked = atomic_load(&h.p.host.polls);
    polls = asked > polls ? (uint32_t)asked : polls;
    if (!tni_cf_rig_claim(&rig, &h, tni_cf_graph_find(c->graph), c->phase, &r) || !tni_cf_rig_prepare(&rig, ROWS, &r) ||
        !tni_cf_rig_run(&rig, 0x5b, TNI_CF_INLINE))
      tni_cf_fail(cf, "after it was cancelled at poll %d, the same again: %s", after, rig.why);
    tni_cf_rig_finish(&rig);
  }
  if (polls)
    tni_cf_note(cf, "stopped %u of 6 times; `cancelled` was asked up to %u times", stopped, polls);
  else
    tni_cf_skip(cf, "nothing of it asks tn_host.cancelled, so there is no poll to stop at: long calls may (plugin.h)");
  tni_cf_host_close(cf, &h);
}

/* One step under a brake: OK with the right results, or CANCELLED after it was asked. True: it stopped. */
static bool run_braked(tni_cf *cf, tni_cf_rig *rig, const tni_cf_runner *right, long long after, uint32_t split,
                       uint32_t *asked) {
  tni_cf_brake brake = {.after = after};
  rig->i.brake = &brake;
  rig->i.why[0] = '\0';
  const tn_status st = tni_cf_inst_run(&rig->i, 0x5b, split);
  const long long polls = atomic_load(&brake.polls);
  rig->i.brake = NULL;
  *asked += polls > 0;
  if (st != TN_OK && st != TN_E_CANCELLED)
    tni_cf_fail(cf, "run.cancelled says yes from poll %lld on, and the step ends with %s: %s", after,
                tni_status_name(st), rig->i.why);
  if (st == TN_E_CANCELLED && polls < after)
    tni_cf_fail(cf, "the step ends with CANCELLED after %lld polls of run.cancelled that all said no", polls);
  if (!tni_cf_inst_guards(&rig->i)) tni_cf_fail(cf, "cancelled at poll %lld: %s", after, rig->i.why);
  for (uint32_t k = 0; st == TN_OK && k < rig->b.n_out; k++)
    if (!tni_cf_inst_read(&rig->i, rig->b.out[k], rig->out[k].data, rig->out[k].bytes) ||
        memcmp(right->want[k], rig->out[k].data, rig->out[k].bytes) != 0)
      tni_cf_fail(cf, "run.cancelled says yes from poll %lld on, the step says OK and its results are wrong", after);
  return st == TN_E_CANCELLED;
}

/* tn_run.cancelled set before a run begins (poll 1) and while it goes on: it stops with CANCELLED or is right, and the
 * same arguments work afterwards. */
static void cancel_runs(tni_cf *cf, const void *arg) {
  static const long long at[] = {1, 2, 3, 5, 9, 17};
  const tni_cf_claimed *c = subject_of(cf->listing);
  tni_cf_host h;
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  uint32_t stopped = 0, asked = 0;
  (void)arg;
  if (!c) {
    tni_cf_skip(cf, "none of the graphs was claimed");
    return;
  }
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  tni_cf_runner w = {.rig = &rig};
  if (!tni_cf_rig_claim(&rig, &h, tni_cf_graph_find(c->graph), c->phase, &r) ||
      !tni_cf_rig_prepare(&rig, 12 * ROWS, &r) || !tni_cf_rig_run(&rig, 0x5b, TNI_CF_INLINE) || !tni_cf_runner_keep(cf, &w))
    tni_cf_fail(cf, "%s: %s", c->graph, rig.why);
  for (size_t i = 0; i < 2 * (sizeof at / sizeof *at) && cf->verdict == TNI_CF_PASS; i++) {
    stopped += run_braked(cf, &rig, &w, at[i / 2], i % 2 ? TNI_CF_EVEN : TNI_CF_INLINE, &asked);
    if (cf->verdict == TNI_CF_PASS && !tni_cf_rig_run(&rig, 0x5b, TNI_CF_EVEN))
      tni_cf_fail(cf, "after it was cancelled at poll %lld, the same arguments again: %s", at[i / 2], rig.why);
    for (uint32_t k = 0; cf->verdict == TNI_CF_PASS && k < rig.b.n_out; k++)
      if (memcmp(w.want[k], rig.out[k].data, rig.out[k].bytes) != 0)
        tni_cf_fail(cf, "after it was cancelled at poll %lld, the same arguments give other results", at[i / 2]);
  }
  if (asked)
    tni_cf_note(cf, "asked in %u of 12 runs, stopped in %u", asked, stopped);
  else if (cf->verdict == TNI_CF_PASS)
    tni_cf_skip(cf, "none of its tasks asks tn_run.cancelled, so there is no poll to stop at; life/cancel-items asks of "
                    "engines");
  tni_cf_rig_finish(&rig);
  tni_cf_host_close(cf, &h);
}

/* All devices that there are, open at once. */
static void all_devices(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  tn_device *d[TNI_CF_MAX_DEVICES] = {NULL};
  (void)arg;
  if (!tni_cf_start(cf, &p)) return;
  if (p.n_caps < 2) tni_cf_skip(cf, "there is one device");
  for (uint32_t i = 0; i < p.n_caps; i++) {
    tn_error e;
    tni_error_init(&e);
    if (i == cf->subject->device) continue;
    if (p.plugin->open(p.plugin, i, &d[i], &e) != TN_OK) tni_cf_note(cf, "device %u: %s", i, e.message);
    if (d[i] && d[i] == p.device) tni_cf_fail(cf, "device %u is the same as device %u", i, cf->subject->device);
  }
  for (uint32_t i = 0; i < p.n_caps; i++)
    if (d[i]) p.plugin->close(d[i]);
  tni_cf_stop(cf, &p);
}

void tni_cf_life_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const tni_cf_case cases[] = {
      {"life/open-close", TNI_CF_LEVEL_ALL, 0, many_lives, NULL, 60000},
      {"life/work-close", TNI_CF_LEVEL_ALL, 0, many_lives, "work", 60000},
      {"life/programs", TNI_CF_LEVEL_ALL, 0, many_plans, NULL, 60000},
      {"life/allocation-fails", TNI_CF_LEVEL_ALL, 0, nth_allocation, NULL, 60000},
      {"life/memory-ends", TNI_CF_LEVEL_ALL, 0, nth_allocation, "all", 60000},
      {"life/two-hosts", TNI_CF_LEVEL_ALL, 0, two_hosts, NULL, 0},
      {"life/at-once", TNI_CF_LEVEL_ALL, 0, at_once, NULL, 0},
      {"life/cancel", TNI_CF_LEVEL_ALL, 0, ask_cancel, NULL, 0},
      {"life/cancel-run", TNI_CF_LEVEL_ALL, 0, cancel_runs, NULL, 0},
      {"life/all-devices", TNI_CF_LEVEL_ALL, 0, all_devices, NULL, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(ctx, &cases[i]);
  tni_cf_life_slope_cases(l, add, ctx);
  tni_cf_life_left_cases(l, add, ctx);
  tni_cf_life_engine_cases(l, add, ctx);
  tni_cf_life_item_cases(l, add, ctx);
  tni_cf_life_cancel_cases(l, add, ctx);
  tni_cf_life_fence_cases(l, add, ctx);
  tni_cf_life_abandon_cases(l, add, ctx);
  tni_cf_life_plan_cases(l, add, ctx);
  tni_cf_life_power_cases(l, add, ctx);
}
