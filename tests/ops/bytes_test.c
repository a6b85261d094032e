/* SPDX-License-Identifier: Apache-2.0
 *
 * Products and convolutions of bytes against sums in 64 bits, over odd shapes and every combination of signedness, and
 * the loops below them: every variant gives the bits of the base. Convolutions of floats: the bits of a plain sum.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_test.h"
#include "runtime/ops/gemm/bgemm.h"
#include "runtime/ops/hot/loops.h"
#include "runtime/shape/infer.h"

static uint32_t random32(uint32_t *s) {
  *s = *s * 1664525u + 1013904223u;
  return *s >> 8;
}

static int64_t pick(uint32_t *s, int64_t lo, int64_t hi) {
  return lo + (int64_t)(random32(s) % (uint64_t)(hi - lo + 1));
}

/* Bytes of the whole range; extremes more often, so that sums are as large as they get. */
static void fill(const tni_tensor *t, uint32_t *s) {
  for (uint64_t i = 0; i < t->bytes; i++)
    ((uint8_t *)t->data)[i] = (uint8_t)(random32(s) % 4 ? random32(s) : random32(s) % 2 ? 0x80 : 0x7f);
}

static int64_t count(const tni_tensor *t) {
  int64_t n = 1;
  for (uint32_t d = 0; d < t->rank; d++) n *= t->dims[d];
  return n;
}

