/* SPDX-License-Identifier: Apache-2.0
 *
 * Many of everything: rows, nodes, values, letters; and what `measure` says of lengths that nobody has memory for.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/edges/parts.h"

enum { NODES = 300, VALUES = 66000, WIDTH = 16, LETTERS = 3000, MANY_ROWS = 66001, FEW_ROWS = 17 };
static const int64_t LONGEST = INT64_C(1) << 40;

/* --- chains of one operator --------------------------------------------------------------------------------------- */

/* A chain of n nodes of one operator, of which every result has the dims of the input. */
typedef struct chain {
  const char *op;
  int64_t version;
  uint32_t n_in;
  bool weight; /* the second operand is a constant matrix */
} chain;
static const chain chains[] = {{"MatMul", 13, 2, true}, {"Neg", 13, 1, false},    {"Add", 14, 2, false},
                               {"Relu", 14, 1, false},  {"Softmax", 13, 1, false}, {"LeakyRelu", 16, 1, false},
                               {"Mul", 14, 2, false},   {"Sigmoid", 13, 1, false}};

/* Column k of what a product gives is column k + 1 of its operand: numbers that any format holds. */
static tn_id shift_weight(tni_cn_graph *b, uint32_t i) {
  const int64_t dims[2] = {WIDTH, WIDTH};
  float w[WIDTH * WIDTH] = {0};
  char name[24];
  for (int k = 0; k < WIDTH; k++) w[(k + 1) % WIDTH * WIDTH + k] = 1;
  snprintf(name, sizeof name, "w%u", i);
  return tni_cn_constant(b, name, b->dtype, 2, dims, w);
}

/* name: of every node and value, before its number; NULL: short ones. */
static bool chain_make(tni_cn_graph *b, const chain *c, uint32_t n, int64_t longest, uint32_t unused, const char *prefix) {
  char *name = malloc(LETTERS + 64);
  if (!name || !tni_cn_begin_long(b, TN_DT_F32, longest)) return free(name), false;
  const int64_t one = 1;
  const float zero = 0;
  bool ok = true;
  for (uint32_t i = 0; ok && i < unused; i++) {
    snprintf(name, LETTERS + 64, "u%u", i);
    ok = tni_cn_constant(b, name, TN_DT_F32, 1, &one, &zero) != TN_NONE;
  }
  snprintf(name, LETTERS + 64, "%s%s", prefix ? prefix : "", "x");
  tn_id x = tni_cn_value(b, name, TN_VALUE_INPUT, TN_DT_F32, "S,16"), last = x;
  b->operand[0] = (tni_cn_operand){.kind = 'x', .value = x};
  b->in[b->n_in++] = x;
  for (uint32_t i = 0; ok && i < n; i++) {
    snprintf(name, LETTERS + 64, "%sy%u", prefix ? prefix : "", i);
    const tn_id in[2] = {last, c->weight ? shift_weight(b, i) : x},
                out = tni_cn_value(b, name, TN_VALUE_ACT, TN_DT_F32, "?");
    snprintf(name, LETTERS + 64, "%sn%u", prefix ? prefix : "", i);
    ok = out != TN_NONE && tni_graph_add_node(b->g, name, "", c->op, c->version, in, c->n_in, &out, 1, NULL, 0,
                                              &b->node, &b->err) == TN_OK;
    last = out;
  }
  free(name);
  if (!ok || last == TN_NONE) return false;
  b->out[b->n_out++] = last;
  return tni_cn_end(b) && tni_cf_graph_stats(b);
}

/* Small whole numbers; what a chain of n nodes makes of them, where that is known. */
static void small_numbers(tni_cf_rig *rig) {
  float *x = rig->in[0].data;
  for (int64_t i = 0; i < tni_cn_count(&rig->in[0]); i++) x[i] = (float)((i * 7 + i / WIDTH * 3) % 15 - 7);
}
/* Of products, whose roundings add up, only that y goes with x shifted by n columns: a correlation of 0.8 and more. */
static bool shifted(const tni_cf_rig *rig, uint32_t n) {
  const float *x = rig->in[0].data, *y = rig->out[0].data;
  double xy = 0, xx = 0, yy = 0;
  for (int64_t i = 0; i < tni_cn_count(&rig->in[0]); i++) {
    const double want = (double)x[i / WIDTH * WIDTH + (i + n) % WIDTH], is = (double)y[i];
    xy += want * is;
    xx += want * want;
    yy += is * is;
  }
  return xy >= 0.8 * sqrt(xx * yy) && yy > 0;
}

