/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "runtime/passes/decoder/decoder.h"
#include "runtime/passes/forms/forms.h"
#include "runtime/passes/fuse/fuse.h"
#include "runtime/passes/mask/mask.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/quant/quant.h"
#include "runtime/passes/widen/widen.h"

typedef tn_status (*pass_fn)(tni_graph *g, uint32_t *n, tn_error *err);

static tn_status drop_dead_nodes(tni_graph *g, uint32_t *n, tn_error *err) {
  (void)err;
  *n = tni_graph_dce(g);
  return TN_OK;
}

/* QUANTIZED joins operators with the quantization around them, while constant weights are still codes, and is left out
 * where a graph quantizes nothing; CODES keeps weights that are left as they are; RECOGNISE finds operators in their
 * primitives; SHAPE gives them the forms that plugins and caches want; PLACE puts caches into memory that stays and
 * leaves out what nobody asks for, once those forms are final; FUSE joins what is left, and undoing it is all that may
 * come after. Each stage runs until nothing of it or before fires any more. */
enum { QUANTIZED = 0, CODES = 1, RECOGNISE = 2, SHAPE = 3, PLACE = 4, FUSE = 5, N_STAGES = 6 };

/* In this order. fold comes first, has arguments of its own, and dims are inferred anew after it and after branch. */
static const struct pass {
  const char *name;
  pass_fn fn;
  bool rounds; /* results may differ in the last bits */
  uint32_t stage;
} passes[] = {
    {"fold", NULL, false, QUANTIZED},
    {"branch", tni_pass_branch, false, QUANTIZED},
    {"widen", tni_pass_widen, true, QUANTIZED},
    {"identity", tni_pass_identity, false, QUANTIZED},
    {"cse", tni_pass_cse, false, QUANTIZED},
    {"qdq", tni_pass_qdq, true, QUANTIZED},
    {"codes", tni_pass_codes, true, CODES},
    {"integers", tni_pass_integers, false, RECOGNISE},
    {"conv_scale", tni_pass_conv_scale, true, RECOGNISE},
    {"repeat", tni_pass_repeat, false, RECOGNISE},
    {"turn", tni_pass_turn, false, RECOGNISE},
    {"tables", tni_pass_tables, false, RECOGNISE},
    {"rotary", tni_pass_rotary, false, RECOGNISE},
    {"einsum", tni_pass_einsum, true, RECOGNISE},
    {"unflatten", tni_pass_unflatten, false, RECOGNISE},
    {"attention", tni_pass_attention, true, RECOGNISE},
    {"reshape", tni_pass_reshape, false, RECOGNISE},
    {"layer_norm", tni_pass_layer_norm, true, RECOGNISE},
    {"rms_norm", tni_pass_rms_norm, true, RECOGNISE},
    {"gelu", tni_pass_gelu, true, RECOGNISE},
    {"silu", tni_pass_silu, true, RECOGNISE},
    {"experts", tni_pass_experts, false, RECOGNISE},
    /* stage SHAPE: unit, rows, lanes, heads, mask; stage PLACE: cache, last_rows */
    {"unit", tni_pass_unit, false, SHAPE},
    {"rows", tni_pass_rows, false, SHAPE},
    {"lanes", tni_pass_lanes, false, SHAPE},
    {"heads", tni_pass_heads, false, SHAPE},
    {"mask", tni_pass_mask, true, SHAPE},
    {"cache", tni_pass_cache, false, PLACE},
    {"last_rows", tni_pass_last_rows, false, PLACE},
    {"siblings", tni_pass_siblings, false, FUSE},
    {"chain", tni_pass_chain, true, FUSE},
    {"lift", tni_lift_shape_values, false, RECOGNISE},
    {"dce", drop_dead_nodes, false, QUANTIZED}, /* one line each */
};
enum { FOLD = 0, BRANCH = 1 };
enum { N_PASSES = sizeof passes / sizeof passes[0] };
_Static_assert((size_t)N_PASSES <= (size_t)TNI_PASSES_MAX, "the report holds every pass");

typedef struct passes_run {
  tni_graph *g;
  uint64_t max_fold;
  tni_eval_fn eval;
  void *ctx;
  bool off[N_PASSES];
  uint64_t fired[N_PASSES];
  tn_error *err;
} passes_run;

const char *tni_pass_name(uint32_t i, bool *rounds) {
  if (i >= N_PASSES) return NULL;
  if (rounds) *rounds = passes[i].rounds;
  return passes[i].name;
}

static tn_status unknown_pass(const char *name, tn_error *err) {
  char list[256] = "";
  size_t at = 0;
  for (uint32_t p = 0; p < N_PASSES && at < sizeof list; p++) {
    int n = snprintf(list + at, sizeof list - at, "%s%s", p ? ", " : "", passes[p].name);
    at += n > 0 ? (size_t)n : 0;
  }
  return tni_fail(err, TN_E_INVALID, "passes", "there is no pass '%s'; there are %s", name, list);
}

