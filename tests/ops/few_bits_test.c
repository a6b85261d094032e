/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches of few bits (kvrow.h): rows within the stated bound, read here bit by bit as the header states them, as saved
 * chats hold them; and attention over them, which is that over int8 rows with the same elements, bit for bit, and near
 * sums in double.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_test.h"
#include "runtime/base/half.h"
#include "runtime/ops/hot/kept.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/ops/nn/attention.h"
#include "runtime/ops/nn/nn.h"

enum { MOST_SIZE = 256 };
static const uint32_t kinds[2] = {TNI_DT_KEYS, TNI_DT_VALUES};

/* --- rows --------------------------------------------------------------------------------------------------------- */

static int64_t bytes_of(uint32_t dtype, int64_t n) { return n / 2 + (dtype == TNI_DT_KEYS ? n / 8 : 0) + 2; }
static int most_of(uint32_t dtype) { return dtype == TNI_DT_KEYS ? 31 : 15; }

static uint32_t word_of(uint32_t dtype, const uint8_t *row, int64_t n) {
  const uint8_t *w = row + bytes_of(dtype, n) - 2;
  return (uint32_t)(w[0] | w[1] << 8);
}

static double scale_of(uint32_t word) {
  const uint32_t s = word >> 5;
  if (s == 2047) return (double)NAN;
  return s < 64 ? s * 0x1p-23 : ldexp(64 + s % 64, (int)(s / 64) - 24);
}

static int code_of(uint32_t dtype, const uint8_t *row, int64_t n, int64_t i) {
  const int64_t first = i / 32 * 32, unit = n - first < 32 ? 16 : 32, at = i - first, half = unit / 2;
  const uint8_t low = row[first / 2 + at % half], *fifth = row + n / 2 + first / 8;
  const int code = at < half ? low & 15 : low >> 4;
  if (dtype == TNI_DT_VALUES) return code;
  return code | (fifth[at % (unit / 8)] >> at / (unit / 8) & 1) << 4;
}

/* Stores x and reads it in all ways. y: the elements. Returns the scale. */
static double round_trip(uint32_t dtype, const float *x, int64_t n, float *y) {
  static uint8_t row[MOST_SIZE], again[MOST_SIZE], bytes[MOST_SIZE + 4];
  static float wide[4 * MOST_SIZE], back[MOST_SIZE];
  const int64_t pitch = tni_kv_pitch(dtype, n);
  memset(row, 0x55, sizeof row);
  tni_kv_store(dtype, row, TN_DT_F32, x, 1, n);
  CU_ASSERT(pitch == bytes_of(dtype, n) && row[pitch] == 0x55);
  tni_kv_load(dtype, row, TN_DT_F32, y, 1, n);
  const uint32_t word = word_of(dtype, row, n);
  bool same = true;
  for (int64_t i = 0; i < n; i++) {
    const double want = (code_of(dtype, row, n, i) - (int)(word & 31)) * scale_of(word);
    same = same && (want == (double)y[i] || (isnan(want) && isnan(y[i])));
  }
  CU_ASSERT(same);
  tni_kv_unpack(dtype, row, bytes, n);
  tni_kv_load(TN_DT_I8, bytes, TN_DT_F32, back, 1, n);
  for (int64_t i = 0; i < n; i++) wide[4 * i] = x[i];
  tni_kv_store(dtype, again, TN_DT_F32, wide, 4, n);
  same = memcmp(row, again, (size_t)pitch) == 0;
  tni_kv_load(dtype, row, TN_DT_F32, wide, 4, n);
  for (int64_t i = 0; i < n; i++)
    same = same && (isnan(y[i]) ? isnan(back[i]) && isnan(wide[4 * i]) : back[i] == y[i] && wide[4 * i] == y[i]);
  CU_ASSERT(same);
  return scale_of(word);
}

/* The bound of the header, in double. */
static void check_row(uint32_t dtype, const float *x, int64_t n) {
  float y[MOST_SIZE];
  double lo = 0, hi = 0, worst = 0;
  const double scale = round_trip(dtype, x, n, y), most = most_of(dtype);
  for (int64_t i = 0; i < n; i++) {
    lo = fmin(lo, (double)x[i]);
    hi = fmax(hi, (double)x[i]);
  }
  const double step = (hi - lo) / most, bound = scale > 0 ? scale * (0.5 + 0x1p-16) : most * 0x1p-24;
  for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs((double)y[i] - (double)x[i]));
  if (!(worst <= bound && scale <= step * (1 + 0x1p-6) + 0x1p-23))
    printf("\n  %d elements from %g to %g: off by %g, scale %g\n", (int)n, lo, hi, worst, scale);
  CU_ASSERT(worst <= bound && scale <= step * (1 + 0x1p-6) + 0x1p-23);
}

