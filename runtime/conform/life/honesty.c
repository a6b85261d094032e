/* SPDX-License-Identifier: Apache-2.0
 *
 * Family honesty: what is claimed is run, what is refused has a reason, and claims are a function of the graph: asked
 * twice, in another order, at another time and in another environment, the answers are the same.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/life.h"
#include "runtime/conform/life/model.h"

/* --- answers as they come ---------------------------------------------------------------------------------------- */

enum { MAX_NODES = 128, MAX_GROUPS = 128, SHOWN = 4 };

typedef struct answer {
  uint32_t verdict, reason, n_params, n_constraints, times;
  const tn_format *format;
  int64_t params[8];
  tn_constraint constraint[8];
  double cost_ns, macs;
  uint64_t weight_bytes, set_sum;
  char text[120];
} answer;

typedef struct answers {
  const tn_graph *g;
  const tn_plugin *plugin;
  answer node[MAX_NODES], group[MAX_GROUPS];
  bool in_group[MAX_GROUPS][MAX_NODES];
  uint32_t n_groups, n_states;
  char wrong[256]; /* the first thing that no answer may be */
} answers;

static void answers_wrong(answers *a, const char *fmt, ...) TN_PRINTF(2, 3);
static void answers_wrong(answers *a, const char *fmt, ...) {
  va_list ap;
  if (a->wrong[0]) return;
  va_start(ap, fmt);
  vsnprintf(a->wrong, sizeof a->wrong, fmt, ap);
  va_end(ap);
}

static bool is_format(const tn_plugin *p, const tn_format *f) {
  for (uint32_t i = 0; i < p->n_formats; i++)
    if (p->formats[i] == f) return true;
  return false;
}

/* Values of a constraint IN; several sets of one answer are kept as one sum. */
static void set_take(answers *a, answer *to, const tn_claim *c, uint64_t which, const char *what) {
  const uint32_t n = TN_HAS(c, tn_claim, n_sets) ? c->n_sets : 0;
  if (which >= n || !c->sets) {
    answers_wrong(a, "%s: a constraint of set %llu of %u", what, (unsigned long long)which, n);
    return;
  }
  for (uint32_t i = 0; i < c->sets[which].n && c->sets[which].v; i++)
    to->set_sum = (to->set_sum ^ (uint64_t)c->sets[which].v[i]) * UINT64_C(0x100000001b3);
}

static void answer_take(answers *a, answer *to, const tn_claim *c, const char *what) {
  to->verdict = c->verdict;
  to->reason = c->reason;
  to->format = c->format;
  to->n_params = c->n_params;
  to->n_constraints = c->n_constraints;
  to->cost_ns = c->cost_ns;
  to->macs = c->macs;
  to->weight_bytes = c->weight_bytes;
  snprintf(to->text, sizeof to->text, "%.*s", (int)sizeof c->text, c->text);
  for (uint32_t i = 0; i < c->n_params && i < 8; i++) to->params[i] = c->params[i];
  for (uint32_t i = 0; i < c->n_constraints && i < 8; i++) {
    to->constraint[i] = c->constraints[i];
    if (c->constraints[i].rel < TN_REL_EQ || c->constraints[i].rel > TN_REL_IN)
      answers_wrong(a, "%s: constraint %u has the unknown relation %u", what, i, c->constraints[i].rel);
    if (c->constraints[i].rel == TN_REL_IN) set_take(a, to, c, (uint64_t)c->constraints[i].rhs, what);
    if (c->constraints[i].rel == TN_REL_MOD && c->constraints[i].rhs <= 0)
      answers_wrong(a, "%s: constraint %u is modulo %lld", what, i, (long long)c->constraints[i].rhs);
  }
  if (c->verdict < TN_YES || c->verdict > TN_GROUP_ONLY) answers_wrong(a, "%s: unknown verdict %u", what, c->verdict);
  if (c->verdict == TN_NO && c->reason == TN_WHY_NONE) answers_wrong(a, "%s is refused without a reason code", what);
  if (c->verdict == TN_NO && !c->text[0]) answers_wrong(a, "%s is refused without a text", what);
  if (c->verdict != TN_NO && c->text[0])
    answers_wrong(a, "%s is taken, with a text of refusal: %.100s", what, to->text);
  if (!memchr(c->text, 0, sizeof c->text)) answers_wrong(a, "%s: the text has no end", what);
  if (!isfinite(c->cost_ns) || c->cost_ns < 0) answers_wrong(a, "%s costs %g ns", what, c->cost_ns);
  if (!isfinite(c->macs) || c->macs < 0) answers_wrong(a, "%s has %g multiply-accumulates", what, c->macs);
  if (c->format && !is_format(a->plugin, c->format))
    answers_wrong(a, "%s: a format that is not in the plugin's table", what);
  if (c->n_params && !c->params) answers_wrong(a, "%s: %u params at NULL", what, c->n_params);
}

