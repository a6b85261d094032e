/* SPDX-License-Identifier: Apache-2.0
 *
 * The device, its graphs and its queue.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "plugins/npu-int8-sim/sim/gemm.h"
#include "plugins/npu-int8-sim/sim/internal.h"

enum { TILE = 32 };

struct npusim_graph {
  npusim *s;
  uint64_t id, bytes;
  uint32_t n;
  npusim_gemm gemm[NPUSIM_MAX_GEMMS];
  npusim_shape shape[NPUSIM_MAX_GEMMS];
  uint8_t *weights[NPUSIM_MAX_GEMMS];
  int16_t *panel;
};

const char *npusim_text(int rc) {
  static const char *const text[] = {"fine",
                                     "an argument that makes no sense",
                                     "a shape that the device does not run",
                                     "no memory",
                                     "the window is full",
                                     "memory that is not registered",
                                     "memory that is in use",
                                     "the device is lost",
                                     "the execution hangs",
                                     "stopped"};
  return rc >= 0 && (size_t)rc < sizeof text / sizeof *text ? text[rc] : "unknown";
}

npusim *npusim_open(const npusim_config *config) {
  npusim *s = calloc(1, sizeof *s);
  npusim_times *trace = config->trace ? calloc(config->trace, sizeof *trace) : NULL;
  if (!s || (config->trace && !trace)) {
    free(s);
    free(trace);
    return NULL;
  }
  s->config = *config;
  s->trace = trace;
  s->window_bytes = config->window_bytes ? config->window_bytes : config->profile->window_bytes;
  s->next_handle = 1;
  pthread_mutex_init(&s->lock, NULL);
  pthread_mutex_init(&s->queue, NULL);
  return s;
}

void npusim_close(npusim *s) {
  if (!s) return;
  for (uint32_t i = 0; i < s->n_regions; i++)
    if (s->regions[i].handle) munmap(s->regions[i].map, s->regions[i].map_bytes);
  pthread_mutex_destroy(&s->lock);
  pthread_mutex_destroy(&s->queue);
  free(s->regions);
  free(s->trace);
  free(s);
}

/* --- sizes ------------------------------------------------------------------------------------------------------ */

static bool tiled(int64_t n, uint64_t *out) {
  *out = ((uint64_t)n + TILE - 1) / TILE * TILE;
  return n >= 0 && n <= INT64_C(1) << 40;
}

static uint64_t product(uint64_t a, uint64_t b) {
  uint64_t r;
  return __builtin_mul_overflow(a, b, &r) || r > INT64_MAX / 2 ? 0 : r;
}

uint64_t npusim_weight_bytes(int64_t N, int64_t K) {
  uint64_t n, k;
  return tiled(N, &n) && tiled(K, &k) ? product(n, k) : 0;
}

uint64_t npusim_input_bytes(int64_t M, int64_t K) {
  uint64_t k;
  return M >= 0 && tiled(K, &k) ? product((uint64_t)M, k) : 0;
}

uint64_t npusim_output_bytes(int64_t M, int64_t N) {
  uint64_t n;
  return M >= 0 && tiled(N, &n) ? product(product((uint64_t)M, n), 4) : 0;
}

/* --- graphs ----------------------------------------------------------------------------------------------------- */

static bool good_shape(const npusim_shape *s) {
  return s->M > 0 && s->M % TILE == 0 && s->N > 0 && s->K > 0 && s->K <= NPUSIM_MAX_K &&
         npusim_weight_bytes(s->N, s->K) && npusim_input_bytes(s->M, s->K) && npusim_output_bytes(s->M, s->N);
}

static int check_gemms(const npusim *s, const npusim_gemm *g, uint32_t n) {
  if (n == 0 || n > NPUSIM_MAX_GEMMS) return NPUSIM_BAD;
  for (uint32_t i = 0; i < n; i++) {
    if (!good_shape(&g[i].shape)) return NPUSIM_SHAPE;
    if (g[i].weights_at % s->config.profile->align) return NPUSIM_BAD;
  }
  return NPUSIM_OK;
}

