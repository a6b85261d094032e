/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/cpu/keep.h"

#include "plugins/common/formats/formats.h"

/* The longest group of ours that whole ones of theirs are made of; 0: none. One group for a row is made of any. */
static uint32_t group_of_ours(int64_t group, int64_t K) {
  static const uint32_t ours[] = {128, 64, 32, 16};
  for (size_t i = 0; group > 0 && i < sizeof ours / sizeof *ours; i++)
    if (group >= K || group % ours[i] == 0) return ours[i];
  return 0;
}

/* A grid of levels that one of the backend's formats has as its own. */
static const tni_clt_format *levels_format(const tni_clt_backend *b, const tn_weight *w) {
  for (uint32_t i = 0; i < b->n_formats; i++) {
    const tni_lev_kind *kind = tni_lev_kind_of(b->formats[i]->format);
    if (kind && tni_lev_holds(kind, w)) return b->formats[i];
  }
  return NULL;
}

tni_clt_grid tni_clt_grid_of(const tni_clt_device *d, const tn_weight *w, int64_t K) {
  static const uint32_t zero_bits[] = {0, 0, 8, 32};
  const tn_quant *q = w && TN_HAS(w, tn_weight, quant) ? w->quant : NULL;
  tni_clt_grid g = {.bits = 0};
  if (!d->set.keep || !q || !TN_HAS(q, tn_quant, zero_kind) || !q->grid) return g;
  if (q->scheme == TN_QUANT_LEVELS && (g.levels = levels_format(d->backend, w)) != NULL) g.bits = q->bits;
  if (q->scheme != TN_QUANT_AFFINE) return g;
  if (q->zero_kind == TN_ZERO_UNKNOWN || q->zero_kind > TN_ZERO_VALUES || q->bits < 1 || q->bits > 8) return g;
  const uint32_t ours = group_of_ours(q->group, K);
  if (!ours) return g;
  return (tni_clt_grid){.bits = q->bits,
                        .group = q->group,
                        .ours = ours,
                        .scale_bits = q->scale_dtype == TN_DT_F16 ? 16 : 32,
                        .zero_bits = zero_bits[q->zero_kind]};
}

bool tni_clt_grid_join(tni_clt_grid *a, const tni_clt_grid *b) {
  if (a->bits != b->bits || a->group != b->group || a->ours != b->ours || a->levels != b->levels) return false;
  if (b->scale_bits > a->scale_bits) a->scale_bits = b->scale_bits;
  if (b->zero_bits > a->zero_bits) a->zero_bits = b->zero_bits;
  return true;
}

static const tn_format *listed_by(const tni_clt_plugin *p, const tni_clt_format *f) {
  for (uint32_t i = 0; i < p->backend->n_formats; i++)
    if (p->backend->formats[i] == f) return p->formats[i];
  for (uint32_t i = 0; i < TNI_CLT_GRIDS; i++)
    if (&tni_clt_grids[i] == f) return p->formats[p->backend->n_formats + i];
  return f->format;
}

/* The format for floats that holds this grid as it is, because it has kernels of its own; NULL: none. */
static const tni_clt_format *plain_format(const tni_clt_backend *b, const tni_clt_grid *g) {
  if (g->zero_bits || g->scale_bits != 16) return NULL;
  const tni_clt_format *f = g->ours < 32 ? NULL : g->bits == 3 || g->bits == 4 ? &tni_clt_w4g : NULL;
  if (g->ours == 128)
    f = g->bits == 8 ? &tni_clt_w8g : g->bits == 3 ? &tni_clt_w3g : g->bits == 2 ? &tni_clt_w2g : f;
  for (uint32_t i = 0; f && i < b->n_formats; i++)
    if (b->formats[i] == f) return f;
  return NULL;
}

tni_clt_packing tni_clt_packing_of(const tni_clt_device *d, const tni_clt_grid *g) {
  tni_clt_packing p = {.f = d->set.format};
  if (!g->bits) {
    for (uint32_t i = 0; i < TNI_CLT_MAX_PARAMS; i++) p.params[i] = d->set.params[i];
  } else if (g->levels) {
    p.f = g->levels;
  } else if ((p.f = plain_format(d->backend, g)) != NULL) {
    p.params[0] = g->ours == 128 ? 128 : 32;
  } else {
    p.f = &tni_clt_grids[g->bits <= 2 ? TNI_GRID_2 : g->bits <= 4 ? TNI_GRID_4 : TNI_GRID_8];
    p.params[0] = g->ours;
    p.params[1] = g->scale_bits;
    p.params[2] = g->zero_bits;
  }
  p.listed = listed_by(d->plugin, p.f);
  return p;
}

tn_status tni_clt_geometry_of(const tni_clt_device *d, const tni_clt_grid *g, int64_t N, int64_t K,
                              tni_clt_geometry *out) {
  const tni_clt_packing p = tni_clt_packing_of(d, g);
  const tn_status st = p.f->geometry(p.f, N, K, p.params, out);
  if (st == TN_OK) out->format = p.f->id;
  return st;
}