static tn_status on_node(void *ctx, tn_id node, const tn_claim *c) {
  answers *a = ctx;
  char what[96];
  if (node >= a->g->n_nodes || node >= MAX_NODES)
    return answers_wrong(a, "an answer for node %u of %u", node, a->g->n_nodes), TN_OK;
  snprintf(what, sizeof what, "node %u (%.60s)", node, a->g->nodes[node]->name);
  a->node[node].times++;
  answer_take(a, &a->node[node], c, what);
  return TN_OK;
}

static tn_status on_group(void *ctx, const tn_id *nodes, uint32_t n, const tn_claim *c) {
  answers *a = ctx;
  char what[32];
  if (a->n_groups == MAX_GROUPS) return TN_OK;
  const uint32_t k = a->n_groups++;
  snprintf(what, sizeof what, "group %u", k);
  if (!n) answers_wrong(a, "%s has no nodes", what);
  for (uint32_t i = 0; i < n; i++) {
    if (nodes[i] >= a->g->n_nodes || nodes[i] >= MAX_NODES)
      return answers_wrong(a, "%s: node %u of %u", what, nodes[i], a->g->n_nodes), TN_OK;
    if (a->in_group[k][nodes[i]]) answers_wrong(a, "%s has node %u twice", what, nodes[i]);
    a->in_group[k][nodes[i]] = true;
  }
  answer_take(a, &a->group[k], c, what);
  if (c->verdict == TN_NO) answers_wrong(a, "%s is offered and refused", what);
  return TN_OK;
}

static tn_status on_state(void *ctx, tn_id value, const tn_layout *const *accepted, uint32_t n) {
  answers *a = ctx;
  a->n_states++;
  if (value >= a->g->n_values || a->g->values[value]->kind != TN_VALUE_STATE)
    answers_wrong(a, "layouts of value %u, which is no cache", value);
  if (n && !accepted) answers_wrong(a, "layouts at NULL");
  return TN_OK;
}

static bool claims_ask(tni_cf *cf, tni_cf_host *h, const tn_graph *g, const tn_dims *at, answers *a) {
  tn_error e;
  tni_error_init(&e);
  memset(a, 0, sizeof *a);
  a->g = g;
  a->plugin = h->p.plugin;
  const tn_claim_sink sink = {
      .h = TN_HDR(tn_claim_sink), .ctx = a, .node = on_node, .group = on_group, .state = on_state};
  const tn_status st = h->device->claim(h->device, g, at, &sink, &e);
  if (st != TN_OK) return tni_cf_fail(cf, "claim failed (%s): %s", tni_status_name(st), e.message), false;
  for (uint32_t i = 0; i < g->n_nodes && i < MAX_NODES; i++)
    if (a->node[i].times != 1)
      answers_wrong(a, "node %u (%.60s) is answered %u times", i, g->nodes[i]->name, a->node[i].times);
  for (uint32_t i = 0; i < g->n_nodes && i < MAX_NODES; i++) {
    bool grouped = a->node[i].verdict != TN_GROUP_ONLY;
    for (uint32_t k = 0; k < a->n_groups && !grouped; k++) grouped = a->in_group[k][i];
    if (!grouped) answers_wrong(a, "node %u is GROUP_ONLY and in no group", i);
  }
  return true;
}

