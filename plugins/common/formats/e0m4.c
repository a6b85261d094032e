/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/e0m4.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/formats/f16.h"

enum { GROUP = TNI_E0M4_GROUP, COLS = TNI_E0M4_COLUMNS };
#define SMALLEST 0x1p-14f /* normal half */
#define C_ZERO 0x3e00u    /* half 1.5 */
#define CODE_ZERO 0x8888u

struct tn_pack {
  const tn_host *host;
  const tn_weight *weight;
  tni_e0m4_geometry geo;
  int zero_exact;
};

const tn_numerics tni_e0m4_numerics = {
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

tn_status tni_e0m4_geometry_of(int64_t N, int64_t K, tni_e0m4_geometry *out) {
  if (N < 1 || K < 1 || N > TNI_E0M4_MAX_DIM || K > TNI_E0M4_MAX_DIM) return TN_E_INVALID;
  tni_e0m4_geometry g = {.N = N, .K = K};
  g.Np = (N + COLS - 1) / COLS * COLS;
  g.Kp = (K + GROUP - 1) / GROUP * GROUP;
  const uint64_t column = (uint64_t)g.Kp / 2 + (uint64_t)g.Kp / GROUP * 4;
  if (__builtin_mul_overflow((uint64_t)g.Np, column, &g.bytes) || g.bytes > INT64_MAX) return TN_E_LIMIT;
  int64_t fit = (int64_t)(TNI_E0M4_PART_BYTES / column) / COLS * COLS;
  g.part_n = g.bytes <= TNI_E0M4_PART_BYTES ? g.Np : fit < COLS ? COLS : fit;
  g.n_parts = (g.Np + g.part_n - 1) / g.part_n;
  *out = g;
  return TN_OK;
}

tni_e0m4_part tni_e0m4_part_of(const tni_e0m4_geometry *g, int64_t p) {
  const uint64_t column = (uint64_t)g->Kp / 2 + (uint64_t)g->Kp / GROUP * 4;
  tni_e0m4_part o = {.n0 = p * g->part_n};
  o.Pn = g->Np - o.n0 < g->part_n ? g->Np - o.n0 : g->part_n;
  o.w_at = (uint64_t)o.n0 * column;
  o.s_at = o.w_at + (uint64_t)o.Pn * ((uint64_t)g->Kp / 2);
  return o;
}

static tn_status size_of(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                         tn_pack_size *out) {
  (void)f;
  tni_e0m4_geometry g;
  if (n != 1 || !params || params[0] < 0 || params[0] > 1 || !out) return TN_E_INVALID;
  tn_status st = tni_e0m4_geometry_of(N, K, &g);
  if (st == TN_OK) *out = (tn_pack_size){.bytes = g.bytes, .align = 128, .row_unit = COLS};
  return st;
}

/* --- packing ---------------------------------------------------------------------------------------------------- */

int tni_e0m4_group(const float *w, uint32_t n, int zero_exact, uint8_t *codes, uint16_t sc[2]) {
  float lo = 0, hi = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!(fabsf(w[i]) <= FLT_MAX)) return -1;
    lo = w[i] < lo ? w[i] : lo;
    hi = w[i] > hi ? w[i] : hi;
  }
  const float range = hi - lo;
  if (!(range <= 65504.0f)) return -1;
  sc[0] = 0;
  sc[1] = C_ZERO;
  memset(codes, 8, n);
  if (range < SMALLEST) return 0;
  sc[0] = tni_cm_f32_to_f16(range);
  const float s = tni_cm_f16_to_f32(sc[0]), inv = 1.0f / s;
  float c = 1.0f - lo * inv;
  if (zero_exact) c = floorf(c * 16.0f + 0.5f) * 0.0625f;
  /* Below 2, or h - c would not be exact. */
  const float top = zero_exact ? 1.9375f : 1.9990234375f;
  sc[1] = tni_cm_f32_to_f16(c < 1.0f ? 1.0f : c > top ? top : c);
  c = tni_cm_f16_to_f32(sc[1]);
  for (uint32_t i = 0; i < n; i++) {
    const float q = floorf((w[i] * inv + (c - 1.0f)) * 16.0f + 0.5f);
    codes[i] = (uint8_t)(q < 0 ? 0 : q > 15 ? 15 : q);
  }
  return 0;
}

