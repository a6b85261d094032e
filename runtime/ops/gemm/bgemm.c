/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/gemm/bgemm.h"

#include "runtime/ops/gemm/floats.h"

enum {
  MB = TNI_BGEMM_ROWS,
  NB = TNI_BGEMM_COLS,
  KC = TNI_BGEMM_KC,
  B_SIZE = KC * NB * (int)sizeof(int16_t),
  A_SIZE = KC * MB * (int)sizeof(int16_t),
  C_SIZE = (int)TNI_BGEMM_MOST * NB * (int)sizeof(int32_t)
};
_Static_assert((int)TNI_BGEMM_BYTES == A_SIZE + B_SIZE + C_SIZE, "what bgemm.h says");
_Static_assert((int)TNI_BR % 2 == 0 && (int)MB % (int)TNI_BR == 0 && (int)NB % (int)TNI_NR == 0 && KC % 2 == 0,
               "tiles are whole micro tiles");

uint64_t tni_bgemm_scratch(uint32_t n_workers) { return (uint64_t)(n_workers ? n_workers : 1) * TNI_BGEMM_BYTES; }

typedef struct bgemm_job {
  const tni_bgemm *g;
  const tni_hot *hot;
  const tni_dots *dots; /* NULL: 16-bit integers */
  char *scratch;
  tn_run *run;
  int64_t rows, m_tiles, n_tiles; /* rows of a tile */
} bgemm_job;

typedef struct bgemm_part {
  int64_t batch, m0, mb, n0, nb;
} bgemm_part;

static bgemm_part part_of(const bgemm_job *j, int64_t unit) {
  const tni_bgemm *g = j->g;
  const int64_t t = unit % (j->m_tiles * j->n_tiles), m0 = t % j->m_tiles * j->rows, n0 = t / j->m_tiles * NB;
  return (bgemm_part){unit / (j->m_tiles * j->n_tiles), m0, g->M - m0 < j->rows ? g->M - m0 : j->rows, n0,
                      g->N - n0 < NB ? g->N - n0 : NB};
}

static void bgemm_tile(const bgemm_job *j, const bgemm_part *t, char *room) {
  const tni_bgemm *g = j->g;
  int16_t *a = (int16_t *)(void *)room, *b = (int16_t *)(void *)(room + A_SIZE);
  int32_t *c = (int32_t *)(void *)(room + A_SIZE + B_SIZE);
  tni_poll poll = {j->run, TNI_POLL};
  for (int64_t k0 = 0; k0 < g->K && !tni_poll_stop(&poll, t->mb * t->nb * (KC / 32)); k0 += KC) {
    const int64_t kc = g->K - k0 < KC ? g->K - k0 : KC, pairs = (kc + 1) / 2;
    g->pack_b(g->ctx, t->batch, k0, kc, t->n0, t->nb, b);
    for (int64_t i = 0; i < t->mb; i += MB) {
      const int64_t n = t->mb - i < MB ? t->mb - i : MB;
      g->pack_a(g->ctx, t->batch, t->m0 + i, n, k0, kc, a);
      for (int64_t p = 0; p < t->nb; p += TNI_NR)
        for (int64_t m = 0; m < n; m += TNI_BR)
          j->hot->bgemm((int)(n - m < TNI_BR ? n - m : TNI_BR), pairs, a + m * pairs * 2, pairs * 2, b + p * pairs * 2,
                        c + (i + m) * NB + p, NB, k0 == 0);
    }
  }
}

/* --- signed bytes --- */

/* Of a tile. The sums are of its rows of a and of its columns of b. */
typedef struct zeros {
  int32_t a[TNI_BGEMM_MOST], b[NB], sum_a[TNI_BGEMM_MOST], sum_b[NB];
} zeros;

static bool any_of(const int32_t *zero, int64_t n) {
  int32_t any = 0;
  for (int64_t i = 0; i < n; i++) any |= zero[i];
  return any != 0;
}

