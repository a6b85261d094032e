/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of more than 2^32 elements: their memory is address space, and of the pool's work only the first and the last
 * parts are done. What they compute is what the same numbers give in a few rows. A kernel may cut its work otherwise,
 * and deal rows like cards: then those parts hold other elements, and nothing large is asked.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "runtime/conform/edges/parts.h"

enum { FEWER = 1024, MIDDLE = 128, SMALLER = 8, MOST_MB = 2048, MOST_S = 4 }; /* of one operator */
static const int64_t ELEMENTS = (INT64_C(1) << 32) + (INT64_C(1) << 20);

#define END(op_, inputs_, attrs_, version_)                                                                         \
  {                                                                                                                 \
    .op = op_, .inputs = inputs_, .attrs = attrs_, .version = version_, .dtype = TN_DT_F32, .n_out = 1, .scale = 1, \
    .longest = INT64_C(1) << 40                                                                                     \
  }
/* Row i of the result is of row i of the operands. The widest operand has `width` elements a row, and `batch` times S
 * rows. */
static const struct {
  int64_t width, batch;
  tni_cn_spec spec;
} long_ones[] = {{64, 1, END("MatMul", "x[S,64] w[64,32]", "", 13)},
                 {64, 1, END("Gemm", "x[S,64] w[32,64] w[32]", "transB=1", 13)},
                 {32, 1, END("MatMul", "x[S,8] w[8,32]", "", 13)},
                 {16, 1, END("Add", "x[S,16] x[S,16]", "", 14)},
                 {16, 1, END("Mul", "x[S,16] w[16]", "", 14)},
                 {16, 1, END("Sub", "x[S,16] x[S,1]", "", 14)},
                 {16, 3, END("Add", "x[3,S,16] x[3,S,16]", "", 14)},
                 {16, 3, END("Sub", "x[3,S,16] x[3,S,1]", "", 14)},
                 {16, 1, END("Relu", "x[S,16]", "", 14)},
                 {16, 1, END("LeakyRelu", "x[S,16]", "", 16)},
                 {16, 1, END("Sigmoid", "x[S,16]", "", 13)},
                 {16, 1, END("Softmax", "x[S,16]", "axis=-1", 13)},
                 {16, 1, END("LayerNormalization", "x[S,16] w[16] w[16]", "axis=-1", 17)},
                 {16, 1, END("RMSNormalization", "x[S,16] w[16]", "axis=-1", 23)}};

static double megabytes_now(void) {
  long pages = 0, all = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  if (f && fscanf(f, "%ld %ld", &all, &pages) != 2) pages = 0;
  if (f) fclose(f);
  return (double)pages * 4096 / (1 << 20);
}

/* Values of one step: rows first and last of each input, and those of the result. */
typedef struct ends {
  float in[TNI_CN_MAX_IN][2][64], out[2][64];
  uint64_t in_width[TNI_CN_MAX_IN], out_width; /* floats in a row */
  double seconds;                              /* of the tasks */
} ends;

static float number(uint32_t i, int end, uint64_t k) {
  return (float)((int)((k * 29 + i * 7 + (uint32_t)end * 11) % 23) - 9) / 8;
}

static float *row_of(tni_cf_inst *i, tn_id v, int64_t row, uint64_t width, uint32_t access, uint32_t *slot) {
  uint8_t *at;
  *slot = tni_cf_drive_slot(i->d, v);
  if (*slot == TN_NONE || !tni_cf_inst_look(i, *slot, access, &at)) return NULL;
  return (float *)(void *)at + (uint64_t)row * width;
}

/* Whether all memory is address space of the kit's: other devices copy. */
static bool is_lazy(const tni_cf_rig *rig) {
  for (uint32_t s = 0; s < rig->d.info->n_slots; s++) {
    const tni_cf_memory *m = &rig->i.slot[s];
    if (m->buffer && !(m->buffer->flags & TN_BUF_COHERENT)) return false;
  }
  return true;
}

