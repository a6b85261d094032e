/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/source.h"

#include <math.h>
#include <string.h>

#include "plugins/common/formats/f16.h"

enum { ROWS = TNI_CM_SOURCE_ROWS, STEP = 4 * ROWS, MOST_FLOATS = 1 << 20 };

const tn_quant *tni_cm_grid_of(const tn_weight *w, uint32_t bits, int64_t group) {
  const tn_quant *q = TN_HAS(w, tn_weight, quant) ? w->quant : NULL;
  if (!q || !TN_HAS(q, tn_quant, grid) || !q->grid || q->scheme != TN_QUANT_AFFINE) return NULL;
  const bool whole = q->group && (q->group % (uint32_t)group == 0 || q->group >= w->K);
  return q->bits <= bits && whole ? q : NULL;
}

tn_status tni_cm_give_grid(tn_grid *out, const tn_grid *g) {
  tn_grid all = *g;
  if (!out || out->h.size < TN_UPTO(tn_grid, level_dtype)) return TN_E_INVALID;
  all.h = out->h;
  memcpy(out, &all, out->h.size < sizeof all ? out->h.size : sizeof all);
  return TN_OK;
}

bool tni_cm_keeps(const tn_weight *w) {
  const tn_quant *q = TN_HAS(w, tn_weight, quant) ? w->quant : NULL;
  return q && TN_HAS(q, tn_quant, levels) && q->flags & TN_QUANT_KEEP;
}

static uint32_t vec_of(const tn_quant *q) { return TN_HAS(q, tn_quant, vec) && q->vec ? q->vec : 1; }

/* Codes for as many weights as g's and, where the format has levels of its own, those. */
static bool has_levels(const tn_quant *q, const tn_grid *g) {
  const uint32_t vec = g->vec ? g->vec : 1;
  if (vec_of(q) != vec) return false;
  return !g->levels ||
         (q->n_levels == g->n_codes && !memcmp(q->levels, g->levels, sizeof *q->levels * vec * q->n_levels));
}

static bool has_steps(const tn_quant *q, const tn_grid *g) {
  if (!TN_HAS(q, tn_quant, stepped) || !q->stepped || !q->steps || q->n_steps != g->n_steps) return false;
  return memcmp(q->steps, g->steps, sizeof *q->steps * q->n_steps) == 0;
}

const tn_quant *tni_cm_given(const tn_weight *w, const tn_grid *g) {
  return tni_cm_keeps(w) ? tni_cm_on_grid(w, g) : NULL;
}

const tn_quant *tni_cm_on_grid(const tn_weight *w, const tn_grid *g) {
  const tn_quant *q = TN_HAS(w, tn_weight, quant) ? w->quant : NULL;
  if (!q || !TN_HAS(q, tn_quant, levels) || !q->grid || !q->group) return NULL;
  const bool levels = g->kind == TN_GRID_LEVELS;
  if (q->scheme != (levels ? TN_QUANT_LEVELS : TN_QUANT_AFFINE)) return NULL;
  if (levels && (!q->levels || !q->n_levels || q->n_levels > g->n_codes)) return NULL;
  if (levels && !has_levels(q, g)) return NULL;
  if (g->n_steps && !has_steps(q, g)) return NULL;
  const bool row = q->group >= w->K;
  return row || (g->group && q->group == g->group) ? q : NULL;
}

/* Several row blocks at a time, since a [K,N] source is read along its rows; fewer where K is large. */
static int64_t step_of(int64_t K) {
  const int64_t fit = MOST_FLOATS / K / ROWS * ROWS;
  return fit < ROWS ? ROWS : fit > STEP ? STEP : fit;
}

static size_t blocks_of(const tn_weight *w, const tn_quant *grid) {
  return ((size_t)w->K + grid->group - 1) / grid->group;
}

/* Room for the rows of one step. Of a grid a row has scales and zeros, a parent, codes and an index of each block. */
static size_t room_bytes(const tn_weight *w, const tn_quant *grid) {
  const size_t K = (size_t)w->K, n = (size_t)step_of(w->K); /* below 2^31 and 2^7 */
  if (!grid) return n * K * sizeof(float);
  return n * (K + sizeof(float) + (2 * sizeof(float) + 1) * blocks_of(w, grid));
}

/* Rows [n0, n1), at most a step, into room. */
static tn_status read_rows(const tn_weight *w, const tn_quant *grid, int64_t n0, int64_t n1, void *room,
                           tni_cm_source *out) {
  *out = (tni_cm_source){.K = w->K, .w = room};
  if (!grid) return w->rows(w, n0, n1, room);
  out->block = grid->group;
  out->blocks = (int64_t)blocks_of(w, grid);
  const int64_t n = n1 - n0, vec = grid->scheme == TN_QUANT_LEVELS ? vec_of(grid) : 1;
  out->row_codes = (w->K + vec - 1) / vec;
  float *scales = room, *zeros = scales + n * out->blocks, *parents = zeros + n * out->blocks;
  uint8_t *codes = (uint8_t *)(parents + n), *index = codes + n * out->row_codes;
  out->codes = codes;
  out->scales = scales;
  out->zeros = zeros;
  const tn_status st = grid->grid(grid, n0, n1, codes, scales, zeros);
  if (st != TN_OK || !TN_HAS(grid, tn_quant, stepped) || !grid->stepped) return st;
  out->index = index;
  out->parents = parents;
  return grid->stepped(grid, n0, n1, index, parents);
}

