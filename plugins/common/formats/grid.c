/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/grid.h"

#include <math.h>
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/formats/act8.h"
#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/grid_fit.h"
#include "plugins/common/formats/source.h"

enum { ROWS = TNI_GRID_ROWS, MAX_GROUP = TNI_GRID_MAX_GROUP, MAX_GROUPS = 4, LINE = 64 };
enum { MAX_SB_K = 256, MAX_SB_BYTES = MAX_GROUPS * ROWS * 8 + MAX_SB_K * ROWS };

struct tn_pack {
  const tn_host *host;
  const tn_weight *weight;
  const tn_quant *grid; /* the weight's own, where its groups are made of whole ones of ours; else NULL */
  tni_grid_geometry geo;
  bool keep; /* code by code, or not at all */
};
_Static_assert(ROWS == TNI_CM_SOURCE_ROWS, "blocks of the source are ours");

const tn_numerics *tni_grid_numerics(int64_t group, int64_t scale_bits) {
  return tni_act8_numerics(group, scale_bits == 16 ? TN_DT_F16 : TN_DT_F32);
}

static const tn_numerics *grid_numerics_of(const tn_format *f, const int64_t *params, uint32_t n) {
  (void)f;
  return n == TNI_GRID_PARAMS && params ? tni_grid_numerics(params[0], params[1]) : NULL;
}

/* --- geometry --------------------------------------------------------------------------------------------------- */

tn_status tni_grid_geometry_of(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n_params,
                               tni_grid_geometry *out) {
  if (n_params != TNI_GRID_PARAMS || !params || !tni_grid_numerics(params[0], params[1])) return TN_E_INVALID;
  if ((params[1] != 16 && params[1] != 32) || (params[2] != 0 && params[2] != 8 && params[2] != 32))
    return TN_E_INVALID;
  if (N < 1 || K < 1 || N > TNI_GRID_MAX_DIM || K > TNI_GRID_MAX_DIM) return TN_E_INVALID;
  tni_grid_geometry g = {.N = N, .K = K};
  g.sb = tni_grid_layout_of(f->bits, (uint32_t)params[0], (uint32_t)params[1], (uint32_t)params[2]);
  g.sb_k = (int64_t)g.sb.groups * g.sb.group;
  g.row_blocks = (N + ROWS - 1) / ROWS;
  g.superblocks = (K + g.sb_k - 1) / g.sb_k;
  g.row_block_bytes = g.superblocks * g.sb.bytes; /* < 2^31 * 2^7 */
  g.K_padded = g.superblocks * g.sb_k;
  if (__builtin_mul_overflow((uint64_t)g.row_blocks, (uint64_t)g.row_block_bytes, &g.bytes)) return TN_E_LIMIT;
  if (g.bytes > INT64_MAX) return TN_E_LIMIT;
  *out = g;
  return TN_OK;
}

static tn_status grid_size_of(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                              tn_pack_size *out) {
  tni_grid_geometry g;
  if (!out) return TN_E_INVALID;
  const tn_status st = tni_grid_geometry_of(f, N, K, params, n, &g);
  if (st == TN_OK) *out = (tn_pack_size){.bytes = g.bytes, .align = LINE, .row_unit = ROWS};
  return st;
}

float tni_grid_scale_at(const tni_grid_layout *g, const uint8_t *sb, uint32_t group, uint32_t row) {
  uint16_t half;
  float f;
  memcpy(&half, sb + (group * ROWS + row) * sizeof half, sizeof half);
  if (g->scale_bits == 16) return tni_cm_f16_to_f32(half);
  memcpy(&f, sb + (group * ROWS + row) * sizeof f, sizeof f);
  return f;
}

float tni_grid_zero_at(const tni_grid_layout *g, const uint8_t *sb, uint32_t group, uint32_t row) {
  const uint8_t *at = sb + g->zeros_at;
  float f;
  if (g->zero_bits == 0) return (float)(1u << (g->bits - 1));
  if (g->zero_bits == 8) return at[group * ROWS + row];
  memcpy(&f, at + (group * ROWS + row) * sizeof f, sizeof f);
  return f;
}

