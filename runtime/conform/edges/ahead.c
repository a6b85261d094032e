/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled blobs: what tenon.offline compiles is what bind finds and what gives the same bits, and a blob that is
 * damaged is not believed.
 */
#include <stdio.h>
#include <string.h>

#include <tenon/offline.h>

#include "runtime/conform/edges/parts.h"

enum { ROWS = 5, MANY = 37, N_WAYS = 7, WAYS_OF_OTHERS = 2, SPARED = 3 };
/* Of graphs that are taken: the most, those of which there are always so many, and after how long they are enough. */
enum { MOST_TAKEN = 256, OF_A_KIND = 2, MOST_GRAPHS = 12, FIRST_GRAPHS = 4, BUDGET_S = 6 };

static const tn_offline *offline_of(const tni_cf_host *h) {
  const tn_plugin *p = h->p.plugin;
  const tn_offline *o = TN_HAS(p, tn_plugin, get_extension) && p->get_extension
                            ? p->get_extension(h->p.plugin, TN_OFFLINE, 1)
                            : NULL;
  return o && TN_HAS(o, tn_offline, compile) && o->compile ? o : NULL;
}

/* The first part of a graph's name. */
static bool same_kind(const char *a, const char *b) {
  const size_t n = strcspn(a, "/");
  return n == strcspn(b, "/") && !strncmp(a, b, n);
}

/* Graph i of those that are taken, two of a kind at most, from both ends in turns: products stand first in the listing,
 * convolutions and poolings last. */
static const tni_cf_claimed *take(const tni_cf_listing *l, uint32_t i) {
  const tni_cf_claimed *of[MOST_TAKEN], *c;
  uint32_t n = 0;
  for (uint32_t k = 0; n < MOST_TAKEN && (c = tni_cf_edge_taken(l, k)); k++) {
    uint32_t alike = 0;
    for (uint32_t j = 0; j < n; j++) alike += same_kind(of[j]->graph, c->graph);
    if (alike < OF_A_KIND) of[n++] = c;
  }
  return i < n ? of[i % 2 ? n - 1 - i / 2 : i / 2] : NULL;
}

/* Runs the graph over the blobs; where want is there already its bits are compared. May be refused where they are spoiled. */
static void run_over(tni_cf *cf, const tni_cf_claimed *c, int64_t rows, tni_cf_blobs *b, void **want, const char *what) {
  tni_cf_host h;
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  const bool first = !want[0];
  fprintf(stderr, "%s: %s\n", c->graph, what);
  tni_cf_blobs_hold(b);
  if (tni_cf_host_open(cf, &h, &(tni_cf_ask){.may_fail = b->spoil != 0})) {
    const bool ready = tni_cf_rig_claim(&rig, &h, tni_cf_graph_find(c->graph), c->phase, &r) &&
                       tni_cf_rig_prepare(&rig, rows, &r);
    const bool ok = ready && tni_cf_rig_run(&rig, 0x5b, TNI_CF_EVEN);
    if (!ok && !b->spoil) tni_cf_fail(cf, "%s: %s: %s", c->graph, what, rig.why);
    if (ready && !ok && b->spoil && !tni_cf_inst_guards(&rig.i))
      tni_cf_fail(cf, "%s: %s, and it is used: %s", c->graph, what, rig.i.why);
    if (ok && first && !tni_cf_rig_keep(&rig, cf->arena, want)) tni_cf_fail(cf, "no memory");
    if (ok && !first && !tni_cf_rig_same(&rig, want))
      tni_cf_fail(cf,
                  "%s: %s, and results are others than those of a plugin that compiles in bind: a blob of the cache may be "
                  "damaged or stale, and bind compiles anew where it does not fit (tenon/offline.h)",
                  c->graph, what);
    tni_cf_rig_finish(&rig);
    tni_cf_host_close(cf, &h);
  }
  tni_cf_blobs_hold(NULL);
}

/* False: it has no table for this. */
static bool compile_into(tni_cf *cf, const tni_cf_claimed *c, int64_t rows, tni_cf_blobs *b) {
  tni_cf_host h;
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  bool there = false;
  fprintf(stderr, "%s: compiled ahead\n", c->graph);
  tni_cf_blobs_hold(b);
  if (tni_cf_host_open(cf, &h, NULL)) {
    const tn_offline *o = offline_of(&h);
    there = o != NULL;
    if (o && !(tni_cf_rig_claim(&rig, &h, tni_cf_graph_find(c->graph), c->phase, &r) &&
               tni_cf_drive_ahead(&rig.d, o, rows)))
      tni_cf_fail(cf, "%s: compiled ahead: %s", c->graph, rig.d.why[0] ? rig.d.why : rig.why);
    if (o) tni_cf_rig_finish(&rig);
    tni_cf_host_close(cf, &h);
  }
  tni_cf_blobs_hold(NULL);
  return there;
}

