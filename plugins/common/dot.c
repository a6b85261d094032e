/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/dot.h"

#include <string.h>

#include "plugins/common/dot_fit.h"
#include "plugins/common/f16.h"
#include "plugins/common/mem.h"
#include "plugins/common/source.h"

enum { ROWS = TNI_DOT_ROWS, GROUP = TNI_DOT_GROUP, QUAD = TNI_DOT_QUAD, MAX_SB_K = 256 };
enum { MAX_SB_BYTES = TNI_DOT_SCALE_BYTES + MAX_SB_K * ROWS };

struct tn_pack {
  const tn_host *host;
  const tn_weight *weight;
  const tni_dot_kind *kind;
  tni_dot_geometry geo;
  const tn_quant *grid; /* the weight's own, where its codes may be ours; else NULL */
};

const tn_numerics tni_dot_numerics = {.h = TN_HDR(tn_numerics),
                                      .act_dtype = TN_DT_I8,
                                      .act_group = GROUP,
                                      .act_scheme = TN_ACT_ABSMAX,
                                      .act_round = TN_ROUND_HALF_EVEN,
                                      .act_max = 127.0f,
                                      .acc_inner = TN_DT_I32,
                                      .acc_outer = TN_DT_F32,
                                      .scale_dtype = TN_DT_F16,
                                      .denormals = TN_DENORM_FLUSH,
                                      .nan = TN_NAN_UNDEFINED,
                                      .finite_max = 1e28};

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

void tni_dot_decode(const tni_dot_kind *kind, const uint8_t *sb, uint8_t *quads) {
  sb += TNI_DOT_SCALE_BYTES;
  for (uint32_t i = 0; i < kind->units; i++)
    kind->decode(sb + i * kind->unit_bytes, quads + i * kind->unit_quads * QUAD);
}

float tni_dot_scale(const uint8_t *sb, uint32_t row, uint32_t group) {
  uint16_t half;
  memcpy(&half, sb + (group * ROWS + row) * sizeof half, sizeof half);
  return tni_cm_f16_to_f32(half);
}

/* --- sizes ------------------------------------------------------------------------------------------------------ */

tn_status tni_dot_geometry_of(const tni_dot_kind *kind, int64_t N, int64_t K, tni_dot_geometry *out) {
  if (!kind || N < 1 || K < 1 || N > TNI_DOT_MAX_DIM || K > TNI_DOT_MAX_DIM) return TN_E_INVALID;
  tni_dot_geometry g = {.N = N, .K = K};
  g.sb_k = (int64_t)kind->units * kind->unit_quads * 4;
  g.sb_bytes = TNI_DOT_SCALE_BYTES + (int64_t)kind->units * kind->unit_bytes;
  g.row_blocks = (N + ROWS - 1) / ROWS;
  g.superblocks = (K + g.sb_k - 1) / g.sb_k;
  g.row_block_bytes = g.superblocks * g.sb_bytes; /* < 2^31 * 2^5 */
  g.K_padded = g.superblocks * g.sb_k;
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

static tn_status begin(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params, uint32_t n,
                       tn_pack **out, tn_error *err) {
  tni_dot_geometry g;
  (void)params;
  const tni_dot_kind *kind = tni_dot_kind_of(f);
  if (!w || !w->rows) return tni_cm_fail(err, TN_E_INVALID, f->name, "the weight gives no rows");
  tn_status st = n ? TN_E_INVALID : tni_dot_geometry_of(kind, w->N, w->K, &g);
  if (st != TN_OK)
    return tni_cm_fail(err, st, f->name, "[%lld,%lld] cannot be packed", (long long)w->N, (long long)w->K);
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, f->name, "out of memory");
  *p = (tn_pack){host, w, kind, g, tni_cm_grid_of(w, 4, GROUP)};
  *out = p;
  return TN_OK;
}

/* One group of one row, `have` elements of it; the rest has code `zero`. */
static int quantize(const tni_dot_kind *k, const tni_cm_source *s, int64_t row, int64_t k0, uint32_t have, uint8_t *q,
                    uint16_t *scale) {
  float w[GROUP] = {0};
  memset(q, (int)k->zero, GROUP);
  if (tni_cm_source_codes(s, row, k0, have, (int32_t)k->zero, (int32_t)k->top, q, scale)) return 0;
  tni_cm_source_floats(s, row, k0, have, w);
  return tni_dot_fit(w, k->zero, k->top, q, scale);
}

/* Rows [row, row + n_rows) of the source -> one superblock, whose first element is k0. */
static tn_status pack_superblock(const tn_pack *p, const tni_cm_source *s, int64_t row, int64_t n_rows, int64_t k0,
                                 uint8_t *sb) {
  const tni_dot_kind *kind = p->kind;
  const int64_t sb_k = p->geo.sb_k;
  uint16_t scale[MAX_SB_K / GROUP][ROWS] = {{0}};
  uint8_t quads[MAX_SB_K * ROWS], q[GROUP];
  memset(quads, (int)kind->zero, (size_t)sb_k * ROWS);
  for (int64_t r = 0; r < n_rows; r++)
    for (int64_t at = 0; at < sb_k && k0 + at < s->K; at += GROUP) {
      const int64_t have = s->K - k0 - at < GROUP ? s->K - k0 - at : GROUP;
      if (quantize(kind, s, row + r, k0 + at, (uint32_t)have, q, &scale[at / GROUP][r])) return TN_E_INVALID;
      for (int64_t i = 0; i < GROUP; i += 4) memcpy(quads + (at + i) * ROWS + r * 4, q + i, 4);
    }
  memcpy(sb, scale, sizeof scale);
  sb += TNI_DOT_SCALE_BYTES;
  for (uint32_t i = 0; i < kind->units; i++)
    kind->encode(quads + i * kind->unit_quads * QUAD, sb + i * kind->unit_bytes);
  return TN_OK;
}

