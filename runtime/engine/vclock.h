/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual time of one step: when every task would have ended on the clock of a simulated device.
 *
 * Tasks of the device say so themselves (tn_times). Those of the CPU, whose-ever they are, run one after the other and
 * cost macs and moved_bytes times the clock's two constants; those of other devices' engines run in order per engine
 * and cost what measure says (cost_ns). Nothing here is wall time, and nothing depends on it.
 */
#ifndef TENON_ENGINE_VCLOCK_H
#define TENON_ENGINE_VCLOCK_H

#include "runtime/memory/memory.h"

typedef struct tni_vclock {
  const tni_dev *dev; /* whose clock it is */
  const char *track;  /* "plugin:cpu" for what CPU tasks take on it */
  const tn_clock *clock;
  int64_t *ends;       /* [n_tasks] */
  int64_t start, last; /* of the step; the latest end so far */
  int64_t cpu;         /* when the CPU is free */
} tni_vclock;

/* The first device of x that has a virtual clock. false: there is none. */
bool tni_vclock_find(const tn_model *m, const tni_exec *x, const tni_dev **dev);
/* Memory of the arena. */
TN_MUST_CHECK tn_status tni_vclock_init(tni_vclock *v, tni_arena *mem, const tni_dev *dev, uint32_t n_tasks);
/* A step begins where the last one ended. */
void tni_vclock_begin(tni_vclock *v);
/* When the inputs of task t are there. g: what it waits for. */
int64_t tni_vclock_ready(const tni_vclock *v, const tni_taskgraph *g, uint32_t t);
/* When a CPU task that is ready then would start. */
static inline int64_t tni_vclock_cpu_start(const tni_vclock *v, int64_t ready) {
  return ready > v->cpu ? ready : v->cpu;
}
/* Task t ran on the CPU: its times on the clock. */
void tni_vclock_cpu(tni_vclock *v, uint32_t t, int64_t ready, const tni_stask *cost, int64_t *start, int64_t *end);
void tni_vclock_end(tni_vclock *v, uint32_t t, int64_t end);

#endif
