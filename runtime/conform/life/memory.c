/* SPDX-License-Identifier: Apache-2.0
 *
 * Family memory: what may be read, what may be written, what a run may allocate, and blobs that are not what they say.
 * Guards around every slot are the driver's (drive.h) and stand in all families.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/heap/heap.h"
#include "runtime/conform/life/engine.h"
#include "runtime/conform/life/life.h"

enum { ROWS = 5, BOOKS = 128 << 10, SLACK = 16 << 10 };

/* A claimed graph on an open host, ready to run. */
typedef struct memory_bench {
  tni_cf_host h;
  tni_cf_rig rig;
} memory_bench;

static memory_bench *bench_start(tni_cf *cf, const tni_cf_claimed *c, tni_cf_rng *r) {
  memory_bench *b = calloc(1, sizeof *b);
  if (!b || !tni_cf_host_open(cf, &b->h, NULL)) {
    free(b);
    return NULL;
  }
  if (tni_cf_rig_claim(&b->rig, &b->h, tni_cf_graph_find(c->graph), c->phase, r) &&
      tni_cf_rig_prepare(&b->rig, ROWS, r))
    return b;
  tni_cf_fail(cf, "%s: %s", c->graph, b->rig.why);
  tni_cf_rig_finish(&b->rig);
  tni_cf_host_close(cf, &b->h);
  free(b);
  return NULL;
}

static void bench_stop(tni_cf *cf, memory_bench *b) {
  tni_cf_rig_finish(&b->rig);
  tni_cf_host_close(cf, &b->h);
  free(b);
}

/* --- who may write what ------------------------------------------------------------------------------------------ */

static int protect_block(const tni_cf_block *b, int how) {
  const size_t page = 4096;
  return b->map ? mprotect(b->map, b->map_bytes - page, how) : 0; /* the last page stays closed */
}

/* Inputs and weights are the host's, and may be read-only mappings of files: a write is a fault. */
static void read_only(tni_cf *cf, const void *arg) {
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  memory_bench *b = bench_start(cf, arg, &r);
  if (!b) return;
  const tn_program_info *f = b->rig.d.info;
  uint32_t n = 0;
  for (uint32_t s = 0; s < f->n_slots; s++) {
    const uint32_t kind = f->slots[s]->kind;
    if (kind == TN_SLOT_INPUT || kind == TN_SLOT_STEP) n += protect_block(&b->rig.i.slot[s].host, PROT_READ) == 0;
    if (kind == TN_SLOT_WEIGHT) n += protect_block(&b->rig.d.fixed[s].host, PROT_READ) == 0;
  }
  if (!tni_cf_rig_run(&b->rig, 0x5b, TNI_CF_INLINE)) tni_cf_fail(cf, "%s", b->rig.why);
  for (uint32_t s = 0; s < f->n_slots; s++) {
    (void)!protect_block(&b->rig.i.slot[s].host, PROT_READ | PROT_WRITE);
    (void)!protect_block(&b->rig.d.fixed[s].host, PROT_READ | PROT_WRITE);
  }
  tni_cf_note(cf, "%u inputs and weights", n);
  bench_stop(cf, b);
}

/* Scratch, temporaries and old outputs hold anything; the pool cuts its work anyhow: results do not depend on either.
 */
static void check_leftovers(tni_cf *cf, const void *arg) {
  static const uint8_t fills[] = {0x00, 0xff, 0x7f, 0x5b};
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  void *want[TNI_CN_MAX_OUT] = {NULL};
  memory_bench *b = bench_start(cf, arg, &r);
  if (!b) return;
  bool ok = tni_cf_rig_run(&b->rig, 0x5b, TNI_CF_INLINE) && tni_cf_rig_keep(&b->rig, cf->arena, want);
  for (size_t i = 0; i < sizeof fills && ok; i++)
    for (uint32_t split = 0; split < TNI_CF_SPLITS && ok; split++) {
      ok = tni_cf_rig_run(&b->rig, fills[i], split);
      if (ok && !tni_cf_rig_same(&b->rig, want))
        tni_cf_fail(cf, "other bits when scratch and outputs hold 0x%02x before, and work is cut in way %u", fills[i],
                    split);
    }
  if (!ok) tni_cf_fail(cf, "%s", b->rig.why);
  bench_stop(cf, b);
}

