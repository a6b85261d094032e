/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/e0m.h"

#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/formats/e0m_fit.h"
#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/source.h"

enum { GROUP = TNI_E0M_GROUP, COLS = TNI_E0M_COLUMNS, UNIT = TNI_E0M_UNIT, ROWS = TNI_CM_SOURCE_ROWS, MAX_BITS = 8 };
enum { C_ZERO = 0x3e00 /* half 1.5 */ };
/* Of the mean weight of a channel: what every channel counts beside its own. */
#define DAMP 0.1f

struct tn_pack {
  const tn_host *host;
  const tn_weight *weight;
  const tn_quant *kept; /* codes that are to be kept, or NULL */
  tn_grid ours;
  tni_e0m_geometry geo;
  bool zero_exact;
  float *channels; /* [K]: how much each counts in the search, or NULL */
};

const tn_numerics tni_e0m_numerics = {
    .h = TN_HDR(tn_numerics),
    .act_dtype = TN_DT_F16,
    .act_group = GROUP,
    .act_scheme = TN_ACT_NONE,
    .act_round = TN_ROUND_HALF_EVEN,
    .act_max = 0,
    .acc_inner = TN_DT_F16,
    .acc_outer = TN_DT_F32,
    .scale_dtype = TN_DT_F16,
    .denormals = TN_DENORM_FLUSH,
    .nan = TN_NAN_UNDEFINED,
    .finite_max = 2048,
};

/* --- geometry --------------------------------------------------------------------------------------------------- */

static uint64_t column_bytes(const tni_e0m_geometry *g) {
  return (uint64_t)g->Kp / 8 * g->bits + (uint64_t)g->Kp / GROUP * 4;
}

tn_status tni_e0m_geometry_of(uint32_t bits, int64_t N, int64_t K, tni_e0m_geometry *out) {
  if (N < 1 || K < 1 || N > TNI_E0M_MAX_DIM || K > TNI_E0M_MAX_DIM) return TN_E_INVALID;
  tni_e0m_geometry g = {.N = N, .K = K, .bits = bits};
  g.Np = (N + COLS - 1) / COLS * COLS;
  g.Kp = (K + GROUP - 1) / GROUP * GROUP;
  const uint64_t column = column_bytes(&g);
  if (__builtin_mul_overflow((uint64_t)g.Np, column, &g.bytes) || g.bytes > INT64_MAX) return TN_E_LIMIT;
  int64_t fit = (int64_t)(TNI_E0M_PART_BYTES / column) / COLS * COLS;
  g.part_n = g.bytes <= TNI_E0M_PART_BYTES ? g.Np : fit < COLS ? COLS : fit;
  g.n_parts = (g.Np + g.part_n - 1) / g.part_n;
  *out = g;
  return TN_OK;
}

tni_e0m_part tni_e0m_part_of(const tni_e0m_geometry *g, int64_t p) {
  tni_e0m_part o = {.n0 = p * g->part_n};
  o.Pn = g->Np - o.n0 < g->part_n ? g->Np - o.n0 : g->part_n;
  o.w_at = (uint64_t)o.n0 * column_bytes(g);
  o.s_at = o.w_at + (uint64_t)o.Pn * ((uint64_t)g->Kp / 8 * g->bits);
  return o;
}

static bool takes_params(const int64_t *params, uint32_t n) {
  return n == 0 || (n == 1 && params && params[0] >= 0 && params[0] <= 1);
}

static tn_status e0m_size_of(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                             tn_pack_size *out) {
  tni_e0m_geometry g;
  if (!takes_params(params, n) || !out) return TN_E_INVALID;
  tn_status st = tni_e0m_geometry_of(f->bits, N, K, &g);
  if (st == TN_OK) *out = (tn_pack_size){.bytes = g.bytes, .align = 128, .row_unit = COLS};
  return st;
}

/* --- packing ---------------------------------------------------------------------------------------------------- */