static tn_status read_options(passes_run *r, const tni_passes_options *opt) {
  r->max_fold = opt && opt->max_fold_bytes ? opt->max_fold_bytes : TNI_FOLD_MAX_BYTES;
  for (uint32_t i = 0; opt && i < opt->n_disabled; i++) {
    uint32_t p = 0;
    if (strcmp(opt->disabled[i], "all") == 0) {
      for (p = 0; p < N_PASSES; p++) r->off[p] = true;
      continue;
    }
    while (p < N_PASSES && strcmp(opt->disabled[i], passes[p].name) != 0) p++;
    if (p == N_PASSES) return unknown_pass(opt->disabled[i], r->err);
    r->off[p] = true;
  }
  return TN_OK;
}

static tn_status one_pass(passes_run *r, uint32_t pass, uint64_t *fired) {
  uint32_t n = 0;
  tn_status st;
  if (r->off[pass]) return TN_OK;
  st = tni_budget_take(tni_ex_budget(r->g->exprs), (uint64_t)r->g->n_nodes * TNI_BUDGET_NODE, r->err);
  if (st != TN_OK) return st;
  if (passes[pass].fn)
    st = passes[pass].fn(r->g, &n, r->err);
  else
    st = tni_fold_constants(r->g, r->max_fold, r->eval, r->ctx, &n, r->err);
  r->fired[pass] += n;
  *fired += n;
  if (st == TN_OK && (tni_ex_short(r->g->exprs) || tni_arena_short(r->g->arena))) st = TN_E_NO_MEMORY;
  return st == TN_E_NO_MEMORY ? tni_fail_memory(r->err, passes[pass].name) : st;
}

/* Branches that are taken may decide others: until none does. */
static tn_status settle_passes(passes_run *r, uint64_t *fired) {
  uint64_t taken;
  tn_status st;
  do {
    uint64_t folded = 0;
    taken = 0;
    st = tni_infer_graph(r->g, r->err);
    if (st == TN_OK) st = one_pass(r, FOLD, &folded);
    if (st == TN_OK && folded) st = tni_infer_graph(r->g, r->err);
    if (st == TN_OK) st = one_pass(r, BRANCH, &taken);
    *fired += folded + taken;
  } while (st == TN_OK && taken);
  return st;
}

static tn_status one_round(passes_run *r, uint32_t stage, uint64_t *fired) {
  tn_status st = settle_passes(r, fired);
  for (uint32_t p = BRANCH + 1; st == TN_OK && p < N_PASSES; p++)
    if (passes[p].stage <= stage) st = one_pass(r, p, fired);
  return st == TN_OK ? tni_graph_compact(r->g, r->err) : st;
}

static void fill_report(const passes_run *r, tni_passes_report *report, uint32_t before, uint32_t rounds) {
  memset(report, 0, sizeof *report);
  for (uint32_t p = 0; p < N_PASSES; p++) {
    report->entries[p].name = passes[p].name;
    report->entries[p].fired = r->fired[p];
  }
  report->n = N_PASSES;
  report->rounds = rounds;
  report->nodes_before = before;
  report->nodes_after = r->g->n_nodes;
}

static bool graph_has(const tni_graph *g, uint32_t op) {
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (!g->nodes[i]->dead && g->nodes[i]->pub.op == op) return true;
  return false;
}

static bool is_off(const passes_run *r, pass_fn fn) {
  for (uint32_t p = 0; p < N_PASSES; p++)
    if (passes[p].fn == fn) return r->off[p];
  return true;
}

tn_status tni_passes_run(tni_graph *g, const tni_passes_options *opt, tni_eval_fn eval, void *ctx,
                         tni_passes_report *report, tn_error *err) {
  passes_run r = {.g = g, .eval = eval, .ctx = ctx, .err = err};
  uint32_t before = g->n_nodes, rounds = 0;
  tn_status st = read_options(&r, opt);
  for (uint32_t stage = 0; st == TN_OK && stage < N_STAGES; stage++) {
    uint64_t fired = 1;
    if (stage == QUANTIZED && (is_off(&r, tni_pass_qdq) || !graph_has(g, TN_OP_QUANTIZE_LINEAR))) continue;
    if (stage == CODES && (is_off(&r, tni_pass_codes) || !graph_has(g, TN_OP_DEQUANTIZE_LINEAR))) continue;
    g->keep_codes = stage <= CODES;
    for (uint32_t round = 0; st == TN_OK && fired && round < TNI_PASSES_ROUNDS; round++) {
      fired = 0;
      st = one_round(&r, stage, &fired);
      rounds++;
    }
  }
  if (st == TN_OK && report) fill_report(&r, report, before, rounds);
  return st;
}
