/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens when a device is lost under a session: it goes on with the next one of the profile.
 *
 * The model is placed again without what was lost (`next` of tn_model, one for all sessions of it), a session of that
 * model takes over (`next` of tn_session): the caches' rows are copied, or converted where they are kept otherwise now,
 * and what failed is run again. The caller notices a line in the log, tn_runtime_losses, and another speed. A plugin
 * that the profile requires, and models that record or capture, stay an error. So does the step where the caches were
 * in the lost device's own memory: the session goes on with no positions then, and whoever knows the tokens feeds them
 * again (tn_chat does).
 */
#ifndef TENON_SESSION_FAILOVER_H
#define TENON_SESSION_FAILOVER_H

#include "runtime/memory/memory.h"

/* After a call of s (tni_session_now's) failed with st: whether there is a session now that can do it again. err:
 * emptied then, else it says what it said, and why nothing can go on. */
bool tni_failover(tn_session *s, tn_status st, tn_error *err);
#endif
