/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/gemm/floats.h"

/* A unit of work is one tile of one batch, of up to TNI_GEMM_MOST x NB. Its worker's scratch: b packed in panels of
 * TNI_NR columns, MB rows of a (only where they must be widened or gathered), and the tile's sums. */
enum {
  MB = TNI_GEMM_ROWS,
  NB = TNI_GEMM_COLS,
  B_FLOATS = TNI_KC * NB,
  WORKER_FLOATS = TNI_GEMM_PACKED + TNI_GEMM_MOST * NB,
  ROW_CHUNK = TNI_GEMM_ROW_COLS
};
_Static_assert((int)MB % (int)TNI_MR == 0, "rows at a time are whole micro tiles");

uint64_t tni_gemm_scratch(uint32_t dtype, uint32_t n_workers) {
  const bool widened = dtype == TN_DT_F32 || tni_is_half(dtype);
  return widened ? (uint64_t)(n_workers ? n_workers : 1) * WORKER_FLOATS * sizeof(float) : 0;
}

bool tni_gemm_accepts(uint32_t dtype) {
  if (dtype == TN_DT_F32 || dtype == TN_DT_F64 || tni_is_half(dtype)) return true;
  switch (dtype) {
#define X(DT, U, T, LO, HI) case TN_DT_##DT:
    TNI_INT_TYPES(X)
#undef X
    return true;
    default:
      return false;
  }
}

typedef struct job {
  const tni_gemm *g;
  const tni_hot *hot;
  float *scratch;
  tn_run *run;
  uint32_t size;
  int64_t rows, m_tiles, n_tiles; /* rows of a tile */
} job;

/* Where batch i starts in an operand of these batch strides. */
static int64_t batch_offset(const tni_gemm *g, int64_t i, const int64_t *strides) {
  int64_t at = 0;
  for (uint32_t d = g->batch_rank; d-- > 0;) {
    at += i % g->batch_dims[d] * strides[d];
    i /= g->batch_dims[d];
  }
  return at;
}

/* dst[i] = p[i * stride] for n elements, widened. */
static void load_strided(uint32_t dtype, const void *base, int64_t at, int64_t stride, int64_t n, float *dst) {
  if (stride == 1) {
    tni_load_f32(dtype, base, at, n, dst);
  } else if (stride == 0 && n > 0) {
    float one;
    tni_load_f32(dtype, base, at, 1, &one);
    for (int64_t i = 0; i < n; i++) dst[i] = one;
  } else if (dtype == TN_DT_F32)
    for (int64_t i = 0; i < n; i++) dst[i] = ((const f32u *)base)[at + i * stride];
  else
    for (int64_t i = 0; i < n; i++) tni_load_f32(dtype, base, at + i * stride, 1, dst + i);
}

static uint32_t dtype_of_b(const tni_gemm *g) { return g->b_dtype ? g->b_dtype : g->dtype; }

/* pack_b where a row of b lies in one piece of f32: all of it is read at a time, as rows may be pages apart. */
static void pack_f32_rows(const f32u *b, int64_t stride, int64_t kc, int64_t nb, float *dst) {
  for (int64_t k = 0; k < kc; k++, b += stride) {
    for (int64_t i = 0; i < nb; i += 64 / (int64_t)sizeof *b) __builtin_prefetch(b + 8 * stride + i, 0, 3);
    for (int64_t p = 0; p < nb; p += TNI_NR) memcpy(dst + p * kc + k * TNI_NR, b + p, TNI_NR * sizeof *b);
  }
}

/* The same of halves, which are widened. */
static void pack_rows(const tni_gemm *g, int64_t at, int64_t kc, int64_t nb, float *dst) {
  float row[NB + TNI_NR] = {0};
  for (int64_t k = 0; k < kc; k++) {
    const char *ahead = (const char *)g->b + (at + (k + 8) * g->b_row) * 2;
    for (int64_t i = 0; i < nb * 2; i += 64) __builtin_prefetch(ahead + i, 0, 3);
    tni_load_f32(dtype_of_b(g), g->b, at + k * g->b_row, nb, row);
    for (int64_t p = 0; p < nb; p += TNI_NR) memcpy(dst + p * kc + k * TNI_NR, row + p, TNI_NR * sizeof *row);
  }
}

