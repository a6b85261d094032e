/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a device may be from the host's kernel. docs/conformance-numbers.md derives each.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/conform/numbers/op.h"
#include "runtime/oracle/oracle.h"

typedef struct judge {
  const tni_cn_row *row;
  const tni_cn_graph *b;
  const tni_tensor *const *in;
  const tni_tensor *out;
  tni_arena *a;
  double u, tiny;
  int64_t n;
  float *bound;
} judge;

static double node_attr(const judge *j, const char *name, double dflt) {
  return tni_attr_f(&tni_graph_node(j->b->g, j->b->node)->pub, name, dflt);
}

static bool bound_ulp(const judge *j, const float *y) {
  const float *x = tni_cn_floats(j->in[0], j->a);
  const bool same = tni_cn_count(j->in[0]) == j->n;
  if (!x) return false;
  for (int64_t i = 0; i < j->n; i++)
    j->bound[i] =
        (float)(j->u * (j->row->c * fabs((double)y[i]) + (same ? j->row->d * fabs((double)x[i]) : 0)) + j->tiny);
  return true;
}

/* The operator on magnitudes: every term of its sums with one sign. */
static bool bound_terms(const judge *j, uint32_t o) {
  const tni_node *node = tni_graph_node(j->b->g, j->b->node);
  tni_tensor t[TNI_CN_MAX_IN], out[TNI_CN_MAX_OUT];
  const tni_tensor *in[TNI_CN_MAX_IN] = {NULL};
  tn_error err;
  tni_error_init(&err);
  for (uint32_t i = 0; i < node->pub.n_in; i++) {
    if (!j->in[i]) continue;
    t[i] = *j->in[i];
    in[i] = &t[i];
    if (t[i].dtype == TN_DT_I64 || t[i].dtype == TN_DT_BOOL) continue;
    float *x = tni_cn_floats(&t[i], j->a);
    const int64_t n = tni_cn_count(&t[i]);
    /* Rotary subtracts: a negative sine makes its terms add. */
    const bool sine = node->pub.op == TN_OP_ROTARY_EMBEDDING && i == 2;
    for (int64_t k = 0; x && k < n; k++) x[k] = sine ? 0 : fabsf(x[k]);
    if (!x) return false;
    t[i].dtype = TN_DT_F32;
    t[i].bytes = (uint64_t)n * 4;
    t[i].data = x;
  }
  if (tni_ops_eval(NULL, node, in, node->pub.n_in, out, node->pub.n_out, j->a, &err) != TN_OK) return false;
  const float *T = tni_cn_floats(&out[o], j->a);
  for (int64_t i = 0; T && i < j->n; i++)
    j->bound[i] = (float)(j->row->c * j->u * fabs((double)T[i]) + j->tiny * j->row->c);
  return T != NULL;
}

/* A pair's own magnitudes: |x1| + |x2| times what a cosine or sine of the table may be. */
static bool bound_rotary(const judge *j) {
  const float *x = tni_cn_floats(j->in[0], j->a), *c = tni_cn_floats(j->in[1], j->a),
              *s = tni_cn_floats(j->in[2], j->a);
  if (!x || !c || !s) return false;
  const int64_t table = tni_cn_count(j->in[1]);
  const double top = tni_cn_greatest(x, j->n), f = fmax(tni_cn_greatest(c, table), tni_cn_greatest(s, table));
  for (int64_t i = 0; i < j->n; i++) j->bound[i] = (float)(j->row->c * j->u * 2 * top * f + j->tiny);
  return true;
}

static int64_t dim_at(const tni_tensor *t, int64_t axis) {
  if (axis < 0) axis += t->rank;
  return axis >= 0 && axis < t->rank ? t->dims[axis] : 1;
}

/* Elements of the dims from `axis` on. */
static int64_t elems_from(const tni_tensor *t, int64_t axis) {
  int64_t n = 1;
  for (int64_t i = axis < 0 ? axis + t->rank : axis; i < t->rank; i++) n *= i < 0 ? 1 : t->dims[i];
  return n;
}

/* e^(x - m) is off by what its argument is: |x - m| u; the sum by n u. What underflows may be flushed. */
static bool bound_softmax(const judge *j, const float *y) {
  const tn_node *node = &tni_graph_node(j->b->g, j->b->node)->pub;
  const int64_t n = tni_attr_i(node, "coerce_2d", 0) ? elems_from(j->out, tni_attr_i(node, "axis", 1))
                                                     : dim_at(j->out, tni_attr_i(node, "axis", -1));
  const double floor_ = j->tiny * 4;
  for (int64_t i = 0; i < j->n; i++) {
    const double back = y[i] > 0 ? fmin(-log((double)y[i]), 104) + 8 : 0;
    j->bound[i] = (float)(((double)n + j->row->c + 2 * back) * j->u * fabs((double)y[i]) + floor_);
  }
  return true;
}

/* Rows of D: z = (x - mean) / s, s = sqrt(var + eps). dz: the mean's error over s, and what the variance's error, of
 * either way to compute it, does to 1/s. RMSNormalization has no mean to cancel. */
