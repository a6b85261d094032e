/* SPDX-License-Identifier: Apache-2.0
 *
 * RoiAlign and MaxRoiPool: regions of images [N, C, H, W] brought to one size. Everything is computed in double and
 * rounded once, but for where MaxRoiPool's regions and bins begin and end: that is rounded to whole pixels, of numbers
 * in float32, as its authors and onnxruntime do; in double 5 * 0.7 would fall into another pixel.
 * Source: ONNX's Operators document and its reference; He et al., "Mask R-CNN", 2017; Girshick, "Fast R-CNN", 2015.
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

enum { GRID_MAX = 1 << 12 }; /* sampling points per bin and dim */

typedef struct roi {
  const tni_kargs *a;
  const tni_tensor *x, *rois, *batch;
  tni_tensor *y;
  double scale, offset;
  int64_t ratio, C, H, W, ph, pw;
  bool max;
  int32_t bad; /* atomic: a region that cannot be */
} roi;

/* One bilinear sample; in mode max the largest of its four weighted corners, as ONNX has it. */
static double roi_sample(const roi *r, int64_t plane, double y, double x) {
  if (!(y >= -1 && y <= (double)r->H && x >= -1 && x <= (double)r->W)) return 0;
  y = y < 0 ? 0 : y > (double)(r->H - 1) ? (double)(r->H - 1) : y;
  x = x < 0 ? 0 : x > (double)(r->W - 1) ? (double)(r->W - 1) : x;
  const int64_t y0 = (int64_t)y, x0 = (int64_t)x, y1 = y0 + 1 < r->H ? y0 + 1 : y0, x1 = x0 + 1 < r->W ? x0 + 1 : x0;
  const double ly = y - (double)y0, lx = x - (double)x0;
  const double v[4] = {(1 - ly) * (1 - lx) * tni_get_f64(r->x, plane + y0 * r->W + x0),
                       (1 - ly) * lx * tni_get_f64(r->x, plane + y0 * r->W + x1),
                       ly * (1 - lx) * tni_get_f64(r->x, plane + y1 * r->W + x0),
                       ly * lx * tni_get_f64(r->x, plane + y1 * r->W + x1)};
  if (!r->max) return v[0] + v[1] + v[2] + v[3];
  return fmax(fmax(v[0], v[1]), fmax(v[2], v[3]));
}

/* Start and size of one bin, and how many samples it takes. */
static bool roi_bins(const roi *r, int64_t n, uint32_t dim, int64_t pooled, double *start, double *size,
                     int64_t *grid) {
  *start = tni_get_f64(r->rois, n * 4 + dim) * r->scale - r->offset;
  double length = tni_get_f64(r->rois, n * 4 + dim + 2) * r->scale - r->offset - *start;
  if (r->offset == 0 && !(length >= 1)) length = 1;
  *size = length / (double)pooled;
  const double want = r->ratio > 0 ? (double)r->ratio : ceil(*size);
  if (!(want <= GRID_MAX) || !(fabs(*start) < 1e15)) return false;
  *grid = want < 0 ? 0 : (int64_t)want;
  return true;
}

static void align_planes(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  roi *r = arg;
  tni_poll poll = {r->a->run, TNI_POLL};
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    const int64_t n = u / r->C, image = tni_get_i64(r->batch, n);
    double y0, x0, bh, bw;
    int64_t gh, gw;
    if (image < 0 || image >= r->x->dims[0] || !roi_bins(r, n, 1, r->ph, &y0, &bh, &gh) ||
        !roi_bins(r, n, 0, r->pw, &x0, &bw, &gw)) {
      __atomic_store_n(&r->bad, 1, __ATOMIC_RELAXED);
      continue;
    }
    const int64_t plane = (image * r->C + u % r->C) * r->H * r->W;
    for (int64_t p = 0; p < r->ph * r->pw && !tni_poll_stop(&poll, 8); p++) {
      double acc = 0;
      for (int64_t i = 0, to; (to = tni_poll_until(&poll, i, gh * gw)) > i;)
        for (; i < to; i++) {
          const double y = y0 + (double)(p / r->pw) * bh + ((double)(i / gw) + 0.5) * bh / (double)gh;
          const double x = x0 + (double)(p % r->pw) * bw + ((double)(i % gw) + 0.5) * bw / (double)gw;
          const double v = roi_sample(r, plane, y, x);
          acc = !r->max ? acc + v : i == 0 ? v : fmax(acc, v);
        }
      if (!r->max && gh * gw > 0) acc /= (double)(gh * gw);
      tni_put_f64(r->y, u * r->ph * r->pw + p, acc);
    }
  }
}

static tn_status roi_images(const tni_kargs *a, roi *r) {
  const char *name = tni_op_by_id(a->node->op)->name;
  if (r->x->rank != 4 || r->y->rank != 4 || r->rois->rank != 2 || r->y->dims[0] != r->rois->dims[0] ||
      r->y->dims[1] != r->x->dims[1])
    return tni_kfail(a, TN_E_INVALID, "%s: regions do not fit the images", name);
  r->C = r->x->dims[1];
  r->H = r->x->dims[2];
  r->W = r->x->dims[3];
  r->ph = r->y->dims[2];
  r->pw = r->y->dims[3];
  r->scale = tni_at_f(a->node, TNI_A_SPATIAL_SCALE, 1);
  if (tni_knumel(r->y) && !tni_knumel(r->x)) return tni_kfail(a, TN_E_INVALID, "%s: images without pixels", name);
  return TN_OK;
}

