/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/passes/mask/forms.h"

tni_mtab *tni_mtab_new(tni_mask *m, uint32_t rank, const tn_expr *dims, uint32_t dtype, uint32_t n_atoms) {
  tni_mtab *t = rank > TN_MAX_RANK || n_atoms > TNI_MASK_ATOMS ? NULL : TNI_NEW(m->arena, tni_mtab);
  if (!t) return NULL;
  t->rank = rank;
  t->dtype = dtype;
  t->n_atoms = n_atoms;
  for (uint32_t d = 0; d < rank; d++) {
    if (dims[d] == TNI_EXPR_NONE) return NULL;
    t->dims[d] = dims[d];
  }
  t->leaf = TNI_NEW_ARRAY(m->arena, tni_mleaf, (size_t)1 << n_atoms);
  return t->leaf ? t : NULL;
}

const tni_mleaf *tni_mtab_single(const tni_mtab *t) { return t && t->n_atoms == 0 ? t->leaf : NULL; }

/* --- which assignments can be --- */

static bool same_atom(const tni_matom *a, const tni_matom *b) {
  if (a->kind != b->kind || !tni_mform_same(&a->f, &b->f)) return false;
  return a->kind == TNI_MATOM_INDEX || (a->src == b->src && a->c == b->c);
}

/* Bit 2 * (b holds) + (a holds): a and b cannot be so. One form that is never below another follows from it; atoms are
 * written in one direction, so nothing else is to be found. */
static uint32_t index_conflict(tni_mask *m, const tni_mtab *t, const tni_matom *a, const tni_matom *b) {
  const tni_mform up = tni_mform_add(m, &b->f, &a->f, -1), down = tni_mform_add(m, &a->f, &b->f, -1);
  uint32_t bad = 0;
  if (tni_mform_whole(&up) && tni_mform_sign(m, &up, t->rank, t->dims) == 1) bad |= 1u << 1;     /* a but not b */
  if (tni_mform_whole(&down) && tni_mform_sign(m, &down, t->rank, t->dims) == 1) bad |= 1u << 2; /* b but not a */
  return bad;
}

static uint32_t element_conflict(const tni_matom *a, const tni_matom *b) {
  if (a->src != b->src || !tni_mform_same(&a->f, &b->f)) return 0;
  if (a->kind == TNI_MATOM_EQ && b->kind == TNI_MATOM_EQ) return 1u << 3; /* the constants differ */
  if (a->kind == TNI_MATOM_GE && b->kind == TNI_MATOM_GE) return a->c >= b->c ? 1u << 1 : 1u << 2;
  if (a->kind == TNI_MATOM_EQ) return a->c >= b->c ? 1u << 1 : 1u << 3;
  return b->c >= a->c ? 1u << 2 : 1u << 3;
}

/* ok[i]: assignment i is not proved to be impossible. */
static void find_possible(tni_mask *m, const tni_mtab *t, bool *ok) {
  const uint32_t n = 1u << t->n_atoms;
  memset(ok, true, n);
  for (uint32_t a = 0; a < t->n_atoms; a++) {
    const int known = t->atom[a].kind == TNI_MATOM_INDEX ? tni_mform_sign(m, &t->atom[a].f, t->rank, t->dims) : -1;
    for (uint32_t i = 0; known >= 0 && i < n; i++)
      if ((int)(i >> a & 1) != known) ok[i] = false;
    for (uint32_t b = a + 1; b < t->n_atoms; b++) {
      const tni_matom *p = &t->atom[a], *q = &t->atom[b];
      uint32_t bad = 0;
      if (p->kind == TNI_MATOM_INDEX && q->kind == TNI_MATOM_INDEX) bad = index_conflict(m, t, p, q);
      if (p->kind != TNI_MATOM_INDEX && q->kind != TNI_MATOM_INDEX) bad = element_conflict(p, q);
      for (uint32_t i = 0; bad && i < n; i++)
        if (bad >> (2 * (i >> b & 1) + (i >> a & 1)) & 1) ok[i] = false;
    }
  }
}

/* --- simpler tables --- */

/* An element that an atom says equals c is c. */
static void specialise_table(const tni_mask *m, tni_mtab *t) {
  for (uint32_t i = 0; i < 1u << t->n_atoms; i++) {
    tni_mleaf *l = &t->leaf[i];
    for (uint32_t a = 0; l->kind == TNI_MLEAF_SRC && a < t->n_atoms; a++) {
      const tni_matom *p = &t->atom[a];
      if (!(i >> a & 1) || p->kind != TNI_MATOM_EQ || p->src != l->src || !tni_mform_same(&p->f, &l->f)) continue;
      *l = tni_mleaf_of(m, t->dtype, l->gain * p->c + l->off);
    }
  }
}

