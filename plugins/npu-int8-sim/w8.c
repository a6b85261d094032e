/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/npu-int8-sim/w8.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/base/base.h"

enum { TILE = 32, FETCH_ROWS = 64 };

struct tn_pack {
  const tn_host *host;
  const tn_weight *weight;
  int64_t N, K;
  float scale;
};

#define NUMERICS(max, dtype)                                                                                    \
  {                                                                                                             \
    .h = TN_HDR(tn_numerics), .act_dtype = dtype, .act_scheme = TN_ACT_STATIC, .act_round = TN_ROUND_HALF_EVEN, \
    .act_max = max, .acc_inner = TN_DT_I64, .acc_outer = TN_DT_F64, .scale_dtype = TN_DT_F32,                   \
    .denormals = TN_DENORM_KEEP, .nan = TN_NAN_UNDEFINED, .finite_max = 3e38,                                   \
  }
static const tn_numerics narrow_numerics = NUMERICS(127.0f, TN_DT_I8),
                         wide = NUMERICS((float)TNI_W8_WIDE_MAX, TN_DT_I32);
#undef NUMERICS

static const tn_numerics *numerics_of(const tn_format *f, const int64_t *params, uint32_t n) {
  (void)f;
  return n == 0 ? &wide : n == 2 && params ? (params[1] ? &wide : &narrow_numerics) : NULL;
}

void tni_w8a8_params(float s, int is_wide, int64_t params[2]) {
  uint32_t bits;
  memcpy(&bits, &s, sizeof bits);
  params[0] = bits;
  params[1] = is_wide != 0;
}

/* --- sizes ------------------------------------------------------------------------------------------------------ */

static bool dims_good(int64_t N, int64_t K) { return N > 0 && K > 0 && N <= TNI_W8_MAX_N && K <= TNI_W8_MAX_K; }
static uint64_t round_up_w8(int64_t n, uint64_t to) { return ((uint64_t)n + to - 1) / to * to; }

uint64_t tni_w8r_pitch(int64_t N) { return round_up_w8(N, TNI_W8R_PITCH); }
uint64_t tni_w8a8_codes(int64_t N, int64_t K) {
  return dims_good(N, K) ? round_up_w8(N, TILE) * round_up_w8(K, TILE) : 0;
}
uint64_t tni_w8r_codes(int64_t N, int64_t K) { return dims_good(N, K) ? tni_w8r_pitch(N) * (uint64_t)K : 0; }

static tn_status size_of(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                         tn_pack_size *out) {
  const bool tiles = !strcmp(f->name, "w8a8");
  if (!dims_good(N, K) || !out || (tiles ? !numerics_of(f, params, n) : n != 0)) return TN_E_INVALID;
  if (tiles)
    *out = (tn_pack_size){.bytes = tni_w8a8_codes(N, K) + TNI_W8_TRAILER, .align = 128, .row_unit = TILE};
  else
    *out = (tn_pack_size){.bytes = tni_w8r_codes(N, K) + TNI_W8R_TRAILER, .align = 64, .row_unit = TNI_W8R_PITCH};
  return TN_OK;
}

/* --- packing ---------------------------------------------------------------------------------------------------- */

static float *fetch_room(const tn_host *host, int64_t K) {
  return host->alloc(host->ctx, sizeof(float) * FETCH_ROWS * (size_t)K, 64, TN_TAG_PACK);
}

static tn_status find_absmax(const tn_host *host, const tn_weight *w, float *absmax, tn_error *err) {
  float *buf = fetch_room(host, w->K), max = 0;
  if (!buf) return tni_cm_fail(err, TN_E_NO_MEMORY, "w8", "out of memory");
  tn_status st = TN_OK;
  bool finite = true;
  for (int64_t n = 0; st == TN_OK && n < w->N; n += FETCH_ROWS) {
    const int64_t end = w->N - n < FETCH_ROWS ? w->N : n + FETCH_ROWS;
    if (TN_HAS(host, tn_host, cancelled) && host->cancelled && host->cancelled(host->ctx)) st = TN_E_CANCELLED;
    if (st == TN_OK) st = w->rows(w, n, end, buf);
    for (int64_t i = 0; st == TN_OK && i < (end - n) * w->K; i++) {
      const float a = fabsf(buf[i]);
      finite = finite && a <= 3.4028234e38f;
      max = a > max ? a : max;
    }
  }
  host->free(host->ctx, buf);
  if (st == TN_OK && !finite) return tni_cm_fail(err, TN_E_INVALID, "w8", "a weight is NaN or infinite");
  if (st != TN_OK) return tni_cm_fail(err, st, "w8", "the weights cannot be read");
  *absmax = max;
  return TN_OK;
}

