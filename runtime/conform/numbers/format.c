/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats by their table alone, no device: is what is declared plausible, does packing keep it, are the bytes a
 * function of the weights and of nothing else.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/numbers/num.h"
#include "runtime/conform/numbers/plain.h"
#include "runtime/pack/pack.h"

enum { MAX_PARAM_SETS = 8, GUARD = 64 };
/* Patterns of weights more: row n is 2^-(n % 16) times as large as the first; or all are 2^-12
 * times as large as usual. */
enum { ROWS_OF_SIZES = TNI_CN_PATTERNS, ALL_SMALL };

/* One set of params of a format, under test. */
typedef struct subject {
  tni_cf *cf;
  const tn_host *host;
  const tn_format *f;
  int64_t params[8];
  uint32_t n_params;
  const tn_numerics *num;
  tn_stats stats;
  float *zeros;
  char text[64]; /* "w4g[32]" */
} subject;

typedef struct weight_source {
  tn_weight w;
  const float *data;
} weight_source;

static tn_status give_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const weight_source *s = (const weight_source *)w;
  if (n0 < 0 || n1 < n0 || n1 > w->N) return TN_E_INVALID;
  memcpy(dst, s->data + n0 * w->K, (size_t)((n1 - n0) * w->K) * sizeof *dst);
  return TN_OK;
}

/* A format may refuse what is no multiple of its tiles (format.h, size): of the shapes that are listed those are asked that it
 * takes. [64,256] is one of each list, which it takes with some params (each_params). */
static bool is_taken(const subject *s, int64_t N, int64_t K) {
  tn_pack_size z = {0};
  return (N == 64 && K == 256) || s->f->size(s->f, N, K, s->params, s->n_params, &z) == TN_OK;
}

static weight_source source_of(subject *s, const float *data, int64_t N, int64_t K) {
  s->stats.n = (uint32_t)K;
  weight_source w = {
      .w = {.h = TN_HDR(tn_weight), .N = N, .K = K, .dtype = TN_DT_F32, .rows = give_rows, .x = &s->stats},
      .data = data};
  return w;
}

/* --- packing ----------------------------------------------------------------------------------------------------- */

enum { WHOLE, UNITS, BACKWARDS, THREADS, WAYS };

typedef struct format_part {
  const tn_format *f;
  tn_pack *p;
  int64_t n0, n1;
  void *blob;
  tn_status st;
} format_part;

static void *pack_part(void *arg) {
  format_part *p = arg;
  p->st = p->n0 < p->n1 ? p->f->rows(p->p, p->n0, p->n1, p->blob) : TN_OK;
  return NULL;
}

static tn_status pack_by(const tn_format *f, tn_pack *p, int64_t N, int64_t unit, int way, void *blob) {
  const int64_t step = unit > 0 ? unit : 1, n = (N + step - 1) / step;
  tn_status st = TN_OK;
  if (way == WHOLE) return f->rows(p, 0, N, blob);
  if (way == THREADS) {
    format_part t[2] = {{f, p, 0, n / 2 * step, blob, TN_OK}, {f, p, n / 2 * step, N, blob, TN_OK}};
    pthread_t other;
    const bool started = pthread_create(&other, NULL, pack_part, &t[0]) == 0;
    if (!started) pack_part(&t[0]);
    pack_part(&t[1]);
    if (started) pthread_join(other, NULL);
    return t[0].st != TN_OK ? t[0].st : t[1].st;
  }
  for (int64_t k = 0; st == TN_OK && k < n; k++) {
    const int64_t i = way == BACKWARDS ? n - 1 - k : k;
    st = f->rows(p, i * step, (i + 1) * step < N ? (i + 1) * step : N, blob);
  }
  return st;
}

