/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/mask/forms.h"

tni_mform tni_mform_const(const tni_mask *m, tn_expr k) {
  tni_mform f = {.k = k};
  for (uint32_t a = 0; a < TN_MAX_RANK; a++) f.c[a] = m->zero;
  return f;
}

tni_mform tni_mform_axis(const tni_mask *m, uint32_t axis, tn_expr c) {
  tni_mform f = tni_mform_const(m, m->zero);
  if (axis < TN_MAX_RANK) f.c[axis] = c;
  return f;
}

bool tni_mform_whole(const tni_mform *f) {
  for (uint32_t a = 0; a < TN_MAX_RANK; a++)
    if (f->c[a] == TNI_EXPR_NONE) return false;
  return f->k != TNI_EXPR_NONE;
}

bool tni_mform_same(const tni_mform *a, const tni_mform *b) {
  for (uint32_t i = 0; i < TN_MAX_RANK; i++)
    if (a->c[i] != b->c[i]) return false;
  return a->k == b->k;
}

bool tni_mform_is_const(const tni_mask *m, const tni_mform *f, tn_expr *k) {
  for (uint32_t a = 0; a < TN_MAX_RANK; a++)
    if (f->c[a] != m->zero) return false;
  *k = f->k;
  return true;
}

tni_mform tni_mform_mul(tni_mask *m, const tni_mform *a, tn_expr e) {
  tni_mform f;
  for (uint32_t i = 0; i < TN_MAX_RANK; i++) f.c[i] = a->c[i] == m->zero ? m->zero : tni_ex_mul(m->x, a->c[i], e);
  f.k = tni_ex_mul(m->x, a->k, e);
  return f;
}

tni_mform tni_mform_add(tni_mask *m, const tni_mform *a, const tni_mform *b, int64_t times) {
  const tni_mform t = times == 1 ? *b : tni_mform_mul(m, b, tni_ex_const(m->x, times));
  tni_mform f;
  for (uint32_t i = 0; i < TN_MAX_RANK; i++) f.c[i] = t.c[i] == m->zero ? a->c[i] : tni_ex_add(m->x, a->c[i], t.c[i]);
  f.k = tni_ex_add(m->x, a->k, t.k);
  return f;
}

static bool is_one(const tni_mask *m, tn_expr d) { return d == m->one; }

void tni_mform_trim(const tni_mask *m, tni_mform *f, uint32_t rank, const tn_expr *dims) {
  for (uint32_t a = 0; a < TN_MAX_RANK; a++)
    if (a >= rank || is_one(m, dims[a])) f->c[a] = m->zero;
}

tni_mform tni_mform_dense(tni_mask *m, uint32_t rank, const tn_expr *dims) {
  tni_mform f = tni_mform_const(m, m->zero);
  tn_expr step = m->one;
  for (uint32_t a = rank; a-- > 0;) {
    if (!is_one(m, dims[a])) f.c[a] = step;
    if (a > 0) step = tni_ex_mul(m->x, step, dims[a]);
  }
  return f;
}

/* -1, 0, 1: the sign of e for all values of its symbols (0: it may be 0, but is never below, or is never above: *both
 * tell); 2 unknown. */
static bool sign_of(const tni_mask *m, tn_expr e, bool *positive) {
  int64_t lo, hi;
  tni_ex_range(m->x, e, &lo, &hi);
  *positive = lo >= 0;
  return lo >= 0 || hi <= 0;
}

static tn_expr add_forms(tni_mask *m, tn_expr a, tn_expr b) {
  return a == TNI_EXPR_NONE || b == TNI_EXPR_NONE ? TNI_EXPR_NONE : tni_ex_add(m->x, a, b);
}

void tni_mform_bounds(tni_mask *m, const tni_mform *f, uint32_t rank, const tn_expr *dims, tn_expr *lo, tn_expr *hi) {
  *lo = *hi = f->k;
  for (uint32_t a = 0; a < rank; a++) {
    bool positive;
    if (f->c[a] == m->zero) continue;
    if (f->c[a] == TNI_EXPR_NONE || !sign_of(m, f->c[a], &positive)) {
      *lo = *hi = TNI_EXPR_NONE;
      return;
    }
    const tn_expr last = dims[a] == TNI_EXPR_NONE ? TNI_EXPR_NONE : tni_ex_sub(m->x, dims[a], m->one);
    const tn_expr most = last == TNI_EXPR_NONE ? TNI_EXPR_NONE : tni_ex_mul(m->x, f->c[a], last);
    tn_expr *far = positive ? hi : lo;
    *far = add_forms(m, *far, most);
  }
}

int tni_mform_sign(tni_mask *m, const tni_mform *f, uint32_t rank, const tn_expr *dims) {
  tn_expr lo, hi;
  tni_mform_bounds(m, f, rank, dims, &lo, &hi);
  if (lo != TNI_EXPR_NONE && tni_ex_proves_le(m->x, m->zero, lo)) return 1;
  return hi != TNI_EXPR_NONE && tni_ex_proves_le(m->x, hi, tni_ex_const(m->x, -1)) ? 0 : -1;
}

tni_matom tni_matom_index(tni_mask *m, const tni_mform *f, bool *neg) {
  tni_matom a = {.kind = TNI_MATOM_INDEX, .f = *f, .src = TN_NONE};
  int64_t c = 0;
  *neg = false;
  for (uint32_t i = TN_MAX_RANK; i-- > 0;) {
    if (f->c[i] == m->zero) continue;
    *neg = tni_ex_is_const(m->x, f->c[i], &c) && c < 0;
    break;
  }
  if (*neg) { /* not (-f - 1 >= 0) */
    const tni_mform minus_one = tni_mform_const(m, tni_ex_const(m->x, -1));
    a.f = tni_mform_add(m, &minus_one, f, -1);
  }
  return a;
}
