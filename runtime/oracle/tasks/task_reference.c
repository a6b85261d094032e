/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oracle/tasks/evaluation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/ops/kernel/kernel.h"

/* The constant that is a product's second operand, through a Transpose of it. */
static tn_id weight_of(const tn_graph *g, const tn_node *n) {
  if ((n->op != TN_OP_MATMUL && n->op != TN_OP_GEMM) || n->n_in < 2 || n->in[1] == TN_NONE) return TN_NONE;
  const tn_value *b = g->values[n->in[1]];
  if (b->kind == TN_VALUE_CONST) return b->rank == 2 ? n->in[1] : TN_NONE;
  if (b->producer == TN_NONE || b->producer >= g->n_nodes || g->nodes[b->producer]->op != TN_OP_TRANSPOSE)
    return TN_NONE;
  tn_id src = g->nodes[b->producer]->in[0];
  return g->values[src]->kind == TN_VALUE_CONST && g->values[src]->rank == 2 ? src : TN_NONE;
}

/* x [M,K]; turned: a is [K,M]. */
static void read_rows(const tni_tensor *a, bool turned, int64_t M, int64_t K, float *x) {
  if (!turned) tni_tensor_to_f32(a, 0, M * K, x);
  for (int64_t i = 0; turned && i < M * K; i++) tni_tensor_to_f32(a, i % K * M + i / K, 1, &x[i]);
}

/* y = alpha * q(x) W^T + beta * C, with its bound per element. */
static tn_status formatted_product(tni_evaluation *ev, const tn_node *n, const tni_program *p, const tni_need *need,
                                   uint32_t part, tni_evaluated *out) {
  tni_tensor a, c = {0};
  const float *w = NULL;
  const tn_numerics *num = tni_ref_numerics(ev, p, need);
  tn_status st = num ? tni_ref_operand(ev, n->in[0], &a) : TN_E_INTERNAL;
  if (st == TN_OK) st = tni_ref_output(ev, n->out[0], out);
  if (st == TN_OK) st = tni_ref_unpacked(ev, p, need, part, &w);
  bool has_c = n->op == TN_OP_GEMM && n->n_in > 2 && n->in[2] != TN_NONE;
  if (st == TN_OK && has_c) st = tni_ref_operand(ev, n->in[2], &c);
  if (st != TN_OK) return st;
  int64_t N = need->parts[part]->N, K = need->parts[part]->K, total = 0;
  (void)!tni_dims_count(a.dims, a.rank, &total);
  int64_t M = K ? total / K : 0;
  float *x = tni_arena_alloc(ev->arena, (size_t)(M * K + 1) * sizeof(float), 64), *y = out->t.data;
  out->bound = tni_arena_alloc(ev->arena, (size_t)(M * N + 1) * sizeof(float), 64);
  if (!x || !out->bound) return tni_fail_memory(ev->err, n->name);
  read_rows(&a, n->op == TN_OP_GEMM && tni_attr_i(n, "transA", 0), M, K, x);
  st = tni_reference_product(num, x, M, K, w, N, y, out->bound, &ev->s->run.run);
  if (st != TN_OK) return st;
  double alpha = 1, beta = 1;
  if (n->op == TN_OP_GEMM) {
    alpha = tni_attr_f(n, "alpha", 1);
    beta = tni_attr_f(n, "beta", 1);
  }
  const bool exact = tni_reference_bound(num, K) == 0 && n->op == TN_OP_MATMUL; /* wide integers, one conversion */
  int64_t c_cols = has_c && c.rank ? c.dims[c.rank - 1] : 1, c_rows = has_c && c.rank > 1 ? c.dims[c.rank - 2] : 1;
  for (int64_t i = 0; i < M * N; i++) {
    double add = 0;
    if (has_c) {
      float v;
      tni_tensor_to_f32(&c, (c_rows > 1 ? i / N : 0) * c_cols + (c_cols > 1 ? i % N : 0), 1, &v);
      add = beta * v;
    }
    double r = alpha * y[i] + add;
    out->bound[i] = exact ? 0 : (float)(fabs(alpha) * out->bound[i] + 2 * 0x1p-24 * (fabs(r) + fabs(add)));
    y[i] = (float)r;
  }
  return TN_OK;
}

static tn_status host_node(tni_evaluation *ev, tn_id node, bool absolute, tni_evaluated *outs) {
  const tni_node *n = tni_graph_node(ev->s->model->graph, node);
  enum { MAX_IO = 64 };
  tni_tensor in[MAX_IO], out[MAX_IO];
  const tni_tensor *pin[MAX_IO];
  if (n->pub.n_in > MAX_IO || n->pub.n_out > MAX_IO)
    return tni_fail(ev->err, TN_E_UNSUPPORTED, n->pub.name, "too many operands for the reference");
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    pin[i] = NULL;
    if (n->pub.in[i] == TN_NONE) continue;
    tn_status st = tni_ref_operand(ev, n->pub.in[i], &in[i]);
    if (st != TN_OK) return st;
    pin[i] = &in[i];
    if (!absolute) continue;
    int64_t count = 0;
    (void)!tni_dims_count(in[i].dims, in[i].rank, &count);
    float *p = tni_arena_alloc(ev->arena, (size_t)(count + 1) * sizeof(float), 64);
    if (!p) return tni_fail_memory(ev->err, n->pub.name);
    tni_tensor_to_f32(&in[i], 0, count, p);
    for (int64_t k = 0; k < count; k++) p[k] = fabsf(p[k]);
    in[i].data = p;
  }
  if (n->pub.op == TN_OP_UNKNOWN)
    return tni_fail(ev->err, TN_E_UNSUPPORTED, n->pub.name,
                    "the reference does not know %s, an operator of a plugin's own: compare with results of yours (--data DIR)",
                    n->type ? n->type : "this operator");
  tn_status st = tni_ops_eval(&ev->s->run.run, n, pin, n->pub.n_in, out, n->pub.n_out, ev->arena, ev->err);
  for (uint32_t i = 0; st == TN_OK && i < n->pub.n_out; i++)
    outs[i] = (tni_evaluated){.value = n->pub.out[i], .t = out[i]};
  return st;
}

