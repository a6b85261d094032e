/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/harness.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/formats/lut.h"

uint64_t test_seed = 20260101;
const char *test_only = "";

bool test_wants(const char *name) {
  char part[64];
  const char *at = test_only;
  do {
    const size_t n = strcspn(at, ",");
    snprintf(part, sizeof part, "%.*s", (int)n, at);
    if (strstr(name, part)) return true;
    at += n;
  } while (*at++);
  return false;
}
bool test_bits;

rng rng_of(uint64_t stream) { return (rng){test_seed * 0x9e3779b97f4a7c15u + stream * 0xbf58476d1ce4e5b9u + 1}; }

uint64_t rng_next(rng *r) {
  uint64_t z = r->s += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

double rng_unit(rng *r) { return (double)(rng_next(r) >> 11) * 0x1p-53; }

double rng_normal(rng *r) {
  double s = 0;
  for (int i = 0; i < 12; i++) s += rng_unit(r);
  return s - 6;
}

const char *pattern_name(int p) {
  static const char *const names[] = {"normal", "zero",    "max",        "alternating", "denormal",
                                      "huge",   "outlier", "tiny_mixed", "one_sign"};
  return names[p];
}

static float value(int pattern, size_t i, float amplitude, rng *r) {
  float u = (float)rng_normal(r);
  switch (pattern) {
    case V_ZERO:
      return 0;
    case V_MAX:
      return rng_next(r) & 1 ? 1.0f : -1.0f;
    case V_ALTERNATING:
      return i & 1 ? -1.0f : 1.0f;
    case V_DENORMAL:
      return u * 1e-41f;
    case V_HUGE:
      return u * amplitude;
    case V_OUTLIER:
      return rng_next(r) % 61 == 0 ? 100.0f * u : 0.1f * u;
    case V_TINY_MIXED:
      return ldexpf(u, -(int)(rng_next(r) % 140));
    case V_ONE_SIGN:
      return -1.0f - 0.001f * fabsf(u);
    default:
      return u;
  }
}

void fill(float *x, size_t n, int pattern, float amplitude, rng *r) {
  for (size_t i = 0; i < n; i++) x[i] = value(pattern, i, amplitude, r);
}

enum { GUARD = 256, FILL = 0xa5 };

guarded guarded_new(size_t bytes) {
  size_t body = (bytes + 63) / 64 * 64;
  guarded g = {.bytes = bytes};
  g.base = aligned_alloc(64, body + 2 * GUARD);
  if (!g.base) abort();
  memset(g.base, FILL, body + 2 * GUARD);
  g.p = g.base + GUARD;
  return g;
}

bool guarded_ok(const guarded *g) {
  size_t body = (g->bytes + 63) / 64 * 64;
  for (const uint8_t *p = g->base; p < g->p; p++)
    if (*p != FILL) return false;
  for (const uint8_t *p = g->p + g->bytes; p < g->p + body + GUARD; p++)
    if (*p != FILL) return false;
  return true;
}

void guarded_free(guarded *g) {
  free(g->base);
  *g = (guarded){0};
}

static tn_status weight_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const test_weight *t = (const test_weight *)w;
  memcpy(dst, t->data + n0 * w->K, (size_t)((n1 - n0) * w->K) * sizeof *dst);
  return TN_OK;
}

void test_weight_init(test_weight *w, const float *data, int64_t N, int64_t K) {
  *w = (test_weight){.w = {.h = TN_HDR(tn_weight), .N = N, .K = K, .dtype = TN_DT_F32, .rows = weight_rows},
                     .data = data};
}

uint8_t *pack_as(const tn_format *f, const int64_t *params, uint32_t n_params, const float *data, int64_t N, int64_t K,
                 tn_blob *blob) {
  kit_host host = {.live = 0};
  test_weight w;
  tn_pack_size size;
  tn_pack *pack;
  kit_host_init(&host, 4);
  test_weight_init(&w, data, N, K);
  if (f->size(f, N, K, params, n_params, &size) != TN_OK) return NULL;
  if (f->begin(&host.host, f, &w.w, params, n_params, &pack, NULL) != TN_OK) return NULL;
  uint8_t *bytes = aligned_alloc(64, (size.bytes + 63) / 64 * 64);
  tn_status st = bytes ? f->rows(pack, 0, N, bytes) : TN_E_NO_MEMORY;
  if (f->end(pack, bytes) != TN_OK || st != TN_OK || host.live != 0) {
    free(bytes);
    return NULL;
  }
  *blob = (tn_blob){.h = TN_HDR(tn_blob),
                    .format = f,
                    .N = N,
                    .K = K,
                    .bytes = size.bytes,
                    .ptr = bytes,
                    .params = params,
                    .n_params = n_params};
  return bytes;
}

