/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/lut.h"

#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/lut_fit.h"
#include "plugins/common/formats/source.h"

enum { ROWS = TNI_LUT_ROWS, GROUP = TNI_LUT_GROUP, STEP_BYTES = 32 /* of a plane */ };
enum { MAX_GROUP_BYTES = TNI_LUT_SCALE_BYTES + TNI_LUT_MAX_PLANES * TNI_LUT_PLANE_BYTES };

struct tn_pack {
  const tn_host *host;
  const tn_weight *weight;
  const tni_lut_kind *kind;
  tni_lut_geometry geo;
  const tni_fit *fit;
  tn_grid grid;
  const tn_quant *given; /* codes that are to be kept; NULL: floats */
};
_Static_assert(ROWS == TNI_CM_SOURCE_ROWS, "blocks of the source are ours");

#define NUMERICS(dtype, max, ...)                                                                                      \
  {                                                                                                                    \
    .h = TN_HDR(tn_numerics), .act_dtype = dtype, .act_group = GROUP, .act_scheme = TN_ACT_RUNSUM,                     \
    .act_round = TN_ROUND_HALF_EVEN, .act_max = max, .acc_inner = TN_DT_I32, .acc_outer = TN_DT_F32,                   \
    .scale_dtype = TN_DT_F16, .denormals = TN_DENORM_FLUSH, .nan = TN_NAN_UNDEFINED, .finite_max = 1e28, .act_run = 4, \
    __VA_ARGS__                                                                                                        \
  }
#define WIDE(...) NUMERICS(TN_DT_I16, TNI_LUT_WIDE, __VA_ARGS__)
#define NARROW(...) NUMERICS(TN_DT_I8, TNI_LUT_NARROW, __VA_ARGS__)
/* [0]: exact, of all kinds; else averages of a kind. A unit of all planes is 2 * sum of 2^p steps; the smallest weight
 * is one step, of lutt two. */
#define AVERAGED(unit) .avg_depth = TNI_LUT_TREE_DEPTH, .avg_unit = unit
#define EACH(F) \
  { F(.avg_depth = 0), F(AVERAGED(2)), F(AVERAGED(6)), F(AVERAGED(14)), F(AVERAGED(30)), F(AVERAGED(3)) }
static const tn_numerics wide_numerics[1 + TNI_LUT_KINDS] = EACH(WIDE),
                                           narrow_numerics[1 + TNI_LUT_KINDS] = EACH(NARROW);
#undef EACH
#undef AVERAGED
#undef NARROW
#undef WIDE
#undef NUMERICS

tn_status tni_lut_geometry_of(const tni_lut_kind *kind, int64_t N, int64_t K, tni_lut_geometry *out) {
  if (!kind || N < 1 || K < 1 || N > TNI_LUT_MAX_DIM || K > TNI_LUT_MAX_DIM) return TN_E_INVALID;
  tni_lut_geometry g = {.N = N, .K = K};
  g.row_blocks = (N + ROWS - 1) / ROWS;
  g.groups = (K + GROUP - 1) / GROUP;
  g.group_bytes = TNI_LUT_SCALE_BYTES + (int64_t)kind->planes * TNI_LUT_PLANE_BYTES;
  g.row_block_bytes = g.groups * g.group_bytes; /* < 2^24 * 2^11 */
  g.K_padded = g.groups * GROUP;
  if (__builtin_mul_overflow((uint64_t)g.row_blocks, (uint64_t)g.row_block_bytes, &g.bytes)) return TN_E_LIMIT;
  if (g.bytes > INT64_MAX) return TN_E_LIMIT;
  *out = g;
  return TN_OK;
}

tni_lut_place tni_lut_place_of(const tni_lut_kind *kind, uint32_t row, uint32_t quad, uint32_t plane) {
  uint32_t step = quad / 4 * 32 * kind->planes, odd = quad & 1, high = quad >> 1 & 1;
  if (kind->paired) return (tni_lut_place){step + plane * 32 + row * 2 + odd, high * 4};
  uint32_t pairs = kind->planes / 2;
  if (plane < pairs * 2)
    return (tni_lut_place){step + high * 32 * pairs + plane / 2 * 32 + row * 2 + (plane & 1), odd * 4};
  return (tni_lut_place){step + pairs * 64 + odd * 16 + row % 8 * 2 + row / 8, high * 4};
}

static tn_status size_of(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                         tn_pack_size *out) {
  tni_lut_geometry g;
  (void)params;
  if (n) return TN_E_INVALID;
  tn_status st = tni_lut_geometry_of(tni_lut_kind_of(f), N, K, &g);
  if (st == TN_OK) *out = (tn_pack_size){.bytes = g.bytes, .align = 64, .row_unit = ROWS};
  return st;
}

/* (2 code - zero) * scale is (code - zero / 2) * (2 scale). */
static tn_status grid_of_lut(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out) {
  const tni_lut_kind *kind = tni_lut_kind_of(f);
  (void)params;
  if (n || !kind) return TN_E_INVALID;
  return tni_cm_give_grid(out, &(tn_grid){.n_codes = kind->levels,
                                          .group = GROUP,
                                          .scale_dtype = TN_DT_F16,
                                          .scale_unit = 2,
                                          .zero_kind = TN_ZERO_HALF,
                                          .zero = (float)kind->zero / 2});
}

