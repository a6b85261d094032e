/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "runtime/passes/mask/forms.h"

enum { MAX_COUNT = 1 << 24 };

static bool count_of(const tni_mask *m, tn_id v, int64_t *n) {
  const tni_value *x = m->g->values[v];
  *n = 1;
  if (x->pub.rank == TNI_RANK_UNKNOWN) return false;
  for (uint32_t d = 0; d < x->pub.rank; d++) {
    int64_t k;
    if (x->pub.dims[d] == TNI_EXPR_NONE || !tni_ex_is_const(m->x, x->pub.dims[d], &k)) return false;
    if (k < 1 || k > MAX_COUNT || (*n *= k) > MAX_COUNT) return false;
  }
  return true;
}

/* v broadcast to dims is one number per head. */
static bool per_head(tni_mask *m, tn_id v, const tn_expr *dims, tni_mslopes *s) {
  const tni_mleaf *l = tni_mtab_single(tni_mtab_broadcast(m, tni_mask_read(m, v), 4, dims));
  int64_t n;
  if (!l) return false;
  if (tni_mleaf_is_num(l, &s->value)) {
    s->src = TN_NONE;
    return !isinf(s->value);
  }
  if (l->kind != TNI_MLEAF_SRC || l->gain != 1 || l->off != 0 || !count_of(m, l->src, &n) || n != s->heads)
    return false;
  tni_mform want = tni_mform_axis(m, 1, m->one);
  tni_mform_trim(m, &want, 4, dims);
  s->src = l->src;
  return tni_mform_same(&l->f, &want) && m->g->values[l->src]->pub.dtype == s->dtype;
}

/* v broadcast to dims is a multiple of the key's position, and something that is the same for all keys. */
static bool reads_positions(tni_mask *m, tn_id v, const tn_expr *dims, tni_mslopes *s) {
  const tni_mleaf *l = tni_mtab_single(tni_mtab_broadcast(m->reals, tni_mask_read(m->reals, v), 4, dims));
  return l && l->kind == TNI_MLEAF_INT && tni_ex_is_const(m->x, l->f.c[3], &s->times) && s->times != 0 &&
         s->times >= -INT32_MAX && s->times <= INT32_MAX;
}

static bool is_product(tni_mask *m, const tni_mleaf *l, const tn_expr *dims, tni_mslopes *s) {
  const tni_node *n = tni_match_node(m->g, l->src, TN_OP_MUL);
  const tni_mleaf *all = tni_mtab_single(tni_mtab_broadcast(m, tni_mask_opaque(m, l->src), 4, dims));
  if (!n || !all || !tni_mform_same(&all->f, &l->f)) return false; /* moved: its axes are others */
  for (uint32_t i = 0; i < 2; i++)
    if (per_head(m, n->pub.in[i], dims, s) && reads_positions(m, n->pub.in[!i], dims, s)) return true;
  return false;
}

/* Elements a + s * j up to rounding; *slope: s. */
static bool is_line(const tni_tensor *t, int64_t from, int64_t n, float *slope) {
  const double eps = t->dtype == TN_DT_F32 ? (double)FLT_EPSILON : t->dtype == TN_DT_F16 ? ldexp(1, -10) : ldexp(1, -7);
  float first, last, f;
  double most = 0, worst = 0;
  tni_tensor_to_f32(t, from, 1, &first);
  tni_tensor_to_f32(t, from + n - 1, 1, &last);
  const double s = ((double)last - (double)first) / (double)(n - 1);
  for (int64_t j = 0; j < n; j++) {
    tni_tensor_to_f32(t, from + j, 1, &f);
    const double off = fabs((double)first + s * (double)j - (double)f);
    if (!(off <= worst)) worst = off;
    most = fmax(most, fabs((double)f));
  }
  *slope = (float)s;
  return isfinite(s) && worst <= 2 * eps * most; /* each is rounded by half of eps, and so are both ends */
}

