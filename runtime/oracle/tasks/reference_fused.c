/* SPDX-License-Identifier: Apache-2.0
 *
 * A FusedMatMul of a task: products as the format declares them, and what else its chain reads, for the reference of
 * chains (runtime/oracle/reference_chain.h).
 */
#include <float.h>

#include "runtime/ops/kernel/kernel.h"
#include "runtime/oracle/oracle.h"
#include "runtime/oracle/tasks/evaluation.h"
#include "runtime/shape/dims/dims.h"

typedef struct fused_reference {
  tni_evaluation *ev;
  const tn_node *n;
  tni_fused f;
  int64_t K;
  const float *x;
  tni_chain_given chain;
} fused_reference;

/* --- what the chain reads --------------------------------------------------------------------------------------- */

static float *fused_floats(const fused_reference *k, int64_t n) {
  return tni_arena_alloc(k->ev->arena, (size_t)(n + 1) * sizeof(float), 64);
}

static tn_status read_floats(fused_reference *k, tn_id v, float **out, int64_t *count, int64_t *rank) {
  tni_tensor t;
  tn_status st = tni_ref_operand(k->ev, v, &t);
  if (st != TN_OK) return st;
  if (tni_dims_count(t.dims, t.rank, count) != TN_OK) return tni_fail(k->ev->err, TN_E_LIMIT, k->n->name, "too large");
  if (!(*out = fused_floats(k, *count))) return tni_fail_memory(k->ev->err, k->n->name);
  tni_tensor_to_f32(&t, 0, *count, *out);
  *rank = t.rank;
  return TN_OK;
}

static tn_status fused_product(fused_reference *k, uint32_t p) {
  const tni_part *part = &k->f.parts[p];
  const float *w;
  const tn_numerics *num;
  int64_t N, K;
  tn_status st = tni_ref_weight(k->ev, k->n->in[1 + part->weight], !k->f.trans_b, &w, &N, &K, &num);
  if (st != TN_OK) return st;
  if (K != k->K || part->first + part->count > N)
    return tni_fail(k->ev->err, TN_E_INTERNAL, k->n->name, "part %u does not fit its weight", p);
  float *y = fused_floats(k, k->chain.M * part->count), *e = fused_floats(k, k->chain.M * part->count);
  if (!y || !e) return tni_fail_memory(k->ev->err, k->n->name);
  st = tni_reference_product(num, k->x, k->chain.M, K, w + part->first * K, part->count, y, e, &k->ev->s->run.run);
  if (st != TN_OK) return tni_fail(k->ev->err, st, k->n->name, "numerics that the reference does not know");
  k->chain.product[p].y = y;
  k->chain.product[p].e = e;
  k->chain.tiny = num->denormals == TN_DENORM_FLUSH ? (double)FLT_MIN : 0x1p-149;
  return TN_OK;
}

static tn_status read_extra(fused_reference *k, uint32_t i) {
  float *v;
  tn_status st =
      read_floats(k, k->n->in[1 + k->f.n_weights + i], &v, &k->chain.extra[i].count, &k->chain.extra[i].rank);
  k->chain.extra[i].v = v;
  return st;
}

static tn_status prepare_fused(fused_reference *k) {
  int64_t total, rank;
  float *x;
  tn_status st = read_floats(k, k->n->in[0], &x, &total, &rank);
  if (st != TN_OK) return st;
  const tn_value *w = k->ev->x->exec->view.values[k->n->in[1]];
  st = tni_ex_eval(k->ev->s->model->graph->exprs, w->dims[k->f.trans_b ? 1 : 0], k->ev->x->dims,
                   k->ev->x->exec->view.n_symbols, &k->K);
  if (st != TN_OK) return tni_fail(k->ev->err, st, k->n->name, "a weight has unknown dims");
  k->x = x;
  k->chain.M = k->K ? total / k->K : 0;
  for (uint32_t p = 0; st == TN_OK && p < k->f.n_parts; p++) st = fused_product(k, p);
  for (uint32_t i = 0; st == TN_OK && i + k->f.n_parts < k->f.chain.n_in; i++) st = read_extra(k, i);
  return st;
}

tn_status tni_ref_fused(tni_evaluation *ev, tn_id node, tni_evaluated *outs) {
  fused_reference k = {.ev = ev, .n = ev->x->exec->view.nodes[node]};
  const char *why = tni_fused_read(k.n, &k.f);
  if (why) return tni_fail(ev->err, TN_E_INTERNAL, k.n->name, "%s", why);
  tn_status st = prepare_fused(&k);
  for (uint32_t o = 0; st == TN_OK && o < k.n->n_out; o++) {
    int64_t count;
    outs[o] = (tni_evaluated){.value = TN_NONE};
    if (k.n->out[o] == TN_NONE) continue;
    st = tni_ref_output(ev, k.n->out[o], &outs[o]);
    if (st != TN_OK) return st;
    /* The dims of the run and the products agree, as the shape rule has it. */
    if (tni_dims_count(outs[o].t.dims, outs[o].t.rank, &count) != TN_OK || outs[o].t.dtype != TN_DT_F32)
      return tni_fail(ev->err, TN_E_INTERNAL, k.n->name, "an output that is not f32");
    for (uint32_t p = 0; p < k.f.n_parts; p++)
      if (k.f.group[p] == k.f.group[k.f.chain.results[o]] && count != k.chain.M * k.f.parts[p].count)
        return tni_fail(ev->err, TN_E_INTERNAL, k.n->name, "an output that does not have its product's shape");
    outs[o].bound = fused_floats(&k, count);
    if (!outs[o].bound) return tni_fail_memory(ev->err, k.n->name);
  }
  if (st != TN_OK) return st;
  float *y[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_OPS] = {NULL}, *bound[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_OPS] = {NULL};
  for (uint32_t o = 0; o < k.n->n_out; o++) {
    y[o] = outs[o].bound ? outs[o].t.data : NULL;
    bound[o] = outs[o].bound;
  }
  k.chain.f = &k.f;
  tni_reference_chain(&k.chain, y, bound);
  return TN_OK;
}
