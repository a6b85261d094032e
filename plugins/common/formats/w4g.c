/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/w4g.h"

#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/formats/act8.h"
#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/quant4.h"
#include "plugins/common/formats/source.h"

enum { ROWS = TNI_W4G_ROWS, MAX_GROUP = 128 };

struct tn_pack {
  const tn_host *host;
  const tn_weight *weight;
  tni_w4g_geometry geo;
  const tn_quant *grid; /* the weight's own, where its groups are made of whole ones of ours; else NULL */
  const tni_fit *fit;
  bool keep; /* code by code, or not at all */
};
_Static_assert(ROWS == TNI_CM_SOURCE_ROWS, "blocks of the source are ours");

const tn_numerics *tni_w4g_numerics(int64_t group) {
  return group == 32 || group == 128 ? tni_act8_numerics(group, TN_DT_F16) : NULL;
}

static const tn_numerics *numerics_of(const tn_format *f, const int64_t *params, uint32_t n) {
  (void)f;
  return n == 1 && params ? tni_w4g_numerics(params[0]) : NULL;
}

tn_status tni_w4g_geometry_of(int64_t N, int64_t K, int64_t group, tni_w4g_geometry *out) {
  if (group != 32 && group != 128) return TN_E_INVALID;
  if (N < 1 || K < 1 || N > TNI_W4G_MAX_DIM || K > TNI_W4G_MAX_DIM) return TN_E_INVALID;
  tni_w4g_geometry g = {.N = N, .K = K, .group = group};
  g.sb_k = group * 2;
  g.sb_bytes = group == 32 ? (int64_t)sizeof(tni_w4g_sb32) : (int64_t)sizeof(tni_w4g_sb128);
  g.row_blocks = (N + ROWS - 1) / ROWS;
  g.superblocks = (K + g.sb_k - 1) / g.sb_k;
  g.row_block_bytes = g.superblocks * g.sb_bytes; /* < 2^31 * 9 */
  g.K_padded = g.superblocks * g.sb_k;
  if (__builtin_mul_overflow((uint64_t)g.row_blocks, (uint64_t)g.row_block_bytes, &g.bytes)) return TN_E_LIMIT;
  if (g.bytes > INT64_MAX) return TN_E_LIMIT;
  *out = g;
  return TN_OK;
}

static tn_status size_of(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                         tn_pack_size *out) {
  (void)f;
  tni_w4g_geometry g;
  if (n != 1 || !params || !out) return TN_E_INVALID;
  tn_status st = tni_w4g_geometry_of(N, K, params[0], &g);
  if (st == TN_OK) *out = (tn_pack_size){.bytes = g.bytes, .align = 64, .row_unit = ROWS};
  return st;
}

static tn_status grid_of_w4g(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out) {
  (void)f;
  if (n != 1 || !params || !tni_w4g_numerics(params[0])) return TN_E_INVALID;
  return tni_cm_give_grid(out, &(tn_grid){.flags = TN_GRID_SIGNED,
                                          .n_codes = 16,
                                          .group = (uint32_t)params[0],
                                          .scale_dtype = TN_DT_F16,
                                          .scale_unit = 1,
                                          .zero_kind = TN_ZERO_HALF,
                                          .zero = 8});
}

static tn_status begin_w4g(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                           uint32_t n, tn_pack **out, tn_error *err) {
  (void)f;
  tni_w4g_geometry g;
  if (n != 1 || !params) return tni_cm_fail(err, TN_E_INVALID, "w4g", "w4g takes one parameter: group");
  if (!w || !w->rows) return tni_cm_fail(err, TN_E_INVALID, "w4g", "the weight gives no rows");
  tn_status st = tni_w4g_geometry_of(w->N, w->K, params[0], &g);
  if (st != TN_OK)
    return tni_cm_fail(err, st, "w4g", "w4g cannot hold [%lld,%lld] with group %lld", (long long)w->N, (long long)w->K,
                       (long long)params[0]);
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, "w4g", "out of memory");
  *p = (tn_pack){host, w, g, tni_cm_grid_of(w, 4, g.group), tni_fit_best(), tni_cm_keeps(w)};
  if (p->keep && !p->grid) {
    host->free(host->ctx, p);
    return tni_cm_fail(err, TN_E_INVALID, "w4g", "codes that are to be kept are not on its grid");
  }
  *out = p;
  return TN_OK;
}

/* One group of one row, `have` elements of it; the rest is zero weights. */
static int quantize_w4g(const tn_pack *p, const tni_cm_source *s, int64_t row, int64_t k0, uint32_t have, uint8_t *q,
                        uint16_t *scale) {
  const uint32_t group = (uint32_t)p->geo.group;
  float w[MAX_GROUP];
  memset(q, 8, MAX_GROUP);
  if (p->keep) return tni_cm_keep_codes(s, row, k0, have, 8, 15, q, scale) ? 0 : -1;
  if (tni_cm_source_codes(s, row, k0, have, 8, 15, q, scale)) return 0;
  if (!s->codes && have == group) return tni_cm_quant4(p->fit, s->w + row * s->K + k0, group, q, scale);
  memset(w, 0, sizeof w);
  tni_cm_source_floats(s, row, k0, have, w);
  return tni_cm_quant4(p->fit, w, group, q, scale);
}