/* Bytes of [N,K] packed, between guards, over memory that held `fill`; NULL where it failed (reported unless quiet). */
static uint8_t *blob_pack(subject *s, const float *data, int64_t N, int64_t K, int way, uint8_t fill, uint64_t *bytes) {
  weight_source w = source_of(s, data, N, K);
  tn_pack_size size = {0};
  tn_pack *p = NULL;
  tn_error err;
  tni_error_init(&err);
  if (s->f->size(s->f, N, K, s->params, s->n_params, &size) != TN_OK) {
    tni_cf_fail(s->cf, "%s: size refuses [%lld,%lld]", s->text, (long long)N, (long long)K);
    return NULL;
  }
  uint8_t *base = aligned_alloc(4096, (size.bytes + 2 * 4096 + 4095) / 4096 * 4096);
  if (!base) return NULL;
  uint8_t *blob = base + 4096;
  memset(base, 0x5b, size.bytes + 2 * 4096);
  memset(blob, fill, size.bytes);
  tn_status st = s->f->begin(s->host, s->f, &w.w, s->params, s->n_params, &p, &err);
  if (st == TN_OK) st = pack_by(s->f, p, N, size.row_unit, way, blob);
  const tn_status end = p ? s->f->end(p, st == TN_OK ? blob : NULL) : TN_OK;
  bool ok = st == TN_OK && end == TN_OK;
  if (!ok) tni_cf_fail(s->cf, "%s: packing [%lld,%lld] failed: %s", s->text, (long long)N, (long long)K, err.message);
  for (int i = 0; ok && i < GUARD; i++)
    if (blob[-1 - i] != 0x5b || blob[size.bytes + (uint64_t)i] != 0x5b) {
      tni_cf_fail(s->cf, "%s: packing [%lld,%lld] wrote beside its blob", s->text, (long long)N, (long long)K);
      ok = false;
    }
  *bytes = size.bytes;
  if (ok) return base;
  free(base);
  return NULL;
}

static tn_blob blob_of(const subject *s, uint8_t *base, uint64_t bytes, int64_t N, int64_t K) {
  return (tn_blob){.h = TN_HDR(tn_blob),
                   .format = s->f,
                   .N = N,
                   .K = K,
                   .bytes = bytes,
                   .ptr = base + 4096,
                   .params = s->params,
                   .n_params = s->n_params};
}

static float *blob_unpack(subject *s, const tn_blob *b) {
  const int64_t box[4] = {0, b->N, 0, b->K};
  float *w = malloc((size_t)(b->N * b->K + 1) * sizeof *w);
  if (!w) return NULL;
  memset(w, 0xff, (size_t)(b->N * b->K + 1) * sizeof *w);
  if (s->f->unpack(b, box, w) == TN_OK) return w;
  tni_cf_fail(s->cf, "%s: unpack of [%lld,%lld] failed", s->text, (long long)b->N, (long long)b->K);
  free(w);
  return NULL;
}

/* --- what is declared -------------------------------------------------------------------------------------------- */

/* Elements that share a scale: the format's group, or what a param and the numerics agree on, or the whole matrix. */
static int64_t group_of(const subject *s, int64_t N, int64_t K) {
  if (s->f->group) return s->f->group;
  for (uint32_t i = 0; i < s->n_params; i++)
    if (s->num->act_group && s->params[i] == s->num->act_group) return s->num->act_group;
  return N * K;
}

/* Largest magnitude of each group: [N][ceil(K / group)], or one number for all; free() it. */
typedef struct tops {
  float *top;
  int64_t group, of_row; /* groups of a row; 0: the whole matrix is one */
} tops;

static tops tops_of(const float *w, int64_t N, int64_t K, int64_t group) {
  tops t = {.group = group, .of_row = group >= N * K ? 0 : (K + group - 1) / group};
  t.top = calloc((size_t)(N * t.of_row) + 1, sizeof *t.top);
  for (int64_t i = 0; t.top && i < N * K; i++) {
    float *top = &t.top[t.of_row ? i / K * t.of_row + i % K / group : 0];
    *top = fmaxf(*top, fabsf(w[i]));
  }
  return t;
}

static float top_at(const tops *t, int64_t i, int64_t K) {
  return t->top[t->of_row ? i / K * t->of_row + i % K / t->group : 0];
}

static double allowed_x_err(const tn_numerics *num) {
  switch (num->act_scheme) {
    case TN_ACT_NONE:
      return tni_cn_unit(num->act_dtype);
    case TN_ACT_RUNSUM:
      return 0.5 * num->act_run / (double)num->act_max;
    case TN_ACT_STATIC:
      return 0.5 / fmin((double)num->act_max, 127);
    default:
      return 0.5 / (double)num->act_max;
  }
}