static tn_status begin_lut(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                           uint32_t n, tn_pack **out, tn_error *err) {
  tni_lut_geometry g;
  (void)params;
  const tni_lut_kind *kind = tni_lut_kind_of(f);
  tn_status st = n ? TN_E_INVALID : tni_lut_geometry_of(kind, w->N, w->K, &g);
  if (st != TN_OK)
    return tni_cm_fail(err, st, f->name, "[%lld,%lld] cannot be packed", (long long)w->N, (long long)w->K);
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, f->name, "out of memory");
  *p = (tn_pack){host, w, kind, g, tni_fit_best(), {.h = TN_HDR(tn_grid)}, NULL};
  st = grid_of_lut(f, params, n, &p->grid);
  if (st == TN_OK && tni_cm_keeps(w) && !(p->given = tni_cm_given(w, &p->grid))) st = TN_E_INVALID;
  if (st != TN_OK) {
    host->free(host->ctx, p);
    return tni_cm_fail(err, st, f->name, "codes that are to be kept are not on its grid");
  }
  *out = p;
  return TN_OK;
}

/* Bit p of eight codes as one byte, that of the first as its lowest bit. */
static uint32_t plane_bits(const uint8_t *q, uint32_t p) {
  uint64_t eight;
  memcpy(&eight, q, sizeof eight);
  eight = eight >> p & UINT64_C(0x0101010101010101);
  return (uint32_t)(eight * UINT64_C(0x0102040810204080) >> 56);
}

/* Codes of one row into the planes of a group, as tni_lut_place_of says. */
static void put_codes(const tni_lut_kind *kind, const uint8_t *q, uint32_t row, uint8_t *planes) {
  const uint32_t pairs = kind->paired ? 0 : kind->planes / 2;
  for (uint32_t t = 0; t < GROUP / 16; t++, planes += kind->planes * STEP_BYTES, q += 16)
    for (uint32_t p = 0; p < kind->planes; p++) {
      const uint32_t low = plane_bits(q, p), high = plane_bits(q + 8, p); /* quads 0, 1 and 2, 3 of four */
      if (p < 2 * pairs) {
        uint8_t *at = planes + p / 2 * STEP_BYTES + row * 2 + (p & 1);
        at[0] = (uint8_t)low;
        at[pairs * STEP_BYTES] = (uint8_t)high;
        continue;
      }
      uint8_t *at = planes + p * STEP_BYTES + (kind->paired ? row * 2 : row % 8 * 2 + row / 8);
      at[0] = (uint8_t)((low & 15) | high << 4);
      at[kind->paired ? 1 : 16] = (uint8_t)(low >> 4 | (high & 0xf0));
    }
}

/* One row's elements [k0, k0 + 128) into a group of a block; elements beyond K have code 0. */
static int pack_group(const tn_pack *p, const tni_cm_source *s, int64_t row, int64_t k0, uint32_t lane,
                      uint8_t *group) {
  uint8_t q[GROUP] = {0};
  uint16_t scale;
  float kept, zero;
  const uint32_t have = (uint32_t)(p->geo.K - k0 < GROUP ? p->geo.K - k0 : GROUP);
  if (p->given) {
    if (!tni_cm_source_keep(s, &p->grid, row, k0, have, q, &kept, &zero)) return -1;
    scale = tni_cm_f32_to_f16(kept);
  } else if (tni_lut_fit(p->fit, s->w + row * p->geo.K + k0, have, p->kind->levels, q, &scale)) {
    return -1;
  }
  memcpy(group + lane * 2, &scale, sizeof scale);
  put_codes(p->kind, q, lane, group + TNI_LUT_SCALE_BYTES);
  return 0;
}

/* Rows [row, row + n_rows) of the source -> one row block. */
static tn_status pack_block(const void *ctx, const tni_cm_source *s, int64_t row, int64_t n_rows, uint8_t *block) {
  const tn_pack *p = ctx;
  const tni_lut_geometry *g = &p->geo;
  if (n_rows < ROWS) memset(block, 0, (size_t)g->row_block_bytes);
  for (int64_t i = 0; i < g->groups; i++)
    for (int64_t r = 0; r < n_rows; r++)
      if (pack_group(p, s, row + r, i * GROUP, (uint32_t)r, block + i * g->group_bytes)) return TN_E_INVALID;
  return TN_OK;
}

static tn_status pack_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  return tni_cm_source_blocks(p->host, p->weight, p->given, n0, n1, pack_block, p, blob, p->geo.row_block_bytes);
}

static tn_status end_lut(tn_pack *p, void *blob) {
  (void)blob; /* no header */
  if (p) p->host->free(p->host->ctx, p);
  return TN_OK;
}

