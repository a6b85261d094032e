/* SPDX-License-Identifier: Apache-2.0
 *
 * mask: what an Attention's mask says about positions becomes is_causal, left_window_size and right_window_size; its
 * mask operand keeps what is left.
 *
 * Matches by meaning: mask.h proves what element (b, h, i, j) of the mask is. The pass fires where a key is kept
 * exactly if
 *  - j <= i + past (causal), j <= i + past + r, j >= i + past - l, any of them or none, with past the length of
 *    past_key (0 without one), and
 *  - conditions on elements of other tensors hold that do not depend on i, such as attention_mask[b, j] != 0.
 * A sum is taken apart (split): what only says this goes, ALiBi (mask_slopes.c) becomes slopes, and terms of one row
 * for all queries stay. A boolean mask says so itself; an added one has 0 where a key is kept, or a bias that does not
 * depend on i, and where it is not, -inf or a number that any score vanishes in (at most -1e30; halves: -65504).
 *
 * What is left is nothing, or a mask of [batch or 1, heads or 1, 1, keys] made of the tensors that the conditions name.
 * A mask that says nothing about positions is only replaced where it gets smaller; added finite numbers stay as they
 * are then.
 *
 * Keeps: the value up to rounding, for every query that sees a key. One that sees none gives zeros where the mask was
 * boolean or -inf; so it does where positions were taken out of a mask of finite numbers, which gave the mean of the
 * values. Such queries are padding.
 */
#include <math.h>
#include <string.h>

#include "runtime/passes/mask/forms.h"
#include "runtime/passes/mask/mask.h"

enum { TERMS = 8 };

typedef struct found {
  tni_mask *m;
  const tni_node *node;
  tn_expr dims[4], past;   /* batch, heads, queries, keys */
  const tni_mtab *t;       /* over dims */
  uint32_t must, must_not; /* atoms that hold (do not hold) wherever a key is kept */
  tni_mleaf kept;          /* 0, or a bias */
  double low;              /* where all others are this number; NaN where they are several */
  int64_t left, right;     /* -1: none */
  bool is_bool, has_slopes;
  tni_mslopes slopes;
} found;

/* --- what the node says --- */

static bool find_dims(found *f) {
  const tni_graph *g = f->m->g;
  const tni_value *q = tni_match_value(g, f->node->pub.in[0]), *k = tni_match_value(g, f->node->pub.in[1]);
  const tni_value *past = tni_match_value(g, tni_match_in(f->node, 4));
  const uint32_t rank = q->pub.rank;
  const uint32_t k_rank = k->pub.rank;
  if ((rank != 3 && rank != 4) || (k_rank != 3 && k_rank != 4) || (past && past->pub.rank != 4)) return false;
  const int64_t heads = tni_attr_i(&f->node->pub, "q_num_heads", 0);
  f->dims[0] = q->pub.dims[0];
  f->dims[1] = rank == 4 ? q->pub.dims[1] : tni_ex_const(g->exprs, heads);
  f->dims[2] = q->pub.dims[rank - 2];
  f->past = past ? past->pub.dims[2] : f->m->zero;
  f->dims[3] = past ? tni_ex_add(g->exprs, f->past, k->pub.dims[k_rank - 2]) : k->pub.dims[k_rank - 2];
  for (uint32_t d = 0; d < 4; d++)
    if (f->dims[d] == TNI_EXPR_NONE) return false;
  return f->past != TNI_EXPR_NONE;
}

/* Queries count from the past's end: not where nonpad_kv_seqlen tells it, and the scores are nobody's. */
static bool is_plain(const tni_node *n) {
  if (tni_match_in(n, 3) == TN_NONE || tni_match_in(n, 6) != TN_NONE) return false;
  return n->pub.n_out < 4 || n->pub.out[3] == TN_NONE;
}

/* --- which keys are kept --- */

/* 1 kept, 0 masked, -1 unknown. */
static int leaf_keeps(const found *f, const tni_mleaf *l) {
  const uint32_t dtype = f->t->dtype;
  const double limit = dtype == TN_DT_F16 ? -65504 : tni_match_lowest(f->m->g);
  double c;
  if (dtype == TN_DT_BOOL) return l->lo != 0;
  if (tni_mleaf_is_num(l, &c) && c == 0) return 1;
  if (l->kind != TNI_MLEAF_NUM && l->kind != TNI_MLEAF_SRC) return -1;
  if (!l->any && l->hi <= limit) return 0;
  if (l->kind != TNI_MLEAF_SRC || l->gain != 1 || l->off != 0) return -1;
  return f->m->g->values[l->src]->pub.dtype == dtype ? 1 : -1;
}