/* (a - s) (b - t) is a b - s b - t a + s t, K times. */
static void take_zeros_off(const bgemm_part *t, uint32_t K, const zeros *z, int32_t *c) {
  uint32_t rest[NB];
  if (!any_of(z->a, t->mb) && !any_of(z->b, t->nb)) return;
  for (int64_t n = 0; n < t->nb; n++) rest[n] = (uint32_t)z->sum_b[n] - K * (uint32_t)z->b[n];
  for (int64_t m = 0; m < t->mb; m++, c += NB) {
    const uint32_t zero = (uint32_t)z->a[m], sum = (uint32_t)z->sum_a[m];
    for (int64_t n = 0; n < t->nb; n++) c[n] = (int32_t)((uint32_t)c[n] - zero * rest[n] - sum * (uint32_t)z->b[n]);
  }
}

static void bytes_tile(const bgemm_job *j, const bgemm_part *t, char *room) {
  const tni_bgemm *g = j->g;
  int8_t *a = (int8_t *)(void *)room, *b = (int8_t *)(void *)(room + A_SIZE);
  int32_t *c = (int32_t *)(void *)(room + A_SIZE + B_SIZE);
  zeros z;
  tni_poll poll = {j->run, TNI_POLL};
  memset(z.sum_a, 0, sizeof z.sum_a);
  memset(z.sum_b, 0, sizeof z.sum_b);
  for (int64_t k0 = 0; k0 < g->K; k0 += KC) {
    const int64_t kc = g->K - k0 < KC ? g->K - k0 : KC;
    const int64_t ld = (kc + TNI_DOTS_STEP - 1) / TNI_DOTS_STEP * TNI_DOTS_STEP;
    if (tni_poll_stop(&poll, t->mb * t->nb * (KC / 32))) return;
    g->bytes_b(g->ctx, j->dots, t->batch, k0, kc, ld, t->n0, t->nb, b, z.b);
    for (int64_t i = 0; i < t->mb; i += MB) {
      const int64_t n = t->mb - i < MB ? t->mb - i : MB;
      g->bytes_a(g->ctx, j->dots, t->batch, t->m0 + i, n, k0, kc, ld, a, z.a + i, z.sum_a + i);
      for (int64_t p = 0; p < t->nb; p += TNI_NR)
        for (int64_t m = 0; m < n; m += TNI_BR)
          j->dots->tile((int)(n - m < TNI_BR ? n - m : TNI_BR), ld, a + m * ld, b + p * ld, c + (i + m) * NB + p, NB,
                        k0 == 0);
    }
    for (int64_t p = 0; p < t->nb && any_of(z.a, t->mb); p += TNI_NR) j->dots->sums(z.sum_b + p, b + p * ld, ld);
  }
  take_zeros_off(t, (uint32_t)g->K, &z, c);
}

static void bgemm_tiles(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  bgemm_job *j = arg;
  char *room = j->scratch + (size_t)worker * TNI_BGEMM_BYTES;
  int32_t *c = (int32_t *)(void *)(room + A_SIZE + B_SIZE);
  for (int64_t u = begin; u < end && !tni_run_cancelled(j->run); u++) {
    const bgemm_part t = part_of(j, u);
    if (j->g->K == 0)
      memset(c, 0, C_SIZE);
    else
      (j->dots ? bytes_tile : bgemm_tile)(j, &t, room);
    j->g->finish(j->g->ctx, t.batch, t.m0, t.mb, t.n0, t.nb, c);
  }
}

void tni_bgemm_run(const tni_bgemm *g, void *scratch, tn_run *run) {
  bgemm_job j = {.g = g, .hot = tni_hot_get(), .dots = tni_hot_dots(), .scratch = scratch, .run = run};
  if (g->M == 0 || g->N == 0 || g->batches == 0) return;
  j.n_tiles = (g->N + NB - 1) / NB;
  j.rows = tni_gemm_rows(g->M, TNI_BGEMM_MOST, g->batches * j.n_tiles, run->n_workers);
  j.m_tiles = (g->M + j.rows - 1) / j.rows;
  const int64_t nb = g->N < NB ? g->N : NB;
  tni_kfor_polled(run, g->batches * j.m_tiles * j.n_tiles, j.rows * nb * (g->K + 1) / 32 + 1, bgemm_tiles, &j);
}
