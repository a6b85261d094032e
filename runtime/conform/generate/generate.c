/* SPDX-License-Identifier: Apache-2.0
 *
 * Family generated: graphs drawn from the seed, each in a process of its own, or a few where a driver takes long to
 * start. One that fails is made smaller for as long as it goes on failing, and the smallest is what is reported.
 */
#include "runtime/conform/generate/generate.h"

#include <stdio.h>
#include <string.h>

#include "runtime/conform/generate/run.h"

enum { CASES = 8, QUICK = 4, THOROUGH = 60, LIMIT_MS = 20000, SHRINK_S = 12, MOST_TRIALS = 150, TAKEN = 8, TURNS = 3 };
/* Runs of LONG positions and more are of one sequence, and few; longer ones than TOO_LONG come where there are no
 * others. */
enum { LONG = 64, TOO_LONG = 512 };

/* Graphs that run one after the other in a process of their own: several where a driver takes long to start. */
enum { MOST_TOGETHER = 4 };
typedef struct together {
  tni_gen_recipe g[MOST_TOGETHER];
  uint32_t n;
} together;

static void run_part(tni_cf *cf, void *arg) {
  together *t = arg;
  for (uint32_t i = 0; i < t->n && cf->verdict != TNI_CF_FAIL; i++) {
    cf->verdict = TNI_CF_PASS;
    tni_gen_run(cf, &t->g[i]);
  }
}

static bool run_apart(const tni_cf *cf, const tni_gen_recipe *g, uint32_t n, tni_cf_part *out) {
  together t = {.n = n};
  memcpy(t.g, g, n * sizeof *g);
  return tni_cf_apart(cf, run_part, &t, n * LIMIT_MS, out);
}

/* What a graph may begin with: the operator that it then has, and which graphs of the table say that it is taken, by
 * what their names begin with, up to a '/'. */
