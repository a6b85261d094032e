/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled once per instruction set: TNI_HOT_NAME is the table's symbol, TNI_HOT_TEXT its name.
 */
#include "runtime/ops/hot/hot_tile.h"

/* --- one row --- */

/* Four rows of b per pass over the accumulators; within a column the four products are added one after the other, so
 * the order is the micro tile's. */

enum { OF_FLOATS, OF_HALVES, OF_BRAINS };

#define ROW_BYTES(kind) ((kind) == OF_FLOATS ? 4 : 2)

static inline __attribute__((always_inline)) float widened1(const int kind, const char *p) {
  uint16_t h;
  if (kind == OF_FLOATS) return *(const f32u *)(const void *)p;
  memcpy(&h, p, sizeof h);
  return kind == OF_HALVES ? tni_half_to_f32(h) : tni_bits_f32((uint32_t)h << 16);
}

static inline __attribute__((always_inline)) vr widened(const int kind, const char *p) {
  if (kind == OF_FLOATS) return loadr(p);
#if defined(__F16C__)
  const __m128i h = _mm_loadu_si128((const __m128i *)(const void *)p);
  if (kind == OF_HALVES) return (v8)_mm256_cvtph_ps(h);
  return (v8)_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16);
#elif defined(TNI_HOT_NEON)
  const uint16x4_t h = vreinterpret_u16_u8(vld1_u8((const uint8_t *)p));
  return kind == OF_HALVES ? vcvt_f32_f16(vreinterpret_f16_u16(h)) : vreinterpretq_f32_u32(vshll_n_u16(h, 16));
#else
  v8 v;
  for (int i = 0; i < 8; i++) v[i] = widened1(kind, p + i * 2);
  return v;
#endif
}

static inline __attribute__((always_inline)) void gemv_of(const int kind, int64_t kc, const f32u *restrict a,
                                                          const char *restrict b, int64_t ldb, int64_t n,
                                                          float *restrict c, int first) {
  const int64_t size = ROW_BYTES(kind), step = ldb * size;
  float acc[512] __attribute__((aligned(64)));
  memset(acc, 0, (size_t)n * sizeof(float));
  int64_t k = 0;
  for (; k + 4 <= kc; k += 4) {
    const char *restrict r0 = b + k * step, *restrict r1 = r0 + step;
    const char *restrict r2 = r1 + step, *restrict r3 = r2 + step;
    const vr s0 = allr(a[k]), s1 = allr(a[k + 1]), s2 = allr(a[k + 2]), s3 = allr(a[k + 3]);
    int64_t j = 0;
    for (; j + LANES_R <= n; j += LANES_R) {
      const int64_t at = j * size;
      if (at % 64 == 0) /* rows are far apart: no processor guesses the next ones */
        for (int i = 0; i < 4; i++) __builtin_prefetch(r0 + (8 + i) * step + at, 0, 3);
      const vr t = fmar(s1, widened(kind, r1 + at), fmar(s0, widened(kind, r0 + at), loadr(acc + j)));
      storer(acc + j, fmar(s3, widened(kind, r3 + at), fmar(s2, widened(kind, r2 + at), t)));
    }
    for (; j < n; j++) {
      const int64_t at = j * size;
      const float t = fma1(a[k + 1], widened1(kind, r1 + at), fma1(a[k], widened1(kind, r0 + at), acc[j]));
      acc[j] = fma1(a[k + 3], widened1(kind, r3 + at), fma1(a[k + 2], widened1(kind, r2 + at), t));
    }
  }
  for (; k < kc; k++)
    for (int64_t j = 0; j < n; j++) acc[j] = fma1(a[k], widened1(kind, b + k * step + j * size), acc[j]);
  if (first)
    memcpy(c, acc, (size_t)n * sizeof(float));
  else
    for (int64_t j = 0; j < n; j++) c[j] = c[j] + acc[j];
}

#define GEMV(name, kind)                                                                                    \
  static void name(int64_t kc, const void *a, const void *b, int64_t ldb, int64_t n, float *c, int first) { \
    gemv_of(kind, kc, a, b, ldb, n, c, first);                                                              \
  }
GEMV(gemv_floats, OF_FLOATS)
GEMV(gemv_halves, OF_HALVES)
GEMV(gemv_brains, OF_BRAINS)

