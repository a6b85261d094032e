/* SPDX-License-Identifier: Apache-2.0
 *
 * Services that say no: whatever the host refuses, the plugin refuses too, or does without and is right.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/conform/edges/parts.h"

enum { ROWS = 5, FIRST_GRAPHS = 4, MOST_GRAPHS = 64, MOST_CALLS = 60 };

static const struct {
  uint32_t which;
  const char *name;
} services[] = {{TNI_CF_FAULT_DIMS, "eval or range"},
                {TNI_CF_FAULT_FILES, "option, resource, cache_get, cache_put or offsets"}};

/* The same numbers but for what another kernel, or weights that are not packed, make of them. */
static bool near_to(const tni_cf_rig *rig, void *const *want) {
  for (uint32_t o = 0; o < rig->b.n_out; o++) {
    const float *a = want[o], *b = rig->out[o].data;
    const int64_t n = tni_cn_count(&rig->out[o]);
    if (rig->out[o].dtype != TN_DT_F32) continue;
    const double top = fmax(1e-6, tni_cn_greatest(a, n));
    for (int64_t i = 0; i < n; i++) {
      const bool special = isfinite(a[i]) ? false : isnan(a[i]) ? isnan(b[i]) : a[i] == b[i];
      if (!special && !(fabs((double)a[i] - (double)b[i]) <= 0.3 * top)) return false;
    }
  }
  return true;
}

/* A life in which the n-th call of a service fails. False: it was not called so often. */
static bool life_without(tni_cf *cf, const tni_cf_claimed *c, size_t service, long long at, void **want) {
  tni_cf_host h;
  tni_cf_rig rig = {0};
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  fprintf(stderr, "%s: call %lld of %s fails\n", c->graph, at, services[service].name);
  const uint32_t which = services[service].which;
  if (which == TNI_CF_FAULT_FILES) tni_cf_fault_begin(which, at);
  const bool open = tni_cf_host_open(cf, &h, &(tni_cf_ask){.may_fail = true});
  if (!open && tni_cf_fault_count() >= at && !h.p.err.message[0])
    tni_cf_fail(cf, "call %lld of %s fails, and the plugin is not opened, without a text", at, services[service].name);
  bool ok = open && tni_cf_rig_claim(&rig, &h, tni_cf_graph_find(c->graph), c->phase, &r);
  /* Where dims are not known a claim may be another: only from there on. */
  if (which == TNI_CF_FAULT_DIMS) tni_cf_fault_begin(which, at);
  ok = ok && tni_cf_rig_prepare(&rig, ROWS, &r) && tni_cf_rig_run(&rig, 0x5b, TNI_CF_EVEN);
  const bool failed = tni_cf_fault_end() >= at;
  if (!ok && !failed) tni_cf_fail(cf, "%s: %s%s", c->graph, rig.why, open ? "" : h.p.err.message);
  if (ok && !near_to(&rig, want))
    tni_cf_fail(cf,
                "%s: call %lld of %s fails, and a step says OK with other results: look at the status, what it should "
                "have filled is not there",
                c->graph, at, services[service].name);
  if (open) {
    tni_cf_rig_finish(&rig);
    tni_cf_host_close(cf, &h);
  }
  return failed && cf->verdict == TNI_CF_PASS;
}

static void ask_services(tni_cf *cf, const void *arg) {
  const tni_cf_claimed *c;
  long long lives = 0;
  (void)arg;
  /* A few graphs for long, the others of their kinds as long as that takes no time. */
  const int64_t until = tni_now_ns() + INT64_C(8000000000), others = until - INT64_C(6500000000);
  for (uint32_t i = 0; i < MOST_GRAPHS && (c = tni_cf_edge_taken(cf->listing, i)); i++) {
    void *want[TNI_CN_MAX_OUT] = {NULL};
    if (i >= FIRST_GRAPHS && tni_now_ns() > others) break;
    if (!tni_cf_edge_results(cf, c, ROWS, want)) return;
    for (size_t s = 0; s < sizeof services / sizeof *services; s++)
      for (long long at = 1; at <= MOST_CALLS && (!i || tni_now_ns() < (i < FIRST_GRAPHS ? until : others));
           at++, lives++)
        if (!life_without(cf, c, s, at, want)) break;
    if (cf->verdict != TNI_CF_PASS) return;
  }
  if (!lives)
    tni_cf_skip(cf, "none of the graphs was claimed");
  else
    tni_cf_note(cf, "%lld lives, in each a call of another service failed", lives);
}

void tni_cf_edge_error_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"errors/services", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_services, NULL, 60000});
}
