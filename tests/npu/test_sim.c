/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator by itself: costs beside the reference configurations, registered memory, static shapes, clock, faults.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/npu/minihost.h"

/* --- costs ------------------------------------------------------------------------------------------------------- */

typedef struct model {
  int64_t H, q, kv, heads, ffn, mats;
  bool parallel;
} model;

static int64_t integer(const json_t *o, const char *key) {
  return (int64_t)json_integer_value(json_object_get(o, key));
}

static model model_of(const json_t *o) {
  return (model){integer(o, "H"),
                 integer(o, "q"),
                 integer(o, "kv"),
                 integer(o, "heads"),
                 integer(o, "ffn"),
                 integer(o, "mats"),
                 json_is_true(json_object_get(o, "parallel"))};
}

/* What a part of a layer takes; -1: no part that this knows. Shadow: ten rows of weights, floats between the engines.
 */
static int64_t part_ns(const npusim_profile *p, const model *m, const char *part, int64_t M, int64_t T, bool first) {
  const double rows = (double)M;
  const int64_t qkv = m->q + 2 * m->kv, up = (m->mats - 1) * m->ffn;
  npusim_shape s[3] = {{M, 0, m->H}, {M, m->ffn, m->H}, {M, m->H, m->ffn}};
  uint32_t n = 1;
  int64_t N = 0;
  if (!strncmp(part, "qkv", 3)) N = qkv;
  if (!strncmp(part, "o", 1)) N = m->H;
  if (!strncmp(part, "ffn1", 4)) N = up;
  if (!strncmp(part, "ffn2", 4)) N = m->H;
  if (strstr(part, ".sh")) return npusim_cpu_ns(p, 10 * rows * (double)N, 4 * rows * (double)N + 10 * (double)N);
  if (strstr(part, ".mg")) return npusim_cpu_ns(p, 0, 12 * rows * (double)N);
  if (!strcmp(part, "pre")) return npusim_cpu_ns(p, 0, (first ? 5 : m->parallel ? 17 : 13) * rows * (double)m->H);
  if (!strcmp(part, "mid")) return npusim_cpu_ns(p, 0, 13 * rows * (double)m->H);
  if (!strcmp(part, "att")) return npusim_attention_ns(p, M, T, m->q, m->kv, m->heads);
  s[0].N = N;
  if (!strcmp(part, "o")) s[0].K = m->q;
  if (!strcmp(part, "ffn2")) s[0].K = m->ffn;
  if (!strcmp(part, "ffn")) {
    s[0].N = up;
    s[1] = s[2];
    n = 2;
  }
  return s[0].N ? npusim_graph_ns(p, s, n) : -1;
}

static uint32_t check_layer(const json_t *config, const json_t *layer, bool first, uint32_t *wrong) {
  const npusim_profile *p = npusim_profile_find(json_string_value(json_object_get(config, "profile")));
  const model m = model_of(json_object_get(config, "model_shape"));
  const int64_t M = integer(config, "chunk");
  const char *key;
  json_t *value;
  uint32_t n = 0;
  json_object_foreach((json_t *)(uintptr_t)layer, key, value) {
    char part[16] = "";
    const char *dot = strrchr(key, '.');
    snprintf(part, sizeof part, "%.*s", (int)(dot - key), key);
    const int64_t want = (int64_t)json_integer_value(value);
    const int64_t got = part_ns(p, &m, part, M, M * (atoi(dot + 1) + 1), first);
    if (got != want) {
      printf("\n    %s %s: %lld, not %lld", json_string_value(json_object_get(config, "name")), key, (long long)got,
             (long long)want);
      ++*wrong;
    }
    n++;
  }
  return n;
}

/* Every duration of the first and of a middle layer of six configurations, to the nanosecond. */
static void reference_durations(void) {
  char path[1024];
  const char *data = getenv("TENON_TEST_DATA");
  json_error_t error;
  snprintf(path, sizeof path, "%s/npu/reference.json", data ? data : "");
  json_t *all = json_load_file(path, 0, &error), *r;
  uint32_t n = 0, wrong = 0;
  size_t i;
  if (!all) {
    printf("skipped: no %s ", path);
    return;
  }
  json_array_foreach(json_object_get(all, "results"), i, r) {
    const json_t *config = json_object_get(r, "config");
    n += check_layer(config, json_object_get(r, "first_layer_ns"), true, &wrong);
    n += check_layer(config, json_object_get(r, "mid_layer_ns"), false, &wrong);
  }
  CU_ASSERT(n > 300);
  CU_ASSERT_EQUAL(wrong, 0);
  json_decref(all);
}