static void put_grid_scale(const tni_grid_layout *g, uint8_t *sb, uint32_t group, uint32_t row, float v) {
  const uint16_t half = tni_cm_f32_to_f16(v);
  const size_t at = group * ROWS + row;
  if (g->scale_bits == 16)
    memcpy(sb + at * sizeof half, &half, sizeof half);
  else
    memcpy(sb + at * sizeof v, &v, sizeof v);
}

static void put_grid_zero(const tni_grid_layout *g, uint8_t *sb, uint32_t group, uint32_t row, float v) {
  uint8_t *to = sb + g->zeros_at;
  const size_t at = group * ROWS + row;
  if (g->zero_bits == 8) to[at] = (uint8_t)v;
  if (g->zero_bits == 32) memcpy(to + at * sizeof v, &v, sizeof v);
}

/* --- packing ---------------------------------------------------------------------------------------------------- */

static tn_status grid_of_grid(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out) {
  tni_grid_geometry g;
  const tn_status st = tni_grid_geometry_of(f, 1, 1, params, n, &g);
  if (st != TN_OK) return st;
  return tni_cm_give_grid(out, &(tn_grid){.flags = TN_GRID_SIGNED,
                                          .n_codes = 1u << f->bits,
                                          .group = (uint32_t)params[0],
                                          .scale_dtype = params[1] == 16 ? TN_DT_F16 : TN_DT_F32,
                                          .scale_unit = 1,
                                          .zero_kind = params[2] == 0   ? TN_ZERO_HALF
                                                       : params[2] == 8 ? TN_ZERO_CODES
                                                                        : TN_ZERO_VALUES,
                                          .zero = (float)(1u << (f->bits - 1))});
}

static tn_status begin_grid(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                            uint32_t n, tn_pack **out, tn_error *err) {
  tni_grid_geometry g;
  if (n != TNI_GRID_PARAMS || !params)
    return tni_cm_fail(err, TN_E_INVALID, f->name, "%s takes three parameters: group, bits of scales, of zero points",
                       f->name);
  if (!w || !w->rows) return tni_cm_fail(err, TN_E_INVALID, f->name, "the weight gives no rows");
  const tn_status st = tni_grid_geometry_of(f, w->N, w->K, params, n, &g);
  if (st != TN_OK)
    return tni_cm_fail(err, st, f->name, "%s cannot hold [%lld,%lld] with params %lld, %lld, %lld", f->name,
                       (long long)w->N, (long long)w->K, (long long)params[0], (long long)params[1],
                       (long long)params[2]);
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, f->name, "out of memory");
  *p = (tn_pack){
      .host = host, .weight = w, .grid = tni_cm_grid_of(w, g.sb.bits, g.sb.group), .geo = g, .keep = tni_cm_keeps(w)};
  if (p->keep && !p->grid) {
    host->free(host->ctx, p);
    return tni_cm_fail(err, TN_E_INVALID, f->name, "codes that are to be kept are not on its grid");
  }
  *out = p;
  return TN_OK;
}

/* The source's own codes, scale and zero point. False where one does not fit the params. */
static bool take_group(const tni_grid_layout *g, const tni_cm_source *s, int64_t row, int64_t k0, uint32_t n,
                       uint8_t *codes, float *scale, float *zero) {
  if (!s->codes) return false;
  const int64_t at = row * s->blocks + k0 / s->block;
  const uint8_t *code = s->codes + row * s->K + k0;
  const float half = (float)(1u << (g->bits - 1)), z = s->zeros[at], v = s->scales[at];
  if (!isfinite(v) || (v != 0 && fabsf(v) < TNI_GRID_LEAST_SCALE)) return false;
  if (g->scale_bits == 16 && tni_cm_f16_to_f32(tni_cm_f32_to_f16(v)) != v) return false;
  const int shift = g->zero_bits ? 0 : (int)(half - z);
  if (!(fabsf(z) <= TNI_GRID_MOST_ZERO) || (g->zero_bits != 32 && rintf(z) != z)) return false;
  const int top = (1 << g->bits) - 1;
  if (g->zero_bits == 8 && (z < 0 || z > (float)top)) return false;
  for (uint32_t i = 0; i < n; i++) {
    const int c = code[i] + shift;
    if (c < 0 || c > top) return false;
    codes[i] = (uint8_t)c;
  }
  *scale = v;
  *zero = z;
  return true;
}

