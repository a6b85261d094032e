/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/pack/keep.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, MOST_FLOATS = 1 << 18 };
static const float LEAST_SCALE = 0x1p-100f, ZERO_MOST = 256;

/* --- the tables --------------------------------------------------------------------------------------------------- */

static uint32_t vec_of(uint32_t vec) { return vec ? vec : 1; }

/* Levels that a solver may have chosen: ascending numbers of the dtype. */
static bool are_levels(const tn_grid *g, const tn_quant *q) {
  for (uint32_t i = 0; i < q->n_levels; i++) {
    const float v = q->levels[i];
    if (!isfinite(v) || (i && v <= q->levels[i - 1])) return false;
    if (g->level_dtype == TN_DT_I8 && (v != rintf(v) || v < -128 || v > 127)) return false;
  }
  return true;
}

static bool same_levels(const tn_grid *g, const tn_quant *q) {
  const uint32_t vec = vec_of(g->vec);
  if (!q->levels || q->n_levels != g->n_codes || vec_of(q->vec) != vec) return false;
  if (!g->levels) return vec == 1 && are_levels(g, q);
  return memcmp(q->levels, g->levels, sizeof *q->levels * vec * q->n_levels) == 0;
}

static bool same_steps(const tn_grid *g, const tn_quant *q) {
  return q->stepped && q->steps && q->n_steps == g->n_steps &&
         memcmp(q->steps, g->steps, sizeof *q->steps * q->n_steps) == 0;
}

static bool same_groups(const tn_grid *g, const tn_quant *q, int64_t K) {
  const bool row = q->group >= K, whole = !g->group || g->group >= K;
  return q->group && (row || whole ? row && whole : q->group == g->group);
}

/* What can be said without an element. */
static bool could_lie(const tn_grid *g, const tn_quant *q, int64_t K) {
  if (g->kind > TN_GRID_LEVELS || !g->n_codes || !(g->scale_unit > 0) || !q->grid || !same_groups(g, q, K)) return false;
  if (g->kind == TN_GRID_AFFINE) return q->scheme == TN_QUANT_AFFINE;
  return q->scheme == TN_QUANT_LEVELS && same_levels(g, q) && (!g->n_steps || same_steps(g, q));
}

/* --- the elements ------------------------------------------------------------------------------------------------- */

static bool is_scale(const tn_grid *g, float s) {
  const float v = s / g->scale_unit, size = fabsf(v);
  if (signbit(s) && !(g->flags & TN_GRID_SIGNED)) return false;
  if (v == 0) return s == 0;
  if (!(size >= LEAST_SCALE) || !isfinite(v) || v * g->scale_unit != s) return false;
  if (g->scale_dtype == TN_DT_F32) return true;
  return g->scale_dtype == TN_DT_F16 && size >= 0x1p-14f && size <= 65504 && tni_f16_to_f32(tni_f32_to_f16(v)) == v;
}

static bool is_zero(const tn_grid *g, float z) {
  if (g->zero_kind == TN_ZERO_HALF) return z == g->zero;
  if (g->zero_kind == TN_ZERO_CODES) return z >= 0 && z < (float)g->n_codes && rintf(z) == z;
  return g->zero_kind == TN_ZERO_VALUES && fabsf(z) <= ZERO_MOST;
}

typedef struct look {
  const tn_grid *g;
  const tn_weight *w;
  int64_t blocks, row_codes, rows; /* rows: of a piece */
  bool codes;                      /* are looked at: some say more than the grid has */
  _Atomic bool off;
  _Atomic int32_t status;
} look;

