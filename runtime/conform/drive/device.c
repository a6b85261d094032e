/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/drive/device.h"
#include "runtime/conform/drive/ticket.h"
#include "runtime/conform/observe/observe.h"

/* --- runs -------------------------------------------------------------------------------------------------------- */

typedef struct run_piece {
  tn_body body;
  void *arg;
  int64_t begin, end;
  uint32_t worker;
} run_piece;

static void *do_piece(void *arg) {
  const run_piece *p = arg;
  if (p->begin < p->end) p->body(p->arg, p->begin, p->end, p->worker);
  return NULL;
}

/* Pieces are never smaller than a grain: what is left over joins the last. */
static void for_threads(int64_t n, int64_t grain, tn_body body, void *arg) {
  int64_t parts = n / grain < TNI_CF_THREADS ? n / grain : TNI_CF_THREADS;
  pthread_t t[TNI_CF_THREADS];
  run_piece p[TNI_CF_THREADS];
  bool started[TNI_CF_THREADS] = {false};
  if (parts < 1) parts = 1;
  for (int64_t i = 0; i < parts; i++) {
    p[i] = (run_piece){body, arg, n * i / parts, n * (i + 1) / parts, (uint32_t)i};
    started[i] = i + 1 < parts && pthread_create(&t[i], NULL, do_piece, &p[i]) == 0;
    if (!started[i]) do_piece(&p[i]);
  }
  for (int64_t i = 0; i < parts; i++)
    if (started[i]) pthread_join(t[i], NULL);
}

static void for_grains(int64_t n, int64_t grain, tn_body body, void *arg, bool backwards) {
  int64_t parts = n / grain;
  if (parts < 1) parts = 1;
  if (parts > 4096) {
    grain = (n + 4095) / 4096;
    parts = n / grain;
  }
  for (int64_t k = 0; k < parts; k++) {
    const int64_t i = backwards ? parts - 1 - k : k;
    const uint32_t worker = (uint32_t)((backwards ? parts - 1 - k : k) % TNI_CF_WORKERS);
    body(arg, i * grain, i + 1 == parts ? n : (i + 1) * grain, worker);
  }
}

static void run_for(tn_run *run, int64_t n, int64_t grain, tn_body body, void *arg) {
  const uint32_t split = ((const tni_cf_lent *)run->ctx)->split;
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (split == TNI_CF_EVEN)
    for_threads(n, grain, body, arg);
  else if (split == TNI_CF_ENDS && n >= 2 * grain)
    body(arg, 0, grain, 0), body(arg, n - grain, n, TNI_CF_WORKERS - 1);
  else if (split == TNI_CF_GRAINS || split == TNI_CF_BACKWARDS)
    for_grains(n, grain, body, arg, split == TNI_CF_BACKWARDS);
  else
    body(arg, 0, n, 0);
}

static int32_t run_cancelled(const tn_run *run) {
  tni_cf_brake *b = ((const tni_cf_lent *)run->ctx)->brake;
  return b && atomic_fetch_add(&b->polls, 1) + 1 >= b->after;
}

tn_run tni_cf_host_run(tni_cf_lent *l) {
  return (tn_run){
      .h = TN_HDR(tn_run), .ctx = l, .n_workers = TNI_CF_WORKERS, .parallel_for = run_for, .cancelled = run_cancelled};
}

/* --- life -------------------------------------------------------------------------------------------------------- */

