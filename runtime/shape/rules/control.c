/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/rules/table.h"

/* The dtype of the subgraph's output that becomes output o, as far as the subgraph says it. */
static uint32_t dtype_in(const tni_node *n, const char *attr, uint32_t o) {
  const tn_attr *a = tni_attr(&n->pub, attr);
  const tni_graph *body = a ? a->u.p : NULL;
  if (!body || o >= body->n_outputs) return TN_DT_UNDEFINED;
  const tni_value *v = body->values[body->outputs[o]];
  return v->captured == TN_NONE ? v->pub.dtype : body->outer->values[v->captured]->pub.dtype;
}

static uint32_t dtype_of(const tni_node *n, uint32_t o) {
  if (n->pub.op == TN_OP_LOOP) return dtype_in(n, "body", o + 1); /* the first is its condition */
  if (n->pub.op == TN_OP_SCAN) return dtype_in(n, "body", o);
  if (n->pub.op != TN_OP_IF) return TN_DT_UNDEFINED;
  const uint32_t t = dtype_in(n, "then_branch", o);
  return t == TN_DT_UNDEFINED ? dtype_in(n, "else_branch", o) : t;
}

/* If, Loop, Scan: what comes out depends on the subgraph that runs. Nothing is claimed about it but its dtype and what
 * the model says of sequences and optionals, whose types carry no dims then. */
tn_status tni_shape_control(tni_infer *in) {
  for (uint32_t o = 0; o < in->node->pub.n_out; o++) {
    const tni_value *v = tni_rule_out(in, o);
    const uint32_t dtype = !v                                ? TN_DT_UNDEFINED
                           : v->pub.dtype == TN_DT_UNDEFINED ? dtype_of(in->node, o)
                                                             : v->pub.dtype;
    tn_status st = v && v->type ? TN_OK : tni_rule_set_unknown(in, o, dtype);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}
