/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of an instance, and what is looked at after them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/drive/inst.h"
#include "runtime/conform/drive/ticket.h"
#include "runtime/plugin/plugin.h"

/* An engine that blocks has answered when submit comes back: what is waited for is another thread's last word. */
enum { WAIT_S = 12, WAIT_BLOCKING_S = 1, MOST_S = 60, MOST_SEEN = 1 << 23 };

/* --- running ----------------------------------------------------------------------------------------------------- */

static tn_status task_submit(tni_cf_inst *i, uint32_t t, tn_run *run) {
  const tni_cf_work w = {i, t};
  struct tni_cf_ticket *k;
  tn_status st = tni_cf_inst_submit(&w, 1, run, &k);
  if (st != TN_OK) return st;
  const double patience = i->d->h->subject.patience > 1 ? i->d->h->subject.patience : 1;
  const bool blocking = tni_cf_blocking(i->d->h, i->d->info->tasks[t]->engine);
  double wait = patience * (blocking ? WAIT_BLOCKING_S : i->wait_s ? i->wait_s : WAIT_S);
  if (!i->wait_s && wait > MOST_S) wait = MOST_S;
  const uint32_t done = tni_cf_ticket_wait(k, (uint32_t)wait);
  char text[64];
  snprintf(text, sizeof text, "done was not called in %.0f s", wait);
  if (done != 1) return tni_cf_inst_failed(i, done ? "done was called twice" : text, NULL), TN_E_INTERNAL;
  if (k->st != TN_OK) tni_cf_inst_failed(i, "the item failed", k->message);
  if (k->st == TN_OK && k->unfinished)
    return tni_cf_inst_failed(i, "when done came, the results were not there yet", NULL), TN_E_INTERNAL;
  return k->st;
}

/* Results in buffers that the CPU sees all the time are looked at when done comes. */
static void look_at_results(tni_cf_inst *i, uint32_t t, struct tni_cf_ticket *k) {
  const tn_task *task = i->d->info->tasks[t];
  uint32_t n = 0;
  for (uint32_t u = 0; u < task->n_uses && n < sizeof k->look / sizeof *k->look; u++) {
    tni_cf_memory *m = tni_cf_inst_memory(i, task->uses[u].slot);
    const uint32_t kind = i->d->info->slots[task->uses[u].slot]->kind;
    uint8_t *at;
    if (!(task->uses[u].access & TN_WRITE) || kind != TN_SLOT_OUTPUT) continue;
    if (!m->buffer || !(m->buffer->flags & TN_BUF_COHERENT) || !m->bytes || m->bytes > MOST_SEEN) continue;
    if (!tni_cf_memory_look(i->d->h, m, TN_READ | TN_WRITE, &at)) continue;
    k->look[n].p = at;
    k->look[n++].n = m->bytes;
  }
}

/* Items are gone when submit comes back: they are filled with something else then. */
tn_status tni_cf_inst_submit(const tni_cf_work *w, uint32_t n, tn_run *run, struct tni_cf_ticket **tickets) {
  return tni_cf_inst_submit_fenced(w, NULL, n, run, tickets);
}

static void item_fence(tn_item *item, const tni_cf_fences *f, struct tni_cf_ticket *k) {
  item->n_waits = f->n_waits;
  item->waits = f->waits;
  item->signal = f->signal;
  if (!f->signal) return;
  k->word = f->signal->word;
  k->value = f->signal->value;
}

tn_status tni_cf_inst_submit_fenced(const tni_cf_work *w, const tni_cf_fences *f, uint32_t n, tn_run *run,
                                    struct tni_cf_ticket **tickets) {
  tni_cf_inst *i = w[0].i;
  tni_cf_host *h = i->d->h;
  tn_item item[TNI_CF_MAX_ITEMS];
  const tn_item *items[TNI_CF_MAX_ITEMS];
  const uint32_t engine = i->d->info->tasks[w[0].task]->engine;
  for (uint32_t k = 0; k < n; k++) {
    tickets[k] = tni_cf_ticket_take(h);
    look_at_results(w[k].i, w[k].task, tickets[k]);
    item[k] = (tn_item){.h = TN_HDR(tn_item),
                        .plan = w[k].i->plan[w[k].task],
                        .args = w[k].i->args[w[k].task],
                        .ticket = tickets[k]->handle};
    if (f) item_fence(&item[k], &f[k], tickets[k]);
    items[k] = &item[k];
  }
  tn_error err;
  tni_error_init(&err);
  const tn_status st = tni_dev_submit(&h->dev, engine, items, n, tni_cf_blocking(h, engine) ? run : NULL, &err);
  memset(item, 0xdb, sizeof item);
  memset(items, 0xdb, sizeof items);
  for (uint32_t k = 0; k < n; k++) tni_cf_ticket_submitted(tickets[k], st);
  if (st != TN_OK) tni_cf_inst_failed(i, "submit", err.message);
  return st;
}

bool tni_cf_blocking(const tni_cf_host *h, uint32_t engine) {
  return engine <= h->caps->n_engines && h->caps->engines[engine - 1]->flags & TN_ENGINE_BLOCKING;
}

