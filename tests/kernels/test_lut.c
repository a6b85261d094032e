/* SPDX-License-Identifier: Apache-2.0
 *
 * The bit-serial formats: errors, bytes, boxes, splits; tables entry by entry; broken copies of a kernel that must be
 * caught; what quantizing activations by sums of runs costs beside 8-bit activations. That all variants give the same
 * bits is shown in test_kernels.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/lut.h"
#include "plugins/common/formats/lut_fit.h"
#include "tests/kernels/harness.h"

#if defined(__aarch64__)
enum { PAIRED = 1 };
#else
enum { PAIRED = 0 };
#endif

enum { N_FORMATS = 2 * TNI_LUT_KINDS };
static const tn_format *format_at(int i) { return &tni_lut_formats[i / TNI_LUT_KINDS][i % TNI_LUT_KINDS]; }

static float *matrix_of(int64_t n, int pattern, uint64_t stream) {
  rng r = rng_of(stream);
  float *w = malloc((size_t)n * sizeof *w);
  if (!w) abort();
  fill(w, (size_t)n, pattern, 1e4f, &r);
  return w;
}

static uint8_t *pack(const tn_format *f, const float *w, int64_t N, int64_t K, tn_blob *b) {
  return pack_as(f, NULL, 0, w, N, K, b);
}

static void errors_are_bounded(void) {
  static const struct { int64_t N, K; } shapes[] = {{1, 1}, {15, 127}, {16, 128}, {17, 129}, {33, 300}};
  uint32_t wrong = 0, checked = 0;
  for (int i = 0; i < N_FORMATS * 5 * V_COUNT; i++) {
    const tn_format *f = format_at(i % N_FORMATS);
    const tni_lut_kind *kind = tni_lut_kind_of(f);
    int64_t N = shapes[i / N_FORMATS % 5].N, K = shapes[i / N_FORMATS % 5].K;
    float *w = matrix_of(N * K, i / N_FORMATS / 5, 500 + (uint64_t)(i / N_FORMATS));
    tn_blob b;
    uint8_t *bytes = pack(f, w, N, K, &b);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    float *back = unpack_all(&b);
    for (int64_t at = 0; at < N * K; at++, checked++) {
      float absmax = 0;
      for (int64_t k = at % K / 128 * 128; k < K && k < (at % K / 128 + 1) * 128; k++)
        absmax = fmaxf(absmax, fabsf(w[at / K * K + k]));
      wrong += !(fabsf(w[at] - back[at]) <= f->w_err * absmax + (absmax < 0x1p-10f ? 0x1p-18f : 0));
    }
    CU_ASSERT(f->w_err >= tni_lut_err(kind->levels));
    free(back);
    free(bytes);
    free(w);
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT(checked > 100000);
}

/* More planes are never worse, and better than what the largest magnitude alone gives. */
static void planes_pay(void) {
  float *w = matrix_of(64 * 512, V_NORMAL, 41);
  double last = 1e30;
  for (int i = 0; i < 4; i++) {
    tn_blob b;
    uint8_t *bytes = pack(format_at(i), w, 64, 512, &b);
    float *back = unpack_all(&b);
    double err = 0, all = 0;
    for (int at = 0; at < 64 * 512; at++) {
      err += pow((double)w[at] - (double)back[at], 2);
      all += pow((double)w[at], 2);
    }
    /* Equidistant levels on a Gaussian (Max 1960): 0.363, 0.119, 0.0374, 0.0115; groups of 128 fit a bit better. */
    static const double most[] = {0.37, 0.125, 0.040, 0.0125};
    CU_ASSERT(err / all < most[i]);
    CU_ASSERT(err < last * 0.5);
    last = err;
    free(back);
    free(bytes);
  }
  free(w);
}

