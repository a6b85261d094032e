/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks on the host's pool. Nothing is allocated; what a worker needs beyond scratch is on its stack.
 */
#include <string.h>

#include "plugins/cpu-avx2-lut/match.h"
#include "plugins/cpu-avx2-lut/program.h"

enum {
  BLOCK = TNI_W4G_ROWS,
  GEMM_ROWS = 96,      /* rows of x per unit: sums of 6 KiB, panels used by 16 tiles */
  GRAIN_BYTES = 32768, /* weights that are worth a fork */
  GRAIN_MACS = 200000,
  FLOAT_ROWS = 48,
  FLOAT_COLUMNS = 64
};

typedef struct packed_run {
  const tn_plan *plan;
  const tn_args *args;
  tn_run *run;
  const float *x;
  const uint8_t *w;
  tni_x86_act act;
} packed_run;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static bool cancelled(const tn_run *run) { return run->cancelled && run->cancelled(run); }

static void quantize_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const packed_run *r = arg;
  const tni_w4g_geometry *g = &r->plan->task->geo;
  (void)worker;
  for (int64_t m = begin; m < end && !cancelled(r->run); m++) {
    size_t i = (size_t)m;
    r->plan->quant(r->x + m * g->K, (size_t)g->K, (size_t)g->K_padded, r->act.q + i * r->act.q_stride,
                   r->act.scale + i * r->act.n_groups, r->act.zero + i * r->act.n_subs);
  }
}

/* y = alpha * acc + beta * bias over n columns. A raw bias may lie at any address of a mapped file. */
static void store_row(const tni_cal_part *part, const char *bias, const float *acc, int64_t n, float *y) {
  for (int64_t i = 0; i < n; i++) {
    float v = part->alpha == 1.0f ? acc[i] : part->alpha * acc[i], c;
    if (bias) {
      memcpy(&c, bias + (part->bias_scalar ? 0 : i) * (int64_t)sizeof c, sizeof c);
      v = v + (part->beta == 1.0f ? c : part->beta * c);
    }
    y[i] = v;
  }
}

/* The 16 outputs from column n on, rows [m0, m1), go to the parts that they belong to. */
static void store_block(const packed_run *r, int64_t n, int64_t m0, int64_t m1, const float *acc) {
  const tni_cal_task *t = r->plan->task;
  for (uint32_t i = 0; i < t->n_parts; i++) {
    const tni_cal_part *part = &t->parts[i];
    int64_t a = max64(n, part->n0), b = min64(n + BLOCK, part->n0 + part->N);
    if (a >= b) continue;
    float *y = r->args->ptr[part->y_use];
    const char *bias = part->bias_use == TN_NONE ? NULL : r->args->ptr[part->bias_use];
    if (bias && !part->bias_scalar) bias += (a - part->n0) * (int64_t)sizeof(float);
    for (int64_t m = m0; m < m1; m++)
      store_row(part, bias, acc + (m - m0) * BLOCK + (a - n), b - a, y + m * part->N + (a - part->n0));
  }
}

static void gemv_blocks(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const packed_run *r = arg;
  const tni_w4g_geometry *g = &r->plan->task->geo;
  _Alignas(64) float acc[BLOCK];
  (void)worker;
  for (int64_t b = begin; b < end && !cancelled(r->run); b++) {
    r->plan->gemv(r->w + b * g->row_block_bytes, (size_t)g->superblocks, &r->act, acc);
    store_block(r, b * BLOCK, 0, 1, acc);
  }
}

static void gemm_blocks(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const packed_run *r = arg;
  const tni_w4g_geometry *g = &r->plan->task->geo;
  _Alignas(64) float acc[GEMM_ROWS * BLOCK];
  (void)worker;
  for (int64_t u = begin; u < end && !cancelled(r->run); u++) {
    int64_t b = u % g->row_blocks, m0 = u / g->row_blocks * GEMM_ROWS, m1 = min64(m0 + GEMM_ROWS, r->plan->M);
    r->plan->gemm(r->w + b * g->row_block_bytes, (size_t)g->superblocks, &r->act, (size_t)m0, (size_t)m1, acc);
    store_block(r, b * BLOCK, m0, m1, acc);
  }
}

static tn_status run_packed(const tn_plan *plan, const tn_args *a, tn_run *run) {
  const tni_w4g_geometry *g = &plan->task->geo;
  if (plan->M == 0) return TN_OK;
  char *scratch = a->ptr[a->n - 1];
  packed_run r = {.plan = plan, .args = a, .run = run, .x = a->ptr[0], .w = a->ptr[plan->task->w_use]};
  r.act = (tni_x86_act){.q = (int8_t *)scratch,
                        .scale = (float *)(void *)(scratch + plan->scale_at),
                        .zero = (int32_t *)(void *)(scratch + plan->zero_at),
                        .q_stride = plan->q_stride,
                        .n_groups = (size_t)g->superblocks * 2,
                        .n_subs = (size_t)(g->K_padded / (g->group == 32 ? 32 : 64))};
  if (plan->M == 1)
    quantize_rows(&r, 0, 1, 0);
  else
    run->parallel_for(run, plan->M, max64(1, GRAIN_BYTES / g->K_padded), quantize_rows, &r);
  if (cancelled(run)) return TN_E_CANCELLED;
  if (plan->M == 1) {
    run->parallel_for(run, g->row_blocks, max64(1, GRAIN_BYTES / g->row_block_bytes), gemv_blocks, &r);
  } else {
    /* Blocks of weights run fastest: they are small beside 96 rows of x, which then stay in L2. */
    int64_t row_units = (plan->M + GEMM_ROWS - 1) / GEMM_ROWS;
    int64_t macs = min64(plan->M, GEMM_ROWS) * BLOCK * g->K_padded;
    run->parallel_for(run, g->row_blocks * row_units, max64(1, GRAIN_MACS / macs), gemm_blocks, &r);
  }
  return cancelled(run) ? TN_E_CANCELLED : TN_OK;
}

