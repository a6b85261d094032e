/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that a runtime has lost: who, why, and what that means.
 */
#ifndef TENON_SESSION_LOSSES_H
#define TENON_SESSION_LOSSES_H

#include "runtime/place/place.h"

/* Devices that are lost and were not told of before: says so once each. *required: one that the profile cannot do
 * without. err: why, where no process tells. With rt->failing held. */
uint32_t tni_losses_tell(tn_runtime *rt, const tn_error *err, const char **required);
/* The same outside of a call, for what is lost while something is destroyed. */
void tni_losses_note(tn_runtime *rt, const tn_error *err);
/* false; why is added to the message. */
bool tni_losses_refuse(tn_error *err, const char *why);
/* false; the message says that the profile requires plugin `name`. */
bool tni_losses_required(tn_error *err, const char *name);
/* After loading ended with *st: says what was lost meanwhile, and whether it may be tried again without it. *st becomes
 * TN_E_DEVICE_LOST where the reason is that a required plugin is lost. */
bool tni_losses_retry(tn_runtime *rt, tn_status *st, tn_error *err);
/* A file that m is mapped from was written to or cut short: whatever a call of it gave, *st and err say that now. Asked
 * before tni_failover: a process that read such a file is not to blame for its end. */
bool tni_files_failed(const tn_model *m, tn_status *st, tn_error *err);

#endif
