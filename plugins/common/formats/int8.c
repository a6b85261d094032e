/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/int8.h"

#include <math.h>
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/formats/source.h"

enum { ROWS = TNI_INT8_ROWS };
_Static_assert((int)ROWS == (int)TNI_CM_SOURCE_ROWS, "blocks of the source are ours");

struct tn_pack {
  const tn_host *host;
  const tn_weight *weight;
  tni_int8_geometry geo;
  int32_t offset;
  bool bytes; /* the constant is of int8 or uint8 */
};

static const tn_numerics int8_numerics = {.h = TN_HDR(tn_numerics),
                                          .act_dtype = TN_DT_F32,
                                          .act_scheme = TN_ACT_NONE,
                                          .acc_inner = TN_DT_I32,
                                          .acc_outer = TN_DT_F32,
                                          .scale_dtype = TN_DT_F32,
                                          .denormals = TN_DENORM_KEEP,
                                          .nan = TN_NAN_UNDEFINED,
                                          .finite_max = 1e30};

tn_status tni_int8_geometry_of(int64_t N, int64_t K, tni_int8_geometry *out) {
  const int64_t most = INT64_C(1) << 31;
  if (N < 1 || K < 1 || N > most || K > most) return TN_E_INVALID;
  tni_int8_geometry g = {.N = N, .K = K, .K_padded = (K + TNI_INT8_STEP - 1) / TNI_INT8_STEP * TNI_INT8_STEP};
  g.row_block_bytes = g.K_padded * ROWS + TNI_INT8_TAIL;
  if (__builtin_mul_overflow((uint64_t)((N + ROWS - 1) / ROWS), (uint64_t)g.row_block_bytes, &g.bytes))
    return TN_E_LIMIT;
  if (g.bytes > INT64_MAX) return TN_E_LIMIT;
  *out = g;
  return TN_OK;
}

static bool int8_params(const int64_t *params, uint32_t n) {
  return n == 1 && params && (params[0] == 0 || params[0] == 1);
}

static tn_status size_of_int8(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                              tn_pack_size *out) {
  (void)f;
  tni_int8_geometry g;
  if (!int8_params(params, n) || !out) return TN_E_INVALID;
  const tn_status st = tni_int8_geometry_of(N, K, &g);
  if (st == TN_OK) *out = (tn_pack_size){.bytes = g.bytes, .align = 64, .row_unit = ROWS};
  return st;
}

static tn_status begin_int8(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                            uint32_t n, tn_pack **out, tn_error *err) {
  (void)f;
  tni_int8_geometry g;
  if (!int8_params(params, n))
    return tni_cm_fail(err, TN_E_INVALID, "int8", "int8 takes one parameter: unsigned, 0 or 1");
  if (!w || !w->rows) return tni_cm_fail(err, TN_E_INVALID, "int8", "the weight gives no rows");
  const tn_status st = tni_int8_geometry_of(w->N, w->K, &g);
  if (st != TN_OK)
    return tni_cm_fail(err, st, "int8", "int8 cannot hold [%lld,%lld]", (long long)w->N, (long long)w->K);
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, "int8", "out of memory");
  *p = (tn_pack){host, w, g, (int32_t)params[0] * 128, w->dtype == (params[0] ? TN_DT_U8 : TN_DT_I8)};
  *out = p;
  return TN_OK;
}

static float scale_of(const tn_pack *p, const float *w) {
  float most = 0;
  if (p->bytes) return 1;
  for (int64_t k = 0; k < p->geo.K; k++) most = fabsf(w[k]) > most ? fabsf(w[k]) : most;
  return most > 0 && most < INFINITY ? most / 127 : 1;
}

static int8_t code_of(const tn_pack *p, float w, float scale) {
  const float c = roundf(w / scale) - (float)(p->bytes ? p->offset : 0);
  return (int8_t)(c > 127 ? 127 : c >= -128 ? (int32_t)c : -128);
}

