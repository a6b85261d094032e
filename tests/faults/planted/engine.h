/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c: what planted.c hangs in where a wrong is about engines. All of it does nothing for other wrongs.
 */
#ifndef TENON_TESTS_FAULTS_PLANTED_ENGINE_H
#define TENON_TESTS_FAULTS_PLANTED_ENGINE_H

#include <stdbool.h>

#include "tests/faults/planted/plants.h"

/* The host that the real plugin gets. */
const tn_host *engine_host(const tn_host *h);
/* Replaces submit of an open device. */
void engine_plant(tn_device *d);
/* Waits for all that is under way: before arguments are freed and before the device is closed. */
void engine_join(void);
/* The device was lost, and does not come back. */
bool engine_gone(void);

#endif
