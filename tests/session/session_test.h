/* SPDX-License-Identifier: Apache-2.0
 *
 * Suites of the session.
 */
#ifndef TENON_TESTS_SESSION_H
#define TENON_TESTS_SESSION_H

#include "tests/kit/rig.h"

void suite_inputs(void);
void suite_runs(void);
void suite_plugins(void);
void suite_demo(void);
void suite_keep(void);
void suite_lookups(void);

#endif
