/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/dot.h"

#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/formats/act8.h"
#include "plugins/common/formats/dot_fit.h"
#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/source.h"

enum { ROWS = TNI_DOT_ROWS, GROUP = TNI_DOT_GROUP, QUAD = TNI_DOT_QUAD, MAX_SB_K = 256, MAX_HEAD = 128 };
enum { MAX_SB_BYTES = TNI_DOT_SCALE_BYTES + MAX_SB_K * ROWS, SCALES = MAX_SB_K / GROUP };

struct tn_pack {
  const tn_host *host;
  const tn_weight *weight;
  const tni_dot_kind *kind;
  tni_dot_geometry geo;
  const tn_quant *grid;  /* the weight's own, where its codes may be ours; else NULL */
  tni_dot_levels levels; /* pal16 */
  const tni_fit *fit;
  tn_grid ours;
  bool keep; /* code by code, or not at all */
};
_Static_assert(ROWS == TNI_CM_SOURCE_ROWS, "blocks of the source are ours");

/* --- units ------------------------------------------------------------------------------------------------------ */
/* Byte by byte over 64 bytes: loops that compilers turn into vectors. */

static void encode_w2g(const uint8_t *restrict q, uint8_t *restrict u) {
  for (int i = 0; i < QUAD; i++)
    u[i] = (uint8_t)(q[i] | q[i + QUAD] << 2 | q[i + 2 * QUAD] << 4 | q[i + 3 * QUAD] << 6);
}

static void decode_w2g(const uint8_t *restrict u, uint8_t *restrict q) {
  for (int j = 0; j < 4; j++)
    for (int i = 0; i < QUAD; i++) q[j * QUAD + i] = u[i] >> 2 * j & 3;
}

static void encode_w3g(const uint8_t *restrict q, uint8_t *restrict u) {
  const uint8_t *c2 = q + 2 * QUAD, *c5 = q + 5 * QUAD;
  for (int i = 0; i < QUAD; i++) {
    u[i] = (uint8_t)(q[i] | q[i + QUAD] << 3 | (c2[i] & 3) << 6);
    u[i + QUAD] = (uint8_t)(q[i + 3 * QUAD] | q[i + 4 * QUAD] << 3 | (c5[i] & 3) << 6);
    u[i + 2 * QUAD] = (uint8_t)(q[i + 6 * QUAD] | q[i + 7 * QUAD] << 3 | c2[i] >> 2 << 6 | c5[i] >> 2 << 7);
  }
}

static void decode_w3g(const uint8_t *restrict u, uint8_t *restrict q) {
  for (int i = 0; i < QUAD; i++) {
    const uint8_t a = u[i], b = u[i + QUAD], c = u[i + 2 * QUAD];
    const uint8_t code[8] = {a & 7, a >> 3 & 7, (uint8_t)(a >> 6 | (c >> 4 & 4)),
                             b & 7, b >> 3 & 7, (uint8_t)(b >> 6 | (c >> 5 & 4)),
                             c & 7, c >> 3 & 7};
    for (int j = 0; j < 8; j++) q[j * QUAD + i] = code[j];
  }
}

static void encode_w8g(const uint8_t *restrict q, uint8_t *restrict u) { memcpy(u, q, QUAD); }
static void decode_w8g(const uint8_t *restrict u, uint8_t *restrict q) { memcpy(q, u, QUAD); }

static void encode_w1g(const uint8_t *restrict q, uint8_t *restrict u) {
  memset(u, 0, QUAD);
  for (int j = 0; j < 8; j++)
    for (int i = 0; i < QUAD; i++) u[i] |= (uint8_t)(q[j * QUAD + i] >> 1 << j);
}

static void decode_w1g(const uint8_t *restrict u, uint8_t *restrict q) {
  for (int j = 0; j < 8; j++)
    for (int i = 0; i < QUAD; i++) q[j * QUAD + i] = (uint8_t)((u[i] >> j & 1) * 2);
}