/* --- the same answers ------------------------------------------------------------------------------------------ */

static bool same_answer(const answer *x, const answer *y, bool costs) {
  const uint32_t n = x->n_params < 8 ? x->n_params : 8, c = x->n_constraints < 8 ? x->n_constraints : 8;
  return x->verdict == y->verdict && x->reason == y->reason && x->format == y->format && x->n_params == y->n_params &&
         x->n_constraints == y->n_constraints && x->weight_bytes == y->weight_bytes && x->set_sum == y->set_sum &&
         !strcmp(x->text, y->text) && !memcmp(x->params, y->params, n * sizeof *x->params) &&
         !memcmp(x->constraint, y->constraint, c * sizeof *x->constraint) &&
         (!costs || (x->cost_ns == y->cost_ns && x->macs == y->macs));
}

static void answers_same(tni_cf *cf, const char *graph, const answers *x, const answers *y, bool costs,
                         const char *when) {
  for (uint32_t i = 0; i < x->g->n_nodes && i < MAX_NODES; i++)
    if (!same_answer(&x->node[i], &y->node[i], costs)) {
      tni_cf_fail(cf, "%s, node %u (%s): %s the answer is another: verdict %u then %u, cost %g then %g", graph, i,
                  x->g->nodes[i]->name, when, x->node[i].verdict, y->node[i].verdict, x->node[i].cost_ns,
                  y->node[i].cost_ns);
      return;
    }
  if (x->n_groups != y->n_groups) {
    tni_cf_fail(cf, "%s: %s it offers %u groups, before it was %u", graph, when, y->n_groups, x->n_groups);
    return;
  }
  for (uint32_t k = 0; k < x->n_groups; k++)
    if (!same_answer(&x->group[k], &y->group[k], costs) ||
        memcmp(x->in_group[k], y->in_group[k], sizeof x->in_group[k]))
      tni_cf_fail(cf, "%s: %s group %u is another", graph, when, k);
}

/* A group that is taken whole must leave a graph without circles: no path leads out of it and back in. Where one does,
 * the host does not take the group, so an offer that never can be taken is noted. */
static bool is_convex_answer(const answers *a, uint32_t k) {
  bool beyond[MAX_NODES] = {false}; /* outside, and reached from the group */
  for (uint32_t i = 0; i < a->g->n_nodes && i < MAX_NODES; i++) {
    bool from_group = false, from_beyond = false;
    for (uint32_t j = 0; j < a->g->nodes[i]->n_in; j++) {
      const tn_id v = a->g->nodes[i]->in[j], by = v == TN_NONE ? TN_NONE : a->g->values[v]->producer;
      if (by >= MAX_NODES) continue;
      from_group |= a->in_group[k][by];
      from_beyond |= beyond[by];
    }
    if (a->in_group[k][i] && from_beyond) return false;
    beyond[i] = !a->in_group[k][i] && (from_group || from_beyond);
  }
  return true;
}

/* --- cases ------------------------------------------------------------------------------------------------------- */

