/* SPDX-License-Identifier: Apache-2.0
 *
 * branch:  If with a constant condition  ->  the nodes of the branch that it takes.
 *
 * Exporters write an If for what their tracing could not decide (a squeeze of an axis of unknown length, a table that
 * is resized where the picture's size asks for it) and shape inference often can. After an If no dims are known, so
 * one that stays costs the graph every pass that follows.
 *
 * Keeps: bits, names and values of the If's results.
 */
#include "runtime/passes/build/build.h"
#include "runtime/passes/forms/forms.h"

static tni_graph *taken_branch(const tni_graph *g, const tni_node *n) {
  double cond;
  if (n->dead || n->pub.op != TN_OP_IF || !tni_match_scalar(g, tni_match_in(n, 0), &cond)) return NULL;
  const tn_attr *a = tni_attr(&n->pub, cond != 0 ? "then_branch" : "else_branch");
  return a ? (tni_graph *)(uintptr_t)a->u.p : NULL;
}

tn_status tni_pass_branch(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_graph *sub = taken_branch(g, g->nodes[i]);
    bool done = false;
    if (!sub) continue;
    const tn_status st = tni_graph_inline(g, i, sub, &done, err);
    if (st != TN_OK) return st;
    fired += done;
  }
  return tni_build_done(g, fired, n, err);
}