static void encode_tern17(const uint8_t *restrict q, uint8_t *restrict u) {
  for (int i = 0; i < QUAD; i++) {
    uint8_t v[8];
    for (int j = 0; j < 8; j++)
      v[j] = (uint8_t)(q[j * QUAD + i] + 3 * q[(8 + j) * QUAD + i] + 9 * q[(16 + j) * QUAD + i]);
    u[i] = (uint8_t)(v[0] | (v[5] & 7) << 5);
    u[i + QUAD] = (uint8_t)(v[1] | v[5] >> 3 << 5 | (v[7] >> 3 & 1) << 7);
    u[i + 2 * QUAD] = (uint8_t)(v[2] | (v[6] & 7) << 5);
    u[i + 3 * QUAD] = (uint8_t)(v[3] | v[6] >> 3 << 5 | v[7] >> 4 << 7);
    u[i + 4 * QUAD] = (uint8_t)(v[4] | (v[7] & 7) << 5);
  }
}

static void decode_tern17(const uint8_t *restrict u, uint8_t *restrict q) {
  for (int i = 0; i < QUAD; i++) {
    const uint8_t z0 = u[i], z1 = u[i + QUAD], z2 = u[i + 2 * QUAD], z3 = u[i + 3 * QUAD], z4 = u[i + 4 * QUAD];
    const int v[8] = {z0 & 31,
                      z1 & 31,
                      z2 & 31,
                      z3 & 31,
                      z4 & 31,
                      z0 >> 5 | (z1 >> 5 & 3) << 3,
                      z2 >> 5 | (z3 >> 5 & 3) << 3,
                      z4 >> 5 | z1 >> 7 << 3 | z3 >> 7 << 4};
    for (int j = 0; j < 8; j++) {
      q[j * QUAD + i] = (uint8_t)(v[j] % 3);
      q[(8 + j) * QUAD + i] = (uint8_t)(v[j] / 3 % 3);
      q[(16 + j) * QUAD + i] = (uint8_t)(v[j] / 9);
    }
  }
}

static void encode_pal16(const uint8_t *restrict q, uint8_t *restrict u) {
  for (int i = 0; i < QUAD; i++) u[i] = (uint8_t)(q[i] | q[i + QUAD] << 4);
}

static void decode_pal16(const uint8_t *restrict u, uint8_t *restrict q) {
  for (int i = 0; i < QUAD; i++) {
    q[i] = u[i] & 15;
    q[i + QUAD] = u[i] >> 4;
  }
}

static int64_t superblock_bytes(const tni_dot_kind *kind) {
  return (kind->head_bytes ? 0 : TNI_DOT_SCALE_BYTES) + (int64_t)kind->units * kind->unit_bytes;
}

/* A superblock after the head of its row block. */
static void decode_superblock(const tni_dot_kind *kind, const uint8_t *head, const uint8_t *sb, uint8_t *quads) {
  if (!kind->head_bytes) sb += TNI_DOT_SCALE_BYTES;
  for (uint32_t i = 0; i < kind->units; i++)
    kind->decode(sb + i * kind->unit_bytes, quads + i * kind->unit_quads * QUAD);
  if (kind->which != TNI_DOT_PAL16) return;
  for (uint32_t i = 0; i < MAX_SB_K * ROWS; i++) quads[i] = head[TNI_DOT_SCALE_BYTES + (quads[i] & 15)];
}

static float scale_in(const tni_dot_kind *kind, const uint8_t *head, const uint8_t *sb, uint32_t row, uint32_t group) {
  uint16_t half;
  float scale;
  if (kind->head_bytes) {
    memcpy(&scale, head + row * sizeof scale, sizeof scale);
    return scale;
  }
  memcpy(&half, sb + (group * ROWS + row) * sizeof half, sizeof half);
  return tni_cm_f16_to_f32(half);
}

void tni_dot_decode(const tni_dot_kind *kind, const uint8_t *row_block, size_t i, uint8_t *quads) {
  decode_superblock(kind, row_block, row_block + kind->head_bytes + i * (size_t)superblock_bytes(kind), quads);
}

