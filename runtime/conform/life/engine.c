/* SPDX-License-Identifier: Apache-2.0
 *
 * Engines: how items are answered, and what is left of a device that was lost.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/engine.h"

enum { ROWS = 5, WAIT_S = 10, ROUNDS = 12, LINGER_MS = 40, AT_ONCE = 4 };

static const tni_cf_claimed *engine_claimed(const tni_cf_listing *l, uint32_t *at) {
  while (*at < l->n_claimed)
    if (l->claimed[(*at)++].verdict == TN_YES) return &l->claimed[*at - 1];
  return NULL;
}

static bool on_engine(const tni_cf_rig *rig) {
  for (uint32_t t = 0; t < rig->d.info->n_tasks; t++)
    if (rig->d.info->tasks[t]->engine) return true;
  return false;
}

/* The first claimed graph with a task for an engine, ready to run; false: there is none, or it failed (said so). */
static bool on_an_engine(tni_cf *cf, tni_cf_host *h, tni_cf_rig *rig) {
  uint32_t at = 0;
  for (const tni_cf_claimed *c; (c = engine_claimed(cf->listing, &at));) {
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    if (!tni_cf_rig_claim(rig, h, tni_cf_graph_find(c->graph), c->phase, &r) || !tni_cf_rig_prepare(rig, ROWS, &r)) {
      tni_cf_fail(cf, "%s: %s", c->graph, rig->why);
      tni_cf_rig_finish(rig);
      return false;
    }
    if (on_engine(rig)) return true;
    tni_cf_rig_finish(rig);
  }
  tni_cf_skip(cf, "none of its tasks runs on an engine");
  return false;
}

static bool outputs_keep(tni_cf *cf, const tni_cf_rig *rig, void **to) {
  for (uint32_t o = 0; o < rig->b.n_out; o++)
    if (!(to[o] = tni_arena_memdup(cf->arena, rig->out[o].data, rig->out[o].bytes, 64))) return false;
  return true;
}

