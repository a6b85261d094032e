/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of signed bytes (dots.h) against plain sums, of every variant that this processor runs: every number of rows,
 * what was there kept or not, columns made of bytes of either kind, and their sums. No element past the tile is
 * written.
 */
#include <string.h>

#include "ops_test.h"
#include "runtime/ops/hot/dots.h"
#include "runtime/ops/hot/loops.h"

enum { K = 80, LDC = 20, ROOM = TNI_BR * LDC };

typedef struct tile_case {
  uint8_t rows[K][TNI_NR];
  int8_t a[TNI_BR][K], b[K * TNI_NR];
  int32_t c[ROOM], want[ROOM], sum[TNI_NR], want_sum[TNI_NR];
} tile_case;

static uint32_t random32(uint32_t *s) {
  *s = *s * 1664525u + 1013904223u;
  return *s >> 8;
}

static void fill_case(tile_case *t, uint32_t *s) {
  for (int i = 0; i < K * TNI_NR; i++) t->rows[i / TNI_NR][i % TNI_NR] = (uint8_t)random32(s);
  for (int i = 0; i < TNI_BR * K; i++) t->a[i / K][i % K] = (int8_t)(random32(s) % 4 ? random32(s) : 0x80);
  for (int i = 0; i < ROOM; i++) t->c[i] = t->want[i] = (int32_t)random32(s);
  for (int n = 0; n < TNI_NR; n++) t->sum[n] = t->want_sum[n] = n;
}

static void run_case(const tni_dots *d, tile_case *t, int mr, int64_t kc, uint8_t flip) {
  int8_t packed[TNI_BR * K] = {0};
  for (int m = 0; m < mr; m++) tni_dots_put_row(d, packed, m, t->a[m], kc);
  for (int64_t k = 0; k < kc; k += d->unit) {
    const uint8_t *at[TNI_DOTS_UNIT];
    for (int64_t i = 0; i < d->unit; i++) at[i] = t->rows[k + i];
    d->columns(t->b + k * TNI_NR, at, flip);
  }
  for (int first = 1; first >= 0; first--) {
    for (int i = 0; i < mr * TNI_NR; i++) {
      int32_t *w = t->want + i / TNI_NR * LDC + i % TNI_NR;
      if (first) *w = 0;
      for (int64_t k = 0; k < kc; k++) *w += t->a[i / TNI_NR][k] * (int8_t)(t->rows[k][i % TNI_NR] ^ flip);
    }
    d->tile(mr, kc, packed, t->b, t->c, LDC, first);
    CU_ASSERT(memcmp(t->c, t->want, sizeof t->c) == 0);
  }
  for (int64_t k = 0; k < kc; k++)
    for (int n = 0; n < TNI_NR; n++) t->want_sum[n] += (int8_t)(t->rows[k][n] ^ flip);
  d->sums(t->sum, t->b, kc);
  CU_ASSERT(memcmp(t->sum, t->want_sum, sizeof t->sum) == 0);
}

static void test_tiles(void) {
  uint32_t s = 5;
  const tni_dots *d;
  tile_case t;
  for (uint32_t v = 0; (d = tni_hot_dots_variant(v)); v++)
    for (int mr = 1; mr <= TNI_BR; mr++)
      for (int64_t kc = TNI_DOTS_STEP; kc <= K; kc += TNI_DOTS_STEP) {
        fill_case(&t, &s);
        run_case(d, &t, mr, kc, kc % 32 ? 128 : 0);
      }
}

bool ht_add_dots(void) {
  CU_pSuite s = CU_add_suite("host tiles of signed bytes", NULL, NULL);
  return s && CU_add_test(s, "against plain sums", test_tiles);
}
