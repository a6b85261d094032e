/* SPDX-License-Identifier: Apache-2.0
 *
 * Images: resizing, sampling, blocks, regions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/shape/dims/dims.h"
#include "runtime/shape/rules/table.h"

/* --- Resize */

/* floor(dim * scale) as everybody computes it: the product in f32. Symbolic where scale is p / 2^k with p below 2^10,
 * for which that is exact. */
static tn_expr scaled_dim(const tni_infer *in, tn_expr dim, float scale) {
  int64_t n, down = 1;
  if (dim == TNI_EXPR_NONE || !(scale > 0)) return TNI_EXPR_NONE;
  if (tni_ex_is_const(in->x, dim, &n)) {
    const float product = floorf((float)n * scale);
    return product < 9e18f ? tni_rule_const(in, (int64_t)product) : TNI_EXPR_NONE;
  }
  for (; down < 1024 && scale != floorf(scale); down *= 2) scale *= 2;
  if (scale != floorf(scale) || scale >= 1024) return TNI_EXPR_NONE;
  const tn_expr up = tni_ex_mul(in->x, dim, tni_rule_const(in, (int64_t)scale));
  return down == 1 ? up : tni_ex_floordiv(in->x, up, tni_rule_const(in, down));
}

/* `scales` as numbers, if operand i has n of them. */
static bool read_floats(const tni_infer *in, uint32_t i, uint32_t n, float *v) {
  const tni_value *t = tni_rule_in(in, i);
  int64_t count;
  uint64_t need;
  if (!t || !t->tensor || tni_dims_count(t->tensor->dims, t->tensor->rank, &count) != TN_OK || count != n) return false;
  if (tni_dtype_bytes(t->tensor->dtype, count, &need) != TN_OK || t->tensor->bytes < need || (need && !t->tensor->data))
    return false;
  tni_tensor_to_f32(t->tensor, 0, n, v);
  return true;
}

/* Not "stretch": one scale for all axes, the smallest or largest of sizes / dims; constants only. */
static void keep_ratio(const tni_infer *in, const tn_expr *sizes, const uint32_t *axes, uint32_t n, bool larger,
                       tn_expr *dims) {
  int64_t want, have[TN_MAX_RANK];
  double scale = 0;
  bool known = true;
  for (uint32_t i = 0; i < n && known; i++) {
    known = sizes[i] != TNI_EXPR_NONE && dims[axes[i]] != TNI_EXPR_NONE && tni_ex_is_const(in->x, sizes[i], &want) &&
            tni_ex_is_const(in->x, dims[axes[i]], &have[i]) && have[i] > 0;
    if (!known) break;
    const double s = (double)want / (double)have[i];
    if (i == 0 || (larger ? s > scale : s < scale)) scale = s;
  }
  for (uint32_t i = 0; i < n; i++) {
    const double v = known ? floor(scale * (double)have[i] + 0.5) : -1;
    dims[axes[i]] = v >= 0 && v < 9e18 ? tni_rule_const(in, (int64_t)v) : TNI_EXPR_NONE;
  }
}

/* An operand that is there and not a list of no elements. */
static bool is_given(const tni_infer *in, uint32_t i) {
  uint32_t n;
  return tni_rule_in(in, i) && !(tni_rule_length(in, i, &n) && n == 0);
}

static tn_status resize_axes(tni_infer *in, uint32_t rank, uint32_t *axes, uint32_t *n) {
  const int64_t *given;
  const uint32_t count = tni_attr_ints(&in->node->pub, "axes", &given);
  uint32_t seen = 0;
  *n = given ? count : rank;
  if (*n > rank) return tni_rule_fail(in, "%u axes for rank %u", *n, rank);
  for (uint32_t i = 0; i < *n; i++) {
    axes[i] = i;
    if (given && !tni_rule_axis(given[i], rank, &axes[i]))
      return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)given[i], rank);
    if (seen >> axes[i] & 1) return tni_rule_fail(in, "axis %u stands twice", axes[i]);
    seen |= 1u << axes[i];
  }
  return TN_OK;
}

/* Operands: X, roi, scales, sizes. */
tn_status tni_shape_resize(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  const char *policy = tni_attr_s(&in->node->pub, "keep_aspect_ratio_policy", "stretch");
  uint32_t axes[TN_MAX_RANK], n, length;
  tn_expr dims[TN_MAX_RANK];
  tni_vals sizes;
  float scales[TN_MAX_RANK];
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  const tn_status st = resize_axes(in, x->pub.rank, axes, &n);
  if (st) return st;
  const bool by_scale = is_given(in, 2);
  if (!by_scale && !is_given(in, 3)) return tni_rule_fail(in, "neither scales nor sizes are given");
  if (tni_rule_length(in, by_scale ? 2 : 3, &length) && length != n)
    return tni_rule_fail(in, "%u %s for %u axes", length, by_scale ? "scales" : "sizes", n);
  if (x->pub.rank) memcpy(dims, x->pub.dims, x->pub.rank * sizeof *dims);
  const bool known = by_scale ? read_floats(in, 2, n, scales) : tni_rule_vals(in, 3, &sizes) && sizes.n == n;
  if (known && !by_scale && policy && strcmp(policy, "stretch") != 0) {
    keep_ratio(in, sizes.e, axes, n, strcmp(policy, "not_smaller") == 0, dims);
  } else {
    for (uint32_t i = 0; i < n; i++) {
      tn_expr *d = &dims[axes[i]];
      *d = !known ? TNI_EXPR_NONE : by_scale ? scaled_dim(in, *d, scales[i]) : sizes.e[i];
    }
  }
  return tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
}