/* --- orders ------------------------------------------------------------------------------------------------------ */

static bool tasks_conflict(const tn_program_info *f, uint32_t a, uint32_t b) {
  const tn_task *x = f->tasks[a], *y = f->tasks[b];
  for (uint32_t i = 0; i < y->n_deps; i++)
    if (y->deps[i] == a) return true;
  for (uint32_t i = 0; i < x->n_uses; i++)
    for (uint32_t k = 0; k < y->n_uses; k++)
      if (x->uses[i].slot == y->uses[k].slot && ((x->uses[i].access | y->uses[k].access) & (TN_WRITE | TN_APPEND)))
        return true;
  return false;
}

/* A random order of tasks in which whoever conflicts stays as it is. */
static void shuffle_order(const tn_program_info *f, uint32_t *order, tni_cf_rng *r) {
  for (uint32_t i = 0; i < f->n_tasks; i++) order[i] = i;
  for (uint32_t round = 0; round < 4 * f->n_tasks; round++) {
    const uint32_t i = f->n_tasks < 2 ? 0 : (uint32_t)(tni_cf_rng_next(r) % (f->n_tasks - 1));
    if (i + 1 >= f->n_tasks || tasks_conflict(f, order[i], order[i + 1])) continue;
    const uint32_t t = order[i];
    order[i] = order[i + 1];
    order[i + 1] = t;
  }
}

/* The host runs what is ready in whatever order: what a task needs must be in its dependencies or its uses. */
static void ask_orders(tni_cf *cf, const void *arg) {
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  void *want[TNI_CN_MAX_OUT] = {NULL};
  memory_bench *b = bench_start(cf, arg, &r);
  if (!b) return;
  const tn_program_info *f = b->rig.d.info;
  uint32_t *order = TNI_NEW_ARRAY(cf->arena, uint32_t, f->n_tasks + 1);
  bool ok = order && tni_cf_rig_run(&b->rig, 0x5b, TNI_CF_INLINE) && tni_cf_rig_keep(&b->rig, cf->arena, want);
  if (ok && f->n_tasks < 2) tni_cf_skip(cf, "its program has one task");
  for (int i = 0; ok && i < (cf->subject->thorough ? 200 : 20) && f->n_tasks > 1; i++) {
    shuffle_order(f, order, &r);
    b->rig.i.order = order;
    ok = tni_cf_rig_run(&b->rig, (uint8_t)i, TNI_CF_INLINE);
    if (ok && !tni_cf_rig_same(&b->rig, want)) {
      tni_cf_fail(cf, "other bits when its %u tasks run in another order that their dependencies allow", f->n_tasks);
      break;
    }
  }
  if (!ok) tni_cf_fail(cf, "%s", b->rig.why);
  b->rig.i.order = NULL;
  bench_stop(cf, b);
}

/* --- allocation -------------------------------------------------------------------------------------------------- */

