/* SPDX-License-Identifier: Apache-2.0
 *
 * Structs of other versions: what the plugin's say of themselves, and hosts that are older and newer than the plugin.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/conform/edges/parts.h"
#include "runtime/conform/observe/observe.h"

enum { ROWS = 5, MOST_GRAPHS = 64 };

static void header(tni_cf *cf, const void *p, const char *what, size_t oldest, size_t now) {
  char text[256];
  if (tni_cf_header_wrong(p, what, oldest, now, text, sizeof text)) tni_cf_fail(cf, "%s", text);
}

static void caps_headers(tni_cf *cf, const tn_caps *c) {
  header(cf, c, "tn_caps", TN_UPTO(tn_caps, window_bytes), sizeof *c);
  for (uint32_t i = 0; i < c->n_engines; i++)
    header(cf, c->engines[i], "tn_engine", sizeof(tn_engine), sizeof(tn_engine));
  if (c->clock) header(cf, c->clock, "tn_clock", sizeof(tn_clock), sizeof(tn_clock));
}

/* ABI 1.0 has it in two lengths: averages came to it before 1.1 did. */
static void numerics_header(tni_cf *cf, const tn_numerics *n) {
  const bool first = n && n->h.size == TN_UPTO(tn_numerics, act_scale);
  header(cf, n, "tn_numerics", first ? n->h.size : TN_UPTO(tn_numerics, avg_unit), sizeof *n);
}

/* The tables; programs, claims and buffers are looked at wherever they come from (conform/observe). */
static void ask_headers(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  (void)arg;
  if (!tni_cf_start(cf, &p)) return;
  const tn_plugin *t = p.plugin;
  header(cf, t, "tn_plugin", TN_UPTO(tn_plugin, reserved), sizeof *t);
  for (uint32_t i = 0; i < t->n_options; i++)
    header(cf, t->options[i], "tn_option", sizeof(tn_option), sizeof(tn_option));
  for (uint32_t i = 0; i < t->n_formats; i++) {
    header(cf, t->formats[i], "tn_format", TN_UPTO(tn_format, unpack), sizeof(tn_format));
    numerics_header(cf, t->formats[i]->numerics);
  }
  for (uint32_t i = 0; TN_HAS(t, tn_plugin, n_ops) && i < t->n_ops; i++)
    header(cf, t->ops[i], "tn_custom_op", sizeof(tn_custom_op), sizeof(tn_custom_op));
  for (uint32_t i = 0; i < p.n_caps; i++) caps_headers(cf, p.caps[i]);
  header(cf, p.device, "tn_device", TN_UPTO(tn_device, unmap), sizeof *p.device);
  uint32_t reserved = t->reserved | (TN_HAS(t, tn_plugin, reserved2) ? t->reserved2 : 0);
  for (uint32_t i = 0; i < t->n_options; i++) reserved |= t->options[i]->reserved;
  for (uint32_t i = 0; i < t->n_formats; i++) reserved |= t->formats[i]->reserved;
  if (reserved)
    tni_cf_fail(cf, "%#x stands in a reserved field of tn_plugin, an option or a format: it is written 0 (plugin.h, rule 2)",
                reserved);
  tni_cf_stop(cf, &p);
}

enum { PHASES = 3 };
static const uint32_t phases[PHASES] = {TN_PHASE_PREFILL, TN_PHASE_DECODE, TN_PHASE_ANY};

/* What a graph gave in a phase; rows 0: it was not taken. */
typedef struct kept {
  int64_t rows;
  uint32_t n_lengths; /* that the claim allowed, where it fixed them */
  void *want[TNI_CN_MAX_OUT];
} kept;

/* On another host a set of lengths may be out of reach: then it may be refused, or run at another length. */
static void graph_compare(tni_cf *cf, tni_cf_rig *rig, const char *graph, uint32_t phase, const kept *k,
                          const char *what) {
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  if (rig->refused && k->n_lengths > 1) return;
  if (rig->why[0] || !tni_cf_rig_prepare(rig, ROWS, &r))
    tni_cf_fail(cf, "%s in phase %u with %s: %s", graph, phase, what, rig->why);
  else if (rig->sym[0] != k->rows && k->n_lengths)
    return;
  else if (!tni_cf_rig_run(rig, 0x5b, TNI_CF_EVEN))
    tni_cf_fail(cf, "%s in phase %u with %s: %s", graph, phase, what, rig->why);
  else if (!tni_cf_rig_same(rig, k->want))
    tni_cf_fail(cf, "%s in phase %u: other results with %s", graph, phase, what);
}

static void graph_keep(tni_cf *cf, tni_cf_rig *rig, const char *graph, uint32_t phase, kept *k) {
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  if (rig->refused) return;
  if (rig->why[0] || !tni_cf_rig_prepare(rig, ROWS, &r) || !tni_cf_rig_run(rig, 0x5b, TNI_CF_EVEN))
    tni_cf_fail(cf, "%s in phase %u: %s", graph, phase, rig->why);
  else if (!tni_cf_rig_keep(rig, cf->arena, k->want))
    tni_cf_fail(cf, "no memory");
  else
    k->rows = rig->sym[0], k->n_lengths = rig->d.lengths.n;
}

