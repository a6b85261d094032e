/* SPDX-License-Identifier: Apache-2.0
 *
 * What may not be done has to be refused, with a text; and memory in the ways a host may have it: imported, mapped in
 * several places at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/life.h"

enum { BYTES = 12288 };

static void must_refuse(tni_cf *cf, const char *what, tn_status st, const tn_error *e) {
  if (st == TN_OK)
    tni_cf_fail(cf, "%s: it says OK; refuse it with a status and a text (plugin.h, rule 4)", what);
  else if (!e->message[0])
    tni_cf_fail(cf, "%s: refused (%s) without a text: fill tn_error.message", what, tni_status_name(st));
}

static tn_buffer *new_buffer(tni_cf *cf, tni_cf_host *h, tn_buffer_req req) {
  tn_buffer *b = NULL;
  req.h = (tn_hdr)TN_HDR(tn_buffer_req);
  req.usage = 1u << TN_SLOT_INPUT | 1u << TN_SLOT_OUTPUT;
  req.flags |= TN_BUF_HOST;
  req.align = h->caps->align ? h->caps->align : 1;
  tni_error_init(&h->err);
  const tn_status st = h->device->create(h->device, &req, &b, &h->err);
  if (st != TN_OK || !b) tni_cf_fail(cf, "a buffer of %llu bytes: %s", (unsigned long long)req.bytes, h->err.message);
  return st == TN_OK ? b : NULL;
}

static void *map_range(tni_cf *cf, tni_cf_host *h, tn_buffer *b, uint64_t at, uint64_t n, uint32_t access) {
  void *p = NULL;
  tni_error_init(&h->err);
  if (h->device->map(b, at, n, access, &p, &h->err) == TN_OK && p) return p;
  tni_cf_fail(cf, "map of %llu bytes at %llu: %s", (unsigned long long)n, (unsigned long long)at, h->err.message);
  return NULL;
}

static void unmap_range(tni_cf *cf, tni_cf_host *h, tn_buffer *b, void *p) {
  if (p && h->device->unmap(b, p, &h->err) != TN_OK) tni_cf_fail(cf, "unmap: %s", h->err.message);
}

/* Ranges that lie outside, by a little and by an overflow. */
static void wrong_ranges(tni_cf *cf, tni_cf_host *h, tn_buffer *b) {
  const uint64_t n = b->bytes, wrong[][2] = {{0, n + 1}, {n, 1}, {n / 2, n / 2 + 1}, {n + 1, 1}, {64, UINT64_MAX - 32}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char text[96];
    void *p = NULL;
    tni_error_init(&h->err);
    const tn_status st = h->device->map(b, wrong[i][0], wrong[i][1], TN_READ, &p, &h->err);
    snprintf(text, sizeof text, "map of %llu bytes at %llu of a buffer of %llu", (unsigned long long)wrong[i][1],
             (unsigned long long)wrong[i][0], (unsigned long long)n);
    must_refuse(cf, text, st, &h->err);
    if (st == TN_OK && p) (void)h->device->unmap(b, p, &h->err);
  }
}

static bool holds_pattern(const uint8_t *p, uint64_t from, uint64_t n, unsigned times) {
  for (uint64_t i = 0; p && i < n; i++)
    if (p[i] != (uint8_t)((from + i) * times + 3)) return false;
  return p != NULL;
}

/* Three ranges that do not meet are mapped at once and given back in another order. One is written before the others are
 * mapped, one is only read. */
static void several_maps(tni_cf *cf, tni_cf_host *h, tn_buffer *b) {
  const uint64_t third = BYTES / 3;
  uint8_t *p = map_range(cf, h, b, 0, BYTES, TN_WRITE);
  for (uint64_t i = 0; p && i < BYTES; i++) p[i] = (uint8_t)(i * 5 + 3);
  unmap_range(cf, h, b, p);
  uint8_t *first = map_range(cf, h, b, 0, third, TN_WRITE);
  for (uint64_t i = 0; first && i < third; i++) first[i] = (uint8_t)(i * 7 + 3);
  uint8_t *read = map_range(cf, h, b, third, third, TN_READ),
          *last = map_range(cf, h, b, 2 * third, third, TN_READ | TN_WRITE);
  if (read && !holds_pattern(read, third, third, 5))
    tni_cf_fail(cf, "a range that is mapped to be read is not what was written");
  if (last && !holds_pattern(last, 2 * third, third, 5))
    tni_cf_fail(cf, "a range that is mapped to be read and written is not what was written");
  for (uint64_t i = 0; last && i < third; i++) last[i] = (uint8_t)((2 * third + i) * 7 + 3);
  unmap_range(cf, h, b, first);
  unmap_range(cf, h, b, last);
  unmap_range(cf, h, b, read);
  p = map_range(cf, h, b, 0, BYTES, TN_READ);
  const bool same = holds_pattern(p, 0, third, 7) && (!p || holds_pattern(p + third, third, third, 5)) &&
                    (!p || holds_pattern(p + 2 * third, 2 * third, third, 7));
  if (p && !same)
    tni_cf_fail(cf,
                "three ranges were mapped at once, and what was written to one of them is gone: map and unmap may touch "
                "their own range only (plugin.h, map)");
  unmap_range(cf, h, b, p);
}

