/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of products with constant weights: for every format that the plugin states (chosen by the option that
 * has it among its choices), and for products that it takes without one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/numbers/product.h"

typedef struct product_job {
  const char *format; /* NULL: whatever is claimed without one */
  const tni_cn_question *q;
} product_job;

typedef void (*ask_fn)(tni_cn_product *p, tni_cf_inst *i, tni_cn_buffers *b, tni_cn_tally *t);

/* fn of the product of shape M, N, K with memory for it; false where it is not taken. */
static bool with_any(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t, int64_t M, int64_t N,
                     int64_t K, ask_fn fn, bool near_too) {
  tni_cn_product p;
  tni_cf_inst i;
  tni_cn_buffers b;
  const tni_cn_want w = tni_cn_want_of(q, N, K);
  if (!(near_too ? tni_cn_try_near : tni_cn_try)(cf, h, &w, t, &p)) return false;
  M = tni_cn_product_rows(&p, M);
  if (tni_cn_instance(&p, &i, M)) {
    if (tni_cn_buffers_make(&b, &p, M)) fn(&p, &i, &b, t);
    tni_cn_buffers_free(&b);
    tni_cf_inst_finish(&i);
  }
  tni_cn_product_close(&p);
  return true;
}

static bool with_shape(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t, int64_t M, int64_t N,
                       int64_t K, ask_fn fn) {
  return with_any(cf, h, q, t, M, N, K, fn, false);
}

/* Every pattern of values at least once. */
static void fill_patterns(tni_cn_product *p, tni_cf_inst *i, tni_cn_buffers *b, tni_cn_tally *t) {
  const int64_t step = b->M > 0 ? b->M : TNI_CN_PATTERNS;
  bool ok = true;
  for (int64_t first = 0; ok && first < TNI_CN_PATTERNS; first += step) {
    char text[64];
    snprintf(text, sizeof text, "patterns from %s on", tni_cn_pattern((int)first));
    tni_cn_mixed(p, b, (int)first);
    ok = tni_cn_check(p, i, b, (uint32_t)(first % TNI_CF_SPLITS), text, t);
  }
}

static void ask_shape(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t, int64_t M, int64_t N,
                      int64_t K) {
  (void)with_shape(cf, h, q, t, M, N, K, fill_patterns);
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

static void ask_shapes(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t) {
  static const int64_t Ks[] = {1, 2, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 160, 255, 257, 511},
                       Ns[] = {1, 15, 16, 17, 31, 33, 48, 64, 65, 127, 130}, Ms[] = {13, 1, 5, 2, 16};
  const size_t step = tni_cn_few(cf, h) ? 3 : 1; /* where every shape may be a program to compile */
  for (size_t i = 0; i < sizeof Ks / sizeof *Ks; i += step) ask_shape(cf, h, q, t, Ms[i % 5], 33, Ks[i]);
  for (size_t i = 0; i < sizeof Ns / sizeof *Ns; i += step) ask_shape(cf, h, q, t, Ms[(i + 1) % 5], Ns[i], 129);
  for (size_t i = 1; i < sizeof Ks / sizeof *Ks; i += 3) ask_shape(cf, h, q, t, 1, 48, Ks[i]);
  for (size_t i = 0; i < sizeof Ns / sizeof *Ns; i += 3) ask_shape(cf, h, q, t, 1, Ns[i], 96);
  static const int64_t squares[] = {33, 64, 128}; /* an exchange of axes shows in nothing but the numbers */
  for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) ask_shape(cf, h, q, t, 5, squares[i], squares[i]);
  tni_cf_rng r = tni_cf_rng_of(cf, 31);
  for (int i = 0; cf->subject->thorough && i < 200; i++)
    ask_shape(cf, h, q, t, 1 + (int64_t)(tni_cf_rng_next(&r) % 257), 1 + (int64_t)(tni_cf_rng_next(&r) % 257),
              1 + (int64_t)(tni_cf_rng_next(&r) % 600));
}

/* A few shapes, for what differs from a plain product only after the sum. */
static void ask_some(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t) {
  static const int64_t shapes[][3] = {{13, 33, 129}, {1, 48, 64},   {97, 48, 128}, {1, 33, 257},
                                      {5, 64, 96},   {2, 130, 128}, {16, 17, 33},  {70, 64, 64}};
  for (size_t i = 0; i < (tni_cn_few(cf, h) ? 3 : sizeof shapes / sizeof *shapes); i++)
    (void)with_any(cf, h, q, t, shapes[i][0], shapes[i][1], shapes[i][2], fill_patterns, true);
}

