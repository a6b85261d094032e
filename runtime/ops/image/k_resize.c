/* SPDX-License-Identifier: Apache-2.0
 *
 * Resize. Along each dim an output position reads some taps of the input: one (nearest), two (linear), four (cubic),
 * more where antialias widens the filter by 1 / scale; an output element is the sum over the product of its dims' taps.
 *
 * Positions and weights are in double. f32 sums in f32, everything else in double; sums run over the taps in ascending
 * order, the innermost dim's first. Nearest copies elements of any dtype.
 * Source: ONNX's Operators document, Resize; R. Keys, "Cubic convolution interpolation", 1981.
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

enum { NEAREST = TN_WORD_RESIZE_MODE_NEAREST, LINEAR = TN_WORD_RESIZE_MODE_LINEAR, CUBIC = TN_WORD_RESIZE_MODE_CUBIC };
#define TRANSFORM(word) TN_WORD_RESIZE_COORDINATE_TRANSFORMATION_MODE_##word
enum {
  HALF_PIXEL = TRANSFORM(HALF_PIXEL),
  SYMMETRIC = TRANSFORM(HALF_PIXEL_SYMMETRIC),
  PYTORCH = TRANSFORM(PYTORCH_HALF_PIXEL),
  ALIGN_CORNERS = TRANSFORM(ALIGN_CORNERS),
  ASYMMETRIC = TRANSFORM(ASYMMETRIC),
  CROP = TRANSFORM(TF_CROP_AND_RESIZE),
  HALF_FOR_NEAREST = TRANSFORM(TF_HALF_PIXEL_FOR_NN)
};
#undef TRANSFORM
enum {
  PREFER_FLOOR = TN_WORD_RESIZE_NEAREST_MODE_ROUND_PREFER_FLOOR,
  PREFER_CEIL = TN_WORD_RESIZE_NEAREST_MODE_ROUND_PREFER_CEIL,
  FLOOR = TN_WORD_RESIZE_NEAREST_MODE_FLOOR,
  CEIL = TN_WORD_RESIZE_NEAREST_MODE_CEIL
};

typedef struct axis {
  int64_t in, out, stride; /* of the input, elements */
  double scale, from, to;  /* roi */
  int64_t taps, first;     /* tap i of position p is floor(p) + first + i */
  double squeeze;          /* of the filter: scale where antialias is on and it is below 1, else 1 */
  bool same;               /* the dim stays as it is: one tap */
} axis;

typedef struct resize {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y;
  uint32_t mode, transform, rounding;
  bool exclude, integer; /* integers are rounded to the nearest, halves to even */
  double a, outside;     /* cubic coefficient, extrapolation value */
  uint32_t rank, size;
  axis ax[TN_MAX_RANK];
} resize;

/* Taps of one output position. */
typedef struct resize_spot {
  int64_t base; /* floor of the position, plus the axis' first tap */
  double ratio, norm;
  bool outside;
} resize_spot;

static double source_position(const resize *r, const axis *a, int64_t o) {
  const double length = a->scale * (double)a->in, last = (double)(a->in - 1), p = (double)o;
  switch (r->transform) {
    case ALIGN_CORNERS:
      return length == 1 ? 0 : p * last / (length - 1);
    case ASYMMETRIC:
      return p / a->scale;
    case HALF_FOR_NEAREST: /* of versions 11 and 12 */
      return (p + 0.5) / a->scale;
    case CROP:
      return a->from * last +
             (length == 1 ? (a->to - a->from) * last / 2 : p * (a->to - a->from) * last / (length - 1));
    case PYTORCH:
      return length == 1 ? -0.5 : (p + 0.5) / a->scale - 0.5;
    case SYMMETRIC:
      return (double)a->in / 2 * (1 - (double)a->out / length) + (p + 0.5) / a->scale - 0.5;
    default:
      return (p + 0.5) / a->scale - 0.5;
  }
}

static int64_t clamp_index(double v, int64_t n) { return v <= 0 ? 0 : v >= (double)(n - 1) ? n - 1 : (int64_t)v; }

static int64_t nearest_source(const resize *r, double p, int64_t n) {
  switch (r->rounding) {
    case PREFER_FLOOR:
      return clamp_index(ceil(p - 0.5), n);
    case PREFER_CEIL:
      return clamp_index(floor(p + 0.5), n);
    case FLOOR:
      return clamp_index(floor(p), n);
    default:
      return clamp_index(ceil(p), n);
  }
}

/* Filter at distance d. */
static double filter_weight(const resize *r, double d) {
  d = fabs(d);
  if (r->mode == LINEAR) return d < 1 ? 1 - d : 0;
  if (d <= 1) return ((r->a + 2) * d - (r->a + 3)) * d * d + 1;
  return d < 2 ? ((r->a * d - 5 * r->a) * d + 8 * r->a) * d - 4 * r->a : 0;
}