static const struct {
  tni_gen_form form;
  const char *op, *graph;
  uint32_t else_; /* how often the kind is drawn where it is not taken */
} forms[] = {{{TNI_GEN_MATMUL, 0, 0, 0}, "MatMul", "matmul/2d", 0},
             {{TNI_GEN_GEMM, 0, 0, 0}, "Gemm", "gemm/", 0},
             {{TNI_GEN_GEMM, 4, 4, 0}, "Gemm", "gemm/", 0}, /* transposed */
             {{TNI_GEN_SIBLINGS, 0, 0, 0}, "MatMul", "matmul/2d", 0},
             {{TNI_GEN_FUSED, 0, 0, 0}, "FusedMatMul", "fused/plain", 0},
             {{TNI_GEN_FUSED_CHAIN, 0, 0, 0}, "FusedMatMul", "fused/swiglu", 0},
             {{TNI_GEN_UNARY, 0, 11, 0}, "Relu", "relu", 2},
             {{TNI_GEN_UNARY, 0, 11, 1}, "Sigmoid", "sigmoid", 2},
             {{TNI_GEN_UNARY, 0, 11, 2}, "Tanh", "tanh", 2},
             {{TNI_GEN_UNARY, 0, 11, 3}, "Neg", "neg", 2},
             {{TNI_GEN_UNARY, 0, 11, 4}, "Gelu", "gelu", 2},
             {{TNI_GEN_UNARY, 0, 11, 5}, "Swish", "swish", 2},
             {{TNI_GEN_UNARY, 0, 11, 6}, "Erf", "erf", 2},
             {{TNI_GEN_UNARY, 0, 11, 7}, "Abs", "abs", 2},
             {{TNI_GEN_UNARY, 0, 11, 8}, "LeakyRelu", "leakyrelu", 2},
             {{TNI_GEN_UNARY, 0, 11, 9}, "Elu", "elu", 2},
             {{TNI_GEN_UNARY, 0, 11, 10}, "HardSigmoid", "hardsigmoid", 2},
             {{TNI_GEN_BINARY, 0, 5, 0}, "Add", "add", 3},
             {{TNI_GEN_BINARY, 0, 5, 1}, "Mul", "mul", 3},
             {{TNI_GEN_BINARY, 0, 5, 2}, "Sub", "sub", 3},
             {{TNI_GEN_BINARY, 0, 5, 4}, "Max", "max", 3},
             {{TNI_GEN_SOFTMAX, 0, 0, 0}, "Softmax", "softmax", 0},
             {{TNI_GEN_NORM, 0, 2, 1}, "LayerNormalization", "layernorm", 1},
             {{TNI_GEN_NORM, 0, 2, 0}, "RMSNormalization", "rmsnorm", 1},
             {{TNI_GEN_TRANSPOSE, 0, 0, 0}, "Transpose", "transpose", 1},
             {{TNI_GEN_CONCAT, 0, 0, 0}, "Concat", "concat", 0},
             {{TNI_GEN_REDUCE, 0, 3, 0}, "ReduceMean", "reduce/mean", 0},
             {{TNI_GEN_REDUCE, 0, 3, 1}, "ReduceSum", "reduce/sum", 0},
             {{TNI_GEN_REDUCE, 0, 3, 2}, "ReduceMax", "reduce/max", 0},
             {{TNI_GEN_PRODUCT, 0, 0, 0}, "MatMul", "matmul/activations", 1},
             {{TNI_GEN_CONV, 0, 0, 0}, "Conv", "conv/", 0},
             {{TNI_GEN_CONV, 3, 4, 0}, "Conv", "conv/depthwise", 0},
             {{TNI_GEN_POOL, 3, 10, 3}, "MaxPool", "pool/max", 0},
             {{TNI_GEN_POOL, 3, 10, 4}, "AveragePool", "pool/average", 0},
             {{TNI_GEN_POOL, 3, 10, 0}, "GlobalAveragePool", "pool/global", 0},
             {{TNI_GEN_POOL, 3, 10, 5}, "GlobalMaxPool", "pool/global-max", 0},
             {{TNI_GEN_BATCHNORM, 0, 0, 0}, "BatchNormalization", "batchnorm", 0},
             {{TNI_GEN_ATTENTION, 0, 0, 0}, "Attention", "attention", 0},
             {{TNI_GEN_ATTENTION, 5, 6, 3}, "Attention", "attention", 0}, /* a mask that hides */
             {{TNI_GEN_ATTENTION, 0, 2, 1}, "Attention", "attention", 0}, /* caches */
             {{TNI_GEN_ROTARY, 0, 0, 0}, "RotaryEmbedding", "rotary", 0},
             {{TNI_GEN_GATHER, 0, 0, 0}, "Gather", "gather/rows", 0},
             {{TNI_GEN_BLOCK, 0, 0, 0}, "Conv", "conv/", 0},
             {{TNI_GEN_BLOCK, 5, 8, 3}, "Conv", "conv/", 0}, /* with what it reads itself added */
             {{TNI_GEN_BETWEEN, 5, 8, 0}, "Div", "div", 0},
             {{TNI_GEN_BETWEEN, 5, 8, 2}, "Exp", "exp", 0},
             {{TNI_GEN_BETWEEN, 5, 8, 3}, "Sqrt", "sqrt", 0},
             {{TNI_GEN_BETWEEN, 5, 8, 5}, "Clip", "clip", 0},
             {{TNI_GEN_CODE_CONV, 0, 0, 0}, "QLinearConv", "quant/conv", 0},
             {{TNI_GEN_CODE_MATMUL, 0, 0, 0}, "QLinearMatMul", "quant/matmul", 0},
             {{TNI_GEN_CODE_CONV, 5, 4, 1}, "ConvInteger", "quant/conv-integer", 0},
             {{TNI_GEN_CODE_MATMUL, 5, 8, 1}, "MatMulInteger", "quant/matmul-integer", 0},
             {{TNI_GEN_CODE_MATMUL, 5, 8, 5}, "MatMulIntegerToFloat", "quant/integer-to-float", 0}};