static void normal_values(tni_cn_product *p, tni_cf_inst *i, tni_cn_buffers *b, tni_cn_tally *t) {
  tni_cn_product_values(p, b->M, TNI_CN_NORMAL, 7, b->x, b->full);
  (void)tni_cn_check(p, i, b, TNI_CF_EVEN, "normal", t);
}

/* Each operator that a chain may have, alone after a product. */
static void ask_chains(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t) {
  for (uint32_t i = 0; i < tni_cn_n_links; i++) {
    const tni_cn_question one = {.name = q->name, .kind = q->kind, .dtype = q->dtype, .link = i};
    (void)with_any(cf, h, &one, t, 13, 33, 64, normal_values, true);
  }
}

static void ask_long(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t) {
  (void)with_any(cf, h, q, t, 1, 17, 4099, fill_patterns, true);
  (void)with_any(cf, h, q, t, 3, 33, 4099, fill_patterns, true);
  ask_shape(cf, h, q, t, 1, 48, 11008);
  ask_shape(cf, h, q, t, 1, 3, 66001); /* more than 16 bits count */
}

/* Every number of rows around the tiles that kernels have, none included: one program, a plan for each. */
static void ask_rows(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t) {
  static const int64_t Ms[] = {1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 31, 33, 64, 65, 97};
  tni_cn_product p;
  const tni_cn_want w = tni_cn_want_of(q, 40, 130);
  if (!tni_cn_try_near(cf, h, &w, t, &p)) return;
  const size_t n = p.d.chunk ? p.d.lengths.n : sizeof Ms / sizeof *Ms;
  for (size_t k = 0; k < n; k += tni_cn_few(cf, h) && k > 2 ? 3 : 1) {
    const int64_t M = p.d.chunk ? p.d.lengths.v[k] : Ms[k];
    tni_cf_inst i;
    tni_cn_buffers b;
    if (!tni_cn_instance(&p, &i, M)) continue;
    if (tni_cn_buffers_make(&b, &p, M)) {
      tni_cn_product_values(&p, M, TNI_CN_NORMAL, 5, b.x, b.full);
      tni_cn_check(&p, &i, &b, TNI_CF_EVEN, "normal", t);
    }
    tni_cn_buffers_free(&b);
    tni_cf_inst_finish(&i);
  }
  tni_cn_product_close(&p);
}

/* --- one-hot ------------------------------------------------------------------------------------------------------ */

static void ask_hot(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t, int64_t M, int64_t N,
                    int64_t K) {
  (void)with_shape(cf, h, q, t, M, N, K, tni_cn_read_back);
}

static void ask_one_hot(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t) {
  ask_hot(cf, h, q, t, 1, 33, 129);
  ask_hot(cf, h, q, t, 129, 33, 129);
  ask_hot(cf, h, q, t, 1, 48, 320);
  ask_hot(cf, h, q, t, 64, 130, 256);
  ask_hot(cf, h, q, t, 7, 17, 63);
  if (cf->subject->thorough) ask_hot(cf, h, q, t, 96, 257, 4099);
}

/* --- NaN, infinities ---------------------------------------------------------------------------------------------- */

static void nan_rows(tni_cn_product *p, tni_cf_inst *i, tni_cn_buffers *b, tni_cn_tally *t) {
  const int64_t K = p->want.K, N = b->n / b->M;
  const tn_numerics num = tni_cn_product_numerics(p);
  const bool known = num.nan == TN_NAN_PROPAGATE && num.act_scheme != TN_ACT_STATIC;
  const bool lone = b->M == 1;
  static const float odd[] = {NAN, INFINITY, -INFINITY};
  for (int k = 0; k < 3; k++) {
    tni_cn_product_values(p, b->M, TNI_CN_NORMAL, 3, b->x, b->full);
    if (!tni_cn_product_reference(p, b->M, b->x, b->full, b->want, b->bound)) return;
    const int64_t at = lone ? 0 : 1;
    b->x[at * K + (K - 1) * k / 2] = odd[k];
    if (!tni_cn_product_run(p, i, b->M, b->x, b->full, 0, TNI_CF_INLINE, b->y)) return;
    t->runs++;
    int64_t finite = 0;
    for (int64_t n = 0; n < N; n++) finite += isfinite(b->y[at * N + n]) || (k == 0 && !isnan(b->y[at * N + n]));
    if (known && finite)
      tni_cf_fail(p->cf, "%s: %lld of %lld results of a row with %s are numbers, yet NaN is declared to propagate",
                  tni_cn_product_where(p, b->M, ""), (long long)finite, (long long)N, k ? "an infinity" : "a NaN");
    for (int64_t n = 0; n < N; n++) b->bound[at * N + n] = INFINITY;
    for (int64_t n = 0; n < N; n++) b->y[at * N + n] = b->want[at * N + n];
    const tni_cn_found f = tni_cn_compare(b->y, b->want, b->bound, b->n);
    if (f.bad) tni_cn_complain(p->cf, tni_cn_product_where(p, b->M, "rows beside one with a NaN"), &f, b->n);
  }
}