tn_status tni_cm_source_blocks(const tn_host *host, const tn_weight *w, const tn_quant *grid, int64_t n0, int64_t n1,
                               tni_cm_block_fn fn, const void *ctx, uint8_t *blob, int64_t block_bytes) {
  const int64_t step = step_of(w->K);
  if (n0 < 0 || n1 > w->N || n0 % ROWS || (n1 % ROWS && n1 != w->N)) return TN_E_INVALID;
  void *room = host->alloc(host->ctx, room_bytes(w, grid), 64, TN_TAG_PACK);
  if (!room) return TN_E_NO_MEMORY;
  tn_status st = TN_OK;
  for (int64_t n = n0; st == TN_OK && n < n1; n += step) {
    const int64_t end = n1 - n < step ? n1 : n + step;
    tni_cm_source s;
    st = read_rows(w, grid, n, end, room, &s);
    for (int64_t r = n; st == TN_OK && r < end; r += ROWS)
      st = fn(ctx, &s, r - n, end - r < ROWS ? end - r : ROWS, blob ? blob + r / ROWS * block_bytes : NULL);
  }
  host->free(host->ctx, room);
  return st;
}

bool tni_cm_source_codes(const tni_cm_source *s, int64_t row, int64_t k0, uint32_t n, int32_t zero, int32_t top,
                         uint8_t *codes, uint16_t *scale) {
  if (!s->codes) return false;
  const int64_t at = row * s->blocks + k0 / s->block;
  const uint8_t *code = s->codes + row * s->K + k0;
  const uint16_t h = tni_cm_f32_to_f16(s->scales[at]);
  const float kept = tni_cm_f16_to_f32(h), size = kept < 0 ? -kept : kept, theirs = s->zeros[at];
  if (!(size <= 65504.f) || (size < 0x1p-14f && s->scales[at] != 0)) return false;
  if (!(theirs >= -256.f && theirs <= 256.f) || (float)(int32_t)theirs != theirs) return false;
  const int32_t shift = zero - (int32_t)theirs;
  for (uint32_t i = 0; i < n; i++) {
    const int32_t c = (int32_t)code[i] + shift;
    if (c < 0 || c > top) return false;
    codes[i] = (uint8_t)c;
  }
  *scale = h;
  return true;
}

bool tni_cm_keep_codes(const tni_cm_source *s, int64_t row, int64_t k0, uint32_t n, int32_t zero, int32_t top,
                       uint8_t *codes, uint16_t *scale) {
  return tni_cm_source_codes(s, row, k0, n, zero, top, codes, scale) &&
         tni_cm_f16_to_f32(*scale) == s->scales[row * s->blocks + k0 / s->block];
}

/* A normal number of dtype that is not too small, or 0. */
static bool is_scale(uint32_t dtype, float v) {
  const float size = fabsf(v);
  if (v == 0) return true;
  if (!(size >= 0x1p-100f) || !isfinite(v)) return false;
  return dtype != TN_DT_F16 || (size >= 0x1p-14f && size <= 65504.f && tni_cm_f16_to_f32(tni_cm_f32_to_f16(v)) == v);
}

static bool is_zero_point(const tn_grid *g, float z) {
  if (g->zero_kind == TN_ZERO_HALF) return z == g->zero;
  if (g->zero_kind == TN_ZERO_CODES) return z >= 0 && z < (float)g->n_codes && rintf(z) == z;
  return fabsf(z) <= 256;
}

bool tni_cm_source_parent(const tni_cm_source *s, const tn_grid *g, int64_t row, float *parent) {
  *parent = s->parents[row] / g->scale_unit; /* a power of two */
  return is_scale(g->scale_dtype, *parent) && (*parent >= 0 || g->flags & TN_GRID_SIGNED);
}

bool tni_cm_source_keep(const tni_cm_source *s, const tn_grid *g, int64_t row, int64_t k0, uint32_t n, uint8_t *codes,
                        float *scale, float *zero) {
  const int64_t at = row * s->blocks + k0 / s->block;
  const uint8_t *code = s->codes + row * s->K + k0;
  const float v = s->scales[at] / g->scale_unit; /* a power of two */
  if (!is_scale(g->scale_dtype, v) || (v < 0 && !(g->flags & TN_GRID_SIGNED))) return false;
  if (g->kind == TN_GRID_AFFINE && !is_zero_point(g, s->zeros[at])) return false;
  for (uint32_t i = 0; i < n; i++) {
    if (code[i] >= g->n_codes) return false;
    codes[i] = code[i];
  }
  *scale = v;
  *zero = s->zeros[at];
  return true;
}

void tni_cm_source_floats(const tni_cm_source *s, int64_t row, int64_t k0, uint32_t n, float *dst) {
  if (!s->codes) {
    memcpy(dst, s->w + row * s->K + k0, sizeof *dst * n);
    return;
  }
  const int64_t at = row * s->blocks + k0 / s->block;
  const uint8_t *code = s->codes + row * s->K + k0;
  for (uint32_t i = 0; i < n; i++) dst[i] = ((float)code[i] - s->zeros[at]) * s->scales[at];
}