static bool outputs_same(const tni_cf_rig *rig, void *const *as) {
  for (uint32_t o = 0; o < rig->b.n_out; o++)
    if (memcmp(rig->out[o].data, as[o], rig->out[o].bytes) != 0) return false;
  return true;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* Instances of one program that are submitted together, and what each gives alone. */
typedef struct engine_bench {
  tni_cf_host h;
  tni_cf_rig rig[AT_ONCE];
  void *kept[AT_ONCE][TNI_CN_MAX_OUT];
  uint32_t n, items, early, foreign;
} engine_bench;

static bool is_answered(tni_cf *cf, struct tni_cf_ticket *k, bool blocking, const char *how, engine_bench *b) {
  pthread_mutex_lock(&k->lock);
  const bool late = blocking && !k->done;
  pthread_mutex_unlock(&k->lock);
  if (late) tni_cf_fail(cf, "%s: the engine is flagged BLOCKING, and submit came back before done", how);
  const uint32_t n = tni_cf_ticket_wait(k, WAIT_S);
  if (n != 1)
    tni_cf_fail(cf, n ? "%s: done was called %u times for one item" : "%s: done was called %u times in 10 s", how, n);
  if (n && k->st != TN_OK) tni_cf_fail(cf, "%s: an item failed (%s): %s", how, tni_status_name(k->st), k->message);
  if (n && k->t.times.start > k->t.times.end) tni_cf_fail(cf, "%s: an item ends before it starts", how);
  if (n && k->unfinished) tni_cf_fail(cf, "%s: when done came, the results were not there yet", how);
  b->items++;
  b->early += n && k->early;
  b->foreign += n && k->foreign;
  return n == 1 && k->st == TN_OK && !late;
}

/* One step of the first n instances at once: what runs on engines in one submission of n items. */
static bool bench_step(tni_cf *cf, engine_bench *b, uint32_t n, const char *how) {
  const tn_program_info *f = b->rig[0].d.info;
  struct tni_cf_ticket *tickets[AT_ONCE];
  tni_cf_work w[AT_ONCE];
  bool ok = true;
  for (uint32_t t = 0; ok && t < f->n_tasks; t++) {
    const uint32_t engine = f->tasks[t]->engine;
    tn_run run = tni_cf_host_run(&(tni_cf_lent){.split = TNI_CF_INLINE});
    for (uint32_t i = 0; i < n; i++) w[i] = (tni_cf_work){&b->rig[i].i, t};
    for (uint32_t i = 0; !engine && i < n; i++)
      if (tni_cf_inst_task(w[i].i, t, TNI_CF_INLINE) != TN_OK)
        return tni_cf_fail(cf, "%s: %s", how, w[i].i->why), false;
    if (!engine) continue;
    const tn_status st = tni_cf_inst_submit(w, n, &run, tickets);
    if (st != TN_OK) return tni_cf_fail(cf, "%s: %s (%s)", how, w[0].i->why, tni_status_name(st)), false;
    for (uint32_t i = 0; ok && i < n; i++) ok = is_answered(cf, tickets[i], tni_cf_blocking(&b->h, engine), how, b);
  }
  return ok;
}

static bool outputs_read(tni_cf *cf, tni_cf_rig *rig) {
  bool ok = true;
  for (uint32_t o = 0; ok && o < rig->b.n_out; o++)
    ok = tni_cf_inst_read(&rig->i, rig->b.out[o], rig->out[o].data, rig->out[o].bytes);
  if (!ok) tni_cf_fail(cf, "%s", rig->i.why);
  return ok;
}

static void round_of(tni_cf *cf, engine_bench *b, uint32_t n, const char *how) {
  bool ok = true;
  for (uint32_t i = 0; ok && i < n; i++)
    if (!(ok = tni_cf_inst_fill(&b->rig[i].i, 0xa7))) tni_cf_fail(cf, "%s", b->rig[i].i.why);
  ok = ok && bench_step(cf, b, n, how);
  for (uint32_t i = 0; ok && i < n; i++) {
    ok = outputs_read(cf, &b->rig[i]);
    if (ok && !outputs_same(&b->rig[i], b->kept[i]))
      ok = (tni_cf_fail(cf, "%s: when done came, the results were not there", how), false);
  }
}

static uint32_t depth_of(const tni_cf_host *h, const tn_program_info *f) {
  uint32_t n = AT_ONCE;
  for (uint32_t t = 0; t < f->n_tasks; t++) {
    const uint32_t e = f->tasks[t]->engine;
    if (e && e <= h->caps->n_engines && h->caps->engines[e - 1]->depth < n) n = h->caps->engines[e - 1]->depth;
  }
  return n ? n : 1;
}

/* The instances, each with inputs and results of its own. */
static void make_all(tni_cf *cf, engine_bench *b) {
  if (!b->h.caps->n_engines) tni_cf_skip(cf, "it has no engines: its tasks run on the CPU");
  if (!b->h.caps->n_engines || !on_an_engine(cf, &b->h, &b->rig[0])) return;
  const uint32_t most = depth_of(&b->h, b->rig[0].d.info);
  for (b->n = 1; cf->verdict == TNI_CF_PASS; b->n++) {
    tni_cf_rig *rig = &b->rig[b->n - 1];
    if (!tni_cf_rig_run(rig, 0x5b, TNI_CF_INLINE) || !outputs_keep(cf, rig, b->kept[b->n - 1]))
      tni_cf_fail(cf, "%s", rig->why);
    tni_cf_rng r = tni_cf_rng_of(cf, 2 + b->n);
    if (b->n == most || cf->verdict != TNI_CF_PASS) return;
    if (!tni_cf_rig_share(&b->rig[b->n], &b->rig[0], &r)) tni_cf_fail(cf, "%s", b->rig[b->n].why);
  }
}

/* Every item is answered once, from whatever thread and also before submit comes back, and not before its results are
 * there. The items themselves are gone when submit has come back. Alone, as many as the engine takes in one submission,
 * and while the host takes its time in `done`. Second answers may come late: all are counted until the device is
 * closed. */
static void ask_done(tni_cf *cf, const void *arg) {
  static const char *const how[] = {"one item", "several items in one submission", "several items, and a slow host"};
  engine_bench *b = calloc(1, sizeof *b);
  (void)arg;
  if (!b || !tni_cf_host_open(cf, &b->h, NULL)) {
    free(b);
    return;
  }
  make_all(cf, b);
  for (int i = 0; cf->verdict == TNI_CF_PASS && i < ROUNDS; i++) {
    b->h.nap_us = i % 3 == 2 ? 2000 : 0;
    round_of(cf, b, i % 3 ? b->n : 1, how[i % 3]);
  }
  tni_cf_nap_ms(LINGER_MS);
  if (b->items)
    tni_cf_note(cf, "%u items, %u answered inside submit, %u from other threads; up to %u at once", b->items, b->early,
                b->foreign, b->n);
  for (uint32_t i = b->n; i-- > 0;)
    if (b->rig[i].h) tni_cf_rig_finish(&b->rig[i]);
  tni_cf_host_close(cf, &b->h);
  free(b);
}

/* --- items that are told to end ----------------------------------------------------------------------------------- */

/* One submission, on a thread of its own where the engine blocks. */
typedef struct submission {
  engine_bench *b;
  struct tni_cf_ticket *tickets[AT_ONCE];
  tni_cf_work w[AT_ONCE];
  uint32_t n;
  tn_status st;
  atomic_bool over;
} submission;

static void *submit_all(void *arg) {
  submission *s = arg;
  tn_run run = tni_cf_host_run(&(tni_cf_lent){.split = TNI_CF_INLINE});
  s->st = tni_cf_inst_submit(s->w, s->n, &run, s->tickets);
  atomic_store(&s->over, true);
  return NULL;
}

/* NONE: a ticket that was answered long ago. */
enum { CANCEL_ALL, CANCEL_ONE, CANCEL_NONE, CANCEL_WAYS };
static const char *const cancel_names[CANCEL_WAYS] = {"all that the engine has", "one item",
                                                      "an item that was answered before"};

/* Tells the submission to end; where the engine blocks as often as it takes, beside submit. */
static void cancel_now(submission *s, uint32_t engine, int way, struct tni_cf_ticket *old) {
  tn_device *d = s->b->h.device;
  struct tni_cf_ticket *const one = way == CANCEL_ONE && atomic_load(&s->over) ? s->tickets[s->n - 1] : old;
  do {
    d->cancel(d, engine, way == CANCEL_ALL ? NULL : one->handle);
    nanosleep(&(struct timespec){0, 20000}, NULL);
  } while (!atomic_load(&s->over));
}

static bool submit_and_cancel(tni_cf *cf, engine_bench *b, submission *s, uint32_t engine, int way,
                              struct tni_cf_ticket *old) {
  pthread_t t;
  const bool blocks = tni_cf_blocking(&b->h, engine);
  const bool apart = blocks && pthread_create(&t, NULL, submit_all, s) == 0;
  if (!apart) submit_all(s);
  cancel_now(s, engine, way, old);
  if (apart) pthread_join(t, NULL);
  if (s->st != TN_OK && s->st != TN_E_CANCELLED)
    return tni_cf_fail(cf, "cancel of %s: submit says %s: %s", cancel_names[way], tni_status_name(s->st), s->w[0].i->why),
           false;
  return true;
}

/* Each item is completed once: right, or CANCELLED. True: the step goes on. */
static bool ended_well(tni_cf *cf, const submission *s, int way, uint32_t *cancelled) {
  bool all = s->st == TN_OK;
  for (uint32_t i = 0; s->st == TN_OK && i < s->n; i++) {
    const uint32_t n = tni_cf_ticket_wait(s->tickets[i], WAIT_S);
    const tn_status st = s->tickets[i]->st;
    if (n != 1)
      return tni_cf_fail(cf, "an item that was told to end is %s: cancel of %s: done was called %u times in %d s: each "
                             "is completed all the same (plugin.h, tn_device.cancel)",
                         n ? "completed again" : "never completed", cancel_names[way], n, WAIT_S),
             false;
    if (st != TN_OK && st != TN_E_CANCELLED)
      return tni_cf_fail(cf, "an item that was told to end says %s: cancel of %s: %s", tni_status_name(st),
                         cancel_names[way], s->tickets[i]->message),
             false;
    const bool named = way == CANCEL_ALL || (way == CANCEL_ONE && i + 1 == s->n);
    if (st == TN_E_CANCELLED && !named)
      return tni_cf_fail(cf, "an item is cancelled that nobody named: cancel came for %s", cancel_names[way]), false;
    all = all && st == TN_OK;
    *cancelled += st == TN_E_CANCELLED;
  }
  return all;
}

/* One step of all instances that is told to end in each of its submissions. */
static void step_and_cancel(tni_cf *cf, engine_bench *b, int way, uint32_t *cancelled) {
  const tn_program_info *f = b->rig[0].d.info;
  struct tni_cf_ticket *old = NULL;
  bool whole = true;
  for (uint32_t i = 0; i < b->n; i++)
    if (!tni_cf_inst_fill(&b->rig[i].i, 0xa7)) {
      tni_cf_fail(cf, "%s", b->rig[i].i.why);
      return;
    }
  for (uint32_t t = 0; whole && cf->verdict == TNI_CF_PASS && t < f->n_tasks; t++) {
    submission s = {.b = b, .n = b->n};
    for (uint32_t i = 0; i < b->n; i++) s.w[i] = (tni_cf_work){&b->rig[i].i, t};
    for (uint32_t i = 0; !f->tasks[t]->engine && i < b->n; i++)
      if (tni_cf_inst_task(s.w[i].i, t, TNI_CF_INLINE) != TN_OK) tni_cf_fail(cf, "%s", s.w[i].i->why);
    if (!f->tasks[t]->engine) continue;
    if (way != CANCEL_ALL) tni_cf_ticket_submitted(old = tni_cf_ticket_take(&b->h), TN_E_CANCELLED);
    whole = submit_and_cancel(cf, b, &s, f->tasks[t]->engine, way, old) && ended_well(cf, &s, way, cancelled);
  }
  for (uint32_t i = 0; whole && cf->verdict == TNI_CF_PASS && i < b->n; i++)
    if (outputs_read(cf, &b->rig[i]) && !outputs_same(&b->rig[i], b->kept[i]))
      tni_cf_fail(cf, "an item that was told to end says OK, and its results are wrong: cancel of %s", cancel_names[way]);
}

/* tn_device.cancel: what is told to end is completed once, CANCELLED or right, and the same arguments work again. */
static void ask_cancel_items(tni_cf *cf, const void *arg) {
  engine_bench *b = calloc(1, sizeof *b);
  uint32_t cancelled = 0, asked = 0;
  (void)arg;
  if (!b || !tni_cf_host_open(cf, &b->h, NULL)) {
    free(b);
    return;
  }
  make_all(cf, b);
  if (cf->verdict == TNI_CF_PASS && !b->h.device->cancel)
    tni_cf_skip(cf, "it has no tn_device.cancel: its items run to their end");
  for (int i = 0; cf->verdict == TNI_CF_PASS && i < ROUNDS; i++) {
    step_and_cancel(cf, b, i % CANCEL_WAYS, &cancelled);
    asked += b->n;
    if (cf->verdict == TNI_CF_PASS) round_of(cf, b, b->n, "after items were told to end");
  }
  if (cf->verdict == TNI_CF_PASS) tni_cf_note(cf, "%u of %u items ended early", cancelled, asked);
  for (uint32_t i = b->n; i-- > 0;)
    if (b->rig[i].h) tni_cf_rig_finish(&b->rig[i]);
  tni_cf_host_close(cf, &b->h);
  free(b);
}

/* --- losing a device ---------------------------------------------------------------------------------------------- */

bool tni_cf_can_lose(const tn_plugin *p) {
  for (uint32_t i = 0; i < p->n_options; i++)
    if (!strcmp(p->options[i]->key, "fault") && p->options[i]->type == TN_OPT_STRING) return true;
  return false;
}

static void check_afterwards(tni_cf *cf, const char *call, tn_status st, const tn_error *e) {
  if (st == TN_OK) return;
  if (st != TN_E_DEVICE_LOST)
    tni_cf_fail(cf, "the device is lost, and %s says %s: %s", call, tni_status_name(st), e->message);
  else if (!e->message[0])
    tni_cf_fail(cf, "the device is lost, and %s says so without a message", call);
}

/* Calls that a host may still make: each says that the device is lost, or works. */
static void calls_afterwards(tni_cf *cf, tni_cf_host *h, tni_cf_rig *rig) {
  tn_error e;
  const tn_device *d = h->device;
  for (uint32_t t = 0; t < rig->d.info->n_tasks; t++) {
    tn_plan *plan = NULL;
    tni_error_init(&e);
    const tn_status st = d->bind(rig->d.prog.program, t, &rig->i.dims, &plan, &e);
    check_afterwards(cf, "bind", st, &e);
    if (st == TN_OK) d->unbind(plan);
  }
  if (!d->create) return;
  const tn_buffer_req req = {.h = TN_HDR(tn_buffer_req),
                             .bytes = 4096,
                             .fd = -1,
                             .kind = TN_MEM_NEW,
                             .usage = 1u << TN_SLOT_TEMP,
                             .flags = TN_BUF_HOST,
                             .align = h->caps->align ? h->caps->align : 1};
  tn_buffer *b = NULL;
  void *p = NULL;
  tni_error_init(&e);
  tn_status st = h->device->create(h->device, &req, &b, &e);
  check_afterwards(cf, "create", st, &e);
  if (st != TN_OK || !b) return;
  tni_error_init(&e);
  st = d->map(b, 0, 4096, TN_WRITE, &p, &e);
  check_afterwards(cf, "map", st, &e);
  if (st == TN_OK && p) check_afterwards(cf, "unmap", d->unmap(b, p, &e), &e);
  d->destroy(b);
}

/* A life in which the N-th item is lost. False: nothing was. */
static bool lose_device(tni_cf *cf, const char *option, void *const *right, int runs) {
  tni_cf_host h;
  tni_cf_rig rig = {0};
  bool lost = false;
  if (!tni_cf_host_open(cf, &h, &(tni_cf_ask){.option = option})) return true;
  const bool ready = on_an_engine(cf, &h, &rig);
  for (int i = 0; ready && cf->verdict == TNI_CF_PASS && i < runs + 3 * lost; i++) {
    const tn_status st = tni_cf_inst_run(&rig.i, (uint8_t)(0x11 * i), TNI_CF_INLINE);
    if (st != TN_OK && st != TN_E_DEVICE_LOST)
      tni_cf_fail(cf, "%s, run %d: %s: %s", option ? option : "lost by itself", i, tni_status_name(st), rig.i.why);
    if (st == TN_E_DEVICE_LOST && !lost) lost = true, runs = i + 1;
    for (uint32_t o = 0; st == TN_OK && o < rig.b.n_out; o++)
      if (!tni_cf_inst_read(&rig.i, rig.b.out[o], rig.out[o].data, rig.out[o].bytes) ||
          memcmp(rig.out[o].data, right[o], rig.out[o].bytes) != 0) {
        tni_cf_fail(cf, "run %d%s says OK, and its results are wrong", i, lost ? ", after the device was lost," : "");
        break;
      }
  }
  if (lost && cf->verdict == TNI_CF_PASS) calls_afterwards(cf, &h, &rig);
  if (ready) tni_cf_rig_finish(&rig);
  tni_cf_host_close(cf, &h);
  return lost || cf->verdict != TNI_CF_PASS;
}

/* How many items each instance of a step is. */
static uint32_t items_of(const tn_program_info *f) {
  uint32_t n = 0;
  for (uint32_t t = 0; t < f->n_tasks; t++) n += f->tasks[t]->engine != 0;
  return n;
}

/* One submission of task t of all instances of a device that is lost, or about to be. True: the step goes on. */
static bool lose_in(tni_cf *cf, engine_bench *b, uint32_t t, bool *lost) {
  const char *const when = *lost ? "submitted after the device was lost" : "in flight when the device was lost";
  struct tni_cf_ticket *tickets[AT_ONCE];
  tni_cf_work w[AT_ONCE];
  bool all = true;
  tn_run run = tni_cf_host_run(&(tni_cf_lent){.split = TNI_CF_INLINE});
  for (uint32_t i = 0; i < b->n; i++) w[i] = (tni_cf_work){&b->rig[i].i, t};
  if (!b->rig[0].d.info->tasks[t]->engine) {
    for (uint32_t i = 0; all && i < b->n; i++) all = tni_cf_inst_task(w[i].i, t, TNI_CF_INLINE) == TN_OK;
    return all;
  }
  const tn_status st = tni_cf_inst_submit(w, b->n, &run, tickets);
  if (st == TN_E_DEVICE_LOST) return *lost = true, false;
  if (st != TN_OK)
    return tni_cf_fail(cf, "submit says %s of a device that is lost: %s", tni_status_name(st), w[0].i->why), false;
  for (uint32_t i = 0; i < b->n; i++) {
    const uint32_t n = tni_cf_ticket_wait(tickets[i], WAIT_S);
    if (n != 1)
      return tni_cf_fail(cf, "an item %s is %s: item %u of %u: done was called %u times in %d s (plugin.h, tn_item)", when,
                         n ? "completed again" : "never completed", i + 1, b->n, n, WAIT_S),
             false;
    if (tickets[i]->st != TN_OK && tickets[i]->st != TN_E_DEVICE_LOST)
      return tni_cf_fail(cf, "an item %s says %s, and not DEVICE_LOST: item %u of %u: %s (plugin.h, tn_item)", when,
                         tni_status_name(tickets[i]->st), i + 1, b->n, tickets[i]->message),
             false;
    all = all && tickets[i]->st == TN_OK;
  }
  if (!all) *lost = true;
  return all;
}

/* Several items in flight, one of which is lost: each is completed once, and so is what is submitted afterwards. at: which
 * of them is lost, counted from 1. */
static void lose_among(tni_cf *cf, uint32_t at) {
  engine_bench *b = calloc(1, sizeof *b);
  tni_cf_host h;
  tni_cf_rig rig = {0};
  char option[32];
  bool lost = false;
  /* Items of make_all: one step of each instance. */
  if (!b || !tni_cf_host_open(cf, &h, NULL)) {
    free(b);
    return;
  }
  const bool ready = on_an_engine(cf, &h, &rig);
  const uint32_t each = ready ? items_of(rig.d.info) : 0, n = ready ? depth_of(&h, rig.d.info) : 0;
  if (ready) tni_cf_rig_finish(&rig);
  tni_cf_host_close(cf, &h);
  snprintf(option, sizeof option, "fault=lost:%u", n * each + at);
  if (cf->verdict == TNI_CF_PASS && at <= n &&
      tni_cf_host_open(cf, &b->h, &(tni_cf_ask){.option = tni_arena_strdup(cf->arena, option)})) {
    fprintf(stderr, "%s, %u items in one submission\n", option, n);
    make_all(cf, b);
    for (int round = 0; cf->verdict == TNI_CF_PASS && round < 2; round++) {
      bool on = true;
      for (uint32_t i = 0; on && i < b->n; i++) on = tni_cf_inst_fill(&b->rig[i].i, 0xa7);
      for (uint32_t t = 0; on && cf->verdict == TNI_CF_PASS && t < b->rig[0].d.info->n_tasks; t++)
        on = lose_in(cf, b, t, &lost);
      for (uint32_t i = 0; on && !round && cf->verdict == TNI_CF_PASS && i < b->n; i++)
        if (outputs_read(cf, &b->rig[i]) && !outputs_same(&b->rig[i], b->kept[i]))
          tni_cf_fail(cf, "an item says OK though the device was lost, and its results are wrong");
    }
    if (cf->verdict == TNI_CF_PASS && !lost)
      tni_cf_fail(cf, "option %s: no item was lost: the plugin counts the items that it gets from 1 on, from open to close",
                  option);
    for (uint32_t i = b->n; i-- > 0;)
      if (b->rig[i].h) tni_cf_rig_finish(&b->rig[i]);
    tni_cf_host_close(cf, &b->h);
  }
  free(b);
}

/* A run without faults, in a life of its own; its outputs to keep, or to compare. */
static bool runs_soundly(tni_cf *cf, void **right, bool again) {
  tni_cf_host h;
  tni_cf_rig rig = {0};
  if (!tni_cf_host_open(cf, &h, NULL)) return false;
  const bool ready = h.caps->n_engines && on_an_engine(cf, &h, &rig);
  if (!h.caps->n_engines) tni_cf_skip(cf, "it has no engines: its tasks run on the CPU");
  if (ready && !tni_cf_rig_run(&rig, 0x5b, TNI_CF_INLINE))
    tni_cf_fail(cf, "%s%s", again ? "opened again: " : "", rig.why);
  else if (ready && again && !outputs_same(&rig, right))
    tni_cf_fail(cf, "opened again after the device was lost, it computes something else");
  else if (ready && !again && !outputs_keep(cf, &rig, right))
    tni_cf_fail(cf, "out of memory");
  const bool able = tni_cf_can_lose(h.p.plugin);
  if (ready) tni_cf_rig_finish(&rig);
  tni_cf_host_close(cf, &h);
  return ready && able;
}

/* A device is lost while it computes: the item says DEVICE_LOST, and whatever is called then says so too or works; all
 * is given back, nothing waits for ever, and a device that is opened afterwards computes what it did before. */
static void ask_lost(tni_cf *cf, const void *arg) {
  void *right[TNI_CN_MAX_OUT];
  (void)arg;
  const bool able = runs_soundly(cf, right, false);
  if (!able && cf->verdict == TNI_CF_PASS)
    tni_cf_skip(cf, "it cannot lose its device on demand: it has no option `fault` that takes lost:N");
  for (int n = 1; able && n <= 3 && cf->verdict == TNI_CF_PASS; n++) {
    char option[32];
    snprintf(option, sizeof option, "fault=lost:%d", n);
    fprintf(stderr, "%s\n", option);
    if (!lose_device(cf, tni_arena_strdup(cf->arena, option), right, n + 2))
      tni_cf_fail(cf, "option %s: no item was lost in %d runs", option, n + 2);
    if (cf->verdict == TNI_CF_PASS) (void)runs_soundly(cf, right, true);
  }
  for (uint32_t at = 1; able && at <= 3 && cf->verdict == TNI_CF_PASS; at += 2) lose_among(cf, at);
}

void tni_cf_life_engine_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"life/done", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_done, NULL, 0});
  add(ctx, &(tni_cf_case){"life/cancel-items", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_cancel_items, NULL, 0});
  add(ctx, &(tni_cf_case){"life/lost", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_lost, NULL, 0});
}
