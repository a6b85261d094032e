/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales and codes of lev.h for floats. Each block tries scales that put its largest magnitude at one of eight levels,
 * the best is refitted by least squares; the largest of a row, as it is stored, becomes the parent; then each block
 * takes the best of the steps near its own scale. Plain f32 operations in a stated order: the same on every machine.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/lev_choose.h"

enum { STARTS = 8, NEAR = 2 };

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
static float free_scale(const tni_lev_choice *c, const float *w, uint32_t n) {
  static const float reach[STARTS] = {72, 84, 97, 110, 124, 138, 155, 175};
  uint8_t codes[TNI_LEV_MAX_BLOCK], kept[TNI_LEV_MAX_BLOCK] = {0};
  float most = 0, best = INFINITY, scale = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!isfinite(w[i])) return -1;
    most = fmaxf(most, fabsf(w[i]));
  }
  if (most == 0) return 0;
  for (int i = 0; i < STARTS; i++) {
    const float s = most / reach[i], e = tni_lev_choose(c, w, n, s, codes);
    if (!(e < best)) continue;
    best = e;
    scale = s;
    memcpy(kept, codes, sizeof kept);
  }
  const float fit = least_squares(c->kind, w, n, kept);
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

/* A block's own scale waits among the codes that it has yet to take: a row needs no memory for its scales.
 * Where the row's last codes are too few, it is found again. */
static void keep_scale(uint8_t *codes, int64_t n_codes, float s) {
  if (n_codes >= (int64_t)sizeof s) memcpy(codes, &s, sizeof s);
}
static float kept_scale(const tni_lev_choice *c, const float *w, uint32_t n, const uint8_t *codes, int64_t n_codes) {
  float s;
  if (n_codes < (int64_t)sizeof s) return free_scale(c, w, n);
  memcpy(&s, codes, sizeof s);
  return s;
}

/* The best of the steps of p near s. */
static uint8_t choose_step(const tni_lev_choice *c, const float *w, uint32_t n, float p, float s, uint8_t *codes) {
  uint8_t tried[TNI_LEV_MAX_BLOCK], step = 0;
  const size_t bytes = (n + c->kind->vec - 1) / c->kind->vec;
  float best = INFINITY;
  int nearest = 0;
  memset(codes, 0, bytes);
  for (int i = 1; i < TNI_LEV_STEPS; i++)
    if (fabsf(p * tni_lev_steps[i] - s) < fabsf(p * tni_lev_steps[nearest] - s)) nearest = i;
  for (int i = nearest - NEAR; i <= nearest + NEAR; i++) {
    if (i < 0 || i >= TNI_LEV_STEPS) continue;
    const float e = tni_lev_choose(c, w, n, p * tni_lev_steps[i], tried);
    if (!(e < best)) continue;
    best = e;
    step = (uint8_t)i;
    memcpy(codes, tried, bytes);
  }
  return step;
}

int tni_lev_fit_row(const tni_lev_kind *k, const float *w, int64_t K, uint8_t *codes, uint8_t *index,
                    uint16_t *parent) {
  const int64_t blocks = (K + k->block - 1) / k->block, n_codes = (K + k->vec - 1) / k->vec;
  tni_lev_choice choice;
  float most = 0;
  *parent = 0;
  memset(index, 0, (size_t)blocks);
  tni_lev_choice_of(k, &choice);
  for (int64_t b = 0; b < blocks; b++) {
    const int64_t at = b * k->block, n = K - at < k->block ? K - at : k->block;
    const float s = free_scale(&choice, w + at, (uint32_t)n);
    if (s < 0) return -1;
    keep_scale(codes + at / k->vec, n_codes - at / k->vec, s);
    most = fmaxf(most, s);
  }
  if (most == 0) memset(codes, 0, (size_t)n_codes);
  if (most == 0) return 0;
  if (stored_parent(most, parent)) return -1;
  const float p = tni_cm_f16_to_f32(*parent) * TNI_LEV_SCALE_UNIT;
  for (int64_t b = 0; b < blocks; b++) {
    const int64_t at = b * k->block, n = K - at < k->block ? K - at : k->block;
    uint8_t *own = codes + at / k->vec;
    const float s = kept_scale(&choice, w + at, (uint32_t)n, own, n_codes - at / k->vec);
    index[b] = choose_step(&choice, w + at, (uint32_t)n, p, s, own);
  }
  return 0;
}