float tni_dot_scale(const tni_dot_kind *kind, const uint8_t *row_block, uint32_t row, size_t group) {
  const uint8_t *sb = row_block + group / SCALES * (size_t)superblock_bytes(kind); /* has none after a head */
  return scale_in(kind, row_block, sb, row, group % SCALES);
}

/* --- sizes ------------------------------------------------------------------------------------------------------ */

tn_status tni_dot_geometry_of(const tni_dot_kind *kind, int64_t N, int64_t K, tni_dot_geometry *out) {
  if (!kind || N < 1 || K < 1 || N > TNI_DOT_MAX_DIM || K > TNI_DOT_MAX_DIM) return TN_E_INVALID;
  tni_dot_geometry g = {.N = N, .K = K};
  g.sb_k = (int64_t)kind->units * kind->unit_quads * 4;
  g.sb_bytes = superblock_bytes(kind);
  g.row_blocks = (N + ROWS - 1) / ROWS;
  g.superblocks = (K + g.sb_k - 1) / g.sb_k;
  g.row_block_bytes = kind->head_bytes + g.superblocks * g.sb_bytes; /* < 2^31 * 2^5 */
  g.K_padded = (g.superblocks * g.sb_k + MAX_SB_K - 1) / MAX_SB_K * MAX_SB_K;
  if (__builtin_mul_overflow((uint64_t)g.row_blocks, (uint64_t)g.row_block_bytes, &g.bytes)) return TN_E_LIMIT;
  if (g.bytes > INT64_MAX) return TN_E_LIMIT;
  *out = g;
  return TN_OK;
}

static tn_status size_of(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                         tn_pack_size *out) {
  tni_dot_geometry g;
  (void)params;
  if (n || !out) return TN_E_INVALID;
  tn_status st = tni_dot_geometry_of(tni_dot_kind_of(f), N, K, &g);
  if (st == TN_OK) *out = (tn_pack_size){.bytes = g.bytes, .align = 64, .row_unit = ROWS};
  return st;
}

/* --- packing ---------------------------------------------------------------------------------------------------- */

typedef struct counting {
  const tni_fit *fit;
  tni_dot_histogram *h;
} counting;

static tn_status count_block(const void *ctx, const tni_cm_source *s, int64_t row, int64_t n_rows, uint8_t *block) {
  const counting *c = ctx;
  (void)block;
  for (int64_t r = row; r < row + n_rows; r++)
    if (tni_dot_count(c->fit, c->h, s->w + r * s->K, (size_t)s->K)) return TN_E_INVALID;
  return TN_OK;
}

/* pal16: levels of the whole matrix, from runs of its rows with at least 2^20 weights, or all. */
static tn_status find_levels(tn_pack *p) {
  enum { RUN = 4 * ROWS, ENOUGH = 1 << 20 };
  const int64_t runs = (p->geo.N + RUN - 1) / RUN, wanted = ENOUGH / RUN / p->geo.K + 1;
  const int64_t stride = runs > wanted ? runs / wanted : 1;
  tni_dot_histogram *h = p->host->alloc(p->host->ctx, sizeof *h, 64, TN_TAG_PACK);
  if (!h) return TN_E_NO_MEMORY;
  memset(h, 0, sizeof *h);
  const counting c = {p->fit, h};
  tn_status st = TN_OK;
  for (int64_t n = 0; st == TN_OK && n < p->geo.N; n += RUN * stride) {
    const int64_t end = p->geo.N - n < RUN ? p->geo.N : n + RUN;
    st = tni_cm_source_blocks(p->host, p->weight, NULL, n, end, count_block, &c, NULL, 0);
  }
  if (st == TN_OK) tni_dot_levels_of(h, &p->levels);
  p->host->free(p->host->ctx, h);
  return st;
}