static bool tasks_run(tni_cf_rig *rig, uint32_t split, ends *e) {
  const int64_t start = tni_now_ns();
  for (uint32_t t = 0; t < rig->d.info->n_tasks; t++)
    if (tni_cf_inst_task(&rig->i, t, split) != TN_OK) return false;
  e->seconds = (double)(tni_now_ns() - start) * 1e-9;
  return true;
}

static bool step_run(tni_cf_rig *rig, int64_t S, uint32_t split, ends *e) {
  uint32_t slot;
  for (uint32_t i = 0; i < rig->b.n_in; i++)
    for (int end = 0; end < 2; end++) {
      e->in_width[i] = rig->i.slot[tni_cf_drive_slot(&rig->d, rig->b.in[i])].bytes / sizeof(float) / (uint64_t)S;
      float *row = row_of(&rig->i, rig->b.in[i], end ? S - 1 : 0, e->in_width[i], TN_READ | TN_WRITE, &slot);
      if (!row) return false;
      for (uint64_t k = 0; k < e->in_width[i] && k < 64; k++) row[k] = number(i, end, k);
      if (!tni_cf_inst_release(&rig->i, slot)) return false;
    }
  if (!tasks_run(rig, split, e)) return false;
  e->out_width = rig->i.slot[tni_cf_drive_slot(&rig->d, rig->b.out[0])].bytes / sizeof(float) / (uint64_t)S;
  for (int end = 0; end < 2; end++) {
    const float *row = row_of(&rig->i, rig->b.out[0], end ? S - 1 : 0, e->out_width, TN_READ, &slot);
    if (!row) return false;
    memcpy(e->out[end], row, (e->out_width < 64 ? e->out_width : 64) * sizeof(float));
    if (!tni_cf_inst_release(&rig->i, slot)) return false;
  }
  return tni_cf_inst_guards(&rig->i);
}

/* False: it failed (said), or could not be asked. */
static bool at_length(tni_cf *cf, tni_cf_rig *rig, const char *op, int64_t S, int64_t batch, uint32_t split, ends *e) {
  int64_t sym[TNI_CF_MAX_SYMBOLS];
  for (int i = 0; i < TNI_CF_MAX_SYMBOLS; i++) sym[i] = i ? 1 : S;
  if (!tni_cf_inst_make(&rig->i, &rig->d, sym, (tni_cf_room){0, 0})) {
    tni_cf_note(cf, "%s of %lld rows: %s", op, (long long)S, rig->i.why);
    tni_cf_inst_finish(&rig->i);
    return false;
  }
  const bool lazy = is_lazy(rig), ok = lazy && step_run(rig, S * batch, split, e);
  if (lazy && !ok) tni_cf_fail(cf, "%s of %lld rows: %s", op, (long long)S, rig->i.why);
  tni_cf_inst_finish(&rig->i);
  return ok;
}

/* The first column of the first row and the last of the last. Which of them differs: 0 or 1; -1: none. */
static int end_that_differs(const ends *few, const ends *many) {
  const uint64_t last = (few->out_width < 64 ? few->out_width : 64) - 1, at[2] = {0, last};
  const double top = fmax(1e-6, fmax(fabs((double)few->out[0][0]), fabs((double)few->out[1][last])));
  for (int end = 0; end < 2; end++)
    if (!(fabs((double)few->out[end][at[end]] - (double)many->out[end][at[end]]) <= 0.05 * top)) return end;
  return -1;
}

static bool ends_agree(tni_cf *cf, const char *op, int64_t S, const ends *few, const ends *many) {
  const int end = end_that_differs(few, many);
  const uint64_t at = end > 0 ? (few->out_width < 64 ? few->out_width : 64) - 1 : 0;
  if (end >= 0)
    tni_cf_fail(cf,
                "%s of %lld rows of %llu: the %s element is %g, and %g where there are two rows: places and counts "
                "have 64 bits",
                op, (long long)S, (unsigned long long)many->in_width[0], end ? "last" : "first",
                (double)many->out[end][at], (double)few->out[end][at]);
  return end < 0;
}

/* The first and the last part of the work at S rows give the first and the last element. False: they do not, which is
 * said: they are wrong, or (whole: few rows, which can be computed) all parts together are right. */
