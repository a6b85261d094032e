/* SPDX-License-Identifier: Apache-2.0 */
#include <xxhash.h>

#include "runtime/pack/internal.h"

static uint64_t piece_hash(const void *p, size_t n) {
#ifdef TNI_PK_AVX2
  if (__builtin_cpu_supports("avx2")) return tni_pk_hash_avx2(p, n);
#endif
  return XXH3_64bits(p, n);
}

static uint64_t piece_sum(const uint8_t *p, uint64_t bytes, uint64_t i) {
  const uint64_t at = i * TNI_PK_PIECE, left = bytes - at;
  return piece_hash(p + at, left < TNI_PK_PIECE ? left : TNI_PK_PIECE);
}

typedef struct sum_job {
  const uint8_t *p;
  uint64_t bytes;
  uint64_t *out;
} sum_job;

static void sum_pieces(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  sum_job *j = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++) j->out[i] = piece_sum(j->p, j->bytes, (uint64_t)i);
}

void tni_pk_sum(tni_pool *pool, const uint8_t *p, uint64_t bytes, uint64_t *sums) {
  sum_job j = {p, bytes, sums};
  tni_pool_for(pool, (int64_t)tni_pk_pieces(bytes), 4, sum_pieces, &j);
}

typedef struct checking {
  const tni_pk_file *file;
  tni_pk_span *spans;
} checking;

static void check_pieces(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const checking *c = arg;
  tni_pk_span *x = c->spans;
  (void)worker;
  for (uint64_t i = (uint64_t)begin; i < (uint64_t)end; i++) {
    while (i >= x->first_piece + x->n_pieces) x++;
    const tni_pk_segment *g = x->segment;
    const uint64_t k = i - x->first_piece;
    if (piece_sum(c->file->data + g->offset, g->bytes, k) != c->file->sums[g->first_sum + k])
      __atomic_store_n(&x->wrong, true, __ATOMIC_RELAXED);
  }
}

/* One fork over all of them: most segments have too few pieces to share among threads. */
void tni_pk_check(tni_pool *pool, const tni_pk_file *f, tni_pk_span *spans, uint32_t n) {
  uint64_t pieces = 0;
  for (uint32_t i = 0; i < n; i++) {
    tni_pk_span *x = &spans[i];
    x->first_piece = pieces;
    x->n_pieces = x->segment ? tni_pk_pieces(x->segment->bytes) : 0;
    x->wrong = false;
    pieces += x->n_pieces;
  }
  checking c = {f, spans};
  tni_pool_for(pool, (int64_t)pieces, 2, check_pieces, &c);
}
