/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "runtime/quant/internal.h"

static const float LEAST_SCALE = 0x1p-100f;
static const float ZERO_MOST = 256.f;

static void measure(tni_quant_grid *g) {
  float lo = INFINITY, hi = -INFINITY;
  double sum = 0;
  const uint32_t count = g->grid.n_codes * g->vec;
  for (uint32_t i = 0; i < count; i++) {
    const float v = g->levels ? g->levels[i] : (float)i - g->grid.zero;
    lo = fminf(lo, v);
    hi = fmaxf(hi, v);
    sum += (double)v * (double)v;
  }
  g->level_max = fmaxf(fabsf(lo), fabsf(hi));
  g->level_rms = (float)sqrt(sum / count);
  g->signs = (g->grid.flags & TN_GRID_SIGNED) && (lo != -hi || g->vec > 1);
}

static void drop_values(tni_quant_grid *g) {
  free((void *)(uintptr_t)g->values);
  free((void *)(uintptr_t)g->which);
  g->values = NULL;
  g->which = NULL;
}

/* The values that levels hold, where they are few. */
static tn_status find_values(tni_quant_grid *g, tn_error *err) {
  const uint32_t count = g->grid.n_codes * g->vec;
  float *values = calloc(TNI_QUANT_VALUES, sizeof *values);
  int32_t *which = malloc(count * sizeof *which), n = 0;
  g->values = values;
  g->which = which;
  if (!values || !which) return tni_fail_memory(err, NULL);
  for (uint32_t i = 0; i < count; i++) {
    int32_t at = 0;
    while (at < n && values[at] != g->levels[i]) at++;
    if (at == TNI_QUANT_VALUES) {
      drop_values(g);
      return TN_OK;
    }
    values[at] = g->levels[i];
    which[i] = at;
    n += at == n;
  }
  return TN_OK;
}

static tn_status check_grid(const tn_grid *g, uint32_t vec, tn_error *err) {
  if (g->n_codes < 2 || g->n_codes > TNI_QUANT_CODES || vec > TNI_QUANT_VEC || g->group % vec || !(g->scale_unit > 0))
    return tni_fail(err, TN_E_INVALID, NULL, "a grid of %u codes for %u weights each, groups of %u", g->n_codes, vec,
                    g->group);
  if (g->scale_dtype != TN_DT_F16 && g->scale_dtype != TN_DT_F32)
    return tni_fail(err, TN_E_INVALID, NULL, "a grid whose scales are neither float16 nor float32");
  if (g->kind == TN_GRID_AFFINE && g->zero_kind == TN_ZERO_UNKNOWN)
    return tni_fail(err, TN_E_UNSUPPORTED, NULL, "a grid with zero points of an unknown kind");
  return TN_OK;
}

tn_status tni_quant_grid_init(const tn_grid *g, tni_quant_grid *out, tn_error *err) {
  tn_grid own;
  tn_status st = tni_take(&own, sizeof own, g, "tn_grid", err);
  if (st) return st;
  const bool levels = own.kind == TN_GRID_LEVELS;
  const uint32_t vec = levels && own.vec ? own.vec : 1, n_steps = levels ? own.n_steps : 0;
  if ((st = check_grid(&own, vec, err))) return st;
  if (levels && !own.levels)
    return tni_fail(err, TN_E_UNSUPPORTED, NULL, "a grid whose levels are to be chosen for each matrix");
  *out = (tni_quant_grid){.grid = own, .vec = vec, .steps = n_steps ? own.steps : NULL, .n_steps = n_steps};
  if (levels) {
    float *turned = malloc((size_t)own.n_codes * vec * sizeof *turned);
    if (!turned) return tni_fail_memory(err, NULL);
    for (uint32_t c = 0; c < own.n_codes; c++)
      for (uint32_t j = 0; j < vec; j++) turned[j * own.n_codes + c] = own.levels[c * vec + j];
    out->levels = turned;
    if (vec > 1 && (st = find_values(out, err))) {
      tni_quant_grid_finish(out);
      return st;
    }
  } else if (own.zero_kind != TN_ZERO_HALF) {
    out->grid.zero = (float)(own.n_codes - 1) / 2;
  }
  measure(out);
  return TN_OK;
}

void tni_quant_grid_finish(tni_quant_grid *g) {
  free((void *)(uintptr_t)g->levels);
  g->levels = NULL;
  drop_values(g);
}

/* scale_unit times the nearest number that is stored: normal, or 0. */
static float stored(const tni_quant_grid *g, float s) {
  const float u = fabsf(s / g->grid.scale_unit);
  float v = u;
  if (g->grid.scale_dtype == TN_DT_F16) {
    v = u < 0x1p-15f ? 0 : tni_f16_to_f32(tni_f32_to_f16(fminf(fmaxf(u, 0x1p-14f), 65504.f)));
  } else if (u < LEAST_SCALE) {
    v = 0;
  }
  return copysignf(v, s) * g->grid.scale_unit;
}

bool tni_quant_snap(const tni_quant_grid *g, float parent, float s, tni_quant_fit *f) {
  if (s < 0 && !(g->grid.flags & TN_GRID_SIGNED)) return false;
  if (!g->steps || parent < 0) {
    f->scale = g->steps ? s : stored(g, s);
    f->step = 0;
    return f->scale != 0;
  }
  uint32_t best = 0;
  for (uint32_t i = 1; i < g->n_steps; i++)
    if (fabsf(s - parent * g->steps[i]) < fabsf(s - parent * g->steps[best])) best = i;
  f->scale = parent * g->steps[best];
  f->step = best;
  return f->scale != 0;
}

float tni_quant_parent(const tni_quant_grid *g, float largest) {
  float top = 0;
  for (uint32_t i = 0; i < g->n_steps; i++) top = fmaxf(top, g->steps[i]);
  return top > 0 ? fabsf(stored(g, largest / top)) : 0;
}

float tni_quant_snap_zero(const tni_quant_grid *g, float zero) {
  const float top = (float)(g->grid.n_codes - 1);
  if (g->grid.zero_kind == TN_ZERO_HALF) return g->grid.zero;
  if (g->grid.zero_kind == TN_ZERO_CODES) return rintf(fminf(fmaxf(zero, 0), top));
  return fminf(fmaxf(zero, -ZERO_MOST), ZERO_MOST);
}
