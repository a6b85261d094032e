/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs: products of constant weights, and what stands between them; prepared, saved, loaded, run.
 */
#include <stdlib.h>
#include <string.h>

#include "plugins/npu-int8-sim/sim/gemm.h"
#include "plugins/npu-int8-sim/sim/state.h"

enum { TILE = 32, VERSION = 1, MIDDLE_ROWS = 32 };

/* --- what may be prepared ---------------------------------------------------------------------------------------- */

static bool good_shape(const npusim_shape *s) {
  return s->M > 0 && s->M % TILE == 0 && s->N > 0 && s->K > 0 && s->K <= NPUSIM_MAX_K &&
         npusim_weight_bytes(s->N, s->K) && npusim_input_bytes(s->M, s->K) && npusim_output_bytes(s->M, s->N);
}

static int check_gemms(const npusim *s, const npusim_gemm *g, uint32_t n, const npusim_middle *mid) {
  if (n == 0 || n > NPUSIM_MAX_GEMMS || (mid && (!mid->fn || mid->first == 0 || mid->first >= n))) return NPUSIM_BAD;
  if (mid && (mid->n_params > NPUSIM_MAX_PARAMS || (mid->n_params && !mid->params))) return NPUSIM_BAD;
  for (uint32_t i = 0; i < n; i++) {
    if (!good_shape(&g[i].shape)) return NPUSIM_SHAPE;
    if (g[i].weights_at % s->config.profile->align) return NPUSIM_BAD;
    if (mid && (g[i].shape.M != g[0].shape.M || (i >= mid->first && g[i].shape.K != g[mid->first].shape.K)))
      return NPUSIM_SHAPE;
  }
  return NPUSIM_OK;
}

/* --- saved graphs ------------------------------------------------------------------------------------------------ */

/* Against accident: what was saved for other weights or has changed on its way. */
static uint64_t digest_bytes(uint64_t h, const void *p, uint64_t n) {
  const uint8_t *at = p;
  for (; n >= 8; n -= 8, at += 8) {
    uint64_t w;
    memcpy(&w, at, sizeof w);
    h = (h ^ w) * UINT64_C(0x9E3779B97F4A7C15);
    h ^= h >> 29;
  }
  for (; n; n--) h = (h ^ *at++) * UINT64_C(0x100000001B3);
  return h ^ h >> 32;
}

static int digest_weights(npusim *s, const npusim_gemm *g, uint64_t *out) {
  const uint64_t bytes = npusim_weight_bytes(g->shape.N, g->shape.K);
  uint8_t *p = NULL;
  pthread_mutex_lock(&s->lock);
  const int rc = npusim_hold(s, g->weights, g->weights_at, bytes, &p);
  pthread_mutex_unlock(&s->lock);
  if (rc != NPUSIM_OK) return rc;
  *out = digest_bytes(1, p, bytes);
  pthread_mutex_lock(&s->lock);
  npusim_drop(s, g->weights);
  pthread_mutex_unlock(&s->lock);
  return NPUSIM_OK;
}

static uint64_t sum_of(const npusim_saved *s) { return digest_bytes(VERSION, s, offsetof(npusim_saved, sum)); }