enum { ANY_SIGN, POSITIVE, NEGATIVE, CONSTANT, LONE, PEAKS, SHAPES };

static void fill_row(float *x, int64_t n, int shape, int e, uint32_t seed) {
  ht_fill(x, n, seed);
  for (int64_t i = 0; i < n; i++) {
    const float v = shape == POSITIVE   ? fabsf(x[i])
                    : shape == NEGATIVE ? -fabsf(x[i])
                    : shape == CONSTANT ? 0.7f
                    : shape == LONE     ? (i == n / 3 ? x[i] : 0)
                    : shape == PEAKS    ? x[i] * (i % 7 ? 1.f : 9.f)
                                        : x[i];
    x[i] = ldexpf(v, e);
  }
}

static void test_bounds(void) {
  float x[MOST_SIZE];
  for (int k = 0; k < 2; k++)
    for (int64_t n = 16; n <= MOST_SIZE; n += 16)
      for (int e = -140; e <= 13; e += e < -30 ? 55 : 3)
        for (int shape = 0; shape < SHAPES; shape++) {
          fill_row(x, n, shape, e, (uint32_t)(n + e * e + shape));
          check_row(kinds[k], x, n);
        }
}

/* 0 is an element of every row, and the whole range is reached; what is too small is zeros, what is no number or too
 * large is none throughout. */
static void test_extremes(void) {
  float x[MOST_SIZE], y[MOST_SIZE];
  static const float bad[] = {NAN, INFINITY, -INFINITY, 0x1p120f};
  for (int k = 0; k < 2; k++) {
    for (int64_t n = 16; n <= MOST_SIZE; n += 48) {
      memset(x, 0, sizeof x);
      CU_ASSERT(round_trip(kinds[k], x, n, y) == 0 && y[0] == 0 && y[n - 1] == 0);
      for (int64_t i = 0; i < n; i++) x[i] = i % 2 ? 0x1p-25f : -0x1p-30f;
      CU_ASSERT(round_trip(kinds[k], x, n, y) == 0 && y[1] == 0);
      for (int64_t i = 0; i < n; i++) x[i] = i % 2 ? 65504.f : -65504.f; /* the range of halves */
      CU_ASSERT(isfinite(round_trip(kinds[k], x, n, y)) && fabsf(y[1] - 65504) < 65504 / 15.f);
      for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        fill_row(x, n, ANY_SIGN, 0, 3);
        x[n - 1] = bad[b];
        CU_ASSERT(isnan(round_trip(kinds[k], x, n, y)) && isnan(y[0]) && isnan(y[n - 1]));
      }
    }
    for (int64_t i = 0; i < 64; i++) x[i] = (float)(i % (most_of(kinds[k]) + 1)) - 9; /* whole steps: nothing is lost */
    CU_ASSERT(round_trip(kinds[k], x, 64, y) == 1 && memcmp(x, y, 64 * sizeof *x) == 0);
  }
}