static double tap_weight(const resize *r, const axis *a, const resize_spot *s, int64_t tap) {
  const int64_t at = s->base + tap;
  if (r->mode == NEAREST || a->same) return 1;
  if (r->exclude && (at < 0 || at >= a->in)) return 0;
  return filter_weight(r, ((double)(a->first + tap) - s->ratio) * a->squeeze) * s->norm;
}

static int64_t source_index(const axis *a, const resize_spot *s, int64_t tap) {
  const int64_t at = s->base + tap;
  return at < 0 ? 0 : at >= a->in ? a->in - 1 : at;
}

/* Positions are bounded first: a scale from a file may be tiny. */
enum { MANY = 64 }; /* taps that are asked about column by column */

static resize_spot locate_resize_spot(const resize *r, const axis *a, int64_t o, tni_poll *poll) {
  if (a->same) return (resize_spot){.base = o, .norm = 1};
  const double far = 4e9, raw = source_position(r, a, o),
               p = raw != raw   ? 0
                   : raw < -far ? -far
                   : raw > far  ? far
                                : raw;
  resize_spot s = {.norm = 1, .outside = r->transform == CROP && (p < 0 || p > (double)(a->in - 1))};
  if (r->mode == NEAREST) {
    s.base = nearest_source(r, p, a->in);
    return s;
  }
  s.base = (int64_t)floor(p) + a->first;
  s.ratio = p - floor(p);
  if (a->squeeze == 1 && !r->exclude) return s;
  double sum = 0;
  for (int64_t i = 0; i < a->taps && !tni_poll_stop(poll, 4); i++) sum += tap_weight(r, a, &s, i);
  s.norm = sum != 0 ? 1 / sum : 0;
  return s;
}

/* --- rows: one output row at a time, TNI_CHUNK columns of it. Weights of a column lie side by side where they fit. */
enum { KEPT = 1024 };

typedef struct resize_columns {
  int64_t n, first;
  resize_spot s[TNI_CHUNK];
  double w[KEPT];
  bool kept;
} resize_columns;

static void locate_columns(const resize *r, int64_t first, int64_t n, resize_columns *c, tni_poll *poll) {
  const axis *a = &r->ax[r->rank - 1];
  c->n = n;
  c->first = first;
  c->kept = a->taps <= KEPT / n;
  for (int64_t j = 0; j < n; j++) {
    c->s[j] = locate_resize_spot(r, a, first + j, poll);
    for (int64_t t = 0; t < a->taps && c->kept; t++) c->w[j * a->taps + t] = tap_weight(r, a, &c->s[j], t);
  }
}

/* acc[j] += scale * sum over the taps of column j of the input row at `row`. */
#define ADD_ROW(NAME, T, LOAD)                                                                                    \
  static void NAME(const resize *r, const resize_columns *c, int64_t row, double scale, T *acc, tni_poll *poll) { \
    const axis *a = &r->ax[r->rank - 1];                                                                          \
    for (int64_t j = 0; j < c->n; j++) {                                                                          \
      if (a->taps > MANY && tni_poll_stop(poll, 4 * a->taps)) return;                                             \
      T sum = 0;                                                                                                  \
      for (int64_t t = 0; t < a->taps; t++) {                                                                     \
        const T w = (T)(c->kept ? c->w[j * a->taps + t] : tap_weight(r, a, &c->s[j], t));                         \
        if (w != 0) sum += w * (T)LOAD(row + source_index(a, &c->s[j], t));                                       \
      }                                                                                                           \
      acc[j] += (T)scale * sum;                                                                                   \
    }                                                                                                             \
  }
#define LOAD_F32(i) ((const f32u *)r->x->data)[i]
#define LOAD_ANY(i) tni_get_f64(r->x, i)
ADD_ROW(add_f32, float, LOAD_F32)
ADD_ROW(add_any, double, LOAD_ANY)
#undef ADD_ROW
#undef LOAD_F32
#undef LOAD_ANY

static void copy_row(const resize *r, const resize_columns *c, int64_t row, int64_t to) {
  const axis *a = &r->ax[r->rank - 1];
  const size_t size = r->size;
  for (int64_t j = 0; j < c->n; j++)
    memcpy((char *)r->y->data + (size_t)(to + j) * size,
           (const char *)r->x->data + (size_t)(row + source_index(a, &c->s[j], 0)) * size, size);
}

