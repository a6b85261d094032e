/* SPDX-License-Identifier: Apache-2.0
 *
 * A product with a weight of 2^31 elements, and one of 2^33, of which the first and the last columns are wanted. Its
 * floats and its packed bytes are address space: what is not packed is zeros. Of the pool's work the first and the last
 * parts are done.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/conform/edges/parts.h"

enum { WIDE = 8192, ENDS = 8, SMALLER = 16, FEW = 4096, LIMIT_S = 60, WAIT_S = 45 };
static const double SLOWEST_S = 0.5; /* for a weight SMALLER times as small */

typedef struct wide_weight {
  int64_t N;
  float *w; /* [N, WIDE] */
  uint64_t bytes;
} wide_weight;

static float pattern(int64_t k) { return (float)((k * 37 + k / 97) % 31 - 15) / 16; }

/* Row i of the first and the last ENDS is the pattern times (i + 1) / 8, below 0 for the first. */
static bool weight_make(wide_weight *t, int64_t N) {
  *t = (wide_weight){.N = N, .bytes = (uint64_t)N * WIDE * sizeof(float)};
  void *map = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  t->w = map == MAP_FAILED ? NULL : map;
  for (int64_t i = 0; t->w && i < 2 * ENDS; i++)
    for (int64_t k = 0; k < WIDE; k++)
      t->w[(i < ENDS ? i : N - 2 * ENDS + i) * WIDE + k] = pattern(k) * (float)(i % ENDS + 1) / (i < ENDS ? -8 : 8);
  return t->w != NULL;
}

static bool graph_make(tni_cn_graph *b, const wide_weight *t) {
  const tni_tensor tensor = {.dtype = TN_DT_F32, .rank = 2, .dims = {t->N, WIDE}, .data = t->w, .bytes = t->bytes};
  int64_t parts[6] = {0, 0, ENDS, 0, t->N - ENDS, ENDS}, results[2] = {0, 1};
  const tni_raw_attr a[] = {
      {.name = "results", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 2, .u.ints = results}},
      {.name = "n_weights", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = 1}},
      {.name = "trans_b", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = 1}},
      {.name = "parts", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 6, .u.ints = parts}}};
  char dims[32];
  snprintf(dims, sizeof dims, "S,%d", WIDE);
  if (!tni_cn_begin(b, TN_DT_F32)) return false;
  const tn_id w = tni_graph_add_value(b->g, "w", TN_VALUE_CONST, TN_DT_F32);
  if (w == TN_NONE || tni_value_set_tensor(b->g, w, &tensor, NULL) != TN_OK) return false;
  const tn_id x = tni_cn_value(b, "x", TN_VALUE_INPUT, TN_DT_F32, dims), in[2] = {x, w},
              out[2] = {tni_cn_value(b, "y0", TN_VALUE_ACT, TN_DT_F32, "?"),
                        tni_cn_value(b, "y1", TN_VALUE_ACT, TN_DT_F32, "?")};
  b->operand[0] = (tni_cn_operand){.kind = 'x', .value = x};
  b->in[b->n_in++] = x;
  b->out[b->n_out++] = out[0];
  b->out[b->n_out++] = out[1];
  return tni_cn_node(b, "tenon", "FusedMatMul", 1, in, 2, out, 2, a, 4) && tni_cn_end(b) && tni_cf_graph_stats(b);
}

/* x is the pattern: every result is a multiple of the same sum. */
static bool results_hold(const tni_cf_rig *rig, double sum) {
  for (int o = 0; o < 2; o++)
    for (int i = 0; i < ENDS; i++) {
      const double want = sum * (i + 1) / (o ? 8 : -8);
      if (!(fabs((double)((const float *)rig->out[o].data)[i] - want) <= 0.2 * fabs(want))) return false;
    }
  return true;
}