static int64_t byte_of(const tni_tensor *t, int64_t i) {
  return t->dtype == TN_DT_I8 ? ((const int8_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
}

static int64_t zero_of(const tni_tensor *t, int64_t i) {
  return t->rank && t->dims[0] > 1 ? byte_of(t, i) : byte_of(t, 0);
}

static float float_at(const tni_tensor *t, int64_t i) {
  float f;
  memcpy(&f, (const char *)t->data + (t->rank && t->dims[0] > 1 ? i : 0) * 4, 4);
  return f;
}

/* The sum as the node gives it: itself, or scaled in double; two are accepted where that lies next to a tie. */
static bool right(const ht_node *n, int64_t sum, float factor, const tni_tensor *y, int64_t i) {
  if (y->dtype == TN_DT_I32) return ((const int32_t *)y->data)[i] == (int32_t)(uint32_t)sum;
  const double v = (double)(int32_t)(uint32_t)sum * (double)factor, near = fabs(v) * 0x1p-23;
  const double lo = y->dtype == TN_DT_I8 ? -128 : 0, zero = (double)byte_of(&n->in[7], 0);
  for (int k = -1; k <= 1; k++) {
    const double r = rint(v + k * near) + zero;
    if ((double)byte_of(y, i) == fmin(fmax(r, lo), lo + 255)) return true;
  }
  return false;
}

/* Runs the node on 3 workers, with guard bytes behind y and scratch of exactly what it asked for. */
static bool run_node(ht_node *n, tni_tensor *y) {
  tni_tensor *out[] = {y};
  tni_pool *pool = tni_pool_create(3);
  tni_pool_run r;
  tni_pool_run_init(&r, pool, NULL);
  tn_status st = tni_infer_concrete(n->node, n->ptr, n->n_in, y, 1, NULL, &n->err);
  if (st == TN_OK) {
    y->data = malloc(y->bytes + 16);
    memset((void *)(uintptr_t)y->data, 0xa5, y->bytes + 16);
    const uint64_t bytes = tni_ops_scratch(&n->node->pub, n->ptr, n->n_in, y, r.run.n_workers);
    void *scratch = bytes ? aligned_alloc(64, (bytes + 63) & ~UINT64_C(63)) : NULL;
    const tni_kargs a = {&n->node->pub, n->ptr, out, n->n_in, 1, scratch, &r.run, &n->err, NULL, NULL, false};
    st = tni_ops_kernel(n->node->op)(&a);
    for (int i = 0; i < 16; i++) CU_ASSERT_EQUAL(((const uint8_t *)y->data)[y->bytes + (uint64_t)i], 0xa5);
    free(scratch);
  }
  tni_pool_destroy(pool);
  if (st) printf("\n    %s", n->err.message);
  return st == TN_OK;
}

static const char *type(uint32_t *s) { return random32(s) % 2 ? "u8" : "i8"; }

/* A scale, or n of them, around what brings sums of K products into a byte's range. */
static void scales(const tni_tensor *t, uint32_t *s, double size) {
  for (int64_t i = 0; i < count(t); i++) {
    const float f = (float)(size * (0.5 + (double)random32(s) / 0x1p24));
    memcpy((char *)t->data + i * 4, &f, 4);
  }
}

/* --- convolutions --- */

typedef struct conv {
  int64_t n, c, m, groups, in[3], k[3], stride[3], dilation[3], pad[6], out[3];
  uint32_t rank;
} conv;

static bool make_conv(conv *c, uint32_t *s, bool depthwise) {
  c->rank = random32(s) % 8 ? 2 : 1 + 2 * (random32(s) % 2);
  c->groups = depthwise ? pick(s, 1, 7) : pick(s, 1, 3);
  c->n = pick(s, 1, 2);
  c->c = c->groups * (depthwise ? 1 : pick(s, 1, 9));
  c->m = c->groups * pick(s, 1, depthwise ? 2 : random32(s) % 4 ? 9 : 120);
  for (uint32_t d = 0; d < c->rank; d++) {
    c->k[d] = random32(s) % 3 ? pick(s, 1, 4) : 1;
    c->stride[d] = random32(s) % 2 ? 1 : pick(s, 1, 3);
    c->dilation[d] = random32(s) % 3 ? 1 : pick(s, 1, 3);
    c->in[d] = pick(s, 1, d + 1 == c->rank && random32(s) % 4 == 0 ? 90 : 14);
    c->pad[d] = random32(s) % 2 ? 0 : pick(s, 0, 3);
    c->pad[c->rank + d] = random32(s) % 2 ? 0 : pick(s, 0, 3);
    const int64_t room = c->in[d] + c->pad[d] + c->pad[c->rank + d] - (c->k[d] - 1) * c->dilation[d] - 1;
    if (room < 0) return false;
    c->out[d] = room / c->stride[d] + 1;
  }
  return true;
}

static char *dims_text(char *t, const char *dtype, const int64_t *d, uint32_t n) {
  char *at = t + sprintf(t, "%s[", dtype);
  for (uint32_t i = 0; i < n; i++) at += sprintf(at, i ? ",%lld" : "%lld", (long long)d[i]);
  sprintf(at, "]");
  return t;
}

static int64_t conv_sum(const ht_node *n, const conv *c, const tni_tensor *x, const tni_tensor *w, int64_t zx,
                        const tni_tensor *zw, int64_t image, int64_t m, const int64_t *o) {
  const int64_t C = c->c / c->groups, first = m / (c->m / c->groups) * C;
  int64_t taps = 1, sum = 0;
  (void)n;
  for (uint32_t d = 0; d < c->rank; d++) taps *= c->k[d];
  for (int64_t ch = 0; ch < C; ch++)
    for (int64_t t = 0; t < taps; t++) {
      int64_t rest = t, at = 0, tap[3];
      bool inside = true;
      for (uint32_t d = c->rank; d-- > 0; rest /= c->k[d]) tap[d] = rest % c->k[d];
      for (uint32_t d = 0; d < c->rank; d++) {
        const int64_t i = o[d] * c->stride[d] + tap[d] * c->dilation[d] - c->pad[d];
        inside = inside && i >= 0 && i < c->in[d];
        at = at * c->in[d] + i;
      }
      int64_t plane = 1;
      for (uint32_t d = 0; d < c->rank; d++) plane *= c->in[d];
      if (inside)
        sum += (byte_of(x, (image * c->c + first + ch) * plane + at) - zx) *
               (byte_of(w, (m * C + ch) * taps + t) - zero_of(zw, m));
    }
  return sum;
}

static void check_conv(const conv *c, uint32_t *s, bool linear) {
  char attrs[200], t[9][80], dims[3][40];
  const char *tx = type(s), *tw = type(s), *ty = type(s), *per = random32(s) % 2 ? "[%lld]" : "[]";
  const int64_t xd[] = {c->n, c->c, c->in[0], c->in[1], c->in[2]};
  const int64_t wd[] = {c->m, c->c / c->groups, c->k[0], c->k[1], c->k[2]};
  char many[40];
  snprintf(many, sizeof many, per[1] == ']' ? "[]" : "[%lld]", (long long)c->m);
  dims_text(dims[0], "", c->stride, c->rank);
  dims_text(dims[1], "", c->dilation, c->rank);
  dims_text(dims[2], "", c->pad, 2 * c->rank);
  snprintf(attrs, sizeof attrs, "group=%lld strides=%s dilations=%s pads=%s", (long long)c->groups, dims[0], dims[1],
           dims[2]);
  dims_text(t[0], tx, xd, c->rank + 2);
  const int iw = linear ? 3 : 1, ixz = 2, iwz = linear ? 5 : 3;
  dims_text(t[iw], tw, wd, c->rank + 2);
  snprintf(t[ixz], sizeof t[0], "%s[]", tx);
  snprintf(t[iwz], sizeof t[0], "%s%s", tw, many);
  if (linear) {
    snprintf(t[1], sizeof t[0], "f32[]");
    snprintf(t[4], sizeof t[0], "f32%s", many);
    snprintf(t[6], sizeof t[0], "f32[]");
    snprintf(t[7], sizeof t[0], "%s[]", ty);
    snprintf(t[8], sizeof t[0], "i32[%lld]", (long long)c->m);
  }
  const bool biased = linear && random32(s) % 3;
  const char *in[] = {t[0], t[1], t[2], t[3], linear ? t[4] : NULL, t[5], t[6], t[7], biased ? t[8] : NULL, NULL};
  ht_node n;
  CU_ASSERT_FATAL(ht_node_make(&n, linear ? "QLinearConv" : "ConvInteger", 10, attrs, in, 1));
  const tni_tensor *zx = &n.in[ixz], *zw = &n.in[iwz], *w = &n.in[iw];
  for (uint32_t i = 0; i < n.n_in; i++) fill(&n.in[i], s);
  int64_t K = 1;
  for (uint32_t d = 1; d < w->rank; d++) K *= w->dims[d];
  if (linear) {
    scales(&n.in[1], s, 1);
    scales(&n.in[4], s, 1);
    scales(&n.in[6], s, 64 * sqrt((double)K));
    for (int64_t i = 0; biased && i < c->m; i++) ((i32u *)(uintptr_t)n.in[8].data)[i] = (int32_t)pick(s, -20000, 20000);
  }
  tni_tensor y = {.data = NULL};
  CU_ASSERT_FATAL(run_node(&n, &y));
  int64_t bad = 0, i = 0;
  for (int64_t image = 0; image < c->n; image++)
    for (int64_t m = 0; m < c->m; m++) {
      int64_t places = 1;
      for (uint32_t d = 0; d < c->rank; d++) places *= c->out[d];
      for (int64_t p = 0; p < places; p++, i++) {
        int64_t o[3], rest = p;
        for (uint32_t d = c->rank; d-- > 0; rest /= c->out[d]) o[d] = rest % c->out[d];
        int64_t sum = conv_sum(&n, c, &n.in[0], w, byte_of(zx, 0), zw, image, m, o);
        if (biased) sum += ((const i32u *)n.in[8].data)[m];
        const float f = linear ? float_at(&n.in[1], 0) * float_at(&n.in[4], m) / float_at(&n.in[6], 0) : 1;
        bad += !right(&n, sum, f, &y, i);
      }
    }
  CU_ASSERT_EQUAL(i, count(&y));
  if (bad)
    printf("\n    %s, %s, %s, %s %s: %lld of %lld wrong", linear ? "QLinearConv" : "ConvInteger", t[0], t[iw], ty,
           attrs, (long long)bad, (long long)i);
  CU_ASSERT_EQUAL(bad, 0);
  free((void *)(uintptr_t)y.data);
  ht_node_free(&n);
}

static void test_conv(void) {
  uint32_t s = 11;
  for (int i = 0; i < 600;) {
    conv c = {.n = 0};
    if (!make_conv(&c, &s, i % 2)) continue;
    check_conv(&c, &s, i % 4 < 2);
    i++;
  }
  /* many blocks of rows, a stride in both directions, planes that are not kept whole; more taps than floats are exact
   * for */
  static const conv large[] = {
      {1, 3, 3, 3, {113, 117}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {113, 117}, 2},
      {1, 2, 2, 2, {113, 117}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {57, 59}, 2},
      {1, 2, 4, 2, {40, 50}, {5, 3}, {3, 2}, {2, 3}, {4, 3, 4, 3}, {14, 25}, 2},
      {1, 2, 2, 2, {20, 40}, {17, 17}, {1, 1}, {1, 1}, {8, 8, 8, 8}, {20, 40}, 2},
      {1, 1, 1, 1, {3, 9000}, {1, 3}, {1, 1}, {1, 1}, {0, 1, 0, 1}, {3, 9000}, 2},
      {1, 700, 100, 1, {9, 8}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {9, 8}, 2},
      {1, 33, 97, 1, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {9, 8}, 2},
  };
  for (size_t i = 0; i < 2 * sizeof large / sizeof *large; i++) check_conv(&large[i / 2], &s, i % 2);
}

/* The sum of one output in f32, in ascending channels and taps, those in the padding left out; over several channels as
 * a product (gemm.h). */
static float float_sum(const conv *c, const float *x, const float *w, const int64_t *o) {
  const int64_t taps = c->k[0] * c->k[1], channels = c->c / c->groups;
  float acc = 0, total = 0;
  for (int64_t k = 0; k < channels * taps; k++) {
    const int64_t t = k % taps, i = o[0] * c->stride[0] + t / c->k[1] * c->dilation[0] - c->pad[0];
    const int64_t j = o[1] * c->stride[1] + t % c->k[1] * c->dilation[1] - c->pad[1];
    if (channels > 1 && k % TNI_KC == 0) {
      total = total + acc;
      acc = 0;
    }
    if (i < 0 || i >= c->in[0] || j < 0 || j >= c->in[1]) continue;
    acc = fmaf(w[k], x[(k / taps * c->in[0] + i) * c->in[1] + j], acc);
  }
  return total + acc;
}

/* Windows in f32: the bits of the plain sum, over one channel also with an infinite weight. */
static void check_floats(const conv *c, uint32_t *s, bool infinite) {
  char attrs[200], t[3][80], dims[3][40];
  const int64_t xd[] = {c->n, c->c, c->in[0], c->in[1]}, wd[] = {c->m, c->c / c->groups, c->k[0], c->k[1]};
  dims_text(dims[0], "", c->stride, 2);
  dims_text(dims[1], "", c->dilation, 2);
  dims_text(dims[2], "", c->pad, 4);
  snprintf(attrs, sizeof attrs, "group=%lld strides=%s dilations=%s pads=%s", (long long)c->groups, dims[0], dims[1],
           dims[2]);
  dims_text(t[0], "f32", xd, 4);
  dims_text(t[1], "f32", wd, 4);
  snprintf(t[2], sizeof t[2], "f32[%lld]", (long long)c->m);
  const char *in[] = {t[0], t[1], t[2], NULL};
  ht_node n;
  CU_ASSERT_FATAL(ht_node_make(&n, "Conv", 11, attrs, in, 1));
  float *v[3];
  for (int i = 0; i < 3; i++) {
    v[i] = malloc(n.in[i].bytes + 1);
    ht_fill(v[i], count(&n.in[i]), random32(s));
    if (i == 1 && infinite) v[1][random32(s) % count(&n.in[1])] = INFINITY;
    memcpy((void *)(uintptr_t)n.in[i].data, v[i], n.in[i].bytes);
  }
  tni_tensor y = {.data = NULL};
  CU_ASSERT_FATAL(run_node(&n, &y));
  const int64_t channels = c->c / c->groups, size = channels * c->k[0] * c->k[1];
  int64_t bad = 0, i = 0;
  for (int64_t p = 0; p < c->n * c->m; p++)
    for (int64_t o0 = 0; o0 < c->out[0]; o0++)
      for (int64_t o1 = 0; o1 < c->out[1]; o1++, i++) {
        const int64_t m = p % c->m, x = p / c->m * c->groups + m / (c->m / c->groups), o[] = {o0, o1};
        const float *from = v[0] + x * channels * c->in[0] * c->in[1];
        const float want = float_sum(c, from, v[1] + m * size, o) + v[2][m];
        bad += memcmp((const float *)y.data + i, &want, 4) != 0 &&
               (want == want || ((const float *)y.data)[i] == ((const float *)y.data)[i]);
      }
  CU_ASSERT_EQUAL(i, count(&y));
  if (bad) printf("\n    Conv %s %s %s: %lld of %lld wrong", t[0], t[1], attrs, (long long)bad, (long long)i);
  CU_ASSERT_EQUAL(bad, 0);
  for (int k = 0; k < 3; k++) free(v[k]);
  free((void *)(uintptr_t)y.data);
  ht_node_free(&n);
}

static void test_floats(void) {
  uint32_t s = 21;
  for (int i = 0; i < 200;) {
    conv c = {.n = 0};
    if (!make_conv(&c, &s, true) || c.rank != 2) continue;
    check_floats(&c, &s, i % 5 == 0);
    i++;
  }
  for (int i = 0; i < 300;) {
    conv c = {.n = 0};
    if (!make_conv(&c, &s, false) || c.rank != 2 || c.c == c.groups) continue;
    check_floats(&c, &s, false);
    i++;
  }
  /* rows wider and narrower than a tile, phases, several pieces of K, images and groups, planes that are too large */
  static const conv large[] = {{1, 40, 37, 1, {70, 75}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {70, 75}, 2},
                               {2, 64, 112, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {7, 7}, 2},
                               {1, 3, 20, 1, {64, 61}, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}, {32, 31}, 2},
                               {1, 6, 8, 2, {33, 50}, {5, 3}, {3, 2}, {2, 3}, {4, 3, 4, 3}, {11, 25}, 2},
                               {1, 2, 3, 1, {9, 3000}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {9, 3000}, 2},
                               {1, 2, 2, 2, {113, 117}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {113, 117}, 2},
                               {1, 2, 2, 2, {113, 117}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {57, 59}, 2}};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) check_floats(&large[i], &s, false);
}

