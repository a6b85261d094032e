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
_Static_assert((int)MB % (int)TNI_BR == 0 && (int)NB % (int)TNI_NR == 0 && KC % 2 == 0, "tiles are whole micro tiles");

uint64_t tni_bgemm_scratch(uint32_t n_workers) { return (uint64_t)(n_workers ? n_workers : 1) * TNI_BGEMM_BYTES; }

typedef struct bgemm_job {
  const tni_bgemm *g;
  const tni_hot *hot;
  char *scratch;
  tn_run *run;
  int64_t rows, m_tiles, n_tiles; /* rows of a tile */
} bgemm_job;

static void bgemm_tile(const bgemm_job *j, int64_t unit, char *room) {
  const tni_bgemm *g = j->g;
  const int64_t batch = unit / (j->m_tiles * j->n_tiles), t = unit % (j->m_tiles * j->n_tiles);
  const int64_t m0 = t % j->m_tiles * j->rows, n0 = t / j->m_tiles * NB;
  const int64_t mb = g->M - m0 < j->rows ? g->M - m0 : j->rows, nb = g->N - n0 < NB ? g->N - n0 : NB;
  int16_t *a = (int16_t *)(void *)room, *b = (int16_t *)(void *)(room + A_SIZE);
  int32_t *c = (int32_t *)(void *)(room + A_SIZE + B_SIZE);
  tni_poll poll = {j->run, TNI_POLL};
  if (g->K == 0) memset(c, 0, C_SIZE);
  for (int64_t k0 = 0; k0 < g->K && !tni_poll_stop(&poll, mb * nb * (KC / 32)); k0 += KC) {
    const int64_t kc = g->K - k0 < KC ? g->K - k0 : KC, pairs = (kc + 1) / 2;
    g->pack_b(g->ctx, batch, k0, kc, n0, nb, b);
    for (int64_t i = 0; i < mb; i += MB) {
      const int64_t n = mb - i < MB ? mb - i : MB;
      g->pack_a(g->ctx, batch, m0 + i, n, k0, kc, a);
      for (int64_t p = 0; p < nb; p += TNI_NR)
        for (int64_t m = 0; m < n; m += TNI_BR)
          j->hot->bgemm((int)(n - m < TNI_BR ? n - m : TNI_BR), pairs, a + m * pairs * 2, pairs * 2, b + p * pairs * 2,
                        c + (i + m) * NB + p, NB, k0 == 0);
    }
  }
  g->finish(g->ctx, batch, m0, mb, n0, nb, c);
}

static void bgemm_tiles(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  bgemm_job *j = arg;
  for (int64_t u = begin; u < end && !tni_run_cancelled(j->run); u++)
    bgemm_tile(j, u, j->scratch + (size_t)worker * TNI_BGEMM_BYTES);
}

void tni_bgemm_run(const tni_bgemm *g, void *scratch, tn_run *run) {
  bgemm_job j = {.g = g, .hot = tni_hot_get(), .scratch = scratch, .run = run};
  if (g->M == 0 || g->N == 0 || g->batches == 0) return;
  j.n_tiles = (g->N + NB - 1) / NB;
  j.rows = tni_gemm_rows(g->M, TNI_BGEMM_MOST, g->batches * j.n_tiles, run->n_workers);
  j.m_tiles = (g->M + j.rows - 1) / j.rows;
  const int64_t nb = g->N < NB ? g->N : NB;
  tni_kfor_polled(run, g->batches * j.m_tiles * j.n_tiles, j.rows * nb * (g->K + 1) / 32 + 1, bgemm_tiles, &j);
}
