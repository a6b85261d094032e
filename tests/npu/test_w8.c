/* SPDX-License-Identifier: Apache-2.0
 *
 * The weight formats: scale, codes, layout, boxes, splits of rows, bad input, golden bytes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/npu-int8-sim/w8.h"
#include "tests/npu/minihost.h"

typedef struct matrix {
  tn_weight w;
  float *data;
} matrix;

static tn_status rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  memcpy(dst, ((const matrix *)w)->data + n0 * w->K, (size_t)((n1 - n0) * w->K) * sizeof *dst);
  return TN_OK;
}

static matrix matrix_of(int64_t N, int64_t K, float amplitude, rng *r) {
  matrix m = {.w = {.h = TN_HDR(tn_weight), .N = N, .K = K, .dtype = TN_DT_F32, .rows = rows}};
  m.data = malloc((size_t)(N * K) * sizeof *m.data);
  if (!m.data) abort();
  for (int64_t i = 0; i < N * K; i++) m.data[i] = amplitude * (float)rng_normal(r);
  return m;
}

/* step: rows that one call packs; 0: all. */
static tn_status pack(mini *m, const tn_format *f, const matrix *x, int64_t step, tn_blob *b, uint8_t **bytes) {
  tn_pack_size size;
  tn_pack *p = NULL;
  tn_status st = f->size(f, x->w.N, x->w.K, NULL, 0, &size);
  if (st != TN_OK) return st;
  *bytes = aligned_alloc(128, (size.bytes + 127) / 128 * 128);
  if (!*bytes) abort();
  memset(*bytes, 0x77, size.bytes);
  st = f->begin(&m->h.host, f, &x->w, NULL, 0, &p, &m->err);
  if (st != TN_OK) return st;
  if (!step) step = x->w.N;
  /* Last rows first. */
  for (int64_t n = (x->w.N - 1) / step * step; st == TN_OK && n >= 0; n -= step)
    st = f->rows(p, n, n + step < x->w.N ? n + step : x->w.N, *bytes);
  const tn_status last = f->end(p, *bytes);
  *b = (tn_blob){
      .h = TN_HDR(tn_blob), .format = f, .N = x->w.N, .K = x->w.K, .bytes = size.bytes, .ptr = *bytes, .params = NULL};
  return st == TN_OK ? last : st;
}

/* s_w by another way: 17 bits of the quotient, upwards. */
static float scale_of(const matrix *x) {
  float max = 0;
  int e;
  for (int64_t i = 0; i < x->w.N * x->w.K; i++) max = fmaxf(max, fabsf(x->data[i]));
  const double m = frexp((double)(max / 127.0f), &e);
  return (float)ldexp(ceil(ldexp(m, 17)), e - 17);
}

static const tn_format *const formats[] = {&tni_w8a8_format, &tni_w8r_format};

static void codes_and_scale(void) {
  const int64_t sizes[][2] = {{1, 1}, {31, 33}, {32, 32}, {64, 100}, {65, 64}, {130, 257}};
  rng r = rng_of(11);
  mini m = mini_defaults();
  CU_ASSERT_FATAL(mini_open(&m));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    matrix x = matrix_of(sizes[i][0], sizes[i][1], 0.03f, &r);
    const int64_t N = x.w.N, K = x.w.K, box[4] = {0, N, 0, K};
    const float s = scale_of(&x);
    float *out = malloc((size_t)(N * K) * sizeof *out), got = 0;
    for (int f = 0; f < 2; f++) {
      tn_blob b;
      uint8_t *bytes;
      uint32_t wrong = 0;
      CU_ASSERT_EQUAL_FATAL(pack(&m, formats[f], &x, 0, &b, &bytes), TN_OK);
      CU_ASSERT_EQUAL(tni_w8_scale(&b, &got), TN_OK);
      CU_ASSERT_EQUAL(got, s);
      CU_ASSERT_EQUAL(formats[f]->unpack(&b, box, out), TN_OK);
      for (int64_t k = 0; k < N * K; k++) {
        const double code = nearbyint((double)(x.data[k] / s));
        wrong += (double)out[k] != code * (double)s || fabs(code) > 127;
        wrong += fabs((double)out[k] - (double)x.data[k]) > (double)formats[f]->w_err * 127 * (double)s;
      }
      CU_ASSERT_EQUAL(wrong, 0);
      free(bytes);
    }
    free(out);
    free(x.data);
  }
  mini_close(&m);
}