static bool see_leaf(found *f, uint32_t i, bool *any) {
  const tni_mleaf *l = &f->t->leaf[i];
  const uint32_t all = (1u << f->t->n_atoms) - 1;
  double c;
  const int kept = leaf_keeps(f, l);
  if (kept < 0) return false;
  if (kept == 0) {
    if (!tni_mleaf_is_num(l, &c) || (!isnan(f->low) && f->low != 1 && f->low != c)) c = NAN;
    f->low = isnan(f->low) ? f->low : c;
    return true;
  }
  if (*any && !f->is_bool && !tni_mleaf_same(l, &f->kept)) return false;
  f->must &= i;
  f->must_not &= all & ~i;
  f->kept = *l;
  *any = true;
  return true;
}

/* Kept is exactly where the atoms of must hold and those of must_not do not. */
static bool find_conjunction(found *f) {
  const uint32_t n = 1u << f->t->n_atoms;
  bool any = false;
  f->is_bool = f->t->dtype == TN_DT_BOOL;
  f->must = f->must_not = n - 1;
  f->low = 1;
  for (uint32_t i = 0; i < n; i++)
    if (f->t->leaf[i].kind != TNI_MLEAF_VOID && !see_leaf(f, i, &any)) return false;
  for (uint32_t i = 0; i < n; i++)
    if ((i & f->must) == f->must && !(i & f->must_not) && f->t->leaf[i].kind != TNI_MLEAF_VOID &&
        leaf_keeps(f, &f->t->leaf[i]) != 1)
      return false;
  return any && f->t->n_atoms < 32 && (f->must & f->must_not) == 0;
}

/* --- what that says about positions --- */

static bool window_offset(const found *f, tn_expr e, int64_t *n) {
  return e != TNI_EXPR_NONE && tni_ex_is_const(f->m->x, e, n) && *n >= 0 && *n <= INT32_MAX;
}

static int64_t least_known(int64_t a, int64_t b) { return a < 0 || b < a ? b : a; }

/* The atom, or its opposite, as a window. */
static bool find_window(found *f, const tni_matom *a, bool opposite) {
  tni_mask *m = f->m;
  const tni_mform minus_one = tni_mform_const(m, tni_ex_const(m->x, -1));
  const tni_mform p = opposite ? tni_mform_add(m, &minus_one, &a->f, -1) : a->f;
  int64_t i = 0, j = 0, n;
  if (!tni_mform_whole(&p) || p.c[0] != m->zero || p.c[1] != m->zero) return false;
  if (!tni_ex_is_const(m->x, p.c[2], &i) || !tni_ex_is_const(m->x, p.c[3], &j)) return false;
  if (i == 0 && f->dims[2] == m->one) i = -j; /* the only query is query 0 */
  if (i == 1 && j == -1) {
    if (!window_offset(f, tni_ex_sub(m->x, p.k, f->past), &n)) return false;
    f->right = least_known(f->right, n);
  } else if (i == -1 && j == 1) {
    if (!window_offset(f, tni_ex_add(m->x, p.k, f->past), &n)) return false;
    f->left = least_known(f->left, n);
  } else {
    return false;
  }
  return true;
}

static bool find_positions(found *f) {
  for (uint32_t a = 0; a < f->t->n_atoms; a++) {
    const bool yes = f->must >> a & 1, no = f->must_not >> a & 1;
    const tni_matom *p = &f->t->atom[a];
    if (!yes && !no) continue; /* decided by the others */
    if (p->kind == TNI_MATOM_INDEX ? !find_window(f, p, no) : p->f.c[2] != f->m->zero) return false;
  }
  return true;
}

/* What is added to keys that are kept: nothing, slopes, or something that does not depend on the query. Slopes may be
 * off by a number per query, which softmax does not see but a sink would. */
