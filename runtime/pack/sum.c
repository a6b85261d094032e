/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <xxhash.h>

#include "runtime/pack/internal.h"

typedef struct job {
  const uint8_t *p;
  uint64_t bytes;
  uint64_t *out;            /* or */
  const uint64_t *expected; /* NULL: fill out */
  _Atomic int wrong;
} job;

static void sum_pieces(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  job *j = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    uint64_t at = (uint64_t)i * TNI_PK_PIECE, left = j->bytes - at;
    uint64_t h = XXH3_64bits(j->p + at, left < TNI_PK_PIECE ? left : TNI_PK_PIECE);
    if (!j->expected)
      j->out[i] = h;
    else if (h != j->expected[i])
      atomic_store_explicit(&j->wrong, 1, memory_order_relaxed);
  }
}

void tni_pk_sum(tni_pool *pool, const uint8_t *p, uint64_t bytes, uint64_t *sums) {
  job j = {.p = p, .bytes = bytes, .out = sums};
  tni_pool_for(pool, (int64_t)tni_pk_pieces(bytes), 4, sum_pieces, &j);
}

bool tni_pk_check(tni_pool *pool, const uint8_t *p, uint64_t bytes, const uint64_t *sums) {
  job j = {.p = p, .bytes = bytes, .expected = sums};
  tni_pool_for(pool, (int64_t)tni_pk_pieces(bytes), 4, sum_pieces, &j);
  return !atomic_load(&j.wrong);
}