enum { N_FORMS = sizeof forms / sizeof *forms };

typedef struct draws {
  uint32_t weights[TNI_GEN_KINDS];
  uint32_t taken[N_FORMS], n_taken; /* what graphs begin with in turns */
  bool few;
} draws;

/* The whole name, or all of it up to a '/'. */
static bool is_named(const char *graph, uint32_t form) {
  const size_t n = strlen(forms[form].graph);
  return !strncmp(graph, forms[form].graph, n) && (!graph[n] || graph[n] == '/' || graph[n - 1] == '/');
}

static bool is_taken(const tni_cf_listing *l, uint32_t form) {
  uint32_t taken = 0, asked = 0;
  for (uint32_t k = 0; k < l->n_claimed; k++) {
    if (!is_named(l->claimed[k].graph, form)) continue;
    asked++;
    taken += l->claimed[k].verdict == TN_YES;
  }
  /* A fused node of a file cannot be taken apart: it is only asked for where it is taken in every phase. */
  const uint32_t kind = forms[form].form.kind;
  return (kind == TNI_GEN_FUSED || kind == TNI_GEN_FUSED_CHAIN) && taken != asked ? false : taken > 0;
}

/* Kinds that the plugin took in a graph of the table are drawn often, what a chain may consist of now and then. */
static void find_draws(const tni_cf_listing *l, draws *d) {
  memset(d, 0, sizeof *d);
  d->few = l->resident;
  for (uint32_t i = 0; i < N_FORMS; i++) {
    const bool taken = is_taken(l, i);
    const uint32_t kind = forms[i].form.kind, w = taken ? TAKEN : forms[i].else_;
    if (taken) d->taken[d->n_taken++] = i;
    if (w > d->weights[kind]) d->weights[kind] = w;
  }
}

/* Each form begins TURNS graphs of a run of all cases, fewer where each is compiled by a driver; after them, the first step is
 * drawn. */
static uint32_t n_begun(const draws *d, uint32_t number) {
  const uint32_t all = (d->few ? TURNS - 1 : TURNS) * d->n_taken;
  return all / CASES + (number < all % CASES);
}

static uint32_t n_drawn(const draws *d) { return d->few ? QUICK / 2 : QUICK; }

static bool takes_in(const tni_cf_listing *l, uint32_t phase) {
  for (uint32_t i = 0; i < l->n_claimed; i++)
    if (l->claimed[i].phase == phase && l->claimed[i].verdict == TN_YES) return true;
  return false;
}

/* A device that takes certain lengths gets one of them. Who fixes the length of a step alone, and takes prompts of any,
 * gets the one and the other. */
static void draw_length(const tni_cf_listing *l, tni_gen_recipe *g, tni_cf_rng *r) {
  int64_t lengths[TNI_CF_LENGTHS];
  uint32_t n = tni_cf_lengths(l, TN_PHASE_PREFILL, lengths);
  const bool steps = !n && (n = tni_cf_lengths(l, TN_PHASE_DECODE, lengths)) > 0;
  if (!n || (steps && takes_in(l, TN_PHASE_PREFILL) && tni_cf_rng_next(r) % 2)) return;
  while (n > 1 && lengths[n - 1] > TOO_LONG) n--;
  const uint32_t which = (uint32_t)(tni_cf_rng_next(r) % (2 * n));
  g->length = (uint32_t)lengths[which < n ? which : n - 1];
  for (int i = 0; i < 3 && g->length >= LONG; i++) g->batch[i] = 1;
  if (g->length >= LONG) g->n_runs = 2;
}