static float scale_of(float absmax) {
  float s = absmax / 127.0f;
  uint32_t bits;
  memcpy(&bits, &s, sizeof bits);
  bits = (bits + 127u) & ~127u;
  memcpy(&s, &bits, sizeof s);
  return s;
}

static tn_status begin_w8(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                          uint32_t n, tn_pack **out, tn_error *err) {
  tn_pack_size size;
  float absmax = 0;
  if (!w || !w->rows) return tni_cm_fail(err, TN_E_INVALID, f->name, "the weight gives no rows");
  if (size_of(f, w->N, w->K, params, n, &size) != TN_OK)
    return tni_cm_fail(err, TN_E_INVALID, f->name, "%s cannot hold [%lld,%lld] with %u parameters", f->name,
                       (long long)w->N, (long long)w->K, n);
  tn_status st = find_absmax(host, w, &absmax, err);
  if (st != TN_OK) return st;
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, f->name, "out of memory");
  *p = (tn_pack){host, w, w->N, w->K, scale_of(absmax)};
  *out = p;
  return TN_OK;
}

static int8_t code_of(float w, float s) { return (int8_t)(s > 0 ? rintf(w / s) : 0); }

typedef void (*put_row_fn)(const tn_pack *p, int64_t n0, int64_t n1, const float *rows, uint8_t *blob);

/* Rows of a tile that N lacks are zeros; the last caller's range ends at N. */
static void put_tiles(const tn_pack *p, int64_t n0, int64_t n1, const float *rows, uint8_t *blob) {
  const int64_t Kp = (int64_t)round_up_w8(p->K, TILE);
  for (int64_t n = n0; n < (int64_t)round_up_w8(n1, TILE); n++) {
    int8_t *tile = (int8_t *)blob + n / TILE * TILE * Kp + n % TILE * TILE;
    for (int64_t k = 0; k < Kp; k++)
      tile[k / TILE * TILE * TILE + k % TILE] =
          n < n1 && k < p->K ? code_of(rows[(n - n0) * p->K + k], p->scale) : (int8_t)0;
  }
}

static void put_rows(const tn_pack *p, int64_t n0, int64_t n1, const float *rows, uint8_t *blob) {
  const int64_t pitch = (int64_t)tni_w8r_pitch(p->N), end = n1 == p->N ? pitch : n1;
  for (int64_t k = 0; k < p->K; k++)
    for (int64_t n = n0; n < end; n++)
      ((int8_t *)blob)[k * pitch + n] = n < n1 ? code_of(rows[(n - n0) * p->K + k], p->scale) : (int8_t)0;
}

static tn_status pack_rows(tn_pack *p, int64_t n0, int64_t n1, int64_t unit, put_row_fn put, void *blob) {
  if (n0 < 0 || n1 > p->N || n0 % unit || (n1 % unit && n1 != p->N)) return TN_E_INVALID;
  float *buf = fetch_room(p->host, p->K);
  if (!buf) return TN_E_NO_MEMORY;
  tn_status st = TN_OK;
  for (int64_t n = n0; st == TN_OK && n < n1; n += FETCH_ROWS) {
    const int64_t end = n1 - n < FETCH_ROWS ? n1 : n + FETCH_ROWS;
    st = p->weight->rows(p->weight, n, end, buf);
    if (st == TN_OK) put(p, n, end, buf, blob);
  }
  p->host->free(p->host->ctx, buf);
  return st;
}

static tn_status w8a8_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  return pack_rows(p, n0, n1, TILE, put_tiles, blob);
}

static tn_status w8r_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  return pack_rows(p, n0, n1, TNI_W8R_PITCH, put_rows, blob);
}

static tn_status finish_w8(tn_pack *p, void *blob, uint64_t at, size_t trailer) {
  if (!p) return TN_OK;
  if (blob) {
    memset((uint8_t *)blob + at, 0, trailer);
    memcpy((uint8_t *)blob + at, &p->scale, sizeof p->scale);
  }
  p->host->free(p->host->ctx, p);
  return TN_OK;
}