static tn_status begin_e0m4(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                            uint32_t n, tn_pack **out, tn_error *err) {
  (void)f;
  tni_e0m4_geometry g;
  if (n != 1 || !params || params[0] < 0 || params[0] > 1)
    return tni_cm_fail(err, TN_E_INVALID, "e0m4", "e0m4 takes one parameter: zero_exact, 0 or 1");
  if (!w || !w->rows) return tni_cm_fail(err, TN_E_INVALID, "e0m4", "the weight gives no rows");
  tn_status st = tni_e0m4_geometry_of(w->N, w->K, &g);
  if (st != TN_OK)
    return tni_cm_fail(err, st, "e0m4", "e0m4 cannot hold [%lld,%lld]", (long long)w->N, (long long)w->K);
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, "e0m4", "out of memory");
  *p = (tn_pack){host, w, g, params[0] != 0};
  *out = p;
  return TN_OK;
}

/* Columns [n0, n0 + COLS) of one part, one group of K. rows: [n_rows][K]. */
static tn_status pack_tile(const tni_e0m4_geometry *g, int zero_exact, const float *rows, int64_t n_rows, int64_t k0,
                           uint16_t *w, int64_t pitch, uint16_t *s) {
  uint8_t codes[GROUP];
  const int64_t have = g->K - k0 < GROUP ? g->K - k0 : GROUP;
  for (int64_t n = 0; n < COLS; n++) {
    s[2 * n] = 0;
    s[2 * n + 1] = C_ZERO;
    memset(codes, 8, sizeof codes);
    if (n < n_rows && have > 0 && tni_e0m4_group(rows + n * g->K + k0, (uint32_t)have, zero_exact, codes, s + 2 * n))
      return TN_E_INVALID;
    for (int64_t k = 0; k < GROUP; k += 4)
      w[k / 4 * pitch + n] = (uint16_t)(codes[k] | codes[k + 1] << 4 | codes[k + 2] << 8 | codes[k + 3] << 12);
  }
  return TN_OK;
}

static tn_status pack_columns(const tn_pack *p, const float *rows, int64_t n0, int64_t n_rows, char *blob) {
  const tni_e0m4_geometry *g = &p->geo;
  const tni_e0m4_part part = tni_e0m4_part_of(g, n0 / g->part_n);
  const int64_t at = n0 - part.n0;
  tn_status st = TN_OK;
  for (int64_t k0 = 0; st == TN_OK && k0 < g->Kp; k0 += GROUP) {
    uint16_t *w = (uint16_t *)(void *)(blob + part.w_at) + k0 / 4 * part.Pn + at;
    uint16_t *s = (uint16_t *)(void *)(blob + part.s_at) + (k0 / GROUP * part.Pn + at) * 2;
    st = pack_tile(g, p->zero_exact, rows, n_rows, k0, w, part.Pn, s);
  }
  return st;
}

static tn_status pack_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  const tni_e0m4_geometry *g = &p->geo;
  if (n0 < 0 || n1 > g->N || n0 % COLS || (n1 % COLS && n1 != g->N)) return TN_E_INVALID;
  size_t bytes;
  if (__builtin_mul_overflow((size_t)g->K, sizeof(float) * COLS, &bytes)) return TN_E_LIMIT;
  float *buf = p->host->alloc(p->host->ctx, bytes, 64, TN_TAG_PACK);
  if (!buf) return TN_E_NO_MEMORY;
  tn_status st = TN_OK;
  for (int64_t n = n0; st == TN_OK && n < n1; n += COLS) {
    const int64_t end = n1 - n < COLS ? n1 : n + COLS;
    st = p->weight->rows(p->weight, n, end, buf);
    if (st == TN_OK) st = pack_columns(p, buf, n, end - n, blob);
  }
  p->host->free(p->host->ctx, buf);
  return st;
}

