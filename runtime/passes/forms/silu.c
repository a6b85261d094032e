/* SPDX-License-Identifier: Apache-2.0
 *
 * silu:  x * sigmoid(alpha * x)  ->  Swish(x, alpha); alpha 1 where it is not written.
 *
 * Keeps: the value, name and shape of the product, up to rounding. A sigmoid that somebody else reads too stays a
 * sigmoid, which would otherwise be computed twice.
 */
#include "runtime/passes/build/build.h"
#include "runtime/passes/forms/forms.h"

/* v is sigmoid(alpha * x). */
static bool silu_gate(const tni_graph *g, tn_id v, tn_id x, double *alpha) {
  const tni_node *sigmoid = tni_match_node(g, v, TN_OP_SIGMOID), *scaled;
  tn_id rest;
  if (!sigmoid || tni_match_uses(g, v) != 1) return false;
  *alpha = 1;
  if (sigmoid->pub.in[0] == x) return true;
  scaled = tni_match_node(g, sigmoid->pub.in[0], TN_OP_MUL);
  return scaled && tni_match_with_scalar(g, scaled, alpha, &rest) && rest == x;
}

tn_status tni_pass_silu(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *mul = g->nodes[i];
    if (mul->dead || !mul->op || mul->pub.op != TN_OP_MUL) continue;
    for (uint32_t k = 0; k < 2 && !mul->dead; k++) {
      tni_build_node b = {.type = "Swish", .version = 24, .in = {mul->pub.in[k]}, .n_in = 1, .n_attr = 1};
      double alpha;
      if (!silu_gate(g, mul->pub.in[!k], mul->pub.in[k], &alpha)) continue;
      b.attr[0] = tni_raw_float("alpha", alpha);
      tn_status st = tni_build_in_place(g, mul, &b, err);
      if (st != TN_OK) return st;
      fired++;
    }
  }
  return tni_build_done(g, fired, n, err);
}
