/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/calib/calib.h"

/* The constant matrix that is an operand, through a Transpose of it. *turned: it is seen transposed. */
static tn_id product_matrix(const tni_graph *g, tn_id v, bool *turned) {
  const tni_value *b = v == TN_NONE ? NULL : tni_graph_value(g, v);
  *turned = false;
  if (!b) return TN_NONE;
  if (b->pub.kind != TN_VALUE_CONST) {
    if (b->pub.producer >= g->n_nodes || g->nodes[b->pub.producer]->pub.op != TN_OP_TRANSPOSE) return TN_NONE;
    v = g->nodes[b->pub.producer]->pub.in[0];
    b = v == TN_NONE ? NULL : tni_graph_value(g, v);
    *turned = true;
  }
  return b && b->pub.kind == TN_VALUE_CONST && b->tensor && b->tensor->rank == 2 ? v : TN_NONE;
}

static bool add_weight(const tni_graph *g, tn_id v, bool trans_b, tni_product *p) {
  bool turned;
  const tn_id w = product_matrix(g, v, &turned);
  if (w == TN_NONE || p->n_weights == TN_FUSED_MAX_PARTS) return false;
  const tni_tensor *t = tni_graph_value(g, w)->tensor;
  const int64_t K = t->dims[turned != trans_b];
  if (p->n_weights && K != p->K) return false;
  p->K = K;
  p->kn[p->n_weights] = turned == trans_b;
  p->weights[p->n_weights++] = w;
  return K > 0;
}

bool tni_calib_product(const tni_graph *g, tn_id node, tni_product *p) {
  const tni_node *n = tni_graph_node(g, node);
  const bool fused = n->pub.op == TN_OP_FUSED_MATMUL, gemm = n->pub.op == TN_OP_GEMM;
  if (n->dead || (!fused && !gemm && n->pub.op != TN_OP_MATMUL) || n->pub.n_in < 2 || n->pub.in[0] == TN_NONE)
    return false;
  if (gemm && tni_attr_i(&n->pub, "transA", 0)) return false;
  const int64_t count = fused ? tni_attr_i(&n->pub, "n_weights", 0) : 1;
  const bool trans_b = (gemm && tni_attr_i(&n->pub, "transB", 0)) || (fused && tni_attr_i(&n->pub, "trans_b", 0));
  *p = (tni_product){.x = n->pub.in[0]};
  if (count < 1 || count >= n->pub.n_in || tni_graph_value(g, p->x)->pub.kind == TN_VALUE_CONST) return false;
  for (int64_t i = 0; i < count; i++)
    if (!add_weight(g, n->pub.in[1 + i], trans_b, p)) return false;
  return true;
}
