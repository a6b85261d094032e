/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/shape/rules/table.h"

/* --- Reshape */

typedef struct reshape {
  tn_expr out[TN_MAX_RANK];
  bool copied[TN_MAX_RANK]; /* by a 0 */
  uint32_t rank, open;      /* open: the axis that takes what is left, TN_NONE if there is none */
  bool stated;              /* the open axis is a -1, not an unknown size */
  bool lost;                /* more than one axis is open */
  bool doubtful;            /* an axis that both have is of unknown size */
  bool empty;               /* an axis that both have is of size 0: then nothing is said of the others */
} reshape;

static void open_axis(reshape *r, uint32_t d) {
  if (r->open != TN_NONE) {
    r->lost = true;
  } else {
    r->open = d;
  }
  r->out[d] = TNI_EXPR_NONE;
}

/* Whether e is 0 for sizes that are nothing special: a remainder, say. Where only an empty tensor makes it 0, it is a
 * size; so it is where it is 0 for all that is small enough, but not where a smaller size gives more (4 % n). */
static bool dim_vanishes(const tni_infer *in, tn_expr e) {
  /* Small ones in order, then one that all small numbers divide, and one that none does. */
  static const int64_t points[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 720720, 9973};
  enum { N_POINTS = sizeof points / sizeof *points, N_SMALL = N_POINTS - 2 };
  const uint32_t n = tni_ex_n_symbols(in->x);
  int64_t *v = TNI_NEW_ARRAY(in->g->arena, int64_t, n + 1), at = 0;
  bool more = false;
  for (uint32_t p = 0; v && p < N_POINTS; p++) {
    for (uint32_t s = 0; s < n; s++) v[s] = points[p];
    if (tni_ex_eval(in->x, e, v, n, &at) != TN_OK) continue;
    if (at == 0 && (more || p >= N_SMALL)) return true;
    more = more || at > 0;
  }
  return !v;
}

/* Whether the input certainly has elements, as many whatever the symbols are: a 0 in the target is no size then. */
static bool has_elements(const tni_infer *in, const tni_value *x) {
  int64_t c = 0;
  for (uint32_t d = 0; x && d < x->pub.rank; d++)
    if (x->pub.dims[d] == TNI_EXPR_NONE || !tni_ex_is_const(in->x, x->pub.dims[d], &c) || c < 1) return false;
  return x != NULL;
}

/* Sizes that the target states. A symbolic one that may be -1 counts as open unless -1 stands elsewhere: what is left
 * is its size in either case; so does one that may well be 0, which copies an axis. */
static tn_status reshape_targets(tni_infer *in, const tni_vals *s, bool allowzero, reshape *r) {
  const tni_value *x = tni_rule_ranked(in, 0);
  bool explicit_open = false;
  for (uint32_t d = 0; d < s->n; d++) {
    if (!tni_rule_is(in, s->e[d], -1)) continue;
    if (explicit_open) return tni_rule_fail(in, "the target has -1 twice");
    explicit_open = r->stated = true;
    open_axis(r, d);
  }
  for (uint32_t d = 0; d < s->n; d++) {
    int64_t c, lo, hi;
    tn_expr e = s->e[d];
    if (tni_rule_is(in, e, -1)) continue;
    if (e == TNI_EXPR_NONE) {
      open_axis(r, d);
    } else if (tni_ex_is_const(in->x, e, &c)) {
      if (c < -1) return tni_rule_fail(in, "the target has %lld at %u", (long long)c, d);
      r->out[d] = e;
      if (c != 0 || allowzero) continue;
      if (x && d >= x->pub.rank) return tni_rule_fail(in, "the target copies axis %u, which the input lacks", d);
      r->out[d] = x ? x->pub.dims[d] : TNI_EXPR_NONE;
      r->copied[d] = true;
    } else {
      tni_ex_range(in->x, e, &lo, &hi);
      r->out[d] = e;
      if (lo < 0 && !explicit_open) {
        open_axis(r, d);
      } else if (lo <= 0 && !allowzero && !(x && d < x->pub.rank && x->pub.dims[d] == e) &&
                 (dim_vanishes(in, e) || has_elements(in, x))) {
        open_axis(r, d);
      }
    }
  }
  return TN_OK;
}