/* One-hot: every code stands where the layout says, and nothing else does. */
static void layout(void) {
  enum { N = 70, K = 45, PITCH = 128, KP = 64 };
  rng r = rng_of(12);
  mini m = mini_defaults();
  CU_ASSERT_FATAL(mini_open(&m));
  matrix x = matrix_of(N, K, 0, &r);
  uint32_t wrong = 0;
  for (int i = 0; i < N * K; i++) {
    const int n = i / K, k = i % K;
    tn_blob b;
    uint8_t *bytes;
    x.data[i] = -3;
    CU_ASSERT_EQUAL_FATAL(pack(&m, &tni_w8a8_format, &x, 32, &b, &bytes), TN_OK);
    for (uint64_t at = 0; at < tni_w8a8_codes(N, K); at++)
      wrong +=
          (int8_t)bytes[at] != (at == (uint64_t)(n / 32 * 32 * KP + k / 32 * 1024 + n % 32 * 32 + k % 32) ? -127 : 0);
    free(bytes);
    CU_ASSERT_EQUAL_FATAL(pack(&m, &tni_w8r_format, &x, 64, &b, &bytes), TN_OK);
    for (uint64_t at = 0; at < tni_w8r_codes(N, K); at++)
      wrong += (int8_t)bytes[at] != (at == (uint64_t)(k * PITCH + n) ? -127 : 0);
    free(bytes);
    x.data[i] = 0;
  }
  CU_ASSERT_EQUAL(wrong, 0);
  free(x.data);
  mini_close(&m);
}

typedef struct counted {
  const uint8_t *bytes;
  uint64_t n;
} counted;

static tn_status read_counted(const tn_blob *b, uint64_t offset, uint64_t n, void *dst) {
  counted *c = b->ctx;
  c->n += n;
  memcpy(dst, c->bytes + offset, n);
  return TN_OK;
}

