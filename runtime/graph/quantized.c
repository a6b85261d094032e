/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/quantized.h"

#include <string.h>

enum { CHUNK = 256 };

static float scale_at(uint32_t dtype, const uint8_t *p, int64_t i) {
  float v;
  tni_elems_to_f32(dtype, p, i, 1, &v);
  return v;
}

static float block_scale(const tni_quantized *q, int64_t n, int64_t b) {
  const tni_quantized_levels *l = q->levels;
  if (!l || !l->n_steps) return scale_at(q->scale_dtype, q->scales, n * q->blocks + b);
  const uint32_t i = tni_quantized_code(l->index + n * l->index_row_bytes, b, l->index_bits);
  return scale_at(q->scale_dtype, q->scales, n) * l->steps[i];
}

static float zero_at(const tni_quantized *q, int64_t n, int64_t b) {
  if (q->zero_kind == TNI_ZERO_CODES)
    return (float)(tni_quantized_code(q->zeros + n * q->zero_row_bytes, b, q->bits) ^ q->flip);
  if (q->zero_kind == TNI_ZERO_VALUES) return scale_at(q->scale_dtype, q->zeros, n * q->blocks + b);
  return q->zero_kind == TNI_ZERO_NONE ? 0.f : (float)(1u << (q->bits - 1));
}

/* 0 or a normal number, or infinite; a NaN is none. */
static bool is_plain_half(const uint8_t *p, int64_t i) {
  uint16_t h;
  memcpy(&h, p + i * 2, sizeof h);
  h &= 0x7fff;
  return h == 0 || (h >= 0x0400 && h <= 0x7c00);
}

/* A binary16 that is no denormal: kernels that flush them read it too. */
static bool fits_half(float v) {
  uint16_t h = tni_f32_to_f16(v);
  float back;
  tni_elems_to_f32(TN_DT_F16, &h, 0, 1, &back);
  return back == v && (v == 0 || v >= 0x1p-14f || v <= -0x1p-14f);
}

/* What zeros of `kind` and one more are. */
static uint32_t with_zero(uint32_t kind, float z, uint32_t bits) {
  if (!(z >= -256 && z <= 256)) return TN_ZERO_UNKNOWN;
  return z == (float)(int)z && z >= 0 && z < (float)(1u << bits) ? kind : TN_ZERO_VALUES;
}

void tni_quantized_look(tni_quantized *q) {
  bool half = true;
  uint32_t zeros = q->zero_kind == TNI_ZERO_MIDDLE ? TN_ZERO_HALF : TN_ZERO_CODES;
  const int64_t scales = q->levels && q->levels->n_steps ? q->N : q->N * q->blocks;
  for (int64_t i = 0; half && i < scales; i++)
    half =
        q->scale_dtype == TN_DT_F16 ? is_plain_half(q->scales, i) : fits_half(scale_at(q->scale_dtype, q->scales, i));
  for (int64_t i = 0; q->zero_kind == TNI_ZERO_VALUES && zeros != TN_ZERO_UNKNOWN && i < q->N * q->blocks; i++)
    zeros = with_zero(zeros, scale_at(q->scale_dtype, q->zeros, i), q->bits);
  q->fits = half ? TN_DT_F16 : TN_DT_F32;
  q->zeros_are = zeros;
}

static void levels_row(const tni_quantized *q, int64_t n, int64_t k0, int64_t k1, float *dst) {
  const tni_quantized_levels *l = q->levels;
  const uint8_t *row = q->codes + n * q->row_bytes;
  for (int64_t k = k0; k < k1;) {
    const int64_t b = k / q->block, end = (b + 1) * q->block < k1 ? (b + 1) * q->block : k1;
    const float scale = block_scale(q, n, b);
    for (; k < end; k++) *dst++ = l->value[tni_quantized_code(row, k / l->vec, q->bits) * l->vec + k % l->vec] * scale;
  }
}