/* One graph in one phase: well-formed answers, and the same ones again. `other` is asked in between. */
static void claims_judge(tni_cf *cf, tni_cf_host *h, tni_graph *g, uint32_t phase, const char *name,
                         const tn_graph *other, answers *room) {
  tn_graph view;
  tn_error e;
  tni_error_init(&e);
  if (tni_graph_view(g, phase, &view, &e) != TN_OK) {
    tni_cf_fail(cf, "%s: %s", name, e.message);
    return;
  }
  int64_t v[TNI_CF_MAX_SYMBOLS];
  for (int i = 0; i < TNI_CF_MAX_SYMBOLS; i++) v[i] = 64;
  const tn_dims at = {.h = TN_HDR(tn_dims), .v = v, .n = view.n_symbols};
  answers *first = &room[0], *second = &room[1];
  if (!claims_ask(cf, h, &view, NULL, first)) return;
  if (first->wrong[0]) tni_cf_fail(cf, "%s: %s", name, first->wrong);
  for (uint32_t k = 0; k < first->n_groups; k++)
    if (!is_convex_answer(first, k))
      tni_cf_note(cf, "%s: group %u can never be taken: a path leaves it and comes back", name, k);
  if (other && !claims_ask(cf, h, other, NULL, second)) return;
  if (!claims_ask(cf, h, &view, NULL, second)) return;
  answers_same(cf, name, first, second, true, "asked again");
  if (!claims_ask(cf, h, &view, &at, second)) return;
  if (second->wrong[0]) tni_cf_fail(cf, "%s, with dims: %s", name, second->wrong);
  answers_same(cf, name, first, second, false, "asked with dims");
  *first = *second;
  setenv("LANG", "tr_TR.UTF-8", 1);
  setenv("TZ", "Pacific/Kiritimati", 1);
  setenv("HOME", "/nonexistent", 1);
  const struct timespec nap = {0, 2000000};
  nanosleep(&nap, NULL);
  if (claims_ask(cf, h, &view, &at, second))
    answers_same(cf, name, first, second, true, "in another environment and later");
}

/* Every row of the table, or random graphs; in both phases. */
static void check_claims(tni_cf *cf, const void *arg) {
  const bool random = arg != NULL;
  tni_cf_host h;
  tni_cn_graph other;
  tn_graph view;
  tn_error e;
  uint32_t n;
  tni_error_init(&e);
  const tni_cf_graph_row *rows = tni_cf_graph_rows(&n);
  tni_cf_rng r = tni_cf_rng_of(cf, 0);
  answers *room = calloc(2, sizeof *room);
  if (random) n = cf->subject->thorough ? 200 : 24;
  if (!room || !tni_cf_host_open(cf, &h, &(tni_cf_ask){.offline = true})) {
    free(room);
    return;
  }
  if (!tni_cf_graph_random(&other, 20, &r) || tni_graph_view(other.g, TN_PHASE_DECODE, &view, &e) != TN_OK)
    tni_cf_fail(cf, "the kit's own graph: %s", other.err.message);
  for (uint32_t i = 0; i < n && cf->verdict == TNI_CF_PASS; i++) {
    tni_cn_graph b;
    char name[48];
    if (random)
      snprintf(name, sizeof name, "random graph %u", i);
    else
      snprintf(name, sizeof name, "%s", rows[i].name);
    const bool ok = random ? tni_cf_graph_random(&b, 4 + i % 40, &r) : tni_cf_graph_make(&rows[i], &b, &r);
    if (!ok)
      tni_cf_fail(cf, "the kit's own graph %s: %s", name, b.err.message);
    else
      for (uint32_t phase = TN_PHASE_PREFILL; phase <= TN_PHASE_DECODE; phase++)
        claims_judge(cf, &h, b.g, phase, name, &view, room);
    tni_cn_destroy(&b);
  }
  tni_cf_note(cf, "%u graphs", n);
  tni_cn_destroy(&other);
  tni_cf_host_close(cf, &h);
  free(room);
}

/* Lengths at which a claim is run: of those that it allows, the ends and some between. */
enum { MOST_LENGTHS = 4 };
static uint32_t lengths_to_run(const tni_cf_drive *d, bool few, int64_t out[MOST_LENGTHS]) {
  static const int64_t any[MOST_LENGTHS] = {1, 2, 7, 33};
  const uint32_t n = d->lengths.n;
  memcpy(out, any, sizeof any);
  if (!n) return few ? 2 : MOST_LENGTHS;
  const uint32_t take = n < MOST_LENGTHS ? n : MOST_LENGTHS;
  for (uint32_t i = 0; i < take; i++) out[i] = d->lengths.v[take < 2 ? 0 : i * (n - 1) / (take - 1)];
  return take;
}