/* Rows are rounded up to tiles; a small matrix costs its launch; preparing Gemma-2B's weights takes what was published.
 */
static void costs(void) {
  const npusim_profile *q = npusim_profile_find("qnn-2024");
  const npusim_shape one = {1, 2048, 2048}, tile = {32, 2048, 2048}, more = {33, 4096, 4096}, two = {64, 4096, 4096};
  CU_ASSERT_EQUAL(npusim_graph_ns(q, &one, 1), npusim_graph_ns(q, &tile, 1));
  CU_ASSERT_EQUAL(npusim_graph_ns(q, &more, 1), npusim_graph_ns(q, &two, 1));
  CU_ASSERT_EQUAL(npusim_graph_ns(q, NULL, 0), 1500000);
  const npusim_shape gemma = {256, 1980000, 1000};
  CU_ASSERT(llabs(npusim_prepare_ns(q, &gemma, 1) - INT64_C(11900000000)) < 100000000);
  CU_ASSERT(npusim_profile_find("none") == NULL && npusim_profile_find(NULL) == NULL && npusim_profile_at(3) == NULL);
}

/* --- a device with one product ------------------------------------------------------------------------------------ */

enum { M = 32, N = 45, K = 70, KP = 96, NP = 64 };

typedef struct bench {
  npusim *s;
  int fd;
  uint8_t *map; /* the test's own: x at 0, w at 8192, y at 16384 */
  uint32_t handle;
  npusim_graph *graph;
  npusim_tensor x, y;
} bench;

static npusim_config config_of(void) { return (npusim_config){.profile = npusim_profile_find("hmx-2026"), .trace = 3}; }

static int8_t *weight_at(const bench *b, int n, int k) {
  return (int8_t *)b->map + 8192 + n / 32 * 32 * KP + k / 32 * 1024 + n % 32 * 32 + k % 32;
}

static bench bench_open(const npusim_config *c) {
  bench b = {.fd = -1};
  b.s = npusim_open(c);
  if (!b.s || npusim_alloc(b.s, 65536, &b.fd) != NPUSIM_OK) return b;
  b.map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, b.fd, 0);
  rng r = rng_of(7);
  for (int m = 0; m < M; m++)
    for (int k = 0; k < K; k++) b.map[m * KP + k] = (uint8_t)rng_next(&r);
  for (int n = 0; n < N; n++)
    for (int k = 0; k < K; k++) *weight_at(&b, n, k) = (int8_t)rng_next(&r);
  if (npusim_register(b.s, b.fd, 0, 65536, &b.handle) != NPUSIM_OK) return b;
  const npusim_gemm g = {.shape = {M, N, K}, .weights = b.handle, .weights_at = 8192};
  (void)!npusim_prepare(b.s, &g, 1, NULL, &b.graph);
  b.x = (npusim_tensor){.handle = b.handle, .at = 0, .rows = M, .columns = K};
  b.y = (npusim_tensor){.handle = b.handle, .at = 16384, .rows = M, .columns = N};
  return b;
}

static void bench_close(bench *b) {
  npusim_graph_free(b->graph);
  npusim_close(b->s);
  if (b->map) munmap(b->map, 65536);
  if (b->fd >= 0) close(b->fd);
}

static uint32_t wrong_elements(const bench *b) {
  uint32_t wrong = 0;
  for (int m = 0; m < M; m++) {
    for (int n = 0; n < N; n++) {
      int32_t want = 0, got;
      for (int k = 0; k < K; k++) want += (int8_t)b->map[m * KP + k] * *weight_at(b, n, k);
      memcpy(&got, b->map + 16384 + (m * NP + n) * 4, 4);
      wrong += got != want;
    }
  }
  return wrong;
}