void tni_quantized_row(const tni_quantized *q, int64_t n, int64_t k0, int64_t k1, float *dst) {
  const uint8_t *row = q->codes + n * q->row_bytes;
  if (q->bits == TNI_STORED_HALVES) {
    tni_elems_to_f32(q->scale_dtype, row, k0, k1 - k0, dst);
    return;
  }
  if (q->levels) {
    levels_row(q, n, k0, k1, dst);
    return;
  }
  for (int64_t k = k0; k < k1;) {
    const int64_t b = k / q->block, end = (b + 1) * q->block < k1 ? (b + 1) * q->block : k1;
    const float scale = scale_at(q->scale_dtype, q->scales, n * q->blocks + b), zero = zero_at(q, n, b);
    float value[16];
    if (q->bits <= 4 && end - k >= 16) { /* a table pays */
      for (uint32_t c = 0; c < 1u << q->bits; c++) value[c] = ((float)(c ^ q->flip) - zero) * scale;
      for (; k < end; k++) *dst++ = value[tni_quantized_code(row, k, q->bits)];
    } else {
      for (; k < end; k++) *dst++ = ((float)(tni_quantized_code(row, k, q->bits) ^ q->flip) - zero) * scale;
    }
  }
}

void tni_quantized_grid(const tni_quantized *q, int64_t n, uint8_t *codes, float *scales, float *zeros) {
  const uint8_t *row = q->codes + n * q->row_bytes;
  const int64_t row_codes = tni_quantized_row_codes(q);
  for (int64_t k = 0; codes && k < row_codes; k++) codes[k] = (uint8_t)(tni_quantized_code(row, k, q->bits) ^ q->flip);
  for (int64_t b = 0; scales && b < q->blocks; b++) scales[b] = block_scale(q, n, b);
  for (int64_t b = 0; zeros && b < q->blocks; b++) zeros[b] = zero_at(q, n, b);
}

void tni_quantized_read(const tni_quantized *q, int64_t first, int64_t n, float *dst) {
  const int64_t width = q->transposed ? q->N : q->K;
  for (int64_t i = first; i < first + n;) {
    const int64_t r = i / width, c = i % width, m = width - c < first + n - i ? width - c : first + n - i;
    if (!q->transposed) tni_quantized_row(q, r, c, c + m, dst);
    for (int64_t j = 0; q->transposed && j < m; j++) tni_quantized_row(q, c + j, r, r + 1, dst + j);
    i += m;
    dst += m;
  }
}

static void put_as_dtype(uint32_t dtype, void *data, int64_t i, float v) {
  const uint16_t h = dtype == TN_DT_F16 ? tni_f32_to_f16(v) : tni_f32_to_bf16(v);
  if (dtype == TN_DT_F32)
    ((float *)data)[i] = v;
  else
    ((uint16_t *)data)[i] = h;
}

tn_status tni_quantized_dense(tni_tensor *t, tni_arena *arena) {
  const tni_quantized *q = t->quantized;
  float part[CHUNK];
  if (!q || t->data) return TN_OK;
  if (t->dtype != TN_DT_F32 && t->dtype != TN_DT_F16 && t->dtype != TN_DT_BF16) return TN_E_UNSUPPORTED;
  if (t->bytes > SIZE_MAX / 2) return TN_E_LIMIT;
  void *data = tni_arena_alloc(arena, t->bytes ? (size_t)t->bytes : 1, 64);
  if (!data) return TN_E_NO_MEMORY;
  const int64_t row = q->transposed ? 1 : q->K, step = q->transposed ? q->N : 1;
  for (int64_t n = 0; n < q->N; n++)
    for (int64_t k = 0; k < q->K; k += CHUNK) {
      const int64_t end = q->K - k < CHUNK ? q->K : k + CHUNK;
      tni_quantized_row(q, n, k, end, part);
      for (int64_t i = k; i < end; i++) put_as_dtype(t->dtype, data, n * row + i * step, part[i - k]);
    }
  t->data = data;
  return TN_OK;
}

tni_quantized tni_stored_halves(uint32_t dtype, const void *data, int64_t rows, int64_t columns, bool turned) {
  return (tni_quantized){.bits = TNI_STORED_HALVES,
                         .zero_kind = TNI_ZERO_NONE,
                         .N = rows,
                         .K = columns,
                         .block = columns,
                         .transposed = turned,
                         .scale_dtype = dtype,
                         .row_bytes = columns * 2,
                         .codes = data};
}