/* Any levels survive; plain and paired bytes are the same weights. */
static void levels_survive(void) {
  enum { N = 19, K = 300 };
  for (int i = 0; i < N_FORMATS; i++) {
    const tn_format *f = format_at(i);
    const tni_lut_kind *kind = tni_lut_kind_of(f);
    float w[N * K];
    rng r = rng_of(77);
    for (int at = 0; at < N * K; at++) {
      int code = at % K % 128 == 0 ? 0 : (int)(rng_next(&r) % kind->levels);
      w[at] = (float)(2 * code - (int)kind->zero) * 0.0625f;
    }
    tn_blob b;
    uint8_t *bytes = pack(f, w, N, K, &b);
    float *back = unpack_all(&b);
    CU_ASSERT_EQUAL(memcmp(w, back, sizeof w), 0);
    CU_ASSERT_EQUAL(b.bytes, (uint64_t)2 * 3 * (32 + 256 * kind->planes));
    free(back);
    free(bytes);
  }
}

typedef struct counted {
  const uint8_t *bytes;
  uint64_t group_bytes, reads;
} counted;

static tn_status counted_read(const tn_blob *b, uint64_t offset, uint64_t n, void *dst) {
  counted *c = b->ctx;
  c->reads += 1 + 1000 * (n != c->group_bytes || offset % c->group_bytes); /* whole groups only */
  memcpy(dst, c->bytes + offset, n);
  return TN_OK;
}

/* Boxes equal the full unpack, from memory and from disk, reading only the groups that they need. */
static void boxes(void) {
  enum { N = 50, K = 500 };
  float *w = matrix_of(N * K, V_NORMAL, 42), *part = malloc(N * K * sizeof *part);
  for (int i = 0; i < N_FORMATS; i++) {
    tn_blob b;
    uint8_t *bytes = pack(format_at(i), w, N, K, &b);
    float *full = unpack_all(&b);
    rng r = rng_of(8);
    uint32_t wrong = 0;
    for (int round = 0; round < 60; round++) {
      int64_t n0 = (int64_t)(rng_next(&r) % N), k0 = (int64_t)(rng_next(&r) % K);
      int64_t n1 = n0 + 1 + (int64_t)(rng_next(&r) % (uint64_t)(N - n0)),
              k1 = k0 + 1 + (int64_t)(rng_next(&r) % (uint64_t)(K - k0)), box[4] = {n0, n1, k0, k1};
      counted c = {bytes, 32 + 256 * (uint64_t)tni_lut_kind_of(b.format)->planes, 0};
      tn_blob disk = b;
      if (round & 1) disk.ptr = NULL, disk.read = counted_read, disk.ctx = &c;
      wrong += b.format->unpack(&disk, box, part) != TN_OK;
      for (int64_t n = n0; n < n1; n++)
        wrong += memcmp(part + (n - n0) * (k1 - k0), full + n * K + k0, (size_t)(k1 - k0) * sizeof *full) != 0;
      wrong += (round & 1) && c.reads > (uint64_t)(((n1 - 1) / 16 - n0 / 16 + 1) * ((k1 - 1) / 128 - k0 / 128 + 1));
    }
    CU_ASSERT_EQUAL(wrong, 0);
    const int64_t bad[][4] = {{-1, 1, 0, 1}, {0, N + 1, 0, 1}, {0, 1, 0, K + 1}, {3, 2, 0, 1}, {0, 1, 5, 4}};
    for (size_t j = 0; j < sizeof bad / sizeof *bad; j++)
      CU_ASSERT_EQUAL(b.format->unpack(&b, bad[j], part), TN_E_INVALID);
    free(full);
    free(bytes);
  }
  free(part);
  free(w);
}