static void exact_product(void) {
  const npusim_config c = config_of();
  bench b = bench_open(&c);
  npusim_times t;
  CU_ASSERT_FATAL(b.graph != NULL);
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &b.x, &b.y, 0, NULL, NULL, &t), NPUSIM_OK);
  CU_ASSERT_EQUAL(wrong_elements(&b), 0);
  *weight_at(&b, 44, 69) += 1;
  CU_ASSERT(wrong_elements(&b) > 0);
  /* The largest sums of the longest product do not overflow. */
  CU_ASSERT((int64_t)128 * 127 * NPUSIM_MAX_K < INT32_MAX);
  bench_close(&b);
}

/* Codes of the middle: sums of two products, halved and clamped. */
static void middle_of(const void *params, const int32_t *const *sums, int8_t *codes, int64_t rows) {
  const int shift = *(const int *)params;
  for (int64_t m = 0; m < rows; m++)
    for (int n = 0; n < N; n++) {
      const int32_t v = (sums[0][m * NP + n] - sums[1][m * NP + n]) >> shift;
      codes[m * NP + n] = (int8_t)(v < -128 ? -128 : v > 127 ? 127 : v);
    }
}

/* Two products of x, what is made of them, and a product of that, which is [M, K] again: one graph. */
static void middle(void) {
  enum { SHIFT = 9 };
  const npusim_config c = config_of();
  bench b = bench_open(&c);
  npusim_graph *g = NULL;
  npusim_times t;
  npusim_saved now, other;
  const int shift = SHIFT;
  /* The second and the third lie in the same bytes; [N, K] as 2 x 3 tiles, [K, N] as 3 x 2. */
  const npusim_gemm gemms[3] = {{.shape = {M, N, K}, .weights = b.handle, .weights_at = 8192},
                                {.shape = {M, N, K}, .weights = b.handle, .weights_at = 8192 + 128},
                                {.shape = {M, K, N}, .weights = b.handle, .weights_at = 8192}};
  npusim_middle mid = {.name = "difference", .fn = middle_of, .params = &shift, .n_params = sizeof shift, .first = 2};
  CU_ASSERT_EQUAL_FATAL(npusim_prepare(b.s, gemms, 3, &mid, &g), NPUSIM_OK);
  const npusim_tensor x[3] = {b.x, b.x}, y[3] = {{0}, {0}, {b.handle, 0, 32768, M, K}};
  CU_ASSERT_EQUAL(npusim_execute(g, x, y, 0, NULL, NULL, &t), NPUSIM_OK);
  const npusim_shape shapes3[3] = {gemms[0].shape, gemms[1].shape, gemms[2].shape};
  CU_ASSERT_EQUAL(t.end - t.start, npusim_graph_ns(c.profile, shapes3, 3));
  int8_t code[M][64];
  uint32_t wrong = 0, used = 0;
  memset(code, 0, sizeof code);
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++) {
      int32_t sum = 0;
      for (int k = 0; k < K; k++) {
        const int8_t *w = (const int8_t *)weight_at(&b, n, k);
        sum += (int8_t)b.map[m * KP + k] * (w[0] - w[128]);
      }
      sum >>= SHIFT;
      code[m][n] = (int8_t)(sum < -128 ? -128 : sum > 127 ? 127 : sum);
      used += code[m][n] != 0;
    }
  const int8_t *w3 = (const int8_t *)b.map + 8192; /* [K/32][N/32][32][32] */
  for (int m = 0; m < M; m++)
    for (int k = 0; k < K; k++) {
      int32_t want = 0, got;
      for (int n = 0; n < 64; n++) want += code[m][n] * w3[(k / 32 * 2 + n / 32) * 1024 + k % 32 * 32 + n % 32];
      memcpy(&got, b.map + 32768 + (m * KP + k) * 4, 4);
      wrong += got != want;
    }
  CU_ASSERT(wrong == 0 && used > M * N / 2);
  npusim_graph_free(g);
  /* Saved graphs tell middles and their numbers apart. */
  CU_ASSERT_EQUAL(npusim_describe(b.s, gemms, 3, &mid, &now), NPUSIM_OK);
  const int more = SHIFT + 1;
  mid.params = &more;
  CU_ASSERT_EQUAL(npusim_describe(b.s, gemms, 3, &mid, &other), NPUSIM_OK);
  CU_ASSERT_EQUAL(npusim_load(b.s, gemms, 3, &mid, &other, &now, sizeof now, &g), NPUSIM_STALE);
  CU_ASSERT_EQUAL(npusim_load(b.s, gemms, 3, &mid, &other, &other, sizeof other - 1, &g), NPUSIM_STALE);
  mid.first = 3;
  CU_ASSERT_EQUAL(npusim_prepare(b.s, gemms, 3, &mid, &g), NPUSIM_BAD);
  mid.first = 1; /* then the second does not take what the middle makes */
  CU_ASSERT_EQUAL(npusim_prepare(b.s, gemms, 3, &mid, &g), NPUSIM_SHAPE);
  bench_close(&b);
}

