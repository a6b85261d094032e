/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaks as slopes: one thing done over and over, and what the plugin's own code holds looked at in between. What grows
 * with every round is a leak, however small; what comes once is not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/heap/heap.h"
#include "runtime/conform/life/engine.h"
#include "runtime/conform/life/follow.h"

enum { ROWS = 3, SETTLE = 6, STRETCH = 16 };

/* What a round is done with: all that stays the same over the rounds. */
typedef struct slope_bench {
  tni_cf *cf;
  const tni_cf_claimed *c;
  tni_cf_host h;
  tni_cf_rig rig;
  tn_buffer *buffer;
} slope_bench;

typedef bool (*slope_round)(slope_bench *b);

static bool round_run(slope_bench *b) { return tni_cf_rig_run(&b->rig, 0x5b, TNI_CF_INLINE); }

/* Another set of arguments on the same plans. */
static bool round_args(slope_bench *b) {
  tni_cf_inst i;
  const bool ok = tni_cf_inst_share(&i, &b->rig.i);
  tni_cf_inst_finish(&i);
  return ok;
}

static bool round_bind(slope_bench *b) {
  tni_cf_inst i;
  const bool ok = tni_cf_inst_make(&i, &b->rig.d, b->rig.sym, (tni_cf_room){0, 0});
  tni_cf_inst_finish(&i);
  return ok;
}

static bool round_program(slope_bench *b) {
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(b->cf, 1);
  const bool ok = tni_cf_rig_claim(&rig, &b->h, tni_cf_graph_find(b->c->graph), b->c->phase, &r) &&
                  tni_cf_rig_prepare(&rig, ROWS, &r);
  tni_cf_rig_finish(&rig);
  return ok;
}

static tn_buffer *make_buffer(slope_bench *b) {
  const tn_device *d = b->h.device;
  const tn_buffer_req req = {.h = TN_HDR(tn_buffer_req),
                             .bytes = 4096,
                             .fd = -1,
                             .kind = TN_MEM_NEW,
                             .usage = 1u << TN_SLOT_TEMP,
                             .flags = TN_BUF_HOST,
                             .align = b->h.caps->align ? b->h.caps->align : 1};
  tn_buffer *buffer = NULL;
  return d->create(b->h.device, &req, &buffer, &b->h.err) == TN_OK ? buffer : NULL;
}

static bool round_buffer(slope_bench *b) {
  const tn_device *d = b->h.device;
  void *p = NULL;
  if (!d->create) return true;
  tn_buffer *buffer = make_buffer(b);
  if (!buffer) return false;
  bool ok = d->map(buffer, 64, 128, TN_READ | TN_WRITE, &p, &b->h.err) == TN_OK && p;
  ok = ok && d->unmap(buffer, p, &b->h.err) == TN_OK;
  d->destroy(buffer);
  return ok;
}

/* map and unmap of one buffer, which stays: what map asks for is given back, or kept for the next time. */
static bool round_map(slope_bench *b) {
  const tn_device *d = b->h.device;
  void *p[2] = {NULL};
  bool ok = true;
  for (int i = 0; ok && b->buffer && i < 2; i++)
    ok = d->map(b->buffer, 1024 * (uint64_t)i, 128, i ? TN_WRITE : TN_READ, &p[i], &b->h.err) == TN_OK && p[i];
  for (int i = 0; ok && b->buffer && i < 2; i++) ok = d->unmap(b->buffer, p[i], &b->h.err) == TN_OK;
  return ok;
}

static bool round_life(slope_bench *b) {
  tni_cf_host *h = calloc(1, sizeof *h);
  const bool ok = h && tni_cf_host_open(b->cf, h, &(tni_cf_ask){.offline = true});
  if (ok) tni_cf_host_close(b->cf, h);
  free(h);
  return ok;
}

/* --- the slope ---------------------------------------------------------------------------------------------------- */

