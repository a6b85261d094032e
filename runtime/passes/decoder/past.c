/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/decoder/past.h"

#include "runtime/passes/build/build.h"

static bool is_half(uint32_t dtype) { return dtype == TN_DT_F16 || dtype == TN_DT_BF16; }

static bool is_free_input(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  return x && x->pub.kind == TN_VALUE_INPUT && x->captured == TN_NONE && !x->is_output && tni_match_uses(g, v) == 1;
}

tn_id tni_past_input(const tni_graph *g, tn_id v) {
  const tni_node *cast = tni_match_node(g, v, TN_OP_CAST);
  if (!cast) return is_free_input(g, v) ? v : TN_NONE;
  const tn_id in = cast->pub.in[0];
  if (g->values[v]->pub.dtype != TN_DT_F32 || !is_half(g->values[in]->pub.dtype) || tni_match_uses(g, v) != 1)
    return TN_NONE;
  return is_free_input(g, in) ? in : TN_NONE;
}

tni_node *tni_present_cast(const tni_graph *g, tn_id v) {
  const tni_value *x = g->values[v];
  tni_node *found = NULL;
  for (uint32_t u = 0; x->pub.dtype == TN_DT_F32 && u < x->pub.n_uses; u++) {
    tni_node *n = g->nodes[x->pub.uses[u]];
    if (n->dead || !n->op || n->pub.op != TN_OP_CAST || !is_half(g->values[n->pub.out[0]]->pub.dtype)) continue;
    if (found || !g->values[n->pub.out[0]]->is_output || tni_match_uses(g, n->pub.out[0]) != 1) return NULL;
    found = n;
  }
  return found;
}

bool tni_counts_positions(const tni_node *n) {
  return tni_attr_i(&n->pub, "is_causal", 0) != 0 || tni_attr_i(&n->pub, "left_window_size", -1) >= 0 ||
         tni_attr_i(&n->pub, "right_window_size", -1) >= 0 || tni_match_in(n, TN_ATTENTION_SLOPES) != TN_NONE;
}
