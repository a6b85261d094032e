/* SPDX-License-Identifier: Apache-2.0
 *
 * Binary16, the group quantizer, and w4g: bounds, boxes, splits, golden bytes.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/quant4.h"
#include "tests/kernels/harness.h"

static void f16_round_trip(void) {
  uint32_t wrong = 0;
  for (uint32_t h = 0; h < 0x10000; h++) {
    float f = tni_cm_f16_to_f32((uint16_t)h);
    if (isnan(f))
      wrong += !isnan(tni_cm_f16_to_f32(tni_cm_f32_to_f16(f)));
    else
      wrong += tni_cm_f32_to_f16(f) != h;
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(tni_cm_f16_to_f32(0x3c00), 1.0f);
  CU_ASSERT_EQUAL(tni_cm_f16_to_f32(0x0001), 0x1p-24f);
  CU_ASSERT_EQUAL(tni_cm_f16_to_f32(0xfbff), -65504.0f);
}

/* Between neighbours: below the middle goes down, above goes up, the middle to the even one. */
static void f16_rounding(void) {
  uint32_t wrong = 0;
  for (uint16_t h = 0; h < 0x7bff; h++) {
    float a = tni_cm_f16_to_f32(h), b = tni_cm_f16_to_f32((uint16_t)(h + 1)), mid = a + (b - a) / 2;
    wrong += tni_cm_f32_to_f16(nextafterf(mid, 0)) != h;
    wrong += tni_cm_f32_to_f16(nextafterf(mid, 1e9f)) != h + 1;
    wrong += tni_cm_f32_to_f16(mid) != (h & 1 ? h + 1 : h);
    wrong += tni_cm_f32_to_f16(-mid) != ((h & 1 ? h + 1 : h) | 0x8000);
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(tni_cm_f32_to_f16(65519.9f), 0x7bff);
  CU_ASSERT_EQUAL(tni_cm_f32_to_f16(65520.0f), 0x7c00);
}

static double squared_error(const float *w, uint32_t n, float d) {
  double err = 0;
  for (uint32_t i = 0; i < n; i++) {
    double c = nearbyint((double)w[i] / (double)d);
    c = c < -8 ? -8 : c > 7 ? 7 : c;
    err += (w[i] - c * d) * (w[i] - c * d);
  }
  return err;
}

/* Within the stated error, and about as good as the plain scale of largest magnitude over -8, or far better. */
static void quant4_bounds(void) {
  rng r = rng_of(1);
  double gain = 0;
  int rounds = 0;
  for (int round = 0; round < 4000; round++) {
    uint32_t n = round & 1 ? 32 : 128;
    float w[128], absmax = 0, extreme = 0;
    uint8_t codes[128];
    uint16_t scale;
    fill(w, n, round % V_COUNT, 1e4f, &r);
    CU_ASSERT_EQUAL_FATAL(tni_cm_quant4(tni_fit_best(), w, n, codes, &scale), 0);
    float d = tni_cm_f16_to_f32(scale);
    double err = 0;
    for (uint32_t i = 0; i < n; i++)
      if (fabsf(w[i]) > absmax) absmax = fabsf(w[i]), extreme = w[i];
    for (uint32_t i = 0; i < n; i++) {
      double e = fabs(w[i] - (codes[i] - 8) * (double)d);
      CU_ASSERT(codes[i] <= 15);
      CU_ASSERT(e <= (absmax >= 0x1p-16f ? (double)TNI_QUANT4_ERR * absmax : 0x1p-18));
      err += e * e;
    }
    if (absmax < 1e-3f) continue;
    double plain = squared_error(w, n, tni_cm_f16_to_f32(tni_cm_f32_to_f16(extreme / -8)));
    CU_ASSERT(err <= plain * 1.1 + 1e-6 * absmax * absmax); /* the start is that scale before it is rounded */
    gain += err / plain;
    rounds++;
  }
  CU_ASSERT(gain < 0.95 * rounds);
  printf("\n    squared error %.3f times that of the plain scale", gain / rounds);
}

/* The processor's vectors and plain C: the same codes and scales, at every magnitude, also where the largest magnitude
 * has both signs, or is no number. */
static void quant4_portable(void) {
  rng r = rng_of(3);
  for (int round = 0; round < 20000; round++) {
    uint32_t n = (uint32_t[]){32, 128, 64, 8}[round % 4];
    float w[128];
    uint8_t codes[2][128];
    uint16_t scale[2] = {1, 2};
    fill(w, n, round / 4 % V_COUNT, ldexpf(1, round % 61 - 40), &r);
    const float most = ldexpf(8, round % 61 - 40), odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    if (round % 3 == 1) w[round % n] = round % 2 ? most : -most, w[round / 7 % n] = round % 2 ? -most : most;
    if (round % 101 == 0) w[round / 101 % n] = odd[round / 101 % 4];
    const int a = tni_cm_quant4(tni_fit_form(0), w, n, codes[0], &scale[0]);
    for (uint32_t i = 1; i < TNI_FIT_FORMS && tni_fit_form(i); i++) {
      CU_ASSERT_EQUAL_FATAL(tni_cm_quant4(tni_fit_form(i), w, n, codes[1], &scale[1]), a);
      if (a) continue;
      CU_ASSERT_EQUAL_FATAL(scale[0], scale[1]);
      CU_ASSERT_FATAL(!memcmp(codes[0], codes[1], n));
    }
  }
}

static void quant4_refusals(void) {
  float w[32] = {0};
  uint8_t codes[32];
  uint16_t scale = 1;
  CU_ASSERT_EQUAL(tni_cm_quant4(tni_fit_best(), w, 32, codes, &scale), 0);
  CU_ASSERT(scale == 0 && codes[0] == 8 && codes[31] == 8);
  const float bad[] = {NAN, INFINITY, -INFINITY, 8 * 65520.0f, -1e30f};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    w[17] = bad[i];
    CU_ASSERT_EQUAL(tni_cm_quant4(tni_fit_best(), w, 32, codes, &scale), -1);
  }
  w[17] = 8 * 65504.0f;
  CU_ASSERT_EQUAL(tni_cm_quant4(tni_fit_best(), w, 32, codes, &scale), 0);
}

