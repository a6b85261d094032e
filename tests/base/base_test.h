/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the suites of this folder.
 */
#ifndef TENON_TESTS_BASE_H
#define TENON_TESTS_BASE_H

#include <CUnit/Basic.h>

void suite_memory(void); /* arena, map, checked */
void suite_error(void);  /* error, log, file */
void suite_cpus(void);
void suite_json(void);
void suite_pool(void);
void suite_shares(void);

#endif