/* Sums over the taps of the outer dims, whose spots are in s. */
static void sum_rows(const resize *r, const resize_columns *c, const resize_spot *s, int64_t to, tni_poll *poll) {
  const bool f32 = r->x->dtype == TN_DT_F32;
  int64_t tap[TN_MAX_RANK] = {0};
  float f[TNI_CHUNK] = {0};
  double d[TNI_CHUNK] = {0};
  for (bool more = true; more && !tni_poll_stop(poll, c->n * 4);) {
    int64_t row = 0;
    double w = 1;
    for (uint32_t k = 0; k + 1 < r->rank; k++) {
      w *= tap_weight(r, &r->ax[k], &s[k], tap[k]);
      row += source_index(&r->ax[k], &s[k], tap[k]) * r->ax[k].stride;
    }
    if (w != 0 && f32) add_f32(r, c, row, w, f, poll);
    if (w != 0 && !f32) add_any(r, c, row, w, d, poll);
    more = false;
    for (uint32_t k = r->rank - 1; k-- > 0 && !more;) {
      more = ++tap[k] < r->ax[k].taps;
      if (!more) tap[k] = 0;
    }
  }
  for (int64_t j = 0; j < c->n && f32; j++) ((f32u *)r->y->data)[to + j] = f[j];
  for (int64_t j = 0; j < c->n && !f32; j++) tni_put_f64(r->y, to + j, r->integer ? rint(d[j]) : d[j]);
}

/* An index is a chunk of columns and a row: chunk-major, so that columns are located once per piece. */
static void resize_pieces(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const resize *r = arg;
  const int64_t n = r->ax[r->rank - 1].out, rows = tni_knumel(r->y) / n;
  resize_columns c = {.first = -1};
  tni_poll poll = {r->run, 0};
  (void)worker;
  for (int64_t u = begin; u < end && !tni_poll_stop(&poll, TNI_CHUNK); u++) {
    const int64_t first = u / rows * TNI_CHUNK, row = u % rows, to = row * n + first;
    resize_spot s[TN_MAX_RANK];
    bool outside = false;
    int64_t rest = row, from = 0;
    if (c.first != first) locate_columns(r, first, n - first < TNI_CHUNK ? n - first : TNI_CHUNK, &c, &poll);
    for (uint32_t d = r->rank - 1; d-- > 0;) {
      s[d] = locate_resize_spot(r, &r->ax[d], rest % r->ax[d].out, &poll);
      rest /= r->ax[d].out;
      outside = outside || s[d].outside;
      from += source_index(&r->ax[d], &s[d], 0) * r->ax[d].stride;
    }
    if (r->mode == NEAREST)
      copy_row(r, &c, from, to);
    else
      sum_rows(r, &c, s, to, &poll);
    for (int64_t j = 0; j < c.n && r->transform == CROP; j++)
      if (outside || c.s[j].outside) tni_put_f64(r->y, to + j, r->outside);
  }
}

/* --- attributes and inputs */

static tn_status read_modes(const tni_kargs *a, resize *r) {
  r->mode = tni_at_word(a->node, TNI_A_MODE);
  r->transform = tni_at_word(a->node, TNI_A_COORDINATE_TRANSFORMATION_MODE);
  r->rounding = tni_at_word(a->node, TNI_A_NEAREST_MODE);
  if (!r->mode) return tni_kfail(a, TN_E_INVALID, "Resize: unknown mode");
  if (!r->transform) return tni_kfail(a, TN_E_INVALID, "Resize: unknown coordinate_transformation_mode");
  if (!r->rounding) return tni_kfail(a, TN_E_INVALID, "Resize: unknown nearest_mode");
  r->integer = r->x->dtype != TN_DT_F64 && r->x->dtype != TN_DT_F32 && !tni_is_half(r->x->dtype);
  r->exclude = tni_at_i(a->node, TNI_A_EXCLUDE_OUTSIDE, 0) != 0;
  r->a = tni_at_f(a->node, TNI_A_CUBIC_COEFF_A, -0.75);
  r->outside = tni_at_f(a->node, TNI_A_EXTRAPOLATION_VALUE, 0);
  return TN_OK;
}

/* Dims that scales, sizes and roi speak of, in their order. */
static tn_status read_axes(const tni_kargs *a, const resize *r, uint32_t *axes, uint32_t *n) {
  const int64_t *given;
  const uint32_t count = tni_at_ints(a->node, TNI_A_AXES, &given);
  *n = given ? count : r->rank;
  if (*n > r->rank) return tni_kfail(a, TN_E_INVALID, "Resize: %u axes for rank %u", *n, r->rank);
  for (uint32_t i = 0; i < *n; i++) {
    const int32_t d = given ? tni_kaxis(given[i], r->rank) : (int32_t)i;
    if (d < 0) return tni_kfail(a, TN_E_INVALID, "Resize: axis %lld of rank %u", (long long)given[i], r->rank);
    axes[i] = (uint32_t)d;
  }
  return TN_OK;
}

