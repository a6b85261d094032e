/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches of a task for concrete dims: what the files that make them share. A tni_cx lives for one tni_cl_expand; what
 * fails first stands in st, and everything after it is to do nothing that matters.
 */
#ifndef TENON_COMMON_OPENCL_CLEXPAND_H
#define TENON_COMMON_OPENCL_CLEXPAND_H

#include "plugins/common/opencl/clprog.h"

enum { MAX_TEMPS = 2, TEMP_Y = 0, TEMP_X = 1 };

/* Memory with dims: strides in elements. */
typedef struct tni_cx_view {
  tni_cl_place place;
  uint32_t type, rank;
  int64_t dims[TN_MAX_RANK], strides[TN_MAX_RANK];
} tni_cx_view;

typedef struct tni_cx_region {
  uint64_t bytes, offset;
  uint32_t first, last;
} tni_cx_region;

typedef struct tni_cx {
  tn_plan *plan;
  const tn_program *p;
  const tni_cl_task *t;
  tni_cl_device *d;
  tni_cm_mem *mem;
  int64_t (*dims)[TN_MAX_RANK]; /* by value */
  tni_cx_view *views;           /* by value; type 0: not placed */
  tni_cx_region *temps;         /* by operation of the task, MAX_TEMPS each */
  uint64_t *at;                 /* by value: offset in the arena */
  bool compile;
  tn_status st;
  tn_error *err;
} tni_cx;

/* A start along an axis that is read when the kernel runs. */
typedef struct tni_cx_start {
  const tni_cx_view *from; /* int64 */
  int64_t stride, length, taken;
} tni_cx_start;

/* --- clviews.c: memory with dims, launches --- */
/* Keeps the first failure. */
void tni_cx_fail(tni_cx *e, tn_status st, const char *where, const char *what);
uint32_t tni_cx_size_of(uint32_t type);
/* Kernels take int32: TN_E_LIMIT where v does not fit. */
int64_t tni_cx_product(tni_cx *e, const int64_t *dims, uint32_t n);
const tni_cl_value *tni_cx_value_of(const tni_cx *e, tn_id v);
void tni_cx_dense_strides(tni_cx_view *v);
/* The task's use of a slot. */
uint32_t tni_cx_use_of(const tni_cx *e, uint32_t slot);
/* Where a value lies now: its slot, its place in the arena, or a column of a joined product. */
tni_cx_view tni_cx_view_of(const tni_cx *e, tn_id id);
/* True where the last axis lies in rows at one distance. */
bool tni_cx_as_rows(tni_cx *e, const tni_cx_view *v, int64_t *rows, int64_t *pitch);
tni_cx_view tni_cx_rows_view(tni_cl_place place, uint32_t type, int64_t rows, int64_t cols, int64_t pitch);
/* A launch to be filled; NULL without memory. */
tni_cl_launch *tni_cx_add_launch(tni_cx *e, uint32_t kind);
void tni_cx_operand(tni_cl_launch *l, const tni_cx_view *v);
void tni_cx_ints(tni_cx *e, tni_cl_launch *l, const int64_t *v, uint32_t n);
/* The kernel and sizes of a launch that has its operands and ints. */
void tni_cx_finish(tni_cx *e, tni_cl_launch *l, const char *name);
/* A generated kernel: inputs broadcast to the dims of out[0]; s: input 0 begins at a start that is read, or NULL. */
void tni_cx_emit_ew(tni_cx *e, const tni_cm_chain *c, const tni_cx_view *in, const tni_cx_view *out,
                    const tni_cx_start *s);
void tni_cx_emit_copy(tni_cx *e, const tni_cx_view *from, const tni_cx_view *to);
/* --- clproduct.c --- */
/* Memory that one operation has for itself: TEMP_Y joined products, TEMP_X the activation in half. */
tni_cx_region *tni_cx_temp(const tni_cx *e, uint32_t op, uint32_t which);
void tni_cx_size_product(tni_cx *e, const tni_cl_op *o, uint32_t op);
void tni_cx_expand_product(tni_cx *e, const tni_cl_op *o, uint32_t op);
/* --- clops.c --- */
void tni_cx_expand_rotary(tni_cx *e, const tni_cl_op *o);
void tni_cx_expand_append(tni_cx *e, const tni_cl_op *o);
void tni_cx_expand_attention(tni_cx *e, const tni_cl_op *o);
void tni_cx_expand_norm(tni_cx *e, const tni_cl_op *o);
void tni_cx_expand_gather(tni_cx *e, const tni_cl_op *o);
void tni_cx_expand_matmul(tni_cx *e, const tni_cl_op *o);
void tni_cx_expand_ew(tni_cx *e, const tni_cl_op *o);
void tni_cx_expand_slice(tni_cx *e, const tni_cl_op *o);
void tni_cx_expand_heads(tni_cx *e, const tni_cl_op *o);
void tni_cx_expand_pieces(tni_cx *e, const tni_cl_op *o, bool split);

#endif