/* Steps must not allocate: neither from the host nor from the C library (tasks on the CPU; drivers do as they like). */
static void check_allocations(tni_cf *cf, const void *arg) {
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  memory_bench *b = bench_start(cf, arg, &r);
  if (!b) return;
  tni_cf_inst *i = &b->rig.i;
  tn_run run = tni_cf_host_run(&(tni_cf_lent){.split = TNI_CF_INLINE});
  bool ok = tni_cf_rig_run(&b->rig, 0x5b, TNI_CF_INLINE) && tni_cf_rig_run(&b->rig, 0x5b, TNI_CF_INLINE);
  const long long before = atomic_load(&b->h.p.host.total);
  long heap = 0, tasks = 0;
  for (int round = 0; ok && round < 3; round++)
    for (uint32_t t = 0; ok && t < b->rig.d.info->n_tasks; t++) {
      tn_error e;
      tni_error_init(&e);
      if (b->rig.d.info->tasks[t]->engine) continue;
      tni_cf_heap_watch(true);
      ok = b->h.device->run(i->plan[t], i->args[t], &run, &e) == TN_OK;
      heap += tni_cf_heap_watch(false);
      tasks++;
      if (!ok) tni_cf_fail(cf, "run: %s", e.message);
    }
  const long long host = atomic_load(&b->h.p.host.total) - before;
  if (host) tni_cf_fail(cf, "a run asks the host for memory (plugin.h, run): %lld blocks in %ld runs of a task", host, tasks);
  if (heap > 0) tni_cf_fail(cf, "a run calls malloc or its like (plugin.h, run): %ld times in %ld runs of a task", heap, tasks);
  if (!tni_cf_heap_counts()) tni_cf_note(cf, "the C library's allocations are not counted in this build");
  if (!tasks) tni_cf_skip(cf, "none of its tasks runs on the CPU");
  bench_stop(cf, b);
}

/* What a plan and its arguments keep of the host's memory was stated by measure. Books of their own are not asked for:
 * what is kept at one row, up to BOOKS. They do not grow with the rows. Each length is bound twice, since what the
 * device keeps for all plans, kernels say, comes with the first. */
static void check_measured(tni_cf *cf, const void *arg) {
  static const int64_t lengths[] = {1, 40, 1025};
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  memory_bench *b = bench_start(cf, arg, &r);
  if (!b) return;
  const tn_program_info *f = b->rig.d.info;
  uint64_t most = 0, *books = TNI_NEW_ARRAY(cf->arena, uint64_t, f->n_tasks + 1);
  for (size_t l = 0; books && l < 2 * (sizeof lengths / sizeof *lengths) && cf->verdict == TNI_CF_PASS; l++) {
    const long long rows = lengths[l / 2];
    if (l > 1 && tni_cf_drive_rows(&b->rig.d, rows) == tni_cf_drive_rows(&b->rig.d, lengths[l / 2 - 1])) continue;
    tni_cf_inst_finish(&b->rig.i);
    b->rig.made = false;
    if (!tni_cf_rig_prepare(&b->rig, rows, &r)) {
      tni_cf_fail(cf, "%lld rows: %s", rows, b->rig.why);
      break;
    }
    for (uint32_t t = 0; l % 2 && t < f->n_tasks; t++) {
      const uint64_t taken = b->rig.i.taken_bytes[t], stated = b->rig.i.stated_bytes[t];
      if (l == 1) books[t] = taken < BOOKS ? taken : BOOKS;
      if (taken > most) most = taken;
      if (taken > stated + books[t] + SLACK)
        tni_cf_fail(cf,
                    "bind and args keep more of the host's memory than measure states (driver_bytes): %llu bytes and not "
                    "%llu: %lld rows, task %u ('%s')",
                    (unsigned long long)taken, (unsigned long long)stated, rows, t, f->tasks[t]->name);
    }
  }
  tni_cf_note(cf, "a plan and its arguments keep up to %llu bytes", (unsigned long long)most);
  bench_stop(cf, b);
}

/* --- blobs ------------------------------------------------------------------------------------------------------- */

static uint32_t packed_slot(const tni_cf_rig *rig) {
  for (uint32_t s = 0; s < rig->d.info->n_slots; s++)
    if (rig->d.info->slots[s]->kind == TN_SLOT_WEIGHT && rig->d.packed[s]) return s;
  return TN_NONE;
}

