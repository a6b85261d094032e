/* SPDX-License-Identifier: Apache-2.0
 *
 * The variants of hot.c: equal bits, and accuracy of the exponentials against the C library in double.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_test.h"
#include "runtime/base/half.h"
#include "runtime/ops/hot/loops.h"

extern const tni_hot tni_hot_base;

const tni_hot *variant_at(uint32_t index) {
  const uint32_t others = tni_hot_variant(0) == &tni_hot_base ? 1 : 0;
  return index ? tni_hot_variant(index - 1 + others) : &tni_hot_base;
}

enum { N = 1037 };

static void inputs(float *x) {
  ht_fill(x, N, 9);
  for (int i = 0; i < N; i++) x[i] *= i % 3 ? 8.f : 110.f;
  x[0] = 0;
  x[1] = -0.f;
  x[2] = INFINITY;
  x[3] = -INFINITY;
  x[4] = 88.72f;
  x[5] = -103.9f;
}

/* Pairs of bfloat16. */
static void words(float *x, int n) {
  ht_fill(x, n, 15);
  for (int i = 0; i < n; i++) {
    const uint32_t w = tni_f32_to_bf16(x[i]) | (uint32_t)tni_f32_to_bf16(x[i] * 0.7f - 0.1f) << 16;
    memcpy(&x[i], &w, sizeof w);
  }
}
static float half_of(float word, int high) {
  uint32_t w;
  memcpy(&w, &word, sizeof w);
  return tni_bf16_to_f32((uint16_t)(high ? w >> 16 : w));
}

/* a + b rounded to odd, and 0 below 2^-126. */
static float odd_sum(float a, float b) {
  const double x = (double)a, y = (double)b, s = x + y, t = s - x, lost = (x - (s - t)) + (y - t);
  float f = (float)s, cut = f;
  if (fabs((double)f) > fabs(s) || ((double)f == s && lost != 0 && (lost < 0) != (s < 0))) cut = nextafterf(f, 0);
  if ((double)cut != s || lost != 0) {
    uint32_t u;
    memcpy(&u, &cut, sizeof u);
    u |= 1;
    memcpy(&cut, &u, sizeof u);
  }
  return fabsf(cut) < 0x1p-126f ? 0 : cut;
}

/* The next word of a sum, as the variant adds it. */
static float add_word(const tni_hot *h, float sum, float a, float b) {
  const float high = half_of(a, 1) * half_of(b, 1), low = half_of(a, 0) * half_of(b, 0);
  if (h->odd_b16) return odd_sum(sum, odd_sum(low, high));
  sum = fmaf(half_of(a, 1), half_of(b, 1), sum);
  return fmaf(half_of(a, 0), half_of(b, 0), sum);
}

