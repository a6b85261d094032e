/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over caches as they are kept (kept.h): each variant that this processor runs gives the bits of its numerics
 * written out in C, at all tails; extreme values stay in range; what is no number stays none.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_test.h"
#include "runtime/base/half.h"
#include "runtime/ops/hot/kept.h"
#include "runtime/ops/kernel/kvrow.h"

enum { MOST_KEYS = 64, MOST_SIZE = TNI_KEPT_MOST, GUARD = 7 };

/* One block: rows of K and V, queries, probabilities, and what the model makes of them. */
typedef struct block {
  const tni_kept *kept;
  int rows, n;
  int64_t size, pitch;
  char *cache;
  float *x; /* [n, size] what the cache was made of */
  float q[8 * MOST_SIZE], p[8 * (MOST_KEYS + GUARD)], decay[8], c[8 * 24];
} block;

static const void *row_at(const block *b, int j) { return b->cache + j * b->pitch; }
static double element_at(const block *b, int j, int64_t i) {
  uint16_t h;
  if (b->kept->kind == TNI_KEPT_I8) return ((const int8_t *)row_at(b, j))[i];
  memcpy(&h, (const char *)row_at(b, j) + 2 * i, sizeof h);
  return (double)tni_f16_to_f32(h);
}
static float scale_at(const block *b, int j) {
  float scale;
  memcpy(&scale, (const char *)row_at(b, j) + b->size, sizeof scale);
  return scale;
}

static bool begin(block *b, const tni_kept *kept, int rows, int n, int64_t size) {
  const uint32_t dtype = kept->kind == TNI_KEPT_I8 ? TN_DT_I8 : TN_DT_F16;
  *b = (block){.kept = kept, .rows = rows, .n = n, .size = size};
  b->pitch = tni_kv_pitch(dtype, size) * (dtype == TN_DT_I8 ? 1 : 2);
  b->cache = malloc((size_t)(n * b->pitch));
  b->x = malloc((size_t)(n * size) * sizeof *b->x);
  if (!b->cache || !b->x) return false;
  ht_fill(b->x, (int)(n * size), (uint32_t)(n + size));
  for (int j = 0; j < n; j++) tni_kv_store(dtype, b->cache + j * b->pitch, TN_DT_F32, b->x + j * size, 1, size);
  ht_fill(b->q, (int)(rows * size), 3);
  ht_fill(b->p, 8 * n, 4);
  for (int i = 0; i < 8 * n; i++) b->p[i] = i % 8 < rows ? fabsf(b->p[i]) * (i % 5 ? 0.01f : 1.f) : 0;
  ht_fill(b->decay, 8, 5);
  ht_fill(b->c, 8 * 24, 6);
  return true;
}

static void end(block *b) {
  free(b->cache);
  free(b->x);
}

/* --- the model --- */

/* A sum of doubles is rounded to odd before it is rounded to a half, so that this is one rounding. */
static double half_near(double x) {
  int e;
  if (x == 0 || isnan(x)) return x;
  (void)frexp(x, &e);
  const double unit = ldexp(1, (e - 1 < -14 ? -14 : e - 1) - 10);
  return rint(x / unit) * unit;
}
static double half_sum(double x, double y) {
  const double s = x + y, t = s - x, lost = (x - (s - t)) + (y - t);
  uint64_t u;
  memcpy(&u, &s, sizeof u);
  if (lost != 0 && !(u & 1)) return half_near(nextafter(s, lost > 0 ? INFINITY : -INFINITY));
  return half_near(s);
}

static float score_i8(const block *b, int r, int j) {
  const float *q = b->q + r * b->size;
  float most = 0;
  int64_t sum = 0;
  for (int64_t i = 0; i < b->size; i++) most = fmaxf(most, fabsf(q[i]));
  const float by = most >= TNI_KV_TINY ? 127 / most : 0;
  for (int64_t i = 0; i < b->size; i++) sum += (int64_t)rintf(q[i] * by) * (int64_t)element_at(b, j, i);
  const float scaled = (float)sum * scale_at(b, j);
  return scaled * (most / 127);
}

