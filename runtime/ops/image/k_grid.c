/* SPDX-License-Identifier: Apache-2.0
 *
 * GridSample and AffineGrid, for any number of spatial dims. Everything is computed in double and rounded once; sampled
 * positions are f32 where the grid is not f64. Nearest copies elements of any dtype.
 * Source: ONNX's Operators document; R. Keys, "Cubic convolution interpolation", 1981 (coefficient -0.75).
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

enum {
  NEAREST = TN_WORD_GRID_SAMPLE_MODE_NEAREST,
  LINEAR = TN_WORD_GRID_SAMPLE_MODE_LINEAR,
  CUBIC = TN_WORD_GRID_SAMPLE_MODE_CUBIC
};
enum {
  ZEROS = TN_WORD_GRID_SAMPLE_PADDING_MODE_ZEROS,
  BORDER = TN_WORD_GRID_SAMPLE_PADDING_MODE_BORDER,
  REFLECTION = TN_WORD_GRID_SAMPLE_PADDING_MODE_REFLECTION
};

typedef struct sample {
  const tn_run *run;
  const tni_tensor *x, *grid;
  tni_tensor *y;
  uint32_t mode, padding;
  bool align;
  uint32_t rank, size; /* spatial dims; bytes of an element */
  int64_t channels, plane, positions;
} sample;

static double reflect_coordinate(double x, double lo, double hi) {
  const double range = hi - lo;
  if (x >= lo && x <= hi) return x;
  if (!(range > 0)) return lo;
  const double d = x < lo ? lo - x : x - hi, r = fmod(d, range);
  const bool even = fmod(floor(d / range), 2) == 0;
  return (x < lo) == even ? lo + r : hi - r;
}

/* Where the index of a tap points: -1 for a zero. */
static int64_t tap_index(const sample *s, double i, int64_t n) {
  if (i >= 0 && i < (double)n) return (int64_t)i;
  if (s->padding == ZEROS || i != i) return -1;
  if (s->padding == REFLECTION) i = reflect_coordinate(i, s->align ? 0 : -0.5, (double)n - (s->align ? 1 : 0.5));
  if (i != i) return -1; /* of an infinite one */
  return i <= 0 ? 0 : i >= (double)(n - 1) ? n - 1 : (int64_t)i;
}

/* Position along a dim of n elements for normalized coordinate v in [-1, 1]. */
static double denormalize_coordinate(const sample *s, double v, int64_t n) {
  double x = s->align ? (v + 1) / 2 * (double)(n - 1) : ((v + 1) * (double)n - 1) / 2;
  if (s->grid->dtype != TN_DT_F64) x = (double)(float)x;
  if (s->mode == NEAREST) x = rint(x);
  const double lo = s->align ? 0 : -0.5, hi = (double)n - (s->align ? 1 : 0.5);
  if (s->mode == CUBIC) return x; /* its taps are padded one by one, as PyTorch and ONNX Runtime do */
  if (s->padding == BORDER && (x < lo || x > hi)) x = x < 0 ? 0 : (double)(n - 1);
  if (s->padding == REFLECTION) x = reflect_coordinate(x, lo, hi);
  return x;
}

static int64_t cubic_weights(int mode, double x, double *w) {
  const double a = -0.75, t = x - floor(x);
  if (mode == LINEAR) {
    w[0] = 1 - t;
    w[1] = t;
    return 0;
  }
  w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
  w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  w[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
  w[3] = ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a;
  return -1;
}

enum { TAPS = 4 };
typedef struct spot {
  uint32_t taps;
  int64_t at[TN_MAX_RANK][TAPS]; /* element offsets within the plane; -1: zero */
  double w[TN_MAX_RANK][TAPS];
} spot;

static void locate_grid_spot(const sample *s, int64_t image, int64_t p, spot *q) {
  int64_t stride = 1;
  q->taps = s->mode == NEAREST ? 1 : s->mode == LINEAR ? 2 : 4;
  for (uint32_t d = s->rank; d-- > 0;) {
    const int64_t n = s->x->dims[d + 2];
    /* The grid names the innermost dim first. */
    const double v = tni_get_f64(s->grid, (image * s->positions + p) * s->rank + s->rank - 1 - d);
    const double x = denormalize_coordinate(s, v, n);
    int64_t first = 0;
    q->w[d][0] = 1;
    if (s->mode != NEAREST) first = cubic_weights(s->mode, x, q->w[d]);
    for (uint32_t t = 0; t < q->taps; t++) {
      const int64_t i = tap_index(s, floor(x) + (double)(first + t), n);
      q->at[d][t] = i < 0 ? -1 : i * stride;
    }
    stride *= n;
  }
}

static double interpolate_spot(const sample *s, const spot *q, int64_t base) {
  uint32_t tap[TN_MAX_RANK] = {0};
  double sum = 0;
  for (bool more = true; more;) {
    int64_t at = base;
    double w = 1;
    for (uint32_t d = 0; d < s->rank; d++) {
      const int64_t i = q->at[d][tap[d]];
      w = i < 0 ? 0 : w * q->w[d][tap[d]];
      at += i < 0 ? 0 : i;
    }
    if (w != 0) sum += w * tni_get_f64(s->x, at);
    more = false;
    for (uint32_t d = s->rank; d-- > 0 && !more;) {
      more = ++tap[d] < q->taps;
      if (!more) tap[d] = 0;
    }
  }
  return sum;
}

/* Elements of work for one of the output's. */
static int64_t work_of(const sample *s) {
  return s->mode == NEAREST ? 4 : 4 << (s->mode == LINEAR ? s->rank : 2 * s->rank);
}

static void sample_points(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const sample *s = arg;
  const int64_t work = work_of(s);
  const bool many = s->channels * work > TNI_POLL;
  tni_poll poll = {s->run, TNI_POLL};
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    const int64_t image = u / s->positions, p = u % s->positions;
    spot q;
    locate_grid_spot(s, image, p, &q);
    for (int64_t c = 0; c < s->channels && !(many && tni_poll_stop(&poll, work)); c++) {
      const int64_t to = (image * s->channels + c) * s->positions + p, base = (image * s->channels + c) * s->plane;
      if (s->mode != NEAREST) {
        tni_put_f64(s->y, to, interpolate_spot(s, &q, base));
        continue;
      }
      int64_t at = base;
      bool zero = false;
      for (uint32_t d = 0; d < s->rank; d++) {
        zero = zero || q.at[d][0] < 0;
        at += q.at[d][0];
      }
      char *y = (char *)s->y->data + (size_t)to * s->size;
      if (zero)
        memset(y, 0, s->size);
      else
        memcpy(y, (const char *)s->x->data + (size_t)at * s->size, s->size);
    }
  }
}

