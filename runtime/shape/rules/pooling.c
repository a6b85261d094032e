/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution and pooling: [N, C, spatial dims].
 */
#include "runtime/shape/rules/window.h"

#include "runtime/shape/rules/table.h"

static tn_status bad_window(tni_infer *in, const char *why) { return tni_rule_fail(in, "%s", why); }

/* The weight's spatial dims where all are constant. */
static bool kernel_dims(const tni_infer *in, const tni_value *w, int64_t *kernel) {
  for (uint32_t d = 2; d < w->pub.rank; d++)
    if (w->pub.dims[d] == TNI_EXPR_NONE || !tni_ex_is_const(in->x, w->pub.dims[d], &kernel[d - 2])) return false;
  return true;
}

/* X [N, C, ...] and W [M, C / group, ...] of one rank from 2 on. */
static tn_status conv_operands(tni_infer *in, const tni_value *x, const tni_value *w, uint32_t *rank) {
  const bool kx = x->pub.rank != TNI_RANK_UNKNOWN, kw = w->pub.rank != TNI_RANK_UNKNOWN;
  *rank = kx ? x->pub.rank : kw ? w->pub.rank : TNI_RANK_UNKNOWN;
  if (*rank == TNI_RANK_UNKNOWN) return TN_OK;
  if (*rank < 3 || *rank > TN_MAX_RANK) return tni_rule_fail(in, "an input of rank %u", *rank);
  if (kx && kw && x->pub.rank != w->pub.rank) return tni_rule_fail(in, "input and weight have different ranks");
  return TN_OK;
}

/* C = group * channels of one group, where both are known; what is known of M must be a multiple of group. */
static tn_status conv_channels(tni_infer *in, const tni_value *x, const tni_value *w) {
  const int64_t group = tni_attr_i(&in->node->pub, "group", 1);
  int64_t c, part, m;
  if (group < 1 || group > INT32_MAX) return tni_rule_fail(in, "attribute 'group' is %lld", (long long)group);
  if (w->pub.rank == TNI_RANK_UNKNOWN) return TN_OK;
  const bool km = w->pub.dims[0] != TNI_EXPR_NONE && tni_ex_is_const(in->x, w->pub.dims[0], &m);
  const bool kp = w->pub.dims[1] != TNI_EXPR_NONE && tni_ex_is_const(in->x, w->pub.dims[1], &part);
  if (km && m % group) return tni_rule_fail(in, "%lld outputs in %lld groups", (long long)m, (long long)group);
  if (x->pub.rank == TNI_RANK_UNKNOWN || x->pub.dims[1] == TNI_EXPR_NONE) return TN_OK;
  if (!kp || !tni_ex_is_const(in->x, x->pub.dims[1], &c) || (c % group == 0 && c / group == part)) return TN_OK;
  return tni_rule_fail(in, "%lld channels, not %lld groups of %lld", (long long)c, (long long)group, (long long)part);
}

static tn_status bias_fits(tni_infer *in, uint32_t i, tn_expr channels) {
  const tni_value *b = tni_rule_ranked(in, i);
  bool ok = true;
  if (!b) return TN_OK;
  if (b->pub.rank != 1) return tni_rule_fail(in, "a bias of rank %u", b->pub.rank);
  (void)tni_rule_same_dim(in, b->pub.dims[0], channels, &ok);
  return ok ? TN_OK : tni_rule_fail(in, "the bias does not fit the output's channels");
}