/* --- GridSample: X [N, C, in], grid [N, out, k] -> [N, C, out] */
tn_status tni_shape_grid_sample(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0), *g = tni_rule_in(in, 1);
  tn_expr dims[TN_MAX_RANK];
  bool ok = true;
  if (!x || !g) return tni_rule_fail(in, "an operand is missing");
  const bool kx = x->pub.rank != TNI_RANK_UNKNOWN, kg = g->pub.rank != TNI_RANK_UNKNOWN;
  if (!kx && !kg) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  const uint32_t rank = kx ? x->pub.rank : g->pub.rank;
  if (rank < 3 || rank > TN_MAX_RANK || (kx && kg && g->pub.rank != rank))
    return tni_rule_fail(in, "input and grid have ranks that do not fit");
  for (uint32_t d = 0; d < rank; d++) dims[d] = TNI_EXPR_NONE;
  if (kx) {
    dims[0] = x->pub.dims[0];
    dims[1] = x->pub.dims[1];
  }
  if (kg) {
    dims[0] = kx ? tni_rule_same_dim(in, dims[0], g->pub.dims[0], &ok) : g->pub.dims[0];
    if (!ok) return tni_rule_fail(in, "input and grid have different batches");
    for (uint32_t d = 2; d < rank; d++) dims[d] = g->pub.dims[d - 1];
  }
  return tni_rule_set(in, 0, x->pub.dtype, rank, dims);
}

/* AffineGrid: size [N, C, spatial] -> [N, spatial, k] */
tn_status tni_shape_affine_grid(tni_infer *in) {
  const tni_value *t = tni_rule_in(in, 0);
  tni_vals size;
  uint32_t n;
  tn_expr dims[TN_MAX_RANK];
  if (!t) return tni_rule_fail(in, "operand 0 is missing");
  const bool known = tni_rule_vals(in, 1, &size);
  if (!known && !tni_rule_length(in, 1, &n)) return tni_rule_set_unknown(in, 0, t->pub.dtype);
  if (known) n = size.n;
  if (n != 4 && n != 5) return tni_rule_fail(in, "size has %u elements", n);
  dims[0] = known ? size.e[0] : TNI_EXPR_NONE;
  for (uint32_t d = 1; d + 1 < n; d++) dims[d] = known ? size.e[d + 1] : TNI_EXPR_NONE;
  dims[n - 1] = tni_rule_const(in, n - 2);
  return tni_rule_set(in, 0, t->pub.dtype, n, dims);
}

/* --- blocks */

static tn_status blocks_to_depth(tni_infer *in, bool to_space) {
  const tni_value *x = tni_rule_in(in, 0);
  const int64_t b = tni_attr_i(&in->node->pub, "blocksize", 0);
  tn_expr dims[4];
  int64_t n;
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (b < 1 || b > 32768) return tni_rule_fail(in, "attribute 'blocksize' is %lld", (long long)b);
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  if (x->pub.rank != 4) return tni_rule_fail(in, "an input of rank %u", x->pub.rank);
  dims[0] = x->pub.dims[0];
  for (uint32_t d = 1; d < 4; d++) {
    const bool shrinks = (d == 1) == to_space;
    const int64_t by = d == 1 ? b * b : b;
    const tn_expr e = x->pub.dims[d];
    if (shrinks && e != TNI_EXPR_NONE && tni_ex_is_const(in->x, e, &n) && n % by)
      return tni_rule_fail(in, "dimension %u does not divide by %lld", d, (long long)by);
    dims[d] =
        shrinks ? tni_ex_floordiv(in->x, e, tni_rule_const(in, by)) : tni_ex_mul(in->x, e, tni_rule_const(in, by));
  }
  return tni_rule_set(in, 0, x->pub.dtype, 4, dims);
}

tn_status tni_shape_depth_to_space(tni_infer *in) { return blocks_to_depth(in, true); }
tn_status tni_shape_space_to_depth(tni_infer *in) { return blocks_to_depth(in, false); }