static void test_variants(void) {
  const tni_hot *base = variant_at(0);
  float x[N], y[N], z[N], w[16 * 64], pairs[700 + 31 * 16];
  inputs(x);
  ht_fill(w, 16 * 64, 5);
  words(pairs, sizeof pairs / sizeof *pairs);
  CU_ASSERT_PTR_NOT_NULL_FATAL(base);
  CU_ASSERT_PTR_NOT_NULL(tni_hot_get());
  for (uint32_t v = 1; variant_at(v); v++) {
    const tni_hot *h = variant_at(v);
#define SAME(CALL)                              \
  {                                             \
    memset(y, 0, sizeof y);                     \
    memset(z, 0, sizeof z);                     \
    const tni_hot *k = base;                    \
    float *o = y;                               \
    CALL;                                       \
    k = h;                                      \
    o = z;                                      \
    CALL;                                       \
    CU_ASSERT_EQUAL(memcmp(y, z, sizeof y), 0); \
  }
    SAME(k->exp(o, x, N))
    SAME(k->sigmoid(o, x, N))
    SAME(k->tanh(o, x, N))
    SAME(k->erf(o, x, N))
    SAME(k->swish(o, x + 6, N - 6, 1.5f))
    SAME(o[N - 1] = k->exp_sum(o, x + 7, N - 8, 110.f))
    SAME(o[0] = k->sum(x + 6, N - 6))
    SAME(o[0] = k->sum_sq(x + 6, N - 6, 0.25f))
    SAME(o[0] = k->max(x + 6, N - 6))
    SAME(k->pack_t(o, w, 64, 16, 61))
    SAME(k->pack_t(o, w, 64, 13, 61))
    for (int mr = 1; mr <= TNI_MR; mr++) {
      SAME(k->gemm(mr, 64, x + 6, 64, w, 16, o, 16, 1))
      SAME(k->gemm(mr, 64, x + 6, 64, w, 16, o, 16, 0))
      SAME(k->gemm2(mr, 31, x + 6, 64, w, 16, 31 * 16, o, 32, 1))
      SAME(k->gemm2(mr, 15, x + 6, 64, w + 1, 64, 16, o, 33, 0))
    }
    SAME(k->gemm(4, 15, x + 6, 64, w + 1, 64, o, 16, 1))
    for (int rows = 4; rows <= 8; rows += 4) SAME(k->dots8(rows, 13, 61, x + 6, w, 64, o, NULL))
    SAME(memcpy(o, w, 48 * 8 * sizeof *o); memset(o + 400, 0, 24 * sizeof *o);
         (void)k->softmax8(48, o, o + 400, o + 408, o + 416))
    SAME(memcpy(o, w, 8 * 24 * sizeof *o); k->values8(8, 32, x + 6, w, 24, w, o, 24, NULL))
    for (int kind = 0; kind < 3; kind++) {
      const float *b = kind ? pairs : w;
      SAME(k->gemv[kind](15, x + 6, b, 64, 64, o, 1))
      SAME(k->gemv[kind](6, x + 6, b + 1, 61, 61, o, 0))
    }
    for (int mr = 1; mr <= TNI_MR && !h->odd_b16; mr++) { /* of odd sums: test_words */
      SAME(k->gemm_b16(mr, 31, pairs, 64, pairs + 700, 16, o, 16, mr % 2))
      SAME(k->gemm2_b16(mr, 15, pairs, 64, pairs + 700, 32, 16, o, 33, mr % 2))
    }
    if (!h->odd_b16) /* what is past the last key is anything */
      SAME(k->dots8_b16(13, 31, pairs, pairs + 400, 32, o, NULL); memset(o + 13 * 8, 0, 7 * 8 * sizeof *o))
    for (int rows = 3; rows <= 8 && !h->odd_b16; rows += 5)
      SAME(memcpy(o, w, 8 * 24 * sizeof *o); k->values8_b16(rows, 31, pairs, pairs + 300, 24, w, o, 24, NULL))
    if (!h->odd_b16) SAME(memcpy(o, x + 6, 61 * 8 * sizeof *o); k->words8_b16(o, 60))
    SAME(k->to_b16(o, x, N))
    SAME(k->zip_b16(o, w, w + 64, 61))
#undef SAME
  }
}

/* dots8 of some rows: the sums that the packed tile gives over even and over odd elements, bit for bit. */
static void dots(const tni_hot *h, int rows) {
  enum { KC = 61, EVEN = 31, KEYS = 13 };
  float a[8 * KC], at[8 * (KC + 1)] = {0}, odd[8 * KC], b[16 * 64], packed[KC * 16], want[8 * 16], got[8 * (KEYS + 7)];
  ht_fill(a, 8 * KC, 7);
  ht_fill(b, 16 * 64, 11);
  for (int r = 0; r < 8; r++)
    for (int k = 0; k < KC; k++) {
      if (r < rows) at[tni_dots8_at(rows, r, k)] = a[r * KC + k];
      odd[r * KC + k % 2 * EVEN + k / 2] = r < rows ? a[r * KC + k] : 0;
    }
  h->pack_t(packed, b, 64, KEYS, KC);
  for (int r = 0; r < 8; r += 4) {
    h->gemm(4, EVEN, odd + r * KC, KC, packed, 32, want + r * 16, 16, 1);
    h->gemm(4, KC - EVEN, odd + r * KC + EVEN, KC, packed + 16, 32, want + r * 16, 16, 0);
  }
  h->dots8(rows, KEYS, KC, at, b, 64, got, b);
  for (int i = 0; i < 8 * KEYS; i++) CU_ASSERT_EQUAL(memcmp(got + i, want + i % 8 * 16 + i / 8, sizeof *got), 0);
}

