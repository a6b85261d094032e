/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs, plans and arguments. A program owns copies of everything it says; of the graph it keeps the head, whose ctx
 * is what the host's eval needs. A plan is one task with its dims, immutable. Args hold the pointers.
 */
#ifndef TENON_CPU_AVX2_PROGRAM_H
#define TENON_CPU_AVX2_PROGRAM_H

#include "plugins/common/w4g.h"
#include "plugins/cpu-avx2-lut/device.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

/* One product's share of a task: columns [n0, n0 + N) of the joined matrix. FLOAT tasks have one, n0 and N unused. */
typedef struct tni_cal_part {
  int64_t n0, N;
  uint32_t y_use, bias_use; /* indices into the task's uses; bias_use TN_NONE: none */
  bool bias_scalar;
  float alpha, beta;
} tni_cal_part;

/* A value's dims, copied. */
typedef struct tni_cal_dims {
  const tn_expr *e;
  uint32_t rank;
} tni_cal_dims;

typedef struct tni_cal_task {
  tn_task pub;   /* first. uses: x first, then w (the same where they are one value), outputs and biases */
  uint32_t kind; /* TNI_CAL_PACKED or FLOAT */
  uint32_t n_parts, w_use;
  bool trans_b; /* FLOAT: w is [N,K], transposed into scratch by each run */
  tni_cal_part *parts;
  tni_w4g_geometry geo; /* PACKED: of the joined matrix */
  tni_cal_dims x, w;    /* dims of x; FLOAT: of w too */
} tni_cal_task;

typedef struct tni_cal_slot {
  tn_slot pub;       /* first */
  tni_cal_dims dims; /* of its value */
  tn_id writer;      /* task of this program that writes it, or TN_NONE */
  const void *ptr;   /* WEIGHT: what set() gave */
  uint64_t bytes;
} tni_cal_slot;

struct tn_program {
  tni_cm_mem mem;
  const tni_cal_device *device;
  tn_graph graph; /* h, ctx and counts of the graph it was lowered from */
  tn_program_info info;
  tn_need **needs;
  tni_cal_slot **slots;
  tni_cal_task **tasks;
};

/* Product with broadcasting, for concrete dims. */
typedef struct tni_cal_batch {
  int64_t M, N, K, count;
  uint32_t rank;
  int64_t dims[TN_MAX_RANK], x_step[TN_MAX_RANK], w_step[TN_MAX_RANK]; /* steps in elements; 0: broadcast */
} tni_cal_batch;

struct tn_plan {
  const tn_program *program;
  const tni_cal_task *task;
  int64_t M;           /* PACKED: rows */
  tni_cal_batch batch; /* FLOAT */
  uint64_t scratch_bytes;
  size_t q_stride, scale_at, zero_at; /* scratch layout: codes, then scales, then zero words */
  tni_x86_quant_fn quant;
  tni_x86_gemv_fn gemv;
  tni_x86_gemm_fn gemm;
  tni_x86_matmul_fn matmul;
};

struct tn_args {
  const tn_plan *plan;
  uint32_t n;  /* uses + scratch */
  void *ptr[]; /* [n] */
};

/* Scratch of a packed task for M rows; TN_E_LIMIT on overflow. Any pointer may be NULL. */
TN_MUST_CHECK tn_status tni_cal_scratch(const tni_w4g_geometry *g, int64_t M, uint64_t *bytes, size_t *q_stride,
                                        size_t *scale_at, size_t *zero_at);
/* Dims of a float task. TN_E_INVALID where they do not fit each other. */
TN_MUST_CHECK tn_status tni_cal_batch_of(const tn_program *p, const tni_cal_task *t, const tn_dims *dims,
                                         tni_cal_batch *out);

#endif
