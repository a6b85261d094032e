/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants as [N,K] matrices for packing: as stored, transposed, or several joined along N.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/place/program_check.h"

typedef struct stored {
  tn_weight w; /* first: what callers see */
  const tni_tensor *t;
  tn_quant quant;
} stored;

typedef struct joined_weight {
  const tn_weight *const *parts;
  uint32_t n_parts;
  tn_quant quant;
} joined_weight;

/* Rows of a weight whose codes lie row by row, whichever way the tensor is seen. */
static tn_status rows_quantized(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const tni_quantized *q = ((const stored *)w->ctx)->t->quantized;
  if (n0 < 0 || n1 < n0 || n1 > w->N) return TN_E_INVALID;
  for (int64_t n = n0; n < n1; n++) tni_quantized_row(q, n, 0, w->K, dst + (n - n0) * w->K);
  return TN_OK;
}

static tn_status rows_as_stored(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  tni_tensor_to_f32(((const stored *)w->ctx)->t, n0 * w->K, (n1 - n0) * w->K, dst);
  return TN_OK;
}

/* Four floats of four rows, as four columns. */
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
static inline void transpose4(const float *src, int64_t src_row, float *dst, int64_t dst_row) {
  const four a = *(const four *)src, b = *(const four *)(src + src_row);
  const four c = *(const four *)(src + 2 * src_row), d = *(const four *)(src + 3 * src_row);
  const four p = __builtin_shufflevector(a, b, 0, 4, 1, 5), q = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const four r = __builtin_shufflevector(a, b, 2, 6, 3, 7), s = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  *(four *)dst = __builtin_shufflevector(p, q, 0, 1, 4, 5);
  *(four *)(dst + dst_row) = __builtin_shufflevector(p, q, 2, 3, 6, 7);
  *(four *)(dst + 2 * dst_row) = __builtin_shufflevector(r, s, 0, 1, 4, 5);
  *(four *)(dst + 3 * dst_row) = __builtin_shufflevector(r, s, 2, 3, 6, 7);
}

enum { TILE_K = 32, TILE_N = 64 };

/* Columns of a tile to rows K apart. */
static void put_tile(const float (*tile)[TILE_N], int64_t kk, int64_t m, float *dst, int64_t K) {
  const int64_t whole_k = kk & ~INT64_C(3), whole_m = m & ~INT64_C(3);
  for (int64_t i = 0; i < whole_m; i += 4)
    for (int64_t k = 0; k < whole_k; k += 4) transpose4(&tile[k][i], TILE_N, dst + i * K + k, K);
  for (int64_t i = 0; i < m; i++)
    for (int64_t k = i < whole_m ? whole_k : 0; k < kk; k++) dst[i * K + k] = tile[k][i];
}

/* Stored rows are read in order, so that a mapped file is read forwards; what the next tile reads is asked for, as a
 * part of a row is too short for the processor to see a stream. */
static void get_tile(const tni_tensor *t, int64_t first, int64_t row, int64_t next, int64_t kk, int64_t m,
                     float (*tile)[TILE_N]) {
  enum { LINE = 64 };
  const int64_t bytes = t->data ? tni_dtype_bits(t->dtype) / 8 : 0;
  for (int64_t k = 0; k < kk; k++) {
    tni_tensor_to_f32(t, first + k * row, m, tile[k]);
    if (k >= next) continue;
    const char *ahead = (const char *)t->data + (first + (k + TILE_K) * row) * bytes;
    for (int64_t i = 0; i < m * bytes; i += LINE) __builtin_prefetch(ahead + i);
  }
}