static const struct {
  int64_t N, K;
} shapes[] = {{1, 1},    {1, 31},   {2, 32},   {15, 33},  {16, 64},  {17, 65},  {33, 127},
              {16, 128}, {31, 129}, {48, 255}, {64, 256}, {65, 257}, {7, 1000}, {100, 515}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static float *random_matrix(int64_t N, int64_t K, int pattern, uint64_t stream) {
  rng r = rng_of(stream);
  float *w = malloc((size_t)(N * K) * sizeof *w);
  if (!w) abort();
  fill(w, (size_t)(N * K), pattern, 1e4f, &r);
  return w;
}

static float group_absmax(const float *row, int64_t K, int64_t k, int64_t group) {
  float m = 0;
  for (int64_t i = k / group * group; i < K && i < (k / group + 1) * group; i++) m = fmaxf(m, fabsf(row[i]));
  return m;
}

static void w4g_round_trip(void) {
  for (int i = 0; i < N_SHAPES * 2 * V_COUNT; i++) {
    int64_t N = shapes[i % N_SHAPES].N, K = shapes[i % N_SHAPES].K, group = i / N_SHAPES % 2 ? 128 : 32;
    float *w = random_matrix(N, K, i / N_SHAPES / 2, 100 + (uint64_t)i);
    tn_blob b;
    uint8_t *bytes = pack_w4g(w, N, K, group, &b);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    float *back = unpack_all(&b);
    uint32_t wrong = 0;
    for (int64_t n = 0; n < N; n++) {
      for (int64_t k = 0; k < K; k++) {
        float absmax = group_absmax(w + n * K, K, k, group), e = fabsf(w[n * K + k] - back[n * K + k]);
        wrong += !(e <= (absmax >= 0x1p-16f ? tni_w4g_format.w_err * absmax : 0x1p-18f));
      }
    }
    CU_ASSERT_EQUAL(wrong, 0);
    free(back);
    free(bytes);
    free(w);
  }
}

/* Codes survive: a matrix that the format can hold exactly comes back exactly. */
static void w4g_exact(void) {
  enum { N = 19, K = 200 };
  for (int64_t group = 32; group <= 128; group += 96) {
    float *w = malloc(sizeof(float) * N * K);
    for (int64_t i = 0; i < N * K; i++) w[i] = (float)(i % K % group == 0 ? -8 : (i * 7 + i / K) % 16 - 8) * 0.125f;
    tn_blob b;
    uint8_t *bytes = pack_w4g(w, N, K, group, &b);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    float *back = unpack_all(&b);
    CU_ASSERT_EQUAL(memcmp(w, back, sizeof(float) * N * K), 0);
    free(back);
    free(bytes);
    free(w);
  }
}

typedef struct counted {
  const uint8_t *bytes;
  uint8_t *touched; /* per superblock */
  uint64_t sb_bytes, reads;
} counted;

static tn_status counted_read(const tn_blob *b, uint64_t offset, uint64_t n, void *dst) {
  counted *c = b->ctx;
  c->reads++;
  for (uint64_t i = offset / c->sb_bytes; i <= (offset + n - 1) / c->sb_bytes; i++) c->touched[i] = 1;
  memcpy(dst, c->bytes + offset, n);
  return TN_OK;
}

/* Boxes equal the full unpack, from memory and from disk, and read only the superblocks that they need. */
static void w4g_boxes(void) {
  enum { N = 50, K = 700 };
  for (int64_t group = 32; group <= 128; group += 96) {
    tni_w4g_geometry g;
    CU_ASSERT_EQUAL_FATAL(tni_w4g_geometry_of(N, K, group, &g), TN_OK);
    float *w = random_matrix(N, K, V_NORMAL, 7), part[N * K];
    tn_blob b;
    uint8_t *bytes = pack_w4g(w, N, K, group, &b), touched[4096];
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    float *full = unpack_all(&b);
    rng r = rng_of(8);
    for (int round = 0; round < 200; round++) {
      int64_t n0 = (int64_t)(rng_next(&r) % N), k0 = (int64_t)(rng_next(&r) % K);
      int64_t n1 = n0 + (int64_t)(rng_next(&r) % (uint64_t)(N - n0 + 1)),
              k1 = k0 + (int64_t)(rng_next(&r) % (uint64_t)(K - k0 + 1));
      int64_t box[4] = {n0, n1, k0, k1};
      counted c = {bytes, touched, (uint64_t)g.sb_bytes, 0};
      tn_blob disk = b;
      memset(touched, 0, sizeof touched);
      if (round & 1) disk.ptr = NULL, disk.read = counted_read, disk.ctx = &c;
      CU_ASSERT_EQUAL(tni_w4g_format.unpack(&disk, box, part), TN_OK);
      uint32_t wrong = 0;
      for (int64_t n = n0; n < n1; n++)
        wrong += memcmp(part + (n - n0) * (k1 - k0), full + n * K + k0, (size_t)(k1 - k0) * sizeof *full) != 0;
      for (int64_t i = 0; i < g.row_blocks * g.superblocks; i++) {
        int64_t row = i / g.superblocks * 16, k = i % g.superblocks * g.sb_k;
        bool needed = row < n1 && row + 16 > n0 && k < k1 && k + g.sb_k > k0 && n0 < n1 && k0 < k1;
        wrong += touched[i] && !needed;
      }
      CU_ASSERT_EQUAL(wrong, 0);
    }
    const int64_t bad[][4] = {{-1, 1, 0, 1}, {0, N + 1, 0, 1}, {0, 1, 0, K + 1}, {3, 2, 0, 1}, {0, 1, 5, 4}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
      CU_ASSERT_EQUAL(tni_w4g_format.unpack(&b, bad[i], part), TN_E_INVALID);
    free(full);
    free(bytes);
    free(w);
  }
}

typedef struct split_job {
  tn_pack *pack;
  int64_t n0, n1, unit;
  void *blob;
  tn_status st;
} split_job;

static void *split_thread(void *arg) {
  split_job *j = arg;
  j->st = TN_OK;
  for (int64_t n = j->n1; n > j->n0 && j->st == TN_OK;) { /* backwards, in small ranges */
    int64_t a = (n - 1) / j->unit * j->unit;
    if (a < j->n0) a = j->n0;
    j->st = tni_w4g_format.rows(j->pack, a, n, j->blob);
    n = a;
  }
  return NULL;
}

/* Any split over threads gives the bytes of one call. */
static void w4g_splits(void) {
  enum { N = 300, K = 333 };
  for (int64_t group = 32; group <= 128; group += 96) {
    float *w = random_matrix(N, K, V_NORMAL, 9);
    tn_blob b;
    uint8_t *one = pack_w4g(w, N, K, group, &b), *other = aligned_alloc(64, b.bytes);
    kit_host host = {.live = 0};
    test_weight tw;
    tn_pack *p;
    kit_host_init(&host, 4);
    test_weight_init(&tw, w, N, K);
    memset(other, 0x5a, b.bytes);
    CU_ASSERT_EQUAL_FATAL(tni_w4g_format.begin(&host.host, &tni_w4g_format, &tw.w, b.params, 1, &p, NULL), TN_OK);
    split_job jobs[3] = {{p, 0, 96, 16, other, 0}, {p, 96, 208, 48, other, 0}, {p, 208, N, 32, other, 0}};
    pthread_t t[3];
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, split_thread, &jobs[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(jobs[i].st, TN_OK);
    CU_ASSERT_EQUAL(tni_w4g_format.rows(p, 8, 16, other), TN_E_INVALID);
    CU_ASSERT_EQUAL(tni_w4g_format.rows(p, 0, 15, other), TN_E_INVALID);
    CU_ASSERT_EQUAL(tni_w4g_format.rows(p, 0, N + 1, other), TN_E_INVALID);
    CU_ASSERT_EQUAL(tni_w4g_format.end(p, other), TN_OK);
    CU_ASSERT_EQUAL(memcmp(one, other, b.bytes), 0);
    CU_ASSERT_EQUAL(host.live, 0);
    free(one);
    free(other);
    free(w);
  }
}

static uint64_t fnv(const uint8_t *p, uint64_t n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (uint64_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

/* w4g version 3 means these bytes, everywhere. A change here is a new version of the format. */
static void w4g_golden(void) {
  static const struct {
    int64_t group;
    uint64_t hash;
  } golden[] = {{32, 0xbd851da449c55cc2u}, {128, 0xa477f136eb522361u}};
  enum { N = 77, K = 1111 };
  float *w = malloc(sizeof(float) * N * K);
  uint64_t s = 1;
  for (size_t i = 0; i < (size_t)N * K; i++) { /* independent of the seed and of libm */
    s = s * 6364136223846793005u + 1442695040888963407u;
    w[i] = (float)((int64_t)(s >> 40) - (1 << 23)) * 0x1p-23f * (float)(1 + i % 7) * 0.03125f;
  }
  for (size_t i = 0; i < 2; i++) {
    tn_blob b;
    uint8_t *bytes = pack_w4g(w, N, K, golden[i].group, &b);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    uint64_t h = fnv(bytes, b.bytes);
    if (h != golden[i].hash) printf("\n    group %d: 0x%016llx\n", (int)golden[i].group, (unsigned long long)h);
    CU_ASSERT_EQUAL(h, golden[i].hash);
    free(bytes);
  }
  free(w);
}

static void w4g_refusals(void) {
  static const int64_t g32 = 32, g64 = 64;
  tn_pack_size size;
  const tn_format *f = &tni_w4g_format;
  CU_ASSERT_EQUAL(f->size(f, 16, 64, &g32, 1, &size), TN_OK);
  CU_ASSERT(size.bytes == 576 && size.align == 64 && size.row_unit == 16);
  CU_ASSERT_EQUAL(f->size(f, 16, 64, &g64, 1, &size), TN_E_INVALID);
  CU_ASSERT_EQUAL(f->size(f, 16, 64, &g32, 2, &size), TN_E_INVALID);
  CU_ASSERT_EQUAL(f->size(f, 16, 64, NULL, 1, &size), TN_E_INVALID);
  CU_ASSERT_EQUAL(f->size(f, 0, 64, &g32, 1, &size), TN_E_INVALID);
  CU_ASSERT_EQUAL(f->size(f, 16, INT64_MAX, &g32, 1, &size), TN_E_INVALID);
  CU_ASSERT_NOT_EQUAL(f->size(f, INT64_C(1) << 31, INT64_C(1) << 31, &g32, 1, &size), TN_E_INTERNAL);
  CU_ASSERT_PTR_NULL(f->numerics_of(f, &g64, 1));
  CU_ASSERT_EQUAL(f->numerics_of(f, &g32, 1)->act_group, 32);
  float w[64] = {0};
  tn_blob b;
  w[40] = NAN;
  CU_ASSERT_PTR_NULL(pack_w4g(w, 2, 32, 32, &b));
  w[40] = 0;
  uint8_t *bytes = pack_w4g(w, 2, 32, 32, &b);
  CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
  int64_t box[4] = {0, 2, 0, 32};
  tn_blob cut = b;
  cut.bytes--;
  CU_ASSERT_EQUAL(f->unpack(&cut, box, w), TN_E_INVALID);
  cut = b;
  cut.n_params = 0;
  CU_ASSERT_EQUAL(f->unpack(&cut, box, w), TN_E_INVALID);
  free(bytes);
}

/* A failing allocation in begin or rows is a status, and nothing leaks. */
static void w4g_no_memory(void) {
  static const int64_t g32 = 32;
  float *w = random_matrix(20, 70, V_NORMAL, 11);
  uint8_t *blob = aligned_alloc(64, 4 * 576);
  test_weight tw;
  test_weight_init(&tw, w, 20, 70);
  for (int64_t at = 1; at <= 2; at++) {
    kit_host host = {.live = 0};
    tn_pack *p = NULL;
    kit_host_init(&host, 4);
    host.fail_at = at;
    tn_status st = tni_w4g_format.begin(&host.host, &tni_w4g_format, &tw.w, &g32, 1, &p, NULL);
    CU_ASSERT_EQUAL(st, at == 1 ? TN_E_NO_MEMORY : TN_OK);
    if (st == TN_OK) {
      CU_ASSERT_EQUAL(tni_w4g_format.rows(p, 0, 20, blob), TN_E_NO_MEMORY);
      CU_ASSERT_EQUAL(tni_w4g_format.end(p, NULL), TN_OK);
    }
    CU_ASSERT_EQUAL(host.live, 0);
  }
  free(blob);
  free(w);
}

int add_format_suite(void) {
  CU_TestInfo tests[] = {{"f16_round_trip", f16_round_trip},
                         {"f16_rounding", f16_rounding},
                         {"quant4_bounds", quant4_bounds},
                         {"quant4_portable", quant4_portable},
                         {"quant4_refusals", quant4_refusals},
                         {"w4g_round_trip", w4g_round_trip},
                         {"w4g_exact", w4g_exact},
                         {"w4g_boxes", w4g_boxes},
                         {"w4g_splits", w4g_splits},
                         {"w4g_golden", w4g_golden},
                         {"w4g_refusals", w4g_refusals},
                         {"w4g_no_memory", w4g_no_memory},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"format", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
