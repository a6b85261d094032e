/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/cpu/format.h"

#include "plugins/common/cpu/kernels/kernels.h"
#include "plugins/common/formats/formats.h"

_Static_assert(TNI_LUT_ROWS == TNI_CLT_ROWS && TNI_LUT_MAX_DIM == TNI_CLT_MAX_DIM, "lut too");
_Static_assert((int)TNI_DOT_ROWS == (int)TNI_CLT_ROWS && TNI_DOT_MAX_DIM == TNI_CLT_MAX_DIM, "dot too");
_Static_assert((int)TNI_GRID_ROWS == (int)TNI_CLT_ROWS && TNI_GRID_MAX_DIM == TNI_CLT_MAX_DIM, "grids too");
_Static_assert((int)TNI_LEV_ROWS == (int)TNI_CLT_ROWS && TNI_LEV_MAX_DIM == TNI_CLT_MAX_DIM, "levels too");
_Static_assert(TNI_W4G_ROWS == TNI_CLT_ROWS && TNI_W4G_MAX_DIM == TNI_CLT_MAX_DIM, "w4g is one of the family");

/* Of the geometry g of a format's own, whose fields have the same names. */
#define FROM(g, group_, superblocks_)                         \
  ((tni_clt_geometry){.N = (g).N,                             \
                      .K = (g).K,                             \
                      .K_padded = (g).K_padded,               \
                      .group = (group_),                      \
                      .superblocks = (superblocks_),          \
                      .row_block_bytes = (g).row_block_bytes, \
                      .bytes = (g).bytes})

static tn_status w4g_geometry(const tni_clt_format *f, int64_t N, int64_t K, const int64_t *params,
                              tni_clt_geometry *out) {
  (void)f;
  tni_w4g_geometry g;
  tn_status st = tni_w4g_geometry_of(N, K, params[0], &g);
  if (st == TN_OK) *out = FROM(g, g.group, g.superblocks);
  return st;
}

const tni_clt_format tni_clt_w4g = {
    .option = "w4g", .format = &tni_w4g_format, .id = TNI_CLT_W4G, .n_params = 1, .geometry = w4g_geometry};

static tn_status lut_geometry(const tni_clt_format *f, int64_t N, int64_t K, const int64_t *params,
                              tni_clt_geometry *out) {
  (void)params;
  tni_lut_geometry g;
  tn_status st = tni_lut_geometry_of(tni_lut_kind_of(f->format), N, K, &g);
  if (st == TN_OK) *out = FROM(g, TNI_LUT_GROUP, g.groups);
  return st;
}

#define LUT(name, kind, i)                                                                                \
  const tni_clt_format tni_clt_##name = {                                                                 \
      .option = #name, .format = &tni_lut_formats[0][i], .id = TNI_CLT_##kind, .geometry = lut_geometry}; \
  const tni_clt_format tni_clt_##name##p = {                                                              \
      .option = #name, .format = &tni_lut_formats[1][i], .id = TNI_CLT_##kind, .geometry = lut_geometry}
LUT(lut1, LUT1, 0);
LUT(lut2, LUT2, 1);
LUT(lut3, LUT3, 2);
LUT(lut4, LUT4, 3);
LUT(lutt, LUTT, 4);
#undef LUT

static tn_status dot_geometry(const tni_clt_format *f, int64_t N, int64_t K, const int64_t *params,
                              tni_clt_geometry *out) {
  (void)params;
  tni_dot_geometry g;
  tn_status st = tni_dot_geometry_of(tni_dot_kind_of(f->format), N, K, &g);
  if (st == TN_OK) *out = FROM(g, TNI_DOT_GROUP, g.superblocks);
  return st;
}

#define DOT(name, kind)                   \
  const tni_clt_format tni_clt_##name = { \
      .option = #name, .format = &tni_dot_formats[TNI_DOT_##kind], .id = TNI_CLT_##kind, .geometry = dot_geometry}
DOT(w8g, W8G);
DOT(w3g, W3G);
DOT(w2g, W2G);
DOT(w1g, W1G);
DOT(tern20, TERN20);
DOT(tern17, TERN17);
DOT(pal16, PAL16);
#undef DOT

static tn_status lev_geometry(const tni_clt_format *f, int64_t N, int64_t K, const int64_t *params,
                              tni_clt_geometry *out) {
  const tni_lev_kind *kind = tni_lev_kind_of(f->format);
  tni_lev_geometry g;
  (void)params;
  const tn_status st = tni_lev_geometry_of(kind, N, K, &g);
  if (st == TN_OK) *out = FROM(g, kind->block, g.blocks);
  return st;
}

#define LEV(name, ID) \
  { .option = name, .format = &tni_lev_formats[TNI_##ID], .id = TNI_CLT_##ID, .geometry = lev_geometry }
const tni_clt_format tni_clt_levs[TNI_CLT_LEVS] = {LEV("lev4", LEV4), LEV("lev4s", LEV4S), LEV("lev3", LEV3),
                                                   LEV("lev2", LEV2), LEV("lev1", LEV1)};
#undef LEV

static tn_status grid_geometry(const tni_clt_format *f, int64_t N, int64_t K, const int64_t *params,
                               tni_clt_geometry *out) {
  tni_grid_geometry g;
  const tn_status st = tni_grid_geometry_of(f->format, N, K, params, TNI_GRID_PARAMS, &g);
  if (st != TN_OK) return st;
  *out = FROM(g, g.sb.group, g.superblocks);
  out->scale_bits = g.sb.scale_bits;
  out->zero_bits = g.sb.zero_bits;
  return st;
}

#define GRID(bits)                                                                                                     \
  {                                                                                                                    \
    .option = "", .format = &tni_grid_formats[TNI_GRID_##bits], .id = TNI_CLT_GRID##bits, .n_params = TNI_GRID_PARAMS, \
    .geometry = grid_geometry                                                                                          \
  }
const tni_clt_format tni_clt_grids[TNI_CLT_GRIDS] = {GRID(2), GRID(4), GRID(8)};
#undef GRID
#undef FROM
