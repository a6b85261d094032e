/* SPDX-License-Identifier: Apache-2.0
 *
 * Halves and bfloat16 as bits, without tables or branches, so that loops over them vectorise.
 */
#ifndef TENON_OPS_HOT_HALF_BITS_H
#define TENON_OPS_HOT_HALF_BITS_H

#include <stdint.h>
#include <string.h>

static inline float tni_bits_f32(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}
static inline uint32_t tni_f32_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}

/* Exact; a NaN becomes a quiet one, as the processor's own instruction has it. */
static inline float tni_half_to_f32(uint16_t h) {
  const uint32_t s = (uint32_t)(h & 0x8000) << 16, e = h & 0x7c00, m = (uint32_t)(h & 0x7fff) << 13;
  const uint32_t tiny = tni_f32_bits((float)(h & 0x3ff) * 0x1p-24f), quiet = h & 0x3ff ? 0x7fc00000u : 0x7f800000u;
  const uint32_t u = e == 0x7c00 ? m | quiet : e ? m + 0x38000000u : tiny;
  return tni_bits_f32(s | u);
}

/* The bfloat16 nearest to f, half to even; a NaN becomes a quiet one. */
static inline uint16_t tni_f32_to_brain(float f) {
  const uint32_t u = tni_f32_bits(f);
  const uint32_t r = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return (uint16_t)((u & 0x7fffffff) > 0x7f800000u ? (u >> 16) | 0x40 : r);
}

#endif