/* Conv with a bound behind it: the bits of Conv and then Clip. */
static void test_bounded(void) {
  static const struct {
    const char *x, *w, *attrs;
  } rows[] = {{"f32[2,3,9,11]", "f32[5,3,3,3]", "pads=[1,1,1,1]"},
              {"f32[1,70,7,9]", "f32[100,70,1,1]", NULL},
              {"f32[1,4,13,14]", "f32[4,1,3,3]", "group=4 pads=[1,1,1,1] strides=[2,2]"},
              {"f32[1,1,3,9000]", "f32[1,1,1,1]", NULL},
              {"f32[2,4,5]", "f32[6,2,2]", "group=2"}};
  static const tni_bounds bounds[] = {{0, INFINITY}, {-0.25f, 0.5f}, {-INFINITY, 0}, {NAN, 0.1f}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int k = 0; k < 4; k++) {
      const char *in[] = {rows[i].x, rows[i].w, NULL};
      ht_node n;
      tni_tensor y = {.data = NULL}, z;
      tni_tensor *out[] = {&z};
      tn_run run;
      CU_ASSERT_FATAL(ht_node_make(&n, "Conv", 11, rows[i].attrs, in, 1));
      for (uint32_t t = 0; t < 2; t++) {
        float *v = malloc(n.in[t].bytes);
        ht_fill(v, count(&n.in[t]), t + 3);
        memcpy((void *)(uintptr_t)n.in[t].data, v, n.in[t].bytes);
        free(v);
      }
      CU_ASSERT_FATAL(run_node(&n, &y));
      z = y;
      z.data = malloc(y.bytes + 1);
      tni_run_inline(&run);
      void *scratch = aligned_alloc(64, (tni_ops_scratch(&n.node->pub, n.ptr, n.n_in, &z, 1) + 63) & ~UINT64_C(63));
      const tni_kargs a = {&n.node->pub, n.ptr, out, n.n_in, 1, scratch, &run, &n.err, NULL, NULL, false};
      CU_ASSERT_EQUAL(tni_conv_bounded(&a, &bounds[k]), TN_OK);
      tni_bound(&bounds[k], (float *)(uintptr_t)y.data, count(&y));
      CU_ASSERT_EQUAL(memcmp(y.data, z.data, y.bytes), 0);
      free(scratch);
      free((void *)(uintptr_t)y.data);
      free((void *)(uintptr_t)z.data);
      ht_node_free(&n);
    }
}

