/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of bytes by instructions that multiply them as they are (SDOT, SMMLA), for products whose zero points are taken
 * off the sums. Integers wrap modulo 2^32.
 */
#ifndef TENON_OPS_HOT_DOTS_H
#define TENON_OPS_HOT_DOTS_H

#include <stdint.h>
#include <string.h>

enum { TNI_DOTS_STEP = 16, TNI_DOTS_UNIT = 8 /* at most */ };

typedef struct tni_dots {
  const char *name;
  int64_t unit; /* of k that lie together in b */
  int64_t rows; /* of a that lie together, unit by unit: one or two */
  /* c[mr, 16] (row stride ldc) = or += a[mr / rows][kc / unit][rows][unit] * b[kc / unit][16][unit], mr <= TNI_BR; kc
   * is a multiple of TNI_DOTS_STEP. */
  void (*tile)(int mr, int64_t kc, const int8_t *a, const int8_t *b, int32_t *c, int64_t ldc, int first);
  /* dst[16][unit] = 16 columns of `unit` rows, each byte ^ flip. */
  void (*columns)(int8_t *dst, const uint8_t *const *rows, uint8_t flip);
  /* sum[16] += the columns of b[kc / unit][16][unit]. */
  void (*sums)(int32_t *sum, const int8_t *b, int64_t kc);
} tni_dots;

/* Row m of a, with kc elements. */
static inline void tni_dots_put_row(const tni_dots *d, int8_t *a, int64_t m, const int8_t *row, int64_t kc) {
  int8_t *to = a + m / d->rows * d->rows * kc + m % d->rows * d->unit;
  if (d->rows == 1)
    memcpy(to, row, (size_t)kc);
  else
    for (int64_t k = 0; k < kc; k += 8) memcpy(to + 2 * k, row + k, 8);
}

/* The best for this processor; NULL: it has none. */
const tni_dots *tni_hot_dots(void);
/* All that this processor runs, for tests; past the last: NULL. */
const tni_dots *tni_hot_dots_variant(uint32_t index);

#endif