/* [N, M, windows]; operand b is the bias. */
static tn_status conv_dims(tni_infer *in, uint32_t iw, uint32_t ib, uint32_t dtype) {
  const tni_value *x = tni_rule_in(in, 0), *w = tni_rule_in(in, iw);
  tn_expr dims[TN_MAX_RANK];
  int64_t kernel[TNI_WINDOW_MAX];
  tni_window win;
  char why[128];
  uint32_t rank;
  if (!x || !w) return tni_rule_fail(in, "an operand is missing");
  tn_status st = conv_operands(in, x, w, &rank);
  if (!st && rank != TNI_RANK_UNKNOWN) st = conv_channels(in, x, w);
  if (st) return st;
  if (rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, dtype);
  for (uint32_t d = 0; d < rank; d++) dims[d] = TNI_EXPR_NONE;
  const bool kx = x->pub.rank != TNI_RANK_UNKNOWN, kw = w->pub.rank != TNI_RANK_UNKNOWN;
  if (kx) dims[0] = x->pub.dims[0];
  if (kw) dims[1] = w->pub.dims[0];
  st = bias_fits(in, ib, dims[1]);
  if (st) return st;
  const bool known = kw && kernel_dims(in, w, kernel);
  const int64_t *given = NULL;
  (void)tni_attr_ints(&in->node->pub, "kernel_shape", &given);
  if (known || given) {
    if (!tni_window_read(&in->node->pub, rank - 2, known ? kernel : NULL, &win, why, sizeof why))
      return bad_window(in, why);
    for (uint32_t d = 2; d < rank && kx; d++) dims[d] = tni_window_count(in, &win, d - 2, x->pub.dims[d]);
  }
  return tni_rule_set(in, 0, dtype, rank, dims);
}

tn_status tni_shape_conv(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  return conv_dims(in, 1, 2, x ? x->pub.dtype : TN_DT_UNDEFINED);
}

tn_status tni_shape_conv_integer(tni_infer *in) { return conv_dims(in, 1, UINT32_MAX, TN_DT_I32); }

tn_status tni_shape_qlinear_conv(tni_infer *in) {
  const tni_value *zero = tni_rule_in(in, 7);
  return conv_dims(in, 3, 8, zero ? zero->pub.dtype : TN_DT_UNDEFINED);
}

/* X, W, offset, B, mask; what offset and mask must be is the kernel's. */
tn_status tni_shape_deform_conv(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  return conv_dims(in, 1, 3, x ? x->pub.dtype : TN_DT_UNDEFINED);
}

/* X [N, C, ...], W [C, M / group, ...] -> [N, M, ...] */
tn_status tni_shape_conv_transpose(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0), *w = tni_rule_in(in, 1);
  const int64_t group = tni_attr_i(&in->node->pub, "group", 1);
  tn_expr dims[TN_MAX_RANK];
  int64_t kernel[TNI_WINDOW_MAX], c;
  tni_window win;
  char why[128];
  uint32_t rank;
  bool ok = true;
  if (!x || !w) return tni_rule_fail(in, "an operand is missing");
  tn_status st = conv_operands(in, x, w, &rank);
  if (st) return st;
  if (group < 1 || group > INT32_MAX) return tni_rule_fail(in, "attribute 'group' is %lld", (long long)group);
  if (rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  for (uint32_t d = 0; d < rank; d++) dims[d] = TNI_EXPR_NONE;
  const bool kx = x->pub.rank != TNI_RANK_UNKNOWN, kw = w->pub.rank != TNI_RANK_UNKNOWN;
  if (kx) dims[0] = x->pub.dims[0];
  if (kw) dims[1] = tni_ex_mul(in->x, w->pub.dims[1], tni_rule_const(in, group));
  if (kx && kw) (void)tni_rule_same_dim(in, x->pub.dims[1], w->pub.dims[0], &ok);
  if (!ok) return tni_rule_fail(in, "input and weight differ in channels");
  if (kw && w->pub.dims[0] != TNI_EXPR_NONE && tni_ex_is_const(in->x, w->pub.dims[0], &c) && c % group)
    return tni_rule_fail(in, "%lld channels in %lld groups", (long long)c, (long long)group);
  st = bias_fits(in, 2, dims[1]);
  if (st) return st;
  const bool known = kw && kernel_dims(in, w, kernel);
  if (known) {
    if (!tni_window_read_spread(&in->node->pub, rank - 2, kernel, &win, why, sizeof why)) return bad_window(in, why);
    for (uint32_t d = 2; d < rank && kx; d++) dims[d] = tni_window_spread(in, &win, d - 2, x->pub.dims[d]);
  }
  return tni_rule_set(in, 0, x->pub.dtype, rank, dims);
}