static bool has_choice(const char *choices, const char *want) {
  const size_t n = strlen(want);
  for (const char *at = choices; at && *at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
    if (!strncmp(at, want, n) && (at[n] == '|' || at[n] == '\0')) return true;
  return false;
}

static const char *option_choosing(const tn_plugin *p, const char *want) {
  for (uint32_t i = 0; want && i < p->n_options; i++)
    if (p->options[i]->choices && has_choice(p->options[i]->choices, want)) return p->options[i]->key;
  return NULL;
}

static const char *option_join(tni_cf *cf, const char *key, const char *value) {
  char text[256];
  snprintf(text, sizeof text, "%s=%s", key, value);
  return tni_arena_strdup(cf->arena, text);
}

/* The subject with options in front of its own, which give way to them. */
static bool with_options(tni_cf *cf, tni_cf_host *h, const tni_cf_ask *ask) {
  const tni_cf_subject *s = cf->subject;
  const char **all = TNI_NEW_ARRAY(cf->arena, const char *, s->n_options + 2);
  uint32_t n = 0;
  h->subject = *s;
  if (!all) return false;
  const char *key = ask ? option_choosing(h->p.plugin, ask->format) : NULL;
  if (key) all[n++] = option_join(cf, key, ask->format);
  if (ask && ask->option) all[n++] = ask->option;
  for (uint32_t i = 0; i < s->n_options; i++) {
    bool taken = false;
    for (uint32_t k = 0; k < n && !taken; k++)
      taken = all[k] && !strncmp(all[k], s->options[i], strcspn(s->options[i], "=") + 1);
    if (!taken) all[n++] = s->options[i];
  }
  h->subject.options = all;
  h->subject.n_options = n;
  return n == 0 || all[0] != NULL;
}

/* A table that is shorter, older, or lacks a function. */
static void table_cut(tni_cf_plugin *p, const tni_cf_ask *ask) {
  uint8_t *table = (uint8_t *)&p->host.pub;
  if (ask->without) memset(table + ask->without, 0, sizeof(void (*)(void)));
  if (ask->table) {
    memset(table + ask->table, 0xdb, sizeof p->host.pub - ask->table);
    p->host.pub.h.size = ask->table;
  }
  if (ask->old) p->host.pub.h.minor = p->host_max = 0;
}

static tn_status enter_device(tni_cf *cf, tni_cf_host *h, const tni_cf_ask *ask) {
  tn_status st = tni_cf_plugin_init(&h->p, cf->subject);
  if (st == TN_OK && !tni_cf_tickets_init(h)) st = tni_fail_memory(&h->p.err, "tickets");
  if (st != TN_OK) return st;
  h->p.host.pub.done = tni_cf_ticket_done;
  h->p.host.pub.flags |= TN_HOST_CHECKED;
  h->p.host.pub.max_workers = TNI_CF_WORKERS;
  h->p.host.exact = ask && ask->exact;
  h->p.host.huge = ask && ask->huge;
  h->p.host.closed = ask && ask->closed;
  if (ask) table_cut(&h->p, ask);
  atomic_store(&h->p.host.fail_at, ask ? ask->fail_at : 0);
  atomic_store(&h->p.host.fail_from, ask ? ask->fail_from : 0);
  st = tni_cf_plugin_enter(&h->p);
  if (st == TN_OK && !with_options(cf, h, ask)) st = tni_fail_memory(&h->p.err, "options");
  if (st == TN_OK) st = tni_cf_plugin_check(&h->p, &h->subject);
  return st == TN_OK ? tni_cf_plugin_enumerate(&h->p) : st;
}

void tni_cf_host_knows(tni_cf_host *h, tn_device *device) {
  h->host = &h->p.host.pub;
  h->device = device;
  h->caps = device->caps;
  h->dev = (tni_dev){.name = h->p.plugin->name,
                     .device = device,
                     .plugin = h->p.plugin,
                     .host = h->host,
                     .lock = &h->lock,
                     .is_host = !strcmp(h->subject.path, "host")};
}

/* The kit adds an option to those of the command line, and the plugin says that they do not go together. */
static bool refuses_both(const tni_cf *cf, const tni_cf_host *h, const tni_cf_ask *ask, tn_status st) {
  return st == TN_E_INVALID && cf->subject->n_options && ask && (ask->format || ask->option) && h->p.err.message[0];
}

bool tni_cf_host_open(tni_cf *cf, tni_cf_host *h, const tni_cf_ask *ask) {
  memset(h, 0, sizeof *h);
  tni_error_init(&h->err);
  tni_devlock_init(&h->lock);
  pthread_mutex_init(&h->looking, NULL);
  tn_status st = enter_device(cf, h, ask);
  const bool none = st == TN_OK && h->p.n_caps <= cf->subject->device;
  if (none)
    tni_cf_skip(cf, "no device here: %s", h->p.err.message);
  else if (st == TN_OK)
    st = tni_cf_plugin_open(&h->p, cf->subject->device);
  if (st == TN_OK && !none && !(h->device = tni_cf_observe(h->p.device))) st = tni_fail_memory(&h->p.err, "observe");
  const bool starved = ask && (ask->fail_at || ask->fail_from || ask->may_fail);
  if (refuses_both(cf, h, ask, st))
    tni_cf_skip(cf, "not with the options of the command line: %s", h->p.err.message);
  else if (st != TN_OK && !starved)
    tni_cf_fail(cf, "%s: %s (%s)", h->p.step, h->p.err.message, tni_status_name(st));
  const bool offline = st == TN_OK && !none && h->p.device->caps->flags & TN_CAPS_OFFLINE && !(ask && ask->offline);
  if (offline) tni_cf_skip(cf, "the device is offline here: it claims, lowers and packs, and cannot run");
  if (st == TN_OK && !none && !offline) {
    tni_cf_host_knows(h, h->device);
    return true;
  }
  tni_cf_plugin_finish(&h->p);
  tni_cf_observe_end(h->device);
  tni_cf_tickets_finish(cf, h);
  tni_devlock_finish(&h->lock);
  pthread_mutex_destroy(&h->looking);
  return false;
}

uint64_t tni_cf_host_bytes(const tni_cf_host *h) {
  tni_services_memory m;
  tni_services_memory_get(h->p.host.services, &m);
  return m.bytes;
}

void tni_cf_host_close(tni_cf *cf, tni_cf_host *h) {
  if (h->device && tni_cf_observed(h->device)) tni_cf_fail(cf, "%s", tni_cf_observed(h->device));
  if (tni_cf_has_left()) tni_cf_end_here(cf);
  if (h->device) tni_dev_destroy(&h->dev, h->far.buffer);
  h->far.buffer = NULL;
  tni_cf_stop(cf, &h->p);
  tni_cf_observe_end(h->device);
  h->device = NULL;
  tni_cf_tickets_finish(cf, h);
  tni_devlock_finish(&h->lock);
  pthread_mutex_destroy(&h->looking);
}