static tn_status rows_transposed(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const tni_tensor *t = ((const stored *)w->ctx)->t;
  float tile[TILE_K][TILE_N];
  for (int64_t k0 = 0; k0 < w->K; k0 += TILE_K) {
    const int64_t kk = w->K - k0 < TILE_K ? w->K - k0 : TILE_K, next = t->data ? w->K - k0 - kk : 0;
    for (int64_t n = n0; n < n1; n += TILE_N) {
      const int64_t m = n1 - n < TILE_N ? n1 - n : TILE_N;
      get_tile(t, k0 * w->N + n, w->N, next, kk, m, tile);
      put_tile((const float(*)[TILE_N])tile, kk, m, dst + (n - n0) * w->K + k0, w->K);
    }
  }
  return TN_OK;
}

tn_status tni_weight_of(const tn_graph *view, tn_id v, bool kn, tni_arena *arena, tn_weight **out, tn_error *err) {
  const tni_value *val = (const tni_value *)view->values[v];
  const tni_tensor *t = val->tensor;
  if (val->pub.kind != TN_VALUE_CONST || !t || t->rank != 2)
    return tni_fail(err, TN_E_INTERNAL, val->pub.name, "'%s' is not a constant matrix", val->pub.name);
  stored *s = TNI_NEW(arena, stored);
  if (!s) return tni_fail_memory(err, val->pub.name);
  s->t = t;
  s->w = (tn_weight){.h = TN_HDR(tn_weight),
                     .ctx = s,
                     .N = t->dims[kn ? 1 : 0],
                     .K = t->dims[kn ? 0 : 1],
                     .dtype = t->dtype,
                     .flags = kn ? TN_WEIGHT_TRANSPOSED : 0,
                     .raw = t->data,
                     .x = val->pub.data ? val->pub.data->x : NULL,
                     .rows = kn ? rows_transposed : rows_as_stored};
  if (t->quantized && t->quantized->transposed == kn) {
    s->w.rows = rows_quantized;
    if (!tni_is_stored_halves(t->quantized)) {
      tni_quantized_view(t->quantized, &s->quant);
      s->w.quant = &s->quant;
    }
  }
  *out = &s->w;
  return TN_OK;
}

static tn_status rows_joined(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const joined_weight *j = w->ctx;
  int64_t first = 0;
  for (uint32_t i = 0; i < j->n_parts; i++) {
    int64_t n = j->parts[i]->N, a = n0 > first ? n0 - first : 0, b = n1 - first < n ? n1 - first : n;
    if (a < b) {
      tn_status st = j->parts[i]->rows(j->parts[i], a, b, dst + (first + a - n0) * w->K);
      if (st != TN_OK) return st;
    }
    first += n;
  }
  return TN_OK;
}

static tn_status joined_grid(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *codes, float *scales, float *zeros) {
  const joined_weight *j = q->ctx;
  const int64_t K = j->parts[0]->K, blocks = (K + q->group - 1) / q->group;
  const int64_t row_codes = q->vec > 1 ? (K + q->vec - 1) / q->vec : K;
  int64_t first = 0;
  for (uint32_t i = 0; i < j->n_parts; i++) {
    const tn_quant *part = j->parts[i]->quant;
    const int64_t n = j->parts[i]->N, a = n0 > first ? n0 - first : 0, b = n1 - first < n ? n1 - first : n;
    if (a < b) {
      const int64_t at = first + a - n0;
      tn_status st = part->grid(part, a, b, codes ? codes + at * row_codes : NULL, scales ? scales + at * blocks : NULL,
                                zeros ? zeros + at * blocks : NULL);
      if (st != TN_OK) return st;
    }
    first += n;
  }
  return TN_OK;
}

static tn_status joined_stepped(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *index, float *parents) {
  const joined_weight *j = q->ctx;
  const int64_t blocks = (j->parts[0]->K + q->group - 1) / q->group;
  int64_t first = 0;
  for (uint32_t i = 0; i < j->n_parts; i++) {
    const tn_quant *part = j->parts[i]->quant;
    const int64_t n = j->parts[i]->N, a = n0 > first ? n0 - first : 0, b = n1 - first < n ? n1 - first : n;
    if (a < b) {
      const int64_t at = first + a - n0;
      tn_status st = part->stepped(part, a, b, index ? index + at * blocks : NULL, parents ? parents + at : NULL);
      if (st != TN_OK) return st;
    }
    first += n;
  }
  return TN_OK;
}