/* b[k0 .. k0+kc, n0 .. n0+nb] into panels [kc][TNI_NR], columns past nb 0. */
static void pack_b(const tni_gemm *g, const tni_hot *hot, int64_t off, int64_t k0, int64_t kc, int64_t n0, int64_t nb,
                   float *dst) {
  const uint32_t dtype = dtype_of_b(g);
  if (g->b_col == 1 && tni_is_half(dtype)) {
    pack_rows(g, off + k0 * g->b_row + n0, kc, nb, dst);
    return;
  }
  int64_t p = 0;
  if (g->b_col == 1 && dtype == TN_DT_F32) {
    p = nb / TNI_NR * TNI_NR;
    pack_f32_rows((const f32u *)g->b + off + k0 * g->b_row + n0, g->b_row, kc, p, dst);
    dst += p * kc;
  }
  for (; p < nb; p += TNI_NR, dst += kc * TNI_NR) {
    const int64_t w = nb - p < TNI_NR ? nb - p : TNI_NR, at = off + k0 * g->b_row + (n0 + p) * g->b_col;
    if (g->b_row == 1 && dtype == TN_DT_F32) {
      hot->pack_t(dst, (const f32u *)g->b + at, g->b_col, w, kc);
    } else if (g->b_row == 1 && tni_is_half(dtype)) {
      float cols[TNI_NR * TNI_KC];
      for (int64_t i = 0; i < w; i++) tni_load_f32(dtype, g->b, at + i * g->b_col, kc, cols + i * kc);
      hot->pack_t(dst, cols, kc, w, kc);
    } else if (g->b_col == 1 || kc < TNI_NR) {
      for (int64_t k = 0; k < kc; k++) {
        load_strided(dtype, g->b, at + k * g->b_row, g->b_col, w, dst + k * TNI_NR);
        for (int64_t i = w; i < TNI_NR; i++) dst[k * TNI_NR + i] = 0;
      }
    } else {
      float col[TNI_KC];
      memset(dst, 0, (size_t)(kc * TNI_NR) * sizeof(float));
      for (int64_t i = 0; i < w; i++) {
        load_strided(dtype, g->b, at + i * g->b_col, g->b_row, kc, col);
        for (int64_t k = 0; k < kc; k++) dst[k * TNI_NR + i] = col[k];
      }
    }
  }
}

/* alpha * sums + beta * c into row m, columns [n0, n0 + n). */
static void finish_row(const tni_gemm *g, int64_t batch, int64_t m, int64_t n0, int64_t n, float *sums) {
  float c[NB > ROW_CHUNK ? NB : ROW_CHUNK];
  if (g->alpha != 1.f)
    for (int64_t i = 0; i < n; i++) sums[i] = g->alpha * sums[i];
  if (g->c && g->c_col == 0 && g->beta == 1.f) {
    float one;
    load_strided(g->dtype, g->c, batch_offset(g, batch, g->c_batch) + m * g->c_row, 0, 1, &one);
    for (int64_t i = 0; i < n; i++) sums[i] = sums[i] + one;
  } else if (g->c) {
    const int64_t from = batch_offset(g, batch, g->c_batch) + m * g->c_row + n0 * g->c_col;
    load_strided(g->dtype, g->c, from, g->c_col, n, c);
    if (g->beta != 1.f)
      for (int64_t i = 0; i < n; i++) c[i] = g->beta * c[i];
    for (int64_t i = 0; i < n; i++) sums[i] = sums[i] + c[i];
  }
  if (g->bounds) tni_bound(g->bounds, sums, n);
  if (!g->width) {
    tni_store_f32(g->dtype, g->y, (batch * g->M + m) * g->N + n0, n, sums);
    return;
  }
  int64_t row = n0 / g->width, x = n0 % g->width, at = (batch * g->M + m) * ((g->N + g->width - 1) / g->width);
  for (int64_t i = 0, take; i < n; i += take, row++, x = 0) {
    take = g->width - x < n - i ? g->width - x : n - i;
    const int64_t stored = x + take <= g->keep ? take : g->keep - x;
    if (stored > 0) tni_store_f32(g->dtype, g->y, (at + row) * g->keep + x, stored, sums + i);
  }
}