enum { AM = 32, AT = 50, AH = 4, AKV = 2, AD = 8, AVALID = 41 };

/* Softmax of what query m of head h sees, in long double. */
static double attend_one(const float *q, const float *k, const float *v, const uint8_t *mask, int m, int h, int d) {
  long double sum = 0, out = 0, top = -INFINITY, s[AT];
  for (int j = 0; j <= AVALID - AM + m; j++) {
    s[j] = 0;
    for (int i = 0; i < AD; i++)
      s[j] += (long double)q[(m * AH + h) * AD + i] * (long double)k[(h / 2 * AT + j) * AD + i];
    s[j] *= 0.5L;
    if (mask[j] && s[j] > top) top = s[j];
  }
  for (int j = 0; j <= AVALID - AM + m; j++) {
    if (!mask[j]) continue;
    sum += expl(s[j] - top);
    out += expl(s[j] - top) * (long double)v[(h / 2 * AT + j) * AD + d];
  }
  return sum > 0 ? (double)(out / sum) : 0;
}

static void float_attention(void) {
  npusim_config c = config_of();
  bench b = bench_open(&c);
  const npusim_attention a = {
      .M = AM, .T = AT, .heads = AH, .kv_heads = AKV, .size = AD, .v_size = AD, .scale = 0.5f, .causal = true};
  npusim_graph *g = NULL;
  CU_ASSERT_EQUAL(npusim_prepare_attention(b.s, &a, &g), NPUSIM_SHAPE); /* a profile without it */
  bench_close(&b);
  c.profile = npusim_profile_find("hmx-2026-fa");
  b = bench_open(&c);
  rng r = rng_of(71);
  float *f = (float *)(void *)b.map, *q = f, *k = f + 2048, *v = f + 4096, *y = f + 8192;
  for (int i = 0; i < 6144; i++) f[i] = (float)rng_normal(&r);
  uint8_t *mask = b.map + 49152;
  memset(mask, 1, AT);
  memset(mask, 0, 12); /* the first two queries see keys up to 9 and 10: none */
  const int64_t valid = AVALID;
  memcpy(b.map + 50000, &valid, sizeof valid);
  npusim_attention_io io = {.q = {b.handle, 0, 0, AH * AD, AD, 0},
                            .k = {b.handle, 0, 8192, AD, AT * AD, 0},
                            .v = {b.handle, 0, 16384, AD, AT * AD, 0},
                            .y = {b.handle, 0, 32768, AH * AD, AD, 0},
                            .valid = b.handle,
                            .valid_at = 50000,
                            .mask = b.handle,
                            .mask_at = 49152};
  npusim_times t;
  CU_ASSERT_EQUAL_FATAL(npusim_prepare_attention(b.s, &a, &g), NPUSIM_OK);
  CU_ASSERT_EQUAL(npusim_attend(g, &io, 0, NULL, NULL, &t), NPUSIM_OK);
  CU_ASSERT_EQUAL(t.end - t.start, npusim_attention_ns(c.profile, AM, AT, AH * AD, AKV * AD, AH));
  double worst = 0;
  for (int m = 0; m < AM; m++)
    for (int h = 0; h < AH; h++)
      for (int d = 0; d < AD; d++) {
        const double want = attend_one(q, k, v, mask, m, h, d), got = (double)y[(m * AH + h) * AD + d];
        if (m < 2) CU_ASSERT(want == 0 && got == 0);
        worst = fmax(worst, fabs(got - want) - fabs(want) * 0x1p-24);
      }
  CU_ASSERT(worst <= 1e-13); /* half a bit of float, and what is lost in double */
  /* The address is aligned, the first key is not. */
  float seen[AM * AH * AD];
  memcpy(seen, y, sizeof seen);
  memset(y, 0, sizeof seen);
  memmove(k + 1, k, (size_t)AKV * AT * AD * sizeof *k);
  io.k.first = 1;
  CU_ASSERT_EQUAL(npusim_attend(g, &io, 0, NULL, NULL, &t), NPUSIM_OK);
  CU_ASSERT_EQUAL(memcmp(seen, y, sizeof seen), 0);
  io.k.first = 65536 / 4 - 2048 - AKV * AT * AD + 1; /* the last element lies outside */
  CU_ASSERT_EQUAL(npusim_attend(g, &io, 0, NULL, NULL, &t), NPUSIM_UNREGISTERED);
  io.k.first = -1;
  CU_ASSERT_EQUAL(npusim_attend(g, &io, 0, NULL, NULL, &t), NPUSIM_BAD);
  io.k.first = 0;
  io.k.at += 64;
  CU_ASSERT_EQUAL(npusim_attend(g, &io, 0, NULL, NULL, &t), NPUSIM_BAD);
  io.k.at = 65536 - 128;
  CU_ASSERT_EQUAL(npusim_attend(g, &io, 0, NULL, NULL, &t), NPUSIM_UNREGISTERED);
  io.k.at = 8192;
  io.mask_at = 65536 - AT + 1;
  CU_ASSERT_EQUAL(npusim_attend(g, &io, 0, NULL, NULL, &t), NPUSIM_UNREGISTERED);
  io.mask_at = 49152;
  const int64_t beyond = AT + 1;
  memcpy(b.map + 50000, &beyond, sizeof beyond);
  CU_ASSERT_EQUAL(npusim_attend(g, &io, 0, NULL, NULL, &t), NPUSIM_BAD);
  CU_ASSERT_EQUAL(npusim_execute(g, &b.x, &b.y, 0, NULL, NULL, &t), NPUSIM_BAD);
  CU_ASSERT_EQUAL(npusim_attend(b.graph, &io, 0, NULL, NULL, &t), NPUSIM_BAD);
  npusim_graph_free(g);
  bench_close(&b);
}