static bool find_bias(found *f) {
  if (f->kept.kind != TNI_MLEAF_SRC || f->is_bool) return true;
  if (tni_match_in(f->node, TN_ATTENTION_SINKS) == TN_NONE && tni_match_in(f->node, TN_ATTENTION_SLOPES) == TN_NONE &&
      !f->has_slopes && tni_mask_slopes(f->m, &f->kept, f->dims, f->t->dtype, &f->slopes)) {
    f->has_slopes = true;
    f->kept = tni_mleaf_num(0);
  }
  return f->kept.kind != TNI_MLEAF_SRC || f->kept.f.c[2] == f->m->zero;
}

static bool understand_mask(found *f, tn_id mask) {
  const tni_mtab *t = tni_mask_read(f->m, mask);
  const bool term = mask != tni_match_in(f->node, 3); /* which a sum broadcasts */
  f->t = term ? tni_mtab_stretch(f->m, t, 4, f->dims) : tni_mtab_broadcast(f->m, t, 4, f->dims);
  return f->t && find_conjunction(f) && find_positions(f) && find_bias(f);
}

/* --- what is left --- */

/* [batch or 1, heads or 1, 1, keys] that holds src at address f for every key; false: src has another order. */
static bool rest_dims(const found *f, tn_id src, const tni_mform *address, tn_expr *dims) {
  tni_mask *m = f->m;
  const tni_value *v = m->g->values[src];
  tn_expr have = m->one, want = m->one;
  for (uint32_t d = 0; d < 4; d++) dims[d] = address->c[d] == m->zero ? m->one : f->dims[d];
  for (uint32_t d = 0; d < v->pub.rank; d++) have = tni_ex_mul(m->x, have, v->pub.dims[d]);
  for (uint32_t d = 0; d < 4; d++) want = tni_ex_mul(m->x, want, dims[d]);
  const tni_mform dense = tni_mform_dense(m, 4, dims);
  return have != TNI_EXPR_NONE && have == want && dims[3] == f->dims[3] && tni_mform_same(&dense, address);
}

static tn_id reshape_to(const found *f, tn_id v, const tn_expr *dims, tn_error *err) {
  tni_graph *g = f->m->g;
  const tni_value *x = g->values[v];
  bool same = x->pub.rank == 4;
  for (uint32_t d = 0; same && d < 4; d++) same = x->pub.dims[d] == dims[d];
  if (same) return v;
  tni_build_node b = {.type = "Reshape", .version = 14, .in = {v}, .n_in = 2, .n_attr = 1};
  b.in[1] = tni_build_elems(g, dims, 4);
  b.attr[0] = tni_raw_int("allowzero", 1);
  return b.in[1] == TN_NONE ? TN_NONE : tni_build_op(g, &b, x->pub.dtype, 4, dims, err);
}

/* A bool tensor like src: whether the atom holds there (opposite: does not). */
static tn_id build_condition(const found *f, const tni_matom *a, bool opposite, tn_error *err) {
  tni_graph *g = f->m->g;
  const tni_value *v = g->values[a->src];
  const uint32_t dtype = v->pub.dtype;
  tni_build_node b = {.version = 13, .in = {a->src}, .n_in = 1}, no = {.type = "Not", .version = 1, .n_in = 1};
  if (a->kind == TNI_MATOM_EQ && a->c == 0) { /* not 0 is what a bool says */
    opposite = !opposite;
    b.type = "Cast";
    b.attr[b.n_attr++] = tni_raw_int("to", TN_DT_BOOL);
  } else {
    const int64_t one = 1, c = (int64_t)a->c;
    const int32_t c32 = (int32_t)a->c;
    b.type = a->kind == TNI_MATOM_EQ ? "Equal" : "GreaterOrEqual";
    b.version = 16;
    b.n_in = 2;
    if (dtype == TN_DT_I64) b.in[1] = tni_build_const(g, dtype, 1, &one, &c);
    if (dtype == TN_DT_I32) b.in[1] = tni_build_const(g, dtype, 1, &one, &c32);
    if (!tni_mask_is_int(dtype)) b.in[1] = tni_build_filled(g, dtype, 1, a->c);
    if (b.in[1] == TN_NONE) return TN_NONE;
  }
  no.in[0] = dtype == TN_DT_BOOL ? a->src : tni_build_op(g, &b, TN_DT_BOOL, v->pub.rank, v->pub.dims, err);
  if (!opposite || no.in[0] == TN_NONE) return no.in[0];
  return tni_build_op(g, &no, TN_DT_BOOL, v->pub.rank, v->pub.dims, err);
}

