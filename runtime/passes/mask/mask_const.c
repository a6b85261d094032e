/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "runtime/passes/mask/forms.h"

enum { PIECES = 4, MAX_COUNT = 1 << 26 };

typedef struct constant {
  const tni_tensor *t;
  int64_t count;
} constant;

static double mask_element(const constant *c, int64_t i) {
  double d;
  float f;
  int64_t n;
  switch (c->t->dtype) {
    case TN_DT_BOOL:
      return ((const uint8_t *)c->t->data)[i] != 0;
    case TN_DT_F64:
      memcpy(&d, (const char *)c->t->data + (size_t)i * sizeof d, sizeof d);
      return d;
    case TN_DT_F32:
    case TN_DT_F16:
    case TN_DT_BF16:
      tni_tensor_to_f32(c->t, i, 1, &f);
      return (double)f;
    default:
      tni_tensor_to_i64(c->t, i, 1, &n);
      return (double)n;
  }
}

static bool is_readable(const tni_value *v, constant *c) {
  const tni_tensor *t = v->tensor;
  if (!t || !t->data || t->rank > TN_MAX_RANK) return false;
  const uint32_t d = t->dtype;
  if (d != TN_DT_BOOL && d != TN_DT_F32 && d != TN_DT_F64 && d != TN_DT_F16 && d != TN_DT_BF16 && !tni_mask_is_int(d))
    return false;
  c->t = t;
  return tni_dims_count(t->dims, t->rank, &c->count) == TN_OK && c->count >= 1 && c->count <= MAX_COUNT;
}

static tni_mtab *uniform_table(tni_mask *m, const tni_value *v, const constant *c) {
  const double first = mask_element(c, 0);
  if (tni_mask_is_int(c->t->dtype) && fabs(first) > (double)(INT64_C(1) << 53)) return NULL;
  for (int64_t i = 1; i < c->count; i++)
    if (mask_element(c, i) != first) return NULL;
  tni_mtab *t = first == first ? tni_mtab_new(m, v->pub.rank, v->pub.dims, v->pub.dtype, 0) : NULL;
  if (t) t->leaf[0] = tni_mleaf_of(m, v->pub.dtype, first);
  return t;
}

static int64_t int_at(const constant *c, int64_t i) {
  int64_t n;
  tni_tensor_to_i64(c->t, i, 1, &n);
  return n;
}

/* k + sum of step * coordinate, in integers of at most 2^31 so that nothing overflows. */
static tni_mtab *linear_table(tni_mask *m, const tni_value *v, const constant *c) {
  int64_t step[TN_MAX_RANK], at[TN_MAX_RANK] = {0}, stride = 1;
  if (!tni_mask_is_int(c->t->dtype)) return NULL;
  for (int64_t i = 0; i < c->count; i++)
    if (int_at(c, i) > INT32_MAX || int_at(c, i) < -INT32_MAX) return NULL;
  for (uint32_t a = c->t->rank; a-- > 0;) {
    step[a] = c->t->dims[a] > 1 ? int_at(c, stride) - int_at(c, 0) : 0;
    stride *= c->t->dims[a];
  }
  for (int64_t i = 0; i < c->count; i++) {
    int64_t want = int_at(c, 0);
    for (uint32_t a = 0; a < c->t->rank; a++) want += step[a] * at[a];
    if (int_at(c, i) != want) return NULL;
    for (uint32_t a = c->t->rank; a-- > 0 && ++at[a] == c->t->dims[a];) at[a] = 0;
  }
  tni_mtab *t = tni_mtab_new(m, v->pub.rank, v->pub.dims, v->pub.dtype, 0);
  if (!t) return NULL;
  t->leaf[0] = tni_mleaf_int(m, int_at(c, 0));
  for (uint32_t a = 0; a < c->t->rank; a++) t->leaf[0].f.c[a] = tni_ex_const(m->x, step[a]);
  return t;
}

/* Where the value changes as column - row grows; false: it depends on something else, or changes too often. */
static bool read_diagonals(const constant *c, int64_t rows, int64_t cols, int64_t *from, double *value, uint32_t *n) {
  *n = 0;
  for (int64_t d = 1 - rows; d < cols; d++) {
    const int64_t i = d < 0 ? -d : 0;
    const double v = mask_element(c, i * cols + i + d);
    for (int64_t r = i; r < rows && r + d < cols; r++)
      if (mask_element(c, r * cols + r + d) != v) return false;
    if (*n && value[*n - 1] == v) continue;
    if (*n == PIECES) return false;
    from[*n] = d;
    value[(*n)++] = v;
  }
  return true;
}

static tni_mtab *banded_table(tni_mask *m, const tni_value *v, const constant *c) {
  const uint32_t r = c->t->rank;
  int64_t from[PIECES];
  double value[PIECES];
  uint32_t n;
  if (r < 2) return NULL;
  const int64_t rows = c->t->dims[r - 2], cols = c->t->dims[r - 1];
  if (rows * cols != c->count || !read_diagonals(c, rows, cols, from, value, &n)) return NULL;
  tni_mtab *t = tni_mtab_new(m, r, v->pub.dims, v->pub.dtype, n - 1);
  if (!t) return NULL;
  for (uint32_t a = 0; a + 1 < n; a++) { /* column - row >= from[a + 1] */
    tni_mform f = tni_mform_axis(m, r - 1, m->one);
    f.c[r - 2] = tni_ex_const(m->x, -1);
    f.k = tni_ex_const(m->x, -from[a + 1]);
    tni_mform_trim(m, &f, r, v->pub.dims);
    bool neg;
    t->atom[a] = tni_matom_index(m, &f, &neg);
    if (neg || !tni_mform_whole(&f)) return NULL;
  }
  for (uint32_t i = 0; i < 1u << t->n_atoms; i++) {
    uint32_t piece = 0;
    while (piece < t->n_atoms && (i >> piece & 1)) piece++;
    if (i >> piece == 0) t->leaf[i] = tni_mleaf_of(m, v->pub.dtype, value[piece]);
  }
  tni_mtab_simplify(m, t);
  return t;
}

tni_mtab *tni_mask_const(tni_mask *m, tn_id id) {
  const tni_value *v = m->g->values[id];
  constant c;
  if (!is_readable(v, &c)) return NULL;
  tni_mtab *t = uniform_table(m, v, &c);
  if (!t) t = linear_table(m, v, &c);
  if (!t) t = banded_table(m, v, &c);
  return t;
}
