/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of conform/real: the runtime itself with this plugin before the built-in device, in checked mode, and the
 * layer of conform/observe between the two. What a session does with a device is done here by a session.
 */
#ifndef TENON_CONFORM_REAL_REAL_H
#define TENON_CONFORM_REAL_REAL_H

#include <tenon/tenon.h>

#include "runtime/conform/case/case.h"

/* fn with a runtime of the device under test and the host, on so many threads; what keeps it from opening is a failure
 * of the case. Its profile has `phases` where the device needs them (tni_cf_needs_phases). refuse: as in
 * tni_cf_observe_refuse. model: a folder whose calibration.yaml is taken, where it has one; NULL: none. */
void tni_cf_with_runtime(tni_cf *cf, uint32_t threads, uint32_t refuse, const char *model,
                         void (*fn)(tni_cf *cf, tn_runtime *rt, void *arg), void *arg);

/* The same without TN_HOST_CHECKED: plugins fuse what they fuse in use. Nobody looks at their results and computes them again
 * where they are no numbers (`watch`). */
void tni_cf_with_unchecked(tni_cf *cf, uint32_t threads, uint32_t refuse,
                           void (*fn)(tni_cf *cf, tn_runtime *rt, void *arg), void *arg);

/* What a session that captures has found so far: a task of the plugin that left the bound of the declared numerics is a
 * finding, and one with nodes of which no result was judged (may_be_empty: results may have had no elements). each: a
 * note for every task, not only for the worst. False: no task of the plugin has run. */
bool tni_cf_judge_session(tni_cf *cf, tn_session *s, bool each, bool may_be_empty);

#endif