/* The host's own memory, imported: the same bytes, and still the host's when the buffer is gone. */
static void imports(tni_cf *cf, tni_cf_host *h) {
  tni_cf_block mine;
  if (!(h->caps->import_kinds & 1u << TN_MEM_HOST_PTR) || !tni_cf_block_make(&mine, BYTES, 4096, 0x5b, false)) return;
  for (uint64_t i = 0; i < BYTES; i++) mine.p[i] = (uint8_t)(i * 5 + 3);
  tn_buffer *b = new_buffer(cf, h, (tn_buffer_req){.bytes = BYTES, .fd = -1, .kind = TN_MEM_HOST_PTR, .ptr = mine.p});
  if (b) {
    uint8_t *p = map_range(cf, h, b, 0, BYTES, TN_READ);
    if (p && !holds_pattern(p, 0, BYTES, 5)) tni_cf_fail(cf, "imported memory does not hold what the host has there");
    unmap_range(cf, h, b, p);
    fprintf(stderr, "destroy of a buffer over imported memory\n");
    h->device->destroy(b);
    if (!holds_pattern(mine.p, 0, BYTES, 5)) tni_cf_fail(cf, "destroy changed memory that was imported");
  }
  if (!tni_cf_block_holds(&mine)) tni_cf_fail(cf, "bytes beside imported memory were written");
  tni_cf_block_finish(&mine);
}

/* A kind that is not among import_kinds. */
static void wrong_kinds(tni_cf *cf, tni_cf_host *h) {
  for (uint32_t kind = TN_MEM_HOST_PTR; kind <= TN_MEM_FD; kind++) {
    if (h->caps->import_kinds & 1u << kind) continue;
    static uint8_t memory[4096] __attribute__((aligned(4096)));
    const tn_buffer_req req = {.h = TN_HDR(tn_buffer_req),
                               .bytes = sizeof memory,
                               .fd = -1,
                               .kind = kind,
                               .ptr = kind == TN_MEM_HOST_PTR ? memory : NULL,
                               .usage = 1u << TN_SLOT_TEMP};
    tn_buffer *b = NULL;
    tni_error_init(&h->err);
    const tn_status st = h->device->create(h->device, &req, &b, &h->err);
    must_refuse(cf, "create with a kind that is not among import_kinds", st, &h->err);
    if (st == TN_OK && b) h->device->destroy(b);
  }
}

static void ask_maps(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  if (!h.device->create) {
    tni_cf_skip(cf, "its memory is the host's");
  } else {
    tn_buffer *b = new_buffer(cf, &h, (tn_buffer_req){.bytes = BYTES, .fd = -1, .kind = TN_MEM_NEW});
    if (b) several_maps(cf, &h, b);
    if (b) wrong_ranges(cf, &h, b);
    if (b) h.device->destroy(b);
    imports(cf, &h);
    wrong_kinds(cf, &h);
  }
  tni_cf_host_close(cf, &h);
}

/* --- arguments and engines ---------------------------------------------------------------------------------------- */

/* args over one wrong view and right ones: refused, and nothing of it stays. */
static void args_refused(tni_cf *cf, tni_cf_rig *rig, uint32_t t, uint32_t use, const tn_view *wrong) {
  const tn_task *k = rig->d.info->tasks[t];
  const tn_view **views = TNI_NEW_ARRAY(cf->arena, const tn_view *, k->n_uses + 1);
  tn_args *args = NULL;
  tn_error e;
  if (!views) return;
  for (uint32_t u = 0; u < k->n_uses; u++) {
    const uint32_t slot = k->uses[u].slot, kind = rig->d.info->slots[slot]->kind;
    const bool fixed = kind == TN_SLOT_WEIGHT || kind == TN_SLOT_PRIVATE;
    views[u] = u == use ? wrong : fixed ? &rig->d.fixed[slot].view : &rig->i.slot[slot].view;
  }
  views[k->n_uses] = &rig->i.scratch[t].view;
  tni_error_init(&e);
  const tn_status st = rig->h->device->args(rig->i.plan[t], views, k->n_uses + 1, &args, &e);
  must_refuse(cf, "args for an engine, with a view without a buffer", st, &e);
  if (st == TN_OK && args) rig->h->device->args_free(args);
}

static void wrong_arguments(tni_cf *cf, tni_cf_rig *rig) {
  const tn_device *d = rig->h->device;
  for (uint32_t t = 0; t < rig->d.info->n_tasks; t++) {
    const tn_task *k = rig->d.info->tasks[t];
    tn_error e;
    if (!k->engine || !d->create) continue;
    for (uint32_t u = 0; u < k->n_uses; u++) {
      const tn_slot *s = rig->d.info->slots[k->uses[u].slot];
      if (s->kind == TN_SLOT_WEIGHT || s->kind == TN_SLOT_PRIVATE || s->engines & 1) continue;
      tn_view v = rig->i.slot[k->uses[u].slot].view;
      v.buffer = NULL;
      v.ptr = NULL;
      tni_error_init(&e);
      must_refuse(cf, "args_set of a use of an engine, with a view without a buffer",
                  d->args_set(rig->i.args[t], u, &v, &e), &e);
      if (d->args_set(rig->i.args[t], u, &rig->i.slot[k->uses[u].slot].view, &e) != TN_OK)
        tni_cf_fail(cf, "args_set, after it had refused another view: %s", e.message);
      args_refused(cf, rig, t, u, &v);
    }
  }
}