/* w1g: codes 0 and 2 less 1 are those of two levels, half a scale apart from their middle. */
static tn_status grid_of_dot(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out) {
  const tni_dot_kind *k = tni_dot_kind_of(f);
  (void)params;
  if (n || !k) return TN_E_INVALID;
  tn_grid g = {.n_codes = k->top + 1,
               .group = k->head_bytes ? 0 : GROUP,
               .scale_dtype = k->head_bytes ? TN_DT_F32 : TN_DT_F16,
               .scale_unit = 1,
               .zero_kind = TN_ZERO_HALF,
               .zero = (float)k->zero};
  if (k->which <= TNI_DOT_W2G) g.flags = TN_GRID_SIGNED;
  if (k->which == TNI_DOT_W1G) g.n_codes = 2, g.zero = 0.5f, g.scale_unit = 2;
  if (k->which == TNI_DOT_PAL16) {
    g.kind = TN_GRID_LEVELS;
    g.n_codes = TNI_DOT_LEVELS;
    g.level_dtype = TN_DT_I8;
  }
  return tni_cm_give_grid(out, &g);
}

/* pal16: the levels that were chosen; the last stands for those that were not. */
static tn_status take_levels(tn_pack *p) {
  const tn_quant *q = p->grid;
  for (uint32_t i = 0; i < TNI_DOT_LEVELS; i++) {
    const float v = q->levels[i < q->n_levels ? i : q->n_levels - 1];
    if (!(v >= -127 && v <= 127) || (float)(int32_t)v != v) return TN_E_INVALID;
    p->levels.level[i] = (int8_t)v;
  }
  return TN_OK;
}

static tn_status begin_dot(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                           uint32_t n, tn_pack **out, tn_error *err) {
  tni_dot_geometry g;
  (void)params;
  const tni_dot_kind *kind = tni_dot_kind_of(f);
  if (!w || !w->rows) return tni_cm_fail(err, TN_E_INVALID, f->name, "the weight gives no rows");
  tn_status st = n ? TN_E_INVALID : tni_dot_geometry_of(kind, w->N, w->K, &g);
  if (st != TN_OK)
    return tni_cm_fail(err, st, f->name, "[%lld,%lld] cannot be packed", (long long)w->N, (long long)w->K);
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, f->name, "out of memory");
  *p = (tn_pack){.host = host, .weight = w, .kind = kind, .geo = g, .fit = tni_fit_best()};
  p->ours.h = (tn_hdr)TN_HDR(tn_grid);
  p->keep = tni_cm_keeps(w);
  st = grid_of_dot(f, params, n, &p->ours);
  if (p->keep)
    p->grid = tni_cm_given(w, &p->ours);
  else if (!kind->head_bytes)
    p->grid = tni_cm_grid_of(w, 8, GROUP);
  if (st == TN_OK && p->keep && !p->grid) st = TN_E_INVALID;
  if (st == TN_OK && p->keep && kind->which == TNI_DOT_PAL16) st = take_levels(p);
  if (st != TN_OK) {
    host->free(host->ctx, p);
    return tni_cm_fail(err, st, f->name, "codes that are to be kept are not on its grid");
  }
  if (kind->which == TNI_DOT_PAL16 && !p->keep && (st = find_levels(p)) != TN_OK) {
    host->free(host->ctx, p);
    return tni_cm_fail(err, st, f->name, "no levels: out of memory, or weights that are no numbers");
  }
  *out = p;
  return TN_OK;
}

static int fit_group(const tn_pack *p, const float *w, uint32_t n, uint8_t *q, uint16_t *scale) {
  switch (p->kind->which) {
    case TNI_DOT_W8G:
      return tni_dot_fit_bytes(p->fit, w, q, scale);
    case TNI_DOT_W1G:
      return tni_dot_fit_signs(p->fit, w, n, q, scale);
    default:
      return tni_dot_fit(p->fit, w, p->kind->zero, q, scale);
  }
}