static float score_f16(const block *b, int r, int j) {
  const float *q = b->q + r * b->size;
  float most = 0, room = 1;
  int e;
  double lane[8] = {0}, two[4], four[2];
  for (int64_t i = 0; i < b->size; i++) most = fmaxf(most, fabsf(q[i]));
  (void)frexpf(most, &e);
  while (room * (float)b->size > 2) room /= 2;
  const double by = ldexp((double)room, -e);
  for (int64_t i = 0; i < b->size; i++)
    lane[i % 8] = half_sum(half_near((double)q[i] * by) * element_at(b, j, i), lane[i % 8]);
  for (int i = 0; i < 4; i++) two[i] = half_sum(lane[2 * i], lane[2 * i + 1]);
  for (int i = 0; i < 2; i++) four[i] = half_sum(two[2 * i], two[2 * i + 1]);
  return ((float)four[0] + (float)four[1]) * (float)(1 / by);
}

static void values_i8(const block *b, int r, float *c) {
  float top = 0;
  for (int j = 0; j < b->n; j++) top = fmaxf(top, b->p[8 * j + r] * scale_at(b, j));
  const float by = top >= TNI_KV_TINY ? 127 / top : 0, step = top >= TNI_KV_TINY ? top / 127 : 0;
  for (int i = 0; i < 16; i++) {
    int64_t sum = 0;
    for (int j = 0; j < b->n; j++) {
      const float w = b->p[8 * j + r] * scale_at(b, j);
      sum += (int64_t)rintf(w * by) * (int64_t)element_at(b, j, i);
    }
    const float old = c[i] * b->decay[r], new = (float)sum *step;
    c[i] = old + new;
  }
}

static void values_f16(const block *b, int r, float *c) {
  for (int i = 0; i < 16; i++) c[i] = c[i] * b->decay[r];
  for (int i = 0; i < 16; i++)
    for (int from = 0; from < b->n; from += 32) {
      double sum = 0;
      for (int j = from; j < b->n && j < from + 32; j++)
        sum = half_sum(half_near((double)(b->p[8 * j + r] / 32)) * element_at(b, j, i), sum);
      c[i] = fmaf((float)sum, 32, c[i]);
    }
}

/* --- the variants beside it --- */

static uint32_t scores(block *b) {
  static float at[8 * MOST_SIZE], got[8 * (MOST_KEYS + GUARD)];
  uint32_t wrong = 0;
  memset(at, 0, sizeof at);
  for (int r = 0; r < b->rows; r++) b->kept->query(at, r, b->q + r * b->size, b->size);
  b->kept->dots8(b->rows, b->n, b->size, at, b->cache, b->pitch, got, b->cache);
  for (int i = 0; i < 8 * b->n; i++) {
    const int r = i % 8, j = i / 8;
    const float want = r >= b->rows ? 0 : b->kept->kind == TNI_KEPT_I8 ? score_i8(b, r, j) : score_f16(b, r, j);
    wrong += want != got[i];
  }
  return wrong;
}

static uint32_t values(block *b) {
  float want[8 * 24], got[8 * 24], p[8 * (MOST_KEYS + GUARD)], step[8];
  uint32_t wrong = 0;
  memcpy(want, b->c, sizeof want);
  memcpy(got, b->c, sizeof got);
  memcpy(p, b->p, sizeof p);
  for (int r = 0; r < (b->rows > 4 ? 8 : 4); r++)
    (b->kept->kind == TNI_KEPT_I8 ? values_i8 : values_f16)(b, r, want + r * 24);
  b->kept->probs8(p, b->n, b->cache, b->pitch, b->size, step);
  b->kept->values8(b->rows, b->n, p, step, b->cache, b->pitch, b->decay, got, 24, b->cache);
  for (int i = 0; i < 8 * 24; i++) wrong += want[i] != got[i];
  return wrong;
}

static void one_block(const tni_kept *kept, int rows, int n, int64_t size) {
  static block b;
  CU_ASSERT_FATAL(begin(&b, kept, rows, n, size));
  const uint32_t s = scores(&b), v = values(&b);
  if (s || v) printf("%s: %d rows, %d keys of %d: %u scores, %u values wrong\n", kept->name, rows, n, (int)size, s, v);
  CU_ASSERT(s == 0 && v == 0);
  end(&b);
}

