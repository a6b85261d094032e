/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales and codes of lev.h for floats. Each block tries scales that put its largest magnitude at one of eight levels,
 * the best is refitted by least squares; the largest of a row, as it is stored, becomes the parent; then each block
 * takes the best of the steps near its own scale. Plain f32 operations in a stated order: the same on every machine.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/lev.h"

enum { STARTS = 8, NEAR = 2 };

/* Squared errors of one weight, in units of the scale, under every entry of the table. */
static void entry_errors(const tni_lev_kind *k, float x, float *e) {
  for (int i = 0; i < TNI_LEV_LEVELS; i++) {
    const float d = x - (float)k->level[i];
    e[i] = d * d;
  }
}

/* The best code of one weight. */
static float choose_one(const tni_lev_kind *k, const float *x, uint8_t *code) {
  float e[TNI_LEV_LEVELS], best;
  entry_errors(k, x[0], e);
  best = e[0];
  *code = 0;
  for (uint8_t i = 1; i < TNI_LEV_LEVELS; i++)
    if (e[i] < best) best = e[i], *code = i;
  return best;
}

/* Of a pair: both top bits, and the best low ones under them. */
static float choose_pair(const tni_lev_kind *k, const float *x, uint8_t *code) {
  float e[2][TNI_LEV_LEVELS], best = INFINITY;
  for (int j = 0; j < 2; j++) entry_errors(k, x[j], e[j]);
  for (uint32_t tops = 0; tops < 4; tops++) {
    const uint32_t top[2] = {tops & 1, tops >> 1};
    uint32_t own[2];
    float sum = 0;
    for (int j = 0; j < 2; j++) {
      const uint32_t first = top[j] << 2 | top[1 - j] << 3;
      uint32_t low = 0;
      for (uint32_t i = 1; i < 4; i++)
        if (e[j][first + i] < e[j][first + low]) low = i;
      own[j] = low | top[j] << 2;
      sum += e[j][first + low];
    }
    if (sum < best) best = sum, *code = (uint8_t)(own[0] | own[1] << 3);
  }
  return best;
}

/* Of a ring of four: for each first code the best way round. */
static float choose_ring(const tni_lev_kind *k, const float *x, uint8_t *code) {
  float e[4][TNI_LEV_LEVELS], best = INFINITY;
  for (int j = 0; j < 4; j++) entry_errors(k, x[j], e[j]);
  for (uint32_t first = 0; first < 4; first++) {
    float cost[4];
    uint32_t from[2][4];
    for (uint32_t c = 0; c < 4; c++) cost[c] = e[0][first | c << 2];
    for (int j = 1; j < 3; j++) {
      float next[4];
      for (uint32_t c = 0; c < 4; c++) {
        uint32_t b = 0;
        for (uint32_t i = 1; i < 4; i++)
          if (cost[i] + e[j][i | c << 2] < cost[b] + e[j][b | c << 2]) b = i;
        next[c] = cost[b] + e[j][b | c << 2];
        from[j - 1][c] = b;
      }
      memcpy(cost, next, sizeof cost);
    }
    for (uint32_t c = 0; c < 4; c++) {
      const float sum = cost[c] + e[3][c | first << 2];
      if (!(sum < best)) continue;
      const uint32_t two = from[1][c], one = from[0][two];
      best = sum;
      *code = (uint8_t)(first | one << 2 | two << 4 | c << 6);
    }
  }
  return best;
}

/* Of a quad that shares bits: every code. */
static float choose_shared(const tni_lev_kind *k, const float *x, uint8_t *code) {
  float e[4][TNI_LEV_LEVELS], best = INFINITY;
  for (int j = 0; j < 4; j++) entry_errors(k, x[j], e[j]);
  for (uint32_t c = 0; c < tni_lev_codes(k); c++) {
    float sum = 0;
    for (uint32_t j = 0; j < 4; j++) sum += e[j][tni_lev_entry(k, c, j)];
    if (sum < best) best = sum, *code = (uint8_t)c;
  }
  return best;
}

static float choose_code(const tni_lev_kind *k, const float *x, uint8_t *code) {
  if (k->shared) return choose_shared(k, x, code);
  return k->vec == 1 ? choose_one(k, x, code) : k->vec == 2 ? choose_pair(k, x, code) : choose_ring(k, x, code);
}

