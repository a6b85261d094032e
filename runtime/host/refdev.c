/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "tenon.host.reference" version 1.
 */
#include "runtime/host/device.h"

const tni_host_choice *tni_hdev_choice(const tni_host_device *d, tn_id node) {
  for (uint32_t i = 0; i < d->n_choices; i++)
    if (d->choices[i].node == node) return &d->choices[i];
  return NULL;
}

void tni_hdev_drop_choices(tni_host_device *d) {
  for (uint32_t i = 0; i < d->n_choices; i++) d->host->free(d->host->ctx, d->choices[i].params);
  d->host->free(d->host->ctx, d->choices);
  d->choices = NULL;
  d->n_choices = 0;
}

static bool copy_choice(tni_host_device *d, tn_id node, const tn_format *f, const int64_t *params, uint32_t n) {
  tni_host_choice *c = &d->choices[d->n_choices];
  const size_t bytes = (size_t)n * sizeof *params;
  int64_t *copy = d->host->alloc(d->host->ctx, bytes ? bytes : 1, 16, TN_TAG_PLUGIN);
  if (!copy) return false;
  if (n) memcpy(copy, params, bytes);
  *c = (tni_host_choice){node, f, copy, n};
  d->n_choices++;
  return true;
}

static tn_status set(tn_device *dev, const tn_id *nodes, const tn_format *const *formats, const int64_t *const *params,
                     const uint32_t *n_params, uint32_t n) {
  tni_host_device *d = (tni_host_device *)dev;
  for (uint32_t i = 0; i < n; i++)
    if (!formats[i] || !formats[i]->unpack) return TN_E_INVALID;
  tni_hdev_drop_choices(d);
  if (!n) return TN_OK;
  d->choices = d->host->alloc(d->host->ctx, (size_t)n * sizeof *d->choices, 16, TN_TAG_PLUGIN);
  bool ok = d->choices != NULL;
  for (uint32_t i = 0; ok && i < n; i++) ok = copy_choice(d, nodes[i], formats[i], params[i], n_params[i]);
  if (!ok) tni_hdev_drop_choices(d);
  return ok ? TN_OK : TN_E_NO_MEMORY;
}

const tni_host_reference *tni_hdev_reference_extension(void) {
  static const tni_host_reference ext = {.h = TN_HDR(tni_host_reference), .set = set};
  return &ext;
}

static bool is_matrix(const tn_graph *g, tn_id v) {
  return v != TN_NONE && g->values[v]->kind == TN_VALUE_CONST && g->values[v]->rank == 2;
}

/* Transpose of a matrix: perm absent or [1, 0]. */
static bool turns(const tn_node *n) {
  const int64_t *perm;
  const uint32_t k = n->op == TN_OP_TRANSPOSE ? tni_attr_ints(n, "perm", &perm) : 1;
  return k == 0 || (k == 2 && perm[0] == 1 && perm[1] == 0);
}

tn_id tni_hdev_product_weight(const tn_graph *g, const tn_node *n, bool *kn) {
  if ((n->op != TN_OP_MATMUL && n->op != TN_OP_GEMM) || n->n_in < 2 || n->in[1] == TN_NONE) return TN_NONE;
  *kn = !(n->op == TN_OP_GEMM && tni_attr_i(n, "transB", 0));
  if (is_matrix(g, n->in[1])) return n->in[1];
  const tn_id by = g->values[n->in[1]]->producer;
  if (by == TN_NONE || by >= g->n_nodes || !turns(g->nodes[by]) || !is_matrix(g, g->nodes[by]->in[0])) return TN_NONE;
  *kn = !*kn;
  return g->nodes[by]->in[0];
}

/* y = alpha * y + beta * c, one rounding per product and sum in double. */
static tn_status gemm_tail(const tn_node *n, const tni_tensor *c, tni_tensor *y, tn_error *err) {
  const double alpha = tni_attr_f(n, "alpha", 1), beta = tni_attr_f(n, "beta", 1);
  tni_bcast b;
  if (!c && alpha == 1) return TN_OK;
  if (c && (c->dtype != TN_DT_F32 || !tni_bcast_init(&b, y, &c, 1)))
    return tni_fail(err, TN_E_INVALID, n->name, "Gemm: C does not fit");
  const int64_t N = y->dims[1], cols = c && c->rank ? c->dims[c->rank - 1] : 1,
                rows = c && c->rank > 1 ? c->dims[0] : 1;
  f32u *out = y->data;
  const int64_t total = tni_knumel(y);
  for (int64_t i = 0; i < total; i++) {
    const int64_t at = (rows > 1 ? i / N : 0) * cols + (cols > 1 ? i % N : 0);
    out[i] = (float)(alpha * (double)out[i] + (c ? beta * (double)((const f32u *)c->data)[at] : 0));
  }
  return TN_OK;
}

tn_status tni_hdev_run_reference(const tni_htask *t, const float *w, const tni_tensor *const *in, tni_tensor *out,
                                 tn_run *run, tn_error *err) {
  const tn_node *n = t->node;
  const int64_t M = t->N ? tni_knumel(out) / t->N : 0;
  if (!in[0]->rank || in[0]->dims[in[0]->rank - 1] != t->K || M * t->K != tni_knumel(in[0]))
    return tni_fail(err, TN_E_INVALID, n->name, "the activation does not fit the packed constant");
  tn_status s = tni_reference_matmul(t->numerics, in[0]->data, M, t->K, w, t->N, NULL, out->data, NULL, run);
  if (s) return tni_fail(err, s, n->name, "numerics that the reference does not know");
  return n->op == TN_OP_GEMM ? gemm_tail(n, n->n_in > 2 ? in[2] : NULL, out, err) : TN_OK;
}
