/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/base/base.h"
#include "plugins/common/cpu/match.h"

typedef struct fused_reader {
  const tni_clt_device *d;
  const tn_graph *g;
  const tn_node *n;
  tni_clt_fused *out;
  uint32_t *reason;
  const char **text;
} fused_reader;

static bool refuse_fused(const fused_reader *r, uint32_t reason, const char *text) {
  *r->reason = reason;
  *r->text = text;
  return false;
}

static const tn_value *fused_input(const fused_reader *r, uint32_t i) { return tni_cm_value(r->g, r->n->in[i]); }

static bool read_values(const fused_reader *r) {
  uint32_t n_weights = r->out->f.n_weights;
  for (uint32_t i = 0; i < (uint32_t)r->n->n_in + r->n->n_out; i++) {
    bool result = i >= r->n->n_in;
    tn_id id = result ? r->n->out[i - r->n->n_in] : r->n->in[i];
    const tn_value *v = tni_cm_value(r->g, id);
    if (!v && result && id == TN_NONE) continue;
    if (!v) return refuse_fused(r, TN_WHY_SHAPE, "an input is missing");
    if (v->dtype != TN_DT_F32) return refuse_fused(r, TN_WHY_DTYPE, "only float32 inputs and outputs");
    if (v->kind == TN_VALUE_STATE) return refuse_fused(r, TN_WHY_OP, "products with a KV cache are not computed here");
    if (v->rank > TN_MAX_RANK) return refuse_fused(r, TN_WHY_SHAPE, "a rank that is unknown or over 8");
    if (i > 0 && i <= n_weights && (v->kind != TN_VALUE_CONST || v->rank != 2))
      return refuse_fused(r, TN_WHY_NOT_CONST, "a weight is no constant matrix");
  }
  return true;
}

/* Where each weight lies in the joined matrix. */
static bool join_weights(const fused_reader *r) {
  tni_clt_fused *o = r->out;
  const tn_host *h = r->d->host;
  const tn_value *x = fused_input(r, 0);
  bool used[TN_FUSED_MAX_PARTS] = {false};
  tni_clt_geometry geo;
  if (x->kind == TN_VALUE_CONST)
    return refuse_fused(r, TN_WHY_NOT_CONST, "constant activation; only weights may be packed");
  if (x->rank < 1 || !tni_cm_const(h, r->g, x->dims[x->rank - 1], &o->K))
    return refuse_fused(r, TN_WHY_SHAPE, "the last dim of the activation is not known");
  for (uint32_t p = 0; p < o->f.n_parts; p++) used[o->f.parts[p].weight] = true;
  for (uint32_t w = 0; w < o->f.n_weights; w++) {
    const tn_value *v = fused_input(r, 1 + w);
    int64_t N, K;
    o->weight_n0[w] = -1;
    if (!used[w]) continue;
    if (!tni_cm_const(h, r->g, v->dims[o->f.trans_b ? 1 : 0], &K) ||
        !tni_cm_const(h, r->g, v->dims[o->f.trans_b ? 0 : 1], &N) || K != o->K)
      return refuse_fused(r, TN_WHY_SHAPE, "a weight whose dims are unknown or do not fit K");
    for (uint32_t p = 0; p < o->f.n_parts; p++)
      if (o->f.parts[p].weight == w && o->f.parts[p].first + o->f.parts[p].count > N)
        return refuse_fused(r, TN_WHY_SHAPE, "a part has columns that its weight lacks");
    const tni_clt_grid grid = tni_clt_grid_of(r->d, v->data, K);
    if (o->N == 0) o->grid = grid;
    if (!tni_clt_grid_join(&o->grid, &grid))
      return refuse_fused(r, TN_WHY_OPTION, "weights whose grids do not fit one packed matrix");
    o->weight_n0[w] = o->N;
    if (__builtin_add_overflow(o->N, N, &o->N))
      return refuse_fused(r, TN_WHY_TOO_BIG, "weights that are too wide together");
  }
  if (o->K < r->d->set.min_k) return refuse_fused(r, TN_WHY_OPTION, "weights with K below option min_k");
  if (o->N < r->d->set.min_n) return refuse_fused(r, TN_WHY_OPTION, "weights with N below option min_n");
  if (tni_clt_geometry_of(r->d, &o->grid, o->N, o->K, &geo) != TN_OK)
    return refuse_fused(r, TN_WHY_TOO_BIG, "weights with a dim of zero or over 2^31 together");
  return true;
}

bool tni_clt_fused_of(const tni_clt_device *d, const tn_graph *g, const tn_node *n, tni_clt_fused *out,
                      uint32_t *reason, const char **text) {
  *out = (tni_clt_fused){.n_strips = 0};
  const fused_reader r = {d, g, n, out, reason, text};
  const char *why = tni_cm_fused_read(n, &out->f);
  if (why) return refuse_fused(&r, TN_WHY_ATTR, why);
  out->n_strips = tni_cm_strips(&out->f, out->strip);
  if (!out->n_strips) return refuse_fused(&r, TN_WHY_ATTR, "a chain that joins unlike products or uses none");
  if (!read_values(&r) || !join_weights(&r)) return false;
  return tni_cm_extras_read(d->host, g, &out->f, out->strip, n->in + 1 + out->f.n_weights, out->extra) ||
         refuse_fused(&r, TN_WHY_SHAPE, "an operand of the chain does not have the products' columns");
}
