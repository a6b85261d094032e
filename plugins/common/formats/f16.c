/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/f16.h"

#include <string.h>

float tni_cm_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = (h >> 10) & 31u, man = h & 1023u, bits;
  if (exp == 31) {
    bits = 0x7f800000u | man << 13;
  } else if (exp) {
    bits = (exp + 112) << 23 | man << 13;
  } else if (man) {
    uint32_t shift = (uint32_t)__builtin_clz(man) - 21;
    bits = (113 - shift) << 23 | ((man << shift & 1023u) << 13);
  } else {
    bits = 0;
  }
  bits |= sign;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

uint16_t tni_cm_f32_to_f16(float f) {
  uint32_t b;
  memcpy(&b, &f, sizeof b);
  uint16_t sign = (uint16_t)(b >> 16 & 0x8000u);
  b &= 0x7fffffffu;
  if (b > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (b >> 13 & 1023u));
  if (b >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
  if (b < 0x33000001u) return sign;                        /* up to 2^-25, which ties to even: zero */
  uint32_t exp = b >> 23, man = (b & 0x7fffffu) | 0x800000u;
  uint32_t drop = exp >= 113 ? 13 : 126 - exp; /* bits of man that do not fit */
  uint32_t kept = man >> drop, rest = man & ((1u << drop) - 1), half = 1u << (drop - 1);
  if (rest > half || (rest == half && (kept & 1))) kept++;
  /* The implicit bit adds itself to the exponent, and a carry out of the fraction moves it on. */
  return (uint16_t)(sign | (exp >= 113 ? ((exp - 113) << 10) + kept : kept));
}