static tn_id both_conditions(const found *f, tn_id a, tn_id b, const tn_expr *da, const tn_expr *db, tn_error *err) {
  tn_expr dims[4];
  const tni_build_node n = {.type = "And", .version = 7, .in = {a, b}, .n_in = 2};
  for (uint32_t d = 0; d < 4; d++) dims[d] = da[d] == f->m->one ? db[d] : da[d];
  return tni_build_op(f->m->g, &n, TN_DT_BOOL, 4, dims, err);
}

/* Whether every condition has a tensor in the right order. dims: of all of them together. */
static bool can_write(const found *f, uint32_t *n, tn_expr *dims) {
  tn_expr one[4];
  *n = 0;
  for (uint32_t d = 0; d < 4; d++) dims[d] = f->m->one;
  for (uint32_t a = 0; a < f->t->n_atoms; a++) {
    const tni_matom *p = &f->t->atom[a];
    const uint32_t dtype = p->kind == TNI_MATOM_INDEX ? TN_DT_BOOL : f->m->g->values[p->src]->pub.dtype;
    if (p->kind == TNI_MATOM_INDEX || !((f->must | f->must_not) >> a & 1)) continue;
    if (!rest_dims(f, p->src, &p->f, one)) return false;
    if (p->c != 0 && !tni_mask_is_int(dtype) && dtype != TN_DT_F32 && dtype != TN_DT_F16 && dtype != TN_DT_BF16)
      return false;
    for (uint32_t d = 0; d < 4; d++)
      if (one[d] != f->m->one) dims[d] = one[d];
    ++*n;
  }
  if (f->kept.kind == TNI_MLEAF_SRC && !f->is_bool) return *n == 0 && rest_dims(f, f->kept.src, &f->kept.f, dims);
  return true;
}

static tn_id build_conditions(const found *f, tn_error *err) {
  tn_id all = TN_NONE;
  tn_expr dims[4] = {0}, one[4];
  for (uint32_t a = 0; a < f->t->n_atoms; a++) {
    const tni_matom *p = &f->t->atom[a];
    if (p->kind == TNI_MATOM_INDEX || !((f->must | f->must_not) >> a & 1) || !rest_dims(f, p->src, &p->f, one))
      continue;
    tn_id v = build_condition(f, p, f->must_not >> a & 1, err);
    if (v != TN_NONE) v = reshape_to(f, v, one, err);
    if (v != TN_NONE && all != TN_NONE) v = both_conditions(f, all, v, dims, one, err);
    if (v == TN_NONE) return TN_NONE;
    for (uint32_t d = 0; d < 4; d++)
      if (all == TN_NONE || one[d] != f->m->one) dims[d] = one[d];
    all = v;
  }
  return all;
}

/* The mask operand that is left: false without memory. */
static bool write_rest(const found *f, uint32_t n, const tn_expr *dims, tn_id *rest, tn_error *err) {
  tni_graph *g = f->m->g;
  *rest = TN_NONE;
  if (f->kept.kind == TNI_MLEAF_SRC && !f->is_bool) return (*rest = reshape_to(f, f->kept.src, dims, err)) != TN_NONE;
  if (n == 0) return true;
  *rest = build_conditions(f, err);
  if (*rest == TN_NONE || f->is_bool || isinf(f->low) || f->left >= 0 || f->right >= 0) return *rest != TN_NONE;
  const tni_build_node b = {
      .type = "Where",
      .version = 16,
      .in = {*rest, tni_build_filled(g, f->t->dtype, 1, 0), tni_build_filled(g, f->t->dtype, 1, f->low)},
      .n_in = 3};
  if (b.in[1] == TN_NONE || b.in[2] == TN_NONE) return false;
  return (*rest = tni_build_op(g, &b, f->t->dtype, 4, dims, err)) != TN_NONE;
}

/* --- the pass --- */

/* Something is said about positions, nothing is left, or what is left is smaller. */
static bool is_worth_it(const found *f, uint32_t n) {
  const tni_value *v = f->m->g->values[tni_match_in(f->node, 3)];
  if (f->left >= 0 || f->right >= 0) return true;
  if (n == 0 && f->kept.kind != TNI_MLEAF_SRC) return true;
  if (!f->is_bool && isnan(f->low)) return false; /* several numbers */
  if (f->has_slopes) return true;
  return v->pub.rank >= 2 && v->pub.dims[v->pub.rank - 2] != f->m->one;
}

