/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bytes: units of two row blocks of weights and some rows of a. A kernel gives exact sums of a * code; what
 * zero points take off is added from the sums of the codes (in the blob) and of a's rows (only where b has zero
 * points).
 */
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/integer.h"
#include "plugins/common/formats/formats.h"

enum { BLOCK = TNI_CLT_ROWS, PAIR = 2 * BLOCK, ROWS = 96, UNIT_ROWS = 96, GRAIN_BYTES = 32768, GRAIN_MACS = 400000 };

typedef struct integer_run {
  const tn_plan *plan;
  tn_run *run;
  const uint8_t *a, *w, *zeros_b;
  uint8_t *padded; /* rows of K_padded, where K is none */
  const char *scale, *bias;
  float *y;
  int64_t lda, units, unit_rows;
  int32_t a_zero;
} integer_run;

uint64_t tni_clt_integer_scratch(const tni_clt_task *t, int64_t M) {
  return t->geo.K == t->geo.K_padded ? 0 : (uint64_t)M * (uint64_t)t->geo.K_padded;
}

uint64_t tni_clt_integer_bytes(const tn_plan *plan, uint32_t use) {
  const tni_clt_task *t = plan->task;
  const uint64_t M = (uint64_t)plan->M, N = (uint64_t)t->geo.N;
  if (use == 0) return M * (uint64_t)t->geo.K;
  if (use == t->integer.y) return M * N * sizeof(float);
  if (use == t->integer.scale) return (t->integer.scale_one ? 1 : N) * sizeof(float);
  return use == t->integer.a_zero ? 1 : 0;
}

static float float_at(const char *p, int64_t i) {
  float v;
  memcpy(&v, p + i * (int64_t)sizeof v, sizeof v);
  return v;
}

static void pad_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const integer_run *r = arg;
  const tni_clt_geometry *g = &r->plan->task->geo;
  (void)worker;
  for (int64_t m = begin; m < end; m++) {
    memcpy(r->padded + m * g->K_padded, r->a + m * g->K, (size_t)g->K);
    memset(r->padded + m * g->K_padded + g->K, 0, (size_t)(g->K_padded - g->K));
  }
}

/* What is added to column n's sums but for a's row: -a_zero * sum(codes) + K * a_zero * zero; *zero: of the codes. */
static uint32_t column_offset(const integer_run *r, int64_t n, int32_t sum, int32_t *zero) {
  const tni_clt_task *t = r->plan->task;
  const tni_clt_integer *i = &t->integer;
  *zero = -i->offset;
  if (r->zeros_b) {
    const uint8_t z = r->zeros_b[i->b_zero_one ? 0 : n];
    *zero += i->offset ? (int32_t)z : (int32_t)(int8_t)z;
  }
  return (uint32_t)r->a_zero * ((uint32_t)t->geo.K * (uint32_t)*zero - (uint32_t)sum);
}

static uint32_t row_sum(const uint8_t *a, int64_t K) {
  uint32_t s = 0;
  for (int64_t k = 0; k < K; k++) s += a[k];
  return s;
}

/* All columns, codes without zero points: a loop of known length that compilers turn into vectors. */
static void finish_row(const int32_t *restrict s, const uint32_t *restrict offset, const float *restrict scale,
                       float *restrict y) {
  for (int c = 0; c < PAIR; c++) y[c] = (float)(int32_t)((uint32_t)s[c] + offset[c]) * scale[c];
}

/* Rows [m0, m0 + rows) of the pair of blocks at column n0, whose sums are acc. */
static void finish_rows(const integer_run *r, int64_t m0, int64_t rows, int64_t n0, const int32_t *acc,
                        const uint8_t *const *blocks) {
  const tni_clt_geometry *g = &r->plan->task->geo;
  const tni_clt_integer *t = &r->plan->task->integer;
  const int64_t columns = tni_cm_min(PAIR, g->N - n0);
  uint32_t offset[PAIR];
  int32_t zero[PAIR], any = 0;
  float scale[PAIR], bias[PAIR];
  for (int64_t c = 0; c < columns; c++) {
    int32_t sum;
    memcpy(&sum, blocks[c / BLOCK] + g->K_padded * BLOCK + c % BLOCK * 4, sizeof sum);
    offset[c] = column_offset(r, n0 + c, sum, &zero[c]);
    any |= zero[c];
    scale[c] = float_at(r->scale, t->scale_one ? 0 : n0 + c);
    bias[c] = r->bias ? float_at(r->bias, n0 + c) : 0;
  }
  for (int64_t m = 0; m < rows; m++) {
    const int32_t *s = acc + m * PAIR;
    float *y = r->y + (m0 + m) * g->N + n0;
    const uint32_t sum_a = any ? row_sum(r->a + (m0 + m) * r->lda, g->K) : 0;
    const bool plain = !any && columns == PAIR;
    if (plain) finish_row(s, offset, scale, y);
    for (int64_t c = 0; !plain && c < columns; c++) {
      const int32_t v = (int32_t)((uint32_t)s[c] + offset[c] - (uint32_t)zero[c] * sum_a);
      y[c] = (float)v * scale[c];
    }
    for (int64_t c = 0; r->bias && c < columns; c++) y[c] = y[c] + bias[c];
  }
}

