/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the family life. Private to the room.
 */
#ifndef TENON_CONFORM_LIFE_ENGINE_H
#define TENON_CONFORM_LIFE_ENGINE_H

#include <time.h>

#include "runtime/conform/drive/drive.h"

static inline void tni_cf_nap_ms(long ms) {
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

void tni_cf_life_engine_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* engine.c */
/* Whether the plugin can lose its device on demand: an option `fault`, off by default, that takes "lost:N". */
bool tni_cf_can_lose(const tn_plugin *p);
void tni_cf_life_abandon_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* abandon.c */
void tni_cf_life_cancel_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx); /* cancels.c */
void tni_cf_life_fence_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);  /* fences.c */
void tni_cf_life_item_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);   /* items.c */
void tni_cf_life_plan_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);   /* plans.c */
void tni_cf_life_power_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);  /* power.c */
void tni_cf_life_slope_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);  /* slopes.c */
void tni_cf_life_left_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx);   /* left.c */

/* Of a graph that a case wants: which one is tried first, how many rows, what its program must be, and what is said where
 * none is so. */
typedef struct tni_cf_wanted {
  const char *first, *none;
  int64_t rows;
  bool (*fits)(const tni_cf_host *h, const tni_cf_rig *rig);
} tni_cf_wanted;
/* rig: the graph's, claimed and prepared. false: the case has its verdict. items.c */
bool tni_cf_find_graph(tni_cf *cf, const tni_cf_wanted *w, tni_cf_host *h, tni_cf_rig *rig);

#endif