/* A graph in one phase: what is claimed is lowered, bound at several lengths and run, with guards around all memory. */
static void run_in_phase(tni_cf *cf, tni_cf_host *h, const tni_cf_claimed *c, uint32_t phase) {
  int64_t S[MOST_LENGTHS];
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  if (tni_cf_rig_claim(&rig, h, tni_cf_graph_find(c->graph), phase, &r)) {
    const uint32_t n = lengths_to_run(&rig.d, phase != c->phase, S);
    for (uint32_t i = 0; i < n && cf->verdict == TNI_CF_PASS; i++) {
      if (i) tni_cf_inst_finish(&rig.i), rig.made = false;
      if (!tni_cf_rig_prepare(&rig, S[i], &r) || !tni_cf_rig_run(&rig, 0xff, TNI_CF_EVEN))
        tni_cf_fail(cf, "%s is claimed in phase %u; at S = %lld: %s", c->graph, phase, (long long)rig.sym[0], rig.why);
    }
  } else if (phase == c->phase || !rig.refused) {
    tni_cf_fail(cf, "claimed when it was listed, now: %s", rig.why);
  }
  tni_cf_rig_finish(&rig);
}

/* In the phase of the listing, then in the others, where it is claimed there too. */
static void check_runs(tni_cf *cf, const void *arg) {
  static const uint32_t phases[] = {TN_PHASE_PREFILL, TN_PHASE_DECODE, TN_PHASE_ANY};
  const tni_cf_claimed *c = arg;
  tni_cf_host h;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  run_in_phase(cf, &h, c, c->phase);
  for (size_t i = 0; i < sizeof phases / sizeof *phases && cf->verdict == TNI_CF_PASS; i++)
    if (phases[i] != c->phase) run_in_phase(cf, &h, c, phases[i]);
  tni_cf_host_close(cf, &h);
}

/* What measure states of a task does not hang on symbols that the task does not name. */
static void check_named(tni_cf *cf, const tni_cf_rig *rig, const char *graph, uint32_t task) {
  char text[400];
  for (uint32_t s = 0; s < rig->d.view.n_symbols && s < TNI_CF_MAX_SYMBOLS; s++) {
    const int64_t now = rig->i.sym[s], bucket = rig->d.claims.bucket > 1 ? rig->d.claims.bucket : 1;
    int64_t other = s ? now + 64 * bucket : now + 37;
    if (!s && rig->d.lengths.n) other = rig->d.lengths.v[now == rig->d.lengths.v[0] ? rig->d.lengths.n - 1 : 0];
    if (!tni_cf_drive_named(&rig->d, task, rig->i.sym, s, other, text, sizeof text))
      tni_cf_fail(cf, "%s: %s", graph, text);
  }
}

