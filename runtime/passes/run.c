/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/passes/passes.h"

enum { FOLD, IDENTITY, CSE, LIFT, DCE, N_PASSES };
static const char *const names[N_PASSES] = {"fold", "identity", "cse", "lift", "dce"};

typedef struct run {
  tni_graph *g;
  uint64_t max_fold;
  tni_eval_fn eval;
  void *ctx;
  bool off[N_PASSES];
  uint64_t fired[N_PASSES];
  tn_error *err;
} run;

static tn_status read_options(run *r, const tni_passes_options *opt) {
  r->max_fold = opt && opt->max_fold_bytes ? opt->max_fold_bytes : TNI_FOLD_MAX_BYTES;
  for (uint32_t i = 0; opt && i < opt->n_disabled; i++) {
    uint32_t p = 0;
    while (p < N_PASSES && strcmp(opt->disabled[i], names[p]) != 0) p++;
    if (p == N_PASSES) {
      return tni_fail(r->err, TN_E_INVALID, "passes", "there is no pass '%s'; there are fold, identity, cse, lift, dce",
                      opt->disabled[i]);
    }
    r->off[p] = true;
  }
  return TN_OK;
}

static tn_status one_pass(run *r, uint32_t pass, uint64_t *fired) {
  uint32_t n = 0;
  tn_status st = TN_OK;
  if (r->off[pass]) return TN_OK;
  switch (pass) {
    case FOLD:
      st = tni_fold_constants(r->g, r->max_fold, r->eval, r->ctx, &n, r->err);
      break;
    case IDENTITY:
      st = tni_pass_identity(r->g, &n, r->err);
      break;
    case CSE:
      st = tni_pass_cse(r->g, &n, r->err);
      break;
    case LIFT:
      st = tni_lift_shape_values(r->g, &n, r->err);
      break;
    default:
      n = tni_graph_dce(r->g);
      break;
  }
  r->fired[pass] += n;
  *fired += n;
  return st;
}

static tn_status one_round(run *r, uint64_t *fired) {
  tn_status st = tni_infer_graph(r->g, r->err);
  if (st == TN_OK) st = one_pass(r, FOLD, fired);
  if (st == TN_OK && *fired) st = tni_infer_graph(r->g, r->err);
  for (uint32_t p = IDENTITY; st == TN_OK && p < N_PASSES; p++) st = one_pass(r, p, fired);
  return st == TN_OK ? tni_graph_compact(r->g, r->err) : st;
}

static void fill_report(const run *r, tni_passes_report *report, uint32_t before, uint32_t rounds) {
  memset(report, 0, sizeof *report);
  for (uint32_t p = 0; p < N_PASSES; p++) {
    report->entries[p].name = names[p];
    report->entries[p].fired = r->fired[p];
  }
  report->n = N_PASSES;
  report->rounds = rounds;
  report->nodes_before = before;
  report->nodes_after = r->g->n_nodes;
}

tn_status tni_passes_run(tni_graph *g, const tni_passes_options *opt, tni_eval_fn eval, void *ctx,
                         tni_passes_report *report, tn_error *err) {
  run r = {.g = g, .eval = eval, .ctx = ctx, .err = err};
  uint32_t before = g->n_nodes, round = 0;
  uint64_t fired = 1;
  tn_status st = read_options(&r, opt);
  for (; st == TN_OK && fired && round < TNI_PASSES_ROUNDS; round++) {
    fired = 0;
    st = one_round(&r, &fired);
  }
  if (st == TN_OK && report) fill_report(&r, report, before, round);
  return st;
}
