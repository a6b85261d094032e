/* SPDX-License-Identifier: Apache-2.0
 *
 * The portable form, and which form a processor gets.
 */
#include "plugins/common/formats/fit.h"

#include <float.h>
#include <string.h>

#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/fit_form.h"

enum { LANES = TNI_FIT_LANES, TRIES = TNI_FIT_STARTS };

/* --- portable --------------------------------------------------------------------------------------------------- */

/* Adding and subtracting 1.5 * 2^23 rounds to an integer, half to even, for |v| < 2^22. */
static inline float nearest_level(float v, tni_fit_range r) {
  const float magic = 12582912.0f;
  v = v < r.lo ? r.lo : v;
  v = v > r.hi ? r.hi : v;
  return (v + magic) - magic;
}

static float extreme_of(const float *w, uint32_t n) {
  float best = 0, at = 0;
  for (uint32_t i = 0; i < n; i++) {
    const float m = fabsf(w[i]);
    if (!(m <= FLT_MAX)) return w[i];
    if (m > best) {
      best = m;
      at = w[i];
    }
  }
  return at;
}

static void try_step(const float *w, uint32_t n, float d, tni_fit_search *s) {
  const float inv = 1.0f / d, half = s->r.half;
  float wc[LANES] = {0}, cc[LANES] = {0};
  for (uint32_t i = 0; i < n; i += LANES)
    for (uint32_t l = 0; l < LANES && i + l < n; l++) {
      const float c = nearest_level(w[i + l] * inv - half, s->r) + half;
      wc[l] += w[i + l] * c;
      cc[l] += c * c;
    }
  tni_fit_consider(s, tni_fit_lane_sum(wc), tni_fit_lane_sum(cc), d);
}

static void any_codes(const float *w, uint32_t n, tni_fit_range r, float inv, uint8_t *codes) {
  for (uint32_t i = 0; i < n; i++) codes[i] = (uint8_t)(int32_t)(nearest_level(w[i] * inv - r.half, r) - r.lo);
}

static int any_group(const tni_fit_grid *g, const float *w, uint32_t n, uint8_t *codes, uint16_t *scale) {
  tni_fit_search s;
  const int searched = tni_fit_begin(g, extreme_of(w, n), n, &s, codes, scale);
  if (searched < 1) return searched;
  for (uint32_t t = 0; t < TRIES; t++) try_step(w, n, s.from / g->start[t], &s);
  if (n > TNI_FIT_SHORT) try_step(w, n, s.d, &s);
  any_codes(w, n, s.r, 1.0f / s.d, codes);
  *scale = tni_cm_f32_to_f16(s.d * s.unit);
  return 0;
}

static int any_size(const float *w, size_t n, tni_fit_size *out) {
  float sum[LANES] = {0}, squares[LANES] = {0}, most[LANES] = {0};
  const uint32_t odd = tni_fit_add_sizes(w, 0, n, sum, squares, most);
  *out = tni_fit_size_from(sum, squares, most);
  return odd ? -1 : 0;
}

static void any_above(const float *w, size_t n, float from, float *sum, float *count) {
  float s[LANES] = {0}, c[LANES] = {0};
  tni_fit_add_above(w, 0, n, from, s, c);
  *sum = tni_fit_lane_sum(s);
  *count = tni_fit_lane_sum(c);
}

/* Loops over a constant count of bytes, that compilers turn into vectors of whichever length. */
static void any_stairs(const uint8_t *restrict byte, const tni_fit_stairs *s, uint8_t *restrict out) {
  memset(out, s->first, TNI_FIT_STEP);
  for (int j = 0; j < TNI_FIT_STAIRS; j++) {
    const uint8_t above = s->above[j], up = s->up[j];
    for (int i = 0; i < TNI_FIT_STEP; i++) out[i] = (uint8_t)(out[i] + (up & (uint8_t) - (byte[i] > above)));
  }
}

static void any_products(const float *w, const int8_t *level, uint32_t n, float *wl, float *ll) {
  for (uint32_t i = 0; i < n; i++) {
    const float v = (float)level[i];
    wl[i % LANES] += w[i] * v;
    ll[i % LANES] += v * v;
  }
}

static const tni_fit any_fit = {any_group, any_codes, any_size, any_above, any_stairs, any_products};

/* --- which form -------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
const tni_fit *tni_fit_form(uint32_t i) {
  static const tni_fit *const forms[] = {&any_fit, &tni_fit_avx2, &tni_fit_avx512};
  if (i >= 1 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return NULL;
  if (i == 2 &&
      !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi")))
    return NULL;
  return i < 3 ? forms[i] : NULL;
}
#else
const tni_fit *tni_fit_form(uint32_t i) { return i ? NULL : &any_fit; }
#endif

const tni_fit *tni_fit_best(void) {
  const tni_fit *best = &any_fit;
  for (uint32_t i = 1; i < TNI_FIT_FORMS; i++)
    if (tni_fit_form(i)) best = tni_fit_form(i);
  return best;
}

int tni_fit_group(const tni_fit *f, const tni_fit_grid *g, const float *w, uint32_t n, uint8_t *codes,
                  uint16_t *scale) {
  return (n % LANES ? &any_fit : f)->group(g, w, n, codes, scale);
}

void tni_fit_codes(const tni_fit *f, const float *w, uint32_t n, float lo, float hi, float inv, uint8_t *codes) {
  const uint32_t whole = n / LANES * LANES;
  const tni_fit_range r = {lo, hi, 0};
  f->codes(w, whole, r, inv, codes);
  any_codes(w + whole, n - whole, r, inv, codes + whole);
}

int tni_fit_size_of(const tni_fit *f, const float *w, size_t n, tni_fit_size *out) { return f->size(w, n, out); }

float tni_fit_mean_above(const tni_fit *f, const float *w, size_t n, float from, float *gain) {
  float sum, count;
  f->above(w, n, from, &sum, &count);
  *gain = count > 0 ? sum * (sum / count) : 0;
  return count > 0 ? sum / count : 0;
}

void tni_fit_stairs_ready(tni_fit_stairs *s) {
  uint8_t all[TNI_FIT_STEP];
  for (int i = 0; i < TNI_FIT_STEP; i++) all[i] = (uint8_t)i;
  any_stairs(all, s, s->table);
}

void tni_fit_climb(const tni_fit *f, const uint8_t *byte, const tni_fit_stairs *s, uint8_t *out) {
  f->stairs(byte, s, out);
}

void tni_fit_products(const tni_fit *f, const float *w, const int8_t *level, uint32_t n, float *wl, float *ll) {
  const uint32_t whole = n / LANES * LANES;
  f->products(w, level, whole, wl, ll);
  any_products(w + whole, level + whole, n - whole, wl, ll);
}
