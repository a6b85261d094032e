/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/rules/table.h"

/* X [N, C, ...] keeps its shape; operands 1 .. n_params-1 are [C] each. */
static tn_status channel_params(tni_infer *in, uint32_t n_params) {
  const tni_value *x = tni_rule_ranked(in, 0);
  for (uint32_t i = 1; i < n_params && x; i++) {
    const tni_value *p = tni_rule_ranked(in, i);
    bool ok = true;
    if (!p) continue;
    if (p->pub.rank != 1) return tni_rule_fail(in, "operand %u has rank %u", i, p->pub.rank);
    const tn_expr c = x->pub.rank > 1 ? x->pub.dims[1] : tni_rule_const(in, 1);
    (void)tni_rule_same_dim(in, p->pub.dims[0], c, &ok);
    if (!ok) return tni_rule_fail(in, "operand %u does not fit the channels", i);
  }
  return tni_rule_set_like(in, 0, 0);
}

/* Y like X; running_mean and running_var like the given ones. */
tn_status tni_shape_batch_norm(tni_infer *in) {
  tn_status st = channel_params(in, 5);
  for (uint32_t o = 1; o < 3 && !st; o++)
    if (tni_rule_out(in, o)) st = tni_rule_set_like(in, o, o + 2);
  return st;
}

tn_status tni_shape_channel_norm(tni_infer *in) { return channel_params(in, 3); }