static bool parts_have_ends(tni_cf *cf, tni_cf_rig *rig, const char *op, int64_t S, int64_t batch, bool whole,
                            const ends *few, ends *e) {
  if (!at_length(cf, rig, op, S, batch, TNI_CF_ENDS, e)) return false;
  if (end_that_differs(few, e) < 0) return true;
  if (whole && !at_length(cf, rig, op, S, batch, TNI_CF_EVEN, e)) return false;
  if (ends_agree(cf, op, S, few, e)) tni_cf_note(cf, "%s: %s", op, TNI_CF_CUT_OTHERWISE);
  return false;
}

/* Whether `times` as much would take too long, or touch too much memory. */
static bool is_too_much(const tni_cf *cf, const ends *e, double mb, int64_t times) {
  const double more = megabytes_now() - mb;
  const double next = times == FEWER ? (double)FEWER / SMALLER : (double)times;
  return e->seconds * next > MOST_S * (cf->subject->thorough ? 10 : 1) || (times <= SMALLER && more * next > MOST_MB);
}

/* 1: asked; 0: not. */
static int ask_one(tni_cf *cf, tni_cf_rig *rig, const char *op, int64_t width, int64_t batch) {
  const int64_t S = ELEMENTS / width / (batch > 1 ? batch - 1 : 1); /* a batch is longer than 2^31 */
  ends few, many;
  if (!at_length(cf, rig, op, 2, batch, TNI_CF_INLINE, &few)) return 0;
  for (int64_t seventh = 3; seventh <= 7; seventh += 2) /* that they do at one length alone may be chance */
    if (!parts_have_ends(cf, rig, op, S / FEWER / SMALLER * seventh / 7, batch, true, &few, &many)) return 0;
  static const int64_t smaller[] = {FEWER, MIDDLE, SMALLER, 1};
  bool enough = false;
  for (size_t i = 0; i < 4 && !enough; i++)
    for (int again = 0; !again || (enough && again < 2); again++) { /* the machine may have been busy: asked twice */
      const double mb = megabytes_now();
      if (!parts_have_ends(cf, rig, op, S / smaller[i], batch, smaller[i] == FEWER, &few, &many)) return 0;
      enough = smaller[i] > 1 && is_too_much(cf, &many, mb, smaller[i]);
    }
  return !enough;
}

/* --- columns ------------------------------------------------------------------------------------------------------ */

enum { DEPTH = TNI_CF_EDGE_DEPTH, EDGE = 8, ROWS = 65 };

bool tni_cf_edge_columns_make(tni_cn_graph *b, float *w, int64_t N) {
  const tni_tensor tensor = {
      .dtype = TN_DT_F32, .rank = 2, .dims = {N, DEPTH}, .data = w, .bytes = (uint64_t)N * DEPTH * 4};
  int64_t part[3] = {0, 0, N}, results[1] = {0};
  const tni_raw_attr a[] = {
      {.name = "results", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 1, .u.ints = results}},
      {.name = "n_weights", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = 1}},
      {.name = "trans_b", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = 1}},
      {.name = "parts", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 3, .u.ints = part}}};
  if (!tni_cn_begin(b, TN_DT_F32)) return false;
  const tn_id v = tni_graph_add_value(b->g, "w", TN_VALUE_CONST, TN_DT_F32);
  if (v == TN_NONE || tni_value_set_tensor(b->g, v, &tensor, NULL) != TN_OK) return false;
  const tn_id x = tni_cn_value(b, "x", TN_VALUE_INPUT, TN_DT_F32, "S,8"), in[2] = {x, v},
              out = tni_cn_value(b, "y", TN_VALUE_ACT, TN_DT_F32, "?");
  b->operand[0] = (tni_cn_operand){.kind = 'x', .value = x};
  b->in[b->n_in++] = x;
  b->out[b->n_out++] = out;
  return tni_cn_node(b, "tenon", "FusedMatMul", 1, in, 2, &out, 1, a, 4) && tni_cn_end(b) && tni_cf_graph_stats(b);
}

