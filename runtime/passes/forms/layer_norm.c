/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_norm:  (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) [* scale] [+ bias]  ->  LayerNormalization over the
 * last axis; also as  x * inv + (bias - mean(x) * inv)  with inv = rsqrt(..) [* scale].
 *
 * Keeps: the value, name and shape of the last node, up to rounding.
 */
#include "runtime/passes/forms/forms.h"
#include "runtime/passes/forms/norm.h"

typedef struct layer_norm {
  tni_norm_core core;
  tn_id in[3]; /* x, scale, bias */
} layer_norm;

/* v is the mean of x over the last axis. */
static bool is_mean(const tni_graph *g, tn_id v, tn_id x) {
  const tni_node *mean = tni_match_node(g, v, TN_OP_REDUCE_MEAN);
  return mean && mean->pub.in[0] == x && tni_match_reduces_last(g, mean);
}

/* core.d is x less its mean. */
static bool is_centred(const tni_graph *g, layer_norm *l, tn_id *mean) {
  const tni_node *sub = tni_match_node(g, l->core.d, TN_OP_SUB);
  if (!sub) return false;
  l->in[0] = sub->pub.in[0];
  *mean = sub->pub.in[1];
  return is_mean(g, *mean, l->in[0]) && tni_match_same_shape(g, l->in[0], l->core.d);
}

/* v is the normalised x, with or without a gain; that becomes the scale. */
static bool layer_normalized(const tni_graph *g, tn_id v, layer_norm *l) {
  tn_id mean;
  if (!tni_norm_core_of(g, v, &l->core) || !is_centred(g, l, &mean)) return false;
  l->in[1] = l->core.gain;
  return l->in[1] == TN_NONE || tni_norm_is_weight(g, l->in[0], l->in[1]);
}

static bool layer_scaled(const tni_graph *g, tn_id v, layer_norm *l) {
  const tni_node *mul = tni_match_node(g, v, TN_OP_MUL);
  if (layer_normalized(g, v, l)) return l->in[1] != TN_NONE;
  for (uint32_t i = 0; mul && i < 2; i++) {
    if (!layer_normalized(g, mul->pub.in[i], l) || l->in[1] != TN_NONE) continue;
    l->in[1] = mul->pub.in[!i];
    if (tni_norm_is_weight(g, l->in[0], l->in[1])) return tni_match_same_shape(g, l->in[0], v);
  }
  return false;
}

/* a + b  is  x * inv + (bias - mean * inv). */
static bool is_folded(const tni_graph *g, tn_id a, tn_id b, layer_norm *l) {
  const tni_node *xi = tni_match_node(g, a, TN_OP_MUL), *sub = tni_match_node(g, b, TN_OP_SUB), *mi;
  tn_id mean;
  if (!xi || !sub || !(mi = tni_match_node(g, sub->pub.in[1], TN_OP_MUL))) return false;
  for (uint32_t i = 0; i < 2; i++) {
    if (!tni_norm_rsqrt(g, xi->pub.in[i], &l->core) || !is_centred(g, l, &mean)) continue;
    if (l->in[0] != xi->pub.in[!i] || tni_match_other(mi, mean) != xi->pub.in[i]) continue;
    l->in[1] = l->core.gain;
    l->in[2] = sub->pub.in[0];
    return tni_norm_is_weight(g, l->in[0], l->in[2]) &&
           (l->in[1] == TN_NONE || tni_norm_is_weight(g, l->in[0], l->in[1]));
  }
  return false;
}

static bool layer_biased(const tni_graph *g, const tni_node *add, layer_norm *l) {
  for (uint32_t i = 0; add->pub.op == TN_OP_ADD && i < 2; i++) {
    const tn_id a = add->pub.in[i], b = add->pub.in[!i];
    if (is_folded(g, a, b, l)) return tni_match_same_shape(g, l->in[0], add->pub.out[0]);
    if (!layer_scaled(g, a, l) && !layer_normalized(g, a, l)) continue;
    l->in[2] = b;
    if (tni_norm_is_weight(g, l->in[0], b)) return tni_match_same_shape(g, l->in[0], add->pub.out[0]);
  }
  return false;
}

/* The longest form first, so that scale and bias find their way in. */
static bool matches_layer_norm(const tni_graph *g, const tni_node *n, int form, layer_norm *l) {
  for (int i = 0; i < 3; i++) l->in[i] = TN_NONE;
  bool found = form == 0   ? layer_biased(g, n, l)
               : form == 1 ? layer_scaled(g, n->pub.out[0], l)
                           : layer_normalized(g, n->pub.out[0], l);
  if (form != 0) l->in[2] = TN_NONE;
  return found;
}

tn_status tni_pass_layer_norm(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (int form = 0; form < 3; form++) {
    if (fired) tni_graph_dce(g); /* what longer forms left behind is no norm of its own */
    for (uint32_t i = 0; i < n_nodes; i++) {
      tni_node *node = g->nodes[i];
      layer_norm l;
      if (node->dead || !node->op || !(node->op->flags & TNI_OPF_ELEMENTWISE)) continue;
      if (!tni_match_uses(g, node->pub.out[0]) || !matches_layer_norm(g, node, form, &l)) continue;
      tn_status st = tni_norm_put(g, node, "LayerNormalization", 17, l.in, l.core.eps, &fired, err);
      if (st != TN_OK) return st;
    }
  }
  return tni_build_done(g, fired, n, err);
}