static tn_status pack_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  const tni_dot_geometry *g = &p->geo;
  const int64_t step = tni_cm_source_step(g->K);
  if (n0 < 0 || n1 > g->N || n0 % ROWS || (n1 % ROWS && n1 != g->N)) return TN_E_INVALID;
  void *room = p->host->alloc(p->host->ctx, tni_cm_source_bytes(p->weight, p->grid), 64, TN_TAG_PACK);
  if (!room) return TN_E_NO_MEMORY;
  tn_status st = TN_OK;
  for (int64_t n = n0; st == TN_OK && n < n1; n += step) {
    const int64_t end = n1 - n < step ? n1 : n + step;
    tni_cm_source s;
    st = tni_cm_source_read(p->weight, p->grid, n, end, room, &s);
    for (int64_t r = n; st == TN_OK && r < end; r += ROWS)
      for (int64_t i = 0; st == TN_OK && i < g->superblocks; i++)
        st = pack_superblock(p, &s, r - n, end - r < ROWS ? end - r : ROWS, i * g->sb_k,
                             (uint8_t *)blob + r / ROWS * g->row_block_bytes + i * g->sb_bytes);
  }
  p->host->free(p->host->ctx, room);
  return st;
}

static tn_status end(tn_pack *p, void *blob) {
  (void)blob; /* no header */
  if (p) p->host->free(p->host->ctx, p);
  return TN_OK;
}

/* --- unpacking -------------------------------------------------------------------------------------------------- */

/* One row's elements [k0, k1) of the superblock that starts at `start`. */
static void unpack_part(const tni_dot_kind *kind, const uint8_t *sb, const uint8_t *quads, int64_t start, uint32_t lane,
                        int64_t k0, int64_t k1, float *dst) {
  for (int64_t k = k0; k < k1; k++) {
    const int64_t i = k - start;
    const int32_t code = quads[i / 4 * QUAD + lane * 4 + i % 4];
    *dst++ = (float)(code - (int32_t)kind->zero) * tni_dot_scale(sb, lane, (uint32_t)(i / GROUP));
  }
}

static tn_status unpack(const tn_blob *b, const int64_t box[4], float *dst) {
  tni_dot_geometry g;
  const tni_dot_kind *kind = b->format ? tni_dot_kind_of(b->format) : NULL;
  tn_status st = b->n_params ? TN_E_INVALID : tni_dot_geometry_of(kind, b->N, b->K, &g);
  if (st != TN_OK) return st;
  const int64_t n0 = box[0], n1 = box[1], k0 = box[2], k1 = box[3], width = k1 - k0;
  if (n0 < 0 || n0 > n1 || n1 > g.N || k0 < 0 || k0 > k1 || k1 > g.K || b->bytes < g.bytes) return TN_E_INVALID;
  if (n0 == n1 || k0 == k1) return TN_OK;
  _Alignas(64) uint8_t copy[MAX_SB_BYTES], quads[MAX_SB_K * ROWS];
  for (int64_t block = n0 / ROWS; block * ROWS < n1; block++) {
    const int64_t r0 = block * ROWS > n0 ? block * ROWS : n0, r1 = (block + 1) * ROWS < n1 ? (block + 1) * ROWS : n1;
    for (int64_t i = k0 / g.sb_k; i * g.sb_k < k1; i++) {
      const uint64_t offset = (uint64_t)(block * g.row_block_bytes + i * g.sb_bytes);
      const uint8_t *at = b->ptr ? (const uint8_t *)b->ptr + offset : copy;
      if (!b->ptr && (st = b->read(b, offset, (uint64_t)g.sb_bytes, copy)) != TN_OK) return st;
      tni_dot_decode(kind, at, quads);
      const int64_t start = i * g.sb_k, a = start > k0 ? start : k0, z = start + g.sb_k < k1 ? start + g.sb_k : k1;
      for (int64_t r = r0; r < r1; r++)
        unpack_part(kind, at, quads, start, (uint32_t)(r - block * ROWS), a, z, dst + (r - n0) * width + (a - k0));
    }
  }
  return TN_OK;
}

/* --- the family ------------------------------------------------------------------------------------------------- */

#define FORMAT(label, bits_, err)                                                                                    \
  {                                                                                                                  \
    .h = TN_HDR(tn_format), .name = label, .version = 1, .bits = bits_, .group = GROUP, .flags = TN_FMT_READS_QUANT, \
    .bits_per_weight = bits_ + 0.125f, .w_err = err, .x_err = 0.5f / 127.0f + 1e-6f, .numerics = &tni_dot_numerics,  \
    .size = size_of, .begin = begin, .rows = pack_rows, .end = end, .unpack = unpack,                                \
  }
/* The errors are those of dot_fit.h, which a test compares. */
const tn_format tni_dot_formats[TNI_DOT_KINDS] = {FORMAT("w2g", 2, 0.8011f), FORMAT("w3g", 3, 0.5011f)};
#undef FORMAT

static const tni_dot_kind kinds[TNI_DOT_KINDS] = {
    {.zero = 2, .top = 3, .unit_quads = 4, .unit_bytes = 64, .units = 16, encode_w2g, decode_w2g},
    {.zero = 4, .top = 7, .unit_quads = 8, .unit_bytes = 192, .units = 8, encode_w3g, decode_w3g},
};

const tni_dot_kind *tni_dot_kind_of(const tn_format *f) {
  for (uint32_t i = 0; i < TNI_DOT_KINDS; i++)
    if (!strcmp(f->name, tni_dot_formats[i].name)) return &kinds[i];
  return NULL;
}