uint8_t *pack_w4g(const float *data, int64_t N, int64_t K, int64_t group, tn_blob *blob) {
  static const int64_t params[2][1] = {{32}, {128}};
  return pack_as(&tni_w4g_format, group == 32 ? params[0] : params[1], 1, data, N, K, blob);
}

float *unpack_all(const tn_blob *b) {
  float *w = malloc((size_t)(b->N * b->K) * sizeof *w);
  int64_t box[4] = {0, b->N, 0, b->K};
  if (!w || b->format->unpack(b, box, w) != TN_OK) abort();
  return w;
}

const tn_numerics *numerics_of(const tn_blob *b) {
  const tn_format *f = b->format;
  return f->numerics_of ? f->numerics_of(f, b->params, b->n_params) : f->numerics;
}

const tn_numerics *numerics_of_kernel(const tni_clt_kernel *k, const tn_blob *b, bool by_row, bool narrow) {
  if (by_row) return tni_act8_by_row(numerics_of(b));
  const tn_numerics *tables = tni_lut_numerics(b->format, k->features & TNI_CLT_AVERAGES, narrow);
  return tables ? tables : numerics_of(b);
}

bool scales_rows(const tni_clt_format *f) { return tni_act8_by_row(f->format->numerics) != NULL; }

act_buf act_make_as(const tni_clt_kernel *k, const float *x, int64_t M, const tni_clt_geometry *g, bool by_row,
                    bool narrow) {
  tni_clt_act_room room = tni_clt_act_room_of(k->layout, (size_t)g->K_padded, (size_t)g->group);
  size_t n = ((size_t)M + room.rows - 1) / room.rows;
  act_buf b = {.q = guarded_new(n * room.q_stride),
               .scale = guarded_new(n * room.s_stride * 4),
               .zero = guarded_new(n * room.z_stride * 4),
               .row = guarded_new(by_row ? (size_t)M * sizeof(float) : 0)};
  b.a = tni_clt_act_of(&room, (size_t)M, b.q.p, b.scale.p, b.zero.p);
  if (narrow) b.a.runs = TNI_LUT_NARROW;
  if (by_row) b.a.row = (float *)(void *)b.row.p;
  b.a.scale_bits = g->scale_bits;
  b.a.zero_bits = g->zero_bits;
  for (int64_t m = 0; m < M; m++)
    ((tni_clt_quant_fn)k->fn)(x + m * g->K, (size_t)g->K, (size_t)g->K_padded, &b.a, (size_t)m);
  return b;
}

act_buf act_make(const tni_clt_kernel *k, const float *x, int64_t M, const tni_clt_geometry *g) {
  return act_make_as(k, x, M, g, false, false);
}

bool act_equal(const act_buf *a, const act_buf *b, int64_t M) {
  (void)M;
  return guarded_ok(&a->q) && guarded_ok(&a->scale) && guarded_ok(&a->zero) && guarded_ok(&a->row) &&
         a->row.bytes == b->row.bytes && !memcmp(a->row.p, b->row.p, a->row.bytes) &&
         !memcmp(a->q.p, b->q.p, a->q.bytes) && !memcmp(a->scale.p, b->scale.p, a->scale.bytes) &&
         !memcmp(a->zero.p, b->zero.p, a->zero.bytes);
}

void act_free(act_buf *a) {
  guarded_free(&a->q);
  guarded_free(&a->scale);
  guarded_free(&a->zero);
  guarded_free(&a->row);
}

/* Independent of the kernels and of the product's reference: what the numerics declare, rounding by the C library. */
static float group_scale(const tn_numerics *num, const float *x, int64_t n, float *inv) {
  int64_t run = num->act_scheme == TN_ACT_RUNSUM ? num->act_run : 1;
  float top = 0, s;
  for (int64_t i = 0; i < n; i += run) {
    float v[4] = {0};
    for (int64_t j = 0; j < run && i + j < n; j++) v[j] = fabsf(x[i + j]);
    top = fmaxf(top, (v[0] + v[1]) + (v[2] + v[3]));
  }
  *inv = 0;
  s = top / num->act_max;
  if (top == 0 || s < FLT_MIN) return 0;
  *inv = num->act_max / top;
  return s;
}

/* One row of x against all of w; groups in double. The row is quantized once. q: [K], for it. */
static void reference_row(const tn_numerics *num, const float *x, int64_t K, const float *w, int64_t N, float *q,
                          double *y, double *abs) {
  const int64_t group = num->act_group ? num->act_group : K;
  for (int64_t n = 0; n < N; n++) y[n] = abs[n] = 0;
  for (int64_t k = 0; k < K; k += group) {
    int64_t end = K - k < group ? K : k + group;
    float inv, s = group_scale(num, x + k, end - k, &inv);
    for (int64_t i = k; i < end; i++) q[i] = nearbyintf(x[i] * inv);
    for (int64_t n = 0; n < N; n++) {
      double sum = 0, mag = 0;
      for (int64_t i = k; i < end; i++) {
        double t = (double)q[i] * (double)w[n * K + i];
        sum += t;
        mag += fabs(t);
      }
      y[n] += sum * (double)s;
      abs[n] += mag * (double)s;
    }
  }
}