/* Terms of a sum: of a product, or of a convolution and its bias. */
static tn_status terms_of(tni_evaluation *ev, const tn_node *n, int64_t *K) {
  tni_tensor t;
  const bool conv = n->op == TN_OP_CONV;
  const tn_status st = tni_ref_operand(ev, n->in[conv], &t);
  if (st != TN_OK) return st;
  *K = conv ? 1 : t.rank ? t.dims[t.rank - 1] : 1;
  for (uint32_t i = 1; conv && i < t.rank; i++) *K *= t.dims[i];
  return TN_OK;
}

/* A product of two activations, or a convolution: f32 in some order; bound from K and the sum of absolute terms. */
static tn_status float_product(tni_evaluation *ev, tn_id node, tni_evaluated *out) {
  tn_status st = host_node(ev, node, false, out);
  if (st != TN_OK || out->t.dtype != TN_DT_F32) return st;
  tni_evaluated abs;
  const tn_node *n = ev->x->exec->view.nodes[node];
  int64_t K = 1, count = 0;
  st = host_node(ev, node, true, &abs);
  if (st == TN_OK) st = terms_of(ev, n, &K);
  if (st != TN_OK) return st;
  (void)!tni_dims_count(out->t.dims, out->t.rank, &count);
  out->bound = abs.t.data;
  for (int64_t i = 0; i < count; i++) out->bound[i] *= (float)(2 * (double)(K + 2) * 0x1p-24);
  return n->op == TN_OP_CONV ? tni_ref_raise(ev, n->name, 0, out) : TN_OK;
}

static tn_status evaluate_node(tni_evaluation *ev, tn_id node) {
  const tni_program *p = &ev->x->exec->programs[ev->x->exec->tasks[ev->task].program];
  const tn_node *n = ev->x->exec->view.nodes[node];
  uint32_t part = 0;
  const tni_need *need = tni_ref_need(p, weight_of(&ev->x->exec->view, n), &part);
  tni_evaluated *out = &ev->done[ev->n_done];
  tn_status st;
  if (tni_ref_is_shaped(ev, node))
    st = tni_ref_shaped(ev, node, out);
  else if (need)
    st = formatted_product(ev, n, p, need, part, out);
  else if (n->op == TN_OP_FUSED_MATMUL && ev->x->exec->view.values[n->in[0]]->dtype == TN_DT_F32)
    st = tni_ref_fused(ev, node, out);
  else if (n->op == TN_OP_MATMUL || (n->op == TN_OP_CONV && ev->judges))
    st = float_product(ev, node, out);
  else
    st = host_node(ev, node, false, out);
  if (st == TN_OK && tni_is_attention(n->op)) st = tni_ref_attend_bound(ev, n, out);
  if (st == TN_OK && (n->op == TN_OP_LAYER_NORMALIZATION || n->op == TN_OP_TENON_LAYER_NORMALIZATION))
    st = tni_ref_norm(ev, n, out);
  if (st == TN_OK && ev->judges) st = tni_ref_carry(ev, n, out);
  ev->n_done += n->n_out;
  return st;
}

/* A Transpose whose only purpose is to turn a packed constant is not computed. */
static bool only_turns_weight(const tni_evaluation *ev, tn_id node) {
  const tn_graph *g = &ev->x->exec->view;
  const tn_node *n = g->nodes[node];
  return n->op == TN_OP_TRANSPOSE && g->values[n->in[0]]->kind == TN_VALUE_CONST &&
         ev->x->exec->region_of[n->out[0]] == TN_NONE;
}

tn_status tni_evaluate(tni_evaluation *ev) {
  const tn_task *t = ev->x->exec->tasks[ev->task].info;
  uint32_t outs = 0;
  for (uint32_t i = 0; i < t->n_nodes; i++) outs += ev->x->exec->view.nodes[t->nodes[i]]->n_out;
  ev->done = TNI_NEW_ARRAY(ev->arena, tni_evaluated, outs + 1);
  if (!ev->done) return tni_fail_memory(ev->err, NULL);
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < t->n_nodes; i++)
    if (!only_turns_weight(ev, t->nodes[i])) st = evaluate_node(ev, t->nodes[i]);
  return st;
}

/* --- users ------------------------------------------------------------------------------------------------------ */

tn_status tni_reference_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  tni_evaluation ev = {.s = s, .x = x, .task = i, .arena = tni_arena_create(), .err = err};
  tn_status st = ev.arena ? tni_evaluate(&ev) : tni_fail_memory(err, NULL);
  for (uint32_t k = 0; st == TN_OK && k < ev.n_done; k++) {
    const uint32_t r = tni_ref_region(x, i, ev.done[k].value);
    if (r != TN_NONE && x->exec->regions[r].kind == TNI_R_STATE)
      tni_ref_state_store(x, &x->regions[r], &ev.done[k].t);
    else if (r != TN_NONE && ev.done[k].t.bytes > x->regions[r].bytes)
      st = tni_fail(err, TN_E_INTERNAL, x->exec->tasks[i].label, "an output of the task has too little room");
    else if (r != TN_NONE && ev.done[k].t.bytes)
      memcpy(x->regions[r].ptr, ev.done[k].t.data, ev.done[k].t.bytes);
  }
  tni_arena_destroy(ev.arena);
  return st;
}
