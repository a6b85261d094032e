/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/dims/dims.h"
#include "runtime/shape/rules/table.h"

/* A dim that a scalar operand says, or the size that only the run knows. */
static tn_expr scalar_dim(const tni_infer *in, uint32_t operand, uint32_t axis) {
  const tn_expr e = tni_rule_scalar(in, operand);
  return e == TNI_EXPR_NONE ? tni_rule_data_symbol(in, 0, axis) : e;
}

static bool is_negative_dim(const tni_infer *in, tn_expr e) {
  int64_t lo, hi;
  if (e == TNI_EXPR_NONE) return false;
  tni_ex_range(in->x, e, &lo, &hi);
  return hi < 0;
}

/* floor(e / 2) + 1: how many frequencies of e real samples differ. */
static tn_expr one_sided(const tni_infer *in, tn_expr e) {
  if (e == TNI_EXPR_NONE) return e;
  return tni_ex_add(in->x, tni_ex_floordiv(in->x, e, tni_rule_const(in, 2)), tni_rule_const(in, 1));
}

static bool is_numeric_dtype(int64_t dtype) {
  return dtype > 0 && dtype <= TN_DT_BF16 && dtype != TN_DT_STRING && dtype != TN_DT_BOOL && dtype != TN_DT_C64 &&
         dtype != TN_DT_C128;
}

tn_status tni_shape_window(tni_infer *in) {
  const int64_t dtype = tni_attr_i(&in->node->pub, "output_datatype", TN_DT_F32);
  const tn_expr n = scalar_dim(in, 0, 0);
  if (!is_numeric_dtype(dtype)) return tni_rule_fail(in, "output_datatype %lld is no number's", (long long)dtype);
  if (is_negative_dim(in, n)) return tni_rule_fail(in, "the size is negative");
  return tni_rule_set(in, 0, (uint32_t)dtype, 1, &n);
}

/* [floor(dft_length / 2) + 1, num_mel_bins] */
tn_status tni_shape_mel_weight_matrix(tni_infer *in) {
  const int64_t dtype = tni_attr_i(&in->node->pub, "output_datatype", TN_DT_F32);
  const tn_expr length = tni_rule_scalar(in, 1);
  const tn_expr dims[2] = {length == TNI_EXPR_NONE ? tni_rule_data_symbol(in, 0, 0) : one_sided(in, length),
                           scalar_dim(in, 0, 1)};
  if (!is_numeric_dtype(dtype)) return tni_rule_fail(in, "output_datatype %lld is no number's", (long long)dtype);
  if (is_negative_dim(in, length) || is_negative_dim(in, dims[1])) return tni_rule_fail(in, "a size is negative");
  return tni_rule_set(in, 0, (uint32_t)dtype, 2, dims);
}

/* Axis of a DFT: the third operand, -2 without one. *known false: a value that only the run has. */
static tn_status dft_axis(tni_infer *in, uint32_t rank, bool *known, uint32_t *axis) {
  int64_t v = -2;
  uint32_t n = 0;
  *known = !tni_rule_in(in, 2) || (tni_rule_ints(in, 2, &v, 1, &n) && n == 1);
  if (*known && (!tni_rule_axis(v, rank, axis) || *axis + 1 == rank))
    return tni_rule_fail(in, "axis %lld is none of the signal's", (long long)v);
  return TN_OK;
}