#ifdef TNI_HOT_NEON
/* Four by four at a time: what is wider than a register goes through memory. */
static void transpose8(float *restrict dst, int64_t ldd, const f32u *restrict s, int64_t ld) {
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 8; j += 4) {
      const f32u *from = s + i * ld + j;
      float *to = dst + j * ldd + i;
      const vr r0 = load4(from), r1 = load4(from + ld), r2 = load4(from + 2 * ld), r3 = load4(from + 3 * ld);
      const vr even0 = vzip1q_f32(r0, r2), even1 = vzip2q_f32(r0, r2);
      const vr odd0 = vzip1q_f32(r1, r3), odd1 = vzip2q_f32(r1, r3);
      storer(to, vzip1q_f32(even0, odd0));
      storer(to + ldd, vzip2q_f32(even0, odd0));
      storer(to + 2 * ldd, vzip1q_f32(even1, odd1));
      storer(to + 3 * ldd, vzip2q_f32(even1, odd1));
    }
}
#else
static void transpose8(float *restrict dst, int64_t ldd, const f32u *restrict s, int64_t ld) {
  v8 r[8], t[8];
  for (int i = 0; i < 8; i++) r[i] = *(const v8u *)(const void *)(s + i * ld);
  for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; j++) {
      r[i + j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + j + 2] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; i++) {
    v8u *lo = (v8u *)(void *)(dst + i * ldd), *hi = (v8u *)(void *)(dst + (i + 4) * ldd);
    *lo = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *hi = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}
#endif

static void pack_t(float *dst, const void *src, int64_t ld, int64_t n, int64_t kc) {
  const f32u *restrict s = src;
  int64_t k = 0;
  if (n == TNI_NR)
    for (; k + 8 <= kc; k += 8) {
      transpose8(dst + k * TNI_NR, TNI_NR, s + k, ld);
      transpose8(dst + k * TNI_NR + 8, TNI_NR, s + 8 * ld + k, ld);
    }
  for (; k < kc; k++) {
    for (int64_t j = 0; j < n; j++) dst[k * TNI_NR + j] = s[j * ld + k];
    for (int64_t j = n; j < TNI_NR; j++) dst[k * TNI_NR + j] = 0;
  }
}

/* --- row reductions --- */

static v8 swap_half(v8 v) { return __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3); }
static v8 swap_quarter(v8 v) { return __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5); }

/* The sum of all lanes, pairwise. */
static float tree_sum(v8 s0, v8 s1) {
  v8 s = s0 + s1;
  s = s + swap_half(s);
  s = s + swap_quarter(s);
  return s[0] + s[1];
}

static float exp_sum(void *yv, const void *xv, int64_t n, float max) {
  enum { TURN = REGS_W * LANES_W, MANY = TNI_LANES / LANES_W };
  const f32u *x = xv;
  f32u *y = yv;
  const vw most = allw(max);
  vw sum[MANY];
  vwu e[REGS_W];
  v8 s[2];
  int64_t i = 0;
  for (int j = 0; j < MANY; j++) sum[j] = allw(0);
  for (; i + TURN <= n; i += TURN) {
    EACH_WIDE(e[u] = ((const vwu *)(const void *)(x + i))[u])
    decay_wide(e, &most, 1);
    EACH_WIDE(((vwu *)(void *)(y + i))[u] = e[u])
    EACH_WIDE(sum[u % MANY] = sum[u % MANY] + e[u])
  }
  if (i < n) {
    vwu rest[REGS_W];
    EACH_WIDE(rest[u] = allw(-INFINITY))
    memcpy(rest, x + i, (size_t)(n - i) * sizeof *x);
    decay_wide(rest, &most, 1);
    EACH_WIDE(sum[u % MANY] = sum[u % MANY] + rest[u])
    memcpy(y + i, rest, (size_t)(n - i) * sizeof *y);
  }
  memcpy(s, sum, sizeof s);
  return tree_sum(s[0], s[1]);
}

static float hot_sum(const void *xv, int64_t n) {
  const f32u *x = xv;
  float s[TNI_LANES] = {0};
  int64_t i = 0;
  for (; i + TNI_LANES <= n; i += TNI_LANES)
    for (int j = 0; j < TNI_LANES; j++) s[j] += x[i + j];
  for (int j = 0; i + j < n; j++) s[j] += x[i + j];
  return tree_sum(load8(s), load8(s + 8));
}

