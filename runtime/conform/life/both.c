/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/life/both.h"

#include <pthread.h>
#include <string.h>

bool tni_cf_runner_keep(tni_cf *cf, tni_cf_runner *w) {
  for (uint32_t k = 0; k < w->rig->b.n_out; k++)
    if (!(w->want[k] = tni_arena_memdup(cf->arena, w->rig->out[k].data, w->rig->out[k].bytes + 1, 64))) return false;
  return true;
}

bool tni_cf_runner_same(const tni_cf_runner *w) {
  for (uint32_t k = 0; k < w->rig->b.n_out; k++)
    if (memcmp(w->want[k], w->rig->out[k].data, w->rig->out[k].bytes) != 0) return false;
  return true;
}

static void *run_many(void *arg) {
  tni_cf_runner *w = arg;
  for (int i = 0; i < w->rounds && !w->failed && !w->differs; i++) {
    w->failed = !tni_cf_rig_run(w->rig, (uint8_t)(17 * i), (uint32_t)i % 2 ? TNI_CF_EVEN : TNI_CF_INLINE);
    w->differs = !w->failed && !tni_cf_runner_same(w);
  }
  return NULL;
}

void tni_cf_run_both(tni_cf_runner w[2]) {
  pthread_t t[2];
  int started = 0;
  while (started < 2 && pthread_create(&t[started], NULL, run_many, &w[started]) == 0) started++;
  for (int i = 0; i < started; i++) pthread_join(t[i], NULL);
}
