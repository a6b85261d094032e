/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes with a shape operand that their task was never given, because the dims of the run say it all: the host's kernel
 * into outputs of those dims.
 */
#include "runtime/ops/kernel/kernel.h"
#include "runtime/oracle/tasks/evaluation.h"

enum { MAX_IO = 64 };

/* Only the shape rule reads input i, and the task has no memory of it. */
static bool is_unseen(const tni_evaluation *ev, const tni_node *n, uint32_t i) {
  const tn_id v = n->pub.in[i];
  if (!n->op || i >= 32 || !(n->op->shape_inputs >> i & 1) || v == TN_NONE) return false;
  if (ev->x->exec->view.values[v]->kind == TN_VALUE_CONST) return false;
  for (uint32_t k = 0; k < ev->n_done; k++)
    if (ev->done[k].value == v) return false;
  return tni_ref_region(ev->x, ev->task, v) == TN_NONE;
}

bool tni_ref_is_shaped(const tni_evaluation *ev, tn_id node) {
  const tni_node *n = (const tni_node *)ev->x->exec->view.nodes[node];
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (is_unseen(ev, n, i)) return true;
  return false;
}

tn_status tni_ref_shaped(tni_evaluation *ev, tn_id node, tni_evaluated *outs) {
  const tni_node *n = (const tni_node *)ev->x->exec->view.nodes[node];
  const tni_kernel_fn kernel = n->op ? tni_ops_kernel(n->op) : NULL;
  tni_tensor t[MAX_IO];
  const tni_tensor *in[MAX_IO] = {NULL};
  tni_tensor *out[MAX_IO] = {NULL};
  tn_status st = TN_OK;
  if (n->pub.n_in > MAX_IO || n->pub.n_out > MAX_IO || !kernel)
    return tni_fail(ev->err, TN_E_UNSUPPORTED, n->pub.name, "the reference has no kernel for it");
  for (uint32_t i = 0; st == TN_OK && i < n->pub.n_in; i++) {
    if (n->pub.in[i] == TN_NONE) continue;
    in[i] = &t[i];
    st = is_unseen(ev, n, i) ? tni_ref_header(ev, n->pub.in[i], &t[i]) : tni_ref_operand(ev, n->pub.in[i], &t[i]);
  }
  for (uint32_t i = 0; st == TN_OK && i < n->pub.n_out; i++) {
    outs[i] = (tni_evaluated){.value = TN_NONE};
    if (n->pub.out[i] == TN_NONE) continue;
    st = tni_ref_output(ev, n->pub.out[i], &outs[i]);
    out[i] = &outs[i].t;
  }
  if (st != TN_OK) return st;
  tn_run *run = &ev->s->run.run;
  const uint64_t bytes = tni_ops_scratch(&n->pub, in, n->pub.n_in, n->pub.n_out ? out[0] : NULL, run->n_workers);
  void *scratch = bytes && bytes != UINT64_MAX ? tni_arena_alloc(ev->arena, (size_t)bytes, 64) : NULL;
  if (bytes && !scratch) return tni_fail_memory(ev->err, n->pub.name);
  const tni_kargs k = {&n->pub, in, out, n->pub.n_in, n->pub.n_out, scratch, run, ev->err, NULL, NULL, false};
  return kernel(&k);
}
