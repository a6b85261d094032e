/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused chains at the ends of their domain: large sums stay numbers, and NaN stays NaN where the format says that it
 * does.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/conform/numbers/num.h"

enum { ROWS = 5, K = 64, N = 33, EVEN = 64, ONE_NAN = 3 };
static const double LARGE = 1e4;

typedef struct chain_link {
  int64_t op;
  float value;
  const char *name;
  bool extra; /* its second operand is a row of 2 */
} chain_link;
static const chain_link links[] = {{TN_OP_RELU, 0, "RELU", false},
                                   {TN_OP_SIGMOID, 0, "SIGMOID", false},
                                   {TN_OP_TANH, 0, "TANH", false},
                                   {TN_OP_GELU, 0, "GELU, with erf", false},
                                   {TN_OP_GELU, 1, "GELU, with tanh", false},
                                   {TN_OP_SWISH, 1, "SWISH", false},
                                   {TN_OP_SWISH, 1.702f, "SWISH, alpha 1.702", false},
                                   {TN_OP_NEG, 0, "NEG", false},
                                   {TN_OP_ADD, 0, "ADD", true},
                                   {TN_OP_SUB, 0, "SUB", true},
                                   {TN_OP_MUL, 0, "MUL", true},
                                   {TN_OP_DIV, 0, "DIV", true}};

static bool chain_make(tni_cn_graph *b, const chain_link *l, int columns) {
  const int64_t dims[2] = {columns, K}, row = columns, second = l->extra ? 1 : -1;
  int64_t parts[3] = {0, 0, columns}, results[1] = {l->extra ? 2 : 1}, ops[3] = {l->op, 0, second};
  float w[EVEN * K], two[EVEN], floats[1] = {l->value};
  for (int i = 0; i < columns * K; i++) w[i] = (float)((i * 37 + i / K * 11) % 31 - 14) / 16;
  for (int i = 0; i < columns; i++) two[i] = 2;
  const tni_raw_attr a[] = {
      {.name = "ops", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 3, .u.ints = ops}},
      {.name = "floats", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_FLOATS, .n = 1, .u.floats = floats}},
      {.name = "results", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 1, .u.ints = results}},
      {.name = "n_weights", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = 1}},
      {.name = "trans_b", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = 1}},
      {.name = "parts", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 3, .u.ints = parts}}};
  if (!tni_cn_begin(b, TN_DT_F32)) return false;
  const tn_id x = tni_cn_value(b, "x", TN_VALUE_INPUT, TN_DT_F32, "S,64"),
              y = tni_cn_value(b, "y", TN_VALUE_ACT, TN_DT_F32, "?");
  const tn_id in[3] = {x, tni_cn_constant(b, "w", TN_DT_F32, 2, dims, w),
                       tni_cn_constant(b, "two", TN_DT_F32, 1, &row, two)};
  b->operand[0] = (tni_cn_operand){.kind = 'x', .value = x};
  b->in[b->n_in++] = x;
  b->out[b->n_out++] = y;
  return tni_cn_node(b, "tenon", "FusedMatMul", 1, in, l->extra ? 3 : 2, &y, 1, a, 6) && tni_cn_end(b) &&
         tni_cf_graph_stats(b);
}

/* Of the format that its claim names, or NULL. */
static const tn_numerics *numerics_of(const tni_cf_rig *rig) {
  const tni_claim *c = tni_partition_claim(&rig->d.part, &rig->d.claims, 0);
  const tn_format *f = c ? c->format : NULL;
  return !f ? NULL : f->numerics_of ? f->numerics_of(f, c->params, c->n_params) : f->numerics;
}

static bool nan_stays(const tn_numerics *n) {
  return n && n->nan == TN_NAN_PROPAGATE && n->act_scheme != TN_ACT_STATIC;
}

/* What common numbers, of less than 2, are multiplied by in large rows, which stay inside the declared domain. */
static float large_of(const tn_numerics *n) {
  return (float)(n && n->finite_max > 0 ? fmin(LARGE, n->finite_max / 2) : LARGE);
}

