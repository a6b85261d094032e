/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the simulator's files.
 */
#ifndef TENON_NPU_INT8_SIM_SIM_STATE_H
#define TENON_NPU_INT8_SIM_SIM_STATE_H

#include <pthread.h>

#include "plugins/npu-int8-sim/sim/sim.h"

typedef struct npusim_region {
  uint32_t handle, users; /* handle 0: free; users: graphs and executions that hold it */
  void *map;
  uint64_t map_bytes; /* whole pages: what counts against the window */
  uint8_t *base;
  uint64_t bytes;
} npusim_region;

struct npusim {
  npusim_config config;
  uint64_t window_bytes;
  pthread_mutex_t lock;  /* of everything below */
  pthread_mutex_t queue; /* held by the execution that runs; taken before lock */
  npusim_region *regions;
  uint32_t n_regions, cap_regions, next_handle;
  bool lost;
  bool used; /* the queue has run something */
  npusim_counters n;
  uint64_t n_graphs;   /* ids so far */
  npusim_times *trace; /* ring of config.trace */
  uint64_t n_traced;
};

struct npusim_graph {
  npusim *s;
  uint64_t id, bytes;
  int64_t ns;        /* of one execution */
  uint32_t n, first; /* products whose weights are held; those before what stands between, or all */
  npusim_gemm gemm[NPUSIM_MAX_GEMMS];
  npusim_shape shape[NPUSIM_MAX_GEMMS];
  uint8_t *weights[NPUSIM_MAX_GEMMS];
  npusim_middle middle; /* fn NULL: none */
  uint8_t params[NPUSIM_MAX_PARAMS] __attribute__((aligned(16)));
  int32_t *sums[NPUSIM_MAX_GEMMS];
  int8_t *codes;
  int16_t *panel;
  npusim_attention attention; /* M 0: products */
  double *scores;
};

/* What an execution holds: regions of its operands. */
typedef struct npusim_held {
  uint8_t *x[NPUSIM_MAX_GEMMS], *y[NPUSIM_MAX_GEMMS];
  uint32_t handles[2 * NPUSIM_MAX_GEMMS], n;
} npusim_held;

typedef struct npusim_stop {
  int (*fn)(void *arg);
  void *arg;
} npusim_stop;
static inline bool npusim_stopped(const npusim_stop *s) { return s->fn && s->fn(s->arg); }

/* One execution in the queue: hold (with the lock) finds the operands, compute does it; then the clock moves. */
int npusim_run(npusim_graph *g, const void *io, int (*hold)(const npusim_graph *g, const void *io, npusim_held *h),
               int (*compute)(const npusim_graph *g, const void *io, const npusim_held *h, const npusim_stop *stop),
               int64_t ready, const npusim_stop *stop, npusim_times *times);
/* With lock held: npusim_hold at an address that the device can use, noted in h. */
int npusim_hold_at(npusim *s, uint32_t handle, uint64_t at, uint64_t bytes, npusim_held *h, uint8_t **out);

/* With lock held. hold finds [at, at + bytes) and keeps it mapped until drop. */
int npusim_hold(npusim *s, uint32_t handle, uint64_t at, uint64_t bytes, uint8_t **out);
void npusim_drop(npusim *s, uint32_t handle);

#endif