static void ask_nan(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t) {
  for (int64_t M = 1; M < 10; M += 4)
    if (!with_any(cf, h, q, t, M, 33, 129, nan_rows, true)) return;
}

/* --- cases ----------------------------------------------------------------------------------------------------------
 */

enum { NO_FLOAT = 1 };

static const tni_cn_question product_questions[] = {{"matmul/shapes", ask_shapes, TNI_CN_MATMUL, 0, 0, 0},
                                                    {"matmul/rows", ask_rows, TNI_CN_MATMUL, 0, 0, 0},
                                                    {"matmul/long-k", ask_long, TNI_CN_MATMUL, 0, 0, 0},
                                                    {"matmul/one-hot", ask_one_hot, TNI_CN_MATMUL, 0, 0, 0},
                                                    {"matmul/nan", ask_nan, TNI_CN_MATMUL, 0, 0, 0},
                                                    {"matmul/repeat", tni_cn_ask_repeat, TNI_CN_MATMUL, 0, 0, 0},
                                                    {"matmul/together", tni_cn_ask_together, TNI_CN_MATMUL, 0, 0, 0},
                                                    {"matmul/flips", tni_cn_ask_flips, TNI_CN_MATMUL, 0, NO_FLOAT, 0},
                                                    {"matmul/float16", ask_some, TNI_CN_MATMUL, TN_DT_F16, 0, 0},
                                                    {"gemm/shapes", ask_some, TNI_CN_GEMM, 0, 0, 0},
                                                    {"gemm/kn", ask_some, TNI_CN_GEMM_KN, 0, 0, 0},
                                                    {"fused/bias-swish", ask_some, TNI_CN_FUSED_BIAS, 0, 0, 0},
                                                    {"fused/gate-up", ask_some, TNI_CN_FUSED_GATE, 0, 0, 0},
                                                    {"fused/qkv", ask_some, TNI_CN_FUSED_QKV, 0, 0, 0},
                                                    {"fused/residual", ask_some, TNI_CN_FUSED_RESIDUAL, 0, 0, 0},
                                                    {"fused/chains", ask_chains, TNI_CN_FUSED_CHAIN, 0, 0, 0},
                                                    {"fused/repeat", tni_cn_ask_repeat, TNI_CN_FUSED_GATE, 0, 0, 0},
                                                    {"siblings/qkv", ask_some, TNI_CN_QKV, 0, 0, 0},
                                                    {"siblings/gate-up", ask_some, TNI_CN_GATE_UP, 0, 0, 0},
                                                    {"siblings/repeat", tni_cn_ask_repeat, TNI_CN_QKV, 0, 0, 0},
                                                    {"siblings/together", tni_cn_ask_together, TNI_CN_QKV, 0, 0, 0}};

/* Whether the products that were asked for used this format: other tests of it would be of another. */
static bool uses_format(tni_cf_host *h, tni_cf *cf, const char *format) {
  tni_cn_product p;
  const tni_cn_want w = {.kind = TNI_CN_MATMUL, .N = 64, .K = 256, .dtype = TN_DT_F32, .flip = UINT64_MAX};
  const int st = tni_cn_product_open(cf, h, &w, &p);
  const tni_claim *c = st == TNI_CN_TAKEN ? tni_partition_claim(&p.d.part, &p.d.claims, 0) : NULL;
  const char *name = c && c->format ? c->format->name : NULL;
  const bool same = st == TNI_CN_TAKEN && (format ? name && !strcmp(name, format) : !name);
  tni_cn_product_close(&p);
  return same;
}