/* From and to halves. */
static void test_halves(void) {
  float x[64], y[64];
  uint16_t h[64], out[64];
  uint8_t row[64], want[64];
  for (int k = 0; k < 2; k++)
    for (int b = 0; b < 2; b++) {
      const uint32_t dtype = b ? TN_DT_BF16 : TN_DT_F16;
      ht_fill(x, 64, 5);
      tni_kv_store(dtype, h, TN_DT_F32, x, 1, 64);
      tni_kv_load(dtype, h, TN_DT_F32, x, 1, 64);
      tni_kv_store(kinds[k], want, TN_DT_F32, x, 1, 64);
      tni_kv_store(kinds[k], row, dtype, h, 1, 64);
      CU_ASSERT(memcmp(row, want, (size_t)tni_kv_pitch(kinds[k], 64)) == 0);
      tni_kv_load(kinds[k], row, TN_DT_F32, y, 1, 64);
      tni_kv_load(kinds[k], row, dtype, out, 1, 64);
      tni_kv_store(dtype, h, TN_DT_F32, y, 1, 64);
      CU_ASSERT(memcmp(h, out, sizeof h) == 0);
    }
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

typedef struct attend_case {
  const char *attrs;
  int64_t batch, heads, kv_heads, length, keys, size, v_size, left, ring;
  double cap;
  bool flat, masked; /* flat: three axes, heads apart */
} attend_case;

static const attend_case attends[] = {
    {"is_causal=1", 1, 4, 2, 1, 700, 64, 64, -1, 0, 0, false, false},
    {"is_causal=1", 2, 4, 4, 1, 65, 32, 32, -1, 0, 0, false, false},
    {"is_causal=1", 2, 8, 2, 3, 130, 80, 48, -1, 0, 0, false, false},
    {"is_causal=1", 1, 6, 2, 70, 130, 16, 16, -1, 0, 0, false, false},
    {"is_causal=1", 1, 4, 1, 40, 300, 128, 128, -1, 0, 0, false, true},
    {"is_causal=1 softcap=0.5f", 1, 2, 1, 2, 90, 96, 112, -1, 0, 0.5, false, false},
    {"is_causal=1 left_window_size=40", 1, 4, 2, 1, 333, 64, 64, 40, 128, 0, false, false},
    {"is_causal=1 left_window_size=70", 2, 4, 2, 17, 333, 32, 32, 70, 128, 0, false, false},
    {"is_causal=1 q_num_heads=4 kv_num_heads=2", 2, 4, 2, 1, 200, 64, 64, -1, 0, 0, true, false},
    {"is_causal=1 q_num_heads=4 kv_num_heads=2", 1, 4, 2, 33, 200, 32, 32, -1, 0, 0, true, true},
    {"is_causal=1", 1, 2, 1, 2, 70, 256, 256, -1, 0, 0, false, false},
    {"is_causal=1", 1, 2, 1, 2, 70, 272, 272, -1, 0, 0, false, false}, /* more than kept.h takes */
};

/* One cache: rows of `dtype`, rows of the sequence outside of the heads as a session has them, and its elements. */
typedef struct cache {
  tni_tensor t;
  int64_t strides[TN_MAX_RANK], pitch, rows;
  uint8_t *bytes;
  float *x; /* [batch, kv heads, keys, size] of what rows hold */
} cache;

static uint8_t *cache_row(const attend_case *c, const cache *k, int64_t b, int64_t h, int64_t key) {
  const int64_t row = c->ring ? key % c->ring : key;
  return k->bytes + ((b * k->rows + row) * c->kv_heads + h) * k->pitch;
}

static int64_t first_held(const attend_case *c) { return c->ring && c->keys > c->ring ? c->keys - c->ring : 0; }

static bool make_cache(const attend_case *c, uint32_t dtype, int64_t size, uint32_t seed, cache *k) {
  const int64_t n = c->batch * c->kv_heads * c->keys * size;
  *k = (cache){.pitch = tni_kv_pitch(dtype, size), .rows = c->ring ? c->ring : c->keys + 3};
  k->bytes = calloc((size_t)(c->batch * k->rows * c->kv_heads * k->pitch), 1);
  k->x = malloc((size_t)n * sizeof *k->x);
  if (!k->bytes || !k->x) return false;
  ht_fill(k->x, n, seed);
  for (int64_t b = 0; b < c->batch; b++)
    for (int64_t h = 0; h < c->kv_heads; h++)
      for (int64_t key = first_held(c); key < c->keys; key++) {
        float *x = k->x + ((b * c->kv_heads + h) * c->keys + key) * size;
        tni_kv_store(dtype, cache_row(c, k, b, h, key), TN_DT_F32, x, 1, size);
        tni_kv_load(dtype, cache_row(c, k, b, h, key), TN_DT_F32, x, 1, size);
      }
  k->t = (tni_tensor){.dtype = dtype, .rank = c->flat ? 3 : 4, .data = k->bytes};
  const int64_t dims[2][4] = {{c->batch, c->kv_heads, c->keys, size}, {c->batch, c->keys, c->kv_heads * size, 0}};
  memcpy(k->t.dims, dims[c->flat], sizeof dims[0]);
  const int64_t row = c->kv_heads * k->pitch, whole = k->rows * row;
  const int64_t strides[2][TN_MAX_RANK] = {{whole, k->pitch, row, 1, 0, c->ring},
                                           {whole, row, 1, 0, 0, c->ring, k->pitch, c->kv_heads}};
  memcpy(k->strides, strides[c->flat], sizeof k->strides);
  return true;
}

/* The same elements as rows of int8. */
static bool make_bytes(const attend_case *c, const cache *from, int64_t size, cache *k) {
  *k = *from;
  k->pitch = tni_kv_pitch(TN_DT_I8, size);
  k->x = NULL;
  k->bytes = calloc((size_t)(c->batch * k->rows * c->kv_heads * k->pitch), 1);
  if (!k->bytes) return false;
  for (int64_t r = 0; r < c->batch * k->rows * c->kv_heads; r++)
    tni_kv_unpack(from->t.dtype, from->bytes + r * from->pitch, k->bytes + r * k->pitch, size);
  k->t.data = k->bytes;
  k->t.dtype = TN_DT_I8;
  const int64_t row = c->kv_heads * k->pitch;
  k->strides[0] = k->rows * row;
  k->strides[c->flat ? 1 : 2] = row;
  k->strides[c->flat ? TNI_ST_HEAD : 1] = k->pitch;
  return true;
}

static bool attend(const ht_node *n, const cache *k, const cache *v, tni_tensor *y) {
  const tni_tensor *in[7];
  const int64_t *strides[7] = {NULL, k->strides, v->strides};
  tn_run run;
  memcpy(in, n->ptr, sizeof in);
  in[1] = &k->t;
  in[2] = &v->t;
  const uint64_t scratch = tni_attention_scratch(&n->node->pub, in, n->n_in, 1);
  tni_run_inline(&run);
  tni_kargs a = {.node = &n->node->pub,
                 .in = in,
                 .out = &y,
                 .n_in = n->n_in,
                 .n_out = 1,
                 .run = &run,
                 .err = (tn_error *)(uintptr_t)&n->err,
                 .in_strides = strides};
  a.scratch = aligned_alloc(64, (size_t)((scratch + 63) & ~UINT64_C(63)));
  const tn_status st = a.scratch ? tni_kernel_call(tni_k_attention, &a) : TN_E_NO_MEMORY;
  free(a.scratch);
  if (st != TN_OK) printf("\n  %s\n", n->err.message);
  return st == TN_OK;
}

static int64_t query_at(const attend_case *c, int64_t b, int64_t h, int64_t i, int64_t size) {
  return (c->flat ? (b * c->length + i) * c->heads + h : (b * c->heads + h) * c->length + i) * size;
}

static bool is_seen(const attend_case *c, const uint8_t *mask, int64_t b, int64_t i, int64_t key) {
  const int64_t at = c->keys - c->length + i;
  return key <= at && (c->left < 0 || key >= at - c->left) && (!c->masked || mask[b * c->keys + key]);
}

/* One query in double. wide: how far int8 products may be off (kept.h): queries by half a step, which moves scores, and
 * probabilities by half a step of the largest. */
static double query_off(const attend_case *c, const ht_node *n, const cache *k, const cache *v, const float *got,
                        int64_t b, int64_t h, int64_t i, double *wide) {
  const int64_t kv = b * c->kv_heads + h / (c->heads / c->kv_heads);
  const float *q = (const float *)n->in[0].data + query_at(c, b, h, i, c->size),
              *y = got + query_at(c, b, h, i, c->v_size);
  double *p = malloc((size_t)c->keys * sizeof *p), sum = 0, off = 0, most = 0, moved = 0, top = 0, largest = 0;
  for (int64_t d = 0; d < c->size; d++) most = fmax(most, fabs((double)q[d]) / sqrt((double)c->size));
  for (int64_t key = 0; p && key < c->keys; key++) {
    const float *row = k->x + (kv * c->keys + key) * c->size;
    double all = 0;
    p[key] = 0;
    if (!is_seen(c, n->in[3].data, b, i, key)) continue;
    for (int64_t d = 0; d < c->size; d++) {
      p[key] += (double)q[d] * (double)row[d] / sqrt((double)c->size);
      all += fabs((double)row[d]);
    }
    if (c->cap > 0) p[key] = c->cap * tanh(p[key] / c->cap);
    sum += p[key] = exp(p[key]);
    moved = fmax(moved, all * most / 254 * 1.001);
    largest = fmax(largest, p[key]);
  }
  for (int64_t d = 0; p && d < c->v_size; d++) {
    double want = 0;
    for (int64_t key = 0; key < c->keys; key++) {
      const double e = p[key] > 0 ? (double)v->x[(kv * c->keys + key) * c->v_size + d] : 0;
      want += p[key] / sum * e;
      top = fmax(top, fabs(e));
    }
    off = fmax(off, fabs((double)y[d] - want));
  }
  /* at most 31 codes of 1/15 of twice the largest value; the scores' errors count twice, as each may go its own way */
  *wide = top * expm1(2 * moved) + (double)c->keys * largest * exp(2 * moved) / sum * 2 * top / 254;
  free(p);
  return off;
}

static void one_attend(const attend_case *c) {
  char q[64], k[64], v[64], mask[64], valid[64];
  const char *in[] = {q, k, v, c->masked ? mask : "-", "-", "-", valid, NULL};
  cache kc, vc, kb, vb;
  ht_node n;
  const long long B = c->batch, H = c->heads, G = c->kv_heads, L = c->length, T = c->keys, D = c->size, E = c->v_size;
  snprintf(q, sizeof q, c->flat ? "f32[%lld,%lld,%lld]" : "f32[%lld,%lld,%lld,%lld]", B, c->flat ? L : H,
           c->flat ? H * D : L, D);
  snprintf(k, sizeof k, c->flat ? "f32[%lld,%lld,%lld]" : "f32[%lld,%lld,%lld,%lld]", B, c->flat ? T : G,
           c->flat ? G * D : T, D);
  snprintf(v, sizeof v, c->flat ? "f32[%lld,%lld,%lld]" : "f32[%lld,%lld,%lld,%lld]", B, c->flat ? T : G,
           c->flat ? G * E : T, E);
  snprintf(mask, sizeof mask, "bool[%lld,1,1,%lld]", B, T);
  snprintf(valid, sizeof valid, B == 1 ? "i64[1] %lld" : "i64[2] %lld %lld", T, T);
  CU_ASSERT_FATAL(ht_node_make(&n, "Attention", 24, c->attrs, in, 1));
  CU_ASSERT_FATAL(make_cache(c, TNI_DT_KEYS, c->size, 2, &kc) && make_cache(c, TNI_DT_VALUES, c->v_size, 3, &vc));
  CU_ASSERT_FATAL(make_bytes(c, &kc, c->size, &kb) && make_bytes(c, &vc, c->v_size, &vb));
  const int64_t rows = c->batch * c->heads * c->length;
  float *x = malloc((size_t)(rows * c->size) * sizeof *x), *y[2];
  CU_ASSERT_FATAL(x != NULL);
  ht_fill(x, rows * c->size, 1);
  n.in[0].data = x;
  for (int64_t i = 0; c->masked && i < c->batch * c->keys; i++) ((uint8_t *)n.in[3].data)[i] = i % 5 != 2;
  for (int i = 0; i < 2; i++) {
    tni_tensor out = {
        .dtype = TN_DT_F32, .rank = c->flat ? 3 : 4, .bytes = (uint64_t)(rows * c->v_size) * sizeof(float)};
    const int64_t dims[2][4] = {{c->batch, c->heads, c->length, c->v_size},
                                {c->batch, c->length, c->heads * c->v_size, 0}};
    memcpy(out.dims, dims[c->flat], sizeof dims[0]);
    out.data = y[i] = malloc(out.bytes);
    CU_ASSERT_FATAL(y[i] && attend(&n, i ? &kb : &kc, i ? &vb : &vc, &out));
  }
  CU_ASSERT(memcmp(y[0], y[1], (size_t)(rows * c->v_size) * sizeof(float)) == 0);
  const bool codes = tni_hot_kept(TNI_KEPT_I8) && c->size <= TNI_KEPT_MOST && c->v_size <= TNI_KEPT_MOST;
  double worst = 0;
  for (int64_t b = 0; b < c->batch; b++)
    for (int64_t h = 0; h < c->heads; h++)
      for (int64_t i = 0; i < c->length; i++) {
        double wide;
        const double off = query_off(c, &n, &kc, &vc, y[0], b, h, i, &wide);
        worst = fmax(worst, off / (2e-6 + (codes ? wide : 0)));
      }
  if (!(worst <= 1)) printf("\n  case %d: %g of the bound\n", (int)(c - attends), worst);
  CU_ASSERT(worst <= 1);
  for (int i = 0; i < 2; i++) free(y[i]);
  free(x);
  free(kc.bytes), free(kc.x), free(vc.bytes), free(vc.x), free(kb.bytes), free(vb.bytes);
  ht_node_free(&n);
}

static void test_attention(void) {
  for (size_t i = 0; i < sizeof attends / sizeof *attends; i++) one_attend(&attends[i]);
}

bool ht_add_few_bits(void) {
  CU_pSuite s = CU_add_suite("caches of few bits", NULL, NULL);
  return s && CU_add_test(s, "rows within their bound", test_bounds) && CU_add_test(s, "extremes", test_extremes) &&
         CU_add_test(s, "from and to halves", test_halves) && CU_add_test(s, "attention over them", test_attention);
}