static tn_status check_regions(const tni_kargs *a, const roi *r) {
  const char *name = tni_op_by_id(a->node->op)->name;
  if (r->bad) return tni_kfail(a, TN_E_INVALID, "%s: a region's image or size is out of range", name);
  return TN_OK;
}

tn_status tni_k_roi_align(const tni_kargs *a) {
  roi r = {.a = a, .x = a->in[0], .rois = a->in[1], .batch = a->in[2], .y = a->out[0]};
  const uint32_t mode = tni_at_word(a->node, TNI_A_MODE);
  const uint32_t where = tni_at_word(a->node, TNI_A_COORDINATE_TRANSFORMATION_MODE);
  const bool half = where == TN_WORD_ROI_ALIGN_COORDINATE_TRANSFORMATION_MODE_HALF_PIXEL;
  const tn_status s = roi_images(a, &r);
  if (s) return s;
  r.max = mode == TN_WORD_ROI_ALIGN_MODE_MAX;
  if (!mode || !where) return tni_kfail(a, TN_E_INVALID, "RoiAlign: unknown mode");
  if (r.rois->dims[1] != 4 || tni_knumel(r.batch) != r.rois->dims[0])
    return tni_kfail(a, TN_E_INVALID, "RoiAlign: regions and batch_indices do not fit together");
  r.offset = half ? 0.5 : 0;
  r.ratio = tni_at_i(a->node, TNI_A_SAMPLING_RATIO, 0);
  if (tni_knumel(r.y)) tni_kfor(a->run, r.y->dims[0] * r.C, r.ph * r.pw * 64, align_planes, &r);
  return check_regions(a, &r);
}

/* The pixel of a region's corner; far outside of any image it does not matter where. */
static double pixel_of(const roi *r, double v) {
  const double far = 1e30;
  return fmin(fmax(round((double)((float)v * (float)r->scale)), -far), far);
}

/* Rows or columns [*lo, *hi) of the image that bin p of a region takes. */
static void bin_range(double start, float size, int64_t p, int64_t n, int64_t *lo, int64_t *hi) {
  const float from = (float)p * size, to = (float)(p + 1) * size;
  const double a = floor((double)from) + start, b = ceil((double)to) + start;
  *lo = a <= 0 ? 0 : a >= (double)n ? n : (int64_t)a;
  *hi = b <= 0 ? 0 : b >= (double)n ? n : (int64_t)b;
}

static void pool_planes(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  roi *r = arg;
  tni_poll poll = {r->a->run, TNI_POLL};
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    const int64_t n = u / r->C;
    double v[5];
    for (uint32_t i = 0; i < 5; i++) v[i] = tni_get_f64(r->rois, n * 5 + i);
    const bool finite = isfinite(v[1]) && isfinite(v[2]) && isfinite(v[3]) && isfinite(v[4]);
    if (!finite || !(v[0] >= 0 && v[0] < (double)r->x->dims[0])) {
      __atomic_store_n(&r->bad, 1, __ATOMIC_RELAXED);
      continue;
    }
    const int64_t plane = ((int64_t)v[0] * r->C + u % r->C) * r->H * r->W;
    const double x0 = pixel_of(r, v[1]), y0 = pixel_of(r, v[2]);
    const float w = (float)fmax(pixel_of(r, v[3]) - x0 + 1, 1), h = (float)fmax(pixel_of(r, v[4]) - y0 + 1, 1);
    for (int64_t p = 0; p < r->ph * r->pw && !tni_poll_stop(&poll, 8); p++) {
      int64_t top, bottom, left, right;
      bin_range(y0, h / (float)r->ph, p / r->pw, r->H, &top, &bottom);
      bin_range(x0, w / (float)r->pw, p % r->pw, r->W, &left, &right);
      double best = bottom <= top || right <= left ? 0 : (double)-INFINITY;
      for (int64_t i = top; i < bottom && !tni_poll_stop(&poll, right - left + 1); i++)
        for (int64_t j = left; j < right; j++) best = fmax(best, tni_get_f64(r->x, plane + i * r->W + j));
      tni_put_f64(r->y, u * r->ph * r->pw + p, best);
    }
  }
}

tn_status tni_k_max_roi_pool(const tni_kargs *a) {
  roi r = {.a = a, .x = a->in[0], .rois = a->in[1], .y = a->out[0]};
  const tn_status s = roi_images(a, &r);
  if (s) return s;
  if (r.rois->dims[1] != 5) return tni_kfail(a, TN_E_INVALID, "MaxRoiPool: a region has not five numbers");
  if (tni_knumel(r.y)) tni_kfor(a->run, r.y->dims[0] * r.C, r.H * r.W * 4, pool_planes, &r);
  return check_regions(a, &r);
}
