/* SPDX-License-Identifier: Apache-2.0
 *
 * Products as the format declares them, then the chain in double; beside each number how far a device may be from it.
 * docs/numerics.md derives the steps.
 */
#include <float.h>
#include <math.h>

#include "runtime/host/kernel.h"
#include "runtime/sched/reference.h"
#include "runtime/shape/fused.h"

/* A number, and how far the device may be from it; infinite where nothing can be said. */
typedef struct near {
  double v, e;
} near;

typedef struct fused {
  tni_evaluation *ev;
  const tn_node *n;
  tni_fused f;
  int64_t M, K;
  const float *x;
  double tiny; /* what is lost where a result is denormal */
  struct {
    float *y, *e; /* [M, count] */
  } product[TN_FUSED_MAX_PARTS];
  struct {
    float *v;
    int64_t count, rank;
  } extra[TN_CHAIN_MAX_INPUTS];
} fused;

static const double u = 0x1p-24;

/* --- steps ------------------------------------------------------------------------------------------------------ */

/* v is off by e before the device rounds it, `roundings` times. */
static near rounded(const fused *k, double v, double e, double roundings) {
  const double top = fabs(v) + e;
  if (!(top * (1 + roundings * u) < FLT_MAX)) return (near){v, INFINITY};
  return (near){v, e + roundings * u * top + k->tiny};
}

static near add(const fused *k, near a, double sign, near b) { return rounded(k, a.v + sign * b.v, a.e + b.e, 1); }

static near mul(const fused *k, near a, near b) {
  return rounded(k, a.v * b.v, fabs(a.v) * b.e + fabs(b.v) * a.e + a.e * b.e, 1);
}

static near divide(const fused *k, near a, near b) {
  const double v = a.v / b.v;
  if (!(fabs(b.v) > b.e)) return (near){v, INFINITY};
  return rounded(k, v, (a.e + fabs(v) * b.e) / (fabs(b.v) - b.e), 1);
}

static double sigmoid(double z) {
  const double e = exp(-fabs(z));
  return (z < 0 ? e : 1) / (1 + e);
}

/* Largest slopes: sigmoid 1/4, tanh 1; swish s(z) + z s'(z) <= 1.0999 at z = 2.3994, whatever alpha; Gelu Phi(x) + x
 * phi(x)
 * <= 1.1290 at sqrt 2, its tanh form too. Losses of the function itself, 8 u being 4 ulp at most. */
static near unary(const fused *k, uint32_t op, double value, near a) {
  const double x = a.v;
  switch (op) {
    case TN_OP_NEG:
      return (near){-x, a.e};
    case TN_OP_RELU:
      return (near){x > 0 || isnan(x) ? x : 0, a.e};
    case TN_OP_SIGMOID:
      return rounded(k, sigmoid(x), 0.25 * a.e, 8);
    case TN_OP_TANH:
      return rounded(k, tanh(x), a.e, 8);
    case TN_OP_SWISH:
      return rounded(k, x * sigmoid(value * x), 1.1 * a.e + 0.5 * u * (fabs(x) + a.e), 8);
    default: {
      const double t = 0.79788456080286536 * (x + 0.044715 * x * x * x);
      return rounded(k, value != 0 ? x * sigmoid(2 * t) : 0.5 * x * erfc(-x * 0.70710678118654752),
                     1.13 * a.e + 8 * u * (fabs(x) + a.e), 0);
    }
  }
}

static near instruction(const fused *k, const tni_instr *i, const near *r) {
  switch (i->op) {
    case TN_OP_ADD:
      return add(k, r[i->a], 1, r[i->b]);
    case TN_OP_SUB:
      return add(k, r[i->a], -1, r[i->b]);
    case TN_OP_MUL:
      return mul(k, r[i->a], r[i->b]);
    case TN_OP_DIV:
      return divide(k, r[i->a], r[i->b]);
    default:
      return unary(k, i->op, (double)i->value, r[i->a]);
  }
}

/* --- what the chain reads --------------------------------------------------------------------------------------- */

static float *floats(const fused *k, int64_t n) {
  return tni_arena_alloc(k->ev->arena, (size_t)(n + 1) * sizeof(float), 64);
}

static tn_status read_floats(fused *k, tn_id v, float **out, int64_t *count, int64_t *rank) {
  tni_tensor t;
  tn_status st = tni_ref_operand(k->ev, v, &t);
  if (st != TN_OK) return st;
  if (tni_dims_count(t.dims, t.rank, count) != TN_OK) return tni_fail(k->ev->err, TN_E_LIMIT, k->n->name, "too large");
  if (!(*out = floats(k, *count))) return tni_fail_memory(k->ev->err, k->n->name);
  tni_tensor_to_f32(&t, 0, *count, *out);
  *rank = t.rank;
  return TN_OK;
}

