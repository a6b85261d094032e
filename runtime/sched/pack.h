/* SPDX-License-Identifier: Apache-2.0
 *
 * From the programs' needs to packed weights: one pack file per model and plugin.
 */
#ifndef TENON_SCHED_PACK_H
#define TENON_SCHED_PACK_H

#include "runtime/sched/internal.h"

/* Gathers the needs of all phases per device; equal needs are packed once. */
TN_MUST_CHECK tn_status tni_packed_collect(tn_model *m, tn_error *err);
/* Packs or maps. */
TN_MUST_CHECK tn_status tni_packed_open(tn_model *m, tn_error *err);
void tni_packed_close(tn_model *m);

#endif
