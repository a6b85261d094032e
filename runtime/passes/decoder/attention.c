/* SPDX-License-Identifier: Apache-2.0
 *
 * attention:  softmax(scale * q k^T, capped, plus mask) v  ->  Attention (24) on [batch, heads, length, head size].
 *
 * Matches, all by structure and proved dims:
 *  - MatMul(q, Transpose(k)), the scale as Mul or Div by constants on q, on k (before or after the Transpose), on the
 *    scores, or several of them;
 *  - cap * Tanh(scores / cap) after the scale;
 *  - masks, up to four one after another: added, or Where(keep, scores, c) or Where(drop, c, scores) with c -inf or so
 *    low (<= -1e30) that any score vanishes in it;
 *  - a factor or divisor per head on the scores, [heads, 1, 1], which is put on q;
 *  - Softmax over the keys, and Where(IsNaN(p), 0, p) after it;
 *  - sinks, a column after the scores that the product with v does not read: then it is tenon.Attention;
 *  - repeat_kv on both k and v (Unsqueeze, Expand, Reshape), which is undone, or heads that MatMul broadcasts.
 * An Attention that is there already (MultiHeadAttention of com.microsoft) and reads repeated heads, joined to [batch,
 * length, heads * size], is given 4 axes and those that were repeated (attention_repeat.c). [batch, length, size]
 * counts as one head; its mask may have two axes at most. How many keys masks have need not be proved where the product
 * with v says it: that fails for any other number than v's, which is k's; so nothing between scores and Softmax can
 * have been broadcast along the keys. An added mask that is Where(keep, 0, -inf) is handed over as keep; several masks
 * as their sum, or conjunction.
 *
 * Keeps: the value, name and shape of the last MatMul, up to rounding. A query that sees no key gives zeros: so did the
 * IsNaN guard, while without one the primitives gave NaN. NaN in q, k or v comes through, which a guard hid. Scores or
 * probabilities that somebody else reads stay primitives, or they would be computed twice. Caches (Concat of past and
 * present) stay as they are.
 */
#include <string.h>

#include "runtime/passes/decoder/attention.h"
#include "runtime/passes/decoder/decoder.h"

typedef struct match {
  tni_graph *g;
  tn_id q, k, v;
  tn_id scores; /* output of the first MatMul */
  tn_id sinks;  /* one number per head, or TN_NONE */
  tn_id gain;   /* scores are multiplied by it, or divided (gain_op); TN_NONE: nothing */
  const char *gain_op;
  tni_attention_masks masks;
  double scale, cap;
  uint32_t rank;    /* 4, or 3: [batch, length, size] of one head */
  bool k_by_length; /* k is [batch, length, heads, size]: it needs a Transpose */
  bool k_by_size;   /* [batch, heads, size, length]: so does it */
} match;

static tn_expr dim_of_scores(const tni_graph *g, tn_id v, uint32_t d) { return g->values[v]->pub.dims[d]; }

static bool const_dim(const tni_graph *g, tn_id v, uint32_t d, int64_t *n) {
  return tni_ex_is_const(g->exprs, dim_of_scores(g, v, d), n);
}

/* v with Mul and Div by constants taken off. */
static tn_id without_scale(const tni_graph *g, tn_id v, double *scale) {
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

/* The keys that the second operand of the first MatMul is made of. */
static bool find_keys(match *m, tn_id v) {
  static const int64_t plain[2][4] = {{0, 2, 1}, {0, 1, 3, 2}}, by_length[2][4] = {{1, 2, 0}, {0, 2, 3, 1}};
  const tni_graph *g = m->g;
  v = without_scale(g, v, &m->scale);
  const tni_node *t = tni_match_node(g, v, TN_OP_TRANSPOSE);
  if (t && !tni_match_rank(g, t->pub.in[0], m->rank)) return false;
  m->k_by_length = t && has_perm(t, m->rank, by_length[m->rank == 4]);
  m->k_by_size = !m->k_by_length && (!t || !has_perm(t, m->rank, plain[m->rank == 4]));
  if (m->k_by_size) {
    m->k = v;
    return tni_match_rank(g, v, m->rank);
  }
  m->k = without_scale(g, t->pub.in[0], &m->scale);
  return tni_match_rank(g, m->k, m->rank);
}

/* cap * tanh(x / cap). */
static tn_id without_cap(const match *m, tn_id v, double *cap) {
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
      tni_match_close(tni_match_precision(g, x), inner * c, 1)) {
    *cap = c;
    return t;
  }
  return v;
}