static void judge_numerics(subject *s) {
  const tn_numerics *num = s->num;
  float x = 1, w = 1, y, mag;
  tn_run run;
  tni_run_inline(&run);
  tn_numerics n = tni_numerics_of(num);
  if (n.act_scheme == TN_ACT_STATIC && n.act_scale == 0) n.act_scale = 1;
  if (tni_reference_matmul(&n, &x, 1, 1, &w, 1, NULL, &y, &mag, &run) != TN_OK)
    tni_cf_fail(s->cf, "%s: the host's reference does not know the declared numerics", s->text);
  const double bound = tni_reference_bound(num, 4096);
  if (!(bound <= 0.125))
    tni_cf_fail(s->cf, "%s: the declared accumulators allow an error of %.3g of all terms at K 4096: no bound at all",
                s->text, bound);
  /* Each of as many planes as it has bits weighs twice as much as the one before, from 2 on (+1 and -1) or 1. */
  const double unit_limit = 2 * (double)((1u << (s->f->bits < 16 ? s->f->bits : 16)) - 1);
  if (tni_reference_averages(&n) > 0 && !((double)n.avg_unit <= unit_limit))
    tni_cf_fail(s->cf, "%s: avg_unit %g, but a unit of %u planes weighs %g at most", s->text, (double)n.avg_unit,
                s->f->bits, unit_limit);
  if (tni_reference_averages(&n) > 0 && !(n.avg_depth / 4.0 <= 0.125 * (double)n.act_max))
    tni_cf_fail(s->cf, "%s: averages of depth %u of entries up to %g: no bound at all", s->text, n.avg_depth,
                (double)n.act_max);
  if (!(num->finite_max >= 256))
    tni_cf_fail(s->cf, "%s: finite_max %g: activations of real models are outside the declared domain", s->text,
                num->finite_max);
  if (num->act_scheme != TN_ACT_NONE && num->act_dtype == TN_DT_I8 && num->act_max > 127)
    tni_cf_fail(s->cf, "%s: act_max %g does not fit int8", s->text, (double)num->act_max);
  const double x_limit = allowed_x_err(num);
  if (!(s->f->x_err > 0 && (double)s->f->x_err <= x_limit * (1 + 0x1p-10) + 1e-6))
    tni_cf_fail(s->cf, "%s: x_err %g, but its numerics imply %g", s->text, (double)s->f->x_err, x_limit);
}

/* What a plain quantizer of the format's own levels is held against in turn, so that nobody states levels that let him
 * off: uniform ones of half as many bits. Floats stay below: E5M2 has the half step of 4 bits, E2M1 a third of that of
 * 2. */
static tni_cn_plain coarsest_of(const subject *s) { return tni_cn_plain_of_bits(s->f->bits / 2); }

static tni_cn_plain plain_of(const subject *s) { return tni_cn_plain_of(s->f, s->params, s->n_params, s->num); }

/* What a scale fitted by least squares may clip: with all of a group's g elements at most half a step of the plain grid
 * off, no element of the best fit is off by more than sqrt(g) times that. 0: a format that keeps floats as they are. */
static void judge_w_err(subject *s) {
  const int64_t g = group_of(s, 4096, 4096);
  const tni_cn_plain own = plain_of(s), most = coarsest_of(s);
  const double half = fmin(tni_cn_plain_half(&own), tni_cn_plain_half(&most)), limit = fmin(1, half * sqrt((double)g));
  const double w_err = (double)s->f->w_err;
  if (!(w_err >= 0 && w_err <= limit * (1 + 0x1p-7)))
    tni_cf_fail(s->cf,
                "%s: w_err %g is looser than %u bits in groups of %lld imply (%g; fixed levels: tn_format.grid)",
                s->text, w_err, s->f->bits, (long long)g, limit);
}