/* Costs and bytes are pure, and numbers. */
static void check_measures(tni_cf *cf, const void *arg) {
  (void)arg;
  tni_cf_host h;
  uint32_t asked = 0;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  for (uint32_t i = 0; i < cf->listing->n_claimed && cf->verdict == TNI_CF_PASS; i++) {
    const tni_cf_claimed *c = &cf->listing->claimed[i];
    tni_cf_rig rig;
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    if (c->verdict != TN_YES || (i && !strcmp(c->graph, c[-1].graph) && c[-1].verdict == TN_YES)) continue;
    if (!tni_cf_rig_claim(&rig, &h, tni_cf_graph_find(c->graph), c->phase, &r) || !tni_cf_rig_prepare(&rig, 5, &r)) {
      tni_cf_fail(cf, "%s: %s", c->graph, rig.why);
    } else {
      for (uint32_t t = 0; t < rig.d.info->n_tasks; t++, asked++) {
        uint64_t x[2][256] = {{0}};
        tn_measure m[2];
        for (int k = 0; k < 2; k++) {
          m[k] = (tn_measure){.h = TN_HDR(tn_measure), .slot_bytes = x[k]};
          if (rig.d.info->n_slots > 256 || h.device->measure(rig.d.prog.program, t, &rig.i.dims, &m[k]) != TN_OK)
            tni_cf_fail(cf, "%s, task %u: measure failed", c->graph, t);
        }
        if (m[0].scratch_bytes != m[1].scratch_bytes || m[0].driver_bytes != m[1].driver_bytes ||
            m[0].cost_ns != m[1].cost_ns || m[0].macs != m[1].macs || memcmp(x[0], x[1], sizeof x[0]))
          tni_cf_fail(cf, "%s, task %u: measure says something else when asked again", c->graph, t);
        if (!isfinite(m[0].cost_ns) || m[0].cost_ns < 0 || !isfinite(m[0].macs) || m[0].macs < 0 ||
            !isfinite(m[0].moved_bytes) || m[0].moved_bytes < 0)
          tni_cf_fail(cf, "%s, task %u: a cost of %g ns, %g macs, %g bytes", c->graph, t, m[0].cost_ns, m[0].macs,
                      m[0].moved_bytes);
        check_named(cf, &rig, c->graph, t);
      }
    }
    tni_cf_rig_finish(&rig);
  }
  tni_cf_note(cf, "%u tasks", asked);
  tni_cf_host_close(cf, &h);
}

/* Random graphs that it claims whole are lowered as one program, bound and run. */
static void check_programs(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  tni_cf_rng r = tni_cf_rng_of(cf, 2);
  const int n = cf->subject->thorough ? 100 : 12;
  int ran = 0;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  for (int i = 0; i < n && cf->verdict == TNI_CF_PASS; i++) {
    tni_cf_rig rig;
    memset(&rig, 0, sizeof rig);
    if (!tni_cf_graph_random(&rig.b, 2 + (uint32_t)i, &r)) {
      tni_cf_fail(cf, "the kit's own graph: %s", rig.b.err.message);
    } else if (tni_cf_rig_claim_made(&rig, &h, TN_PHASE_DECODE) || (!rig.refused && rig.why[0])) {
      if (!rig.d.all_taken || !tni_cf_rig_prepare(&rig, 1 + i % 5, &r) || !tni_cf_rig_run(&rig, 0x5b, TNI_CF_EVEN))
        tni_cf_fail(cf, "random graph %d: %s", i, rig.why);
      ran++;
    }
    tni_cf_rig_finish(&rig);
  }
  if (!ran) tni_cf_skip(cf, "it takes none of the random graphs whole");
  tni_cf_note(cf, "%d of %d random graphs are taken whole, and run", ran, n);
  tni_cf_host_close(cf, &h);
}

void tni_cf_honesty_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const tni_cf_case cases[] = {
      {"honesty/claims/operators", TNI_CF_LEVEL_ALL, 0, check_claims, NULL, 0},
      {"honesty/claims/random", TNI_CF_LEVEL_ALL, 0, check_claims, "random", 0},
      {"honesty/measure", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, check_measures, NULL, 60000},
      {"honesty/programs", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, check_programs, NULL, 60000},
  };
  char name[96];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(ctx, &cases[i]);
  for (uint32_t i = 0; i < l->n_claimed; i++) {
    const tni_cf_claimed *c = &l->claimed[i];
    if (c->verdict != TN_YES || !tni_cf_graph_find(c->graph)) continue;
    if (i && !strcmp(c->graph, c[-1].graph) && c[-1].verdict == TN_YES) continue; /* one phase each */
    snprintf(name, sizeof name, "honesty/runs/%s", c->graph);
    add(ctx, &(tni_cf_case){name, TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, check_runs, c, 0});
  }
  tni_cf_honesty_reason_cases(l, add, ctx);
  tni_cf_model_cases(l, add, ctx);
}