/* c has one number for all queries and keys, and axes that scores have. */
static bool is_gain(const tni_graph *g, tn_id c, tn_id scores) {
  const tni_value *x = tni_match_value(g, c), *s = tni_match_value(g, scores);
  if (!x || (x->pub.rank != 3 && x->pub.rank != 4) || s->pub.rank < x->pub.rank) return false;
  for (uint32_t i = 1; i <= x->pub.rank; i++) {
    const tn_expr d = x->pub.dims[x->pub.rank - i];
    int64_t n;
    if (d == TNI_EXPR_NONE) return false;
    const bool one = tni_ex_is_const(g->exprs, d, &n) && n == 1;
    if (!one && (i <= 2 || d != s->pub.dims[s->pub.rank - i])) return false;
  }
  return true;
}

/* v without a factor or divisor per head. */
static tn_id without_gain(match *m, tn_id v) {
  const tni_graph *g = m->g;
  const tni_node *n = tni_match_node(g, v, TN_OP_MUL);
  m->gain_op = n ? "Mul" : "Div";
  if (!n && !(n = tni_match_node(g, v, TN_OP_DIV))) return v;
  for (uint32_t i = 0; i < (n->pub.op == TN_OP_MUL ? 2u : 1u); i++) {
    if (tni_match_uses(g, v) != 1 || !tni_match_same_shape(g, n->pub.in[i], v) || !is_gain(g, n->pub.in[!i], v))
      continue;
    m->gain = n->pub.in[!i];
    return without_scale(g, n->pub.in[i], &m->scale);
  }
  return v;
}

/* From the scores under the mask down to q and k. */
static bool find_product(match *m, tn_id v) {
  const tni_graph *g = m->g;
  m->scale = 1;
  m->cap = 0;
  m->gain = TN_NONE;
  v = without_gain(m, without_scale(g, without_cap(m, v, &m->cap), &m->scale));
  const tni_node *mul = tni_match_node(g, v, TN_OP_MATMUL);
  if (!mul || tni_match_uses(g, v) != 1) return false;
  m->scores = v;
  m->q = without_scale(g, mul->pub.in[0], &m->scale);
  return tni_match_rank(g, m->q, m->rank) && find_keys(m, mul->pub.in[1]) && m->scale > 0;
}

/* v is the product, or the product under masks, one after another; factors on what is masked already count for the
 * masks too. */
static bool find_scores(match *m, tn_id v, double outer) {
  const tni_graph *g = m->g;
  if (find_product(m, v)) {
    m->scale *= outer;
    return m->cap == 0 || outer == 1;
  }
  if (tni_match_uses(g, v) != 1 || m->masks.n == TNI_ATTENTION_LAYERS) return false;
  const tn_id masked = without_scale(g, v, &outer);
  if (!(outer > 0) || (masked != v && tni_match_uses(g, masked) != 1)) return false;
  v = masked;
  tni_attention_layer *l = &m->masks.layer[m->masks.n++];
  for (uint32_t side = 0; side < 2; side++) {
    tn_id under;
    if (!tni_attention_layer_of(g, v, side, l, &under)) continue;
    l->scale = outer;
    if (find_scores(m, under, outer)) return true;
  }
  m->masks.n--;
  return false;
}

/* The Softmax over the last axis that p comes from. */
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
  softmax = tni_attention_softmax(g, p);
  return softmax && tni_match_uses(g, p) == uses && g->values[p]->pub.rank == m->rank ? softmax : NULL;
}

/* [batch, length, size]: one head. */
static bool one_head(const match *m) {
  const tni_graph *g = m->g;
  const uint32_t batch = m->k_by_length ? 1 : 0, size = m->k_by_size ? 1 : 2;
  return dim_of_scores(g, m->q, 0) == dim_of_scores(g, m->k, batch) &&
         dim_of_scores(g, m->q, 0) == dim_of_scores(g, m->v, 0) &&
         dim_of_scores(g, m->q, 2) == dim_of_scores(g, m->k, size) &&
         dim_of_scores(g, m->k, m->k_by_size ? 2 : !batch) == dim_of_scores(g, m->v, 1);
}

/* Heads of k and v as Attention needs them: repetition undone on both, or on neither. */
static bool find_heads(match *m) {
  const tni_graph *g = m->g;
  const uint32_t heads = m->k_by_length ? 2 : 1, length = m->k_by_length ? 1 : m->k_by_size ? 3 : 2;
  const tn_id k = m->k_by_length || m->k_by_size ? m->k : tni_attention_without_repeat(g, m->k),
              v = tni_attention_without_repeat(g, m->v);
  int64_t nq, nk, nv;
  if (k != m->k && v != m->v) {
    m->k = k;
    m->v = v;
  }
  if (dim_of_scores(g, m->q, 0) != dim_of_scores(g, m->k, 0) || dim_of_scores(g, m->q, 0) != dim_of_scores(g, m->v, 0))
    return false;
  if (dim_of_scores(g, m->q, 3) != dim_of_scores(g, m->k, m->k_by_size ? 2 : 3) ||
      dim_of_scores(g, m->k, length) != dim_of_scores(g, m->v, 2))
    return false;
  if (dim_of_scores(g, m->k, heads) != dim_of_scores(g, m->v, 1)) return false;
  if (dim_of_scores(g, m->q, 1) == dim_of_scores(g, m->v, 1)) return true;
  return const_dim(g, m->q, 1, &nq) && const_dim(g, m->k, heads, &nk) && const_dim(g, m->v, 1, &nv) && nk >= 1 &&
         nq % nk == 0;
}