static void fill_graph(npusim_graph *gr, const npusim_gemm *g, uint32_t n) {
  memcpy(gr->gemm, g, n * sizeof *g);
  for (uint32_t i = 0; i < n; i++) {
    const npusim_shape *s = &g[i].shape;
    gr->shape[i] = *s;
    gr->bytes += npusim_weight_bytes(s->N, s->K) + npusim_input_bytes(s->M, s->K) + npusim_output_bytes(s->M, s->N);
  }
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

static int64_t deepest(const npusim_gemm *g, uint32_t n) {
  int64_t k = 0;
  for (uint32_t i = 0; i < n; i++)
    if (g[i].shape.K > k) k = g[i].shape.K;
  return (k + TILE - 1) / TILE * TILE;
}

int npusim_prepare(npusim *s, const npusim_gemm *g, uint32_t n, npusim_graph **out) {
  int rc = check_gemms(s, g, n);
  if (rc != NPUSIM_OK) return rc;
  npusim_graph *gr = calloc(1, sizeof *gr);
  if (gr) gr->panel = malloc((size_t)(TILE + 1) * (size_t)deepest(g, n) * sizeof *gr->panel);
  if (!gr || !gr->panel) {
    free(gr);
    return NPUSIM_MEMORY;
  }
  gr->s = s;
  fill_graph(gr, g, n);
  pthread_mutex_lock(&s->lock);
  rc = s->lost ? NPUSIM_LOST : ++s->n.graphs == s->config.faults.graph_at ? NPUSIM_MEMORY : hold_weights(s, gr, n);
  gr->id = s->n.graphs;
  s->n.live_graphs++;
  if (rc == NPUSIM_OK) s->n.prepare_ns += npusim_prepare_ns(s->config.profile, gr->shape, n);
  pthread_mutex_unlock(&s->lock);
  if (rc == NPUSIM_OK)
    *out = gr;
  else
    npusim_graph_free(gr);
  return rc;
}

void npusim_graph_free(npusim_graph *g) {
  if (!g) return;
  pthread_mutex_lock(&g->s->lock);
  for (uint32_t i = 0; i < g->n; i++) npusim_drop(g->s, g->gemm[i].weights);
  g->s->n.live_graphs--;
  pthread_mutex_unlock(&g->s->lock);
  free(g->panel);
  free(g);
}

/* --- executions ------------------------------------------------------------------------------------------------- */

/* What an execution holds. */
typedef struct held {
  uint8_t *x[NPUSIM_MAX_GEMMS], *y[NPUSIM_MAX_GEMMS];
  uint32_t handles[2 * NPUSIM_MAX_GEMMS], n;
} held;

static int hold_tensor(npusim *s, const npusim_tensor *t, uint64_t bytes, held *h, uint8_t **out) {
  if (t->at % s->config.profile->align) return NPUSIM_BAD;
  int rc = npusim_hold(s, t->handle, t->at, bytes, out);
  if (rc == NPUSIM_OK) h->handles[h->n++] = t->handle;
  return rc;
}

static int hold_tensors(const npusim_graph *g, const npusim_tensor *x, const npusim_tensor *y, held *h) {
  int rc = NPUSIM_OK;
  for (uint32_t i = 0; rc == NPUSIM_OK && i < g->n; i++) {
    const npusim_shape *s = &g->shape[i];
    if (x[i].rows != s->M || x[i].columns != s->K || y[i].rows != s->M || y[i].columns != s->N) return NPUSIM_SHAPE;
    rc = hold_tensor(g->s, &x[i], npusim_input_bytes(s->M, s->K), h, &h->x[i]);
    if (rc == NPUSIM_OK) rc = hold_tensor(g->s, &y[i], npusim_output_bytes(s->M, s->N), h, &h->y[i]);
  }
  return rc;
}

static void drop_tensors(npusim *s, const held *h) {
  for (uint32_t i = 0; i < h->n; i++) npusim_drop(s, h->handles[i]);
}

static int compute(const npusim_graph *g, const held *h, int (*stop)(void *arg), void *arg) {
  for (uint32_t i = 0; i < g->n; i++) {
    const npusim_shape *s = &g->shape[i];
    for (int64_t tile = 0; tile * TILE < s->N; tile++) {
      if (stop && stop(arg)) return NPUSIM_STOPPED;
      npusim_gemm_tile((const int8_t *)h->x[i], (const int8_t *)g->weights[i], (int32_t *)(void *)h->y[i], s->M, s->N,
                       s->K, tile, g->panel);
    }
  }
  return NPUSIM_OK;
}

/* In order: it starts when its inputs are there and what came before is done. */
static void advance(const npusim_graph *g, int64_t ready, npusim_times *t) {
  npusim *s = g->s;
  const npusim_profile *p = s->config.profile;
  const int64_t start = ready > s->n.end_ns ? ready : s->n.end_ns;
  int64_t cost = npusim_graph_ns(p, g->shape, g->n);
  if (s->config.wake && (!s->used || start - s->n.end_ns > p->poll_limit_ns)) cost += p->wake_ns;
  s->used = true;
  s->n.busy_ns += cost;
  s->n.end_ns = start + cost;
  *t = (npusim_times){.ready = ready, .start = start, .end = start + cost, .bytes = g->bytes, .graph = g->id};
  t->submission = s->n.submissions;
  if (s->config.trace) s->trace[s->n_traced++ % s->config.trace] = *t;
}

static int begin(npusim_graph *g, const npusim_tensor *x, const npusim_tensor *y, held *h) {
  npusim *s = g->s;
  if (s->lost) return NPUSIM_LOST;
  s->n.submissions++;
  if (s->n.submissions == s->config.faults.hung_at) return NPUSIM_HUNG;
  if (s->n.submissions == s->config.faults.lost_at) {
    s->lost = true;
    return NPUSIM_LOST;
  }
  return hold_tensors(g, x, y, h);
}

int npusim_execute(npusim_graph *g, const npusim_tensor *x, const npusim_tensor *y, int64_t ready,
                   int (*stop)(void *arg), void *arg, npusim_times *times) {
  npusim *s = g->s;
  held h = {.n = 0};
  pthread_mutex_lock(&s->queue);
  pthread_mutex_lock(&s->lock);
  int rc = begin(g, x, y, &h);
  pthread_mutex_unlock(&s->lock);
  if (rc == NPUSIM_OK) rc = compute(g, &h, stop, arg);
  pthread_mutex_lock(&s->lock);
  if (rc == NPUSIM_OK) advance(g, ready < 0 ? 0 : ready, times);
  drop_tensors(s, &h);
  pthread_mutex_unlock(&s->lock);
  pthread_mutex_unlock(&s->queue);
  return rc;
}

void npusim_count(npusim *s, npusim_counters *out) {
  pthread_mutex_lock(&s->lock);
  *out = s->n;
  pthread_mutex_unlock(&s->lock);
}

uint32_t npusim_trace(npusim *s, npusim_times *out, uint32_t cap) {
  pthread_mutex_lock(&s->lock);
  const uint64_t have = s->n_traced < s->config.trace ? s->n_traced : s->config.trace;
  for (uint64_t i = 0; i < have && i < cap; i++) out[i] = s->trace[(s->n_traced - have + i) % s->config.trace];
  pthread_mutex_unlock(&s->lock);
  return (uint32_t)have;
}
