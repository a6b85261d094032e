/* SPDX-License-Identifier: Apache-2.0
 *
 * For files that are compiled once per instruction set (search.c, gptq.c, descend.c): names of their own, and lanes.
 * Every variant gives the same bits: elements are computed one by one, sums keep their order, and nothing is
 * contracted.
 */
#ifndef TENON_QUANT_LOOPS_H
#define TENON_QUANT_LOOPS_H

#include <math.h>
#include <string.h>

#include "runtime/quant/internal.h"

#define TNI_QUANT_JOIN(name, isa) name##_##isa
#define TNI_QUANT_OF(name, isa) TNI_QUANT_JOIN(name, isa)
#define tni_quant_fit_group TNI_QUANT_OF(tni_quant_fit_group, TNI_QUANT_ISA)
#define tni_quant_gptq TNI_QUANT_OF(tni_quant_gptq, TNI_QUANT_ISA)
#define tni_quant_descend TNI_QUANT_OF(tni_quant_descend, TNI_QUANT_ISA)

#if defined(__AVX512F__)
#include <immintrin.h>
#define TNI_QUANT_PICKS
enum { TNI_QUANT_WIDE = TNI_QUANT_VALUES };
#elif defined(__AVX2__)
enum { TNI_QUANT_WIDE = 8 };
#else
enum { TNI_QUANT_WIDE = 4 };
#endif
typedef float lanes __attribute__((vector_size(4 * TNI_QUANT_WIDE)));
typedef int32_t lanes_i __attribute__((vector_size(4 * TNI_QUANT_WIDE)));

static inline lanes all_lanes(float x) { return x - (lanes){0}; }
static inline lanes chosen(lanes_i which, lanes a, lanes b) {
  return (lanes)((which & (lanes_i)a) | (~which & (lanes_i)b));
}
#if defined(__AVX512F__)
static inline lanes lesser(lanes a, lanes b) { return (lanes)_mm512_min_ps((__m512)a, (__m512)b); }
static inline float least_lane(lanes a) { return _mm512_reduce_min_ps((__m512)a); }
/* The least of at[i] where a[i] is least. */
static inline int32_t first_lane(lanes a, lanes_i at, float least) {
  return _mm512_mask_reduce_min_epi32(_mm512_cmp_ps_mask((__m512)a, _mm512_set1_ps(least), _CMP_EQ_OQ), (__m512i)at);
}
/* lane i: from[which[i]] */
static inline lanes picked(lanes from, lanes_i which) {
  return (lanes)_mm512_permutexvar_ps((__m512i)which, (__m512)from);
}
#else
static inline lanes lesser(lanes a, lanes b) { return chosen(a < b, a, b); }
static inline float least_lane(lanes a) {
  float least = INFINITY;
  for (int i = 0; i < TNI_QUANT_WIDE; i++) least = a[i] < least ? a[i] : least;
  return least;
}
static inline int32_t first_lane(lanes a, lanes_i at, float least) {
  int32_t first = INT32_MAX;
  for (int i = 0; i < TNI_QUANT_WIDE; i++) first = a[i] == least && at[i] < first ? at[i] : first;
  return first;
}
#endif

/* The first of n costs that none is below. */
static inline uint32_t first_least(const float *cost, uint32_t n) {
  lanes low = all_lanes(INFINITY), c;
  uint32_t i = 0, at = 0;
  for (; i + TNI_QUANT_WIDE <= n; i += TNI_QUANT_WIDE) {
    memcpy(&c, cost + i, sizeof c);
    low = lesser(c, low);
  }
  float least = least_lane(low);
  for (; i < n; i++) least = cost[i] < least ? cost[i] : least;
  while (at < n && !(cost[at] <= least)) at++;
  return at < n ? at : 0;
}

tni_quant_fit tni_quant_fit_group(const tni_quant_grid *g, float parent, const float *w, const float *wt, int64_t n,
                                  double *err);
TN_MUST_CHECK tn_status tni_quant_gptq(tni_quant_rows *s);
TN_MUST_CHECK tn_status tni_quant_descend(tni_quant_rows *s);

#endif