/* The best codes of a block of n weights under a scale; what is beyond n counts as 0. Returns the squared error. */
static float choose_codes(const tni_lev_kind *k, const float *w, uint32_t n, float scale, uint8_t *codes) {
  const float inv = scale > 0 ? 1 / scale : 0;
  float error = 0;
  for (uint32_t i = 0; i < n; i += k->vec, codes++) {
    float x[4] = {0};
    for (uint32_t j = 0; j < k->vec && i + j < n; j++) x[j] = w[i + j] * inv;
    error += choose_code(k, x, codes);
  }
  return error * scale * scale;
}

static float least_squares(const tni_lev_kind *k, const float *w, uint32_t n, const uint8_t *codes) {
  float wl = 0, ll = 0;
  for (uint32_t i = 0; i < n; i++) {
    const float l = (float)k->level[tni_lev_entry(k, codes[i / k->vec], i % k->vec)];
    wl += w[i] * l;
    ll += l * l;
  }
  return ll > 0 ? wl / ll : 0;
}

/* The scale that a block would take if it were free; 0 of zeros. -1: no number. */
static float free_scale(const tni_lev_kind *k, const float *w, uint32_t n) {
  static const float reach[STARTS] = {72, 84, 97, 110, 124, 138, 155, 175};
  uint8_t codes[TNI_LEV_MAX_BLOCK], kept[TNI_LEV_MAX_BLOCK] = {0};
  float most = 0, best = INFINITY, scale = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!isfinite(w[i])) return -1;
    most = fmaxf(most, fabsf(w[i]));
  }
  if (most == 0) return 0;
  for (int i = 0; i < STARTS; i++) {
    const float s = most / reach[i], e = choose_codes(k, w, n, s, codes);
    if (!(e < best)) continue;
    best = e;
    scale = s;
    memcpy(kept, codes, sizeof kept);
  }
  const float fit = least_squares(k, w, n, kept);
  return fit > most / 190 && fit < most / 64 ? fit : scale;
}

/* Stored not below what it is, a normal number. */
static int stored_parent(float scale, uint16_t *out) {
  const float v = scale / TNI_LEV_SCALE_UNIT;
  uint16_t h = tni_cm_f32_to_f16(v < 0x1p-14f ? 0x1p-14f : v);
  if (tni_cm_f16_to_f32(h) < v) h++;
  *out = h;
  return v <= 65504 ? 0 : -1;
}

int tni_lev_fit_row(const tni_lev_kind *k, const float *w, int64_t K, uint8_t *codes, uint8_t *index,
                    uint16_t *parent) {
  const int64_t blocks = (K + k->block - 1) / k->block;
  float most = 0;
  *parent = 0;
  memset(index, 0, (size_t)blocks);
  memset(codes, 0, (size_t)((K + k->vec - 1) / k->vec));
  for (int64_t b = 0; b < blocks; b++) {
    const int64_t at = b * k->block, n = K - at < k->block ? K - at : k->block;
    const float s = free_scale(k, w + at, (uint32_t)n);
    if (s < 0) return -1;
    /* the nearest step is found again below: a row needs no memory for its scales */
    most = fmaxf(most, s);
  }
  if (most == 0) return 0;
  if (stored_parent(most, parent)) return -1;
  const float p = tni_cm_f16_to_f32(*parent) * TNI_LEV_SCALE_UNIT;
  for (int64_t b = 0; b < blocks; b++) {
    const int64_t at = b * k->block, n = K - at < k->block ? K - at : k->block;
    const float s = free_scale(k, w + at, (uint32_t)n);
    uint8_t tried[TNI_LEV_MAX_BLOCK];
    float best = INFINITY;
    int nearest = 0;
    for (int i = 1; i < TNI_LEV_STEPS; i++)
      if (fabsf(p * tni_lev_steps[i] - s) < fabsf(p * tni_lev_steps[nearest] - s)) nearest = i;
    for (int i = nearest - NEAR; i <= nearest + NEAR; i++) {
      if (i < 0 || i >= TNI_LEV_STEPS) continue;
      const float e = choose_codes(k, w + at, (uint32_t)n, p * tni_lev_steps[i], tried);
      if (!(e < best)) continue;
      best = e;
      index[b] = (uint8_t)i;
      memcpy(codes + at / k->vec, tried, (size_t)((n + k->vec - 1) / k->vec));
    }
  }
  return 0;
}