/* Two panels at once are what each gives alone. */
static void two_panels(const tni_hot *h) {
  enum { KC = 61, STEP = KC * 16 };
  float a[TNI_MR * KC], b[2 * STEP], want[TNI_MR * 32], got[TNI_MR * 32];
  ht_fill(a, TNI_MR * KC, 7);
  ht_fill(b, 2 * STEP, 11);
  for (int mr = 1; mr <= TNI_MR; mr++)
    for (int first = 1; first >= 0; first--) {
      for (int p = 0; p < 2; p++) h->gemm(mr, KC, a, KC, b + p * STEP, 16, want + p * 16, 32, first);
      h->gemm2(mr, KC, a, KC, b, 16, STEP, got, 32, first);
      CU_ASSERT_EQUAL(memcmp(got, want, (size_t)mr * 32 * sizeof *got), 0);
    }
}

/* Sums over words as the variant says, and the same by every way there is: tiles of all heights, of one and of two
 * panels, few rows. */
static void sums_of_words(const tni_hot *h, int kc) {
  enum { KC = 37, KEYS = 13, LDC = 33 };
  float a[TNI_MR * KC], at[8 * (KC + 1)] = {0}, b[16 * KC], packed[2 * 16 * KC], want[TNI_MR * 16];
  float got[TNI_MR * LDC], scores[8 * (KEYS + 7)];
  words(a, TNI_MR * KC);
  words(b, 16 * KC);
  for (int i = 0; i < 8 * kc; i++) at[tni_words8_at(h, i / kc, i % kc)] = a[i / kc * KC + i % kc];
  for (int r = 0; r < TNI_MR; r++)
    for (int j = 0; j < 16; j++) {
      float sum = 0;
      for (int k = 0; k < kc; k++) sum = add_word(h, sum, a[r * KC + k], b[j * KC + k]);
      want[r * 16 + j] = sum;
    }
  for (int p = 0; p < 2; p++) h->pack_t(packed + p * 16 * kc, b, KC, 16, kc);
  for (int mr = 1; mr <= TNI_MR; mr++)
    for (int first = 0; first < 2; first++) {
      uint32_t wrong = 0;
      for (int i = 0; i < TNI_MR * LDC; i++) got[i] = 3;
      h->gemm2_b16(mr, kc, a, KC, packed, 16, 16 * kc, got, LDC, first);
      for (int i = 0; i < TNI_MR * LDC; i++) {
        const float to = i / LDC < mr && i % LDC < 32 ? want[i / LDC * 16 + i % LDC % 16] + (first ? 0 : 3) : 3;
        wrong += memcmp(&got[i], &to, sizeof to) != 0;
      }
      for (int i = 0; i < TNI_MR * LDC; i++) got[i] = 3;
      h->gemm_b16(mr, kc, a, KC, packed, 16, got, LDC, first);
      for (int i = 0; i < TNI_MR * LDC; i++) {
        const float to = i / LDC < mr && i % LDC < 16 ? want[i / LDC * 16 + i % LDC] + (first ? 0 : 3) : 3;
        wrong += memcmp(&got[i], &to, sizeof to) != 0;
      }
      CU_ASSERT_EQUAL(wrong, 0);
    }
  h->dots8_b16(KEYS, kc, at, b, KC, scores, b);
  for (int i = 0; i < 8 * KEYS; i++) CU_ASSERT_EQUAL(memcmp(scores + i, want + i % 8 * 16 + i / 8, sizeof *want), 0);
}

