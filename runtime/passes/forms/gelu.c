/* SPDX-License-Identifier: Apache-2.0
 *
 * gelu:  x * 0.5 * (1 + erf(x / sqrt 2))  and  x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))  ->  Gelu(x)
 * with approximate "none" or "tanh".
 *
 * Not one order of the factors is looked for but all: what erf or tanh takes is read as a polynomial in x, and the
 * result as A(x) + B(x) * t with t their value; both must be 0.5 x. x is whatever value makes that true.
 *
 * Keeps: the value, name and shape of the last node, up to rounding and to the constants' (1e-6; halves 1e-3).
 */
#include <math.h>
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/forms/forms.h"

enum { DEGREE = 4, MAX_VISITS = 64, MAX_CANDIDATES = 16, MAX_CHAIN = 6, MAX_DEPTH = 8 };

/* Coefficients of x^0 to x^3, without t and with t^1. */
typedef struct poly {
  double c[2][DEGREE];
} poly;

typedef struct poly_reader {
  const tni_graph *g;
  tn_id x, t; /* t TN_NONE: there is none yet */
  uint32_t visits;
} poly_reader;

static bool times_poly(const poly *a, const poly *b, poly *out) {
  poly r = {0};
  for (int ta = 0; ta < 2; ta++) {
    for (int tb = 0; tb < 2; tb++) {
      for (int i = 0; i < DEGREE; i++) {
        for (int k = 0; k < DEGREE; k++) {
          const double p = a->c[ta][i] * b->c[tb][k];
          if (p == 0) continue;
          if (ta + tb > 1 || i + k >= DEGREE) return false;
          r.c[ta + tb][i + k] += p;
        }
      }
    }
  }
  *out = r;
  return true;
}

static void add_poly(poly *a, const poly *b, double sign) {
  for (int t = 0; t < 2; t++)
    for (int i = 0; i < DEGREE; i++) a->c[t][i] += sign * b->c[t][i];
}

static bool read_value(poly_reader *r, tn_id v, uint32_t depth, poly *p);

/* x to the power of a small whole constant. */
static bool read_pow(poly_reader *r, const tni_node *n, uint32_t depth, poly *p) {
  poly base;
  double e;
  if (!tni_match_scalar(r->g, n->pub.in[1], &e) || e != rint(e) || e < 1 || e >= DEGREE) return false;
  if (!read_value(r, n->pub.in[0], depth, &base)) return false;
  *p = base;
  for (int i = 1; i < (int)e; i++)
    if (!times_poly(p, &base, p)) return false;
  return true;
}

static bool read_node(poly_reader *r, const tni_node *n, uint32_t depth, poly *p) {
  poly b;
  double c;
  if (n->pub.op == TN_OP_POW) return read_pow(r, n, depth, p);
  if (n->pub.op == TN_OP_DIV) {
    if (!tni_match_scalar(r->g, n->pub.in[1], &c) || c == 0 || !read_value(r, n->pub.in[0], depth, p)) return false;
    for (int i = 0; i < 2 * DEGREE; i++) p->c[i / DEGREE][i % DEGREE] /= c;
    return true;
  }
  if (n->pub.op != TN_OP_ADD && n->pub.op != TN_OP_SUB && n->pub.op != TN_OP_MUL) return false;
  if (!read_value(r, n->pub.in[0], depth, p) || !read_value(r, n->pub.in[1], depth, &b)) return false;
  if (n->pub.op == TN_OP_MUL) return times_poly(p, &b, p);
  add_poly(p, &b, n->pub.op == TN_OP_ADD ? 1 : -1);
  return true;
}

static bool read_value(poly_reader *r, tn_id v, uint32_t depth, poly *p) {
  const tni_value *val = tni_match_value(r->g, v);
  memset(p, 0, sizeof *p);
  if (!val || depth > MAX_DEPTH || ++r->visits > MAX_VISITS) return false;
  if (v == r->x) {
    p->c[0][1] = 1;
    return true;
  }
  if (v == r->t) {
    p->c[1][0] = 1;
    return true;
  }
  if (tni_match_scalar(r->g, v, &p->c[0][0])) return true;
  if (val->pub.producer >= r->g->n_nodes || r->g->nodes[val->pub.producer]->dead) return false;
  const tni_node *n = r->g->nodes[val->pub.producer];
  return n->op && read_node(r, n, depth + 1, p);
}