/* Every graph that is taken, in each phase in which it is. what NULL: what it gives is kept. */
static void graphs_run(tni_cf *cf, tni_cf_host *h, kept *k, const char *what) {
  const tni_cf_claimed *c;
  for (uint32_t i = 0; i < PHASES * MOST_GRAPHS && (c = tni_cf_edge_taken(cf->listing, i / PHASES)); i++) {
    const uint32_t phase = phases[i % PHASES];
    tni_cf_rig rig;
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    if (what && !k[i].rows) continue;
    (void)tni_cf_rig_claim(&rig, h, tni_cf_graph_find(c->graph), phase, &r);
    if (what)
      graph_compare(cf, &rig, c->graph, phase, &k[i], what);
    else
      graph_keep(cf, &rig, c->graph, phase, &k[i]);
    tni_cf_rig_finish(&rig);
    if (cf->verdict != TNI_CF_PASS) return;
  }
}

/* Every graph that is taken gives the same bits with a host of another version: first with one of today, then with that. */
static void other_host(tni_cf *cf, uint32_t as, const char *what) {
  const tni_cf_ask old = {.old = as == TNI_CF_STRUCTS_OLDER, .may_fail = true};
  kept *k = TNI_NEW_ARRAY(cf->arena, kept, PHASES * MOST_GRAPHS);
  tni_cf_host h;
  if (!k || !tni_cf_edge_taken(cf->listing, 0)) {
    tni_cf_skip(cf, "none of the graphs was claimed");
    return;
  }
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  graphs_run(cf, &h, k, NULL);
  tni_cf_host_close(cf, &h);
  if (cf->verdict != TNI_CF_PASS) return;
  tni_cf_observe_structs(as);
  if (tni_cf_host_open(cf, &h, &old)) {
    graphs_run(cf, &h, k, what);
    tni_cf_host_close(cf, &h);
  } else if (!h.p.neg.plugin_min) {
    tni_cf_fail(cf, "%s: %s", h.p.step, h.p.err.message);
  } else {
    tni_cf_skip(cf, "it wants a host of 1.%u and later", h.p.neg.plugin_min);
  }
  tni_cf_observe_structs(TNI_CF_STRUCTS_OURS);
}

static void ask_newer(tni_cf *cf, const void *arg) {
  (void)arg;
  other_host(cf, TNI_CF_STRUCTS_NEWER,
             "structs of a later minor, 64 bytes longer: copy what you know and no more (plugin.h, rule 1)");
}
static void ask_older(tni_cf *cf, const void *arg) {
  (void)arg;
  other_host(cf, TNI_CF_STRUCTS_OLDER,
             "structs of ABI 1.0: a field of 1.1 exists if it lies inside h.size (plugin.h, rule 1; TN_HAS)");
}

/* --- the entry, at the ends of the ranges ------------------------------------------------------------------------ */

static tn_status enter_with(const tni_cf_plugin *p, uint16_t lo, uint16_t hi, tn_negotiate *n, tn_plugin **out) {
  *out = NULL;
  *n = (tn_negotiate){.h = TN_HDR(tn_negotiate), .host_min = lo, .host_max = hi};
  return p->entry(&p->host.pub, n, out);
}

/* Ranges meet where they share one minor, and do not where they lie side by side. */
static void ask_ranges(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  tn_negotiate n;
  tn_plugin *out;
  (void)arg;
  if (tni_cf_plugin_init(&p, cf->subject) != TN_OK) {
    tni_cf_fail(cf, "%s: %s", p.step, p.err.message);
    tni_cf_plugin_finish(&p);
    return;
  }
  (void)!enter_with(&p, 60000, 60001, &n, &out);
  const uint16_t most = n.plugin_max, least = n.plugin_min;
  const uint16_t meet[][2] = {{most, 60000}, {most, most}, {0, most}, {0, least}, {least, least}};
  for (size_t i = 0; i < sizeof meet / sizeof *meet; i++) {
    const tn_status st = enter_with(&p, meet[i][0], meet[i][1], &n, &out);
    const uint16_t agreed = meet[i][1] < most ? meet[i][1] : most;
    if (st != TN_OK || !out)
      tni_cf_fail(cf, "a host of ABI 1.%u to 1.%u is refused (%s), and the plugin's range is 1.%u to 1.%u", meet[i][0],
                  meet[i][1], n.message, least, most);
    else if (n.minor != agreed)
      tni_cf_fail(cf, "a host of ABI 1.%u to 1.%u: minor %u was agreed, not %u", meet[i][0], meet[i][1], n.minor, agreed);
    if (st == TN_OK && out && out->shutdown) out->shutdown(out);
  }
  const uint16_t apart[][2] = {{(uint16_t)(most + 1), (uint16_t)(most + 1)}, {0, (uint16_t)(least - 1)}};
  for (size_t i = 0; i < (least ? 2 : 1); i++) {
    const tn_status st = enter_with(&p, apart[i][0], apart[i][1], &n, &out);
    if (st != TN_E_INCOMPATIBLE)
      tni_cf_fail(cf, "a host of ABI 1.%u to 1.%u gets %s, and the plugin's range is 1.%u to 1.%u: INCOMPATIBLE",
                  apart[i][0], apart[i][1], st ? tni_status_name(st) : "OK", least, most);
    else if (!n.message[0] || !memchr(n.message, 0, sizeof n.message))
      tni_cf_fail(cf, "a host of ABI 1.%u to 1.%u is refused without a message", apart[i][0], apart[i][1]);
    if (st == TN_OK && out && out->shutdown) out->shutdown(out);
  }
  tni_cf_plugin_finish(&p);
}

void tni_cf_edge_struct_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"structs/headers", TNI_CF_LEVEL_ALL, 0, ask_headers, NULL, 0});
  add(ctx, &(tni_cf_case){"structs/ranges", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, ask_ranges, NULL, 0});
  add(ctx, &(tni_cf_case){"structs/newer-host", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_newer, NULL, 60000});
  add(ctx, &(tni_cf_case){"structs/older-host", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_older, NULL, 60000});
}
