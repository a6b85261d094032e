/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions out of bytes: what a generator asks for, in order. Past the end every answer is 0, so that short inputs
 * make small things. Deterministic.
 */
#ifndef TENON_FUZZ_BYTES_H
#define TENON_FUZZ_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fz_bytes {
  const uint8_t *p;
  size_t n;
} fz_bytes;

static inline uint8_t fz_u8(fz_bytes *b) {
  if (!b->n) return 0;
  b->n--;
  return *b->p++;
}

/* 0 .. below-1 (0 for below 0 and 1, which take nothing). */
static inline uint32_t fz_below(fz_bytes *b, uint32_t below) {
  if (below < 2) return 0;
  uint32_t v = fz_u8(b);
  if (below > 256) v = v << 8 | fz_u8(b);
  return v % below;
}

/* True n times in 256. */
static inline bool fz_often(fz_bytes *b, uint32_t n) { return fz_u8(b) > 255 - n; }

/* A stream of numbers from a seed (splitmix64, Vigna 2015): contents of tensors. */
static inline uint64_t fz_next(uint64_t *s) {
  uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

#endif