/* True: it was asked. right: its results are. seconds: of the run; before it, of one with a smaller weight, or 0. */
static bool product_run(tni_cf *cf, tni_cf_host *h, int64_t N, uint32_t split, double *seconds, bool *right) {
  wide_weight t;
  tni_cf_rig rig;
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  const bool smaller_ran = *seconds > 0;
  bool ok = *right = false;
  double sum = 0;
  memset(&rig, 0, sizeof rig);
  if (!weight_make(&t, N)) return tni_cf_skip(cf, "no address space for a weight"), false;
  rig.d.is_sparse = true;
  for (int64_t k = 0; k < WIDE; k++) sum += (double)pattern(k) * (double)pattern(k);
  if (!graph_make(&rig.b, &t)) {
    tni_cf_fail(cf, "the kit's own graph: %s", rig.b.err.message);
  } else if (!tni_cf_rig_claim_made(&rig, h, TN_PHASE_DECODE) || rig.d.chunk > 1) {
    tni_cf_skip(cf, "a fused product with a weight of [%lld,%d] is not claimed: %s", (long long)N, WIDE,
                tni_cf_edge_why(&rig));
  } else if (!tni_cf_rig_prepare(&rig, 1, &r)) {
    tni_cf_skip(cf, "a weight of [%lld,%d]: %s", (long long)N, WIDE, rig.why);
  } else {
    for (int64_t k = 0; k < WIDE; k++) ((float *)rig.in[0].data)[k] = pattern(k);
    const int64_t start = tni_now_ns();
    rig.i.wait_s = WAIT_S;
    ok = tni_cf_inst_write(&rig.i, rig.b.in[0], rig.in[0].data, rig.in[0].bytes);
    for (uint32_t k = 0; ok && k < rig.d.info->n_tasks; k++) ok = tni_cf_inst_task(&rig.i, k, split) == TN_OK;
    *seconds = (double)(tni_now_ns() - start) * 1e-9;
    for (uint32_t o = 0; ok && o < 2; o++)
      ok = tni_cf_inst_read(&rig.i, rig.b.out[o], rig.out[o].data, rig.out[o].bytes);
    if (!ok && tni_cf_has_left() && smaller_ran)
      tni_cf_skip(cf, "slow: a product with a weight of [%lld,%d]: %s", (long long)N, WIDE, rig.i.why);
    else if (!ok)
      tni_cf_fail(cf, "a weight of [%lld,%d]: %s", (long long)N, WIDE, rig.i.why);
    else
      *right = results_hold(&rig, sum);
  }
  tni_cf_rig_finish(&rig);
  if (!tni_cf_has_left()) (void)munmap(t.w, t.bytes); /* else an item may read it */
  return ok;
}

/* True: it was asked and was right. */
static bool product_ask(tni_cf *cf, tni_cf_host *h, int64_t N, uint32_t split, double *seconds) {
  bool right;
  if (!product_run(cf, h, N, split, seconds, &right)) return false;
  if (!right)
    tni_cf_fail(cf, "a product with the first and the last %d columns of a weight of [%lld,%d] is wrong: places of "
                    "rows have 64 bits", ENDS, (long long)N, WIDE);
  return right;
}

/* Whether the first and the last part of the work have those columns, of weights of several sizes: of one, that may be
 * chance. False: said why. */
static bool parts_have_columns(tni_cf *cf, tni_cf_host *h) {
  for (int64_t seventh = 3; seventh <= 7; seventh += 2) {
    const int64_t N = FEW * seventh / 7 / 64 * 64;
    double seconds = 0;
    bool right;
    if (!product_run(cf, h, N, TNI_CF_ENDS, &seconds, &right)) return false;
    if (right) continue;
    if (product_ask(cf, h, N, TNI_CF_EVEN, &seconds)) tni_cf_skip(cf, "%s", TNI_CF_CUT_OTHERWISE);
    return false;
  }
  return true;
}

/* AddressSanitizer's search for leaks at the end of a process dies now and then of so much address space. */
#if defined(__SANITIZE_ADDRESS__)
enum { CAN_ASK = 0 };
#else
enum { CAN_ASK = 1 };
#endif

static void ask_weights(tni_cf *cf, const void *arg) {
  const int64_t N = (INT64_C(1) << 31) / WIDE + 64;
  tni_cf_host h;
  double seconds = 0;
  (void)arg;
  if (!CAN_ASK) {
    tni_cf_skip(cf, "a build with AddressSanitizer");
    return;
  }
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  if (parts_have_columns(cf, &h) && product_ask(cf, &h, N / SMALLER / 64 * 64, TNI_CF_ENDS, &seconds)) {
    if (seconds > SLOWEST_S && !cf->subject->thorough)
      tni_cf_skip(cf, "slow: the kit waited %.1f s for a product with 2^27 weights, and asks for one with 2^31 up to %.1f s; "
                      "--thorough asks for it whatever it takes", seconds, SLOWEST_S);
    else if (product_ask(cf, &h, N, TNI_CF_ENDS, &seconds) && seconds < SLOWEST_S &&
             product_ask(cf, &h, 4 * N, TNI_CF_ENDS, &seconds))
      tni_cf_note(cf, "the kit waited %.2f s for a product with a weight of [%lld,%d]", seconds, (long long)(4 * N), WIDE);
  }
  tni_cf_host_close(cf, &h);
}

void tni_cf_edge_weight_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"sizes/weights", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_weights, NULL, LIMIT_S * 1000});
}
