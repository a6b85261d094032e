/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "tests/kernels/bench_avx2.h"

/* Twelve sums hide the latency of four cycles on three ports. */
#define TWELVE(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)

#define START256(i) __m256i s##i = _mm256_set1_epi32(i);
#define STEP256(i) __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(s##i) : "x"(w), "x"(a));
#define SUM256(i) t = _mm256_xor_si256(t, s##i);

__attribute__((target("avx2"))) double bench_peak_avxvnni(size_t n, int32_t *sink) {
  __m256i w = _mm256_set1_epi8(7), a = _mm256_set1_epi8((char)*sink), t = _mm256_setzero_si256();
  TWELVE(START256)
  for (size_t i = 0; i < n; i++) {
    TWELVE(STEP256)
    __asm__ volatile("");
  }
  TWELVE(SUM256)
  *sink += _mm256_extract_epi32(t, 0);
  return (double)n * 12 * 32;
}

#define START512(i) __m512i s##i = _mm512_set1_epi32(i);
#define STEP512(i) __asm__("vpdpbusd %2, %1, %0" : "+v"(s##i) : "v"(w), "v"(a));
#define SUM512(i) t = _mm512_xor_si512(t, s##i);

__attribute__((target("avx512f"))) double bench_peak_avx512vnni(size_t n, int32_t *sink) {
  __m512i w = _mm512_set1_epi8(7), a = _mm512_set1_epi8((char)*sink), t = _mm512_setzero_si512();
  TWELVE(START512)
  for (size_t i = 0; i < n; i++) {
    TWELVE(STEP512)
    __asm__ volatile("");
  }
  TWELVE(SUM512)
  *sink += _mm512_reduce_add_epi32(t);
  return (double)n * 12 * 64;
}

/* Of loaded tiles: products of tiles that tilezero made run up to 2.4 times as fast where the processor slows the unit.
 */
double bench_peak_amx(size_t n, int32_t *sink) {
  _Alignas(64) uint8_t config[64] = {1}, codes[4 * 16 * 64];
  for (int i = 0; i < 8; i++) config[16 + 2 * i] = 64, config[48 + i] = 16;
  for (size_t i = 0; i < sizeof codes; i++) codes[i] = (uint8_t)(i * 37 + (size_t)*sink);
  __asm__ volatile("ldtilecfg %0" ::"m"(config));
  __asm__ volatile(
      "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t"
      "tileloadd (%0,%1), %%tmm4\n\ttileloadd 1024(%0,%1), %%tmm5\n\t"
      "tileloadd 2048(%0,%1), %%tmm6\n\ttileloadd 3072(%0,%1), %%tmm7" ::"r"(codes),
      "r"((size_t)64)
      : "memory");
  for (size_t i = 0; i < n; i++)
    __asm__ volatile(
        "tdpbssd %tmm6, %tmm4, %tmm0\n\ttdpbssd %tmm6, %tmm5, %tmm1\n\t"
        "tdpbssd %tmm7, %tmm4, %tmm2\n\ttdpbssd %tmm7, %tmm5, %tmm3");
  __asm__ volatile("tilerelease");
  *sink += 1;
  return (double)n * 4 * 16 * 16 * 64;
}