static bool is_float(const tni_graph *g, tn_id v) {
  const uint32_t t = g->values[v]->pub.dtype;
  return t == TN_DT_F32 || t == TN_DT_F16 || t == TN_DT_BF16;
}

static bool find_attention(match *m, const tni_node *last) {
  const tni_graph *g = m->g;
  m->rank = g->values[last->pub.out[0]]->pub.rank;
  m->v = last->pub.in[1];
  if ((m->rank != 3 && m->rank != 4) || !tni_match_rank(g, m->v, m->rank)) return false;
  const tni_node *softmax = find_softmax(m, last->pub.in[0]);
  tn_id under = softmax ? softmax->pub.in[0] : TN_NONE;
  if (!softmax && (m->rank != 4 || !tni_attention_sinks(g, last->pub.in[0], &under, &m->sinks))) return false;
  if (!find_scores(m, under, 1)) return false;
  return is_float(g, m->q) && tni_match_rank(g, m->scores, m->rank) &&
         tni_attention_masks_fit(g, &m->masks, m->scores, m->rank == 3, g->values[m->q]->pub.dtype) &&
         (m->rank == 4 ? find_heads(m) : one_head(m));
}

/* The operands that Attention lacks. */
static tn_status complete_mask(match *m, tn_id *mask, tn_error *err) {
  static const int64_t perm[2][4] = {{1, 0, 2}, {0, 2, 1, 3}}, by_size[2][4] = {{0, 2, 1}, {0, 1, 3, 2}};
  tni_graph *g = m->g;
  const uint32_t t = g->values[m->q]->pub.dtype;
  if (m->k_by_length || m->k_by_size) {
    tni_build_node b = {.type = "Transpose", .version = 13, .in = {m->k}, .n_in = 1, .n_attr = 1};
    b.attr[0] = tni_raw_ints("perm", m->k_by_size ? by_size[m->rank == 4] : perm[m->rank == 4], m->rank);
    m->k = tni_build_op(g, &b, t, TNI_RANK_UNKNOWN, NULL, err);
    if (m->k == TN_NONE) return tni_fail_memory(err, "attention");
  }
  if (m->gain != TN_NONE) {
    const tni_value *q = g->values[m->q];
    tni_build_node b = {.type = m->gain_op, .version = 14, .in = {m->q, m->gain}, .n_in = 2};
    m->q = tni_build_op(g, &b, t, q->pub.rank, q->pub.dims, err);
    if (m->q == TN_NONE) return tni_fail_memory(err, "attention");
  }
  return tni_attention_masks_build(g, &m->masks, m->scores, t, mask, err);
}

static tn_status rewrite_attention(match *m, tni_node *last, tn_error *err) {
  tn_id mask;
  const tn_status st = complete_mask(m, &mask, err);
  if (st != TN_OK) return st;
  tni_build_node b = {.type = "Attention", .version = 24, .in = {m->q, m->k, m->v, mask}, .n_attr = 1};
  b.n_in = mask == TN_NONE ? 3 : 4;
  b.attr[0] = tni_raw_float("scale", m->scale);
  if (m->rank == 3) {
    b.attr[b.n_attr++] = tni_raw_int("q_num_heads", 1);
    b.attr[b.n_attr++] = tni_raw_int("kv_num_heads", 1);
  }
  if (m->sinks != TN_NONE) {
    b.domain = "tenon";
    b.version = 1;
    for (b.n_in = 4; b.n_in < TN_ATTENTION_SINKS; b.n_in++) b.in[b.n_in] = TN_NONE;
    b.n_in++;
    if ((b.in[TN_ATTENTION_SINKS] = tni_attention_per_head(m->g, m->sinks, err)) == TN_NONE)
      return tni_fail_memory(err, "attention");
  }
  if (m->cap > 0) b.attr[b.n_attr++] = tni_raw_float("softcap", m->cap);
  return tni_build_in_place(m->g, last, &b, err);
}

tn_status tni_pass_attention(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *last = g->nodes[i];
    match m = {.g = g, .sinks = TN_NONE, .gain = TN_NONE};
    tn_status st = TN_OK;
    if (last->dead || !last->op) continue;
    if (tni_is_attention(last->pub.op)) {
      st = tni_attention_repeat(g, last, &fired, err);
    } else if (last->pub.op == TN_OP_MATMUL && find_attention(&m, last)) {
      st = rewrite_attention(&m, last, err);
      fired++;
    }
    if (st != TN_OK) return st;
  }
  return tni_build_done(g, fired, n, err);
}