tn_status tni_shape_dft(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  const bool one = tni_attr_i(&in->node->pub, "onesided", 0) != 0,
             inverse = tni_attr_i(&in->node->pub, "inverse", 0) != 0;
  tn_expr dims[TN_MAX_RANK];
  uint32_t axis = 0;
  bool known;
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  const uint32_t rank = x->pub.rank;
  if (rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  if (rank < 2) return tni_rule_fail(in, "the input has no axis for its complex parts");
  tn_status st = dft_axis(in, rank, &known, &axis);
  if (st) return st;
  for (uint32_t d = 0; d + 1 < rank; d++) dims[d] = known ? x->pub.dims[d] : tni_rule_data_symbol(in, 0, d);
  dims[rank - 1] = tni_rule_const(in, one && inverse ? 1 : 2);
  if (!known) return tni_rule_set(in, 0, x->pub.dtype, rank, dims);
  tn_expr n = dims[axis];
  if (tni_rule_in(in, 1))
    n = tni_rule_scalar(in, 1);
  else if (one && inverse)
    n = tni_ex_mul(in->x, tni_rule_const(in, 2), tni_ex_sub(in->x, n, tni_rule_const(in, 1)));
  if (is_negative_dim(in, n)) return tni_rule_fail(in, "the length is negative");
  if (n == TNI_EXPR_NONE)
    dims[axis] = tni_rule_data_symbol(in, 0, axis);
  else
    dims[axis] = one && !inverse ? one_sided(in, n) : n;
  return tni_rule_set(in, 0, x->pub.dtype, rank, dims);
}

/* [batch, frames, frequencies, 2] */
tn_status tni_shape_stft(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0), *window = tni_rule_in(in, 2);
  tn_expr step = tni_rule_scalar(in, 1), length, frames = TNI_EXPR_NONE, dims[4];
  int64_t s;
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  const bool ranked = x->pub.rank != TNI_RANK_UNKNOWN, sized = window && window->pub.rank != TNI_RANK_UNKNOWN;
  if (ranked && x->pub.rank != 2 && x->pub.rank != 3)
    return tni_rule_fail(in, "the signal is not [batch, length, 1 or 2]");
  if (sized && window->pub.rank != 1) return tni_rule_fail(in, "the window has rank %u", window->pub.rank);
  length = tni_rule_in(in, 3) ? tni_rule_scalar(in, 3)
           : window           ? sized ? window->pub.dims[0] : TNI_EXPR_NONE
           : ranked           ? x->pub.dims[1]
                              : TNI_EXPR_NONE;
  if (is_negative_dim(in, length)) return tni_rule_fail(in, "the frame's length is negative");
  if (step != TNI_EXPR_NONE && tni_ex_is_const(in->x, step, &s) && s <= 0)
    return tni_rule_fail(in, "frame_step is %lld", (long long)s);
  if (ranked && length != TNI_EXPR_NONE && step != TNI_EXPR_NONE) {
    frames = tni_ex_floordiv(in->x, tni_ex_sub(in->x, x->pub.dims[1], length), step);
    if (frames != TNI_EXPR_NONE) frames = tni_ex_add(in->x, frames, tni_rule_const(in, 1));
    if (frames != TNI_EXPR_NONE && !tni_ex_proves_le(in->x, tni_rule_const(in, 0), frames))
      frames = tni_ex_max(in->x, tni_rule_const(in, 0), frames);
  }
  if (length != TNI_EXPR_NONE && tni_attr_i(&in->node->pub, "onesided", 1)) length = one_sided(in, length);
  dims[0] = ranked ? x->pub.dims[0] : TNI_EXPR_NONE;
  dims[1] = frames == TNI_EXPR_NONE ? tni_rule_data_symbol(in, 0, 1) : frames;
  dims[2] = length == TNI_EXPR_NONE ? tni_rule_data_symbol(in, 0, 2) : length;
  dims[3] = tni_rule_const(in, 2);
  return tni_rule_set(in, 0, x->pub.dtype, 4, dims);
}

/* Dims of the output's labels, each broadcast over all axes that bear it. */
tn_status tni_shape_einsum(tni_infer *in) {
  tni_einsum e;
  uint32_t rank[TNI_EINSUM_MAX_IN], dtype = TN_DT_UNDEFINED;
  const uint32_t n = in->node->pub.n_in;
  tn_expr dims[TNI_EINSUM_MAX_LABELS];
  bool ok = true, ranked = true;
  if (n > TNI_EINSUM_MAX_IN) return tni_rule_fail(in, "more than %d operands", TNI_EINSUM_MAX_IN);
  for (uint32_t i = 0; i < n; i++) {
    const tni_value *v = tni_rule_in(in, i);
    if (!v) return tni_rule_fail(in, "operand %u is missing", i);
    if (dtype != TN_DT_UNDEFINED && v->pub.dtype != TN_DT_UNDEFINED && v->pub.dtype != dtype)
      return tni_rule_fail(in, "operand %u is %s, another %s", i, tni_dtype_name(v->pub.dtype), tni_dtype_name(dtype));
    if (v->pub.dtype != TN_DT_UNDEFINED) dtype = v->pub.dtype;
    ranked = ranked && v->pub.rank != TNI_RANK_UNKNOWN;
    rank[i] = v->pub.rank;
  }
  if (!ranked) return tni_rule_set_unknown(in, 0, dtype);
  const char *why = tni_einsum_read(tni_attr_s(&in->node->pub, "equation", NULL), rank, n, &e);
  if (why) return tni_rule_fail(in, "%s", why);
  for (uint32_t l = 0; l < e.n_labels; l++) dims[l] = tni_rule_const(in, 1);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t d = 0; d < rank[i] && ok; d++) {
      tn_expr *dim = &dims[e.label[i][d]];
      *dim = tni_rule_broadcast_dim(in, *dim, tni_rule_in(in, i)->pub.dims[d], &ok);
    }
  if (!ok) return tni_rule_fail(in, "axes of one label have different sizes");
  return tni_rule_set(in, 0, dtype, e.n_out, dims);
}

/* [..., M, M] -> [...] */
tn_status tni_shape_det(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  bool ok = true;
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  const uint32_t rank = x->pub.rank;
  if (rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  if (rank < 2) return tni_rule_fail(in, "the input is no matrix");
  (void)tni_rule_same_dim(in, x->pub.dims[rank - 1], x->pub.dims[rank - 2], &ok);
  if (!ok) return tni_rule_fail(in, "the matrices are not square");
  return tni_rule_set(in, 0, x->pub.dtype, rank - 2, x->pub.dims);
}
