/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the simulator's files.
 */
#ifndef TENON_NPUSIM_INTERNAL_H
#define TENON_NPUSIM_INTERNAL_H

#include <pthread.h>

#include "plugins/npu-int8-sim/sim/npusim.h"

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
  npusim_times *trace; /* ring of config.trace */
  uint64_t n_traced;
};

/* With lock held. hold finds [at, at + bytes) and keeps it mapped until drop. */
npusim_region *npusim_find(npusim *s, uint32_t handle);
int npusim_hold(npusim *s, uint32_t handle, uint64_t at, uint64_t bytes, uint8_t **out);
void npusim_drop(npusim *s, uint32_t handle);

#endif