/* One row's elements [k0, k1) of the group that starts at `start`. */
static void unpack_part(const tni_lut_kind *kind, const uint8_t *group, int64_t start, uint32_t lane, int64_t k0,
                        int64_t k1, float *dst) {
  uint16_t half;
  memcpy(&half, group + lane * 2, sizeof half);
  float scale = tni_cm_f16_to_f32(half);
  for (int64_t k = k0; k < k1; k++) {
    uint32_t i = (uint32_t)(k - start), code = 0;
    for (uint32_t plane = 0; plane < kind->planes; plane++) {
      tni_lut_place at = tni_lut_place_of(kind, lane, i / 4, plane);
      code |= (group[TNI_LUT_SCALE_BYTES + at.byte] >> at.shift >> i % 4 & 1u) << plane;
    }
    *dst++ = (float)((int32_t)(2 * code) - (int32_t)kind->zero) * scale;
  }
}

static tn_status unpack_lut(const tn_blob *b, const int64_t box[4], float *dst) {
  tni_lut_geometry g;
  const tni_lut_kind *kind = b->format ? tni_lut_kind_of(b->format) : NULL;
  tn_status st = b->n_params ? TN_E_INVALID : tni_lut_geometry_of(kind, b->N, b->K, &g);
  if (st != TN_OK) return st;
  int64_t n0 = box[0], n1 = box[1], k0 = box[2], k1 = box[3], width = k1 - k0;
  if (n0 < 0 || n0 > n1 || n1 > g.N || k0 < 0 || k0 > k1 || k1 > g.K || b->bytes < g.bytes) return TN_E_INVALID;
  if (n0 == n1 || k0 == k1) return TN_OK;
  _Alignas(64) uint8_t copy[MAX_GROUP_BYTES];
  for (int64_t block = n0 / ROWS; block * ROWS < n1; block++) {
    int64_t r0 = block * ROWS > n0 ? block * ROWS : n0, r1 = (block + 1) * ROWS < n1 ? (block + 1) * ROWS : n1;
    for (int64_t i = k0 / GROUP; i * GROUP < k1; i++) {
      uint64_t offset = (uint64_t)(block * g.row_block_bytes + i * g.group_bytes);
      const uint8_t *at = b->ptr ? (const uint8_t *)b->ptr + offset : copy;
      if (!b->ptr && (st = b->read(b, offset, (uint64_t)g.group_bytes, copy)) != TN_OK) return st;
      int64_t start = i * GROUP, a = start > k0 ? start : k0, z = start + GROUP < k1 ? start + GROUP : k1;
      for (int64_t r = r0; r < r1; r++)
        unpack_part(kind, at, start, (uint32_t)(r - block * ROWS), a, z, dst + (r - n0) * width + (a - k0));
    }
  }
  return TN_OK;
}

#define FORMAT(label, planes_, err)                                                                        \
  {                                                                                                        \
    .h = TN_HDR(tn_format), .name = label, .version = 2, .bits = planes_, .group = GROUP,                  \
    .bits_per_weight = planes_ + 0.125f, .w_err = err, .x_err = 0.5f * 4.0f / TNI_LUT_WIDE + 1e-6f,        \
    .numerics = &wide_numerics[0], .size = size_of, .begin = begin_lut, .rows = pack_rows, .end = end_lut, \
    .unpack = unpack_lut, .grid = grid_of_lut,                                                             \
  }

/* The errors are those of lut_fit.h, which a test compares. */
const tn_format tni_lut_formats[2][TNI_LUT_KINDS] = {
    {FORMAT("lut1", 1, 1.0f), FORMAT("lut2", 2, 0.6511f), FORMAT("lut3", 3, 0.4511f), FORMAT("lut4", 4, 0.2511f),
     FORMAT("lutt", 2, 0.6011f)},
    {FORMAT("lut1p", 1, 1.0f), FORMAT("lut2p", 2, 0.6511f), FORMAT("lut3p", 3, 0.4511f), FORMAT("lut4p", 4, 0.2511f),
     FORMAT("luttp", 2, 0.6011f)}};
#undef FORMAT

static const tni_lut_kind lut_kinds[2][TNI_LUT_KINDS] = {
    {{1, 2, 1, 0}, {2, 4, 3, 0}, {3, 8, 7, 0}, {4, 16, 15, 0}, {2, 3, 2, 0}},
    {{1, 2, 1, 1}, {2, 4, 3, 1}, {3, 8, 7, 1}, {4, 16, 15, 1}, {2, 3, 2, 1}}};

const tni_lut_kind *tni_lut_kind_of(const tn_format *f) {
  for (uint32_t i = 0; i < TNI_LUT_KINDS; i++)
    for (uint32_t p = 0; p < 2; p++)
      if (!strcmp(f->name, tni_lut_formats[p][i].name)) return &lut_kinds[p][i];
  return NULL;
}

const tn_numerics *tni_lut_numerics(const tn_format *f, bool averages, bool narrow) {
  const tn_numerics *all = narrow ? narrow_numerics : wide_numerics;
  for (uint32_t i = 0; i < TNI_LUT_KINDS; i++) {
    if (!strcmp(f->name, tni_lut_formats[0][i].name)) return &all[averages ? 1 + i : 0];
    if (!strcmp(f->name, tni_lut_formats[1][i].name)) return averages ? NULL : &all[0];
  }
  return NULL;
}