/* Words of probabilities are where they should be, and no other is touched. */
static void places_of_words(const tni_hot *h) {
  enum { MOST = 12 };
  for (int n = 2; n <= MOST; n += 2) {
    float p[8 * MOST + 8], x[8 * MOST + 8];
    uint32_t wrong = 0;
    const int words = h->odd_b16 ? (n / 2 + 1) / 2 * 2 : n / 2;
    ht_fill(x, 8 * MOST + 8, 3);
    memcpy(p, x, sizeof p);
    h->words8_b16(p, n);
    for (int i = 0; i < 8 * words; i++) {
      const int r = i % 8, w = i / 8;
      const uint32_t want =
          2 * w < n ? tni_f32_to_bf16(x[2 * w * 8 + r]) | (uint32_t)tni_f32_to_bf16(x[(2 * w + 1) * 8 + r]) << 16 : 0;
      wrong += memcmp(p + tni_words8_at(h, r, w), &want, sizeof want) != 0;
    }
    wrong += memcmp(p + 8 * n, x + 8 * n, sizeof p - (size_t)(8 * n) * sizeof *p) != 0;
    CU_ASSERT_EQUAL(wrong, 0);
  }
}

/* Probabilities and rows of values: as the tile adds them once both are packed. */
static void values_of_words(const tni_hot *h, int n) {
  enum { LD = 21, MOST = 70 };
  float p[8 * MOST], rows[8 * MOST], packed[16 * MOST], want[8 * 16], got[8 * 16], decay[8], start[8 * 16];
  const uint16_t none[16] = {0};
  uint16_t v[MOST * LD];
  ht_fill(p, 8 * MOST, 3);
  ht_fill(decay, 8, 4);
  ht_fill(want, 8 * 16, 6);
  memcpy(got, want, sizeof got);
  memcpy(start, want, sizeof start);
  for (int i = 0; i < MOST * LD; i++) v[i] = tni_f32_to_bf16((float)(i % 37 - 18) * 0.031f);
  for (int r = 0; r < 8; r++) {
    for (int j = 0; j < MOST; j++) rows[r * MOST + j] = j < n ? p[j * 8 + r] : 0;
    h->to_b16(rows + r * MOST, rows + r * MOST, MOST);
    for (int i = 0; i < 16; i++) want[r * 16 + i] = want[r * 16 + i] * decay[r];
  }
  for (int j = 0; j < n; j += 2) h->zip_b16(packed + j / 2 * 16, v + j * LD, j + 1 < n ? v + (j + 1) * LD : none, 16);
  uint32_t after = 0;
  memset(v + n * LD, 0xff, sizeof v - (size_t)(n * LD) * sizeof *v); /* NaNs, which nobody reads */
  for (int r = 0; r < 8; r += 4) h->gemm_b16(4, (n + 1) / 2, rows + r * MOST, MOST, packed, 16, want + r * 16, 16, 0);
  h->words8_b16(p, n + n % 2);
  h->values8_b16(8, n, p, v, LD, decay, got, 16, v);
  CU_ASSERT_EQUAL(memcmp(got, want, sizeof want), 0);
  memcpy(got, start, sizeof got / 2);
  h->values8_b16(3, n, p, v, LD, decay, got, 16, v); /* as many rows as four, and the others stay */
  for (int i = 0; i < 8 * 16; i++) after += memcmp(&got[i], &want[i], sizeof *got) != 0;
  CU_ASSERT_EQUAL(after, 0);
}

/* Rounding, also in place, where it is to be and by the number. */
static void rounded(const tni_hot *h) {
  float x[N];
  uint16_t got[N];
  uint32_t wrong = 0;
  inputs(x);
  x[6] = NAN;
  x[7] = 0x1.01p0f; /* half way: to even */
  x[8] = 0x1.03p0f;
  h->to_b16(got, x, N);
  for (int i = 0; i < N; i++) wrong += got[i] != tni_f32_to_bf16(x[i]);
  h->to_b16(x, x, N);
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(memcmp(x, got, sizeof got), 0);
}

static void test_words(void) {
  for (uint32_t v = 0; variant_at(v); v++) {
    for (int kc = 30; kc <= 37; kc++) sums_of_words(variant_at(v), kc);
    places_of_words(variant_at(v));
    for (int n = 1; n <= 66; n += n < 13 ? 3 : 53) values_of_words(variant_at(v), n);
    for (int n = 62; n <= 64; n++) values_of_words(variant_at(v), n);
    rounded(variant_at(v));
  }
}