static bool atom_decides(const tni_mtab *t, uint32_t a) {
  for (uint32_t i = 0; i < 1u << t->n_atoms; i++) {
    const uint32_t j = i | 1u << a;
    if (i == j || t->leaf[i].kind == TNI_MLEAF_VOID || t->leaf[j].kind == TNI_MLEAF_VOID) continue;
    if (!tni_mleaf_same(&t->leaf[i], &t->leaf[j])) return true;
  }
  return false;
}

static void drop_atom(tni_mtab *t, uint32_t a) {
  const uint32_t n = 1u << (t->n_atoms - 1), low = (1u << a) - 1;
  for (uint32_t i = 0; i < n; i++) { /* in ascending order nothing is read that was written */
    const uint32_t off = (i & low) | (i & ~low) << 1, on = off | 1u << a;
    t->leaf[i] = t->leaf[t->leaf[off].kind == TNI_MLEAF_VOID ? on : off];
  }
  for (uint32_t b = a + 1; b < t->n_atoms; b++) t->atom[b - 1] = t->atom[b];
  t->n_atoms--;
}

void tni_mtab_simplify(tni_mask *m, tni_mtab *t) {
  bool ok[TNI_MASK_LEAVES];
  find_possible(m, t, ok);
  for (uint32_t i = 0; i < 1u << t->n_atoms; i++)
    if (!ok[i]) t->leaf[i] = (tni_mleaf){.kind = TNI_MLEAF_VOID};
  specialise_table(m, t);
  for (uint32_t a = t->n_atoms; a-- > 0;)
    if (!atom_decides(t, a)) drop_atom(t, a);
}

/* --- other coordinates --- */

static bool map_leaf(tni_mask *m, const tni_mleaf *in, tni_mleaf *out, uint32_t rank, const tn_expr *dims,
                     tni_mform_fn change, void *arg) {
  *out = *in;
  if (in->kind != TNI_MLEAF_INT && in->kind != TNI_MLEAF_SRC) return true;
  if (!change(m, arg, &in->f, &out->f)) return false;
  tni_mform_trim(m, &out->f, rank, dims);
  return tni_mform_whole(&out->f);
}

/* The atoms of t after a change of coordinates, found again or added to `to`; at[a] is where, flip[a]: its opposite. */
static bool map_atoms(tni_mask *m, const tni_mtab *t, tni_mtab *to, tni_mform_fn change, void *arg, uint32_t *at,
                      bool *flip) {
  for (uint32_t a = 0; a < t->n_atoms; a++) {
    tni_matom p = t->atom[a];
    flip[a] = false;
    if (!change(m, arg, &t->atom[a].f, &p.f)) return false;
    tni_mform_trim(m, &p.f, to->rank, to->dims);
    if (p.kind == TNI_MATOM_INDEX && tni_mform_whole(&p.f)) p = tni_matom_index(m, &p.f, &flip[a]);
    if (!tni_mform_whole(&p.f)) return false;
    for (at[a] = 0; at[a] < to->n_atoms && !same_atom(&to->atom[at[a]], &p);) at[a]++;
    if (at[a] == to->n_atoms) to->atom[to->n_atoms++] = p;
  }
  return true;
}

tni_mtab *tni_mtab_map(tni_mask *m, const tni_mtab *t, uint32_t rank, const tn_expr *dims, tni_mform_fn change,
                       void *arg) {
  uint32_t at[TNI_MASK_ATOMS];
  bool flip[TNI_MASK_ATOMS];
  tni_mtab *out = tni_mtab_new(m, rank, dims, t->dtype, t->n_atoms);
  if (!out) return NULL;
  out->n_atoms = 0;
  if (!map_atoms(m, t, out, change, arg, at, flip)) return NULL;
  for (uint32_t i = 0; i < 1u << out->n_atoms; i++) {
    uint32_t from = 0;
    for (uint32_t a = 0; a < t->n_atoms; a++) from |= ((i >> at[a] & 1) ^ (uint32_t)flip[a]) << a;
    if (!map_leaf(m, &t->leaf[from], &out->leaf[i], rank, out->dims, change, arg)) return NULL;
  }
  tni_mtab_simplify(m, out);
  return out;
}

static bool shift_axes(tni_mask *m, void *arg, const tni_mform *in, tni_mform *out) {
  const uint32_t by = *(const uint32_t *)arg;
  *out = tni_mform_const(m, in->k);
  for (uint32_t a = 0; a + by < TN_MAX_RANK; a++) out->c[a + by] = in->c[a];
  return true;
}