/* Rows [row, row + n_rows) of the source -> one row block. */
static tn_status pack_int8_block(const void *ctx, const tni_cm_source *s, int64_t row, int64_t n_rows, uint8_t *block) {
  const tn_pack *p = ctx;
  const tni_int8_geometry *g = &p->geo;
  int32_t sums[ROWS] = {0};
  int32_t offsets[ROWS] = {0};
  float scales[ROWS] = {0};
  memset(block, 0, (size_t)g->row_block_bytes);
  for (int64_t r = 0; r < n_rows; r++) {
    const float *w = s->w + (row + r) * g->K;
    scales[r] = scale_of(p, w);
    offsets[r] = p->bytes ? p->offset : 0;
    for (int64_t k = 0; k < g->K; k++) {
      const int8_t c = code_of(p, w[k], scales[r]);
      block[k / 4 * 4 * ROWS + r * 4 + k % 4] = (uint8_t)c;
      sums[r] += c;
    }
  }
  memcpy(block + g->K_padded * ROWS, sums, sizeof sums);
  memcpy(block + g->K_padded * ROWS + sizeof sums, scales, sizeof scales);
  memcpy(block + g->K_padded * ROWS + sizeof sums + sizeof scales, offsets, sizeof offsets);
  return TN_OK;
}

static tn_status pack_int8_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  return tni_cm_source_blocks(p->host, p->weight, NULL, n0, n1, pack_int8_block, p, blob, p->geo.row_block_bytes);
}

static tn_status end_int8(tn_pack *p, void *blob) {
  (void)blob;
  if (p) p->host->free(p->host->ctx, p);
  return TN_OK;
}

static tn_status read_int8(const tn_blob *b, int64_t at, size_t n, void *dst) {
  if (!b->ptr) return b->read(b, (uint64_t)at, n, dst);
  memcpy(dst, (const char *)b->ptr + at, n);
  return TN_OK;
}

static tn_status unpack_int8(const tn_blob *b, const int64_t box[4], float *dst) {
  const int64_t n0 = box[0], n1 = box[1], k0 = box[2], k1 = box[3];
  tni_int8_geometry g;
  if (!int8_params(b->params, b->n_params)) return TN_E_INVALID;
  tn_status st = tni_int8_geometry_of(b->N, b->K, &g);
  if (st != TN_OK) return st;
  if (n0 < 0 || n0 > n1 || n1 > g.N || k0 < 0 || k0 > k1 || k1 > g.K || b->bytes < g.bytes) return TN_E_INVALID;
  for (int64_t n = n0; st == TN_OK && n < n1; n++) {
    const int64_t block = n / ROWS * g.row_block_bytes, lane = n % ROWS;
    float scale;
    int32_t offset;
    int8_t codes[TNI_INT8_ROWS * 4];
    st = read_int8(b, block + g.K_padded * ROWS + (ROWS + lane) * 4, sizeof scale, &scale);
    if (st == TN_OK) st = read_int8(b, block + g.K_padded * ROWS + (2 * ROWS + lane) * 4, sizeof offset, &offset);
    for (int64_t k = k0; st == TN_OK && k < k1; k++) {
      if (k == k0 || k % 4 == 0) st = read_int8(b, block + k / 4 * 4 * ROWS, sizeof codes, codes);
      *dst++ = (float)(codes[lane * 4 + k % 4] + offset) * scale;
    }
  }
  return st;
}

const tn_format tni_int8_format = {
    .h = TN_HDR(tn_format),
    .name = "int8",
    .version = 1,
    .bits = 8,
    .bits_per_weight = 8.1f,
    .w_err = 0.5f / 127.0f + 1e-6f,
    .x_err = 6e-8f, /* float32 */
    .numerics = &int8_numerics,
    .size = size_of_int8,
    .begin = begin_int8,
    .rows = pack_int8_rows,
    .end = end_int8,
    .unpack = unpack_int8,
};
