/* SPDX-License-Identifier: Apache-2.0
 *
 * Items that never end: one whose fence nobody tells is such an item, and no fault of the plugin's. The host gives it
 * up, with tn_device.abandon or without: what is freed then comes back, and what the item may still touch stays.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/conform/heap/heap.h"
#include "runtime/conform/life/engine.h"
#include "runtime/conform/life/fenced.h"
#include "runtime/conform/life/follow.h"
#include "runtime/conform/observe/observe.h"

enum { LIMIT_MS = 45000, BACK_S = 10, LATE_MS = 60, SOON_MS = 50, MOST_MS = 700 };

/* How it is given up. OPENED: by abandon; the fences are told once all but the device is freed. CLOSED: the same, and
 * the fences are never told. LEFT: without abandon. SOON: the same, and the fences are told while args_free waits. */
enum { OPENED, CLOSED, LEFT, SOON, WAYS };
static const char *const way_names[WAYS] = {"abandon, and the item's fence is told later",
                                            "abandon, and the item's fence is never told",
                                            "an item is given up without abandon",
                                            "an item is given up without abandon, and is over soon"};

typedef struct ending {
  tni_cf_fenced b;
  tni_cf_sent s[TNI_CF_LANES];
  uint32_t n;
  int way;
  atomic_bool over;
} ending;

/* --- what follows ------------------------------------------------------------------------------------------------- */

static void destroy(tn_device *d, tni_cf_memory *m) {
  if (m->buffer && !m->shared) d->destroy(m->buffer);
}

/* args, plans, programs, buffers; nothing of the kit's own. */
static void *free_all(void *arg) {
  ending *e = arg;
  tni_cf_fenced *b = &e->b;
  tn_device *d = b->h.device;
  for (uint32_t k = 0; k < b->n_lanes; k++)
    for (uint32_t i = 0; i < b->lane[k].n; i++)
      for (uint32_t t = 0; t < b->lane[k].rig[0].d.info->n_tasks; t++) d->args_free(b->lane[k].rig[i].i.args[t]);
  for (uint32_t k = 0; k < b->n_lanes; k++)
    for (uint32_t t = 0; t < b->lane[k].rig[0].d.info->n_tasks; t++) d->unbind(b->lane[k].rig[0].i.plan[t]);
  uint32_t n_slots[TNI_CF_LANES], n_tasks[TNI_CF_LANES];
  for (uint32_t k = 0; k < b->n_lanes; k++) {
    n_slots[k] = b->lane[k].rig[0].d.info->n_slots;
    n_tasks[k] = b->lane[k].rig[0].d.info->n_tasks;
    d->release(b->lane[k].rig[0].d.prog.program);
  }
  for (uint32_t k = 0; d->destroy && k < b->n_lanes; k++) {
    for (uint32_t i = 0; i < b->lane[k].n; i++) {
      for (uint32_t s = 0; s < n_slots[k]; s++) destroy(d, &b->lane[k].rig[i].i.slot[s]);
      for (uint32_t t = 0; t < n_tasks[k]; t++) destroy(d, &b->lane[k].rig[i].i.scratch[t]);
    }
    for (uint32_t s = 0; s < n_slots[k]; s++) destroy(d, &b->lane[k].rig[0].d.fixed[s]);
  }
  atomic_store(&e->over, true);
  return NULL;
}

static void *close_it(void *arg) {
  ending *e = arg;
  const char *before = tni_cf_call_begin("close");
  e->b.h.p.plugin->close(e->b.h.p.device);
  tni_cf_call_over(before);
  atomic_store(&e->over, true);
  return NULL;
}

static void *abandon_it(void *arg) {
  ending *e = arg;
  e->b.h.device->abandon(e->b.h.device);
  atomic_store(&e->over, true);
  return NULL;
}

/* fn comes back, although items hang. */
static bool comes_back(tni_cf *cf, ending *e, void *(*fn)(void *)) {
  pthread_t t;
  atomic_store(&e->over, false);
  if (pthread_create(&t, NULL, fn, e) != 0) return tni_cf_fail(cf, "no thread"), false;
  for (int ms = 0; ms < 1000 * BACK_S && !atomic_load(&e->over); ms++) tni_cf_nap_ms(1);
  if (atomic_load(&e->over)) return pthread_join(t, NULL), true;
  const char *call = tni_cf_call_now();
  return tni_cf_fail(cf, "%s: '%s' has not come back in %d s: it waits for what does not end (plugin.h, tn_device)",
                     way_names[e->way], call ? call : "a call", BACK_S),
         false;
}

static uint32_t answers(const ending *e) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < e->n; k++)
    for (uint32_t i = 0; i < e->s[k].n; i++) {
      pthread_mutex_lock(&e->s[k].ticket[i]->lock);
      n += e->s[k].ticket[i]->done;
      pthread_mutex_unlock(&e->s[k].ticket[i]->lock);
    }
  return n;
}

static bool nothing_is_spoilt(tni_cf *cf, const ending *e) {
  return !tni_cf_heap_spoilt() ||
         (tni_cf_fail(cf,
                      "%s: memory was written to that was freed before: what an item may still touch stays where it is "
                      "(plugin.h, tn_device)",
                      way_names[e->way]),
          false);
}

/* --- a life ------------------------------------------------------------------------------------------------------- */