static tn_grid grid_of_bits(uint32_t bits) {
  const float codes = (float)(1u << bits);
  return (tn_grid){.h = TN_HDR(tn_grid),
                   .kind = TN_GRID_AFFINE,
                   .flags = TN_GRID_SIGNED,
                   .n_codes = 1u << bits,
                   .group = GROUP,
                   .scale_dtype = TN_DT_F16,
                   .scale_unit = 1.0f / codes,
                   .zero_kind = TN_ZERO_CODES};
}

static tn_status e0m_grid(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out) {
  const tn_grid g = grid_of_bits(f->bits);
  return takes_params(params, n) ? tni_cm_give_grid(out, &g) : TN_E_INVALID;
}

/* What the calibration text says of the activation: its channels' mean squares, 1 on average. */
static void weigh_channels(const tn_stats *x, int64_t K, float *channels) {
  float sum = 0;
  for (int64_t k = 0; k < K; k++) sum += x->ch_weight[k];
  const float mean = sum / (float)K;
  for (int64_t k = 0; k < K; k++) channels[k] = mean > 0 ? x->ch_weight[k] / mean + DAMP : 1;
}

static tn_status open_pack(const tn_host *host, const tn_weight *w, tn_pack *p, tn_error *err) {
  const tn_stats *x = TN_HAS(w, tn_weight, x) ? w->x : NULL;
  if (tni_cm_keeps(w) && !p->kept)
    return tni_cm_fail(err, TN_E_INVALID, "e0m", "codes that are to be kept are not on the format's grid");
  if (p->kept || !x || !TN_HAS(x, tn_stats, ch_weight) || !x->ch_weight || (int64_t)x->n != w->K) return TN_OK;
  p->channels = host->alloc(host->ctx, (size_t)w->K * sizeof *p->channels, 64, TN_TAG_PACK);
  if (!p->channels) return tni_cm_fail(err, TN_E_NO_MEMORY, "e0m", "out of memory");
  weigh_channels(x, w->K, p->channels);
  return TN_OK;
}

static tn_status end_e0m(tn_pack *p, void *blob) {
  (void)blob; /* no header */
  if (!p) return TN_OK;
  if (p->channels) p->host->free(p->host->ctx, p->channels);
  p->host->free(p->host->ctx, p);
  return TN_OK;
}

static tn_status begin_e0m(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                           uint32_t n, tn_pack **out, tn_error *err) {
  tni_e0m_geometry g;
  if (!takes_params(params, n))
    return tni_cm_fail(err, TN_E_INVALID, f->name, "%s takes one parameter: zero_exact, 0 or 1", f->name);
  if (!w || !w->rows) return tni_cm_fail(err, TN_E_INVALID, f->name, "the weight gives no rows");
  tn_status st = tni_e0m_geometry_of(f->bits, w->N, w->K, &g);
  if (st != TN_OK)
    return tni_cm_fail(err, st, f->name, "%s cannot hold [%lld,%lld]", f->name, (long long)w->N, (long long)w->K);
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, f->name, "out of memory");
  *p = (tn_pack){.host = host, .weight = w, .geo = g, .ours = grid_of_bits(f->bits), .zero_exact = n && params[0]};
  p->kept = tni_cm_given(w, &p->ours);
  if ((st = open_pack(host, w, p, err)) == TN_OK)
    *out = p;
  else
    (void)!end_e0m(p, NULL);
  return st;
}

/* One group of one row: what is kept, or what the search finds. */
static int quantize_e0m(const tn_pack *p, const tni_cm_source *s, int64_t row, int64_t k0, uint32_t n, uint8_t *codes,
                        uint16_t sc[2]) {
  float w[GROUP], scale, zero;
  if (p->kept) {
    if (!tni_cm_source_keep(s, &p->ours, row, k0, n, codes, &scale, &zero)) return -1;
    sc[0] = tni_cm_f32_to_f16(scale);
    sc[1] = tni_cm_f32_to_f16(1.0f + zero * p->ours.scale_unit);
    return 0;
  }
  tni_cm_source_floats(s, row, k0, n, w);
  return tni_e0m_fit(p->geo.bits, p->zero_exact, w, p->channels ? p->channels + k0 : NULL, n, codes, sc);
}

