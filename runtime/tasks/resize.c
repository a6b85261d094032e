/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tasks/preprocess.h"

enum { BITS = 32 - 8 - 2 }; /* of a weight: 8 bits of a pixel and 2 for sums above 1 stay free */

static double sinc(double x) { return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x); }

static double weight_at(tni_filter f, double x) {
  const double a = -0.5; /* of the cubic */
  x = fabs(x);
  switch (f) {
    case TNI_FILTER_LANCZOS:
      return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    case TNI_FILTER_BICUBIC:
      if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
      return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
    case TNI_FILTER_HAMMING:
      if (x == 0) return 1;
      return x < 1 ? sinc(x) * (0.54 + 0.46 * cos(M_PI * x)) : 0;
    case TNI_FILTER_BILINEAR:
      return x < 1 ? 1 - x : 0;
    default:
      return 0;
  }
}

static double support_of(tni_filter f) {
  return f == TNI_FILTER_LANCZOS ? 3 : f == TNI_FILTER_BICUBIC ? 2 : f == TNI_FILTER_BOX ? 0.5 : 1;
}

/* Weights of n_out outputs: out i reads count[i] inputs from first[i] on, weights at w + i * size. */
typedef struct weights {
  uint32_t *first, *count;
  int32_t *w;
  uint32_t size;
} weights;

static void weights_finish(weights *k) {
  free(k->first);
  free(k->w);
  *k = (weights){0};
}

/* The box is half open, so that of two pixels at the same distance one counts. */
static double weight_of(tni_filter f, double x) { return f == TNI_FILTER_BOX ? x > -0.5 && x <= 0.5 : weight_at(f, x); }

static void weights_one(weights *k, uint32_t i, uint32_t n_in, double scale, tni_filter f) {
  const double wide = scale < 1 ? 1 : scale, step = 1 / wide;
  const double support = support_of(f) * wide, center = (i + 0.5) * scale;
  const double lo = floor(center - support + 0.5), hi = floor(center + support + 0.5);
  const uint32_t first = lo < 0 ? 0 : (uint32_t)lo, end = hi > n_in ? n_in : (uint32_t)hi;
  double sum = 0;
  for (uint32_t x = first; x < end; x++) sum += weight_of(f, (x - center + 0.5) * step);
  k->first[i] = first;
  k->count[i] = end - first;
  for (uint32_t x = first; x < end; x++) {
    const double v = weight_of(f, (x - center + 0.5) * step) / (sum != 0 ? sum : 1) * (1 << BITS);
    k->w[(size_t)i * k->size + (x - first)] = (int32_t)(v < 0 ? v - 0.5 : v + 0.5);
  }
}

static bool weights_make(weights *k, uint32_t n_in, uint32_t n_out, tni_filter f) {
  const double scale = (double)n_in / n_out;
  k->size = (uint32_t)ceil(support_of(f) * (scale < 1 ? 1 : scale)) * 2 + 1;
  k->first = calloc(n_out, 2 * sizeof *k->first);
  k->count = k->first ? k->first + n_out : NULL;
  k->w = calloc((size_t)n_out * k->size, sizeof *k->w);
  if (!k->first || !k->w) return false;
  for (uint32_t i = 0; i < n_out; i++) weights_one(k, i, n_in, scale, f);
  return true;
}

static uint8_t clip_byte(int32_t v) {
  v >>= BITS;
  return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

/* One line of n_out pixels whose parts lie step bytes apart, c of them at each. */
static void resize_line(const weights *k, const uint8_t *src, size_t step_in, uint8_t *dst, size_t step_out,
                        uint32_t n_out, uint32_t c) {
  for (uint32_t i = 0; i < n_out; i++)
    for (uint32_t ch = 0; ch < c; ch++) {
      const uint8_t *s = src + k->first[i] * step_in + ch;
      const int32_t *w = k->w + (size_t)i * k->size;
      int32_t sum = 1 << (BITS - 1);
      for (uint32_t x = 0; x < k->count[i]; x++) sum += s[x * step_in] * w[x];
      dst[i * step_out + ch] = clip_byte(sum);
    }
}

/* Places are added up, not multiplied, as Pillow does: it decides where a place falls between two pixels. */
static void resize_nearest(const uint8_t *src, uint32_t w, uint32_t h, uint32_t c, uint8_t *dst, uint32_t ow,
                           uint32_t oh) {
  const double sx = (double)w / ow, sy = (double)h / oh;
  double py = sy * 0.5;
  for (uint32_t y = 0; y < oh; y++, py += sy) {
    const size_t row = (size_t)py < h ? (size_t)py : h - 1;
    double px = sx * 0.5;
    for (uint32_t x = 0; x < ow; x++, px += sx) {
      const size_t col = (size_t)px < w ? (size_t)px : w - 1;
      memcpy(dst + ((size_t)y * ow + x) * c, src + (row * w + col) * c, c);
    }
  }
}

/* Rows, then columns; a pass whose size does not change is left out. */
static tn_status two_passes(const uint8_t *src, uint32_t w, uint32_t h, uint32_t c, uint8_t *dst, uint32_t ow,
                            uint32_t oh, tni_filter f, tn_error *err) {
  weights kx = {0}, ky = {0};
  const size_t wide = (size_t)ow * c;
  uint8_t *rows = malloc(h * wide);
  bool ok = rows && weights_make(&kx, w, ow, f) && weights_make(&ky, h, oh, f);
  for (uint32_t y = 0; ok && y < h; y++) {
    if (w == ow)
      memcpy(rows + y * wide, src + y * wide, wide);
    else
      resize_line(&kx, src + (size_t)y * w * c, c, rows + y * wide, c, ow, c);
  }
  if (ok && h == oh)
    memcpy(dst, rows, oh * wide);
  else
    for (uint32_t x = 0; ok && x < ow; x++)
      resize_line(&ky, rows + (size_t)x * c, wide, dst + (size_t)x * c, wide, oh, c);
  free(rows);
  weights_finish(&kx);
  weights_finish(&ky);
  return ok ? TN_OK : tni_fail_memory(err, "resize");
}

tn_status tni_resize(const uint8_t *src, uint32_t w, uint32_t h, uint32_t c, uint8_t *dst, uint32_t ow, uint32_t oh,
                     tni_filter filter, tn_error *err) {
  if (w == ow && h == oh) {
    memcpy(dst, src, (size_t)w * h * c);
    return TN_OK;
  }
  if (filter != TNI_FILTER_NEAREST) return two_passes(src, w, h, c, dst, ow, oh, filter, err);
  resize_nearest(src, w, h, c, dst, ow, oh);
  return TN_OK;
}