/* Static shapes only. */
static void shapes(void) {
  const npusim_config c = config_of();
  bench b = bench_open(&c);
  npusim_times t;
  npusim_graph *g = NULL;
  const int64_t bad[][3] = {{0, 8, 8},   {31, 8, 8},         {33, 8, 8},
                            {32, 0, 8},  {32, 8, 0},         {32, 8, 131073},
                            {-32, 8, 8}, {32, INT64_MAX, 8}, {INT64_MAX / 32 * 32, 8, 8}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const npusim_gemm q = {.shape = {bad[i][0], bad[i][1], bad[i][2]}, .weights = b.handle};
    CU_ASSERT_EQUAL(npusim_prepare(b.s, &q, 1, NULL, &g), NPUSIM_SHAPE);
  }
  const npusim_tensor tensors[] = {
      {b.handle, 0, 0, M + 32, K}, {b.handle, 0, 0, M - 1, K}, {b.handle, 0, 0, M, K + 1}, {b.handle, 0, 0, 1, K}};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
    CU_ASSERT_EQUAL(npusim_execute(b.graph, &tensors[i], &b.y, 0, NULL, NULL, &t), NPUSIM_SHAPE);
  npusim_tensor y = b.y;
  y.columns = NP;
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &b.x, &y, 0, NULL, NULL, &t), NPUSIM_SHAPE);
  CU_ASSERT_EQUAL(npusim_prepare(b.s, NULL, 0, NULL, &g), NPUSIM_BAD);
  CU_ASSERT(g == NULL);
  bench_close(&b);
}

