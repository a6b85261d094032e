/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/finite.h"

#include <string.h>

#include <tenon/plugin.h>

enum { BLOCK = 256 };

/* Without its sign, what is no number has the largest exponent. */
static size_t first_of_32(const float *p, size_t n) {
  const int32_t top = 0x7f800000;
  int32_t bits[BLOCK];
  for (size_t at = 0; at < n; at += BLOCK) {
    const size_t len = n - at < BLOCK ? n - at : BLOCK;
    int32_t most = 0;
    memcpy(bits, p + at, len * sizeof *bits);
    for (size_t i = 0; i < len; i++) {
      const int32_t v = bits[i] & 0x7fffffff;
      most = v > most ? v : most;
    }
    for (size_t i = 0; most >= top && i < len; i++)
      if ((bits[i] & 0x7fffffff) >= top) return at + i;
  }
  return n;
}

static size_t first_of_16(const uint16_t *p, size_t n, uint16_t top) {
  for (size_t at = 0; at < n; at += BLOCK) {
    const size_t len = n - at < BLOCK ? n - at : BLOCK;
    uint16_t most = 0;
    for (size_t i = 0; i < len; i++) {
      const uint16_t v = p[at + i] & 0x7fff;
      most = v > most ? v : most;
    }
    for (size_t i = 0; most >= top && i < len; i++)
      if ((p[at + i] & 0x7fff) >= top) return at + i;
  }
  return n;
}

size_t tni_first_strange(uint32_t dtype, const void *p, size_t n) {
  if (dtype == TN_DT_F32) return first_of_32(p, n);
  if (dtype == TN_DT_F16) return first_of_16(p, n, 0x7c00);
  return dtype == TN_DT_BF16 ? first_of_16(p, n, 0x7f80) : n;
}