/* What all windowed operators of one operand share: X [N, C, spatial] of known rank in dims, or the result set. */
static tn_status windowed_dims(tni_infer *in, const tni_value **x, tni_window *w, tn_expr *dims) {
  char why[128];
  *x = tni_rule_in(in, 0);
  if (!*x) return tni_rule_fail(in, "operand 0 is missing");
  if ((*x)->pub.rank == TNI_RANK_UNKNOWN) return TN_OK;
  if ((*x)->pub.rank < 3 || (*x)->pub.rank > TN_MAX_RANK)
    return tni_rule_fail(in, "an input of rank %u", (*x)->pub.rank);
  if (!tni_window_read(&in->node->pub, (*x)->pub.rank - 2, NULL, w, why, sizeof why)) return bad_window(in, why);
  for (uint32_t d = 0; d < (*x)->pub.rank; d++) dims[d] = (*x)->pub.dims[d];
  return TN_OK;
}

/* [N, C, windows]; MaxPool's second output has the same dims. */
tn_status tni_shape_pool(tni_infer *in) {
  const tni_value *x;
  tni_window w;
  tn_expr dims[TN_MAX_RANK];
  tn_status st = windowed_dims(in, &x, &w, dims);
  if (st) return st;
  if (x->pub.rank == TNI_RANK_UNKNOWN) {
    st = tni_rule_set_unknown(in, 0, x->pub.dtype);
    return st ? st : tni_rule_set_unknown(in, 1, TN_DT_I64);
  }
  for (uint32_t d = 2; d < x->pub.rank; d++) {
    int64_t size, count;
    dims[d] = tni_window_count(in, &w, d - 2, x->pub.dims[d]);
    if (dims[d] != TNI_EXPR_NONE && tni_ex_is_const(in->x, dims[d], &count) && count < 1 &&
        tni_ex_is_const(in->x, x->pub.dims[d], &size) && size > 0)
      return tni_rule_fail(in, "a window of %lld does not fit into %lld elements and their padding",
                           (long long)w.kernel[d - 2], (long long)size);
  }
  st = tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
  return st ? st : tni_rule_set(in, 1, TN_DT_I64, x->pub.rank, dims);
}

/* [N, C, 1, ...] */
static tn_status global_pool(tni_infer *in, uint32_t dtype) {
  const tni_value *x = tni_rule_in(in, 0);
  tn_expr dims[TN_MAX_RANK];
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, dtype);
  if (x->pub.rank < 2) return tni_rule_fail(in, "an input of rank %u", x->pub.rank);
  for (uint32_t d = 0; d < x->pub.rank; d++) dims[d] = d < 2 ? x->pub.dims[d] : tni_rule_const(in, 1);
  return tni_rule_set(in, 0, dtype, x->pub.rank, dims);
}

tn_status tni_shape_global_pool(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  return global_pool(in, x ? x->pub.dtype : TN_DT_UNDEFINED);
}

tn_status tni_shape_qlinear_global_pool(tni_infer *in) {
  const tni_value *zero = tni_rule_in(in, 4);
  return global_pool(in, zero ? zero->pub.dtype : TN_DT_UNDEFINED);
}

/* (size - 1) * stride + kernel - pads, or operand 2 where it is there. */
tn_status tni_shape_max_unpool(tni_infer *in) {
  const tni_value *x;
  tni_window w;
  tni_vals given;
  tn_expr dims[TN_MAX_RANK];
  tn_status st = windowed_dims(in, &x, &w, dims);
  if (st) return st;
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  const bool has = tni_rule_in(in, 2) != NULL, known = has && tni_rule_vals(in, 2, &given);
  if (known && given.n != x->pub.rank) return tni_rule_fail(in, "output_shape has %u elements", given.n);
  for (uint32_t d = 0; d < x->pub.rank; d++) {
    if (has) {
      dims[d] = known ? given.e[d] : TNI_EXPR_NONE;
    } else if (d >= 2) {
      const int64_t s = w.stride[d - 2], more = w.kernel[d - 2] - w.begin[d - 2] - w.end[d - 2] - s;
      dims[d] = tni_ex_add(in->x, tni_ex_mul(in->x, dims[d], tni_rule_const(in, s)), tni_rule_const(in, more));
    }
  }
  return tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
}