static bool is_zero(const tni_gemm *g, int64_t at) {
  if (g->dtype == TN_DT_F32) {
    const f32u *a = (const f32u *)g->a + at;
    for (int64_t k = 0; k < g->K; k++)
      if (a[k] != 0) return false;
    return true;
  }
  const u16u *a = (const u16u *)g->a + at;
  for (int64_t k = 0; k < g->K; k++)
    if (a[k] & 0x7fff) return false;
  return true;
}

/* Rows of a tile that are not zero, in order. Most rows say so in their first element. */
static int64_t find_rows(const tni_gemm *g, int64_t at, int64_t mb, uint8_t *rows) {
  _Static_assert(MB <= UINT8_MAX, "a row of a tile is a byte");
  int64_t n = 0;
  for (int64_t m = 0; m < mb; m++)
    if (!is_zero(g, at + m * g->a_row)) rows[n++] = (uint8_t)m;
  return n;
}

/* c's first n rows to where they belong, zeros between them. */
static void spread_rows(const uint8_t *rows, int64_t n, int64_t mb, float *c) {
  for (int64_t m = mb; m-- > 0;) {
    if (n > 0 && rows[n - 1] == m)
      memmove(c + m * NB, c + --n * NB, NB * sizeof *c);
    else
      memset(c + m * NB, 0, NB * sizeof *c);
  }
}

/* Rows m0 .. m0 + mb of a, columns k0 .. k0 + kc, by rows of *lda. */
static const f32u *rows_of_a(const tni_gemm *g, int64_t at, int64_t mb, int64_t kc, const uint8_t *rows, int64_t some,
                             float *pa, int64_t *lda) {
  *lda = g->a_row;
  if (g->dtype == TN_DT_F32 && g->a_col == 1 && some == mb) return (const f32u *)g->a + at;
  *lda = kc;
  if (g->dtype == TN_DT_F32 && g->a_row == 1 && some == mb) { /* transposed: rows of a lie side by side */
    for (int64_t k = 0; k < kc; k++)
      for (int64_t m = 0; m < mb; m++) pa[m * kc + k] = ((const f32u *)g->a)[at + k * g->a_col + m];
  } else {
    for (int64_t m = 0; m < some; m++)
      load_strided(g->dtype, g->a, at + (some < mb ? rows[m] : m) * g->a_row, g->a_col, kc, pa + m * kc);
  }
  return pa;
}

int64_t tni_gemm_rows(int64_t M, int64_t most, int64_t tiles, uint32_t n_workers) {
  if (M < 1 || tiles < 1) return TNI_MR;
  int64_t parts = (M + most - 1) / most;
  const int64_t finest = (M + MB - 1) / MB, want = (2 * (int64_t)n_workers + tiles - 1) / tiles;
  if (parts < want) parts = want < finest ? want : finest;
  const int64_t rows = (M + parts - 1) / parts;
  return (rows + TNI_MR - 1) / TNI_MR * TNI_MR;
}

