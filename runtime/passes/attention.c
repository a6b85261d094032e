/* SPDX-License-Identifier: Apache-2.0
 *
 * attention:  softmax(scale * q k^T, capped, plus mask) v  ->  Attention (24) on [batch, heads, length, head size].
 *
 * Matches, all by structure and proved dims:
 *  - MatMul(q, Transpose(k)), the scale as Mul or Div by constants on q, on k (before or behind the Transpose), on the
 *    scores, or several of them;
 *  - cap * Tanh(scores / cap) behind the scale;
 *  - a mask that is added, or Where(keep, scores, c) or Where(drop, c, scores) with c -inf or so low (<= -1e30) that
 * any score vanishes in it;
 *  - Softmax over the keys, and Where(IsNaN(p), 0, p) behind it;
 *  - repeat_kv on both k and v (Unsqueeze, Expand, Reshape), which is undone, or heads that MatMul broadcasts.
 * [batch, length, size] counts as one head; its mask may have two axes at most.
 * An added mask that is Where(keep, 0, -inf) is handed over as keep.
 *
 * Keeps: the value, name and shape of the last MatMul, up to rounding. A query that sees no key gives zeros: so did the
 * IsNaN guard, while without one the primitives gave NaN. NaN in q, k or v comes through, which a guard hid. Scores or
 * probabilities that somebody else reads stay primitives, or they would be computed twice. Caches (Concat of past and
 * present) stay as they are.
 */
#include <math.h>
#include <string.h>

#include "runtime/passes/build.h"

typedef struct match {
  tni_graph *g;
  tn_id q, k, v, mask, keep; /* mask: added; keep: boolean, with c in its place where it is false */
  tn_id scores;              /* output of the first MatMul */
  double scale, cap, low;
  uint32_t rank;    /* 4, or 3: [batch, length, size] of one head */
  bool inverted;    /* keep is true where c stands */
  bool k_by_length; /* k is [batch, length, heads, size]: it needs a Transpose */
} match;

static bool has_rank(const tni_graph *g, tn_id v, uint32_t rank) {
  const tni_value *x = tni_match_value(g, v);
  for (uint32_t d = 0; x && x->pub.rank == rank && d < rank; d++)
    if (x->pub.dims[d] == TNI_EXPR_NONE) return false;
  return x && x->pub.rank == rank;
}

static tn_expr dim(const tni_graph *g, tn_id v, uint32_t d) { return g->values[v]->pub.dims[d]; }

static bool const_dim(const tni_graph *g, tn_id v, uint32_t d, int64_t *n) {
  return tni_ex_is_const(g->exprs, dim(g, v, d), n);
}

/* v with Mul and Div by constants taken off. */
static tn_id unscale(const tni_graph *g, tn_id v, double *scale) {
  for (;;) {
    const tni_node *n;
    double c;
    tn_id rest;
    if ((n = tni_match_node(g, v, TN_OP_MUL)) && tni_match_with_scalar(g, n, &c, &rest)) {
      *scale *= c;
    } else if ((n = tni_match_node(g, v, TN_OP_DIV)) && tni_match_scalar(g, n->pub.in[1], &c) && c != 0 &&
               tni_match_same_shape(g, n->pub.in[0], v)) {
      *scale /= c;
      rest = n->pub.in[0];
    } else {
      return v;
    }
    v = rest;
  }
}

static bool has_perm(const tni_node *n, uint32_t rank, const int64_t *want) {
  const int64_t *perm;
  return tni_attr_ints(&n->pub, "perm", &perm) == rank && perm && memcmp(perm, want, rank * sizeof *want) == 0;
}

