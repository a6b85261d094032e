/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that move elements: what their coordinates were before.
 */
#include <string.h>

#include "runtime/passes/mask/forms.h"

/* --- shapes alone --- */

typedef struct mask_reshape {
  uint32_t from_rank, to_rank, to_axis[TN_MAX_RANK]; /* of each axis of `from` longer than 1 */
  const tn_expr *to;
  tni_mform dense; /* of from */
  bool same_axes;  /* only axes of size 1 come or go */
} mask_reshape;

static bool reshape_form(tni_mask *m, void *arg, const tni_mform *in, tni_mform *out) {
  const mask_reshape *r = arg;
  tn_expr k;
  if (tni_mform_is_const(m, in, &k)) {
    *out = *in;
  } else if (r->same_axes) {
    *out = tni_mform_const(m, in->k);
    for (uint32_t a = 0; a < r->from_rank; a++)
      if (in->c[a] != m->zero) out->c[r->to_axis[a]] = in->c[a];
  } else if (in->k == m->zero && tni_mform_same(in, &r->dense)) {
    *out = tni_mform_dense(m, r->to_rank, r->to);
  } else {
    return false;
  }
  return true;
}

static tni_mtab *reshaped_table(tni_mask *m, const tni_mtab *t, uint32_t rank, const tn_expr *dims) {
  mask_reshape r = {.from_rank = t->rank, .to_rank = rank, .to = dims, .dense = tni_mform_dense(m, t->rank, t->dims)};
  uint32_t b = 0;
  r.same_axes = true;
  for (uint32_t a = 0; a < t->rank; a++) {
    if (t->dims[a] == m->one) continue;
    while (b < rank && dims[b] == m->one) b++;
    if (b == rank || dims[b] != t->dims[a]) {
      r.same_axes = false;
      break;
    }
    r.to_axis[a] = b++;
  }
  for (; r.same_axes && b < rank; b++) r.same_axes = dims[b] == m->one;
  return tni_mtab_map(m, t, rank, dims, reshape_form, &r);
}

/* --- Transpose --- */

static bool permute_form(tni_mask *m, void *arg, const tni_mform *in, tni_mform *out) {
  const uint32_t *to = arg;
  *out = tni_mform_const(m, in->k);
  for (uint32_t a = 0; a < TN_MAX_RANK; a++)
    if (in->c[a] != m->zero) out->c[to[a]] = in->c[a];
  return true;
}

static tni_mtab *transposed_table(tni_mask *m, const tni_node *n, const tni_mtab *t, const tni_value *v) {
  const int64_t *perm;
  uint32_t to[TN_MAX_RANK] = {0};
  const uint32_t len = tni_attr_ints(&n->pub, "perm", &perm);
  if (v->pub.rank != t->rank || (perm && len != t->rank)) return NULL;
  for (uint32_t i = 0; i < t->rank; i++) {
    const int64_t p = perm ? perm[i] : (int64_t)(t->rank - 1 - i);
    if (p < 0 || p >= (int64_t)t->rank) return NULL;
    to[p] = i;
  }
  return tni_mtab_map(m, t, t->rank, v->pub.dims, permute_form, to);
}

/* --- Slice --- */

typedef struct slice {
  tn_expr start[TN_MAX_RANK], step[TN_MAX_RANK];
} slice;

static bool slice_form(tni_mask *m, void *arg, const tni_mform *in, tni_mform *out) {
  const slice *s = arg;
  *out = *in;
  for (uint32_t a = 0; a < TN_MAX_RANK; a++) {
    if (in->c[a] == m->zero) continue;
    out->k = tni_ex_add(m->x, out->k, tni_ex_mul(m->x, in->c[a], s->start[a])); /* NONE stays NONE */
    out->c[a] = tni_ex_mul(m->x, in->c[a], s->step[a]);
  }
  return tni_mform_whole(out);
}

/* Where a forward slice starts, or NONE. A start after the end leaves no element, so only its sign matters. */
static tn_expr first_of(tni_mask *m, tn_expr start, tn_expr dim) {
  int64_t lo, hi;
  tni_ex_range(m->x, start, &lo, &hi);
  if (lo >= 0 || tni_ex_proves_le(m->x, m->zero, start)) return start;
  if (hi >= 0) return TNI_EXPR_NONE;
  const tn_expr e = tni_ex_add(m->x, start, dim);
  if (e == TNI_EXPR_NONE || tni_ex_proves_le(m->x, m->zero, e)) return e;
  return tni_ex_proves_le(m->x, e, m->zero) ? m->zero : TNI_EXPR_NONE;
}

static tni_mtab *sliced_table(tni_mask *m, const tni_node *n, const tni_mtab *t, const tni_value *v) {
  tn_expr start[TN_MAX_RANK], axis[TN_MAX_RANK], step[TN_MAX_RANK];
  uint32_t count, n_axes = 0, n_steps = 0;
  slice s;
  if (v->pub.rank != t->rank || !tni_mask_elems(m, tni_match_in(n, 1), start, TN_MAX_RANK, &count)) return NULL;
  const tn_id axes = tni_match_in(n, 3), steps = tni_match_in(n, 4);
  if (axes != TN_NONE && (!tni_mask_elems(m, axes, axis, TN_MAX_RANK, &n_axes) || n_axes != count)) return NULL;
  if (steps != TN_NONE && (!tni_mask_elems(m, steps, step, TN_MAX_RANK, &n_steps) || n_steps != count)) return NULL;
  for (uint32_t a = 0; a < TN_MAX_RANK; a++) {
    s.start[a] = m->zero;
    s.step[a] = m->one;
  }
  for (uint32_t i = 0; i < count; i++) {
    int64_t a = i, by = 1;
    if (n_axes && !tni_ex_is_const(m->x, axis[i], &a)) return NULL;
    if (n_steps && !tni_ex_is_const(m->x, step[i], &by)) return NULL;
    if (a < 0) a += (int64_t)t->rank;
    if (a < 0 || a >= (int64_t)t->rank || by < 1) return NULL;
    s.start[a] = first_of(m, start[i], t->dims[a]);
    s.step[a] = tni_ex_const(m->x, by);
  }
  return tni_mtab_map(m, t, t->rank, v->pub.dims, slice_form, &s);
}