/* Col2Im: X [N, C * block, L], image and block sizes -> [N, C, image] */
tn_status tni_shape_col2im(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  tni_vals image, block;
  uint32_t n;
  tn_expr dims[TN_MAX_RANK];
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  const bool known = tni_rule_vals(in, 1, &image), sized = tni_rule_vals(in, 2, &block);
  if (!known && !tni_rule_length(in, 1, &n)) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  if (known) n = image.n;
  if (n < 1 || n + 2 > TN_MAX_RANK) return tni_rule_fail(in, "an image of %u dims", n);
  if (sized && block.n != n) return tni_rule_fail(in, "a block of %u dims in an image of %u", block.n, n);
  if (x->pub.rank != TNI_RANK_UNKNOWN && x->pub.rank != 3) return tni_rule_fail(in, "an input of rank %u", x->pub.rank);
  const bool kx = x->pub.rank == 3;
  dims[0] = kx ? x->pub.dims[0] : TNI_EXPR_NONE;
  dims[1] = TNI_EXPR_NONE;
  if (kx && sized) {
    const tn_expr taps = tni_rule_product(in, block.e, n);
    if (tni_rule_is(in, taps, 0)) return tni_rule_fail(in, "a block without elements");
    dims[1] = tni_ex_floordiv(in->x, x->pub.dims[1], taps);
  }
  for (uint32_t d = 0; d < n; d++) dims[d + 2] = known ? image.e[d] : TNI_EXPR_NONE;
  return tni_rule_set(in, 0, x->pub.dtype, n + 2, dims);
}

/* Operand 1: the new sizes of `axes`, or of all dims. */
tn_status tni_shape_center_crop_pad(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  tni_vals size;
  uint32_t axes[TN_MAX_RANK], n;
  tn_expr dims[TN_MAX_RANK];
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  const tn_status st = resize_axes(in, x->pub.rank, axes, &n);
  if (st) return st;
  const bool known = tni_rule_vals(in, 1, &size);
  if (known && size.n != n) return tni_rule_fail(in, "%u sizes for %u axes", size.n, n);
  if (x->pub.rank) memcpy(dims, x->pub.dims, x->pub.rank * sizeof *dims);
  for (uint32_t i = 0; i < n; i++) dims[axes[i]] = known ? size.e[i] : TNI_EXPR_NONE;
  return tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
}

/* --- regions */

static tn_status region_dims(tni_infer *in, int64_t h, int64_t w) {
  const tni_value *x = tni_rule_in(in, 0), *rois = tni_rule_ranked(in, 1);
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (h < 1 || w < 1 || h > INT32_MAX || w > INT32_MAX)
    return tni_rule_fail(in, "regions of %lld x %lld", (long long)h, (long long)w);
  if (x->pub.rank != TNI_RANK_UNKNOWN && x->pub.rank != 4) return tni_rule_fail(in, "an input of rank %u", x->pub.rank);
  if (rois && rois->pub.rank != 2) return tni_rule_fail(in, "regions of rank %u", rois->pub.rank);
  const tn_expr dims[4] = {rois ? rois->pub.dims[0] : TNI_EXPR_NONE, x->pub.rank == 4 ? x->pub.dims[1] : TNI_EXPR_NONE,
                           tni_rule_const(in, h), tni_rule_const(in, w)};
  return tni_rule_set(in, 0, x->pub.dtype, 4, dims);
}

tn_status tni_shape_roi_align(tni_infer *in) {
  return region_dims(in, tni_attr_i(&in->node->pub, "output_height", 1), tni_attr_i(&in->node->pub, "output_width", 1));
}

tn_status tni_shape_max_roi_pool(tni_infer *in) {
  const int64_t *shape;
  if (tni_attr_ints(&in->node->pub, "pooled_shape", &shape) != 2)
    return tni_rule_fail(in, "attribute 'pooled_shape' has not two elements");
  return region_dims(in, shape[0], shape[1]);
}

/* [selected, 3]: how many is in the data only. */
static tn_expr count_selected(const tni_infer *in) {
  const tni_tensor *t[5] = {NULL};
  const char *why;
  tni_nms n;
  for (uint32_t i = 0; i < 5; i++) {
    const tni_value *v = tni_rule_in(in, i);
    if (v && (!v->tensor || (v->tensor->bytes && !v->tensor->data))) return TNI_EXPR_NONE;
    if (v) t[i] = v->tensor;
  }
  if (!tni_nms_read(&in->node->pub, t, 5, &n, &why)) return TNI_EXPR_NONE;
  int64_t *work = calloc((size_t)tni_nms_work(n.n_boxes), sizeof *work);
  n.poll = in->poll;
  const int64_t selected = work ? tni_nms_select(&n, work, NULL, 0) : -1;
  free(work);
  return selected < 0 ? TNI_EXPR_NONE : tni_rule_const(in, selected);
}

tn_status tni_shape_non_max_suppression(tni_infer *in) {
  tn_expr dims[2] = {count_selected(in), tni_rule_const(in, 3)};
  if (dims[0] == TNI_EXPR_NONE) dims[0] = tni_rule_data_symbol(in, 0, 0);
  return tni_rule_set(in, 0, TN_DT_I64, 2, dims);
}