/* Boxes equal the whole, also from disk, and read no more than they are; splits of rows give the same bytes. */
static void boxes_and_splits(void) {
  enum { N = 150, K = 90 };
  static float all[N * K], part[N * K];
  rng r = rng_of(13);
  mini m = mini_defaults();
  CU_ASSERT_FATAL(mini_open(&m));
  matrix x = matrix_of(N, K, 2, &r);
  for (int f = 0; f < 2; f++) {
    tn_blob b, again;
    uint8_t *bytes, *other;
    CU_ASSERT_EQUAL_FATAL(pack(&m, formats[f], &x, 0, &b, &bytes), TN_OK);
    CU_ASSERT_EQUAL_FATAL(pack(&m, formats[f], &x, 64, &again, &other), TN_OK);
    CU_ASSERT_EQUAL(memcmp(bytes, other, b.bytes), 0);
    CU_ASSERT_EQUAL(formats[f]->unpack(&b, (int64_t[]){0, N, 0, K}, all), TN_OK);
    uint32_t wrong = 0;
    for (int round = 0; round < 200; round++) {
      int64_t box[4] = {rng_below(&r, N), 0, rng_below(&r, K), 0};
      box[1] = box[0] + rng_below(&r, N - box[0] + 1);
      box[3] = box[2] + rng_below(&r, K - box[2] + 1);
      counted c = {bytes, 0};
      tn_blob disk = b;
      disk.ptr = NULL;
      disk.ctx = &c;
      disk.read = read_counted;
      CU_ASSERT_EQUAL(formats[f]->unpack(&disk, box, part), TN_OK);
      wrong += c.n != (uint64_t)((box[1] - box[0]) * (box[3] - box[2])) + 4;
      for (int64_t n = box[0]; n < box[1]; n++)
        wrong += memcmp(all + n * K + box[2], part + (n - box[0]) * (box[3] - box[2]),
                        (size_t)(box[3] - box[2]) * sizeof *all) != 0;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(formats[f]->unpack(&b, (int64_t[]){0, N + 1, 0, K}, all), TN_E_INVALID);
    CU_ASSERT_EQUAL(formats[f]->unpack(&b, (int64_t[]){0, N, 5, 4}, all), TN_E_INVALID);
    free(bytes);
    free(other);
  }
  free(x.data);
  mini_close(&m);
}

static void bad_input(void) {
  enum { N = 40, K = 40 };
  rng r = rng_of(14);
  mini m = mini_defaults();
  tn_blob b;
  uint8_t *bytes;
  tn_pack_size size;
  CU_ASSERT_FATAL(mini_open(&m));
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 3; i++)
    for (int f = 0; f < 2; f++) {
      matrix x = matrix_of(N, K, 1, &r);
      x.data[777] = bad[i];
      m.err.code = 0;
      CU_ASSERT_EQUAL(pack(&m, formats[f], &x, 0, &b, &bytes), TN_E_INVALID);
      CU_ASSERT(m.err.code == TN_E_INVALID && m.err.message[0]);
      free(bytes);
      free(x.data);
    }
  const int64_t dims[][2] = {{0, 5}, {5, 0}, {-1, 5}, {5, 131073}, {INT64_MAX, 5}};
  for (int i = 0; i < 5; i++)
    for (int f = 0; f < 2; f++)
      CU_ASSERT_EQUAL(formats[f]->size(formats[f], dims[i][0], dims[i][1], NULL, 0, &size), TN_E_INVALID);
  const int64_t params[3] = {0, 1, 2};
  CU_ASSERT_EQUAL(tni_w8a8_format.size(&tni_w8a8_format, 5, 5, params, 3, &size), TN_E_INVALID);
  CU_ASSERT_EQUAL(tni_w8r_format.size(&tni_w8r_format, 5, 5, params, 2, &size), TN_E_INVALID);
  /* Zeros, and weights as small as they get. */
  matrix x = matrix_of(N, K, 0, &r);
  float out[N * K], s;
  CU_ASSERT_EQUAL_FATAL(pack(&m, &tni_w8a8_format, &x, 0, &b, &bytes), TN_OK);
  CU_ASSERT(tni_w8_scale(&b, &s) == TN_OK && s == 0);
  CU_ASSERT_EQUAL(tni_w8a8_format.unpack(&b, (int64_t[]){0, N, 0, K}, out), TN_OK);
  CU_ASSERT(out[0] == 0 && out[N * K - 1] == 0);
  /* A scale that no packer wrote. */
  const float wrong = NAN;
  memcpy(bytes + tni_w8a8_codes(N, K), &wrong, 4);
  CU_ASSERT_EQUAL(tni_w8_scale(&b, &s), TN_E_CORRUPT);
  free(bytes);
  for (int i = 0; i < N * K; i++) x.data[i] = i % 2 ? 0x1p-149f : -0x1p-130f;
  CU_ASSERT_EQUAL(pack(&m, &tni_w8a8_format, &x, 0, &b, &bytes), TN_OK);
  CU_ASSERT_EQUAL(tni_w8a8_format.unpack(&b, (int64_t[]){0, N, 0, K}, out), TN_OK);
  for (int i = 0; i < N * K; i++) CU_ASSERT(fabsf(out[i] - x.data[i]) <= 0x1p-137f);
  free(bytes);
  free(x.data);
  mini_close(&m);
}

static uint64_t fnv(const uint8_t *p, uint64_t n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (uint64_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

/* A change of these is a new version of the format. */
static void golden(void) {
  enum { N = 67, K = 83 };
  rng r = {1};
  mini m = mini_defaults();
  CU_ASSERT_FATAL(mini_open(&m));
  matrix x = matrix_of(N, K, 0.5f, &r);
  const uint64_t want[2] = {0x7c6999ced3d508e6, 0x83da207530cbf1c4};
  for (int f = 0; f < 2; f++) {
    tn_blob b;
    uint8_t *bytes;
    CU_ASSERT_EQUAL_FATAL(pack(&m, formats[f], &x, 0, &b, &bytes), TN_OK);
    CU_ASSERT_EQUAL(fnv(bytes, b.bytes), want[f]);
    if (fnv(bytes, b.bytes) != want[f])
      printf("\n    %s 0x%llx", formats[f]->name, (unsigned long long)fnv(bytes, b.bytes));
    free(bytes);
  }
  free(x.data);
  mini_close(&m);
}

bool add_w8_suite(void) {
  CU_TestInfo tests[] = {{"codes and scale", codes_and_scale},
                         {"layout", layout},
                         {"boxes and splits", boxes_and_splits},
                         {"bad input", bad_input},
                         {"golden", golden},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"formats", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