/* --- Concat --- */

typedef struct join {
  uint32_t axis;
  tn_expr from;
} join;

static bool shift_form_back(tni_mask *m, void *arg, const tni_mform *in, tni_mform *out) {
  const join *j = arg;
  *out = *in;
  if (in->c[j->axis] != m->zero) out->k = tni_ex_sub(m->x, in->k, tni_ex_mul(m->x, in->c[j->axis], j->from));
  return out->k != TNI_EXPR_NONE;
}

static void choose_part(tni_mask *m, const void *arg, const tni_mtab *out, const tni_mleaf *const *in, tni_mout *r) {
  const join *j = arg;
  tni_mform f = tni_mform_axis(m, j->axis, m->one);
  f.k = tni_ex_mul(m->x, j->from, tni_ex_const(m->x, -1));
  *r = (tni_mout){.n = 0};
  tni_mform_trim(m, &f, out->rank, out->dims);
  tni_mout_index(m, out, &f, r);
  r->yes = *in[r->yes.lo != 0];
  r->no = *in[0];
}

static const tni_mtab *joined_table(tni_mask *m, const tni_node *n, const tni_mtab *const *part, const tni_value *v) {
  const int64_t axis = tni_attr_i(&n->pub, "axis", 0), rank = (int64_t)v->pub.rank;
  const tni_mtab *all = NULL;
  join j = {.axis = (uint32_t)(axis < 0 ? axis + rank : axis), .from = m->zero};
  if (j.axis >= v->pub.rank) return NULL;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const tni_mtab *t = part[i], *wide;
    if (t->rank != v->pub.rank) return NULL;
    if (!(wide = tni_mtab_map(m, t, t->rank, v->pub.dims, shift_form_back, &j))) return NULL;
    const tni_mtab *const in[2] = {all, wide};
    all = i == 0 ? wide : tni_mtab_combine(m, n->pub.out[0], in, 2, choose_part, &j);
    j.from = tni_ex_add(m->x, j.from, t->dims[j.axis]);
    if (!all || j.from == TNI_EXPR_NONE) return NULL;
  }
  return all;
}

/* --- Trilu --- */

typedef struct mask_trilu {
  tn_expr k;
  bool upper;
} mask_trilu;

static void triangle_leaf(tni_mask *m, const void *arg, const tni_mtab *out, const tni_mleaf *const *in, tni_mout *r) {
  const mask_trilu *t = arg;
  const tn_expr minus = tni_ex_const(m->x, -1);
  tni_mform f = tni_mform_axis(m, out->rank - 1, t->upper ? m->one : minus);
  f.c[out->rank - 2] = t->upper ? minus : m->one;
  f.k = t->upper ? tni_ex_mul(m->x, t->k, minus) : t->k;
  *r = (tni_mout){.n = 0};
  tni_mform_trim(m, &f, out->rank, out->dims);
  tni_mout_index(m, out, &f, r);
  r->no = tni_mleaf_of(m, out->dtype, 0);
  r->yes = r->yes.lo != 0 ? *in[0] : r->no;
}

static tni_mtab *trilu_of(tni_mask *m, const tni_node *n, const tni_mtab *t) {
  mask_trilu how = {.k = m->zero, .upper = tni_attr_i(&n->pub, "upper", 1) != 0};
  uint32_t count = 1;
  const tn_id k = tni_match_in(n, 1);
  if (t->rank < 2 || (k != TN_NONE && (!tni_mask_elems(m, k, &how.k, 1, &count) || count != 1))) return NULL;
  return tni_mtab_combine(m, n->pub.out[0], &t, 1, triangle_leaf, &how);
}

const tni_mtab *tni_mask_move(tni_mask *m, const tni_node *n, const tni_mtab *const *in) {
  const tni_value *v = m->g->values[n->pub.out[0]];
  if (n->pub.op == TN_OP_CONCAT) return joined_table(m, n, in, v);
  const tni_mtab *t = in[0];
  switch (n->pub.op) {
    case TN_OP_RESHAPE:
    case TN_OP_FLATTEN:
    case TN_OP_SQUEEZE:
    case TN_OP_UNSQUEEZE:
      return reshaped_table(m, t, v->pub.rank, v->pub.dims);
    case TN_OP_TRANSPOSE:
      return transposed_table(m, n, t, v);
    case TN_OP_EXPAND:
      return tni_mtab_stretch(m, t, v->pub.rank, v->pub.dims);
    case TN_OP_TILE: /* of axes of one element */
      return tni_mtab_broadcast(m, t, v->pub.rank, v->pub.dims);
    case TN_OP_SLICE:
      return sliced_table(m, n, t, v);
    case TN_OP_TRILU:
      return trilu_of(m, n, t);
    default:
      return NULL;
  }
}