/* Tasks, slots and uses that there are not. */
static void wrong_numbers(tni_cf *cf, tni_cf_rig *rig) {
  const tn_device *d = rig->h->device;
  const tn_program_info *f = rig->d.info;
  const uint32_t tasks[] = {f->n_tasks, f->n_tasks + 1, 1u << 31, UINT32_MAX},
                 uses[] = {f->tasks[0]->n_uses + 1, f->tasks[0]->n_uses + 200, UINT32_MAX},
                 slots[] = {f->n_slots, f->n_slots + 1, UINT32_MAX};
  uint64_t *bytes = calloc(f->n_slots + 1, sizeof *bytes);
  tn_error e;
  for (size_t i = 0; bytes && i < sizeof tasks / sizeof *tasks; i++) {
    tn_measure m = {.h = TN_HDR(tn_measure), .slot_bytes = bytes};
    tn_plan *plan = NULL;
    tni_error_init(&e);
    fprintf(stderr, "measure and bind of task %u of %u\n", tasks[i], f->n_tasks);
    if (d->measure(rig->d.prog.program, tasks[i], &rig->i.dims, &m) == TN_OK)
      tni_cf_fail(cf, "measure of task %u of %u: it says OK; refuse it with a status", tasks[i], f->n_tasks);
    must_refuse(cf, "bind of a task that there is not", d->bind(rig->d.prog.program, tasks[i], &rig->i.dims, &plan, &e), &e);
  }
  for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
    tni_error_init(&e);
    fprintf(stderr, "args_set of use %u of %u and scratch\n", uses[i], f->tasks[0]->n_uses);
    must_refuse(cf, "args_set of a use that there is not", d->args_set(rig->i.args[0], uses[i], &rig->i.scratch[0].view, &e), &e);
  }
  for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
    tni_error_init(&e);
    fprintf(stderr, "set of slot %u of %u\n", slots[i], f->n_slots);
    must_refuse(cf, "set of a slot that there is not", d->set(rig->d.prog.program, slots[i], &rig->i.scratch[0].view, NULL, &e), &e);
  }
  free(bytes);
}

static void wrong_engine(tni_cf *cf, tni_cf_rig *rig) {
  tni_cf_host *h = rig->h;
  if (!h->device->submit || !rig->d.info->tasks[0]->engine) return;
  tn_error e;
  tni_error_init(&e);
  struct tni_cf_ticket *k = tni_cf_ticket_take(h);
  const tn_item item = {
      .h = TN_HDR(tn_item), .plan = rig->i.plan[0], .args = rig->i.args[0], .ticket = k->handle};
  const tn_item *items[1] = {&item};
  tn_run run = tni_cf_host_run(&(tni_cf_lent){.split = TNI_CF_INLINE});
  const tn_status st = h->device->submit(h->device, h->caps->n_engines + 1, items, 1, &run, &e);
  tni_cf_ticket_submitted(k, st);
  must_refuse(cf, "submit to an engine that the device does not have", st, &e);
  if (st == TN_OK) (void)tni_cf_ticket_wait(k, 1);
}

static void ask_refusals(tni_cf *cf, const void *arg) {
  const tni_cf_listing *l = cf->listing;
  const tni_cf_claimed *c = NULL;
  tni_cf_host h;
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  (void)arg;
  for (uint32_t i = 0; i < l->n_claimed && !c; i++)
    if (l->claimed[i].verdict == TN_YES) c = &l->claimed[i];
  if (!c) {
    tni_cf_skip(cf, "none of the graphs was claimed");
    return;
  }
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  if (!tni_cf_rig_claim(&rig, &h, tni_cf_graph_find(c->graph), c->phase, &r) || !tni_cf_rig_prepare(&rig, 3, &r)) {
    tni_cf_fail(cf, "%s: %s", c->graph, rig.why);
  } else {
    wrong_arguments(cf, &rig);
    wrong_engine(cf, &rig);
    wrong_numbers(cf, &rig);
    if (!tni_cf_rig_run(&rig, 0x5b, TNI_CF_INLINE)) tni_cf_fail(cf, "after what it refused: %s", rig.why);
  }
  tni_cf_rig_finish(&rig);
  tni_cf_host_close(cf, &h);
}

void tni_cf_memory_refusal_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"memory/maps", TNI_CF_LEVEL_ALL, 0, ask_maps, NULL, 0});
  add(ctx, &(tni_cf_case){"life/refusals", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_refusals, NULL, 0});
}