static bool poly_is(const poly *p, uint32_t dtype, const poly *want) {
  for (int i = 0; i < 2 * DEGREE; i++)
    if (!tni_match_close(dtype, p->c[i / DEGREE][i % DEGREE], want->c[i / DEGREE][i % DEGREE])) return false;
  return true;
}

/* Values below v that could be x, nearest first. */
static uint32_t gelu_candidates(const tni_graph *g, tn_id v, tn_id *list) {
  uint32_t n = 0;
  list[n++] = v;
  for (uint32_t i = 0; i < n; i++) {
    const tn_id p = g->values[list[i]]->pub.producer;
    const tni_node *node = p < g->n_nodes ? g->nodes[p] : NULL;
    if (!node || !node->op || (node->pub.op < TN_OP_ADD || node->pub.op > TN_OP_POW)) continue;
    for (uint32_t k = 0; k < node->pub.n_in && n < MAX_CANDIDATES; k++) {
      bool known = node->pub.in[k] == TN_NONE || g->values[node->pub.in[k]]->pub.kind == TN_VALUE_CONST;
      for (uint32_t j = 0; j < n && !known; j++) known = list[j] == node->pub.in[k];
      if (!known) list[n++] = node->pub.in[k];
    }
  }
  return n;
}

/* The node that completes the form, on the way from t to its only readers; NULL. */
static tni_node *completes_gelu(poly_reader *r) {
  const poly want = {{{0, 0.5, 0, 0}, {0, 0.5, 0, 0}}};
  tn_id v = r->t;
  for (int i = 0; i < MAX_CHAIN; i++) {
    poly p;
    tn_id next = tni_match_only_reader(r->g, v);
    if (next == TN_NONE || r->g->nodes[next]->pub.n_out != 1) return NULL;
    v = r->g->nodes[next]->pub.out[0];
    r->visits = 0;
    if (!read_value(r, v, 0, &p)) return NULL;
    if (poly_is(&p, tni_match_precision(r->g, r->x), &want) && tni_match_same_shape(r->g, r->x, v))
      return r->g->nodes[next];
  }
  return NULL;
}

/* The last node of the GELU around t = erf(..) or tanh(..); its x into *x. */
static tni_node *find_gelu(const tni_graph *g, const tni_node *t, tn_id *x) {
  const double k = 0.7978845608028654;
  const poly want = {
      {{0, t->pub.op == TN_OP_ERF ? 0.7071067811865476 : k, 0, t->pub.op == TN_OP_ERF ? 0 : k * 0.044715}}};
  tn_id list[MAX_CANDIDATES];
  const uint32_t n = gelu_candidates(g, t->pub.in[0], list);
  for (uint32_t i = 0; i < n; i++) {
    poly_reader r = {.g = g, .x = list[i], .t = TN_NONE};
    poly p;
    tni_node *last;
    if (!read_value(&r, t->pub.in[0], 0, &p) || !poly_is(&p, tni_match_precision(g, list[i]), &want)) continue;
    r.t = t->pub.out[0];
    *x = list[i];
    if ((last = completes_gelu(&r))) return last;
  }
  return NULL;
}

tn_status tni_pass_gelu(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    const tni_node *t = g->nodes[i];
    if (t->dead || !t->op || (t->pub.op != TN_OP_ERF && t->pub.op != TN_OP_TANH)) continue;
    tni_build_node b = {.type = "Gelu", .version = 20, .n_in = 1, .n_attr = 1};
    tni_node *last = find_gelu(g, t, &b.in[0]);
    if (!last) continue;
    b.attr[0] = tni_raw_string("approximate", t->pub.op == TN_OP_ERF ? "none" : "tanh");
    tn_status st = tni_build_in_place(g, last, &b, err);
    if (st != TN_OK) return st;
    fired++;
  }
  return tni_build_done(g, fired, n, err);
}