/* A second program of the same graph gets what is not its weight. */
static void blob_refused(tni_cf *cf, memory_bench *b, uint32_t slot, tn_blob bad, const char *what) {
  tni_program p = {0};
  tni_cf_drive *d = &b->rig.d;
  tn_error e;
  tni_error_init(&e);
  if (tni_program_lower(&d->view, &d->h->dev, &d->part.clusters[0], d->arena, &p, &e) != TN_OK) {
    tni_cf_fail(cf, "lower again: %s", e.message);
    return;
  }
  tn_view v = d->fixed[slot].view;
  if (bad.bytes < v.bytes) v.bytes = bad.bytes;
  const bool disk = p.info->needs[p.info->slots[slot]->need]->residency == TN_RESIDENCY_DISK;
  const tn_status st = b->h.device->set(p.program, slot, disk ? NULL : &v, &bad, &e);
  if (st == TN_OK) tni_cf_fail(cf, "set takes %s", what);
  if (st != TN_OK && !e.message[0]) tni_cf_fail(cf, "set refuses %s without a message", what);
  tni_program_release(&p);
}

/* What a cache of another version, a torn file or a mistake of the host's would bring. */
static void wrong_blobs(tni_cf *cf, const void *arg) {
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  memory_bench *b = bench_start(cf, arg, &r);
  if (!b) return;
  const uint32_t slot = packed_slot(&b->rig);
  if (slot == TN_NONE) {
    tni_cf_skip(cf, "it packs no weights");
  } else {
    const tn_blob good = b->rig.d.given[slot];
    tn_blob bad = good;
    bad.bytes = 0;
    blob_refused(cf, b, slot, bad, "a blob of 0 bytes");
    bad.bytes = good.bytes / 2;
    blob_refused(cf, b, slot, bad, "half of a blob");
    bad.bytes = good.bytes - 1;
    blob_refused(cf, b, slot, bad, "a blob without its last byte");
    bad = good;
    bad.N = good.N + 1;
    blob_refused(cf, b, slot, bad, "a blob of another N");
    bad = good;
    bad.K = good.K * 2;
    blob_refused(cf, b, slot, bad, "a blob of another K");
    bad = good;
    bad.format = NULL;
    blob_refused(cf, b, slot, bad, "a blob without a format");
  }
  bench_stop(cf, b);
}

/* A bit of a packed weight is another: refused or computed with, but nothing outside is touched and nobody dies. */
static void flipped_bits(tni_cf *cf, const void *arg) {
  const tni_cf_claimed *c = arg;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  memory_bench *b = bench_start(cf, c, &r);
  if (!b) return;
  const uint32_t slot = packed_slot(&b->rig);
  const uint64_t bits = slot == TN_NONE ? 0 : b->rig.d.blob[slot].bytes * 8;
  uint32_t refused = 0, n = cf->subject->thorough ? 400 : 24;
  if (!bits) tni_cf_skip(cf, "it packs no weights");
  tni_cf_rig_finish(&b->rig);
  for (uint32_t i = 0; bits && i < n && cf->verdict == TNI_CF_PASS; i++) {
    tni_cf_rng again = tni_cf_rng_of(cf, 1);
    if (!tni_cf_rig_claim(&b->rig, &b->h, tni_cf_graph_find(c->graph), c->phase, &again)) {
      tni_cf_fail(cf, "%s: %s", c->graph, b->rig.why);
    } else {
      /* Headers stand at either end: half of the flips go there. */
      const uint64_t at = tni_cf_rng_next(&r) % (bits < 512 || i % 2 ? bits : 512);
      b->rig.d.flip = i % 4 == 2 ? bits - 1 - at : at;
      fprintf(stderr, "bit %llu of %llu\n", (unsigned long long)b->rig.d.flip, (unsigned long long)bits);
      if (!tni_cf_rig_prepare(&b->rig, ROWS, &again))
        refused++;
      else if (!tni_cf_rig_run(&b->rig, 0x5b, TNI_CF_EVEN))
        tni_cf_fail(cf, "bit %llu flipped: %s", (unsigned long long)b->rig.d.flip, b->rig.why);
    }
    tni_cf_rig_finish(&b->rig);
  }
  tni_cf_note(cf, "%u bits flipped, %u refused", bits ? n : 0, refused);
  tni_cf_host_close(cf, &b->h);
  free(b);
}