static bool same_numbers(const float *a, uint32_t n, const float *b, uint32_t m, uint32_t vec) {
  return n == m && (n == 0 || a == b || memcmp(a, b, sizeof *a * n * vec) == 0);
}

/* Levels and steps of both are one table. */
static bool same_tables(const tn_quant *a, const tn_quant *b) {
  return a->vec == b->vec && same_numbers(a->levels, a->n_levels, b->levels, b->n_levels, a->vec ? a->vec : 1) &&
         same_numbers(a->steps, a->n_steps, b->steps, b->n_steps, 1);
}

/* VALUES hold codes, and those the middle. */
static uint32_t zeros_of_both(uint32_t a, uint32_t b) {
  return a == TN_ZERO_UNKNOWN || b == TN_ZERO_UNKNOWN ? TN_ZERO_UNKNOWN : a > b ? a : b;
}

/* One grid for all, where they have one of the same bits and groups. */
static const tn_quant *common_grid(joined_weight *j) {
  const tn_quant *q = j->parts[0]->quant;
  if (!q) return NULL;
  j->quant = *q;
  for (uint32_t i = 0; i < j->n_parts; i++) {
    const tn_quant *o = j->parts[i]->quant;
    if (!o || o->bits != q->bits || o->group != q->group || o->scheme != q->scheme || !same_tables(q, o)) return NULL;
    if (o->scale_dtype != q->scale_dtype) j->quant.scale_dtype = TN_DT_F32;
    j->quant.zero_kind = zeros_of_both(j->quant.zero_kind, o->zero_kind);
  }
  j->quant.ctx = j;
  j->quant.grid = joined_grid;
  if (q->n_steps) j->quant.stepped = joined_stepped;
  return &j->quant;
}

/* Of the activation that meets all of them; NULL where they meet several. */
static const tn_stats *common_stats(const tn_weight *const *parts, uint32_t n) {
  const tn_stats *x = parts[0]->x;
  for (uint32_t i = 1; i < n; i++)
    if (parts[i]->x != x) x = NULL;
  return x;
}

tn_status tni_need_prepare(const tn_graph *view, const tn_need *need, tni_arena *arena, tni_need *out, tn_error *err) {
  *out = (tni_need){.need = need, .blob = TN_NONE};
  if (!need->format) return TN_OK;
  out->parts = TNI_NEW_ARRAY(arena, const tn_weight *, need->n_values);
  joined_weight *j = TNI_NEW(arena, joined_weight);
  if (!out->parts || !j) return tni_fail_memory(err, "weights");
  int64_t N = 0;
  for (uint32_t i = 0; i < need->n_values; i++) {
    tn_weight *w = NULL;
    tn_status st = tni_weight_of(view, need->values[i], need->flags & TN_NEED_KN, arena, &w, err);
    if (st != TN_OK) return st;
    if (w->K != (i ? out->parts[0]->K : w->K))
      return tni_fail(err, TN_E_INTERNAL, view->values[need->values[i]]->name,
                      "joined weights differ in K: %lld and %lld", (long long)out->parts[0]->K, (long long)w->K);
    out->parts[i] = w;
    N += w->N;
  }
  *j = (joined_weight){.parts = out->parts, .n_parts = need->n_values};
  out->joined = need->n_values == 1 ? *out->parts[0]
                                    : (tn_weight){.h = TN_HDR(tn_weight),
                                                  .ctx = j,
                                                  .N = N,
                                                  .K = out->parts[0]->K,
                                                  .dtype = TN_DT_F32,
                                                  .quant = common_grid(j),
                                                  .x = common_stats(out->parts, need->n_values),
                                                  .rows = rows_joined};
  return TN_OK;
}
