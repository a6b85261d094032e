/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oracle/reference_chain.h"

#include <float.h>
#include <math.h>

/* A number, and how far the device may be from it; infinite where nothing can be said. */
typedef struct near {
  double v, e;
} near;

static const double HALF_ULP = 0x1p-24;

/* --- steps ------------------------------------------------------------------------------------------------------ */

/* v is off by e before the device rounds it, `roundings` times. */
static near near_rounded(const tni_chain_given *k, double v, double e, double roundings) {
  const double top = fabs(v) + e;
  if (!(top * (1 + roundings * HALF_ULP) < FLT_MAX)) return (near){v, INFINITY};
  return (near){v, e + roundings * HALF_ULP * top + k->tiny};
}

static near near_add(const tni_chain_given *k, near a, double sign, near b) {
  return near_rounded(k, a.v + sign * b.v, a.e + b.e, 1);
}

static near near_mul(const tni_chain_given *k, near a, near b) {
  return near_rounded(k, a.v * b.v, fabs(a.v) * b.e + fabs(b.v) * a.e + a.e * b.e, 1);
}

static near near_divide(const tni_chain_given *k, near a, near b) {
  const double v = a.v / b.v;
  if (!(fabs(b.v) > b.e)) return (near){v, INFINITY};
  return near_rounded(k, v, (a.e + fabs(v) * b.e) / (fabs(b.v) - b.e), 1);
}

static double exact_sigmoid(double z) {
  const double e = exp(-fabs(z));
  return (z < 0 ? e : 1) / (1 + e);
}

/* Largest slopes: sigmoid 1/4, tanh 1; swish s(z) + z s'(z) <= 1.0999 at z = 2.3994, whatever alpha; Gelu Phi(x) + x
 * phi(x)
 * <= 1.1290 at sqrt 2, its tanh form too. Losses of the function itself, 8 u being 4 ulp at most. */
static near near_unary(const tni_chain_given *k, uint32_t op, double value, near a) {
  const double x = a.v;
  switch (op) {
    case TN_OP_NEG:
      return (near){-x, a.e};
    case TN_OP_RELU:
      return (near){x > 0 || isnan(x) ? x : 0, a.e};
    case TN_OP_SIGMOID:
      return near_rounded(k, exact_sigmoid(x), 0.25 * a.e, 8);
    case TN_OP_TANH:
      return near_rounded(k, tanh(x), a.e, 8);
    case TN_OP_SWISH:
      return near_rounded(k, x * exact_sigmoid(value * x), 1.1 * a.e + 0.5 * HALF_ULP * (fabs(x) + a.e), 8);
    default: {
      const double t = 0.79788456080286536 * (x + 0.044715 * x * x * x);
      return near_rounded(k, value != 0 ? x * exact_sigmoid(2 * t) : 0.5 * x * erfc(-x * 0.70710678118654752),
                          1.13 * a.e + 8 * HALF_ULP * (fabs(x) + a.e), 0);
    }
  }
}

static near near_instruction(const tni_chain_given *k, const tni_instr *i, const near *r) {
  switch (i->op) {
    case TN_OP_ADD:
      return near_add(k, r[i->a], 1, r[i->b]);
    case TN_OP_SUB:
      return near_add(k, r[i->a], -1, r[i->b]);
    case TN_OP_MUL:
      return near_mul(k, r[i->a], r[i->b]);
    case TN_OP_DIV:
      return near_divide(k, r[i->a], r[i->b]);
    default:
      return near_unary(k, i->op, (double)i->value, r[i->a]);
  }
}

/* --- elements --------------------------------------------------------------------------------------------------- */

static near near_given(const tni_chain_given *k, uint32_t reg, int64_t m, int64_t n, int64_t width) {
  if (reg < k->f->n_parts) {
    const int64_t at = m * width + n;
    return (near){(double)k->product[reg].y[at], (double)k->product[reg].e[at] + k->tiny};
  }
  const uint32_t i = reg - k->f->n_parts;
  const int64_t at = k->extra[i].count == 1 ? 0 : k->extra[i].rank == 1 ? n : m * width + n;
  return (near){at < k->extra[i].count ? (double)k->extra[i].v[at] : NAN, 0};
}

/* Registers of one group at row m, column n. */
static void chain_element(const tni_chain_given *k, uint32_t group, int64_t m, int64_t n, int64_t width, near *r) {
  const tni_chain *c = &k->f->chain;
  for (uint32_t i = 0; i < k->f->n_parts; i++)
    if (k->f->group[i] == group) r[i] = near_given(k, i, m, n, width);
  for (uint32_t i = 0; i < c->n_ops; i++) {
    const tni_instr *op = &c->ops[i];
    if (k->f->group[c->n_in + i] != group) continue;
    if (op->a >= k->f->n_parts && op->a < c->n_in) r[op->a] = near_given(k, op->a, m, n, width);
    if (op->b >= k->f->n_parts && op->b < c->n_in) r[op->b] = near_given(k, op->b, m, n, width);
    r[c->n_in + i] = near_instruction(k, op, r);
  }
}

void tni_reference_chain(const tni_chain_given *k, float *const *y, float *const *bound) {
  const tni_chain *c = &k->f->chain;
  near r[TN_FUSED_MAX_PARTS + TN_CHAIN_MAX_INPUTS + TN_CHAIN_MAX_OPS];
  for (uint32_t p = 0; p < k->f->n_parts; p++) {
    const uint32_t group = k->f->group[p];
    bool seen = false;
    for (uint32_t q = 0; q < p; q++) seen = seen || k->f->group[q] == group;
    const int64_t width = k->f->parts[p].count;
    for (int64_t i = 0; !seen && i < k->M * width; i++) {
      chain_element(k, group, i / width, i % width, width, r);
      for (uint32_t o = 0; o < c->n_results; o++) {
        if (k->f->group[c->results[o]] != group || !y[o]) continue;
        y[o][i] = (float)r[c->results[o]].v;
        /* The reference's own rounding counts too. */
        bound[o][i] = (float)(r[c->results[o]].e + HALF_ULP * fabs(r[c->results[o]].v));
      }
    }
  }
}