/* --- matrices --- */

static void check_matmul(const int64_t *d, uint32_t *s,
                         int op) { /* d: batches, M, N, K; op: 0 integer, 1 linear, 2 gemm */
  char t[9][80], cols[40], rows[40];
  const char *ta = type(s), *tb = type(s), *ty = type(s);
  const bool by_col = random32(s) % 2, by_row = op < 2 && random32(s) % 4 == 0, trans = op == 2 && random32(s) % 2;
  const bool biased = op == 2 && random32(s) % 3, shared = random32(s) % 2;
  snprintf(cols, sizeof cols, by_col ? "[%lld]" : "[]", (long long)d[2]);
  snprintf(rows, sizeof rows, by_row ? "[%lld]" : "[]", (long long)d[1]);
  const int ib = op ? 3 : 1, iza = 2, izb = op ? 5 : 3;
  const int64_t ad[] = {d[0], d[1], d[3]}, bd[] = {shared ? 1 : d[0], trans ? d[2] : d[3], trans ? d[3] : d[2]};
  dims_text(t[0], ta, ad, 3);
  dims_text(t[ib], tb, bd, 3);
  snprintf(t[iza], sizeof t[0], "%s%s", ta, rows);
  snprintf(t[izb], sizeof t[0], "%s%s", tb, cols);
  if (op) {
    snprintf(t[1], sizeof t[0], "f32%s", rows);
    snprintf(t[4], sizeof t[0], "f32%s", cols);
    snprintf(t[6], sizeof t[0], "f32[]");
    snprintf(t[7], sizeof t[0], "%s[]", ty);
    snprintf(t[8], sizeof t[0], "i32[%lld]", (long long)d[2]);
  }
  static const char *names[] = {"MatMulInteger", "QLinearMatMul", "tenon.QLinearGemm"};
  const char *in[] = {t[0], t[1], t[2], t[3], op ? t[4] : NULL, t[5], t[6], t[7], biased ? t[8] : NULL, NULL};
  ht_node n;
  CU_ASSERT_FATAL(ht_node_make(&n, names[op], op == 2 ? 1 : 10, trans ? "trans_b=1" : NULL, in, 1));
  for (uint32_t i = 0; i < n.n_in; i++) fill(&n.in[i], s);
  if (op) {
    scales(&n.in[1], s, 1);
    scales(&n.in[4], s, 1);
    scales(&n.in[6], s, 64 * sqrt((double)d[3] + 1));
  }
  for (int64_t i = 0; biased && i < d[2]; i++) ((i32u *)(uintptr_t)n.in[8].data)[i] = (int32_t)pick(s, -90000, 90000);
  tni_tensor y = {.data = NULL};
  CU_ASSERT_FATAL(run_node(&n, &y));
  int64_t bad = 0, i = 0;
  for (int64_t b = 0; b < d[0]; b++)
    for (int64_t m = 0; m < d[1]; m++)
      for (int64_t c = 0; c < d[2]; c++, i++) {
        int64_t sum = biased ? ((const i32u *)n.in[8].data)[c] : 0;
        for (int64_t k = 0; k < d[3]; k++)
          sum += (byte_of(&n.in[0], (b * d[1] + m) * d[3] + k) - zero_of(&n.in[iza], m)) *
                 (byte_of(&n.in[ib], (shared ? 0 : b) * d[3] * d[2] + (trans ? c * d[3] + k : k * d[2] + c)) -
                  zero_of(&n.in[izb], c));
        const float f = op ? float_at(&n.in[1], m) * float_at(&n.in[4], c) / float_at(&n.in[6], 0) : 1;
        bad += !right(&n, sum, f, &y, i);
      }
  CU_ASSERT_EQUAL(i, count(&y));
  if (bad) printf("\n    %s %s %s%s: %lld wrong", names[op], t[0], t[ib], trans ? " turned" : "", (long long)bad);
  CU_ASSERT_EQUAL(bad, 0);
  free((void *)(uintptr_t)y.data);
  ht_node_free(&n);
}

