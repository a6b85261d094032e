/* SPDX-License-Identifier: Apache-2.0
 *
 * Family generated: graphs drawn from the seed, each in a process of its own. One that fails is made smaller for as
 * long as it goes on failing, and the smallest is what is reported.
 */
#include "runtime/conform/generate/generate.h"

#include <stdio.h>
#include <string.h>

#include "runtime/conform/generate/run.h"

/* Graphs of a case: a few and one for each kind of step that the plugin takes. */
enum { CASES = 8, QUICK = 4, THOROUGH = 60, LIMIT_MS = 20000, SHRINK_S = 12, MOST_TRIALS = 150, TAKEN = 8 };

static void run_part(tni_cf *cf, void *arg) { tni_gen_run(cf, arg); }

/* Kinds that the plugin took in a graph of the table are drawn often, what a chain may consist of now and then. */
static void draw_weights(const tni_cf_listing *l, uint32_t *weights) {
  static const struct {
    uint32_t kind;
    const char *graph; /* that says whether it is taken, or what its name begins with */
    uint32_t else_;    /* the weight where it is not */
  } rows[] = {{TNI_GEN_MATMUL, "matmul/2d", 0},
              {TNI_GEN_GEMM, "gemm/", 0},
              {TNI_GEN_SIBLINGS, "matmul/2d", 0},
              {TNI_GEN_FUSED, "fused/plain", 0},
              {TNI_GEN_FUSED_CHAIN, "fused/swiglu", 0},
              {TNI_GEN_UNARY, "relu", 2},
              {TNI_GEN_UNARY, "sigmoid", 2},
              {TNI_GEN_BINARY, "add", 3},
              {TNI_GEN_SOFTMAX, "softmax", 0},
              {TNI_GEN_NORM, "layernorm", 1},
              {TNI_GEN_NORM, "rmsnorm", 1},
              {TNI_GEN_TRANSPOSE, "transpose", 1},
              {TNI_GEN_CONCAT, "concat", 0},
              {TNI_GEN_REDUCE, "reduce/mean", 0},
              {TNI_GEN_PRODUCT, "matmul/activations", 1},
              {TNI_GEN_CONV, "conv/", 0},
              {TNI_GEN_POOL, "pool/", 0},
              {TNI_GEN_BATCHNORM, "batchnorm", 0},
              {TNI_GEN_ATTENTION, "attention", 0},
              {TNI_GEN_ROTARY, "rotary", 0},
              {TNI_GEN_GATHER, "gather/rows", 0}};
  memset(weights, 0, TNI_GEN_KINDS * sizeof *weights);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    uint32_t taken = 0, asked = 0;
    for (uint32_t k = 0; k < l->n_claimed; k++) {
      if (strncmp(l->claimed[k].graph, rows[i].graph, strlen(rows[i].graph)) != 0) continue;
      asked++;
      taken += l->claimed[k].verdict == TN_YES;
    }
    /* A fused node of a file cannot be taken apart: it is only asked for where it is taken in every phase. */
    const bool fused = rows[i].kind == TNI_GEN_FUSED || rows[i].kind == TNI_GEN_FUSED_CHAIN;
    const uint32_t w = (fused ? taken == asked : taken > 0) ? TAKEN : rows[i].else_;
    if (w > weights[rows[i].kind]) weights[rows[i].kind] = w;
  }
}

/* The smallest recipe that still fails, in the time that there is. */
static uint32_t shrink(const tni_cf *cf, tni_gen_recipe *g, tni_cf_part *found) {
  const int64_t until = tni_now_ns() + (int64_t)SHRINK_S * 1000000000;
  uint32_t trials = 0;
  for (uint32_t i = 0; trials < MOST_TRIALS && tni_now_ns() < until;) {
    tni_gen_recipe smaller;
    tni_cf_part part;
    if (!tni_gen_smaller(g, i++, &smaller)) break;
    if (!memcmp(&smaller, g, sizeof smaller)) continue;
    trials++;
    if (!tni_cf_apart(cf, run_part, &smaller, LIMIT_MS, &part) || !part.failed) continue;
    *g = smaller;
    *found = part;
    i = 0;
  }
  return trials;
}

static void report(tni_cf *cf, const tni_gen_recipe *g, uint32_t n, uint32_t steps, const tni_cf_part *found) {
  tni_cn_graph b;
  char text[600] = "";
  if (tni_gen_build(g, cf, &b)) tni_gen_print(g, &b, text, sizeof text);
  tni_cn_destroy(&b);
  tni_cf_fail(cf, "graph %u, made smaller from %u steps to %u: %s: %s", n, steps, g->n_steps, text, found->text);
}

static void graphs_ask(tni_cf *cf, const void *arg) {
  uint32_t weights[TNI_GEN_KINDS], ran = 0, n = 0;
  uint32_t want = cf->subject->thorough ? THOROUGH : QUICK;
  const int64_t until = tni_now_ns() + (int64_t)cf->subject->seconds * 1000000000;
  (void)arg;
  draw_weights(cf->listing, weights);
  for (uint32_t i = 0; i < TNI_GEN_KINDS; i++) want += weights[i] == TAKEN;
  for (; (cf->subject->seconds ? tni_now_ns() < until : n < want) && cf->verdict == TNI_CF_PASS; n++) {
    tni_cf_rng r = tni_cf_rng_of(cf, n);
    tni_gen_recipe g;
    tni_cf_part part;
    tni_gen_draw(&g, weights, &r);
    if (!tni_cf_apart(cf, run_part, &g, LIMIT_MS, &part)) {
      tni_cf_fail(cf, "no process could be made");
      break;
    }
    ran += !part.skipped;
    if (!part.failed) continue;
    const uint32_t steps = g.n_steps;
    (void)shrink(cf, &g, &part);
    report(cf, &g, n, steps, &part);
  }
  if (!ran) tni_cf_skip(cf, "it takes nothing of %u graphs", n);
  tni_cf_note(cf, "%u graphs, it takes something of %u", n, ran);
}

void tni_cf_generated_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  char name[32];
  bool takes = false;
  for (uint32_t i = 0; i < l->n_claimed; i++) takes = takes || l->claimed[i].verdict == TN_YES;
  const uint32_t device = l->subject->device;
  const bool offline = device < l->n_devices && l->devices[device].flags & TN_CAPS_OFFLINE;
  if (!strcmp(l->subject->path, "host") || !takes || offline) return; /* nothing would be judged */
  for (uint32_t i = 0; i < CASES; i++) {
    snprintf(name, sizeof name, "generated/graphs/%u", i);
    add(ctx, &(tni_cf_case){.name = name,
                            .levels = TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI,
                            .run = graphs_ask,
                            .timeout_ms = 60000 + l->subject->seconds * 1000});
  }
}