static void test_unpacked(void) {
  const tni_hot *h = tni_hot_get();
  enum { KC = 61 };
  float a[8 * KC], b[16 * 64], packed[KC * 16], want[8 * 16], got[8 * 16];
  for (int rows = 1; rows <= 8; rows++) dots(h, rows);
  ht_fill(a, 8 * KC, 7);
  ht_fill(b, 16 * 64, 11);
  for (int k = 0; k < 16; k++) memcpy(packed + k * 16, b + k * 64 + 3, 16 * sizeof *b);
  h->gemm(4, 16, a, KC, packed, 16, want, 16, 1);
  h->gemm(4, 16, a, KC, b + 3, 64, got, 16, 1);
  CU_ASSERT_EQUAL(memcmp(got, want, 4 * 16 * sizeof *got), 0);
  two_panels(h);
}

/* Rows of every length: elements as if each were alone, sums in the declared order, and nothing written behind them. */
static void short_rows(const tni_hot *h) {
  enum { MOST = 70 };
  float x[MOST + 1], y[MOST + 1];
  ht_fill(x, MOST + 1, 13);
  for (int n = 0; n <= MOST; n++) {
    float lanes[16] = {0}, most = -INFINITY;
    memset(y, 0x55, sizeof y);
    const float after = y[n], sum = h->exp_sum(y, x, n, 1.f);
    uint32_t wrong = memcmp(&y[n], &after, sizeof after) != 0;
    for (int i = 0; i < n; i++) {
      float one;
      (void)h->exp_sum(&one, x + i, 1, 1.f);
      wrong += memcmp(&one, &y[i], sizeof one) != 0;
      lanes[i % 16] += one;
      most = x[i] > most ? x[i] : most;
    }
    for (int w = 8; w; w /= 2)
      for (int i = 0; i < w; i++) lanes[i] += lanes[i + w];
    wrong += sum != lanes[0] || h->max(x, n) != most;
    for (int i = 0; i < n; i++) {
      const float was = x[i];
      x[i] = INFINITY;
      wrong += h->max(x, n) != INFINITY;
      x[i] = NAN;
      wrong += !isnan(h->max(x, n));
      x[i] = was;
    }
    if (wrong) printf("%s: row of %d: %u wrong\n", h->name, n, wrong);
    CU_ASSERT_EQUAL(wrong, 0);
  }
}

static void test_short_rows(void) {
  for (uint32_t v = 0; variant_at(v); v++) short_rows(variant_at(v));
}

/* Every half, at odd addresses and by any number. */
static void test_halves(void) {
  enum { ALL = 65536 };
  static uint16_t h[ALL + 1];
  static float got[ALL];
  for (int i = 0; i < ALL; i++) memcpy((char *)h + 1 + 2 * i, &(uint16_t){(uint16_t)i}, 2);
  for (uint32_t v = 0; variant_at(v); v++) {
    int wrong = 0;
    for (int at = 0, n; at < ALL; at += n) {
      n = at % 67 + 1 < ALL - at ? at % 67 + 1 : ALL - at;
      variant_at(v)->from_half(got + at, (const char *)h + 1 + 2 * at, n);
    }
    for (int i = 0; i < ALL; i++) {
      const float want = tni_f16_to_f32((uint16_t)i);
      uint32_t bits;
      memcpy(&bits, &got[i], 4);
      wrong += isnan(want) ? !isnan(got[i]) || !(bits & 0x400000) || bits >> 31 != (uint32_t)i >> 15
                           : memcmp(&want, &got[i], sizeof want) != 0;
    }
    CU_ASSERT_EQUAL(wrong, 0);
  }
}

static float any_float(uint32_t *state, uint32_t near) {
  uint32_t u;
  float f;
  *state = *state * 1664525 + 1013904223;
  u = *state >> 8 & 0x7fffff;
  *state = *state * 1664525 + 1013904223;
  u |= (*state & 0x80000000) | ((*state >> 8) % 255 / near + 128 - 128 / near) << 23;
  if ((*state & 31) == 0) u &= 0xff800fff; /* ties need short fractions */
  memcpy(&f, &u, sizeof f);
  return f;
}

