/* SPDX-License-Identifier: Apache-2.0
 *
 * A triangle [length, length] that is stretched to [length, past + length].
 *
 * ONNX Runtime GenAI's builder writes such a mask for MultiHeadAttention. It works for a prompt without a past and for
 * one position at a time: only where past = 0 or length = 1 can the one be stretched to the other.
 */
#include <string.h>

#include "runtime/passes/mask/forms.h"

typedef struct stretch {
  uint32_t axis; /* of columns; rows are the one before */
  tn_expr more;  /* columns that come in front */
} stretch;

/* f says something of row - column alone, so that a single row says the same of all columns as of its first: row -
 * column
 * + k >= 0 with k >= 0, or its opposite. */
static bool is_diagonal(tni_mask *m, const tni_mform *f, uint32_t axis) {
  int64_t row, column, k;
  if (!tni_ex_is_const(m->x, f->c[axis - 1], &row) || !tni_ex_is_const(m->x, f->c[axis], &column) ||
      !tni_ex_is_const(m->x, f->k, &k) || row != -column)
    return false;
  for (uint32_t a = 0; a < TN_MAX_RANK; a++)
    if (a != axis && a != axis - 1 && f->c[a] != m->zero) return false;
  return (row == 1 && k >= 0) || (row == -1 && k < 0);
}

static bool shift_columns(tni_mask *m, void *arg, const tni_mform *in, tni_mform *out) {
  const stretch *s = arg;
  *out = *in;
  out->k = tni_ex_sub(m->x, in->k, tni_ex_mul(m->x, in->c[s->axis], s->more));
  return tni_mform_whole(out);
}

/* A triangle [.., n, n] that Expand stretches to [.., n, past + n], which fails but for past = 0 or n = 1: row i then
 * says of column j what i - (j - past) does. */
static tni_mtab *stretched_table(tni_mask *m, const tni_mtab *t, uint32_t rank, const tn_expr *to) {
  stretch s = {.axis = t->rank - 1};
  int64_t lo, hi;
  tn_expr dims[TN_MAX_RANK];
  if (t->rank < 2 || rank < t->rank || t->dims[s.axis] != t->dims[s.axis - 1]) return NULL;
  const tn_expr rows = to[rank - 2], columns = to[rank - 1];
  if (rows != t->dims[s.axis] || columns == TNI_EXPR_NONE) return NULL;
  s.more = tni_ex_sub(m->x, columns, rows);
  if (s.more == TNI_EXPR_NONE) return NULL;
  tni_ex_range(m->x, s.more, &lo, &hi);
  if (lo < 0) return NULL;
  for (uint32_t a = 0; a < t->n_atoms; a++)
    if (t->atom[a].f.c[s.axis] != m->zero &&
        (t->atom[a].kind != TNI_MATOM_INDEX || !is_diagonal(m, &t->atom[a].f, s.axis)))
      return NULL;
  for (uint32_t i = 0; i < 1u << t->n_atoms; i++)
    if (t->leaf[i].kind >= TNI_MLEAF_INT && t->leaf[i].f.c[s.axis] != m->zero) return NULL;
  memcpy(dims, t->dims, t->rank * sizeof *dims);
  dims[s.axis] = columns;
  return tni_mtab_broadcast(m, tni_mtab_map(m, t, t->rank, dims, shift_columns, &s), rank, to);
}

tni_mtab *tni_mtab_stretch(tni_mask *m, const tni_mtab *t, uint32_t rank, const tn_expr *dims) {
  tni_mtab *wide = tni_mtab_broadcast(m, t, rank, dims);
  return wide || !t ? wide : stretched_table(m, t, rank, dims);
}
