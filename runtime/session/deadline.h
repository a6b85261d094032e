/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins in this process that do not come back from a call (runtime/base/bounded.h). What such a call may still use is
 * left to it: the session, the model, the plugin's code. The device is lost, and nothing of it is called any more.
 */
#ifndef TENON_SESSION_DEADLINE_H
#define TENON_SESSION_DEADLINE_H

#include "runtime/memory/memory.h"

/* Whether m has programs of a device that hangs. */
bool tni_model_hangs(const tn_model *m);
/* A thread for runs, where the profile states timeout_ms and m has a plugin in this process; else NULL. *st: no
 * memory. */
tni_bounded *tni_deadline_thread(const tn_model *m, tn_status *st);
/* fn(arg) under the profile's timeout_ms, at least half a second: on b, or where that is NULL on a thread for this once,
 * if any plugin of rt is in this process. False: it hangs; the device is marked, and err (may be NULL) says where. */
bool tni_deadline_do(tn_runtime *rt, tni_bounded *b, void (*fn)(void *), void *arg, tn_error *err);

#endif