static void judge_bits(subject *s) {
  static const int64_t dims[][2] = {{512, 4096}, {4096, 512}, {1024, 1024}};
  double last = 0;
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
    tn_pack_size z = {0};
    const int64_t N = dims[i][0], K = dims[i][1];
    if (s->f->size(s->f, N, K, s->params, s->n_params, &z) != TN_OK) {
      tni_cf_fail(s->cf, "%s: size refuses [%lld,%lld]", s->text, (long long)N, (long long)K);
      continue;
    }
    last = (double)z.bytes * 8 / ((double)N * (double)K);
    /* Where rows or the matrix have a scale, a row may have one of its own and be padded: 128 bits. */
    const double more = s->f->group ? 0 : 128 / (double)K;
    if (last > (double)s->f->bits_per_weight * 1.01 + more)
      tni_cf_fail(s->cf, "%s: [%lld,%lld] takes %.4f bits per weight, %.4f are declared", s->text, (long long)N,
                  (long long)K, last, (double)s->f->bits_per_weight);
    if (s->f->group && last < (double)s->f->bits_per_weight * 0.99)
      tni_cf_fail(s->cf, "%s: [%lld,%lld] takes %.4f bits per weight, yet %.4f are declared", s->text, (long long)N,
                  (long long)K, last, (double)s->f->bits_per_weight);
    if (!z.align || z.align & (z.align - 1) || !z.row_unit)
      tni_cf_fail(s->cf, "%s: alignment %u or row unit %u is none", s->text, z.align, z.row_unit);
  }
  if ((double)s->f->bits_per_weight < s->f->bits)
    tni_cf_fail(s->cf,
                "%s: %.4f bits per weight are fewer than its %u bits, which are of a weight (format.h, tn_format)",
                s->text, (double)s->f->bits_per_weight, s->f->bits);
  tni_cf_note(s->cf, "%s: %.4f bits per weight at [1024,1024], declared %.4f; w_err %.4g, x_err %.4g", s->text, last,
              (double)s->f->bits_per_weight, (double)s->f->w_err, (double)s->f->x_err);
}

/* Root mean square error of a plain quantizer, with a scale a group. */
static double plain_rms(const tni_cn_plain *p, const float *w, int64_t N, int64_t K, int64_t group) {
  const tops t = tops_of(w, N, K, group);
  double sum = 0;
  for (int64_t i = 0; t.top && i < N * K; i++) {
    const double e = tni_cn_plain_round(p, (double)w[i], (double)top_at(&t, i, K)) - (double)w[i];
    sum += e * e;
  }
  free(t.top);
  return sqrt(sum / (double)(N * K));
}

static void judge_loss(subject *s, int pattern) {
  enum { N = 64, K = 256 };
  float *w = malloc(N * K * sizeof *w);
  tni_cf_rng r = tni_cf_rng_of(s->cf, 900 + (uint64_t)pattern);
  if (!w) return;
  tni_cn_fill(w, N * K, pattern, 32, 1e4, &r);
  uint64_t bytes = 0;
  uint8_t *p = blob_pack(s, w, N, K, WHOLE, 0, &bytes);
  tn_blob b = p ? blob_of(s, p, bytes, N, K) : (tn_blob){0};
  float *u = p ? blob_unpack(s, &b) : NULL;
  double sum = 0;
  for (int64_t i = 0; u && i < N * K; i++) sum += pow((double)u[i] - (double)w[i], 2);
  const tni_cn_plain own = plain_of(s), most = coarsest_of(s);
  const int64_t group = group_of(s, N, K);
  const double rms = sqrt(sum / (N * K)),
               plain = fmin(plain_rms(&own, w, N, K, group), plain_rms(&most, w, N, K, group));
  if (u && !(rms <= 1.25 * plain + 1e-7))
    tni_cf_fail(s->cf, "%s: %s weights lose %.4g (rms); plain rounding to %u bits loses %.4g%s", s->text,
                tni_cn_pattern(pattern), rms, s->f->bits, plain,
                own.n_uniform > 0 ? " (to fixed levels: state them, tn_format.grid)" : "");
  free(u);
  free(p);
  free(w);
}

/* Sizes come from files: nothing may wrap at 32 bits, nor at 64. */
static void judge_sizes(subject *s) {
  static const int64_t huge[][2] = {{70000, 70000}, {1 << 17, 1 << 16}, {50000, 100000}};
  static const int64_t absurd[][2] = {
      {INT64_MAX / 2, 64}, {64, INT64_MAX / 2}, {INT64_MAX, INT64_MAX}, {-1, 64}, {64, -1}};
  for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
    tn_pack_size z = {0};
    const double least = (double)huge[i][0] * (double)huge[i][1] * s->f->bits / 8 * 0.99;
    if (s->f->size(s->f, huge[i][0], huge[i][1], s->params, s->n_params, &z) == TN_OK && (double)z.bytes < least)
      tni_cf_fail(s->cf, "%s: size says %llu bytes for [%lld,%lld], %u bits each take %.0f: it wraps", s->text,
                  (unsigned long long)z.bytes, (long long)huge[i][0], (long long)huge[i][1], s->f->bits, least);
  }
  for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
    tn_pack_size z = {0};
    if (s->f->size(s->f, absurd[i][0], absurd[i][1], s->params, s->n_params, &z) == TN_OK)
      tni_cf_fail(s->cf, "%s: size takes [%lld,%lld]; what does not fit must be refused", s->text,
                  (long long)absurd[i][0], (long long)absurd[i][1]);
  }
}

