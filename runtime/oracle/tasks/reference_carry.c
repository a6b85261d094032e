/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of an operand's error, carried through what follows it in the task: a convolution's sums may be off by
 * more than 1e-5 of what a sigmoid makes of them. By what each operator can make of a difference at most.
 */
#include <float.h>
#include <math.h>

#include "runtime/oracle/tasks/evaluation.h"

/* What is known of a value: how far an element may be off, and how large one is; off below 0: not known. */
typedef struct known_value {
  double off, most;
} known_value;

static const known_value unknown = {-1, 0};

/* Of op and its operands, b as a where there is one: what each can make of a difference at most. */
static known_value after(uint32_t op, known_value a, known_value b) {
  if (a.off < 0 || b.off < 0) return unknown;
  switch (op) {
    case TN_OP_ADD:
    case TN_OP_SUB:
      return (known_value){a.off + b.off, a.most + b.most};
    case TN_OP_MUL:
      return (known_value){a.off * b.most + b.off * a.most + a.off * b.off, a.most * b.most};
    case TN_OP_MAX:
    case TN_OP_MIN:
      return (known_value){fmax(a.off, b.off), fmax(a.most, b.most)};
    case TN_OP_RELU:
    case TN_OP_CLIP:
    case TN_OP_ABS:
    case TN_OP_NEG:
    case TN_OP_MAX_POOL:
    case TN_OP_AVERAGE_POOL:
    case TN_OP_GLOBAL_AVERAGE_POOL:
    case TN_OP_GLOBAL_MAX_POOL:
      return a;
    case TN_OP_TANH:
      return (known_value){a.off, 1};
    case TN_OP_SIGMOID:
      return (known_value){a.off / 4, 1};
    case TN_OP_GELU:
    case TN_OP_SWISH:
      return (known_value){1.13 * a.off, a.most};
    default:
      return unknown;
  }
}

/* The largest bound of a value that the task has computed; 0: none is known. */
static double largest_bound(const tni_evaluation *ev, tn_id v) {
  double most = 0;
  int64_t count = 0;
  for (uint32_t k = 0; k < ev->n_done; k++) {
    const tni_evaluated *e = &ev->done[k];
    if (e->value != v || !e->bound) continue;
    if (tni_dims_count(e->t.dims, e->t.rank, &count) != TN_OK) return 0;
    for (int64_t i = 0; i < count; i++) most = e->bound[i] > most ? e->bound[i] : most;
  }
  return most;
}

static tn_status known_of(tni_evaluation *ev, tn_id v, known_value *out) {
  tni_tensor t;
  *out = unknown;
  const tn_status st = v == TN_NONE ? TN_OK : tni_ref_operand(ev, v, &t);
  if (v == TN_NONE || st != TN_OK || t.dtype != TN_DT_F32) return st;
  *out = (known_value){largest_bound(ev, v), tni_ref_largest(&t)};
  return TN_OK;
}

tn_status tni_ref_raise(tni_evaluation *ev, const char *name, double least, tni_evaluated *out) {
  int64_t count = 0;
  if (tni_dims_count(out->t.dims, out->t.rank, &count) != TN_OK) return TN_E_LIMIT;
  const bool had = out->bound != NULL;
  if (!had) out->bound = tni_arena_alloc(ev->arena, (size_t)(count + 1) * sizeof(float), 64);
  if (!out->bound) return tni_fail_memory(ev->err, name);
  const double e = fmin(fmax(least, 1e-5 * tni_ref_largest(&out->t)), FLT_MAX);
  for (int64_t i = 0; i < count; i++)
    if (!had || out->bound[i] < e) out->bound[i] = (float)e;
  return TN_OK;
}

/* Whether anything is known of what n reads. */
static bool reads_bounds(const tni_evaluation *ev, const tn_node *n) {
  for (uint32_t i = 0; i < n->n_in; i++)
    for (uint32_t k = 0; n->in[i] != TN_NONE && k < ev->n_done; k++)
      if (ev->done[k].value == n->in[i] && ev->done[k].bound) return true;
  return false;
}

/* The registers of a tenon.Elementwise; those of its results to y. */
static tn_status carry_chain(tni_evaluation *ev, const tn_node *n, known_value *y) {
  const tn_attr *ops = n->attr[TN_ELEMENTWISE_OPS], *results = n->attr[TN_ELEMENTWISE_RESULTS];
  const uint64_t n_regs = n->n_in + ops->n / 3;
  known_value *r = TNI_NEW_ARRAY(ev->arena, known_value, (size_t)n_regs + 1);
  if (!r) return tni_fail_memory(ev->err, n->name);
  for (uint32_t i = 0; i < n->n_in; i++) {
    const tn_status st = known_of(ev, n->in[i], &r[i]);
    if (st != TN_OK) return st;
  }
  for (uint64_t i = 0; i < ops->n / 3; i++) {
    const int64_t *op = ops->u.ints + 3 * i;
    r[n->n_in + i] = after((uint32_t)op[0], r[op[1]], op[2] < 0 ? r[op[1]] : r[op[2]]);
  }
  for (uint32_t o = 0; o < n->n_out; o++) y[o] = r[results->u.ints[o]];
  return TN_OK;
}

tn_status tni_ref_carry(tni_evaluation *ev, const tn_node *n, tni_evaluated *outs) {
  enum { MOST_OUT = 16 };
  known_value y[MOST_OUT];
  tn_status st = TN_OK;
  if (!reads_bounds(ev, n) || n->n_out > MOST_OUT || (n->op != TN_OP_ELEMENTWISE && n->n_out != 1)) return TN_OK;
  if (n->op == TN_OP_ELEMENTWISE) {
    st = carry_chain(ev, n, y);
  } else {
    known_value a = {0}, b = {0};
    if (after(n->op, a, b).off < 0) return TN_OK; /* nothing is known of this operator */
    st = known_of(ev, n->in[0], &a);
    b = a;
    if (st == TN_OK && n->op != TN_OP_CLIP && n->n_in > 1) st = known_of(ev, n->in[1], &b);
    y[0] = n->n_in > 2 && n->op != TN_OP_CLIP ? unknown : after(n->op, a, b);
  }
  for (uint32_t o = 0; st == TN_OK && o < n->n_out; o++) {
    const bool floats = outs[o].value != TN_NONE && outs[o].t.dtype == TN_DT_F32;
    if (floats && !outs[o].bound && y[o].off > 0) st = tni_ref_raise(ev, n->name, y[o].off, &outs[o]);
  }
  return st;
}