void tni_gemm_tile(const tni_gemm *g, const tni_hot *hot, int64_t batch, int64_t m0, int64_t mb, int64_t n0, int64_t nb,
                   float *packed, float *c) {
  float *pb = packed, *pa = packed + B_FLOATS;
  const int64_t a_off = batch_offset(g, batch, g->a_batch) + m0 * g->a_row, b_off = batch_offset(g, batch, g->b_batch);
  uint8_t rows[MB];
  const int64_t some = g->skips_zeros ? find_rows(g, a_off, mb, rows) : mb;
  tni_poll poll = {g->run, TNI_POLL};
  if (g->K == 0) memset(c, 0, (size_t)(mb * NB) * sizeof(float));
  for (int64_t k0 = 0; k0 < g->K && some && !tni_poll_stop(&poll, mb * nb * (TNI_KC / 16)); k0 += TNI_KC) {
    const int64_t kc = g->K - k0 < TNI_KC ? g->K - k0 : TNI_KC;
    if (g->pack)
      g->pack(g->pack_ctx, batch, k0, kc, n0, nb, pb);
    else
      pack_b(g, hot, b_off, k0, kc, n0, nb, pb);
    for (int64_t i = 0; i < mb; i += MB) {
      const int64_t all = mb - i < MB ? mb - i : MB, n = some < mb ? some : all;
      int64_t lda;
      const f32u *a = rows_of_a(g, a_off + i * g->a_row + k0 * g->a_col, all, kc, rows, n, pa, &lda);
      for (int64_t p = 0; p < nb; p += 2 * TNI_NR)
        for (int64_t m = 0; m < n; m += hot->mr)
          tni_hot_panels(hot, false, nb - p, (int)(n - m < hot->mr ? n - m : hot->mr), kc, a + m * lda, lda,
                         pb + p * kc, TNI_NR, kc * TNI_NR, c + (i + m) * NB + p, NB, k0 == 0);
    }
  }
  if (some < mb) spread_rows(rows, some, mb, c);
}

static void gemm_tile(job *j, int64_t unit, float *ws) {
  const tni_gemm *g = j->g;
  const int64_t batch = unit / (j->m_tiles * j->n_tiles), t = unit % (j->m_tiles * j->n_tiles);
  const int64_t m0 = (t % j->m_tiles) * j->rows, n0 = (t / j->m_tiles) * NB;
  const int64_t mb = g->M - m0 < j->rows ? g->M - m0 : j->rows, nb = g->N - n0 < NB ? g->N - n0 : NB;
  float *c = ws + TNI_GEMM_PACKED;
  tni_gemm_tile(g, j->hot, batch, m0, mb, n0, nb, ws, c);
  for (int64_t m = 0; m < mb; m++) finish_row(g, batch, m0 + m, n0, nb, c + m * NB);
}

static void gemm_tiles(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  job *j = arg;
  for (int64_t u = begin; u < end && !tni_run_cancelled(j->run); u++)
    gemm_tile(j, u, j->scratch + (size_t)worker * WORKER_FLOATS);
}

bool tni_gemm_one_row(const tni_gemm *g) {
  const bool widened = g->dtype == TN_DT_F32 || tni_is_half(g->dtype);
  return widened && g->M == 1 && g->a_col == 1 && g->b_col == 1 && !g->pack;
}

/* Every element of b is read once and nothing is packed. */
void tni_gemm_row(const tni_gemm *g, const tni_hot *hot, int64_t batch, int64_t n0, int64_t n, float *c) {
  const int64_t a_off = batch_offset(g, batch, g->a_batch), b_off = batch_offset(g, batch, g->b_batch);
  const uint32_t dtype = dtype_of_b(g), kind = dtype == TN_DT_F32 ? 0 : dtype == TN_DT_F16 ? 1 : 2;
  const int64_t size = tni_elem_size(dtype);
  const bool zero = g->K == 0 || (g->skips_zeros && is_zero(g, a_off));
  tni_poll poll = {g->run, TNI_POLL};
  if (zero) memset(c, 0, (size_t)n * sizeof(float));
  for (int64_t k0 = 0; k0 < g->K && !zero && !tni_poll_stop(&poll, n * (TNI_KC / 4)); k0 += TNI_KC) {
    const int64_t kc = g->K - k0 < TNI_KC ? g->K - k0 : TNI_KC;
    float a[TNI_KC];
    tni_load_f32(g->dtype, g->a, a_off + k0, kc, a);
    hot->gemv[kind](kc, a, (const char *)g->b + (b_off + k0 * g->b_row + n0) * size, g->b_row, n, c, k0 == 0);
  }
}

static void row_pieces(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  job *j = arg;
  const tni_gemm *g = j->g;
  float *c = j->scratch + (size_t)worker * WORKER_FLOATS;
  for (int64_t u = begin; u < end && !tni_run_cancelled(j->run); u++) {
    const int64_t batch = u / j->n_tiles, n0 = (u % j->n_tiles) * ROW_CHUNK;
    const int64_t n = g->N - n0 < ROW_CHUNK ? g->N - n0 : ROW_CHUNK;
    tni_gemm_row(g, j->hot, batch, n0, n, c);
    finish_row(g, batch, 0, n0, n, c);
  }
}