static void check_declared(subject *s) {
  judge_sizes(s);
  judge_numerics(s);
  judge_w_err(s);
  judge_bits(s);
  judge_loss(s, TNI_CN_NORMAL);
  judge_loss(s, TNI_CN_TIES);
}

/* --- round trip -------------------------------------------------------------------------------------------------- */

/* What a weight of a group below SMALL may be off besides: its scale may be a denormal half (tn_format.w_err). */
#define SMALL 0x1p-10
static double denormal_scale(const subject *s) {
  tn_grid g = {.h = TN_HDR(tn_grid)};
  if (s->num->scale_dtype == TN_DT_F16) return 0x1p-14;
  const bool has_grid = TN_HAS(s->f, tn_format, grid) && s->f->grid;
  return has_grid && s->f->grid(s->f, s->params, s->n_params, &g) == TN_OK && g.scale_dtype == TN_DT_F16 ? 0x1p-14 : 0;
}

static void one_trip(subject *s, int64_t N, int64_t K, int pattern, double *worst) {
  float *w = malloc((size_t)(N * K) * sizeof *w);
  tni_cf_rng r = tni_cf_rng_of(s->cf, (uint64_t)(N * 4099 + K * 17 + pattern));
  if (!w) return;
  tni_cn_fill(w, (size_t)(N * K), pattern >= ROWS_OF_SIZES ? TNI_CN_NORMAL : pattern, 32, 1e4, &r);
  for (int64_t i = 0; pattern >= ROWS_OF_SIZES && i < N * K; i++)
    w[i] = ldexpf(w[i], pattern == ALL_SMALL ? -12 : -(int)(i / K % 16));
  uint64_t bytes = 0;
  uint8_t *p = blob_pack(s, w, N, K, UNITS, 0xff, &bytes);
  tn_blob b = p ? blob_of(s, p, bytes, N, K) : (tn_blob){0};
  float *u = p ? blob_unpack(s, &b) : NULL;
  const tops t = tops_of(w, N, K, group_of(s, N, K));
  int64_t bad = 0, first = -1;
  const double small = denormal_scale(s);
  for (int64_t i = 0; u && t.top && i < N * K; i++) {
    const float top = top_at(&t, i, K);
    const double e = fabs((double)u[i] - (double)w[i]);
    const double may = (double)s->f->w_err * (double)top * (1 + 0x1p-20) + ((double)top < SMALL ? small : 0);
    if (top > 0 && e / (double)top > *worst) *worst = e / (double)top;
    if (!(e <= may) && bad++ == 0) first = i;
  }
  if (bad)
    tni_cf_fail(s->cf,
                "weights come back further off than w_err says: %s [%lld,%lld] %s: %lld by more than %g of their group's "
                "largest; first [%lld,%lld]: %.9g instead of %.9g",
                s->text, (long long)N, (long long)K, pattern >= ROWS_OF_SIZES ? "sizes" : tni_cn_pattern(pattern),
                (long long)bad, (double)s->f->w_err, (long long)(first / K), (long long)(first % K), (double)u[first],
                (double)w[first]);
  free(t.top);
  free(u);
  free(p);
  free(w);
}