/* A constant of rows, one per head, that l reads from some column on. */
static bool is_table(tni_mask *m, const tni_mleaf *l, const tn_expr *dims, tni_mslopes *s) {
  const tni_value *v = m->g->values[l->src];
  int64_t all, n;
  if (v->pub.kind != TN_VALUE_CONST || !v->tensor || !v->tensor->data || v->pub.dtype != s->dtype) return false;
  if (!count_of(m, l->src, &all) || all % s->heads || (n = all / s->heads) < 2) return false;
  tni_mform want = tni_mform_axis(m, 1, tni_ex_const(m->x, n));
  want.c[3] = m->one;
  tni_mform_trim(m, &want, 4, dims);
  want.k = l->f.k;
  if (!tni_mform_whole(&want) || !tni_mform_same(&want, &l->f)) return false;
  if (!(s->table = TNI_NEW_ARRAY(m->arena, float, (size_t)s->heads))) return false;
  for (int64_t h = 0; h < s->heads; h++)
    if (!is_line(v->tensor, h * n, n, &s->table[h])) return false;
  s->src = TN_NONE;
  s->times = 1;
  return true;
}

bool tni_mask_slopes(tni_mask *m, const tni_mleaf *l, const tn_expr *dims, uint32_t dtype, tni_mslopes *s) {
  *s = (tni_mslopes){.src = TN_NONE, .dtype = dtype};
  if (l->kind != TNI_MLEAF_SRC || l->gain != 1 || l->off != 0 || dims[3] == m->one) return false;
  if (dtype != TN_DT_F32 && dtype != TN_DT_F16 && dtype != TN_DT_BF16) return false;
  if (!tni_ex_is_const(m->x, dims[1], &s->heads) || s->heads < 1 || s->heads > MAX_COUNT) return false;
  return is_product(m, l, dims, s) || is_table(m, l, dims, s);
}

static tn_id slope_vector(tni_mask *m, const tni_mslopes *s, tn_error *err) {
  tni_graph *g = m->g;
  const tn_expr heads = tni_ex_const(m->x, s->heads);
  const int64_t one = 1;
  if (s->table) {
    if (s->dtype == TN_DT_F32) return tni_build_const(g, s->dtype, 1, &s->heads, s->table);
    uint16_t *half = TNI_NEW_ARRAY(m->arena, uint16_t, (size_t)s->heads);
    for (int64_t h = 0; half && h < s->heads; h++)
      half[h] = s->dtype == TN_DT_F16 ? tni_f32_to_f16(s->table[h]) : tni_f32_to_bf16(s->table[h]);
    return half ? tni_build_const(g, s->dtype, 1, &s->heads, half) : TN_NONE;
  }
  if (s->src == TN_NONE) return tni_build_filled(g, s->dtype, s->heads, s->value);
  const tni_value *x = g->values[s->src];
  if (x->pub.rank == 1) return s->src;
  if (x->pub.kind == TN_VALUE_CONST) return tni_build_view(g, s->src, 1, &s->heads);
  tni_build_node b = {.type = "Reshape", .version = 14, .in = {s->src}, .n_in = 2};
  b.in[1] = tni_build_const(g, TN_DT_I64, 1, &one, &s->heads);
  return b.in[1] == TN_NONE ? TN_NONE : tni_build_op(g, &b, s->dtype, 1, &heads, err);
}

tn_id tni_mask_slopes_build(tni_mask *m, const tni_mslopes *s, tn_error *err) {
  const tn_expr heads = tni_ex_const(m->x, s->heads);
  const tn_id v = slope_vector(m, s, err);
  if (v == TN_NONE || s->times == 1) return v;
  const tni_build_node b = {
      .type = "Mul", .version = 14, .in = {v, tni_build_filled(m->g, s->dtype, 1, (double)s->times)}, .n_in = 2};
  return b.in[1] == TN_NONE ? TN_NONE : tni_build_op(m->g, &b, s->dtype, 1, &heads, err);
}