/* Reshape(Expand(x)) that repeats every head of [batch, heads, length, size]: x's own operand, else v. */
static tn_id unrepeat(const tni_graph *g, tn_id v) {
  const tni_node *out = tni_match_node(g, v, TN_OP_RESHAPE), *wide, *in;
  if (!out || !has_rank(g, v, 4) || !(wide = tni_match_node(g, out->pub.in[0], TN_OP_EXPAND))) return v;
  if (!(in = tni_match_node(g, wide->pub.in[0], TN_OP_UNSQUEEZE)))
    in = tni_match_node(g, wide->pub.in[0], TN_OP_RESHAPE);
  if (!in || !has_rank(g, in->pub.in[0], 4)) return v;
  const tni_value *x = g->values[in->pub.in[0]], *u = g->values[wide->pub.in[0]], *w = g->values[wide->pub.out[0]];
  int64_t one, heads, times, all;
  if (u->pub.rank != 5 || w->pub.rank != 5 || !tni_ex_is_const(g->exprs, u->pub.dims[2], &one) || one != 1) return v;
  if (!tni_ex_is_const(g->exprs, x->pub.dims[1], &heads) || !tni_ex_is_const(g->exprs, w->pub.dims[2], &times) ||
      !const_dim(g, v, 1, &all) || heads < 1 || times < 1 || all / heads != times || all % heads)
    return v;
  for (uint32_t d = 0; d < 4; d++) {
    const uint32_t at = d < 2 ? d : d + 1;
    if (u->pub.dims[at] != x->pub.dims[d] || w->pub.dims[at] != x->pub.dims[d]) return v;
    if (d != 1 && dim(g, v, d) != x->pub.dims[d]) return v;
  }
  return in->pub.in[0];
}

/* The keys behind the second operand of the first MatMul. */
static bool find_keys(match *m, tn_id v) {
  static const int64_t plain[2][4] = {{0, 2, 1}, {0, 1, 3, 2}}, by_length[2][4] = {{1, 2, 0}, {0, 2, 3, 1}};
  const tni_graph *g = m->g;
  v = unscale(g, v, &m->scale);
  const tni_node *t = tni_match_node(g, v, TN_OP_TRANSPOSE);
  if (!t || !has_rank(g, t->pub.in[0], m->rank)) return false;
  m->k_by_length = has_perm(t, m->rank, by_length[m->rank == 4]);
  if (!m->k_by_length && !has_perm(t, m->rank, plain[m->rank == 4])) return false;
  m->k = unscale(g, t->pub.in[0], &m->scale);
  return has_rank(g, m->k, m->rank);
}

/* cap * tanh(x / cap). */
static tn_id uncap(const match *m, tn_id v, double *cap) {
  const tni_graph *g = m->g;
  const tni_node *mul = tni_match_node(g, v, TN_OP_MUL), *tanh, *n;
  tn_id t, x;
  double c, inner;
  if (!mul || !tni_match_with_scalar(g, mul, &c, &t) || !(c > 0) || !(tanh = tni_match_node(g, t, TN_OP_TANH)))
    return v;
  x = tanh->pub.in[0];
  if ((n = tni_match_node(g, x, TN_OP_DIV)) && tni_match_near(g, n->pub.in[1], c) &&
      tni_match_same_shape(g, n->pub.in[0], x)) {
    *cap = c;
    return n->pub.in[0];
  }
  if ((n = tni_match_node(g, x, TN_OP_MUL)) && tni_match_with_scalar(g, n, &inner, &t) &&
      tni_match_close(g->values[x]->pub.dtype, inner * c, 1)) {
    *cap = c;
    return t;
  }
  return v;
}

/* From the scores under the mask down to q and k. */
static bool find_product(match *m, tn_id v) {
  const tni_graph *g = m->g;
  m->scale = 1;
  m->cap = 0;
  v = unscale(g, uncap(m, v, &m->cap), &m->scale);
  const tni_node *mul = tni_match_node(g, v, TN_OP_MATMUL);
  if (!mul || tni_match_uses(g, v) != 1) return false;
  m->scores = v;
  m->q = unscale(g, mul->pub.in[0], &m->scale);
  return has_rank(g, m->q, m->rank) && find_keys(m, mul->pub.in[1]) && m->scale > 0;
}

/* v is Where(keep, 0, -inf). */
static bool is_keep(const tni_graph *g, tn_id v, tn_id *keep) {
  const tni_node *n = tni_match_node(g, v, TN_OP_WHERE);
  double zero, low;
  if (!n || !tni_match_scalar(g, n->pub.in[1], &zero) || !tni_match_scalar(g, n->pub.in[2], &low)) return false;
  if (zero != 0 || low != (double)-INFINITY || !tni_match_same_shape(g, n->pub.in[0], v)) return false;
  *keep = n->pub.in[0];
  return true;
}

