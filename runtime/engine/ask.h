/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of a device whose items are not wanted any more: cancel and abandon. Both return at once by the
 * contract. One that does not is a call that hangs: it is left to its thread, and the device is called no more.
 */
#ifndef TENON_ENGINE_ASK_H
#define TENON_ENGINE_ASK_H

#include <stdint.h>

#include "runtime/memory/memory.h"

/* All that the engine has is to end soon. False: the call hangs. Devices without `cancel` are not asked. */
bool tni_ask_cancel(tn_runtime *rt, const tni_dev *d, uint32_t engine);
/* The device is lost: calls that follow are not to wait for it. Asked once, and not where a call hangs already. */
void tni_ask_abandon(tn_runtime *rt, const tni_dev *d);

#endif