/* The n-th graph of case `number`. */
static void draw(const tni_cf *cf, const draws *d, uint32_t number, uint32_t n, tni_gen_recipe *g) {
  char name[32];
  snprintf(name, sizeof name, "generated/graphs/%u", number);
  tni_cf_rng r = tni_cf_rng_named(cf, name, n);
  const uint32_t at = n * CASES + number;
  const tni_gen_form *first = n < n_begun(d, number) ? &forms[d->taken[at % d->n_taken]].form : NULL;
  tni_gen_draw(g, d->weights, first, first && d->few && at < d->n_taken, &r);
  draw_length(cf->listing, g, &r);
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
    if (!run_apart(cf, &smaller, 1, &part) || !part.failed) continue;
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

/* Asks n graphs, each alone. How many of them it takes something of. */
static uint32_t each_alone(tni_cf *cf, tni_gen_recipe *g, uint32_t first, uint32_t n) {
  uint32_t ran = 0;
  for (uint32_t i = 0; i < n && cf->verdict == TNI_CF_PASS; i++) {
    tni_cf_part part;
    if (!run_apart(cf, &g[i], 1, &part)) return tni_cf_fail(cf, "no process could be made"), ran;
    ran += !part.skipped;
    if (!part.failed) continue;
    const uint32_t steps = g[i].n_steps;
    (void)shrink(cf, &g[i], &part);
    report(cf, &g[i], first + i, steps, &part);
  }
  return ran;
}

static void graphs_ask(tni_cf *cf, const void *arg) {
  const uint32_t number = (uint32_t)(uintptr_t)arg, at_once = cf->listing->resident ? MOST_TOGETHER : 1;
  draws d;
  uint32_t ran = 0, n = 0;
  const int64_t until = tni_now_ns() + (int64_t)cf->subject->seconds * 1000000000;
  find_draws(cf->listing, &d);
  const uint32_t want = n_begun(&d, number) + (cf->subject->thorough ? THOROUGH : n_drawn(&d));
  while ((cf->subject->seconds ? tni_now_ns() < until : n < want) && cf->verdict == TNI_CF_PASS) {
    tni_gen_recipe g[MOST_TOGETHER];
    tni_cf_part part = {.failed = true};
    const uint32_t first = n;
    do draw(cf, &d, number, n, &g[n - first]), n++;
    while (n - first < at_once && (cf->subject->seconds || n < want));
    if (at_once > 1 && run_apart(cf, g, n - first, &part) && !part.failed) {
      ran += n - first - part.n_skips;
      continue;
    }
    ran += each_alone(cf, g, first, n - first);
    if (at_once > 1 && cf->verdict == TNI_CF_PASS)
      tni_cf_fail(cf, "graphs %u to %u, one after the other in one process, each of which passes alone: %s", first,
                  n - 1, part.text);
  }
  if (!ran) tni_cf_skip(cf, "it takes nothing of %u graphs", n);
  tni_cf_note(cf, "%u graphs, it takes something of %u", n, ran);
}

/* Operators of all graphs: how often they were drawn, and how often the device took them. */
typedef struct counts {
  uint32_t drawn[N_FORMS], taken[N_FORMS], graphs;
} counts;

/* A graph as its runs have it: with one length, where there is one. In any phase of the profile. */
static void count_taken(tni_cf *cf, tni_cf_host *h, const tni_gen_recipe *g, tni_cn_graph *b, counts *c) {
  static const uint32_t phases[] = {TN_PHASE_ANY, TN_PHASE_PREFILL, TN_PHASE_DECODE};
  const bool several = tni_cf_needs_phases(cf->listing);
  bool *taken = TNI_NEW_ARRAY(cf->arena, bool, b->g->n_nodes + 1);
  if (!taken || (tni_gen_is_constant(g) && tni_ex_bound(b->g->exprs, 0, g->length, g->length) != TN_OK)) return;
  for (size_t k = several ? 1 : 0; k < (several ? 3 : 1); k++) {
    tni_cf_drive d = {.flip = UINT64_MAX};
    const bool ok = tni_cf_drive_claim(&d, h, b->g, phases[k]);
    if (!ok) tni_cf_fail(cf, "%s", d.why);
    for (uint32_t i = 0; ok && i < b->g->n_nodes; i++) taken[i] = taken[i] || d.part.device_of[i] != TN_NONE;
    tni_cf_drive_finish(&d);
  }
  for (uint32_t i = 0; i < b->g->n_nodes; i++)
    for (uint32_t f = 0; f < N_FORMS; f++) {
      const bool is = !strcmp(forms[f].op, tni_graph_node(b->g, i)->type);
      c->drawn[f] += is;
      c->taken[f] += is && taken[i];
    }
}

static void count_all(tni_cf *cf, tni_cf_host *h, const draws *d, counts *c) {
  for (uint32_t k = 0; k < CASES; k++)
    for (uint32_t n = 0; n < n_begun(d, k) + n_drawn(d) && cf->verdict == TNI_CF_PASS; n++, c->graphs++) {
      tni_gen_recipe g;
      tni_cn_graph b;
      draw(cf, d, k, n, &g);
      if (tni_gen_build(&g, cf, &b))
        count_taken(cf, h, &g, &b, c);
      else
        tni_cf_fail(cf, "the kit's own graph: %s", b.err.message);
      tni_cn_destroy(&b);
    }
}

/* How often each operator of forms[] is drawn, and taken; nothing is run here. One that the device takes, and that no
 * graph has, or none in a form that it takes, is named. */
static void coverage_ask(tni_cf *cf, const void *arg) {
  char text[900] = "", never[200] = "", refused[300] = "";
  tni_cf_host h;
  counts c = {.graphs = 0};
  draws d;
  (void)arg;
  find_draws(cf->listing, &d);
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  count_all(cf, &h, &d, &c);
  tni_cf_host_close(cf, &h);
  for (uint32_t i = 0; i < d.n_taken; i++) {
    const uint32_t f = d.taken[i];
    bool again = false;
    for (uint32_t k = 0; k < i; k++) again = again || !strcmp(forms[d.taken[k]].op, forms[f].op);
    if (again) continue;
    char *to = c.taken[f] ? text : c.drawn[f] ? refused : never;
    const size_t room = c.taken[f] ? sizeof text : c.drawn[f] ? sizeof refused : sizeof never, at = strlen(to);
    snprintf(to + at, room - at, c.taken[f] ? "%s%s %u" : "%s%s", at ? ", " : "", forms[f].op, c.taken[f]);
  }
  tni_cf_note(cf, "in %u graphs it takes: %s", c.graphs, text[0] ? text : "nothing");
  if (never[0]) tni_cf_fail(cf, "the kit's own graphs never have %s, which it takes", never);
  if (refused[0])
    tni_cf_skip(cf,
                "these operators, which it takes in other graphs, stand in no random graph in a form that it takes: %s",
                refused);
}

/* What it takes of the table, and no graph can begin with. */
static void not_drawn_ask(tni_cf *cf, const tni_cf_listing *l) {
  char text[400] = "";
  for (uint32_t k = 0; k < l->n_claimed; k++) {
    bool known = l->claimed[k].verdict != TN_YES || (k && !strcmp(l->claimed[k].graph, l->claimed[k - 1].graph));
    for (uint32_t i = 0; i < N_FORMS && !known; i++) known = is_named(l->claimed[k].graph, i);
    /* Forms of products and chains that steps make in other ways. */
    known = known || !strncmp(l->claimed[k].graph, "matmul/", 7) || !strncmp(l->claimed[k].graph, "fused/", 6);
    const size_t at = strlen(text);
    if (!known) snprintf(text + at, sizeof text - at, "%s%s", at ? ", " : "", l->claimed[k].graph);
  }
  if (text[0]) tni_cf_note(cf, "never drawn, asked by other cases only: %s", text);
}

static void all_coverage_ask(tni_cf *cf, const void *arg) {
  coverage_ask(cf, arg);
  not_drawn_ask(cf, cf->listing);
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
                            .arg = (const void *)(uintptr_t)i,
                            .timeout_ms = 60000 + l->subject->seconds * 1000});
  }
  add(ctx, &(tni_cf_case){.name = "generated/coverage",
                          .levels = TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI,
                          .run = all_coverage_ask,
                          .timeout_ms = 60000});
}