/* One group of one row, `have` elements of it; the rest has code half. */
static int quantize_grid(const tn_pack *p, const tni_cm_source *s, int64_t row, int64_t k0, uint32_t have,
                         uint8_t *codes, float *scale, float *zero) {
  const tni_grid_layout *g = &p->geo.sb;
  float w[MAX_GROUP];
  memset(codes, 1 << (g->bits - 1), MAX_GROUP);
  if (take_group(g, s, row, k0, have, codes, scale, zero)) return 0;
  if (p->keep) return -1;
  tni_cm_source_floats(s, row, k0, have, w);
  const tni_grid_fit f = {.bits = g->bits, .scale_bits = g->scale_bits, .zero_bits = g->zero_bits};
  return tni_grid_fit_group(&f, w, have, codes, scale, zero);
}

static void put_codes(uint32_t bits, const uint8_t *codes, uint32_t first, uint32_t n, uint32_t row, uint8_t *to) {
  const uint32_t per = 8 / bits;
  for (uint32_t i = 0; i < n; i += 4) {
    const uint32_t quad = (first + i) / 4;
    uint32_t four, old; /* four codes, each in its byte: a shift moves all of them */
    uint8_t *at = to + quad / per * 64 + row * 4;
    memcpy(&four, codes + i, sizeof four);
    memcpy(&old, at, sizeof old);
    old |= four << quad % per * bits;
    memcpy(at, &old, sizeof old);
  }
}

static tn_status pack_grid_superblock(const tn_pack *p, const tni_cm_source *s, int64_t row, int64_t n_rows, int64_t k0,
                                      uint8_t *sb) {
  const tni_grid_layout *g = &p->geo.sb;
  memset(sb, 0, g->bytes);
  for (uint32_t r = 0; r < ROWS; r++)
    for (uint32_t j = 0; j < g->groups; j++) {
      const int64_t k = k0 + j * g->group, left = p->geo.K - k;
      const uint32_t have = r >= n_rows || left <= 0 ? 0 : left < g->group ? (uint32_t)left : g->group;
      uint8_t codes[MAX_GROUP];
      float scale = 0, zero = (float)(1u << (g->bits - 1));
      memset(codes, 1 << (g->bits - 1), sizeof codes);
      if (have && quantize_grid(p, s, row + r, k, have, codes, &scale, &zero)) return TN_E_INVALID;
      put_grid_scale(g, sb, j, r, scale);
      put_grid_zero(g, sb, j, r, zero);
      put_codes(g->bits, codes, j * g->group, g->group, r, sb + g->codes_at);
    }
  return TN_OK;
}

static tn_status pack_grid_block(const void *ctx, const tni_cm_source *s, int64_t row, int64_t n_rows, uint8_t *block) {
  const tn_pack *p = ctx;
  const tni_grid_geometry *g = &p->geo;
  tn_status st = TN_OK;
  for (int64_t i = 0; st == TN_OK && i < g->superblocks; i++)
    st = pack_grid_superblock(p, s, row, n_rows, i * g->sb_k, block + i * g->sb.bytes);
  return st;
}

static tn_status pack_grid_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  return tni_cm_source_blocks(p->host, p->weight, p->grid, n0, n1, pack_grid_block, p, blob, p->geo.row_block_bytes);
}