static bool expected(const tni_cf_rig *rig, const chain *c, uint32_t n, double slack) {
  const float *x = rig->in[0].data, *y = rig->out[0].data;
  if (c->weight) return shifted(rig, n);
  for (int64_t i = 0; i < tni_cn_count(&rig->in[0]); i++) {
    double want = (double)x[i];
    if (!strcmp(c->op, "Neg")) want = n % 2 ? -want : want;
    if (!strcmp(c->op, "Add")) want *= n + 1;
    if (!strcmp(c->op, "Relu")) want = want > 0 ? want : 0;
    if (!(fabs((double)y[i] - want) <= slack * 8)) return false;
  }
  return true;
}

/* Chains of which the results are known. */
static void ask_chains(tni_cf *cf, uint32_t n, uint32_t unused, const char *prefix, const char *what) {
  tni_cf_host h;
  uint32_t taken = 0;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  for (size_t k = 0; k < 4 && cf->verdict == TNI_CF_PASS; k++) {
    tni_cf_rig rig;
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    memset(&rig, 0, sizeof rig);
    if (!chain_make(&rig.b, &chains[k], n, 4096, unused, prefix)) {
      tni_cf_fail(cf, "the kit's own graph: %s", rig.b.err.message);
    } else if (tni_cf_rig_claim_made(&rig, &h, TN_PHASE_PREFILL)) {
      taken++;
      bool ok = tni_cf_rig_prepare(&rig, 3, &r);
      if (ok) small_numbers(&rig);
      ok = ok && tni_cf_inst_write(&rig.i, rig.b.in[0], rig.in[0].data, rig.in[0].bytes) &&
           tni_cf_rig_run(&rig, 0x5b, TNI_CF_INLINE);
      if (!ok)
        tni_cf_fail(cf, "%s: %s: %s", what, chains[k].op, rig.why);
      else if (!expected(&rig, &chains[k], n, 1e-3 * n))
        tni_cf_fail(cf, "%s: %s: wrong results", what, chains[k].op);
    } else if (!rig.refused) {
      tni_cf_fail(cf, "%s: %s: %s", what, chains[k].op, rig.why);
    }
    tni_cf_rig_finish(&rig);
  }
  if (!taken && cf->verdict == TNI_CF_PASS) tni_cf_skip(cf, "no chain of MatMul, Neg, Add or Relu is taken");
  tni_cf_host_close(cf, &h);
}

static void ask_nodes(tni_cf *cf, const void *arg) {
  (void)arg;
  ask_chains(cf, NODES, 0, NULL,
             "a program of 300 nodes (counts and indices have 32 bits; where short chains are wrong too, see numbers/...)");
}
static void ask_values(tni_cf *cf, const void *arg) {
  (void)arg;
  ask_chains(cf, 2, VALUES, NULL, "a graph of 66,000 values: ids have 32 bits");
}
static void ask_names(tni_cf *cf, const void *arg) {
  char *name = TNI_NEW_ARRAY(cf->arena, char, LETTERS + 1);
  (void)arg;
  if (!name) return;
  for (int i = 0; i < LETTERS; i++) name[i] = "%s%n%p/model.layers.0:"[i % 22];
  ask_chains(cf, 2, 0, name, "names of 3,000 letters, with % among them");
}

/* --- measure ------------------------------------------------------------------------------------------------------ */

/* Of a task at S rows. slots: what is known of the bytes of its TEMP slots. */
tni_cf_measured tni_cf_edge_measure_at(tni_cf *cf, const tni_cf_rig *rig, tn_id task, int64_t S, uint64_t *bytes) {
  int64_t sym[TNI_CF_MAX_SYMBOLS];
  for (int i = 0; i < TNI_CF_MAX_SYMBOLS; i++) sym[i] = i ? 1 : S;
  const tn_dims dims = {.h = TN_HDR(tn_dims), .v = sym, .n = rig->d.view.n_symbols};
  tn_measure m = {.h = TN_HDR(tn_measure), .slot_bytes = bytes};
  memset(bytes, 0, rig->d.info->n_slots * sizeof *bytes);
  tni_cf_measured out = {.ok = rig->h->device->measure(rig->d.prog.program, task, &dims, &m) == TN_OK};
  if (!out.ok) return out;
  out.scratch = m.scratch_bytes;
  out.driver = m.driver_bytes;
  out.macs = m.macs;
  for (uint32_t u = 0; u < rig->d.info->tasks[task]->n_uses; u++) {
    const uint32_t s = rig->d.info->tasks[task]->uses[u].slot;
    const tn_slot *slot = rig->d.info->slots[s];
    int64_t n = 1, dim;
    if (slot->kind != TN_SLOT_TEMP || slot->value == TN_NONE || !(rig->d.info->tasks[task]->uses[u].access & TN_WRITE))
      continue;
    const tn_value *v = rig->d.view.values[slot->value];
    for (uint32_t i = 0; i < v->rank; i++)
      n *= tni_ex_eval(rig->d.g->exprs, v->dims[i], sym, dims.n, &dim) == TN_OK ? dim : 0;
    if (bytes[s] < (uint64_t)n * 4)
      tni_cf_fail(cf,
                  "measure of task %u at %lld rows: %llu bytes for slot %u, whose value takes %llu: sizes have 64 bits",
                  task, (long long)S, (unsigned long long)bytes[s], s, (unsigned long long)n * 4);
  }
  return out;
}