static void slope_judge(tni_cf *cf, const char *what, const tni_cf_held *at) {
  static const char *const names[TNI_CF_HOLDS] = {
      "blocks of malloc", "bytes of the heap",          "mappings", "descriptors", "threads",
      "child processes",  "blocks of the host's memory"};
  for (int i = 0; i < TNI_CF_HOLDS; i++) {
    const long long first = at[1].n[i] - at[0].n[i], second = at[2].n[i] - at[1].n[i];
    /* The heap of the whole process is the kit's and a driver's too: what stays of each round has a size there, a
     * multiple of the allocator's 16 bytes. */
    const long long least = i == TNI_CF_HEAP ? STRETCH * 16 : STRETCH / 2;
    if (i == TNI_CF_HEAP && (!at[0].lone || first != second || first % (STRETCH * 16))) continue;
    if (first >= least && second >= least)
      tni_cf_fail(cf,
                  "%s: %.3g %s stay of every round (%lld in the first %d, %lld in the next): give back what you take",
                  what, (double)(first + second) / (2 * STRETCH), names[i], first, STRETCH, second);
  }
}

static void slope_ask(slope_bench *b, const char *what, slope_round fn) {
  tni_cf_held at[3];
  bool ok = true;
  for (int i = 0; ok && i < SETTLE + 2 * STRETCH; i++) {
    if (i >= SETTLE && (i - SETTLE) % STRETCH == 0) at[(i - SETTLE) / STRETCH] = tni_cf_hold(&b->h);
    ok = fn(b);
  }
  if (!ok && b->cf->verdict == TNI_CF_PASS) tni_cf_fail(b->cf, "%s: %s%s", what, b->rig.why, b->h.err.message);
  if (!ok) return;
  at[2] = tni_cf_hold(&b->h);
  slope_judge(b->cf, what, at);
}

static const tni_cf_claimed *first_claimed(const tni_cf_listing *l) {
  for (uint32_t i = 0; i < l->n_claimed; i++)
    if (l->claimed[i].verdict == TN_YES) return &l->claimed[i];
  return NULL;
}

static void ask_slopes(tni_cf *cf, const void *arg) {
  slope_bench *b = calloc(1, sizeof *b);
  (void)arg;
  if (!b) return;
  *b = (slope_bench){.cf = cf, .c = first_claimed(cf->listing)};
  tni_cf_follow_begin(cf);
  slope_ask(b, "entry to shutdown", round_life);
  if (b->c && cf->verdict == TNI_CF_PASS && tni_cf_host_open(cf, &b->h, NULL)) {
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    slope_ask(b, "create, map, unmap, destroy", round_buffer);
    if (b->h.device->create && cf->verdict == TNI_CF_PASS && !(b->buffer = make_buffer(b)))
      tni_cf_fail(cf, "create: %s", b->h.err.message);
    if (b->buffer) slope_ask(b, "map, unmap", round_map);
    if (b->buffer) b->h.device->destroy(b->buffer);
    slope_ask(b, "lower to release", round_program);
    if (!tni_cf_rig_claim(&b->rig, &b->h, tni_cf_graph_find(b->c->graph), b->c->phase, &r) ||
        !tni_cf_rig_prepare(&b->rig, ROWS, &r)) {
      tni_cf_fail(cf, "%s: %s", b->c->graph, b->rig.why);
    } else {
      slope_ask(b, "bind, args, args_set, args_free, unbind", round_bind);
      slope_ask(b, "args, args_set, args_free", round_args);
      slope_ask(b, "run or submit", round_run);
    }
    tni_cf_rig_finish(&b->rig);
    tni_cf_host_close(cf, &b->h);
  }
  if (!tni_cf_heap_counts()) tni_cf_note(cf, "the C library's allocations are not counted in this build");
  free(b);
}

void tni_cf_life_slope_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"life/slopes", TNI_CF_LEVEL_ALL, 0, ask_slopes, NULL, 60000});
}