static int pack_group(const tn_pack *p, const tni_cm_source *s, int64_t row, int64_t k0, uint32_t lane, uint16_t *scale,
                      uint8_t *code) {
  const tni_w4g_geometry *g = &p->geo;
  uint8_t q[MAX_GROUP];
  const int64_t have = g->K - k0;
  if (have <= 0) return 0; /* the caller has filled in zero weights */
  if (quantize_w4g(p, s, row, k0, (uint32_t)(have < g->group ? have : g->group), q, scale)) return -1;
  for (int64_t k = 0; k < g->group; k += 8) {
    uint32_t lo, hi; /* four codes, each in its byte: a shift moves all of them */
    memcpy(&lo, q + k, sizeof lo);
    memcpy(&hi, q + k + 4, sizeof hi);
    lo |= hi << 4;
    memcpy(code + k * 8 + lane * 4, &lo, sizeof lo);
  }
  return 0;
}

/* Rows [row, row + n_rows) of the source -> one row block. */
static tn_status pack_block(const void *ctx, const tni_cm_source *s, int64_t row, int64_t n_rows, uint8_t *block) {
  const tn_pack *p = ctx;
  const tni_w4g_geometry *g = &p->geo;
  for (int64_t sb = 0; sb < g->superblocks; sb++) {
    uint8_t *at = block + sb * g->sb_bytes;
    uint16_t scale[2][ROWS] = {{0}};
    memset(at + 64, 0x88, (size_t)g->sb_bytes - 64);
    for (int64_t r = 0; r < n_rows; r++)
      for (int64_t j = 0; j < 2; j++)
        if (pack_group(p, s, row + r, sb * g->sb_k + j * g->group, (uint32_t)r, &scale[j][r],
                       at + 64 + j * g->group * 8))
          return TN_E_INVALID;
    memcpy(at, scale, sizeof scale);
  }
  return TN_OK;
}

static tn_status pack_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  return tni_cm_source_blocks(p->host, p->weight, p->grid, n0, n1, pack_block, p, blob, p->geo.row_block_bytes);
}

static tn_status end_w4g(tn_pack *p, void *blob) {
  (void)blob; /* no header */
  if (p) p->host->free(p->host->ctx, p);
  return TN_OK;
}

/* One row's elements [k0, k1) of one superblock at sb_start. */
static void unpack_part(const tni_w4g_geometry *g, const uint8_t *sb, int64_t sb_start, int64_t lane, int64_t k0,
                        int64_t k1, float *dst) {
  for (int64_t k = k0; k < k1; k++) {
    int64_t i = k - sb_start;
    uint8_t byte = sb[64 + i / 8 * 64 + lane * 4 + (i & 3)];
    int32_t code = i & 4 ? byte >> 4 : byte & 15;
    uint16_t scale;
    memcpy(&scale, sb + (i / g->group * ROWS + lane) * 2, sizeof scale);
    *dst++ = (float)(code - 8) * tni_cm_f16_to_f32(scale);
  }
}

static tn_status unpack_w4g(const tn_blob *b, const int64_t box[4], float *dst) {
  tni_w4g_geometry g;
  if (b->n_params != 1 || !b->params) return TN_E_INVALID;
  tn_status st = tni_w4g_geometry_of(b->N, b->K, b->params[0], &g);
  if (st != TN_OK) return st;
  int64_t n0 = box[0], n1 = box[1], k0 = box[2], k1 = box[3], width = k1 - k0;
  if (n0 < 0 || n0 > n1 || n1 > g.N || k0 < 0 || k0 > k1 || k1 > g.K || b->bytes < g.bytes) return TN_E_INVALID;
  if (n0 == n1 || k0 == k1) return TN_OK;
  _Alignas(64) uint8_t copy[sizeof(tni_w4g_sb128)];
  for (int64_t block = n0 / ROWS; block * ROWS < n1; block++) {
    int64_t r0 = block * ROWS > n0 ? block * ROWS : n0, r1 = (block + 1) * ROWS < n1 ? (block + 1) * ROWS : n1;
    for (int64_t sb = k0 / g.sb_k; sb * g.sb_k < k1; sb++) {
      uint64_t offset = (uint64_t)(block * g.row_block_bytes + sb * g.sb_bytes);
      const uint8_t *at = b->ptr ? (const uint8_t *)b->ptr + offset : copy;
      if (!b->ptr && (st = b->read(b, offset, (uint64_t)g.sb_bytes, copy)) != TN_OK) return st;
      int64_t start = sb * g.sb_k, a = start > k0 ? start : k0, z = start + g.sb_k < k1 ? start + g.sb_k : k1;
      for (int64_t r = r0; r < r1; r++)
        unpack_part(&g, at, start, r - block * ROWS, a, z, dst + (r - n0) * width + (a - k0));
    }
  }
  return TN_OK;
}

const tn_format tni_w4g_format = {
    .h = TN_HDR(tn_format),
    .name = "w4g",
    .version = 3,
    .bits = 4,
    .flags = TN_FMT_READS_QUANT,
    .bits_per_weight = 4.5f,
    .w_err = TNI_QUANT4_ERR,
    .x_err = 0.5f / 127.0f + 1e-6f,
    .numerics = TNI_ACT8_G32_F16,
    .numerics_of = numerics_of,
    .size = size_of,
    .begin = begin_w4g,
    .rows = pack_rows,
    .end = end_w4g,
    .unpack = unpack_w4g,
    .grid = grid_of_w4g,
};