static tn_status end_e0m4(tn_pack *p, void *blob) {
  (void)blob; /* no header */
  if (p) p->host->free(p->host->ctx, p);
  return TN_OK;
}

/* --- unpacking -------------------------------------------------------------------------------------------------- */

/* bytes of the blob, from memory or file. */
static tn_status fetch_e0m4(const tn_blob *b, uint64_t at, uint64_t n, void *dst) {
  if (!b->ptr) return b->read(b, at, n, dst);
  memcpy(dst, (const char *)b->ptr + at, n);
  return TN_OK;
}

static tn_status unpack_tile(const tn_blob *b, const tni_e0m4_geometry *g, const tni_e0m4_part *part, int64_t k,
                             int64_t n, int64_t n_end, const int64_t box[4], float *dst) {
  uint16_t w[COLS], s[2 * COLS];
  const int64_t at = n - part->n0, count = n_end - n, width = box[3] - box[2];
  tn_status st = fetch_e0m4(b, part->w_at + (uint64_t)(k / 4 * part->Pn + at) * 2, (uint64_t)count * 2, w);
  if (st == TN_OK) st = fetch_e0m4(b, part->s_at + (uint64_t)(k / GROUP * part->Pn + at) * 4, (uint64_t)count * 4, s);
  for (int64_t i = 0; st == TN_OK && i < count; i++)
    for (int64_t j = 0; j < 4; j++) {
      if (k + j < box[2] || k + j >= box[3]) continue;
      const float h = 1.0f + (float)(w[i] >> 4 * j & 15) * 0.0625f;
      dst[(n + i - box[0]) * width + (k + j - box[2])] =
          tni_cm_f16_to_f32(s[2 * i]) * (h - tni_cm_f16_to_f32(s[2 * i + 1]));
    }
  (void)g;
  return st;
}

static tn_status unpack_e0m4(const tn_blob *b, const int64_t box[4], float *dst) {
  tni_e0m4_geometry g;
  tn_status st = tni_e0m4_geometry_of(b->N, b->K, &g);
  if (st != TN_OK) return st;
  const int64_t n0 = box[0], n1 = box[1], k0 = box[2], k1 = box[3];
  if (n0 < 0 || n0 > n1 || n1 > g.N || k0 < 0 || k0 > k1 || k1 > g.K || b->bytes < g.bytes) return TN_E_INVALID;
  for (int64_t n = n0, next; st == TN_OK && n < n1; n = next) {
    const tni_e0m4_part part = tni_e0m4_part_of(&g, n / g.part_n);
    next = (n / COLS + 1) * COLS;
    if (next > n1) next = n1;
    for (int64_t k = k0 / 4 * 4; st == TN_OK && k < k1; k += 4) st = unpack_tile(b, &g, &part, k, n, next, box, dst);
  }
  return st;
}

/* Largest error: the highest weight of a group falls beyond code 15 by a whole step of (hi - lo) / 16 <= absmax / 8;
 * halves of s and c add 2^-11 of the range each; with c on the grid of sixteenths half a step more. */
const tn_format tni_e0m4_format = {
    .h = TN_HDR(tn_format),
    .name = "e0m4",
    .version = 1,
    .bits = 4,
    .group = GROUP,
    .bits_per_weight = 4.25f,
    .w_err = 0.1905f,
    .x_err = 0x1p-11f,
    .numerics = &tni_e0m4_numerics,
    .size = size_of,
    .begin = begin_e0m4,
    .rows = pack_rows,
    .end = end_e0m4,
    .unpack = unpack_e0m4,
};