static tn_status w8a8_end(tn_pack *p, void *blob) {
  return finish_w8(p, blob, p ? tni_w8a8_codes(p->N, p->K) : 0, TNI_W8_TRAILER);
}

static tn_status w8r_end(tn_pack *p, void *blob) {
  return finish_w8(p, blob, p ? tni_w8r_codes(p->N, p->K) : 0, TNI_W8R_TRAILER);
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static tn_status read_blob(const tn_blob *b, uint64_t at, uint64_t n, void *dst) {
  if (at > b->bytes || n > b->bytes - at) return TN_E_CORRUPT;
  if (b->ptr) {
    memcpy(dst, (const uint8_t *)b->ptr + at, n);
    return TN_OK;
  }
  return b->read ? b->read(b, at, n, dst) : TN_E_INVALID;
}

tn_status tni_w8_scale(const tn_blob *b, float *s) {
  const bool tiles = !strcmp(b->format->name, "w8a8");
  const uint64_t at = tiles ? tni_w8a8_codes(b->N, b->K) : tni_w8r_codes(b->N, b->K);
  tn_status st = at ? read_blob(b, at, sizeof *s, s) : TN_E_INVALID;
  return st == TN_OK && !(*s >= 0 && *s <= 3e36f) ? TN_E_CORRUPT : st;
}

static bool good_box(const tn_blob *b, const int64_t box[4]) {
  return dims_good(b->N, b->K) && box[0] >= 0 && box[0] <= box[1] && box[1] <= b->N && box[2] >= 0 &&
         box[2] <= box[3] && box[3] <= b->K;
}

/* Row n of a tile is 32 codes in one piece. */
static tn_status w8a8_unpack(const tn_blob *b, const int64_t box[4], float *dst) {
  float s;
  int8_t code[TILE];
  if (!good_box(b, box)) return TN_E_INVALID;
  const int64_t Kp = (int64_t)round_up_w8(b->K, TILE), width = box[3] - box[2];
  tn_status st = tni_w8_scale(b, &s);
  for (int64_t n = box[0]; n < box[1]; n++) {
    for (int64_t k = box[2]; st == TN_OK && k < box[3];) {
      const int64_t end = k / TILE * TILE + TILE < box[3] ? k / TILE * TILE + TILE : box[3];
      st = read_blob(b, (uint64_t)(n / TILE * TILE * Kp + k / TILE * TILE * TILE + n % TILE * TILE + k % TILE),
                     (uint64_t)(end - k), code);
      for (int64_t i = 0; st == TN_OK && i < end - k; i++)
        dst[(n - box[0]) * width + k - box[2] + i] = (float)code[i] * s;
      k = end;
    }
  }
  return st;
}

static tn_status w8r_unpack(const tn_blob *b, const int64_t box[4], float *dst) {
  float s;
  int8_t code[TILE];
  if (!good_box(b, box)) return TN_E_INVALID;
  const int64_t pitch = (int64_t)tni_w8r_pitch(b->N), width = box[3] - box[2];
  tn_status st = tni_w8_scale(b, &s);
  for (int64_t k = box[2]; k < box[3]; k++) {
    for (int64_t n = box[0]; st == TN_OK && n < box[1]; n += TILE) {
      const int64_t count = box[1] - n < TILE ? box[1] - n : TILE;
      st = read_blob(b, (uint64_t)(k * pitch + n), (uint64_t)count, code);
      for (int64_t i = 0; st == TN_OK && i < count; i++)
        dst[(n + i - box[0]) * width + k - box[2]] = (float)code[i] * s;
    }
  }
  return st;
}

#define FORMAT(text, with_numerics)                                                           \
  .h = TN_HDR(tn_format), .name = text, .version = 1, .bits = 8, .bits_per_weight = 8.0f,     \
  .w_err = 0.5f / 127.0f * (1 + 0x1p-15f), .x_err = 0.5f / 127.0f + 1e-6f, .numerics = &wide, \
  .numerics_of = with_numerics, .size = size_of, .begin = begin_w8
const tn_format tni_w8a8_format = {FORMAT("w8a8", numerics_of), .rows = w8a8_rows, .end = w8a8_end,
                                   .unpack = w8a8_unpack};
const tn_format tni_w8r_format = {FORMAT("w8r", NULL), .rows = w8r_rows, .end = w8r_end, .unpack = w8r_unpack};
#undef FORMAT