tni_mtab *tni_mtab_broadcast(tni_mask *m, const tni_mtab *t, uint32_t rank, const tn_expr *dims) {
  if (!t || t->rank > rank || rank > TN_MAX_RANK) return NULL;
  uint32_t by = rank - t->rank;
  for (uint32_t d = 0; d < t->rank; d++)
    if (t->dims[d] != m->one && t->dims[d] != dims[d + by]) return NULL;
  return tni_mtab_map(m, t, rank, dims, shift_axes, &by);
}

/* --- several tables --- */

/* Bits of table k's own assignment within the joint one. */
static uint32_t part_of_atoms(uint32_t all, const uint32_t *at, uint32_t n) {
  uint32_t i = 0;
  for (uint32_t a = 0; a < n; a++) i |= (all >> at[a] & 1) << a;
  return i;
}

static bool add_atom(tni_mtab *t, const tni_matom *p, uint32_t *at) {
  for (*at = 0; *at < t->n_atoms; ++*at)
    if (same_atom(&t->atom[*at], p)) return true;
  if (t->n_atoms == TNI_MASK_ATOMS) return false;
  t->atom[t->n_atoms++] = *p;
  return true;
}

/* What is no constant and no form describes itself. */
static void make_opaque(tni_mask *m, tn_id self, const tni_mtab *t, tni_mout *r) {
  double c;
  if (r->yes.kind != TNI_MLEAF_NUM || tni_mleaf_is_num(&r->yes, &c) || r->n) return;
  const tni_mform address = tni_mform_dense(m, t->rank, t->dims);
  if (t->dtype == TN_DT_BOOL) {
    r->yes = tni_mleaf_num(1);
    r->no = tni_mleaf_num(0);
    r->n = 1;
    r->cond[0] = (tni_matom){.kind = TNI_MATOM_EQ, .f = address, .src = self, .c = 0};
    r->neg[0] = true;
  } else {
    r->yes.kind = TNI_MLEAF_SRC;
    r->yes.f = address;
    r->yes.src = self;
    r->yes.gain = 1;
    r->yes.off = 0;
  }
}

static bool holds_in_case(const tni_mout *r, uint32_t all, const uint32_t *at) {
  for (uint32_t c = 0; c < r->n; c++)
    if ((bool)(all >> at[c] & 1) == r->neg[c]) return false;
  return true;
}

typedef struct result {
  tni_mout out;
  uint32_t at[2];
  bool is;
} result;

tni_mtab *tni_mtab_combine(tni_mask *m, tn_id self, const tni_mtab *const *in, uint32_t n, tni_mleaf_fn fn,
                           const void *arg) {
  uint32_t at[TNI_MASK_INPUTS][TNI_MASK_ATOMS];
  bool ok[TNI_MASK_LEAVES];
  const tni_value *v = m->g->values[self];
  tni_mtab *t = tni_mtab_new(m, v->pub.rank, v->pub.dims, v->pub.dtype, TNI_MASK_ATOMS);
  result *r = TNI_NEW_ARRAY(m->arena, result, TNI_MASK_LEAVES);
  if (!t || !r || n > TNI_MASK_INPUTS) return NULL;
  t->n_atoms = 0;
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t a = 0; a < in[k]->n_atoms; a++)
      if (!add_atom(t, &in[k]->atom[a], &at[k][a])) return NULL;
  find_possible(m, t, ok);
  const uint32_t n_base = 1u << t->n_atoms;
  for (uint32_t i = 0; i < n_base; i++) {
    const tni_mleaf *leaf[TNI_MASK_INPUTS];
    for (uint32_t k = 0; k < n; k++) {
      leaf[k] = &in[k]->leaf[part_of_atoms(i, at[k], in[k]->n_atoms)];
      if (leaf[k]->kind == TNI_MLEAF_VOID) ok[i] = false;
    }
    if (!(r[i].is = ok[i])) continue;
    fn(m, arg, t, leaf, &r[i].out);
    make_opaque(m, self, t, &r[i].out);
    for (uint32_t c = 0; c < r[i].out.n; c++)
      if (!tni_mform_whole(&r[i].out.cond[c].f) || !add_atom(t, &r[i].out.cond[c], &r[i].at[c])) return NULL;
  }
  for (uint32_t i = 0; i < 1u << t->n_atoms; i++) {
    const result *p = &r[i & (n_base - 1)];
    if (p->is) t->leaf[i] = holds_in_case(&p->out, i, p->at) ? p->out.yes : p->out.no;
    if ((t->leaf[i].kind == TNI_MLEAF_INT || t->leaf[i].kind == TNI_MLEAF_SRC) && !tni_mform_whole(&t->leaf[i].f))
      return NULL;
  }
  tni_mtab_simplify(m, t);
  return t;
}
