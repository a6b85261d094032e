/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that take elements by index. An index is understood where it is one form, proved not to be negative; one after
 * the end is an error of the model.
 */
#include <string.h>

#include "runtime/passes/mask/forms.h"

/* The index that table t holds everywhere, brought to [0, dim). */
static bool index_form(tni_mask *m, const tni_mtab *t, tn_expr dim, tni_mform *f) {
  const tni_mleaf *l = tni_mtab_single(t);
  if (!l || l->kind != TNI_MLEAF_INT) return false;
  *f = l->f;
  const int sign = tni_mform_sign(m, f, t->rank, t->dims);
  if (sign == 0 && f->k != TNI_EXPR_NONE) f->k = tni_ex_add(m->x, f->k, dim);
  return tni_mform_whole(f) && (sign == 1 || (sign == 0 && tni_mform_sign(m, f, t->rank, t->dims) == 1));
}

/* --- axes of the data replaced by forms over the output --- */

typedef struct pick {
  tni_mform of[TN_MAX_RANK]; /* axis a of the data is this form */
} pick;

static bool pick_form(tni_mask *m, void *arg, const tni_mform *in, tni_mform *out) {
  const pick *p = arg;
  *out = tni_mform_const(m, in->k);
  for (uint32_t a = 0; a < TN_MAX_RANK; a++) {
    if (in->c[a] == m->zero) continue;
    const tni_mform part = tni_mform_mul(m, &p->of[a], in->c[a]);
    *out = tni_mform_add(m, out, &part, 1);
  }
  return tni_mform_whole(out);
}

static const tni_mtab *gathered_table(tni_mask *m, const tni_node *n, const tni_mtab *const *in, const tni_value *v) {
  const tni_mtab *data = in[0], *index = in[1];
  const int64_t rank = (int64_t)data->rank, given = tni_attr_i(&n->pub, "axis", 0);
  const uint32_t axis = (uint32_t)(given < 0 ? given + rank : given);
  tni_mform at;
  pick p;
  if (axis >= data->rank || v->pub.rank != data->rank + index->rank - 1) return NULL;
  if (!index_form(m, index, data->dims[axis], &at)) return NULL;
  for (uint32_t a = 0; a < TN_MAX_RANK; a++) {
    const uint32_t to = a < axis ? a : a + index->rank - 1;
    p.of[a] = tni_mform_axis(m, to, to < TN_MAX_RANK ? m->one : m->zero);
  }
  p.of[axis] = tni_mform_const(m, at.k);
  for (uint32_t a = 0; a < index->rank; a++) p.of[axis].c[axis + a] = at.c[a];
  return tni_mtab_map(m, data, v->pub.rank, v->pub.dims, pick_form, &p);
}

/* Table t where its last axis is `at`, without that axis. */
static const tni_mtab *fixed_last(tni_mask *m, const tni_mtab *t, int64_t at) {
  pick p;
  for (uint32_t a = 0; a < TN_MAX_RANK; a++) p.of[a] = tni_mform_axis(m, a, m->one);
  p.of[t->rank - 1] = tni_mform_const(m, tni_ex_const(m->x, at));
  return tni_mtab_map(m, t, t->rank - 1, t->dims, pick_form, &p);
}

static const tni_mtab *gathered_nd(tni_mask *m, const tni_node *n, const tni_mtab *const *in, const tni_value *v) {
  const tni_mtab *data = in[0], *index = in[1];
  int64_t depth;
  pick p;
  if (index->rank < 1 || tni_attr_i(&n->pub, "batch_dims", 0)) return NULL;
  if (!tni_ex_is_const(m->x, index->dims[index->rank - 1], &depth) || depth < 1 || depth > (int64_t)data->rank)
    return NULL;
  const uint32_t lead = index->rank - 1, deep = (uint32_t)depth;
  if (v->pub.rank != lead + data->rank - deep) return NULL;
  for (uint32_t a = 0; a < TN_MAX_RANK; a++) {
    const uint32_t to = a < deep ? 0 : lead + a - deep;
    p.of[a] = tni_mform_axis(m, to, a >= deep && to < TN_MAX_RANK ? m->one : m->zero);
  }
  for (uint32_t a = 0; a < deep; a++) {
    const tni_mtab *one = fixed_last(m, index, a);
    if (!one || !index_form(m, one, data->dims[a], &p.of[a])) return NULL;
  }
  return tni_mtab_map(m, data, v->pub.rank, v->pub.dims, pick_form, &p);
}

/* Updates that replace every element at its own place. */
static const tni_mtab *scattered_nd(tni_mask *m, const tni_node *n, const tni_mtab *const *in, const tni_value *v) {
  const tni_mtab *index = in[1], *updates = in[2];
  const char *how = tni_attr_s(&n->pub, "reduction", "none");
  int64_t depth;
  if (strcmp(how, "none") != 0) return NULL;
  if (index->rank != v->pub.rank + 1 || updates->rank != v->pub.rank) return NULL;
  if (!tni_ex_is_const(m->x, index->dims[index->rank - 1], &depth) || depth != (int64_t)v->pub.rank) return NULL;
  for (uint32_t a = 0; a < v->pub.rank; a++) {
    if (index->dims[a] != v->pub.dims[a] || updates->dims[a] != v->pub.dims[a]) return NULL;
    const tni_mtab *one = fixed_last(m, index, a);
    tni_mform f, own = tni_mform_axis(m, a, m->one);
    if (!one || !index_form(m, one, v->pub.dims[a], &f)) return NULL;
    tni_mform_trim(m, &own, one->rank, one->dims);
    if (!tni_mform_same(&f, &own)) return NULL;
  }
  return updates;
}

const tni_mtab *tni_mask_index(tni_mask *m, const tni_node *n, const tni_mtab *const *in) {
  const tni_value *v = m->g->values[n->pub.out[0]];
  if (n->pub.op == TN_OP_GATHER) return gathered_table(m, n, in, v);
  if (n->pub.op == TN_OP_GATHER_ND) return gathered_nd(m, n, in, v);
  return n->pub.op == TN_OP_SCATTER_ND ? scattered_nd(m, n, in, v) : NULL;
}