tn_status tni_k_grid_sample(const tni_kargs *a) {
  sample s = {.run = a->run, .x = a->in[0], .grid = a->in[1], .y = a->out[0], .size = tni_elem_size(a->in[0]->dtype)};
  s.mode = tni_at_word(a->node, TNI_A_MODE);
  s.padding = tni_at_word(a->node, TNI_A_PADDING_MODE);
  if (!s.mode) return tni_kfail(a, TN_E_INVALID, "GridSample: unknown mode");
  if (!s.padding) return tni_kfail(a, TN_E_INVALID, "GridSample: unknown padding_mode");
  if (!s.size || (s.mode != NEAREST && (s.x->dtype == TN_DT_C64 || s.x->dtype == TN_DT_C128)))
    return tni_kdtype(a, s.x->dtype);
  if (s.x->rank < 3 || s.grid->rank != s.x->rank || s.grid->dims[s.x->rank - 1] != s.x->rank - 2 ||
      s.grid->dims[0] != s.x->dims[0])
    return tni_kfail(a, TN_E_INVALID, "GridSample: the grid does not fit the input");
  if (!tni_knumel(s.y)) return TN_OK;
  if (!tni_knumel(s.x)) return tni_kfail(a, TN_E_INVALID, "GridSample: nothing to sample");
  s.rank = s.x->rank - 2;
  s.align = tni_at_i(a->node, TNI_A_ALIGN_CORNERS, 0) != 0;
  s.channels = s.x->dims[1];
  s.plane = tni_dim_product(s.x, 2, s.x->rank);
  s.positions = tni_dim_product(s.grid, 1, s.grid->rank - 1);
  tni_kfor(a->run, s.x->dims[0] * s.positions, s.channels * (16 + work_of(&s)), sample_points, &s);
  return TN_OK;
}

/* --- AffineGrid: grid [N, spatial, k] = theta [N, k, k + 1] times the points of a regular grid and 1 */

typedef struct affine {
  const tni_tensor *theta;
  tni_tensor *y;
  bool align;
  uint32_t k;
  int64_t points;
} affine;

static void affine_points(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const affine *f = arg;
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    double p[TN_MAX_RANK];
    int64_t rest = u % f->points;
    /* Coordinate 0 is the innermost dim's. */
    for (uint32_t i = 0; i < f->k; i++) {
      const int64_t n = f->y->dims[f->k - i], at = rest % n;
      p[i] = f->align ? (n > 1 ? -1 + 2 * (double)at / (double)(n - 1) : -1) : (2 * (double)at + 1) / (double)n - 1;
      rest /= n;
    }
    for (uint32_t i = 0; i < f->k; i++) {
      const int64_t row = (u / f->points * f->k + i) * (f->k + 1);
      double sum = tni_get_f64(f->theta, row + f->k);
      for (uint32_t j = 0; j < f->k; j++) sum += tni_get_f64(f->theta, row + j) * p[j];
      tni_put_f64(f->y, u * f->k + i, sum);
    }
  }
}

tn_status tni_k_affine_grid(const tni_kargs *a) {
  const tni_tensor *t = a->in[0];
  tni_tensor *y = a->out[0];
  affine f = {.theta = t, .y = y, .k = y->rank < 3 ? 0 : y->rank - 2};
  if (!f.k || t->rank != 3 || t->dims[1] != f.k || t->dims[2] != f.k + 1 || t->dims[0] != y->dims[0] ||
      y->dims[y->rank - 1] != f.k)
    return tni_kfail(a, TN_E_INVALID, "AffineGrid: theta does not fit the size");
  f.align = tni_at_i(a->node, TNI_A_ALIGN_CORNERS, 0) != 0;
  f.points = tni_dim_product(y, 1, y->rank - 1);
  tni_kfor(a->run, y->dims[0] * f.points, 16, affine_points, &f);
  return TN_OK;
}
