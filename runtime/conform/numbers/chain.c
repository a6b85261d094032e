/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused chains at the ends of their domain: large sums stay numbers, and NaN stays NaN where the format says that it
 * does.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/conform/numbers/num.h"

enum { ROWS = 5, K = 64, N = 33, ONE_NAN = 3 };
static const float LARGE = 1e4f;

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

static bool chain_make(tni_cn_graph *b, const chain_link *l) {
  const int64_t dims[2] = {N, K}, row = N, second = l->extra ? 1 : -1;
  int64_t parts[3] = {0, 0, N}, results[1] = {l->extra ? 2 : 1}, ops[3] = {l->op, 0, second};
  float w[N * K], two[N], floats[1] = {l->value};
  for (int i = 0; i < N * K; i++) w[i] = (float)((i * 37 + i / K * 11) % 31 - 14) / 16;
  for (int i = 0; i < N; i++) two[i] = 2;
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

static bool nan_stays(const tni_cf_rig *rig) {
  const tni_claim *c = tni_partition_claim(&rig->d.part, &rig->d.claims, 0);
  const tn_format *f = c ? c->format : NULL;
  const tn_numerics *n = !f ? NULL : f->numerics_of ? f->numerics_of(f, c->params, c->n_params) : f->numerics;
  return n && n->nan == TN_NAN_PROPAGATE && n->act_scheme != TN_ACT_STATIC;
}

/* Row 0 and the last are common numbers, 1 and 2 are large, ONE_NAN has one NaN. */
static void chain_ask(tni_cf *cf, tni_cf_rig *rig, const chain_link *l) {
  float *x = rig->in[0].data;
  for (int m = 0; m < ROWS; m++)
    for (int k = 0; k < K; k++) {
      const float common = (float)((m * 13 + k * 29) % 23 - 11) / 8;
      x[m * K + k] = m == ONE_NAN && k == K / 2 ? NAN : m == 1 ? common * LARGE : m == 2 ? common * -LARGE : common;
    }
  if (!tni_cf_inst_write(&rig->i, rig->b.in[0], x, rig->in[0].bytes) || !tni_cf_rig_run(rig, 0x5b, TNI_CF_EVEN)) {
    tni_cf_fail(cf, "a product with %s: %s%s", l->name, rig->why, rig->i.why);
    return;
  }
  const float *y = rig->out[0].data;
  const bool stays = nan_stays(rig);
  int lost = 0, found = 0;
  for (int m = 0; m < ROWS; m++)
    for (int n = 0; n < N; n++) {
      lost += m == ONE_NAN && stays && !isnan(y[m * N + n]);
      found += m != ONE_NAN && !isfinite(y[m * N + n]);
    }
  if (lost)
    tni_cf_fail(
        cf,
        "a product followed by %s: %d of %d results of a row with a NaN are numbers, yet NaN is declared to propagate",
        l->name, lost, N);
  if (found)
    tni_cf_fail(cf, "a product followed by %s: %d results of rows of up to %g are no numbers", l->name, found,
                (double)LARGE);
}

static void ask_chains(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  uint32_t taken = 0;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
    tni_cf_rig rig;
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    memset(&rig, 0, sizeof rig);
    if (!chain_make(&rig.b, &links[i])) {
      tni_cf_fail(cf, "the kit's own graph: %s", rig.b.err.message);
    } else if (tni_cf_rig_claim_made(&rig, &h, TN_PHASE_PREFILL) && !rig.d.chunk) {
      taken++;
      if (tni_cf_rig_prepare(&rig, ROWS, &r))
        chain_ask(cf, &rig, &links[i]);
      else
        tni_cf_fail(cf, "a product with %s: %s", links[i].name, rig.why);
    }
    tni_cf_rig_finish(&rig);
  }
  if (!taken && cf->verdict == TNI_CF_PASS)
    tni_cf_skip(cf, "it takes none of %zu chains for any number of rows", sizeof links / sizeof *links);
  if (taken) tni_cf_note(cf, "%u chains", taken);
  tni_cf_host_close(cf, &h);
}

void tni_cn_chain_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"numbers/chains/ends", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_chains, NULL, 60000});
}