static tn_status rewrite_mask(const found *f, tn_id rest, tni_node *old, tn_error *err) {
  tni_build_node b = {.domain = old->pub.domain, .type = old->type, .version = old->version, .n_in = old->pub.n_in};
  const int64_t left = tni_attr_i(&old->pub, "left_window_size", -1);
  const int64_t right = tni_attr_i(&old->pub, "right_window_size", -1);
  const int64_t l = f->left < 0 ? left : least_known(left, f->left),
                r = f->right < 0 ? right : least_known(right, f->right);
  if (f->has_slopes) {
    b.domain = "tenon";
    b.version = 1;
    b.n_in = TN_ATTENTION_SLOPES + 1;
  }
  for (uint32_t i = 0; i < b.n_in; i++) b.in[i] = i == 3 ? rest : tni_match_in(old, i);
  if (f->has_slopes && (b.in[TN_ATTENTION_SLOPES] = tni_mask_slopes_build(f->m, &f->slopes, err)) == TN_NONE)
    return tni_fail_memory(err, old->pub.name);
  if (rest == TN_NONE && b.n_in == 4) b.n_in = 3;
  for (uint32_t i = 0; i < old->n_raw; i++) {
    const char *name = old->raw[i].name;
    if (strcmp(name, "is_causal") && strcmp(name, "left_window_size") && strcmp(name, "right_window_size"))
      b.attr[b.n_attr++] = old->raw[i];
  }
  if (r == 0 || tni_attr_i(&old->pub, "is_causal", 0)) b.attr[b.n_attr++] = tni_raw_int("is_causal", 1);
  if (l >= 0) b.attr[b.n_attr++] = tni_raw_int("left_window_size", l);
  if (r > 0) b.attr[b.n_attr++] = tni_raw_int("right_window_size", r);
  return tni_build_in_place(f->m->g, old, &b, err);
}

/* --- sums --- */

/* What is added up, from the last one inwards. */
typedef struct terms {
  tn_id all[TERMS], rest[TERMS];
  uint32_t n, n_rest;
  bool positions, has_cond; /* some are understood; one of them says something about keys, too: */
  found cond;
  uint32_t n_cond;
  tn_expr dims[4];
} terms;

static bool split_terms(const tni_graph *g, tn_id v, terms *t) {
  const tni_node *add = tni_match_node(g, v, TN_OP_ADD);
  if (add && add->pub.n_in == 2) return split_terms(g, add->pub.in[0], t) && split_terms(g, add->pub.in[1], t);
  if (t->n == TERMS) return false;
  t->all[t->n++] = v;
  return true;
}

/* v has one row for all queries, with a number for every key: a mask whose keys are fewer is padded with -inf, not
 * broadcast as a term of a sum is. */
static bool one_row(const found *f, tn_id v) {
  const tni_value *x = f->m->g->values[v];
  if (x->pub.rank < 1 || x->pub.rank > 4 || x->pub.dims[x->pub.rank - 1] != f->dims[3]) return false;
  return x->pub.rank == 1 || x->pub.dims[x->pub.rank - 2] == f->m->one;
}

/* Positions and slopes go, with conditions beside them once; of the others one row must be enough. */
static bool see_term(found *f, terms *t, tn_id v) {
  found one = *f;
  uint32_t n;
  tn_expr dims[4];
  const bool known = understand_mask(&one, v) && can_write(&one, &n, dims) && one.kept.kind != TNI_MLEAF_SRC;
  if (known && (n == 0 || (!one_row(f, v) && !t->has_cond && !isnan(one.low)))) {
    f->left = one.left;
    f->right = one.right;
    f->has_slopes = one.has_slopes;
    f->slopes = one.slopes;
    t->positions = true;
    if (n == 0) return true;
    t->has_cond = true;
    t->cond = one;
    t->n_cond = n;
    memcpy(t->dims, dims, sizeof dims);
    return true;
  }
  t->rest[t->n_rest++] = v;
  return one_row(f, v);
}