/* Rows [n0, n1). floats: [3 * rows * blocks]; bytes: [rows * (row_codes + blocks)]. */
static tn_status rows_lie(look *l, int64_t n0, int64_t n1, float *floats, uint8_t *bytes, bool *lie) {
  const tn_quant *q = l->w->quant;
  const int64_t n = n1 - n0, all = n * l->blocks;
  float *scales = floats, *zeros = scales + all, *parents = zeros + all;
  uint8_t *codes = bytes, *index = codes + n * l->row_codes;
  const bool affine = l->g->kind == TN_GRID_AFFINE, steps = l->g->n_steps > 0;
  tn_status st = q->grid(q, n0, n1, l->codes ? codes : NULL, steps ? NULL : scales, affine ? zeros : NULL);
  if (st == TN_OK && steps) st = q->stepped(q, n0, n1, index, parents);
  if (st != TN_OK) return st;
  bool ok = true;
  for (int64_t i = 0; ok && l->codes && i < n * l->row_codes; i++) ok = codes[i] < l->g->n_codes;
  for (int64_t i = 0; ok && !steps && i < all; i++) ok = is_scale(l->g, scales[i]);
  for (int64_t i = 0; ok && affine && i < all; i++) ok = is_zero(l->g, zeros[i]);
  for (int64_t i = 0; ok && steps && i < all; i++) ok = index[i] < l->g->n_steps;
  for (int64_t i = 0; ok && steps && i < n; i++) ok = is_scale(l->g, parents[i]);
  *lie = ok;
  return TN_OK;
}

static void look_at(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  look *l = arg;
  (void)worker;
  const size_t each = (size_t)l->rows;
  float *floats = malloc(3 * each * (size_t)l->blocks * sizeof *floats);
  uint8_t *bytes = malloc(each * (size_t)(l->row_codes + l->blocks));
  tn_status st = floats && bytes ? TN_OK : TN_E_NO_MEMORY;
  for (int64_t i = begin; st == TN_OK && i < end && !atomic_load(&l->off) && !atomic_load(&l->status); i++) {
    const int64_t n0 = i * l->rows, n1 = n0 + l->rows < l->w->N ? n0 + l->rows : l->w->N;
    bool lie = true;
    st = rows_lie(l, n0, n1, floats, bytes, &lie);
    if (!lie) atomic_store(&l->off, true);
  }
  if (st != TN_OK) atomic_store(&l->status, st);
  free(floats);
  free(bytes);
}

static tn_status all_lie(const tn_grid *g, const tn_weight *w, tni_pool *pool, bool *lie) {
  const tn_quant *q = w->quant;
  const int64_t vec = q->scheme == TN_QUANT_LEVELS ? vec_of(q->vec) : 1;
  look l = {.g = g, .w = w, .blocks = (w->K + q->group - 1) / q->group, .row_codes = (w->K + vec - 1) / vec};
  l.codes = q->bits > 8 || (UINT32_C(1) << q->bits) > g->n_codes;
  l.rows = MOST_FLOATS / (w->K > 0 ? w->K : 1);
  l.rows = l.rows < 1 ? 1 : l.rows > ROWS ? ROWS : l.rows;
  const int64_t pieces = (w->N + l.rows - 1) / l.rows;
  if (pool)
    tni_pool_for(pool, pieces, 1, look_at, &l);
  else
    look_at(&l, 0, pieces, 0);
  *lie = !atomic_load(&l.off);
  return atomic_load(&l.status);
}

tn_status tni_pack_keep(tni_pack_kept *out, const tn_format *f, const int64_t *params, uint32_t n, const tn_weight *w,
                        tni_pool *pool) {
  tn_grid g = {.h = TN_HDR(tn_grid)};
  bool lie = false;
  *out = (tni_pack_kept){.weight = *w};
  if (!w->quant || w->N < 1 || w->K < 1 || !TN_HAS(f, tn_format, grid) || !f->grid) return TN_OK;
  if (f->grid(f, params, n, &g) != TN_OK || !could_lie(&g, w->quant, w->K)) return TN_OK;
  const tn_status st = all_lie(&g, w, pool, &lie);
  if (st != TN_OK || !lie) return st;
  out->quant = *w->quant;
  out->quant.flags |= TN_QUANT_KEEP;
  if (g.group) out->quant.group = g.group; /* one group, where both are longer than the row */
  out->weight.quant = &out->quant;
  return TN_OK;
}