static bool bound_norm(const judge *j, const float *y, uint32_t o) {
  const float *x = tni_cn_floats(j->in[0], j->a), *w = j->in[1] ? tni_cn_floats(j->in[1], j->a) : NULL;
  const tn_node *node = &tni_graph_node(j->b->g, j->b->node)->pub;
  const int64_t D = elems_from(j->in[0], tni_attr_i(node, "axis", -1)) / tni_attr_i(node, "num_heads", 1);
  const bool layer = node->op == TN_OP_LAYER_NORMALIZATION || node->op == TN_OP_TENON_LAYER_NORMALIZATION;
  const double eps = node_attr(j, "epsilon", 1e-5), k = ((double)D + j->row->c) * j->u;
  if (!x || D < 1) return false;
  const int64_t n = tni_cn_count(j->in[0]);
  for (int64_t r = 0; r < n; r += D) {
    double mean = 0, square = 0, top = 0;
    for (int64_t i = 0; i < D; i++) {
      mean += (double)x[r + i] / (double)D;
      square += (double)x[r + i] * (double)x[r + i] / (double)D;
      top = fmax(top, fabs((double)x[r + i]));
    }
    if (!layer) mean = 0;
    const double var = fmax(square - mean * mean, 0) + eps, s = sqrt(var), dvar = k * (square + mean * mean) / var;
    /* Outputs 1 and 2: the mean, and 1 / s. */
    if (o && r / D < j->n) j->bound[r / D] = (float)(o == 1 ? k * top + j->tiny : (dvar + j->row->c * j->u) / s);
    for (int64_t i = 0; !o && i < D; i++) {
      const double z = ((double)x[r + i] - mean) / s, scale = w ? fabs((double)w[i]) : 1;
      const double dz = (layer ? k * (top + fabs(mean)) / s : 0) + fabs(z) * (dvar + j->row->c * j->u);
      j->bound[r + i] = (float)(scale * dz + 8 * j->u * (scale * fabs(z) + fabs((double)y[r + i])) + j->tiny);
    }
  }
  return true;
}

static void row_most(const tni_tensor *t, tni_arena *a, double *top) {
  const float *x = t ? tni_cn_floats(t, a) : NULL;
  *top = 0;
  for (int64_t i = 0; x && i < tni_cn_count(t); i++) *top = fmax(*top, isfinite(x[i]) ? fabs((double)x[i]) : 0);
}

static bool bound_attend(const judge *j) {
  double q, k;
  const tni_tensor *K = j->in[1];
  const tn_node *n = &tni_graph_node(j->b->g, j->b->node)->pub;
  const int64_t heads = tni_attr_i(n, "kv_num_heads", 0);
  const int64_t D = K->rank == 3 && heads ? K->dims[2] / heads : K->dims[K->rank - 1];
  tni_attend_given g = {
      .T = K->rank == 3 ? K->dims[1] : K->dims[2], .terms = (double)D + 8, .u = j->u, .tiny = j->tiny};
  row_most(j->in[0], j->a, &q);
  row_most(K, j->a, &k);
  row_most(j->in[2], j->a, &g.v);
  row_most(n->n_in > 3 ? j->in[3] : NULL, j->a, &g.added);
  double slope = 0; /* times the distance of a key */
  row_most(n->n_in > TN_ATTENTION_SLOPES ? j->in[TN_ATTENTION_SLOPES] : NULL, j->a, &slope);
  g.added += slope * (double)(g.T + (j->in[0]->rank == 3 ? j->in[0]->dims[1] : j->in[0]->dims[2]));
  g.score = fabs(node_attr(j, "scale", 1 / sqrt((double)(D ? D : 1)))) * q * k * (double)D;
  for (int64_t i = 0; i < j->n; i++) j->bound[i] = (float)tni_reference_attend(&g);
  return true;
}

bool tni_cn_op_bound(const tni_cn_row *row, const tni_cn_graph *b, const tni_tensor *const *in, const tni_tensor *out,
                     uint32_t o, tni_arena *a, float *bound) {
  const bool is_float = out->dtype == TN_DT_F32 || out->dtype == TN_DT_F16 || out->dtype == TN_DT_BF16;
  judge j = {.row = row,
             .b = b,
             .in = in,
             .out = out,
             .a = a,
             .u = tni_cn_unit(out->dtype),
             .tiny = tni_cn_tiny(out->dtype, true),
             .n = tni_cn_count(out),
             .bound = bound};
  const float *y = tni_cn_floats(out, a);
  memset(bound, 0, (size_t)j.n * sizeof *bound);
  if (!y) return false;
  const bool is_byte = out->dtype == TN_DT_U8 || out->dtype == TN_DT_I8;
  for (int64_t i = 0; row->judge == TNI_CN_BYTES && is_byte && i < j.n; i++) bound[i] = 1;
  if (!is_float || row->judge == TNI_CN_EXACT) return true;
  switch (row->judge) {
    case TNI_CN_BYTES:
    case TNI_CN_ULP:
      return bound_ulp(&j, y);
    case TNI_CN_SOFTMAX:
      return bound_softmax(&j, y);
    case TNI_CN_NORM:
      return bound_norm(&j, y, o);
    case TNI_CN_ATTEND:
      return bound_attend(&j);
    default:
      return tni_graph_node(b->g, b->node)->pub.op == TN_OP_ROTARY_EMBEDDING ? bound_rotary(&j) : bound_terms(&j, o);
  }
}