int npusim_describe(npusim *s, const npusim_gemm *g, uint32_t n, const npusim_middle *mid, npusim_saved *out) {
  int rc = check_gemms(s, g, n, mid);
  if (rc != NPUSIM_OK) return rc;
  memset(out, 0, sizeof *out);
  memcpy(out->magic, "npusim", sizeof "npusim");
  strncpy(out->profile, s->config.profile->name, sizeof out->profile - 1);
  out->version = VERSION;
  out->n = n;
  out->first = mid ? mid->first : n;
  if (mid) {
    strncpy(out->middle, mid->name, sizeof out->middle - 1);
    out->params = digest_bytes(2, mid->params, mid->n_params);
  }
  for (uint32_t i = 0; rc == NPUSIM_OK && i < n; i++) {
    out->shape[i] = g[i].shape;
    rc = digest_weights(s, &g[i], &out->weights[i]);
  }
  out->sum = sum_of(out);
  return rc;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

static void fill_graph(npusim_graph *gr, const npusim_gemm *g, uint32_t n, const npusim_middle *mid) {
  gr->first = mid ? mid->first : n;
  memcpy(gr->gemm, g, n * sizeof *g);
  for (uint32_t i = 0; i < n; i++) {
    const npusim_shape *s = &g[i].shape;
    gr->shape[i] = *s;
    gr->bytes += npusim_weight_bytes(s->N, s->K);
    if (i < gr->first) gr->bytes += npusim_input_bytes(s->M, s->K);
    if (i >= gr->first || !mid) gr->bytes += npusim_output_bytes(s->M, s->N);
  }
  gr->ns = npusim_graph_ns(gr->s->config.profile, gr->shape, n);
  if (!mid) return;
  gr->middle = *mid;
  if (mid->n_params) memcpy(gr->params, mid->params, mid->n_params);
  gr->middle.params = gr->params;
}

static int64_t deepest_gemm(const npusim_gemm *g, uint32_t n) {
  int64_t k = 0;
  for (uint32_t i = 0; i < n; i++)
    if (g[i].shape.K > k) k = g[i].shape.K;
  return (k + TILE - 1) / TILE * TILE;
}

/* Memory of the device's own: a panel, and what lies between the products. */
static bool get_room(npusim_graph *gr, const npusim_gemm *g, uint32_t n) {
  gr->panel = malloc((size_t)(TILE + 1) * (size_t)deepest_gemm(g, n) * sizeof *gr->panel);
  bool ok = gr->panel != NULL;
  for (uint32_t i = 0; gr->middle.fn && i < gr->first; i++) {
    gr->sums[i] = malloc(npusim_output_bytes(g[i].shape.M, g[i].shape.N));
    ok = ok && gr->sums[i];
  }
  if (!gr->middle.fn) return ok;
  gr->codes = calloc(1, npusim_input_bytes(g[gr->first].shape.M, g[gr->first].shape.K));
  return ok && gr->codes;
}

static int hold_weights(npusim *s, npusim_graph *gr, uint32_t n) {
  for (; gr->n < n; gr->n++) {
    const npusim_gemm *g = &gr->gemm[gr->n];
    int rc =
        npusim_hold(s, g->weights, g->weights_at, npusim_weight_bytes(g->shape.N, g->shape.K), &gr->weights[gr->n]);
    if (rc != NPUSIM_OK) return rc;
  }
  return NPUSIM_OK;
}

static void free_graph(npusim_graph *g) {
  for (uint32_t i = 0; i < NPUSIM_MAX_GEMMS; i++) free(g->sums[i]);
  free(g->codes);
  free(g->scores);
  free(g->panel);
  free(g);
}

static int make_graph(npusim *s, const npusim_gemm *g, uint32_t n, const npusim_middle *mid, bool loaded,
                      npusim_graph **out) {
  int rc = check_gemms(s, g, n, mid);
  if (rc != NPUSIM_OK) return rc;
  npusim_graph *gr = calloc(1, sizeof *gr);
  if (!gr) return NPUSIM_MEMORY;
  gr->s = s;
  fill_graph(gr, g, n, mid);
  if (!get_room(gr, g, n)) {
    free_graph(gr);
    return NPUSIM_MEMORY;
  }
  pthread_mutex_lock(&s->lock);
  rc = s->lost ? NPUSIM_LOST : NPUSIM_OK;
  if (rc == NPUSIM_OK && loaded) s->n.loaded++;
  if (rc == NPUSIM_OK && !loaded && ++s->n.graphs == s->config.faults.graph_at) rc = NPUSIM_MEMORY;
  if (rc == NPUSIM_OK) rc = hold_weights(s, gr, n);
  gr->id = ++s->n_graphs;
  s->n.live_graphs++;
  if (rc == NPUSIM_OK && !loaded) s->n.prepare_ns += npusim_prepare_ns(s->config.profile, gr->shape, n);
  pthread_mutex_unlock(&s->lock);
  if (rc == NPUSIM_OK)
    *out = gr;
  else
    npusim_graph_free(gr);
  return rc;
}

int npusim_prepare(npusim *s, const npusim_gemm *g, uint32_t n, const npusim_middle *mid, npusim_graph **out) {
  return make_graph(s, g, n, mid, false, out);
}

int npusim_load(npusim *s, const npusim_gemm *g, uint32_t n, const npusim_middle *mid, const npusim_saved *now,
                const void *saved, uint64_t bytes, npusim_graph **out) {
  npusim_saved was;
  if (bytes != sizeof was) return NPUSIM_STALE;
  memcpy(&was, saved, sizeof was);
  if (was.sum != sum_of(&was) || memcmp(&was, now, sizeof was) != 0) return NPUSIM_STALE;
  return make_graph(s, g, n, mid, true, out);
}

void npusim_graph_free(npusim_graph *g) {
  if (!g) return;
  pthread_mutex_lock(&g->s->lock);
  for (uint32_t i = 0; i < g->n; i++) npusim_drop(g->s, g->gemm[i].weights);
  g->s->n.live_graphs--;
  pthread_mutex_unlock(&g->s->lock);
  free_graph(g);
}

/* --- executions ------------------------------------------------------------------------------------------------- */

typedef struct gemm_io {
  const npusim_tensor *x, *y;
} gemm_io;

static int hold_tensors(const npusim_graph *g, const void *arg, npusim_held *h) {
  const gemm_io *io = arg;
  int rc = NPUSIM_OK;
  for (uint32_t i = 0; rc == NPUSIM_OK && i < g->n; i++) {
    const npusim_shape *s = &g->shape[i];
    const npusim_tensor *x = &io->x[i], *y = &io->y[i];
    const bool in = i < g->first, out = i >= g->first || !g->middle.fn;
    if ((in && (x->rows != s->M || x->columns != s->K)) || (out && (y->rows != s->M || y->columns != s->N)))
      return NPUSIM_SHAPE;
    h->x[i] = (uint8_t *)g->codes;
    h->y[i] = (uint8_t *)g->sums[i];
    if (in) rc = npusim_hold_at(g->s, x->handle, x->at, npusim_input_bytes(s->M, s->K), h, &h->x[i]);
    if (rc == NPUSIM_OK && out)
      rc = npusim_hold_at(g->s, y->handle, y->at, npusim_output_bytes(s->M, s->N), h, &h->y[i]);
  }
  return rc;
}

static int run_middle(const npusim_graph *g, const npusim_stop *stop) {
  const npusim_shape *to = &g->shape[g->first];
  const int64_t pitch = (to->K + TILE - 1) / TILE * TILE;
  for (int64_t m = 0; m < to->M; m += MIDDLE_ROWS) {
    const int32_t *sums[NPUSIM_MAX_GEMMS];
    if (npusim_stopped(stop)) return NPUSIM_STOPPED;
    for (uint32_t i = 0; i < g->first; i++) sums[i] = g->sums[i] + m * ((g->shape[i].N + TILE - 1) / TILE * TILE);
    g->middle.fn(g->params, sums, g->codes + m * pitch, to->M - m < MIDDLE_ROWS ? to->M - m : MIDDLE_ROWS);
  }
  return NPUSIM_OK;
}

static int compute_products(const npusim_graph *g, const void *io, const npusim_held *h, const npusim_stop *stop) {
  int rc = NPUSIM_OK;
  (void)io;
  for (uint32_t i = 0; rc == NPUSIM_OK && i < g->n; i++) {
    const npusim_shape *s = &g->shape[i];
    if (g->middle.fn && i == g->first) rc = run_middle(g, stop);
    for (int64_t tile = 0; rc == NPUSIM_OK && tile * TILE < s->N; tile++) {
      if (npusim_stopped(stop)) return NPUSIM_STOPPED;
      npusim_gemm_tile((const int8_t *)h->x[i], (const int8_t *)g->weights[i], (int32_t *)(void *)h->y[i], s->M, s->N,
                       s->K, tile, g->panel);
    }
  }
  return rc;
}

int npusim_execute(npusim_graph *g, const npusim_tensor *x, const npusim_tensor *y, int64_t ready,
                   int (*stop)(void *arg), void *arg, npusim_times *times) {
  const gemm_io io = {x, y};
  const npusim_stop s = {stop, arg};
  return g->attention.M ? NPUSIM_BAD : npusim_run(g, &io, hold_tensors, compute_products, ready, &s, times);
}
