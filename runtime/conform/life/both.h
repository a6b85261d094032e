/* SPDX-License-Identifier: Apache-2.0
 *
 * Two rigs that run at once, on a thread each, again and again: each gives what it gives alone. Private to the room.
 */
#ifndef TENON_CONFORM_LIFE_BOTH_H
#define TENON_CONFORM_LIFE_BOTH_H

#include "runtime/conform/drive/drive.h"

typedef struct tni_cf_runner {
  tni_cf_rig *rig;
  int rounds;
  void *want[TNI_CN_MAX_OUT]; /* what each output is alone */
  bool failed, differs;       /* the rig says why; other bits than alone */
} tni_cf_runner;

/* Keeps the outputs of the rig's last run as what it gives alone; false: no memory. */
bool tni_cf_runner_keep(tni_cf *cf, tni_cf_runner *w);
bool tni_cf_runner_same(const tni_cf_runner *w);
/* Both to the end, or until they fail or differ. */
void tni_cf_run_both(tni_cf_runner w[2]);

#endif