static void test_matmul(void) {
  static const int64_t shapes[][4] = {{1, 1, 1, 1},    {2, 1, 17, 3}, {1, 7, 16, 513},  {3, 6, 15, 512},
                                      {1, 97, 65, 31}, {2, 13, 1, 8}, {1, 1, 200, 700}, {1, 100, 70, 77},
                                      {1, 2, 3, 0},    {2, 0, 3, 4}};
  uint32_t s = 5;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int k = 0; k < 24; k++) check_matmul(shapes[i], &s, k % 3);
}

/* --- the loops --- */

enum { N = 300 };

static void test_variants(void) {
  const tni_hot *base = variant_at(0);
  uint8_t bytes[4 * N];
  uint32_t s = 3;
  for (int i = 0; i < 4 * N; i++) bytes[i] = (uint8_t)random32(&s);
  int32_t sums[N];
  float f[N], scale[N], x[N];
  int16_t wide[32 * 64], rows[TNI_BR * 64];
  for (int i = 0; i < N; i++) {
    sums[i] = i % 5 ? (int32_t)pick(&s, -4000, 4000) : (int32_t)pick(&s, INT32_MIN, INT32_MAX);
    scale[i] = (float)pick(&s, 1, 64) / 64; /* ties among the products */
    f[i] = (float)pick(&s, -600, 600) / 2;
    x[i] = i % 7 ? f[i] * 0.37f : i % 2 ? NAN : INFINITY;
  }
  for (int i = 0; i < 32 * 64; i++) wide[i] = (int16_t)(random32(&s) % 4 ? pick(&s, -255, 255) : -255);
  for (int i = 0; i < TNI_BR * 64; i++) rows[i] = (int16_t)(random32(&s) % 4 ? pick(&s, -255, 255) : 255);
  for (uint32_t v = 1; variant_at(v); v++) {
    const tni_hot *h = variant_at(v);
    char one[8192], two[8192];
#define SAME(CALL)                              \
  {                                             \
    memset(one, 1, sizeof one);                 \
    memset(two, 1, sizeof two);                 \
    const tni_hot *k = base;                    \
    void *o = one;                              \
    CALL;                                       \
    k = h;                                      \
    o = two;                                    \
    CALL;                                       \
    CU_ASSERT_EQUAL(memcmp(one, two, 8192), 0); \
  }
    for (int i = 0; i < 4; i++) {
      const tni_of_byte of = i % 2 ? (tni_of_byte){128, 128 + 7 - 100 * (i / 2)} : (tni_of_byte){0, 255 * (i / 2)};
      const tni_to_byte to = i % 2 ? (tni_to_byte){-3, -128, 127} : (tni_to_byte){200, 0, 255};
      const int64_t n = N - i;
      SAME(k->widen(o, bytes + i, of, n))
      SAME(k->widen_pairs(o, bytes + i, bytes + N, of, n))
      SAME(k->widen_pairs(o, bytes + i, NULL, of, n))
      SAME(k->widen_floats(o, bytes + i, 1, of, n))
      SAME(k->widen_floats(o, bytes + i, 2, of, n))
      SAME(k->widen_floats(o, bytes + i, 3, of, n))
      SAME(k->dequantize(o, bytes + i, 0.123f, of, n))
      SAME(k->quantize(o, x + i, 0.5f, to, n))
      SAME((memset(o, 0, 8), k->range(x + i, n, (float *)o, (float *)o + 1)))
      SAME(k->requantize(o, sums + i, scale + i, 1, to, n))
      SAME(k->requantize(o, sums + i, scale + i, 0, to, n))
      SAME(k->taps(o, f, scale, 3 + i, 2, n - 20))
    }
    for (int mr = 1; mr <= TNI_BR; mr++) {
      SAME(k->bgemm(mr, 32, rows, 64, wide, o, 20, 1))
      SAME(k->bgemm(mr, 31, rows, 62, wide, o, 20, 0))
    }
#undef SAME
  }
}