/* What is not registered is out of reach: other memory, other offsets, handles that are gone. */
static void unreachable(void) {
  const npusim_config c = config_of();
  bench b = bench_open(&c);
  npusim_times t;
  uint8_t bytes[256];
  npusim_tensor x = b.x;
  x.handle = b.handle + 1;
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &x, &b.y, 0, NULL, NULL, &t), NPUSIM_UNREGISTERED);
  x.handle = 0;
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &x, &b.y, 0, NULL, NULL, &t), NPUSIM_UNREGISTERED);
  x = b.x;
  x.at = 65536 - 128; /* begins inside, ends beyond */
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &x, &b.y, 0, NULL, NULL, &t), NPUSIM_UNREGISTERED);
  x.at = UINT64_MAX / 128 * 128;
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &x, &b.y, 0, NULL, NULL, &t), NPUSIM_UNREGISTERED);
  x.at = 64;
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &x, &b.y, 0, NULL, NULL, &t), NPUSIM_BAD);
  /* A part of the same file that was not registered. */
  uint32_t part;
  CU_ASSERT_EQUAL(npusim_register(b.s, b.fd, 4096, 128, &part), NPUSIM_OK);
  CU_ASSERT_EQUAL(npusim_read(b.s, part, 0, bytes, 128), NPUSIM_OK);
  CU_ASSERT_EQUAL(npusim_read(b.s, part, 1, bytes, 128), NPUSIM_UNREGISTERED);
  CU_ASSERT_EQUAL(npusim_write(b.s, part, 127, bytes, 1), NPUSIM_OK);
  CU_ASSERT_EQUAL(npusim_write(b.s, part, UINT64_MAX, bytes, 2), NPUSIM_UNREGISTERED);
  CU_ASSERT_EQUAL(npusim_unregister(b.s, part), NPUSIM_OK);
  CU_ASSERT_EQUAL(npusim_read(b.s, part, 0, bytes, 1), NPUSIM_UNREGISTERED);
  CU_ASSERT_EQUAL(npusim_unregister(b.s, part), NPUSIM_UNREGISTERED);
  uint32_t next;
  CU_ASSERT_EQUAL(npusim_register(b.s, b.fd, 4096, 128, &next), NPUSIM_OK);
  CU_ASSERT_NOT_EQUAL(next, part);
  /* Weights that a graph holds cannot go. */
  CU_ASSERT_EQUAL(npusim_unregister(b.s, b.handle), NPUSIM_BUSY);
  npusim_graph_free(b.graph);
  b.graph = NULL;
  CU_ASSERT_EQUAL(npusim_unregister(b.s, b.handle), NPUSIM_OK);
  npusim_counters n;
  npusim_count(b.s, &n);
  CU_ASSERT(n.copies == 2 && n.bytes_copied == 129 && n.live_registrations == 1 && n.live_graphs == 0);
  bench_close(&b);
}

/* Descriptors that are none, ranges beyond the file, the window. */
static void registration(void) {
  npusim_config c = config_of();
  c.window_bytes = 3 * 4096;
  npusim *s = npusim_open(&c);
  uint32_t a = 0, b = 0;
  int fd = -1;
  CU_ASSERT_EQUAL(npusim_alloc(s, 0, &fd), NPUSIM_BAD);
  CU_ASSERT_EQUAL_FATAL(npusim_alloc(s, 5 * 4096, &fd), NPUSIM_OK);
  CU_ASSERT_EQUAL(npusim_register(s, -1, 0, 4096, &a), NPUSIM_BAD);
  CU_ASSERT_EQUAL(npusim_register(s, 1 << 20, 0, 4096, &a), NPUSIM_MEMORY);
  CU_ASSERT_EQUAL(npusim_register(s, fd, 0, 0, &a), NPUSIM_BAD);
  CU_ASSERT_EQUAL(npusim_register(s, fd, 64, 128, &a), NPUSIM_BAD);
  CU_ASSERT_EQUAL(npusim_register(s, fd, 4096, 5 * 4096, &a), NPUSIM_BAD);
  CU_ASSERT_EQUAL(npusim_register(s, fd, 0, 4 * 4096, &a), NPUSIM_WINDOW);
  CU_ASSERT_EQUAL(npusim_register(s, fd, 128, 2 * 4096 - 128, &a), NPUSIM_OK);
  CU_ASSERT_EQUAL(npusim_register(s, fd, 0, 4097, &b), NPUSIM_WINDOW);
  CU_ASSERT_EQUAL(npusim_register(s, fd, 0, 4096, &b), NPUSIM_OK);
  CU_ASSERT_EQUAL(npusim_unregister(s, a), NPUSIM_OK);
  CU_ASSERT_EQUAL(npusim_register(s, fd, 0, 4097, &a), NPUSIM_OK);
  close(fd);
  /* The device's mapping does not need the descriptor any more. */
  CU_ASSERT_EQUAL(npusim_write(s, a, 0, "x", 1), NPUSIM_OK);
  npusim_close(s);
}