/* Of each ROWS rows the first and the last are common numbers, 1 and 2 are large, ONE_NAN has one NaN. Row 0 is number
 * `first` of them. */
static void chain_ask(tni_cf *cf, tni_cf_rig *rig, const chain_link *l, int first) {
  float *x = rig->in[0].data;
  const int rows = (int)rig->sym[0];
  const tn_numerics *num = numerics_of(rig);
  const float large = large_of(num);
  for (int m = 0; m < rows; m++)
    for (int k = 0; k < K; k++) {
      const int kind = (m + first) % ROWS;
      const float common = (float)((m * 13 + k * 29) % 23 - 11) / 8;
      x[m * K + k] = kind == ONE_NAN && k == K / 2 ? NAN
                     : kind == 1                   ? common * large
                     : kind == 2                   ? common * -large
                                                   : common;
    }
  if (!tni_cf_inst_write(&rig->i, rig->b.in[0], x, rig->in[0].bytes) || !tni_cf_rig_run(rig, 0x5b, TNI_CF_EVEN)) {
    tni_cf_fail(cf, "a product with %s: %s%s", l->name, rig->why, rig->i.why);
    return;
  }
  const float *y = rig->out[0].data;
  const bool stays = nan_stays(num);
  int lost = 0, found = 0;
  const int n_columns = (int)(tni_cn_count(&rig->out[0]) / rows);
  for (int m = 0; m < rows; m++)
    for (int n = 0; n < n_columns; n++) {
      const bool nan = (m + first) % ROWS == ONE_NAN;
      lost += nan && stays && !isnan(y[m * n_columns + n]);
      found += !nan && !isfinite(y[m * n_columns + n]);
    }
  if (lost)
    tni_cf_fail(
        cf, "a product followed by %s: %d results of a row with a NaN are numbers, yet NaN is declared to propagate",
        l->name, lost);
  if (found)
    tni_cf_fail(cf, "a product followed by %s: %d results of rows of up to %g are no numbers", l->name, found,
                (double)large);
}

/* One link after a product of so many columns, in a phase; false: not taken. As many runs as all kinds of rows take. */
static bool link_ask(tni_cf *cf, tni_cf_host *h, const chain_link *l, int columns, uint32_t phase) {
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  memset(&rig, 0, sizeof rig);
  const bool made = chain_make(&rig.b, l, columns), taken = made && tni_cf_rig_claim_made(&rig, h, phase);
  if (!made) tni_cf_fail(cf, "the kit's own graph: %s", rig.b.err.message);
  if (taken && tni_cf_rig_prepare(&rig, ROWS, &r))
    for (int64_t first = 0; first < ROWS && cf->verdict == TNI_CF_PASS; first += rig.sym[0])
      chain_ask(cf, &rig, l, (int)first);
  else if (taken)
    tni_cf_fail(cf, "a product with %s: %s", l->name, rig.why);
  tni_cf_rig_finish(&rig);
  return taken;
}

/* Many devices take no odd widths, and some work in one phase. */
static void ask_chains(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  uint32_t taken = 0;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  for (size_t i = 0; i < sizeof links / sizeof *links; i++)
    taken += link_ask(cf, &h, &links[i], N, TN_PHASE_PREFILL) || link_ask(cf, &h, &links[i], EVEN, TN_PHASE_PREFILL) ||
             link_ask(cf, &h, &links[i], EVEN, TN_PHASE_DECODE);
  if (!taken && cf->verdict == TNI_CF_PASS)
    tni_cf_skip(cf, "it takes none of %zu chains", sizeof links / sizeof *links);
  if (taken) tni_cf_note(cf, "%u chains", taken);
  tni_cf_host_close(cf, &h);
}

void tni_cn_chain_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"numbers/chains/ends", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_chains, NULL, 60000});
}