/* Takes one dim equal to e out of list. Not constants: 0 does not cancel, and the others multiply well. */
static bool cancel_dim(const tni_infer *in, tn_expr *list, uint32_t *n, tn_expr e) {
  int64_t c;
  if (tni_ex_is_const(in->x, e, &c)) return false;
  for (uint32_t i = 0; i < *n; i++) {
    if (list[i] != e) continue;
    list[i] = list[--*n];
    return true;
  }
  return false;
}

/* Constants whose product is no int64, and none of them 0. */
static bool dims_overflow(const tni_infer *in, const tn_expr *dims, uint32_t n) {
  for (uint32_t d = 0; d < n; d++) {
    int64_t c;
    if (dims[d] == TNI_EXPR_NONE || !tni_ex_is_const(in->x, dims[d], &c) || c == 0) return false;
  }
  return true;
}

static void common_axis(const tni_infer *in, reshape *r, tn_expr e) {
  r->empty = r->empty || tni_rule_is(in, e, 0);
  r->doubtful = r->doubtful || e == TNI_EXPR_NONE || dim_vanishes(in, e);
}

/* Elements of input and target must be as many. Equal factors leave first, so that an unknown axis that is copied and a
 * size of 0 on both sides do no harm. */
static tn_status reshape_open(tni_infer *in, reshape *r) {
  const tni_value *x = tni_rule_ranked(in, 0);
  tn_expr from[TN_MAX_RANK], rest[TN_MAX_RANK];
  uint32_t n_from = 0, n_rest = 0;
  if (!x || r->lost) return TN_OK;
  for (uint32_t d = 0; d < x->pub.rank; d++) {
    if (!(d < r->rank && r->copied[d]))
      from[n_from++] = x->pub.dims[d];
    else
      common_axis(in, r, x->pub.dims[d]);
  }
  if ((r->empty || r->doubtful) && r->open != TN_NONE && !r->stated) return TN_OK; /* any size might do */
  for (uint32_t d = 0; d < r->rank; d++) {
    if (d == r->open || r->copied[d]) continue;
    if (r->out[d] == TNI_EXPR_NONE || !cancel_dim(in, from, &n_from, r->out[d]))
      rest[n_rest++] = r->out[d];
    else
      common_axis(in, r, r->out[d]);
  }
  tn_expr a = tni_rule_product(in, from, n_from), b = tni_rule_product(in, rest, n_rest);
  int64_t ca, cb;
  if (b == TNI_EXPR_NONE && dims_overflow(in, rest, n_rest)) return tni_rule_fail(in, "the target is too large");
  if (a == TNI_EXPR_NONE || b == TNI_EXPR_NONE) return TN_OK;
  bool ka = tni_ex_is_const(in->x, a, &ca), kb = tni_ex_is_const(in->x, b, &cb);
  if (r->open == TN_NONE) {
    if (a == b || !ka || !kb || ca == cb) return TN_OK; /* symbols count as >= 1 here */
    if (r->empty || r->doubtful) return TN_OK;          /* a common axis may have no elements */
    return tni_rule_fail(in, "the target has another number of elements: %lld are not %lld", (long long)ca,
                         (long long)cb);
  }
  if (kb && cb == 0) {
    if (!r->stated || !ka || ca == 0) return TN_OK; /* any size would do */
    return tni_rule_fail(in, "the open axis cannot be found: the other axes have no elements");
  }
  if (kb && tni_ex_divides(in->x, a, cb) == 0) {
    return tni_rule_fail(in, "the input's elements do not divide by %lld", (long long)cb);
  }
  r->out[r->open] = tni_ex_exactdiv(in->x, a, b);
  return TN_OK;
}

