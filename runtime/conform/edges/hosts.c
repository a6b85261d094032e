/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts that give less: a table that ends early, and services that are not there. A plugin refuses such a host, or
 * works.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/conform/edges/parts.h"

enum { ROWS = 5 };

/* What a host may be without: it has no use for them. */
static const struct {
  const char *name;
  uint32_t at;
} spared[] = {
#define S(f) \
  { #f, offsetof(tn_host, f) }
    S(log),       S(now),     S(name_id), S(span),    S(option),        S(resource),  S(cache_get),
    S(cache_put), S(divides), S(order),   S(offsets), S(get_extension), S(cancelled),
#undef S
};

/* The graph on a host that gives less, and on one that gives all. */
static bool works_on(tni_cf *cf, tni_cf_host *h, const tni_cf_claimed *c, const char *what, void *const *want) {
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  const bool ok = tni_cf_rig_claim(&rig, h, tni_cf_graph_find(c->graph), c->phase, &r) &&
                  tni_cf_rig_prepare(&rig, ROWS, &r) && tni_cf_rig_run(&rig, 0x5b, TNI_CF_EVEN);
  if (!ok && !rig.refused && !rig.why[0]) tni_cf_fail(cf, "%s, %s: it fails without a text", what, c->graph);
  if (ok && !tni_cf_rig_same(&rig, want)) tni_cf_fail(cf, "%s, %s: other results", what, c->graph);
  tni_cf_rig_finish(&rig);
  return ok;
}

typedef struct tried {
  uint32_t taken, worked;
} tried;

/* c NULL: it takes nothing, and is asked all the same. */
static void try_host(tni_cf *cf, const tni_cf_ask *ask, const tni_cf_claimed *c, void *const *want, const char *what,
                     tried *t) {
  tni_cf_host h;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  fprintf(stderr, "%s\n", what); /* the last line before a crash names it */
  if (!tni_cf_host_open(cf, &h, ask)) {
    if (!h.p.err.message[0]) tni_cf_fail(cf, "%s: it is refused without a message", what);
    return;
  }
  t->taken++;
  if (c) {
    t->worked += works_on(cf, &h, c, what, want);
  } else {
    tni_cf_rig rig;
    (void)tni_cf_rig_claim(&rig, &h, tni_cf_graph_find("add"), TN_PHASE_DECODE, &r);
    tni_cf_rig_finish(&rig);
  }
  tni_cf_host_close(cf, &h);
}

/* Lengths of the table, from the one that has all that a plugin of today may ask for. */
static void ask_tables(tni_cf *cf, const void *arg) {
  const tni_cf_claimed *c = tni_cf_edge_taken(cf->listing, 0);
  void *want[TNI_CN_MAX_OUT] = {NULL};
  tried t = {0, 0};
  char what[96];
  (void)arg;
  if (c && !tni_cf_edge_results(cf, c, ROWS, want)) return;
  for (uint32_t n = sizeof(tn_host) - 8; n >= TN_UPTO(tn_host, alloc) && cf->verdict == TNI_CF_PASS; n -= 8) {
    snprintf(what, sizeof what, "a host whose table has %u of %zu bytes", n, sizeof(tn_host));
    try_host(cf, &(tni_cf_ask){.may_fail = true, .offline = !c, .table = n}, c, want, what, &t);
  }
  tni_cf_note(cf, "%u of the shorter tables are taken", t.taken);
}

static void ask_spared(tni_cf *cf, const void *arg) {
  const tni_cf_claimed *c = tni_cf_edge_taken(cf->listing, 0);
  void *want[TNI_CN_MAX_OUT] = {NULL};
  tried t = {0, 0};
  char what[96];
  (void)arg;
  if (c && !tni_cf_edge_results(cf, c, ROWS, want)) return;
  for (size_t i = 0; i < sizeof spared / sizeof *spared && cf->verdict == TNI_CF_PASS; i++) {
    snprintf(what, sizeof what, "a host whose `%s` is NULL", spared[i].name);
    try_host(cf, &(tni_cf_ask){.may_fail = true, .offline = !c, .without = spared[i].at}, c, want, what, &t);
  }
  tni_cf_note(cf, "%u of %zu such hosts are taken", t.taken, sizeof spared / sizeof *spared);
}

void tni_cf_edge_host_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"structs/short-tables", TNI_CF_LEVEL_ALL, 0, ask_tables, NULL, 60000});
  add(ctx, &(tni_cf_case){"structs/spared-services", TNI_CF_LEVEL_ALL, 0, ask_spared, NULL, 60000});
}
