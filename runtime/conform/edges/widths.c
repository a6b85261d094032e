/* SPDX-License-Identifier: Apache-2.0
 *
 * Many columns, and many symbols.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/conform/edges/parts.h"

/* --- columns -------------------------------------------------------------------------------------------------------
 */

enum { WIDEST = 70001, NARROW = 8 };

/* Two products, from NARROW to WIDEST columns and back: the last NARROW of them carry the operand, so the result is it.
 */
static bool widths_make(tni_cn_graph *b) {
  const int64_t up[2] = {NARROW, WIDEST}, down[2] = {WIDEST, NARROW};
  float *w = calloc((size_t)WIDEST * NARROW, sizeof *w), *v = calloc((size_t)WIDEST * NARROW, sizeof *v);
  bool ok = w && v && tni_cn_begin(b, TN_DT_F32);
  for (int k = 0; ok && k < NARROW; k++)
    w[(size_t)k * WIDEST + WIDEST - NARROW + (size_t)k] = v[(size_t)(WIDEST - NARROW + k) * NARROW + (size_t)k] = 1;
  if (ok) {
    const tn_id x = tni_cn_value(b, "x", TN_VALUE_INPUT, TN_DT_F32, "S,8"),
                one = tni_cn_constant(b, "up", TN_DT_F32, 2, up, w),
                two = tni_cn_constant(b, "down", TN_DT_F32, 2, down, v),
                y = tni_cn_value(b, "y", TN_VALUE_ACT, TN_DT_F32, "?"),
                z = tni_cn_value(b, "z", TN_VALUE_ACT, TN_DT_F32, "?"), in[2][2] = {{x, one}, {y, two}};
    b->operand[0] = (tni_cn_operand){.kind = 'x', .value = x};
    b->in[b->n_in++] = x;
    ok = tni_cn_node(b, "", "MatMul", 13, in[0], 2, &y, 1, NULL, 0) &&
         tni_cn_node(b, "", "MatMul", 13, in[1], 2, &z, 1, NULL, 0);
    b->out[b->n_out++] = z;
  }
  free(w);
  free(v);
  return ok && tni_cn_end(b) && tni_cf_graph_stats(b);
}

static void widths_run(tni_cf *cf, tni_cf_rig *rig) {
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  if (!tni_cf_rig_prepare(rig, 3, &r) || !tni_cf_rig_run(rig, 0x5b, TNI_CF_EVEN)) {
    tni_cf_fail(cf, "products with %d columns between them: %s", WIDEST, rig->why);
    return;
  }
  const float *x = rig->in[0].data, *z = rig->out[0].data;
  const double top = tni_cn_greatest(x, 3 * NARROW);
  for (int i = 0; i < 3 * NARROW; i++) {
    if (fabs((double)x[i] - (double)z[i]) <= 0.35 * top) continue; /* formats of a few bits */
    tni_cf_fail(cf, "products with %d columns between them: %g comes out where %g goes in: widths have 64 bits", WIDEST,
                (double)z[i], (double)x[i]);
    return;
  }
  uint64_t *bytes = TNI_NEW_ARRAY(cf->arena, uint64_t, rig->d.info->n_slots + 1);
  for (tn_id t = 0; bytes && t < rig->d.info->n_tasks; t++) (void)tni_cf_edge_measure_at(cf, rig, t, 33, bytes);
}

/* What `measure` says of one product with N columns; false: not to be had. */
static bool width_measure(tni_cf *cf, tni_cf_host *h, int64_t N, tni_cf_measured *out) {
  tni_cf_rig rig;
  const uint64_t bytes = (uint64_t)N * TNI_CF_EDGE_DEPTH * sizeof(float);
  float *w = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  memset(&rig, 0, sizeof rig);
  if (w == MAP_FAILED) return false;
  rig.d.is_sparse = true;
  bool ok = tni_cf_edge_columns_make(&rig.b, w, N);
  if (!ok) tni_cf_fail(cf, "the kit's own graph: %s", rig.b.err.message);
  ok = ok && tni_cf_rig_claim_made(&rig, h, TN_PHASE_PREFILL) && !rig.d.chunk && tni_cf_drive_lower(&rig.d);
  uint64_t *slots = ok ? TNI_NEW_ARRAY(cf->arena, uint64_t, rig.d.info->n_slots + 1) : NULL;
  if (slots) *out = tni_cf_edge_measure_at(cf, &rig, 0, 3, slots);
  ok = slots && out->ok && rig.d.info->n_tasks == 1;
  tni_cf_rig_finish(&rig);
  (void)munmap(w, bytes);
  return ok;
}

/* Scratch that grows with the columns grows on in 64 bits. */
static void measure_widths(tni_cf *cf, tni_cf_host *h) {
  enum { STEP = 1 << 16 };
  tni_cf_measured near[3], far;
  for (int i = 0; i < 3; i++)
    if (!width_measure(cf, h, (int64_t)(i + 1) * STEP, &near[i])) return;
  const uint64_t scratch[3] = {near[0].scratch, near[1].scratch, near[2].scratch},
                 driver[3] = {near[0].driver, near[1].driver, near[2].driver};
  for (int shift = 6; shift <= 12; shift += 2) {
    const int64_t N = (INT64_C(1) << shift) * STEP;
    if (!width_measure(cf, h, N, &far)) return;
    tni_cf_edge_goes_on(cf, "bytes of scratch, by columns", 0, N, scratch, STEP, far.scratch);
    tni_cf_edge_goes_on(cf, "driver_bytes, by columns", 0, N, driver, STEP, far.driver);
  }
}

