/* SPDX-License-Identifier: Apache-2.0
 *
 * Suites of the executor.
 */
#ifndef TENON_TESTS_ENGINE_H
#define TENON_TESTS_ENGINE_H

#include "tests/kit/rig.h"

void suite_executor(void);

#endif