/* Weights come from memory while the pair before them is used: a share of the pair after column n0's for `rows` of
 * `of` rows, the first of which have had theirs. */
static tni_clt_next next_share(const integer_run *r, int64_t n0, int64_t before, int64_t rows, int64_t of) {
  const tni_clt_geometry *g = &r->plan->task->geo;
  const int64_t n1 = n0 + PAIR < g->N ? n0 + PAIR : 0, bytes = (n1 + BLOCK < g->N ? 2 : 1) * g->row_block_bytes;
  const int64_t from = bytes * before / of;
  return (tni_clt_next){r->w + n1 / BLOCK * g->row_block_bytes + from, (size_t)(bytes * (before + rows) / of - from)};
}

/* Lines of y that are written after a kernel are asked for before it. */
static void fetch_rows(const integer_run *r, int64_t m0, int64_t rows, int64_t n0) {
  const int64_t N = r->plan->task->geo.N, columns = tni_cm_min(PAIR, N - n0);
  for (int64_t m = m0; m < m0 + rows; m++)
    for (int64_t c = 0; c < columns; c += 16) __builtin_prefetch(r->y + m * N + n0 + c, 1);
}

static void integer_units(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const integer_run *r = arg;
  const tni_clt_geometry *g = &r->plan->task->geo;
  const int64_t pairs = (g->N + PAIR - 1) / PAIR;
  int32_t acc[ROWS * PAIR];
  (void)worker;
  for (int64_t u = begin; u < end && !tni_cm_cancelled(r->run); u++) {
    const int64_t n0 = u % pairs * PAIR, m1 = tni_cm_min(r->plan->M, (u / pairs + 1) * r->unit_rows);
    const uint8_t *blocks[2] = {r->w + n0 / BLOCK * g->row_block_bytes, NULL};
    blocks[1] = n0 + BLOCK < g->N ? blocks[0] + g->row_block_bytes : blocks[0];
    const int64_t m0 = u / pairs * r->unit_rows;
    for (int64_t m = m0; m < m1; m += ROWS) {
      const int64_t rows = tni_cm_min(ROWS, m1 - m);
      const tni_clt_next next = next_share(r, n0, m - m0, rows, m1 - m0);
      fetch_rows(r, m, rows, n0);
      r->plan->bytes(blocks, (size_t)g->K_padded / 4, r->a + m * r->lda, (size_t)r->lda, (size_t)rows, &next, acc);
      finish_rows(r, m, rows, n0, acc, blocks);
    }
  }
}

tn_status tni_clt_run_integer(const tn_plan *plan, const tn_args *args, tn_run *run) {
  const tni_clt_task *t = plan->task;
  const tni_clt_geometry *g = &t->geo;
  const tni_clt_integer *i = &t->integer;
  if (plan->M == 0) return TN_OK;
  integer_run r = {.plan = plan,
                   .run = run,
                   .a = args->ptr[0],
                   .w = args->ptr[t->w_use],
                   .zeros_b = i->b_zero == TN_NONE ? NULL : args->ptr[i->b_zero],
                   .padded = args->ptr[args->n - 1],
                   .scale = args->ptr[i->scale],
                   .bias = i->bias == TN_NONE ? NULL : args->ptr[i->bias],
                   .y = args->ptr[i->y],
                   .lda = g->K_padded,
                   .a_zero = i->a_zero == TN_NONE ? 0 : *(const uint8_t *)args->ptr[i->a_zero]};
  if (g->K != g->K_padded) {
    run->parallel_for(run, plan->M, tni_cm_max(1, GRAIN_BYTES / g->K), pad_rows, &r);
    r.a = r.padded;
  }
  r.unit_rows = UNIT_ROWS;
  const int64_t rows = tni_cm_min(plan->M, UNIT_ROWS), pairs = (g->N + PAIR - 1) / PAIR;
  r.units = pairs * ((plan->M + UNIT_ROWS - 1) / UNIT_ROWS);
  const int64_t grain = tni_cm_max(1, GRAIN_MACS / (rows * PAIR * g->K_padded));
  run->parallel_for(run, r.units, plan->M == 1 ? tni_cm_max(1, GRAIN_BYTES / (PAIR * g->K_padded)) : grain,
                    integer_units, &r);
  return tni_cm_cancelled(run) ? TN_E_CANCELLED : TN_OK;
}