tn_status tni_shape_reshape(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  tni_vals s;
  uint32_t n;
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (!tni_rule_vals(in, 1, &s)) {
    tn_expr none[TN_MAX_RANK];
    memset(none, 0xff, sizeof none);
    if (!tni_rule_length(in, 1, &n)) return tni_rule_set_unknown(in, 0, x->pub.dtype);
    return tni_rule_set(in, 0, x->pub.dtype, n, none);
  }
  if (s.rank != 1) return tni_rule_fail(in, "the target is not a vector");
  if (s.n > TN_MAX_RANK) return tni_rule_fail(in, "the target has rank %u", s.n);
  reshape r = {.rank = s.n, .open = TN_NONE};
  tn_status st = reshape_targets(in, &s, tni_attr_i(&in->node->pub, "allowzero", 0) != 0, &r);
  if (st == TN_OK) st = reshape_open(in, &r);
  if (st == TN_OK) st = tni_rule_set(in, 0, x->pub.dtype, r.rank, r.out);
  if (st == TN_OK) tni_rule_keep_vals(in, 0, 0);
  return st;
}

/* --- its relatives */

tn_status tni_shape_flatten(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  tn_expr dims[2] = {TNI_EXPR_NONE, TNI_EXPR_NONE};
  if (x->pub.rank != TNI_RANK_UNKNOWN) {
    int64_t axis = tni_attr_i(&in->node->pub, "axis", 1), r = x->pub.rank;
    if (axis < -r || axis > r) return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)axis, x->pub.rank);
    if (axis < 0) axis += r;
    dims[0] = tni_rule_product(in, x->pub.dims, (uint32_t)axis);
    dims[1] = tni_rule_product(in, x->pub.dims + axis, (uint32_t)(r - axis));
  }
  tn_status st = tni_rule_set(in, 0, x->pub.dtype, 2, dims);
  if (st == TN_OK) tni_rule_keep_vals(in, 0, 0);
  return st;
}

/* Axes operand 1 as a mask over `rank` axes. *known false: its elements are unknown. */
static tn_status axes_mask(tni_infer *in, uint32_t rank, bool *known, uint32_t *mask) {
  int64_t a[TN_MAX_RANK];
  uint32_t n;
  tni_vals v;
  *mask = 0;
  *known = tni_rule_ints(in, 1, a, TN_MAX_RANK, &n);
  if (!*known) return tni_rule_vals(in, 1, &v) && v.n > TN_MAX_RANK ? tni_rule_fail(in, "%u axes", v.n) : TN_OK;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t d;
    if (!tni_rule_axis(a[i], rank, &d)) {
      return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)a[i], rank);
    }
    if (*mask >> d & 1) return tni_rule_fail(in, "axis %lld stands twice", (long long)a[i]);
    *mask |= 1u << d;
  }
  return TN_OK;
}

/* Without axes every dimension of 1 leaves: only decidable if each one is known to be 1 or known not to be. */
static bool ones_mask(const tni_infer *in, const tni_value *x, uint32_t *mask) {
  *mask = 0;
  for (uint32_t d = 0; d < x->pub.rank; d++) {
    int64_t lo, hi;
    if (x->pub.dims[d] == TNI_EXPR_NONE) return false;
    tni_ex_range(in->x, x->pub.dims[d], &lo, &hi);
    if (lo == 1 && hi == 1) {
      *mask |= 1u << d;
    } else if (lo <= 1 && hi >= 1) {
      return false;
    }
  }
  return true;
}

/* Whether there are axes. An empty list is as good as none to ONNX Runtime, whether attribute or operand. */
static bool has_axes(const tni_infer *in) {
  uint32_t n;
  return tni_rule_in(in, 1) && !(tni_rule_length(in, 1, &n) && n == 0);
}

