/* SPDX-License-Identifier: Apache-2.0
 *
 * The device and its queue.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "plugins/npu-int8-sim/sim/state.h"

enum { TILE = 32 };

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
                                     "stopped",
                                     "a saved graph of something else"};
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

static bool tiled_size(int64_t n, uint64_t *out) {
  *out = ((uint64_t)n + TILE - 1) / TILE * TILE;
  return n >= 0 && n <= INT64_C(1) << 40;
}

static uint64_t saturated_product(uint64_t a, uint64_t b) {
  uint64_t r;
  return __builtin_mul_overflow(a, b, &r) || r > INT64_MAX / 2 ? 0 : r;
}

uint64_t npusim_weight_bytes(int64_t N, int64_t K) {
  uint64_t n, k;
  return tiled_size(N, &n) && tiled_size(K, &k) ? saturated_product(n, k) : 0;
}

uint64_t npusim_input_bytes(int64_t M, int64_t K) {
  uint64_t k;
  return M >= 0 && tiled_size(K, &k) ? saturated_product((uint64_t)M, k) : 0;
}

uint64_t npusim_output_bytes(int64_t M, int64_t N) {
  uint64_t n;
  return M >= 0 && tiled_size(N, &n) ? saturated_product(saturated_product((uint64_t)M, n), 4) : 0;
}

/* --- executions ------------------------------------------------------------------------------------------------- */

/* In order: it starts when its inputs are there and what came before is done. */
static void advance_clock(const npusim_graph *g, int64_t ready, npusim_times *t) {
  npusim *s = g->s;
  const npusim_profile *p = s->config.profile;
  const int64_t start = ready > s->n.end_ns ? ready : s->n.end_ns;
  int64_t cost = g->ns;
  if (s->config.wake && (!s->used || start - s->n.end_ns > p->poll_limit_ns)) cost += p->wake_ns;
  s->used = true;
  s->n.busy_ns += cost;
  s->n.end_ns = start + cost;
  *t = (npusim_times){.ready = ready, .start = start, .end = start + cost, .bytes = g->bytes, .graph = g->id};
  t->submission = s->n.submissions;
  if (s->config.trace) s->trace[s->n_traced++ % s->config.trace] = *t;
}

static int begin_run(const npusim_graph *g, int (*hold)(const npusim_graph *g, const void *io, npusim_held *h),
                     const void *io, npusim_held *h) {
  npusim *s = g->s;
  if (s->lost) return NPUSIM_LOST;
  s->n.submissions++;
  if (s->n.submissions == s->config.faults.hung_at) return NPUSIM_HUNG;
  if (s->n.submissions == s->config.faults.lost_at) {
    s->lost = true;
    return NPUSIM_LOST;
  }
  return hold(g, io, h);
}

int npusim_run(npusim_graph *g, const void *io, int (*hold)(const npusim_graph *g, const void *io, npusim_held *h),
               int (*compute)(const npusim_graph *g, const void *io, const npusim_held *h, const npusim_stop *stop),
               int64_t ready, const npusim_stop *stop, npusim_times *times) {
  npusim *s = g->s;
  npusim_held h = {.n = 0};
  pthread_mutex_lock(&s->queue);
  pthread_mutex_lock(&s->lock);
  int rc = begin_run(g, hold, io, &h);
  pthread_mutex_unlock(&s->lock);
  if (rc == NPUSIM_OK) rc = compute(g, io, &h, stop);
  pthread_mutex_lock(&s->lock);
  if (rc == NPUSIM_OK) advance_clock(g, ready < 0 ? 0 : ready, times);
  for (uint32_t i = 0; i < h.n; i++) npusim_drop(s, h.handles[i]);
  pthread_mutex_unlock(&s->lock);
  pthread_mutex_unlock(&s->queue);
  return rc;
}

int npusim_hold_at(npusim *s, uint32_t handle, uint64_t at, uint64_t bytes, npusim_held *h, uint8_t **out) {
  if (at % s->config.profile->align) return NPUSIM_BAD;
  int rc = npusim_hold(s, handle, at, bytes, out);
  if (rc == NPUSIM_OK) h->handles[h->n++] = handle;
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