static tn_status product(fused *k, uint32_t p) {
  const tni_part *part = &k->f.parts[p];
  const float *w;
  const tn_numerics *num;
  int64_t N, K;
  tn_status st = tni_ref_weight(k->ev, k->n->in[1 + part->weight], !k->f.trans_b, &w, &N, &K, &num);
  if (st != TN_OK) return st;
  if (K != k->K || part->first + part->count > N)
    return tni_fail(k->ev->err, TN_E_INTERNAL, k->n->name, "part %u does not fit its weight", p);
  float *y = floats(k, k->M * part->count), *e = floats(k, k->M * part->count);
  if (!y || !e) return tni_fail_memory(k->ev->err, k->n->name);
  st = tni_reference_matmul(num, k->x, k->M, K, w + part->first * K, part->count, NULL, y, e, &k->ev->s->run.run);
  if (st != TN_OK) return tni_fail(k->ev->err, st, k->n->name, "numerics that the reference does not know");
  const double rel = tni_reference_bound(num, K);
  for (int64_t i = 0; i < k->M * part->count; i++) e[i] = (float)(rel * (double)e[i]);
  k->product[p].y = y;
  k->product[p].e = e;
  k->tiny = num->denormals == TN_DENORM_FLUSH ? (double)FLT_MIN : 0x1p-149;
  return TN_OK;
}

static tn_status prepare(fused *k) {
  int64_t total, rank;
  float *x;
  tn_status st = read_floats(k, k->n->in[0], &x, &total, &rank);
  if (st != TN_OK) return st;
  const tn_value *w = k->ev->x->exec->view.values[k->n->in[1]];
  st = tni_ex_eval(k->ev->s->model->graph->exprs, w->dims[k->f.trans_b ? 1 : 0], k->ev->x->dims,
                   k->ev->x->exec->view.n_symbols, &k->K);
  if (st != TN_OK) return tni_fail(k->ev->err, st, k->n->name, "a weight has unknown dims");
  k->x = x;
  k->M = k->K ? total / k->K : 0;
  for (uint32_t p = 0; st == TN_OK && p < k->f.n_parts; p++) st = product(k, p);
  for (uint32_t i = 0; st == TN_OK && i + k->f.n_parts < k->f.chain.n_in; i++)
    st = read_floats(k, k->n->in[1 + k->f.n_weights + i], &k->extra[i].v, &k->extra[i].count, &k->extra[i].rank);
  return st;
}

/* --- elements --------------------------------------------------------------------------------------------------- */

static near given(const fused *k, uint32_t reg, int64_t m, int64_t n, int64_t width) {
  if (reg < k->f.n_parts) {
    const int64_t at = m * width + n;
    return (near){(double)k->product[reg].y[at], (double)k->product[reg].e[at] + k->tiny};
  }
  const uint32_t i = reg - k->f.n_parts;
  const int64_t at = k->extra[i].count == 1 ? 0 : k->extra[i].rank == 1 ? n : m * width + n;
  return (near){at < k->extra[i].count ? (double)k->extra[i].v[at] : NAN, 0};
}

/* Registers of one group at row m, column n. */
static void element(const fused *k, uint32_t group, int64_t m, int64_t n, int64_t width, near *r) {
  const tni_chain *c = &k->f.chain;
  for (uint32_t i = 0; i < k->f.n_parts; i++)
    if (k->f.group[i] == group) r[i] = given(k, i, m, n, width);
  for (uint32_t i = 0; i < c->n_ops; i++) {
    const tni_instr *op = &c->ops[i];
    if (k->f.group[c->n_in + i] != group) continue;
    if (op->a >= k->f.n_parts && op->a < c->n_in) r[op->a] = given(k, op->a, m, n, width);
    if (op->b >= k->f.n_parts && op->b < c->n_in) r[op->b] = given(k, op->b, m, n, width);
    r[c->n_in + i] = instruction(k, op, r);
  }
}

static void evaluate(const fused *k, tni_evaluated *outs) {
  const tni_chain *c = &k->f.chain;
  near r[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_INPUTS + TN_CHAIN_MAX_OPS];
  for (uint32_t p = 0; p < k->f.n_parts; p++) {
    const uint32_t group = k->f.group[p];
    bool seen = false;
    for (uint32_t q = 0; q < p; q++) seen = seen || k->f.group[q] == group;
    const int64_t width = k->f.parts[p].count;
    for (int64_t i = 0; !seen && i < k->M * width; i++) {
      element(k, group, i / width, i % width, width, r);
      for (uint32_t o = 0; o < c->n_results; o++) {
        if (k->f.group[c->results[o]] != group || !outs[o].bound) continue;
        ((float *)outs[o].t.data)[i] = (float)r[c->results[o]].v;
        /* The reference's own rounding counts too. */
        outs[o].bound[i] = (float)(r[c->results[o]].e + u * fabs(r[c->results[o]].v));
      }
    }
  }
}

tn_status tni_ref_fused(tni_evaluation *ev, tn_id node, tni_evaluated *outs) {
  fused k = {.ev = ev, .n = ev->x->exec->view.nodes[node]};
  const char *why = tni_fused_read(k.n, &k.f);
  if (why) return tni_fail(ev->err, TN_E_INTERNAL, k.n->name, "%s", why);
  tn_status st = prepare(&k);
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
      if (k.f.group[p] == k.f.group[k.f.chain.results[o]] && count != k.M * k.f.parts[p].count)
        return tni_fail(ev->err, TN_E_INTERNAL, k.n->name, "an output that does not have its product's shape");
    outs[o].bound = floats(&k, count);
    if (!outs[o].bound) return tni_fail_memory(ev->err, k.n->name);
  }
  if (st == TN_OK) evaluate(&k, outs);
  return st;
}
