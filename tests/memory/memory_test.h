/* SPDX-License-Identifier: Apache-2.0
 *
 * Suites of the memory of a session.
 */
#ifndef TENON_TESTS_MEMORY_H
#define TENON_TESTS_MEMORY_H

#include "tests/kit/rig.h"

void suite_order(void);
void suite_chunk(void);

#endif