/* 16 codes as the words of a column. */
static void words_of(uint32_t bits, const uint8_t *codes, uint16_t *words) {
  const uint32_t per = UNIT / bits;
  memset(words, 0, bits * sizeof *words);
  for (uint32_t i = 0; i < per * bits; i++) words[i / per] = (uint16_t)(words[i / per] | codes[i] << i % per * bits);
  for (uint32_t j = 0; per * bits < UNIT && j < bits; j++)
    words[j] = (uint16_t)(words[j] | (codes[UNIT - 1] >> j & 1) << 15);
}

/* Where blocks of 16 columns go: block is word 0 of the first of them. */
typedef struct e0m_place {
  const tn_pack *pack;
  tni_e0m_part part;
  uint8_t *blob;
} e0m_place;

/* 16 columns, those from n on padding; s NULL: all of them. */
static tn_status pack_e0m_block(const void *ctx, const tni_cm_source *s, int64_t row, int64_t n, uint8_t *block) {
  const e0m_place *to = ctx;
  const tni_e0m_geometry *g = &to->pack->geo;
  const int64_t column = (block - to->blob - (int64_t)to->part.w_at) / (int64_t)sizeof(uint16_t);
  for (int64_t k0 = 0; k0 < g->Kp; k0 += GROUP) {
    uint16_t *w = (uint16_t *)(void *)block + k0 / UNIT * g->bits * to->part.Pn;
    uint16_t *sc = (uint16_t *)(void *)(to->blob + to->part.s_at) + (k0 / GROUP * to->part.Pn + column) * 2;
    const uint32_t have = g->K - k0 < GROUP ? (uint32_t)(g->K - k0) : GROUP;
    for (int64_t c = 0; c < ROWS; c++) {
      uint8_t codes[GROUP];
      uint16_t words[MAX_BITS];
      memset(codes, 1 << (g->bits - 1), sizeof codes);
      sc[2 * c] = 0;
      sc[2 * c + 1] = C_ZERO;
      if (s && c < n && quantize_e0m(to->pack, s, row + c, k0, have, codes, sc + 2 * c)) return TN_E_INVALID;
      for (int64_t u = 0; u < GROUP / UNIT; u++) {
        words_of(g->bits, codes + u * UNIT, words);
        for (int64_t j = 0; j < g->bits; j++) w[(u * g->bits + j) * to->part.Pn + c] = words[j];
      }
    }
  }
  return TN_OK;
}

static tn_status pack_e0m_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  const tni_e0m_geometry *g = &p->geo;
  if (n0 < 0 || n1 > g->N || n0 % COLS || (n1 % COLS && n1 != g->N)) return TN_E_INVALID;
  const int64_t padded = n1 == g->N ? g->Np : n1;
  tn_status st = TN_OK;
  for (int64_t n = n0; st == TN_OK && n < n1;) {
    const e0m_place to = {.pack = p, .part = tni_e0m_part_of(g, n / g->part_n), .blob = blob};
    const int64_t whole = to.part.n0 + to.part.Pn, end = whole < n1 ? whole : n1;
    /* What would be column 0, from where blocks lie one after the other. */
    uint8_t *first = to.blob + to.part.w_at - to.part.n0 * (int64_t)sizeof(uint16_t);
    st = tni_cm_source_blocks(p->host, p->weight, p->kept, n, end, pack_e0m_block, &to, first, ROWS * sizeof(uint16_t));
    for (int64_t c = (end + ROWS - 1) / ROWS * ROWS; st == TN_OK && end == n1 && c < padded; c += ROWS)
      st = pack_e0m_block(&to, NULL, 0, 0, first + c * (int64_t)sizeof(uint16_t));
    n = end;
  }
  return st;
}