/* An item on each engine that waits, and with abandon more of them after it: without, each may take a second. */
static bool hang(tni_cf *cf, ending *e) {
  bool ok = true;
  for (uint32_t k = 0; ok && k < e->b.n_lanes; k++) {
    tni_cf_lane *l = &e->b.lane[k];
    tni_cf_sent *s = &e->s[e->n++];
    *s = (tni_cf_sent){.b = &e->b, .lane = l, .n = e->way >= LEFT ? 1 : l->n, .what = way_names[e->way]};
    s->wait[0][0] = tni_cf_fenced_word(&e->b, 0, 1, false);
    s->n_waits[0] = 1;
    if (e->b.signals) s->signal[0] = tni_cf_fenced_word(&e->b, 0, 1, true), s->signals[0] = true;
    ok = tni_cf_fenced_send(cf, s) && tni_cf_fenced_held(cf, s, 0, "its word has its value");
  }
  return ok;
}

/* Freed while the items hang, which are over before args_free has waited for a second. */
static bool free_soon(tni_cf *cf, ending *e, bool *in_time) {
  pthread_t t;
  atomic_store(&e->over, false);
  const int64_t since = tni_now_ns();
  if (pthread_create(&t, NULL, free_all, e) != 0) return tni_cf_fail(cf, "no thread"), false;
  tni_cf_nap_ms(SOON_MS);
  for (uint32_t k = 0; k < e->n; k++) tni_cf_fenced_store(&e->b, &e->s[k].wait[0][0], 1);
  for (int ms = 0; ms < 1000 * BACK_S && !atomic_load(&e->over); ms++) tni_cf_nap_ms(1);
  *in_time = tni_now_ns() - since < INT64_C(1000000) * MOST_MS;
  if (atomic_load(&e->over)) return pthread_join(t, NULL), true;
  return tni_cf_fail(cf, "%s: args_free and what follows have not come back in %d s", way_names[e->way], BACK_S), false;
}

/* Nothing hangs any more: all is given back. */
static void one_short_life(tni_cf *cf, ending *e) {
  bool in_time = false;
  if (!hang(cf, e) || !free_soon(cf, e, &in_time) || !nothing_is_spoilt(cf, e) || !comes_back(cf, e, close_it)) return;
  e->b.h.p.plugin->shutdown(e->b.h.p.plugin);
  const long long left = atomic_load(&e->b.h.p.host.live);
  if (in_time && left)
    tni_cf_fail(cf, "%s: %lld blocks of the host's memory were not given back: args_free waits for an item, a second at most "
                    "(plugin.h, tn_device)", way_names[e->way], left);
}

static void one_life(tni_cf *cf, ending *e) {
  bool ok = hang(cf, e) && (e->way == LEFT || comes_back(cf, e, abandon_it)) && comes_back(cf, e, free_all);
  /* What goes on now meets what was freed. */
  for (uint32_t k = 0; ok && e->way != CLOSED && k < e->n; k++) tni_cf_fenced_store(&e->b, &e->s[k].wait[0][0], 1);
  for (int ms = 0; ok && ms < LATE_MS && answers(e) < e->n; ms++) tni_cf_nap_ms(1);
  if (ok) tni_cf_nap_ms(LATE_MS / 3);
  ok = ok && nothing_is_spoilt(cf, e) && comes_back(cf, e, close_it);
  const uint32_t before = answers(e);
  if (ok) tni_cf_fenced_shut(&e->b);
  if (ok) tni_cf_nap_ms(LATE_MS);
  if (ok && answers(e) != before) ok = (tni_cf_fail(cf, "%s: done was called after close", way_names[e->way]), false);
  if (ok) (void)nothing_is_spoilt(cf, e);
}

/* In a process of its own: nothing of it is freed. */
static void run_part(tni_cf *cf, void *arg) {
  ending *e = calloc(1, sizeof *e);
  if (!e) return;
  e->way = *(const int *)arg;
  tni_cf_follow_begin(cf);
  tni_cf_heap_poison(true);
  if (!tni_cf_fenced_open(cf, &e->b, &(tni_cf_ask){.closed = true})) return;
  bool blocks = false;
  for (uint32_t k = 0; k < e->b.n_lanes; k++) blocks = blocks || tni_cf_blocking(&e->b.h, e->b.lane[k].engine);
  const char *why = !e->b.waits ? "its items wait for no fence: none can be made to hang"
                    : !e->b.n_lanes || blocks || !e->b.h.device->create
                        ? "no task of an engine that does not block may run by itself, "
                          "with memory of the device's"
                    : e->way < LEFT && !e->b.h.device->abandon ? "it has no tn_device.abandon"
                                                                : NULL;
  if (why) {
    tni_cf_note(cf, "%s", why);
    tni_cf_skip(cf, "%s", why);
    return;
  }
  if (e->way == SOON)
    one_short_life(cf, e);
  else
    one_life(cf, e);
}

static void ask_abandon(tni_cf *cf, const void *arg) {
  uint32_t asked = 0;
  char why[200] = "";
  (void)arg;
  for (int way = 0; way < WAYS && cf->verdict == TNI_CF_PASS; way++) {
    tni_cf_part part;
    if (!tni_cf_apart(cf, run_part, &way, LIMIT_MS, &part)) tni_cf_fail(cf, "no process could be made");
    if (part.failed) tni_cf_fail(cf, "%s", part.text);
    if (part.skipped) snprintf(why, sizeof why, "%s", part.note);
    asked += !part.skipped;
  }
  if (!asked)
    tni_cf_skip(cf, "%s", why[0] ? why : "no items of it can be made to hang");
  else
    tni_cf_note(cf, "%u of %d ways%s%s", asked, WAYS, why[0] ? "; " : "", why);
}

void tni_cf_life_abandon_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"life/abandon", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_abandon, NULL, 150000});
}