static bool find_scores(match *m, tn_id v) {
  const tni_graph *g = m->g;
  const tni_node *n;
  m->mask = m->keep = TN_NONE;
  if (find_product(m, v)) return true;
  if (tni_match_uses(g, v) != 1) return false;
  if ((n = tni_match_node(g, v, TN_OP_WHERE))) {
    const uint32_t t = g->values[v]->pub.dtype;
    m->inverted = tni_match_scalar(g, n->pub.in[1], &m->low);
    if (!m->inverted && !tni_match_scalar(g, n->pub.in[2], &m->low)) return false;
    const tn_id scores = n->pub.in[m->inverted ? 2 : 1];
    m->keep = n->pub.in[0];
    return (m->low == (double)-INFINITY || (m->low <= -1e30 && t != TN_DT_F16)) && tni_match_same_shape(g, scores, v) &&
           find_product(m, scores);
  }
  if (!(n = tni_match_node(g, v, TN_OP_ADD))) return false;
  for (uint32_t i = 0; i < 2; i++) {
    if (!tni_match_same_shape(g, n->pub.in[i], v) || !find_product(m, n->pub.in[i])) continue;
    m->mask = n->pub.in[!i];
    m->low = (double)-INFINITY;
    if (is_keep(g, m->mask, &m->keep)) m->mask = TN_NONE;
    return true;
  }
  return false;
}

/* The Softmax over the last axis behind p. */
static const tni_node *find_softmax(const match *m, tn_id p) {
  const tni_graph *g = m->g;
  const tni_node *where = tni_match_node(g, p, TN_OP_WHERE), *is_nan, *softmax;
  uint32_t uses = 1;
  double zero;
  if (tni_match_uses(g, p) != 1) return NULL;
  if (where) {
    is_nan = tni_match_node(g, where->pub.in[0], TN_OP_ISNAN);
    if (!is_nan || is_nan->pub.in[0] != where->pub.in[2] || tni_match_uses(g, where->pub.in[0]) != 1) return NULL;
    if (!tni_match_scalar(g, where->pub.in[1], &zero) || zero != 0) return NULL;
    p = where->pub.in[2];
    uses = 2;
  }
  if (!(softmax = tni_match_node(g, p, TN_OP_SOFTMAX)) || tni_match_uses(g, p) != uses || !has_rank(g, p, m->rank))
    return NULL;
  const int64_t axis = tni_attr_i(&softmax->pub, "axis", -1);
  return axis == -1 || axis == (int64_t)m->rank - 1 ? softmax : NULL;
}

/* The mask ends in the keys and broadcasts to the scores. */
static bool mask_fits(const match *m) {
  const tni_graph *g = m->g;
  const tni_value *x = tni_match_value(g, m->mask != TN_NONE ? m->mask : m->keep), *s = g->values[m->scores];
  if (!x) return true;
  if (x->pub.rank < 1 || x->pub.rank > (m->rank == 4 ? 4 : 2)) return false; /* of 3 axes the first would be heads */
  for (uint32_t i = 0; i < x->pub.rank; i++) {
    const tn_expr d = x->pub.dims[x->pub.rank - 1 - i];
    int64_t n;
    if (d == TNI_EXPR_NONE) return false;
    if (d != s->pub.dims[m->rank - 1 - i] && (i == 0 || !tni_ex_is_const(g->exprs, d, &n) || n != 1)) return false;
  }
  return m->mask == TN_NONE || x->pub.dtype == g->values[m->q]->pub.dtype;
}

/* [batch, length, size]: one head. */
static bool one_head(const match *m) {
  const tni_graph *g = m->g;
  const uint32_t batch = m->k_by_length ? 1 : 0;
  return dim(g, m->q, 0) == dim(g, m->k, batch) && dim(g, m->q, 0) == dim(g, m->v, 0) &&
         dim(g, m->q, 2) == dim(g, m->k, 2) && dim(g, m->k, !batch) == dim(g, m->v, 1);
}

/* Heads of k and v as Attention needs them: repetition undone on both, or on neither. */
static bool find_heads(match *m) {
  const tni_graph *g = m->g;
  const uint32_t heads = m->k_by_length ? 2 : 1, length = m->k_by_length ? 1 : 2;
  const tn_id k = m->k_by_length ? m->k : unrepeat(g, m->k), v = unrepeat(g, m->v);
  int64_t nq, nk, nv;
  if (k != m->k && v != m->v) {
    m->k = k;
    m->v = v;
  }
  if (dim(g, m->q, 0) != dim(g, m->k, 0) || dim(g, m->q, 0) != dim(g, m->v, 0)) return false;
  if (dim(g, m->q, 3) != dim(g, m->k, 3) || dim(g, m->k, length) != dim(g, m->v, 2)) return false;
  if (dim(g, m->k, heads) != dim(g, m->v, 1)) return false;
  if (dim(g, m->q, 1) == dim(g, m->v, 1)) return true;
  return const_dim(g, m->q, 1, &nq) && const_dim(g, m->k, heads, &nk) && const_dim(g, m->v, 1, &nv) && nk >= 1 &&
         nq % nk == 0;
}

