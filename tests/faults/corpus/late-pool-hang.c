/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

/* On the host's threads, all of them. */
static void hang_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  (void)arg, (void)begin, (void)end, (void)worker;
  fault_sleep();
}

IN_RUN(if (pool->step >= 5) pool->parallel_for(pool, 64, 1, hang_body, NULL))