tn_status tni_cf_inst_task(tni_cf_inst *i, uint32_t t, uint32_t split) {
  tni_cf_host *h = i->d->h;
  tn_run run = tni_cf_host_run(&(tni_cf_lent){split, i->brake});
  if (i->d->info->tasks[t]->engine) return task_submit(i, t, &run);
  tn_error err;
  tni_error_init(&err);
  const tn_status st = tni_dev_run(&h->dev, i->d->info->tasks[t]->name, i->plan[t], i->args[t], &run, &err);
  if (st != TN_OK) tni_cf_inst_failed(i, "run", err.message);
  return st;
}

static bool read_only(const tn_slot *s) { return s->kind == TN_SLOT_INPUT || s->kind == TN_SLOT_STEP; }

/* What a run may only read, in a row; NULL without memory or where there is nothing. */
static uint8_t *inputs_now(tni_cf_inst *i, uint64_t *bytes) {
  const tn_program_info *f = i->d->info;
  uint8_t *at, *copy;
  *bytes = 0;
  for (uint32_t s = 0; s < f->n_slots; s++)
    if (read_only(f->slots[s])) *bytes += i->slot[s].bytes;
  uint64_t done = 0;
  if (!*bytes || !(copy = malloc(*bytes))) return NULL;
  for (uint32_t s = 0; s < f->n_slots; s++) {
    if (!read_only(f->slots[s]) || !i->slot[s].bytes) continue;
    if (!tni_cf_inst_look(i, s, TN_READ, &at)) break;
    memcpy(copy + done, at, i->slot[s].bytes);
    done += i->slot[s].bytes;
    if (!tni_cf_inst_release(i, s)) break;
  }
  return copy;
}

static tn_status run_all(tni_cf_inst *i, uint32_t split) {
  tni_cf_host *h = i->d->h;
  tn_status st = TN_OK;
  const long long before = atomic_load(&h->p.host.total);
  for (uint32_t t = 0; st == TN_OK && t < i->d->info->n_tasks; t++)
    st = tni_cf_inst_task(i, i->order ? i->order[t] : t, split);
  __atomic_add_fetch(&h->run_allocs, atomic_load(&h->p.host.total) - before, __ATOMIC_RELAXED);
  return st;
}

/* Slots that an output may overwrite are an instance's own here: nobody may write to an input. */
tn_status tni_cf_inst_run(tni_cf_inst *i, uint8_t with, uint32_t split) {
  uint64_t bytes, after;
  if (!tni_cf_inst_fill(i, with)) return i->d->h->err.code == TN_E_DEVICE_LOST ? TN_E_DEVICE_LOST : TN_E_INTERNAL;
  uint8_t *was = inputs_now(i, &bytes);
  tn_status st = run_all(i, split);
  uint8_t *is = was ? inputs_now(i, &after) : NULL;
  if (st == TN_OK && is && !i->d->aliased && memcmp(was, is, bytes) != 0)
    st = (tni_cf_inst_failed(i, "an input was written", NULL), TN_E_INTERNAL);
  free(was);
  free(is);
  return st;
}

static bool weights_hold(tni_cf_inst *i, uint32_t s) {
  const tni_cf_drive *d = i->d;
  uint8_t *at;
  if (!d->packed[s] || d->flip != UINT64_MAX || !d->fixed[s].bytes) return true;
  if (!tni_cf_memory_look(d->h, &d->fixed[s], TN_READ, &at)) return tni_cf_inst_failed(i, "map", d->h->err.message);
  const uint8_t *was = d->packed[s] + d->section[s].offset;
  const tni_cf_block *host = &d->fixed[s].host;
  const bool same = !memcmp(at, was, d->fixed[s].bytes) && (!host->map || !memcmp(host->p, was, d->fixed[s].bytes));
  return tni_cf_memory_release(d->h, &d->fixed[s], tni_cf_slot_is_cpus(i, s)) &&
         (same || tni_cf_inst_failed(i, "a packed weight was changed", NULL));
}

static bool slot_holds(tni_cf_inst *i, uint32_t s) {
  const tn_slot *slot = i->d->info->slots[s];
  char text[96];
  snprintf(text, sizeof text, "bytes beside slot %u ('%.60s') were written", s, slot->name ? slot->name : "");
  if (!tni_cf_memory_guards(i->d->h, tni_cf_inst_memory(i, s), tni_cf_slot_is_cpus(i, s)))
    return tni_cf_inst_failed(i, text, NULL);
  return slot->kind != TN_SLOT_WEIGHT || weights_hold(i, s);
}

bool tni_cf_inst_guards(tni_cf_inst *i) {
  const tn_program_info *f = i->d->info;
  for (uint32_t s = 0; s < f->n_slots; s++) {
    const bool shared = tni_cf_slot_is_fixed(f->slots[s]);
    if (shared) pthread_mutex_lock(&i->d->h->looking);
    const bool holds = slot_holds(i, s);
    if (shared) pthread_mutex_unlock(&i->d->h->looking);
    if (!holds) return false;
  }
  for (uint32_t t = 0; t < f->n_tasks; t++)
    if (!tni_cf_memory_guards(i->d->h, &i->scratch[t], !f->tasks[t]->engine))
      return tni_cf_inst_failed(i, "bytes beside the scratch were written", NULL);
  return true;
}
