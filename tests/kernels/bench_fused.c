/* SPDX-License-Identifier: Apache-2.0
 *
 * --bench PLUGIN.so: gate/up with silu and o with the residual, fused, beside the plugin's product of the same joined
 * weights followed by its own element-wise kernels over whole matrices, as separate nodes would run them. One thread,
 * medians of 9. A fork costs nothing here; separate nodes also pay at least one for each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/bench.h"
#include "tests/kernels/fakehost.h"

enum { REPEATS = 9 };

typedef struct shape {
  const char *name;
  int64_t M, K, N;
  bool gated;
} shape;

/* A task ready to run, with its memory. */
typedef struct ready {
  fake f;
  fake_graph g;
  fused_spec s;
  walked w;
  tn_plan *plan;
  tn_args *args;
  void *memory[MAX_VALUES];
  float *y, *other;
} ready;

static void *room(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (!p) abort();
  memset(p, 0, bytes);
  return p;
}

/* q and k are the products; y the result; r the residual. chain: the fused form. */
static void build(ready *r, const shape *s, bool chain) {
  fake_graph *g = &r->g;
  const int64_t S[1] = {s->M};
  graph_init(g);
  tn_expr S_ = sym(g, "S", 1, 4096), N = ex(g, s->N);
  tn_id x = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){S_, ex(g, s->K)}), w = constant(g, 2, (int64_t[]){s->N, s->K});
  r->s = (fused_spec){.n_in = 2, .in = {x, w}, .n_weights = 1, .n_parts = 1, .parts = {0, 0, s->N}, .trans_b = 1};
  if (s->gated) {
    r->s.in[r->s.n_in++] = constant(g, 2, (int64_t[]){s->N, s->K});
    r->s.n_weights = r->s.n_parts = 2;
    memcpy(r->s.parts + 3, (int64_t[]){1, 0, s->N}, 3 * sizeof(int64_t));
  } else if (chain) {
    r->s.in[r->s.n_in++] = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){S_, N});
  }
  r->s.n_out = chain ? 1 : r->s.n_parts;
  for (uint32_t i = 0; i < r->s.n_out; i++) {
    r->s.out[i] = value(g, TN_VALUE_OUTPUT, 2, (tn_expr[]){S_, N});
    r->s.results[i] = chain ? s->gated ? 3 : 2 : (int64_t)i;
  }
  if (chain) {
    static const int64_t gated[] = {TN_OP_SWISH, 0, -1, TN_OP_MUL, 2, 1}, sum[] = {TN_OP_ADD, 0, 1};
    r->s.n_ops = s->gated ? 2 : 1;
    memcpy(r->s.ops, s->gated ? gated : sum, r->s.n_ops * 3 * sizeof(int64_t));
    r->s.floats[0] = 1;
  }
  fused_node(g, &r->s);
  graph_finish(g);
  for (tn_id v = 0; v < g->pub.n_values; v++) {
    rng seed = rng_of(v);
    int64_t n = fake_count(g, v, S);
    if (g->values[v].kind == TN_VALUE_CONST) continue;
    r->memory[v] = room((size_t)n * sizeof(float));
    fill(r->memory[v], (size_t)n, V_NORMAL, 1, &seed);
  }
}

static bool attach(ready *r, const shape *s) {
  const int64_t S[1] = {s->M};
  tn_dims dims;
  tn_view views[MAX_VALUES];
  const tn_view *ptrs[MAX_VALUES];
  tn_measure m = {.h = TN_HDR(tn_measure)};
  fake_dims(&dims, &r->g, S);
  r->w = fake_prepare(&r->f, &r->g, &dims);
  if (r->w.st != TN_OK || r->f.device->measure(r->w.program, 0, &dims, &m) != TN_OK) return false;
  const tn_task *t = r->w.info->tasks[0];
  for (uint32_t i = 0; i <= t->n_uses; i++) {
    views[i] = (tn_view){.h = TN_HDR(tn_view)};
    ptrs[i] = &views[i];
    const tn_slot *slot = i < t->n_uses ? r->w.info->slots[t->uses[i].slot] : NULL;
    if (slot && slot->kind == TN_SLOT_WEIGHT) continue;
    views[i].ptr = slot ? r->memory[slot->value] : (r->memory[MAX_VALUES - 1] = room(m.scratch_bytes));
    views[i].bytes = slot ? (uint64_t)fake_count(&r->g, slot->value, S) * sizeof(float) : m.scratch_bytes;
  }
  if (r->f.device->bind(r->w.program, 0, &dims, &r->plan, &r->f.err) != TN_OK) return false;
  r->y = r->memory[r->s.out[0]];
  r->other = r->s.n_out > 1 ? r->memory[r->s.out[1]] : NULL;
  return r->f.device->args(r->plan, ptrs, t->n_uses + 1, &r->args, &r->f.err) == TN_OK;
}

