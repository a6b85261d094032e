/* SPDX-License-Identifier: Apache-2.0
 *
 * One cause, one finding. Private to the room.
 */
#ifndef TENON_CONFORM_RUN_CAUSE_H
#define TENON_CONFORM_RUN_CAUSE_H

#include "runtime/conform/run/run.h"

/* [r->n]: the index of the first case with the same cause, its own for the first and for what has not failed; free()
 * it. NULL without memory: then every case stands for itself. */
uint32_t *tni_cf_causes(const tni_cf_report *r);
/* Cases with the cause of `first`. */
uint32_t tni_cf_cause_size(const tni_cf_report *r, const uint32_t *of, uint32_t first);

#endif
