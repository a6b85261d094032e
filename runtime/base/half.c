/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/half.h"

#include <math.h>
#include <string.h>

static float f32_of_bits(uint32_t b) {
  float f;
  memcpy(&f, &b, sizeof f);
  return f;
}

static uint32_t bits_of_f32(float f) {
  uint32_t b;
  memcpy(&b, &f, sizeof b);
  return b;
}

float tni_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu;
  if (e == 31) return f32_of_bits(sign | 0x7f800000u | m << 13);
  if (e != 0) return f32_of_bits(sign | (e + 112) << 23 | m << 13);
  float tiny = (float)m * 0x1p-24f;
  return sign ? -tiny : tiny;
}

uint16_t tni_f32_to_f16(float f) {
  uint32_t b = bits_of_f32(f), sign = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x1ffu));
  if (a >= 0x47800000u) return (uint16_t)(sign | 0x7c00u); /* 65536 and above */
  if (a < 0x38800000u) {                                   /* below 2^-14: units of 2^-24 */
    float units = rintf(f32_of_bits(a) * 0x1p24f);
    return (uint16_t)(sign | (uint32_t)units);
  }
  /* A carry out of the mantissa moves into the exponent, and from 65504 on into infinity, as it should. */
  uint32_t r = a - 0x38000000u;
  return (uint16_t)(sign | (r + 0xfffu + (r >> 13 & 1u)) >> 13);
}

float tni_bf16_to_f32(uint16_t h) { return f32_of_bits((uint32_t)h << 16); }

uint16_t tni_f32_to_bf16(float f) {
  uint32_t b = bits_of_f32(f);
  if ((b & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(b >> 16 | 0x40u);
  return (uint16_t)((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}