typedef struct float_run {
  const tn_plan *plan;
  tn_run *run;
  const tni_cal_part *part;
  const float *x, *w;
  const char *bias; /* NULL: none */
  float *y, *turned;
  int64_t row_units, column_units;
} float_run;

/* Element offsets of the operands of product i of the batch. */
static void batch_offsets(const tni_cal_batch *b, int64_t i, int64_t *x, int64_t *w) {
  *x = *w = 0;
  for (uint32_t d = b->rank; d-- > 0;) {
    int64_t at = i % b->dims[d];
    i /= b->dims[d];
    *x += at * b->x_step[d];
    *w += at * b->w_step[d];
  }
}

static void float_blocks(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const float_run *r = arg;
  const tni_cal_batch *b = &r->plan->batch;
  int64_t per_product = r->row_units * r->column_units;
  (void)worker;
  for (int64_t u = begin; u < end && !cancelled(r->run); u++) {
    int64_t i = u / per_product, m = u % per_product / r->column_units * FLOAT_ROWS;
    int64_t n = u % r->column_units * FLOAT_COLUMNS, x, w;
    batch_offsets(b, i, &x, &w);
    tni_x86_matmul p = {.a = r->x + x + m * b->K,
                        .b = r->w + w + n,
                        .c = r->y + (i * b->M + m) * b->N + n,
                        .lda = (size_t)b->K,
                        .ldb = (size_t)b->N,
                        .ldc = (size_t)b->N,
                        .M = (size_t)min64(FLOAT_ROWS, b->M - m),
                        .N = (size_t)min64(FLOAT_COLUMNS, b->N - n),
                        .K = (size_t)b->K};
    r->plan->matmul(&p);
    if (r->part->alpha == 1.0f && !r->bias) continue;
    const char *bias = r->bias && !r->part->bias_scalar ? r->bias + n * (int64_t)sizeof(float) : r->bias;
    for (size_t row = 0; row < p.M; row++) store_row(r->part, bias, p.c + row * p.ldc, (int64_t)p.N, p.c + row * p.ldc);
  }
}

/* Columns [begin, end) of w as it lies, [N,K], become rows of [K,N]. */
static void turn_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const float_run *r = arg;
  int64_t N = r->plan->batch.N, K = r->plan->batch.K;
  (void)worker;
  for (int64_t k = begin; k < end; k++)
    for (int64_t n = 0; n < N; n++) memcpy(r->turned + k * N + n, (const char *)r->w + (n * K + k) * 4, 4);
}

static tn_status run_float(const tn_plan *plan, const tn_args *a, tn_run *run) {
  const tni_cal_batch *b = &plan->batch;
  const tni_cal_task *t = plan->task;
  const tni_cal_part *part = t->parts;
  if (b->M == 0 || b->N == 0 || b->count == 0) return TN_OK;
  float_run r = {.plan = plan,
                 .run = run,
                 .part = part,
                 .x = a->ptr[0],
                 .w = a->ptr[t->w_use],
                 .bias = part->bias_use == TN_NONE ? NULL : a->ptr[part->bias_use],
                 .y = a->ptr[part->y_use],
                 .turned = a->ptr[a->n - 1]};
  if (b->K == 0) { /* empty sums; the operands may have no address */
    memset(r.y, 0, (size_t)(b->M * b->N * b->count) * sizeof(float));
    for (int64_t m = 0; m < b->M * b->count && r.bias; m++)
      store_row(part, r.bias, r.y + m * b->N, b->N, r.y + m * b->N);
    return TN_OK;
  }
  if (t->trans_b) {
    run->parallel_for(run, b->K, max64(1, GRAIN_BYTES / b->N), turn_rows, &r);
    r.w = r.turned;
  }
  r.row_units = (b->M + FLOAT_ROWS - 1) / FLOAT_ROWS;
  r.column_units = (b->N + FLOAT_COLUMNS - 1) / FLOAT_COLUMNS;
  int64_t macs = min64(b->M, FLOAT_ROWS) * min64(b->N, FLOAT_COLUMNS) * b->K;
  run->parallel_for(run, b->count * r.row_units * r.column_units, max64(1, GRAIN_MACS / macs), float_blocks, &r);
  return cancelled(run) ? TN_E_CANCELLED : TN_OK;
}

tn_status tni_cal_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err) {
  tn_status st = plan->task->kind == TNI_CAL_PACKED ? run_packed(plan, a, run) : run_float(plan, a, run);
  return st == TN_OK ? st : tni_cm_fail(err, st, plan->task->pub.name, "cancelled");
}