void tni_quantized_pieces(const tni_quantized *q, tni_quantized_piece pieces[TNI_QUANTIZED_PIECES]) {
  const bool stepped = q->levels && q->levels->n_steps, values = q->zero_kind == TNI_ZERO_VALUES;
  const uint64_t scale = tni_dtype_bits(q->scale_dtype) / 8, rows = (uint64_t)q->N;
  const uint64_t scale_row = (stepped ? 1 : (uint64_t)q->blocks) * scale;
  uint64_t zeros = 0;
  if (values || q->zero_kind == TNI_ZERO_CODES) zeros = rows * (values ? scale_row : (uint64_t)q->zero_row_bytes);
  pieces[TNI_QUANTIZED_CODES] = (tni_quantized_piece){q->codes, rows * (uint64_t)q->row_bytes};
  pieces[TNI_QUANTIZED_SCALES] = (tni_quantized_piece){q->scales, rows * scale_row};
  pieces[TNI_QUANTIZED_ZEROS] = (tni_quantized_piece){q->zeros, zeros};
  pieces[TNI_QUANTIZED_INDEX] = (tni_quantized_piece){0};
  if (stepped)
    pieces[TNI_QUANTIZED_INDEX] = (tni_quantized_piece){q->levels->index, rows * (uint64_t)q->levels->index_row_bytes};
}

uint64_t tni_quantized_bytes(const tni_quantized *q) {
  if (tni_is_stored_halves(q)) return (uint64_t)q->N * (uint64_t)q->row_bytes;
  tni_quantized_piece pieces[TNI_QUANTIZED_PIECES];
  uint64_t all = 0;
  tni_quantized_pieces(q, pieces);
  for (int i = 0; i < TNI_QUANTIZED_PIECES; i++) all += pieces[i].bytes;
  return all;
}

static tn_status read_grid(const tn_quant *view, int64_t n0, int64_t n1, uint8_t *codes, float *scales, float *zeros) {
  const tni_quantized *q = view->ctx;
  if (n0 < 0 || n1 < n0 || n1 > q->N) return TN_E_INVALID;
  for (int64_t n = n0; n < n1; n++) {
    const int64_t i = n - n0;
    tni_quantized_grid(q, n, codes ? codes + i * tni_quantized_row_codes(q) : NULL,
                       scales ? scales + i * q->blocks : NULL, zeros ? zeros + i * q->blocks : NULL);
  }
  return TN_OK;
}

static tn_status read_stepped(const tn_quant *view, int64_t n0, int64_t n1, uint8_t *index, float *parents) {
  const tni_quantized *q = view->ctx;
  const tni_quantized_levels *l = q->levels;
  if (n0 < 0 || n1 < n0 || n1 > q->N) return TN_E_INVALID;
  for (int64_t n = n0; n < n1; n++) {
    const uint8_t *row = l->index + n * l->index_row_bytes;
    for (int64_t b = 0; index && b < q->blocks; b++) *index++ = (uint8_t)tni_quantized_code(row, b, l->index_bits);
    if (parents) *parents++ = scale_at(q->scale_dtype, q->scales, n);
  }
  return TN_OK;
}

void tni_quantized_view(const tni_quantized *q, tn_quant *out) {
  *out = (tn_quant){.h = TN_HDR(tn_quant),
                    .bits = q->bits,
                    .group = (uint32_t)q->block,
                    .scheme = TN_QUANT_AFFINE,
                    .scale_dtype = q->fits ? q->fits : q->scale_dtype,
                    .ctx = q,
                    .grid = read_grid,
                    .zero_kind = q->zeros_are};
  const tni_quantized_levels *l = q->levels;
  if (!l) return;
  out->scheme = TN_QUANT_LEVELS;
  out->zero_kind = TN_ZERO_UNKNOWN;
  out->n_levels = l->n;
  out->levels = l->value;
  out->vec = l->vec;
  if (!l->n_steps) return;
  out->n_steps = l->n_steps;
  out->steps = l->steps;
  out->stepped = read_stepped;
}
