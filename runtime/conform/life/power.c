/* SPDX-License-Identifier: Apache-2.0
 *
 * Votes for power (tenon/power.h): before, beside and after work, from whichever thread, taken back and left to the close.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <tenon/power.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/engine.h"
#include "runtime/conform/observe/observe.h"

enum { ROUNDS = 40, RUNS = 30, AT_ONCE_MS = 2000 };
static const uint32_t modes[] = {TN_POWER_SAVE, TN_POWER_BALANCED, TN_POWER_SUSTAINED, TN_POWER_BURST, TN_POWER_NONE};
enum { N_MODES = sizeof modes / sizeof *modes };

/* One thread at a time has it. */
typedef struct voter {
  tn_device *device;
  const tn_power *power;
  uint32_t granted, refused, mode; /* mode: of the vote that is under way, or was last */
  int64_t longest;                 /* ns */
  char why[400];                   /* the first thing that is wrong */
} voter;

static void vote(voter *v, uint32_t mode) {
  tn_error e;
  tni_error_init(&e);
  v->mode = mode;
  const char *before = tni_cf_call_begin("vote (power.h)");
  const int64_t from = tni_now_ns();
  const tn_status st = v->power->vote(v->device, mode, &e);
  const int64_t took = tni_now_ns() - from;
  tni_cf_call_over(before);
  if (took > v->longest) v->longest = took;
  v->granted += st == TN_OK;
  v->refused += st != TN_OK;
  if (st == TN_OK || v->why[0]) return;
  if (mode == TN_POWER_NONE)
    snprintf(v->why, sizeof v->why, "a vote cannot be taken back (TN_POWER_NONE): %s: %.200s", tni_status_name(st), e.message);
  else if (st != TN_E_UNSUPPORTED || !e.message[0])
    snprintf(v->why, sizeof v->why, "a vote for mode %u: %s%s: what the driver does not know is UNSUPPORTED, with a text", mode,
             tni_status_name(st), e.message[0] ? "" : " without a text");
}

static void *vote_for_all(void *arg) {
  for (uint32_t i = 0; i < N_MODES; i++) vote(arg, modes[i]);
  return NULL;
}

static void *vote_on(void *arg) {
  const struct timespec nap = {0, 500000};
  for (uint32_t i = 0; i < ROUNDS; i++) {
    vote(arg, modes[(i * 3) % N_MODES]);
    nanosleep(&nap, NULL);
  }
  return NULL;
}

static void on_thread(voter *v, void *(*fn)(void *)) {
  pthread_t t;
  if (pthread_create(&t, NULL, fn, v) == 0) pthread_join(t, NULL);
}

/* The graph's bits are the same whatever was voted for. */
static void beside_work(tni_cf *cf, tni_cf_rig *rig, voter *v) {
  void *want[TNI_CN_MAX_OUT] = {NULL};
  pthread_t t;
  bool same = true, ok = tni_cf_rig_run(rig, 0x5b, TNI_CF_EVEN) && tni_cf_rig_keep(rig, cf->arena, want);
  for (uint32_t i = 0; ok && same && i < N_MODES; i++) {
    vote(v, modes[i]);
    ok = tni_cf_rig_run(rig, 0xff, TNI_CF_EVEN);
    same = ok && tni_cf_rig_same(rig, want);
  }
  const bool started = ok && same && pthread_create(&t, NULL, vote_on, v) == 0;
  for (uint32_t i = 0; ok && same && i < RUNS; i++) {
    ok = tni_cf_rig_run(rig, (uint8_t)(7 * i), TNI_CF_EVEN);
    same = ok && tni_cf_rig_same(rig, want);
  }
  if (started) pthread_join(t, NULL);
  if (!ok)
    tni_cf_fail(cf, "a run beside votes for power: %s", rig->why);
  else if (!same)
    tni_cf_fail(cf, "other bits of the same inputs once a vote for power was cast: it is a wish about clocks (power.h)");
}

static const tn_power *power_of(const tni_cf_host *h) {
  tn_plugin *p = h->p.plugin;
  return TN_HAS(p, tn_plugin, get_extension) && p->get_extension ? p->get_extension(p, TN_POWER, 1) : NULL;
}

static void ask_votes(tni_cf *cf, tni_cf_host *h, const tn_power *power) {
  const tni_cf_listing *l = cf->listing;
  const tni_cf_claimed *c = NULL;
  voter v = {.device = h->p.device, .power = power};
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  if (!TN_HAS(power, tn_power, vote) || !power->vote) {
    tni_cf_fail(cf, "its table tenon.power has no vote: without one, get_extension gives NULL (power.h)");
    return;
  }
  for (uint32_t i = 0; i < l->n_claimed && !c; i++)
    if (l->claimed[i].verdict == TN_YES) c = &l->claimed[i];
  (void)vote_for_all(&v);
  on_thread(&v, vote_for_all);
  memset(&rig, 0, sizeof rig);
  if (c && (!tni_cf_rig_claim(&rig, h, tni_cf_graph_find(c->graph), c->phase, &r) || !tni_cf_rig_prepare(&rig, 5, &r)))
    tni_cf_fail(cf, "%s: %s", c->graph, rig.why);
  else if (c)
    beside_work(cf, &rig, &v);
  vote(&v, TN_POWER_NONE);
  tni_cf_rig_finish(&rig);
  vote(&v, TN_POWER_SAVE);
  on_thread(&v, vote_for_all);
  vote(&v, TN_POWER_BURST); /* closing takes it back */
  if (v.why[0]) tni_cf_fail(cf, "%s (power.h)", v.why);
  if (v.longest > AT_ONCE_MS * INT64_C(1000000))
    tni_cf_fail(cf, "a vote took %lld ms: it returns at once (power.h)", (long long)(v.longest / 1000000));
  tni_cf_note(cf, "%u votes granted, %u refused%s", v.granted, v.refused, c ? "" : "; no graph is claimed: beside no work");
}

static void ask_power(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  const tn_power *power = power_of(&h);
  if (power)
    ask_votes(cf, &h, power);
  else
    tni_cf_skip(cf, "it has no extension tenon.power (tenon/power.h)");
  tni_cf_host_close(cf, &h);
}

void tni_cf_life_power_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"life/power", TNI_CF_LEVEL_ALL, 0, ask_power, NULL, 0});
}