static uint64_t fnv(const uint8_t *p, uint64_t n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (uint64_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

/* Version 2 means these bytes, everywhere, however the rows are split. */
static void golden(void) {
  static const uint64_t hash[N_FORMATS] = {
      0x74418c4dfd4e06e2u, 0x5357c921cec8263fu, 0x9d2d50ba11ac5208u, 0x9bfffd51e727bb0cu, 0x76c753241495e266u,
      0xc3a33ce6aa4060feu, 0xbbdb333dbd5d7014u, 0x658073b9f13aa2abu, 0x87d1ea88ab002cadu, 0x3506363ac2003818u};
  enum { N = 77, K = 555 };
  float *w = malloc(sizeof(float) * N * K);
  uint64_t s = 1;
  for (size_t i = 0; i < (size_t)N * K; i++) { /* independent of the seed and of libm */
    s = s * 6364136223846793005u + 1442695040888963407u;
    w[i] = (float)((int64_t)(s >> 40) - (1 << 23)) * 0x1p-23f * (float)(1 + i % 7) * 0.03125f;
  }
  for (int i = 0; i < N_FORMATS; i++) {
    const tn_format *f = format_at(i);
    tn_blob b;
    uint8_t *bytes = pack(f, w, N, K, &b), *other = aligned_alloc(64, (b.bytes + 63) / 64 * 64);
    uint64_t h = fnv(bytes, b.bytes);
    if (h != hash[i]) printf("\n    %s: 0x%016llx", f->name, (unsigned long long)h);
    CU_ASSERT_EQUAL(h, hash[i]);
    kit_host host = {.live = 0};
    test_weight tw;
    tn_pack *p;
    kit_host_init(&host, 4);
    test_weight_init(&tw, w, N, K);
    memset(other, 0x5a, b.bytes);
    CU_ASSERT_EQUAL_FATAL(f->begin(&host.host, f, &tw.w, NULL, 0, &p, NULL), TN_OK);
    CU_ASSERT_EQUAL(f->rows(p, 64, N, other), TN_OK);
    CU_ASSERT_EQUAL(f->rows(p, 16, 64, other), TN_OK);
    CU_ASSERT_EQUAL(f->rows(p, 0, 16, other), TN_OK);
    CU_ASSERT_EQUAL(f->rows(p, 8, 16, other), TN_E_INVALID);
    CU_ASSERT_EQUAL(f->rows(p, 0, 15, other), TN_E_INVALID);
    CU_ASSERT_EQUAL(f->rows(p, 0, N + 1, other), TN_E_INVALID);
    CU_ASSERT_EQUAL(f->end(p, other), TN_OK);
    CU_ASSERT(host.live == 0 && !memcmp(bytes, other, b.bytes));
    free(other);
    free(bytes);
  }
  free(w);
}

static void refusals(void) {
  const tn_format *f = format_at(1);
  const int64_t one = 1;
  tn_pack_size size;
  CU_ASSERT_EQUAL(f->size(f, 16, 128, NULL, 0, &size), TN_OK);
  CU_ASSERT(size.bytes == 544 && size.align == 64 && size.row_unit == 16);
  CU_ASSERT_EQUAL(f->size(f, 16, 128, &one, 1, &size), TN_E_INVALID);
  CU_ASSERT_EQUAL(f->size(f, 0, 128, NULL, 0, &size), TN_E_INVALID);
  CU_ASSERT_EQUAL(f->size(f, 16, INT64_MAX, NULL, 0, &size), TN_E_INVALID);
  const float bad[] = {NAN, INFINITY, -INFINITY, 3 * 65520.0f};
  float w[64] = {0};
  tn_blob b;
  for (size_t i = 0; i < 4; i++) {
    w[40] = bad[i];
    CU_ASSERT_PTR_NULL(pack(f, w, 2, 32, &b));
  }
  w[40] = 3 * 65504.0f;
  uint8_t *bytes = pack(f, w, 2, 32, &b);
  CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
  const int64_t box[4] = {0, 2, 0, 32};
  tn_blob cut = b;
  cut.bytes--;
  CU_ASSERT_EQUAL(f->unpack(&cut, box, w), TN_E_INVALID);
  cut = b;
  cut.n_params = 1;
  CU_ASSERT_EQUAL(f->unpack(&cut, box, w), TN_E_INVALID);
  free(bytes);
  for (int64_t at = 1; at <= 2; at++) {
    kit_host host = {.live = 0};
    test_weight tw;
    tn_pack *p = NULL;
    uint8_t blob[544 * 2];
    kit_host_init(&host, 4);
    test_weight_init(&tw, (float[64]){0}, 2, 32);
    host.fail_at = at;
    tn_status st = f->begin(&host.host, f, &tw.w, NULL, 0, &p, NULL);
    CU_ASSERT_EQUAL(st, at == 1 ? TN_E_NO_MEMORY : TN_OK);
    if (st == TN_OK) {
      CU_ASSERT_EQUAL(f->rows(p, 0, 2, blob), TN_E_NO_MEMORY);
      CU_ASSERT_EQUAL(f->end(p, NULL), TN_OK);
    }
    CU_ASSERT_EQUAL(host.live, 0);
  }
}

/* --- tables ----------------------------------------------------------------------------------------------------- */

static const tni_clt_kernel *row_of(uint32_t op, uint32_t format, uint32_t layout) {
  const tni_clt_kernel *best = NULL;
  uint32_t cpu = test_cpu_features();
  for (uint32_t i = 0; i < KERNELS.n; i++) {
    const tni_clt_kernel *k = &KERNELS.rows[i];
    if (k->op == op && k->format == format && k->layout == layout && !(k->features & ~cpu)) best = k;
  }
  if (!best) abort();
  return best;
}

/* Entries are sums of the codes that the other prologue leaves; those of a quad stay within a byte, whatever x is. */
static void tables_are_exact(void) {
  static const int64_t Ks[] = {1, 3, 4, 127, 128, 129, 640};
  uint32_t wrong = 0, largest = 0;
  for (uint32_t id = TNI_CLT_LUT1; id <= TNI_CLT_LUTT; id++) {
    const tni_clt_kernel *t = row_of(TNI_CLT_QUANT, id, TNI_CLT_TABLES), *c = row_of(TNI_CLT_QUANT, id, TNI_CLT_Q16);
    const int32_t full = (1 << (id == TNI_CLT_LUTT ? 2 : id - TNI_CLT_W4G)) - 1, zero = id == TNI_CLT_LUTT ? 2 : full;
    for (int p = 0; p < V_COUNT * 7; p++) {
      subject s;
      subject_init(&s, t, 16, Ks[p % 7]);
      float *x = matrix_of(Ks[p % 7], p / 7, 900 + (uint64_t)p);
      act_buf a = act_make(t, x, 1, &s.geo), b = act_make(c, x, 1, &s.geo);
      const uint8_t *table = (const uint8_t *)a.a.q;
      const int16_t *q = (const int16_t *)(const void *)b.a.q;
      for (int64_t g = 0; g < s.geo.superblocks; g++) {
        int32_t sum = 0, abs = 0;
        for (int quad = 0; quad < 32; quad++, q += 4, table += 16) {
          int32_t min = 0, mag = 0;
          for (int j = 0; j < 4; j++) min += q[j] < 0 ? q[j] : 0, mag += q[j] < 0 ? -q[j] : q[j], sum += q[j];
          abs += mag;
          largest = (uint32_t)mag > largest ? (uint32_t)mag : largest;
          for (int i = 0; i < 16; i++) {
            int32_t want = -min;
            for (int j = 0; j < 4; j++) want += i >> j & 1 ? q[j] : 0;
            wrong += want < 0 || want > 255 || table[i] != want || table[15 - i] != mag - want;
          }
        }
        wrong += a.a.zero[g] != (full - zero) * sum - full * abs || a.a.scale[g] != b.a.scale[g];
      }
      act_free(&a);
      act_free(&b);
      free(x);
    }
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT(largest >= 253 && largest <= 255);
}

/* Roundings at their worst: quads that hold the maximum, in steps that all round up. */
static void a_byte_is_enough(void) {
  const tni_clt_kernel *c = row_of(TNI_CLT_QUANT, TNI_CLT_LUT4, TNI_CLT_Q16);
  subject s;
  subject_init(&s, c, 16, 128);
  rng r = rng_of(5);
  int32_t largest = 0;
  for (int round = 0; round < 20000; round++) {
    float x[128] = {0}, unit = ldexpf(1 + (float)rng_unit(&r), (int)(rng_next(&r) % 60) - 30);
    int left = 253 - 2; /* four halves more: each rounds up or to even */
    for (int j = 0; j < 4; j++) {
      int part = j == 3 ? left : (int)(rng_next(&r) % (uint64_t)(left + 1));
      left -= part;
      x[j] = ((float)part + 0.5f) * unit * (rng_next(&r) & 1 ? 1 : -1);
    }
    act_buf b = act_make(c, x, 1, &s.geo);
    const int16_t *q = (const int16_t *)(const void *)b.a.q;
    int32_t mag = abs(q[0]) + abs(q[1]) + abs(q[2]) + abs(q[3]);
    largest = mag > largest ? mag : largest;
    act_free(&b);
  }
  CU_ASSERT_EQUAL(largest, 255); /* reached, never passed */
}

/* --- broken copies ----------------------------------------------------------------------------------------------- */

/* 0: one plane weighs too much; 1: two rows swapped; 2: a quad reads its neighbour's table; 3: a write one too far; 4:
 * the start word forgotten. */
static void broken_gemv(int how, tni_clt_gemv_fn fn, const uint8_t *block, const subject *s, const tni_clt_act *a,
                        float *acc) {
  tni_clt_act copy = *a;
  size_t groups = (size_t)s->geo.superblocks, bytes = (size_t)s->geo.row_block_bytes;
  uint8_t *w = malloc(bytes), *tables = malloc(groups * TNI_LUT_TABLE);
  int32_t zero[64];
  if (!w || !tables || groups > 64) abort();
  memcpy(w, block, bytes);
  memcpy(tables, a->q, groups * TNI_LUT_TABLE);
  memcpy(zero, a->zero, groups * sizeof *zero);
  if (how == 0) w[TNI_LUT_SCALE_BYTES] ^= 1;
  if (how == 2) memcpy(tables + 16, tables, 16);
  if (how == 4) zero[groups - 1] = 0;
  copy.q = (int8_t *)tables;
  copy.zero = zero;
  fn(w, groups, &copy, acc);
  if (how == 1) {
    float t = acc[6];
    acc[6] = acc[7];
    acc[7] = t;
  }
  if (how == 3) acc[16] = 0;
  free(tables);
  free(w);
}

static void broken_copies_are_caught(void) {
  for (uint32_t id = TNI_CLT_LUT1; id <= TNI_CLT_LUTT; id++) {
    const tni_clt_kernel *k = row_of(TNI_CLT_GEMV, id, TNI_CLT_TABLES);
    subject s;
    tn_blob b;
    enum { K = 300 };
    subject_init(&s, k, 16, K);
    float *x = matrix_of(K, V_NORMAL, 21), *w = matrix_of(16 * K, V_NORMAL, 22);
    uint8_t *packed = subject_pack(&s, w, &b);
    float *back = unpack_all(&b), want[16];
    act_buf a = act_make(s.prologue, x, 1, &s.geo);
    double y[16], mag[16], bound = reference_bound(numerics_of(&b), K);
    reference(numerics_of(&b), x, 1, K, back, 16, y, mag);
    ((tni_clt_gemv_fn)k->fn)(packed, (size_t)s.geo.superblocks, &a.a, want);
    for (int how = -1; how < 5; how++) {
      guarded g = guarded_new(16 * sizeof(float));
      float *acc = (float *)(void *)g.p;
      broken_gemv(how, (tni_clt_gemv_fn)k->fn, packed, &s, &a.a, acc);
      bool within = true;
      for (int i = 0; i < 16; i++) within = within && fabs(y[i] - (double)acc[i]) <= bound * mag[i];
      bool caught = !within || !guarded_ok(&g);
      if (caught != (how >= 0)) printf("\n    %s: breakage %d %s", k->name, how, caught ? "caught" : "not caught");
      CU_ASSERT_EQUAL(caught, how >= 0);
      CU_ASSERT_EQUAL(!memcmp(acc, want, sizeof want), how < 0 || how == 3);
      guarded_free(&g);
    }
    act_free(&a);
    free(back);
    free(packed);
    free(w);
    free(x);
  }
}

/* --- averages ---------------------------------------------------------------------------------------------------- */

/* What lut.h says of averages, written again. how: -1 as it stands there; 0: averages round down; 1: what they add is
 * left in; 2: trees of other quads; 3: a plane's tops are not multiplied. */
static int32_t averages_of_plane(int how, bool pair, const uint8_t *entry, int64_t quads) {
  int32_t sum = 0;
  if (how == 2) pair = !pair;
  for (int t = 0; t < 8; t++) {
    const uint8_t *u = entry + (pair ? 4 * t : t / 2 * 8 + t % 2);
    const int step = pair ? 1 : 2, up = how != 0;
    const int32_t a = (u[0] + u[step] + up) / 2, b = (u[2 * step] + u[3 * step] + up) / 2, top = (a + b + up) / 2;
    sum += (how == 3 ? 1 : 4) * top;
  }
  return sum - (how == 1 ? 0 : 2) * (int32_t)((quads + 7) / 8 * 2);
}

static void averages_by_hand(int how, const subject *s, const uint8_t *block, const tni_clt_act *a, float *acc) {
  const tni_lut_kind *kind = tni_lut_kind_of(s->f->format);
  const int64_t bytes = s->geo.row_block_bytes / s->geo.superblocks;
  memset(acc, 0, 16 * sizeof *acc);
  for (uint32_t r = 0; r < 16; r++)
    for (int64_t g = 0; g < s->geo.superblocks; g++) {
      const uint8_t *group = block + g * bytes, *tables = (const uint8_t *)a->q + g * TNI_LUT_TABLE;
      const int64_t left = s->geo.K - g * TNI_LUT_GROUP, quads = left < TNI_LUT_GROUP ? (left + 3) / 4 : TNI_LUT_QUADS;
      int32_t sum = a->zero[g];
      for (uint32_t p = 0; p < kind->planes; p++) {
        uint8_t entry[TNI_LUT_QUADS];
        for (uint32_t q = 0; q < TNI_LUT_QUADS; q++) {
          const tni_lut_place at = tni_lut_place_of(kind, r, q, p);
          entry[q] = tables[q * 16 + (group[TNI_LUT_SCALE_BYTES + at.byte] >> at.shift & 15)];
        }
        sum += 2 * averages_of_plane(how, p < kind->planes / 2 * 2, entry, quads) * (1 << p);
      }
      uint16_t half;
      memcpy(&half, group + r * 2, sizeof half);
      acc[r] = fmaf((float)sum, tni_cm_f16_to_f32(half) * a->scale[g], acc[r]);
    }
}

/* Of 16 results: how many are outside the bound that num declares. */
static int outside(const tn_numerics *num, const float *x, int64_t K, const float *back, const float *acc) {
  double y[16], mag[16], bound = reference_bound(num, K);
  int n = 0;
  reference(num, x, 1, K, back, 16, y, mag);
  for (int i = 0; i < 16; i++)
    n += !(fabs(y[i] - (double)acc[i]) <= bound * mag[i] + (1 + bound) * reference_averages(num, x, K, back + i * K));
  return n;
}

/* The kernel with averages has the bits of lut.h, which broken forms have not; its error needs what is declared, and
 * the gate on that still sees rows swapped, nothing computed, and a plane that weighs wrongly. */
static void averages_are_as_declared(void) {
  enum { K = 300 };
  const uint32_t features = test_cpu_features() | TNI_CLT_AVERAGES;
  for (uint32_t id = TNI_CLT_LUT1; id <= TNI_CLT_LUTT && !PAIRED; id++) {
    const tni_clt_kernel *k = tni_clt_select(&KERNELS, TNI_CLT_GEMV, id, 128, features, 1);
    subject s;
    tn_blob b;
    CU_ASSERT_FATAL(k && k->features & TNI_CLT_AVERAGES);
    subject_init(&s, k, 16, K);
    const tn_numerics *num = tni_lut_numerics(s.f->format, true, false);
    float *x = matrix_of(K, V_ONE_SIGN, 21), *w = matrix_of(16 * K, V_NORMAL, 22), acc[16], want[16];
    uint8_t *packed = subject_pack(&s, w, &b);
    float *back = unpack_all(&b);
    act_buf a = act_make(s.prologue, x, 1, &s.geo);
    ((tni_clt_gemv_fn)k->fn)(packed, (size_t)s.geo.superblocks, &a.a, acc);
    averages_by_hand(-1, &s, packed, &a.a, want);
    CU_ASSERT_EQUAL(memcmp(acc, want, sizeof acc), 0);
    CU_ASSERT_EQUAL(outside(num, x, K, back, acc), 0);
    CU_ASSERT(outside(numerics_of(&b), x, K, back, acc) > 0);
    for (int how = 0; how < 4; how++) {
      averages_by_hand(how, &s, packed, &a.a, want);
      CU_ASSERT_NOT_EQUAL(memcmp(acc, want, sizeof acc), 0);
      CU_ASSERT(how != 3 || outside(num, x, K, back, want) > 0);
    }
    for (int i = 0; i < 16; i++) want[i] = acc[(i + 1) % 16];
    CU_ASSERT(outside(num, x, K, back, want) > 0);
    CU_ASSERT(outside(num, x, K, back, (float[16]){0}) > 0);
    act_free(&a);
    free(back);
    free(packed);
    free(w);
    free(x);
  }
  CU_ASSERT_PTR_NULL(tni_lut_numerics(&tni_lut_formats[1][0], true, false));
  CU_ASSERT_PTR_NULL(tni_lut_numerics(&tni_w4g_format, false, false));
}

/* --- what it costs ----------------------------------------------------------------------------------------------- */

static double nmse(const double *y, const double *want, int n) {
  double err = 0, all = 0;
  for (int i = 0; i < n; i++) {
    err += (y[i] - want[i]) * (y[i] - want[i]);
    all += want[i] * want[i];
  }
  return err / all;
}

/* y of four-plane weights, K 4096, with the tables' activations and with 8-bit ones in groups of 32, 64 and 128,
 * against the product of floats: all weights' error included, tables cost less than one part in fifty more
 * (T-MAC: 3.35e-3 for tables, 3.33e-3 for 8-bit activations). */
static void activations_cost_no_more_than_eight_bits(void) {
  enum { N = 512, K = 4096 };
  float *w = matrix_of(N * K, V_NORMAL, 61), *x = matrix_of(K, V_NORMAL, 62);
  tn_blob b;
  uint8_t *packed = pack(&tni_lut_formats[PAIRED][3], w, N, K, &b);
  float *back = unpack_all(&b);
  double exact[N], same[N], y[N], mag[N];
  for (int n = 0; n < N; n++) {
    exact[n] = same[n] = 0;
    for (int k = 0; k < K; k++) {
      exact[n] += (double)w[n * K + k] * (double)x[k];
      same[n] += (double)back[n * K + k] * (double)x[k];
    }
  }
  reference(numerics_of(&b), x, 1, K, back, N, y, mag);
  double tables = nmse(y, exact, N), tables_alone = nmse(y, same, N);
  printf("\n    NMSE tables %.3e (activations alone %.2e)", tables, tables_alone);
  for (int64_t group = 32; group <= 128; group *= 2) {
    tn_numerics num = *tni_w4g_numerics(32);
    num.act_group = (uint32_t)group;
    reference(&num, x, 1, K, back, N, y, mag);
    double bytes = nmse(y, exact, N);
    printf(", 8-bit g%d %.3e (%.2e)", (int)group, bytes, nmse(y, same, N));
    CU_ASSERT(tables < 1.02 * bytes);
    if (group == 128) CU_ASSERT(tables_alone < 1.25 * nmse(y, same, N));
  }
  free(back);
  free(packed);
  free(w);
  free(x);
}

int add_lut_suite(void) {
  CU_TestInfo tests[] = {{"errors_are_bounded", errors_are_bounded},
                         {"planes_pay", planes_pay},
                         {"levels_survive", levels_survive},
                         {"boxes", boxes},
                         {"golden", golden},
                         {"refusals", refusals},
                         {"tables_are_exact", tables_are_exact},
                         {"a_byte_is_enough", a_byte_is_enough},
                         {"broken_copies_are_caught", broken_copies_are_caught},
                         {"averages_are_as_declared", averages_are_as_declared},
                         {"activations_cost_no_more_than_eight_bits", activations_cost_no_more_than_eight_bits},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"lut", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
