/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiling ahead of time (tenon/offline.h), when a model is packed.
 */
#ifndef TENON_SESSION_AHEAD_H
#define TENON_SESSION_AHEAD_H

#include "runtime/place/place.h"

/* Every task of a plugin that can, for the dims that are known without a run: one sequence, the lengths that devices
 * ask for, else one position. The counts are in m->packed. What does not compile is an error. */
TN_MUST_CHECK tn_status tni_ahead_compile(tn_model *m, tn_error *err);

#endif
