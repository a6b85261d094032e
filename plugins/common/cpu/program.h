/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs, plans and arguments. A program owns copies of everything it says; of the graph it keeps the head, whose ctx
 * is what the host's eval needs. A plan is one task with its dims, immutable. Args hold the pointers.
 */
#ifndef TENON_COMMON_CPU_PROGRAM_H
#define TENON_COMMON_CPU_PROGRAM_H

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/backend.h"
#include "plugins/common/cpu/kernels/kernels.h"

/* What a chain reads beside products: `number` itself, or a use times `number`. */
typedef struct tni_clt_operand {
  uint32_t kind, use; /* TNI_CM_NUMBER ..; index into the task's uses */
  float number;
} tni_clt_operand;

/* Products of one width and the chain after them (chain.h): units of 16 columns, the same of every product. */
typedef struct tni_clt_strip {
  int64_t N, first_unit, n_units;
  int64_t n0[TN_FUSED_MAX_PARTS];            /* of product i of prog: its first column in the joined matrix */
  tni_clt_operand load[TN_CHAIN_MAX_INPUTS]; /* of prog.loads */
  uint32_t store[TNI_CM_MAX_RESULTS];        /* of prog.stores: uses; TN_NONE: not wanted */
  tni_cm_strip prog;
} tni_clt_strip;

/* FLOAT: y = alpha * product + beta * bias. */
typedef struct tni_clt_affine {
  int64_t N;
  uint32_t y_use, bias_use; /* indices into the task's uses; bias_use TN_NONE: none */
  bool bias_scalar;
  float alpha, beta;
} tni_clt_affine;

/* A value's dims, copied. */
typedef struct tni_clt_dims {
  const tn_expr *e;
  uint32_t rank;
} tni_clt_dims;

/* An integer product: uses of the task, TN_NONE where there is none. */
typedef struct tni_clt_integer {
  uint32_t scale, a_zero, b_zero, bias, y;
  int32_t offset; /* that the codes lack of b */
  bool scale_one, b_zero_one;
} tni_clt_integer;

typedef struct tni_clt_task {
  tn_task pub;   /* first. uses: x first, then w (the same where they are one value), outputs and operands */
  uint32_t kind; /* TNI_CLT_PACKED, FLOAT or INTEGER */
  uint32_t w_use;
  /* PACKED */
  uint32_t n_strips, n_tiles; /* tiles: of the largest strip */
  /* Most products of a strip where some begin within 16 columns of the joined matrix: their units meet two blocks. */
  uint32_t n_split;
  int64_t n_units;
  tni_clt_strip **strips;
  tni_clt_geometry geo; /* of the joined matrix */
  /* FLOAT */
  bool trans_b; /* w is [N,K], transposed into scratch by each run */
  tni_clt_affine affine;
  tni_clt_integer integer;
  tni_clt_dims x, w; /* dims of x; FLOAT: of w too */
} tni_clt_task;

typedef struct tni_clt_slot {
  tn_slot pub;       /* first */
  tni_clt_dims dims; /* of its value */
  const void *ptr;   /* WEIGHT: what set() gave */
  uint64_t bytes;
} tni_clt_slot;

struct tn_program {
  tni_cm_mem mem;
  const tni_clt_device *device;
  tn_graph graph; /* h, ctx and counts of the graph it was lowered from */
  tn_program_info info;
  tn_need **needs;
  tn_slot **slots; /* of tni_clt_slot */
  tni_clt_task **tasks;
};

static inline tni_clt_slot *tni_clt_slot_of(const tn_program *p, tn_id slot) { return (tni_clt_slot *)p->slots[slot]; }

/* Product with broadcasting, for concrete dims. */
typedef struct tni_clt_batch {
  int64_t M, N, K, count;
  uint32_t rank;
  int64_t dims[TN_MAX_RANK], x_step[TN_MAX_RANK], w_step[TN_MAX_RANK]; /* steps in elements; 0: broadcast */
} tni_clt_batch;

/* Most units of one row in a tile. Rows of a unit: as many as UNIT_BYTES of codes are, within these bounds; weights are
 * unpacked once for all of them. Multiples of STEP are whole tiles of every kernel. */
enum {
  TNI_CLT_GEMV_ROWS = 3, /* so many rows go one by one where GEMV reads the layout that they have */
  TNI_CLT_RUN_UNITS = 8,
  TNI_CLT_UNIT_BYTES = 512 << 10,
  TNI_CLT_LEAST_ROWS = 96,
  TNI_CLT_MOST_ROWS = 240,
  TNI_CLT_STEP_ROWS = 48
};

/* Layout of a packed task's scratch: codes, scales, zero words, scales of rows, then each worker's tiles. */
typedef struct tni_clt_room {
  uint64_t bytes;
  size_t scale_at, zero_at, rows_at, tiles_at, worker_bytes, tile_floats;
  tni_clt_act_room act;
} tni_clt_room;

struct tn_plan {
  const tn_program *program;
  const tni_clt_task *task;
  int64_t M;           /* PACKED, INTEGER: rows */
  int64_t unit_rows;   /* PACKED: of these, in one unit */
  bool row_by_row;     /* PACKED: several rows by gemv */
  tni_clt_batch batch; /* FLOAT */
  uint64_t scratch_bytes;
  tni_clt_room room; /* PACKED */
  tni_clt_quant_fn quant;
  tni_clt_gemv_fn gemv;
  tni_clt_gemm_fn gemm;
  tni_clt_gemm2_fn gemm2; /* may be NULL */
  const tni_cm_chain_kernels *chain;
  tni_clt_matmul_fn matmul;
  tni_clt_bytes_fn bytes; /* INTEGER */
};

struct tn_args {
  const tn_plan *plan;
  uint32_t n;  /* uses + scratch */
  void *ptr[]; /* [n] */
};

/* Rows of one unit of M. */
int64_t tni_clt_unit_rows(const tni_clt_geometry *g, int64_t M);
/* Runs a PACKED task (run_packed.c). TN_E_CANCELLED is its only failure. */
TN_MUST_CHECK tn_status tni_clt_run_packed(const tn_plan *plan, const tn_args *a, tn_run *run);

#endif