tn_status tni_shape_squeeze(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  tn_expr dims[TN_MAX_RANK];
  uint32_t mask, n = 0;
  bool known;
  if (has_axes(in)) {
    tn_status st = axes_mask(in, x->pub.rank, &known, &mask);
    if (st != TN_OK) return st;
  } else {
    known = ones_mask(in, x, &mask);
  }
  if (!known) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  for (uint32_t d = 0; d < x->pub.rank; d++) {
    int64_t lo, hi;
    if (!(mask >> d & 1)) {
      dims[n++] = x->pub.dims[d];
    } else if (x->pub.dims[d] != TNI_EXPR_NONE) {
      tni_ex_range(in->x, x->pub.dims[d], &lo, &hi);
      if (lo > 1 || hi < 1) return tni_rule_fail(in, "axis %u is not 1", d);
    }
  }
  tn_status st = tni_rule_set(in, 0, x->pub.dtype, n, dims);
  if (st == TN_OK) tni_rule_keep_vals(in, 0, 0);
  return st;
}

tn_status tni_shape_unsqueeze(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  uint32_t n_axes, mask, at = 0;
  tni_vals axes;
  bool known;
  tn_expr dims[TN_MAX_RANK];
  memset(dims, 0xff, sizeof dims);
  if (tni_rule_vals(in, 1, &axes)) {
    n_axes = axes.n;
  } else if (!tni_rule_length(in, 1, &n_axes)) {
    return tni_rule_set_unknown(in, 0, x->pub.dtype);
  }
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  uint32_t rank = x->pub.rank + n_axes;
  if (rank > TN_MAX_RANK) return tni_rule_fail(in, "rank %u of the result is more than %d", rank, TN_MAX_RANK);
  tn_status st = axes_mask(in, rank, &known, &mask);
  if (st != TN_OK) return st;
  for (uint32_t d = 0; known && d < rank; d++) {
    dims[d] = mask >> d & 1 ? tni_rule_const(in, 1) : x->pub.dims[at++];
  }
  st = tni_rule_set(in, 0, x->pub.dtype, rank, dims);
  if (st == TN_OK) tni_rule_keep_vals(in, 0, 0);
  return st;
}

tn_status tni_shape_transpose(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  const int64_t *attr;
  uint32_t perm[TN_MAX_RANK], seen = 0, n = tni_attr_ints(&in->node->pub, "perm", &attr);
  tn_expr dims[TN_MAX_RANK];
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  uint32_t r = x->pub.rank;
  if (attr && n != r) return tni_rule_fail(in, "perm has %u entries for rank %u", n, r);
  for (uint32_t d = 0; d < r; d++) {
    int64_t p = attr ? attr[d] : (int64_t)(r - 1 - d);
    if (p < 0 || p >= r || (seen >> p & 1)) return tni_rule_fail(in, "perm is no permutation");
    seen |= 1u << p;
    perm[d] = (uint32_t)p;
    dims[d] = x->pub.dims[p];
  }
  tn_status st = tni_rule_set(in, 0, x->pub.dtype, r, dims);
  tni_vals v;
  uint32_t count, src[TNI_MAX_ELEMS];
  int64_t od[TN_MAX_RANK];
  if (st != TN_OK || !tni_rule_wants_vals(in, 0, &count, od) || !tni_rule_vals(in, 0, &v)) return st;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t pos[TN_MAX_RANK] = {0}, flat = i, at = 0;
    for (uint32_t d = r; d-- > 0;) {
      pos[perm[d]] = flat % (uint32_t)od[d];
      flat /= (uint32_t)od[d];
    }
    for (uint32_t d = 0; d < r; d++) at = at * (uint32_t)v.dims[d] + pos[d];
    src[i] = at;
  }
  tni_rule_pick_vals(in, 0, &v, src, count);
  return TN_OK;
}
