/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of runtime/quant share.
 */
#ifndef TENON_QUANT_INTERNAL_H
#define TENON_QUANT_INTERNAL_H

#include "runtime/ops/gemm/gemm.h"
#include "runtime/quant/quant.h"

enum { TNI_QUANT_BLOCK = 128, TNI_QUANT_BLOCK_MOST = TNI_QUANT_REFIT, TNI_QUANT_ROWS = 2048 };

/* y [M,N] (dense) = a [M,K] x b [K,N], strides in elements. */
typedef struct tni_quant_product {
  int64_t M, N, K;
  const float *a, *b;
  int64_t a_row, a_col, b_row, b_col;
  float *y;
} tni_quant_product;
/* scratch: tni_gemm_scratch of f32 for the run's workers. TN_E_CANCELLED: y is undefined. */
TN_MUST_CHECK tn_status tni_quant_multiply(const tni_quant_product *p, void *scratch, tn_run *run);
void *tni_quant_scratch(const tn_run *run);

/* u [K,K] becomes U, upper, with u^-1 = U^T U, from symmetric u. TN_E_INVALID: it is not positive definite. */
TN_MUST_CHECK tn_status tni_quant_factor(float *u, int64_t K, void *scratch, tn_run *run, tn_error *err);

/* The scale, zero and step of one group. */
typedef struct tni_quant_fit {
  float scale, zero;
  uint32_t step;
} tni_quant_fit;
/* The scale that the grid holds next to s; a fit's scale and step. false: none that is not 0, or of s's sign. */
bool tni_quant_snap(const tni_quant_grid *g, float parent, float s, tni_quant_fit *f);
/* The parent of a row whose largest scale is this. */
float tni_quant_parent(const tni_quant_grid *g, float largest);
float tni_quant_snap_zero(const tni_quant_grid *g, float zero);
/* The value of weight j of a code at scale 1. */
static inline float tni_quant_level(const tni_quant_grid *g, uint32_t code, uint32_t j, float zero) {
  return g->levels ? g->levels[j * g->grid.n_codes + code] : (float)code - zero;
}
/* The code of AFFINE nearest to w. */
static inline uint32_t tni_quant_nearest(const tni_quant_grid *g, float w, const tni_quant_fit *f) {
  const float top = (float)(g->grid.n_codes - 1), t = f->scale ? w / f->scale + f->zero : f->zero;
  const float in = t > 0 ? (t < top ? t : top) : 0; /* NaN: 0 */
  return (uint32_t)(in + 12582912.f - 12582912.f);  /* half to even */
}

/* What is compiled once per instruction set. */
typedef struct tni_quant_rows tni_quant_rows;
typedef struct tni_quant_loops {
  const char *name;
  /* The fit that leaves least sum of wt (w - value)^2 among those tried; n a group or what is left of one. parent: of
   * the row, where scales are steps; below 0: they are free. err: that sum, or NULL. */
  tni_quant_fit (*fit_group)(const tni_quant_grid *g, float parent, const float *w, const float *wt, int64_t n,
                             double *err);
  tn_status (*gptq)(tni_quant_rows *s);
  tn_status (*descend)(tni_quant_rows *s);
} tni_quant_loops;
/* Those of this processor, the best first; NULL past the last. */
const tni_quant_loops *tni_quant_loops_variant(uint32_t index);
/* tni_quant_solve by one of them. */
TN_MUST_CHECK tn_status tni_quant_solve_by(const tni_quant_loops *loops, const tni_quant_task *task,
                                           const tni_quant_codes *out, tn_run *run, tn_error *err);

/* Rows [r0, r1) of a task: 2,048 at most. */
struct tni_quant_rows {
  const tni_quant_task *task;
  const tni_quant_codes *out;
  int64_t r0, r1, block, group, groups;
  const float *w; /* [rows, K]: what q is to be near to */
  const float *u; /* [K, u_row]: U, or (rounding) what of it is in a row's own block: all else is 0 */
  int64_t u_row;
  float *e;       /* [rows, K]: errors over U's diagonal, then q - w */
  float *y;       /* [rows, block] */
  float *weights; /* [K]: of columns in searches: the diagonal of h */
  float *pivots;  /* [K]: 1 / U[k,k]^2 */
  float unit;     /* 1 / the mean diagonal of the task's moments, or 0 */
  int64_t b0, b1; /* the block's columns */
  void *scratch;
  tn_run *run;
  const tni_quant_loops *loops;
  bool refit;
};
/* Row k of U, from the block's first column on. */
static inline const float *tni_quant_u(const tni_quant_rows *s, int64_t k) {
  return s->u + k * s->u_row + (s->task->h ? s->b0 : 0);
}
/* In r's group of column k. */
static inline tni_quant_fit tni_quant_fit_at(const tni_quant_rows *s, int64_t r, int64_t k) {
  const int64_t at = r * s->groups + k / s->group;
  return (tni_quant_fit){.scale = s->out->scales[at],
                         .zero = s->out->zeros ? s->out->zeros[at] : 0,
                         .step = s->out->steps ? s->out->steps[at] : 0};
}
static inline void tni_quant_fit_put(const tni_quant_rows *s, int64_t r, int64_t k, const tni_quant_fit *f) {
  const int64_t at = r * s->groups + k / s->group;
  s->out->scales[at] = f->scale;
  if (s->out->zeros) s->out->zeros[at] = f->zero;
  if (s->out->steps) s->out->steps[at] = (uint8_t)f->step;
}
static inline float tni_quant_parent_of(const tni_quant_rows *s, int64_t r) {
  return s->out->parents ? s->out->parents[r] : -1.f;
}

#endif