/* --- unpacking -------------------------------------------------------------------------------------------------- */

/* bytes of the blob, from memory or file. */
static tn_status fetch_e0m(const tn_blob *b, uint64_t at, uint64_t n, void *dst) {
  if (!b->ptr) return b->read(b, at, n, dst);
  memcpy(dst, (const char *)b->ptr + at, n);
  return TN_OK;
}

/* 16 k from k on of columns [n, n_end), those in the box. */
static tn_status unpack_unit(const tn_blob *b, const tni_e0m_geometry *g, const tni_e0m_part *part, int64_t k,
                             int64_t n, int64_t n_end, const int64_t box[4], float *dst) {
  uint16_t w[MAX_BITS * COLS], s[2 * COLS];
  const float unit = 1.0f / (float)(1u << g->bits);
  const int64_t at = n - part->n0, count = n_end - n, width = box[3] - box[2];
  tn_status st = fetch_e0m(b, part->s_at + (uint64_t)(k / GROUP * part->Pn + at) * 4, (uint64_t)count * 4, s);
  for (uint32_t j = 0; st == TN_OK && j < g->bits; j++)
    st = fetch_e0m(b, part->w_at + (uint64_t)((k / UNIT * g->bits + j) * part->Pn + at) * 2, (uint64_t)count * 2,
                   w + j * COLS);
  for (int64_t i = 0; st == TN_OK && i < count; i++)
    for (int64_t j = 0; j < UNIT; j++) {
      if (k + j < box[2] || k + j >= box[3]) continue;
      const float h = 1.0f + (float)tni_e0m_code(g->bits, w + i, COLS, (uint32_t)j) * unit;
      dst[(n + i - box[0]) * width + (k + j - box[2])] =
          tni_cm_f16_to_f32(s[2 * i]) * (h - tni_cm_f16_to_f32(s[2 * i + 1]));
    }
  return st;
}

static tn_status unpack_e0m(const tn_blob *b, const int64_t box[4], float *dst) {
  tni_e0m_geometry g;
  tn_status st = b->format ? tni_e0m_geometry_of(b->format->bits, b->N, b->K, &g) : TN_E_INVALID;
  if (st != TN_OK) return st;
  const int64_t n0 = box[0], n1 = box[1], k0 = box[2], k1 = box[3];
  if (n0 < 0 || n0 > n1 || n1 > g.N || k0 < 0 || k0 > k1 || k1 > g.K || b->bytes < g.bytes) return TN_E_INVALID;
  for (int64_t n = n0, next; st == TN_OK && n < n1; n = next) {
    const tni_e0m_part part = tni_e0m_part_of(&g, n / g.part_n);
    next = (n / COLS + 1) * COLS;
    if (next > n1) next = n1;
    for (int64_t k = k0 / UNIT * UNIT; st == TN_OK && k < k1; k += UNIT)
      st = unpack_unit(b, &g, &part, k, n, next, box, dst);
  }
  return st;
}

#define FORMAT(label, version_, bits_)                                                                             \
  {                                                                                                                \
    .h = TN_HDR(tn_format), .name = label, .version = version_, .bits = bits_, .group = GROUP,                     \
    .flags = TN_FMT_READS_STATS, .bits_per_weight = bits_ + 0.25f, .w_err = TNI_E0M_ERR(bits_), .x_err = 0x1p-11f, \
    .numerics = &tni_e0m_numerics, .size = e0m_size_of, .begin = begin_e0m, .rows = pack_e0m_rows, .end = end_e0m, \
    .unpack = unpack_e0m, .grid = e0m_grid,                                                                        \
  }
const tn_format tni_e0m_formats[TNI_E0M_KINDS] = {FORMAT("e0m2", 1, 2), FORMAT("e0m3", 1, 3), FORMAT("e0m4", 2, 4),
                                                  FORMAT("e0m8", 1, 8)};
#undef FORMAT