static float sum_sq(const void *xv, int64_t n, float mean) {
  const f32u *x = xv;
  float s[TNI_LANES] = {0};
  int64_t i = 0;
  for (; i + TNI_LANES <= n; i += TNI_LANES)
    for (int j = 0; j < TNI_LANES; j++) s[j] += (x[i + j] - mean) * (x[i + j] - mean);
  for (int j = 0; i + j < n; j++) s[j] += (x[i + j] - mean) * (x[i + j] - mean);
  return tree_sum(load8(s), load8(s + 8));
}

static float vmax(const void *xv, int64_t n) {
  enum { MANY = TNI_LANES / LANES_W };
  const f32u *x = xv;
  const vw none = allw(-INFINITY);
  vw m[MANY];
  vwi bad = {0};
  float top[LANES_W];
  uint64_t words[sizeof bad / sizeof(uint64_t)], any = 0;
  for (int u = 0; u < MANY; u++) m[u] = none;
  for (int64_t i = 0; i < n; i += TNI_LANES) {
    vwu rest[MANY];
    const vwu *v = (const vwu *)(const void *)(x + i);
    if (n - i < TNI_LANES) {
      for (int u = 0; u < MANY; u++) rest[u] = none;
      memcpy(rest, x + i, (size_t)(n - i) * sizeof *x);
      v = rest;
    }
    for (int u = 0; u < MANY; u++) {
      bad |= v[u] != v[u];
      m[u] = maxw(v[u], m[u]);
    }
  }
  memcpy(words, &bad, sizeof bad);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) any |= words[i];
  if (any) return NAN;
  for (int w = MANY / 2; w > 0; w /= 2)
    for (int u = 0; u < w; u++) m[u] = maxw(m[u + w], m[u]);
  memcpy(top, m, sizeof top);
  for (int w = LANES_W / 2; w > 0; w /= 2)
    for (int i = 0; i < w; i++) top[i] = top[i + w] > top[i] ? top[i + w] : top[i];
  return top[0];
}

typedef uint16_t half_u __attribute__((aligned(1), may_alias));
static void from_half(float *restrict dst, const void *src, int64_t n) {
  const half_u *h = src;
  int64_t i = 0;
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(h + i))));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(h + i))));
#elif defined(TNI_HOT_NEON)
  for (; i + 4 <= n; i += 4) storer(dst + i, widened(OF_HALVES, (const char *)(h + i)));
#endif
  for (; i < n; i++) dst[i] = tni_half_to_f32(h[i]);
}

extern const tni_hot TNI_HOT_NAME;
const tni_hot TNI_HOT_NAME = {
    .name = TNI_HOT_TEXT,
    .mr = TILE_MR,
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    .odd_b16 = true,
#endif
    .gemm = hot_tile,
    .gemm2 = tile2,
    .gemv = {gemv_floats, gemv_halves, gemv_brains},
    .dots8 = TNI_HOT_OWN(dots8),
    .softmax8 = TNI_HOT_OWN(softmax8),
    .values8 = TNI_HOT_OWN(values8),
    .gemm_b16 = TNI_HOT_OWN(gemm_b16),
    .gemm2_b16 = TNI_HOT_OWN(gemm2_b16),
    .dots8_b16 = TNI_HOT_OWN(dots8_b16),
    .values8_b16 = TNI_HOT_OWN(values8_b16),
    .to_b16 = TNI_HOT_OWN(to_b16),
    .words8_b16 = TNI_HOT_OWN(words8_b16),
    .zip_b16 = TNI_HOT_OWN(zip_b16),
    .pack_t = pack_t,
    .widen = TNI_HOT_OWN(widen),
    .widen_pairs = TNI_HOT_OWN(widen_pairs),
    .widen_floats = TNI_HOT_OWN(widen_floats),
    .bgemm = TNI_HOT_OWN(bgemm),
    .taps = TNI_HOT_OWN(taps),
    .requantize = TNI_HOT_OWN(requantize),
    .integers = TNI_HOT_OWN(integers),
    .quantize = TNI_HOT_OWN(quantize),
    .range = TNI_HOT_OWN(range),
    .dequantize = TNI_HOT_OWN(dequantize),
    .from_half = from_half,
    .exp = TNI_HOT_OWN(exp),
    .sigmoid = TNI_HOT_OWN(sigmoid),
    .tanh = TNI_HOT_OWN(tanh),
    .swish = TNI_HOT_OWN(swish),
    .erf = TNI_HOT_OWN(erf),
    .exp_sum = exp_sum,
    .sum = hot_sum,
    .sum_sq = sum_sq,
    .max = vmax,
};