/* In order, from when the inputs are ready; asleep after a gap. */
static void virtual_clock(void) {
  npusim_config c = config_of();
  c.profile = npusim_profile_find("qnn-2024");
  c.wake = true;
  bench b = bench_open(&c);
  const npusim_shape s = {M, N, K};
  const int64_t cost = npusim_graph_ns(c.profile, &s, 1), wake = c.profile->wake_ns;
  npusim_times t[5], seen[5];
  /* Gaps: the first, none, none, 10.35 ms, 9.9 ms. */
  const int64_t ready[5] = {500, 0, 600, 16000000, 16000000 + cost + wake + 9900000};
  for (int i = 0; i < 5; i++)
    CU_ASSERT_EQUAL(npusim_execute(b.graph, &b.x, &b.y, ready[i], NULL, NULL, &t[i]), NPUSIM_OK);
  CU_ASSERT(t[0].start == 500 && t[0].end == 500 + cost + wake); /* cold */
  CU_ASSERT(t[1].start == t[0].end && t[1].end == t[1].start + cost);
  CU_ASSERT(t[2].start == t[1].end && t[2].ready == 600);
  CU_ASSERT(t[3].start == ready[3] && t[3].end == ready[3] + cost + wake); /* asleep */
  CU_ASSERT(t[4].start == ready[4] && t[4].end == t[4].start + cost);      /* still awake */
  CU_ASSERT_EQUAL(npusim_trace(b.s, seen, 5), 3);                          /* the last three */
  CU_ASSERT(!memcmp(&seen[0], &t[2], sizeof *seen) && !memcmp(&seen[2], &t[4], sizeof *seen));
  npusim_counters n;
  npusim_count(b.s, &n);
  CU_ASSERT(n.submissions == 5 && n.graphs == 1 && n.busy_ns == 5 * cost + 2 * wake && n.end_ns == t[4].end);
  CU_ASSERT_EQUAL(n.prepare_ns, 6 * N * K);
  bench_close(&b);
}

static int yes(void *arg) { return (void)arg, 1; }

static void faults(void) {
  npusim_config c = config_of();
  npusim_times t;
  int fd;
  c.faults.lost_at = 2;
  bench b = bench_open(&c);
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &b.x, &b.y, 0, NULL, NULL, &t), NPUSIM_OK);
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &b.x, &b.y, 0, yes, NULL, &t), NPUSIM_LOST);
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &b.x, &b.y, 0, NULL, NULL, &t), NPUSIM_LOST);
  CU_ASSERT_EQUAL(npusim_alloc(b.s, 1, &fd), NPUSIM_LOST);
  bench_close(&b);
  c.faults = (npusim_faults){.hung_at = 1};
  b = bench_open(&c);
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &b.x, &b.y, 0, NULL, NULL, &t), NPUSIM_HUNG);
  CU_ASSERT_EQUAL(npusim_execute(b.graph, &b.x, &b.y, 0, yes, NULL, &t), NPUSIM_STOPPED);
  bench_close(&b);
  c.faults = (npusim_faults){.graph_at = 1};
  b = bench_open(&c);
  CU_ASSERT(b.graph == NULL && b.handle != 0);
  CU_ASSERT_EQUAL(npusim_unregister(b.s, b.handle), NPUSIM_OK); /* the failed graph holds nothing */
  bench_close(&b);
  c.faults = (npusim_faults){.register_at = 1};
  b = bench_open(&c);
  CU_ASSERT(b.handle == 0);
  bench_close(&b);
  c.faults = (npusim_faults){.alloc_at = 1};
  b = bench_open(&c);
  CU_ASSERT(b.fd == -1);
  bench_close(&b);
}

bool add_sim_suite(void) {
  CU_TestInfo tests[] = {{"reference durations", reference_durations},
                         {"costs", costs},
                         {"exact product", exact_product},
                         {"between products", middle},
                         {"float attention", float_attention},
                         {"static shapes", shapes},
                         {"unreachable memory", unreachable},
                         {"registration", registration},
                         {"virtual clock", virtual_clock},
                         {"faults", faults},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"simulator", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