/* One group of one row, `have` elements of it; the rest has the code that pads. */
static int quantize_group(const tn_pack *p, const tni_cm_source *s, int64_t row, int64_t k0, uint32_t have, uint8_t *q,
                          uint16_t *scale) {
  const tni_dot_kind *k = p->kind;
  float w[GROUP], kept, zero;
  if (p->keep) {
    memset(q, k->which == TNI_DOT_W1G ? 0 : (int)k->zero, GROUP);
    if (!tni_cm_source_keep(s, &p->ours, row, k0, have, q, &kept, &zero)) return -1;
    for (uint32_t i = 0; k->which == TNI_DOT_W1G && i < have; i++) q[i] = (uint8_t)(2 * q[i]);
    *scale = tni_cm_f32_to_f16(kept);
    return 0;
  }
  if (k->which != TNI_DOT_W1G) {
    memset(q, (int)k->zero, GROUP);
    if (tni_cm_source_codes(s, row, k0, have, (int32_t)k->zero, (int32_t)k->top, q, scale)) return 0;
  }
  if (!s->codes && have == GROUP) return fit_group(p, s->w + row * s->K + k0, GROUP, q, scale);
  memset(w, 0, sizeof w);
  tni_cm_source_floats(s, row, k0, have, w);
  return fit_group(p, w, have, q, scale);
}

/* Elements [k0, k0 + n) of a row with this scale; pal16: indices. */
static void quantize_row(const tn_pack *p, const float *w, uint32_t n, float scale, uint8_t *q) {
  if (p->kind->which == TNI_DOT_PAL16)
    tni_dot_level_codes(p->fit, w, n, &p->levels, scale, q);
  else
    tni_dot_ternary_codes(p->fit, w, n, scale, q);
}

static int row_scale(const tn_pack *p, const float *w, float *scale) {
  if (p->kind->which == TNI_DOT_PAL16) return tni_dot_level_scale(p->fit, w, (size_t)p->geo.K, &p->levels, scale);
  return tni_dot_ternary_scale(p->fit, w, (size_t)p->geo.K, scale);
}

static void put_head(const tn_pack *p, const float *scale, uint8_t *head) {
  memcpy(head, scale, ROWS * sizeof *scale);
  if (p->kind->which != TNI_DOT_PAL16) return;
  memset(head + TNI_DOT_SCALE_BYTES, 0, MAX_HEAD - TNI_DOT_SCALE_BYTES);
  for (int i = 0; i < TNI_DOT_LEVELS; i++) head[TNI_DOT_SCALE_BYTES + i] = (uint8_t)(p->levels.level[i] + 128);
}

/* Rows [row, row + n_rows) of the source -> one superblock, whose first element is k0. scale: of rows that have one. */
static tn_status pack_superblock(const tn_pack *p, const tni_cm_source *s, int64_t row, int64_t n_rows, int64_t k0,
                                 const float *scale, uint8_t *sb) {
  const tni_dot_kind *kind = p->kind;
  const int64_t sb_k = p->geo.sb_k, step = kind->head_bytes ? sb_k : GROUP;
  const bool bare = kind->which == TNI_DOT_PAL16 || kind->which == TNI_DOT_W1G;
  uint16_t half[SCALES][ROWS] = {{0}};
  uint8_t quads[MAX_SB_K * ROWS], q[MAX_SB_K];
  memset(quads, bare ? 0 : (int)kind->zero, (size_t)sb_k * ROWS);
  for (int64_t r = 0; r < n_rows; r++)
    for (int64_t at = 0; at < sb_k && k0 + at < s->K; at += step) {
      const uint32_t have = (uint32_t)(s->K - k0 - at < step ? s->K - k0 - at : step);
      if (kind->head_bytes) {
        memset(q, bare ? 0 : (int)kind->zero, sizeof q);
        float kept, zero;
        if (!p->keep)
          quantize_row(p, s->w + (row + r) * s->K + k0, have, scale[r], q);
        else if (!tni_cm_source_keep(s, &p->ours, row + r, k0, have, q, &kept, &zero))
          return TN_E_INVALID;
      } else if (quantize_group(p, s, row + r, k0 + at, have, q, &half[at / GROUP][r])) {
        return TN_E_INVALID;
      }
      for (int64_t i = 0; i < step; i += 4) memcpy(quads + (at + i) * ROWS + r * 4, q + i, 4);
    }
  if (!kind->head_bytes) {
    memcpy(sb, half, sizeof half);
    sb += TNI_DOT_SCALE_BYTES;
  }
  for (uint32_t i = 0; i < kind->units; i++)
    kind->encode(quads + i * kind->unit_quads * QUAD, sb + i * kind->unit_bytes);
  return TN_OK;
}