/* What grows by the same number from step to step, and far on is short of that by exactly a multiple of 2^32. */
void tni_cf_edge_goes_on(tni_cf *cf, const char *what, tn_id task, int64_t S, const uint64_t near[3], int64_t step,
                       uint64_t far) {
  const uint64_t slope = near[1] - near[0];
  if (near[2] - near[1] != slope || !slope || slope > UINT64_C(1) << 40) return;
  const uint64_t want = near[2] + slope * (uint64_t)((S - 3 * step) / step);
  if (far != want && (far & UINT32_MAX) == (want & UINT32_MAX))
    tni_cf_fail(cf, "measure of task %u at %lld rows: %llu %s, where it is %llu in 64 bits", task, (long long)S,
                (unsigned long long)far, what, (unsigned long long)want);
}

static void measure_task(tni_cf *cf, const tni_cf_rig *rig, tn_id task, uint64_t *bytes) {
  enum { STEP = 4096 };
  tni_cf_measured near[3];
  for (int i = 0; i < 3; i++) near[i] = tni_cf_edge_measure_at(cf, rig, task, (i + 1) * STEP, bytes);
  const uint64_t scratch[3] = {near[0].scratch, near[1].scratch, near[2].scratch},
                 driver[3] = {near[0].driver, near[1].driver, near[2].driver};
  double before = near[2].macs;
  for (int shift = 12; shift <= 22 && near[2].ok; shift += 2) {
    const int64_t S = (INT64_C(1) << shift) * STEP;
    const tni_cf_measured far = tni_cf_edge_measure_at(cf, rig, task, S, bytes);
    if (!far.ok) return;
    tni_cf_edge_goes_on(cf, "bytes of scratch", task, S, scratch, STEP, far.scratch);
    tni_cf_edge_goes_on(cf, "driver_bytes", task, S, driver, STEP, far.driver);
    if (!(far.macs >= before))
      tni_cf_fail(cf, "measure of task %u at %lld rows: %g macs, and %g at fewer rows", task, (long long)S, far.macs,
                  before);
    before = far.macs;
  }
}

static void ask_measure(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  uint32_t taken = 0;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, &(tni_cf_ask){.offline = true})) return;
  for (size_t k = 0; k < sizeof chains / sizeof *chains && cf->verdict == TNI_CF_PASS; k++) {
    tni_cf_rig rig;
    memset(&rig, 0, sizeof rig);
    if (!chain_make(&rig.b, &chains[k], 3, LONGEST, 0, NULL)) {
      tni_cf_fail(cf, "the kit's own graph: %s", rig.b.err.message);
    } else if (tni_cf_rig_claim_made(&rig, &h, TN_PHASE_PREFILL) && !rig.d.chunk) {
      if (!tni_cf_drive_lower(&rig.d)) tni_cf_fail(cf, "%s: %s", chains[k].op, rig.d.why);
      uint64_t *bytes = rig.d.info ? TNI_NEW_ARRAY(cf->arena, uint64_t, rig.d.info->n_slots + 1) : NULL;
      for (tn_id t = 0; bytes && rig.d.info && t < rig.d.info->n_tasks; t++) measure_task(cf, &rig, t, bytes);
      taken++;
    }
    tni_cf_rig_finish(&rig);
  }
  if (!taken && cf->verdict == TNI_CF_PASS) tni_cf_skip(cf, "no chain is taken whose rows have no limit");
  tni_cf_host_close(cf, &h);
}

/* --- rows ---------------------------------------------------------------------------------------------------------- */

#define ROW(op_, inputs_, attrs_, version_)                                                                          \
  { .op = op_, .inputs = inputs_, .attrs = attrs_, .version = version_, .dtype = TN_DT_F32, .n_out = 1, .scale = 1, .longest = 70000 }
/* Every row of the result is of one row of the operands. */
static const tni_cn_spec by_rows[] = {ROW("MatMul", "x[S,64] w[64,16]", "", 13),
                                      ROW("Gemm", "x[S,64] w[16,64] w[16]", "transB=1", 13),
                                      ROW("Add", "x[S,3] x[S,3]", "", 14),
                                      ROW("Mul", "x[S,3] w[3]", "", 14),
                                      ROW("Sub", "x[S,3] x[S,1]", "", 14),
                                      ROW("Relu", "x[S,3]", "", 14),
                                      ROW("Neg", "x[S,3]", "", 13),
                                      ROW("LeakyRelu", "x[S,3]", "", 16),
                                      ROW("Sigmoid", "x[S,3]", "", 13),
                                      ROW("Softmax", "x[S,5]", "axis=-1", 13),
                                      ROW("LayerNormalization", "x[S,5] w[5] w[5]", "axis=-1", 17),
                                      ROW("RMSNormalization", "x[S,5] w[5]", "axis=-1", 23),
                                      ROW("Concat", "x[S,3] x[S,2]", "axis=1", 13),
                                      ROW("ReduceSum", "x[S,5] k[1]=1", "keepdims=1", 13)};

