/* SPDX-License-Identifier: Apache-2.0
 *
 * rms_norm:  x / sqrt(mean(x^2) + eps) [* scale]  ->  RMSNormalization(x, scale) over the last axis.
 *
 * Keeps: the value, name and shape of the last node, up to rounding. A half that is cast to float32 for the norm and
 * back before the scale, as Llama does it, is read as it is: that is what the operator's stash type says.
 */
#include "runtime/passes/forms/forms.h"
#include "runtime/passes/forms/norm.h"

/* v is the core, perhaps through the casts of a half; *x what is normalised. */
static bool rms_normalized(const tni_graph *g, tn_id v, tni_norm_core *c, tn_id *x) {
  const tni_node *back = tni_match_node(g, v, TN_OP_CAST), *there;
  if (!back) {
    if (!tni_norm_core_of(g, v, c)) return false;
    *x = c->d;
    return true;
  }
  const uint32_t to = g->values[v]->pub.dtype;
  if (to != TN_DT_F16 && to != TN_DT_BF16) return false;
  if (!tni_norm_core_of(g, back->pub.in[0], c) || !(there = tni_match_node(g, c->d, TN_OP_CAST))) return false;
  *x = there->pub.in[0];
  return g->values[c->d]->pub.dtype == TN_DT_F32 && g->values[*x]->pub.dtype == to;
}

/* Mul of a normalised value and a weight, or a gain inside. */
static bool rms_scaled(const tni_graph *g, const tni_node *n, tni_norm_core *c, tn_id *x, tn_id *scale) {
  if (tni_norm_core_of(g, n->pub.out[0], c) && c->gain != TN_NONE) {
    *x = c->d;
    *scale = c->gain;
    return tni_norm_is_weight(g, *x, *scale);
  }
  for (uint32_t i = 0; n->pub.op == TN_OP_MUL && i < 2; i++) {
    *scale = n->pub.in[!i];
    if (!rms_normalized(g, n->pub.in[i], c, x) || c->gain != TN_NONE || !tni_norm_is_weight(g, *x, *scale)) continue;
    return tni_match_same_shape(g, *x, n->pub.out[0]);
  }
  return false;
}

/* First those with a scale, then what is left. */
static tn_status rms_norm_one(tni_graph *g, tni_node *n, bool bare, uint32_t *fired, tn_error *err) {
  tni_norm_core c;
  tn_id in[3] = {TN_NONE, TN_NONE, TN_NONE};
  if (n->pub.op != TN_OP_MUL && n->pub.op != TN_OP_DIV) return TN_OK;
  if (bare) {
    if (!tni_norm_core_of(g, n->pub.out[0], &c) || c.gain != TN_NONE) return TN_OK;
    in[0] = c.d;
  } else if (!rms_scaled(g, n, &c, &in[0], &in[1])) {
    return TN_OK;
  }
  return tni_norm_put(g, n, "RMSNormalization", 23, in, c.eps, fired, err);
}

tn_status tni_pass_rms_norm(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (int bare = 0; bare < 2; bare++) {
    if (fired) tni_graph_dce(g); /* what the first ones left behind is no norm of its own */
    for (uint32_t i = 0; i < n_nodes; i++) {
      tni_node *node = g->nodes[i];
      if (node->dead || !node->op || !tni_match_uses(g, node->pub.out[0])) continue;
      tn_status st = rms_norm_one(g, node, bare, &fired, err);
      if (st != TN_OK) return st;
    }
  }
  return tni_build_done(g, fired, n, err);
}