static tn_status pack_block(const void *ctx, const tni_cm_source *s, int64_t row, int64_t n_rows, uint8_t *block) {
  const tn_pack *p = ctx;
  const tni_dot_geometry *g = &p->geo;
  float scale[ROWS] = {0};
  tn_status st = TN_OK;
  for (int64_t r = 0; p->kind->head_bytes && r < n_rows; r++)
    if (p->keep)
      scale[r] = s->scales[(row + r) * s->blocks];
    else if (row_scale(p, s->w + (row + r) * s->K, &scale[r]))
      return TN_E_INVALID;
  if (p->kind->head_bytes) put_head(p, scale, block);
  block += p->kind->head_bytes;
  for (int64_t i = 0; st == TN_OK && i < g->superblocks; i++)
    st = pack_superblock(p, s, row, n_rows, i * g->sb_k, scale, block + i * g->sb_bytes);
  return st;
}

static tn_status pack_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  return tni_cm_source_blocks(p->host, p->weight, p->grid, n0, n1, pack_block, p, blob, p->geo.row_block_bytes);
}

static tn_status end_dot(tn_pack *p, void *blob) {
  (void)blob; /* no header */
  if (p) p->host->free(p->host->ctx, p);
  return TN_OK;
}

/* --- unpacking -------------------------------------------------------------------------------------------------- */

/* Where a superblock is: the head of its row block, itself, its codes. */
typedef struct opened {
  const uint8_t *head, *sb;
  uint8_t *quads;
} opened;

/* One row's elements [k0, k1) of the superblock that starts at `start`. */
static void unpack_part(const tni_dot_kind *kind, const opened *o, int64_t start, uint32_t lane, int64_t k0, int64_t k1,
                        float *dst) {
  for (int64_t k = k0; k < k1; k++) {
    const int64_t i = k - start;
    const int32_t code = o->quads[i / 4 * QUAD + lane * 4 + i % 4];
    *dst++ = (float)(code - (int32_t)kind->zero) * scale_in(kind, o->head, o->sb, lane, (uint32_t)(i / GROUP));
  }
}

/* Bytes of the blob, from memory or read into copy. */
static tn_status bytes_of(const tn_blob *b, int64_t offset, int64_t n, uint8_t *copy, const uint8_t **out) {
  *out = b->ptr ? (const uint8_t *)b->ptr + offset : copy;
  return b->ptr || !n ? TN_OK : b->read(b, (uint64_t)offset, (uint64_t)n, copy);
}

static tn_status unpack_dot(const tn_blob *b, const int64_t box[4], float *dst) {
  tni_dot_geometry g;
  const tni_dot_kind *kind = b->format ? tni_dot_kind_of(b->format) : NULL;
  tn_status st = b->n_params ? TN_E_INVALID : tni_dot_geometry_of(kind, b->N, b->K, &g);
  if (st != TN_OK) return st;
  const int64_t n0 = box[0], n1 = box[1], k0 = box[2], k1 = box[3], width = k1 - k0;
  if (n0 < 0 || n0 > n1 || n1 > g.N || k0 < 0 || k0 > k1 || k1 > g.K || b->bytes < g.bytes) return TN_E_INVALID;
  if (n0 == n1 || k0 == k1) return TN_OK;
  _Alignas(64) uint8_t copy[MAX_SB_BYTES], head[MAX_HEAD], quads[MAX_SB_K * ROWS];
  opened o = {.quads = quads};
  for (int64_t block = n0 / ROWS; st == TN_OK && block * ROWS < n1; block++) {
    const int64_t r0 = block * ROWS > n0 ? block * ROWS : n0, r1 = (block + 1) * ROWS < n1 ? (block + 1) * ROWS : n1;
    const int64_t at = block * g.row_block_bytes;
    st = bytes_of(b, at, kind->head_bytes, head, &o.head);
    for (int64_t i = k0 / g.sb_k; st == TN_OK && i * g.sb_k < k1; i++) {
      st = bytes_of(b, at + kind->head_bytes + i * g.sb_bytes, g.sb_bytes, copy, &o.sb);
      if (st != TN_OK) break;
      decode_superblock(kind, o.head, o.sb, quads);
      const int64_t start = i * g.sb_k, a = start > k0 ? start : k0, z = start + g.sb_k < k1 ? start + g.sb_k : k1;
      for (int64_t r = r0; r < r1; r++)
        unpack_part(kind, &o, start, (uint32_t)(r - block * ROWS), a, z, dst + (r - n0) * width + (a - k0));
    }
  }
  return st;
}