void reference(const tn_numerics *num, const float *x, int64_t M, int64_t K, const float *w, int64_t N, double *y,
               double *abs) {
  float *q = malloc((size_t)(K ? K : 1) * sizeof *q);
  if (!q) abort();
  for (int64_t m = 0; m < M; m++) reference_row(num, x + m * K, K, w, N, q, y + m * N, abs + m * N);
  free(q);
}

double reference_averages(const tn_numerics *num, const float *x, int64_t K, const float *w) {
  double off = 0;
  if (!num->avg_depth) return 0;
  for (int64_t k = 0; k < K; k += num->act_group) {
    const int64_t n = K - k < num->act_group ? K - k : num->act_group;
    float inv, least = INFINITY;
    const float s = group_scale(num, x + k, n, &inv);
    for (int64_t i = k; i < k + n; i++)
      if (w[i] != 0) least = fminf(least, fabsf(w[i]));
    if (least < INFINITY) off += (double)s * (double)least;
  }
  return off * (num->act_group / num->act_run) * (double)num->avg_unit * num->avg_depth / 4;
}

double reference_bound(const tn_numerics *num, int64_t K) {
  const int64_t group = num->acc_group ? num->acc_group : num->act_group;
  double groups = (double)((K + group - 1) / group);
  return (groups + 3) * 0x1p-24;
}

const tni_clt_kernel *quant_of(uint32_t group, uint32_t features) {
  return tni_clt_select(&KERNELS, TNI_CLT_QUANT, TNI_CLT_W4G, group, features, 1);
}

static const tni_clt_format *format_of(uint32_t id) {
  for (size_t i = 0; i < TNI_CLT_GRIDS; i++)
    if (tni_clt_grids[i].id == id) return &tni_clt_grids[i];
  for (size_t i = 0; i < TNI_CLT_LEVS; i++)
    if (tni_clt_levs[i].id == id) return &tni_clt_levs[i];
#if defined(__aarch64__)
  static const tni_clt_format *const all[] = {
      &tni_clt_w4g, &tni_clt_lut1p, &tni_clt_lut2p, &tni_clt_lut3p,  &tni_clt_lut4p,  &tni_clt_luttp, &tni_clt_w8g,
      &tni_clt_w3g, &tni_clt_w2g,   &tni_clt_w1g,   &tni_clt_tern20, &tni_clt_tern17, &tni_clt_pal16};
#else
  static const tni_clt_format *const all[] = {
      &tni_clt_w4g, &tni_clt_lut1, &tni_clt_lut2, &tni_clt_lut3,   &tni_clt_lut4,   &tni_clt_lutt, &tni_clt_w8g,
      &tni_clt_w3g, &tni_clt_w2g,  &tni_clt_w1g,  &tni_clt_tern20, &tni_clt_tern17, &tni_clt_pal16};
#endif
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]->id == id) return all[i];
  abort();
}

/* Grids: bits of scales and of zero points, one way for each K. */
static void grid_params(int64_t K, int64_t *params) {
  static const int64_t ways[][2] = {{32, 32}, {16, 8}, {16, 0}, {32, 0}, {32, 8}, {16, 32}};
  const int64_t *way = ways[(K + K / 100) % 6];
  params[1] = way[0];
  params[2] = way[1];
}

void subject_init(subject *s, const tni_clt_kernel *k, int64_t N, int64_t K) {
  *s = (subject){.f = format_of(k->format), .params = {k->group}};
  grid_params(K, s->params);
  if (s->f->geometry(s->f, N, K, s->params, &s->geo) != TN_OK) abort();
  const tni_clt_table *t = &KERNELS;
  for (uint32_t i = 0; i < t->n; i++) {
    const tni_clt_kernel *q = &t->rows[i];
    bool same = q->op == TNI_CLT_QUANT && q->format == k->format && q->group == k->group && !q->features;
    if (same && (!k->layout || q->layout == k->layout)) s->prologue = q;
  }
  if (!s->prologue) abort();
}

void subject_way(subject *s, int64_t scale_bits, int64_t zero_bits) {
  s->params[1] = scale_bits;
  s->params[2] = zero_bits;
  if (s->f->geometry(s->f, s->geo.N, s->geo.K, s->params, &s->geo) != TN_OK) abort();
}

uint8_t *subject_pack(const subject *s, const float *data, tn_blob *blob) {
  return pack_as(s->f->format, s->params, s->f->n_params, data, s->geo.N, s->geo.K, blob);
}