static const int64_t shown[FEW_ROWS] = {0,     1,     2,     127,   128,   255,   256,   257,  4095,
                                        32767, 32768, 32769, 65535, 65536, 65537, 65999, 66000};

/* Row k of a few is row shown[k] of the many. */
static void take_rows(const tni_tensor *many, tni_tensor *few) {
  const size_t bytes = (size_t)(many->bytes / MANY_ROWS);
  for (int k = 0; k < FEW_ROWS; k++)
    memcpy((char *)few->data + (size_t)k * bytes, (const char *)many->data + (size_t)shown[k] * bytes, bytes);
}

static bool rows_agree(tni_cf *cf, const char *op, const tni_tensor *many, const tni_tensor *few) {
  const int64_t width = tni_cn_count(few) / FEW_ROWS;
  const float *a = many->data, *b = few->data;
  const double top = fmax(1e-6, tni_cn_greatest(b, tni_cn_count(few)));
  for (int64_t i = 0; i < tni_cn_count(few); i++) {
    const int64_t k = i / width, n = i % width;
    const double off = fabs((double)a[shown[k] * width + n] - (double)b[i]);
    if (off <= 0.02 * top) continue;
    tni_cf_fail(cf, "%s: row %lld of %d has %g in column %lld, and %g where it is one of %d rows", op,
                (long long)shown[k], MANY_ROWS, (double)a[shown[k] * width + n], (long long)n, (double)b[i], FEW_ROWS);
    return false;
  }
  return true;
}

static bool compare_rows(tni_cf *cf, tni_cf_rig *rig, const char *op) {
  tni_cf_rng r = tni_cf_rng_of(cf, 3);
  tni_tensor in[TNI_CN_MAX_IN], out;
  bool ok = tni_cf_rig_prepare(rig, MANY_ROWS, &r) && tni_cf_rig_run(rig, 0xff, TNI_CF_EVEN);
  if (!ok) return tni_cf_fail(cf, "%s of %d rows: %s", op, MANY_ROWS, rig->why), false;
  memcpy(in, rig->in, sizeof in);
  out = rig->out[0];
  tni_cf_inst_finish(&rig->i);
  rig->made = false;
  ok = tni_cf_rig_prepare(rig, FEW_ROWS, &r);
  for (uint32_t i = 0; ok && i < rig->b.n_in; i++) {
    take_rows(&in[i], &rig->in[i]);
    ok = tni_cf_inst_write(&rig->i, rig->b.in[i], rig->in[i].data, rig->in[i].bytes);
  }
  ok = ok && tni_cf_rig_run(rig, 0xff, TNI_CF_INLINE);
  if (!ok) return tni_cf_fail(cf, "%s of %d rows: %s", op, FEW_ROWS, rig->why), false;
  return rows_agree(cf, op, &out, &rig->out[0]);
}

static void ask_rows(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  uint32_t taken = 0;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  for (size_t k = 0; k < sizeof by_rows / sizeof *by_rows && cf->verdict == TNI_CF_PASS; k++) {
    tni_cf_rig rig;
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    const tni_cf_graph_row row = {.name = "rows", .spec = by_rows[k]};
    if (tni_cf_rig_claim(&rig, &h, &row, TN_PHASE_PREFILL, &r) && !rig.d.chunk) {
      taken++;
      (void)compare_rows(cf, &rig, by_rows[k].op);
    }
    tni_cf_rig_finish(&rig);
  }
  if (!taken && cf->verdict == TNI_CF_PASS) tni_cf_skip(cf, "it takes none of %zu operators for so many rows", sizeof by_rows / sizeof *by_rows);
  if (taken) tni_cf_note(cf, "%u operators of %d rows", taken, MANY_ROWS);
  tni_cf_host_close(cf, &h);
}

void tni_cf_edge_wide_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const tni_cf_case cases[] = {
      {"sizes/nodes", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_nodes, NULL, 60000},
      {"sizes/values", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_values, NULL, 60000},
      {"sizes/names", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_names, NULL, 60000},
      {"sizes/measure", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_measure, NULL, 60000},
      {"sizes/rows", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_rows, NULL, 60000},
  };
  (void)l;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(ctx, &cases[i]);
}