static bool is_float(const tni_graph *g, tn_id v) {
  const uint32_t t = g->values[v]->pub.dtype;
  return t == TN_DT_F32 || t == TN_DT_F16 || t == TN_DT_BF16;
}

static bool find(match *m, const tni_node *last) {
  const tni_graph *g = m->g;
  m->rank = g->values[last->pub.out[0]]->pub.rank;
  m->v = last->pub.in[1];
  if ((m->rank != 3 && m->rank != 4) || !has_rank(g, m->v, m->rank)) return false;
  const tni_node *softmax = find_softmax(m, last->pub.in[0]);
  if (!softmax || !find_scores(m, softmax->pub.in[0])) return false;
  return is_float(g, m->q) && has_rank(g, m->scores, m->rank) && mask_fits(m) &&
         (m->rank == 4 ? find_heads(m) : one_head(m));
}

/* A node of one output that nobody had; TN_NONE without memory. */
static tn_id add(tni_graph *g, uint32_t dtype, const char *type, int64_t version, const tn_id *in, uint32_t n_in,
                 const tni_raw_attr *attr, uint32_t n_attr, tn_error *err) {
  const tn_id v = tni_graph_add_value(g, "", TN_VALUE_ACT, dtype);
  tn_id node;
  if (v == TN_NONE) return TN_NONE;
  g->values[v]->pub.rank = TNI_RANK_UNKNOWN;
  return tni_graph_add_node(g, "", "", type, version, in, n_in, &v, 1, attr, n_attr, &node, err) == TN_OK ? v : TN_NONE;
}

/* The operands that Attention lacks. */
static bool complete(match *m, tn_error *err) {
  static const int64_t perm[2][4] = {{1, 0, 2}, {0, 2, 1, 3}};
  tni_graph *g = m->g;
  const uint32_t t = g->values[m->q]->pub.dtype;
  if (m->k_by_length) {
    const tni_raw_attr a = tni_build_ints("perm", perm[m->rank == 4], m->rank);
    m->k = add(g, t, "Transpose", 13, &m->k, 1, &a, 1, err);
  }
  if (m->keep != TN_NONE && m->low == (double)-INFINITY) {
    m->mask = m->inverted ? add(g, TN_DT_BOOL, "Not", 1, &m->keep, 1, NULL, 0, err) : m->keep;
  } else if (m->keep != TN_NONE) {
    const tn_id zero = tni_build_filled(g, t, 1, 0), low = tni_build_filled(g, t, 1, m->low);
    const tn_id in[3] = {m->keep, m->inverted ? low : zero, m->inverted ? zero : low};
    m->mask = zero == TN_NONE || low == TN_NONE ? TN_NONE : add(g, t, "Where", 16, in, 3, NULL, 0, err);
  }
  return m->k != TN_NONE && (m->keep == TN_NONE || m->mask != TN_NONE);
}

static tn_status rewrite(match *m, tni_node *last, tn_error *err) {
  if (!complete(m, err)) return tni_fail_memory(err, last->pub.name);
  tni_build_node b = {.type = "Attention", .version = 24, .in = {m->q, m->k, m->v, m->mask}, .n_attr = 1};
  b.n_in = m->mask == TN_NONE ? 3 : 4;
  b.attr[0] = tni_build_float("scale", m->scale);
  if (m->rank == 3) {
    b.attr[b.n_attr++] = tni_build_int("q_num_heads", 1);
    b.attr[b.n_attr++] = tni_build_int("kv_num_heads", 1);
  }
  if (m->cap > 0) b.attr[b.n_attr++] = tni_build_float("softcap", m->cap);
  return tni_build_in_place(m->g, last, &b, err);
}

tn_status tni_pass_attention(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *last = g->nodes[i];
    match m = {.g = g};
    if (last->dead || !last->op || last->pub.op != TN_OP_MATMUL || !find(&m, last)) continue;
    tn_status st = rewrite(&m, last, err);
    if (st != TN_OK) return st;
    fired++;
  }
  return tni_build_done(g, fired, n, err);
}