/* One rounding, also where there is no instruction for it: every exponent, exponents near each other, ties. */
static void test_fused(void) {
  for (uint32_t v = 0; variant_at(v); v++) {
    const tni_hot *h = variant_at(v);
    uint32_t state = 7;
    for (int i = 0; i < 20000; i++) {
      float a[2] = {1}, b[32], c[16];
      for (int j = 0; j < 16; j++) b[j] = any_float(&state, i % 2 ? 1 : 16);
      a[1] = any_float(&state, i % 2 ? 1 : 16);
      for (int j = 16; j < 32; j++) b[j] = i % 3 ? any_float(&state, i % 2 ? 1 : 16) : -b[j - 16] / a[1];
      if (i % 5 == 0) a[1] = 1 + 0x1p-12f; /* midpoints of floats, and what a double has no room for beside them */
      for (int j = 0; i % 5 == 0 && j < 16; j++) {
        b[16 + j] = ldexpf(1 + 0x1p-12f, j);
        b[j] = ldexpf(j % 2 ? -1.f : 1.f, j - 60 - i % 7);
      }
      h->gemm(1, 2, a, 2, b, 16, c, 16, 1);
      for (int j = 0; j < 16; j++) {
        const float want = fmaf(a[1], b[16 + j], b[j]);
        if (memcmp(&want, &c[j], sizeof want) != 0 && !(isnan(want) && isnan(c[j]))) {
          printf("%s: %a * %a + %a is %a, not %a\n", h->name, a[1], b[16 + j], b[j], want, c[j]);
          CU_FAIL_FATAL("rounded twice");
        }
      }
    }
  }
  CU_PASS("one rounding");
}

/* A block of eight rows at once: what max, exp, exp_sum and gemm give row by row, bit for bit. */
static void test_eight_rows(void) {
  const tni_hot *h = tni_hot_get();
  enum { KEYS = 48 };
  float s[8 * KEYS], p[KEYS * 8], b[KEYS * 24], max[8], sum[8], decay[8], c[8 * 24], want[8 * 24], few[8 * 24];
  ht_fill(s, 8 * KEYS, 3);
  ht_fill(b, KEYS * 24, 5);
  ht_fill(c, 8 * 24, 9);
  memcpy(want, c, sizeof c);
  for (int i = 0; i < 8 * KEYS; i++) p[i] = s[i % 8 * KEYS + i / 8];
  for (int r = 0; r < 8; r++) {
    max[r] = r ? (float)r / 4 - 1 : -INFINITY;
    sum[r] = (float)r;
  }
  float m[8], l[8];
  for (int r = 0; r < 8; r++) {
    const float top = h->max(s + r * KEYS, KEYS);
    m[r] = top > max[r] ? top : max[r];
    float d = m[r] == max[r] ? 0 : max[r] - m[r];
    (void)h->exp_sum(&d, &d, 1, 0);
    l[r] = sum[r] * d + h->exp_sum(s + r * KEYS, s + r * KEYS, KEYS, m[r]);
    for (int i = 0; i < 16; i++) want[r * 24 + i] *= d;
  }
  CU_ASSERT(h->softmax8(KEYS, p, max, sum, decay));
  CU_ASSERT_EQUAL(memcmp(m, max, sizeof m), 0);
  CU_ASSERT_EQUAL(memcmp(l, sum, sizeof l), 0);
  for (int i = 0; i < 8 * KEYS; i++) CU_ASSERT_EQUAL(memcmp(p + i, s + i % 8 * KEYS + i / 8, sizeof *p), 0);
  memcpy(few, c, sizeof c);
  h->values8(8, KEYS, p, b, 24, decay, c, 24, b);
  for (int r = 0; r < 8; r += 4) h->gemm(4, KEYS, s + r * KEYS, KEYS, b, 24, want + r * 24, 24, 0);
  CU_ASSERT_EQUAL(memcmp(c, want, sizeof c), 0);
  memcpy(want + 4 * 24, few + 4 * 24, 4 * 24 * sizeof *few); /* rows behind four stay */
  h->values8(3, KEYS, p, b, 24, decay, few, 24, b);
  CU_ASSERT_EQUAL(memcmp(few, want, sizeof few), 0);
  const float bad[2] = {INFINITY, -INFINITY}; /* nothing is done where a row has no finite largest score */
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < KEYS; i++) p[i * 8 + 3] = bad[k];
    max[3] = -INFINITY;
    memcpy(s, p, sizeof s);
    CU_ASSERT(!h->softmax8(KEYS, p, max, sum, decay));
    CU_ASSERT_EQUAL(memcmp(s, p, sizeof s) || memcmp(l, sum, sizeof l), 0);
  }
}