/* Declared error that nothing comes near is a bound of something else. */
static void round_trip(subject *s) {
  static const int64_t dims[][2] = {{1, 1},    {1, 3},    {3, 32},   {17, 31},  {33, 129},  {16, 256}, {48, 320},
                                    {5, 1000}, {130, 65}, {64, 64},  {64, 256}, {192, 128}, {128, 512}};
  static const int patterns[] = {TNI_CN_NORMAL,  TNI_CN_ZERO,     TNI_CN_MAX,      TNI_CN_ALTERNATING,
                                 TNI_CN_OUTLIER, TNI_CN_ONE_SIGN, TNI_CN_NEG_ZERO, TNI_CN_TIES,
                                 TNI_CN_EQUAL,   ROWS_OF_SIZES,   ALL_SMALL};
  double worst = 0;
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
    for (size_t p = 0; is_taken(s, dims[d][0], dims[d][1]) && p < sizeof patterns / sizeof *patterns; p++)
      one_trip(s, dims[d][0], dims[d][1], patterns[p], &worst);
  tni_cf_note(s->cf, "%s: largest error %.4g of a group's largest (of denormal scales too), declared %.4g", s->text, worst,
              (double)s->f->w_err);
  if ((double)s->f->w_err > 4 * worst)
    tni_cf_fail(s->cf, "%s: w_err %g is declared, nothing is off by more than %g: a bound of something else", s->text,
                (double)s->f->w_err, worst);
}

/* --- bytes ------------------------------------------------------------------------------------------------------- */

static void unpack_boxes(subject *s, const tn_blob *b, const float *whole) {
  tni_cf_rng r = tni_cf_rng_of(s->cf, 77);
  float *dst = malloc((size_t)(b->N * b->K + 2) * sizeof *dst);
  for (int i = 0; dst && i < 24; i++) {
    int64_t box[4];
    box[0] = (int64_t)(tni_cf_rng_next(&r) % (uint64_t)b->N);
    box[1] = box[0] + 1 + (int64_t)(tni_cf_rng_next(&r) % (uint64_t)(b->N - box[0]));
    box[2] = (int64_t)(tni_cf_rng_next(&r) % (uint64_t)b->K);
    box[3] = box[2] + 1 + (int64_t)(tni_cf_rng_next(&r) % (uint64_t)(b->K - box[2]));
    const int64_t rows = box[1] - box[0], cols = box[3] - box[2];
    memset(dst, 0xa5, (size_t)(b->N * b->K + 2) * sizeof *dst);
    const float after = dst[rows * cols + 1];
    bool same = s->f->unpack(b, box, dst + 1) == TN_OK;
    for (int64_t n = 0; same && n < rows; n++)
      same = !memcmp(dst + 1 + n * cols, whole + (box[0] + n) * b->K + box[2], (size_t)cols * sizeof *dst);
    if (memcmp(&dst[rows * cols + 1], &after, sizeof after) != 0 || memcmp(dst, &after, sizeof after) != 0)
      same = false;
    if (!same) {
      tni_cf_fail(s->cf, "%s: unpack of rows %lld to %lld, columns %lld to %lld is not what the whole says", s->text,
                  (long long)box[0], (long long)box[1], (long long)box[2], (long long)box[3]);
      break;
    }
  }
  free(dst);
}

static void bytes_of(subject *s, int64_t N, int64_t K) {
  static const char *const names[] = {"in one piece", "row unit by row unit", "from the last rows on",
                                      "on two threads"};
  float *w = malloc((size_t)(N * K) * sizeof *w);
  tni_cf_rng r = tni_cf_rng_of(s->cf, (uint64_t)(N * 31 + K));
  uint64_t bytes = 0, other = 0;
  if (!w) return;
  tni_cn_fill(w, (size_t)(N * K), TNI_CN_NORMAL, 32, 1e4, &r);
  uint8_t *p = blob_pack(s, w, N, K, WHOLE, 0, &bytes);
  for (int way = 0; p && way < WAYS; way++) {
    uint8_t *q = blob_pack(s, w, N, K, way, 0, &other);
    if (q && (other != bytes || memcmp(p + 4096, q + 4096, bytes) != 0))
      tni_cf_fail(s->cf, "%s [%lld,%lld]: packed %s gives other bytes", s->text, (long long)N, (long long)K,
                  names[way]);
    free(q);
  }
  uint8_t *again = p ? blob_pack(s, w, N, K, WHOLE, 0, &other) : NULL; /* p is still there: at another address */
  if (again && memcmp(p + 4096, again + 4096, bytes) != 0)
    tni_cf_fail(s->cf, "%s [%lld,%lld]: packed again, at another address, it gives other bytes", s->text, (long long)N,
                (long long)K);
  free(again);
  uint8_t *q = p ? blob_pack(s, w, N, K, WHOLE, 0xff, &other) : NULL;
  if (q && memcmp(p + 4096, q + 4096, bytes) != 0)
    tni_cf_fail(s->cf, "%s [%lld,%lld]: bytes of the blob are left as the memory held them", s->text, (long long)N,
                (long long)K);
  tn_blob b = p ? blob_of(s, p, bytes, N, K) : (tn_blob){0};
  float *u = p ? blob_unpack(s, &b) : NULL;
  if (u) unpack_boxes(s, &b, u);
  free(u);
  free(q);
  free(p);
  free(w);
}