static float weight_at(int64_t n, int64_t N, int k) {
  return n < EDGE || n >= N - EDGE ? (float)(((n % 7) * 3 + k * 5) % 13 - 5) / 8 : 0;
}

/* The first element and the last are those of x and the weight. */
static bool columns_right(int64_t N, const ends *e, int *wrong, double *instead) {
  const int64_t column[2] = {0, N - 1};
  for (int end = 0; end < 2; end++) {
    double want = 0, top = 0;
    for (int k = 0; k < DEPTH; k++) {
      const double t = (double)e->in[0][end][k] * (double)weight_at(column[end], N, k);
      want += t;
      top += fabs(t);
    }
    if (fabs((double)e->out[end][0] - want) <= 0.2 * top) continue;
    *wrong = end;
    *instead = want;
    return false;
  }
  return true;
}

static bool columns_judge(tni_cf *cf, int64_t N, const ends *e) {
  double want;
  int end;
  if (columns_right(N, e, &end, &want)) return true;
  tni_cf_fail(cf,
              "%d rows of a product of %lld columns: the %s element is %g, not %g: places and counts have 64 bits",
              ROWS, (long long)N, end ? "last" : "first", (double)e->out[end][0], want);
  return false;
}

/* The first element and the last. */
static bool columns_run(tni_cf_rig *rig, int64_t N, uint32_t split, ends *e) {
  uint32_t slot;
  for (int end = 0; end < 2; end++) {
    float *row = row_of(&rig->i, rig->b.in[0], end ? ROWS - 1 : 0, DEPTH, TN_READ | TN_WRITE, &slot);
    if (!row) return false;
    for (int k = 0; k < DEPTH; k++) e->in[0][end][k] = row[k] = number(1, end, (uint64_t)k);
    if (!tni_cf_inst_release(&rig->i, slot)) return false;
  }
  if (!tasks_run(rig, split, e)) return false;
  for (int end = 0; end < 2; end++) {
    const float *row = row_of(&rig->i, rig->b.out[0], end ? ROWS - 1 : 0, (uint64_t)N, TN_READ, &slot);
    if (!row) return false;
    e->out[end][0] = row[end ? N - 1 : 0];
    if (!tni_cf_inst_release(&rig->i, slot)) return false;
  }
  return tni_cf_inst_guards(&rig->i);
}

/* False: it could not be asked, or failed: said. */
static bool columns_ask(tni_cf *cf, tni_cf_host *h, int64_t N, uint32_t split, ends *e) {
  int64_t sym[TNI_CF_MAX_SYMBOLS];
  tni_cf_rig rig;
  memset(&rig, 0, sizeof rig);
  rig.d.is_sparse = true;
  const uint64_t bytes = (uint64_t)N * DEPTH * sizeof(float);
  float *w = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (w == MAP_FAILED) return tni_cf_skip(cf, "no address space for a weight"), false;
  for (int64_t i = 0; i < 2 * EDGE; i++)
    for (int k = 0; k < DEPTH; k++) {
      const int64_t n = i < EDGE ? i : N - 2 * EDGE + i;
      w[n * DEPTH + k] = weight_at(n, N, k);
    }
  for (int i = 0; i < TNI_CF_MAX_SYMBOLS; i++) sym[i] = i ? 1 : ROWS;
  bool ok = false;
  if (!tni_cf_edge_columns_make(&rig.b, w, N))
    tni_cf_fail(cf, "the kit's own graph: %s", rig.b.err.message);
  else if (!tni_cf_rig_claim_made(&rig, h, TN_PHASE_PREFILL) || rig.d.chunk || !tni_cf_drive_lower(&rig.d) ||
           !(rig.made = tni_cf_inst_make(&rig.i, &rig.d, sym, (tni_cf_room){0, 0})))
    tni_cf_skip(cf, "a fused product of %lld columns is not to be had: %s%s%s", (long long)N, tni_cf_edge_why(&rig),
                rig.d.why, rig.i.why);
  else if (!is_lazy(&rig))
    tni_cf_skip(cf, "its memory is copied: %lld columns would be, too", (long long)N);
  else if (!(ok = columns_run(&rig, N, split, e)))
    tni_cf_fail(cf, "%d rows of a product of %lld columns: %s", ROWS, (long long)N, rig.i.why);
  tni_cf_rig_finish(&rig);
  (void)munmap(w, bytes);
  return ok;
}