/* --- the family ------------------------------------------------------------------------------------------------- */

#define FORMAT(label, v, bits_, all_in, group_, flags_, num, err)                                              \
  {                                                                                                            \
    .h = TN_HDR(tn_format), .name = label, .version = v, .bits = bits_, .group = group_, .flags = flags_,      \
    .bits_per_weight = all_in, .w_err = err, .x_err = 0.5f / 127.0f + 1e-6f, .numerics = num, .size = size_of, \
    .begin = begin_dot, .rows = pack_rows, .end = end_dot, .unpack = unpack_dot, .grid = grid_of_dot,          \
  }
#define GROUPS(label, v, bits, err) \
  FORMAT(label, v, bits, bits + 0.125f, GROUP, TN_FMT_READS_QUANT, TNI_ACT8_G128_F16, err)
#define BY_ROW(label, v, bits, all_in, err) FORMAT(label, v, bits, all_in, 0, 0, TNI_ACT8_G128_F32, err)
/* The errors are those of dot_fit.h, which a test compares. */
const tn_format tni_dot_formats[TNI_DOT_KINDS] = {
    GROUPS("w8g", 1, 8, 0.0043f),          GROUPS("w3g", 2, 3, 0.5011f),
    GROUPS("w2g", 2, 2, 0.8011f),          FORMAT("w1g", 1, 1, 1.125f, GROUP, 0, TNI_ACT8_G128_F16, 1.0f),
    BY_ROW("tern20", 1, 2, 2.0079f, 1.0f), BY_ROW("tern17", 1, 1, 1.6876f, 1.0f),
    BY_ROW("pal16", 2, 4, 4.0157f, 1.0f)};
#undef BY_ROW
#undef GROUPS
#undef FORMAT

#define HEAD TNI_DOT_SCALE_BYTES
static const tni_dot_kind dot_kinds[TNI_DOT_KINDS] = {
    {TNI_DOT_W8G, 128, 255, 1, 64, 64, 0, encode_w8g, decode_w8g},
    {TNI_DOT_W3G, 4, 7, 8, 192, 8, 0, encode_w3g, decode_w3g},
    {TNI_DOT_W2G, 2, 3, 4, 64, 16, 0, encode_w2g, decode_w2g},
    {TNI_DOT_W1G, 1, 2, 8, 64, 8, 0, encode_w1g, decode_w1g},
    {TNI_DOT_TERN20, 1, 2, 4, 64, 16, HEAD, encode_w2g, decode_w2g},
    {TNI_DOT_TERN17, 1, 2, 24, 320, 1, HEAD, encode_tern17, decode_tern17},
    {TNI_DOT_PAL16, 128, 255, 2, 64, 32, MAX_HEAD, encode_pal16, decode_pal16},
};
#undef HEAD

const tni_dot_kind *tni_dot_kind_of(const tn_format *f) {
  for (uint32_t i = 0; i < TNI_DOT_KINDS; i++)
    if (!strcmp(f->name, tni_dot_formats[i].name)) return &dot_kinds[i];
  return NULL;
}