static void test_accuracy(void) {
  const tni_hot *h = tni_hot_get();
  double worst[3] = {0};
  for (double v = -87; v < 88.7; v += 0.0037) {
    const float x = (float)v;
    float y[3];
    h->exp(&y[0], &x, 1);
    h->tanh(&y[1], &x, 1);
    h->sigmoid(&y[2], &x, 1);
    const double want[3] = {exp((double)x), tanh((double)x), 1 / (1 + exp(-(double)x))};
    for (int i = 0; i < 3; i++) worst[i] = fmax(worst[i], fabs((double)y[i] - want[i]) / fabs(want[i]));
  }
  for (int i = 0; i < 3; i++) CU_ASSERT(worst[i] < 4 * 0x1p-24);
  for (double v = -87.3; v <= 0; v += 0.0037) {
    float z[33];
    for (int i = 0; i < 33; i++) z[i] = (float)v;
    (void)h->exp_sum(z, z, 33, 0); /* in lanes, and one that is left */
    CU_ASSERT(z[0] == z[32] && fabs((double)z[0] / exp((double)(float)v) - 1) < 3 * 0x1p-24);
  }
  for (double v = -5; v <= 5; v += 0.00037) {
    float z[33];
    for (int i = 0; i < 33; i++) z[i] = (float)v;
    h->erf(z, z, 33); /* in lanes, and one that is left */
    CU_ASSERT(z[0] == z[32] && fabs((double)z[0] / erf((double)(float)v) - 1) < 2.6 * 0x1p-24);
  }
  float x[4] = {NAN, 1000, -1000, 0}, y[4];
  h->erf(y, x, 4);
  CU_ASSERT(isnan(y[0]) && y[1] == 1 && y[2] == -1 && y[3] == 0);
  h->exp(y, x, 4);
  CU_ASSERT(isnan(y[0]) && isinf(y[1]) && y[2] == 0 && y[3] == 1);
  h->tanh(y, x, 4);
  CU_ASSERT(isnan(y[0]) && y[1] == 1 && y[2] == -1 && y[3] == 0);
  for (int i = 0; i < 4; i++) {
    float far[33]; /* NaN stays; what is far below is nothing */
    const float at[4] = {NAN, -INFINITY, -1e30f, -89};
    for (int j = 0; j < 33; j++) far[j] = at[i];
    (void)h->exp_sum(far, far, 33, 0);
    CU_ASSERT(i ? far[0] == 0 && far[32] == 0 : isnan(far[0]) && isnan(far[32]));
  }
  CU_ASSERT(isnan(h->max(x, 4)));
  CU_ASSERT(h->max(x, 0) == -INFINITY);
  CU_ASSERT(h->sum(x, 0) == 0);
}

bool ht_add_hot(void) {
  CU_pSuite s = CU_add_suite("host hot loops", NULL, NULL);
  return s && CU_add_test(s, "variants give the same bits", test_variants) &&
         CU_add_test(s, "unpacked operands", test_unpacked) && CU_add_test(s, "words of bfloat16", test_words) &&
         CU_add_test(s, "one rounding", test_fused) && CU_add_test(s, "eight rows at once", test_eight_rows) &&
         CU_add_test(s, "accuracy", test_accuracy) && CU_add_test(s, "halves", test_halves) &&
         CU_add_test(s, "short rows", test_short_rows);
}