/* As parts_have_ends, with a few columns of several numbers. */
static bool parts_have_columns(tni_cf *cf, tni_cf_host *h, int64_t most) {
  double want;
  ends e;
  int end;
  for (int64_t seventh = 3; seventh <= 7; seventh += 2) {
    const int64_t N = most * seventh / 7 / 64 * 64;
    if (!columns_ask(cf, h, N, TNI_CF_ENDS, &e)) return false;
    if (columns_right(N, &e, &end, &want)) continue;
    if (columns_ask(cf, h, N, TNI_CF_EVEN, &e) && columns_judge(cf, N, &e)) tni_cf_skip(cf, "%s", TNI_CF_CUT_OTHERWISE);
    return false;
  }
  return true;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CAN_ASK = 0 };
#else
enum { CAN_ASK = 1 };
#endif

static void ask_columns(tni_cf *cf, const void *arg) {
  static const int64_t smaller[] = {FEWER, SMALLER, 1};
  tni_cf_host h;
  (void)arg;
  if (!CAN_ASK) {
    tni_cf_skip(cf, "a build with a sanitizer");
    return;
  }
  if (!tni_cf_host_open(cf, &h, &(tni_cf_ask){.huge = true})) return;
  const int64_t most = ELEMENTS / (ROWS - 1);
  const bool cut = parts_have_columns(cf, &h, most / FEWER);
  for (size_t i = 0; cut && i < 3; i++) {
    const double mb = megabytes_now();
    const int64_t N = most / smaller[i];
    ends e;
    if (!columns_ask(cf, &h, N, TNI_CF_ENDS, &e) || !columns_judge(cf, N, &e)) break;
    if (smaller[i] == 1)
      tni_cf_note(cf, "%d rows of %lld columns", ROWS, (long long)N);
    else if (is_too_much(cf, &e, mb, smaller[i])) {
      tni_cf_skip(cf, "more than its first and last columns is computed");
      break;
    }
  }
  tni_cf_host_close(cf, &h);
}

static void ask_elements(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  uint32_t taken = 0, asked = 0;
  (void)arg;
  if (!CAN_ASK) {
    tni_cf_skip(cf, "a build with a sanitizer");
    return;
  }
  if (!tni_cf_host_open(cf, &h, &(tni_cf_ask){.huge = true})) return;
  for (size_t k = 0; k < sizeof long_ones / sizeof *long_ones && cf->verdict == TNI_CF_PASS; k++) {
    tni_cf_rig rig;
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    const tni_cf_graph_row row = {.name = "ends", .spec = long_ones[k].spec};
    if (tni_cf_rig_claim(&rig, &h, &row, TN_PHASE_PREFILL, &r) && !rig.d.chunk) {
      taken++;
      if (tni_cf_drive_lower(&rig.d))
        asked += (uint32_t)ask_one(cf, &rig, row.spec.op, long_ones[k].width, long_ones[k].batch);
      else
        tni_cf_fail(cf, "%s: %s", row.spec.op, rig.d.why);
    }
    tni_cf_rig_finish(&rig);
  }
  if (!taken && cf->verdict == TNI_CF_PASS)
    tni_cf_skip(cf, "it takes none of %zu operators for so many rows", sizeof long_ones / sizeof *long_ones);
  else if (!asked && cf->verdict == TNI_CF_PASS)
    tni_cf_skip(cf, "more than its first and last parts is computed, its work is cut otherwise, or memory is copied");
  if (asked) tni_cf_note(cf, "%u of %u operators with 2^32 elements and more", asked, taken);
  tni_cf_host_close(cf, &h);
}

void tni_cf_edge_end_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"sizes/elements", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_elements, NULL, 60000});
  add(ctx, &(tni_cf_case){"sizes/columns", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_columns, NULL, 60000});
}
