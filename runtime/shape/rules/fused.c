/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon.Elementwise and tenon.FusedMatMul (ops.h).
 */
#include <string.h>

#include "runtime/shape/dims/dims.h"
#include "runtime/shape/rules/table.h"

static tn_status same_dtypes(tni_infer *in) {
  const uint32_t dtype = tni_rule_in(in, 0)->pub.dtype;
  for (uint32_t i = 1; i < in->node->pub.n_in; i++)
    if (tni_rule_in(in, i)->pub.dtype != dtype) return tni_rule_fail(in, "input %u has another dtype", i);
  return TN_OK;
}

tn_status tni_shape_elementwise(tni_infer *in) {
  tni_chain c;
  const char *why = tni_chain_read(&in->node->pub, &c);
  if (why) return tni_rule_fail(in, "%s", why);
  tn_status st = same_dtypes(in);
  tn_expr dims[TN_MAX_RANK];
  uint32_t rank = 0;
  for (uint32_t i = 0; st == TN_OK && i < c.n_in; i++) st = tni_rule_broadcast_with(in, i, &rank, dims);
  const uint32_t dtype = st == TN_OK ? tni_rule_in(in, 0)->pub.dtype : 0;
  for (uint32_t o = 0; st == TN_OK && o < c.n_results; o++)
    st = rank == TNI_RANK_UNKNOWN ? tni_rule_set_unknown(in, o, dtype) : tni_rule_set(in, o, dtype, rank, dims);
  return st;
}

static bool is_one(const tni_infer *in, const tni_value *v) {
  for (uint32_t d = 0; d < v->pub.rank; d++)
    if (!tni_rule_is(in, v->pub.dims[d], 1)) return false;
  return true;
}

/* One element, [width], or x's dims with width for the last. Unknown ranks and dims pass. */
static bool operand_fits(const tni_infer *in, const tni_value *x, const tni_value *v, int64_t width) {
  bool ok = true;
  if (v->pub.rank == TNI_RANK_UNKNOWN || (v->pub.rank <= x->pub.rank && is_one(in, v))) return true;
  if (v->pub.rank != 1 && v->pub.rank != x->pub.rank) return false;
  (void)tni_rule_same_dim(in, v->pub.dims[v->pub.rank - 1], tni_rule_const(in, width), &ok);
  for (uint32_t d = 0; ok && d + 1 < v->pub.rank; d++) (void)tni_rule_same_dim(in, v->pub.dims[d], x->pub.dims[d], &ok);
  return ok;
}

static tn_status check_weights(tni_infer *in, const tni_fused *f, const tni_value *x) {
  for (uint32_t w = 0; w < f->n_weights; w++) {
    const tni_value *v = tni_rule_in(in, 1 + w);
    int64_t n;
    bool ok = true;
    if (v->pub.rank == TNI_RANK_UNKNOWN) continue;
    if (v->pub.rank != 2) return tni_rule_fail(in, "weight %u is no matrix", w);
    (void)tni_rule_same_dim(in, v->pub.dims[f->trans_b], x->pub.dims[x->pub.rank - 1], &ok);
    if (!ok) return tni_rule_fail(in, "the inner dimensions differ");
    const tn_expr cols = v->pub.dims[!f->trans_b];
    if (cols == TNI_EXPR_NONE || !tni_ex_is_const(in->x, cols, &n)) continue;
    for (uint32_t p = 0; p < f->n_parts; p++)
      if (f->parts[p].weight == w && f->parts[p].first + f->parts[p].count > n)
        return tni_rule_fail(in, "part %u lies outside the weight", p);
  }
  return TN_OK;
}

static int64_t width_of(const tni_fused *f, uint32_t reg) {
  for (uint32_t p = 0; p < f->n_parts; p++)
    if (f->group[p] == f->group[reg]) return f->parts[p].count;
  return 0;
}

static tn_status check_operands(tni_infer *in, const tni_fused *f, const tni_value *x) {
  for (uint32_t i = 0; i < f->chain.n_ops; i++) {
    const uint32_t regs[2] = {f->chain.ops[i].a, f->chain.ops[i].b};
    for (uint32_t k = 0; k < 2; k++) {
      if (regs[k] < f->n_parts || regs[k] >= f->chain.n_in) continue;
      const uint32_t input = 1 + f->n_weights + regs[k] - f->n_parts;
      if (!operand_fits(in, x, tni_rule_in(in, input), width_of(f, f->chain.n_in + i)))
        return tni_rule_fail(in, "input %u does not fit instruction %u", input, i);
    }
  }
  return TN_OK;
}

tn_status tni_shape_fused_matmul(tni_infer *in) {
  tni_fused f;
  const char *why = tni_fused_read(&in->node->pub, &f);
  if (why) return tni_rule_fail(in, "%s", why);
  const tni_value *x = tni_rule_in(in, 0);
  tn_status st = same_dtypes(in);
  if (st == TN_OK && x->pub.rank == TNI_RANK_UNKNOWN) {
    for (uint32_t o = 0; st == TN_OK && o < f.chain.n_results; o++) st = tni_rule_set_unknown(in, o, x->pub.dtype);
    return st;
  }
  if (st == TN_OK && x->pub.rank < 2) return tni_rule_fail(in, "the activation has rank %u", x->pub.rank);
  if (st == TN_OK) st = check_weights(in, &f, x);
  if (st == TN_OK) st = check_operands(in, &f, x);
  for (uint32_t o = 0; st == TN_OK && o < f.chain.n_results; o++) {
    tn_expr dims[TN_MAX_RANK];
    memcpy(dims, x->pub.dims, x->pub.rank * sizeof *dims);
    dims[x->pub.rank - 1] = tni_rule_const(in, width_of(&f, f.chain.results[o]));
    st = tni_rule_set(in, o, x->pub.dtype, x->pub.rank, dims);
  }
  return st;
}