static void test_blocks(void) {
  static const int keys[] = {1, 3, 4, 5, 8, 9, 31, 33, 63, 64};
  static const int64_t sizes[] = {16, 64, 80, MOST_SIZE};
  const tni_kept *kept;
  for (uint32_t i = 0; (kept = tni_hot_kept_variant(i)); i++)
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
      for (int rows = 1; rows <= 8; rows += rows == 1 ? 3 : rows == 4 ? 1 : 3)
        one_block(kept, rows, keys[k], sizes[(k + (size_t)rows) % 4]);
  CU_PASS("as many as there are");
}

/* The largest elements there are; rows that are no numbers; queries of zeros and beyond all halves. */
static void test_extremes(void) {
  static block b;
  float p[8 * (MOST_KEYS + GUARD)], step[8], c[8 * 16], s[8 * (MOST_KEYS + GUARD)];
  static float at[8 * MOST_SIZE];
  const tni_kept *kept;
  for (uint32_t i = 0; (kept = tni_hot_kept_variant(i)); i++) {
    const uint32_t dtype = kept->kind == TNI_KEPT_I8 ? TN_DT_I8 : TN_DT_F16;
    CU_ASSERT_FATAL(begin(&b, kept, 8, 64, MOST_SIZE));
    for (int j = 0; j < 64; j++) {
      for (int64_t k = 0; k < b.size; k++) b.x[j * b.size + k] = 65504;
      tni_kv_store(dtype, b.cache + j * b.pitch, TN_DT_F32, b.x + j * b.size, 1, b.size);
    }
    memset(at, 0, sizeof at);
    for (int r = 0; r < 8; r++) {
      for (int64_t k = 0; k < b.size; k++) b.q[r * b.size + k] = r == 0 ? 0 : r == 1 ? 1e20f : r == 2 ? NAN : 3;
      kept->query(at, r, b.q + r * b.size, b.size);
    }
    kept->dots8(8, 64, b.size, at, b.cache, b.pitch, s, NULL);
    CU_ASSERT(s[0] == 0 && isnan(s[2]) && fabsf(s[1] / (65504.f * 1e20f * MOST_SIZE) - 1) < 0.01f &&
              fabsf(s[7] / (65504.f * 3 * MOST_SIZE) - 1) < 0.01f);
    for (int k = 0; k < 8 * 64; k++) p[k] = k % 8 == 1 ? 0 : k % 8 == 2 ? NAN : 1;
    memset(c, 0, sizeof c);
    kept->probs8(p, 64, b.cache, b.pitch, b.size, step);
    kept->values8(8, 64, p, step, b.cache, b.pitch, b.decay, c, 16, NULL);
    CU_ASSERT(c[16] == 0 && isnan(c[2 * 16]) && fabsf(c[0] / (65504.f * 64) - 1) < 0.001f && c[7 * 16 + 15] == c[0]);
    b.x[5 * b.size] = NAN; /* a row that is no number: its score, and the sums that it is in */
    tni_kv_store(dtype, b.cache + 5 * b.pitch, TN_DT_F32, b.x + 5 * b.size, 1, b.size);
    kept->dots8(8, 64, b.size, at, b.cache, b.pitch, s, NULL);
    CU_ASSERT(isnan(s[5 * 8 + 7]) && !isnan(s[4 * 8 + 7]));
    for (int k = 0; k < 8 * 64; k++) p[k] = 1;
    kept->probs8(p, 64, b.cache, b.pitch, b.size, step);
    kept->values8(8, 64, p, step, b.cache, b.pitch, b.decay, c, 16, NULL);
    CU_ASSERT(isnan(c[7 * 16]));
    end(&b);
  }
}

bool ht_add_kept(void) {
  CU_pSuite s = CU_add_suite("caches as they are kept", NULL, NULL);
  return s && CU_add_test(s, "bits of the numerics", test_blocks) && CU_add_test(s, "extremes", test_extremes);
}