/* --- f64 and integers: one row of y at a time --- */

#define AS_IS(v) (v)
#define PLAIN(U, T, W, CLAMP)                                                                \
  {                                                                                          \
    const U *a = (const U *)g->a + ao + m * g->a_row, *b = (const U *)g->b + bo;             \
    U *y = (U *)g->y + r * g->N;                                                             \
    for (int64_t n = 0; n < g->N; n++) y[n] = 0;                                             \
    for (int64_t k = 0, to; k < g->K && !tni_poll_stop(&poll, some * g->N);)                 \
      for (to = g->K - k < some ? g->K : k + some; k < to; k++) {                            \
        const W s = (W)a[k * g->a_col];                                                      \
        const U *row = b + k * g->b_row;                                                     \
        if (g->b_col == 1)                                                                   \
          for (int64_t n = 0; n < g->N; n++) y[n] = (T)((W)y[n] + s * (W)row[n]);            \
        else                                                                                 \
          for (int64_t n = 0; n < g->N; n++) y[n] = (T)((W)y[n] + s * (W)row[n * g->b_col]); \
      }                                                                                      \
    if (g->alpha != 1.f)                                                                     \
      for (int64_t n = 0; n < g->N; n++) y[n] = (T)CLAMP((double)g->alpha * (double)y[n]);   \
    for (int64_t n = 0; n < g->N && g->c; n++) {                                             \
      const T c = ((const U *)g->c)[co + m * g->c_row + n * g->c_col];                       \
      y[n] = (T)((W)y[n] + (W)(g->beta == 1.f ? c : (T)CLAMP((double)g->beta * (double)c))); \
    }                                                                                        \
  }                                                                                          \
  break;
static void plain_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  job *j = arg;
  const tni_gemm *g = j->g;
  const int64_t some = TNI_POLL / (g->N + 1) + 1; /* steps of k between two questions */
  tni_poll poll = {j->run, 0};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    const int64_t m = r % g->M, i = r / g->M;
    const int64_t ao = batch_offset(g, i, g->a_batch), bo = batch_offset(g, i, g->b_batch);
    const int64_t co = batch_offset(g, i, g->c_batch);
    switch (g->dtype) {
      case TN_DT_F64:
        PLAIN(f64u, double, double, AS_IS)
#define X(DT, U, T, LO, HI) \
  case TN_DT_##DT:          \
    PLAIN(U, T, uint64_t, tni_clamp_i64)
        TNI_INT_TYPES(X)
#undef X
      default:
        break;
    }
  }
}

void tni_gemm_run(tni_gemm *g, void *scratch, tn_run *run) {
  job j = {.g = g, .hot = tni_hot_get(), .scratch = scratch, .run = run, .size = tni_elem_size(g->dtype)};
  g->run = run;
  if (g->M == 0 || g->N == 0 || g->batches == 0) return;
  if (g->dtype != TN_DT_F32 && !tni_is_half(g->dtype)) {
    tni_kfor_polled(run, g->batches * g->M, g->N * (g->K + 1) / 4 + 1, plain_rows, &j);
  } else if (tni_gemm_one_row(g)) {
    j.n_tiles = (g->N + ROW_CHUNK - 1) / ROW_CHUNK;
    tni_kfor_polled(run, g->batches * j.n_tiles, (g->N < ROW_CHUNK ? g->N : ROW_CHUNK) * (g->K + 1) / 4 + 1, row_pieces,
                    &j);
  } else {
    j.n_tiles = (g->N + NB - 1) / NB;
    j.rows = tni_gemm_rows(g->M, g->skips_zeros ? MB : TNI_GEMM_MOST, g->batches * j.n_tiles, run->n_workers);
    j.m_tiles = (g->M + j.rows - 1) / j.rows;
    const int64_t nb = g->N < NB ? g->N : NB;
    tni_kfor_polled(run, g->batches * j.m_tiles * j.n_tiles, j.rows * nb * (g->K + 1) / 16 + 1, gemm_tiles, &j);
  }
}