static tn_status read_scales(const tni_kargs *a, resize *r, const uint32_t *axes, uint32_t n) {
  const tni_tensor *roi = a->n_in > 1 ? a->in[1] : NULL, *scales = a->n_in > 2 ? a->in[2] : NULL;
  const tni_tensor *sizes = a->n_in > 3 ? a->in[3] : NULL;
  const uint32_t policy = tni_at_word(a->node, TNI_A_KEEP_ASPECT_RATIO_POLICY);
  const bool larger = policy == TN_WORD_RESIZE_KEEP_ASPECT_RATIO_POLICY_NOT_SMALLER,
             keep = larger || policy == TN_WORD_RESIZE_KEEP_ASPECT_RATIO_POLICY_NOT_LARGER;
  double all = 0;
  if (scales && !tni_knumel(scales)) scales = NULL;
  if ((scales && tni_knumel(scales) != n) || (!scales && sizes && tni_knumel(sizes) != n) || (!scales && !sizes))
    return tni_kfail(a, TN_E_INVALID, "Resize: scales or sizes do not fit the axes");
  if (r->transform == CROP && (!roi || tni_knumel(roi) != 2 * n))
    return tni_kfail(a, TN_E_INVALID, "Resize: roi does not fit the axes");
  for (uint32_t i = 0; i < n; i++) {
    axis *x = &r->ax[axes[i]];
    x->scale = scales ? tni_get_f64(scales, i) : tni_get_f64(sizes, i) / (double)x->in;
    if (!(x->scale > 0) || x->scale > 1e9) return tni_kfail(a, TN_E_INVALID, "Resize: scale %g", x->scale);
    if (i == 0 || (larger ? x->scale > all : x->scale < all)) all = x->scale;
    if (r->transform != CROP) continue;
    x->from = tni_get_f64(roi, i);
    x->to = tni_get_f64(roi, n + i);
  }
  for (uint32_t i = 0; i < n && keep && !scales; i++) r->ax[axes[i]].scale = all;
  return TN_OK;
}

/* How many taps: the filter's reach on both sides, divided by the squeeze. */
static void set_taps(const resize *r, axis *x, bool antialias) {
  const double reach = r->mode == CUBIC ? 2 : 1;
  x->same = x->scale == 1 && x->in == x->out && x->from == 0 && x->to == 1;
  x->squeeze = antialias && x->scale < 1 ? x->scale : 1;
  x->taps = 1;
  x->first = 0;
  if (r->mode == NEAREST || x->same) return;
  x->first = (int64_t)floor(-reach / x->squeeze) + 1;
  x->taps = 2 - 2 * x->first;
}

tn_status tni_k_resize(const tni_kargs *a) {
  resize r = {
      .run = a->run, .x = a->in[0], .y = a->out[0], .rank = a->in[0]->rank, .size = tni_elem_size(a->in[0]->dtype)};
  uint32_t axes[TN_MAX_RANK], n;
  int64_t st[TN_MAX_RANK];
  tn_status s = read_modes(a, &r);
  if (!s) s = read_axes(a, &r, axes, &n);
  if (s) return s;
  if (!r.size || (r.mode != NEAREST && (r.x->dtype == TN_DT_C64 || r.x->dtype == TN_DT_C128)))
    return tni_kdtype(a, r.x->dtype);
  if (r.y->rank != r.rank) return tni_kfail(a, TN_E_INVALID, "Resize: ranks differ");
  if (!tni_knumel(r.y)) return TN_OK;
  if (!tni_knumel(r.x)) return tni_kfail(a, TN_E_INVALID, "Resize: nothing to resize");
  if (!r.rank) return memcpy(r.y->data, r.x->data, r.size), TN_OK;
  tni_kstrides(r.x, st);
  for (uint32_t d = 0; d < r.rank; d++)
    r.ax[d] = (axis){.in = r.x->dims[d], .out = r.y->dims[d], .stride = st[d], .scale = 1, .to = 1};
  s = read_scales(a, &r, axes, n);
  if (s) return s;
  const bool antialias = tni_at_i(a->node, TNI_A_ANTIALIAS, 0) != 0;
  if (antialias && r.mode == NEAREST) return tni_kfail(a, TN_E_INVALID, "Resize: antialias in mode nearest");
  int64_t taps = 1;
  for (uint32_t d = 0; d < r.rank; d++) {
    set_taps(&r, &r.ax[d], antialias);
    taps *= r.ax[d].taps < 64 ? r.ax[d].taps : 64;
  }
  const int64_t cols = r.ax[r.rank - 1].out, chunks = (cols + TNI_CHUNK - 1) / TNI_CHUNK;
  tni_kfor_polled(a->run, tni_knumel(r.y) / cols * chunks, (cols < TNI_CHUNK ? cols : TNI_CHUNK) * 4 * taps,
                  resize_pieces, &r);
  return TN_OK;
}