static void same_bytes(subject *s) {
  static const int64_t dims[][2] = {{1, 1}, {33, 129}, {64, 256}, {17, 65}, {130, 300}, {128, 64}, {192, 512}};
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
    if (is_taken(s, dims[d][0], dims[d][1])) bytes_of(s, dims[d][0], dims[d][1]);
}

/* --- sections ---------------------------------------------------------------------------------------------------- */

/* Of [N,K]: they lie inside, apart and aligned; they are the same where there is less room for them, and nothing is written
 * beyond it. */
static void sections_of(subject *s, int64_t N, int64_t K) {
  tn_section all[TNI_SECTIONS], some[TNI_SECTIONS + 1];
  tn_pack_size size = {0};
  uint32_t n;
  tn_error err;
  tni_error_init(&err);
  if (s->f->size(s->f, N, K, s->params, s->n_params, &size) != TN_OK) return; /* format/bytes says so */
  const tn_blob b = {.h = TN_HDR(tn_blob), .format = s->f, .N = N, .K = K, .bytes = size.bytes, .params = s->params,
                     .n_params = s->n_params};
  if (tni_sections(&b, all, &n, &err) != TN_OK) {
    tni_cf_fail(s->cf, "%s [%lld,%lld]: %s (format.h, tn_section)", s->text, (long long)N, (long long)K, err.message);
    return;
  }
  for (uint32_t cap = 0; cap <= n; cap++) {
    uint32_t count = UINT32_MAX;
    bool beyond = false;
    memset(some, 0x5b, sizeof some);
    const tn_status st = s->f->sections(s->f, N, K, s->params, s->n_params, cap, some, &count);
    const uint8_t *after = (const uint8_t *)&some[cap];
    for (size_t i = 0; i < sizeof some - cap * sizeof *some; i++) beyond = beyond || after[i] != 0x5b;
    if (st == TN_OK && count == n && !beyond && !memcmp(all, some, cap * sizeof *some)) continue;
    tni_cf_fail(s->cf, "%s [%lld,%lld]: with room for %u of %u, sections %s (format.h, tn_format.sections)", s->text,
                (long long)N, (long long)K, cap, n,
                st != TN_OK  ? "says no"
                : beyond     ? "writes past it"
                : count != n ? "counts others"
                             : "says others than before");
    return;
  }
}

static void check_sections(subject *s) {
  static const int64_t dims[][2] = {{1, 1}, {33, 129}, {64, 256}, {17, 65}, {130, 300}, {128, 64}, {192, 512}};
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
    if (is_taken(s, dims[d][0], dims[d][1])) sections_of(s, dims[d][0], dims[d][1]);
}

static void check_kept(subject *s) { tni_cn_ask_kept(s->cf, s->host, s->text, s->f, s->params, s->n_params); }

/* --- cases ------------------------------------------------------------------------------------------------------- */

typedef struct format_job {
  const char *format;
  void (*ask)(subject *s);
} format_job;

static const tn_numerics *format_numerics(const tn_format *f, const int64_t *params, uint32_t n) {
  return TN_HAS(f, tn_format, numerics_of) && f->numerics_of ? f->numerics_of(f, params, n) : f->numerics;
}

static void format_describe(subject *s) {
  size_t n = (size_t)snprintf(s->text, sizeof s->text, "%s", s->f->name);
  for (uint32_t i = 0; i < s->n_params && n + 24 < sizeof s->text; i++)
    n += (size_t)snprintf(s->text + n, sizeof s->text - n, "%s%lld%s", i ? "," : "[", (long long)s->params[i],
                          i + 1 == s->n_params ? "]" : "");
}