static void ask_ahead(tni_cf *cf, const void *arg) {
  const tni_cf_claimed *c;
  long long graphs = 0, blobs = 0;
  (void)arg;
  for (uint32_t i = 0; i < MOST_GRAPHS && cf->verdict == TNI_CF_PASS && (c = take(cf->listing, i)); i++) {
    void *want[TNI_CN_MAX_OUT] = {NULL};
    tni_cf_blobs none = {0}, ahead = {0};
    run_over(cf, c, ROWS, &none, want, "nothing compiled ahead");
    const bool there = compile_into(cf, c, ROWS, &ahead);
    if (!there && !i) tni_cf_skip(cf, "it has no extension tenon.offline (tenon/offline.h)");
    const long long kept = ahead.puts;
    if (there && kept && cf->verdict == TNI_CF_PASS) run_over(cf, c, ROWS, &ahead, want, "over what was compiled ahead");
    if (there && kept && cf->verdict == TNI_CF_PASS && !ahead.hits)
      tni_cf_fail(cf,
                  "%s: compile keeps %lld blobs, and bind asks for none of them: it is found by an equal key, that of the "
                  "same task and dims (tenon/offline.h)",
                  c->graph, kept);
    graphs += there && kept;
    blobs += kept;
    tni_cf_blobs_free(&none);
    tni_cf_blobs_free(&ahead);
    if (!there) return;
  }
  if (cf->verdict == TNI_CF_PASS && !graphs) tni_cf_skip(cf, "compile keeps nothing for the graphs that were asked");
  if (graphs) tni_cf_note(cf, "%lld blobs for %lld graphs", blobs, graphs);
}

/* One graph over blobs of which a third is damaged, in some ways and at some rows; how many blobs it keeps. */
static long long spoil(tni_cf *cf, const tni_cf_claimed *c, int64_t rows, uint32_t from, uint32_t n_ways) {
  static const char *const ways[] = {"a bit in the middle of a blob is another",
                                     "a blob is half as long",
                                     "a bit of a blob's last byte is another",
                                     "a bit of a blob's first byte is another",
                                     "a blob is a byte shorter",
                                     "a bit in a blob's first quarter is another",
                                     "a bit in a blob's last quarter is another"};
  _Static_assert(sizeof ways / sizeof *ways == N_WAYS, "one text a way");
  void *want[TNI_CN_MAX_OUT] = {NULL};
  tni_cf_blobs b = {0};
  run_over(cf, c, rows, &b, want, "an empty cache");
  /* A plugin may keep only what is compiled ahead. */
  if (!b.puts && cf->verdict == TNI_CF_PASS) (void)compile_into(cf, c, rows, &b);
  b.every = b.puts < 2 * SPARED ? (uint32_t)(b.puts + 1) / 2 : SPARED;
  for (uint32_t k = 0; k < n_ways && b.puts && cf->verdict == TNI_CF_PASS; k++) {
    const uint32_t way = (from + k) % N_WAYS;
    b.spoil = way + 1;
    b.turn = from + k;
    run_over(cf, c, rows, &b, want, ways[way]);
  }
  tni_cf_blobs_free(&b);
  return b.puts;
}

/* At many rows too: what is compiled for a few may be right for others by chance. Each run opens and compiles anew what is
 * damaged, so only the first graph that keeps blobs is asked in all ways; the ways of the others follow one another. After
 * some seconds a few graphs are enough, but with --thorough. */
static void ask_spoiled(tni_cf *cf, const void *arg) {
  const tni_cf_claimed *c;
  long long graphs = 0, blobs = 0;
  (void)arg;
  const int64_t until = tni_now_ns() + INT64_C(1000000000) * BUDGET_S;
  for (uint32_t i = 0; i < MOST_GRAPHS && cf->verdict == TNI_CF_PASS && (c = take(cf->listing, i)); i++) {
    if (graphs >= FIRST_GRAPHS && !cf->subject->thorough && tni_now_ns() > until) break;
    const uint32_t n_ways = graphs ? WAYS_OF_OTHERS : N_WAYS;
    const long long n = spoil(cf, c, graphs % 2 ? ROWS : MANY, (uint32_t)graphs * WAYS_OF_OTHERS, n_ways);
    graphs += n > 0;
    blobs += n;
  }
  if (cf->verdict == TNI_CF_PASS && !graphs)
    tni_cf_skip(cf, "neither bind nor tenon.offline keeps anything by tn_host.cache_put for the graphs that were asked");
  if (graphs)
    tni_cf_note(cf, "%lld blobs of %lld graphs, the first damaged in %d ways, the others in %d", blobs, graphs, N_WAYS,
                WAYS_OF_OTHERS);
}

void tni_cf_edge_ahead_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"errors/ahead", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_ahead, NULL, 60000});
  add(ctx, &(tni_cf_case){"errors/blobs", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_spoiled, NULL, 60000});
}