static void one_variant(tni_cf *cf, const product_job *j, const tni_cf_ask *ask, tni_cn_tally *t, int *used) {
  tni_cf_host h;
  if (!tni_cf_host_open(cf, &h, ask)) return;
  if (uses_format(&h, cf, j->format)) {
    ++*used;
    j->q->ask(cf, &h, j->q, t);
  }
  tni_cf_host_close(cf, &h);
}

/* Choices of the option `group`, where the format takes its group from params; n 0: there are none. */
static uint32_t format_groups(tni_cf *cf, const char *format, const char **out, uint32_t cap) {
  tni_cf_plugin p;
  uint32_t n = 0;
  bool by_params = false;
  if (!format || tni_cf_option(cf->subject, "group")) return 0;
  tn_status st = tni_cf_plugin_init(&p, cf->subject);
  if (st == TN_OK) st = tni_cf_plugin_enter(&p);
  for (uint32_t i = 0; st == TN_OK && i < p.plugin->n_formats; i++)
    by_params = by_params || (!strcmp(p.plugin->formats[i]->name, format) && !p.plugin->formats[i]->group);
  for (uint32_t i = 0; st == TN_OK && by_params && i < p.plugin->n_options; i++) {
    const tn_option *o = p.plugin->options[i];
    if (strcmp(o->key, "group") != 0 || !o->choices) continue;
    for (const char *at = o->choices; *at && n < cap;) {
      const size_t len = strcspn(at, "|");
      char text[48];
      snprintf(text, sizeof text, "group=%.*s", (int)len, at);
      out[n++] = tni_arena_strdup(cf->arena, text);
      at += len + (at[len] == '|');
    }
  }
  tni_cf_plugin_finish(&p);
  return n;
}

static void products_ask(tni_cf *cf, const void *arg) {
  const product_job *j = arg;
  const char *group[4];
  tni_cn_tally t = {0};
  int used = 0;
  const uint32_t n = format_groups(cf, j->format, group, 4);
  for (uint32_t i = 0; i < (n ? n : 1); i++) {
    const tni_cf_ask ask = {.format = j->format, .option = n ? group[i] : NULL};
    one_variant(cf, j, &ask, &t, &used);
    if (cf->verdict == TNI_CF_SKIP) return;
  }
  if (!used)
    tni_cf_skip(cf, j->format ? "no option makes it use this format for a product" : "it packs all products");
  else if (!t.products)
    tni_cf_skip(cf, "not claimed: %s", t.reason);
  else
    tni_cf_note(cf, "%lld products, %lld runs, %lld elements, largest error %.3g of its bound; %lld refused%s%s",
                (long long)t.products, (long long)t.runs, (long long)t.elements, t.worst, (long long)t.refused,
                t.refused ? ", last: " : "", t.reason);
}

static void add_all(const tni_cf_listing *l, const char *format, tni_cf_add add, void *ctx) {
  char name[128];
  for (size_t i = 0; i < sizeof product_questions / sizeof *product_questions; i++) {
    if (!format && product_questions[i].flags & NO_FLOAT) continue;
    product_job *j = TNI_NEW(l->arena, product_job);
    if (!j) return;
    *j = (product_job){format, &product_questions[i]};
    snprintf(name, sizeof name, "numbers/%s/%s", format ? format : "plain", product_questions[i].name);
    add(ctx, &(tni_cf_case){.name = name,
                            .levels = TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI,
                            .run = products_ask,
                            .arg = j,
                            .timeout_ms = 60000});
  }
}

/* Whether some product with a constant weight was claimed without a format, as far as the listing says. */
static bool plain_products(const tni_cf_listing *l) {
  bool known = false;
  for (uint32_t i = 0; i < l->n_claimed; i++) {
    const tni_cf_claimed *c = &l->claimed[i];
    const bool product = !strncmp(c->graph, "matmul/", 7) && strcmp(c->graph, "matmul/activations") != 0;
    if (product && c->verdict == TN_YES && !c->format) return true;
    known = known || product;
  }
  return !known;
}

void tni_cn_product_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  for (uint32_t i = 0; i < l->n_formats; i++) add_all(l, l->formats[i].name, add, ctx);
  if (plain_products(l)) add_all(l, NULL, add, ctx);
}