static void finish(ready *r) {
  if (r->f.device) {
    r->f.device->args_free(r->args);
    r->f.device->unbind(r->plan);
    walked_free(&r->f, &r->w);
  }
  for (uint32_t i = 0; i < MAX_VALUES; i++) free(r->memory[i]);
  graph_free(&r->g);
  fake_close(&r->f);
  free(r);
}

static ready *ready_of(const char *so, const shape *s, bool chain) {
  ready *r = calloc(1, sizeof *r);
  if (!r) abort();
  r->f = (fake){.group = 32, .min_k = 32, .min_n = 16, .act_matmul = 1, .isa = "auto"};
  build(r, s, chain);
  if (fake_open(&r->f, so) && attach(r, s)) return r;
  printf("%s: %s\n", s->name, r->f.err.message);
  finish(r);
  return NULL;
}

static int less(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static bool bench_one(const char *so, const shape *s) {
  ready *fused = ready_of(so, s, true), *plain = ready_of(so, s, false);
  const tni_cm_chain_kernels *k =
      ((tni_clt_chain_fn)tni_clt_select(&KERNELS, TNI_CLT_CHAIN, TNI_CLT_ANY, 0, tni_cm_cpu_features(), 1)->fn)();
  const size_t n = (size_t)(s->M * s->N) / 16 * 16;
  double t[2][REPEATS];
  float *residual = room(n * sizeof(float));
  bool ok = fused && plain;
  for (int i = 0; ok && i < REPEATS; i++) {
    tn_run run = fake_run(&fused->f);
    double start = bench_now();
    ok = fused->f.device->run(fused->plan, fused->args, &run, &fused->f.err) == TN_OK;
    t[0][i] = bench_now() - start;
    run = fake_run(&plain->f);
    start = bench_now();
    ok = ok && plain->f.device->run(plain->plan, plain->args, &run, &plain->f.err) == TN_OK;
    if (s->gated) {
      k->swish(plain->y, plain->y, 1, n);
      k->mul(plain->y, plain->y, plain->other, n);
    } else {
      k->add(plain->y, plain->y, residual, n);
    }
    t[1][i] = bench_now() - start;
  }
  for (int i = 0; ok && i < 2; i++) qsort(t[i], REPEATS, sizeof t[i][0], less);
  if (ok)
    printf("%-18s M %4lld N %5lld K %5lld  fused %10.1f us  product, then chain %10.1f us  %+5.1f %%\n", s->name,
           (long long)s->M, (long long)s->N, (long long)s->K, t[0][REPEATS / 2] * 1e6, t[1][REPEATS / 2] * 1e6,
           100 * (t[0][REPEATS / 2] / t[1][REPEATS / 2] - 1));
  if (fused) finish(fused);
  if (plain) finish(plain);
  free(residual);
  return ok;
}

int run_fused_bench(const char *so_path) {
  static const shape shapes[] = {{"gate/up, silu", 1, 2048, 5632, true}, {"gate/up, silu", 128, 2048, 1408, true},
                                 {"gate/up, silu", 1, 128, 352, true},   {"gate/up, odd N", 128, 2048, 1403, true},
                                 {"o + residual", 1, 2048, 2048, false}, {"o + residual", 128, 2048, 2048, false}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    if (!bench_one(so_path, &shapes[i])) return 1;
  return 0;
}
