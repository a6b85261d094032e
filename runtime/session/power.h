/* SPDX-License-Identifier: Apache-2.0
 *
 * Votes for power (tenon/power.h): a device has one while it has sessions, where the profile asks for it.
 */
#ifndef TENON_SESSION_POWER_H
#define TENON_SESSION_POWER_H

#include "runtime/place/place.h"

/* One more session of the model's devices; one less. Each session calls both once. */
void tni_power_up(const tn_model *m);
void tni_power_down(const tn_model *m);

#endif