static void ask_widths(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  tni_cf_rig rig;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  memset(&rig, 0, sizeof rig);
  if (!widths_make(&rig.b))
    tni_cf_fail(cf, "the kit's own graph: %s", rig.b.err.message);
  else if (tni_cf_rig_claim_made(&rig, &h, TN_PHASE_PREFILL) && !rig.d.chunk)
    widths_run(cf, &rig);
  else
    tni_cf_skip(cf, "two products with %d columns between them are not taken: %s", WIDEST, tni_cf_edge_why(&rig));
  tni_cf_rig_finish(&rig);
  if (cf->verdict == TNI_CF_PASS) measure_widths(cf, &h);
  tni_cf_host_close(cf, &h);
}

/* --- symbols -------------------------------------------------------------------------------------------------------
 */

enum { SYMBOLS = 70 };

/* Symbols that no node depends on: what measure says does not either. */
static void symbols_idle(tni_cf *cf, const tni_cf_rig *rig, const char *op, uint32_t k) {
  int64_t v[SYMBOLS];
  char text[400];
  for (uint32_t i = 0; i < SYMBOLS; i++) v[i] = i == k ? tni_cf_drive_rows(&rig->d, 3) : 1;
  for (uint32_t t = 0; t < rig->d.info->n_tasks; t++)
    for (uint32_t i = 0; i < SYMBOLS && cf->verdict == TNI_CF_PASS; i++)
      if (i != k && !tni_cf_drive_named(&rig->d, t, v, i, 33, text, sizeof text)) tni_cf_fail(cf, "%s: %s", op, text);
}

/* A graph of many symbols, of which one node's dims depend on number k: its task says so. Number k is the positions of
 * a run, so that who takes certain lengths takes it too; where that is one length alone, nothing depends on it. */
static void symbol_ask(tni_cf *cf, tni_cf_host *h, const char *op, uint32_t k, uint32_t *taken) {
  tni_cf_rig rig;
  char name[24], dims[32];
  memset(&rig, 0, sizeof rig);
  tni_cn_graph *b = &rig.b;
  bool ok = tni_cn_begin(b, TN_DT_F32);
  for (uint32_t i = 2; ok && i < SYMBOLS; i++) { /* S and T are there */
    snprintf(name, sizeof name, "Z%u", i);
    (void)tni_ex_sym(b->g->exprs, name);
    ok = tni_ex_bound(b->g->exprs, i, 0, 4096) == TN_OK;
  }
  snprintf(dims, sizeof dims, "Z%u,16", k);
  snprintf(name, sizeof name, "Z%u", k);
  if (ok) {
    b->g->step = tni_ex_sym(b->g->exprs, name);
    const float unit[16 * 16] = {1};
    const int64_t square[2] = {16, 16};
    const tn_id x = tni_cn_value(b, "x", TN_VALUE_INPUT, TN_DT_F32, dims),
                y = tni_cn_value(b, "y", TN_VALUE_ACT, TN_DT_F32, "?");
    const bool product = !strcmp(op, "MatMul");
    const tn_id in[2] = {x, product ? tni_cn_constant(b, "w", TN_DT_F32, 2, square, unit) : x};
    b->operand[0] = (tni_cn_operand){.kind = 'x', .value = x};
    b->in[b->n_in++] = x;
    b->out[b->n_out++] = y;
    ok = tni_cn_node(b, "", op, 13, in, 2, &y, 1, NULL, 0) && tni_cn_end(b) && tni_cf_graph_stats(b);
  }
  if (!ok) tni_cf_fail(cf, "the kit's own graph: %s", b->err.message);
  ok = ok && tni_cf_rig_claim_made(&rig, h, TN_PHASE_PREFILL) && rig.d.lengths.n != 1;
  if (ok && !tni_cf_drive_lower(&rig.d)) tni_cf_fail(cf, "%s of a graph with %d symbols: %s", op, SYMBOLS, rig.d.why);
  *taken += ok;
  uint64_t told = 0;
  for (uint32_t t = 0; ok && rig.d.info && t < rig.d.info->n_tasks; t++) told |= rig.d.info->tasks[t]->symbols;
  const uint64_t want = ok ? h->host->symbols(&rig.d.view, rig.d.view.values[b->in[0]]->dims[0]) : 0;
  if (ok && rig.d.info && (told & want) != want)
    tni_cf_fail(
        cf,
        "%s over symbol %u of %d: its task does not say that it depends on it: bit %u of tn_task.symbols (plugin.h)",
        op, k, SYMBOLS, k < 63 ? k : 63);
  if (ok && rig.d.info && rig.d.view.n_symbols == SYMBOLS) symbols_idle(cf, &rig, op, k);
  tni_cf_rig_finish(&rig);
}

static void ask_symbols(tni_cf *cf, const void *arg) {
  static const uint32_t asked[] = {2, 31, 32, 33, 62, 63, 69};
  tni_cf_host h;
  uint32_t taken = 0;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, &(tni_cf_ask){.offline = true})) return;
  for (size_t i = 0; i < sizeof asked / sizeof *asked && cf->verdict == TNI_CF_PASS; i++) {
    symbol_ask(cf, &h, "MatMul", asked[i], &taken);
    symbol_ask(cf, &h, "Add", asked[i], &taken);
  }
  if (!taken && cf->verdict == TNI_CF_PASS)
    tni_cf_skip(cf, "it takes neither MatMul nor Add for several numbers of rows");
  tni_cf_host_close(cf, &h);
}

void tni_cf_edge_width_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"sizes/widths", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_widths, NULL, 60000});
  add(ctx, &(tni_cf_case){"sizes/symbols", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_symbols, NULL, 60000});
}