/* From what they were, NaNs left out, infinities not; any length. */
static void test_range(void) {
  static const float x[] = {NAN, 2, -3, -0.f, 7, NAN, 1, 5, -8, NAN};
  for (uint32_t v = 0; variant_at(v); v++)
    for (int64_t n = 0; n <= 200; n++) {
      float many[200], lo = 0, hi = 3, want_lo = 0, want_hi = 3;
      for (int64_t i = 0; i < 200; i++) many[i] = x[i * 7 % 10] * (1 + (float)i);
      for (int64_t i = 0; i < n; i++) {
        if (many[i] < want_lo) want_lo = many[i];
        if (many[i] > want_hi) want_hi = many[i];
      }
      variant_at(v)->range(many, n, &lo, &hi);
      CU_ASSERT(memcmp(&lo, &want_lo, sizeof lo) == 0 && memcmp(&hi, &want_hi, sizeof hi) == 0);
    }
}

/* Half to even, saturation at both ends, what no byte is. */
static void test_rounding(void) {
  static const float x[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 126.5f, 127.5f, 300.f, -300.f, INFINITY, -INFINITY, NAN};
  static const int8_t want_i8[] = {3 + 0, 3 + 2, 3 + 2, 3 + 0, 3 - 2, 127, 127, 127, -128, 127, -128, 3};
  int8_t y[12];
  for (uint32_t v = 0; variant_at(v); v++) {
    variant_at(v)->quantize(y, x, 1.f, (tni_to_byte){3, -128, 127}, 12);
    for (int i = 0; i < 12; i++) CU_ASSERT_EQUAL(y[i], want_i8[i]);
  }
}

bool ht_add_bytes(void) {
  CU_pSuite s = CU_add_suite("host bytes", NULL, NULL);
  return s && CU_add_test(s, "variants give the same bits", test_variants) &&
         CU_add_test(s, "rounding", test_rounding) && CU_add_test(s, "range", test_range) &&
         CU_add_test(s, "convolutions against 64-bit sums", test_conv) &&
         CU_add_test(s, "products against 64-bit sums", test_matmul) &&
         CU_add_test(s, "floats of one channel, bit for bit", test_floats) &&
         CU_add_test(s, "a bound behind a convolution", test_bounded);
}