static void with_params(tni_cf *cf, const tn_host *host, const tn_format *f, const format_job *j, const int64_t *params,
                        uint32_t n) {
  subject s = {.cf = cf, .host = host, .f = f, .n_params = n, .num = format_numerics(f, params, n)};
  if (n) memcpy(s.params, params, n * sizeof *params);
  format_describe(&s);
  s.zeros = TNI_NEW_ARRAY(cf->arena, float, 8192);
  s.stats = (tn_stats){.h = TN_HDR(tn_stats), .absmax = 8, .p999 = 4, .ch_over = s.zeros, .rows = 1};
  if (!s.num || !s.zeros) {
    tni_cf_fail(cf, "%s: no numerics are declared", s.text);
    return;
  }
  j->ask(&s);
}

/* Params that size takes: those of claims, and common ones. */
static void each_params(tni_cf *cf, const tn_host *host, const tn_format *f, const format_job *j) {
  static const int64_t common[][1] = {{32}, {64}, {128}, {256}, {16}, {0}, {1}};
  const tni_cf_listing *l = cf->listing;
  int64_t seen[MAX_PARAM_SETS][8];
  uint32_t n_of[MAX_PARAM_SETS], n = 0;
  for (uint32_t i = 0; i < l->n_claimed && n < 2; i++) {
    const tni_cf_claimed *c = &l->claimed[i];
    bool known = !c->format || strcmp(c->format, f->name) != 0;
    for (uint32_t k = 0; k < n && !known; k++)
      known = n_of[k] == c->n_params && !memcmp(seen[k], c->params, c->n_params * sizeof *c->params);
    if (known) continue;
    memcpy(seen[n], c->params, sizeof seen[n]);
    n_of[n++] = c->n_params;
  }
  for (uint32_t i = 0; i < n; i++) with_params(cf, host, f, j, seen[i], n_of[i]);
  tn_pack_size z;
  uint32_t asked = n;
  if (!n && f->size(f, 64, 256, NULL, 0, &z) == TN_OK) with_params(cf, host, f, j, NULL, 0), asked++;
  for (size_t i = 0; i < sizeof common / sizeof *common && asked < 3; i++) {
    bool known = false;
    for (uint32_t k = 0; k < n && !known; k++) known = n_of[k] == 1 && seen[k][0] == common[i][0];
    if (known || f->size(f, 64, 256, common[i], 1, &z) != TN_OK || (asked && !f->group && f->bits > 6)) continue;
    with_params(cf, host, f, j, common[i], 1);
    asked++;
  }
  if (!asked) tni_cf_skip(cf, "no params are known that %s takes", f->name);
}

static void format_ask(tni_cf *cf, const void *arg) {
  const format_job *j = arg;
  tni_cf_plugin p;
  tn_status st = tni_cf_plugin_init(&p, cf->subject);
  if (st == TN_OK) st = tni_cf_plugin_enter(&p);
  if (st == TN_OK) st = tni_cf_plugin_check(&p, cf->subject);
  if (st != TN_OK) tni_cf_fail(cf, "%s: %s", p.step, p.err.message);
  for (uint32_t i = 0; st == TN_OK && i < p.plugin->n_formats; i++)
    if (!strcmp(p.plugin->formats[i]->name, j->format)) each_params(cf, &p.host.pub, p.plugin->formats[i], j);
  if (st == TN_OK) tni_cf_stop(cf, &p);
}

void tni_cn_format_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const struct {
    const char *name;
    void (*ask)(subject *s);
  } questions[] = {{"declared", check_declared}, {"round-trip", round_trip}, {"bytes", same_bytes}, {"kept", check_kept},
                   {"sections", check_sections}};
  char name[128];
  for (uint32_t i = 0; i < l->n_formats; i++)
    for (size_t q = 0; q < sizeof questions / sizeof *questions; q++) {
      if (questions[q].ask == check_sections && !l->formats[i].has_sections) continue;
      format_job *j = TNI_NEW(l->arena, format_job);
      if (!j) return;
      *j = (format_job){l->formats[i].name, questions[q].ask};
      snprintf(name, sizeof name, "numbers/%s/format/%s", l->formats[i].name, questions[q].name);
      add(ctx, &(tni_cf_case){
                   .name = name, .levels = TNI_CF_LEVEL_ALL, .flags = TNI_CF_NO_DEVICE, .run = format_ask, .arg = j});
    }
}