static tn_status end_grid(tn_pack *p, void *blob) {
  (void)blob; /* no header */
  if (p) p->host->free(p->host->ctx, p);
  return TN_OK;
}

/* --- unpacking -------------------------------------------------------------------------------------------------- */

/* One row's elements [k0, k1) of one superblock that starts at `start`. */
static void unpack_grid_part(const tni_grid_layout *g, const uint8_t *sb, int64_t start, uint32_t row, int64_t k0,
                             int64_t k1, float *dst) {
  for (int64_t k = k0; k < k1;) {
    const uint32_t group = (uint32_t)(k - start) / g->group;
    const int64_t limit = start + (int64_t)(group + 1) * g->group, end = limit < k1 ? limit : k1;
    const float scale = tni_grid_scale_at(g, sb, group, row), zero = tni_grid_zero_at(g, sb, group, row);
    for (; k < end; k++)
      *dst++ = ((float)tni_grid_code(g->bits, sb + g->codes_at, row, (uint32_t)(k - start)) - zero) * scale;
  }
}

static tn_status unpack_grid(const tn_blob *b, const int64_t box[4], float *dst) {
  tni_grid_geometry g;
  tn_status st = b->format ? tni_grid_geometry_of(b->format, b->N, b->K, b->params, b->n_params, &g) : TN_E_INVALID;
  if (st != TN_OK) return st;
  const int64_t n0 = box[0], n1 = box[1], k0 = box[2], k1 = box[3], width = k1 - k0;
  if (n0 < 0 || n0 > n1 || n1 > g.N || k0 < 0 || k0 > k1 || k1 > g.K || b->bytes < g.bytes) return TN_E_INVALID;
  if (n0 == n1 || k0 == k1) return TN_OK;
  _Alignas(64) uint8_t copy[MAX_SB_BYTES];
  for (int64_t block = n0 / ROWS; block * ROWS < n1; block++) {
    const int64_t r0 = block * ROWS > n0 ? block * ROWS : n0, r1 = (block + 1) * ROWS < n1 ? (block + 1) * ROWS : n1;
    for (int64_t i = k0 / g.sb_k; i * g.sb_k < k1; i++) {
      const uint64_t offset = (uint64_t)(block * g.row_block_bytes + i * g.sb.bytes);
      const uint8_t *sb = b->ptr ? (const uint8_t *)b->ptr + offset : copy;
      if (!b->ptr && (st = b->read(b, offset, g.sb.bytes, copy)) != TN_OK) return st;
      const int64_t start = i * g.sb_k, a = start > k0 ? start : k0, z = start + g.sb_k < k1 ? start + g.sb_k : k1;
      for (int64_t r = r0; r < r1; r++)
        unpack_grid_part(&g.sb, sb, start, (uint32_t)(r - block * ROWS), a, z, dst + (r - n0) * width + (a - k0));
    }
  }
  return TN_OK;
}

/* Bits per weight: group 32, scales in binary16, bytes of zeros. */
#define FORMAT(label, bits_, err)                                                                                 \
  {                                                                                                               \
    .h = TN_HDR(tn_format), .name = label, .version = 1, .bits = bits_, .flags = TN_FMT_READS_QUANT,              \
    .bits_per_weight = bits_ + 0.75f, .w_err = err, .x_err = 0.5f / 127.0f + 1e-6f, .numerics = TNI_ACT8_G32_F16, \
    .numerics_of = grid_numerics_of, .size = grid_size_of, .begin = begin_grid, .rows = pack_grid_rows,           \
    .end = end_grid, .unpack = unpack_grid, .grid = grid_of_grid,                                                 \
  }
const tn_format tni_grid_formats[TNI_GRID_KINDS] = {
    FORMAT("grid2", 2, TNI_GRID_ERR(2)), FORMAT("grid4", 4, TNI_GRID_ERR(4)), FORMAT("grid8", 8, TNI_GRID_ERR(8))};
#undef FORMAT