/* --- buffers ----------------------------------------------------------------------------------------------------- */

static tn_buffer *buffer_make(tni_cf *cf, tni_cf_host *h, uint64_t bytes, uint32_t flags) {
  const uint32_t align = h->caps->align ? h->caps->align : 1;
  const tn_buffer_req req = {.h = TN_HDR(tn_buffer_req),
                             .bytes = bytes,
                             .fd = -1,
                             .kind = TN_MEM_NEW,
                             .usage = 1u << TN_SLOT_INPUT | 1u << TN_SLOT_OUTPUT,
                             .flags = flags,
                             .align = align};
  tn_buffer *b = NULL;
  tni_error_init(&h->err);
  const tn_status st = h->device->create(h->device, &req, &b, &h->err);
  if (st != TN_OK) tni_cf_fail(cf, "a buffer of %llu bytes: %s", (unsigned long long)bytes, h->err.message);
  return st == TN_OK ? b : NULL;
}

static void *buffer_map(tni_cf *cf, tni_cf_host *h, tn_buffer *b, uint64_t at, uint64_t n, uint32_t access) {
  void *p = NULL;
  tni_error_init(&h->err);
  if (h->device->map(b, at, n, access, &p, &h->err) == TN_OK && p) return p;
  tni_cf_fail(cf, "map of %llu bytes at %llu: %s", (unsigned long long)n, (unsigned long long)at, h->err.message);
  return NULL;
}

/* What is written through one mapping is read through the next, whatever range either has; zeroed buffers are zero. */
static void check_buffers(tni_cf *cf, const void *arg) {
  static const uint64_t sizes[] = {1, 4, 63, 4096, 4097, 100000};
  tni_cf_host h;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  if (!h.device->create) tni_cf_skip(cf, "its memory is the host's");
  for (size_t i = 0; h.device->create && i < sizeof sizes / sizeof *sizes && cf->verdict == TNI_CF_PASS; i++) {
    const uint64_t n = sizes[i], half = n / 2;
    tn_buffer *b = buffer_make(cf, &h, n, TN_BUF_HOST | TN_BUF_ZERO);
    if (!b) break;
    if (b->bytes < n)
      tni_cf_fail(cf, "a buffer of %llu bytes has %llu", (unsigned long long)n, (unsigned long long)b->bytes);
    uint8_t *p = buffer_map(cf, &h, b, 0, n, TN_READ);
    for (uint64_t k = 0; p && k < n; k++)
      if (p[k]) {
        tni_cf_fail(cf, "byte %llu of a zeroed buffer is %u", (unsigned long long)k, p[k]);
        break;
      }
    if (p && h.device->unmap(b, p, &h.err) != TN_OK) tni_cf_fail(cf, "unmap: %s", h.err.message);
    p = buffer_map(cf, &h, b, 0, n, TN_WRITE);
    for (uint64_t k = 0; p && k < n; k++) p[k] = (uint8_t)(k * 7 + 1);
    if (p && h.device->unmap(b, p, &h.err) != TN_OK) tni_cf_fail(cf, "unmap: %s", h.err.message);
    p = buffer_map(cf, &h, b, half, n - half, TN_READ);
    for (uint64_t k = half; p && k < n; k++)
      if (p[k - half] != (uint8_t)(k * 7 + 1)) {
        tni_cf_fail(cf, "byte %llu of %llu, read through a mapping of the second half, is not what was written",
                    (unsigned long long)k, (unsigned long long)n);
        break;
      }
    if (p && h.device->unmap(b, p, &h.err) != TN_OK) tni_cf_fail(cf, "unmap: %s", h.err.message);
    h.device->destroy(b);
  }
  tni_cf_host_close(cf, &h);
}

