/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks on the host's pool: products in f32. Nothing is allocated.
 */
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/integer.h"
#include "plugins/common/cpu/match.h"
#include "plugins/common/cpu/program.h"

enum { GRAIN_BYTES = 32768, GRAIN_MACS = 200000, FLOAT_ROWS = 48, FLOAT_COLUMNS = 64 };

/* y = alpha * acc + beta * bias over n columns. A raw bias may lie at any address of a mapped file. */
static void store_row(const tni_clt_affine *f, const char *bias, const float *acc, int64_t n, float *y) {
  for (int64_t i = 0; i < n; i++) {
    float v = f->alpha == 1.0f ? acc[i] : f->alpha * acc[i], c;
    if (bias) {
      memcpy(&c, bias + (f->bias_scalar ? 0 : i) * (int64_t)sizeof c, sizeof c);
      v = v + (f->beta == 1.0f ? c : f->beta * c);
    }
    y[i] = v;
  }
}

typedef struct float_run {
  const tn_plan *plan;
  tn_run *run;
  const tni_clt_affine *affine;
  const float *x, *w;
  const char *bias; /* NULL: none */
  float *y, *turned;
  int64_t row_units, column_units;
} float_run;

/* Element offsets of the operands of product i of the batch. */
static void batch_offsets(const tni_clt_batch *b, int64_t i, int64_t *x, int64_t *w) {
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
  const tni_clt_batch *b = &r->plan->batch;
  int64_t per_product = r->row_units * r->column_units;
  (void)worker;
  for (int64_t u = begin; u < end && !tni_cm_cancelled(r->run); u++) {
    int64_t i = u / per_product, m = u % per_product / r->column_units * FLOAT_ROWS;
    int64_t n = u % r->column_units * FLOAT_COLUMNS, x, w;
    batch_offsets(b, i, &x, &w);
    tni_clt_matmul p = {.a = r->x + x + m * b->K,
                        .b = r->w + w + n,
                        .c = r->y + (i * b->M + m) * b->N + n,
                        .lda = (size_t)b->K,
                        .ldb = (size_t)b->N,
                        .ldc = (size_t)b->N,
                        .M = (size_t)tni_cm_min(FLOAT_ROWS, b->M - m),
                        .N = (size_t)tni_cm_min(FLOAT_COLUMNS, b->N - n),
                        .K = (size_t)b->K};
    r->plan->matmul(&p);
    if (r->affine->alpha == 1.0f && !r->bias) continue;
    const char *bias = r->bias && !r->affine->bias_scalar ? r->bias + n * (int64_t)sizeof(float) : r->bias;
    for (size_t row = 0; row < p.M; row++)
      store_row(r->affine, bias, p.c + row * p.ldc, (int64_t)p.N, p.c + row * p.ldc);
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
  const tni_clt_batch *b = &plan->batch;
  const tni_clt_task *t = plan->task;
  const tni_clt_affine *f = &t->affine;
  if (b->M == 0 || b->N == 0 || b->count == 0) return TN_OK;
  float_run r = {.plan = plan,
                 .run = run,
                 .affine = f,
                 .x = a->ptr[0],
                 .w = a->ptr[t->w_use],
                 .bias = f->bias_use == TN_NONE ? NULL : a->ptr[f->bias_use],
                 .y = a->ptr[f->y_use],
                 .turned = a->ptr[a->n - 1]};
  if (b->K == 0) { /* empty sums; the operands may have no address */
    memset(r.y, 0, (size_t)(b->M * b->N * b->count) * sizeof(float));
    for (int64_t m = 0; m < b->M * b->count && r.bias; m++) store_row(f, r.bias, r.y + m * b->N, b->N, r.y + m * b->N);
    return TN_OK;
  }
  if (t->trans_b) {
    run->parallel_for(run, b->K, tni_cm_max(1, GRAIN_BYTES / b->N), turn_rows, &r);
    r.w = r.turned;
  }
  r.row_units = (b->M + FLOAT_ROWS - 1) / FLOAT_ROWS;
  r.column_units = (b->N + FLOAT_COLUMNS - 1) / FLOAT_COLUMNS;
  int64_t macs = tni_cm_min(b->M, FLOAT_ROWS) * tni_cm_min(b->N, FLOAT_COLUMNS) * b->K;
  run->parallel_for(run, b->count * r.row_units * r.column_units, tni_cm_max(1, GRAIN_MACS / macs), float_blocks, &r);
  return tni_cm_cancelled(run) ? TN_E_CANCELLED : TN_OK;
}

tn_status tni_clt_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err) {
  tn_status st = plan->task->kind == TNI_CLT_PACKED    ? tni_clt_run_packed(plan, a, run)
                 : plan->task->kind == TNI_CLT_INTEGER ? tni_clt_run_integer(plan, a, run)
                                                       : run_float(plan, a, run);
  return st == TN_OK ? st : tni_cm_fail(err, st, plan->task->pub.name, "cancelled");
}