/* Everything that stays, added up; TN_NONE: nothing. false: without memory. */
static bool add_up(const terms *t, tni_graph *g, uint32_t dtype, tn_id *rest, tn_error *err) {
  *rest = TN_NONE;
  if (t->has_cond && !write_rest(&t->cond, t->n_cond, t->dims, rest, err)) return false;
  if (t->has_cond && t->n_rest && g->values[*rest]->pub.dtype == TN_DT_BOOL) {
    tni_build_node b = {.type = "Where", .version = 16, .in = {*rest}, .n_in = 3};
    b.in[1] = tni_build_filled(g, dtype, 1, 0);
    b.in[2] = tni_build_filled(g, dtype, 1, (double)-INFINITY);
    if (b.in[1] == TN_NONE || b.in[2] == TN_NONE) return false;
    if ((*rest = tni_build_op(g, &b, dtype, 4, t->dims, err)) == TN_NONE) return false;
  }
  for (uint32_t i = 0; i < t->n_rest; i++) {
    const tni_build_node b = {.type = "Add", .version = 14, .in = {*rest, t->rest[i]}, .n_in = 2};
    *rest = *rest == TN_NONE ? t->rest[i] : tni_build_op(g, &b, dtype, TNI_RANK_UNKNOWN, NULL, err);
    if (*rest == TN_NONE) return false;
  }
  return true;
}

static tn_status rewrite_sum(found *f, tni_node *n, uint32_t *fired, tn_error *err) {
  tni_graph *g = f->m->g;
  const uint32_t dtype = g->values[n->pub.in[3]]->pub.dtype;
  terms t = {.n = 0};
  if (dtype == TN_DT_BOOL || !split_terms(g, n->pub.in[3], &t) || t.n < 2) return TN_OK;
  for (uint32_t i = 0; i < t.n; i++)
    if (!see_term(f, &t, t.all[i])) return TN_OK;
  if (!t.positions) return TN_OK;
  tn_id rest;
  if (!add_up(&t, g, dtype, &rest, err)) return tni_fail_memory(err, n->pub.name);
  ++*fired;
  return rewrite_mask(f, rest, n, err);
}

static tn_status mask_one(tni_mask *m, tni_node *n, uint32_t *fired, tn_error *err) {
  found f = {.m = m, .node = n, .left = -1, .right = -1};
  tn_expr dims[4];
  tn_id rest;
  uint32_t n_rest;
  if (!is_plain(n) || n->pub.n_in > TNI_BUILD_INPUTS || n->n_raw > 9 || !find_dims(&f)) return TN_OK;
  const found none = f;
  const bool known = understand_mask(&f, n->pub.in[3]) && can_write(&f, &n_rest, dims);
  if (!known || f.kept.kind == TNI_MLEAF_SRC) { /* a sum may say more about what is added */
    const uint32_t before = *fired;
    found parts = none;
    const tn_status st = rewrite_sum(&parts, n, fired, err);
    if (st != TN_OK || *fired != before) return st;
  }
  if (!known || !is_worth_it(&f, n_rest)) return TN_OK;
  if (!write_rest(&f, n_rest, dims, &rest, err)) return tni_fail_memory(err, n->pub.name);
  ++*fired;
  return rewrite_mask(&f, rest, n, err);
}

static bool make_memo(tni_mask *m) {
  m->memo = TNI_NEW_ARRAY(m->arena, const tni_mtab *, m->n_values + 1);
  m->read = TNI_NEW_ARRAY(m->arena, bool, m->n_values + 1);
  return m->memo && m->read;
}

tn_status tni_pass_mask(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes, n_values = g->n_values;
  uint32_t fired = 0;
  tni_mask m = {.g = g, .x = g->exprs, .arena = tni_arena_create()};
  tn_status st = TN_OK;
  if (!m.arena) return tni_fail_memory(err, "mask");
  m.zero = tni_ex_const(g->exprs, 0);
  m.one = tni_ex_const(g->exprs, 1);
  m.n_values = n_values;
  tni_mask reals = m;
  reals.exact = true;
  m.reals = &reals;
  if (!make_memo(&m) || !make_memo(&reals)) st = tni_fail_memory(err, "mask");
  for (uint32_t i = 0; st == TN_OK && i < n_nodes; i++)
    if (!g->nodes[i]->dead && g->nodes[i]->op && tni_is_attention(g->nodes[i]->pub.op))
      st = mask_one(&m, g->nodes[i], &fired, err);
  if (st == TN_OK && tni_arena_short(m.arena)) st = tni_fail_memory(err, "mask");
  tni_arena_destroy(m.arena);
  return st == TN_OK ? tni_build_done(g, fired, n, err) : st;
}