/* More than there is: a status, a text, no crash. */
static void absurd_buffers(tni_cf *cf, const void *arg) {
  static const uint64_t sizes[] = {UINT64_C(1) << 50, UINT64_C(1) << 62, UINT64_MAX};
  tni_cf_host h;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  if (!h.device->create) tni_cf_skip(cf, "its memory is the host's");
  for (size_t i = 0; h.device->create && i < sizeof sizes / sizeof *sizes; i++) {
    const tn_buffer_req req = {
        .h = TN_HDR(tn_buffer_req), .bytes = sizes[i], .fd = -1, .kind = TN_MEM_NEW, .usage = 1u << TN_SLOT_TEMP};
    tn_buffer *b = NULL;
    tni_error_init(&h.err);
    const tn_status st = h.device->create(h.device, &req, &b, &h.err);
    if (st == TN_OK) tni_cf_fail(cf, "a buffer of %llu bytes is made", (unsigned long long)sizes[i]);
    if (st == TN_OK && b) h.device->destroy(b);
    if (st != TN_OK && !h.err.message[0])
      tni_cf_fail(cf, "a buffer of %llu bytes is refused without a message", (unsigned long long)sizes[i]);
  }
  tni_cf_host_close(cf, &h);
}

/* --- the cases --------------------------------------------------------------------------------------------------- */

static void for_graph(const tni_cf_claimed *c, tni_cf_add add, void *ctx) {
  static const struct {
    const char *name;
    tni_cf_fn run;
    bool products;
  } asks[] = {{"read-only", read_only, false},     {"leftovers", check_leftovers, false},
              {"orders", ask_orders, true},        {"allocations", check_allocations, false},
              {"measured", check_measured, false}, {"wrong-blobs", wrong_blobs, true},
              {"flipped-bits", flipped_bits, true}};
  char name[96];
  for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
    if (asks[i].products && !c->format && asks[i].run != ask_orders) continue;
    snprintf(name, sizeof name, "memory/%s/%s", c->graph, asks[i].name);
    add(ctx, &(tni_cf_case){name, TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, asks[i].run, c, 0});
  }
}

/* All operators with --thorough; else those whose memory differs in kind. */
static bool graph_chosen(const tni_cf_listing *l, const char *graph) {
  static const char *const some[] = {
      "matmul/2d", "matmul/siblings", "matmul/chain", "fused/swiglu", "elementwise/chain", "add",   "rmsnorm",
      "softmax",   "attention",       "gather/rows",  "transpose",    "conv/3x3",          "rotary"};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++)
    if (!strcmp(graph, some[i])) return true;
  return l->subject->thorough;
}

void tni_cf_memory_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const tni_cf_case cases[] = {
      {"memory/buffers", TNI_CF_LEVEL_ALL, 0, check_buffers, NULL, 0},
      {"memory/absurd-buffers", TNI_CF_LEVEL_ALL, 0, absurd_buffers, NULL, 0},
  };
  for (uint32_t i = 0; i < l->n_claimed; i++) {
    const tni_cf_claimed *c = &l->claimed[i];
    if (c->verdict != TN_YES || !tni_cf_graph_find(c->graph) || !graph_chosen(l, c->graph)) continue;
    if (i && !strcmp(c->graph, c[-1].graph) && c[-1].verdict == TN_YES) continue; /* one phase each */
    for_graph(c, add, ctx);
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(ctx, &cases[i]);
  tni_cf_memory_exact_cases(l, add, ctx);
  tni_cf_memory_operator_cases(l, add, ctx);
  tni_cf_memory_refusal_cases(l, add, ctx);
  tni_cf_memory_shared_cases(l, add, ctx);
}
