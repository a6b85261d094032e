/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/quant: weights brought onto a grid so that products change least on a calibration text.
 *
 *   moments  H = sum over rows x of the text of x x^T, [K,K]
 *   drift    D = sum of (x' - x) x^T, x' what the unquantized model gives in the place of x; and of other values than x
 *   solve    W [N,K], H, D and a grid give codes, scales, zeros or steps and parents
 *
 * What is made small is the sum over rows of (q - w) (H / mean diagonal + damp I) (q - w)^T. Scales (and zeros) are
 * searched with the diagonal as weights; GPTQ in natural order then carries each column's error to later ones and
 * refits the scale of a block when it comes to it; sweeps of coordinate descent over codes, scales and zeros end it.
 * With D, w moves by w D (H / mean diagonal + damp I)^-1 first, D in H's unit: what is best for x then gives what w
 * gives for x'. (Qronos, arXiv 2505.11695, and GPTAQ, arXiv 2504.02692, have this term.) Where outputs are added to r,
 * which is r' in the unquantized model, w moves by A (H / mean diagonal + damp I)^-1 too, A = sum of (r' - r) x^T in H's
 * unit: a product then makes up for what the sum has lost before it. Rows do not depend on each other, and products
 * keep the order of their sums, so that any number of threads gives the same bytes.
 *
 * Source: Frantar et al., "GPTQ", arXiv 2210.17323; the blocks here look left (a block first takes what all columns
 * before it owe), which needs no copy of W.
 */
#ifndef TENON_QUANT_QUANT_H
#define TENON_QUANT_QUANT_H

#include <tenon/plugin.h>

#include "runtime/base/base.h"

/* Limits of a grid, and of a group whose scale is refitted. */
enum { TNI_QUANT_CODES = 256, TNI_QUANT_VEC = 8, TNI_QUANT_REFIT = 512, TNI_QUANT_VALUES = 16 };

/* A tn_grid with its levels laid out for the solver. */
typedef struct tni_quant_grid {
  tn_grid grid;
  uint32_t vec, n_levels;
  const float
      *levels; /* of LEVELS, [vec, n_codes]: all first weights of codes, then all second ones ...; NULL: AFFINE */
  const float *values;  /* [16]: all that levels hold, or NULL: more, or vec is 1 */
  const int32_t *which; /* [vec, n_codes]: levels[i] is values[which[i]] */
  const float *steps;   /* [n_steps] or NULL */
  uint32_t n_steps;
  float level_max, level_rms; /* of the values of codes at scale 1 and the grid's zero */
  bool signs;                 /* a scale below 0 gives other values than one above */
} tni_quant_grid;

/* Takes g over. TN_E_UNSUPPORTED: levels that the solver would have to choose, zero points of an unknown kind;
 * TN_E_INVALID: more codes or weights per code than the limits. The grid's steps must outlive out; destroy it with
 * finish. */
TN_MUST_CHECK tn_status tni_quant_grid_init(const tn_grid *g, tni_quant_grid *out, tn_error *err);
void tni_quant_grid_finish(tni_quant_grid *g);

/* x [T,K] in f32, row stride K: h [K,K] += x^T x. run lends threads. Where it was cancelled, h is undefined. */
TN_MUST_CHECK tn_status tni_quant_moments(float *h, const float *x, int64_t T, int64_t K, tn_run *run, tn_error *err);

/* Values y of the model and those that the unquantized one has in their place, unquantized [T,M], beside x [T,K], all
 * in f32 and dense: d [M,K] += (unquantized - y)^T x. y may be x. As above. */
typedef struct tni_quant_drifts {
  int64_t T, K, M;
  const float *x, *y, *unquantized;
} tni_quant_drifts;
TN_MUST_CHECK tn_status tni_quant_drift(float *d, const tni_quant_drifts *of, tn_run *run, tn_error *err);

typedef struct tni_quant_task {
  int64_t N, K;
  const float *w; /* [N,K] */
  float *h;       /* [K,K], symmetric; becomes H / mean diagonal + damp I. Zero: weights alone count. NULL: w is rounded to
                   * nearest with the scale search, nothing more */
  const float *squares; /* [K], where h is NULL: its diagonal, or NULL: all columns count the same */
  float *drift;   /* [K,K], of x, in h's unit, is overwritten; NULL: x' is x */
  float *added;   /* [N,K], drift of what outputs are added to, in h's unit, is overwritten; NULL: nothing */
  const tni_quant_grid *grid;
  float damp; /* of the mean diagonal; above 0 */
  int sweeps; /* of coordinate descent */
} tni_quant_task;

/* All owned by the caller. G = ceil(K / group), or 1 where group is 0. */
typedef struct tni_quant_codes {
  uint8_t *codes; /* [N, ceil(K / vec)] */
  float *scales;  /* [N,G], products where the grid has steps */
  float *zeros;   /* [N,G] of AFFINE, else NULL */
  uint8_t *steps; /* [N,G] where the grid has steps, else NULL */
  float *parents; /* [N] where the grid has steps, else NULL */
  float *q;       /* [N,K]: the values, in f32 as tn_quant has them */
} tni_quant_codes;

/* TN_E_INVALID: w or h is not finite, or h is not positive definite after damping; TN_E_CANCELLED: run was to stop, and
 * out is undefined; TN_E_NO_MEMORY. Takes 4 * (K * K + 4096 * K) bytes and a little, with drift
 * 4 * 2048 * K more; without h no K * K. */
TN_MUST_CHECK tn_status tni_quant_solve(const tni_quant_task *task, const tni_quant_codes *out, tn_run *run,
                                        tn_error *err);

/* sum over rows of (q - w) h (q - w)^T, in double over f32 products. */
TN_MUST_CHECK tn_status tni_quant_error(const float *w, const float *q, const float *h, int64_t N, int64_t K,
                                        tn_run *run, double *out, tn_error *err);

#endif
